# SPDX-License-Identifier: Apache-2.0
"""Pictures of a report, as SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._base.files import save_text

if TYPE_CHECKING:
    import os


class Picture:
    """A drawing in SVG: a notebook shows it, :meth:`save` writes it to a file. It loads nothing, has no
    script, and follows the reader's light or dark setting.

    Attributes:
        kind: ``"icicle"``, ``"graph"``, ``"memory"`` or ``"roofline"``.
        svg: the text of the file.
    """

    def __init__(self, kind: str, svg: str) -> None:
        self.kind = kind
        self.svg = svg

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes the picture to ``path``.

        Raises:
            FileExistsError: the file exists and ``overwrite`` is not True.
        """
        save_text(path, self.svg, overwrite=overwrite)

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({self.kind!r}, {len(self.svg.encode())} bytes of SVG)"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": repr(self), "image/svg+xml": self.svg}
