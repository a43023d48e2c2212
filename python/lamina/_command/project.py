# SPDX-License-Identifier: Apache-2.0
"""The checks of a project: ``[[check]]`` in ``lamina.toml``, or ``[[tool.lamina.check]]`` in
``pyproject.toml``. Each becomes the arguments of ``lamina check``, which alone defines their meaning."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._base.errors import UsageError
from .._target.load import near

if TYPE_CHECKING:
    from collections.abc import Iterator

# Keys of a check by the type of their value. All but the target, which may be a list of recordings, are
# options of `lamina check`.
TEXTS = ("inputs", "mode", "convention", "rules", "baseline")
LISTS = ("input", "build", "max", "within")  # a text, a list of texts, or a table of NAME=VALUE
FLAGS = ("backward", "time", "memory", "dry", "allow-incomplete")
COUNTS = ("repeats", "prompt", "new")
KEYS = ("target", *TEXTS, *LISTS, *FLAGS, *COUNTS)
PATHS = ("baseline", "rules")  # relative to the folder of the file


def read_checks(start: Path) -> tuple[str, list[list[str]]]:
    """The nearest file with checks, in the folder ``start`` or above, and the arguments of each check.
    Raises:
        UsageError: there is none, or it is malformed.
    """
    for folder in (start, *start.parents):
        for name, table in (("lamina.toml", ()), ("pyproject.toml", ("tool", "lamina"))):
            file = folder.joinpath(name)
            found: Any = _read(file) if file.is_file() else None
            for key in table:
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                return _shown(file), _words_of_all(found, file, ".".join((*table, "check")))
    raise UsageError(
        "there is no lamina.toml and no pyproject.toml with [tool.lamina] here or in a folder above; name a "
        "TARGET, or write its [[check]] into lamina.toml"
    )


def _shown(path: Path) -> str:
    return os.path.relpath(path)


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise UsageError(f"{_shown(file)}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{_shown(file)} is not TOML: {error}") from error


def _words_of_all(found: Any, file: Path, name: str) -> list[list[str]]:
    where = _shown(file)
    if not isinstance(found, dict):
        raise UsageError(f"{where}: {name.rpartition('.')[0]} is not a table")
    for key in found:
        if key != "check":
            raise UsageError(f"{where} has an unknown key {key!r}; checks are written as [[{name}]]")
    checks = found.get("check", [])
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks) or not checks:
        raise UsageError(f"{where} has no checks; each is written as [[{name}]] with its target")
    folder = file.parent
    if folder != Path.cwd() and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # modules of the project
    return [list(_words(check, folder, f"{where}: check {i}")) for i, check in enumerate(checks, 1)]


def _words(check: dict[str, Any], folder: Path, where: str) -> Iterator[str]:
    given = {key.replace("_", "-"): value for key, value in check.items()}
    for key in given:
        if key not in KEYS:
            raise UsageError(
                f"{where} has an unknown key {key!r}{near(key, KEYS) or '; it may have ' + ', '.join(KEYS)}"
            )
    targets = given.get("target")
    names: list[Any] = targets if isinstance(targets, list) else [targets]
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f'{where} needs a target, as target = "net.py:Net" or target = "run.*.lamina"')
    for key, value in given.items():
        at = f"{where}: {key}"
        if key in FLAGS:
            if not isinstance(value, bool):
                raise UsageError(f"{at} is true or false")
            if value:
                yield f"--{key}"
        elif key in LISTS:
            yield from (f"--{key}={text}" for text in _texts(value, at))
        elif key != "target":
            text = _text(value, at)
            yield f"--{key}={_from_here(text, folder, whole=key in PATHS)}"
    yield "--"
    for name in names:
        yield from _found(name, folder)


def _found(target: str, folder: Path) -> list[str]:
    """A target relative to the current folder; of a pattern, ``run.*.lamina``, all recordings that match."""
    recording, pattern = target.endswith(".lamina"), Path(target)
    found = folder.joinpath(pattern.parent).glob(pattern.name) if recording else ()
    files = [str(pattern.with_name(file.name)) for file in found]
    whole = recording or folder.joinpath(target).exists()
    return [_from_here(file, folder, whole=whole) for file in sorted(files, key=_by_number) or [target]]


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sorts run.2.lamina before run.10.lamina."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _texts(value: Any, where: str) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}={_text(one, where)}" for name, one in value.items()]
    return [_text(one, where) for one in value] if isinstance(value, list) else [_text(value, where)]


def _text(value: Any, where: str) -> str:
    if isinstance(value, str) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return number_text(value)
    raise UsageError(f"{where} is a text or a number")


def number_text(value: float | str) -> str:
    """A number as the command takes it, without an exponent."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return str(value)


def _from_here(text: str, folder: Path, *, whole: bool) -> str:
    """Converts a path relative to the folder of the file to one relative to the current folder. The path is
    the ``whole`` text, or the part before the last colon if that ends in ``.py``."""
    path, colon, name = (text, "", "") if whole else text.rpartition(":")
    if (not whole and not path.endswith(".py")) or folder == Path.cwd():
        return text
    return os.path.relpath(folder.joinpath(path)) + colon + name
