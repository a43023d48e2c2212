# SPDX-License-Identifier: Apache-2.0
"""The folder of a run of many ranks: its Parquet files, read and reduced by DuckDB, for the verdict in C."""

from __future__ import annotations

import json
import os
import re
from glob import escape
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .. import _lamina
from .._base.errors import FormatError, LaminaError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WHOLE, REAL, TEXT, FLAG = "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"
# The columns of each table, by their types; those of the second set must be there, the others may be unknown.
TABLES: dict[str, tuple[dict[str, str], set[str]]] = {
    "ranks": (
        dict.fromkeys(
            ("attempt", "rank", "world", "tree", "comm_group", "started_us", "seen_us", "ended_us",
             "calls"),
            WHOLE,
        )
        | dict.fromkeys(("job", "node", "ended_by", "ran_last", "waits", "device", "why_mfu"), TEXT)
        | dict.fromkeys(("step_flops", "hardware_flops", "peak_flops"), REAL)
        | dict.fromkeys(("running", "flops_at_least"), FLAG),
        {"rank", "node"},
    ),
    "steps": (
        dict.fromkeys(
            ("attempt", "rank", "step", "started_us", "win", "represents", "collectives", "collectives_hash"),
            WHOLE,
        )
        | dict.fromkeys(
            ("step_us", "own_us", "input_us", "h2d_us", "forward_us", "backward_us", "optimizer_us",
             "other_us", "comm_us", "comm_group_us", "processor_us"),
            REAL,
        ),
        {"rank", "step", "step_us"},
    ),
    "windows": (
        dict.fromkeys(("attempt", "win", "rank", "first_step", "started_us", "steps"), WHOLE)
        | dict.fromkeys(
            ("own_us", "step_us", "input_us", "h2d_us", "forward_us", "backward_us", "optimizer_us",
             "other_us", "comm_us", "processor_us"),
            REAL,
        ),
        {"rank", "win", "first_step", "steps", "own_us"},
    ),
    "meets": (
        dict.fromkeys(
            ("attempt", "step", "comm_group", "ranks", "last_rank", "second_rank", "started_us",
             "represents"),
            WHOLE,
        )
        | dict.fromkeys(
            ("last_us", "second_us", "own_us", "transfer_us", "group_transfer_us", "step_us"), REAL
        )
        | {"node": TEXT},
        {"node", "step", "ranks", "last_rank", "last_us", "step_us"},
    ),
    "orders": (
        dict.fromkeys(
            ("attempt", "step", "tree", "ranks", "first_rank", "started_us", "collectives",
             "collectives_hash"),
            WHOLE,
        )
        | {"node": TEXT},
        {"step", "ranks", "first_rank", "collectives", "collectives_hash"},
    ),
    "layers": (
        dict.fromkeys(("rank", "hour"), WHOLE)
        | dict.fromkeys(("forward_us", "backward_us"), REAL)
        | {"layer": TEXT},
        {"rank", "hour", "layer"},
    ),
}  # fmt: skip
# What a column is where a file does not have it, if not unknown.
ELSE = {"attempt": "0", "tree": "0", "waits": "'inside'"}
# Of two rows that are equal in these columns the first in that order counts: as where a rank was replaced by
# another process, or a file is there twice.
COPIES = {
    "ranks": (("attempt", "rank"), "seen_us DESC NULLS LAST, node"),
    "steps": (("attempt", "rank", "step"), "started_us DESC NULLS LAST, step_us"),
    "windows": (("attempt", "rank", "win"), "started_us DESC NULLS LAST, steps DESC, own_us"),
}
# Types of DuckDB that are numbers, or of a column that is NULL in every row.
NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "U", "FLOAT", "DOUBLE", "DECIMAL", '"NULL"')
WAITS = "CASE waits WHEN 'comm' THEN 0 WHEN 'other' THEN 1 ELSE 2 END"
AS_WHOLE = {"waits", "flops_at_least"}  # in what C reads
STALE_US = 3_600_000_000  # merges are expected as often as this
LAYERS = "layers"
SCHEMA = "1"  # of the Parquet files
NEWEST = "(SELECT rank, node, attempt FROM ranks QUALIFY attempt = MAX(attempt) OVER (PARTITION BY rank))"
REDUCED = ("windows", "meets", "orders")  # what a merge makes of steps
NEEDED = {"windows", "meets"}  # of these for a verdict
INPUT = ("ranks", "steps", LAYERS)
# The order of the rows of a file, so that a reader of one rank reads one piece; and columns of 32 bits in it.
ORDER = ("attempt", "rank", "step", "win", "hour", "layer")
SMALL = {"attempt", "rank", "world", "win", "steps", "ranks", "last_rank", "second_rank", "first_rank"}
MAGIC, LEAST = b"PAR1", 12  # at both ends of a Parquet file
ALL = "all.parquet"  # what `lamina merge run/` makes of the files of a day


