# SPDX-License-Identifier: Apache-2.0
"""Operators: what is seen, whose work it is, and that watching leaves nothing behind."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from conftest import environment
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls, exact, no_operators, seen

import lamina
import warm
from lamina._observe import support

pytestmark = pytest.mark.skipif(bool(no_operators()), reason=f"no operators: {no_operators()}")


def by_path(report, field="macs"):
    told = {}
    for row in report.rows:
        told[row.path] = told.get(row.path, 0) + int(row[field])
    return told


# -- what is seen --------------------------------------------------------------------------------------------


@pytest.mark.skipif("LAMINA_CAPTURE" in os.environ, reason="another way is asked for")
@pytest.mark.skipif(torch.__version__.split("+")[0] != "2.13.0", reason="not the torch that must be observed")
@pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="not a machine that can be observed",
)
def test_operators_are_observed_where_they_must_be():
    way = support.way()
    assert way.name == "observer", way.why


def test_operators_nest_as_they_ran():
    ops = seen(nn.Linear(3, 2), lambda: F.linear(torch.ones(4, 3), torch.ones(2, 3), torch.ones(2)))
    linear = next(i for i, op in enumerate(ops) if op["name"] == "aten::linear")
    addmm = next(op for op in ops if op["name"] == "aten::addmm")
    assert (ops[linear]["parent"], addmm["parent"]) == (-1, linear)
    assert all(op["parent"] < i for i, op in enumerate(ops))
    assert all(ops[linear]["t0_ns"] <= op["t0_ns"] <= op["t1_ns"] for op in ops if op["parent"] == linear)


# What runs inside an operator that stands for it all is not looked into.
quiet = pytest.mark.skipif(
    support.way().name != "observer", reason="the dispatch mode sees no operators inside others"
)


def names_of(ops):
    return [op["name"] for op in ops]


def test_what_an_operator_stands_for_is_not_looked_into():
    x, w = torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3)
    names = names_of(seen(nn.Identity(), lambda: [F.conv2d(x, w), torch.relu(x), F.conv2d(x, w)]))
    assert [n for n in names if n != "aten::conv2d"] == [
        "aten::convolution",
        "aten::relu",
        "aten::convolution",
    ]


@quiet
def test_a_profiler_beside_a_capture_sees_everything():
    x, w = torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3)
    with torch.profiler.profile() as plain:
        F.conv2d(x, w)
    with lamina.capture(nn.Identity(), ops=True) as watch:
        with torch.profiler.profile() as beside:
            F.conv2d(x, w)
        F.conv2d(x, w)
    inside = {event.name for event in plain.events()}
    assert "aten::_convolution" in inside
    assert inside <= {event.name for event in beside.events()}
    assert names_of(watch._model.operators())[-2:] == ["aten::conv2d", "aten::convolution"]


@quiet
def test_one_that_raised_leaves_the_next_ones_seen():
    def work():
        for _ in range(3):
            with pytest.raises(RuntimeError):
                torch.mm(torch.ones(2, 3), torch.ones(2, 3))
            torch.addmm(torch.ones(2), torch.ones(3, 2), torch.ones(2, 2))

    names = [n for n in names_of(seen(nn.Identity(), work)) if n != "aten::ones" and "empty" not in n]
    assert [n for n in names if n in ("aten::mm", "aten::addmm")] == ["aten::mm", "aten::addmm"] * 3


@quiet
def test_a_capture_that_ends_inside_an_operator_ends():
    """A hook for saved tensors runs while the operator does."""
    watch = lamina.capture(nn.Identity(), ops=True)

    def pack(x):
        watch.__exit__(None, None, None)
        return x

    p = torch.ones(3, requires_grad=True)
    watch.__enter__()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        p.exp()
    torch.sin(p)
    assert "aten::sin" not in names_of(watch._model.operators())
    with torch.profiler.profile() as after:
        F.conv2d(torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3))
    assert "aten::_convolution" in {event.name for event in after.events()}
    assert "aten::sin" in names_of(seen(nn.Identity(), lambda: torch.sin(p)))


@quiet
def test_each_of_two_captures_sees_what_the_other_sees():
    x, w = torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3)
    with lamina.capture(nn.Identity(), ops=True) as outer:
        with lamina.capture(nn.Identity(), ops=True) as inner:
            F.conv2d(x, w)
        F.conv2d(x, w)
    both, one = names_of(inner._model.operators()), names_of(outer._model.operators())
    assert both == ["aten::conv2d", "aten::convolution"]
    assert one == both * 2


@quiet
def test_threads_are_quiet_each_for_itself():
    x, w = torch.ones(1, 2, 8, 8), torch.ones(4, 2, 3, 3)

    def work():
        for _ in range(200):
            F.conv2d(x, w)

    other = threading.Thread(target=work)
    other.start()
    names = names_of(seen(nn.Identity(), work))
    other.join()
    assert names == ["aten::conv2d", "aten::convolution"] * 200


def test_shapes_types_and_values_are_read():
    def work():
        torch.cat([torch.ones(2, 3), torch.ones(4, 3)], dim=0)
        F.conv2d(
            torch.ones(1, 2, 5, 5, dtype=torch.float64), torch.ones(4, 1, 3, 3, dtype=torch.float64), groups=2
        )
        F.elu(torch.ones(3), alpha=0.5)

    ops = {op["name"]: op for op in reversed(seen(nn.Identity(), work))}
    cat, conv, elu = ops["aten::cat"], ops["aten::convolution"], ops["aten::elu"]
    assert [(at, v["shape"]) for at, v in cat["inputs"][:2]] == [(0, (2, 3)), (0, (4, 3))]
    assert (cat["inputs"][2], cat["outputs"][0][1]["shape"]) == ((1, 0), (6, 3))
    assert [v for _, v in conv["inputs"][2:]] == [None, (1, 1), (0, 0), (1, 1), False, (0, 0), 2]
    assert conv["inputs"][0][1]["dtype"] == "float64"
    assert elu["inputs"][1] == (1, 0.5)


def test_one_that_raises_is_marked_and_the_stack_stays_whole():
    def work():
        with pytest.raises(RuntimeError):
            torch.linalg.multi_dot([torch.ones(3, 4), torch.ones(5, 6), torch.ones(6, 2)])
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))

    ops = seen(nn.Identity(), work)
    failed = {op["name"] for op in ops if op["failed"]}
    last = next(op for op in ops if op["name"] == "aten::mm" and not op["failed"])
    assert "aten::linalg_multi_dot" in failed
    assert (last["parent"], last["outputs"][0][1]["shape"]) == (-1, (2, 4))


def test_operators_without_results_did_not_raise():
    tensors = [torch.ones(3), torch.ones(4)]
    ops = seen(nn.Identity(), lambda: torch._foreach_add_(tensors, 1))
    op = next(op for op in ops if op["name"] == "aten::_foreach_add_")
    assert (op["failed"], len(op["inputs"])) == (False, 3)


def test_one_that_raised_counts_nothing():
    def forward(self, x):
        try:
            torch.mm(x, x)
        except RuntimeError:
            return self.fc(x)

    report = exact(Calls(forward, fc=nn.Linear(3, 2)), torch.ones(4, 3))
    assert (report.macs, report.macs.state) == (4 * 3 * 2, "exact")


# -- whose work it is ----------------------------------------------------------------------------------------


def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 4, 3, groups=2),
        nn.Flatten(),
        nn.Linear(64, 5),
    )


def test_a_backward_is_its_forward_once_a_gradient():
    x = torch.rand(2, 3, 8, 8)
    report = exact(net(), x, backward=True)
    forward, backward = by_path(report), by_path(report, "backward_macs")
    assert forward["0"] == 2 * 6 * 6 * 8 * 27
    assert backward["0"] == forward["0"]  # its input needs no gradient
    assert (backward["2"], backward["4"]) == (2 * forward["2"], 2 * forward["4"])
    assert report.backward.macs == sum(backward.values())
    assert report.backward.macs.state == "exact"
    needed = exact(net(), x.requires_grad_(), backward=True)
    assert by_path(needed, "backward_macs")["0"] == 2 * forward["0"]
    assert x.grad is None


def test_frozen_layers_have_no_weight_gradient():
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    for parameter in model[1].parameters():
        parameter.requires_grad_(False)
    assert by_path(exact(model, torch.ones(3, 6), backward=True), "backward_macs") == {
        "": 0,
        "0": 90,
        "1": 60,
    }


def test_a_shared_layer_is_charged_where_it_was_called():
    layer = nn.Linear(4, 4)
    report = exact(nn.Sequential(layer, nn.Tanh(), layer), torch.ones(3, 4), backward=True)
    assert report.macs == 2 * 48
    assert sorted(int(row.backward_macs) for row in report.rows if row.type == "Linear") == [48, 96]


def test_work_of_the_root_itself_is_its_own():
    report = exact(
        Calls(lambda self, x: x @ self.w, w=nn.Parameter(torch.ones(4, 5))), torch.ones(3, 4), backward=True
    )
    root = report.rows[0]
    assert (root.path, root.macs, root.backward_macs) == ("", 60, 60)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers_are_recomputed(reentrant):
    def forward(self, x):
        return self.last(checkpoint(self.first, x, use_reentrant=reentrant))

    first = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh())
    model = Calls(forward, first=first, last=nn.Linear(8, 4))
    report = exact(model, torch.ones(2, 8, requires_grad=True), backward=True)
    layer = 2 * 8 * 16
    assert (report.macs, report.macs.state) == (2 * layer + 64, "exact")
    assert report.backward.macs == 2 * report.macs
    assert report.recompute.macs == 2 * layer
    again = by_path(report, "recompute_macs")
    assert (again["first.0"], again["first.2"], again["last"]) == (layer, layer, 0)
    assert by_path(report, "backward_macs")["first.0"] == 2 * layer


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_functions_are_recomputed(reentrant):
    def forward(self, x):
        return checkpoint(lambda x: torch.tanh(x @ self.w), x, use_reentrant=reentrant).sum()

    model = Calls(forward, w=nn.Parameter(torch.rand(8, 8)))
    report = exact(model, torch.ones(2, 8, requires_grad=True), backward=True)
    assert (report.macs, report.backward.macs, report.recompute.macs) == (128, 256, 128)
    assert report.rows[0].recompute_macs == 128


def test_autograd_functions_belong_to_their_call():
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.t(), x.t() @ grad

    model = nn.Sequential(
        Calls(lambda self, x: Product.apply(x, self.w), w=nn.Parameter(torch.rand(8, 8))), nn.Linear(8, 2)
    )
    report = exact(model, torch.ones(4, 8), backward=True)
    assert (by_path(report), report.unruled_ops) == ({"": 0, "0": 256, "1": 64}, {})
    assert by_path(report, "backward_macs")["0"] == 512


def test_scripted_work_belongs_to_the_scripted_module():
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            y = torch.relu(self.a(x))
            return self.b(y @ y.t() @ y)

    model = nn.Sequential(torch.jit.script(Inner()), nn.Linear(3, 2))
    for _ in range(3):  # the second and third runs are optimised
        report = exact(model, torch.rand(4, 8), backward=True)
        assert (by_path(report)["0"], by_path(report)["1"]) == (256 + 2 * 128 + 96, 24)
        assert by_path(report, "backward_macs")["0"] == 256 + 4 * 128 + 2 * 96


def test_vmap_counts_the_whole_batch():
    model = Calls(lambda self, x: torch.vmap(lambda row: self.w @ row)(x), w=nn.Parameter(torch.rand(8, 8)))
    assert exact(model, torch.ones(5, 8)).macs == 5 * 64


def test_second_derivatives_belong_to_their_layer():
    layer = nn.Linear(3, 3, bias=False)

    def work():
        x = torch.rand(2, 3, requires_grad=True)
        (grad,) = torch.autograd.grad(layer(x).tanh().sum(), x, create_graph=True)
        grad.square().sum().backward()

    with lamina.capture(layer, ops=True) as watch:
        work()
    report = watch.report("exact")
    assert (report.macs, report.recompute.macs) == (18, 0)
    assert report.backward.macs > 2 * 18
    assert by_path(report, "backward_macs")[""] == report.backward.macs


# -- kernels that other counters miss ------------------------------------------------------------------------


def test_attention_and_recurrence_have_their_true_counts():
    q = torch.rand(2, 5, 16)
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    macs = 2 * (4 * 5 * 16 * 16 + 2 * 5 * 5 * 16)
    fast = exact(attention, q, q, q)
    slow = exact(attention, q, q, q, backward=True)
    assert (fast.macs, slow.macs) == (macs, macs)
    lstm = exact(nn.LSTM(8, 16, 2, bidirectional=True), torch.rand(5, 2, 8), backward=True)
    assert lstm.macs == 5 * 2 * 2 * (4 * 16 * (8 + 16) + 4 * 16 * (32 + 16))
    assert lstm.backward.macs == 2 * lstm.macs


def test_encoder_layers_in_evaluation():
    encoder = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    report = exact(encoder, torch.rand(2, 5, 16))
    assert report.macs == 2 * (4 * 5 * 16 * 16 + 2 * 5 * 5 * 16) + 2 * 2 * 5 * 16 * 32
    assert report.macs.state == "exact"


# -- others in the same process ------------------------------------------------------------------------------


def test_another_threads_operators_are_not_seen():
    stop, ready = threading.Event(), threading.Event()

    def work():
        while not stop.is_set():
            torch.mm(torch.ones(3, 3), torch.ones(3, 3))
            ready.set()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        ops = seen(nn.Identity(), lambda: [torch.ones(2) + 1 for _ in range(200)])
    finally:
        stop.set()
        thread.join()
    assert {op["name"] for op in ops} & {"aten::mm"} == set()
    assert sum(op["name"] == "aten::add" for op in ops) == 200


def test_captures_nest_and_each_has_its_own():
    layer = nn.Linear(8, 3)
    with lamina.capture(layer, ops=True) as outer:
        layer(torch.ones(4, 8))
        with lamina.capture(layer, ops=True) as inner:
            layer(torch.ones(2, 8))
        with lamina.capture(layer, ops=False) as calls:
            layer(torch.ones(1, 8))
    assert [watch.report("exact").macs for watch in (outer, inner)] == [7 * 24, 2 * 24]
    with pytest.raises(ValueError, match="ops=True"):
        calls.report("exact")


def test_too_many_captures_are_refused_and_all_slots_come_back():
    layer = nn.Linear(2, 2)
    for _ in range(3):
        held = [lamina._lamina.Capture(layer, True) for _ in range(8)]
        for capture in held:
            capture.start()
        with pytest.raises(lamina.LaminaError, match="open"), lamina.capture(layer, ops=True):
            pass
        for capture in held:
            capture.stop()
    assert exact(layer, torch.ones(1, 2)).macs == 4


def test_a_capture_stopped_by_another_thread_gives_its_slot_back_later():
    layer = nn.Linear(2, 2)
    for _ in range(20):
        capture = lamina._lamina.Capture(layer, True)
        capture.start()
        layer(torch.ones(3, 2))
        thread = threading.Thread(target=capture.stop)
        thread.start()
        thread.join()
        before = capture.n_ops
        layer(torch.ones(3, 2))
        assert capture.n_ops == before > 0
    assert exact(layer, torch.ones(1, 2)).macs == 4


def test_the_profiler_and_the_observer_see_the_same():
    layer = nn.Linear(8, 3)
    with torch.profiler.profile() as profile:
        report = exact(layer, torch.ones(4, 8), backward=True)
    names = [event.name for event in profile.events()]
    assert (report.macs, names.count("aten::addmm")) == (96, 1)


def test_threads_capture_models_of_their_own():
    told = {}

    def work(n):
        for _ in range(20):
            told[n] = exact(nn.Linear(n, n), torch.ones(2, n), backward=True)

    threads = [threading.Thread(target=work, args=(n,)) for n in (2, 3, 4, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: (int(r.macs), int(r.backward.macs)) for n, r in told.items()} == {
        n: (2 * n * n,) * 2 for n in (2, 3, 4, 5)
    }


def test_a_graph_of_another_thread_is_not_mistaken_for_ours():
    other, ours, kept = nn.Linear(4, 4), nn.Linear(4, 4), []
    thread = threading.Thread(target=lambda: kept.append(other(torch.ones(2, 4)).sum()))
    thread.start()
    thread.join()
    with lamina.capture(ours, ops=True) as watch:
        for _ in range(50):
            ours(torch.ones(2, 4))
        kept[0].backward()
    report = watch.report("exact")
    assert (report.backward.macs, by_path(report, "backward_macs")[""]) == (32, 32)
    assert all(row.backward_macs == 0 for row in report.rows if row.event >= 0)


@pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")
def test_every_thread_is_watched_while_a_capture_is_open_and_not_after():
    library = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
    watched, net = library._ZN2at18hasGlobalCallbacksEv, nn.Linear(2, 2)
    watched.restype = ctypes.c_bool
    told = [watched()]
    for _ in range(2):
        with lamina.capture(net, ops=True):
            told.append(watched())
            with lamina.capture(net, time=True):
                told.append(watched())
            told.append(watched())
        told.append(watched())
    assert told == [False] + [True, True, True, False] * 2


@pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")
def test_a_backward_on_another_thread_is_not_known():
    def run(go_back, **options):
        model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
        with lamina.capture(model, **options) as watch:
            go_back(model(torch.rand(3, 6)).sum())
        report = watch.report("exact") if "ops" in options else watch.report()
        return report, [note for note in report.notes if "another thread" in note]

    def elsewhere(loss):
        thread = threading.Thread(target=lambda: loss.backward(retain_graph=True))
        thread.start()
        thread.join()

    def in_between(loss):
        elsewhere(loss)
        loss.backward()

    def with_others(loss):
        ours = torch.ones(2, requires_grad=True) * 2
        elsewhere(ours.sum())
        loss.backward()

    report, notes = run(elsewhere, ops=True)
    assert (report.macs, report.macs.state) == (144, "exact")
    assert (report.backward.macs, report.backward.macs.state) == (0, "unknown")
    assert report.backward.flops.state == "unknown"
    assert report.gaps == notes
    report, notes = run(elsewhere, time=True, memory=True, health=True)
    assert len(notes) == 1
    assert report.time.backward is None
    assert report.time.forward is not None
    assert report.memory[""].total_backward is None
    assert report.memory[""].total_forward.allocated > 0
    assert report.health.sentence.endswith("no gradient was checked")
    assert len(run(in_between, memory=True)[1]) == 1
    for go_back in (lambda loss: loss.backward(), with_others):
        report, notes = run(go_back, ops=True, memory=True)
        assert not notes
        assert report.backward.macs.state == "exact"
        assert report.memory[""].total_backward.allocated > 0


# -- nothing is left behind ----------------------------------------------------------------------------------


def test_gradients_are_as_before():
    model = net()
    first, *others = model.parameters()
    first.grad = torch.rand_like(first)
    was, bytes_ = first.grad, first.grad.clone()
    needs = [p.requires_grad for p in model.parameters()]
    exact(model, torch.rand(2, 3, 8, 8), backward=True)
    assert first.grad is was
    assert torch.equal(was, bytes_)
    assert all(p.grad is None for p in others)
    assert [p.requires_grad for p in model.parameters()] == needs


def test_leaves_outside_the_model_get_no_gradient():
    free = torch.rand(4, 4, requires_grad=True)
    exact(Calls(lambda self, x: self.fc(x @ free), fc=nn.Linear(4, 2)), torch.ones(3, 4), backward=True)
    assert free.grad is None


def test_the_gradient_of_a_parameter_whose_values_are_elsewhere_stays():
    layer = nn.Linear(4, 2, bias=False)
    layer(torch.ones(1, 4)).sum().backward()
    whole, was, none = layer.weight.data, layer.weight.grad, torch.empty(0)
    layer.register_forward_pre_hook(lambda *_: setattr(layer.weight, "data", whole))
    layer.register_forward_hook(lambda *_: setattr(layer.weight, "data", none))
    with pytest.raises(RuntimeError, match="must match"):  # the layer's own
        exact(layer, torch.ones(3, 4), backward=True)
    assert layer.weight.grad is was


def test_an_optimizer_in_the_backward_does_not_step():
    layer = nn.Linear(4, 4)
    steps = []
    for parameter in layer.parameters():
        parameter.register_post_accumulate_grad_hook(steps.append)
    exact(layer, torch.ones(3, 4), backward=True)
    assert steps == []
    layer(torch.ones(3, 4)).sum().backward()
    assert len(steps) == 2


def test_running_statistics_and_generators_are_as_before():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    exact(model, torch.rand(6, 4), backward=True)
    torch.manual_seed(3)
    exact(model, torch.ones(6, 4), backward=True)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())


# What goes on as values decide, and what it says of that; multiply-adds that it takes in any case.
ITERATED = {
    "singular values": (torch.linalg.svdvals, 21 + 14 + 10 + 5 + 3, "how long it iterates"),
    "eigenvalues": (torch.linalg.eigvals, 2 * 15 + 1 * 13, "how long it iterates"),
    "symmetric eigenvalues": (torch.linalg.eigvalsh, 2 * 10 + 1 * 8, "how long it iterates"),
    "least squares": (lambda x: torch.linalg.lstsq(x, x)[0], 3 * 7 + 2 * 5 + 3 + 4 * (6 + 4 + 2), "its rank"),
    "factors": (torch.linalg.ldl_factor, 9, "pivots"),
    "bins": (lambda x: torch.histogram(x, 4)[0], 0, "lies in a bin"),
}


@pytest.mark.parametrize("name", ITERATED)
def test_what_values_decide_is_a_lower_bound_by_name(name):
    function, macs, why = ITERATED[name]

    class Runs(nn.Module):
        def forward(self, x):
            return function(x @ x.mT)

    report = exact(Runs(), torch.rand(4, 4))
    assert report.flops.state == "at least"
    assert report.macs.state == ("at least" if macs else "exact")
    assert report.macs == 64 + macs
    assert any(why in gap for gap in report.gaps)
    assert report.dmas.state == "exact"
    assert why in report.rows[0].reason


def test_a_forward_that_raises_leaves_nothing_open():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(7, 2))
    with pytest.raises(RuntimeError, match="shapes") as caught:
        exact(model, torch.ones(2, 8), backward=True)
    report = caught.value.lamina_report
    assert (report.macs, report.macs.state) == (128, "at least")
    watch = lamina._lamina.Capture(model, True)
    torch.ones(2) + 1
    assert (watch.n_ops, exact(model[0], torch.ones(1, 8)).macs) == (0, 64)


def test_a_backward_that_raises_comes_through():
    class Refuses(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ArithmeticError("not today")

    model = Calls(lambda self, x: Refuses.apply(self.fc(x)), fc=nn.Linear(4, 4))
    with pytest.raises(ArithmeticError, match="not today") as caught:
        exact(model, torch.ones(2, 4), backward=True)
    assert caught.value.lamina_report.macs == 32
    assert all(p.grad is None for p in model.parameters())
    assert exact(model.fc, torch.ones(2, 4), backward=True).backward.macs == 32


def test_a_model_that_needs_no_gradient_says_so():
    model = nn.Linear(4, 4).requires_grad_(False)
    report = exact(model, torch.ones(2, 4), backward=True)
    assert (report.backward.macs, report.backward.macs.state) == (0, "unknown")
    assert "no backward pass ran" in report.notes[0]


def test_watching_under_no_grad_and_inference_mode():
    layer = nn.Linear(4, 4)
    with torch.inference_mode():
        assert exact(layer, torch.ones(2, 4)).macs == 32
    with torch.no_grad():
        assert exact(layer, torch.ones(2, 4), backward=True).backward.macs == 32


def test_outputs_in_any_nesting_are_back_propagated():
    def forward(self, x):
        a, b = self.a(x), self.b(x)
        return {"a": (a, [a]), "n": 3, "whole": torch.ones(2, dtype=torch.int64), "deep": [{"b": b}]}

    model = Calls(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 2))
    assert by_path(exact(model, torch.ones(3, 4), backward=True), "backward_macs") == {
        "": 0,
        "a": 48,
        "b": 24,
    }


def test_nothing_is_kept_alive():
    model = net()
    gc.collect()
    before = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
    for _ in range(3):
        report = exact(model, torch.rand(1, 3, 8, 8), backward=True)
    del report
    gc.collect()
    assert sum(isinstance(o, torch.Tensor) for o in gc.get_objects()) <= before


# -- asking --------------------------------------------------------------------------------------------------


def test_operators_are_watched_when_they_are_needed():
    layer = nn.Linear(4, 4)
    plain, backward = (
        lamina.inspect(layer, torch.ones(2, 4)),
        lamina.inspect(layer, torch.ones(2, 4), backward=True),
    )
    assert (plain.convention, plain.macs, plain.backward.macs) == ("exact", 32, 0)
    assert (backward.convention, backward.macs, backward.backward.macs) == ("exact", 32, 32)
    layers = lamina.inspect(layer, torch.ones(2, 4), ops=False)
    assert (layers.convention, layers.macs, layers.backward.macs.state) == ("layers", 32, "unknown")
    assert lamina.inspect(layer, torch.ones(2, 4), convention="layers")._model.n_operators() == 0
    with pytest.raises(ValueError, match="ops"):
        lamina.inspect(layer, torch.ones(2, 4), convention="exact", ops=False)
    with pytest.raises(ValueError, match="ops=True"):
        layers.under("exact")


@pytest.mark.parametrize("way", [lambda net: lamina.inspect(net, torch.ones(2, 4)), "capture"])
def test_where_operators_can_not_be_watched_layers_are_counted_and_a_note_says_so(way, monkeypatch):
    monkeypatch.setenv("LAMINA_CAPTURE", "calls")
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    if way == "capture":
        with lamina.capture(net) as cap:
            net(torch.ones(2, 4))
        report = cap.report()
    else:
        report = way(net)
    assert (report.convention, report.macs) == ("layers", 32)
    [note] = report.notes
    assert note.startswith("layers are counted: operators can't be watched here: ")
    with pytest.raises(ValueError, match="can't be watched here"):
        lamina.inspect(net, torch.ones(2, 4), ops=True)


def in_process(code, **env):
    """Standard output of a Python with the same modules and another environment."""
    given = environment(PYTHONPATH=os.pathsep.join(p for p in sys.path if p), **env)
    return warm.python("-c", code, env=given, check=True).stdout


def test_calls_alone_can_be_forced():
    code = (
        "import torch, lamina\nlayer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)\n"
        "print(lamina.inspect(layer, x).macs)\n"
        "try: lamina.inspect(layer, x, backward=True)\nexcept ValueError as error: print(error)\n"
    )
    assert in_process(code, LAMINA_CAPTURE="calls").splitlines() == [
        "4",
        "operators can't be watched here: LAMINA_CAPTURE=calls asks for it",
    ]


def test_the_proof_is_remembered_and_a_damaged_file_is_not_believed(tmp_path):
    code = "import torch\nfrom lamina._observe import support\nprint(support.way().name)"
    assert in_process(code, XDG_CACHE_HOME=str(tmp_path)) == "observer\n"
    (kept,) = (tmp_path / "lamina").iterdir()
    layout = json.loads(kept.read_text())
    assert layout["layout"]["inputs"] > 0
    kept.write_text("{")
    assert in_process(code, XDG_CACHE_HOME=str(tmp_path)) == "observer\n"
    assert json.loads(kept.read_text()) == layout
    kept.write_text(json.dumps({**layout, "layout": None, "failed": "a test says so"}))
    assert in_process(code, XDG_CACHE_HOME=str(tmp_path)) != "observer\n"


def test_what_the_stack_held_before_is_no_pointer_to_the_proof():
    """A record has room that torch doesn't write. What it keeps may look like an address beside a number of
    arguments, and lead nowhere."""
    code = (
        "import ctypes, torch\nfrom lamina import _lamina\n"
        "class Much(ctypes.Structure):\n    _fields_ = [('words', ctypes.c_uint64 * 8192)]\n"
        "much, x, leave = Much(), torch.empty(2, 4), ctypes.CDLL(None).getpid\n"
        "leave.argtypes = [Much]\n"  # which lies on the stack then, and stays there
        "for words in ((0x10000008, 1), (1, 0x10000008), (0x10000008, 0x10000018)):\n"
        "    much.words[:] = words * 4096\n"
        "    told = _lamina.probe_record('aten::relu_', lambda: (leave(much), x.relu_()), (x,))\n"
        "    print(told['inputs'] > 0, told['outputs'] > 0)\n"
    )
    assert in_process(code) == "True True\n" * 3


def test_a_record_is_read_when_its_own_operator_ends():
    """And not when one inside it does: all of these are seen, as torch's profiler sees them."""
    code = (
        "import torch\nfrom lamina import _lamina\n"
        "from torch.profiler import ProfilerActivity, profile\n"
        "x, y, w, b = (torch.ones(2, 3), torch.ones(2, 4), torch.ones(4, 3), torch.ones(4))\n"
        "for name, call in (('linear', lambda: torch.nn.functional.linear(x, w, b)),\n"
        "                   ('tensordot', lambda: torch.tensordot(x, y, ([0], [0])))):\n"
        "    told = _lamina.probe_record('aten::' + name, call, ())\n"
        "    with profile(activities=[ProfilerActivity.CPU]) as seen:\n"
        "        call()\n"
        "    names = [event.name for event in seen.events() if event.name.startswith('aten::')]\n"
        "    print(names[0] == 'aten::' + name, len(names) > 3, told['inside'] - len(names) + 1)\n"
    )
    assert in_process(code) == "True True 0\n" * 2


