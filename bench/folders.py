# SPDX-License-Identifier: Apache-2.0
"""What the folders of runs cost: `make bench-ranks` merges the recordings of a node's eight ranks after a day
(day.c writes them as the recorder does, of a model of 300 layers), and judges a run of 10,000 ranks and a day
from the files of 1,250 nodes, as they are and put together. Figures are CPU seconds and the peak of memory of
the command, and the ratio to DuckDB copying the same rows into one file in a process of its own: on a machine
that is busy, the ratio holds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from lamina._ranks import ALL, TABLES, write_file

ROOT = Path(__file__).resolve().parent.parent
LAMINA = [sys.executable, "-m", "lamina"]
NODE_RANKS, MODEL_LAYERS, DAY_STEPS = 8, 300, 172_800  # of half a second
MERGE_S = 2.0
NODES, RECORDED, WINDOWS = 1250, 1728, 24
VERDICT_S, VERDICT_MB = 10.0, 500
SLOW, MORE_US = 1733, 84_000  # a rank, and how much longer it takes
STEP_US, EPOCH_US = 500_000, 1_764_547_200_000_000  # 2025-12-01 00:00 UTC
COPY = "import duckdb, sys; duckdb.connect().execute(sys.argv[1])"


def measured(command: list[str]) -> tuple[float, int, str]:
    """CPU seconds of a command, its peak of memory in MB, and what it printed."""
    read, write = os.pipe()
    with os.fdopen(read) as output:
        actions = [(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, write)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        os.close(write)
        told = output.read()
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"folders: {' '.join(command[:5])} failed: {told}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, told


def row(what: str, cpu: float, peak: int, peer: float, bars: tuple[float, int]) -> bool:
    ok = cpu <= bars[0] and peak <= bars[1]
    print(
        f"{what}: {cpu:.2f} s of CPU (bar {bars[0]:g}), {peak} MB (bar {bars[1]}), {cpu / peer:.1f} times"
        f" DuckDB's copy of the same rows{'' if ok else '  MISSED'}",
        flush=True,
    )
    return ok


def copied(folder: Path, tables: tuple[str, ...], to: Path) -> float:
    """CPU seconds of DuckDB, which copies the tables of a folder."""
    copies = []
    for table in tables:
        files = f"read_parquet('{folder}/{table}/**/*.parquet', union_by_name = true)"
        copies.append(
            f"COPY (SELECT * FROM {files}) TO '{to}/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)"
        )
    return measured([sys.executable, "-c", COPY, "; ".join(copies)])[0]


# -- a node's day --------------------------------------------------------------------------------------------


def built(folder: Path) -> Path:
    """The program that writes recordings, of the rooms base and store: what it calls needs no other."""
    program = folder / "day"
    sources = sorted(str(file) for room in ("base", "store") for file in (ROOT / "src" / room).glob("*.c"))
    command = ["cc", "-O2", "-std=gnu17", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}", "-ffunction-sections"]
    command += ["-Wl,--gc-sections", str(ROOT / "bench/day.c"), *sources, "-o", str(program)]
    subprocess.run([*command, "-lm", "-ldl", "-lpthread", "-lsqlite3"], check=True)
    return program


def try_merge(place: Path) -> bool:
    """A day of one node: what a first merge of it costs, and one that finds nothing new."""
    files = place / "recordings"
    files.mkdir()
    words = [str(number) for number in (NODE_RANKS, MODEL_LAYERS, DAY_STEPS)]
    subprocess.run([built(place), files, *words], check=True)
    command = [*LAMINA, "merge", *sorted(map(str, files.glob("*.lamina"))), "-o", str(place / "node")]
    first, again = measured(command), measured(command)
    peer = copied(place / "node", ("steps", "windows", "meets", "layers"), place)
    what = f"a merge of {NODE_RANKS} recordings of a day, {MODEL_LAYERS} layers"
    ok = row(what, *first[:2], peer, (MERGE_S, VERDICT_MB))
    return row("the same once more", *again[:2], peer, (MERGE_S, VERDICT_MB)) and ok


# -- 10,000 ranks --------------------------------------------------------------------------------------------


def noise(*of: str) -> str:
    """From 0 to 1, as SQL."""
    return f"(hash({', '.join(of)}) % 1000003 / 1000003.0)"


def make_tables(db: Any) -> None:
    """Ranks, windows and meets of the run, and layers of three nodes: rank SLOW takes a fifth longer in its
    backward pass, in one layer."""
    each, ranks, slow_node = RECORDED // WINDOWS, NODES * NODE_RANKS, SLOW // NODE_RANKS

    def at(recorded: object) -> str:
        return f"{EPOCH_US} + {recorded} * CAST({STEP_US * 100} AS BIGINT)"

    def named(node: str) -> str:
        return f"'n' || lpad(CAST({node} AS VARCHAR), 4, '0') AS node"

    db.execute(f"""CREATE TABLE ranks AS
        SELECT 'job' AS job, 0 AS attempt, range AS rank, {ranks} AS world, {named(f"range // {NODE_RANKS}")},
               7 AS tree, NULL AS comm_group, {EPOCH_US} AS started_us, {at(RECORDED)} AS seen_us,
               {at(RECORDED)} AS ended_us, 'end' AS ended_by, NULL AS ran_last, 'comm' AS waits,
               NULL AS step_flops, NULL AS peak_flops, {RECORDED * 100} AS calls, false AS running
        FROM range({ranks})""")
    db.execute(f"""CREATE TABLE windows AS
        SELECT 0 AS attempt, win, rank, {named(f"rank // {NODE_RANKS}")}, win * {each * 100} AS first_step,
               {at(f"win * {each}")} AS started_us, {each} AS steps, 170000 + more AS own_us,
               566000 AS step_us, 5000 AS input_us, 2000 AS h2d_us, 135000 AS forward_us, more AS backward_us,
               20000 AS optimizer_us, 8000 AS other_us, 396000 - more AS comm_us, NULL AS processor_us
        FROM (SELECT r.range AS rank, w.range AS win, 250000 + 3000 * {noise("r.range", "w.range")}
                     + CASE WHEN r.range = {SLOW} THEN {MORE_US} ELSE 0 END AS more
              FROM range({ranks}) r, range({WINDOWS}) w) ORDER BY rank, win""")
    db.execute(f"""CREATE TABLE meets AS
        SELECT 0 AS attempt, i * 100 AS step, {named("n")}, NULL AS comm_group, {NODE_RANKS} AS ranks,
               n * {NODE_RANKS} + {SLOW % NODE_RANKS} AS last_rank, last_us, n * {NODE_RANKS} AS second_rank,
               419000 AS second_us, {NODE_RANKS - 1} * 419000 + last_us AS own_us, 60000 AS transfer_us,
               NULL AS group_transfer_us, 566000 AS step_us, {at("i")} AS started_us, 100 AS represents
        FROM (SELECT n.range AS n, s.range AS i, 420000 + 3000 * {noise("n.range", "s.range")}
                     + CASE WHEN n.range = {slow_node} THEN {MORE_US} ELSE 0 END AS last_us
              FROM range({NODES}) n, range({RECORDED}) s) ORDER BY n, i""")
    db.execute(f"""CREATE TABLE layers AS
        SELECT r.range AS rank, {EPOCH_US} // 3600000000 + h.range AS hour,
               'model.layers.' || l.range || '.mlp.up_proj' AS layer,
               450 + 10 * {noise("r.range", "h.range", "l.range")} AS forward_us,
               850 + CASE WHEN r.range = {SLOW} AND l.range = 31 THEN {MORE_US} ELSE 0 END AS backward_us
        FROM range({ranks}) r, range(24) h, range({MODEL_LAYERS}) l
        WHERE r.range // {NODE_RANKS} IN (0, 1, {slow_node})""")


