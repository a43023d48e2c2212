# SPDX-License-Identifier: Apache-2.0
"""Leaves lamina's entry in ``torch.nn.Module`` in place while no capture is open.

Setting and removing the entry clears CPython's caches of every class of modules, so watches, which open one
capture after another, leave it in place. torch's compiler reports when it begins to work and when it has
ended: meanwhile C records nothing, and takes out of ``torch.nn.Module`` what the compiler could see
(python/ext/calls/attach.c).
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from .. import _lamina
from .compiled import CALLBACK, Compiled, Imported
from .redispatch import Redispatch


class Rest:
    """Shared by all watches of this process."""

    watches = 0
    _callbacks: ClassVar[list[tuple[list[Any], Any]]] = []  # torch's lists of functions to call, and ours

    @classmethod
    def begin(cls) -> None:
        """Adds a watch."""
        _lamina.rest(True)  # noqa: FBT003
        cls.watches += 1
        cls.look()

    @classmethod
    def end(cls) -> None:
        """Removes a watch; the last one removes the entry."""
        cls.watches -= 1
        _lamina.rest(False)  # noqa: FBT003
        if not cls.watches:
            Imported.look(cls.look, wanted=False)
            cls._leave()
            _lamina.compiling(False)  # noqa: FBT003 - also if it still does: nobody waits for its end

    @classmethod
    def forget(cls) -> None:
        """Called in a forked child, which has no watches."""
        _lamina.find(None)
        while cls.watches:
            cls.end()

    @classmethod
    def look(cls) -> None:
        """Has torch's compiler report, once it is imported. Other code can empty its lists."""
        cls._leave()
        if not Imported.look(cls.look, wanted=bool(cls.watches)):
            return
        handler = getattr(sys.modules.get(CALLBACK), "callback_handler", None)
        for name, ours in (("start_callbacks", cls._begins), ("end_callbacks", cls._ended)):
            theirs = getattr(handler, name, None)
            if isinstance(theirs, list):  # not in every version
                theirs.append(ours)
                cls._callbacks.append((theirs, ours))
        _lamina.compiler_reports(cls._callbacks[0][0] if cls._callbacks else None)

    @classmethod
    def _leave(cls) -> None:
        for theirs, ours in cls._callbacks:
            if ours in theirs:
                theirs.remove(ours)
        cls._callbacks.clear()
        _lamina.compiler_reports(None)

    @classmethod
    def _begins(cls, *_: object) -> None:  # older versions of torch pass no argument
        Redispatch.turn(False)  # noqa: FBT003
        _lamina.compiling(True)  # noqa: FBT003

    @classmethod
    def _ended(cls, *_: object) -> None:
        _lamina.compiling(False)  # noqa: FBT003
        Redispatch.turn(Compiled.is_open())


class Recorded:
    """The context of a recorded step: torch's compiler works in it as it does otherwise."""

    def __init__(self) -> None:
        self._stance = Compiled(None)

    def __enter__(self) -> None:
        Rest.begin()
        self._stance.__enter__()

    def __exit__(self, *of: object) -> None:
        self._stance.__exit__(*of)
        Rest.end()
