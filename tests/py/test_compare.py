# SPDX-License-Identifier: Apache-2.0
"""Comparisons: every convention beside the reference, causes that add up, nothing left behind."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import lamina
from lamina import _lamina
from lamina._observe import support

pytestmark = pytest.mark.skipif(
    support.way().name != "observer", reason=f"no called operators: {support.way().why}"
)


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        x = self.up(x)
        return self.attention(x, x, x, need_weights=False)[0] @ self.up.weight


x = torch.randn(2, 6, 8)


def test_every_convention_and_causes_that_add_up():
    compared = lamina.compare(Attends().eval(), x, conventions="all")
    names = [c["name"] for c in _lamina.conventions()]
    assert sorted(row.convention for row in compared.rows) == sorted(names)
    assert compared.rows[0].convention == "exact"
    exact = compared["exact"].macs
    for row in compared.rows:
        assert row.difference == row.macs - exact
        assert sum(cause.difference for cause in row.causes) == row.difference
    assert compared["deepspeed"].difference == 0
    # in_proj and out_proj by their functional calls, then the attention itself
    torchinfo = {cause.text: cause.difference for cause in compared["torchinfo"].causes}
    assert torchinfo["leaves out attention in MultiheadAttention"] == -2 * 2 * 6 * 6 * 16
    assert torchinfo["leaves out linear in MultiheadAttention"] == -2 * 6 * 16 * (48 + 16)


def test_each_number_is_that_of_its_own_report():
    model = Attends().train()
    with lamina.capture(model, ops=True) as watch:
        model(x)
    compared = watch.report("exact").compare("torch", "fvcore", "ptflops", "deepspeed", "torchinfo")
    assert compared.rows[0].convention == "exact"
    for row in compared.rows:
        report = watch.report(row.convention)
        assert (row.macs, row.macs.state, row.params) == (report.macs, report.macs.state, report.params)


def test_flops_and_the_backward_pass_have_causes_too():
    model = Attends().train()
    for metric, backward in (("flops", False), ("macs", True), ("flops", True)):
        compared = lamina.compare(model, x, flops=metric == "flops", backward=backward)
        exact = getattr(compared["exact"], metric)
        assert exact > 0 and (not backward or {row.convention for row in compared.rows} == {"exact", "torch"})
        for row in compared.rows:
            if row.difference is not None:
                assert row.difference == getattr(row, metric) - exact
                assert sum(cause.difference for cause in row.causes) == row.difference
        assert compared["torch"].difference is not None
    # Biases are added up in the backward, which FlopCounterMode does not count.
    assert "leaves out sum in Linear" in {cause.text for cause in compared["torch"].causes}
    assert lamina.compare(model, x, conventions=["fvcore"], flops=True)["fvcore"].difference is None
    assert all(parameter.grad is None for parameter in model.parameters())
    report = lamina.inspect(model, x, convention="exact", backward=True)
    told = report.compare("torch", flops=True, backward=True)
    assert (told["exact"].macs, told["exact"].flops) == (report.backward.macs, report.backward.flops)


def test_it_runs_with_gradients_and_leaves_nothing():
    model = Attends().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    mode = torch.is_grad_enabled()
    compared = lamina.compare(model, (x,), conventions=["torch"], mode="eval")
    # Without gradients the attention would be one kernel, which the tool has no formula for.
    assert [cause.text for cause in compared["torch"].causes] == [
        "leaves out attention in MultiheadAttention"
    ]
    assert torch.is_grad_enabled() == mode
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_formats():
    compared = lamina.compare(Attends().eval(), x, conventions=["torch", "torchinfo"])
    data = json.loads(compared.to_json())
    assert data["reference"] == "exact"
    assert [row["convention"] for row in data["conventions"]] == ["exact", "torch", "torchinfo"]
    assert compared.to_csv().startswith("convention,cause,calls,macs")
    assert compared.to_markdown().startswith("| tool | MACs |")
    assert str(compared).startswith("tool ") and "leaves out attention" in str(compared)
    assert '<th scope="row">torchinfo</th>' in compared._repr_html_()
    bundle = {"text/plain": str(compared), "text/html": compared._repr_html_()}
    assert compared._repr_mimebundle_(include=None, exclude=None) == bundle
    assert repr(compared) == str(compared)


def test_which_tools_by_default():
    report = lamina.inspect(Attends().eval(), x, ops=True)
    for compared in (lamina.compare(Attends().eval(), x), report.compare()):
        assert [row.convention for row in compared.rows] == ["exact", "torch", "fvcore"]
        assert "-c all shows every tool" in str(compared)
    names = {c["name"] for c in _lamina.conventions()}
    assert {row.convention for row in report.compare("all").rows} == names
    assert "shows every" not in str(report.compare("torch"))


def test_what_can_not_be(capsys):
    model = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="there is no convention 'nobody'"):
        lamina.compare(model, torch.randn(1, 3), conventions=["nobody"])
    with pytest.raises(ValueError, match="ops=True"):
        lamina.inspect(model, torch.randn(1, 3), ops=False).compare()
    with pytest.raises(TypeError):
        lamina.compare("model")
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        lamina.compare(model, torch.randn(1, 4))
    compared = lamina.compare(model, torch.randn(1, 3), conventions=["torch"])
    with pytest.raises(KeyError, match="there are exact, torch"):
        compared["fvcore"]
    compared.show(width=60)
    assert "torch" in capsys.readouterr().out
