# SPDX-License-Identifier: Apache-2.0
"""``lamina sql``: queries over the tables of a run's folder, those of docs/scale.md among them."""

from __future__ import annotations

import _thread
import json
import re
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT

import ranked
import recordings
from lamina._command import cli
from lamina._ranks.merge import merge

pytest.importorskip("duckdb")

PAGE = (Path(__file__).parents[2] / "docs/scale.md").read_text("utf-8")
QUESTIONS = re.findall(r"^([^\n]*\?)[^\n]*\n\n```sql\n(.*?)^```$", PAGE, re.M | re.S)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main(["sql", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of eight ranks on four nodes, of which rank 5 is slow in its forward pass."""
    place = tmp_path_factory.mktemp("run")
    files = recordings.make(place, ranks=8, slow=5)
    merge(files, str(place / "run"), lambda _: None, lambda *_: None)
    return place / "run"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from tables of another tool, which know more: groups, FLOPs, and who died."""
    place = tmp_path_factory.mktemp("traced")
    ended = "CASE WHEN rank = 5 THEN 'MemoryError' END"
    return ranked.write(place / "run", slow="rank = 11", more_us=20000, layer="head", ended=ended)


def answer(capsys: pytest.CaptureFixture[str], folder: Path, query: str) -> list[dict[str, Any]]:
    code, out, err = run(capsys, folder, query, "--json")
    assert code == 0, err
    told = json.loads(out)
    return [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]


def question(start: str) -> str:
    (found,) = [query for asked, query in QUESTIONS if asked.startswith(start)]
    return found


def test_the_page_has_nine_questions() -> None:
    assert len(QUESTIONS) == 9


@pytest.mark.parametrize("asked", [asked for asked, _ in QUESTIONS])
def test_each_question_of_the_page_can_be_asked(
    folder: Path, traced: Path, capsys: pytest.CaptureFixture[str], asked: str
) -> None:
    for each in (folder, traced):
        answer(capsys, each, question(asked))


def test_the_answers_are_those_of_the_run(
    folder: Path, traced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = answer(capsys, folder, question("Which rank is slow"))
    assert (slow[0]["rank"], slow[0]["node"]) == (5, "n2") and len(slow) == 8
    assert slow[0]["late_percent"] == pytest.approx(22.2, abs=0.3)
    assert slow[0]["forward_ms"] == pytest.approx(20, abs=0.2) and abs(slow[0]["backward_ms"]) < 0.3
    last = answer(capsys, folder, question("Who is last"))
    assert [(row["last_rank"], row["times_last"]) for row in last] == [(5, 59)]
    (share,) = answer(capsys, folder, question("Where does a step's time go"))
    assert share["ranks"] == 8
    parts = ("input", "h2d", "forward", "backward", "optimizer", "comm", "other")
    assert sum(share[part] for part in parts) == pytest.approx(100, abs=0.3)
    (hour,) = answer(capsys, folder, question("When did it get worse"))
    assert (hour["hour"], hour["steps"]) == (recordings.EPOCH_S // 3600, 59)
    assert hour["transfer_ms"] == pytest.approx(5, abs=0.1)
    layer = answer(capsys, traced, question("Which layer"))[0]
    assert (layer["layer"], layer["rank"]) == ("head", 11)
    stopped = answer(capsys, traced, question("Who stopped first"))
    assert [(row["rank"], row["ended_by"]) for row in stopped] == [(5, "MemoryError")]
    (mfu,) = answer(capsys, traced, question("What share of the machine"))
    assert 20 < mfu["mfu_percent"] < 45
    assert answer(capsys, folder, question("What share of the machine")) == [
        {"mfu_percent": None, "tflops_a_rank": None}
    ]
    nodes = answer(capsys, folder, question("Which node waits"))
    assert {row["node"] for row in nodes} == {"n0", "n1", "n2", "n3"}


def test_a_table_has_a_question_mark_for_what_is_unknown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(
        capsys, folder, "SELECT rank, comm_group, 'a' || rank AS name FROM ranks ORDER BY rank LIMIT 2"
    )
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["rank", "comm_group", "name"], ["0", "?", "a0"], ["1", "?", "a1"], ["2", "rows"],
    ]  # fmt: skip


def test_csv_has_all_digits_and_nothing_for_what_is_unknown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "rows.csv"
    query = "SELECT 1 AS one, 'a,\"b' AS t, NULL AS n, true AS f, CAST(0.1 AS DOUBLE) AS d"
    query += ", DATE '2025-12-01' AS day"
    code, out, err = run(capsys, folder, query, "-o", to)
    assert (code, out, err) == (0, "", "")
    assert to.read_text() == 'one,t,n,f,d,day\n1,"a,""b",,true,0.10000000000000001,2025-12-01\n'


def test_names_may_be_anything_and_come_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, folder, 'SELECT 1 AS "a ""b", 2 AS "a ""b", sum(rank) FROM ranks;', "--json")
    assert code == 0 and json.loads(out)["rows"] == [[1, 2, 28]]
    code, out, _ = run(capsys, folder, "SELECT rank FROM ranks WHERE rank > 100")
    assert code == 0 and out.splitlines()[-1] == "0 rows"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELEKT 1", "syntax error"),
        ("SELECT nothing FROM ranks", '"nothing" not found'),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT CAST(node AS INTEGER) FROM ranks", "Could not convert"),
        ("SELECT 1; SELECT 2", "a query is one SELECT"),
        ("", "a query is one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "a query is one SELECT"),
        ("COPY ranks TO 'x.csv'", "a query is one SELECT"),
        ("SET enable_external_access = true", "a query is one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("SELECT * FROM '/etc/passwd'", "/etc/passwd"),
        ("SELECT * FROM glob('/*')", "disabled by configuration"),
    ],
)
def test_a_fault_is_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], query: str, text: str
) -> None:
    before = sorted(folder.rglob("*"))
    code, out, err = run(capsys, folder, query)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert err.startswith("lamina: error: ") and text in err
    assert sorted(folder.rglob("*")) == before


def test_a_folder_that_is_none_is_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = run(capsys, tmp_path, "SELECT 1")
    assert code == 3 and "it is no folder of a run" in err and "lamina merge" in err
    (tmp_path / "empty/ranks").mkdir(parents=True)
    code, _, err = run(capsys, tmp_path / "empty", "SELECT 1")
    assert code in (2, 3) and "ranks/ has no Parquet file" in err
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    cut = next(broken.glob("steps/*/*"))
    cut.write_bytes(cut.read_bytes()[:-9])
    code, _, err = run(capsys, broken, "SELECT 1")
    assert code == 3 and cut.name in err and "it was cut" in err
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, _, err = run(capsys, folder, "SELECT 1")
    assert code == 3 and "pip install 'lamina[scale]'" in err and err.count("\n") == 1


class Endless:
    """A connection whose statement goes on until it is interrupted once it runs."""

    def __init__(self) -> None:
        self.runs, self.ends = threading.Event(), threading.Event()

    def execute(self, _: str) -> None:
        self.runs.set()
        _thread.interrupt_main()
        assert self.ends.wait(LIMIT)

    def interrupt(self) -> None:
        if self.runs.is_set():
            self.ends.set()


def test_an_interrupt_ends_a_statement_that_goes_on() -> None:
    from lamina._ranks import query

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            query._execute(Endless(), "SELECT 1")
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_it(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lamina._ranks import query

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(query, "_rows", interrupted)
    assert run(capsys, folder, "SELECT 1")[0] == 130
