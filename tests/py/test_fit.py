# SPDX-License-Identifier: Apache-2.0
"""Will it fit: predicted peaks against those that torch's own profiler counts while the model runs."""

from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import json
import math
import sys
import weakref
from typing import NamedTuple

import allocated
import corpus_nets
import nets
import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from conftest import why_no_fit
from torch import nn

import lamina
from lamina._dry import mode
from lamina._dry.running import MOST_KNOWN
from lamina._fit import of_batch
from lamina._run import once

WHY = why_no_fit()
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))


class Branches(nn.Module):
    """What a local variable holds lives to the end of the call; what is overwritten does not."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(256, 512), nn.Linear(512, 256)

    def forward(self, x):
        kept = self.a(x)
        y = F.gelu(kept)
        y = torch.tanh(y)
        y = self.b(y).relu_()
        z = y.view(2, -1, 256).transpose(0, 1)
        return z.sum(0), (kept * 2).mean()


class Attention(nn.Module):
    def __init__(self, heads=4, shared=2, width=32):
        super().__init__()
        self.heads, self.shared, self.width = heads, shared, width
        self.q = nn.Linear(128, heads * width)
        self.kv = nn.Linear(128, 2 * shared * width)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.heads, self.width).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.shared, self.width).permute(2, 0, 3, 1, 4)
        k, v = (t.repeat_interleave(self.heads // self.shared, 1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(4)
        )

    def forward(self, x):
        for part in self.parts:
            x = torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
        return x


def trunk():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, stride=2, groups=2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(24, 48, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(96, 10)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


def grows():
    return nn.Sequential(
        nn.ConvTranspose2d(32, 64, 4, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 3, 3, 2, 1, 1, groups=1),
        nn.Tanh(),
    )


class Summed(nn.Module):
    """Gradients of many parts are added up in memory that values were known of."""

    def __init__(self):
        super().__init__()
        self.part = nn.Linear(32, 32)

    def forward(self, x):
        y = self.part(x)
        return sum(torch.tanh(y[:, i] * y[:, i - 1]) for i in range(y.shape[1]))


CASES = {
    "branches": (Branches, (64, 256)),
    "trunk": (trunk, (4, 3, 64, 64)),
    "attention": (Attention, (2, 96, 128)),
    "unet": (corpus_nets.Unet, (2, 3, 64, 64)),
    "checkpointed": (Checkpointed, (64, 128)),
    "tied": (corpus_nets.TiedLM, (4, 20)),
    "recurrent": (Recurrent, (4, 20, 24)),
    "grows": (grows, (2, 32, 24, 24)),
    "steps": (lambda: nn.GRU(24, 48, num_layers=2, batch_first=True), (4, 20, 24)),
    "summed": (Summed, (4, 40, 32)),
    "deep": (lambda: corpus_nets.deep_linear(60, 64), (32, 64)),
}


def case(name):
    build, shape = CASES[name]
    torch.manual_seed(0)
    model = build()
    return model, torch.randint(0, 400, shape) if name == "tied" else torch.randn(shape)


@pytest.mark.parametrize("name", CASES)
def test_the_peaks_are_those_that_the_allocator_counts(name):
    model, x = case(name)
    fit = lamina.fit(model, x, optimizer="adam")
    base = allocated.held(model, (x,), {})
    forward = allocated.forward_peak(model, (x,), {}) + base
    step = allocated.step_peak(model, (x,), {}, torch.optim.Adam(model.parameters())) + base
    assert abs(fit.forward.bytes - forward) <= 0.02 * forward
    assert abs(fit.step.bytes - step) <= 0.02 * step
    # what lies above the model itself is what there is to predict
    assert abs(fit.forward.bytes - forward) <= max(0.05 * (forward - base), 2048)
    assert abs(fit.step.bytes - step) <= max(0.05 * (step - base), 2048)


class Segments(nn.Module):
    """Checkpoints one in another, with their layers' random numbers."""

    def __init__(self, **options):
        super().__init__()
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 32)
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.5), nn.Linear(64, 32)) for _ in range(3)
        )
        self.options = options

    def once(self, run, x):
        return torch.utils.checkpoint.checkpoint(run, x, **self.options)

    def forward(self, x):
        x = self.first(x)
        for part in self.parts:
            x = self.once(part, x)
        return self.once(lambda y: torch.tanh(self.once(self.last, y.relu())), x)


