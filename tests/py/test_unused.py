# SPDX-License-Identifier: Apache-2.0
"""What runs in vain, and which parameters get no gradient, against what a backward pass leaves without."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from conftest import DATA
from corpus_nets import build
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import not_observed

import lamina
from lamina._guard.gradients import floats
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")


class Odd(nn.Module):
    """Every way of having no gradient, among layers that have one."""

    def __init__(self):
        super().__init__()
        for name in ("used", "unused", "detached", "chosen", "wasted", "skipped"):
            setattr(self, name, nn.Linear(4, 4))
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.nobody = nn.Parameter(torch.ones(4))
        self.lost = nn.Parameter(torch.ones(4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.BatchNorm1d(4)
        self.recurrent = nn.LSTM(4, 4, batch_first=True)
        self.weighted = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        h = self.used(x)
        self.unused(h)
        fixed = self.detached(h).detach()
        index = self.chosen(h).argmax(-1)
        lost = self.wasted(h) * self.lost
        _ = lost + 1
        h = self.norm(h) + self.frozen(h)
        k = self.weighted(h.unsqueeze(1))
        k, _ = self.recurrent(self.attention(k, k, k)[0])
        return {"h": h + fixed + F.one_hot(index, 4), "index": index, "k": k}


def without(model, args, kwargs):
    """The parameters that a real backward pass from the floating-point outputs leaves without a gradient."""
    outputs = floats(model(*args, **kwargs))
    torch.autograd.backward(outputs, [torch.ones_like(out) for out in outputs])
    return {name for name, parameter in model.named_parameters() if parameter.grad is None}


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_every_reason(mode):
    model, x = Odd(), torch.rand(3, 4)
    report = lamina.inspect(model, x, mode=mode, ops=True)
    told = {name.removesuffix(".weight"): reason for name, reason in report.no_gradient.items()}
    assert told["frozen"] == "its requires_grad is False"
    assert told["skipped"] == told["spare.0"] == "its module was never called"
    assert told["nobody"] == "no operator of the forward reads it"
    assert told["unused"] == told["lost"] == "what is computed from it reaches no output of the model"
    assert told["detached"] == "aten::detach in the model's own work passes no gradient on"
    assert told["chosen"] == "aten::argmax in the model's own work passes no gradient on"
    assert set(report.no_gradient) == without(model, (x,), {})
    assert report.unused == {
        "skipped": "it was never called",
        "spare": "it was never called",
        "unused": "its output reaches no output of the model",
        "wasted": "its output reaches no output of the model",
        "": "what 2 of its operators give reaches no output of the model, aten::mul first",
    }


def test_table_and_json():
    report = lamina.inspect(Odd(), torch.rand(3, 4), ops=True)
    text = " ".join(str(report).split())
    assert "notes 3 layers with unused outputs, 10 parameters get no gradient: why=True shows them" in text
    assert "its output reaches" not in text
    text = " ".join(report._text(why=True).split())
    assert "unused: its output reaches no output of the model" in text
    assert "nobody gets no gradient: no operator of the forward reads it" in text
    assert "never called]" in text
    assert " spare: " not in text  # the table marks it already
    data = json.loads(report.to_json())
    assert {item["path"]: item["reason"] for item in data["unused"]} == report.unused
    assert {item["path"]: item["reason"] for item in data["no_gradient"]} == report.no_gradient


class Two(nn.Module):
    """Two layers, and a forward of one line."""

    def __init__(self, does):
        super().__init__()
        self.a, self.b, self.does = nn.Linear(4, 4), nn.Linear(4, 4), does

    def forward(self, x):
        return self.does(self, x)


def positive(m, x):
    y = m.b(x)
    return m.a(x) * len(y[y > 0])


@pytest.mark.parametrize(
    "does",
    [
        lambda m, x: m.a(x) + m.b(x).data,
        lambda m, x: m.a(x) + torch.from_numpy(m.b(x).detach().numpy() * 2),
        lambda m, x: m.a(x) + torch.tensor(m.b(x).tolist()),
        lambda m, x: (m.a(x), m.b(x).detach().numpy()),
        lambda m, x: (m.a(x), m.b(x).tolist()),
        positive,
    ],
    ids=["data", "numpy", "tolist", "arrays", "lists", "len"],
)
def test_what_leaves_without_an_operator_is_not_unused(does):
    assert lamina.inspect(Two(does), torch.rand(3, 4), ops=True).unused == {}


def test_what_ran_in_vain_is_told_beside_it():
    def does(m, x):
        y = m.a(x) + torch.from_numpy(x.numpy() * 2)
        m.b(y)
        return y

    assert list(lamina.inspect(Two(does), torch.rand(3, 4), ops=True).unused) == ["b"]


def test_what_is_only_read_as_data_has_no_gradient():
    report = lamina.inspect(Two(lambda m, x: m.a(x) + m.b(x).data), torch.rand(3, 4), ops=True)
    assert set(report.no_gradient) == {"b.weight", "b.bias"}


def test_a_forward_that_ends_in_a_gradient():
    @torch.enable_grad()
    def does(m, x):
        x = x.requires_grad_()
        energy = m.b(m.a(x).tanh()).sum()
        return torch.autograd.grad(energy, x, create_graph=True)[0]

    report = lamina.inspect(Two(does), torch.rand(3, 4), ops=True)
    assert report.unused == {}
    assert "a.weight" not in report.no_gradient


def test_nothing_to_say():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout()
    )
    report = lamina.inspect(model, torch.rand(2, 3, 5, 5), mode="train", ops=True)
    assert (report.unused, report.no_gradient) == ({}, {})
    assert "in vain" not in str(report)
    with pytest.raises(ValueError, match="ops=True"):
        assert lamina.inspect(model, torch.rand(2, 3, 5, 5), ops=False).unused


def test_values_handed_to_the_program_are_used():
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.gate = nn.Linear(4, 1)

        def forward(self, x):
            return self.a(x) if self.gate(x).sum().item() > 0 else -self.a(x)

    report = lamina.inspect(Branch(), torch.rand(3, 4), ops=True)
    assert report.unused == {}
    assert (
        set(report.no_gradient) == {"gate.weight", "gate.bias"} == without(Branch(), (torch.rand(3, 4),), {})
    )


def test_some_calls_of_a_layer():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x):
            self.a(x)
            return self.a(x)

    report = lamina.inspect(Twice(), torch.rand(3, 4), ops=True)
    assert report.unused == {"a": "the output of 1 of its 2 calls reaches no output of the model"}
    assert report.no_gradient == {}


class Scale(torch.autograd.Function):
    """Its forward runs without gradients, and passes them on."""

    @staticmethod
    def forward(ctx, x, w):
        return x * w

    @staticmethod
    def backward(ctx, grad):
        return grad, grad.sum(0)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("used", "block", "written", "again", "redone", "after"):
            setattr(self, name, nn.Linear(4, 4))
        self.w = nn.Parameter(torch.ones(4))

    def forward(self, x):
        h = self.used(x)
        with torch.no_grad():
            still = self.block(h)
        h = Scale.apply(h + still, self.w)
        h = checkpoint(self.again, h, use_reentrant=True)
        h = checkpoint(self.redone, h, use_reentrant=False)
        h = self.written(h)
        with torch.no_grad():
            h.clamp_(-1, 1)
            after = self.after(h).relu()
        return h + after


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
def test_blocks_without_gradients():
    """They are known where the rest runs with gradients."""
    x = torch.rand(3, 4)
    report = lamina.inspect(Blocks(), x, backward=True)
    assert set(report.no_gradient) == without(Blocks(), (x,), {})
    assert {name.partition(".")[0] for name in report.no_gradient} == {"block", "after"}
    assert report.no_gradient["block.bias"] == "aten::addmm in block ran without gradients (no_grad)"
    assert lamina.inspect(Blocks(), x, ops=True).no_gradient == {}


def test_all_of_it_without_gradients_tells_nothing():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    with torch.no_grad(), lamina.capture(model, ops=True) as seen:
        model(torch.rand(2, 4))
    assert seen.report().no_gradient == {}


class Learns(nn.Module):
    """A step of a gradient inside the forward."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        w = self.a.weight
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.a(x).pow(2).sum(), w, create_graph=True)
        return self.b(F.linear(x, w - 0.1 * slope, self.a.bias))


