# SPDX-License-Identifier: Apache-2.0
"""Files that the user requested."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .check import describe_object
from .errors import FormatError, LaminaError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def file_of(path: object, name: str = "path", *, folders: bool = False) -> Path:
    """The file that a path names.

    Raises:
        TypeError: ``path``, which the sentence calls ``name``, is no path.
        ValueError: it is empty.
        IsADirectoryError: it is a folder, and ``folders`` is false.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is {describe_object(path)}; it is the name of a file")
    text = os.fsdecode(path)
    if not text:
        raise ValueError(f"{name} is empty; name a file")
    file = Path(text)
    if file.is_dir() and not folders:
        raise IsADirectoryError(f"{text} is a folder; name a file in it")
    return file


def model_file(path: object, name: str = "path") -> Path:
    """The file of a model, or a folder with one, that a path names.

    Raises:
        TypeError, ValueError: as of :func:`file_of`.
        FileNotFoundError: there is none.
    """
    file = file_of(path, name, folders=True)
    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}")
    return file


@contextmanager
def damage_is_a_value_error() -> Iterator[None]:
    """In the block an error of lamina's about a file is a FormatError, but what was asked wrongly, and what
    can't be read here, are as they are."""
    try:
        yield
    except (UsageError, UnsupportedError):
        raise
    except LaminaError as error:
        raise FormatError(str(error)) from None


def save_text(path: str | os.PathLike[str] | None, text: str, *, overwrite: bool) -> str:
    """Returns ``text``, and writes it to ``path``, if there is one, as UTF-8, its line ends as they are.

    Raises:
        FileExistsError: the file exists and ``overwrite`` is not True.
        OSError: the file can't be written.
    """
    if path is None:
        return text
    file = file_of(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{file}: there is no folder {file.parent}; make it, or name another file")
    try:
        with file.open("w" if overwrite else "x", encoding="utf-8", newline="") as to:
            to.write(text)
    except FileExistsError:
        message = f"{file} exists; pass overwrite=True to replace it, or another name"
        raise FileExistsError(message) from None
    return text