def sql(name: str, **values: object) -> str:
    """One of the queries of this package, with values in place of the names in braces."""
    text = Path(__file__).with_name("sql").joinpath(f"{name}.sql").read_text("utf-8")
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", str(value))
    return text


def connect(folder: Path | None = None, spill: str | None = None, *, ordered: bool = False) -> Any:
    """DuckDB in memory, which reads files of the folder alone, and of the one that it spills to.

    Raises:
        UnsupportedError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UnsupportedError(
            f"the folder of a run is read by DuckDB, which can't be imported ({error}): "
            "pip install 'lamina[scale]'"
        ) from error
    db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    spill = spill or gettempdir()
    db.execute(f"SET temp_directory = {quoted(spill)}; SET preserve_insertion_order = {ordered}")
    db.execute("SET enable_progress_bar = false")  # the screen is the command's
    if folder is not None:
        db.execute(f"SET allowed_directories = [{quoted(str(folder))}, {quoted(spill)}]")
        db.execute("SET enable_external_access = false; SET lock_configuration = true")
    return db


def quoted(text: str) -> str:
    """A text of SQL."""
    return "'" + text.replace("'", "''") + "'"


def files_of(folder: Path, table: str) -> list[Path]:
    """The Parquet files of a table: in its folder, or in the folders of days in it.

    Raises:
        OSError: a folder can't be read.
    """
    place = folder.joinpath(table)
    if not place.is_dir():
        return []
    files, days = _inside(place)
    return files + [file for day in days for file in _inside(day)[0]]


def _inside(folder: Path) -> tuple[list[Path], list[Path]]:
    """The Parquet files in a folder, and the folders. A glob would pass over what it may not read."""
    with os.scandir(folder) as entries:
        found = sorted((entry.name, entry.is_dir()) for entry in entries)
    files = [folder.joinpath(name) for name, is_dir in found if name.endswith(".parquet") and not is_dir]
    return files, [folder.joinpath(name) for name, is_dir in found if is_dir]


def check(files: Iterable[Path]) -> None:
    """Files that may be read.

    Raises:
        FormatError: one of them is cut, or is no Parquet file.
    """
    for file in files:
        check_whole(file)


def check_whole(file: Path) -> None:
    """Raises FormatError for a file that was cut, or is no Parquet file."""
    with file.open("rb") as f:
        head = f.read(len(MAGIC))
        size = f.seek(0, 2)
        f.seek(max(0, size - len(MAGIC)))
        if size < LEAST or head != MAGIC or f.read() != MAGIC:
            raise FormatError(f"{file}: it was cut, or it is no Parquet file; copy or write it again")


def kept_in(db: Any, file: Path) -> dict[str, str]:
    """What lamina wrote into the metadata of a Parquet file.

    Raises:
        FormatError: the file is damaged.
    """
    check_whole(file)
    rows = asked(
        db, f"SELECT key, value FROM parquet_kv_metadata({quoted(escape(str(file.resolve())))})", file
    )
    return {
        key.decode(): value.decode("utf-8", "replace") for key, value in rows if key.startswith(b"lamina.")
    }


def covered(db: Any, day: Path) -> set[str]:
    """The names of a day's files whose rows are in its file of all nodes, too."""
    whole = day.joinpath(ALL)
    return set(kept_in(db, whole).get("lamina.files", "").split(",")) - {""} if whole.exists() else set()


