# SPDX-License-Identifier: Apache-2.0
"""Health beside masks: whoever is at fault is named, and never the -Inf that leaves no trace."""

from __future__ import annotations

import pytest
import torch
from health_masks import FAULTS, MASKS, SIZE, TAKE, Attend, backward_case, forward_case, sound_case
from health_nets import INF, Do
from torch import nn

import lamina
from lamina._observe import support

observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")
OPS = [False, pytest.param(True, marks=observed)]


def run(case, ops, backward):
    with lamina.capture(case.model, health=True, ops=ops) as cap:
        y = case.model(*case.args)
        if backward and y.requires_grad:
            y.sum().backward()
    return cap.report().health


def check(case, health):
    first = health.first
    assert first is not None, health
    assert (first.path, first.phase) == (case.path, case.phase), health.findings
    assert not first.input, first
    if health.operators:
        assert first.op == case.op, health.findings
    assert all(f.explained for f in health.findings[1:]), health.findings


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("seed", range(66))
def test_a_fault_beside_a_mask_is_named(seed, ops):
    check(forward_case(seed), run(forward_case(seed), ops, backward=seed % 2))


@observed
@pytest.mark.parametrize("ops", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_a_fault_on_the_way_back_beside_a_mask_is_named(seed, ops):
    check(backward_case(seed), run(backward_case(seed), ops, backward=True))


@pytest.mark.parametrize("ops", OPS)
@pytest.mark.parametrize("seed", range(45))
def test_a_mask_alone_is_no_finding(seed, ops):
    health = run(sound_case(seed), ops, backward=False)
    assert health.ok, health.findings


def outside(loss, *, fault=None):
    """A model whose mask is made outside of it, and a loss that masks too."""
    attend = Attend(MASKS["argument"], TAKE["softmax"], fault, "after" if fault else "")
    model = nn.Sequential(nn.Linear(SIZE, SIZE), attend)
    with lamina.capture(model, health=True, ops=True) as cap:
        attend.given = torch.log(torch.ones(SIZE, SIZE).tril())
        y = model(torch.rand(2, SIZE, SIZE))
        loss(y).backward()
    return cap.report().health


def masked_sum(y):
    left = torch.log((torch.arange(SIZE) > 2).float())
    return (y.relu() + left).logsumexp(-1).sum()


@observed
def test_masks_outside_of_the_model():
    assert outside(masked_sum).ok, outside(masked_sum).findings
    first = outside(masked_sum, fault=FAULTS["aten::div"]).first
    assert (first.path, first.op) == ("1", "aten::div")
    first = outside(lambda y: masked_sum(y) / 0).first
    assert (first.path, first.op) == (None, "aten::div")
    first = outside(lambda y: torch.log(y.sum() * 0)).first
    assert (first.path, first.op, first.value) == (None, "aten::log", "-Inf")


@observed
def test_infinity_that_is_no_mask_is_blamed_on_the_operator_that_made_it():
    nothing = nn.Sequential(Do(lambda x: torch.log(x * 0)), nn.Linear(SIZE, SIZE))
    first = lamina.inspect(nothing, torch.rand(2, SIZE), health=True, ops=True).health.first
    assert (first.path, first.op, first.value) == ("0", "aten::log", "-Inf")
    times = Do(lambda x: x.masked_fill(x > 0.5, -INF) * 0)
    first = lamina.inspect(times, torch.rand(9, SIZE), health=True, ops=True).health.first
    assert (first.op, first.value) == ("aten::mul", "NaN")


@observed
@pytest.mark.parametrize("factor", [-1, 0, torch.tensor([1, -1]).repeat(SIZE // 2)])
def test_an_operator_that_only_turns_the_infinities_of_another_is_not_blamed(factor):
    """Inf or NaN where the logarithm left -Inf, and nowhere else."""
    layers = Do(lambda x: torch.log((x > 0.5).float())), Do(lambda x: x * factor)
    health = lamina.inspect(nn.Sequential(*layers), torch.rand(9, SIZE), health=True, ops=True).health
    assert [(f.path, f.op) for f in health.findings] == [("0", "aten::log")]


@observed
def test_what_was_chosen_from_is_not_blamed():
    work = Do(lambda x: torch.where(x > 0.5, torch.log(x - 0.5), x * 0) / (x - x))
    health = lamina.inspect(work, torch.rand(9, SIZE), health=True, ops=True).health
    assert [f.op for f in health.findings] == ["aten::div"]