class Draws(nn.Module):
    """Draws numbers of its own, as torch.random.fork_rng and torch.get_rng_state let it."""

    def __init__(self):
        super().__init__()
        self.part = nn.Linear(32, 32)

    def forward(self, x):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            x = self.part(x) + torch.rand(32)
        state = torch.get_rng_state()
        y = F.dropout(self.part(x), 0.5)
        torch.set_rng_state(state)
        return y


@pytest.mark.parametrize(
    "make",
    [
        lambda: Segments(use_reentrant=False),
        lambda: Segments(use_reentrant=False, preserve_rng_state=False),
        lambda: Segments(use_reentrant=True),
        lambda: Segments(use_reentrant=True, preserve_rng_state=False),
        Draws,
    ],
    ids=["not reentrant", "not reentrant, no states", "reentrant", "reentrant, no states", "draws"],
)
def test_the_states_of_random_numbers_that_checkpoints_keep_take_memory(make):
    model, x = make(), torch.randn(16, 32)
    before, own = torch.get_rng_state(), torch.get_rng_state
    fit = lamina.fit(model, x, optimizer="sgd")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_rng_state is own
    base = allocated.held(model, (x,), {})
    assert fit.forward.bytes == allocated.forward_peak(model, (x,), {}) + base
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    assert fit.step.bytes == allocated.step_peak(model, (x,), {}, sgd) + base


def test_parts_and_rows_add_up():
    model, x = case("trunk")
    fit = lamina.fit(model, x)
    for peak in (fit.forward, fit.step):
        assert sum(peak.parts.values()) == peak.bytes
        assert sum(row["bytes"] for row in peak.rows) == peak.bytes
        assert peak.gap is None
    assert fit.forward.parts["parameters"] == sum(p.numel() * 4 for p in model.parameters())
    assert fit.forward.parts["buffers"] == sum(b.numel() * b.element_size() for b in model.buffers())
    assert fit.forward.parts["input"] == x.numel() * 4
    assert fit.forward.parts["gradients"] == fit.forward.parts["optimizer"] == 0


def rows_of_a_larger_table():
    net = nn.Sequential(nn.Linear(32, 64))
    net[0].weight = nn.Parameter(torch.randn(100, 32)[:48])
    net[0].bias = nn.Parameter(torch.randn(48))
    return net


def rows_of_another_layer():
    net = nn.Sequential(nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False))
    net[1].weight = nn.Parameter(net[0].weight.detach()[:16])
    return net


def one_number_for_many():
    net = nn.Sequential(nn.Linear(32, 32))
    net[0].bias = nn.Parameter(torch.randn(1).expand(32))
    return net


def parts_of_one_line():
    net, line = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)), torch.randn(2 * (32 * 32 + 32))
    for layer, at in zip(net, line.split(32 * 32 + 32), strict=True):
        layer.weight, layer.bias = nn.Parameter(at[: 32 * 32].view(32, 32)), nn.Parameter(at[32 * 32 :])
    return net


@pytest.mark.parametrize(
    "make", [rows_of_a_larger_table, rows_of_another_layer, one_number_for_many, parts_of_one_line]
)
def test_memory_of_which_parameters_are_parts_is_held_once_and_whole(make):
    net, x = make(), torch.randn(4, 32)
    fit = lamina.fit(net, x)
    assert (fit.step is None) == (make is one_number_for_many)  # torch does not update such a parameter
    stored = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in net.parameters()}
    for peak in filter(None, (fit.forward, fit.step)):
        assert peak.parts["parameters"] == sum(stored.values())
    assert fit.forward.bytes == allocated.forward_peak(net, (x,), {}) + allocated.held(net, (x,), {})


