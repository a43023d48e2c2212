# SPDX-License-Identifier: Apache-2.0
"""What recording a training run costs: `make bench` prints these rows after the others.

CPU times of the thread that trains: so many plain steps, twice as many inside ``lamina.watch``, then plain
ones again, and the figure is the median of such ratios. It holds what it costs a program of one thread to
have another. Where a step is long, one in ten is recorded instead of one in a hundred. What is told is what
one recorded step in a hundred costs: the cost itself is too small for the ratio to show. From it follows what
the default rule costs, which records more steps at first. Steps of a tenth of
a millisecond move by a third of a per cent with where a process has its memory, so they are measured in
several processes.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch
from operators import Encoder, apart, cpu, step_of, torchvision_model, verdict
from torch import nn

import lamina
from lamina import _lamina

TRAINS = 3  # the kind of a call in train mode, with gradients
EVERY = 100
BAR = 1.01
GROWTH = 1024  # KiB
ROUNDS = 15
PROCESSES = 5  # where steps are short
LONG, SHORT = (2000, 1.01), (20_000, 1.02)  # of the default rule: over so many steps, the bar


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


# How to build it, its input, which step is seen, and how many make one side of a pair.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], int, int]] = {
    "an MLP of five layers": (tiny, lambda: torch.rand(16, 32), EVERY, 2 * EVERY),
    "resnet18 at 64x64": (lambda: torchvision_model("resnet18"), lambda: torch.rand(2, 3, 64, 64), 10, 20),
    "a small BERT": (Encoder, lambda: torch.randint(0, 1000, (2, 64)), 10, 20),
}


def resident() -> int:
    """KiB of this process."""
    words = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(words[1]) * 4


def pair(step: Callable[[], None], model: nn.Module, every: int, steps: int, file: Path) -> float:
    """What the loop takes when it is recorded, over what it takes otherwise, before and afterwards, so that
    a machine that grows slower evenly does not show; each once the interpreter has had time to get used to
    it, and the first recorded step has told the tree."""

    def loop() -> None:
        for _ in range(steps):
            step()

    loop()
    plain = cpu(loop)
    with lamina.watch(model, every=every, file=file):
        loop()
        watched = cpu(loop) + cpu(loop)
    loop()
    plain += cpu(loop)
    return 1 + (watched / plain - 1) * 2 * steps / EVERY / recorded(file, steps)


def recorded(file: Path, steps: int) -> int:
    """How many of the steps that were measured the newest run holds, which differs from loop to loop."""
    with closing(sqlite3.connect(file)) as db:
        found = "SELECT count(*) FROM steps JOIN models ON models.id = model WHERE number >= ?"
        newest = " AND run = (SELECT max(id) FROM runs)"
        (n,) = db.execute(found + newest, (steps,)).fetchone()
    assert n > 0, "no step of the loop was recorded"
    return int(n)


def by_default(steps: int) -> int:
    """How many of so many steps the default rule records."""
    schedule, n = _lamina.Schedule(0), 0
    for _ in range(steps):
        if not schedule.skip_call(TRAINS) and schedule.begin_step(TRAINS):
            schedule.end_step(True)  # noqa: FBT003 - a backward pass followed
            n += 1
    return n


def grown(model: nn.Module, step: Callable[[], None], file: Path) -> int:
    """KiB by which the process grows in 10,000 recorded steps."""
    with lamina.watch(model, every=EVERY, file=file):
        for _ in range(2000):
            step()
        before = resident()
        for _ in range(10_000):
            step()
        return resident() - before


def ratio_of(name: str, rounds: int | None) -> float:
    """The median of all pairs in this process."""
    build, make, every, steps = MODELS[name]
    torch.manual_seed(0)
    model = build().train()
    step = step_of(model, make())
    for _ in range(50 if every == EVERY else 3):
        step()
    pairs = (rounds or ROUNDS) * (6 if every == EVERY else 1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.lamina")
        pair(step, model, every, steps, file)
        return statistics.median(pair(step, model, every, steps, file) for _ in range(pairs))


def in_other_processes(name: str, rounds: int | None) -> list[float]:
    options = ["--model", name, "--alone", *(["--rounds", str(rounds)] if rounds else [])]
    command = [sys.executable, __file__, *options]
    return [
        float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        for _ in range(PROCESSES)
    ]


def model_row(name: str, rounds: int | None) -> bool:
    every = MODELS[name][2]
    ratios = in_other_processes(name, rounds) if every == EVERY else [ratio_of(name, rounds)]
    ratio = statistics.median(ratios)
    between = f"   {min(ratios):.4f} to {max(ratios):.4f} in {len(ratios)} processes" if ratios[1:] else ""
    print(f"  {name:<22} {ratio:7.4f}   bar {BAR:.2f}  {verdict(ratio, BAR)}{between}")
    steps, bar = SHORT if every == EVERY else LONG
    dense = 1 + (ratio - 1) * EVERY * by_default(steps) / steps
    print(
        f"    by the default rule  {dense:7.4f}   bar {bar:.2f}  {verdict(dense, bar)}   over {steps} steps"
    )
    return ratio <= BAR and dense <= bar


def rows(rounds: int | None = None) -> bool:
    """Prints every row; True when all bars hold."""
    print("\na training loop of which each 100th step is recorded, over a plain one (CPU time)")
    held = [apart(__file__, name, rounds) for name in MODELS]
    with tempfile.TemporaryDirectory() as folder:
        model = tiny()
        more = grown(model, step_of(model, torch.rand(16, 32)), Path(folder, "run.lamina"))
    held.append(more <= GROWTH)
    print(f"  memory in 10,000 steps {more:5d} KiB   bar {GROWTH} KiB  {verdict(more, GROWTH)}")
    return all(held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"pairs a row, instead of {ROUNDS}")
    parser.add_argument("--model", choices=MODELS, help="the row of this model alone")
    parser.add_argument("--alone", action="store_true", help="its ratio in this process, and nothing else")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.alone:
        print(ratio_of(options.model, options.rounds))
        return 0
    if options.model:
        return 0 if model_row(options.model, options.rounds) else 1
    return 0 if rows(options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
