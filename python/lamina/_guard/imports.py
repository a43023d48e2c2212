# SPDX-License-Identifier: Apache-2.0
"""Something is done around the first import of a module, or of each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Finder:
    """As the first entry of ``sys.meta_path``: finds the module by the other finders, and has ``around`` call
    the function that runs its code. Without a ``module``: of every module."""

    def __init__(self, module: str | None, around: Callable[[Callable[[], None]], None]) -> None:
        self._module, self._around = module, around

    def find_spec(self, name: str, *where: Any) -> Any:
        if self._module is not None and name != self._module:
            return None
        finders = list(sys.meta_path)
        after = finders[finders.index(self) + 1 :] if self in finders else finders
        others = [getattr(finder, "find_spec", None) for finder in after]  # one before it asks this one too
        spec: Any = next((found for find in others if find and (found := find(name, *where))), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
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
