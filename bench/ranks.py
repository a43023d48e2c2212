# SPDX-License-Identifier: Apache-2.0
"""Whom the verdict on many ranks names: `make bench-ranks` draws healthy runs and faulty ones (by
tests/ranked.py) and holds that nobody is named falsely, and that faults of 5 % of a step or more are named.
Then it trains with 2, 4 and 8 processes on this machine (ranks_program.py): one of them is slow, is killed or
raises, or none does, and each of these has to be named and nobody else.

What counts as right is the exact set of ranks or nodes and the phase; of processes also the layer. A fault
that costs less may be named or not; it may never be somebody else's name.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import duckdb

import ranked
import warm
from lamina._ranks import Run

WHERE = {"backward": "compute", "forward": "compute"}
FAULTS = ("none", "rank", "rank", "two", "node", "died", "input", "slower", "network")
LEAST_RIGHT = 0.9  # of the faults that cost 5 % or more

# Of processes: the fault, and the verdict's kind, phase and layer.
PROGRAM = Path(__file__).with_name("ranks_program.py")
LAYER = {"ddp": "module.3", "fsdp": "3"}
REAL: dict[str, tuple[str, str | None, bool]] = {
    "loader": ("slow_rank", "input", False),
    "forward": ("slow_rank", "compute", True),
    "backward": ("slow_rank", "compute", True),
    "killed": ("died", None, False),
    "raises": ("died", None, False),
}
SHARE = 0.2  # of a step: how long a slow process sleeps
WORLDS = (2, 4, 8)


def drawn(seed: int) -> tuple[str, dict[str, Any], tuple[list[int], list[str], str | None]]:
    """A scenario: its kind, the arguments of ranked.make, and who has to be named, with the phase."""
    draw = random.Random(seed)
    ranks, kind = draw.choice((8, 16, 32, 64)), draw.choice(FAULTS)
    how: dict[str, Any] = {
        "ranks": ranks,
        "steps": draw.choice((48, 96, 200)),
        "seed": seed,
        "step_us": draw.choice((20_000, 100_000, 800_000)),
        "spread": draw.uniform(0.002, 0.03),
        "waits": draw.choice(("comm", "comm", "comm", "other")),
    }
    how["transfer_us"] = how["step_us"] * draw.uniform(0.05, 0.2)
    who = draw.sample(range(ranks), 2)
    phase = draw.choice(("backward", "forward", "input", "h2d", "optimizer"))
    more = {"phase": phase, "more_us": how["step_us"] * draw.uniform(0.08, 0.4)}
    nobody: tuple[list[int], list[str], str | None] = ([], [], None)
    if kind == "rank":
        more |= {"slow": f"rank = {who[0]}", "since": draw.randrange(how["steps"] // 2)}
        return kind, how | more, ([who[0]], [], WHERE.get(phase, phase))
    if kind == "two" and ranks > 8:
        more |= {"slow": f"rank IN ({who[0]}, {who[1]})"}
        return kind, how | more, (sorted(who), [], WHERE.get(phase, phase))
    if kind == "node" and ranks > 8:
        node = who[0] // 8
        more |= {"slow": f"rank // 8 = {node}"}
        return (
            kind,
            how | more,
            (list(range(8 * node, 8 * node + 8)), [f"n{node:02}"], WHERE.get(phase, phase)),
        )
    if kind == "died":
        how["ended"] = f"CASE WHEN rank = {who[0]} THEN '' ELSE 'DistBackendError' END"
        return kind, how, ([who[0]], [], None)
    if kind == "input":
        how["input_us"] = how["step_us"] * draw.uniform(0.2, 0.5)
    elif kind == "slower":
        how["grow"] = draw.uniform(1.1, 1.5)
    elif kind == "network":
        how["transfer_us"] = how["step_us"] * draw.uniform(0.5, 1)
    return kind, how, nobody


def judged(how: dict[str, Any]) -> dict[str, Any]:
    db = duckdb.connect()
    ranked.make(db, **how)
    tables = {"ranks": "all_ranks", "steps": "all_steps", "layers": "all_layers"}
    told: dict[str, Any] = Run(db, tables, "the run").judged().told()["verdict"]
    db.close()
    return told


def end_all(running: list[warm.Running]) -> None:
    for process in running:
        with suppress(ProcessLookupError):  # it ended a moment ago
            if not process.has_ended():
                os.kill(process.pid, signal.SIGTERM)


def trained(folder: str, world: int, *how: str) -> list[Path]:
    """The recordings of processes that train together. As a launcher does, it ends the others once one of
    them ended in another way than with 0."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(world), "TORCHELASTIC_RUN_ID": "bench"}
    file = f"{folder}/run.lamina"
    words: tuple[str | Path, ...] = ("-m", "lamina", "run", "--file", file, PROGRAM, folder, *how)
    running = [
        warm.start(*words, env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(world)
    ]
    done: dict[int, subprocess.CompletedProcess[str]] = {}
    while len(done) < world:
        time.sleep(0.05)
        for rank, process in enumerate(running):
            if rank not in done and process.has_ended():
                done[rank] = process.end()
                if done[rank].returncode:
                    end_all(running)
    return sorted(Path(folder).glob("run.*.lamina"))


def said_of(files: list[Path]) -> dict[str, Any]:
    """The verdict on recordings."""
    words = [sys.executable, "-m", "lamina", "show", "--json", *map(str, files)]
    told: dict[str, Any] = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)[
        "verdict"
    ]
    return told


