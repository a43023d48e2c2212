# SPDX-License-Identifier: Apache-2.0
"""A capture from its making to its model."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .._base.ranks import note as note_of_ranks
from .._guard.compiled import Compiled, Compiler, compiled_codes, seen_through
from .._observe.support import Watched, nodes

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from .._observe.memory import MemoryTrace
    from .._observe.values import Checks

COLLECTIVES = (
    "the peak of memory depends on when collectives end; what their threads allocate is in memory.elsewhere"
)
NO_OPS = Watched(ops=False)


def new_watch(
    root: Any,
    alias: Any = None,
    *,
    how: Watched = NO_OPS,
    time: bool = False,
    memory: bool = False,
    noted: bool = False,
    health: Checks | None = None,
) -> _lamina.Capture:
    """A capture that has not started. If backward passes can't be split by layer, a note gives the reason,
    unless ``noted``: a note gives it already."""
    why = None
    if time or memory or health is not None:
        why = nodes()
    watch = _lamina.Capture(root, how.ops, alias, how.dispatch, (time or memory) and why is None, time)
    if how.why_not is not None:
        watch.note(how.why_not)
    if why is not None and time and not noted:
        watch.note(f"how long a layer's backward takes is not known: {why}")
    if why is not None and memory:
        watch.note(f"what a layer's backward allocates is not known: {why}")
    if why is not None and health is not None:
        watch.note(f"gradients were not checked: {why}")
    if time or memory:
        watch.measure_device(time, memory)
    if memory:
        from .._observe.memory import measure

        measure(watch)
    if health is not None:
        health.begin(watch, root, gradients=why is None)
    return watch


class Opened:
    """A context in which a capture runs, with what must be open around it: the ``stance`` of torch's
    compiler; with ``ops`` or ``memory``, what keeps the compiler's own work out of the capture; with
    ``memory``, what follows the optimizers (``hooks``: by hooks). Afterwards :meth:`model` makes the
    model."""

    def __init__(
        self,
        watch: _lamina.Capture,
        stance: AbstractContextManager[object] | None = None,
        *,
        ops: bool = False,
        memory: bool = False,
        hooks: bool = True,
    ) -> None:
        self.watch = watch
        self._stance = nullcontext() if stance is None else stance
        self._ops = ops
        self._memory = memory
        self._hooks = hooks
        self._following: MemoryTrace | None = None
        self._compiler: Compiler | None = None

    def __enter__(self) -> Opened:
        self._stance.__enter__()
        try:
            if self._memory:
                from .._observe.memory import MemoryTrace

                self._following = MemoryTrace(self.watch, hooks=self._hooks)
                self._following.open()
            if self._ops or self._memory:
                self._compiler = Compiler(self.watch)
                if compiled_codes() and isinstance(self._stance, Compiled):
                    self._compiler.open()
            self.watch.start()
        except BaseException:
            self._leave(*sys.exc_info())
            raise
        return self

    def __exit__(self, *raised: Any) -> None:
        try:
            self.watch.stop()
        finally:
            self._leave(*raised)

    def _leave(self, *raised: Any) -> None:
        if self._following is not None:
            self._following.close()
        if self._compiler is not None:
            self._compiler.close()
            self._compiler = None
        self._stance.__exit__(*raised)

    def model(self, before: Callable[[], None] | None = None) -> _lamina.Model:
        """The model of the stopped capture, with the data that only Python has. ``before`` is called once
        before user code runs, which is rare."""
        if self._following is not None:
            self._following.tell()
        self.watch.memory_gradients()
        codes = compiled_codes()
        if codes and (through := seen_through(codes)):
            self.watch.seen_through(through)
        ranks = note_of_ranks()
        if ranks is not None:
            self.watch.note(ranks)
        model = self.watch.model(before)
        if ranks is not None and model.memory_measured():
            model.add_note(COLLECTIVES)
        return model
