# SPDX-License-Identifier: Apache-2.0
"""The checks of a project's file as tests."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import pytest

from .. import _lamina
from .._base.errors import UsageError
from .._command.cli import Host
from .._command.project import read_checks

if TYPE_CHECKING:
    from pathlib import Path


class Target(pytest.Item):
    """One check, which runs as ``lamina check`` does."""

    def __init__(self, *, words: list[str], file: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._words = words
        self._file = file

    def runtest(self) -> None:
        """Runs the check; a failure has the output of the command."""
        out, err = io.StringIO(), io.StringIO()
        code = _lamina.command(["lamina", "check", *self._words], Host(out, err))
        if code != 0:
            raise pytest.fail.Exception((out.getvalue() + err.getvalue()).strip(), pytrace=False)

    def reportinfo(self) -> tuple[os.PathLike[str] | str, int | None, str]:
        """The file of the check, and its name."""
        return self._file, None, self.name


def targets_of(session: pytest.Session) -> list[Target]:
    """The checks of the nearest file around pytest's root folder.

    Raises:
        pytest.UsageError: there is none, or it is malformed.
    """
    root: Path = session.config.rootpath
    try:
        file, checks = read_checks(root)
    except UsageError as error:
        raise pytest.UsageError(f"--lamina: {error}") from error
    made, names = [], [words[words.index("--") + 1] for words in checks]
    for i, words in enumerate(checks):
        name = names[i] if names.count(names[i]) == 1 else f"{names[i]}[{i + 1}]"  # not a count: a number
        made.append(Target.from_parent(session, name=name, nodeid=f"{file}::{name}", words=words, file=file))
    return made
