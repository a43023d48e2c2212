# SPDX-License-Identifier: Apache-2.0
"""Writes recordings of a run's ranks into its folder, and makes the files of a folder fewer."""

from __future__ import annotations

import fcntl
import filecmp
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from .. import _lamina
from .._base.errors import FormatError, LaminaError, UsageError
from . import (
    ALL,
    LAYERS,
    REDUCED,
    TABLES,
    asked,
    check,
    check_whole,
    connect,
    covered,
    files_of,
    from_files,
    kept_in,
    line_of,
    of_duckdb,
    sql,
    write_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Tell = Callable[[str], None]
    Progress = Callable[[int, int], None]

DAY_US, HOUR_US = 86_400_000_000, 3_600_000_000
NEVER = 1_000_000_000  # a day's number that no run reaches
LATE_US = 600_000_000  # all that belongs to a day is in the recordings so long after it


class Merged(NamedTuple):
    """Files of the folder that were written, and left as they were; recordings that were left out."""

    written: int
    kept: int
    left_out: int


class Held:
    """One run of one recording: an attempt of a rank."""

    def __init__(self, file: str, run: int) -> None:
        self.file = file
        one = _lamina.Recordings([(os.fsencode(file), run)])
        table = one.table("ranks")
        self.of: dict[str, Any] = {name: table[name][0] for name in table.columns}
        self.layers: _lamina.Table | None = None
        self.key = (os.fsencode(file), self.of["run"])

    @property
    def rank(self) -> tuple[int, int]:
        return self.of["attempt"], self.of["rank"]

    @property
    def home(self) -> tuple[str, int]:
        return self.of["node"], self.of["attempt"]

    def is_as(self, other: Held) -> bool:
        """True for another copy of the same recording."""
        return all(self.of[k] == other.of[k] for k in ("pid", "node", "started_us", "seen_us"))

    def read_layers(self, from_us: int) -> None:
        self.layers = _lamina.Recordings([self.key]).table("layers", from_us * 1000)  # not a count: a moment


def merge(recordings: Sequence[str], folder: str, tell: Tell, progress: Progress) -> Merged:
    """Writes recordings into the folder of a run, a file for each table, node, attempt and day. Files are
    written beside the old ones and renamed; one of a finished day that has all of these ranks is left as it
    is. With no recordings, the files of the folder are put together, one for each table and day.

    Args:
        tell: is given a sentence for each recording that is left out.
        progress: is given how much of the work is done, and how much there is.

    Raises:
        UsageError: recordings are of several runs, or of another one than the folder; or DuckDB is missing.
        FormatError: a file of the folder is damaged.
        OSError: a file can't be written.
    """
    try:
        return _merge(recordings, Path(folder), tell, progress)
    except Exception as error:
        if not of_duckdb(error):
            raise
        raise FormatError(f"{folder}: {line_of(error)}") from error


def _merge(recordings: Sequence[str], to: Path, tell: Tell, progress: Progress) -> Merged:
    if not recordings:
        return _compact(to, progress)
    db = connect(ordered=True)
    _check_folder(to)
    held, left_out = _read(recordings, tell, lambda i: progress(i, len(recordings)))
    if not held:
        return Merged(0, 0, left_out)
    _check_one_run(held, to)
    held, replaced = _newest(held, tell)
    homes: dict[tuple[str, int], list[Held]] = {}
    for one in held:
        homes.setdefault(one.home, []).append(one)
    with _beside(to) as beside:
        written = kept = done = 0
        for (node, attempt), of in sorted(homes.items()):
            with _alone(to, f"{quote(node, safe='')}-{attempt}"):
                home = _Home(db, to, beside, node, attempt, of, replaced)
                left_out += home.read_layers(tell)
                done += len(of)
                if home.of:
                    made, same = home.write()
                    written, kept = written + made, kept + same
            progress(done, len(held))
    return Merged(written, kept, left_out)


# -- recordings ----------------------------------------------------------------------------------------------


def _read(recordings: Sequence[str], tell: Tell, done: Callable[[int], None]) -> tuple[list[Held], int]:
    """Every run of every file, and how many files could not be read."""
    held, left_out = [], 0
    for i, file in enumerate(recordings):
        try:
            newest = Held(file, 0)
            # Without a job it is not known which runs of a file are starts of the newest one.
            older = (Held(file, run) for run in range(1, newest.of["run"]) if newest.of["job"] is not None)
            held += [one for one in older if one.of["job"] == newest.of["job"]] + [newest]
        except (LaminaError, OSError) as error:
            left_out += 1
            tell(f"{_of(error, file)}; it was left out")
        done(i + 1)
    return held, left_out


def _of(error: Exception, file: str) -> str:
    """The text of an error, which names the file."""
    text = str(error)
    return text if file in text else f"{file}: {text}"


def _check_one_run(held: list[Held], folder: Path) -> None:
    """Raises UsageError for recordings of several runs, or of another one than the folder."""
    seen: dict[int, tuple[int, str]] = {}
    jobs: list[tuple[str, str]] = []
    if files := files_of(folder, "ranks"):
        check(files)
        db = connect()
        there = {row[0] for row in asked(db, f"DESCRIBE SELECT * FROM {from_files(files)}", folder)}
        job = "MAX(job)" if "job" in there else "NULL"
        text = f"SELECT attempt, MAX(world), {job} FROM {from_files(files)} GROUP BY attempt"
        for attempt, world, name in asked(db, text, folder.joinpath("ranks")):
            seen |= {attempt: (world, str(folder))} if world else {}
            jobs += [(name, str(folder))] if name else []
    for one in held:
        attempt, world, name = (one.of[key] for key in ("attempt", "world", "job"))
        jobs += [(name, one.file)] if name else []
        other, where = seen.setdefault(attempt, (world, one.file))
        if other != world:
            what = f"{one.file} is of {world} processes and {where} of {other}"
        elif name and name != jobs[0][0]:
            what = f"{one.file} is of job {name} and {jobs[0][1]} of job {jobs[0][0]}"
        else:
            continue
        raise UsageError(f"{what}: they are not of one run; merge each run into a folder of its own")


def _newest(held: list[Held], tell: Tell) -> tuple[list[Held], set[tuple[str, int, int]]]:
    """Of several recordings of a rank that which was seen last; and the others, by node, attempt and rank.

    Raises:
        UsageError: two have no job, so that they may be of two runs.
    """
    best: dict[tuple[int, int], Held] = {}
    replaced: set[tuple[str, int, int]] = set()
    for one in held:
        other = best.setdefault(one.rank, one)
        if other is one or other.is_as(one):
            continue
        if one.of["job"] is None or other.of["job"] is None:
            raise UsageError(
                f"{other.file} and {one.file} are both of rank {one.of['rank']}, and without a job it is not "
                "known whether they are of one run; name those of one run, and record with --job"
            )
        old, new = sorted((other, one), key=lambda h: h.of["seen_us"] or 0)
        best[one.rank] = new
        replaced.add((old.of["node"], *old.rank))
        tell(f"{old.file}: rank {old.of['rank']} is in {new.file} too, which was seen later; it was left out")
    return list(best.values()), {r for r in replaced if best[r[1], r[2]].of["node"] != r[0]}


# -- a node --------------------------------------------------------------------------------------------------


class _Home:
    """A node in an attempt of the run: its recordings, and what the folder has of it."""

    def __init__(
        self,
        db: Any,
        folder: Path,
        beside: Path,
        node: str,
        attempt: int,
        of: list[Held],
        replaced: set[tuple[str, int, int]],
    ) -> None:
        self.db, self.folder, self.beside, self.of = db, folder, beside, of
        self.name = f"{quote(node, safe='')}-{attempt}"
        self.gone = {rank for n, a, rank in replaced if (n, a) == (node, attempt)}
        self.attempt = attempt
        self.finished: dict[Path, set[int] | None] = {}  # of finished days, with their ranks; None: all
        self.old: dict[str, list[Path]] = {name: [] for name in TABLES}
        for table in TABLES:
            self._look(table)

    def _look(self, table: str) -> None:
        days = (
            [self.folder.joinpath(table)] if table == "ranks" else sorted(self.folder.glob(f"{table}/day=*"))
        )
        for day in days:
            file = day.joinpath(f"{self.name}.parquet")
            if table != "ranks" and file.name in covered(self.db, day):
                self.finished[file] = None
            elif file.exists():
                self.old[table].append(file)
                kept = kept_in(self.db, file)
                if kept.get("lamina.finished") == "1":
                    ranks = kept.get("lamina.ranks", "")
                    self.finished[file] = {int(rank) for rank in ranks.split(",") if rank}

    def read_layers(self, tell: Tell) -> int:
        """Reads the layers of each recording, of days that are written; returns how many can't be read, which
        are left out."""
        kept = [_start_of(f) for f in self.finished if f.parent.parent.name == LAYERS and self._is_kept(f)]
        old = [_start_of(file) for file in self.old[LAYERS] if not self._is_kept(file)]
        self.layers_from_us = min([max(kept) + DAY_US, *old]) if kept else 0
        left_out = 0
        for one in list(self.of):
            try:
                one.read_layers(self.layers_from_us)
            except (LaminaError, OSError) as error:
                self.of.remove(one)
                left_out += 1
                tell(f"{_of(error, one.file)}; it was left out")
        return left_out

    def _is_kept(self, file: Path) -> bool:
        if file not in self.finished:
            return False
        ranks = self.finished[file]
        return ranks is None or {one.of["rank"] for one in self.of} <= ranks

    def write(self) -> tuple[int, int]:
        """Writes the files of the node; returns how many, and how many were left as they were."""
        self._gather()
        for name in ("own", "places"):
            self.db.execute(sql(name))
        for name in REDUCED:
            self.db.execute(f"CREATE OR REPLACE TEMPORARY TABLE {name} AS {sql(name)}")
        written, kept = self._put("ranks", "ranks", None, finished=False)
        unread = [
            f for f in self.finished if f.parent.parent.name == LAYERS and _start_of(f) < self.layers_from_us
        ]
        kept += len(unread)  # of days whose layers were not read again
        for table, day_of in _DAYS.items():
            columns = ", ".join(f"CAST(t.{c} AS {of}) AS {c}" for c, of in TABLES[table][0].items())
            self.db.execute(
                f"CREATE OR REPLACE TEMPORARY TABLE out AS SELECT {columns}, {day_of} AS of_day"
                f" FROM {table} t"
            )
            for (day,) in self.db.execute("SELECT DISTINCT of_day FROM out ORDER BY ALL").fetchall():
                made, same = self._put(table, f"out WHERE of_day = {day}", day, finished=day < self.last_day)
                written, kept = written + made, kept + same
        return written, kept

    def _gather(self) -> None:
        """The tables of the node: of the recordings, and of ranks that the folder alone has."""
        held = _lamina.Recordings([one.key for one in self.of])
        given = ", ".join(str(one.of["rank"]) for one in self.of)
        others = f"rank NOT IN ({', '.join([given, *map(str, sorted(self.gone))])})"
        self._table("ranks", held.table("ranks"), others)
        self._table("steps", held.table("steps"), others, "main AND counts")
        parts = [one.layers for one in self.of if one.layers is not None]
        self._table(LAYERS, parts, others, "main")
        self.db.execute(f"DELETE FROM {LAYERS} WHERE (hour + 1) * {HOUR_US} <= {self.layers_from_us}")
        known = "EXISTS (SELECT 1 FROM steps WHERE own_us IS NOT NULL)"
        self.db.execute(f"DELETE FROM steps WHERE own_us IS NULL AND {known}")  # as of a step without an end
        ended, last, seen = self.db.execute(
            "SELECT (SELECT bool_and(ended_us IS NOT NULL) FROM ranks), (SELECT MAX(started_us) FROM steps),"
            " (SELECT MAX(seen_us) FROM ranks)"
        ).fetchone()
        latest = min(last or 0, (seen or 0) - LATE_US)
        self.last_day = NEVER if ended else latest // DAY_US  # not a count: a moment
        self.ranks = [row[0] for row in self.db.execute("SELECT rank FROM ranks ORDER BY rank").fetchall()]

    def _table(self, name: str, of: Any, others: str, where: str = "true") -> None:
        columns = TABLES[name][0]
        parts = []
        for i, each in enumerate(of if isinstance(of, list) else [of]):
            self.db.register(f"given_{i}", each)
            there = set(each.columns)
            picked = ", ".join(
                f"CAST({c if c in there else 'NULL'} AS {kind}) AS {c}" for c, kind in columns.items()
            )
            parts.append(f"SELECT {picked} FROM given_{i} WHERE {where}")
        if self.old[name]:
            rows = asked(self.db, f"DESCRIBE SELECT * FROM {from_files(self.old[name])}", self.folder)
            there = {row[0] for row in rows}
            picked = ", ".join(
                f"CAST({c if c in there else 'NULL'} AS {kind}) AS {c}" for c, kind in columns.items()
            )
            parts.append(f"SELECT {picked} FROM {from_files(self.old[name])} WHERE {others}")
        self.db.execute(f"CREATE OR REPLACE TEMPORARY TABLE {name} AS {' UNION ALL '.join(parts)}")
        for i in range(len(of) if isinstance(of, list) else 1):
            self.db.unregister(f"given_{i}")

    def _put(self, table: str, source: str, day: int | None, *, finished: bool) -> tuple[int, int]:
        folders = [] if day is None else [f"day={_name_of(day)}"]
        file = self.folder.joinpath(table, *folders, f"{self.name}.parquet")
        if day is not None and self._is_kept(file):
            return 0, 1
        kept = {"lamina.ranks": ",".join(map(str, self.ranks))} | (
            {"lamina.finished": "1"} if finished else {}
        )
        new = self.beside.joinpath("new.parquet")
        write_file(self.db, table, source, new, kept)
        if file.exists() and filecmp.cmp(new, file, shallow=False):
            return 0, 1
        file.parent.mkdir(parents=True, exist_ok=True)
        new.replace(file)
        return 1, 0


# The day of each row, since 1970. A step is of the day in which the first rank of the node began it. A window
# is of the day of its last step, so that it is whole once a later day has begun.
_DAYS = {
    "windows": f"(SELECT MAX(s.started_us) FROM own s INNER JOIN places p ON p.attempt = s.attempt"
    f" AND p.step = s.step WHERE p.win = t.win) // {DAY_US}",
    "meets": f"t.started_us // {DAY_US}",
    "orders": f"t.started_us // {DAY_US}",
    "steps": f"MIN(t.started_us) OVER (PARTITION BY t.step) // {DAY_US}",
    LAYERS: "t.hour // 24",
}


def _name_of(day: int) -> str:
    from datetime import datetime, timedelta

    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).strftime("%Y-%m-%d")


