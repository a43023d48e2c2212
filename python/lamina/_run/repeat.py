# SPDX-License-Identifier: Apache-2.0
"""Timed runs: the same run repeated, and the median of each layer."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _lamina
from .._base.check import check_whole
from .._base.errors import UsageError
from .._guard.compiled import Compiled
from .._guard.gradients import next_node, without_graph
from .capture import Opened, new_watch
from .once import Backward, call_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._base.terminal import Progress
    from .._observe.run import Run
    from .arguments import Arguments

FEW, MANY = 5, 20  # runs by default: as many as fit into SECONDS, and between these
SECONDS = 10.0


class Repeats(NamedTuple):
    """The number of runs: ``warmup`` unwatched, then ``repeats``; None: 5 to 20, as many as fit into ten
    seconds."""

    warmup: int = 3
    repeats: int | None = None

    @property
    def once(self) -> bool:
        """True if the one run that counts everything is timed too."""
        return self.warmup == 0 and self.repeats == 1

    def check(self, *, dry: bool, asked: bool) -> Repeats | None:
        """Returns itself, None if times were not requested. Raises ValueError for a bad number, TypeError for
        a value that is no number."""
        if not asked:
            if self != Repeats():
                raise ValueError("warmup and repeats are of runs that are timed; give time=True too")
            return None
        if dry:
            raise UsageError("a dry run computes nothing, so there is no time to tell; leave one of them out")
        check_whole("warmup", self.warmup, least=0)
        if self.repeats is not None:
            check_whole("repeats", self.repeats, least=1)
        return self


def measure(
    root: Any,
    given: Arguments,
    how: Repeats,
    run: Run,
    shown: Progress,
    *,
    backward: bool,
    like: _lamina.Capture,
) -> Opened | None:
    """The closed capture of all timed runs, with every gradient restored; None if one of them raised: see
    ``run.error``. It watches the modules that ``like`` did: a forward may make or remove some. Each run
    begins with the arguments as they were."""
    watch = new_watch(root, time=True, noted=True)
    watch.watch_as(like)
    opened = Opened(watch)

    def failed(what: str) -> bool:
        run.leave(given.put_back(between=True))
        back = Backward(watch, next_node()) if backward else None
        run.error = call_root(root, *given.given(without_graph), back, run)
        if run.error is not None:
            run.failed_in = what
        return run.error is not None

    with shown.by_hand(), _no_collection(), Compiled():
        for done in range(how.warmup):
            shown.at(f"warm-up run {done + 1} of {how.warmup}")
            if failed(f"warm-up run {done + 1}"):
                return None
        watch.pause(False)  # noqa: FBT003
        with opened:
            for done in _rounds(how.repeats):
                shown.at(f"timed run {done + 1} of {how.repeats or f'at most {MANY}'}")
                if failed(f"timed run {done + 1}"):
                    return None
    return opened


def _rounds(repeats: int | None) -> Iterator[int]:
    end = time.monotonic() + SECONDS
    for done in range(MANY if repeats is None else repeats):
        if repeats is None and done >= FEW and time.monotonic() > end:
            return
        yield done


@contextmanager
def _no_collection() -> Iterator[None]:
    """Runs Python's garbage collector before the block and disables it in the block, where it would delay a
    run."""
    gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
