# SPDX-License-Identifier: Apache-2.0
"""What a look at a model costs: `make bench` prints ratios to one plain forward, with the bars to hold.

Every run of a tool is paired with a plain forward just before it, tools take turns, and the figure is the
median of the ratios of the pairs' CPU times; one process, one thread. A tool that is missing or fails on a
model is named and skipped.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import io
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import health
import json_reader
import measured
import operators
import page
import tokens
import torch
import watching
from torch import nn

import lamina
from lamina import _lamina

Tool = Callable[[nn.Module, torch.Tensor], object]


class Case(NamedTuple):
    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    rounds: int
    bar: float


class Node(nn.Module):
    """An empty module: calls its children, returns its input."""

    def __init__(self, levels: int, width: int = 4) -> None:
        super().__init__()
        for i in range(width if levels > 1 else 0):
            self.add_module(str(i), Node(levels - 1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for child in self._modules.values():  # .children() would cost more than the calls
            child(x)
        return x


def tree() -> nn.Module:
    """1,367 modules: a full tree of 4 children and 6 levels (1,365), one leaf beside it, and the root."""
    root = Node(1)
    root.add_module("tree", Node(6))
    root.add_module("leaf", Node(1))
    return root


def torchvision_model(name: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import torchvision

        return getattr(torchvision.models, name)(weights=None)

    return build


CASES = [
    Case("resnet18", torchvision_model("resnet18"), (1, 3, 224, 224), 75, 1.06),
    Case("densenet121", torchvision_model("densenet121"), (1, 3, 224, 224), 15, 1.06),
    Case("mobilenet_v3_small", torchvision_model("mobilenet_v3_small"), (1, 3, 224, 224), 75, 1.35),
    Case("tree of 1,367", tree, (1, 1), 25, 3.0),
]
CAPTURE_BAR_NS = 300
DISPATCH_BAR_NS = 10000  # its class is in Python, and few builds of torch need it
IMPORT_BAR_MS = 50
DRY_BAR_MS = 15


# -- the tools ---------------------------------------------------------------------------------------------


def by_lamina(model: nn.Module, x: torch.Tensor) -> object:
    return lamina.inspect(model, (x,))


def by_torchscan(model: nn.Module, x: torch.Tensor) -> object:
    import torchscan

    return torchscan.crawl_module(model, tuple(x.shape[1:]))


def by_torchinfo(model: nn.Module, x: torch.Tensor) -> object:
    import torchinfo

    return torchinfo.summary(model, input_data=x, verbose=0, cache_forward_pass=False)


def by_thoplw(model: nn.Module, x: torch.Tensor) -> object:
    import thoplw

    return thoplw.profile(model, x, verbose=False)


def by_ptflops(model: nn.Module, x: torch.Tensor) -> object:
    import ptflops

    return ptflops.get_model_complexity_info(
        model, tuple(x.shape[1:]), as_strings=False, print_per_layer_stat=False, verbose=False
    )


TOOLS: dict[str, Tool] = {
    "lamina.inspect": by_lamina,
    "torchscan 0.2.0": by_torchscan,
    "torchinfo": by_torchinfo,
    "thoplw": by_thoplw,
    "ptflops": by_ptflops,
}
# thoplw leaves its hooks on the model, so each of its runs gets a fresh copy; copying is not timed.
NEEDS_COPY = {"thoplw", "ptflops"}


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def forward(model: nn.Module, x: torch.Tensor) -> object:
    with torch.no_grad():
        return model(x)


def usable(model: nn.Module, x: torch.Tensor) -> dict[str, str]:
    """Why a tool can't take part, by tool; a first run of each also warms it up."""
    why = {}
    for name, tool in TOOLS.items():
        try:
            tool(copy.deepcopy(model), x)
        except ImportError:
            why[name] = "not installed"
        except Exception as problem:
            why[name] = f"{type(problem).__name__}: {problem}".splitlines()[0][:60]
    return why


def ratios(case: Case, rounds: int) -> tuple[float, dict[str, float], dict[str, str]]:
    """Seconds of CPU time of a plain forward, the median ratio a tool, and why a tool has none."""
    torch.manual_seed(0)
    model = case.build().eval()
    x = torch.rand(case.shape)
    skipped = usable(model, x)
    names = [name for name in TOOLS if name not in skipped]
    plain: list[float] = []
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            target = copy.deepcopy(model) if name in NEEDS_COPY else model
            forward(target, x)
            base = operators.cpu(lambda target=target: forward(target, x))
            # As the forward before it, a tool runs once to be warm: the one before it left other things in
            # the caches.
            TOOLS[name](copy.deepcopy(model) if name in NEEDS_COPY else model, x)
            taken = operators.cpu(lambda name=name, target=target: TOOLS[name](target, x))
            plain.append(base)
            found[name].append(taken / base)
            del target
        gc.collect()
    return statistics.median(plain), {name: statistics.median(v) for name, v in found.items()}, skipped


def capture_ns(repeats: int = 40) -> float:
    """Nanoseconds that an open capture adds to one module call, on the tree of empty modules."""
    model, x = tree().eval(), torch.rand(1, 1)
    calls = sum(1 for _ in model.modules())
    extra = []
    for _ in range(repeats):
        forward(model, x)
        base = min(timed(lambda: forward(model, x)) for _ in range(3))
        with lamina.capture(model, ops=False):
            seen = min(timed(lambda: forward(model, x)) for _ in range(3))
        extra.append((seen - base) / calls * 1e9)
    return statistics.median(extra)


