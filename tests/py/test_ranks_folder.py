# SPDX-License-Identifier: Apache-2.0
"""``lamina show`` of the folder of a run of many ranks: whom it names, and what it says of a folder that is
none. Runs are made up by ``tests/ranked.py``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from schemas import ANSWERS, wrong

import ranked
from lamina._base.errors import FormatError, UsageError
from lamina._command import cli
from lamina._ranks import merge_tables, open_run

pytest.importorskip("duckdb")

TOOL = Path(__file__).parents[2] / "tools/ranks-from-table"


def verdict(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = open_run(str(folder)).judged().as_dict()["verdict"]
    return told


def judged(folder: Path, **how: Any) -> dict[str, Any]:
    return verdict(ranked.write(folder / "run", **how))


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["show", *words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("seed", range(8))
def test_nobody_is_named_in_a_healthy_run(tmp_path: Path, seed: int) -> None:
    more = {"seed": seed, "ranks": (8, 16, 24, 64)[seed % 4], "steps": (48, 96)[seed % 2]}
    found = judged(tmp_path, spread=0.002 + 0.004 * seed, **more)
    assert found["kind"] == "none"
    assert not found["ranks"] and not found["nodes"] and not found["watch"]
    assert found["abstains"] is None


FAULTS = [
    ({"slow": "rank = 11", "more_us": 20000}, ("slow_rank", [11], [], "compute")),
    ({"slow": "rank = 3", "more_us": 12000, "phase": "input"}, ("slow_rank", [3], [], "input")),
    ({"slow": "rank = 0", "more_us": 9000, "phase": "h2d"}, ("slow_rank", [0], [], "h2d")),
    ({"slow": "rank = 15", "more_us": 9000, "phase": "optimizer"}, ("slow_rank", [15], [], "optimizer")),
    ({"slow": "rank = 7", "more_us": 9000, "phase": "other"}, ("slow_rank", [7], [], "other")),
    ({"slow": "rank IN (2, 13)", "more_us": 15000}, ("slow_rank", [2, 13], [], "compute")),
    (
        {"slow": "node = 'n02'", "more_us": 15000, "ranks": 32, "phase": "input"},
        ("slow_node", list(range(16, 24)), ["n02"], "input"),
    ),
    ({"input_us": 30000}, ("input", [], [], None)),
    ({"grow": 1.2}, ("slower", [], [], None)),
    ({"transfer_us": 60000}, ("network", [], [], None)),
    ({"ended": "CASE WHEN rank = 5 THEN 'MemoryError' ELSE 'DistBackendError' END"}, ("died", [5], [], None)),
    ({"waits": "other", "slow": "rank = 6", "more_us": 20000}, ("slow_rank", [6], [], "compute")),
]


def test_who_waits_for_a_processor_is_not_slow(tmp_path: Path) -> None:
    """Beside another program a rank takes longer by its clock. Where one does not tell it, clocks count."""
    shared = {"slow": "rank = 3", "more_us": 20000}
    found = judged(tmp_path / "a", starved_us="CASE WHEN rank = 3 THEN 20000 ELSE 100 END", **shared)
    assert (found["kind"], found["ranks"]) == ("processor", [])
    assert 0.1 < found["gain"] < 0.25
    both = judged(tmp_path / "b", starved_us="CASE WHEN rank = 5 THEN 20000 ELSE 100 END", **shared)
    assert (both["kind"], both["ranks"]) == ("slow_rank", [3])
    assert both["notes"] == ["ranks wait for a processor, up to 16 % of a step (rank 5)"]
    unknown = judged(tmp_path / "c", starved_us="CASE WHEN rank = 3 THEN 20000 END", **shared)
    assert (unknown["kind"], unknown["ranks"]) == ("slow_rank", [3])


def test_who_died_has_what_it_ran_last(tmp_path: Path) -> None:
    ended = "CASE WHEN rank = 6 THEN 'ValueError: a row is cut' ELSE 'DistBackendError' END"
    found = judged(tmp_path, ended=ended)
    assert (found["kind"], found["ranks"]) == ("died", [6])
    assert (found["ended_by"], found["ran_last"]) == ("ValueError: a row is cut", "call 9600 of Net")


@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=[str(expected) for _, expected in FAULTS])
def test_a_fault_is_named_with_its_phase(tmp_path: Path, fault: dict[str, Any], expected: Any) -> None:
    found = judged(tmp_path, **fault)
    assert (found["kind"], found["ranks"], found["nodes"], found["phase"]) == expected


def test_the_gain_is_what_a_step_would_take_less(tmp_path: Path) -> None:
    slow = judged(tmp_path / "slow", slow="rank = 11", more_us=20000)
    fast = judged(tmp_path / "fast")
    without = fast["step_us"] / slow["step_us"]
    assert slow["gain"] == pytest.approx(1 - without, abs=0.005)
    assert slow["without_us"] == pytest.approx(fast["step_us"], rel=0.005)
    assert slow["excess_us"] == pytest.approx(20000, rel=0.02)


def test_the_layer_is_named_if_it_is_known(tmp_path: Path) -> None:
    fault = {"slow": "rank = 11", "more_us": 20000, "layer": "blocks.1.mlp"}
    assert judged(tmp_path / "with", **fault)["layer"] == "blocks.1.mlp"
    assert judged(tmp_path / "without", layers=False, **fault)["layer"] is None


def test_when_it_began_is_told_by_step_and_moment(tmp_path: Path) -> None:
    since = judged(tmp_path, slow="rank = 1", more_us=20000, since=48)["since"]
    assert since == {"attempt": 0, "step": 4800, "unix_us": ranked.EPOCH + 4800 * 100_000}


def test_a_rank_that_is_told_twice_counts_once(tmp_path: Path) -> None:
    folder = ranked.write(tmp_path / "run", slow="rank = 11", more_us=20000)
    once = verdict(folder)
    shutil.copy(folder / "ranks/ranks.parquet", folder / "ranks/again.parquet")
    assert verdict(folder) == once


def test_missing_ranks_are_told(tmp_path: Path) -> None:
    found = judged(tmp_path, missing="rank IN (3, 4)")
    (note,) = found["notes"]
    assert note == "2 of 16 ranks have no recording that can be compared (3..4); a cause may be among them"


def test_few_steps_abstain(tmp_path: Path) -> None:
    found = judged(tmp_path, steps=12, slow="rank = 1", more_us=40000)
    assert (found["kind"], found["abstains"]) == (
        "none", "only 12 recorded steps are in common, and 20 are needed",
    )  # fmt: skip


def test_the_folder_that_is_made_of_tables_has_the_same_verdict(tmp_path: Path) -> None:
    tables = ranked.write(tmp_path / "sim", slow="rank = 11", more_us=20000, since=36, layer="head")
    done = subprocess.run(
        [sys.executable, TOOL, tables, "-o", tmp_path / "run"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "10 files" in done.stdout
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "layers", "meets", "ranks", "steps", "windows",
    ]  # fmt: skip
    assert sorted(p.name for p in tmp_path.glob("run/meets/*/*")) == ["n00-0.parquet", "n01-0.parquet"]
    assert verdict(tmp_path / "run") == verdict(tables)
    for table in ("steps", "layers"):  # the verdict without layers needs the reductions alone
        shutil.rmtree(tmp_path / "run" / table)
    assert verdict(tmp_path / "run") == {**verdict(tables), "layer": None}


def test_a_new_folder_is_wanted(tmp_path: Path) -> None:
    tables = ranked.write(tmp_path / "sim")
    done = subprocess.run(
        [sys.executable, TOOL, tables, "-o", tables], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = subprocess.run(
        [sys.executable, TOOL, tmp_path, "-o", tmp_path / "x"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert not (tmp_path / "x").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["sim"]


def test_json_is_as_the_schema_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ranked.write(tmp_path / "run", slow="rank = 11", more_us=20000)
    code, out, err = shown(capsys, str(folder), "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert not wrong(ANSWERS, told)
    assert told["verdict"]["ranks"] == [11]
    assert told["verdict"].keys() == verdict(folder).keys()
    assert [row["rank"] for row in told["phases"]] == [None, 11]


def test_a_name_with_odd_letters_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "a [run]* it's"
    ranked.write(tmp_path / "run", slow="rank = 11", more_us=20000).rename(folder)
    assert verdict(folder)["ranks"] == [11]


# -- a folder that is none -----------------------------------------------------------------------------------


def broken(folder: Path, what: str) -> None:
    import duckdb

    file = folder / "steps/day=2025-12-01/n00-0.parquet"
    if what == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif what == "overwritten":
        whole = bytearray(file.read_bytes())
        whole[20 : len(whole) // 2] = bytes(len(whole) // 2 - 20)
        file.write_bytes(whole)
    elif what == "no rows":
        file.write_bytes(b"")
    else:
        query = {
            "foreign": "SELECT 1 AS a",
            "text": "SELECT 'many' AS step_us, 0 AS rank, 1 AS step",
            "negative": f"SELECT * REPLACE (-5 AS forward_us) FROM '{file}'",
        }[what]
        duckdb.connect().execute(f"COPY ({query}) TO '{folder}/new' (FORMAT parquet)")
        (folder / "new").replace(file)
    if what == "foreign":
        (folder / "steps/day=2025-12-01/n01-0.parquet").unlink()


@pytest.mark.parametrize("what", ["cut", "overwritten", "no rows", "foreign", "text", "negative"])
def test_a_damaged_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    folder = ranked.write(tmp_path / "run", layers=False)
    broken(folder, what)
    code, out, err = shown(capsys, str(folder))
    assert (code, out) == (3, "")
    assert err.startswith(f"lamina: error: {folder}") and err.count("\n") == 1, err


def test_a_folder_without_a_run_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ranks").mkdir()
    for folder, words in (
        (tmp_path, "it is no folder of a run: ranks/ has no Parquet file"),
        (tmp_path / "ranks", "this folder is neither a run's nor a model's"),
    ):
        code, out, err = shown(capsys, str(folder))
        assert (code, out) == (3, "")
        assert f"{folder}: {words}" in err


def test_a_run_without_steps_is_one_sentence(tmp_path: Path) -> None:
    folder = ranked.write(tmp_path / "run")
    shutil.rmtree(folder / "steps")
    with pytest.raises(UsageError, match="the run has no steps"):
        verdict(folder)
    with pytest.raises(UsageError, match="have no Parquet files"):
        merge_tables(folder, tmp_path / "to")


def test_a_table_that_lacks_a_column_is_named(tmp_path: Path) -> None:
    folder = ranked.write(tmp_path / "run")
    shutil.copy(next(folder.glob("layers/*/*")), folder / "ranks/ranks.parquet")
    with pytest.raises(FormatError, match="the files of ranks/ have no column node"):
        verdict(folder)


def test_without_duckdb_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ranked.write(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, out, err = shown(capsys, str(folder))
    assert (code, out) == (3, "")
    assert "pip install 'lamina[scale]'" in err and err.count("\n") == 1


def test_options_of_models_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(ranked.write(tmp_path / "run"))
    assert shown(capsys, folder, "--rf")[0] == 2
    assert shown(capsys, folder, folder)[0] == 2
    assert shown(capsys, folder, "--format", "csv")[0] == 2