def make_run(to: Path) -> None:
    """The folder, with a file for each node and table. The layers of all nodes but three are links to one
    of them: the verdict opens those of the rank that it names and of some peers."""
    with duckdb.connect() as db:
        make_tables(db)
        for table in ("ranks", "windows", "meets", "layers"):
            for column, of in TABLES[table][0].items():
                db.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} {of}")
        for node in range(NODES):
            name = f"n{node:04}-0.parquet"
            for table in ("ranks", "windows", "meets"):
                folder = to / table / ("" if table == "ranks" else "day=2025-12-01")
                folder.mkdir(parents=True, exist_ok=True)
                kept = {"lamina.finished": "1"}
                write_file(db, table, f"{table} WHERE node = 'n{node:04}'", folder / name, kept)
        layers = to / "layers/day=2025-12-01"
        layers.mkdir(parents=True)
        for node in (0, 1, SLOW // NODE_RANKS):
            write_file(
                db,
                "layers",
                f"layers WHERE rank // {NODE_RANKS} = {node}",
                layers / f"n{node:04}-0.parquet",
                {},
            )
        for node in range(NODES):
            if not layers.joinpath(f"n{node:04}-0.parquet").exists():
                os.link(layers / "n0000-0.parquet", layers / f"n{node:04}-0.parquet")


def try_verdict(place: Path) -> bool:
    """The verdict from the nodes' files, and from files that were put together."""
    run = (
        place / "run"
    )  # made in another process: the peak of a process is at least that of the one that starts it
    subprocess.run([sys.executable, __file__, "--make", run], check=True)
    peer = copied(run, ("ranks", "windows", "meets"), place)
    ok = True
    for what in ("from the files of 1,250 nodes", f"from {ALL}"):
        cpu, peak, told = measured([*LAMINA, "show", str(run)])
        if f"Rank {SLOW} slows all" not in told or "model.layers.31.mlp.up_proj" not in told:
            raise SystemExit(f"folders: the verdict on 10,000 ranks names somebody else: {told[:600]}")
        ok = (
            row(f"the verdict on 10,000 ranks and a day, {what}", cpu, peak, peer, (VERDICT_S, VERDICT_MB))
            and ok
        )
        if ALL not in what:
            measured([*LAMINA, "merge", str(run)])
    return ok


def main(argv: list[str]) -> int:
    if argv[:1] == ["--make"]:
        make_run(Path(argv[1]))
        return 0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as place:
        return 0 if all([try_merge(Path(place)), try_verdict(Path(place))]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
