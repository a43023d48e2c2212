# SPDX-License-Identifier: Apache-2.0
"""``aten.mm.default.redispatch(keys, a, b)``, of which torch keeps no record, is noted while a model is
looked at."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .. import _lamina

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


class Redispatch:
    """Gives that method other code, which tells the captures of its thread, and puts its own back.

    No attribute of the class changes: that would empty what Python remembers of it.
    """

    _method: ClassVar[FunctionType | None] = None
    _own: ClassVar[CodeType | None] = None
    _told: ClassVar[CodeType | None] = None
    is_open = False
    listeners: ClassVar[list[Callable[[str], None]]] = []  # of modes: told of the operator's name
    itself: ClassVar[Any] = None  # what it does, and tells nobody: for what lamina runs itself

    @classmethod
    def turn(cls, on: bool) -> None:
        if on == cls.is_open or cls.own() is None or cls._method is None:
            return
        if cls._method.__code__ is not (cls._own if on else cls._told):
            return  # somebody else gave it other code
        cls._method.__code__ = cast("CodeType", cls._told if on else cls._own)
        cls.is_open = on

    @classmethod
    def own(cls) -> Any:
        """The method as torch has it, of an operator, keys, and its arguments."""
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
            # Where a mode or a class is to answer, what that runs is seen.
            if not (hasattr(keys, "has") and keys.has(python)):
                name = op.name().partition(".")[0]
                _lamina.unseen(name)
                for listener in [*cls.listeners]:
                    listener(name)
            return twin(op, *args, **kwargs)

        cls.itself, cls._method, cls._own = twin, method, method.__code__
        cls._told = leading_to(told, method)
