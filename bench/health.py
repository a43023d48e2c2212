# SPDX-License-Identifier: Apache-2.0
"""What health=True costs: a training step, and a scan beside reading memory and torch.isfinite."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import lamina
from lamina import _lamina

STEP_BAR, READ_BAR, TORCH_BAR = 1.2, 0.8, 20
SIZES = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "256 MiB": 256 << 20}
TYPES = ("float64", "float32", "float16", "bfloat16", "float8_e5m2")

Step = Callable[[], object]


def densenet() -> tuple[nn.Module, Step]:
    import torchvision

    model, x = torchvision.models.densenet121(weights=None).train(), torch.rand(2, 3, 64, 64)
    return model, lambda: model(x).sum().backward()


def bert() -> tuple[nn.Module, Step]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, vocab_size=1000
    )
    model, ids = BertModel(config).train(), torch.randint(0, 1000, (4, 64))
    return model, lambda: model(ids).last_hidden_state.sum().backward()


def on_a_gpu() -> tuple[nn.Module, Step]:
    model, x = densenet()[0].cuda(), torch.rand(8, 3, 224, 224, device="cuda")

    def step() -> None:
        model(x).sum().backward()
        torch.cuda.synchronize()

    return model, step


CASES = {"densenet121 64x64": densenet, "a small BERT": bert}


def spent(work: Step) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def step_ratio(
    build: Callable[[], tuple[nn.Module, Step]], rounds: int, timed: Callable[[Step], float] = spent
) -> float:
    """Time of a training step under health=True over that of a plain one just before it, the median."""
    torch.manual_seed(0)
    model, step = build()
    step()
    found = []
    for _ in range(rounds):
        model.zero_grad()
        base = timed(step)
        model.zero_grad()
        with lamina.capture(model, ops=False, health=True):
            found.append(timed(step) / base)
    return statistics.median(found)


def took(work: Step, repeats: int) -> float:
    """Seconds of one of `repeats` runs in a row."""
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - start) / repeats


def scan_rates(tries: int = 9) -> tuple[dict[str, float], list[float]]:
    """By size and type the share of the speed of reading memory, and how many times as fast as torch.

    All three are tried in turn, so that whoever else uses the memory meanwhile hinders them alike; each
    counts with its least time.
    """
    find = ctypes.CDLL(None).memchr
    find.argtypes, find.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], ctypes.c_void_p
    shares, times = {}, []
    for size, n in SIZES.items():
        memory = torch.ones(n // 8, dtype=torch.float64)
        at, inner = memory.data_ptr(), max(1, (64 << 20) // n)
        for name in TYPES:
            kind = getattr(torch, name, None)
            if kind is None:
                continue
            numbers = memory.view(kind)
            args = (at, name, numbers.numel(), inner)
            found = [
                (
                    took(lambda at=at, n=n: find(at, 255, n), inner),
                    took(lambda args=args: _lamina.scan_values(*args), 1) / inner,
                    took(lambda x=numbers: torch.isfinite(x).all(), max(1, inner // 64)),
                )
                for _ in range(tries)
            ]
            read, scan, beside = (min(each) for each in zip(*found, strict=True))
            shares[f"{size} {name}"] = read / scan
            times.append(beside / scan)
            print(
                f"  {size:8} {name:12} {n / scan / 1e9:6.1f} GB/s   read {n / read / 1e9:6.1f} GB/s   "
                f"{beside / scan:7.0f} times torch.isfinite(x).all()"
            )
    return shares, times


def stats_rates(tries: int = 5) -> None:
    """Prints how fast the statistics of 64 MiB of each type are, beside the scan."""
    n = 64 << 20
    memory = torch.ones(n // 8, dtype=torch.float64)
    for name in TYPES:
        kind = getattr(torch, name, None)
        if kind is None:
            continue
        args = (memory.data_ptr(), name, memory.view(kind).numel(), 1)
        found = [
            [took(lambda args=args, of=of: _lamina.scan_values(*args, of), 1) for of in (False, True)]
            for _ in range(tries)
        ]
        scan, stats = (min(each) for each in zip(*found, strict=True))
        print(f"  {name:12} {n / stats / 1e9:6.1f} GB/s   the scan {n / scan / 1e9:6.1f} GB/s")


def rows(rounds: int | None) -> bool:
    """Prints what health=True costs; True where every bar holds."""
    held = []
    print("\nhealth=True, a training step (CPU time, ratio to a plain one)")
    for name, build in CASES.items():
        try:
            ratio = step_ratio(build, rounds or 15)
        except ImportError as problem:
            print(f"  {name:20} not installed: {problem.name}")
            continue
        held.append(ratio <= STEP_BAR)
        print(f"  {name:20} {ratio:5.2f}   bar {STEP_BAR}  {'ok' if held[-1] else 'MISSED'}")
    if torch.cuda.is_available():
        ratio = step_ratio(on_a_gpu, rounds or 15, lambda step: took(step, 1))
        print(f"  {'densenet121 on a GPU':20} {ratio:5.2f}   no bar, by the wall clock")
    print("the scan for NaN and Inf")
    shares, times = scan_rates()
    share = min(v for name, v in shares.items() if name.startswith("256 MiB"))
    held += [share >= READ_BAR, min(times) >= TORCH_BAR]
    print(f"  least share of reading 256 MiB {share:4.2f}   bar {READ_BAR}  {'ok' if held[-2] else 'MISSED'}")
    print(f"  least times torch {min(times):7.0f}          bar {TORCH_BAR}  {'ok' if held[-1] else 'MISSED'}")
    print("stats=True, of 64 MiB")
    stats_rates()
    return all(held)


if __name__ == "__main__":
    torch.set_num_threads(1)
    raise SystemExit(0 if rows(None) else 1)