def test_the_proof_is_of_this_torch_and_this_extension(tmp_path):
    """Another build of either is another key, and so another file."""
    from lamina import _lamina
    from lamina._observe.support import _kept

    key, path = _kept().key, _kept().path
    assert key["extension"] == _lamina.__file__
    assert key["extension_size"] == Path(_lamina.__file__).stat().st_size
    assert key["library_mtime"] > 0
    other = tmp_path / "other.so"
    other.write_bytes(b"another build")
    was, _lamina.__file__ = _lamina.__file__, str(other)
    try:
        assert _kept().key["extension_size"] == len(b"another build")
        assert _kept().path != path
    finally:
        _lamina.__file__ = was


def test_a_folder_that_can_not_be_written_is_no_obstacle(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    code = "import torch\nfrom lamina._observe import support\nprint(support.way().name)"
    assert in_process(code, XDG_CACHE_HOME=str(blocked)) == "observer\n"


def test_what_conventions_say_of_sorting_transforms_and_complex_numbers():
    """By hand: 8 elements in order take 0+1+2+2+3+3+3+3 comparisons, their first 2 take 0+1 and 2 for each
    other one."""
    z, x = torch.rand(4, 8, dtype=torch.complex64), torch.rand(4, 8)
    image, where = torch.rand(1, 3, 4, 4, requires_grad=True), torch.rand(1, 2, 5, 2, requires_grad=True)
    sampled = 2 * 5 * 3  # elements

    def flops(function, *inputs, **more):
        class Runs(nn.Module):
            def forward(self, *inputs):
                return function(*inputs)

        return lamina.inspect(Runs(), inputs, convention="exact", **more)

    for function, value, count in (
        (torch.sort, x, 4 * 17),
        (lambda x: x.topk(2), x, 4 * (1 + 2 * 6)),
        (torch.lgamma, x, 32),
        (torch.fft.fft, z, 5 * 32 * 3),
        (torch.fft.rfft, x, 5 * 32 * 3 // 2),
        (lambda z: z * z, z, 6 * 32),
        (torch.abs, z, 4 * 32),
        (torch.sum, z, 2 * 31),
        (lambda x: torch.searchsorted(torch.arange(7.0), x), x, 3 * 32),
    ):
        report = flops(function, value)
        assert (report.flops, report.flops.state, report.macs) == (count, "exact", 0)
    report = flops(
        lambda a, b: nn.functional.grid_sample(a, b, align_corners=False), image, where, backward=True
    )
    assert (report.flops, report.backward.flops) == (7 * sampled + 18 * 10, 32 * sampled + 20 * 10)


def test_losses_with_class_weights_and_gradients_of_bags():
    """Four targets of five classes; eight rows of three in two bags."""
    rows, which, starts = (
        torch.rand(10, 3, requires_grad=True),
        torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]),
        [0, 4],
    )

    class Loss(nn.Module):
        def forward(self, x):
            return F.nll_loss(x, torch.tensor([1, 0, 2, 3]), weight=torch.ones(5))

    class Bags(nn.Module):
        def forward(self, rows):
            return F.embedding_bag(which, rows, torch.tensor(starts), mode="mean")

    report = lamina.inspect(Loss(), torch.rand(4, 5), convention="exact")
    # negated and weighted; two sums of four and their quotient
    assert (report.flops, report.flops.state) == (4 * 2 + 3 + 3 + 1, "exact")
    report = lamina.inspect(Bags(), rows, convention="exact", backward=True)
    assert (report.backward.flops, report.backward.flops.state) == (8 * 3 + 2 * 3, "exact")