@pytest.mark.parametrize("first", [False, True])
def test_the_fast_path_of_an_encoder_keeps_no_more_than_it_does(first):
    layer = nn.TransformerEncoderLayer(64, 2, 256, batch_first=True, norm_first=first).eval()
    attention = nn.MultiheadAttention(128, 4, batch_first=True).eval()
    x, y = torch.randn(4, 32, 64), torch.randn(8, 100, 128)
    for model, args in ((layer, (x,)), (attention, (y, y, y))):
        fit = lamina.fit(model, args)
        measured = allocated.forward_peak(model, args, {}) + allocated.held(model, args[:1], {})
        assert abs(fit.forward.bytes - measured) <= 0.01 * measured


def test_a_batch_is_followed_and_not_scaled():
    model, x = case("trunk")
    fit = lamina.fit(model, x, batch=16)
    large = torch.randn(16, 3, 64, 64)
    assert fit.forward.bytes == lamina.fit(model, large).forward.bytes
    assert fit.step.bytes == lamina.fit(model, large).step.bytes
    measured = allocated.forward_peak(model, (large,), {}) + allocated.held(model, (large,), {})
    assert abs(fit.forward.bytes - measured) <= 0.02 * measured


def test_a_batch_of_what_is_looked_at():
    class Looks(nn.Module):
        def forward(self, at, x):
            return x[at] * int(at.max())

    at, x = torch.tensor([0, 2]), torch.randn(3, 4)
    assert lamina.fit(Looks(), (at, x), batch=7).forward.parts["activations"] > 7 * 4 * 4


class Pair(NamedTuple):
    x: object
    size: object


class Named:
    """Has names of fields, as what is no tuple may."""

    _fields = ("x",)


def test_a_batch_replaces_the_axis_of_every_tensor_that_has_it():
    x, other, none = torch.ones(2, 3, dtype=torch.float64), torch.ones(3, 2), torch.ones(())
    at, size, named = torch.tensor([[4, 5], [6, 7]]), torch.Size([2, 3]), Named()
    args = (Pair(x, size), [other, {"at": at, "two": 2}], (none, named), x.new_empty(0), x.half())
    (pair, (same, inner), (scalar, as_given), empty, half), kwargs = of_batch(args, {"y": at, "n": 2}, 5)
    for made, dtype in ((pair.x, torch.float64), (half, torch.float16)):
        assert (made.shape, made.dtype, made.device.type) == ((5, 3), dtype, "meta")
    repeated = [[4, 5], [6, 7], [4, 5], [6, 7], [4, 5]]
    assert (inner["at"].tolist(), inner["two"]) == (repeated, 2)
    assert (kwargs["y"].tolist(), kwargs["n"]) == (repeated, 2)
    assert (type(pair), pair.size) == (Pair, size)
    assert same is other
    assert scalar is none
    assert as_given is named
    assert empty is args[3]


