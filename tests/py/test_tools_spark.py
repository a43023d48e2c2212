# SPDX-License-Identifier: Apache-2.0
"""tools/test-spark: what it asks Spark for, and which rows are equal. ``make test-spark`` asks Spark."""

from __future__ import annotations

import re
import sys
from datetime import date
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ranked
import recordings
from lamina._ranks import TABLES, merge_tables, open_run, sql
from lamina._ranks.merge import merge

duckdb = pytest.importorskip("duckdb")

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = "SELECT ROUND(100 * AVG(a) / 3, 1) AS x, b AS y FROM t"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("tools_test_spark", str(ROOT / "tools/test-spark"))
    spec = spec_from_loader("tools_test_spark", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("rows", "others", "said"),
    [
        ([[1.0, 2]], [[1.0, 2]], None),
        ([[1.1, 2.0]], [[1.2, 2.0 + 1e-12]], None),
        ([[1.1, 2.0]], [[1.3, 2.0]], "x of row 0 is 1.1 in DuckDB, 1.3 in Spark"),
        ([[1.1, 2.0]], [[1.1, 2.1]], "y of row 0 is 2.0 in DuckDB, 2.1 in Spark"),
        ([[1.1, None]], [[1.1, 0.0]], "y of row 0 is None in DuckDB, 0.0 in Spark"),
        ([[1.1, None]], [[1.1, 0]], "y of row 0 is None in DuckDB, 0 in Spark"),
        ([[1.1, "2"]], [[1.1, 2.0]], "y of row 0 is '2' in DuckDB, 2.0 in Spark"),
        ([[1.1, True]], [[1.1, 1]], "y of row 0 is True in DuckDB, 1 in Spark"),
        ([[1.1, 2]], [[1.1]], "DuckDB has 2 columns, Spark 1"),
        ([[1.1, 2]], [], "DuckDB has 1 rows, Spark 0"),
        ([[1.1, 2], [3.0, 4]], [[3.0, 4], [1.1, 2]], "x of row 0 is 1.1 in DuckDB, 3.0 in Spark"),
        ([[1.1, 2]], "ParseException: no", "Spark says: ParseException: no"),
    ],
)  # fmt: skip
def test_what_differs_is_told(tool: ModuleType, rows: Any, others: Any, said: str | None) -> None:
    assert tool.difference(["x", "y"], rows, others, ROUNDS, ordered=True) == said


def test_rows_without_an_order_may_come_in_any(tool: ModuleType) -> None:
    rows = [[1.1, 2], [3.0, None], [None, 4]]
    assert tool.difference(["x", "y"], rows, rows[::-1], ROUNDS, ordered=False) is None


def test_only_rounded_columns_may_differ_in_their_last_digit(tool: ModuleType) -> None:
    assert tool.digits(ROUNDS) == {"x": 1}
    rounds = {name: tool.digits(query) for name, query in tool.questions().items()}
    (slow,) = (found for name, found in rounds.items() if name.startswith("Which rank is slow"))
    assert slow == dict.fromkeys(("late_percent", "input_ms", "forward_ms", "backward_ms", "waits_ms"), 1)


def test_the_program_of_the_page_reads_each_table_that_is_there(tool: ModuleType) -> None:
    _, program = tool.program({"ranks", "steps"})
    compile(program, "page", "exec")
    assert "folder =" not in program and "createOrReplaceTempView" in program
    assert all(f'"{table}": ' in program for table in TABLES)


def viewed(tool: ModuleType, folder: Path) -> Any:
    """DuckDB over the files of a folder by the views of the page alone."""
    db = duckdb.connect()
    for line in re.findall(r"^CREATE VIEW .*;$", tool.PAGE.read_text("utf-8"), re.M):
        if folder.joinpath(line.split("s3://bucket/run/")[1].partition("/")[0]).exists():
            db.execute(line.replace("s3://bucket/run", str(folder)))
    for statement in tool.program(set())[0].split(";\n"):
        if statement.strip():
            db.execute(statement)
    return db


def test_the_views_of_the_page_are_those_of_lamina(tool: ModuleType, tmp_path: Path) -> None:
    """Of a run where a rank is on two nodes, some ranks go on, and others ended."""
    files = recordings.make(tmp_path, ended=False, ranks=6)
    again = recordings.make(tmp_path / "again", ended=False, ranks=6, per_node=1, only=(0, 1))
    run = tmp_path / "run"
    for part in (files[2:], again, files[:2]):
        merge(part, str(run), lambda _: None, lambda *_: None)
    for file in run.glob("ranks/*.parquet"):
        tool.changed(file, "rank < 3 AS running")
    merge_tables(ranked.write(tmp_path / "tables", starved_us="100"), tmp_path / "traced")
    for folder in (run, tmp_path / "traced"):
        whole, other = open_run(str(folder), for_sql=True), viewed(tool, folder)
        one = whole.db
        one.execute(sql("own"))
        for table in sorted(whole.has):
            query = f"SELECT {', '.join(TABLES[table][0])} FROM {table} ORDER BY ALL"
            assert one.execute(query).fetchall() == other.execute(query).fetchall(), table
        query = "SELECT * FROM own ORDER BY ALL"
        assert one.execute(query).fetchall() == other.execute(query).fetchall()
    days = "SELECT day, COUNT(*) FROM steps GROUP BY day"
    assert other.execute(days).fetchall() == [(date(2025, 12, 1), 16 * 96)]


def test_the_page_shows_own_work_as_lamina_computes_it(tool: ModuleType) -> None:
    text = sql("own")
    assert text[text.index("CREATE") :].strip() in tool.program(set())[0]


def test_without_pyspark_it_says_what_to_run(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "SPARK", tmp_path / "python")
    assert tool.main([]) == 3
    assert capsys.readouterr().err == "test-spark: pyspark is not installed; run it as make test-spark\n"
