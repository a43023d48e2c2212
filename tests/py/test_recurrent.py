# SPDX-License-Identifier: Apache-2.0
"""Recurrences as a GPU runs them, in one operator or with fused steps, on tensors without memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lamina
from lamina._observe import support

pytestmark = [
    pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}"),
    pytest.mark.skipif(not hasattr(torch.library, "_scoped_library"), reason="torch keeps the kernels"),
]
MODES = {"RNN": 1, "LSTM": 2, "GRU": 3}


def stack_backward(x, weights, _stride, _buffer, h, c, *rest):
    """Shapes of the results, of which the last mask says whether weights get any."""
    like = torch.empty_like
    return like(x), like(h), None if c is None else like(c), [like(w) for w in weights] if rest[-1][3] else []


def step(x, h, c, *_biases):
    return torch.empty_like(c), torch.empty_like(c), torch.empty_like(x)


def step_backward(_h, _c, c, _after, gates, biased):
    return torch.empty_like(gates), torch.empty_like(c), gates.new_empty(gates.shape[-1]) if biased else None


def gru_step(x, _h, state, *_biases):
    return torch.empty_like(state), x.new_empty(len(x), 5 * state.shape[1])


def gru_step_backward(h, kept, biased):
    gates = [kept.new_empty(len(h), 3 * h.shape[1]) for _ in range(2)]
    return (*gates, torch.empty_like(h), *[g.new_empty(g.shape[1]) if biased else None for g in gates])


KERNELS = {
    "_cudnn_rnn_backward": stack_backward,
    "_thnn_fused_lstm_cell": step,
    "_thnn_fused_lstm_cell_backward_impl": step_backward,
    "_thnn_fused_gru_cell": gru_step,
    "_thnn_fused_gru_cell_backward": gru_step_backward,
}


@pytest.fixture(autouse=True)
def kernels():
    """Those that torch itself does not have without a GPU."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for name, kernel in KERNELS.items():
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
                library.impl(name, kernel, "Meta")
        yield


class Fused(nn.Module):
    """A recurrent layer as torch runs it by cuDNN. `sizes` are those of a packed sequence's batches."""

    def __init__(self, layer, sizes=()):
        super().__init__()
        self.layer, self.sizes, self.mode = layer, sizes, MODES[type(layer).__name__]

    def forward(self, x):
        of, weights = self.layer, self.layer._flat_weights
        stacked = of.num_layers * (1 + of.bidirectional)
        batch = self.sizes[0] if self.sizes else x.shape[1]
        h = x.new_empty(stacked, batch, of.proj_size or of.hidden_size)
        c = x.new_empty(stacked, batch, of.hidden_size) if self.mode == MODES["LSTM"] else None
        buffer = x.new_empty(sum(w.numel() for w in weights))
        return torch.ops.aten._cudnn_rnn(
            x, weights, len(weights) // stacked, buffer, h, c, self.mode, of.hidden_size, of.proj_size,
            of.num_layers, False, of.dropout, self.training, of.bidirectional, self.sizes, None,
        )[0]  # fmt: skip


LAYERS = {
    "lstm": lambda: nn.LSTM(32, 64, 2, bidirectional=True),
    "projected": lambda: nn.LSTM(8, 6, 3, dropout=0.5, proj_size=2),
    "half": lambda: nn.LSTM(8, 6, bias=False, dtype=torch.float16),
    "gru": lambda: nn.GRU(4, 5, 2, dropout=0.3, bidirectional=True),
    "rnn": lambda: nn.RNN(4, 5),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sizes", [(), (4, 3, 3)], ids=["padded", "packed"])
def test_a_fused_layer_counts_as_the_layer(way, name, sizes):
    layer = LAYERS[name]().to("meta")
    x = torch.rand(
        *((10,) if sizes else (7, 3)), layer.input_size, dtype=layer.weight_ih_l0.dtype, device="meta"
    )
    said = lamina.inspect(layer, x, convention="layers")
    x.requires_grad_()
    fused = lamina.inspect(Fused(layer, sizes), x, backward=True)
    assert fused.macs == said.macs and fused.flops == said.flops and not fused.unruled_ops
    assert fused.backward.macs == 2 * said.macs and fused.backward.macs.state == "exact"
    assert fused.backward.flops > 4 * said.macs and fused.backward.flops.state == "exact"
    layer.requires_grad_(False)
    fused = lamina.inspect(Fused(layer, sizes), x, backward=True)
    assert fused.macs == fused.backward.macs == said.macs  # no gradient of a weight


def test_an_lstm_costs_the_same_on_both_devices():
    layer, x = LAYERS["lstm"](), torch.rand(7, 3, 32, requires_grad=True)
    real = lamina.inspect(layer, x, backward=True)
    fused = lamina.inspect(Fused(layer.to("meta")), x.detach().to("meta").requires_grad_(), backward=True)
    assert real.macs == fused.macs == 3_096_576 and fused.flops == 6_311_424
    assert fused.backward.macs == 6_193_152 and fused.backward.flops == 12_539_168
    if real.flops == fused.flops:  # oneDNN ran it; without it steps are single operators
        assert real.backward.flops == fused.backward.flops


class FusedCell(nn.Module):
    """A cell as torch runs it on CUDA: two products, and one operator for the rest."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, h, c):
        of = self.cell
        gates = x @ of.weight_ih.t(), h @ of.weight_hh.t()
        if isinstance(of, nn.GRUCell):
            return torch.ops.aten._thnn_fused_gru_cell(*gates, h, of.bias_ih, of.bias_hh)[0]
        return torch.ops.aten._thnn_fused_lstm_cell(*gates, c, of.bias_ih, of.bias_hh)[0]


@pytest.mark.parametrize(("cell", "bias"), [(nn.LSTMCell, True), (nn.GRUCell, True), (nn.GRUCell, False)])
def test_fused_steps(way, cell, bias):
    gates, unit, back, sums = (4, 22, 23, 1) if cell is nn.LSTMCell else (3, 16, 16, 2)
    inputs = tuple(torch.rand(3, n, device="meta", requires_grad=True) for n in (4, 5, 5))
    report = lamina.inspect(FusedCell(cell(4, 5, bias=bias, device="meta")), inputs, backward=True)
    macs = 3 * gates * 5 * (4 + 5)
    assert report.macs == macs and not report.unruled_ops
    assert report.flops == 2 * macs + 15 * (unit + 2 * gates * bias) and report.flops.state == "exact"
    again = 15 if cell is nn.GRUCell else 0  # both gradients of h are added
    assert report.backward.macs == 2 * macs
    assert report.backward.flops == 4 * macs + 15 * back + 2 * 5 * gates * sums * bias + again
