# SPDX-License-Identifier: Apache-2.0
"""What measuring a training step costs: `make bench` prints these rows after the others.

CPU times of one thread: so many plain steps, then as many while the layers are timed, and the figure is the
median of the ratios of such pairs. Opening and closing the capture is told apart.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import torch
from operators import Encoder, Work, apart, cpu, step_of, torchvision_model, verdict
from torch import nn

import lamina

STEPS = 3  # of each kind in one pair
ROUNDS = 15
Watch = Callable[[nn.Module], AbstractContextManager[object]]
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], float]] = {
    "densenet121 at 64x64": (
        lambda: torchvision_model("densenet121"),
        lambda: torch.rand(2, 3, 64, 64),
        1.05,
    ),
    "a small BERT": (Encoder, lambda: torch.randint(0, 1000, (2, 64)), 1.10),
}


@contextmanager
def hooks(model: nn.Module) -> Iterator[None]:
    """What people write: a clock in hooks of every module, forward only."""
    begun: list[int] = []
    taken: list[int] = []
    handles = [
        handle
        for module in model.modules()
        for handle in (
            module.register_forward_pre_hook(lambda *_: begun.append(time.perf_counter_ns())),
            module.register_forward_hook(lambda *_: taken.append(time.perf_counter_ns() - begun.pop())),
        )
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def inspector(model: nn.Module) -> Iterator[None]:
    """What torch_inspector does, which no package index has: in hooks of every layer, forward and full
    backward, a clock, the process's resident memory, and isnan() of what came out."""
    page = resource.getpagesize()

    def note(_module: nn.Module, _inputs: object, out: object = None) -> None:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * page
        outs = out if isinstance(out, tuple) else (out,)
        tensors = [t for t in outs if isinstance(t, torch.Tensor) and t.is_floating_point()]
        bad = [bool(t.isnan().any()) for t in tensors]
        seen.append((time.perf_counter_ns(), resident, bad))

    seen: list[object] = []
    handles: list[torch.utils.hooks.RemovableHandle] = []
    for module in model.modules():
        handles.append(module.register_forward_pre_hook(note))
        handles.append(module.register_forward_hook(note))
        handles.append(module.register_full_backward_hook(note))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def deepspeed(model: nn.Module) -> Iterator[None]:
    """DeepSpeed's profiler: forward only, and no memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from deepspeed.profiling.flops_profiler import FlopsProfiler

        profile = FlopsProfiler(model)
        profile.start_profile()
    try:
        yield
    finally:
        profile.stop_profile()
        profile.end_profile()


@contextmanager
def profiler(_: nn.Module) -> Iterator[None]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True):
        yield


WAYS: dict[str, Watch] = {
    "time=True": lambda model: lamina.capture(model, ops=False, time=True),
    "time and memory": lambda model: lamina.capture(model, ops=False, time=True, memory=True),
    "and operators (the default)": lambda model: lamina.capture(model, time=True, memory=True),
    "hooks (forward only)": hooks,
    "torch.profiler, memory too": profiler,
    "DeepSpeed's profiler": deepspeed,
    "as torch_inspector": inspector,
}


class Grown(nn.Module):
    """10,000 layers in a tree, and what is around them."""

    def __init__(self, levels: int = 4) -> None:
        super().__init__()
        for i in range(10 if levels else 0):
            self.add_module(str(i), Grown(levels - 1))
        if not levels:
            self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for child in self._modules.values():
            x = child(x)
        return x * self.weight if self._parameters else x


def writing(rounds: int | None = None) -> bool:
    """The JSON of 10,000 layers over orjson writing the same; True where the bar holds."""
    try:
        import orjson
    except ImportError:
        print("\norjson is missing: pip install orjson")
        return True
    model = Grown()
    with lamina.InspectorGadgets(model) as gadgets:
        model(torch.rand(2, 4)).sum().backward()
    seen, layers = gadgets._captures[0]._model, gadgets.layers[0]
    assert seen is not None
    with lamina.capture(model, ops=False, time=True, memory=True) as watch:
        model(torch.rand(2, 4)).sum().backward()
    report = watch.report()
    told = json.loads(report.to_json())
    ways: dict[str, tuple[Work, Work]] = {
        "report.to_json()": (report.to_json, lambda: orjson.dumps(told).decode()),
        "InspectorGadgets, indented": (
            seen.gadgets,
            lambda: orjson.dumps(layers, option=orjson.OPT_INDENT_2),
        ),
    }
    print("\nJSON of 10,000 layers, over orjson writing the same (CPU time)")
    held = []
    for name, (ours, theirs) in ways.items():
        ours()
        pairs = [(cpu(ours), cpu(theirs)) for _ in range(rounds or ROUNDS)]
        ratio = statistics.median(mine / other for mine, other in pairs)
        took = statistics.median(mine for mine, _ in pairs) * 1e3
        held.append(ratio <= 1.0)
        print(f"  {name:<26} {ratio:6.3f}   {took:6.1f} ms   bar 1.00  {verdict(ratio, 1.0)}")
    return all(held)


def pair(step: Callable[[], None], watch: AbstractContextManager[object]) -> tuple[float, float, float]:
    """CPU seconds of plain steps, of watched ones, and of opening and closing."""

    def steps() -> None:
        for _ in range(STEPS):
            step()

    plain = cpu(steps)
    whole = time.thread_time()
    with watch:
        watched = cpu(steps)
    return plain, watched, time.thread_time() - whole - watched


def each_step(name: str, model: nn.Module, step: Callable[[], None], bar: float, rounds: int) -> bool:
    """Time and memory where a capture is opened and closed for every step; True where the bar holds."""

    def watched() -> None:
        with lamina.capture(model, ops=False, time=True, memory=True):
            step()

    watched()
    ratio = statistics.median(1 / cpu(step) * cpu(watched) for _ in range(rounds))
    print(
        f"  {name:<21} {'time and memory, each step':<27} {ratio:6.3f}   opened and closed too"
        f"   bar {bar:.2f}  {verdict(ratio, bar)}"
    )
    return ratio <= bar


def model_rows(name: str, rounds: int | None) -> bool:
    """Prints the rows of one model; True when its bars hold."""
    build, make, bar = MODELS[name]
    torch.manual_seed(0)
    model, x = build().train(), make()
    step = step_of(model, x)
    for _ in range(3):
        step()
    held = [each_step(name, model, step, bar, rounds or 6 * ROUNDS)]
    for way, watch in WAYS.items():
        try:
            pair(step, watch(model))
            found = [pair(step, watch(model)) for _ in range(rounds or ROUNDS)]
        except (ImportError, RuntimeError) as problem:
            print(f"  {name:<21} {way:<27} {type(problem).__name__}: {str(problem).splitlines()[0][:70]}")
            continue
        ratio = statistics.median(watched / plain for plain, watched, _ in found)
        extra = statistics.median(other for *_, other in found) * 1e3
        ours = way.startswith("time")
        held += [ratio <= bar] if ours else []
        bars = f"bar {bar:.2f}  {verdict(ratio, bar)}" if ours else ""
        print(f"  {name:<21} {way:<27} {ratio:6.3f}   and {extra:6.1f} ms once   {bars}")
    return all(held)


def rows(rounds: int | None = None) -> bool:
    """Prints every row; True when all bars hold."""
    print("\ntraining steps that are timed layer by layer, over plain ones (CPU time)")
    held = [apart(__file__, name, rounds) for name in MODELS]
    held.append(writing(rounds))
    return all(held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"pairs a row, instead of {ROUNDS}")
    parser.add_argument("--model", choices=MODELS, help="the rows of this model alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.model:
        return 0 if model_rows(options.model, options.rounds) else 1
    return 0 if rows(options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
