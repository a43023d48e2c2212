# SPDX-License-Identifier: Apache-2.0
"""Recordings of programs that compile: the same code is compiled in the same step, every loss is the same to
the bit, and the compiler meets nothing of lamina's."""

from __future__ import annotations

import ctypes
import gc
import json
import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import torch
from compiled_programs import PROGRAMS
from conftest import environment, needs_recordings
from ext_kit import module_call
from torch import nn
from where_kit import not_observed

import lamina
import warm
from lamina._command import cli
from lamina._observe.memory import Optimizers
from lamina.callbacks import StepMeter

needs_recordings()
dynamo = pytest.importorskip("torch._dynamo", reason="this torch has no compiler")
observed = pytest.mark.skipif(bool(not_observed()), reason=f"no operators: {not_observed()}")

WAYS = ("run", "watch", "watch,memory,health", "meter", "meter,memory,health")


def rows(file, sql, *args):
    with closing(sqlite3.connect(file)) as db:
        return db.execute(sql, args).fetchall()


def run(way, folder):
    """What each program did, by its name, in a process of its own."""
    file = folder / f"{way}.lamina"
    words = [Path(__file__).with_name("compiled_programs.py"), way, file]
    if way == "run":
        words = ["-m", "lamina", "run", "--every", "1", "--file", file, *words]
    # Each way compiles graphs anew; what the C++ compiler made of them, which takes seconds, is kept.
    again = dict.fromkeys(("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"), "0")
    env = environment(TORCHINDUCTOR_CACHE_DIR=str(folder / "code"), **again)
    # Each imports the compiler first of all, but for `lamina run`, which comes before.
    imports = () if way == "run" else ("torch._dynamo", "torch._inductor.compile_fx")
    done = warm.python(*words, cwd=folder, env=env, imports=imports)
    assert done.returncode == 0, done.stderr
    told = {}
    for line in done.stdout.splitlines():
        told |= json.loads(line) if line.startswith("{") else {}
    return told


@pytest.fixture(scope="module")
def did(tmp_path_factory):
    """What all programs did, by the way; each way runs once."""
    folder, known = tmp_path_factory.mktemp("compiled"), {}

    def of(way):
        if way not in known:
            known[way] = run(way, folder)
        return known[way]

    of.folder = folder
    return of


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_program_compiles_and_computes_as_without_a_recording(did, way, name):
    assert did(way)[name] == did("plain")[name]


def test_the_programs_compile_what_they_are_meant_to(did):
    plain = did("plain")
    assert {told["error"] for name, told in plain.items() if name != "fused"} == {None}
    made = {name: told["made"] for name, told in plain.items()}
    assert made["wrapped"] == made["a_container"] == made["in_place"] == [0]
    assert made["from_the_fourth_step_on"] == [3]
    assert made["other_shapes"] == [0, 2, 4]
    assert made["forgotten_in_between"] == [0, 2, 4]
    assert plain["wrapped"]["ran"] == [0, 1, 2, 3, 4, 5]


# The steps of a root that are recorded, and of how many of them compiled code was a part.
STEPS = {
    "wrapped": (6, 6),
    "a_wrapper_is_watched": (6, 6),
    "in_place": (6, 6),
    "a_container": (6, 6),
    "a_layer": (6, 6),
    "graphs_that_break": (6, 6),
    "other_shapes": (6, 6),
    "from_the_fourth_step_on": (6, 3),
    "a_loss": (6, 0),
    "an_optimizer": (6, 0),
    "layers_called_by_name": (6, 6),
    "forgotten_in_between": (6, 6),
    "more_shapes_than_are_compiled": (12, 8),
    "validated": (12, 12),
}


@observed
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("way", ["run", "watch", "watch,memory,health"])
def test_each_step_is_recorded_and_says_whether_it_was_compiled(did, way, name):
    did(way)
    found = rows(
        did.folder / f"{way}.lamina",
        "SELECT count(*), sum(compiled), max(calls), count(DISTINCT model) FROM steps "
        "WHERE model IN (SELECT id FROM models WHERE name = ?)",
        name,
    )
    assert found == [(*STEPS[name], 1, 1)]


@observed
def test_calls_inside_a_compiled_function_are_none_of_a_recording(did):
    did("run")
    assert rows(did.folder / "run.lamina", "SELECT id FROM models WHERE name = 'the_whole_step'") == []
    names = {name for (name,) in rows(did.folder / "run.lamina", "SELECT name FROM models")}
    assert not any("Graph" in name for name in names)  # which the compiler makes


