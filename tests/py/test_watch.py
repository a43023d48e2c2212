# SPDX-License-Identifier: Apache-2.0
"""lamina.watch: what is recorded, that training is as it was, what a kill, a fork or a full disk leave."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import torch
from conftest import LIMIT, environment, hear_interrupts, needs_recordings, steps_in, wait_until
from ext_kit import module_call
from torch import nn
from where_kit import not_observed

import lamina
import warm
from lamina import _lamina, _watch
from lamina._command import cli
from lamina._guard import standing_entry

needs_recordings()


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def train(model, steps, x=None, each=None):
    x = torch.ones(4, 8) if x is None else x
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    losses = []
    for i in range(steps):
        loss = (model(x) + torch.rand(1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if each:
            each(i)
    return losses


def rows(file, sql, *args):
    with closing(sqlite3.connect(file)) as db:
        return db.execute(sql, args).fetchall()


def command(*words):
    """Exit code, standard output and standard error of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "lamina", *map(str, words)],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def seen_of(every, calls, root=0):
    """Which of so many calls, each of them a step, are seen: one in each `every`, at places that move on."""
    golden, apart = (5**0.5 - 1) / 2, 0.7548776662466927
    places = [k * every + int(every * ((k * golden + root * apart) % 1)) for k in range(1, calls)]
    return [0, *(place for place in places if place < calls)]


# -- what is recorded ----------------------------------------------------------------------------------------


def test_by_default_steps_are_recorded_densely_at_first_and_then_fewer(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, file=file) as watch:
        train(model, 300)
    assert watch.stopped is None
    assert watch.every is None
    numbers = [n for (n,) in rows(file, "SELECT number FROM steps ORDER BY id")]
    assert numbers[:33] == list(range(33))
    assert 78 <= len(numbers) <= 84
    assert rows(file, "SELECT every FROM runs") == [(0,)]
    assert "every step at first, then fewer, one in 100 from step 1,600 on" in command("show", file)[1]
    (run,) = json.loads(command("show", file, "--json")[1])["runs"]
    assert (run["rule"], run["every"]) == ("thinning", None)
    assert run["models"][0]["steps"] == len(numbers) - 1


