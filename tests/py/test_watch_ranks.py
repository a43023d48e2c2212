# SPDX-License-Identifier: Apache-2.0
"""Runs of several processes: each writes its own file, and lamina shows them side by side."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
import torch.distributed
from conftest import environment, needs_recordings

import warm

needs_recordings()

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

PARAMS = 16 * 32 + 32 + 32 * 8 + 8


def train(folder, kind, world, fate="fine"):
    """Exit codes of all ranks."""
    worker = Path(__file__).with_name("watch_worker.py")
    words = (worker, kind, folder / "meet", folder / "run.lamina", fate)
    ranks = [environment(RANK=str(rank), WORLD_SIZE=str(world)) for rank in range(world)]
    done = warm.together([warm.start(*words, env=env) for env in ranks])
    told, codes = [process.stderr for process in done], [process.returncode for process in done]
    if fate != "dies":
        if any("ImportError" in text or "ModuleNotFoundError" in text for text in told):
            pytest.skip("this torch can't do that")
        assert codes == [0] * world, told[0][-3000:]
    return codes


def show(folder, *words):
    files = sorted(str(path) for path in folder.glob("run.*.lamina"))
    done = subprocess.run(
        [sys.executable, "-m", "lamina", "show", *files, *words],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def set_times(folder):
    """Gives the steps the times of processes that nothing else delays: rank 1 computes for 50 ms longer, in
    one layer, for which rank 0 waits. What was measured is at least the sleep of that layer."""
    for rank, (slow, wait) in enumerate(((0, 51_000_000), (50_000_000, 1_000_000))):
        with closing(sqlite3.connect(folder / f"run.{rank}.lamina")) as db:
            layer = "place = (SELECT place FROM places WHERE path = 'module.1')"
            (least,) = db.execute(f"SELECT min(forward_ns) FROM layers WHERE {layer}").fetchone()
            assert least >= slow
            db.execute(
                "UPDATE steps SET whole_ns = 56000000 + 10000 * number, input_ns = NULL, h2d_ns = 0,"
                " forward_ns = 2000000 + :slow, own_forward_ns = 2000000 + :slow, wait_ns = :wait,"
                " backward_ns = 1000000, own_backward_ns = 1000000, optimizer_ns = 1000000,"
                " other_ns = 1000000 + 10000 * number, processor_wait_ns = 0",
                {"slow": slow, "wait": wait},
            )
            db.execute("UPDATE layers SET forward_ns = 1000, forward_self_ns = 1000, backward_ns = 1000")
            db.execute(
                f"UPDATE layers SET forward_ns = ?1, forward_self_ns = ?1 WHERE {layer}", (slow + 1000,)
            )
            db.commit()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folder of a run of two processes, by its kind."""

    @cache
    def run(kind):
        folder = tmp_path_factory.mktemp(kind)
        train(folder, kind, 2)
        if kind == "slow":
            set_times(folder)
        return folder

    return run


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_each_rank_writes_its_own(recorded, kind):
    folder, world = recorded(kind), 2
    assert sorted(path.name for path in folder.glob("run.*")) == [f"run.{r}.lamina" for r in range(world)]
    told = json.loads(show(folder, "--format", "json"))
    assert [run["rank"] for run in told["runs"]] == list(range(world))
    for run in told["runs"]:
        assert run["world"] == world
        (model,) = run["models"]
        assert (model["params"], model["last_step"], model["steps"]) == (PARAMS, 8, 4)
        assert model["local_params"] == (PARAMS if kind == "ddp" else PARAMS // world)
    text = show(folder)
    assert text.startswith(f"{world} processes of {world}: ")
    assert f"local params {'1.00x'}" in text
    assert sum("ended after" in line for line in text.splitlines()) == world


def test_a_slow_rank_is_named(recorded, tmp_path):
    """A third file is made of another's; all times are alike but those of one layer in it."""
    for rank, of in enumerate((0, 1, 1)):
        file = tmp_path / f"run.{rank}.lamina"
        shutil.copy(recorded("ddp") / f"run.{of}.lamina", file)
        with closing(sqlite3.connect(file)) as db:
            db.execute("UPDATE runs SET world = 3, rank = ?", (rank,))
            db.execute("UPDATE layers SET forward_ns = 1000, forward_self_ns = 1000, backward_ns = 1000")
            if rank == 2:
                slow = "place = (SELECT place FROM places WHERE path = 'module.1')"
                db.execute(
                    f"UPDATE layers SET forward_ns = 20001000, forward_self_ns = 20001000 WHERE {slow}"
                )
            db.commit()
    told = json.loads(show(tmp_path, "--format", "json"))
    first = told["stragglers"][0]
    assert (first["rank"], first["path"]) == (2, "module.1")
    assert first["slowest_ns"] - first["middle_ns"] == 20_000_000
    (line,) = (line for line in show(tmp_path).splitlines() if line.startswith("module.1 "))
    assert "rank 2" in line


def test_the_verdict_names_the_rank_that_all_wait_for(recorded):
    """All ranks take equally long; one waits less, since a layer of it is slow."""
    folder = recorded("slow")
    verdict = json.loads(show(folder, "--format", "json"))["verdict"]
    assert (verdict["kind"], verdict["ranks"], verdict["phase"]) == ("slow_rank", [1], "compute")
    assert verdict["layer"] == "module.1"
    assert verdict["gain"] > 0.1
    assert "\n! Rank 1 slows all: " in show(folder)


def test_one_rank_stands_beside_the_other(recorded):
    told = json.loads(show(recorded("slow"), "--format", "json", "--rank", "1"))
    assert (told["schema"], told["of"]["rank"], told["of"]["peers"]) == ("lamina.ranks/1", 1, 1)
    peers, own = told["of"]["phases"]
    assert own["own_us"] > peers["own_us"] and own["comm_us"] < peers["comm_us"]
    assert told["layers"][0]["layer"] == "module.1"
    assert show(recorded("slow"), "--layers").splitlines()[3].startswith("module.1 ")


def test_the_page_of_several_begins_with_the_verdict(recorded, tmp_path):
    files = sorted(str(path) for path in recorded("slow").glob("run.*.lamina"))
    page = tmp_path / "run.html"
    words = [sys.executable, "-m", "lamina", "report", *files, "-o", str(page)]
    subprocess.run(words, env=environment(), check=True, capture_output=True)
    text = page.read_text("utf-8")
    found = text[text.index('<ul class="find">') :]
    assert found.startswith('<ul class="find"><li class="bad">')
    assert "Rank 1 slows all: " in found.partition("</li>")[0]
    sections = ["beside", "heat", "course", "steps0", "layers0", "ranks", "origins", "prov"]
    places = [text.index(f'<section id="{name}"') for name in sections]
    assert places == sorted(places)
    query = text[text.index("SELECT number, ") :].partition("</code>")[0]
    with closing(sqlite3.connect(files[0])) as db:  # where the numbers come from can be asked
        assert len(db.execute(query).fetchall()) >= 20


def test_a_rank_that_dies_leaves_a_readable_file(tmp_path):
    codes = train(tmp_path, "ddp", 2, "dies")
    assert all(code < 0 for code in codes)
    told = json.loads(show(tmp_path, "--format", "json"))
    assert all(run["models"][0]["last_step"] >= 4 for run in told["runs"])
    told, killed = told["runs"]
    assert told["ended_by"] == "SIGTERM" and told["ended_unix_ns"]
    assert killed["ended_by"] is killed["ended_unix_ns"] is None
    assert sum("ended after" in line for line in show(tmp_path).splitlines()) == 1
