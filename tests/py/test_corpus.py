# SPDX-License-Identifier: Apache-2.0
"""Real models against their true counts: what one forward and one backward execute, to the unit.

tests/data/truth.json and truth_more.json (larger models, and those of timm and transformers where they are
installed) were counted by formulas on the kernels that ran, under a dispatch mode of its own, and agree with
PyTorch's FlopCounterMode where that is made to decompose, and with closed forms.
"""

from __future__ import annotations

import json

import corpus_nets
import pytest
import torch
from conftest import DATA

import lamina
from lamina._observe import support

LARGE = 4e9  # MACs; `make bench` holds those above to their truth, since they take long
SMALL = {model["name"] for model in json.loads((DATA / "truth.json").read_text())}
TRUTH = {
    model["name"]: model
    for model in corpus_nets.everything()
    if model["name"] in SMALL or model["macs"] < LARGE
}

pytestmark = [
    pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}"),
    # What a layer runs differs between versions of torch, and so does what is true of it.
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="counted on torch 2.13"),
]


def build(truth):
    for library, builder in (("torchvision", "tv"), ("timm", "tm"), ("transformers", "hf")):
        if truth["build"].startswith(builder) or f"{builder}(" in truth["build"]:
            pytest.importorskip(library)
    torch.manual_seed(0)
    model, args, kwargs = (eval(truth[part], vars(corpus_nets)) for part in ("build", "args", "kwargs"))
    return model.eval(), args, kwargs


@pytest.mark.parametrize("name", TRUTH)
def test_forward(name):
    truth = TRUTH[name]
    model, args, kwargs = build(truth)
    report = lamina.inspect(model, args, kwargs, convention="exact")
    unpacked = report.params - report.parameters.get("packed", 0)
    assert (report.macs, report.macs.state, unpacked) == (truth["macs"], "exact", truth["params"])
    assert sum(row.macs for row in report.rows) == truth["macs"]
    assert report.notes == []


@pytest.mark.parametrize(
    "name", [name for name, truth in TRUTH.items() if truth["backward_macs"] is not None]
)
def test_backward(name):
    truth = TRUTH[name]
    model, args, kwargs = build(truth)
    report = lamina.inspect(model, args, kwargs, convention="exact", backward=True)
    backward = report.backward.macs + report.recompute.macs
    assert (report.macs, report.macs.state) == (truth["macs_with_grad"], "exact")
    assert (backward, backward.state) == (truth["backward_macs"], "exact")
    assert sum(row.backward_macs + row.recompute_macs for row in report.rows) == truth["backward_macs"]
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "mobilenet_v2", "unet_small"])
def test_each_layers_backward_is_its_forward_once_a_gradient(name):
    """A dense layer's backward is twice its forward; once where its input needs no gradient."""
    model, args, kwargs = build(TRUTH[name])
    report = lamina.inspect(model, args, kwargs, convention="exact", backward=True)
    layers = [row for row in report.rows if row.macs and row.leaf]
    first, *rest = layers
    assert first.backward_macs == first.macs
    assert len(rest) >= 5
    assert all(row.backward_macs == 2 * row.macs for row in rest)
