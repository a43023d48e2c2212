# SPDX-License-Identifier: Apache-2.0
"""Something is done around the first import of a module."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Finder:
    """As the first entry of ``sys.meta_path``: finds the module by the other finders, and has ``around`` call
    the function that runs its code."""

    def __init__(self, module: str, around: Callable[[Callable[[], None]], None]) -> None:
        self._module, self._around = module, around

    def find_spec(self, name: str, *where: Any) -> Any:
        if name != self._module:
            return None
        others = [getattr(finder, "find_spec", None) for finder in sys.meta_path if finder is not self]
        spec: Any = next((found for find in others if find and (found := find(name, *where))), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Around(spec.loader, self._around)
        return spec


class _Around:
    """Wraps the module's loader, and gives it back to the module."""

    def __init__(self, loader: Any, around: Callable[[Callable[[], None]], None]) -> None:
        self._loader, self._around = loader, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._around(lambda: self._loader.exec_module(module))
