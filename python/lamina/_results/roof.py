# SPDX-License-Identifier: Apache-2.0
"""The peak performance of this machine with torch's threads: measured once and kept in a small file in the
user's cache folder."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    key = _key()
    path = _path(key)
    kept = None if again else _read(path, key)
    if kept is None:
        kept = _measure(key["threads"])
        _write(path, {"key": key, "flops": kept.flops, "bytes": kept.bytes})
    return kept


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


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


def _key() -> dict[str, Any]:
    torch: Any = sys.modules["torch"]
    return {
        "format": FORMAT,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
    }


def _path(key: dict[str, Any]) -> Path:
    from hashlib import sha256

    digest = sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~", ".cache"), "lamina", f"roof-{digest}.json")


def _read(path: Path, key: dict[str, Any]) -> Roof | None:
    try:
        record = json.loads(path.expanduser().read_text(encoding="utf-8"))
        if record["key"] == key and record["flops"] > 0 and record["bytes"] > 0:
            return Roof(float(record["flops"]), float(record["bytes"]), key["threads"])
    except (OSError, ValueError, RuntimeError, KeyError, TypeError):  # RuntimeError: there is no home folder
        pass
    return None


def _write(path: Path, record: dict[str, Any]) -> None:
    try:
        path = path.expanduser()
        part = path.with_suffix(f".{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(record), encoding="utf-8")
        part.replace(path)
    except (OSError, RuntimeError):
        return  # it can't be kept, so it is measured each time
