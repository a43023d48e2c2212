# SPDX-License-Identifier: Apache-2.0
"""flex_attention as torch runs it on the CPU: all scores are computed, and a mask selects those that count.

A real run and a dry run count the same, effective counts leave out what the mask leaves out, and what torch's
own code computes beside the result is not reported as unused."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from where_kit import not_observed

import lamina

flex = pytest.importorskip("torch.nn.attention.flex_attention")
pytestmark = pytest.mark.filterwarnings("ignore")

SEQUENCES, HEADS, LENGTH, WIDTH = 2, 4, 48, 8
ALL = SEQUENCES * HEADS * LENGTH * LENGTH
BEFORE = LENGTH * (LENGTH + 1) // 2  # scores of keys that are not after their query
NEAR = sum(min(LENGTH - 1, q + 3) - max(0, q - 3) + 1 for q in range(LENGTH))
BIAS = torch.rand(LENGTH, LENGTH)
DOCUMENT = torch.repeat_interleave(torch.arange(3), torch.tensor([10, 6, 32]))


def causal(b, h, q, k):
    return q >= k


def mask(picks, sequences=1, heads=1):
    return flex.create_block_mask(picks, sequences, heads, LENGTH, LENGTH, device="cpu")


class Attends(nn.Module):
    def __init__(self, block_mask=None, score_mod=None, pairs=HEADS, **options):
        super().__init__()
        self.q, self.kv = nn.Linear(32, HEADS * WIDTH), nn.Linear(32, 2 * pairs * WIDTH)
        self.pairs, self.block_mask, self.score_mod, self.options = pairs, block_mask, score_mod, options

    def forward(self, x):
        q = self.q(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        k, v = (z.unflatten(-1, (self.pairs, WIDTH)).transpose(1, 2) for z in self.kv(x).chunk(2, -1))
        made = self.block_mask() if callable(self.block_mask) else self.block_mask
        out = flex.flex_attention(
            q, k, v, block_mask=made, score_mod=self.score_mod, enable_gqa=self.pairs != HEADS, **self.options
        )
        return out.transpose(1, 2).flatten(2)

    def projects(self):
        return SEQUENCES * LENGTH * 32 * (HEADS + 2 * self.pairs) * WIDTH


def x():
    return torch.rand(SEQUENCES, LENGTH, 32)


def runs():
    """True if this torch and this Python can run it at all."""
    try:
        with torch.no_grad():
            Attends()(x())
    except (RuntimeError, NotImplementedError):
        return False
    return True


if not runs():
    pytest.skip("this torch has no flex_attention on the CPU", allow_module_level=True)
observed = pytest.mark.skipif(bool(not_observed()), reason=str(not_observed()))

CASES = {
    "no mask": (Attends, ALL),
    "causal": (lambda: Attends(mask(causal)), SEQUENCES * HEADS * BEFORE),
    "window": (
        lambda: Attends(mask(lambda b, h, q, k: (q - k).abs() <= 3)),
        SEQUENCES * HEADS * NEAR,
    ),
    "of each head": (
        lambda: Attends(mask(lambda b, h, q, k: (h < 2) | (q >= k), SEQUENCES, HEADS)),
        SEQUENCES * 2 * (LENGTH * LENGTH + BEFORE),
    ),
    "of each sequence": (
        lambda: Attends(mask(lambda b, h, q, k: (b < 1) | (q >= k), SEQUENCES, HEADS)),
        HEADS * (LENGTH * LENGTH + BEFORE),
    ),
    "documents": (
        lambda: Attends(mask(lambda b, h, q, k: DOCUMENT[q] == DOCUMENT[k])),
        SEQUENCES * HEADS * (10 * 10 + 6 * 6 + 32 * 32),
    ),
    "nothing": (lambda: Attends(mask(lambda b, h, q, k: q < 0)), 0),
    "heads in groups": (lambda: Attends(mask(causal), pairs=2), SEQUENCES * HEADS * BEFORE),
    "a mask and a bias": (
        lambda: Attends(mask(causal), lambda score, b, h, q, k: score + (k - q) * 0.5),
        SEQUENCES * HEADS * BEFORE,
    ),
    "a table of biases": (lambda: Attends(None, lambda score, b, h, q, k: score + BIAS[q, k]), ALL),
    "a function that selects": (
        lambda: Attends(mask(causal), lambda s, b, h, q, k: torch.where(q - k < 9, s, -100.0)),
        SEQUENCES * HEADS * BEFORE,
    ),
    "made in the forward": (lambda: Attends(lambda: mask(causal)), SEQUENCES * HEADS * BEFORE),
}


@observed
@pytest.mark.parametrize("name", CASES)
def test_masked_scores_are_no_effective_work(name):
    make, scores = CASES[name]
    model = make()
    report = lamina.inspect(model, x())
    assert (report.macs, report.macs.state) == (model.projects() + 2 * ALL * WIDTH, "exact")
    effective = report.effective_macs
    assert (effective, effective.state) == (model.projects() + 2 * scores * WIDTH, "exact")
    assert report.unused == {}
    if scores == ALL:
        assert (report.effective_flops, report.effective_flops.state) == (report.flops, "exact")
    else:
        assert report.effective_flops < report.flops
        assert report.effective_flops.state == "at least"


@observed
@pytest.mark.parametrize("name", CASES)
def test_a_dry_run_counts_the_same(name):
    model = CASES[name][0]()
    report, dry = lamina.inspect(model, x()), lamina.inspect(model, x(), dry=True)
    for what in ("macs", "flops", "bytes_read", "bytes_written"):
        real, computed = getattr(report, what), getattr(dry, what)
        assert (computed, computed.state) == (real, real.state), what
    # Its masks have no values, or outdated ones.
    assert dry.effective_macs.state == "at least"
    assert dry.effective_macs <= report.effective_macs
    assert dry.unused == {}


@observed
def test_several_with_masks_of_their_own():
    model = nn.Sequential(Attends(mask(causal)), Attends(mask(lambda b, h, q, k: (q - k).abs() <= 3)))
    report = lamina.inspect(model, x())
    scores = SEQUENCES * HEADS * (BEFORE + NEAR)
    assert report.effective_macs == 2 * model[0].projects() + 2 * scores * WIDTH
    assert report.rows[1].total_effective_macs == model[0].projects() + 2 * SEQUENCES * HEADS * BEFORE * WIDTH


@observed
def test_in_inference_mode_effective_counts_are_a_lower_bound():
    model = Attends(mask(causal))
    with torch.inference_mode():
        report = lamina.inspect(model, x())
    assert (report.macs, report.macs.state) == (model.projects() + 2 * ALL * WIDTH, "exact")
    assert report.effective_macs.state == "at least"
    assert report.effective_macs <= model.projects() + 2 * SEQUENCES * HEADS * BEFORE * WIDTH
    assert report.unused == {}


def test_memory_of_its_forward_is_predicted():
    fit = lamina.fit(Attends(mask(causal)), x())
    scores = ALL * 4
    assert fit.forward.bytes >= 2 * scores  # the scores before and after the mask, in float32
    assert "does not support backward on CPU" in str(fit)


def test_the_mask_is_the_same_afterwards():
    model = Attends(mask(causal))
    before = dict(vars(model.block_mask))
    with torch.no_grad():
        right = model(given := x())
    lamina.inspect(model, given, dry=True)
    lamina.fit(model, given)
    after = vars(model.block_mask)
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)
    with torch.no_grad():
        assert torch.equal(model(given), right)


@pytest.mark.parametrize("kind", ["whole numbers", "numbers", "tuple"])
def test_an_object_keeps_its_tensors_in_a_dry_run(kind):
    class Box:
        def __init__(self, held):
            self.held = held

    class Holds(nn.Module):
        def __init__(self, held):
            super().__init__()
            self.box, self.layer = Box(held), nn.Linear(32, 3)

        def forward(self, x):
            held = self.box.held
            return self.layer(x) + (held[0] if isinstance(held, tuple) else held).sum()

    held = {
        "whole numbers": torch.arange(4),
        "numbers": torch.rand(300),
        "tuple": (torch.rand(3), torch.arange(3)),
    }[kind]
    model = Holds(held)
    assert lamina.inspect(model, x(), dry=True).macs == SEQUENCES * LENGTH * 32 * 3
    assert model.box.held is held