def test_every_nth_step_of_each_mode_is_recorded(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()

    def evaluate(i):
        if i % 10 == 0:
            model.eval()
            with torch.no_grad():
                model(torch.ones(1, 8))
            model.train()

    with lamina.watch(model, every=10, file=file) as watch:
        train(model, 45, each=evaluate)
    assert watch.stopped is None
    assert watch.file == str(file)
    steps = rows(file, "SELECT number, training, calls, failed FROM steps ORDER BY id")
    assert [step for step in steps if step[1]] == [(n, 1, 1, 0) for n in (0, 16, 22, 38, 44)]
    assert seen_of(10, 45) == [0, 16, 22, 38, 44]
    assert [step for step in steps if not step[1]] == [(0, 0, 1, 0)]  # 5 in all
    paths = rows(file, "SELECT place, path, type, depth, params FROM places ORDER BY place")
    assert paths == [
        (0, "", "Sequential", 0, 0),
        (1, "0", "Linear", 1, 144),
        (2, "1", "ReLU", 1, 0),
        (3, "2", "Linear", 1, 68),
    ]
    assert rows(file, "SELECT name, params, local_params, param_bytes FROM models") == [
        ("Sequential", 212, 212, 848)
    ]
    for step, forward in rows(file, "SELECT id, forward_ns FROM steps"):
        total, first = rows(
            file, "SELECT sum(forward_self_ns), max(forward_ns) FROM layers WHERE step = ?", step
        )[0]
        assert total == forward == first > 0
    run = rows(file, "SELECT every, rank, world, dropped, torch, ended_unix_ns >= started_unix_ns FROM runs")
    assert run == [(10, 0, 1, 0, torch.__version__, 1)]


def test_the_file_says_what_it_is(tmp_path):
    file = tmp_path / "run.lamina"
    with lamina.watch(net(), file=file):
        pass
    assert rows(file, "PRAGMA journal_mode") == [("wal",)]
    assert rows(file, "PRAGMA user_version") == [(8,)]
    assert rows(file, "PRAGMA application_id") == [(int.from_bytes(b"LAMN", "big"),)]
    assert dict(rows(file, "SELECT key, value FROM meta"))["schema"] == "8"
    assert rows(file, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")
def test_the_backward_is_told_by_layer(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=1, file=file):
        train(model, 5, torch.ones(64, 8))
    steps = rows(file, "SELECT id, backward_ns FROM steps")
    assert all(backward > 0 for _, backward in steps)
    for step, backward in steps:
        by_place = dict(rows(file, "SELECT place, backward_ns FROM layers WHERE step = ?", step))
        assert by_place[1] > 0 < by_place[3]
        assert sum(by_place.values()) <= backward


@pytest.mark.parametrize("name", [":memory:", "file:run.lamina", ":run"])
def test_every_name_is_a_files(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with lamina.watch(net(), every=1, file=name) as watch:
        assert watch.stopped is None
    assert rows(Path(watch.file).absolute(), "SELECT count(*) FROM runs") == [(1,)]
    assert command("show", name)[1].startswith("run 1")


def test_too_many_steps_to_leave_out_are_refused():
    for every in (1 << 31, 10**30):
        with pytest.raises(ValueError, match="a whole number from 1 to 2147483647"):
            lamina.watch(net(), every=every)
    assert lamina.watch(net(), every=_watch.MOST_EVERY).every == 2147483647


@pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")
def test_the_backward_of_a_block_is_that_of_the_layers_in_it(tmp_path):
    file = tmp_path / "run.lamina"

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
            self.parts = nn.ModuleList([nn.Linear(8, 8)])  # is not called itself

        def forward(self, x):
            return self.parts[0](self.first(x))

    model = nn.Sequential(Block(), nn.Linear(8, 4))
    with lamina.watch(model, every=1, file=file):
        train(model, 6, torch.ones(64, 8))
    told = json.loads(command("show", file, "--format", "json")[1])
    (run,) = told["runs"]
    layers = {place["path"]: place for place in run["models"][0]["layers"]}
    steps = rows(file, "SELECT number FROM steps WHERE number > 0")
    for path, layer in layers.items():
        inside = "path = ? OR path LIKE ? || '.%' OR ? = ''"
        of_step = "SELECT sum(backward_ns) FROM timeline WHERE step = ? AND (" + inside + ")"
        sums = [rows(file, of_step, step[0], path, path, path)[0][0] for step in steps]
        if layer["calls"] is None:
            continue
        assert layer["total_backward_ns"]["median"] == pytest.approx(statistics.median(sums), abs=1)
    assert layers["0"]["total_backward_ns"]["median"] > layers["0"]["backward_ns"]["median"]
    assert layers[""]["total_backward_ns"]["median"] > layers["0"]["total_backward_ns"]["median"]


@pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")
def test_a_backward_on_another_thread_has_no_time(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=1, file=file):
        train(model, 2)
        loss = model(torch.ones(4, 8)).sum()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(loss.backward).result()
    backwards = rows(file, "SELECT backward_ns FROM steps ORDER BY id")
    assert backwards[0][0] > 0
    assert backwards[1][0] > 0
    assert backwards[2:] == [(None,)]
    assert rows(file, "SELECT DISTINCT backward_ns FROM layers WHERE step = 3") == [(None,)]


@pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")
def test_calls_before_one_backward_are_one_step(tmp_path):
    """A discriminator is called for what is real and for what is not, and goes back from both."""
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=2, file=file):
        for _ in range(6):
            (model(torch.ones(1, 8)).sum() - model(torch.zeros(1, 8)).sum()).backward()
    steps = rows(file, "SELECT number, calls, backward_ns > 0 FROM steps WHERE training")
    assert steps == [(0, 2, 1), (4, 2, 1), (10, 2, 1)]  # and never one that began in the middle


def test_several_models_and_watches(tmp_path):
    one, two = net(1), net(2)
    first, second = tmp_path / "first.lamina", tmp_path / "second.lamina"
    with lamina.watch([one, two], every=2, file=first), lamina.watch(one, every=3, file=second):
        train(one, 7)
        train(two, 5)
    count = "SELECT m.name, group_concat(s.number) FROM steps s JOIN models m ON m.id = s.model GROUP BY m.id"
    assert rows(first, count) == [("Sequential", "0,3,4"), ("Sequential 2", "0,2")]
    assert (seen_of(2, 7), seen_of(2, 5, 1)) == ([0, 3, 4], [0, 2])
    assert rows(second, count) == [("Sequential", "0,4,6")]


def test_each_step_shows_what_the_first_shows(tmp_path):
    """Only the first is handed over with its tree."""
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=2, file=file):
        train(model, 12)
    seen = "calls, forward_ns > 0, forward_self_ns > 0, backward_ns >= 0, recompute_ns"
    shown = [
        rows(file, f"SELECT place, {seen} FROM layers WHERE step = ? ORDER BY place", step)
        for (step,) in rows(file, "SELECT id FROM steps ORDER BY id")
    ]
    assert len(shown) == 6
    assert all(step == shown[0] for step in shown)
    assert [row[0] for row in shown[0]] == [0, 1, 2, 3]
    assert rows(file, "SELECT count(*) FROM models") == [(1,)]


def test_models_that_are_called_once_leave_room_for_others(tmp_path):
    file = tmp_path / "run.lamina"
    models = [net(i) for i in range(15)]
    with lamina.watch(models, every=3, file=file):
        for model in models:
            model(torch.ones(2, 8)).sum().backward()
        with lamina.capture(models[0]) as capture:
            models[0](torch.ones(2, 8))
    assert len(capture.report("layers").rows) == 4
    names = rows(file, "SELECT name FROM models ORDER BY root")
    assert names == [("Sequential",), *((f"Sequential {i}",) for i in range(2, 16))]
    assert rows(file, "SELECT number, calls FROM steps") == [(0, 1)] * 15


def test_a_forward_that_raises(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=1, file=file) as watch:
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.ones(1, 5))
        train(model, 2)
    assert watch.stopped is None
    assert rows(file, "SELECT number, failed FROM steps ORDER BY id") == [(0, 1), (1, 0), (2, 0)]


