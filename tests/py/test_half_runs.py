# SPDX-License-Identifier: Apache-2.0
"""Runs that end half way, and models that are others after a run: what ran is a lower bound, the layer is
named, and every measurement has a table."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls, not_observed

import lamina
from lamina._command.cli import main

observed = pytest.mark.skipif(bool(not_observed()), reason=f"nodes are not seen: {not_observed()}")


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no way back")


class Wall(nn.Module):
    def forward(self, x):
        return Raises.apply(x)


def broken():
    return nn.Sequential(nn.Linear(8, 8), Wall(), nn.Linear(8, 4))


def x():
    return torch.rand(2, 8)


# -- a backward pass that raises -----------------------------------------------------------------------------


def partial():
    with pytest.raises(RuntimeError, match="no way back") as caught:
        lamina.inspect(broken(), x(), backward=True)
    return caught.value


def test_a_backward_that_raises_is_a_lower_bound():
    report = partial().lamina_report
    assert (int(report.macs), report.macs.state) == (192, "exact")
    assert (int(report.backward.macs), report.backward.macs.state) == (128, "at least")
    rows = {row.path: row.backward_macs for row in report.rows}
    assert rows["0"].state == rows["1"].state == "unknown"  # their nodes did not run
    assert (int(rows["2"]), rows["2"].state) == (128, "at least")
    assert [gap for gap in report.gaps if gap.startswith("the backward pass raised")] == report.gaps
    assert "incomplete" in str(report) and "complete  " not in str(report).replace("incomplete", "")
    told = json.loads(report.to_json())["totals"]["backward"]
    assert told["macs"] == {"value": 128, "state": "at least"}


@observed
def test_the_layer_whose_backward_raised_is_named():
    error = partial()
    failure = error.lamina_report.failure()
    assert (
        failure
        == "raised in the backward of 1 (Wall), in RaisesBackward; its forward was given float32 (2, 8)"
    )
    assert any(failure in note for note in error.__notes__)
    assert "in RaisesBackward of 1 (Wall)" in error.lamina_report.gaps[0]


def test_the_command_shows_what_ran_of_a_backward(tmp_path, monkeypatch, capsys):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n\nclass Raises(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return x.clone()\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        raise RuntimeError('no way back')\n\n"
        "class Wall(nn.Module):\n    def forward(self, x):\n        return Raises.apply(x)\n\n"
        "def net():\n    return nn.Sequential(nn.Linear(8, 8), Wall(), nn.Linear(8, 4))\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["net.py:net", "-i", "2x8", "--backward"]) == 3
    said = capsys.readouterr()
    assert ">= 128 MACs" in said.out and "the backward pass raised" in said.out
    assert "no way back" in said.err


def steps(name, net):
    """A step whose backward raises, by what raises it."""
    hidden = net[0](x())
    if name == "a hook of a tensor":
        hidden.register_hook(lambda grad: 1 / 0)
    if name == "a hook of a parameter":
        net[0].weight.register_post_accumulate_grad_hook(lambda parameter: 1 / 0)
    out = net[1](hidden)
    if name == "a write in place":
        with torch.no_grad():
            hidden.add_(1)
    if name == "a second pass":
        out.sum().backward()
    if name == "the loss":
        out = Raises.apply(out)
    if name == "a gradient of another shape":

        class Odd(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad[:1, :1]

        out = Odd.apply(out)
    out.sum().backward()


@observed
@pytest.mark.parametrize(
    ("name", "macs"),
    {
        "a hook of a tensor": 128,
        "a hook of a parameter": 256,
        "a write in place": 0,
        "a second pass": 256,
        "the loss": 0,
        "a gradient of another shape": 0,
    }.items(),
)
def test_whatever_ends_a_backward_half_way_its_count_is_a_lower_bound(name, macs):
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 4))
    with lamina.capture(net) as cap:
        try:
            steps(name, net)
        except (RuntimeError, ZeroDivisionError):
            pass
        else:
            pytest.fail("nothing was raised")
    report = cap.report()
    assert int(report.backward.macs) == macs
    assert report.backward.macs.state == ("at least" if macs else "unknown")
    assert any(gap.startswith("the backward pass raised in ") for gap in report.gaps)
    assert report.failure().startswith("raised in the backward")
    assert report.macs.state == "exact"


@observed
@pytest.mark.parametrize("reentrant", [True, False])
def test_so_is_one_whose_checkpoint_raises_when_it_is_repeated(reentrant):
    calls = []

    def half(net, x):
        calls.append(x)
        if len(calls) > 1:
            raise RuntimeError("no second time")
        return net.layer(x)

    net = Calls(
        lambda net, x: checkpoint(lambda x: half(net, x), x, use_reentrant=reentrant).relu(),
        layer=nn.Linear(8, 8),
    )
    with lamina.capture(net) as cap, pytest.raises(RuntimeError, match="no second time"):
        net(x().requires_grad_()).sum().backward()
    assert cap.report().backward.macs.state == cap.report().recompute.macs.state == "unknown"


def test_an_exception_that_leaves_the_block_says_that_the_backward_raised():
    with pytest.raises(RuntimeError), lamina.capture(broken()) as cap:
        cap._root(x()).sum().backward()
    assert cap.report().backward.macs.state == "at least"


@observed
def test_after_a_pass_that_went_well_no_layer_has_failed():
    net = broken()
    with lamina.capture(net) as cap:
        with pytest.raises(RuntimeError):
            net(x()).sum().backward()
        net[2](x()).sum().backward()
    assert cap.report().failure() is None
    assert cap.report().backward.macs.state == "at least"


def test_an_error_before_the_pass_begins_is_no_pass():
    net = nn.Linear(8, 4)
    with lamina.capture(net) as cap, suppress(RuntimeError):
        net(x()).backward()  # it is no scalar
    report = cap.report()
    assert (report.macs.state, report.backward.macs.state) == ("exact", "unknown")
    assert report.failure() is None and "incomplete" not in str(report) and "backward" not in str(report)


@observed
def test_layers_that_a_pass_never_reached_have_no_time_of_their_backward():
    with lamina.capture(broken(), time=True) as cap, pytest.raises(RuntimeError):
        cap._root(x()).sum().backward()
    rows = {row.path: row.time.backward.self for row in cap.report().rows if row.time}
    assert rows["0"] is None
    assert rows["2"] > 0


# -- a model that raises in one of several runs --------------------------------------------------------------


class Nth(nn.Module):
    """Raises in its n-th call."""

    def __init__(self, n):
        super().__init__()
        self.layer, self.left = nn.Linear(8, 8), n

    def forward(self, x):
        self.left -= 1
        if self.left == 0:
            raise ValueError("enough")
        return self.layer(x)


@pytest.mark.parametrize(("n", "told"), [(3, "warm-up run 2"), (4, "timed run 1"), (5, "timed run 2")])
def test_a_repeated_run_that_raises_is_named(n, told):
    with pytest.raises(ValueError, match="enough") as caught:
        lamina.inspect(Nth(n), x(), time=True, warmup=2, repeats=3)
    assert f"raised in {told}, not in the first run, which the table shows" in "\n".join(
        caught.value.__notes__
    )
    assert caught.value.lamina_report.macs == 128


# -- models that change while they run -----------------------------------------------------------------------


class Grows(nn.Module):
    """Makes a layer in its first forward."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x):
        if not hasattr(self, "second"):
            self.second = nn.Linear(8, 4)
        return self.second(self.first(x))


