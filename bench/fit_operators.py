# SPDX-License-Identifier: Apache-2.0
"""Predicted peaks of memory of lone operators against measured ones: a part of `make bench-fit`.

The operators and their arguments are torch's own samples for its tests (`op_db`), made larger, in each of
which the floating-point tensors are parameters, and lone convolutions made from a seed. A peak that is said
exactly is to be within 3 % of what torch's profiler counts of its CPU allocator; one that is said "at least"
or "roughly" names an operator.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

os.environ.setdefault("OMP_NUM_THREADS", "1")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "py"))

import torch
from lone import Lone, convolution
from torch import nn

BAR, FLOOR = 3.0, 256  # per cent, and bytes that don't matter: single numbers
LEAST, MOST = 4096, 1 << 25  # bytes of a sample
SIZES = {"XS": 8, "S": 36, "M": 64, "L": 96}
SAMPLES, SECONDS = 3, 20
CONVOLUTIONS = 60


def _samples_of_torch() -> list[Any]:
    """Torch's table of operators with samples; it imports a package that these don't need."""
    if "expecttest" not in sys.modules:
        stand_in = types.ModuleType("expecttest")
        vars(stand_in)["TestCase"] = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    for name, module in list(sys.modules.items()):
        if not name.startswith("torch.testing._internal"):
            continue
        if "S" in vars(module):
            vars(module).update({k: size for k, size in SIZES.items() if k in vars(module)})
    # Torch's tests copy the generator's state around an operator that draws.
    vars(sys.modules["torch.testing._utils"])["freeze_rng_state"] = contextlib.nullcontext
    return list(op_db)


def size_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        value = list(value.values())
    return sum(size_of(v) for v in value) if isinstance(value, (list, tuple)) else 0


def _is_plain(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.layout is torch.strided
    if isinstance(value, dict):
        value = list(value.values())
    return all(_is_plain(v) for v in value) if isinstance(value, (list, tuple)) else True


def shape_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{'x'.join(map(str, value.shape))}"
    if isinstance(value, (list, tuple)):
        return type(value)(shape_of(v) for v in value)
    return {k: shape_of(v) for k, v in value.items()} if isinstance(value, dict) else value


def samples(op: Any) -> Iterator[tuple[str, nn.Module]]:
    """A few of an operator's samples."""
    found = []
    given = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
    for at, sample in enumerate(given):
        if at == 60:
            break
        args = (sample.input, *sample.args)
        if LEAST <= size_of((args, sample.kwargs)) <= MOST and _is_plain((args, sample.kwargs)):
            found.append((args, dict(sample.kwargs)))
    step = max(len(found) // SAMPLES, 1)
    for args, kwargs in found[::step][:SAMPLES]:
        yield f"{shape_of(args)} {shape_of(kwargs) or ''}"[:90], Lone(op.op, args, kwargs)


class Slow(Exception):  # noqa: N818
    pass


def _too_long(*_: Any) -> NoReturn:
    raise Slow


class Sweep:
    """The rows that were printed."""

    def __init__(self, *, every: bool) -> None:
        self.every = every
        self.exact = self.said = 0
        self.wrong: list[str] = []
        self.skipped: dict[str, str] = {}

    def row(self, name: str, what: str, run: str, peak: Any, measured: int) -> None:
        off = 100 * (peak.bytes / measured - 1) if measured else 0.0
        why = peak.gap or peak.rough
        if why is None and abs(peak.bytes - measured) > max(BAR / 100 * measured, FLOOR):
            verdict = "WRONG"
            self.wrong.append(f"{name} {run} {off:+.1f} %")
        elif peak.gap is not None and peak.bytes > measured * (1 + BAR / 100) + FLOOR:
            verdict = "NOT A LOWER BOUND"
            self.wrong.append(f"{name} {run} at least, {off:+.1f} %")
        else:
            verdict = "ok" if why is None else f"said: {why}"
        self.exact += why is None
        self.said += why is not None
        if self.every or verdict not in ("ok",):
            print(
                f"{name:36} {run:7} {peak.bytes:>11} {measured:>11} {off:>+8.2f}%  {verdict}  {what}",
                flush=True,
            )

    def one(self, name: str, what: str, model: nn.Module, args: tuple[Any, ...]) -> None:
        """Predicts and measures a forward pass, and a step where there is one."""
        import allocated

        import lamina

        base = allocated.held(model, args, {})
        try:
            fit = lamina.fit(model, args, optimizer="sgd")
        except Exception as error:
            self.skipped[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
            return
        self.row(name, what, "forward", fit.forward, allocated.forward_peak(model, args, {}) + base)
        if fit.step is not None:
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
            self.row(name, what, "step", fit.step, allocated.step_peak(model, args, {}, optimizer) + base)
        else:
            self.skipped.setdefault(f"{name} step", str(fit.no_step))

    def guarded(self, name: str, what: str, model: nn.Module, args: tuple[Any, ...] = ()) -> None:
        """The same, or why not."""
        signal.alarm(SECONDS)
        try:
            self.one(name, what, model, args)
        except Slow:
            self.skipped[name] = f"takes more than {SECONDS} s"
        except Exception as error:
            self.skipped[name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:100]}"
        finally:
            signal.alarm(0)

    def close(self) -> bool:
        """Prints the sums; False where something is said exactly and is not."""
        for name, why in self.skipped.items():
            print(f"no row for {name}: {why}")
        for line in self.wrong:
            print(f"wrong: {line}")
        verdict = "MISSED" if self.wrong else "ok"
        print(
            f"lone operators: {self.exact} peaks said exactly, {self.said} with a reason, "
            f"{len(self.wrong)} off by more than {BAR:g} %  {verdict}"
        )
        return not self.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="prints every row")
    parser.add_argument("--part", default="0/1", help="operators i, i + n, ... of i/n")
    parser.add_argument("--convolutions", type=int, default=None, help="so many of these alone")
    parser.add_argument("operators", nargs="*", help="these operators only")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, _too_long)
    sweep = Sweep(every=given.all)
    torch.manual_seed(0)
    at, parts = map(int, given.part.split("/"))
    if given.convolutions is None:
        for op in _samples_of_torch()[at::parts]:
            name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
            if given.operators and op.name not in given.operators:
                continue
            if torch.float32 not in op.supported_dtypes("cpu") or "dynamic" in name:
                continue
            signal.alarm(SECONDS)
            try:
                found = list(samples(op))
            except BaseException as error:
                sweep.skipped[name] = f"{type(error).__name__}: {error}"[:100]
                continue
            finally:
                signal.alarm(0)
            for what, model in found:
                sweep.guarded(name, what, model)
    if not given.operators:
        for seed in range(at, CONVOLUTIONS if given.convolutions is None else given.convolutions, parts):
            what, net, x = convolution(seed)
            sweep.guarded("convolution", what, net, (x,))
    return 0 if sweep.close() else 1


if __name__ == "__main__":
    sys.exit(main())
