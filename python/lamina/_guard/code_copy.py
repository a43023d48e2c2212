# SPDX-License-Identifier: Apache-2.0
"""The Python part of redirecting calls of a function to C: its code, a twin, and calls that test it.

python/ext/calls/detour.c replaces the pointer through which CPython calls a function. Only calls from C are
sure to use this pointer: if a function is called by its name, as ``m.__call__(x)``, an interpreter may run
its code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FunctionType

OFTEN = 64  # calls after which every interpreter has specialized its instructions


def twin_of(function: FunctionType, names: dict[str, Any] | None = None) -> FunctionType:
    """A function with the same code; ``names`` are its globals."""
    twin = type(function)(
        function.__code__,
        function.__globals__ if names is None else names,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    return twin


def leading_to(target: Callable[..., Any], function: FunctionType) -> CodeType:
    """Code for ``function``, a method, that calls ``target``, which is one of its constants."""
    import inspect

    def led(self: Any, *args: Any, **kwargs: Any) -> Any:
        leads_to: Any = "target"
        return leads_to(self, *args, **kwargs)

    code, consts = led.__code__, [target if const == "target" else const for const in led.__code__.co_consts]
    # A function accepts only code with as many free variables as its own.
    code = code.replace(co_consts=tuple(consts), co_freevars=function.__code__.co_freevars)
    own, both = function.__code__, inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if own.co_argcount != 1 or own.co_kwonlyargcount or own.co_flags & both != both:
        return code
    return code.replace(co_varnames=(*own.co_varnames[:3], "leads_to"))  # keeps the signature


class Called:
    """A class whose calls are redirected."""

    def __call__(self, *_args: object, **_kwargs: object) -> object:
        return None


class Above(Called):
    """A subclass that calls it through super."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        return super().__call__(*args, **kwargs)


FUNCTION = Called.__dict__["__call__"]


def all_give(wanted: object) -> bool:
    """True if each way of calling returns ``wanted``, also after many calls."""
    for _ in range(OFTEN):
        one, above = Called(), Above()
        bound = one.__call__
        by_slot = one(), one(1, a=2), above(1), bound()
        by_name = one.__call__(1), Called.__call__(one), above.__call__(1, 2)
        if any(value is not wanted for value in (*by_slot, *by_name)):
            return False
    return True