class Appends(nn.Module):
    """Makes one more layer in each forward."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        self.layers.append(nn.Linear(8, 8))
        return x


class Shrinks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(30)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        del self.layers[-1]
        return x


class Replaces(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x)
        self.layer = nn.Linear(8, 8)
        return x


class Turns(nn.Module):
    """Changes its mode."""

    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(8, 8), nn.Dropout(0.5)

    def forward(self, x):
        self.train(not self.training)
        return self.drop(self.layer(x))


class Chooses(nn.Module):
    """Its later runs call another layer than its first."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.again = nn.Linear(8, 8), nn.Linear(8, 8), False

    def forward(self, x):
        layer = self.b if self.again else self.a
        self.again = True
        return layer(x)


def lazy():
    return nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(4))


MACS = {
    Grows: 2 * 8 * 8 + 2 * 8 * 4,
    Appends: 2 * 8 * 8,
    Shrinks: 30 * 2 * 8 * 8,
    Replaces: 2 * 8 * 8,
    Turns: 2 * 8 * 8,
    Chooses: 2 * 8 * 8,
    lazy: 2 * 8 * 8 + 2 * 8 * 4,
}


@pytest.mark.parametrize("make", MACS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("how", ["time", "memory", "health", "backward"])
def test_a_model_that_changes_while_it_runs_has_every_table(make, how):
    options = {"time": {"time": True, "repeats": 3}}.get(how, {how: True})
    model = make()
    names = [path for path, _ in model.named_modules()]
    report = lamina.inspect(model, x(), **options)
    assert (int(report.macs), report.macs.state) == (MACS[make], "exact")
    assert [path for path, _ in model.named_modules()] == names  # it is as it was before
    assert str(report).startswith(type(model).__name__)
    assert json.loads(report.to_json(page=True))["totals"]["macs"]["value"] == MACS[make]
    assert "<html" in report.to_html()
    if how == "time":
        assert report.time.runs == 3
        report.speed(roof=lamina.Roof(1e12, 1e11, 1))


@pytest.mark.parametrize("make", [Replaces, Chooses], ids=lambda make: make.__name__)
def test_a_layer_that_the_timed_runs_did_not_call_has_no_time(make):
    report = lamina.inspect(make(), x(), time=True, repeats=2)
    row = next(row for row in report.rows if row.path in ("layer", "a"))
    assert row.time.forward.total is None
    assert "happened in some runs only" in str(report)


def test_layers_that_the_run_added_are_named():
    report = lamina.inspect(Grows(), x())
    assert [note for note in report.notes if "second (Linear)" in note and "no row" in note]
    again = Grows()
    again(x())
    for model in again, lazy():
        assert not [note for note in lamina.inspect(model, x()).notes if "no row" in note]
