# SPDX-License-Identifier: Apache-2.0
"""Peaks of lone operators: what is said exactly is what the allocator counts; else an operator is named."""

from __future__ import annotations

import allocated
import pytest
import torch
import torch.nn.functional as F
from lone import Lone, convolution
from test_fit import WHY
from torch import nn

import lamina
from lamina import _lamina
from lamina._dry import workspace
from lamina._observe import memory

pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))
needs_allocator = pytest.mark.skipif(memory.refused() is not None, reason=str(memory.refused()))

CUBE = (24, 32, 40)


def leaf(*sizes):
    return torch.rand(sizes).requires_grad_()


def at(*sizes, below=20):
    return torch.randint(0, below, sizes)


# What kernels take inside: forward passes that were said exactly and were far too low.
INSIDE = {
    "logsumexp": lambda: Lone(torch.logsumexp, (leaf(*CUBE), 2), {}),
    "kthvalue": lambda: Lone(torch.kthvalue, (leaf(*CUBE), 5, 1), {}),
    "fold": lambda: Lone(F.fold, (leaf(2, 72, 196), (16, 16), 3), {}),
    "mse_loss": lambda: Lone(F.mse_loss, (leaf(*CUBE), leaf(*CUBE)), {}),
    "huber_loss": lambda: Lone(F.huber_loss, (leaf(*CUBE), torch.rand(CUBE)), {}),
    "smooth_l1_loss": lambda: Lone(F.smooth_l1_loss, (leaf(*CUBE), torch.rand(CUBE)), {}),
    "binary_cross_entropy": lambda: Lone(F.binary_cross_entropy, (leaf(*CUBE), torch.rand(CUBE)), {}),
    "cdist": lambda: Lone(torch.cdist, (leaf(4, 90, 30), leaf(4, 80, 30)), {}),
    "bicubic": lambda: Lone(
        F.interpolate, (leaf(2, 3, 64, 64),), {"size": (30, 40), "mode": "bicubic", "antialias": True}
    ),
    "rfft": lambda: Lone(torch.fft.rfft, (leaf(40, 800),), {}),
    "hfft2": lambda: Lone(torch.fft.hfft2, (leaf(18, 37, 38),), {"dim": (0, -1)}),
    "nuclear norm": lambda: Lone(torch.linalg.matrix_norm, (leaf(60, 60), "nuc"), {}),
    "hinge": lambda: Lone(F.hinge_embedding_loss, (leaf(*CUBE), torch.ones(CUBE)), {}),
    "sort": lambda: Lone(torch.sort, (leaf(30000),), {}),
    "trilinear": lambda: Lone(F.bilinear, (leaf(60, 30), leaf(60, 20), leaf(10, 30, 20)), {}),
}
# What torch writes in place in a real run, and not where tensors have a class of their own.
IN_PLACE = {
    "topk": lambda: Lone(torch.topk, (leaf(*CUBE), 7), {}),
    "max of a dim": lambda: Lone(torch.max, (leaf(*CUBE), 1), {}),
    "max": lambda: Lone(torch.max, (leaf(*CUBE),), {}),
    "median": lambda: Lone(torch.median, (leaf(*CUBE),), {}),
    "gather": lambda: Lone(torch.gather, (leaf(50, 80), 1, at(50, 60)), {}),
    "index_select": lambda: Lone(torch.index_select, (leaf(50, 80), 1, at(70)), {}),
    "cummax": lambda: Lone(torch.cummax, (leaf(*CUBE), 1), {}),
    "trace": lambda: Lone(torch.trace, (leaf(90, 90),), {}),
    "clamp": lambda: Lone(torch.clamp, (leaf(*CUBE), torch.zeros(CUBE), torch.ones(CUBE)), {}),
    "sgn": lambda: Lone(torch.sgn, (leaf(90, 90),), {}),
    "weighted": lambda: Lone(
        F.binary_cross_entropy_with_logits, (leaf(*CUBE), torch.rand(CUBE)), {"pos_weight": torch.rand(40)}
    ),
    "masked": lambda: Lone(
        F.scaled_dot_product_attention,
        (leaf(2, 4, 60, 24), leaf(2, 4, 60, 24), leaf(2, 4, 60, 20), torch.rand(60, 60)),
        {},
    ),
    "soft_margin_loss": lambda: Lone(F.soft_margin_loss, (leaf(*CUBE), torch.ones(CUBE)), {}),
}
BY_VALUES = {
    "prod": (lambda: Lone(torch.prod, (leaf(*CUBE), 1), {}), "ProdBackward1"),
    "cumprod": (lambda: Lone(torch.cumprod, (leaf(*CUBE), 1), {}), "CumprodBackward0"),
    "masked_fill": (
        lambda: Lone(torch.masked_fill, (leaf(60, 60), torch.rand(60, 60) < 0.5, leaf()), {}),
        "aten::where",
    ),
    "matrix_exp": (lambda: Lone(torch.matrix_exp, (leaf(6, 30, 30),), {}), "aten::linalg_matrix_exp"),
}


