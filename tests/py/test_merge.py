# SPDX-License-Identifier: Apache-2.0
"""``lamina merge``: recordings of a run's ranks into its folder, again and again, and what it says of files
that don't belong together. Recordings are made up by ``tests/recordings.py``."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import recordings
from lamina._command import cli
from lamina._ranks import merge as merging
from lamina._ranks import open_run

pytest.importorskip("duckdb")

NAMED = ("kind", "ranks", "nodes", "phase", "layer", "gain", "since", "collectives")
DAY_S = 86_400


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def merge(capsys: pytest.CaptureFixture[str], files: list[str], folder: Path) -> str:
    code, out, err = run(capsys, "merge", *files, "-o", folder)
    assert (code, err) == (0, ""), err
    return out


def verdict(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = open_run(str(folder)).judged().as_dict()["verdict"]
    return told


def contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def rows(folder: Path, table: str) -> list[Any]:
    text = f"SELECT * FROM {table} ORDER BY ALL"
    found: list[Any] = open_run(str(folder), for_sql=True).db.execute(text).fetchall()
    return found


FAULTS: list[dict[str, Any]] = [
    {"steps": 120},
    {"slow": 2, "phase": "forward", "steps": 120},
    {"slow": 1, "phase": "input", "steps": 120, "ranks": 6},
    {"slow": 3, "phase": "backward", "steps": 500, "ranks": 4, "per_node": 1},
    {"transfer_ms": 60, "steps": 60},
    {"slow": 1, "phase": "optimizer", "waits": False, "steps": 60},
    {"slow": 0, "more_ms": 1, "steps": 200},
    {"steps": 12, "slow": 1},
    {"odd": (2, 40)},
    {"odd": (0, 3), "steps": 12, "ranks": 2},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_the_verdict_is_that_of_the_recordings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: dict[str, Any]
) -> None:
    files = recordings.make(tmp_path, **fault)
    out = merge(capsys, files, tmp_path / "run")
    assert out.endswith(f"lamina show {tmp_path}/run has the verdict\n")
    code, shown, _ = run(capsys, "show", *files, "--json")
    expected = json.loads(shown)["verdict"]
    found = verdict(tmp_path / "run")
    assert code == 0
    for name in NAMED:
        wanted = pytest.approx(expected[name], abs=1e-4) if name == "gain" else expected[name]
        assert found[name] == wanted, name
    assert found["notes"] == expected["notes"] and found["abstains"] == expected["abstains"]


def test_ranks_that_began_other_collectives_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = recordings.make(tmp_path, odd=(2, 40))
    merge(capsys, files, tmp_path / "run")
    found = verdict(tmp_path / "run")
    assert (found["kind"], found["ranks"]) == ("none", [])
    assert found["collectives"] == {
        "steps": 59, "unlike": 20, "attempt": 0, "step": 400,
        "groups": [
            {"rank": 2, "ranks": 1, "collectives": 41}, {"rank": 0, "ranks": 3, "collectives": 42}
        ],
    }  # fmt: skip
    _, shown, _ = run(capsys, "show", tmp_path / "run")
    assert (
        "collectives differ in 20 of 59 recorded steps, first in step 400: rank 2 began 41, rank 0 and 2"
        in (" ".join(shown.split()))
    )
    assert run(capsys, "merge", tmp_path / "run")[0] == 0  # of fewer files
    assert verdict(tmp_path / "run")["collectives"] == found["collectives"]
    assert {row[6] for row in rows(tmp_path / "run", "orders")} == {41, 42}


def test_a_folder_without_collectives_tells_of_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = recordings.make(tmp_path, odd=(2, 40))
    for file in files:
        with closing(sqlite3.connect(file)) as db, db:
            db.execute("UPDATE steps SET collectives = NULL, collectives_hash = NULL")
    merge(capsys, files, tmp_path / "run")
    assert verdict(tmp_path / "run")["collectives"] is None
    assert not (tmp_path / "run" / "orders").exists()


def test_a_second_merge_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path, slow=2)
    assert ": 12 files written, 0 left as they were" in merge(capsys, files, tmp_path / "run")
    before = contents(tmp_path / "run")
    assert sorted(before) == [
        *(
            f"{table}/day=2025-12-01/n{n}-0.parquet"
            for table in ("layers", "meets", "orders")
            for n in (0, 1)
        ),
        *(f"ranks/n{n}-0.parquet" for n in (0, 1)),
        *(f"{table}/day=2025-12-01/n{n}-0.parquet" for table in ("steps", "windows") for n in (0, 1)),
    ]
    assert ": 0 files written, 12 left as they were" in merge(capsys, files, tmp_path / "run")
    assert contents(tmp_path / "run") == before


def test_each_node_may_merge_its_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path, slow=2)
    merge(capsys, files, tmp_path / "all")
    merge(capsys, files[2:], tmp_path / "run")
    merge(capsys, files[:2], tmp_path / "run")
    assert contents(tmp_path / "run") == contents(tmp_path / "all")


def test_files_may_come_one_by_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path, slow=2)
    merge(capsys, files, tmp_path / "all")
    for file in (files[3], files[0], files[1], files[2]):
        merge(capsys, [file], tmp_path / "run")
    for table in ("ranks", "steps", "windows", "meets", "orders", "layers"):
        assert rows(tmp_path / "run", table) == rows(tmp_path / "all", table)


def test_a_run_is_merged_while_it_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for steps in (30, 47, 90):
        files = recordings.make(tmp_path / "some", slow=1, steps=steps, ended=steps == 90)
        merge(capsys, files, tmp_path / "run")
    merge(capsys, files, tmp_path / "once")
    for table in ("ranks", "steps", "windows", "meets", "orders", "layers"):
        assert rows(tmp_path / "run", table) == rows(tmp_path / "once", table)
    assert verdict(tmp_path / "run")["ranks"] == [1]


def test_a_finished_day_is_never_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Steps of a thousand seconds: three days. Later the recordings have the steps of the last day alone.
    how: dict[str, Any] = {"step_ms": 1000, "every": 1000, "ended": False, "slow": 2, "per_node": 4}
    merge(capsys, recordings.make(tmp_path / "a", steps=200, **how), tmp_path / "run")
    before = contents(tmp_path / "run")
    assert len({name.split("/")[1] for name in before if name.startswith("steps")}) == 3
    merge(capsys, recordings.make(tmp_path / "a", steps=250, first=180, **how), tmp_path / "run")
    after = contents(tmp_path / "run")
    for day in ("day=2025-12-01", "day=2025-12-02"):
        same = [name for name in before if day in name]
        assert len(same) == 5 and all(after[name] == before[name] for name in same)
    changed = [name for name in before if "day=2025-12-03" in name]
    assert all(after[name] != before[name] for name in changed)
    assert len(rows(tmp_path / "run", "steps")) > 4 * 70


def test_a_window_is_in_one_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how: dict[str, Any] = {"step_ms": 1000, "every": 1000, "ended": False, "per_node": 4}
    for steps in (88, 90, 120, 200):
        merge(capsys, recordings.make(tmp_path / "a", steps=steps, **how), tmp_path / "run")
    merge(capsys, recordings.make(tmp_path / "a", steps=200, **how), tmp_path / "once")
    for table in ("windows", "meets", "orders", "steps", "layers"):
        assert rows(tmp_path / "run", table) == rows(tmp_path / "once", table)


def test_a_damaged_recording_is_named_and_the_rest_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = recordings.make(tmp_path, slow=2)
    whole = Path(files[1]).read_bytes()
    Path(files[1]).write_bytes(whole[:5000])
    code, out, err = run(capsys, "merge", *files, "-o", tmp_path / "run")
    assert code == 1 and "12 files written" in out
    assert err.startswith(f"lamina: error: {files[1]}: ") and err.endswith("; it was left out\n")
    assert err.count("\n") == 1
    assert [row[1] for row in rows(tmp_path / "run", "ranks")] == [0, 2, 3]
    Path(files[1]).write_bytes(whole)  # a copy that was whole
    merge(capsys, files, tmp_path / "run")
    merge(capsys, files, tmp_path / "all")
    assert contents(tmp_path / "run") == contents(tmp_path / "all")


def test_a_recording_whose_layers_are_damaged_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    files = recordings.make(tmp_path)
    with sqlite3.connect(files[3]) as db:
        db.execute("UPDATE layers SET forward_self_ns = -5 WHERE place = 1")
    code, _, err = run(capsys, "merge", *files, "-o", tmp_path / "run")
    assert code == 1 and files[3] in err and err.count("\n") == 1
    assert [row[1] for row in rows(tmp_path / "run", "ranks")] == [0, 1, 2]


def test_of_a_rank_that_is_there_twice_the_last_one_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = recordings.make(tmp_path)
    copy = tmp_path / "copy.lamina"
    shutil.copy(files[0], copy)
    merge(capsys, [*files, str(copy)], tmp_path / "run")  # equal files are one
    (other,) = recordings.make(tmp_path / "other", began_s=recordings.EPOCH_S - 60, only=(0,))
    code, _, err = run(capsys, "merge", *files, other, "-o", tmp_path / "run")
    assert code == 0
    assert err == (
        f"lamina: error: {other}: rank 0 is in {files[0]} too, which was seen later; it was left out\n"
    )


def test_recordings_of_two_runs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path / "a", ranks=4)
    others = recordings.make(tmp_path / "b", ranks=2)
    code, _, err = run(capsys, "merge", files[0], others[1], "-o", tmp_path / "run")
    assert code == 2 and "is of 2 processes" in err and "they are not of one run" in err
    assert not (tmp_path / "run").exists()
    merge(capsys, files, tmp_path / "run")
    before = contents(tmp_path / "run")
    code, _, err = run(capsys, "merge", *others, "-o", tmp_path / "run")
    assert code == 2 and "they are not of one run" in err
    assert contents(tmp_path / "run") == before


def test_recordings_of_two_jobs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path / "a")
    others = recordings.make(tmp_path / "b", job="job-8")
    code, _, err = run(capsys, "merge", files[0], others[1], "-o", tmp_path / "run")
    assert code == 2 and "is of job job-8 and" in err and "they are not of one run" in err
    merge(capsys, files, tmp_path / "run")
    code, _, err = run(capsys, "merge", *others, "-o", tmp_path / "run")
    assert code == 2 and f"and {tmp_path}/run of job job-7" in err


def test_a_run_that_started_again_has_attempts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each start is a run in the files; one of another job, before them, is none of its attempts."""
    import sqlite3

    files = recordings.make(tmp_path, slow=2, steps=120)
    for file in files:
        with sqlite3.connect(file) as db:
            columns = [row[1] for row in db.execute("PRAGMA table_info(runs)") if row[1] != "id"]
            listed = ", ".join(columns)
            for run_id, job, attempt in ((2, "job-7", 1), (3, "job-7", 2)):
                db.execute(
                    f"INSERT INTO runs (id, {listed}) SELECT {run_id}, {listed} FROM runs WHERE id = 1"
                )
                db.execute("UPDATE runs SET job = ?, attempt = ? WHERE id = ?", (job, attempt, run_id))
            db.execute("UPDATE runs SET job = 'job-1' WHERE id = 1")
            db.execute("UPDATE models SET run = 3")
    merge(capsys, files, tmp_path / "run")
    ranks = open_run(str(tmp_path / "run")).db.execute("SELECT DISTINCT attempt, job FROM ranks ORDER BY ALL")
    assert ranks.fetchall() == [(0, "job-7"), (1, "job-7")]
    found = verdict(tmp_path / "run")
    assert (found["kind"], found["ranks"], found["since"]["attempt"]) == ("slow_rank", [2], 1)


