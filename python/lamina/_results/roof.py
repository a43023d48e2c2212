# SPDX-License-Identifier: Apache-2.0
"""The peak performance of this machine with torch's threads: measured once and kept in a small file in the
user's cache folder."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.check import check_flag
from .._base.machine import Kept, processor
from .._base.terminal import progress

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = 2
SIDES = (512, 1024, 2048)  # sides of the square matrices that are multiplied: for one thread, and for many
ELEMENTS = 33_554_432  # elements that are copied: 128 MiB, more than caches hold
TRIES = 3  # with pauses between them, in which other work on the machine may end
SECONDS, LEAST = 0.1, 2  # the least duration and number of runs of one try


class Roof(NamedTuple):
    """Peak performance: FLOPs a second (float32, ``torch.mm``), bytes a second (read and written by a copy),
    and the number of threads."""

    flops: float
    bytes: float
    threads: int


def roof(*, again: bool = False) -> Roof:
    """Returns this machine's roof. Measuring takes a second, on the first call or with ``again``. Other work
    on the machine lowers the result, so the best of several tries counts, and a report raises it to the speed
    of its run."""
    check_flag("again", again)
    torch: Any = sys.modules["torch"]
    threads = torch.get_num_threads()
    kept = Kept(
        "roof",
        {
            "format": FORMAT,
            "processor": processor() or "unknown",
            "threads": threads,
            "torch": str(torch.__version__),
        },
    )
    record = None if again else kept.read()
    flops, moved = (record.get(name) if record else None for name in ("flops", "bytes"))
    if isinstance(flops, float) and isinstance(moved, float) and flops > 0 and moved > 0:
        return Roof(flops, moved, threads)
    best = _measure(threads)
    kept.write({"flops": best.flops, "bytes": best.bytes})
    return best


def _measure(threads: int) -> Roof:
    torch: Any = sys.modules["torch"]
    flops, copy = 0.0, float("inf")
    with torch.no_grad(), progress("measuring this machine") as shown, shown.by_hand():
        x, y = torch.rand(ELEMENTS), torch.empty(ELEMENTS)
        for done in range(TRIES):
            shown.at(f"measuring this machine, {done + 1} of {TRIES}")
            flops = max(flops, *(_of_mm(torch, side) for side in SIDES))
            copy = min(copy, _least(lambda: y.copy_(x)))
    moved = 2 * x.element_size() * x.nelement()  # not a count: the timed work
    return Roof(flops, moved / copy, threads)  # not a count: a rate


def _of_mm(torch: Any, side: int) -> float:
    a, b, out = (torch.rand(side, side, dtype=torch.float32) for _ in range(3))
    return 2 * side**3 / _least(lambda: torch.mm(a, b, out=out))  # not a count: a rate


def _least(work: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    work()
    least, done, end = float("inf"), 0, time.perf_counter() + SECONDS
    while done < LEAST or time.perf_counter() < end:
        begun = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begun)
        done += 1
    return least
