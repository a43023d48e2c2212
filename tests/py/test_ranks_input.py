# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the folder of a run: one sentence, or what fits is shown, and the rest is told."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import ranked
from lamina._command import cli
from lamina._ranks import merge_tables, open_run

duckdb = pytest.importorskip("duckdb")


def shown(capsys: pytest.CaptureFixture[str], *words: str, verb: str = "show") -> tuple[int, str, str]:
    code = cli.main([verb, *words])
    out, err = capsys.readouterr()
    return code, out, err


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = open_run(str(folder)).judged().as_dict()
    return found


def merged(folder: Path, **how: Any) -> Path:
    merge_tables(ranked.write(folder / "tables", layers=False, **how), folder / "run")
    return folder / "run"


def rewritten(file: Path, query: str, metadata: str = "") -> None:
    """The file with the rows of a query over it, as {file}."""
    new = file.with_suffix(".new")
    options = f", KV_METADATA {{{metadata}}}" if metadata else ""
    rows = query.format(file=f"'{file}'")
    duckdb.connect().execute(f"COPY ({rows}) TO '{new}' (FORMAT parquet{options})")
    new.replace(file)


def refused(capsys: pytest.CaptureFixture[str], folder: Path, said: str) -> None:
    for verb, more in (("show", ()), ("report", ("-o", str(folder.parent / "x.html")))):
        code, out, err = shown(capsys, str(folder), *more, verb=verb)
        assert (code, out) == (3, ""), err
        assert err.startswith(f"lamina: error: {folder}") and said in err, err
        assert err.count("\n") == 1 + err.count("\n  hint: "), err
        assert not (folder.parent / "x.html").exists()


