# SPDX-License-Identifier: Apache-2.0
"""Predicted peaks of memory against measured ones: `make bench-fit` prints a row for each model and the bars.

Measured is what torch's profiler counts of its CPU allocator: a forward pass in eval mode with one example,
and the third of three training steps with two, in train mode, from gradients of ones. The error is that of
everything that is held (parameters, buffers, inputs, optimizer included); the one in brackets is of what lies
above parameters, buffers and inputs, where nothing can hide. Each model has a process of its own, as many at
a time as there are processors. What is not installed, and what no dry run can follow, is named and why.
Lone operators follow (fit_operators.py).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
MORE = Path(__file__).with_name("fit_models.json")
RUNS = ("eval", "sgd", "adam")
# Of these models also steps with optimizers whose step works with more memory.
MORE_RUNS = ("adafactor", "muon")
OF_MORE = {"tv_resnet34", "tv_vit_b_32", "hf_gpt2", "hf_t5", "ddp", "lstm", "unet"}
MEDIAN_BAR, WORST_BAR = 5.0, 15.0
STEPS_BAR = 5.0  # a prediction of a loop of a thousand cells takes at most so many of its training steps
ENOUGH = 40
# Built differently from what is measured here, or with values that decide what runs.
LEFT_OUT = {
    "script_module",
    "compiled_eager",
    "dataparallel",
    "data_dependent",
    "quantized_dynamic",
    "resnet50_meta",
}


def models() -> dict[str, tuple[str, str, str]]:
    """Expressions of every model, its arguments and its keyword arguments."""
    return {
        model["name"]: (model["build"], model["args"], model["kwargs"])
        for file in (DATA / "truth.json", MORE)
        for model in json.loads(file.read_text())
        if model["name"] not in LEFT_OUT
    }


def doubled(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return torch.cat([value, value]) if value.dim() else value
    if isinstance(value, (list, tuple)):
        return type(value)(doubled(item) for item in value)
    return {k: doubled(v) for k, v in value.items()} if isinstance(value, dict) else value


def build(name: str, *, twice: bool) -> tuple[Any, Any, Any]:
    import corpus_nets
    import fit_models
    import torch

    torch.manual_seed(0)
    more = {model["name"] for model in json.loads(MORE.read_text())}
    names = vars(fit_models if name in more else corpus_nets)
    model, args, kwargs = (eval(text, names) for text in models()[name])
    return (model, doubled(args), doubled(kwargs)) if twice else (model, args, kwargs)


def muon(parameters: list[Any]) -> list[Any]:
    """Muon takes matrices alone."""
    import torch

    matrices = [p for p in parameters if p.dim() == 2]
    others = [p for p in parameters if p.dim() != 2]
    return [torch.optim.Muon(matrices, lr=1e-6), torch.optim.AdamW(others, lr=1e-6)]


class Together:
    """Several optimizers that step one after another."""

    def __init__(self, every: list[Any]) -> None:
        self.every = every
        self.state: dict[Any, Any] = {}

    def zero_grad(self) -> None:
        for each in self.every:
            each.zero_grad()

    def step(self) -> None:
        for each in self.every:
            each.step()
            self.state.update(each.state)


def optimizer_of(run: str, parameters: list[Any]) -> Any:
    import torch

    if run == "muon":
        return Together(muon(parameters))
    names = {"adam": "Adam", "adafactor": "Adafactor"}
    return getattr(torch.optim, names.get(run, "SGD"))(parameters, lr=1e-6)


def in_buckets(model: Any) -> int:
    """Bytes of the buckets of DistributedDataParallel, which there are before a step."""
    if not hasattr(model, "reducer"):
        return 0
    return sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)


def one(name: str, run: str) -> dict[str, Any]:
    """One model in one way: bytes predicted, measured and there before, and seconds of the prediction."""
    import allocated

    import lamina

    model, args, kwargs = build(name, twice=run != "eval")
    base = allocated.held(model, args, kwargs) + in_buckets(model)
    start = time.process_time()
    fit = lamina.fit(model, args, kwargs, optimizer={"eval": "sgd", "muon": muon}.get(run, run))
    seconds = time.process_time() - start
    if run == "eval":
        peak, measured = fit.forward, allocated.forward_peak(model, args, kwargs)
    else:
        if fit.step is None:
            return {"skipped": fit.no_step}
        peak, optimizer = fit.step, optimizer_of(run, list(model.parameters()))
        measured = allocated.step_peak(model, args, kwargs, optimizer)
    return {"predicted": int(peak.bytes), "measured": measured + base, "base": base, "seconds": seconds}


def asked(name: str) -> dict[str, dict[str, Any]]:
    """All runs of one model, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--one", name], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    told = done.stderr.strip().splitlines() or ["nothing"]
    return {run: {"skipped": told[-1][:100]} for run in RUNS}


