# SPDX-License-Identifier: Apache-2.0
"""A backward pass ends at what the run was given: the caller's graph is neither walked nor freed, and every
gradient is given back."""

from __future__ import annotations

import threading

import pytest
import torch
from test_dry import offered
from torch import nn
from torch.utils.checkpoint import checkpoint

import lamina
from lamina import _lamina
from lamina._guard import gradients
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")


class Does(nn.Module):
    def __init__(self, does):
        super().__init__()
        self.layer, self.does = nn.Linear(8, 8), does

    def forward(self, *args, **kwargs):
        return self.does(self.layer, *args, **kwargs)


class Own(torch.autograd.Function):
    """A function of the program's. Its backward asks for a gradient, and is counted."""

    ran = 0

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        Own.ran += 1
        return gradient * ctx.saved_tensors[0]


class Before:
    """A graph of the caller's: a leaf, a layer, and what came of them."""

    def __init__(self):
        self.leaf, self.layer = torch.rand(4, 8, requires_grad=True), nn.Linear(8, 8)
        self.h = self.layer(self.leaf).exp()

    def is_whole(self):
        """True if the caller can still go backward, from gradients that are none."""
        assert self.leaf.grad is None
        assert self.layer.weight.grad is None
        self.h.sum().backward()
        return self.leaf.grad is not None and self.layer.weight.grad is not None


