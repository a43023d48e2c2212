# SPDX-License-Identifier: Apache-2.0
"""torch's operators that run functions (``torch.cond``, ``while_loop`` ...) while a model is looked at.

Called outside compiled code they compile themselves, so that the tensors which their functions close over
become arguments. Where nothing is compiled those tensors would be given no gradient. So these operators run
their functions as plain Python does, where autograd and a capture see all that happens.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any, ClassVar

OPERATORS = ("cond", "while_loop", "scan", "associative_scan", "map_impl")
ASKS = "_get_current_dispatch_mode"  # by which a kernel makes sure that no mode of torch's is open


class Plain:
    """Puts the kernel that only runs the functions in the place of autograd's, and puts that back."""

    _made: ClassVar[dict[Any, tuple[Any, Any]]] = {}  # by operator: what it did, and what it does meanwhile
    _were: ClassVar[list[tuple[Any, Any]]] = []  # operators, and what they did

    @classmethod
    def open(cls) -> None:
        torch = sys.modules["torch"]
        keys: Any = getattr(torch._C, "DispatchKey", None)
        known: Any = getattr(torch.ops, "higher_order", None)
        for name in OPERATORS if keys is not None and not cls._were else ():
            op = getattr(known, name, None)
            graded = getattr(op, "py_kernels", {}).get(keys.Autograd)
            if graded is None:
                continue
            made = cls._made.get(op)
            if made is None or made[0] is not graded:
                plain = op.py_kernels.get(keys.CompositeExplicitAutograd)
                if not isinstance(plain, FunctionType):
                    continue
                made = cls._made[op] = graded, _either(_unaware(plain), graded)
            cls._were.append((op, graded))
            _put(op, keys.Autograd, made[1])

    @classmethod
    def close(cls) -> None:
        if not cls._were:
            return
        key: Any = sys.modules["torch"]._C.DispatchKey.Autograd
        for op, graded in cls._were:
            _put(op, key, graded)
        cls._were = []


def _put(op: Any, key: Any, kernel: Any) -> None:
    op.py_kernels[key] = kernel
    op._dispatch_cache.clear()


def _unaware(kernel: FunctionType) -> Any:
    """The kernel, which is told that no mode is open: ours may be."""
    told = {**kernel.__globals__, ASKS: lambda: None}
    copy = FunctionType(kernel.__code__, told, kernel.__name__, kernel.__defaults__, kernel.__closure__)
    copy.__kwdefaults__ = kernel.__kwdefaults__
    return copy


def _either(plain: Any, graded: Any) -> Any:
    """The plain kernel, but not under somebody else's mode: that may be tracing."""
    from torch.utils import _python_dispatch as modes

    top: Any = getattr(modes, ASKS)

    def run(*args: Any, **kwargs: Any) -> Any:
        mode = top()
        ours = mode is None or type(mode).__module__.startswith("lamina.")
        return (plain if ours else graded)(*args, **kwargs)

    return run