def test_losses_of_margins_and_norms_that_are_held_down():
    """Four rows of five classes, by hand: 3 operations for each but the target, 4 with squares; sums."""
    target, weight = torch.tensor([1, 0, 4, 3]), torch.rand(5)

    def of(function):
        x = torch.rand(4, 5, requires_grad=True)
        return exact(Calls(lambda _, x: function(x)), x, backward=True)

    report = of(lambda x: F.multi_margin_loss(x, target))
    assert (report.flops, report.flops.state) == (4 * (4 * 3 + 3 + 1) + 3 + 1, "exact")
    assert (report.backward.flops, report.backward.flops.state) == (4 * (4 * 4 + 5), "exact")
    report = of(lambda x: F.multi_margin_loss(x, target, p=2, weight=weight, reduction="none"))
    assert (report.flops, report.backward.flops) == (4 * (4 * 5 + 3 + 1), 4 * (4 * 6 + 5))
    assert report.dmas == 20 + 4 + 4 + 4
    report = of(lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 2, -1, 0, 0]] * 4)))
    assert (report.flops, report.flops.state) == (3 + 1 + 1, "at least")
    assert any("how many targets there are, values tell" in gap for gap in report.gaps)
    report = of(lambda x: x.renorm(2, 0, 0.5))
    assert (report.flops, report.flops.state) == (20 + 16 + 4 + 3 * 4 + 20, "exact")


