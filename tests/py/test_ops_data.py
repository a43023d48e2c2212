# SPDX-License-Identifier: Apache-2.0
"""Where the data of operators comes from: operators, parameters, arguments of the model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls

import lamina
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")


class Seen:
    """The operators that ran outside every other while ``work`` did, and what the calls gave."""

    def __init__(self, model, work):
        with lamina.capture(model, ops=True) as watch:
            work()
        self.model = watch._model
        self.all = self.model.operators()
        self.outer = [i for i, op in enumerate(self.all) if op["parent"] == -1 and not op["node"]]

    def index(self, name, nth=0):
        return [i for i in self.outer if self.all[i]["name"] == f"aten::{name}"][nth]

    def sources(self, name, nth=0):
        op = self.all[self.index(name, nth)]
        return [
            source
            for source, (_, value) in zip(op["sources"], op["inputs"], strict=True)
            if isinstance(value, dict)
        ]

    def names(self, name, nth=0):
        return [self.all[op]["name"][6:] if op >= 0 else None for op, _, _ in self.sources(name, nth)]

    def gives(self, event=0):
        """What produced the results of a call."""
        return [self.all[op]["name"][6:] for op in self.model.events()[event]["output_sources"]]


def run(model, *args):
    with torch.no_grad():
        return Seen(model, lambda: model(*args))


def test_a_residual_block_joins_its_input_and_its_branch():
    def forward(self, x):
        return F.relu(self.norm(self.conv(x)) + x)

    net = Calls(forward, conv=nn.Conv2d(3, 3, 3, padding=1), norm=nn.BatchNorm2d(3)).eval()
    told = run(net, torch.randn(1, 3, 6, 6))
    norm, conv = told.index("batch_norm"), told.index("conv2d")
    assert told.sources("conv2d") == [(-1, -1, 0), (-1, 0, -1), (-1, 1, -1)]
    assert [told.model.tensors()[t]["shape"] for _, t, _ in told.sources("batch_norm")[1:]] == [(3,)] * 4
    assert told.sources("batch_norm")[0] == (conv, -1, -1)
    assert told.sources("add") == [(norm, -1, -1), (-1, -1, 0)]
    assert told.names("relu") == ["add"]
    assert [told.gives(i) for i in range(3)] == [["relu"], ["conv2d"], ["batch_norm"]]


def test_what_works_in_place_becomes_the_source():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(3, 3)).eval()
    told = run(net, torch.randn(2, 3))
    assert told.names("linear", 1)[0] == "relu_"
    assert told.names("relu_") == ["linear"]
    assert told.gives(2) == ["relu_"]


def test_views_are_told_apart_and_lists_are_read():
    def forward(self, x):
        x = x * 2
        a, b = x.select(1, 0), x.select(1, 1)
        c, d = x.chunk(2, dim=1)
        return torch.cat([a + 1, b - 1]), c.exp(), d.t().sin()

    told = run(Calls(forward), torch.randn(2, 4))
    first, second = told.index("select", 0), told.index("select", 1)
    assert told.sources("add")[0] == (first, -1, -1)
    assert told.sources("sub")[0] == (second, -1, -1)
    assert told.names("select", 1) == ["mul"]
    assert told.names("cat") == ["add", "sub"]
    assert (told.names("exp"), told.names("t"), told.names("sin")) == (
        ["chunk"],
        ["chunk"],
        ["t"],
    )
    assert told.gives() == ["cat", "exp", "sin"]


def test_a_write_through_a_view_is_a_write():
    def forward(self, x):
        y = x + 1
        y[0].zero_()
        return y.exp()

    told = run(Calls(forward), torch.randn(2, 4))
    assert told.names("exp") == ["zero_"]


def test_tied_weights_and_views_of_parameters():
    net = Calls(
        lambda self, x: self.b(self.a(x)) @ self.a.weight[1:].t(), a=nn.Linear(3, 3), b=nn.Linear(3, 3)
    )
    net.b.weight = net.a.weight
    told = run(net, torch.randn(2, 3))
    owner = {0: "a.weight", 1: "a.bias", 2: "b.bias"}
    assert [owner.get(t) for _, t, _ in told.sources("linear")[1:]] == ["a.weight", "a.bias"]
    assert [owner.get(t) for _, t, _ in told.sources("linear", 1)[1:]] == ["a.weight", "b.bias"]
    assert told.sources("matmul")[1][1] == 0
    assert told.names("matmul") == ["linear", "t"]


def test_inputs_by_keyword_and_the_same_model_twice():
    net = Calls(lambda self, x, y: (x * y).exp())
    told = Seen(net, lambda: [net(torch.ones(2), torch.ones(2)) for _ in range(2)])
    for i in range(2):
        assert [t[1:] for t in told.sources("mul", i)] == [(-1, 0), (-1, 1)]
    assert told.sources("exp", 1) == [(told.index("mul", 1), -1, -1)]
    assert told.model.events()[1]["output_sources"] == (told.index("exp", 1),)


def test_a_backward_pass_and_checkpoints():
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False).sum()

    inner = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    net = Calls(forward, inner=inner)
    x = torch.randn(2, 3)
    told = Seen(net, lambda: net(x).backward())
    again = [
        op for op in told.all if op["phase"] == "recompute" and op["name"] in ("aten::linear", "aten::tanh")
    ]
    assert [op["name"] for op in again[:2]] == ["aten::linear", "aten::tanh"]
    assert told.all[again[1]["sources"][0][0]] is again[0]
    back = next(op for op in told.all if op["name"] == "aten::tanh_backward")
    made = [told.all[source] for source, _, _ in back["sources"]]
    assert made[1]["name"] == "aten::tanh"
    assert made[1]["phase"] in ("recompute", "forward")


def test_what_nobody_made_has_no_source():
    """A new tensor often has the address of one that is gone."""
    numpy = pytest.importorskip("numpy")

    def forward(self, x):
        for _ in range(20):
            y = x.exp()
            del y
            z = torch.from_numpy(numpy.ones((3, 4), dtype="float32"))
            x = x + z
        return x

    told = run(Calls(forward), torch.randn(3, 4))
    assert [told.names("add", i)[1] for i in range(20)].count("exp") == 0
    made = run(Calls(lambda self, x: x * torch.tensor([1.0, 2.0])), torch.randn(2))
    assert made.names("mul")[1] in (None, "lift_fresh", "detach_", "detach")


def test_tensors_without_memory_have_sources_too():
    net = nn.Sequential(nn.Linear(3, 3), nn.Flatten(), nn.Linear(3, 3)).to("meta")
    told = run(net, torch.empty(2, 3, device="meta"))
    assert told.names("linear", 1)[0] == "linear"  # flatten had nothing to do
    assert told.sources("linear")[0][2] == 0
    assert [t for _, t, _ in told.sources("linear", 1)[1:]] == [2, 3]


def test_texts_among_arguments_are_told():
    class Gelu(nn.Module):
        def forward(self, x):
            return F.gelu(x, approximate="tanh") + F.gelu(x)

    x = torch.randn(3, 4)
    told = run(Gelu(), x)
    assert [told.all[told.index("gelu", i)]["inputs"][1] for i in range(2)] == [(1, "tanh"), (1, "none")]
    report = lamina.inspect(Gelu(), (x.requires_grad_(),), convention="exact", backward=True)
    assert (report.flops.state, report.backward.flops.state) == ("exact", "exact")
    layers = nn.Sequential(nn.GELU(approximate="tanh"), nn.GELU())
    assert report.flops == lamina.inspect(layers, (x,), convention="exact").flops + x.numel()


def test_many_operators_take_little_room():
    """Equal operators share what they have in common, so that a long run takes little more than a list."""

    class Long(nn.Module):
        def forward(self, x):
            for i in range(4000):
                x = (x + 1) * 0.5 if i % 2 else x.view(2, -1).relu()
            return x

    told = run(Long(), torch.randn(2, 6))
    assert told.model.n_operators() == len(told.all) >= 8000
    assert [told.all[i]["name"][6:] for i in told.outer[1:5]] == ["relu", "add", "mul", "view"]
    for i in range(2, 2000):
        op = told.all[told.outer[i]]
        assert op["sources"][0][0] == told.outer[i - 1]
