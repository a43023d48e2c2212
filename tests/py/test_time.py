# SPDX-License-Identifier: Apache-2.0
"""Times: whose backward a node is when nothing but nodes is watched."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls

import lamina
from lamina import _observe

observed = pytest.mark.skipif(bool(_observe.nodes()), reason=f"no nodes: {_observe.nodes()}")


def small():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 4), nn.BatchNorm1d(4))


def tied():
    layer = nn.Linear(5, 5)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), layer)


def checkpointed(*, reentrant):
    block = nn.Sequential(nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 5))
    return Calls(
        lambda self, x: checkpoint(self.block, self.first(x), use_reentrant=reentrant),
        block=block,
        first=nn.Linear(5, 5),
    )


def penalised():
    """A forward with a backward pass in it."""

    def forward(self, x):
        y = self.a(x).square().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return self.b(grad)

    return Calls(forward, a=nn.Linear(5, 5), b=nn.Linear(5, 2))


NETS = {
    "layers": (small, (3, 6)),
    "shared": (tied, (3, 5)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Flatten()), (1, 3, 8, 8)),
    "recurrent": (lambda: Calls(lambda self, x: self.rnn(x)[0], rnn=nn.LSTM(4, 3)), (5, 2, 4)),
    "checkpoint": (lambda: checkpointed(reentrant=False), (3, 5)),
    "reentrant": (lambda: checkpointed(reentrant=True), (3, 5)),
    "twice": (penalised, (3, 5)),
}


def step(model, x):
    model.zero_grad()
    model(x).sum().backward()


def nodes(model, x, **options):
    """Every node that ran, with the path of the call that it is credited to."""
    with lamina.capture(model, **options) as watch:
        step(model, x)
    told = watch._model
    places, events = told.places(), told.events()
    path = [places[event["place"]]["path"] for event in events] + [None]
    # The forward of an autograd.Function is a node in the capture of operators.
    back = [op for op in told.operators() if op["phase"] != "forward" and op["node"]]
    return [(op["name"], path[op["call"]]) for op in back]


@observed
@pytest.mark.parametrize("name", NETS)
def test_a_node_is_credited_alike_with_and_without_operators(name):
    make, shape = NETS[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(*shape, requires_grad=True)
    step(model, x)
    alone, among = Counter(nodes(model, x, time=True)), Counter(nodes(model, x, ops=True))
    assert alone and all(among[node] >= n for node, n in alone.items())
    assert all("Backward" not in name for name, _ in among - alone)
    assert {path for _, path in alone} > {None}  # that of the sum, and others


@observed
def test_what_keeps_a_gradient_is_the_layers():
    told = nodes(small(), torch.randn(3, 6), time=True)
    assert Counter(path for name, path in told if name.endswith("AccumulateGrad")) == {"0": 2, "2": 2, "3": 2}


@observed
def test_operators_are_unknown_where_only_nodes_were_watched():
    with lamina.capture(small(), time=True) as watch:
        step(watch._root, torch.randn(3, 6))
    report = watch.report()
    assert report.macs == 3 * (30 + 20)
    assert report.backward.macs.state == "unknown"
    with pytest.raises(ValueError, match="operators"):
        report.under("exact")
    with pytest.raises(ValueError, match="operators"):
        report.graph()


@observed
def test_a_run_that_only_times_watches_no_operators():
    report = lamina.inspect(small(), (torch.randn(3, 6),), backward=True, time=True)
    assert report.backward.macs.state == "unknown"
    assert report._model.n_operators() > 5
    both = lamina.inspect(small(), (torch.randn(3, 6),), backward=True, time=True, convention="exact")
    assert both.backward.macs == (30 + 20 * 2) * 3


def test_why_a_backward_is_not_told_is_a_note(monkeypatch):
    monkeypatch.setattr(_observe, "nodes", lambda: "because")
    report = lamina.inspect(small(), (torch.randn(3, 6),), backward=True, time=True)
    assert any("backward takes is not known: because" in note for note in report.notes)
    assert report._model.n_operators() == 0
