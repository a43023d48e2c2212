# SPDX-License-Identifier: Apache-2.0
"""How the differences of two models, and those of two files of weights, are written."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .._base.files import save_text
from .._base.terminal import terminal_width

if TYPE_CHECKING:
    import os

ALL = -1  # levels of modules, or as many rows as a screen has


class Changes:
    """A table of what changed; ``str()`` is that table."""

    if TYPE_CHECKING:  # what each kind of changes has

        def _text(self, kind: str, width: int, exact: bool, rows: int, depth: int) -> str: ...

    def _write(
        self,
        kind: str,
        *,
        width: int = 0,
        exact: bool = False,
        rows: int | None = None,
        depth: int | None = None,
    ) -> str:
        most = ALL if rows is None else rows
        return self._text(kind, width, exact, most, ALL if depth is None else depth)

    def __str__(self) -> str:
        return self._write("text", width=terminal_width()).removesuffix("\n")

    def __repr__(self) -> str:
        return str(self)

    def show(
        self,
        *,
        width: int | None = None,
        exact: bool = False,
        rows: int | None = None,
        depth: int | None = None,
    ) -> None:
        """Prints the table: ``rows`` of the largest changes (0: all; default: 20), with modules deeper than
        ``depth`` summed up; ``exact`` prints numbers in full, and those with a fraction with nine digits."""
        text = self._write("text", width=width or terminal_width(), exact=exact, rows=rows, depth=depth)
        sys.stdout.write(text)

    def to_json(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> str:
        """Returns everything as JSON with a schema number, and writes it to ``path`` if it is given.

        Raises:
            FileExistsError: the file exists and ``overwrite`` is not True.
        """
        return save_text(path, self._write("json"), overwrite=overwrite)

    def to_markdown(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        overwrite: bool = False,
        exact: bool = False,
        rows: int | None = None,
        depth: int | None = None,
    ) -> str:
        """Returns the tables in Markdown; see :meth:`show` and :meth:`to_json`."""
        text = self._write("md", exact=exact, rows=rows, depth=depth)
        return save_text(path, text, overwrite=overwrite)
