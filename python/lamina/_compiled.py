# SPDX-License-Identifier: Apache-2.0
"""Compiled code while a model is looked at: it is stepped around, or runs as it is, and is never compiled.

Calls can only be seen where a model runs layer by layer, so compiled code is stepped around while they alone
are watched. Where operators are, compiled code that there is for the inputs at hand runs, and what it runs is
counted; where there is none, nothing is compiled, because what is compiled under a capture would stay.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, ClassVar

AROUND, AS_IT_IS = "force_eager", "eager_on_recompile"

# What torch.compile hands every operator to as it is. Others may make kernels of their own, which run unseen.
OPERATOR_BY_OPERATOR = ("eager", "eager_noexcept", "eager_debug", "aot_eager", "pre_dispatch_eager")

BACKWARD = "CompiledFunctionBackward"  # the node of what such a backend and others compile for the backward


class Compiled:
    """While one is open, nothing is compiled, and compiled code runs layer by layer or as it is.

    The switch is one for the whole process: captures nest and run in several threads, so layer by layer wins
    while anybody asks for it, and the last to close turns it back. A torch without
    ``torch.compiler.set_stance`` has no such switch: a compiled child then is one opaque row. Where nothing
    was compiled yet, there is nothing to step around, and torch's compiler is not imported.

    One that is dropped while it is open closes.
    """

    _lock = threading.RLock()  # one may be dropped while another one turns
    _open: ClassVar[list[str]] = []
    _stance: Any = None
    _now: str | None = None

    def __init__(self, stance: str = AROUND) -> None:
        self._mine = stance
        self._inside = False

    def __enter__(self) -> None:
        cls = Compiled
        with cls._lock:
            cls._open.append(self._mine)
            self._inside = True
            cls._turn()

    def __exit__(self, *_: object) -> None:
        cls = Compiled
        with cls._lock:
            if self._inside:
                self._inside = False
                cls._open.remove(self._mine)
                cls._turn()

    def __del__(self) -> None:
        if self._inside:
            self.__exit__()

    @classmethod
    def _turn(cls) -> None:
        wanted = AROUND if AROUND in cls._open else AS_IT_IS if cls._open else None
        if wanted == cls._now or (cls._now is None and "torch._dynamo" not in sys.modules):
            return
        if cls._stance is not None:
            stance, cls._stance = cls._stance, None
            stance.__exit__(None, None, None)
        cls._now = wanted
        set_stance = getattr(getattr(sys.modules["torch"], "compiler", None), "set_stance", None)
        if wanted is not None and set_stance is not None:
            cls._stance = set_stance(wanted)


def seen_through() -> set[str]:
    """The names under which torch notes the compiled code of this process that runs operator by operator."""
    regions = {name: backend in OPERATOR_BY_OPERATOR for name, backend in _regions()}
    through = {name for name, seen in regions.items() if seen}
    return through | {BACKWARD} if through and all(regions.values()) else through


def _regions() -> list[tuple[str, str | None]]:
    """Every piece of compiled code in this process: what torch calls it, and who compiled it."""
    frames = sys.modules.get("torch._dynamo.convert_frame")
    try:
        seen = frames.input_codes.seen  # type: ignore[union-attr]
        if not seen:
            return []  # nothing was compiled, as in most processes
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list as entries

        listed: Any = entries
        codes = [code() for code in seen]
        return [
            (entry.trace_annotation, getattr(entry.backend, "compiler_name", None))
            for code in codes
            if code is not None
            for entry in listed(code)
        ]
    except (ImportError, AttributeError, TypeError):
        return []  # another torch: what compiled code hides is not known, so all of it may hide something
