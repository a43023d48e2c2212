# SPDX-License-Identifier: Apache-2.0
"""torch's operators that run functions (``torch.cond``, ``while_loop`` ...) during a capture.

Called outside compiled code these operators compile themselves, so that the tensors that their functions
close over become arguments. Without compilation these tensors would get no gradient. During a capture the
operators run their functions as plain Python, which autograd and the capture observe completely.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

OPERATORS = ("cond", "while_loop", "scan", "associative_scan", "map_impl")
ASKS = "_get_current_dispatch_mode"  # a kernel calls it to check that no dispatch mode is open


class Plain:
    """Replaces autograd's kernel by one that only runs the functions, and restores it."""

    _made: ClassVar[list[Swap] | None] = None
    _were: ClassVar[list[Swap]] = []  # the replaced kernels
    is_open = False

    @classmethod
    def open(cls) -> None:
        if cls.is_open:
            return
        if cls._made is None or not all(swap.kernels.get(swap.key) is swap.graded for swap in cls._made):
            cls._made = _make()
        for swap in cls._made:
            swap.put(swap.plain)
        cls._were, cls.is_open = cls._made, True

    @classmethod
    def close(cls) -> None:
        for swap in cls._were:
            swap.put(swap.graded)
        cls._were, cls.is_open = [], False


class Swap(NamedTuple):
    """One operator: its kernels, its caches of them, and the two that are replaced."""

    kernels: dict[Any, Any]
    found: dict[Any, Any]
    key: Any
    graded: Any
    plain: Any

    def put(self, kernel: Any) -> None:
        self.kernels[self.key] = kernel
        self.found.clear()


def _make() -> list[Swap]:
    torch = sys.modules["torch"]
    keys: Any = getattr(torch._C, "DispatchKey", None)
    known: Any = getattr(torch.ops, "higher_order", None)
    made = []
    for op in (getattr(known, name, None) for name in OPERATORS):
        kernels, found = getattr(op, "py_kernels", None), getattr(op, "_dispatch_cache", None)
        if keys is None or kernels is None or found is None:
            continue
        graded, plain = kernels.get(keys.Autograd), kernels.get(keys.CompositeExplicitAutograd)
        if isinstance(plain, FunctionType) and graded is not None:
            made.append(Swap(kernels, found, keys.Autograd, graded, _either(_unaware(plain), graded)))
    return made


def _unaware(kernel: FunctionType) -> Any:
    """A copy of the kernel that finds no open mode, although lamina's may be open."""
    from .code_copy import twin_of

    return twin_of(kernel, {**kernel.__globals__, ASKS: lambda: None})


def _either(plain: Any, graded: Any) -> Any:
    """A kernel that calls the plain one, except under another library's mode, which may be tracing."""
    from torch.utils import _python_dispatch as modes

    top: Any = getattr(modes, ASKS)

    def run(*args: Any, **kwargs: Any) -> Any:
        mode = top()
        ours = mode is None or type(mode).__module__.startswith("lamina.")
        return (plain if ours else graded)(*args, **kwargs)

    return run
