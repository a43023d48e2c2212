# SPDX-License-Identifier: Apache-2.0
"""``lamina.open``: what a recording holds as tables, which readers of Arrow's streams take."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lamina
import recordings
from lamina._base.errors import UsageError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return recordings.make(tmp_path_factory.mktemp("run"), slow=2)


def test_a_step_has_its_phases_which_add_up(files: list[str]) -> None:
    steps = lamina.open(files[0]).steps()
    assert len(steps) == 60
    assert steps["step"][:3] == [0, 10, 20]
    phases = [steps[f"{name}_us"] for name in (*recordings.SHARES, "comm")]
    for whole, *of in zip(steps["step_us"], *phases, strict=True):
        assert sum(of) == pytest.approx(whole)
    own = [None if u is None else round(w - c, 6) for u, w, c in zip(
        steps["own_us"], steps["step_us"], steps["comm_us"], strict=True)]  # fmt: skip
    assert own == [None if u is None else round(u, 6) for u in steps["own_us"]]
    assert steps["own_us"][0] is None and steps["counts"][0] is False  # it warms up


def test_what_was_not_measured_is_none(tmp_path: Path) -> None:
    (file,) = recordings.make(tmp_path, ranks=1, waits=False)
    steps = lamina.open(file).steps()
    assert set(steps["comm_us"]) == {None}
    assert set(steps["peak_bytes"]) == {None} and set(steps["nonfinite"]) == {None}
    assert lamina.open(file).ranks()["waits"] == ["inside"]


def test_several_files_are_one_table(files: list[str]) -> None:
    ranks = lamina.open(*files).ranks()
    assert ranks["rank"] == [0, 1, 2, 3] and ranks["node"] == ["n0", "n0", "n1", "n1"]
    assert ranks["world"] == [4] * 4 and len(set(ranks["tree"])) == 1
    steps = lamina.open(*map(Path, files)).steps()
    assert len(steps) == 240 and steps["rank"].count(3) == 60


def test_layers_are_medians_of_an_hour(tmp_path: Path) -> None:
    (file,) = recordings.make(tmp_path, ranks=1, steps=90, every=1000)  # two and a half hours
    layers = lamina.open(file).layers()
    hours = recordings.EPOCH_S // 3600
    assert sorted(set(layers["hour"])) == [hours, hours + 1, hours + 2]
    assert layers["layer"][:3] == ["(the model)", "0", "1"]
    assert layers["steps"] == [16] * 9
    assert layers["forward_us"][1] == pytest.approx(28_000 * 0.6, rel=0.01)
    assert layers["backward_us"][2] == pytest.approx(55_000 * 0.3, rel=0.01)


def test_duckdb_reads_a_table_as_it_is(files: list[str]) -> None:
    duckdb = pytest.importorskip("duckdb")
    for name in ("ranks", "steps", "layers"):
        held = getattr(lamina.open(*files), name)()
        for _ in range(2):  # each reader gets a stream of its own
            rows = duckdb.sql("SELECT * FROM held").fetchall()
            assert [list(column) for column in zip(*rows, strict=True)] == [held[c] for c in held.columns]
    db = duckdb.connect()
    db.register("steps", lamina.open(*files).steps())
    text = "SELECT AVG(own_us) FROM steps WHERE counts AND rank = "
    slow, usual = (db.execute(text + rank).fetchall()[0][0] for rank in ("2", "0"))
    assert slow - usual == pytest.approx(20_000, rel=0.01)


def test_pyarrow_reads_a_table_as_it_is(files: list[str]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = lamina.open(*files).steps()
    read = pyarrow.table(table)
    read.validate(full=True)
    assert read.to_pydict() == {name: table[name] for name in table.columns}
    column = read.column("model")
    del table, read
    gc.collect()
    assert column[0].as_py() == "Sequential"


def test_a_stream_that_nobody_reads_is_released(files: list[str]) -> None:
    steps = lamina.open(files[0]).steps()
    for _ in range(100):
        steps.__arrow_c_stream__()
        steps.__arrow_c_stream__(requested_schema=None)


LEAK = """
import resource, sys, lamina
files = sys.argv[1:]
def once():
    held = lamina.open(*files)
    for table in (held.ranks(), held.steps(), held.layers()):
        table.__arrow_c_stream__()
        for name in table.columns: table[name]
def most():
    for _ in range(20): once()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
most()
print(min(-(most() - most()) for _ in range(4)))
"""


def test_nothing_piles_up(files: list[str]) -> None:
    """The least growth of a few windows of 20 times; a leak of one table would be 20 times its size."""
    done = subprocess.run([sys.executable, "-c", LEAK, *files], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200  # KiB


def test_a_table_says_what_it_has(files: list[str]) -> None:
    steps: Any = lamina.open(files[0]).steps()
    assert repr(steps) == f"<lamina.Table: 60 rows of {len(steps.columns)} columns>"
    with pytest.raises(KeyError, match="speed"):
        steps["speed"]
    with pytest.raises(KeyError):
        steps[0]
    with pytest.raises(TypeError):
        type(steps)()


def test_what_is_no_recording_is_refused(tmp_path: Path, files: list[str]) -> None:
    other = tmp_path / "x.lamina"
    other.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(OSError, match="it is not a recording"):
        lamina.open(other)
    with pytest.raises(OSError, match=r"(?i)no such file"):
        lamina.open(tmp_path / "none.lamina")
    with pytest.raises(UsageError, match="it has no run 7"):
        lamina.open(files[0], run=7)
    with pytest.raises(UsageError, match=r'lamina\.open\("run\.lamina"\)'):
        lamina.open()


def test_a_damaged_layer_is_found_where_layers_are_read(tmp_path: Path) -> None:
    import sqlite3

    (file,) = recordings.make(tmp_path, ranks=1)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE layers SET place = 99 WHERE place = 1")
    held = lamina.open(file)
    assert len(held.steps()) == 60
    with pytest.raises(OSError, match="it is damaged: the place of a layer's row"):
        held.layers()