def test_a_tree_that_changes(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=1, file=file):
        train(model, 2)
        model.append(nn.Tanh())
        train(model, 2)
    assert rows(file, "SELECT model, count(*) FROM steps GROUP BY model") == [(1, 2), (2, 2)]
    assert rows(file, "SELECT model, count(*) FROM places GROUP BY model") == [(1, 4), (2, 5)]


@pytest.mark.parametrize("memory", [False, True])
def test_a_layer_that_is_replaced_by_one_of_another_size(tmp_path, memory):
    file = tmp_path / "run.lamina"
    model = nn.Sequential(nn.LazyLinear(8), nn.Linear(8, 4))
    with lamina.watch(model, every=1, file=file, memory=memory):
        for layer in (None, nn.Linear(8, 4), nn.Linear(8, 40)):
            model[1] = layer or model[1]
            for _ in range(2):
                model(torch.rand(2, 8)).sum().backward()
    assert rows(file, "SELECT model, count(*) FROM steps GROUP BY model") == [(1, 4), (2, 2)]
    assert rows(file, "SELECT params FROM models") == [(72 + 36,), (72 + 360,)]


@pytest.mark.parametrize("memory", [False, True])
def test_parameters_that_are_kept_elsewhere_between_some_calls(tmp_path, memory):
    file = tmp_path / "run.lamina"
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU())
    whole = model[0].weight.data
    model[0].register_forward_pre_hook(lambda layer, _: setattr(layer.weight, "data", whole))
    with lamina.watch(model, every=1, file=file, memory=memory):
        for kept in (whole, torch.empty(0), whole, torch.empty(0)):
            model(torch.rand(2, 8)).sum().backward()
            model[0].weight.grad, model[0].weight.data = None, kept
    assert rows(file, "SELECT model, count(*) FROM steps GROUP BY model") == [(1, 4)]


def test_calls_of_a_layer_are_none_of_the_model(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=1, file=file):
        for _ in range(3):
            model[2](model(torch.rand(2, 8))[:, :1].expand(2, model[2].in_features)).sum().backward()
    assert rows(file, "SELECT DISTINCT calls FROM steps") == [(1,)]
    assert rows(file, "SELECT DISTINCT calls FROM timeline WHERE path = '2'") == [(1,)]


def test_runs_follow_each_other(tmp_path):
    file = tmp_path / "run.lamina"
    for _ in range(2):
        with lamina.watch(net(), file=file):
            pass
    assert rows(file, "SELECT id FROM runs") == [(1,), (2,)]


def test_a_file_of_each_rank(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    model = net()
    with lamina.watch(model, every=1, file=tmp_path / "run.lamina") as watch:
        train(model, 1)
    assert watch.file == str(tmp_path / "run.3.lamina")
    assert rows(watch.file, "SELECT rank, world FROM runs") == [(3, 4)]
    assert _watch.file_of_rank("some.dir/run") == "some.dir/run.3"


# -- training is as it was -----------------------------------------------------------------------------------


def test_nothing_is_left_behind_and_nothing_changes(tmp_path):
    plain, watched = net(), net()
    call = nn.Module.__dict__["__call__"]
    before = set(nn.Sequential.__dict__)
    torch.manual_seed(7)
    expected = train(plain, 30)
    torch.manual_seed(7)
    with lamina.watch(watched, every=3, file=tmp_path / "run.lamina"):
        seen = train(watched, 30)
        assert _lamina.in_place()
    assert seen == expected
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), watched.parameters(), strict=True))
    assert nn.Module.__dict__["__call__"] is call
    assert set(nn.Sequential.__dict__) == before
    assert not _watch._roots
    assert not watched._forward_hooks
    assert list(watched.state_dict()) == list(plain.state_dict())


