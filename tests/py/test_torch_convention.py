# SPDX-License-Identifier: Apache-2.0
"""Convention ``torch`` against torch.utils.flop_counter.FlopCounterMode itself, to the last unit."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from conftest import DATA
from corpus_nets import build
from torch import nn

import lamina
from lamina._observe import support

pytestmark = [
    pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the table is that of torch 2.13"),
]

NETS = {model["name"]: model for model in json.loads((DATA / "truth.json").read_text())}


def tensors(out):
    """The floating-point tensors in what a forward returned, at any depth."""
    if isinstance(out, torch.Tensor):
        return [out] if out.requires_grad else []
    if isinstance(out, dict):
        out = list(out.values())
    return [t for part in out for t in tensors(part)] if isinstance(out, (list, tuple)) else []


def step(model, args, kwargs, *, backward):
    torch.manual_seed(1)
    out = tensors(model(*args, **kwargs))
    if backward and out:
        sum(t.sum() for t in out).backward()
    model.zero_grad(set_to_none=True)


def by_the_tool(work):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def by_us(model, work):
    with lamina.capture(model, ops=True) as watch:
        work()
    report = watch.report("torch")
    passes = (report.backward.flops, report.recompute.flops)  # unknown if there was none
    return report, sum((flops for flops in passes if flops.state != "unknown"), report.flops)


@pytest.mark.parametrize("name", NETS)
def test_a_forward_and_a_backward(name):
    model, args, kwargs = build(NETS[name])
    backward = NETS[name]["backward_macs"] is not None

    def work():
        step(model, args, kwargs, backward=backward)

    tool = by_the_tool(work)
    report, ours = by_us(model, work)
    assert (ours, ours.state) == (tool, "exact")
    assert 2 * (report.macs + report.backward.macs + report.recompute.macs) == tool


@pytest.mark.parametrize("name", [n for n in NETS if NETS[n]["backward_macs"] is not None][::3])
def test_a_forward_without_gradients(name):
    """Attention then takes its fast path, one kernel without a formula."""
    model, args, kwargs = build(NETS[name])

    @torch.no_grad()
    def work():
        step(model, args, kwargs, backward=False)

    tool = by_the_tool(work)
    report, _ = by_us(model, work)
    assert (report.flops, report.flops.state) == (tool, "exact")


class Calls(nn.Module):
    """A module whose forward is a function of its input."""

    def __init__(self, forward):
        super().__init__()
        self.does = forward
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x):
        return self.does(x, self.weight)


def frozen(layer):
    layer.weight.requires_grad_(False)
    return layer


x = torch.randn(2, 6, 8, 8, requires_grad=True)
rows = torch.randn(5, 6, requires_grad=True)
CASES = {
    "grouped": (lambda: nn.Conv2d(6, 12, 3, groups=3), x),
    "depthwise, strided": (lambda: nn.Conv2d(6, 6, 3, groups=6, stride=2, dilation=2), x),
    "transposed": (lambda: nn.ConvTranspose2d(6, 4, 3, stride=2), x),
    "transposed, grouped": (lambda: nn.ConvTranspose2d(6, 9, 3, groups=3, output_padding=1, stride=2), x),
    "one image": (lambda: nn.Conv2d(6, 3, 3), x[0].detach().requires_grad_()),
    "no gradient of the input": (lambda: nn.Conv2d(6, 6, 3, groups=2), x.detach()),
    "no gradient of the weight": (lambda: frozen(nn.Conv2d(6, 6, 3, groups=2)), x),
    "conv1d": (lambda: nn.Conv1d(6, 6, 3, groups=2), x[:, :, 0].detach().requires_grad_()),
    "conv3d": (lambda: nn.Conv3d(2, 4, 3, groups=2), torch.randn(1, 2, 4, 4, 4, requires_grad=True)),
    "same": (lambda: nn.Conv2d(6, 6, 4, padding="same"), x),
    "bilinear": (lambda: Calls(lambda t, w: F.bilinear(t, t, w.expand(2, 6, 6))), rows),
    "lstm": (lambda: nn.LSTM(6, 4, 2), rows[None]),
    "gru": (lambda: nn.GRU(6, 4, bidirectional=True), rows[None]),
    "attention": (lambda: nn.TransformerEncoderLayer(6, 2, 12, batch_first=True), rows[None]),
    "attention with weights": (lambda: Calls(lambda t, w: nn.MultiheadAttention(6, 2)(t, t, t)[0]), rows),
    "matmul": (lambda: Calls(lambda t, w: (t @ w) @ w.T @ w[0]), rows),
    "in place and out": (
        lambda: Calls(lambda t, w: torch.mm(t.detach(), w.detach(), out=torch.empty(5, 6)).addmm_(t, w)),
        rows,
    ),
    "baddbmm": (lambda: Calls(lambda t, w: torch.baddbmm(t[None], t[None], w[None], beta=2)), rows),
    "addbmm": (lambda: Calls(lambda t, w: torch.addbmm(t, t[None], w[None])), rows),
    "distances": (lambda: Calls(lambda t, w: torch.cdist(t.repeat(9, 1), w.repeat(9, 1))), rows),
    "einsum": (lambda: Calls(lambda t, w: torch.einsum("ab,bc,cd->ad", t, w, w)), rows),
    "vmap": (lambda: Calls(lambda t, w: torch.func.vmap(lambda r: r @ w)(t)), rows),
    "pinv": (lambda: Calls(lambda t, w: torch.linalg.pinv(w) @ torch.linalg.multi_dot([w, w])), rows),
    "grid": (
        lambda: Calls(lambda t, w: F.grid_sample(t, F.affine_grid(w[:4, :3].reshape(2, 2, 3), t.shape))),
        x,
    ),
    "nothing": (lambda: nn.ReLU(), rows),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["gradients", "no_grad", "inference_mode"])
@pytest.mark.parametrize("name", CASES)
def test_one_layer(name, mode):
    make, given = CASES[name]
    model = make().eval()
    if mode == "inference_mode":
        given = given.detach().clone()

    def work():
        with {"gradients": torch.enable_grad, "no_grad": torch.no_grad}.get(mode, torch.inference_mode)():
            step(model, (given,), {}, backward=mode == "gradients")

    tool = by_the_tool(work)
    _, ours = by_us(model, work)
    assert (ours, ours.state) == (tool, "exact")


def test_an_operator_of_ones_own_hides_what_it_does():
    with torch.library._scoped_library("lamina_torch_convention", "DEF") as library:
        library.define("twice(Tensor x, Tensor w) -> Tensor")
        library.impl("twice", lambda t, w: t.mm(w).mm(w), "CPU")
        model = Calls(lambda t, w: torch.ops.lamina_torch_convention.twice(t.detach(), w.detach()).mm(w))

        def work():
            model(rows)

        tool = by_the_tool(work)
        _, ours = by_us(model, work)
        assert (ours, ours.state) == (tool, "exact") == (2 * 5 * 6 * 6, "exact")


# -- what it says of what the tool overlooks -----------------------------------------------------------------


def test_what_the_tool_has_no_formula_for_is_named():
    model = Calls(lambda t, w: F.scaled_dot_product_attention(t, t, t))
    report = lamina.inspect(model, (torch.randn(1, 1, 4, 8),), convention="torch")
    kernel = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert report.unruled_ops == {kernel: 1}
    assert report.gaps == [f"no rule for the operator {kernel}, which the tool takes for 0 (1 run)"]
    assert f"has no rule: {kernel} (1); torch takes what it has no rule for as 0" in " ".join(
        str(report).split()
    )
    exact = report.under("exact")
    assert report.macs < exact.macs
    assert exact.macs - report.macs == 2 * 4 * 4 * 8


def test_it_has_no_opinion_on_memory():
    report = lamina.inspect(nn.Linear(3, 2), (torch.randn(1, 3),), convention="torch")
    assert report.dmas.state == "unknown"
    assert "DMAs" not in str(report)
    assert (report.macs, report.flops) == (6, 12)