def _start_of(file: Path) -> int:
    """The moment at which the day of a file begins; 0: its folder is no day's."""
    from datetime import datetime

    try:
        start = datetime.strptime(file.parent.name, "day=%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return int(start.timestamp()) * 1_000_000  # not a count: a moment


# -- files ---------------------------------------------------------------------------------------------------


def _check_folder(folder: Path) -> None:
    """Raises UsageError for a folder of something else."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: it is a file, and a run is a folder")
    if folder.is_dir() and not folder.joinpath("ranks").is_dir():
        strangers = [item.name for item in folder.iterdir() if not item.name.startswith(".merge-")]
        if strangers:
            raise UsageError(f"{folder}: it is no folder of a run, and not empty; name another one")


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A folder in the run's, in which files are written until they are whole."""
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".merge-", dir=folder))
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _alone(folder: Path, what: str) -> Iterator[None]:
    """In the block no other merge writes the same files: two that read the old files before either has
    written its own would lose rows. Where the file system knows no locks, merges do not wait."""
    file = folder.joinpath(f".merge-{what}.lock")
    while True:
        with file.open("w") as lock:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                if not os.path.samestat(os.fstat(lock.fileno()), file.stat()):
                    continue  # its owner has removed it, and another one may have made it anew
            except FileNotFoundError:
                continue
            try:
                yield
            finally:
                file.unlink(missing_ok=True)
            return


