# SPDX-License-Identifier: Apache-2.0
"""A capture that is full tells what it saw, as a lower bound that says why."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from lamina import _lamina
from lamina._observe import support
from lamina._results.report import Report

ENOUGH = 1 << 30  # bytes


def net():
    return nn.Sequential(*[nn.Linear(4, 4) for _ in range(50)])


def look(most, most_ops, runs=1, *, backward=False):
    model = net()
    ops = most_ops > 0
    watch = _lamina.Capture(model, ops, dispatch=support.need() if ops else None)
    watch.most, watch.most_ops = most, most_ops
    assert (watch.most, watch.most_ops) == (most, most_ops)
    watch.start()
    for _ in range(runs):
        out = model(torch.rand(2, 4))
        if backward:
            out.sum().backward()
    watch.stop()
    return watch.model()


def test_operators_that_do_not_fit(way):
    report = Report(look(ENOUGH, 8000, backward=True), "exact")
    whole = 50 * 2 * 16
    assert report.macs.state == "at least"
    assert 0 < report.macs < whole
    assert report.backward.macs.state == "unknown"
    first, last = report.rows[1], report.rows[50]
    assert (first.macs, first.macs.state) == (32, "exact")
    assert first.backward_macs.state == "unknown"
    assert (last.macs, last.macs.state) == (0, "unknown")
    (gap,) = report.gaps
    assert gap.startswith("the capture was full after ")
    assert gap.endswith(" operators, and what ran then was not seen; capture fewer iterations")
    assert last.reason == gap
    assert gap in " ".join(str(report).split())
    assert json.loads(report.to_json())["gaps"] == [gap]
    assert len(report.rows) >= 51
    enough = Report(look(ENOUGH, ENOUGH, backward=True), "exact")
    assert (enough.macs, enough.macs.state, enough.gaps) == (whole, "exact", [])


def test_calls_that_do_not_fit():
    model = look(30000, 0, 20)
    for convention in ("layers", "torchscan"):
        report = Report(model, convention)
        assert report.macs.state == "at least"
        assert 0 < report.macs < 20 * 50 * 2 * 16
        assert all(row.macs.state == ("at least" if row.macs else "unknown") for row in report.rows)
        (gap,) = report.gaps
        assert gap.endswith(" calls, and what ran then was not seen; capture fewer iterations")
        assert report.rows[0].reason == gap


def test_most_is_a_number():
    watch = _lamina.Capture(net())
    assert watch.most < watch.most_ops == 4 << 30
    with pytest.raises(TypeError):
        watch.most = "much"
    with pytest.raises(TypeError):
        del watch.most_ops