def peaks(model, args=()):
    """Predicted peaks of a forward pass and of a step, and those that were measured."""
    torch.manual_seed(0)
    fit = lamina.fit(model, args, optimizer="sgd")
    base = allocated.held(model, args, {})
    yield fit.forward, allocated.forward_peak(model, args, {}) + base
    if fit.step is not None:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        yield fit.step, allocated.step_peak(model, args, {}, optimizer) + base


def is_right(peak, measured):
    assert (peak.gap, peak.rough) == (None, None)
    assert abs(peak.bytes - measured) <= 0.03 * measured


@needs_allocator
@pytest.mark.parametrize("name", [*INSIDE, *IN_PLACE])
def test_what_a_kernel_takes_inside(name):
    for peak, measured in peaks((INSIDE | IN_PLACE)[name]()):
        is_right(peak, measured)


@needs_allocator
def test_a_loss_behind_a_layer():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 96)

        def forward(self, x, y):
            return F.mse_loss(self.layer(x), y)

    for peak, measured in peaks(Net(), (torch.rand(300, 64), torch.rand(300, 96))):
        is_right(peak, measured)


@needs_allocator
@pytest.mark.parametrize("seed", range(12))
def test_lone_convolutions(seed):
    _, net, x = convolution(seed)
    for peak, measured in peaks(net, (x,)):
        if peak.gap is None and peak.rough is None:
            is_right(peak, measured)
        else:
            assert "aten::convolution" in (peak.gap or peak.rough)


@needs_allocator
@pytest.mark.parametrize("name", BY_VALUES)
def test_where_values_decide_it_is_said(name):
    build, who = BY_VALUES[name]
    fit = lamina.fit(build(), (), optimizer="sgd")
    assert who in fit.step.rough
    assert "roughly" in str(fit)


@needs_allocator
def test_where_callers_are_not_known_it_is_said(monkeypatch):
    monkeypatch.setenv("LAMINA_CAPTURE", "dispatch")
    for name in ("topk", "max", "gather", "clamp"):
        fit = lamina.fit(IN_PLACE[name](), (), optimizer="sgd")
        assert "takes beside its results is known roughly" in fit.step.rough
    assert lamina.fit(INSIDE["logsumexp"](), (), optimizer="sgd").step.rough is None


def test_what_one_call_takes():
    made = []

    def work(n, *, keep):
        first = torch.empty(n, dtype=torch.uint8)
        second = torch.empty(2 * n, dtype=torch.uint8)
        del first
        third = torch.empty(n // 2, dtype=torch.uint8)
        made.append(third)
        return second if keep else None

    assert _lamina.taken(work, (1 << 16,), {"keep": True})[:2] == (3 << 16, (2 << 16) + (1 << 15))
    assert _lamina.taken(work, (1 << 16,), {"keep": False}) == (3 << 16, 1 << 15, None)
    with pytest.raises(ZeroDivisionError):
        _lamina.taken(lambda: 1 / 0, (), {})
    assert _lamina.taken(lambda: None, (), {}) == (0, 0, None)


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = torch.Generator()
        self.norm = nn.BatchNorm1d(20)

    def forward(self, x):
        x = F.dropout(self.norm(x), 0.5, self.training)
        return x * torch.rand(x.shape, generator=self.own)


@needs_allocator
def test_measuring_changes_nothing():
    workspace._measured.clear()
    model, x = Drawn(), torch.rand(30, 20)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    states = torch.get_rng_state(), model.own.get_state()
    lamina.fit(model, x)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(model.own.get_state(), states[1])
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert torch.is_grad_enabled()
    assert all(module.training and not module._forward_hooks for module in model.modules())


@needs_allocator
def test_it_is_measured_once_and_only_where_peaks_are_predicted(monkeypatch):
    workspace._measured.clear()
    asked, taken = [], _lamina.taken
    monkeypatch.setattr(_lamina, "taken", lambda f, *rest: (asked.append(f), taken(f, *rest))[1])
    net, x = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)), torch.rand(2, 3, 20, 20)
    lamina.inspect(net, x, dry=True)
    assert asked == []
    lamina.fit(net, x)
    assert asked
    n = len(asked)
    lamina.fit(net, x)
    assert len(asked) == n