def try_processes(runs: int, healthy: int) -> bool:
    """Trains with processes, `runs` of each fault and `healthy` without one. True: all is right."""
    plan = [(fault, i) for i in range(runs) for fault in REAL] + [("none", i) for i in range(healthy)]
    false, right = 0, dict.fromkeys((*REAL, "none"), 0)
    for fault, i in plan:
        world, kind = WORLDS[i % len(WORLDS)], ("ddp", "fsdp")[i % 2]
        who = (i + 1) % world
        with tempfile.TemporaryDirectory() as folder:
            said = said_of(trained(folder, world, kind, fault, str(who), str(SHARE)))
        found = (said["kind"], said["phase"], said["layer"])
        wanted, phase, layer = REAL.get(fault, ("", None, False))
        ok = found == (wanted, phase, LAYER[kind] if layer else None) and said["ranks"] == [who]
        ok = ok if fault != "none" else not said["ranks"]
        false += bool(set(said["ranks"]) - ({who} if fault != "none" else set()))
        right[fault] += ok
        mark = "right" if ok else "WRONG"
        print(
            f"{kind}, {world} processes, {fault} of {who}: {mark}: {found} {said['ranks']} {said['notes']}",
            flush=True,
        )
    load = os.getloadavg()[0]
    told = ", ".join(f"{fault} {n} of {runs if fault in REAL else healthy}" for fault, n in right.items())
    print(f"processes: {false} false names; {told}; load {load:.1f} on {os.cpu_count()} processors")
    return not false and sum(right.values()) == len(plan)


def try_made_up(first: int, runs: int) -> bool:
    """Judges runs that are made up, of these seeds. True: all is right."""
    false, right, wanted, healthy = [], 0, 0, 0
    for seed in range(first, first + runs):
        kind, how, (ranks, nodes, phase) = drawn(seed)
        found = judged(how)
        named = set(found["ranks"]) if found["kind"] != "slow_link" else {"link"}
        if named - set(ranks):
            false.append(seed)
            print(f"seed {seed}: {kind}: {found['kind']} {found['ranks']} {found['nodes']}, not {ranks}")
        if not ranks:
            healthy += 1
            continue
        if kind == "died" or found["gain"] >= 0.05 or not found["ranks"]:
            wanted += 1
            ok = (found["ranks"], found["nodes"], found["phase"]) == (ranks, nodes, phase)
            right += ok
            if not ok:
                print(
                    f"seed {seed}: {kind} {ranks} {phase}: {found['kind']} {found['ranks']} {found['phase']}"
                )
    share = right / wanted if wanted else 1
    print(f"{runs} runs: {len(false)} false names ({healthy} without a fault of a rank), "
          f"{right} of {wanted} faults right ({share:.0%}, at least {LEAST_RIGHT:.0%})")  # fmt: skip
    return not false and share >= LEAST_RIGHT


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=10, help="runs with processes, of each fault")
    options = parser.parse_args(argv)
    made_up = not options.runs or try_made_up(options.first, options.runs)
    real = not options.processes or try_processes(options.processes, max(1, options.processes // 2))
    return 0 if made_up and real else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
