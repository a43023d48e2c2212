# SPDX-License-Identifier: Apache-2.0
"""A run of many ranks, made up, as the tables of its folder: each step all wait for the last rank, and then
for the transfer. The same arguments give the same numbers, whatever the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PHASES = ("input", "h2d", "forward", "backward", "optimizer", "other")
SHARES = (0.01, 0.005, 0.28, 0.55, 0.04, 0.015)
EPOCH = 1_764_547_200_000_000  # 2025-12-01 00:00 UTC
LAYERS = ("blocks.0.attn", "blocks.0.mlp", "blocks.1.mlp", "head")


def noise(what: int, seed: int) -> str:
    """From -1 to 1, as SQL over rank and step."""
    whole = f"CAST({seed} AS BIGINT) * 32452843 + {what + 1} * 15485863"
    mixed = f"((rank + 1) * 7919 + (step + 3) * 104729 + {whole})"
    return f"(({mixed} % 1000003 * 2654435761 % 1000003) / 500001.5 - 1)"


def make(
    db: Any,
    *,
    ranks: int = 16,
    per_node: int = 8,
    steps: int = 96,
    step_us: float = 100_000,
    transfer_us: float = 12_000,
    spread: float = 0.004,
    seed: int = 1,
    slow: str = "false",
    phase: str = "backward",
    more_us: float = 0,
    since: int = 0,
    layer: str | None = None,
    grow: float = 1,
    input_us: float = 0,
    waits: str = "comm",
    missing: str = "false",
    world: int | None = None,
    ended: str = "NULL",
    starved_us: str = "NULL",
) -> None:
    """Makes the tables all_ranks, all_steps and all_layers. ``slow`` and ``missing`` are conditions of SQL
    over rank and node: who is slow in ``phase`` from step number ``since`` on, and who has no recording;
    ``ended`` gives what ended a rank, by rank, and ``starved_us`` how long it waits for a processor."""
    terms = []
    for k, (name, share) in enumerate(zip(PHASES, SHARES, strict=True)):
        text = f"{step_us * share} * (1 + {spread} * {noise(k, seed)})"
        if grow != 1:
            text = f"({text}) * CASE WHEN step >= {steps // 2} THEN {grow} ELSE 1 END"
        if name == "input" and input_us:
            text += f" + {input_us}"
        if name == phase and more_us:
            text += f" + CASE WHEN ({slow}) AND step >= {since} THEN {more_us} ELSE 0 END"
        terms.append(f"CAST({text} AS INTEGER) AS {name}_us")
    db.execute(f"""CREATE OR REPLACE TABLE drawn AS
        SELECT *, {" + ".join(f"{name}_us" for name in PHASES)} AS own_us FROM (
            SELECT rank, node, step, {", ".join(terms)} FROM (
                SELECT r.range AS rank, 'n' || lpad(CAST(r.range // {per_node} AS VARCHAR), 2, '0') AS node,
                       s.range AS step FROM range({ranks}) r, range({steps}) s))""")
    apart = waits == "comm"
    db.execute(f"""CREATE OR REPLACE TABLE all_steps AS
        SELECT 0 AS attempt, rank, node, step * 100 AS step,
               {EPOCH} + step * 100 * {int(step_us)} AS started_us,
               CAST(latest + {transfer_us} AS INTEGER) AS step_us, {", ".join(f"{n}_us" for n in PHASES[:5])},
               CAST(other_us + {0 if apart else 1} * waited_us AS INTEGER) AS other_us,
               CAST({"waited_us" if apart else "NULL"} AS INTEGER) AS comm_us,
               CAST(NULL AS INTEGER) AS comm_group_us, CAST({starved_us} AS DOUBLE) AS processor_us
        FROM (SELECT *, latest + {transfer_us} - own_us AS waited_us FROM (
            SELECT *, MAX(own_us) OVER (PARTITION BY step) AS latest FROM drawn)) WHERE NOT ({missing})""")
    last = EPOCH + steps * 100 * int(step_us)
    db.execute(f"""CREATE OR REPLACE TABLE all_ranks AS
        SELECT DISTINCT 'job' AS run, 0 AS attempt, rank, {world or ranks} AS world, node,
               CAST(7 AS BIGINT) AS tree, CAST(NULL AS INTEGER) AS comm_group,
               CAST({EPOCH} AS BIGINT) AS started_us,
               CAST({last} AS BIGINT) AS seen_us,
               CASE WHEN ({ended}) IS NULL THEN CAST({last} AS BIGINT) END AS ended_us,
               NULLIF({ended}, '') AS ended_by, 'call ' || {steps * 100} || ' of Net' AS ran_last,
               {steps * 100} AS calls, 100 AS every, '{waits}' AS waits,
               CAST(4e12 AS DOUBLE) AS step_flops, CAST(1e14 AS DOUBLE) AS peak_flops
        FROM drawn WHERE NOT ({missing})""")
    slower = f"CASE WHEN ({slow}) AND layer = '{layer}' THEN {more_us} ELSE 0 END" if layer else "0"
    db.execute(f"""CREATE OR REPLACE TABLE all_layers AS
        SELECT rank, node, {EPOCH} // 3600000000 + h.range AS hour, layer, 10 AS n,
               CAST({step_us / 12} AS REAL) AS forward_us,
               CAST({step_us / 6} + {slower} AS REAL) AS backward_us
        FROM (SELECT DISTINCT rank, node FROM drawn WHERE NOT ({missing})), range(3) h,
             (SELECT UNNEST({list(LAYERS)!r}) AS layer)""")


def write(folder: Path, *, layers: bool = True, **how: Any) -> Path:
    """Writes the tables as a trace of a simulator has them: ranks, steps by node and day, layers."""
    import duckdb

    db = duckdb.connect()
    make(db, **how)
    (folder / "ranks").mkdir(parents=True)
    db.execute(f"COPY all_ranks TO '{folder}/ranks/ranks.parquet' (FORMAT parquet)")
    for name in ("steps", "layers") if layers else ("steps",):
        day = folder / name / "day=2025-12-01"
        day.mkdir(parents=True)
        for (node,) in db.execute("SELECT DISTINCT node FROM all_ranks ORDER BY node").fetchall():
            db.execute(
                f"COPY (SELECT * EXCLUDE (node) FROM all_{name} WHERE node = '{node}')"
                f" TO '{day}/{node}-0.parquet' (FORMAT parquet)"
            )
    db.close()
    return folder
