# SPDX-License-Identifier: Apache-2.0
"""Recordings of the ranks of a run, made up: each step all wait for the last rank, and then for the transfer.
The tables are those of a real recording; its steps are replaced."""

from __future__ import annotations

import shutil
import sqlite3
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

EPOCH_S = 1_764_547_200  # 2025-12-01 00:00 UTC
SHARES = {"input": 0.01, "h2d": 0.005, "forward": 0.28, "backward": 0.55, "optimizer": 0.04, "other": 0.015}
NAMES = {"forward": "own_forward", "backward": "own_backward"}
LAYERS = 3  # 0 is the root


@cache
def template() -> Path:
    """A recording by lamina of a model of two layers."""
    import torch

    import lamina

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    file = Path(mkdtemp()) / "run.lamina"
    with lamina.watch(model, file=str(file)):
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
    return file


def noise(*of: int) -> float:
    """From -1 to 1."""
    mixed = 7
    for k in of:
        mixed = (mixed * 7919 + k + 11) * 2_654_435_761 % 1_000_003
    return mixed / 500_001.5 - 1


def make(
    folder: Path,
    *,
    ranks: int = 4,
    per_node: int = 2,
    steps: int = 60,
    first: int = 0,
    every: int = 10,
    step_ms: float = 100,
    transfer_ms: float = 5,
    slow: int = -1,
    phase: str = "forward",
    more_ms: float = 20,
    began_s: float = EPOCH_S,
    ended: bool = True,
    only: tuple[int, ...] | None = None,
    waits: bool = True,
    job: str | None = "job-7",
    odd: tuple[int, int] | None = None,
    attempt: int | None = None,
) -> list[str]:
    """Writes run.RANK.lamina for each rank and returns their names. Steps ``first`` to ``steps`` of the
    recorded ones are there; ``slow`` is the rank that takes ``more_ms`` longer in ``phase``;
    ``odd`` a rank that begins a collective less than the others from a recorded step on;
    ``attempt`` which start of the job it is, from 1."""
    folder.mkdir(parents=True, exist_ok=True)
    work = [[_phases(r, k, step_ms, slow, phase, more_ms) for k in range(steps)] for r in range(ranks)]
    files = []
    for rank in range(ranks) if only is None else only:
        file = folder / f"run.{rank}.lamina"
        shutil.copy(template(), file)
        db = sqlite3.connect(file)
        model = db.execute("SELECT id FROM models").fetchone()[0]
        for table in ("layers", "work", "steps"):
            db.execute(f"DELETE FROM {table}")
        for k in range(first, steps):
            latest = max(sum(work[r][k].values()) for r in range(ranks))
            _put(db, model, k, every, work[rank][k], latest + transfer_ms, began_s, step_ms, waits)
            less = odd is not None and rank == odd[0] and k >= odd[1]
            db.execute(
                "UPDATE steps SET collectives = ?, collectives_hash = ? WHERE number = ?",
                (41 if less else 42, 11 if less else 7, k * every),
            )
        end = int((began_s + steps * every * step_ms / 1e3) * 1e9)
        db.execute(
            "UPDATE runs SET rank = ?, world = ?, host = ?, pid = ?, every = ?, started_unix_ns = ?,"
            " seen_unix_ns = ?, ended_unix_ns = ?, ended_by = ?, job = ?, calls = ?, attempt = ?",
            (
                rank,
                ranks,
                f"n{rank // per_node}",
                2_000_000_000 + rank,
                every,
                int(began_s * 1e9),
                end,
                end if ended else None,
                "end" if ended else None,
                job,
                steps * every,
                attempt,
            ),
        )
        db.commit()
        db.close()
        files.append(str(file))
    return files


def _phases(rank: int, k: int, step_ms: float, slow: int, phase: str, more_ms: float) -> dict[str, float]:
    of = {
        name: step_ms * share * (1 + 0.004 * noise(rank, k, i))
        for i, (name, share) in enumerate(SHARES.items())
    }
    of[phase] += more_ms if rank == slow else 0
    return of


def _put(
    db: Any, model: int, k: int, every: int, own: dict[str, float], whole: float, began_s: float,
    step_ms: float, waits: bool,
) -> None:  # fmt: skip
    started = int((began_s + k * every * step_ms / 1e3) * 1e9)
    ns = {NAMES.get(name, name) + "_ns": round(ms * 1e6) for name, ms in own.items()}
    ns["whole_ns"] = round(whole * 1e6)
    wait = ns["whole_ns"] - sum(v for name, v in ns.items() if name != "whole_ns")
    ns["wait_ns"] = wait
    if not waits:
        ns["other_ns"] += wait
        del ns["wait_ns"]
    more = {"forward_ns": ns["own_forward_ns"], "backward_ns": ns["own_backward_ns"]} | ns
    row = {
        "model": model, "number": k * every, "training": 1, "started_unix_ns": started, "started_ns": started,
        "calls": 1, "failed": 0, "looked": 0, "gradients": 1, "compiled": 0,
    } | more  # fmt: skip
    names = ", ".join(row)
    step = db.execute(
        f"INSERT INTO steps ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values())
    ).lastrowid
    for place in range(LAYERS):
        share = (0.1, 0.6, 0.3)[place]
        db.execute(
            "INSERT INTO layers (step, place, calls, forward_ns, forward_self_ns, backward_ns)"
            " VALUES (?, ?, 1, ?, ?, ?)",
            (
                step,
                place,
                ns["own_forward_ns"],
                round(ns["own_forward_ns"] * share),
                round(ns["own_backward_ns"] * share),
            ),
        )
