# SPDX-License-Identifier: Apache-2.0
"""Notes calls of ``aten.mm.default.redispatch(keys, a, b)`` in a capture, which torch does not record.
PyTorch 2.15 does not record calls of operators defined in Python either, unless its C++ dispatcher calls
them; in a capture an operator's ``__call__`` does this.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from .. import _lamina

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


class Redispatch:
    """Replaces the code of these methods by code that reports to the captures of its thread, and restores it.

    No attribute of the class changes: that would clear Python's caches of it.
    """

    _codes: ClassVar[list[tuple[FunctionType, CodeType, CodeType]] | None] = None  # method, its code, ours
    is_open = False
    listeners: ClassVar[set[Callable[[str], None]]] = set()  # of modes: called with the operator's name
    itself: ClassVar[Any] = None  # torch's method without a report, for lamina's own calls

    @classmethod
    def turn(cls, on: bool) -> None:
        if on == cls.is_open or cls.own() is None:
            return
        for method, own, ours in cls._codes or ():
            if method.__code__ is (own if on else ours):  # no other code has replaced it
                method.__code__ = ours if on else own
                cls.is_open = on

    @classmethod
    def own(cls) -> Any:
        """torch's method: an operator, keys, and its arguments."""
        if cls._codes is None:
            cls._make()
        return cls.itself

    @classmethod
    def _make(cls) -> None:
        from .code_copy import leading_to, twin_of

        operator = sys.modules["torch"]._ops.OpOverload
        method = cls.itself = operator.redispatch
        cls._codes = []
        if not isinstance(method, FunctionType) or method.__closure__:
            return
        python = sys.modules["torch"]._C.DispatchKey.Python
        twin: Any = twin_of(method)

        def reporting(op: Any, /, *args: Any, **kwargs: Any) -> Any:
            keys: Any = args[0] if args else kwargs.get("keyset")
            # If a mode or a tensor subclass handles the call, the operators that it runs are observed.
            if not (hasattr(keys, "has") and keys.has(python)):
                name = op.name().partition(".")[0]
                _lamina.unseen(name)
                for listener in [*cls.listeners]:
                    listener(name)
            return twin(op, *args, **kwargs)

        cls.itself = twin
        cls._codes.append((method, method.__code__, leading_to(reporting, method)))
        call = operator.__call__
        if hasattr(operator, "_enable_pyobj_dispatch") and isinstance(call, FunctionType):
            cls._codes.append((call, call.__code__, leading_to(recorded, call)))


def recorded(op: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Calls an operator by torch's C++ dispatcher."""
    return op._cpp_dispatch_handle(*args, **kwargs)