@pytest.mark.parametrize("table", ["ranks", "windows", "meets"])
def test_a_file_that_was_cut_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str) -> None:
    run = merged(tmp_path)
    file = sorted(run.glob(f"{table}/**/*.parquet"))[-1]
    for n in (0, 3, 11, file.stat().st_size // 2, file.stat().st_size - 1):
        whole = file.read_bytes()
        file.write_bytes(whole[:n])
        refused(capsys, run, f"{file.relative_to(run)}: it was cut, or it is no Parquet file")
        file.write_bytes(whole)


@pytest.mark.parametrize("table", ["ranks", "windows", "meets"])
def test_a_table_of_something_else_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    run = merged(tmp_path)
    for file in run.glob(f"{table}/**/*.parquet"):
        rewritten(file, "SELECT 1 AS price, 'x' AS name")
    refused(capsys, run, f"the files of {table}/ have no column")


def test_a_column_of_texts_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = merged(tmp_path)
    for file in run.glob("windows/**/*.parquet"):
        rewritten(file, "SELECT * REPLACE ('fast' AS own_us) FROM {file}")
    refused(capsys, run, "the column own_us of windows/ has VARCHAR, not numbers")


@pytest.mark.parametrize("value", ["-1", "9007199254740994", "'nan'::DOUBLE - 'inf'::DOUBLE"])
def test_numbers_that_no_run_has_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    run = merged(tmp_path)
    file = next(run.glob("meets/**/*.parquet"))
    rewritten(file, f"SELECT * REPLACE ({value} AS step_us) FROM {{file}}")
    if "nan" in value:  # not a number is what is not known
        assert told(run)["steps"] == 96
        return
    refused(capsys, run, "step_us is missing, negative or too large")


def test_files_of_a_later_version_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for schema in ("2", "99", "two"):
        run = merged(tmp_path / schema)
        file = next(run.glob("ranks/*.parquet"))
        rewritten(file, "SELECT * FROM {file}", f"'lamina.schema': '{schema}'")
        refused(capsys, run, f"the files of ranks/ have schema '{schema}', and this lamina reads 1")


def test_an_empty_folder_and_one_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    refused(capsys, tmp_path / "empty", "this folder is neither a run's nor a model's")
    (tmp_path / "half/ranks").mkdir(parents=True)
    refused(capsys, tmp_path / "half", "it is no folder of a run: ranks/ has no Parquet file")
    run = merged(tmp_path)
    for table in ("windows", "meets", "steps"):
        shutil.rmtree(run / table)
    refused(capsys, run, "the run has no steps")


def test_without_duckdb_a_folder_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = merged(tmp_path)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for words in ((), ("--rank", "3"), ("--layers",)):
        code, out, err = shown(capsys, str(run), *words)
        assert (code, out, err.count("\n")) == (3, "", 1)
        assert "pip install 'lamina[scale]'" in err


def test_missing_ranks_are_told_as_ranges(tmp_path: Path) -> None:
    run = merged(tmp_path, ranks=64, missing="node = 'n03' OR rank IN (0, 9)")
    (note,) = told(run)["verdict"]["notes"]
    assert note == (
        "10 of 64 ranks have no recording that can be compared (0, 9, 24..31); a cause may be among them"
    )


def moved(run: Path, attempt: int, *, drop: str = "false", world: int | None = None) -> None:
    """All tables again, as another attempt, without some ranks."""
    for table in ("ranks", "windows", "meets", "steps"):
        for file in list(run.glob(f"{table}/**/*.parquet")):
            new = file.with_name(f"{file.stem.rpartition('-')[0]}-{attempt}.parquet")
            shutil.copy(file, new)
            more = f", {world} AS world" if table == "ranks" and world else ""
            where = f" WHERE NOT ({drop})" if table != "meets" else ""
            rewritten(new, f"SELECT * REPLACE ({attempt} AS attempt{more}) FROM {{file}}{where}")


def test_a_run_that_was_started_again_is_one_run(tmp_path: Path) -> None:
    run = merged(tmp_path, slow="rank = 11", more_us=20000)
    once = told(run)
    moved(run, 1)
    again = told(run)
    assert (again["attempts"], again["steps"]) == (2, 2 * once["steps"])
    assert again["verdict"]["ranks"] == [11]
    assert again["verdict"]["gain"] == pytest.approx(once["verdict"]["gain"], rel=0.01)
    assert len(again["windows"]) == 2 * len(once["windows"])  # none of both


def test_attempts_of_other_numbers_of_ranks_are_left_out(tmp_path: Path) -> None:
    run = merged(tmp_path, ranks=16, slow="rank = 3", more_us=20000)
    once = told(run)
    moved(run, 1, drop="rank >= 8", world=8)
    for file in run.glob("meets/**/n01-1.parquet"):
        file.unlink()
    found = told(run)
    assert (found["world"], found["ranks"], found["steps"]) == (8, 8, once["steps"])
    assert "1 attempt is of another number of ranks than 8: left out" in found["verdict"]["notes"]
    assert found["verdict"]["ranks"] == [3]


def test_ranks_of_two_worlds_in_one_attempt_are_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = merged(tmp_path)
    rewritten(run / "ranks/n01-0.parquet", "SELECT * REPLACE (32 AS world) FROM {file}")
    refused(capsys, run, "they are not of one run: in attempt 0 rank 8 is one of 32, and others are of 16")


def test_of_two_processes_of_a_rank_that_counts_which_was_last_alive(tmp_path: Path) -> None:
    run = merged(tmp_path, slow="rank = 11", more_us=20000)
    once = told(run)
    for table in ("ranks", "windows"):
        for file in list(run.glob(f"{table}/**/n01-0.parquet")):
            new = file.with_name("n07-0.parquet")
            shutil.copy(file, new)
            change = (
                "'n07' AS node, seen_us - 60000000 AS seen_us"
                if table == "ranks"
                else "5 AS own_us, started_us - 1 AS started_us"
            )
            rewritten(new, f"SELECT * REPLACE ({change}) FROM {{file}} WHERE rank IN (11, 12)")
    found = told(run)
    assert found["verdict"]["ranks"] == [11]
    assert found["verdict"]["gain"] == once["verdict"]["gain"]
    assert found["phases"] == once["phases"]
    assert found["verdict"]["notes"] == [
        "11..12 are ranks of several processes in one attempt: the one that was last alive counts"
    ]


def test_files_that_are_there_twice_count_once(tmp_path: Path) -> None:
    run = merged(tmp_path, slow="rank = 11", more_us=20000)
    once = told(run)
    for table in ("ranks", "windows"):
        for file in list(run.glob(f"{table}/**/n01-0.parquet")):
            shutil.copy(file, file.with_name("copy-0.parquet"))
    assert told(run) == once


def test_a_clock_that_is_off_is_told_by_node(tmp_path: Path) -> None:
    run = merged(tmp_path, ranks=32)
    for table in ("windows", "meets"):
        for file in run.glob(f"{table}/**/n02-0.parquet"):
            rewritten(file, "SELECT * REPLACE (started_us + 30000000 AS started_us) FROM {file}")
    found = told(run)["verdict"]
    assert found["kind"] == "none" and not found["ranks"]
    assert found["notes"] == [
        "clocks of nodes are off (n02 by 30 s): who died first is told by corrected ones"
    ]


def test_columns_that_older_files_lack_are_unknown(tmp_path: Path) -> None:
    run = merged(tmp_path, slow="rank = 11", more_us=20000)
    for file in run.glob("windows/**/n00-0.parquet"):
        rewritten(file, "SELECT * EXCLUDE (h2d_us, optimizer_us) FROM {file}")
    found = told(run)
    assert found["verdict"]["ranks"] == [11] and found["verdict"]["phase"] == "compute"


def test_steps_that_few_ranks_have_are_left_out(tmp_path: Path) -> None:
    run = merged(tmp_path)
    file = next(run.glob("meets/**/n00-0.parquet"))
    rewritten(
        file, "FROM {file} UNION ALL SELECT * REPLACE (step + 1 AS step, 3 AS ranks) FROM {file} LIMIT 200"
    )
    assert told(run)["steps"] == 96


def test_a_trace_that_tells_ranks_steps_and_waiting_alone_is_enough(tmp_path: Path) -> None:
    tables = ranked.write(tmp_path / "tables", layers=False, slow="rank = 5", more_us=20000)
    for file in tables.glob("ranks/*.parquet"):
        rewritten(file, "SELECT rank, node FROM {file}")
    for file in tables.glob("steps/*/*.parquet"):
        rewritten(file, "SELECT rank, step, step_us, comm_us FROM {file}")
    merge_tables(tables, tmp_path / "run")
    for folder in (tables, tmp_path / "run"):
        found = told(folder)["verdict"]
        assert (found["kind"], found["ranks"], found["phase"], found["notes"]) == ("slow_rank", [5], None, [])
    for file in tables.glob("steps/*/*.parquet"):
        rewritten(file, "SELECT rank, step, step_us FROM {file}")
    assert "0 recorded steps tell own work from waiting" in told(tables)["verdict"]["abstains"]