def dispatch_ns(repeats: int = 20, runs: int = 100) -> float:
    """Nanoseconds that a capture through torch's dispatch mode adds to one small operator."""
    a, b = torch.ones(4, 4), torch.ones(4, 4)

    def work() -> None:
        for _ in range(runs):
            torch.add(a, b)
            torch.mm(a, b)

    extra = []
    for _ in range(repeats):
        work()
        base = min(timed(work) for _ in range(5))
        watch = _lamina.Capture(nn.Identity(), ops=True, dispatch="")
        watch.start()
        try:
            seen = min(timed(work) for _ in range(5))
        finally:
            watch.stop()
        extra.append((seen - base) / runs / 2 * 1e9)
    return statistics.median(extra)


def dry_ms(repeats: int = 15) -> tuple[float, float | None]:
    """Milliseconds of CPU time of a warm dry run of resnet50, and of torchinfo's real one beside it."""
    model, x = torchvision_model("resnet50")().eval(), torch.rand(1, 3, 224, 224)

    def least(work: Callable[[], object]) -> float:
        work()
        taken = []
        for _ in range(repeats):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
        return min(taken) * 1e3

    dry = least(lambda: lamina.inspect(model, x, dry=True))
    try:
        return dry, least(lambda: by_torchinfo(model, x))
    except ImportError:
        return dry, None


IMPORT = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import lamina
bare = time.perf_counter() - start
for name in lamina.__all__:
    getattr(lamina, name)
taken = time.perf_counter() - start
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(bare * 1e3, taken * 1e3, ",".join(sorted(new - set(sys.stdlib_module_names) - {"lamina"})))
"""


def import_ms(repeats: int = 11) -> tuple[float, float, str]:
    """Milliseconds of `import lamina` in a new process, bare and with every public name; what else came."""
    command = [sys.executable, "-c", IMPORT]
    runs = [subprocess.run(command, text=True, capture_output=True, check=True) for _ in range(repeats)]
    told = [run.stdout.strip("\n").split(" ") for run in runs]
    bare, full = (statistics.median(float(words[i]) for words in told) for i in (0, 1))
    return bare, full, told[0][2]


def verdict(value: float, bar: float) -> str:
    return "ok" if value <= bar else "MISSED"


def report(case: Case, rounds: int) -> bool:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        plain, medians, skipped = ratios(case, rounds)
    print(f"\n{case.name}   one plain forward {plain * 1e3:.2f} ms, {rounds} rounds")
    for name in TOOLS:
        if name in skipped:
            print(f"  {name:<16} skipped: {skipped[name]}")
        elif name == "lamina.inspect":
            told = verdict(medians[name], case.bar)
            print(f"  {name:<16} {medians[name]:8.3f}   bar {case.bar:.2f}  {told}")
        else:
            print(f"  {name:<16} {medians[name]:8.3f}")
    return "lamina.inspect" in medians and medians["lamina.inspect"] <= case.bar


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help="rounds a model, instead of each model's own number")
    parser.add_argument("--first", action="store_true", help="the first rows alone: a look at each model")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(
        f"lamina {lamina.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}, one thread"
    )
    print("CPU time over one plain forward's (1.00 would cost nothing), median of interleaved pairs")
    busy = os.getloadavg()[0]
    if busy > 1:
        print(f"note: other programs run here (load {busy:.1f}), so figures are higher than they would be")
    held = [report(case, options.rounds or case.rounds) for case in CASES]
    if options.first:
        return 0 if all(held) else 1
    ns, mode_ns = capture_ns(), dispatch_ns()
    bare, full, others = import_ms()
    dry, beside = dry_ms()
    print(f"\ndry run of resnet50, CPU time {dry:6.1f} ms   bar {DRY_BAR_MS}  {verdict(dry, DRY_BAR_MS)}")
    print(f"torchinfo's real run of it   {'not installed' if beside is None else f'{beside:6.1f} ms'}")
    print(f"a module call under capture  {ns:6.0f} ns   bar {CAPTURE_BAR_NS}  {verdict(ns, CAPTURE_BAR_NS)}")
    told = verdict(mode_ns, DISPATCH_BAR_NS)
    print(f"an operator by dispatch mode {mode_ns:6.0f} ns   bar {DISPATCH_BAR_NS}  {told}")
    print(
        f"import lamina                {bare:6.1f} ms   bar {IMPORT_BAR_MS}  {verdict(bare, IMPORT_BAR_MS)}"
    )
    print(
        f"and every public name        {full:6.1f} ms   bar {IMPORT_BAR_MS}  {verdict(full, IMPORT_BAR_MS)}"
    )
    print(f"imports from outside the standard library: {others or 'none'}")
    held += [
        dry <= DRY_BAR_MS,
        ns <= CAPTURE_BAR_NS,
        mode_ns <= DISPATCH_BAR_NS,
        full <= IMPORT_BAR_MS,
        not others,
    ]
    held.append(operators.rows(options.rounds))
    held.append(measured.rows(options.rounds))
    held.append(health.rows(options.rounds))
    held.append(watching.rows(options.rounds))
    held.append(page.rows())
    held.append(json_reader.rows())
    held.append(tokens.rows(options.rounds))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
