# SPDX-License-Identifier: Apache-2.0
"""torch's operators that run functions (``torch.cond``, ``while_loop`` ...) during a capture.

Called outside compiled code they compile themselves, so that the tensors which their functions close over
become arguments. Without compilation these tensors would get no gradient. So these operators run their
functions as plain Python does, where autograd and a capture see everything.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, ClassVar, NamedTuple

OPERATORS = ("cond", "while_loop", "scan", "associative_scan", "map_impl")
ASKS = "_get_current_dispatch_mode"  # a kernel uses it to check that no mode of torch is open


class Plain:
    """Replaces autograd's kernel by one that only runs the functions, and restores it."""

    _made: ClassVar[list[Swap] | None] = None
    _were: ClassVar[list[Swap]] = []  # those that are replaced
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
    """The kernel, to which no mode seems open: lamina's may be."""
    from .twin import twin_of

    return twin_of(kernel, {**kernel.__globals__, ASKS: lambda: None})


def _either(plain: Any, graded: Any) -> Any:
    """The plain kernel, except under another program's mode, which may be tracing."""
    from torch.utils import _python_dispatch as modes

    top: Any = getattr(modes, ASKS)

    def run(*args: Any, **kwargs: Any) -> Any:
        mode = top()
        ours = mode is None or type(mode).__module__.startswith("lamina.")
        return (plain if ours else graded)(*args, **kwargs)

    return run