def test_images_on_other_grids():
    """Ten elements made four without aliasing read 4, 5, 5 and 4; an axis that keeps its size is no work."""
    images = torch.rand(2, 3, 10, 10, requires_grad=True)

    def of(function):
        return exact(Calls(lambda _, x: function(x)), images, backward=True)

    report = of(lambda x: F.interpolate(x, (4, 4), mode="bilinear", antialias=True))
    once = 2 * 18 - 4
    assert (report.flops, report.flops.state) == (6 * (10 + 4) * once, "exact")
    assert (report.backward.flops, report.backward.flops.state) == (6 * 3 * 18 * 18, "exact")
    report = of(lambda x: F.interpolate(x, (10, 4), mode="bilinear", antialias=True))
    assert report.flops == 6 * 10 * once
    report = of(lambda x: F.fractional_max_pool2d(x, (2, 3), output_size=3))
    assert (report.flops, report.flops.state) == (6 * 9 * 5, "exact")
    where = torch.rand(2, 3, 3, 2, requires_grad=True)
    report = of(lambda x: F.grid_sample(x, where, mode="bicubic", align_corners=False))
    assert report.backward.flops == 2 * 9 * (3 * (48 + 128) + 62 + 38)


def test_every_input_that_an_antialiased_one_depends_on_is_counted():
    """The products are no fewer than the elements with a weight, and no more than two an element more."""
    for size, mode in (((3, 7), "bilinear"), ((12, 5), "bicubic"), ((5, 11), "bilinear")):
        x = torch.rand(1, 1, 9, 8)

        def resize(x, size=size, mode=mode):
            return F.interpolate(x, size, mode=mode, antialias=True)

        weights = torch.autograd.functional.jacobian(resize, x).reshape(*size, 9, 8).ne(0)
        rows, columns = weights.any(3).any(1).sum(), weights.any(2).any(0).sum()
        report = exact(Calls(lambda _, x, resize=resize: resize(x)), x)
        least = 9 * (2 * columns - size[1]) + size[1] * (2 * rows - size[0])
        assert least <= report.flops <= least + 2 * 2 * (9 * size[1] + size[1] * size[0])


TRANSFORMS = """
import ctypes, os, torch, lamina
from torch import nn

library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
held = library._ZN2at9functorch20functorchTLSAccessorEv
held.restype = ctypes.POINTER(ctypes.c_void_p)

class Batched(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(8, 8))
    def forward(self, x):
        return torch.vmap(lambda row: self.w @ row)(x)

def run(model, x):
    with lamina.capture(model, ops=True, memory=True, health=True) as seen:
        model(x).sum().backward()
    report = seen.report("exact")
    return report.macs == 320, report.backward.macs == 320, held()[0] is not None
"""


@quiet
def test_torch_keeps_nothing_of_transforms_where_nobody_uses_them(tmp_path):
    """What it makes when it is asked for them is copied for each backward pass from then on."""
    code = TRANSFORMS + "print(run(nn.Linear(8, 8, bias=False), torch.rand(5, 8)))"
    assert in_process(code, XDG_CACHE_HOME=str(tmp_path)) == "(True, True, False)\n"


@quiet
def test_the_first_transform_of_a_process_runs_while_operators_are_watched():
    code = TRANSFORMS + "print(run(Batched(), torch.rand(5, 8)))"
    assert in_process(code) == "(True, True, True)\n"