@needs_allocator
def test_what_is_too_much_work_is_named(monkeypatch):
    workspace._measured.clear()
    net, x = nn.Conv2d(3, 8, 3, padding=1), torch.rand(16, 3, 24, 24)
    (exact, _), *_ = peaks(net, (x,))
    workspace._measured.clear()
    monkeypatch.setattr(workspace, "MOST_BYTES", x.numel() * 4)
    assert lamina.fit(net, x).forward.rough is None  # a convolution is run all the same, while there are few
    workspace._measured.clear()
    monkeypatch.setattr(workspace, "LARGE_IN_ALL", 0)
    fit = lamina.fit(net, x)
    assert fit.forward.rough == "what aten::convolution takes beside its results is known roughly"
    assert fit.forward.gap is None
    assert abs(fit.forward.bytes - exact.bytes) <= 0.2 * exact.bytes
    workspace._measured.clear()
    monkeypatch.setattr(workspace, "MOST_BYTES", 1)
    fit = lamina.fit(net, x)
    assert fit.forward.gap == "what aten::convolution takes beside its results was not measured"
    assert fit.forward.bytes.state == "at least"
    assert fit.forward.bytes <= exact.bytes
    # as many channels as examples
    net, x = nn.Conv2d(3, 16, 3, padding=1), torch.rand(16, 3, 24, 24)
    monkeypatch.setattr(workspace, "MOST_BYTES", 1 << 26)
    exact = lamina.fit(net, x)
    workspace._measured.clear()
    monkeypatch.setattr(workspace, "MOST_BYTES", x.numel() * 4)
    fit = lamina.fit(net, x)
    for peak, right in ((fit.forward, exact.forward), (fit.step, exact.step)):
        assert (peak.gap, right.gap, right.rough) == (None, None, None)
        assert peak.rough is not None
        assert 0.5 * right.bytes <= peak.bytes <= 1.5 * right.bytes  # oneDNN has another kernel for two
    monkeypatch.setattr(workspace, "MOST_BYTES", 1)
    # what is known of all sizes needs no measuring
    for known in (nn.Linear(8, 8), nn.ReLU()):
        fit = lamina.fit(known, torch.rand(4, 8))
        assert (fit.forward.gap, fit.forward.rough) == (None, None)
    workspace._measured.clear()


@needs_allocator
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("side", [8, 48])
def test_the_backward_of_a_group_norm_of_any_size_is_known(monkeypatch, last, side):
    net = nn.Sequential(nn.Conv2d(3, 64, 1), nn.GroupNorm(8, 64), nn.SiLU())
    x = torch.rand(4, 3, side, side)
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    workspace._measured.clear()
    measured = lamina.fit(net, x, optimizer="sgd").step
    workspace._measured.clear()
    monkeypatch.setattr(workspace, "MOST_BYTES", 1)
    ruled = lamina.fit(net, x, optimizer="sgd").step
    workspace._measured.clear()
    assert measured.at == "aten::native_group_norm_backward"
    assert (ruled.bytes, ruled.at, ruled.gap, ruled.rough) == (measured.bytes, measured.at, None, None)


@needs_allocator
@pytest.mark.parametrize("name", ["logsumexp", "kthvalue"])
def test_what_a_few_examples_take_tells_what_all_of_them_take(monkeypatch, name):
    workspace._measured.clear()
    net = INSIDE[name]()
    exact = lamina.fit(net, ()).forward
    workspace._measured.clear()
    monkeypatch.setattr(workspace, "MOST_BYTES", net.t0.numel() * 4 // 3)
    few = lamina.fit(net, ()).forward
    assert (exact.rough, few.rough) == (None, f"what aten::{name} takes beside its results is known roughly")
    assert few.bytes == exact.bytes
    workspace._measured.clear()
