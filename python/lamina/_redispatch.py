# SPDX-License-Identifier: Apache-2.0
"""``aten.mm.default.redispatch(keys, a, b)``, of which torch keeps no record, is noted while a model is
looked at."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from . import _lamina

if TYPE_CHECKING:
    from types import CodeType


class Redispatch:
    """Gives that method other code, which tells the captures of its thread, and puts its own back.

    No attribute of the class changes: that would empty what Python remembers of it.
    """

    _method: ClassVar[FunctionType | None] = None
    _own: ClassVar[CodeType | None] = None
    _told: ClassVar[CodeType | None] = None
    is_open = False

    @classmethod
    def turn(cls, on: bool) -> None:
        if on == cls.is_open:
            return
        if cls._told is None:
            cls._make()
        if cls._method is None or cls._told is None or cls._own is None:
            return
        if cls._method.__code__ is not (cls._own if on else cls._told):
            return  # somebody else gave it other code
        cls._method.__code__ = cls._told if on else cls._own
        cls.is_open = on

    @classmethod
    def _make(cls) -> None:
        from ._lead import leading_to, twin_of

        overload = getattr(sys.modules.get("torch._ops"), "OpOverload", None)
        method = getattr(overload, "__dict__", {}).get("redispatch")
        if not isinstance(method, FunctionType) or method.__closure__:
            return
        twin: Any = twin_of(method)

        def told(op: Any, /, *args: Any, **kwargs: Any) -> Any:
            _lamina.unseen(op.name().partition(".")[0])
            return twin(op, *args, **kwargs)

        cls._method, cls._own, cls._told = method, method.__code__, leading_to(told, method)