def agree(tmp_path: Path, capsys: pytest.CaptureFixture[str], files: list[str]) -> dict[str, Any]:
    """The verdict on recordings, which is that on their folder."""
    code, shown, _ = run(capsys, "show", *files, "--json")
    told: dict[str, Any] = json.loads(shown)["verdict"]
    merge(capsys, files, tmp_path / "run")
    found = verdict(tmp_path / "run")
    assert code == 0
    for name in NAMED:
        assert found[name] == (pytest.approx(told[name], abs=1e-4) if name == "gain" else told[name]), name
    assert found["notes"] == told["notes"]
    return told


AGAIN_S = recordings.EPOCH_S + 7200


def test_starts_of_a_job_in_several_files_are_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restart wrote other files: the second start is slow, the first was not."""
    first = recordings.make(tmp_path / "first", attempt=1, steps=90)
    second = recordings.make(tmp_path / "second", attempt=2, slow=2, began_s=AGAIN_S, steps=90)
    told = agree(tmp_path, capsys, [*first, *second])
    assert (told["kind"], told["ranks"], told["since"]["attempt"]) == ("slow_rank", [2], 1)
    _, shown, _ = run(capsys, "show", *second, *first)
    assert shown.startswith("4 processes of 4: ")
    assert "with 4 recordings of earlier starts of the job, in the verdict alone\n" in shown
    run(capsys, "report", *second, *first, "-o", tmp_path / "run.html")
    assert "Rank 2 slows all" in (tmp_path / "run.html").read_text("utf-8")
    code, _, _ = run(capsys, "check", *first, *second, "--max", "straggler=5%")
    assert code == 1


def test_starts_of_a_job_in_one_file_are_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = recordings.make(tmp_path / "first", attempt=1, slow=1, steps=90)
    second = recordings.make(tmp_path / "second", attempt=2, began_s=AGAIN_S, steps=30)
    for file, later in zip(first, second, strict=True):
        with closing(sqlite3.connect(file)) as db, db:
            db.execute("ATTACH ? AS later", (later,))
            for table, set_to in (
                ("runs", "id = 2"), ("models", "id = 2, run = 2"), ("places", "model = 2"),
                ("steps", "id = id + 1000, model = 2"), ("layers", "step = step + 1000"),
            ):  # fmt: skip
                db.execute(f"CREATE TEMP TABLE given AS SELECT * FROM later.{table}")
                db.execute(f"UPDATE given SET {set_to}")
                db.execute(f"INSERT INTO main.{table} SELECT * FROM given")
                db.execute("DROP TABLE given")
    told = agree(tmp_path, capsys, first)
    assert (told["kind"], told["ranks"], told["since"]["attempt"]) == ("slow_rank", [1], 0)
    assert "with 4 recordings of earlier starts" in run(capsys, "show", *first)[1]
    assert "earlier starts" not in run(capsys, "show", *first, "--run", "2")[1]
    assert run(capsys, "show", first[1], second[1])[1].count("run.1.lamina") >= 2  # of one rank: side by side


def test_of_a_rank_that_another_process_took_over_the_last_one_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = recordings.make(tmp_path, attempt=1, slow=3, steps=90)
    (old,) = recordings.make(
        tmp_path / "old", attempt=1, began_s=recordings.EPOCH_S - 60, only=(0,), slow=0, steps=90
    )
    code, shown, _ = run(capsys, "show", old, *files)
    assert code == 0 and "1 file is of a rank that another process went on with, and left out" in shown
    assert "! Rank 3 slows all" in shown
    code, _, err = run(capsys, "merge", old, *files, "-o", tmp_path / "run")
    assert code == 0 and "it was left out" in err
    assert verdict(tmp_path / "run")["ranks"] == [3]


def test_a_start_with_fewer_processes_is_joined_and_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = recordings.make(tmp_path / "first", ranks=6, attempt=1, slow=5, steps=90)
    second = recordings.make(tmp_path / "second", attempt=2, slow=1, began_s=AGAIN_S, steps=90)
    told = agree(tmp_path, capsys, [*first, *second])
    assert told["ranks"] == [1]
    assert "1 attempt is of another number of ranks than 4: left out" in told["notes"]


def test_without_a_job_two_of_a_rank_are_not_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = recordings.make(tmp_path / "a", job=None)
    others = recordings.make(tmp_path / "b", job=None, began_s=AGAIN_S)
    _, shown, _ = run(capsys, "show", *files, *others)
    assert "not of one run: two are of the same rank; name the files of one" in shown
    code, _, err = run(capsys, "merge", *files, *others, "-o", tmp_path / "run")
    assert code == 2 and f"{files[0]} and {others[0]} are both of rank 0, and without a job" in err
    assert not (tmp_path / "run").exists()


def test_two_jobs_are_not_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path / "a")
    others = recordings.make(tmp_path / "b", job="job-8")
    _, shown, _ = run(capsys, "show", files[0], others[1])
    assert "not of one run: they are of several jobs; name the files of one" in shown


def test_a_folder_is_made_of_fewer_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path, slow=2)
    folder = tmp_path / "run"
    merge(capsys, files, folder)
    tables = {name: rows(folder, name) for name in ("ranks", "steps", "windows", "meets", "orders", "layers")}
    named, before = verdict(folder), contents(folder)
    code, out, err = run(capsys, "merge", folder)
    assert (code, err) == (0, "") and out.startswith(f"{folder}: 5 files written, 0 left")
    assert [p.name for p in folder.glob("steps/*/*")] == ["all.parquet"]
    assert verdict(folder) == named
    # The old files come back, as where the process ended before it had removed them.
    for name, data in before.items():
        (folder / name).write_bytes(data)
    for name, of in tables.items():
        assert rows(folder, name) == of
    code, out, _ = run(capsys, "merge", folder)
    assert code == 0 and out.startswith(f"{folder}: 0 files written, 5 left")
    assert [p.name for p in folder.glob("steps/*/*")] == ["all.parquet"]
    # Nor does a node write again what is in the file of all.
    merge(capsys, files, folder)
    assert [p.name for p in folder.glob("steps/*/*")] == ["all.parquet"]
    assert verdict(folder) == named


def test_days_that_are_not_over_stay_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how: dict[str, Any] = {"step_ms": 1000, "every": 1000, "ended": False}
    folder = tmp_path / "run"
    merge(capsys, recordings.make(tmp_path / "a", steps=120, **how), folder)
    run(capsys, "merge", folder)
    merge(capsys, recordings.make(tmp_path / "a", steps=200, **how), folder)
    run(capsys, "merge", folder)
    assert sorted(p.relative_to(folder / "steps").as_posix() for p in folder.glob("steps/*/*")) == [
        "day=2025-12-01/all.parquet", "day=2025-12-02/all.parquet",
        "day=2025-12-03/n0-0.parquet", "day=2025-12-03/n1-0.parquet",
    ]  # fmt: skip
    merge(capsys, recordings.make(tmp_path / "a", steps=200, **how), tmp_path / "once")
    for table in ("steps", "windows", "meets", "layers"):
        assert rows(folder, table) == rows(tmp_path / "once", table)


def test_an_interrupt_leaves_no_half_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recordings.make(tmp_path)
    merge(capsys, files, tmp_path / "all")
    copy, made = merging.write_file, []

    def interrupted(*of: Any) -> None:
        made.append(of)
        if len(made) == 4:
            of[3].write_bytes(b"PAR1 half")
            raise KeyboardInterrupt
        copy(*of)

    monkeypatch.setattr(merging, "write_file", interrupted)
    assert run(capsys, "merge", *files, "-o", tmp_path / "run")[0] == 130
    whole = contents(tmp_path / "all")
    assert len(contents(tmp_path / "run")) == 3
    assert all(whole[name] == data for name, data in contents(tmp_path / "run").items())
    monkeypatch.undo()
    merge(capsys, files, tmp_path / "run")
    assert contents(tmp_path / "run") == whole


def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = recordings.make(tmp_path / "a")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("mine")
    (tmp_path / "file").write_text("mine")
    merge(capsys, files, tmp_path / "run")
    cut = next((tmp_path / "run").glob("ranks/*"))
    cut.write_bytes(cut.read_bytes()[:-50])
    for words, code, text in (
        ((files[0],), 2, "no folder is named that the recordings go into"),
        ((files[0], "-o", tmp_path / "full"), 2, "it is no folder of a run, and not empty"),
        ((files[0], "-o", tmp_path / "file"), 2, "it is a file, and a run is a folder"),
        ((files[0], tmp_path / "run", "-o", tmp_path / "new"), 2, "recordings are merged into one"),
        ((tmp_path / "none.lamina", "-o", tmp_path / "new"), 1, "none.lamina"),
        ((*files, "-o", tmp_path / "run"), 3, f"{cut.name}: it was cut, or it is no Parquet file"),
    ):
        found, _, err = run(capsys, "merge", *words)
        assert found == code, err
        assert text in err and err.startswith("lamina: error: ")


def test_without_duckdb_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = recordings.make(tmp_path)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, _, err = run(capsys, "merge", *files, "-o", tmp_path / "run")
    assert code == 3 and "pip install 'lamina[scale]'" in err and err.count("\n") == 1
    assert not list(tmp_path.glob("run/*"))
