# SPDX-License-Identifier: Apache-2.0
"""``lamina report run/``: the page of a run of many ranks, as a browser sees it, and the queries by which it
says where its numbers come from."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import browser
import pytest

import ranked
from lamina._command.cli import main
from lamina._ranks import merge_tables, open_run

duckdb = pytest.importorskip("duckdb")

SLOW = {"slow": "rank = 11", "more_us": 20000, "since": 48, "layer": "blocks.0.mlp"}


@pytest.fixture(scope="module")
def window():
    with browser.started() as started:
        yield started


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("page")
    merge_tables(ranked.write(at / "tables", ranks=80, missing="rank IN (70, 71)", **SLOW), at / "run")
    return at / "run"


def page_of(folder: Path, to: Path) -> Path:
    page = to / "run.html"
    assert main(["report", str(folder), "-o", str(page), "-f"]) == 0
    return page


def test_the_page_of_a_run(run: Path, tmp_path: Path, window: Any) -> None:
    page = page_of(run, tmp_path)
    for scheme in ("light", "dark"):
        with window.open(page, color_scheme=scheme) as seen:
            assert [a for a in seen.asked if a != page.as_uri()] == []
            assert seen.said == []
            assert seen.count("script") == 0
            assert seen.texts("h1") == ["Rank 11 slows all"]
            assert seen.texts("h2") == [
                "Phases of a step",
                "Who is late, over time",
                "Steps over time",
                "Where the numbers come from",
            ]
            assert "2 of 80 ranks have no recording that can be compared (70..71)" in seen.texts(".find")[0]
            assert seen.count("#beside tbody tr") == 2
            assert seen.count("#heat svg g") == 1  # the node of rank 11 alone is late
            assert seen.texts("#heat svg g title") == ["n01"]
            assert seen.count("#heat tbody tr") == 10
            assert seen.faults() == []


def test_each_link_leads_to_an_element(run: Path, tmp_path: Path) -> None:
    text = page_of(run, tmp_path).read_text("utf-8")
    links = re.findall(r'href="#([^"]+)"', text)
    assert {f' id="{link}"' in text for link in links} == {True}
    assert sum(link.startswith("from-") for link in links) > 20


def queries(page: Path) -> dict[str, str]:
    found = re.findall(r'<div id="from-(\w+)"[^>]*>.*?<code>(.*?)</code>', page.read_text("utf-8"), re.DOTALL)
    return {name: html.unescape(query) for name, query in found}


def asked(db: Any, query: str) -> list[dict[str, Any]]:
    rows = db.execute(query)
    names = [column[0] for column in rows.description]
    return [dict(zip(names, row, strict=True)) for row in rows.fetchall()]


def test_the_queries_give_the_numbers(run: Path, tmp_path: Path) -> None:
    told = open_run(str(run)).judged().as_dict()
    by = queries(page_of(run, tmp_path))
    assert by.keys() == {"ranks", "steps", "gain", "windows", "nodes", "last", "mfu"}
    db = duckdb.connect()
    for table in ("ranks", "windows", "meets"):
        db.execute(
            f"CREATE VIEW {table} AS FROM read_parquet('{run}/{table}/**/*.parquet', union_by_name = true)"
        )
    (ranks,) = asked(db, by["ranks"])
    assert (ranks["ranks"], ranks["world"], ranks["nodes"]) == (
        told["ranks"],
        told["world"],
        told["nodes"],
    )
    (steps,) = asked(db, by["steps"])
    assert steps["steps"] == told["steps"]
    for name in ("step_us", "late_us", "transfer_us"):
        assert steps[name] == pytest.approx(told[name], rel=1e-3)
    (gain,) = asked(db, by["gain"])
    assert gain["step_us"] == pytest.approx(told["verdict"]["step_us"], rel=1e-3)
    assert gain["without_us"] == pytest.approx(told["verdict"]["without_us"], rel=1e-3)
    rows = {row["named"]: row for row in asked(db, by["windows"])}
    for row in told["phases"]:
        for phase in ("input", "forward", "backward", "optimizer", "comm", "own", "step"):
            assert rows[row["rank"]][f"{phase}_us"] == pytest.approx(row[f"{phase}_us"], rel=1e-3)
    assert max(row["late"] for row in asked(db, by["nodes"]) if row["rank"] == 11) > 0.15
    assert asked(db, by["last"])[: len(told["last"])] == told["last"]
    (mfu,) = asked(db, by["mfu"])
    assert mfu["mfu"] == pytest.approx(told["mfu"], rel=1e-3)


def test_a_run_without_late_ranks_says_so(tmp_path: Path) -> None:
    text = page_of(ranked.write(tmp_path / "run"), tmp_path).read_text("utf-8")
    assert ">Nothing stands out</h1>" in text
    assert '<li class="ok">' in text


def test_what_is_no_run_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty"), "-o", str(tmp_path / "x.html")]) == 3
    out, err = capsys.readouterr()
    assert out == "" and "this folder is neither a run's nor a model's" in err
    assert not (tmp_path / "x.html").exists()


def test_the_queries_name_a_node_too(tmp_path: Path) -> None:
    run = tmp_path / "run"
    how = {"slow": "node = 'n01'", "more_us": 15000, "phase": "input", "ranks": 32}
    merge_tables(ranked.write(tmp_path / "tables", layers=False, **how), run)
    told = open_run(str(run)).judged().as_dict()
    by = queries(page_of(run, tmp_path))
    db = duckdb.connect()
    for table in ("ranks", "windows"):
        db.execute(f"CREATE VIEW {table} AS FROM read_parquet('{run}/{table}/**/*.parquet')")
    rows = {row["named"]: row for row in asked(db, by["windows"])}
    assert rows.keys() == {None, "n01"}
    for row in told["phases"]:
        assert rows[row["node"]]["input_us"] == pytest.approx(row["input_us"], rel=1e-3)