@observed
def test_a_layer_between_two_pieces_of_compiled_code_has_numbers(did):
    """A compiled layer is one with what is inside it; around it all is as usual."""
    did("watch")
    sql = "SELECT path, sum(calls), sum(regions) FROM timeline WHERE model = ? GROUP BY path ORDER BY path"
    found = rows(did.folder / "watch.lamina", sql, "a_layer")
    assert found == [("", 6, 0), ("a", 6, 0), ("b", 6, 0), ("b._orig_mod", 6, 6), ("c", 6, 0)]
    found = rows(did.folder / "watch.lamina", sql, "wrapped")
    assert found == [("", 6, 6)]
    ((path, calls, regions),) = rows(did.folder / "watch.lamina", sql, "graphs_that_break")
    assert (path, calls) == ("", 6)
    assert regions >= 12


@observed
def test_tables_and_pages_say_what_was_compiled(did, tmp_path, capsys):
    did("watch")
    file = str(did.folder / "watch.lamina")
    runs = rows(file, "SELECT run, name FROM models WHERE name IN ('a_layer', 'from_the_fourth_step_on')")
    (run_of_a_layer,) = (run for run, name in runs if name == "a_layer")
    assert cli.main(["show", file, "--run", str(run_of_a_layer), "--width", "200"]) == 0
    told = capsys.readouterr().out
    assert "\na compiled training step every " in told
    assert "\ncompiled code ran in some layers, as one with all that is inside it" in told
    head, *lines = told[told.index("layer ") :].splitlines()
    assert head.split()[:4] == ["layer", "type", "calls", "compiled"]
    cells = {line.split()[0]: line.split() for line in lines}
    assert cells["b._orig_mod"][2:4] == ["1", "1"]
    assert cells["b._orig_mod.0"][2] == "?"
    assert cells["c"][2:4] == ["1", "0"]
    page = str(tmp_path / "run.html")
    assert cli.main(["report", file, "--run", str(run_of_a_layer), "-o", page]) == 0
    html = Path(page).read_text(encoding="utf-8")
    assert "a compiled training step" in html
    assert html.count(", compiled</span>") == 1
    assert "Compiled code runs as one with all that is inside it" in html

    (late,) = (run for run, name in runs if name == "from_the_fourth_step_on")
    assert cli.main(["show", file, "--run", str(late), "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["runs"][0]["models"]
    assert (first["compiled"], first["steps"]) == (True, 3)
    assert (second["compiled"], second["steps"]) == (False, 2)
    by_path = {layer["path"]: layer["regions"] for layer in first["layers"]}
    assert by_path[""] == {"median": 1, "deviation": 0, "n": 3}
    assert by_path["a"] is None


PROGRAM = """
    import torch
    net = torch.nn.Linear(4, 4)
    torch.compile(lambda x: net(x) * 2, backend="eager", fullgraph=True)(torch.ones(2, 4))
"""


def test_a_program_that_calls_models_in_compiled_functions_alone(tmp_path):
    if not dynamo.config.inline_inbuilt_nn_modules:
        pytest.skip("this torch calls the layers in a compiled function as modules")
    (tmp_path / "train.py").write_text("".join(line.strip() + "\n" for line in PROGRAM.strip().splitlines()))
    done = warm.python("-m", "lamina", "run", "train.py", cwd=tmp_path, env=environment())
    said = (
        "lamina: nothing was recorded: this process called no model with parameters outside compiled code\n"
    )
    assert (done.returncode, done.stderr) == (0, said)


# -- where the entry can't be hidden from the compiler -------------------------------------------------------


class Descriptor:
    """In the place of Module.__call__: no function, so lamina puts a method over it."""

    def __init__(self, call):
        self.call = call

    def __get__(self, module, owner=None):
        return self if module is None else self.call.__get__(module, owner)

    def __call__(self, module, *args, **kwargs):
        return self.call(module, *args, **kwargs)


@observed
@pytest.mark.parametrize("recorded", [False, True])
def test_a_method_is_taken_out_while_the_compiler_works(tmp_path, monkeypatch, recorded):
    """Where no detour is possible. What is compiled is the same as without a recording."""
    monkeypatch.setattr(nn.Module, "__call__", Descriptor(nn.Module.__call__))
    before, seen, file = nn.Module.__dict__["__call__"], [], tmp_path / "run.lamina"
    dynamo.reset()

    def backend(graph, _inputs):
        seen.append(nn.Module.__dict__["__call__"])
        return graph.forward

    model = nn.Sequential(nn.Linear(4, 4))
    fast = torch.compile(lambda x: x.sin() + 1, backend=backend, fullgraph=True)
    watch = lamina.watch(model, every=1, file=file)
    if recorded:
        watch.__enter__()
        assert nn.Module.__dict__["__call__"] is not before
    for rows_ in (2, 2, 3):
        fast(model(torch.ones(rows_, 4))).sum().backward()
    if recorded:
        watch.__exit__(None, None, None)
        assert watch.stopped is None
        assert rows(file, "SELECT count(*), sum(calls) FROM steps") == [(3, 3)]
    assert nn.Module.__dict__["__call__"] is before
    assert len(seen) == 2
    assert all(call is before for call in seen)
    dynamo.reset()


def test_nothing_is_left_of_a_watch_that_ends_while_the_compiler_works(tmp_path):
    dynamo.reset()
    call, model = module_call(), nn.Sequential(nn.Linear(4, 4))
    watch = lamina.watch(model, every=1, file=tmp_path / "run.lamina")

    def backend(graph, _inputs):
        watch.__exit__(None, None, None)
        return graph.forward

    handler = pytest.importorskip("torch._dynamo.callback").callback_handler
    listening = len(getattr(handler, "start_callbacks", ()))
    watch.__enter__()
    fast = torch.compile(model, backend=backend)
    fast(torch.ones(2, 4)).sum().backward()
    assert module_call() == call
    assert len(getattr(handler, "start_callbacks", ())) == listening
    with lamina.watch(model, every=1, file=tmp_path / "again.lamina"):
        model(torch.ones(2, 4)).sum().backward()
    assert rows(tmp_path / "again.lamina", "SELECT calls FROM steps") == [(1,)]
    dynamo.reset()


# -- optimizers without hooks --------------------------------------------------------------------------------


def test_the_optimizers_of_a_process_are_found_without_hooks():
    gc.collect()  # a recording that another test left open ends here
    model, method = nn.Linear(4, 4), torch.optim.Optimizer._patch_step_function
    code, hooks = method.__code__, sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks
    early, before = torch.optim.Adam(model.parameters()), dict(hooks)
    Optimizers.begin()
    Optimizers.begin()
    try:
        late = torch.optim.SGD(model.parameters(), 0.1)
        gone = torch.optim.RMSprop(model.parameters())
        found = Optimizers.alive()
        assert all(any(one is each for each in found) for one in (early, late, gone))
        key = id(gone)
        del gone, found
        gc.collect()
        assert all(id(each) != key or each is late for each in Optimizers.alive())
        assert dict(hooks) == before
        Optimizers.end()
        assert any(each is late for each in Optimizers.alive())
    finally:
        Optimizers.end()
    assert torch.optim.Optimizer._patch_step_function is method
    assert method.__code__ is code


def test_what_an_optimizer_keeps_is_in_the_memory_of_a_step(tmp_path):
    """In the second step its state is from before."""

    def peak(kind):
        torch.manual_seed(0)
        model, file = nn.Linear(256, 256), tmp_path / f"{kind.__name__}.lamina"
        optimizer = kind(model.parameters(), lr=1e-3)
        with lamina.watch(model, every=1, file=file, memory=True):
            for _ in range(3):
                loss = model(torch.ones(2, 256)).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        (found,) = rows(file, "SELECT min(peak_bytes) FROM steps WHERE number > 0")[0]
        state = sum(
            value.untyped_storage().nbytes()
            for kept in optimizer.state.values()
            for value in kept.values()
            if isinstance(value, torch.Tensor)
        )
        return found, state

    plain, nothing = peak(torch.optim.SGD)
    kept, state = peak(torch.optim.Adam)
    assert (nothing, state > 500_000) == (0, True)
    assert kept >= plain + state


class Branches(nn.Module):
    """torch.cond() compiles both branches in each call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 4, self.layer, lambda y: self.layer(y).exp(), (x,))


@observed
@pytest.mark.skipif(not hasattr(torch, "cond"), reason="this torch has no torch.cond()")
def test_the_compilers_tensors_are_asked_for_nothing_that_torch_refuses(capfd):
    """A refusal takes torch more than a millisecond, for its trace. Each thread keeps the last one; torch up
    to 2.12 prints all."""
    library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
    last = getattr(library, "torch_exception_get_what", None)
    refusals, losses = [], []

    def train():
        model = Branches()
        meter = StepMeter(model, every=1, memory=True, health=True)
        with meter.step():
            loss = model(torch.rand(2, 4)).sum()
            loss.backward()
        losses.append(loss.item())
        if last:
            last.restype = ctypes.c_char_p
            refusals.append(last())

    dynamo.reset()
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert len(losses) == 1
    assert set(refusals) <= {b""}
    assert "data pointer" not in capfd.readouterr().err
