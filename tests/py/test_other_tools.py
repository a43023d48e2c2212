# SPDX-License-Identifier: Apache-2.0
"""Nets on which the tables of other counters went wrong once, against what the tools print for them."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune

import lamina
from lamina._observe import support

called = pytest.mark.skipif(
    support.way().name != "observer", reason=f"no called operators: {support.way().why}"
)


def encoder():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
    return layer.eval()


def macs(net, x, convention):
    return lamina.inspect(net, x, convention=convention, mode="eval").macs


# -- attention layers in eval mode ---------------------------------------------------------------------------


def test_profile_runs_the_layers_of_an_encoder_layer():
    total, params, _ = lamina.profile(encoder(), torch.rand(2, 5, 16), verbose=False)
    assert (total, total.state, params) == (738, "exact", 1136)


def test_crawl_module_runs_the_layers_of_an_encoder_layer():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = lamina.crawl_module(encoder(), (5, 16))["layers"]
    assert {each["name"]: each["macs"] for each in layers}["linear2"] == 5 * 32 * 16


@pytest.mark.parametrize("frozen", [False, True])
def test_torchinfo_of_an_encoder_layer(frozen):
    net, x = encoder().requires_grad_(not frozen), torch.rand(2, 5, 16)
    assert macs(net, x, "torchinfo") == 2272
    assert lamina.compare(net, x, conventions="torchinfo")["torchinfo"].macs == 2272
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("convention", ["torchinfo", "torchscan", "thoplw"])
def test_an_encoder_layer_that_ran_as_one_kernel_is_unknown(convention):
    net = encoder()
    with torch.no_grad(), lamina.capture(net, ops=False) as cap:
        net(torch.rand(2, 5, 16))
    report = cap.report(convention)
    assert report.macs.state == "unknown"
    assert f"it ran as one kernel, and {convention} makes the layers inside run one by one" in report.gaps[0]


# -- ptflops adds up places ----------------------------------------------------------------------------------


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        shared = nn.Linear(8, 8)
        self.a = nn.Sequential(shared)
        self.b = nn.Sequential(shared, nn.ReLU())
        self.c = self.again = shared

    def forward(self, x):
        return self.b(self.a(x))


class Below(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = nn.Linear(5, 5)
        self.outer.add_module("inner", nn.Linear(5, 5))

    def forward(self, x):
        return self.outer.inner(self.outer(x))


class Attention(nn.Module):
    """As timm's, whose name ptflops has a hook for."""

    __module__, __qualname__ = "timm.models.vision_transformer", "Attention"

    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.num_heads, self.head_dim = heads, dim // heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        parts = self.qkv(x).reshape(*x.shape[:2], 3, self.num_heads, self.head_dim)
        y = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4).unbind(0))
        return self.proj(y.transpose(1, 2).reshape(x.shape))


@called
@pytest.mark.parametrize(
    ("net", "shape", "said", "note"),
    [
        (Twice, (1, 8), 448, "Each place of a module adds all of its calls."),
        (Below, (1, 5), 30, "What lies below a layer with a hook is not added up."),
        (Attention, (1, 5, 16), 980, "What lies below a layer with a hook is not added up."),
        (lambda: nn.Sequential(nn.Linear(16, 16), Attention()), (1, 5, 16), 2340, None),
    ],
)
def test_ptflops_adds_places(net, shape, said, note):
    row = lamina.compare(net().eval(), torch.rand(shape), conventions="ptflops")["ptflops"]
    assert (row.macs, row.macs.state) == (said, "exact")
    assert sum(cause.difference for cause in row.causes) == row.difference
    assert note is None or note in [cause.note for cause in row.causes]


# -- operators that a tool takes for others ------------------------------------------------------------------


@called
def test_padding_in_words():
    """fvcore has no handle for it; deepspeed halves what "same" takes and rounds down."""
    net, x = nn.Sequential(nn.Conv2d(3, 8, 4, padding="same")).eval(), torch.rand(1, 3, 16, 16)
    compared = lamina.compare(net, x, conventions=("fvcore", "deepspeed"))
    assert compared["fvcore"].macs == 0
    assert "aten::_convolution_mode, which has no handle" in compared["fvcore"].causes[0].note
    assert compared["deepspeed"].macs == 15 * 15 * 8 * 3 * 16
    assert "loses a position" in compared["deepspeed"].causes[0].note


@called
def test_ptflops_counts_one_image_of_an_upsample_and_its_function_whole():
    net, x = nn.Sequential(nn.Upsample(scale_factor=2)).eval(), torch.rand(2, 3, 16, 16)
    assert macs(net, x, "ptflops") == 7680


class Activates(nn.Module):
    def forward(self, x):
        return torch.softmax(F.gelu(torch.tanh(F.dropout(x))), -1)


@called
def test_limits_say_what_an_operator_is_taken_for():
    row = lamina.compare(Activates(), torch.rand(2, 8), conventions="deepspeed", flops=True)["deepspeed"]
    notes = {cause.text.split(" in ")[0].split()[-1]: cause.note for cause in row.causes}
    assert set(notes.values()) == {None}
    assert "The tool counts F.softmax, but not torch.softmax and x.softmax" in row.limits
    assert "F.gelu that the program looked up before" in row.limits


# -- what a traced graph has ---------------------------------------------------------------------------------


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return 2 * (x @ w)

    @staticmethod
    def backward(ctx, grad):
        return None, None


class InVain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.w = nn.Linear(8, 4), nn.Linear(8, 16), nn.Parameter(torch.rand(8, 8))

    def forward(self, x):
        self.b(x)
        return self.a(Double.apply(x, self.w))


@called
def test_fvcore_counts_what_its_graph_has():
    row = lamina.compare(InVain(), torch.rand(2, 8), conventions="fvcore")["fvcore"]
    assert (row.macs, row.macs.state) == (64, "exact")
    notes = {cause.text: (cause.difference, cause.note) for cause in row.causes}
    assert notes["leaves out Linear"] == (
        -256,
        "It reaches no output, and the tool's graph leaves that out.",
    )
    assert notes["leaves out matmul in InVain"] == (
        -128,
        "A torch.autograd.Function is one node of the tool's graph, and what it runs is not in it.",
    )


# -- what a table can't follow -------------------------------------------------------------------------------


def compared(net, tool):
    return lamina.compare(net.eval(), torch.rand(1, 8), conventions=tool)[tool]


@called
def test_ptflops_counts_parameters_that_take_gradients():
    net = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))
    net[0].requires_grad_(requires_grad=False)
    assert (compared(net, "ptflops").params, compared(net, "deepspeed").params) == (10, 46)


@called
def test_torchinfo_counts_what_a_mask_keeps():
    net = nn.Sequential(nn.Linear(8, 4))
    assert compared(net, "torchinfo").params == 36
    prune.random_unstructured(net[0], "weight", 0.5)
    assert compared(net, "torchinfo").params.state == "unknown"