def as_leaves(value, made):
    """The same arguments with leaves instead of results of graphs; one that is given twice is one leaf."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            made.setdefault(id(value), value.detach().requires_grad_())
        return made.get(id(value), value)
    if isinstance(value, (list, tuple)):
        return type(value)(as_leaves(each, made) for each in value)
    return {k: as_leaves(v, made) for k, v in value.items()} if isinstance(value, dict) else value


GIVEN = {
    "by position": (lambda b: ((b.h,), {}), lambda layer, x: layer(x)),
    "by name": (lambda b: ((), {"x": b.h}), lambda layer, x: layer(x)),
    "in a list": (lambda b: (([b.h, 1],), {}), lambda layer, x: layer(x[0])),
    "deep inside": (lambda b: (({"a": [(b.h, 2)]},), {}), lambda layer, x: layer(x["a"][0][0])),
    "a view of a leaf": (lambda b: ((b.leaf[1:],), {}), lambda layer, x: layer(x)),
    "a view of a result": (lambda b: ((b.h[1:],), {}), lambda layer, x: layer(x)),
    "twice": (lambda b: ((b.h, b.h), {}), lambda layer, x, y: layer(x) * y),
    "two of one graph": (lambda b: ((b.h, b.h * 2), {}), lambda layer, x, y: layer(x) * y),
    "with a leaf": (lambda b: ((b.leaf, b.h), {}), lambda layer, x, y: layer(x) * y),
    "of the program's function": (lambda b: ((Own.apply(b.h),), {}), lambda layer, x: layer(x)),
    "retaining its gradient": (lambda b: ((b.h.retain_grad() or b.h,), {}), lambda layer, x: layer(x)),
    "returned too": (lambda b: ((b.h,), {}), lambda layer, x: (x, layer(x))),
    "only returned": (lambda b: ((b.h,), {}), lambda layer, x: x),
    "a view is returned": (lambda b: ((b.h,), {}), lambda layer, x: (x[:2], layer(x))),
    "unused": (lambda b: ((b.h, b.leaf), {}), lambda layer, x, y: layer(y)),
    "detached": (lambda b: ((b.h,), {}), lambda layer, x: layer(x.detach())),
    "in a checkpoint": (lambda b: ((b.h,), {}), lambda layer, x: checkpoint(layer, x, use_reentrant=False)),
    "in one of old": (lambda b: ((b.h,), {}), lambda layer, x: checkpoint(layer, x, use_reentrant=True)),
    "a gradient in the forward": (
        lambda b: ((b.h,), {}),
        lambda layer, x: torch.autograd.grad(layer(x).sum(), x, create_graph=True)[0] * layer(x),
    ),
}
RUNS = {
    "alone": {},
    "memory": {"memory": True},
    "health": {"health": True},
    "time": {"time": True, "warmup": 1, "repeats": 2},
    **({"dry": {"dry": True}} if offered() else {}),
}


def seen(report, *, memory=False):
    counts = [getattr(report.backward, name) for name in ("macs", "flops", "dmas", "bytes")]
    held = (report.memory.held, report.memory.peak) if memory else ()
    ends = [note for note in report.notes if "ends at" in note or "restored" in note]
    return [(int(n), n.state) for n in counts], held, ends, report.no_gradient, report.unruled_ops


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", GIVEN)
def test_the_backward_is_that_of_a_leaf_and_the_graph_stays_whole(name, run):
    make, does = GIVEN[name]
    before, net, made = Before(), Does(does), {}
    args, kwargs = make(before)
    options = {"backward": True, **RUNS[run]}
    want = lamina.inspect(net, as_leaves(args, made), as_leaves(kwargs, made), **options)
    memory = "memory" in options
    assert seen(lamina.inspect(net, args, kwargs, **options), memory=memory) == seen(want, memory=memory)
    assert before.is_whole()


@pytest.mark.parametrize("run", RUNS)
def test_what_is_written_in_place_has_its_values_and_its_graph(run):
    before = Before()
    values, version = before.h.detach().clone(), before.h._version
    report = lamina.inspect(Does(lambda layer, x: layer(x.mul_(2))), before.h, backward=True, **RUNS[run])
    assert (torch.equal(before.h, values), before.h._version) == (True, version)
    assert (report.backward.macs, report.backward.flops) == (2 * 4 * 8 * 8, 2 * 2 * 4 * 8 * 8 + 24 + 32)
    assert before.is_whole()


@pytest.mark.skipif(not offered(), reason="this torch has no tensors without memory")
def test_a_prediction_of_memory_leaves_the_graph_whole():
    before = Before()
    net = Does(lambda layer, x: layer(x.exp_()))
    fit = lamina.fit(net, before.h)
    assert fit.step is not None
    assert before.is_whole()


def test_hooks_of_the_caller_do_not_run():
    before, fired = Before(), []
    before.h.register_hook(fired.append)
    lamina.inspect(Does(lambda layer, x: layer(x)), before.h, backward=True)
    assert fired == []


def test_hooks_of_the_forward_do():
    before, fired = Before(), []

    def does(layer, x):
        x.register_hook(lambda gradient: fired.append(tuple(gradient.shape)))
        return layer(x)

    lamina.inspect(Does(does), before.h, backward=True)
    assert fired == [(4, 8)]


def test_an_input_that_needs_no_gradient_gets_none():
    report = lamina.inspect(Does(lambda layer, x: layer(x)), torch.rand(4, 8), backward=True)
    assert report.backward.macs == 4 * 8 * 8


# -- what is no argument -------------------------------------------------------------------------------------

ENDS = "the backward pass ends at {}, computed before the run; what is behind it is not counted"


@pytest.mark.parametrize("run", RUNS)
def test_a_result_that_the_forward_closes_over_is_an_end_too(run):
    before = Before()
    net, x = Does(lambda layer, x: layer(x) * before.h), torch.rand(4, 8)
    report = lamina.inspect(net, x, backward=True, **RUNS[run])
    leaf = lamina.inspect(
        Does(lambda layer, x, h: layer(x) * h), (x, before.h.detach().requires_grad_()), backward=True
    )
    assert (report.backward.macs, report.backward.flops) == (leaf.backward.macs, leaf.backward.flops)
    assert ENDS.format("the result of ExpBackward0") in report.notes
    assert before.is_whole()


@pytest.mark.parametrize("run", RUNS)
def test_a_function_of_the_program_behind_it_is_not_called(run):
    before, Own.ran = Before(), 0
    h = Own.apply(before.h)
    report = lamina.inspect(Does(lambda layer, x: layer(x) * h), torch.rand(4, 8), backward=True, **RUNS[run])
    assert report.backward.macs == 4 * 8 * 8
    assert Own.ran == 0
    h.sum().backward()
    assert (Own.ran, before.leaf.grad is not None) == (1, True)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("inside", [lambda h: h, lambda h: [h], lambda h: (h, 1), lambda h: {"h": [h]}])
def test_a_result_that_a_module_holds_is_an_end_too(inside, run):
    before = Before()

    def does(layer, x):
        held = net.held
        while not isinstance(held, torch.Tensor):
            held = held["h"] if isinstance(held, dict) else held[0]
        return layer(x) * held

    net = Does(does)
    net.held = held = inside(before.h)
    report = lamina.inspect(net, torch.rand(4, 8), backward=True, **RUNS[run])
    assert (report.backward.macs, report.backward.macs.state) == (4 * 8 * 8, "exact")
    assert ENDS.format("held") in report.notes
    assert net.held is held
    assert before.is_whole()


def test_one_that_leads_to_the_model_is_an_end_too():
    net = Does(lambda layer, x: layer(x) * doubled)
    doubled = net.layer.weight[:4] * 2
    report = lamina.inspect(net, torch.rand(4, 8), backward=True)
    assert report.backward.macs == 4 * 8 * 8
    doubled.sum().backward()
    assert net.layer.weight.grad is not None


def test_what_another_thread_computes_in_the_forward_is_not_cut_off():
    inner = nn.Linear(8, 8)

    def does(layer, x):
        out = []
        thread = threading.Thread(target=lambda: out.append(inner(x.detach())))
        thread.start()
        thread.join()
        return layer(x) + out[0]

    net, x = Does(does), torch.rand(4, 8)
    net.inner = inner
    for _ in range(9):
        x = x.detach().requires_grad_().exp()  # this thread's numbers are larger than that of a new one
    report = lamina.inspect(net, x.detach(), backward=True)
    assert report.backward.macs == 2 * 4 * 8 * 8
    assert not [note for note in report.notes if "ends at" in note]


# -- giving gradients back -----------------------------------------------------------------------------------


class Sampled(nn.Module):
    """The gradient of its sparse weight is dense, which torch takes from its engine alone."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.sparse = nn.Parameter(torch.eye(8).to_sparse_csr())
        self.last = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return torch.sparse.sampled_addmm(self.sparse, self.first(x) * self.last, x.mT)

    def step(self, x):
        torch.autograd.backward([self(x)], [torch.ones(8, 8)])