# -- fewer files ---------------------------------------------------------------------------------------------


def _compact(folder: Path, progress: Progress) -> Merged:
    """Puts the files of a day together, those that are finished: the new file is whole before the old ones
    are removed, and a reader passes over those that it covers."""
    db = connect(ordered=True)
    written = kept = 0
    days = [day for table in _DAYS for day in sorted(folder.glob(f"{table}/day=*"))]
    with _beside(folder) as beside, _alone(folder, "all"):
        for i, day in enumerate(days):
            made, same = _compact_day(db, day, beside)
            written, kept = written + made, kept + same
            progress(i + 1, len(days))
    return Merged(written, kept, 0)


def _compact_day(db: Any, day: Path, beside: Path) -> tuple[int, int]:
    """Returns how many files were written, and how many were left as they were."""
    table, whole = day.parent.name, day.joinpath(ALL)
    before = covered(db, day)
    files = [file for file in sorted(day.glob("*.parquet")) if file.name not in {ALL, *before}]
    for file in files:
        check_whole(file)
    fresh = [file for file in files if kept_in(db, file).get("lamina.finished") == "1"]
    sources = [*fresh, whole] if whole.exists() else fresh
    written = 0
    if fresh and len(sources) > 1:
        before |= {file.name for file in fresh}
        there = {row[0] for row in asked(db, f"DESCRIBE SELECT * FROM {from_files(sources)}", day)}
        picked = ", ".join(f"{c if c in there else 'NULL'} AS {c}" for c in TABLES[table][0])
        new = beside.joinpath("new.parquet")
        kept = {"lamina.files": ",".join(sorted(before)), "lamina.finished": "1"}
        write_file(db, table, f"(SELECT {picked} FROM {from_files(sources)})", new, kept)
        new.replace(whole)
        written = 1
    for name in before:
        day.joinpath(name).unlink(missing_ok=True)
    return written, len(list(day.glob("*.parquet"))) - written
