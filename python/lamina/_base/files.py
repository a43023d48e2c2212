# SPDX-License-Identifier: Apache-2.0
"""Files that the user requested."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os


def save_text(path: str | os.PathLike[str] | None, text: str, *, overwrite: bool) -> str:
    """Returns ``text``, and writes it to ``path``, if there is one, as UTF-8, its line ends as they are.

    Raises:
        FileExistsError: the file exists and ``overwrite`` is not True.
    """
    if path is None:
        return text
    file = Path(path)
    try:
        with file.open("w" if overwrite else "x", encoding="utf-8", newline="") as to:
            to.write(text)
    except FileExistsError:
        message = f"{file} exists; pass overwrite=True to replace it, or another name"
        raise FileExistsError(message) from None
    return text