@pytest.mark.parametrize("run", [run for run in RUNS if run != "dry"])
def test_a_gradient_of_another_layout_is_given_back(run):
    net, x = Sampled(), torch.rand(8, 8)
    net.step(x)
    before = [(p.grad, p.grad.clone()) for p in net.parameters()]
    assert net.sparse.grad.layout is not net.sparse.layout
    report = lamina.inspect(net, x, backward=True, **RUNS[run])
    for parameter, (grad, values) in zip(net.parameters(), before, strict=True):
        assert parameter.grad is grad
        assert torch.equal(grad, values)
    assert not [note for note in report.notes if "restored" in note]


def test_what_can_not_be_given_back_is_named_and_the_rest_is(monkeypatch):
    monkeypatch.setattr(gradients, "put_gradient", lambda *_: False)
    net, x = Sampled(), torch.rand(8, 8)
    net.step(x)
    kept = {name: p.grad for name, p in net.named_parameters()}
    fired = []
    net.last.register_post_accumulate_grad_hook(fired.append)
    told = lamina.inspect(net, x, backward=True).notes
    assert [note for note in told if note.startswith("the gradient of sparse could not be restored: ")]
    assert {name for name, p in net.named_parameters() if p.grad is kept[name]} == set(kept) - {"sparse"}
    net.step(x)
    assert len(fired) == 1  # hooks are back too


def test_an_interrupt_while_gradients_are_given_back(monkeypatch):
    real, times = gradients.set_gradient, []

    def interrupted(tensor, grad):
        times.append(1)
        real(tensor, grad)
        if len(times) == 1:
            raise KeyboardInterrupt

    net, x = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.rand(4, 8)
    net(x).sum().backward()
    kept = [p.grad for p in net.parameters()]
    monkeypatch.setattr(gradients, "set_gradient", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lamina.inspect(net, x, backward=True)
    assert all(p.grad is grad for p, grad in zip(net.parameters(), kept, strict=True))


def test_the_core_puts_any_gradient_of_a_tensor():
    leaf, grad = torch.rand(2, requires_grad=True), torch.rand(3)
    if _lamina.put_gradient(leaf, grad):
        assert leaf.grad is grad
        del grad
        assert leaf.grad.shape == (3,)
        leaf.grad = None
    assert _lamina.put_gradient(3, leaf) is False
