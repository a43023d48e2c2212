# SPDX-License-Identifier: Apache-2.0
"""Whom the verdict on many ranks names: `make bench-ranks` draws healthy runs and faulty ones (by
tests/ranked.py) and holds that nobody is named falsely, and that faults of 5 % of a step or more are named.

What counts as right is the exact set of ranks or nodes and the phase. A fault that costs less may be named or
not; it may never be somebody else's name.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import duckdb

import ranked
from lamina._ranks import Run

WHERE = {"backward": "compute", "forward": "compute"}
FAULTS = ("none", "rank", "rank", "two", "node", "died", "input", "slower", "network")
LEAST_RIGHT = 0.9  # of the faults that cost 5 % or more


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


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(argv)
    false, right, wanted, healthy = [], 0, 0, 0
    for seed in range(options.first, options.first + options.runs):
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
    print(f"{options.runs} runs: {len(false)} false names ({healthy} without a fault of a rank), "
          f"{right} of {wanted} faults right ({share:.0%}, at least {LEAST_RIGHT:.0%})")  # fmt: skip
    return 1 if false or share < LEAST_RIGHT else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
