# SPDX-License-Identifier: Apache-2.0
"""Effective counts of attention that a program writes as products around a softmax, of masks that a dry run
knows, and of torch.isin."""

import math

import pytest
import torch
from torch import nn

import lamina

B, HEADS, N, WIDE, WINDOW = 2, 3, 10, 4, 3
SCORES = B * HEADS * N * N
CAUSAL = B * HEADS * N * (N + 1) // 2
LOW = torch.finfo(torch.float32).min


def causal():
    return torch.arange(N)[:, None] >= torch.arange(N)


def added(value):
    return lambda s: s + torch.where(causal(), 0.0, value)


def filled(s):
    return s.masked_fill(~causal(), -math.inf)


def chosen(s):
    return torch.where(causal(), s, LOW)


def windowed(s):
    near = torch.arange(N)[:, None] - torch.arange(N) < WINDOW
    return s + torch.where(causal() & near, 0.0, LOW)


def padded(s):
    kept = torch.arange(N) < torch.tensor([N, N - 4])[:, None]
    return s + torch.where(causal() & kept[:, None, None, :], 0.0, LOW)


WINDOWED = B * HEADS * sum(min(i + 1, WINDOW) for i in range(N))
PADDED = HEADS * (N * (N + 1) // 2 + sum(min(i + 1, N - 4) for i in range(N)))
MASKS = {
    "-inf": (added(-math.inf), CAUSAL),
    "lowest": (added(LOW), CAUSAL),
    "filled": (filled, CAUSAL),
    "chosen": (chosen, CAUSAL),
    "window": (windowed, WINDOWED),
    "padding": (padded, PADDED),
    "none": (lambda s: s, SCORES),
    "bias": (lambda s: s + torch.arange(N) * 0.5, SCORES),
    "both": (lambda s: filled(s + torch.arange(N).expand(N, N) * 0.5), CAUSAL),
}


class Written(nn.Module):
    """Attention in products; `how` multiplies, `last` changes the weights before they are used."""

    def __init__(self, mask, how=torch.matmul, last=lambda p: p):
        super().__init__()
        self.mask, self.how, self.last = mask, how, last
        self.qkv = nn.Linear(HEADS * WIDE, 3 * HEADS * WIDE, bias=False)

    def forward(self, x):
        q, k, v = (t.view(B, N, HEADS, WIDE).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = self.mask(self.how(q, k.transpose(2, 3)) * WIDE**-0.5)
        return self.how(self.last(scores.softmax(-1)), v).transpose(1, 2).reshape(B, N, -1)


OTHER = B * N * HEADS * WIDE * 3 * HEADS * WIDE
X = torch.randn(B, N, HEADS * WIDE)


def is_exactly(count, n):
    assert (int(count), count.state) == (n, "exact")


@pytest.mark.parametrize("name", MASKS)
def test_what_a_mask_hides_is_not_effective(name):
    mask, scores = MASKS[name]
    report = lamina.inspect(Written(mask), (X,))
    is_exactly(report.macs, OTHER + 2 * SCORES * WIDE)
    is_exactly(report.effective_macs, OTHER + 2 * scores * WIDE)


@pytest.mark.parametrize("name", ["-inf", "lowest", "filled", "window", "padding", "none", "bias", "both"])
def test_a_dry_run_knows_masks_that_begin_with_a_range(name):
    mask, scores = MASKS[name]
    is_exactly(lamina.inspect(Written(mask), (X,), dry=True).effective_macs, OTHER + 2 * scores * WIDE)


def lowered(s):
    return s.masked_fill(~causal(), -1e4)  # a score that softmax gives a weight, if a small one


@pytest.mark.parametrize("mask", [chosen, lowered])
def test_a_dry_run_does_not_know_what_another_operator_hides(mask):
    count = lamina.inspect(Written(mask), (X,), dry=True).effective_macs
    assert count.state == "at least"
    assert count <= OTHER + 2 * CAUSAL * WIDE


def test_a_mask_without_values_leaves_a_lower_bound():
    given = Written(None)
    given.register_buffer("hidden", torch.full((N, N), LOW).triu(1))
    given.mask = lambda s: s + given.hidden
    is_exactly(lamina.inspect(given, (X,)).effective_macs, OTHER + 2 * CAUSAL * WIDE)
    assert lamina.inspect(given, (X,), dry=True).effective_macs.state == "at least"


def test_effective_flops_are_those_of_torchs_attention():
    class Fused(Written):
        def forward(self, x):
            q, k, v = (t.view(B, N, HEADS, WIDE).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            mask = torch.where(causal(), 0.0, LOW)
            out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return out.transpose(1, 2).reshape(B, N, -1)

    model = Written(added(LOW))
    fused = Fused(None)
    a, b = (lamina.inspect(m, (X,)).effective_flops for m in (model, fused))
    assert a.state == b.state == "exact"
    assert a == b


def by_einsum(a, b):
    return torch.einsum("bhij,bhjk->bhik", a, b)


def by_bmm(a, b):
    return torch.bmm(a.reshape(-1, *a.shape[2:]), b.reshape(-1, *b.shape[2:])).view(*a.shape[:3], -1)


def by_baddbmm(a, b):
    a, b = a.reshape(-1, *a.shape[2:]), b.reshape(-1, *b.shape[2:])
    return torch.baddbmm(torch.zeros(a.shape[0], a.shape[1], b.shape[2]), a, b).view(B, HEADS, N, -1)


@pytest.mark.parametrize("how", [by_einsum, by_bmm, by_baddbmm])
def test_each_way_to_multiply(how):
    report = lamina.inspect(Written(added(LOW), how), (X,))
    is_exactly(report.effective_macs, OTHER + 2 * CAUSAL * WIDE)


LASTS = {
    "dropout": lambda p: nn.functional.dropout(p, 0.5, training=True),
    "half and back": lambda p: p.half().float(),
    "contiguous": lambda p: p.contiguous().clone(),
    "scaled": lambda p: p * 0.5,
}


@pytest.mark.parametrize("last", LASTS)
def test_weights_may_change_before_they_are_used(last):
    report = lamina.inspect(Written(added(LOW), last=LASTS[last]), (X,))
    is_exactly(report.effective_macs, OTHER + 2 * CAUSAL * WIDE)


def test_a_sink_beside_the_scores_is_no_score():
    class Sink(Written):
        def forward(self, x):
            q, k, v = (t.view(B, N, HEADS, WIDE).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
            scores = self.mask(q @ k.transpose(2, 3))
            both = torch.cat([scores, torch.zeros(B, HEADS, N, 1)], -1)
            weights = (both - both.max(-1, keepdim=True).values).softmax(-1)[..., :-1]
            return (weights @ v).transpose(1, 2).reshape(B, N, -1)

    report = lamina.inspect(Sink(added(LOW)), (X,))
    is_exactly(report.effective_macs, OTHER + 2 * CAUSAL * WIDE)


def test_a_backward_pass_leaves_out_the_same_scores():
    report = lamina.inspect(Written(added(LOW)), (X,), backward=True)
    is_exactly(report.backward.macs, OTHER + 4 * SCORES * WIDE)
    is_exactly(report.backward.effective_macs, OTHER + 4 * CAUSAL * WIDE)


def test_a_softmax_of_logits_hides_no_product():
    class Sampler(nn.Linear):
        def forward(self, x):
            logits = super().forward(x)[:, None]
            return logits.masked_fill(logits < 0, -math.inf).softmax(-1)

    report = lamina.inspect(Sampler(8, 16, bias=False), (torch.randn(4, 8),))
    is_exactly(report.effective_macs, 4 * 8 * 16)


@pytest.mark.parametrize("n", [40, 400])
def test_a_dry_run_knows_a_window_of_any_length(n):
    """The mask of 400 tokens and 2 sequences has more elements than a dry run reads of other tensors."""

    class Windowed(nn.Module):
        def forward(self, x):
            at = torch.arange(x.shape[2], device=x.device)
            near = (at[:, None] >= at) & (at[:, None] - at < WINDOW)
            kept = torch.ones(x.shape[0], x.shape[2], dtype=torch.bool)
            picked = kept[torch.arange(x.shape[0])[:, None, None, None], at[None, None, None, :]]
            mask = torch.where(near & picked, 0.0, torch.tensor(-math.inf))
            return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    x = torch.randn(2, HEADS, n, 8)
    open_ = 2 * HEADS * sum(min(i + 1, WINDOW) for i in range(n))
    for dry in (False, True):
        is_exactly(lamina.inspect(Windowed(), (x,), dry=dry).effective_macs, 2 * open_ * 8)


def test_a_mask_that_became_unknown_is_not_read():
    class Overwritten(nn.Module):
        def forward(self, x):
            mask = torch.zeros(N, N)
            mask[0] = x[0, 0, :N, 0]
            return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    count = lamina.inspect(Overwritten(), (torch.randn(1, 1, N, 4),), dry=True).effective_macs
    assert count.state != "exact"


class Among(nn.Module):
    def __init__(self, others, **options):
        super().__init__()
        self.others, self.options = others, options

    def forward(self, x):
        return torch.isin(x, self.others, **self.options)


def ordered(n):
    return sum(math.ceil(math.log2(i)) for i in range(1, n + 1)) + max(n - 1, 0)


def test_isin_compares_each_with_each_if_there_are_few():
    ids = torch.randint(0, 9, (4, 25))
    for others, n in ((torch.tensor(2), 1), (torch.tensor([1, 2, 3]), 3), (torch.tensor([]).long(), 0)):
        for dry in (False, True):
            is_exactly(lamina.inspect(Among(others), (ids,), dry=dry).flops, 100 * n)


def test_isin_sorts_if_there_are_many():
    ids, others = torch.randint(0, 9, (4, 25)), torch.arange(60)
    is_exactly(lamina.inspect(Among(others), (ids,)).flops, ordered(100) + ordered(60) + ordered(160))
    is_exactly(lamina.inspect(Among(others, assume_unique=True), (ids,)).flops, ordered(160))