def asked(db: Any, text: str, where: object) -> list[tuple[Any, ...]]:
    """The rows of a query.

    Raises:
        FormatError: DuckDB can't answer it, as where a file is damaged.
    """
    try:
        rows: list[tuple[Any, ...]] = db.execute(text).fetchall()
    except Exception as error:
        if not of_duckdb(error):
            raise
        raise FormatError(f"{where}: {line_of(error)}") from error
    return rows


def of_duckdb(error: BaseException) -> bool:
    """True for an error of DuckDB."""
    return type(error).__module__.partition(".")[0].endswith("duckdb")


def line_of(error: BaseException) -> str:
    """An error of DuckDB as one line. Where a thread of it could not write, its sentence is inside JSON."""
    line = str(error).strip().partition("\n")[0]
    inside = re.search(r'"exception_message":("(?:[^"\\]|\\.)*")', line)
    return str(json.loads(inside[1])) if inside else line


class Run:
    """The tables of a run, in DuckDB.

    Args:
        db: a connection of DuckDB.
        tables: of each table what it is read from, as it stands after FROM.
        where: the folder, for errors.
        layers: the files of the table of layers, which are opened when layers are asked for; None: it is one
            of ``tables``, or there is none.

    Raises:
        FormatError: a table lacks a column, or is of something else.
        UsageError: there is no table of ranks, or none of steps.
    """

    def __init__(self, db: Any, tables: dict[str, str], where: str, layers: list[Path] | None = None) -> None:
        self.db = db
        self.where = where
        self.has = set(tables)
        self.layer_files = layers
        if "ranks" not in tables:
            raise UsageError(f"{where}: it is no folder of a run: ranks/ has no Parquet file")
        for name in TABLES:
            if name in tables:
                self._view(name, tables)
        if not self.has >= NEEDED:
            if "steps" not in self.has:
                raise UsageError(
                    f"{where}: the run has no steps: it has neither windows/ and meets/ nor steps/"
                )
            self._reduce()

    def _tells_comm(self, tables: dict[str, str]) -> bool:
        """True if waiting for others is measured in a step, as ``comm_us``."""
        source = tables.get("steps", tables.get("windows"))
        if source is None or "comm_us" not in {
            row[0] for row in self._ask(f"DESCRIBE SELECT * FROM {source}", "steps")
        }:
            return False
        return bool(self._ask(f"SELECT 1 FROM {source} WHERE comm_us IS NOT NULL LIMIT 1", "steps"))

    def _view(self, name: str, tables: dict[str, str]) -> None:
        """A view with the table's columns and types; those that files lack are unknown."""
        source = tables[name]
        there = {row[0]: row[1] for row in self._ask(f"DESCRIBE SELECT * FROM {source}", name)}
        columns, needed = TABLES[name]
        if missing := sorted(needed - there.keys()):
            raise FormatError(
                f"{self.where}: the files of {name}/ have no column {missing[0]}; they are something else's"
            )
        for column, of in columns.items():
            kinds, what = (("BOOLEAN", '"NULL"'), "truths") if of == FLAG else (NUMBERS, "numbers")
            if of != TEXT and not there.get(column, of).startswith(kinds):
                raise FormatError(
                    f"{self.where}: the column {column} of {name}/ has {there[column]}, not {what}"
                )
        known = {c: f"COALESCE({c}, {ELSE[c]})" if c in ELSE else c for c in there}
        if name == "ranks" and "waits" not in there and self._tells_comm(tables):
            known["waits"] = "'comm'"
        picked = ", ".join(
            f"CAST({known.get(column, ELSE.get(column, 'NULL'))} AS {of}) AS {column}"
            for column, of in columns.items()
        )
        if name == "ranks" and "world" not in there:
            picked = picked.replace("CAST(NULL AS BIGINT) AS world", "MAX(rank) OVER () + 1 AS world")
        text = f"SELECT {picked} FROM {source}"
        if name == "ranks":
            # A process that was running when it was merged has not died, unless that was long ago.
            running = f"running AND seen_us >= MAX(seen_us) OVER () - {STALE_US}"
            ended = f"CASE WHEN {running} THEN COALESCE(ended_us, seen_us) ELSE ended_us END AS ended_us"
            listed = ", ".join(ended if c == "ended_us" else c for c in columns)
            text = f"SELECT {listed} FROM ({text})"
            self._ask(f"CREATE OR REPLACE TEMPORARY VIEW rows_of_ranks AS {text}", name)
        if name in COPIES and (name == "ranks" or self._has_copies()):
            copies = f"PARTITION BY {', '.join(COPIES[name][0])} ORDER BY {COPIES[name][1]}"
            text = f"SELECT *, ROW_NUMBER() OVER ({copies}) AS copy FROM ({text})"
            text = f"SELECT {', '.join(columns)} FROM ({text}) WHERE copy = 1"
        self._ask(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {text}", name)

    def _has_copies(self) -> bool:
        """True if a rank is there twice in one attempt."""
        twice = "SELECT 1 FROM rows_of_ranks GROUP BY attempt, rank HAVING COUNT(*) > 1 LIMIT 1"
        return bool(self._ask(twice, "ranks"))

    def _open_layers(self, ranks: list[int]) -> bool:
        """Has the view of layers read the files of these ranks' nodes alone, where files are a node's; all
        for no ranks. False: there are none."""
        files = self.layer_files or []
        if ranks:
            of = self._ask("SELECT DISTINCT node, rank FROM ranks", "ranks")
            nodes = {quote(node, safe="") for node, _ in of}
            wanted = {quote(node, safe="") for node, rank in of if rank in set(ranks)}
            others = nodes - wanted
            files = [file for file in files if file.stem.rpartition("-")[0] not in others]
        check(files)
        if files:
            self._view(LAYERS, {LAYERS: from_files(files)})
            self.has.add(LAYERS)
        return bool(files)

    def _reduce(self) -> None:
        """What a merge does on each node."""
        self._ask(sql("own"), "steps")
        self._ask(sql("places"), "steps")
        for name in REDUCED:
            self._ask(f"DROP VIEW IF EXISTS {name}", "steps")  # of a folder that has some of them
            self._ask(f"CREATE OR REPLACE TEMPORARY TABLE {name} AS {sql(name)}", "steps")
        self.has |= set(REDUCED)

    def _ask(self, text: str, table: str) -> list[tuple[Any, ...]]:
        try:
            rows: list[tuple[Any, ...]] = self.db.execute(text).fetchall()
        except Exception as error:
            raise self._shown(error, table) from error
        return rows

    def _shown(self, error: Exception, table: str) -> Exception:
        """An error of DuckDB, or of a table's values, as one sentence; other exceptions as they are."""
        if not isinstance(error, LaminaError | OSError) and not of_duckdb(error):
            return error
        line = line_of(error).removeprefix(f"{table}: ").removeprefix("it can't be read: ")
        return FormatError(f"{self.where}: the table {table} can't be read: {line}")

    def _give(self, to: _lamina.Ranks, name: str, text: str) -> None:
        """Hands the rows of a query to C, by columns."""
        try:
            relation = self.db.sql(text)
            to.add(name, relation)
        except Exception as error:
            raise self._shown(error, name) from error

    def layers(self, ranks: Sequence[int], peers: Sequence[int], first: int, last: int) -> Any:
        """The layers of some ranks beside the medians of peers, or without ranks each layer of the rank that
        is slowest in it. None: the run has none."""
        if self.layer_files is not None and not self._open_layers([*ranks, *peers]):
            return None
        if LAYERS not in self.has:
            return None
        text = sql(
            "layers" if ranks else "all_layers",
            ranks=", ".join(map(str, ranks)),
            peers=", ".join(map(str, peers)),
            first_hour=first,
            last_hour=last,
        )
        try:
            return self.db.sql(f"SELECT CAST(rank AS BIGINT) AS rank, layer, own_us, peer_us FROM ({text})")
        except Exception as error:
            raise self._shown(error, "layers") from error

    def write(self, name: str, to: Path) -> int:
        """Writes a table, a file for each node, attempt and day, and returns how many."""
        columns = TABLES[name][0]
        us = "t.hour * 3600000000" if name == LAYERS else "t.started_us"
        day = f"COALESCE(strftime(make_timestamp({us}), '%Y-%m-%d'), 'unknown')"  # UTC
        if name == "ranks":
            day = "''"
        node = "t.node" if "node" in columns else "r.node"
        attempt = "t.attempt" if "attempt" in columns else "r.attempt"
        match = "r.rank = t.rank" + (" AND r.attempt = t.attempt" if "attempt" in columns else "")
        homes = "ranks" if "attempt" in columns else NEWEST
        join = "" if "node" in columns else f"INNER JOIN {homes} r ON {match}"
        picked = ", ".join(f"t.{c}" for c in columns)
        self._ask(
            f"CREATE OR REPLACE TEMPORARY TABLE out AS SELECT {picked}, {node} AS of_node,"
            f" {attempt} AS of_attempt, {day} AS of_day FROM {name} t {join}",
            name,
        )
        parts = self._ask("SELECT DISTINCT of_day, of_node, of_attempt FROM out ORDER BY ALL", name)
        for of_day, of_node, of_attempt in parts:
            folder = to.joinpath(name, *([f"day={of_day}"] if of_day else []))
            folder.mkdir(parents=True, exist_ok=True)
            file = folder.joinpath(f"{quote(of_node, safe='')}-{of_attempt}.parquet")
            source = (
                f"out WHERE of_day = {quoted(of_day)} AND of_node = {quoted(of_node)}"
                f" AND of_attempt = {of_attempt}"
            )
            try:
                write_file(self.db, name, source, file, {})
            except Exception as error:
                raise self._shown(error, name) from error
        return len(parts)

    def judged(self) -> _lamina.Ranks:
        """The verdict and what it is based on."""
        ranks = _lamina.Ranks()
        for name in ("ranks", "windows", "meets"):
            picked = ", ".join(
                f"CAST({WAITS if column == 'waits' else column} AS {WHOLE if column in AS_WHOLE else of})"
                f" AS {column}"
                for column, of in TABLES[name][0].items()
            )
            self._give(ranks, name, f"SELECT {picked} FROM {'rows_of_ranks' if name == 'ranks' else name}")
        if "orders" in self.has:
            self._give(ranks, "orders", sql("all_orders"))
        try:
            ranks.judge(self.layers)
        except FormatError as error:  # of another run, or of a number of ranks that can't be
            whose = "" if str(error).startswith(self.where) else f"{self.where}: "
            raise FormatError(whose + str(error).removeprefix("ranks: ")) from error
        return ranks


def open_run(folder: str, spill: str | None = None, *, for_sql: bool = False) -> Run:
    """The run of a folder.

    Args:
        spill: an empty folder for what does not fit into memory; None: the system's.
        for_sql: every table can be asked, and rows come in the order of a query, which takes more memory.

    Raises:
        UsageError: the folder is no run's, or DuckDB is not installed.
        FormatError: a file of it is damaged.
    """
    path = Path(folder)
    found = {name: files for name in TABLES if (files := files_of(path, name))}
    if "ranks" not in found:
        raise UsageError(f"{folder}: it is no folder of a run: ranks/ has no Parquet file")
    db = connect(path.resolve(), spill, ordered=for_sql)
    for name, files in found.items():
        days = {file.parent for file in files if file.name == ALL and name != "ranks"}
        twice = {day.joinpath(name) for day in days for name in covered(db, day)}
        found[name] = [file for file in files if file not in twice]
    if found.keys() >= NEEDED and not for_sql:
        found.pop("steps", None)  # the reductions have what is read of them
    layers = None if for_sql else found.pop(LAYERS, [])
    for files in found.values():
        check(files)
    for name, files in found.items():
        check_schema(db, folder, name, files)
    return Run(db, {name: from_files(files) for name, files in found.items()}, folder, layers)


def check_schema(db: Any, folder: str, table: str, files: list[Path]) -> None:
    """Files that this version can read: all of ranks/, and of the other tables the first and the last.

    Raises:
        FormatError: a later version wrote them.
    """
    some = files if table == "ranks" else [files[0], files[-1]]
    query = f"SELECT DISTINCT value FROM parquet_kv_metadata([{listed(some)}]) WHERE key = 'lamina.schema'"
    for (value,) in asked(db, query, folder):
        schema = value.decode("utf-8", "replace")
        if not schema.isdecimal() or int(schema) > int(SCHEMA):
            raise FormatError(
                f"{folder}: the files of {table}/ have schema {schema[:20]!r}, and this lamina reads "
                f"{SCHEMA}; install a newer one"
            )


def write_file(db: Any, table: str, source: str, to: Path, kept: dict[str, str]) -> None:
    """Writes the rows of ``source``, as it stands after FROM, into a Parquet file with the table's columns.

    Args:
        kept: texts for the metadata of the file, by their names.
    """
    columns = TABLES[table][0]
    picked = ", ".join(f"CAST({c} AS {'INTEGER' if c in SMALL else of}) AS {c}" for c, of in columns.items())
    order = ", ".join(c for c in ORDER if c in columns)
    pairs = ", ".join(f"{quoted(k)}: {quoted(v)}" for k, v in {"lamina.schema": SCHEMA, **kept}.items())
    db.execute(
        f"COPY (SELECT {picked} FROM {source} ORDER BY {order}) TO {quoted(str(to))}"
        f" (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{pairs}}})"
    )
    to.chmod(0o644)  # other users of a shared folder read it


def from_files(files: Iterable[Path]) -> str:
    """What stands after FROM to read these files."""
    return f"read_parquet([{listed(files)}], union_by_name = true, hive_partitioning = false)"


def listed(files: Iterable[Path]) -> str:
    """The names of files as DuckDB reads them."""
    return ", ".join(quoted(escape(str(file.resolve()))) for file in files)


def merge_tables(tables: Path, to: Path) -> int:
    """Writes the folder of a run from tables of ranks, steps and layers: a file for each node, attempt and
    day. Returns the number of files.

    Raises:
        UsageError: there are no tables, or DuckDB is not installed.
        FormatError: one is damaged, or of something else.
        OSError: a file can't be written.
    """
    found = {name: files for name in INPUT if (files := files_of(tables, name))}
    if not found.keys() >= {"ranks", "steps"}:
        raise UsageError(f"{tables}: ranks/ and steps/ of it have no Parquet files")
    for files in found.values():
        check(files)
    run = Run(connect(), {name: from_files(files) for name, files in found.items()}, str(tables))
    made = 0
    for name in ("ranks", *REDUCED, "steps", *(LAYERS for _ in run.has & {LAYERS})):
        made += run.write(name, to)
    return made
