# SPDX-License-Identifier: Apache-2.0
"""A dry run raises where the kernels of a real run raise: types that they do not accept, and shapes."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import lamina


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def outcome(model, args, **options):
    """What a real run raises, and a dry run; None: nothing."""
    told = []
    for dry in (False, True):
        try:
            lamina.inspect(model, args, dry=dry, **options)
            told.append(None)
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
    return told


MISTAKES = {
    "float ids": (nn.Embedding(1000, 8), lambda: torch.rand(2, 300)),
    "float ids, few": (nn.Embedding(10, 2), lambda: torch.rand(2, 3)),
    "float64 into a Linear": (nn.Linear(64, 64), lambda: torch.rand(8, 64).double()),
    "int64 into a Linear": (nn.Linear(64, 64), lambda: torch.ones(8, 64).long()),
    "float64 into a small Linear": (nn.Linear(5, 5), lambda: torch.rand(2, 5).double()),
    "float64 into a Conv2d": (nn.Conv2d(3, 8, 3), lambda: torch.rand(1, 3, 32, 32).double()),
    "bytes into a Conv2d": (nn.Conv2d(3, 8, 3), lambda: torch.ones(1, 3, 32, 32).byte()),
    "float64 into a BatchNorm2d": (nn.BatchNorm2d(3), lambda: torch.rand(2, 3, 32, 32).double()),
    "float64 into a LayerNorm": (nn.LayerNorm(64), lambda: torch.rand(2, 32, 64).double()),
    "int64 into a LayerNorm": (nn.LayerNorm(64), lambda: torch.ones(2, 32, 64).long()),
    "float64 into a GroupNorm": (nn.GroupNorm(2, 64), lambda: torch.rand(2, 64, 32).double()),
    "float64 into an LSTM": (nn.LSTM(32, 32), lambda: torch.rand(20, 4, 32).double()),
    "int64 into GELU": (nn.GELU(), lambda: torch.ones(20, 40).long()),
    "int64 into Softmax": (nn.Softmax(-1), lambda: torch.ones(20, 40).long()),
    "bool into AvgPool2d": (nn.AvgPool2d(2), lambda: torch.ones(1, 3, 40, 40).bool()),
    "int64 into Upsample": (nn.Upsample(scale_factor=2), lambda: torch.ones(1, 3, 40, 40).long()),
    "a mean of int64": (Calls(torch.mean), lambda: torch.ones(20, 40).long()),
    "bits of floats": (Calls(lambda x: x & 1), lambda: torch.rand(20, 40)),
    "a difference of bool": (Calls(lambda x: x - x), lambda: torch.rand(20, 40) > 0),
    "floats written into int64": (Calls(lambda x: x.add_(0.5)), lambda: torch.ones(20, 40).long()),
    "a float target": (Calls(lambda x: F.cross_entropy(x, x[:, 0])), lambda: torch.rand(20, 40)),
    "an int32 target": (Calls(lambda x: F.cross_entropy(x, x[:, 0].int())), lambda: torch.rand(20, 40)),
    "a float index": (Calls(lambda x: x.gather(1, x)), lambda: torch.rand(20, 40)),
    "a mask of int64": (Calls(lambda x: x.masked_fill(x.long(), 0)), lambda: torch.rand(20, 40)),
    "a condition of int64": (Calls(lambda x: torch.where(x.long(), x, x)), lambda: torch.rand(20, 40)),
    "a product with float64": (Calls(lambda x: x @ x.T.double()), lambda: torch.rand(20, 40)),
    "index_add of float64": (
        Calls(lambda x: x.index_add(0, torch.zeros(20).long(), x.double())),
        lambda: torch.rand(20, 40),
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_types_that_no_kernel_takes_are_refused(what):
    model, make = MISTAKES[what]
    real, dry = outcome(model, (make(),))
    assert real is not None
    assert dry == real


@pytest.mark.parametrize("backward", [False, True])
def test_a_mistake_in_the_middle_raises_what_a_real_run_raises(backward):
    class Halfway(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 4)

        def forward(self, x):
            return self.second(self.first(x).double())

    real, dry = outcome(Halfway(), (torch.rand(8, 64),), backward=backward)
    assert real == dry and "Double and Float" in real


def test_shapes_that_only_the_kernel_checks_are_refused_for_small_tensors():
    model = Calls(lambda x: torch.ops.aten.as_strided_scatter(x, x, [9, 9], [9, 1]))
    real, dry = outcome(model, (torch.rand(2, 3),))
    assert real is not None and dry is not None


def test_a_model_that_catches_the_exception_goes_on_as_in_a_real_run():
    def forward(x):
        try:
            return x @ x.T.double()
        except RuntimeError:
            return x @ x.T

    report = lamina.inspect(Calls(forward), torch.rand(20, 40), dry=True)
    assert report.macs == lamina.inspect(Calls(forward), torch.rand(20, 40)).macs == 20 * 20 * 40


def test_types_that_the_cpu_lacks_are_not_refused_for_a_model_elsewhere():
    """Kernels of another device may take them."""
    model = nn.GELU()
    assert outcome(model, (torch.ones(20, 40).long(),))[1] is not None
    with torch.device("meta"):
        model = nn.Sequential(nn.Embedding(50, 40), Calls(lambda x: F.gelu(x.long())))
    lamina.inspect(model, torch.zeros(20, 40).long(), dry=True)
    with pytest.raises(RuntimeError, match="indices"):
        lamina.inspect(model, torch.rand(20, 40), dry=True)


def test_asking_a_kernel_changes_no_generator_and_warns_of_nothing(recwarn):
    own = torch.Generator().manual_seed(4)
    draw = Calls(lambda x: x.std(0).bernoulli_(0.5, generator=own))
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(), draw)
    before, mine = torch.get_rng_state(), own.get_state()
    lamina.inspect(model, torch.rand(8, 64, generator=torch.Generator()), dry=True, mode="train")
    assert torch.equal(torch.get_rng_state(), before) and torch.equal(own.get_state(), mine)
    assert not [w for w in recwarn if "degrees of freedom" in str(w.message)]


def test_a_draw_that_the_kernel_refuses():
    real, dry = outcome(Calls(lambda x: x.multinomial(9)), (torch.ones(2, 3),))
    assert real == dry and "n_sample" in real


def test_a_view_of_elements_beside_those_that_were_given():
    whole, model = torch.rand(40), Calls(lambda x: x.as_strided((2, 2), (1, 2), 10).exp())
    assert outcome(model, (whole[5:9],)) == [None, None]
    real, dry = outcome(model, (torch.rand(4),))
    assert real is not None and dry is not None


DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8)
DTYPES += (torch.bool, torch.complex64)
# An operator of each kind that models run, with the shapes of its tensors.
OPERATORS = {
    "addmm": (torch.addmm, (6,), (50, 6), (6, 6)),
    "baddbmm": (torch.baddbmm, (2, 9, 9), (2, 9, 20), (2, 20, 9)),
    "bmm": (torch.bmm, (2, 9, 20), (2, 20, 9)),
    "mm": (torch.mm, (20, 20), (20, 20)),
    "mv": (torch.mv, (20, 20), (20,)),
    "linear": (F.linear, (20, 30), (10, 30), (10,)),
    "conv1d": (F.conv1d, (1, 4, 99), (6, 4, 3), (6,)),
    "conv2d": (F.conv2d, (1, 4, 12, 12), (6, 4, 3, 3), (6,)),
    "conv_transpose2d": (F.conv_transpose2d, (1, 4, 12, 12), (4, 6, 3, 3)),
    "embedding": (F.embedding, (30, 9), (50, 9)),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (30,), w, b), (20, 30), (30,), (30,)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), (4, 30, 5), (30,), (30,)),
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v), (9, 30, 5), (30,), (30,)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (30,), w), (20, 30), (30,)),
    "attention": (F.scaled_dot_product_attention, (1, 2, 30, 8), (1, 2, 30, 8), (1, 2, 30, 8)),
    "softmax": (lambda x: x.softmax(-1), (20, 30)),
    "log_softmax": (lambda x: x.log_softmax(-1), (20, 30)),
    "gelu": (F.gelu, (20, 30)),
    "silu": (F.silu, (20, 30)),
    "relu": (F.relu, (20, 30)),
    "hardtanh": (F.hardtanh, (20, 30)),
    "leaky_relu": (F.leaky_relu, (20, 30)),
    "sigmoid": (torch.sigmoid, (20, 30)),
    "glu": (F.glu, (20, 30)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (2, 3, 12, 12)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), (2, 3, 12, 12)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), (2, 3, 12, 12)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 3, 12, 12)),
    "mean": (torch.mean, (20, 30)),
    "var": (torch.var, (20, 30)),
    "amax": (torch.amax, (20, 30)),
    "topk": (lambda x: torch.topk(x, 3), (20, 30)),
    "sort": (torch.sort, (20, 30)),
    "cumsum": (lambda x: x.cumsum(0), (20, 30)),
    "add": (torch.add, (20, 30), (20, 30)),
    "sub": (torch.sub, (20, 30), (20, 30)),
    "div": (torch.div, (20, 30), (20, 30)),
    "pow": (torch.pow, (20, 30), (20, 30)),
    "maximum": (torch.maximum, (20, 30), (20, 30)),
    "add_": (lambda x, y: x.clone().add_(y), (20, 30), (20, 30)),
    "copy_": (lambda x, y: x.clone().copy_(y), (20, 30), (20, 30)),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.5), (20, 30), (20, 30)),
    "where": (torch.where, (20, 30), (20, 30), (20, 30)),
    "masked_fill": (lambda x, m: x.masked_fill(m, 0), (20, 30), (20, 30)),
    "gather": (lambda x, i: x.gather(1, i), (20, 30), (20, 30)),
    "scatter": (lambda x, i, y: x.scatter(1, i, y), (20, 30), (20, 30), (20, 30)),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), (20, 30), (20,), (20, 30)),
    "index_select": (lambda x, i: x.index_select(0, i), (20, 30), (20,)),
    "cat": (lambda x, y: torch.cat([x, y]), (20, 30), (20, 30)),
    "stack": (lambda x, y: torch.stack([x, y]), (20, 30), (20, 30)),
    "bitwise_and": (torch.bitwise_and, (20, 30), (20, 30)),
    "logical_and": (torch.logical_and, (20, 30), (20, 30)),
    "nll_loss": (F.nll_loss, (20, 30), (20,)),
    "cross_entropy": (F.cross_entropy, (20, 30), (20,)),
    "mse_loss": (F.mse_loss, (20, 30), (20, 30)),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, (20, 30), (20, 30)),
    "fft": (torch.fft.fft, (20, 32)),
    "einsum": (lambda x, y: torch.einsum("ij,jk->ik", x, y), (20, 30), (30, 20)),
    "cdist": (torch.cdist, (20, 30), (20, 30)),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), (2, 3, 12, 12)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_random_types_are_refused_where_the_kernel_refuses_them(name):
    function, *shapes = OPERATORS[name]
    rng, model = random.Random(name), Calls(function)
    usual = (torch.float32,) * len(shapes)
    for trial in range(24):
        dtypes = [rng.choice(DTYPES) for _ in shapes]
        if trial % 2:  # one tensor of an unexpected type, the most frequent mistake
            dtypes = [*usual]
            dtypes[rng.randrange(len(dtypes))] = rng.choice(DTYPES)
        args = tuple(torch.ones(s).to(d) for s, d in zip(shapes, dtypes, strict=True))
        real, dry = outcome(model, args)
        assert (real is None) == (dry is None), (dtypes, real, dry)
