# SPDX-License-Identifier: Apache-2.0
"""Compiled code in a capture of operators: it runs as it is, counts what ran, says what is hidden, and stays
compiled."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import nn
from where_kit import Calls, by_path, exact, no_operators, tells_backends

import lamina

if no_operators():
    pytest.skip(f"no operators: {no_operators()}", allow_module_level=True)

dynamo = pytest.importorskip("torch._dynamo")

NAMED = tells_backends()
named = pytest.mark.skipif(not NAMED, reason="this torch does not tell which backend compiled which code")

FORWARD = {"0": 2 * 36 * 8 * 27, "4": 2 * 288 * 64, "6": 2 * 64 * 5}
BACKWARD = {"0": FORWARD["0"], "4": 2 * FORWARD["4"], "6": 2 * FORWARD["6"]}


def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64), nn.Tanh(),
        nn.Linear(64, 5),
    )  # fmt: skip


def x(batch=2):
    return torch.rand(batch, 3, 8, 8)


def step(model, given):
    model.zero_grad()
    model(given).sum().backward()


def compiles():
    """Everything that torch's compiler counts."""
    return {name: dict(counts) for name, counts in copy.deepcopy(dynamo.utils.counters).items() if counts}


@pytest.fixture(autouse=True)
def fresh():
    dynamo.reset()
    dynamo.utils.counters.clear()
    yield
    dynamo.reset()


def compiled(backend, model=None):
    """A compiled model that ran a step; skips where this machine can't compile."""
    model = torch.compile(model or net(), backend=backend)
    try:
        step(model, x())
    except Exception as error:
        if backend != "inductor":
            raise
        pytest.skip(f"inductor does not work here: {error}")
    return model


def watched(model, given):
    with lamina.capture(model, ops=True) as watch:
        step(model, given)
    return watch.report("exact")


@named
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_code_that_runs_operator_by_operator_is_counted_exactly(backend):
    model = compiled(backend)
    before = compiles()
    report = watched(model, x())
    assert by_path(report) == {"": sum(FORWARD.values())}
    assert by_path(report, "backward_macs") == {"": sum(BACKWARD.values())}
    assert (report.macs.state, report.backward.macs.state) == ("exact", "exact")
    step(model, x())
    assert compiles() == before


def test_what_is_fused_is_said_and_everything_stays_compiled():
    model = compiled("inductor")
    before = compiles()
    report = watched(model, x())
    assert (report.macs, report.macs.state) == (sum(FORWARD.values()), "at least")
    assert (report.backward.macs, report.backward.macs.state) == (sum(BACKWARD.values()), "at least")
    root = next(row for row in report.rows if row.macs)
    assert (root.path, root.event) == ("", 0)
    assert "compiled code (Torch-Compiled Region" in root.reason
    assert [gap.partition("(")[0] for gap in report.gaps] == ["compiled code "] * 2
    assert report.unruled_ops == {}
    model(x())
    step(model, x())
    assert compiles() == before
    inspected = exact(model, x(), backward=True)  # layer by layer, and nothing is hidden
    assert by_path(inspected) == FORWARD
    assert by_path(inspected, "backward_macs") == BACKWARD
    step(model, x())
    assert compiles() == before


def test_a_backward_that_is_compiled_in_the_block_counts_what_ran_and_not_the_compiler():
    """torch compiles a backward when it first runs, and tries operators on tensors without memory."""
    common = pytest.importorskip("torch._dynamo.backends.common")
    tried = []

    def tries(graph, given):
        tried.append(graph(*given))
        return graph

    backend = common.aot_autograd(fw_compiler=lambda graph, _: graph, bw_compiler=tries)
    model = torch.compile(net(), backend=backend)
    model(x())
    handler = pytest.importorskip("torch._dynamo.callback").callback_handler
    before = [*handler.start_callbacks], [*handler.end_callbacks]
    assert not tried
    report = watched(model, x())
    assert tried
    assert (report.macs, report.backward.macs) == (sum(FORWARD.values()), sum(BACKWARD.values()))
    assert [note for note in report.notes if "compiler did for it is not counted" in note]
    assert not watched(model, x()).notes
    assert (handler.start_callbacks, handler.end_callbacks) == before


def test_a_capture_that_is_dropped_while_open_is_not_kept_by_torchs_compiler():
    handler = pytest.importorskip("torch._dynamo.callback").callback_handler
    before = len(handler.start_callbacks), len(handler.end_callbacks)
    lamina.capture(net(), ops=True).__enter__()
    gc.collect()
    assert (len(handler.start_callbacks), len(handler.end_callbacks)) == before


def test_nothing_is_compiled_in_a_capture_and_all_of_it_after():
    model = torch.compile(net(), backend="eager")
    before = compiles()
    report = watched(model, x())
    assert (by_path(report), by_path(report, "backward_macs")) == (FORWARD, BACKWARD)
    assert compiles() == before
    step(model, x())
    ran = compiles()
    assert ran["frames"]["ok"] == 1
    assert by_path(watched(model, x(3))) == {path: 3 * macs // 2 for path, macs in FORWARD.items()}
    step(model, x())
    assert compiles() == ran


def test_one_that_was_wrapped_in_the_capture_is_one_call():
    model, given = nn.Sequential(nn.Linear(4, 4)), torch.ones(2, 4)
    with lamina.capture(model, ops=True) as watch:
        torch.compile(model, backend="eager")(given)
    report = watch.report("exact")
    assert by_path(report) == {"0": 32}
    assert [row.path for row in report.rows] == ["", "0"]


def test_a_compiled_function_in_a_layer_belongs_to_the_layer():
    for backend, state in (("eager", "exact" if NAMED else "at least"), ("inductor", "at least")):
        inner = torch.compile(lambda a, b: torch.tanh(a @ b) + 1, backend=backend)
        part = Calls(lambda self, x, inner=inner: inner(x, self.w), w=nn.Parameter(torch.rand(4, 4)))
        model = nn.Sequential(nn.Linear(4, 4), part)
        try:
            step(model, torch.rand(8, 4))
        except Exception as error:
            if backend == "eager":
                raise
            pytest.skip(f"inductor does not work here: {error}")
        report = watched(model, torch.rand(8, 4))
        assert by_path(report) == {"0": 128, "1": 128}
        assert by_path(report, "backward_macs") == {"0": 128, "1": 256}
        assert report.macs.state == state
        assert next(row for row in report.rows if row.path == "0").macs.state == "exact"


def test_captures_of_both_kinds_overlap():
    """Layer by layer wins while anybody asks for it; the last to close leaves the compiler as it was."""
    model = compiled("eager")
    before = compiles()
    with lamina.capture(model, ops=True) as operators:
        model(x())
        with lamina.capture(model, ops=False) as layers:
            model(x())
    assert by_path(layers.report()) == FORWARD
    assert operators.report("exact").macs == 2 * sum(FORWARD.values())
    assert by_path(operators.report("exact")) == {"": sum(FORWARD.values()), **FORWARD}
    step(model, x())
    assert compiles() == before