def loop() -> bool:
    """Prints how many training steps of a loop of small cells its prediction takes; False above the bar."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--loop"], text=True, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        return False
    steps = float(done.stdout)
    ok = steps <= STEPS_BAR
    label = "a loop of 1,000 cells"
    print(f"{label:34} {steps:.1f} training steps (bar {STEPS_BAR:g})  {'ok' if ok else 'MISSED'}")
    return ok


def steps_of_loop() -> float:
    import fit_models
    import torch

    import lamina

    model, x = fit_models.Loop(), torch.rand(2, 8)

    def seconds(work: Any) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    def step() -> None:
        model(x).sum().backward()

    step()
    lamina.fit(torch.nn.Linear(8, 8), x)  # what a first prediction sets up
    return seconds(lambda: lamina.fit(model, x)) / min(seconds(step) for _ in range(5))


def all_runs(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for run in (*RUNS, *MORE_RUNS) if name in OF_MORE else RUNS:
        try:
            found[run] = one(name, run)
        except Exception as error:
            found[run] = {"skipped": f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"}
    return found


def per_cent(a: float, b: float) -> float:
    return 100 * (a / b - 1) if b else 0.0


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def tell(label: str, errors: list[float]) -> bool:
    middle, worst = statistics.median(errors), percentile(errors, 0.95)
    ok = middle <= MEDIAN_BAR and worst <= WORST_BAR
    bars = f"median {middle:.2f} % (bar {MEDIAN_BAR:g}), 95th percentile {worst:.2f} % (bar {WORST_BAR:g})"
    verdict = "ok" if ok else "MISSED"
    print(f"{label:34} {bars}, worst {max(errors):.2f} %, {len(errors)} runs  {verdict}")
    return ok


class Table:
    """The rows that were printed, and what is left out of them."""

    def __init__(self) -> None:
        self.total: dict[str, list[float]] = {run: [] for run in (*RUNS, *MORE_RUNS)}
        self.above: list[float] = []
        self.skipped: list[str] = []
        self.models: set[str] = set()
        head = f"{'model':28} {'run':9} {'predicted':>12} {'measured':>12}  {'error':>8} {'(above)':>10}"
        print(f"{head}  seconds")

    def put(self, name: str, run: str, row: dict[str, Any]) -> None:
        if "skipped" in row:
            self.skipped.append(f"{name} {run}: {row['skipped']}")
            return
        off = per_cent(row["predicted"], row["measured"])
        over = per_cent(row["predicted"] - row["base"], row["measured"] - row["base"])
        self.total[run].append(abs(off))
        self.above.append(abs(over))
        self.models.add(name)
        print(
            f"{name:28} {run:9} {row['predicted']:>12} {row['measured']:>12}  {off:>+7.2f}%"
            f" {over:>+8.2f}%  {row['seconds']:.2f}",
            flush=True,
        )

    def close(self) -> bool:
        """Prints the sums; False where there is nothing, or a bar is missed."""
        for line in self.skipped:
            print(f"no row for {line}")
        every = [error for errors in self.total.values() for error in errors]
        if not every:
            return False
        ok = tell(f"all that is held, {len(self.models)} models", every)
        for run, errors in self.total.items():
            ok = tell(f"  {run}", errors) and ok if errors else ok
        return tell("above parameters, buffers, inputs", self.above) and ok


def operators(jobs: int) -> bool:
    """Prints the rows of lone operators that are off; True where none is said exactly and is off."""
    file = str(Path(__file__).with_name("fit_operators.py"))
    parts = [[sys.executable, "-W", "ignore", file, "--part", f"{part}/{jobs}"] for part in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        done = list(pool.map(lambda part: subprocess.run(part, text=True, stdout=subprocess.PIPE), parts))
    for each in done:
        sys.stdout.write(each.stdout)
    return all(each.returncode == 0 for each in done)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="one model, as JSON")
    parser.add_argument("--loop", action="store_true", help="the steps that the loop's prediction takes")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4), help="models at a time")
    parser.add_argument("models", nargs="*", help="these models only")
    given = parser.parse_args()
    if given.one:
        warnings.filterwarnings("ignore")
        print(json.dumps(all_runs(given.one)))
        return 0
    if given.loop:
        print(steps_of_loop())
        return 0
    began, table, names = time.monotonic(), Table(), given.models or list(models())
    with ThreadPoolExecutor(given.jobs) as pool:
        for name, rows in zip(names, pool.map(asked, names), strict=True):
            for run, row in rows.items():
                table.put(name, run, row)
    ok = table.close()
    if not given.models:
        ok = loop() and ok
        ok = operators(given.jobs) and ok
    print(f"{time.monotonic() - began:.0f} s")
    return 0 if ok and (given.models or len(table.models) >= ENOUGH) else 1


if __name__ == "__main__":
    sys.exit(main())
