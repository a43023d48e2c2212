# SPDX-License-Identifier: Apache-2.0
"""Leaves lamina's entry in ``torch.nn.Module`` in place while no capture is open.

Setting and removing the entry clears CPython's caches of every class of modules, so watches, which open one
capture after another, leave it in place. torch's compiler must not trace it: if the compiler was used, each
capture removes the entry, and a standing entry is removed before the compiler begins to work. Before its
import the compiler can't compile.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, cast

from .. import _lamina
from .compiled import Imported

if TYPE_CHECKING:
    from collections.abc import Callable


class Rest:
    """Shared by all watches of this process."""

    watches: ClassVar[list[Callable[[], None]]] = []  # each is called before code is compiled
    left: ClassVar[list[Callable[[], None]]] = []  # each is called once, after the entry was removed
    resting = False
    compiles = False
    _told: ClassVar[list[Any]] = []  # torch's own list of callbacks; other code can empty it

    @classmethod
    def begin(cls, compiling: Callable[[], None]) -> None:
        """Adds a watch. ``compiling`` is called before code is compiled."""
        cls.watches.append(compiling)
        cls.look()

    @classmethod
    def find(
        cls, find: Callable[[Any], Any], in_python: Callable[[], None], compiling: Callable[[], None]
    ) -> None:
        """Adds a watch that finds roots: C calls ``find`` with each module that is called from outside any
        other. After the entry was removed, ``in_python`` is called, which must find them without it."""
        cls.left.append(in_python)
        cls.begin(compiling)
        if cls.resting:
            _lamina.find(find)
        elif in_python in cls.left:
            cls.left.remove(in_python)
            in_python()

    @classmethod
    def end(cls, compiling: Callable[[], None]) -> None:
        """Removes a watch; the last one removes the entry."""
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
        """Called in a forked child, which has no watches."""
        cls.watches.clear()
        cls.left.clear()
        _lamina.find(None)
        Imported.look(cls._imported, wanted=False)
        cls._wake()

    @classmethod
    def look(cls) -> bool:
        """True if the compiler received no function so far, and will report before it begins."""
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
        """Tests again whether the compiler received a function, which it may not have compiled yet."""
        if cls.resting and _used_compiler():
            cls._compiles()

    @classmethod
    def told(cls) -> list[Any]:
        """torch's callbacks for compilations. If there are none, the standing entry must not be used."""
        return cls._told

    @classmethod
    def _is_told(cls) -> bool:
        if not Imported.look(cls._imported, wanted=bool(cls.watches)):
            cls._told = [None]
            return True
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        callbacks = getattr(handler, "start_callbacks", None)  # None: an older compiler
        cls._told = [] if callbacks is None else callbacks
        if callbacks is not None and cls._compiles not in callbacks:
            callbacks.append(cls._compiles)
        return callbacks is not None

    @classmethod
    def _imported(cls) -> None:
        """Called after the import of torch's compiler: from now on the list has the compiler's callbacks."""
        handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
        callbacks = getattr(handler, "start_callbacks", None)
        cls._told[:] = callbacks or []
        if callbacks is not None:
            cast("Any", handler).start_callbacks = cls._told
        if cls.watches and not (cls._is_told() and cls.look()):
            for compiling in [*cls.watches]:
                compiling()

    @classmethod
    def _compiles(cls, *_: object) -> None:  # older versions of torch pass no argument
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
    """True if ``torch.compile`` was called in this process, or if that is unknown."""
    frames = sys.modules.get("torch._dynamo.eval_frame")
    if frames is None:
        return False
    backends = getattr(frames, "cached_backends", None)
    if backends is None or any(backend is not None for backend in backends.values()):
        return True
    # torch._dynamo.reset() clears the backends, but functions that were compiled with them may be called
    # again.
    return bool(getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", 0))
