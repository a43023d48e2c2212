# SPDX-License-Identifier: Apache-2.0
"""Notes calls of ``aten.mm.default.redispatch(keys, a, b)`` in a capture: torch keeps no record of them."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .. import _lamina

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


class Redispatch:
    """Replaces the code of that method by code that reports to the captures of its thread, and restores it.

    No attribute of the class changes: that would clear Python's caches of it.
    """

    _method: ClassVar[FunctionType | None] = None
    _own: ClassVar[CodeType | None] = None
    _told: ClassVar[CodeType | None] = None
    is_open = False
    listeners: ClassVar[list[Callable[[str], None]]] = []  # of modes: called with the operator's name
    itself: ClassVar[Any] = None  # the same without a report: for lamina's own calls

    @classmethod
    def turn(cls, on: bool) -> None:
        if on == cls.is_open or cls.own() is None or cls._method is None:
            return
        if cls._method.__code__ is not (cls._own if on else cls._told):
            return  # other code has replaced it
        cls._method.__code__ = cast("CodeType", cls._told if on else cls._own)
        cls.is_open = on

    @classmethod
    def own(cls) -> Any:
        """torch's method: an operator, keys, and its arguments."""
        if cls._told is None:
            cls._make()
        return cls.itself

    @classmethod
    def _make(cls) -> None:
        from .twin import leading_to, twin_of

        method = sys.modules["torch"]._ops.OpOverload.redispatch
        cls.itself = method
        if not isinstance(method, FunctionType) or method.__closure__:
            return
        python = sys.modules["torch"]._C.DispatchKey.Python
        twin: Any = twin_of(method)

        def told(op: Any, /, *args: Any, **kwargs: Any) -> Any:
            keys: Any = args[0] if args else kwargs.get("keyset")
            # If a mode or a class is to answer, the operators that it runs are seen.
            if not (hasattr(keys, "has") and keys.has(python)):
                name = op.name().partition(".")[0]
                _lamina.unseen(name)
                for listener in [*cls.listeners]:
                    listener(name)
            return twin(op, *args, **kwargs)

        cls.itself, cls._method, cls._own = twin, method, method.__code__
        cls._told = leading_to(told, method)
