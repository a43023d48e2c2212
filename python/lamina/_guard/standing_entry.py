# SPDX-License-Identifier: Apache-2.0
"""Leaving what a capture puts in ``torch.nn.Module`` in place while none is open.

Putting it there and taking it away empties what CPython knows of every class of modules, so watches, whose
captures follow each other, leave it there. torch's compiler must not meet it: where it was used, each
capture cleans up after itself, and when it begins to compile, what rests is taken away first. Before it is
imported it can compile nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .. import _lamina
from .compiled import Imported

if TYPE_CHECKING:
    from collections.abc import Callable


class Rest:
    """Of all watches of this process together."""

    watches: ClassVar[list[Callable[[], None]]] = []  # each to be told when something is compiled
    left: ClassVar[list[Callable[[], None]]] = []  # each to be told once, when it rests no longer
    resting = False
    compiles = False
    _told: ClassVar[list[Any]] = []  # torch's own list of those who are told; it can be emptied by others

    @classmethod
    def begin(cls, compiling: Callable[[], None]) -> None:
        """One more watch. ``compiling`` is called when something is about to be compiled."""
        cls.watches.append(compiling)
        cls.look()

    @classmethod
    def end(cls, compiling: Callable[[], None]) -> None:
        """A watch is closed; the last one leaves nothing behind."""
        if compiling in cls.watches:
            cls.watches.remove(compiling)
        if cls.watches:
            return
        cls._wake()
        Imported.look(cls._imported, wanted=False)
        if cls._compiles in cls._told:
            cls._told.remove(cls._compiles)
        cls._told = []

    @classmethod
    def forget(cls) -> None:
        """In a forked child, which watches nothing."""
        cls.watches.clear()
        cls.left.clear()
        _lamina.find(None)
        Imported.look(cls._imported, wanted=False)
        cls._wake()

    @classmethod
    def look(cls) -> bool:
        """True where nothing was given to the compiler so far, and it would tell before it began."""
        if cls.resting and cls._told:
            return True
        cls.compiles = cls.compiles or _used_compiler()
        wanted = not cls.compiles and cls._is_told()
        if wanted != cls.resting:
            cls.resting = wanted
            _lamina.rest(wanted)
            cls._tell_left()
        return wanted

    @classmethod
    def look_again(cls) -> None:
        """The compiler may have been given something since, and not compiled it yet."""
        if cls.resting and _used_compiler():
            cls._compiles(None)

    @classmethod
    def told(cls) -> list[Any]:
        """Who is told when something is compiled: while there is nobody, what rests must not be trusted."""
        return cls._told

    @classmethod
    def _is_told(cls) -> bool:
        if not Imported.look(cls._imported, wanted=bool(cls.watches)):
            cls._told = [None]
            return True
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        cls._told = getattr(handler, "start_callbacks", [])
        if handler is not None and cls._compiles not in cls._told:
            cls._told.append(cls._compiles)
        return bool(cls._told)  # none: the compiler is an older one

    @classmethod
    def _imported(cls) -> None:
        """torch's compiler came. What was looked at until now becomes its list, where it has one."""
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        callbacks = getattr(handler, "start_callbacks", None)
        cls._told[:] = callbacks or []
        if callbacks is not None:
            cast("Any", handler).start_callbacks = cls._told
        if cls.watches and not (cls._is_told() and cls.look()):
            for compiling in [*cls.watches]:
                compiling()

    @classmethod
    def _compiles(cls, _: object) -> None:
        cls.compiles = True
        for compiling in [*cls.watches]:
            compiling()
        cls._wake()

    @classmethod
    def _wake(cls) -> None:
        if cls.resting:
            cls.resting = False
            _lamina.rest(False)  # noqa: FBT003
            cls._tell_left()

    @classmethod
    def _tell_left(cls) -> None:
        left = [] if cls.resting else cls.left
        while left:
            left.pop()()


def _used_compiler() -> bool:
    """True where ``torch.compile`` was called in this process, or where that can't be known."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    if frames is None:
        return False
    backends = getattr(frames, "cached_backends", None)
    if backends is None or any(backend is not None for backend in backends.values()):
        return True
    # torch._dynamo.reset() forgets the backends, and what was made of them is called again.
    return bool(getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", 0))
