# SPDX-License-Identifier: Apache-2.0
"""Health beside masks: whoever is at fault is named, and never the -Inf that leaves no trace."""

from __future__ import annotations

import pytest
import torch
from health_masks import backward_case, forward_case, sound_case
from torch import nn

import lamina
from lamina import _observe

observed = pytest.mark.skipif(bool(_observe.nodes()), reason=f"no nodes: {_observe.nodes()}")
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