def test_a_class_with_a_call_of_its_own_keeps_it(tmp_path):
    class Own(nn.Linear):
        def __call__(self, x):
            return super().__call__(x) + 1

    own, model = Own.__dict__["__call__"], Own(8, 8)
    x = torch.ones(1, 8)
    expected = model(x)
    file = tmp_path / "run.lamina"
    with lamina.watch(model, every=1, file=file):
        assert torch.equal(model(x), expected)
    assert Own.__dict__["__call__"] is own
    assert rows(file, "SELECT calls FROM steps") == [(1,)]

    def theirs(self, x):
        return own(self, x) + 1

    with lamina.watch(model, every=1, file=file):
        Own.__call__ = theirs
    assert Own.__dict__["__call__"] is theirs  # what somebody put there meanwhile stays
    assert torch.equal(model(x), expected + 1)


def test_a_model_that_is_not_called_is_told_of(tmp_path, capsys):
    called, other = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))
    for options in ({}, {"health": True}):
        with lamina.watch([called, other], file=tmp_path / "run.lamina", **options):
            called(torch.rand(3, 2))
            other[0](torch.rand(3, 2))
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert told.startswith("lamina: no step of Sequential was recorded: it was not called itself.")
    with contextlib.suppress(ZeroDivisionError), lamina.watch(other, file=tmp_path / "run.lamina"):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""


def test_a_model_that_goes_is_let_go(tmp_path):
    with lamina.watch([], every=1, file=tmp_path / "run.lamina") as watch:
        for i in range(20):
            model = net(i)
            watch.add(model)
            model(torch.ones(1, 8))
            del model
        gc.collect()
        assert len(_watch._roots) <= 4  # whose steps are open
    assert not _watch._roots


def test_wrong_use_is_told():
    with pytest.raises(ValueError, match="every is 0"):
        lamina.watch(net(), every=0)
    with pytest.raises(TypeError, match="is a str"):
        lamina.watch("net")
    watch = lamina.watch(net(), file=os.devnull)
    with watch:
        pass
    with pytest.raises(RuntimeError, match="open already"), watch:
        pass


def test_what_is_put_in_place_stays_there_between_steps(tmp_path):
    """Each change of a class empties what Python knows of it, and Python 3.12 gives up after a thousand."""
    model = net()
    call = module_call()
    with lamina.watch(model, every=3, file=tmp_path / "run.lamina"):
        train(model, 5)
        mine = module_call()
        assert mine[2]
        assert mine[0] is call[0]
        train(model, 20)
        assert module_call() == mine
        with lamina.capture(model) as own:
            model(torch.ones(1, 8))
        assert module_call() == mine
    assert module_call() == call
    assert len(own.report().rows) > 1


def test_a_replaced_call_is_seen_through_and_stays(tmp_path):
    file, model = tmp_path / "run.lamina", net()
    call = nn.Module.__call__

    def theirs(self, *args, **kwargs):
        return call(self, *args, **kwargs)

    try:
        with lamina.watch(model, every=2, file=file) as watch:
            train(model, 5)
            nn.Module.__call__ = theirs
            train(model, 4)
        assert watch.stopped is None
        assert nn.Module.__dict__["__call__"] is theirs
        train(model, 4)
    finally:
        nn.Module.__call__ = call
    assert nn.Module.__dict__["__call__"] is call
    assert rows(file, "SELECT min(n), max(n) FROM (SELECT count(*) n FROM layers GROUP BY step)") == [(4, 4)]


# -- what can go wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["no folder", "another file"])
def test_a_file_that_cannot_be_written_stops_the_recording_only(tmp_path, capsys, where):
    file = {
        "no folder": tmp_path / "absent/run.lamina",
        "another file": tmp_path / "text",
    }[where]
    if where == "another file":
        file.write_text("something of the user's\n" * 100)
    model = net()
    with lamina.watch(model, every=1, file=file) as watch:
        assert len(train(model, 3)) == 3
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert told.startswith("lamina: the recording stopped, the program goes on: ")
    assert watch.stopped in told
    assert "__call__" not in nn.Sequential.__dict__
    if where == "another file":
        assert file.read_text() == "something of the user's\n" * 100


