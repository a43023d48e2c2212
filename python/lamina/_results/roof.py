# SPDX-License-Identifier: Apache-2.0
"""The peak performance of this machine with torch's threads: measured once and kept in a small file in the
user's cache folder."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.check import check_flag
from .._base.dtypes import real_dtype
from .._base.errors import UsageError
from .._base.machine import Kept, processor
from .._base.terminal import progress

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = 2
SIDES = (512, 1024, 2048)  # sides of the square matrices that are multiplied: for one thread, and for many
LARGE = (2048, 4096, 8192)  # the same on another device than the processor
ELEMENTS = 33_554_432  # elements of float32 that are copied: 128 MiB, more than caches hold
TRIES = 3  # with pauses between them, in which other work on the machine may end
SECONDS, LEAST = 0.1, 2  # the least duration and number of runs of one try
DEVICES = {1: "cuda", 6: "cuda", 12: "xpu", 13: "mps"}  # by the numbers of their types; else the processor


class Roof(NamedTuple):
    """Peak performance: FLOPs a second (``torch.mm``), bytes a second (read and written by a copy), and the
    number of threads; of which type of numbers, and which device."""

    flops: float
    bytes: float
    threads: int
    dtype: str = "float32"
    device: str = "cpu"


def roof(*, again: bool = False, dtype: Any = None, device: Any = None) -> Roof:
    """Returns this machine's roof. Measuring takes a second, on the first call or with ``again``. Other work
    on the machine lowers the result, so the best of several tries counts, and a report raises it to the speed
    of its run.

    Args:
        again: measures also what was measured before.
        dtype: of the numbers, as ``torch.bfloat16``; float32 by default.
        device: where, as ``"cuda"``; the processor by default.

    Raises:
        ValueError: there is no such type or device, or torch can't multiply matrices of this type there.
    """
    check_flag("again", again)
    torch: Any = sys.modules["torch"]
    name = "float32" if dtype is None else real_dtype(str(dtype))
    where = _device(torch, device)
    threads = torch.get_num_threads()
    key = {
        "format": FORMAT,
        "processor": processor() or "unknown",
        "threads": threads,
        "torch": str(torch.__version__),
    }
    if name != "float32":
        key["dtype"] = name
    if where.type != "cpu":
        key["device"] = f"{where} {_module(torch, where).get_device_name(where)}"
    kept = Kept("roof", key)
    record = None if again else kept.read()
    flops, moved = (record.get(name) if record else None for name in ("flops", "bytes"))
    if isinstance(flops, float) and isinstance(moved, float) and flops > 0 and moved > 0:
        return Roof(flops, moved, threads, name, str(where))
    best = _measure(threads, name, where)
    kept.write({"flops": best.flops, "bytes": best.bytes})
    return best


def best_of(dtype: str, device: int) -> tuple[float, float]:
    """FLOPs and bytes a second for a type of numbers, on a device by the number of its type."""
    best = roof(dtype=dtype, device=DEVICES.get(device))
    return best.flops, best.bytes


def _device(torch: Any, device: Any) -> Any:
    try:
        where = torch.device("cpu" if device is None else device)
        torch.empty(1, device=where)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"device={device!r} can't be used here: {str(error).splitlines()[0]}") from error
    if where.type != "cpu" and not hasattr(_module(torch, where), "get_device_name"):
        raise UsageError(f"device={device!r}: its peak can't be measured; give cpu or a GPU, as cuda")
    return where


def _module(torch: Any, device: Any) -> Any:
    return getattr(torch, device.type, None)


def _measure(threads: int, dtype: str, device: Any) -> Roof:
    torch: Any = sys.modules["torch"]
    kind = getattr(torch, dtype)
    wait = (lambda: None) if device.type == "cpu" else _module(torch, device).synchronize
    flops, copy = 0.0, float("inf")
    with torch.no_grad(), progress("measuring this machine") as shown, shown.by_hand():
        x = torch.rand(ELEMENTS, device=device)
        y = torch.empty_like(x)
        for done in range(TRIES):
            shown.at(f"measuring this machine, {done + 1} of {TRIES}")
            flops = max(flops, _of_mm(torch, kind, device, wait))
            copy = min(copy, _least(lambda: y.copy_(x), wait))
    moved = 2 * x.element_size() * x.nelement()  # not a count: the timed work
    return Roof(flops, moved / copy, threads, dtype, str(device))  # not a count: a rate


def _of_mm(torch: Any, dtype: Any, device: Any, wait: Callable[[], object]) -> float:
    """The most FLOPs a second of products of square matrices, of growing sizes until one takes long."""
    best = 0.0
    for side in SIDES if device.type == "cpu" else LARGE:
        try:
            a, b = (torch.rand(side, side, device=device).to(dtype) for _ in range(2))
            out = torch.empty_like(a)
            seconds = _least(lambda: torch.mm(a, b, out=out), wait)  # noqa: B023 - it runs here
        except (RuntimeError, NotImplementedError) as error:
            raise UsageError(
                f"torch can't multiply matrices of {dtype} on {device}, so its peak can't be measured; name "
                "another type, as float32"
            ) from error
        best = max(best, 2 * side**3 / seconds)  # not a count: a rate
        if seconds > SECONDS:
            break
    return best


def _least(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of the fastest run."""
    work()
    wait()
    least, done, end = float("inf"), 0, time.perf_counter() + SECONDS
    while done < LEAST or time.perf_counter() < end:
        begun = time.perf_counter()
        work()
        wait()
        least = min(least, time.perf_counter() - begun)
        done += 1
    return least