class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1, bias=False))

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.net(x).sum(), x, create_graph=True)[0].norm()


class Cast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.b(self.a(x))


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
@pytest.mark.parametrize("kind", [Learns, Slope, Cast])
@pytest.mark.parametrize("more", [{"ops": True}, {"backward": True}, {"ops": True, "dry": True}])
def test_what_a_forward_derives_itself_passes_gradients_on(kind, more):
    x = torch.rand(3, 4)
    assert without(kind(), (x,), {}) == set()
    report = lamina.inspect(kind(), x, **more)
    assert (report.unused, report.no_gradient) == ({}, {})


class GivesNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return None, gradient


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = x * 1
        ctx.mark_non_differentiable(out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        return None


def guarded(net, x):
    with torch.no_grad():
        fixed = net.a(x)
    return net.b(x) * fixed


NOT_OBSERVED = not_observed()  # whichever way a test takes

# What becomes of a, of which only a backward pass shows that no gradient comes; and one where it does.
DEAF = {
    "gives none": lambda net, x: GivesNone.apply(net.a(x), net.b(x)),
    "is marked": lambda net, x: net.b(x) + Marked.apply(net.a(x)),
    "is checkpointed": lambda net, x: net.b(checkpoint(net.a, x, use_reentrant=True)),
    "is guarded": guarded,
    "gets one": lambda net, x: net.b(net.a(x)),
}


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("name", DEAF)
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_backward_pass_shows_which_gradients_came(name, way, dry):
    if dry and NOT_OBSERVED:
        pytest.skip(NOT_OBSERVED)

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            return DEAF[name](self, x)

    report = lamina.inspect(Two(), torch.rand(4, 4), backward=True, dry=dry)
    assert set(report.no_gradient) == without(Two(), (torch.rand(4, 4),), {})
    assert (report.no_gradient == {}) == (name == "gets one")


class Cuts(nn.Module):
    """Of four layers b gets no gradient; c, before it, gets one through a."""

    def __init__(self, does, layer=lambda: nn.Linear(4, 4)):
        super().__init__()
        self.a, self.b, self.c, self.d, self.does = layer(), layer(), layer(), layer(), does

    def forward(self, x):
        h = self.c(x)
        return self.a(h).sum() + self.does(self, h).sum()


class Deaf(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None


@torch.no_grad()
def quiet(layer, h):
    return layer(h)


def of_weights(net, indices):
    return net.d.weight[indices]


OWN = " in the model's own work "
ON, AS_DATA = "passes no gradient on", "reads it as data (Tensor.data), which passes no gradient on"
# What becomes of what b gives, and why b gets no gradient.
CUT_BY = {
    "detach": (lambda m, h: m.b(h).detach(), "aten::detach" + OWN + ON),
    "a view": (lambda m, h: m.b(h).view(-1)[2:].detach(), "aten::detach" + OWN + ON),
    "a chunk": (lambda m, h: m.b(h).chunk(2, 1)[0].detach(), "aten::detach" + OWN + ON),
    "unbind": (lambda m, h: m.b(h).unbind(0)[1].detach(), "aten::detach" + OWN + ON),
    "parts": (
        lambda m, h: torch.cat([part.detach() for part in m.b(h).split(2, 1)]),
        "aten::detach" + OWN + ON,
    ),
    "turned": (lambda m, h: m.b(h).t().reshape(2, -1).detach(), "aten::detach" + OWN + ON),
    "in place": (lambda m, h: m.b(h).detach_(), "aten::detach_" + OWN + ON),
    "its weight": (
        lambda m, h: F.linear(h, m.b.weight.detach(), m.b.bias.detach()),
        "aten::detach" + OWN + ON,
    ),
    "data": (lambda m, h: m.b(h).data * 2, "aten::mul" + OWN + AS_DATA),
    "data of a view": (lambda m, h: m.b(h)[:, :2].data * 2, "aten::mul" + OWN + AS_DATA),
    "no_grad": (lambda m, h: quiet(m.b, h), "aten::addmm in b ran without gradients (no_grad)"),
    "item": (lambda m, h: h.detach() * m.b(h).sum().item(), "aten::item" + OWN + ON),
    "a condition": (lambda m, h: h if m.b(h).sum() > 0 else -h, "aten::gt" + OWN + ON),
    "a list": (
        lambda m, h: torch.tensor(m.b(h).tolist()),
        "aten::addmm in b gives what goes on without an operator",
    ),
    "whole numbers": (lambda m, h: m.b(h).to(torch.int32), "aten::to" + OWN + ON),
    "argmax": (lambda m, h: F.one_hot(m.b(h).argmax(-1), 4), "aten::argmax" + OWN + ON),
    "topk": (lambda m, h: of_weights(m, m.b(h).topk(1, -1).indices[:, 0]), "aten::topk" + OWN + ON),
    "max": (lambda m, h: of_weights(m, m.b(h).max(-1)[1]), "aten::max" + OWN + ON),
    "drawn": (
        lambda m, h: of_weights(m, m.b(h).softmax(-1).multinomial(1)[:, 0]),
        "aten::multinomial" + OWN + ON,
    ),
    "a mask": (lambda m, h: torch.where(m.b(h) > 0, h, 0), "aten::gt" + OWN + ON),
    "positions": (lambda m, h: h[m.b(h)[:, 0].abs().nonzero()[:, 0]], "aten::nonzero" + OWN + ON),
    "a search": (lambda m, h: torch.bucketize(m.b(h), torch.linspace(0, 1, 5)), "aten::bucketize" + OWN + ON),
    "a function": (
        lambda m, h: Deaf.apply(m.b(h)),
        "the backward pass brought it none: Deaf" + OWN + "gave none",
    ),
    "a checkpoint": (
        lambda m, h: checkpoint(m.b, h.detach(), use_reentrant=True),
        "the backward pass brought it none: CheckpointFunction" + OWN + "gave none",
    ),
}


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
@pytest.mark.parametrize("name", CUT_BY)
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_the_reason_is_the_operator_that_cuts_the_gradient(name):
    does, why = CUT_BY[name]
    net, x = Cuts(does), torch.rand(2, 4)
    report = lamina.inspect(net, x, backward=True)
    lacks = without(net, (x,), {})
    assert {"b.weight", "b.bias"} <= set(report.no_gradient) == lacks
    assert report.no_gradient["b.bias"].startswith(why)
    assert not [reason for reason in report.no_gradient.values() if " in a " in reason or " in c " in reason]


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
def test_so_it_is_behind_layers_of_images():
    def does(m, h):
        return m.b(h).flatten(2).detach()

    net = Cuts(does, lambda: nn.Conv2d(3, 3, 1))
    report = lamina.inspect(net, torch.rand(1, 3, 4, 4), backward=True)
    assert report.no_gradient["b.weight"] == "aten::detach" + OWN + ON


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
@pytest.mark.parametrize("guarded", [True, False])
def test_a_gradient_inside_the_forward_may_have_none_itself(guarded):
    def does(m, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return m.a(x) * torch.autograd.grad(m.b(x).tanh().sum(), x, create_graph=not guarded)[0]

    report = lamina.inspect(Two(does), torch.rand(3, 4), backward=True)
    told = report.no_gradient.get("b.weight")
    assert (told is None) == (not guarded)
    assert not guarded or told.endswith(
        "ran in a backward pass inside the forward, without create_graph=True"
    )


class Half(nn.Module):
    def __init__(self, detached):
        super().__init__()
        self.p, self.q = nn.Linear(4, 4), nn.Linear(4, 4)
        self.detached: bool = detached

    def forward(self, x):
        y = self.q(x)
        if self.detached:
            y = y.detach()
        return self.p(x) + y


@pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))
@pytest.mark.parametrize("how", ["script", "trace"])
def test_scripted_children_have_reasons_too(how):
    def made(detached):
        child = Half(detached)
        return torch.jit.script(child) if how == "script" else torch.jit.trace(child, torch.rand(3, 4))

    inside, after = Two(lambda m, x: m.a(x) + m.b(x)), Two(lambda m, x: m.a(x) + m.b(x).detach())
    inside.b, after.b = made(detached=True), made(detached=False)
    told = lamina.inspect(inside, torch.rand(3, 4), backward=True).no_gradient
    assert told == dict.fromkeys(("b.q.weight", "b.q.bias"), "aten::detach in b passes no gradient on")
    told = lamina.inspect(after, torch.rand(3, 4), backward=True).no_gradient
    assert set(told) == {"b.p.weight", "b.p.bias", "b.q.weight", "b.q.bias"}
    assert set(told.values()) == {"aten::detach" + OWN + ON}


def test_what_torch_leaves_alone_inside_an_operator_is_its_own_affair():
    class Repeats(nn.Module):
        def forward(self, x):
            return x.repeat(1, 2)

    assert lamina.inspect(Repeats(), torch.rand(2, 4), ops=True).unused == {}


TRUTH = {model["name"]: model for model in json.loads((DATA / "truth.json").read_text())}
SOME = [
    "googlenet",
    "uncalled_child",
    "conv_zoo",
    "lstm_classifier",
    "nn_encoder_fastpath",
    "efficientnet_b0",
]


@pytest.mark.parametrize("name", SOME)
def test_it_is_what_a_backward_pass_leaves_out(name):
    model, args, kwargs = build(TRUTH[name])
    report = lamina.inspect(model, args, kwargs, ops=True)
    assert set(report.no_gradient) == without(model, args, kwargs)
    assert set(report.unused.values()) <= {"it was never called"}


@pytest.mark.parametrize("layer", [nn.LazyLinear, nn.LazyBatchNorm1d])
def test_the_first_forward_of_a_lazy_layer(layer):
    report = lamina.inspect(nn.Sequential(layer(*[5] * (layer is nn.LazyLinear))), torch.rand(2, 3), ops=True)
    assert report.no_gradient == {}