def test_whole_numbers_of_a_batch_are_made_up_if_they_are_many():
    at = torch.zeros(2, MOST_KNOWN // 4, dtype=torch.uint8)
    for batch, device in ((4, "cpu"), (5, "meta")):
        (made,), _ = of_batch((at,), {}, batch)
        assert (made.shape, made.device.type) == ((batch, MOST_KNOWN // 4), device)


def test_a_type():
    model, x = case("branches")
    half, whole = lamina.fit(model, x, dtype=torch.bfloat16), lamina.fit(model, x)
    assert 2 * half.forward.parts["parameters"] == whole.forward.parts["parameters"]
    assert 2 * half.forward.parts["input"] == whole.forward.parts["input"]
    assert 2 * half.step.parts["activations"] == whole.step.parts["activations"]
    assert next(model.parameters()).dtype == torch.float32


HALVES = {
    "window": (nn.Conv2d(16, 32, 3, padding=1), (2, 16, 28, 28)),
    "point": (nn.Conv2d(32, 64, 1), (2, 32, 20, 20)),
    "groups": (nn.Conv2d(64, 32, 3, groups=4), (2, 64, 14, 14)),
    "one image in groups": (nn.Conv2d(60, 30, 5, groups=3), (1, 60, 20, 20)),
    "volume in groups": (nn.Conv3d(8, 12, 3, groups=2), (2, 8, 10, 10, 10)),
    "transposed": (nn.ConvTranspose2d(8, 40, 2, 3), (3, 8, 20, 20)),
    "transposed in groups": (nn.ConvTranspose2d(32, 32, 3, 2, 1, groups=4), (2, 32, 20, 20)),
    "transposed volume": (nn.ConvTranspose3d(8, 4, 2, 2), (2, 8, 5, 5, 5)),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", HALVES)
def test_convolutions_of_other_types(name, dtype):
    net, shape = HALVES[name]
    model, x = copy.deepcopy(net).to(dtype), torch.rand(shape).to(dtype)
    try:
        model(x)
    except RuntimeError as error:
        pytest.skip(f"this torch has no such kernel: {error}")
    fit = lamina.fit(model, x, optimizer="sgd")
    above = allocated.held(model, (x,), {})
    run = allocated.forward_peak(model, (x,), {}) + above
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    step = allocated.step_peak(model, (x,), {}, optimizer) + above
    for peak, measured in ((fit.forward, run), (fit.step, step)):
        assert (peak.gap, peak.rough) == (None, None)
        assert abs(peak.bytes - measured) <= 0.01 * measured


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("sizes", [(64, 784, 128, 10), (1024, 64, 64), (33, 33, 65, 17), (4, 8, 2)])
def test_products_in_16_bits(sizes, dtype):
    layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes[1:])]
    model, x = nn.Sequential(*layers).to(dtype), torch.rand(sizes[:2]).to(dtype)
    fit = lamina.fit(model, x, optimizer="sgd")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    above = allocated.held(model, (x,), {})
    step = allocated.step_peak(model, (x,), {}, optimizer) + above
    for peak, measured in (
        (fit.forward, allocated.forward_peak(model, (x,), {}) + above),
        (fit.step, step),
    ):
        assert (peak.gap, peak.rough) == (None, None)
        assert abs(peak.bytes - measured) <= 0.01 * measured


def test_a_report_holds_no_tensor_of_a_dict():
    """What would fit is asked for later, and told by sizes alone."""

    class Net(nn.Linear):
        def forward(self, batch, times):
            return super().forward(batch["x"]) * times

    batch, net = {"x": torch.rand(4, 3)}, Net(3, 2)
    report = lamina.inspect(net, (batch, 2), memory=True)
    ref = weakref.ref(batch.pop("x"))
    gc.collect()
    assert ref() is None
    told = report.fit(), lamina.fit(net, ({"x": torch.rand(4, 3)}, 2))
    assert told[0].forward.bytes == told[1].forward.bytes


def test_nothing_is_allocated_and_nothing_is_left():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(1 << 14, 1 << 14), nn.ReLU(), nn.Linear(1 << 14, 1 << 14))
    fit = lamina.fit(model, torch.empty(1 << 12, 1 << 14, device="meta"), optimizer="adam")
    weights = 2 * ((1 << 14) + (1 << 28)) * 4
    assert fit.step.parts["parameters"] == weights
    assert fit.step.parts["optimizer"] == 2 * weights + 4 * 4
    assert all(p.grad is None and p.is_meta for p in model.parameters())


def test_keys_and_values_that_would_be_kept():
    fit = lamina.fit(Attention(), torch.randn(2, 16, 128))
    assert (fit.cached_layers, fit.cache_bytes) == (1, 2 * 2 * 32 * 4)
    assert "a key-value cache would take 512 B a token, in 1 layer with causal attention" in str(fit)
    assert lamina.fit(*case("trunk")).cached_layers == 0


@pytest.mark.parametrize("sizes", [(10, 2, 128, 128), (16, 4, 32, 64), (20, 8, 256, 96)])
def test_a_recurrent_step_in_16_bits(sizes):
    steps, examples, features, hidden = sizes
    model = nn.LSTM(features, hidden).bfloat16()
    x = torch.randn(steps, examples, features).bfloat16()
    fit = lamina.fit(model, x, optimizer="sgd")
    if fit.step is None or "mkldnn" not in fit.step.at:
        pytest.skip("this processor runs it in another way")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    measured = allocated.step_peak(model, (x,), {}, optimizer) + allocated.held(model, (x,), {})
    assert fit.step.rough is None  # measured by oneDNN's kernel for this processor
    assert abs(fit.step.bytes - measured) <= 0.01 * measured


class Masked(nn.Module):
    """Attention through a mask of its own, which torch's function is given or which is added to scores."""

    def __init__(self, how):
        super().__init__()
        self.qkv, self.how = nn.Linear(32, 96), how

    def forward(self, x):
        q, k, v = (t.view(2, -1, 4, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        mask = torch.full((x.shape[1], x.shape[1]), -math.inf).triu(1)
        if self.how == "given":
            return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        scores = q @ k.transpose(-2, -1) / 8**0.5
        if self.how == "filled":
            scores = scores.masked_fill(mask < 0, -math.inf)
        elif self.how == "added":
            scores = scores + mask
        return nn.functional.dropout(scores.softmax(-1), 0.1, training=self.training) @ v


@pytest.mark.parametrize("how", ["given", "filled", "added", "none"])
def test_a_mask_of_the_model_s_own_may_be_causal(how):
    fit = lamina.fit(Masked(how), torch.randn(2, 16, 32))
    layers = int(how != "none")
    assert (fit.cached_layers, fit.masked_layers, fit.masked_bytes) == (0, layers, layers * 2 * 32 * 4)
    told = "take 256 B a token, in 1 layer with a mask of the model's own, if that is causal"
    assert (told in str(fit)) == bool(layers)


def test_no_parameter_gets_a_gradient():
    fit = lamina.fit(nn.ReLU(), torch.ones(4))
    assert fit.step is None
    assert fit.no_step == "no parameter gets a gradient from the output"
    assert str(fit).endswith("no training step: no parameter gets a gradient from the output")


def test_an_optimizer_keeps_nothing_for_a_layer_that_gets_no_gradient():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.never, self.first, self.second = nn.Linear(3, 5), nn.Linear(4, 6), nn.Linear(6, 4)
            self.tied = nn.Linear(4, 6)
            self.tied.weight = self.first.weight

        def forward(self, x):
            return self.tied(self.second(self.first(x).relu()))

    net = Net()
    step = lamina.fit(net, torch.ones(2, 4), optimizer="adam").step
    kept = {row["path"]: row["optimizer"] for row in step.rows if "optimizer" in row}
    assert sum(kept.values()) == step.parts["optimizer"]
    trained = [p for name, p in net.named_parameters() if not name.startswith("never")]
    assert step.parts["optimizer"] == sum(2 * p.numel() * 4 + 4 for p in trained)
    assert kept["second"] == 2 * 4 * (6 * 4 + 4) + 8
    assert "never" not in kept


def test_of_a_report():
    model, x = case("branches")
    report = lamina.inspect(model, x, ops=True)
    fit = report.fit(batch=8, optimizer="sgd")
    assert fit.step.bytes == lamina.fit(model, x, batch=8, optimizer="sgd").step.bytes
    assert report.under("exact" if report.convention != "exact" else "layers").fit().step is not None
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    assert report.fit(batch=8, optimizer="sgd").step.bytes == fit.step.bytes  # its size is known
    del model
    gc.collect()
    with pytest.raises(ValueError, match="is gone"):
        report.fit()


def test_of_a_report_of_code_of_your_own():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Branches()

        def forward(self, *, given, often=1):
            for _ in range(often):
                given = self.part(given["x"][0])[0].reshape(-1, 256)
            return given

    model = Named()
    for ops in (False, True):
        with lamina.capture(model, ops=ops) as cap:
            model(given={"x": [torch.randn(64, 256)]})
            model(given={"x": [torch.randn(2, 256)]})
        fit = cap.report().fit(optimizer="sgd")
        assert (
            fit.step.bytes
            == lamina.fit(model, (), {"given": {"x": [torch.randn(64, 256)]}}, optimizer="sgd").step.bytes
        )
    with lamina.capture(model) as cap:
        pass
    with pytest.raises(ValueError, match="does not know what its model was called with"):
        cap.report().fit()


def test_beside_what_was_measured():
    model, x = case("trunk")
    model.eval()
    fit = lamina.inspect(model, x, memory=True).fit()
    assert fit.step.measured is None
    assert abs(fit.forward.off) < 2
    assert f"the prediction is off by {fit.forward.off:+.2f} %" in str(fit)
    model.train()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        with lamina.capture(model, memory=True) as cap:
            optimizer.zero_grad()
            y = model(x)
            y.backward(torch.ones_like(y))
            optimizer.step()
    report = cap.report()
    fit = report.fit(optimizer="adam")
    assert fit.forward.measured is None
    assert fit.step.measured == report.memory.peak
    assert abs(fit.step.off) < 2
    assert report.fit(optimizer="adam", batch=16).step.measured is None
    assert report.fit(optimizer="sgd").step.measured is None  # another step than the one that was measured
    assert lamina.inspect(model, x, memory=True, backward=True).fit().step.measured is None


def test_a_run_of_another_kind_is_not_compared():
    model, x = case("trunk")
    model.train()
    fit = lamina.inspect(model, x, memory=True).fit()
    assert fit.forward.measured is None
    assert fit.apart.startswith("the run was in train mode")
    assert str(fit).endswith(f"not compared with what was measured: {fit.apart}")
    assert fit.beside(forward=1000).apart is None
    model.eval()
    with lamina.capture(model, memory=True) as cap:
        model(x)
    fit = cap.report().fit()
    assert fit.forward.measured is None
    assert fit.apart.startswith("the run kept what a backward pass needs")
    with lamina.capture(model, memory=True) as cap, torch.no_grad():
        model(x)
    first = cap.report().fit().forward
    assert abs(first.off) < 2
    model(x).sum().backward()  # its gradients lie there from now on
    with lamina.capture(model, memory=True) as cap, torch.no_grad():
        model(x)
    assert cap.report().fit().forward.off == first.off
    with lamina.capture(model, memory=True) as cap, torch.no_grad():
        model(x)
        model(x[:1])
    assert cap.report().fit().apart.startswith("the run called the model in several ways")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.zero_grad()
    with lamina.capture(model, memory=True) as cap:
        model(x)
    assert cap.report().fit().forward.off == first.off
    with lamina.capture(model, memory=True) as cap:
        model(x.clone().requires_grad_(True))
    assert cap.report().fit().apart.startswith("the run kept what a backward pass needs")
    broken = model.register_forward_hook(lambda *_: 1 / 0)
    with lamina.capture(model, memory=True) as cap, contextlib.suppress(ZeroDivisionError):
        model(x)
    broken.remove()
    assert cap.report().fit(optimizer="sgd").apart == "the run ended in an error"


def test_a_step_of_another_kind_is_not_compared():
    model, x = nn.Sequential(nn.Linear(80, 800), nn.ReLU(), nn.Linear(800, 2)), torch.rand(64, 80)
    with lamina.capture(model, memory=True) as cap:
        model(x).sum().backward()
    assert "at its peak no optimizer kept anything, as adamw does" in cap.report().fit().apart
    fit = cap.report().fit(optimizer="sgd")
    assert fit.apart is None
    assert abs(fit.step.off) < 2
    with lamina.capture(model, memory=True) as cap:
        model(x).sum().backward()  # adds to the gradients that lie there
    assert cap.report().fit(optimizer="sgd").apart.startswith("there were gradients from before")
    with lamina.capture(model, memory=True) as cap:
        model.zero_grad()
        model(x).sum().backward()
    assert abs(cap.report().fit(optimizer="sgd").step.off) < 2
    model.zero_grad()
    optimizer = torch.optim.Adam(model.parameters())
    with lamina.capture(model, memory=True) as cap:
        for _ in range(2):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    if hasattr(sys.modules["torch.optim.optimizer"], "register_optimizer_step_post_hook"):
        assert cap.report().fit(optimizer="adam").apart is None
        assert "its optimizer keeps tensors, and sgd none" in cap.report().fit(optimizer="sgd").apart
    model.eval()
    with lamina.capture(model, memory=True) as cap:
        model(x).sum().backward()
    assert cap.report().fit(optimizer="sgd").apart.startswith("the step was in eval mode")
    fit = lamina.inspect(model, x, memory=True, backward=True).fit()
    assert fit.apart.startswith("a backward pass of lamina's own is not a step of an optimizer")


def test_what_is_asked_for_must_be_possible():
    model, x = nn.Linear(4, 2), torch.rand(3, 4)
    with pytest.raises(TypeError, match=r"batch is 2\.5"):
        lamina.fit(model, x, batch=2.5)
    for batch in (1 << 62, 10**30):
        with pytest.raises(ValueError, match=f"no tensor can hold {batch} examples"):
            lamina.fit(model, x, batch=batch)
    fit = lamina.fit(model, x)
    for wrong in ("x", 1e6):
        with pytest.raises(TypeError, match="give whole bytes"):
            fit.beside(step=wrong)
    for wrong in (-3, 0, 1 << 70):
        with pytest.raises(ValueError, match="can't have been measured"):
            fit.beside(forward=wrong)


def test_a_model_that_has_no_step():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(4, 4)

        def forward(self, x):
            return self.part(x) if not self.training or x.sum() > 0 else x

    fit = lamina.fit(Odd(), torch.ones(2, 4))
    assert fit.step is None
    assert fit.forward.bytes > 0
    assert "needs a tensor's value" in fit.no_step or "needs to know" in fit.no_step
    assert str(fit).endswith(f"no training step: {fit.no_step}")
    assert fit.beside(forward=1000).no_step == fit.no_step
    normed = lamina.fit(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), torch.ones(1, 3, 3, 3))
    assert "Expected more than 1 value per channel" in normed.no_step


def test_beside_a_measurement():
    fit = lamina.fit(*case("branches")).beside(step=1000000)
    assert fit.forward.measured is None
    assert fit.step.measured == 1000000
    assert fit.step.off == pytest.approx(100 * (fit.step.bytes / 1000000 - 1), abs=1e-3)
    assert f"{fit.step.off:+.2f} %" in str(fit)
    assert json.loads(fit.to_json())["step"]["measured"] == 1000000


def test_what_a_dry_run_cannot_follow():
    with pytest.raises(lamina._base.errors.NeedsValuesError, match="needs a tensor's value"):
        lamina.fit(corpus_nets.EarlyExit(), torch.randn(2, 32))


def test_what_is_refused():
    model, x = case("branches")
    with pytest.raises(ValueError, match="'int8' is not a floating-point type"):
        lamina.fit(model, x, dtype="int8")
    with pytest.raises(ValueError, match="batch=0 is not possible"):
        lamina.fit(model, x, batch=0)
    with pytest.raises(ValueError, match="no input has a batch axis"):
        lamina.fit(nn.ReLU(), torch.ones(()), batch=2)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        lamina.fit(lambda v: v, x)


def test_an_operator_of_somebodys_own_makes_it_a_lower_bound():
    @torch.library.custom_op("fit_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    class Twice(nn.Module):
        def forward(self, x):
            return twice(x)

    peak = lamina.fit(Twice(), torch.ones(100)).forward
    assert peak.bytes.state == "at least"
    assert peak.gap == "what fit_tests::twice takes beside its results is not known"
    assert peak.bytes >= 800


def test_lifetimes_of_a_dry_run():
    class Two(nn.Module):
        def forward(self, x):
            y = x + 1
            z = y * 2
            del y
            return z.neg()

    run = once.run_once(Two(), (torch.ones(8),), mode="eval", ops=True, dry=True, follow=True)
    tensors = [entry for entry in run.model.lifetimes() if entry[3] == "tensor"]
    assert [(made, freed) for _, made, freed, _ in tensors] == [(0, 1), (1, 2), (2, 2)]
    assert {entry[0] for entry in tensors} == {32}


def test_what_a_dry_run_makes_takes_the_bytes_of_a_real_one():
    class Makes(nn.Module):
        def forward(self, x):
            made = [x.new_empty(sizes) for sizes in ((), (0,), (3, 0, 2), (5, 7))]
            made += [x.new_empty(3, dtype=dtype) for dtype in (torch.bool, torch.int16, torch.complex128)]
            made += [x.new_empty_strided((2, 3), (9, 2)), torch.zeros_like(x.t()), x[:0] + 1]
            return [*made, *torch.native_batch_norm(x, None, None, x[0], x[1], False, 0.1, 1e-5)]

    real = [y.untyped_storage().nbytes() for y in Makes()(torch.ones(2, 8))]
    run = once.run_once(Makes(), (torch.ones(2, 8),), mode="eval", ops=True, dry=True, follow=True)
    assert real == [4, 0, 0, 140, 3, 6, 48, 56, 64, 0, 64, 0, 0]
    assert [entry[0] for entry in run.model.lifetimes() if entry[3] == "tensor"] == real


def test_dry_runs_keep_no_tensors():
    """What a dry run makes is gone when nobody holds it any more."""
    model, x = case("trunk")

    def live():
        gc.collect()
        return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())

    lamina.fit(model, x)
    before = live()
    lamina.fit(model, x)
    assert live() <= before


def test_gradients_of_frozen_parameters_take_nothing():
    model = nets.block()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model[0].weight.requires_grad_(True)
    step = lamina.fit(model, torch.ones(1, 3, 8, 8), optimizer="adam").step
    assert step.parts["optimizer"] == 2 * model[0].weight.numel() * 4 + 4


@pytest.mark.parametrize("model", [nn.Identity(), nn.Sequential(), nn.Flatten()])
def test_what_computes_nothing_takes_its_input(model):
    fit = lamina.fit(model, torch.ones(3, 4, 4))
    assert (fit.forward.bytes, fit.forward.parts["input"]) == (192, 192)
    assert fit.no_step is not None


def test_zeros_without_memory():
    """Of a derivative forward torch keeps the part that is zero without memory; a dry run read it."""
    layer = nn.Linear(8, 4)

    class Forward(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = layer

        def forward(self, x):
            return torch.func.jvp(lambda y: self.fc(y).tanh(), (x,), (torch.ones_like(x),))

    assert lamina.fit(Forward(), torch.rand(5, 8)).step.bytes > layer.weight.numel() * 4


class Loop(nn.Module):
    def __init__(self, cell, times):
        super().__init__()
        self.cell, self.times = cell, times

    def forward(self, x):
        state = torch.zeros(2, 8)
        state = (state, state) if isinstance(self.cell, nn.LSTMCell) else state
        for _ in range(self.times):
            state = self.cell(x, state)
        return state[0] if isinstance(state, tuple) else state


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(8, 8), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x, state):
        return self.norm(torch.tanh(self.a(x) + self.b(state)) * torch.sigmoid(state)).clone()


@pytest.mark.parametrize("cell", [nn.RNNCell(8, 8), nn.GRUCell(8, 8), nn.LSTMCell(8, 8), Gate()])
def test_operators_that_repeat_are_answered_as_before(monkeypatch, cell):
    """Python is asked for the first of them alone, so a loop takes as long as its operators."""
    asked = []
    answer = mode._Run.answer
    monkeypatch.setattr(
        mode._Run, "answer", lambda self, f, *rest: (asked.append(f), answer(self, f, *rest))[1]
    )
    counts, peaks = [], []
    for times in (20, 200):
        asked.clear()
        model, x = Loop(cell, times), torch.rand(2, 8)
        peaks.append(lamina.fit(model, x, optimizer="sgd").step)
        counts.append(len(asked))
    assert counts[0] == counts[1]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    measured = allocated.step_peak(model, (x,), {}, optimizer) + allocated.held(model, (x,), {})
    assert abs(peaks[1].bytes - measured) <= 0.01 * measured