def test_a_folder_is_no_file_to_record_into(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        lamina.watch(net(), every=1, file=tmp_path)
    assert list(tmp_path.iterdir()) == []


def program(tmp_path, text, name="train.py"):
    head = """
        import itertools, os, resource, signal, sys, time
        import torch
        from torch import nn
        import lamina
        torch.set_num_threads(1)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        def step(x=torch.ones(4, 8)):
            model(x).sum().backward()
    """
    path = tmp_path / name
    path.write_text(textwrap.dedent(head) + textwrap.dedent(text))
    return path


QUIET = "ignore::DeprecationWarning,ignore::FutureWarning"  # Python's of a fork, torch's of torch


def run(path, *words):
    return warm.python(path, *words, cwd=path.parent, env=environment(PYTHONWARNINGS=QUIET))


def test_a_full_disk_stops_the_recording_only(tmp_path):
    """A process that may write no more into a file behaves as one on a full disk."""
    path = program(tmp_path, f"""
        with lamina.watch(model, every=1, file="run.lamina") as watch:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            began = time.monotonic()
            while watch.stopped is None and time.monotonic() - began < {LIMIT}:
                step()
            for _ in range(10):
                step()
        print("trained")
    """)  # fmt: skip
    done = run(path)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert done.stderr.startswith("lamina: the recording stopped, the program goes on: ")
    assert done.stderr.count("\n") == 1
    assert rows(tmp_path / "run.lamina", "PRAGMA integrity_check") == [("ok",)]
    assert command("show", tmp_path / "run.lamina")[0] == 0


def test_a_kill_loses_nothing_that_was_written(tmp_path):
    """A step is written within half a second: tests/c/store/test_store_record_sleep.c."""
    path = program(tmp_path, """
        with lamina.watch(model, every=1, file="run.lamina"):
            for number in itertools.count():
                step()
                print(number, flush=True)
                time.sleep(0.01)
    """)  # fmt: skip
    file = tmp_path / "run.lamina"
    for enough in (1, 90):
        process = subprocess.Popen(
            [sys.executable, str(path)], env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "0\n"
        wait_until(lambda: steps_in(file) >= enough)  # noqa: B023
        written = rows(file, "SELECT max(number) FROM steps")[0][0]
        process.kill()
        made = int(process.stdout.read().splitlines()[-1])
        process.wait()
        process.stdout.close()
        code, told, _ = command("show", file)
        assert code == 0
        assert f"the process that wrote it (pid {process.pid}) has ended without closing it" in told
        assert rows(file, "PRAGMA integrity_check") == [("ok",)]
        ((last, ended),) = rows(file, "SELECT max(s.number), ended_unix_ns FROM steps s, runs")
        assert ended is None
        assert written <= last <= made + 1  # it may have been killed before it printed the last one
        file.unlink()
        for beside in tmp_path.glob("run.lamina-*"):
            beside.unlink()


def test_workers_that_load_data_write_nothing(tmp_path):
    path = program(tmp_path, """
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 12
            def __getitem__(self, i):
                with torch.no_grad():
                    return model(torch.ones(8)).sum()  # the root, in a worker
        with lamina.watch(model, every=1, file="run.lamina") as watch:
            step()
            loader = torch.utils.data.DataLoader(Data(), num_workers=2, multiprocessing_context="fork")
            for _ in loader:
                step()
        assert watch.stopped is None
        child = os.fork()
        if child == 0:
            sys.exit(0)
        os.waitpid(child, 0)
    """)  # fmt: skip
    done = run(path)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "run.lamina", "SELECT count(*), max(number) FROM steps") == [(13, 12)]
    assert rows(tmp_path / "run.lamina", "SELECT count(*) FROM runs WHERE ended_unix_ns") == [(1,)]


@pytest.mark.parametrize("more", ["", ", memory=True, health=True"])
def test_a_fork_in_a_recorded_step_ends_silently(tmp_path, more):
    path = program(tmp_path, f"""
        with lamina.watch(model, every=1, file="run.lamina"{more}) as watch:
            step()
            child = os.fork()
            if child == 0:
                if torch.cuda.is_available():  # torch then runs no backward in a child
                    model(torch.ones(4, 8))
                else:
                    step()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            step()
        assert watch.stopped is None
    """)  # fmt: skip
    done = run(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(tmp_path / "run.lamina", "SELECT count(*) FROM steps") == [(2,)]


@pytest.mark.parametrize(
    ("how", "code"), [("sys.exit(3)", 3), ("raise SystemExit('bye')", 1), ("watch.__exit__ = 1", 0)]
)
def test_a_program_that_ends_inside(tmp_path, how, code):
    path = program(tmp_path, f"""
        watch = lamina.watch(model, every=1, file="run.lamina")
        watch.__enter__()
        step()
        {how}
    """)  # fmt: skip
    done = run(path)
    assert done.returncode == code, done.stderr
    assert rows(tmp_path / "run.lamina", "SELECT count(*) FROM steps") == [(1,)]
    assert rows(tmp_path / "run.lamina", "SELECT count(*) FROM runs WHERE ended_unix_ns") == [(1,)]


# -- what it costs -------------------------------------------------------------------------------------------


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="the sanitizer keeps what was freed")
@pytest.mark.usefixtures("one_thread")
def test_ten_thousand_steps_keep_nothing(tmp_path):
    x, model, turns, sizes = torch.ones(64, 8), net(), 20, []
    with lamina.watch(model, every=100, file=tmp_path / "run.lamina") as watch:
        train(model, 200, x)
        for _ in range(turns):
            train(model, 500, x)
            gc.collect()
            sizes.append(resident())
    assert watch.stopped is None
    assert rows(watch.file, "SELECT count(*) FROM steps") == [(102,)]
    # what is kept grows in each turn; what other tests of this process left can grow once
    grown = [now - was for was, now in itertools.pairwise(sizes[turns // 2 :])]
    assert statistics.median(grown) < 26 << 10


# -- two models, and what was not seen -----------------------------------------------------------------------


@pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")
@pytest.mark.parametrize("health", [False, True])
def test_the_backward_passes_of_another_model_are_not_this_ones(tmp_path, health):
    file = tmp_path / "run.lamina"
    one, other = net(), net(1)
    with lamina.watch([one, other], every=1, file=file, health=health):
        for i in range(3):
            one(torch.ones(2, 8)).sum().backward()
            loss = other(torch.ones(2, 8))
            for _ in range(5000):
                loss = loss * (float("nan") if i == 1 else 1)
            loss.sum().backward()
    seen = (
        "SELECT sum(backward_ns), sum(bad IS NOT NULL), max(looked) FROM steps GROUP BY model ORDER BY model"
    )
    (mine, bad, looked), (its, its_bad, _) = rows(file, seen)
    assert 0 < mine < its  # five thousand nodes of the other's loss
    assert (bad, its_bad, looked) == (0, int(health), int(health))


def test_what_came_in_with_an_input_is_held_against_no_layer(tmp_path):
    file = tmp_path / "run.lamina"
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with lamina.watch(model, every=1, file=file, health=True):
        for bad in (0.0, float("nan"), 0.0):
            model(torch.full((2, 8), bad)).sum().backward()
    seen = "SELECT first_bad, bad FROM steps ORDER BY id"
    assert rows(file, seen) == [(None, None), (None, "NaN"), (None, None)]
    told = command("show", file)[1]
    assert "first in step 1, by none of its layers: in an input, or outside of it" in told


def test_what_nobody_could_look_at_is_not_known_to_be_fine(tmp_path):
    file = tmp_path / "run.lamina"
    model = nn.Linear(4, 4, device="meta")
    with lamina.watch(model, every=1, file=file, health=True):
        for _ in range(3):
            model(torch.ones(2, 4, device="meta"))
    assert rows(file, "SELECT DISTINCT looked FROM steps") == [(0,)]
    assert rows(file, "SELECT DISTINCT nan, inf FROM layers") == [(None, None)]
    assert "NaN" not in command("show", file)[1]


def test_nonsense_is_refused(tmp_path):
    with pytest.raises(ValueError, match="file is empty"):
        lamina.watch(net(), file="")
    model, file = net(), tmp_path / "run.lamina"
    with lamina.watch([model, model], every=1, file=file):
        train(model, 2)
    assert rows(file, "SELECT name FROM models") == [("Sequential",)]


# -- reading it back -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("recorded") / "run.lamina"
    model = net()
    with lamina.watch(model, every=2, file=file):
        train(model, 11)
    return file


def test_show_and_live_print_tables(recording):
    code, told, errors = command("show", recording)
    assert (code, errors) == (0, "")
    assert "Sequential: 212 params; 5 steps seen up to step 10, the first left out\n" in told
    assert "! medians of 5 steps: other steps may be far from them" in told
    table = told.split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in table] == ["layer", "(the", "0", "1", "2"]
    code, told, errors = command("live", "--once", recording, "-n", "2")
    assert (code, errors) == (0, "")
    assert "and 2 more" in told
    assert command("live", recording)[:2] == (0, command("live", "--once", recording)[1])  # it has ended
    assert [path.name for path in recording.parent.iterdir()] == ["run.lamina"]  # readers leave nothing


def test_live_follows(tmp_path):
    path = program(tmp_path, f"""
        with lamina.watch(model, every=1, file="run.lamina"):
            print("go", flush=True)
            began = time.monotonic()
            while not os.path.exists("enough") and time.monotonic() - began < {LIMIT}:
                step()
                time.sleep(0.02)
    """)  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, str(path)], env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "go\n"
        wait_until(lambda: steps_in(tmp_path / "run.lamina") > 1)
        live = subprocess.Popen(
            [sys.executable, "-m", "lamina", "live", str(tmp_path / "run.lamina")],
            env=environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with live:
            told = ""
            while told.count("seen up to step") < 3 and (line := live.stdout.readline()):
                told += line
            (tmp_path / "enough").touch()
            told += live.stdout.read()
    assert live.returncode == 0
    seen = [line for line in told.splitlines() if "seen up to step" in line]
    assert len(seen) >= 3
    assert len(set(seen)) == len(seen)  # each table has something new
    assert "not ended yet" in told
    assert "ended after" in told


def test_live_ends_at_an_interrupt(recording, tmp_path):
    copy = tmp_path / "run.lamina"
    copy.write_bytes(recording.read_bytes())
    with closing(sqlite3.connect(copy)) as db:
        db.execute(
            "UPDATE runs SET ended_unix_ns = NULL, pid = ?, seen_unix_ns = ?",
            (os.getpid(), time.time_ns() + 10**12),
        )
        db.commit()
    process = subprocess.Popen(
        [sys.executable, "-m", "lamina", "live", str(copy)],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=hear_interrupts,
    )  # fmt: skip
    assert process.stdout.readline().startswith("run 1")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=LIMIT)
    # Where this machine is so busy that it does not hear it in time, it is ended.
    assert (process.returncode, errors) in ((130, ""), (-signal.SIGINT, "lamina: error: interrupted\n"))


def test_recordings_as_data(recording):
    import csv
    import io

    told = json.loads(command("show", recording, "--format", "json")[1])
    (model,) = told["runs"][0]["models"]
    assert (model["steps"], model["last_step"], model["params"]) == (5, 10, 212)
    assert [layer["path"] for layer in model["layers"]] == ["", "0", "1", "2"]
    assert model["layers"][1]["forward_ns"]["n"] == 5
    assert model["layers"][1]["peak_bytes"] is None
    lines = list(csv.DictReader(io.StringIO(command("show", recording, "--format", "csv")[1])))
    assert [line["path"] for line in lines] == ["", "0", "1", "2"]
    assert int(lines[3]["forward_ns"]) == model["layers"][3]["forward_ns"]["median"]
    assert lines[3]["retained_bytes"] == ""


@pytest.mark.parametrize("text", ["", "junk " * 1000])
def test_no_recording_is_one_sentence(tmp_path, text):
    file = tmp_path / "bad.lamina"
    file.write_text(text)
    for verb in (["show"], ["live", "--once"], ["export", "--tensorboard", tmp_path]):
        code, told, errors = command(verb[0], file, *verb[1:])
        assert (code, told) == (3, "")
        assert errors.startswith(f"lamina: error: {file}: ")
        assert errors.count("\n") == 1


def test_the_command_takes_one_model_or_recordings():
    assert cli.main(["show", "a:b", "c:d"]) == 2


# -- TensorBoard ---------------------------------------------------------------------------------------------


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """(number, value) of every field of a message of protobuf's."""
    i, found = 0, []

    def varint():
        nonlocal i
        n = shift = 0
        while True:
            byte = data[i]
            i += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    while i < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value, i = data[i : i + size], i + size
        found.append((key >> 3, value))
    return found


def events(path):
    import struct

    data, at = path.read_bytes(), 0
    while at < len(data):
        head = data[at : at + 8]
        (size,) = struct.unpack("<Q", head)
        body = data[at + 12 : at + 12 + size]
        assert struct.unpack("<I", data[at + 8 : at + 12])[0] == crc32c(head)
        assert struct.unpack("<I", data[at + 12 + size : at + 16 + size])[0] == crc32c(body)
        yield dict(fields(body))
        at += 16 + size


def test_events_for_tensorboard(recording, tmp_path):
    import struct

    assert crc32c(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    code, told, _ = command("export", recording, "--tensorboard", tmp_path / "logs")
    assert code == 0
    (path,) = (tmp_path / "logs").iterdir()
    assert told == f"{path}\n"
    assert ".tfevents." in path.name
    first, *others = events(path)
    assert first[3] == b"brain.Event:2"
    scalars = {}
    for event in others:
        value = dict(fields(dict(fields(event[5]))[1]))
        (wall,) = struct.unpack("<d", event[1])
        scalars[value[1].decode(), event.get(2, 0)] = (struct.unpack("<f", value[2])[0], wall)
    sql = "SELECT number, forward_ns, started_unix_ns FROM steps"
    for number, forward, unix in rows(recording, sql):
        value, wall = scalars["Sequential/forward_ms", number]
        assert value == pytest.approx(forward / 1e6)
        assert wall == pytest.approx(unix / 1e9)
    sql = "SELECT path, step, forward_self_ns FROM timeline"
    for place, number, own in rows(recording, sql):
        value, _ = scalars[f"Sequential/{place or '(the model)'}/self_ms", number]
        assert value == pytest.approx(own / 1e6)
    sql = "SELECT number, whole_ns, own_forward_ns, other_ns FROM steps WHERE whole_ns IS NOT NULL"
    for number, *times in rows(recording, sql):
        for name, ns in zip(("step_ms", "phases/forward_ms", "phases/other_ms"), times, strict=True):
            assert scalars[f"Sequential/{name}", number][0] == pytest.approx(ns / 1e6)
    assert command("export", recording, "--tensorboard", tmp_path / "logs")[0] == 0
    assert len(list((tmp_path / "logs").iterdir())) == 2  # nothing is overwritten


def test_tensorboard_reads_them(recording, tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert command("export", recording, "--tensorboard", tmp_path)[0] == 0
    read = loader.EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in read.Scalars("Sequential/forward_ms")] == seen_of(2, 11)


class Root(_lamina.Root):
    """One whose steps are opened here; what failed is kept."""

    def __init__(self, recorder, opens):
        super().__init__(_lamina.Schedule(1), recorder, 0, "net", False, False)
        self.opens, self.failed, self.opened = opens, [], []

    def open_step(self, module):
        self.opens()
        capture = _lamina.Capture(module)
        capture.start()
        self.opened.append(capture)
        return capture, lambda: capture.stop() or capture.model()

    def count_step(self, module):
        pass

    def counted(self, whole):
        return (-1, -1, False, 0.0, "it is not counted", None, None, None, None) if whole else None

    def look(self):
        pass

    def on_failure(self, error):
        self.failed.append(error)


@pytest.fixture
def recorder(tmp_path):
    recorder = _lamina.Recorder(str(tmp_path / "run.lamina"), None, None, None, 0, 1, 1, 1)
    standing_entry.Rest.begin()
    yield recorder
    standing_entry.Rest.end()
    recorder.close()


@pytest.fixture
def counted(recorder):
    """Counts the calls of a new model for a root, and gives the model."""
    roots = []

    def count(root):
        roots.append(root)
        model = net()
        root.count(model)
        return model

    yield count
    for root in roots:
        root.uncount()
        root.retire()


def test_a_root_that_is_dropped_closes_its_capture(recorder):
    root, model = Root(recorder, lambda: None), net()
    root.count(model)
    model(torch.ones(1, 8))
    (capture,) = root.opened
    assert capture.is_open
    root.uncount()
    root.itself = root
    del root
    gc.collect()
    assert not capture.is_open
    assert recorder.steps == 0


def test_a_retired_root_begins_no_step(recorder, counted):
    root = Root(recorder, lambda: None)
    model = counted(root)
    model(torch.ones(1, 8))
    root.retire()
    model(torch.ones(1, 8))
    root.end_step()
    assert [capture.is_open for capture in root.opened] == [False]
    assert recorder.steps == 0


def test_a_forked_child_leaves_the_step_to_its_parent_and_may_begin_others(recorder, counted):
    root = Root(recorder, lambda: None)
    model = counted(root)
    model(torch.ones(1, 8))
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            root.retire()
            assert root.opened[0].is_open
            os._exit(0)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    root.end_step()
    assert [capture.is_open for capture in root.opened] == [False]
    assert recorder.steps == 1


def test_what_a_step_raises_reaches_the_root_and_an_interrupt_the_program(recorder, counted):
    errors = [OSError("full"), KeyboardInterrupt()]

    def opens():
        if errors:
            raise errors.pop(0)

    root = Root(recorder, opens)
    model = counted(root)
    model(torch.ones(1, 8))
    assert [str(error) for error in root.failed] == ["full"]
    with pytest.raises(KeyboardInterrupt):
        model(torch.ones(1, 8))
    model(torch.ones(1, 8))
    recorder.close()
    root.end_step()
    assert [str(error).split(":")[-1].strip() for error in root.failed] == ["full", "the recording is closed"]
    with pytest.raises(RuntimeError, match="made already"):
        root.__init__(recorder, opens)
