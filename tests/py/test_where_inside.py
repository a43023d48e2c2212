# SPDX-License-Identifier: Apache-2.0
"""What torch runs inside a counted operator beside its work: hooks for saved tensors, tangents of
forward-mode AD, conversions by autocast, the products of a batched gradient. Counts by hand, by a mode, and
in every way of watching."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import func, nn
from torch.autograd import forward_ad
from torch.autograd.functional import hessian, jacobian
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from where_kit import Calls, by_path, exact, no_operators, not_observed, seen

import lamina
from lamina._observe import probe

if no_operators():
    pytest.skip(f"no operators: {no_operators()}", allow_module_level=True)

observed = pytest.mark.skipif(bool(not_observed()), reason=f"operators are not observed: {not_observed()}")


class Products(TorchDispatchMode):
    """Multiplies of the products and convolutions that ran."""

    def __init__(self):
        super().__init__()
        self.macs = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in ("mm", "bmm"):
            self.macs += out.numel() * args[0].shape[-1]
        elif name == "addmm":
            self.macs += out.numel() * args[1].shape[-1]
        elif name == "convolution":
            self.macs += out.numel() * args[1][0].numel()
        return out


def products(run):
    """The multiplies of what `run` does, by a mode."""
    with Products() as mode:
        run()
    return mode.macs


def captured(model, run):
    """Everything that is multiplied in a capture, which must be known."""
    with lamina.capture(model, ops=True) as watch:
        run()
    report = watch.report("exact")
    assert report.gaps == []
    return sum(int(part.macs) for part in (report, report.backward, report.recompute))


def rows():
    torch.manual_seed(1)
    return torch.rand(3, 8)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))


ONCE = 3 * 8 * 8  # MACs of one product of net() on rows()


def numbers(report):
    return [
        (str(part.macs), str(part.flops), str(part.bytes_read), str(part.bytes_written))
        for part in (report, report.backward, report.recompute)
    ]


def in_each_way(model, *args, monkeypatch, **options):
    """The numbers of a model, which a real run, a dry run and both by the dispatch mode tell alike."""
    told = {}
    for way in ("", "dispatch"):
        with monkeypatch.context() as patch:
            patch.setenv("LAMINA_CAPTURE", way)
            for dry in (False, True):
                report = exact(model, *args, backward=True, dry=dry, **options)
                assert report.gaps == []
                told[way, dry] = numbers(report)
    first = told["", False]
    assert told == dict.fromkeys(told, first)
    return first


# -- batched gradients and vmap ------------------------------------------------------------------------------


def test_a_batched_gradient_counts_each_of_its_passes():
    model, x = net(), rows().requires_grad_()
    which = torch.eye(24).view(24, 3, 8)
    with lamina.capture(model) as watch:
        torch.autograd.grad(model(x), x, which, is_grads_batched=True)
    report = watch.report("exact")
    assert (report.macs, report.backward.macs) == (2 * ONCE, 24 * 2 * ONCE)
    assert report.backward.macs.state == "exact"
    assert by_path(report, "backward_macs") == {"0": 24 * ONCE, "2": 24 * ONCE}


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_a_jacobian_in_one_pass(strategy):
    model, x = net(), rows()
    run = partial(jacobian, model, x, vectorize=True, strategy=strategy)
    assert captured(model, run) == products(run)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_a_hessian_in_one_pass(strategy):
    model, x = net(), rows()

    def loss(y):
        return model(y).pow(2).sum()

    run = partial(hessian, loss, x, vectorize=True, outer_jacobian_strategy=strategy)
    told = captured(model, run)
    assert told == products(run)
    if strategy == "reverse-mode":  # row by row, the work of each row is the same
        assert told >= captured(model, partial(hessian, loss, x)) - 24 * ONCE


def test_a_batched_gradient_through_convolutions():
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3))
    x = torch.rand(1, 2, 6, 6, requires_grad=True)
    with lamina.capture(model) as watch:
        y = model(x)
        torch.autograd.grad(y, x, torch.rand(5, *y.shape), is_grads_batched=True)
    report = watch.report("exact")
    assert report.backward.macs == 5 * report.macs  # of a convolution, the gradient of its input alone


TRANSFORMS = {
    "jvp": lambda f, x: func.jvp(f, (x,), (x,)),
    "vjp": lambda f, x: func.vjp(f, x)[1](x),
    "jacrev": lambda f, x: func.jacrev(f)(x),
    "jacfwd": lambda f, x: func.jacfwd(f)(x),
    "hessian": lambda f, x: func.hessian(lambda y: f(y).pow(2).sum())(x),
    "hvp": lambda f, x: func.jvp(func.grad(lambda y: f(y).pow(2).sum()), (x,), (x,)),
    "vmap(grad)": lambda f, x: torch.vmap(func.grad(lambda y: f(y).pow(2).sum()))(x),
    "vmap(jvp)": lambda f, x: torch.vmap(lambda row: func.jvp(f, (row,), (row,)))(x),
    "linearize": lambda f, x: func.linearize(f, x)[1](x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_count_what_a_mode_counts(name):
    model = net()
    run = partial(TRANSFORMS[name], model, rows())
    assert captured(model, run) == products(run)


def test_random_numbers_in_vmap_are_as_many_as_are_drawn():
    def draw(x):
        return torch.vmap(lambda row: row + torch.randn(3), randomness="different")(x)

    report = exact(Calls(lambda self, x: draw(x)), torch.rand(5, 3))
    assert report.bytes_written == 2 * 5 * 3 * 4  # the numbers, and the sum


# -- hooks for saved tensors ---------------------------------------------------------------------------------


def packed(forward, pack, unpack):
    """A forward under hooks for saved tensors, which get the model too."""

    def run(self, *args):
        with torch.autograd.graph.saved_tensors_hooks(partial(pack, self), partial(unpack, self)):
            return forward(self, *args)

    return run


def compressed():
    return Calls(
        packed(lambda self, x: self.fc(x), lambda self, t: t @ self.p, lambda self, t: t @ self.p.t()),
        fc=nn.Linear(16, 16, bias=False),
        p=torch.rand(16, 4),
    )


def test_what_a_hook_computes_is_work_of_its_layer(monkeypatch):
    """The layer saves its input and its weight, and needs both again for its gradients."""
    layer, pack = 32 * 16 * 16, (32 + 16) * 16 * 4
    x = torch.rand(32, 16).requires_grad_()
    told = in_each_way(compressed(), x, monkeypatch=monkeypatch)
    assert [macs for macs, *_ in told] == [str(layer + pack), str(2 * layer + pack), "0"]
    report = exact(compressed(), x, backward=True)
    assert by_path(report) == {"fc": layer + pack}
    assert by_path(report, "backward_macs") == {"fc": 2 * layer + pack}


def test_hooks_in_hooks(monkeypatch):
    twice = packed(lambda self, x: torch.tanh(self.fc(x)), lambda self, t: t * 2 * 2, lambda self, t: t / 4)
    once = packed(twice, lambda self, t: t @ self.p, lambda self, t: t @ self.p)
    model = Calls(once, fc=nn.Linear(8, 8), p=torch.rand(8, 8))
    told = in_each_way(model, rows(), monkeypatch=monkeypatch)
    assert told[0][0] == str(ONCE)  # the inner hooks replace the outer ones


def test_tensors_that_are_saved_in_half(monkeypatch):
    """A convolution saves its input and weight, and its operators inside are still its own work."""
    model = Calls(
        packed(lambda self, x: self.conv(x), lambda self, t: t.half(), lambda self, t: t.float()),
        conv=nn.Conv2d(2, 3, 3, bias=False),
    )
    x = torch.rand(1, 2, 8, 8).requires_grad_()
    told = in_each_way(model, x, monkeypatch=monkeypatch)
    saved, made = 128 + 54, 3 * 6 * 6
    macs = made * 18
    assert told[0] == (str(macs), str(2 * macs), str((saved + saved) * 4), str(made * 4 + saved * 2))


@pytest.mark.parametrize("how", ["save_on_cpu", "checkpoint", "selective"])
def test_hooks_of_torchs_that_compute_nothing(how, monkeypatch):
    kinds = pytest.importorskip("torch.utils.checkpoint")
    if how == "selective" and not hasattr(kinds, "create_selective_checkpoint_contexts"):
        pytest.skip("this torch has no such checkpoints")

    def keep(ctx, op, *args, **kwargs):
        mine = op == torch.ops.aten.addmm.default
        return kinds.CheckpointPolicy.MUST_SAVE if mine else kinds.CheckpointPolicy.PREFER_RECOMPUTE

    def forward(self, x):
        if how == "save_on_cpu":
            with torch.autograd.graph.save_on_cpu():
                return self.net(x)
        if how == "checkpoint":
            return checkpoint(self.net, x, use_reentrant=False)
        made = partial(kinds.create_selective_checkpoint_contexts, keep)
        return checkpoint(self.net, x, use_reentrant=False, context_fn=made)

    told = in_each_way(Calls(forward, net=net()), rows().requires_grad_(), monkeypatch=monkeypatch)
    again = {"save_on_cpu": 0, "checkpoint": ONCE, "selective": 0}[how]
    assert [macs for macs, *_ in told] == [str(2 * ONCE), str(4 * ONCE), str(again)]


def test_hooks_in_a_backward_that_will_have_a_backward(way):
    """Its products are of the backward, not of a forward that is repeated."""
    model, x = net(), rows().requires_grad_()
    with lamina.capture(model) as watch:
        double = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2)
        with double:
            (slope,) = torch.autograd.grad(model(x).pow(2).sum(), x, create_graph=True)
            slope.pow(2).sum().backward()
    report = watch.report("exact")
    assert (report.macs, report.backward.macs, report.recompute.macs) == (2 * ONCE, 10 * ONCE, 0)


def test_a_mark_in_a_hook_hides_nothing():
    def pack(self, t):
        with torch.profiler.record_function("packing"):
            return t @ self.p

    forward = packed(lambda self, x: self.fc(x), pack, lambda self, t: t @ self.p.t())
    model = Calls(forward, fc=nn.Linear(8, 8), p=torch.rand(8, 2))
    x = rows().requires_grad_()
    assert exact(model, x, backward=True).macs == ONCE + (3 + 8) * 8 * 2


LAST = {"relu": nn.ReLU, "tanh": nn.Tanh, "in place": lambda: nn.ReLU(inplace=True), "product": None}


@pytest.mark.parametrize("name", LAST)
def test_a_checkpoint_repeats_the_operator_in_whose_hook_it_stops(name, monkeypatch):
    """Of what saves its result the kernel has run by then; of a product, which saves its operands, it has
    not."""
    last = nn.Linear(8, 8) if LAST[name] is None else LAST[name]()
    block = nn.Sequential(nn.Linear(8, 8), last)
    model = Calls(lambda self, x: checkpoint(self.block, x, use_reentrant=False), block=block)
    told = in_each_way(model, rows().requires_grad_(), monkeypatch=monkeypatch)
    assert told[2][:2] == (str(ONCE), str(2 * ONCE + 24 * (LAST[name] is not None)))


@observed
def test_a_checkpoint_that_stops_after_a_norm_says_at_least():
    """Its result is not at hand then: what it wrote is unknown."""
    block = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    model = Calls(lambda self, x: checkpoint(self.block, x, use_reentrant=False), block=block)
    report = exact(model, rows().requires_grad_(), backward=True)
    assert (report.recompute.macs, report.recompute.macs.state) == (ONCE, "exact")
    assert report.recompute.bytes_written.state == "at least"
    assert any("aten::native_layer_norm" in gap for gap in report.gaps)


# -- tangents ------------------------------------------------------------------------------------------------


def tangent_of(function):
    """The tangent of what a function of a model returns, for a tangent of ones."""

    def run(self, x):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(self, forward_ad.make_dual(x, torch.ones_like(x))))[1]

    return run


def test_the_tangents_of_a_layer_count(monkeypatch):
    """torch multiplies the tangent of the input, and the zero tangent of the weight, which is a real
    product. The sum with the zero tangent of the bias is none: torch knows it."""
    model = Calls(tangent_of(lambda self, x: self.fc(x)), fc=nn.Linear(8, 8))
    told = in_each_way(model, rows(), monkeypatch=monkeypatch)
    assert told[0][:2] == (str(3 * ONCE), str(3 * 2 * ONCE + 24))
    assert by_path(exact(model, rows())) == {"fc": 3 * ONCE}


def test_the_tangents_of_convolutions(monkeypatch):
    model = Calls(
        tangent_of(lambda self, x: self.net(x)),
        net=nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3, bias=False)),
    )
    x = torch.rand(1, 2, 8, 8)
    told = in_each_way(model, x, monkeypatch=monkeypatch)
    assert told[0][0] == str(3 * (3 * 6 * 6 * 18 + 2 * 4 * 4 * 27)) == str(products(partial(model, x)))


def test_tangents_of_the_weights():
    model, x = net(), rows()

    def run():
        with forward_ad.dual_level():
            weights = {
                name: forward_ad.make_dual(value.detach(), torch.ones_like(value))
                for name, value in model.named_parameters()
            }
            func.functional_call(model, weights, (x,))

    assert captured(model, run) == products(run)


def test_tangents_through_operators_that_only_call_others():
    """concat, square and what writes in place: the same operators count in both ways of watching."""

    def forward(self, x):
        y = self.fc(x).sin_().mul_(2)
        return torch.concat([y, x]).square()

    model = Calls(tangent_of(forward), fc=nn.Linear(8, 8))
    report = exact(model, rows())
    # 24 values a time: their sine, and its tangent a cosine and a product; twice a product; the sum of the
    # layer's tangents. 48 values: their squares, and the tangent of a power, 2 * x**1 * t.
    assert report.flops == 3 * 2 * ONCE + 24 + 24 * 3 + 24 * 2 + 48 * 4
    assert report.macs == 3 * ONCE


def test_tangents_and_gradients_together():
    model, x = net(), rows()

    def run():
        with forward_ad.dual_level():
            y = model(forward_ad.make_dual(x.clone().requires_grad_(), torch.ones_like(x)))
            value, tangent = forward_ad.unpack_dual(y)
            (value.sum() + tangent.sum()).backward()

    assert captured(model, run) == products(run)


class Doubled(torch.autograd.Function):
    """A product with a tangent of its own, which takes two more."""

    @staticmethod
    def forward(x, w):
        return x @ w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(*inputs)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.saved_tensors[1].t(), None

    @staticmethod
    def jvp(ctx, x_tangent, _):
        _, w = ctx.saved_tensors
        return x_tangent @ w + 0 * (x_tangent @ w)

    @staticmethod
    def vmap(info, in_dims, x, w):
        return x @ w, 0


def test_a_function_s_own_tangent_and_batches(way):
    model = nn.Linear(8, 8)

    def apply(x):
        return Doubled.apply(x, model.weight)

    def dual():
        with forward_ad.dual_level():
            apply(forward_ad.make_dual(rows(), torch.ones(3, 8)))

    assert captured(model, dual) == 3 * ONCE
    assert captured(model, partial(func.jvp, apply, (rows(),), (rows(),))) == 3 * ONCE
    assert captured(model, partial(torch.vmap(apply), torch.rand(5, 3, 8))) == 5 * ONCE


@observed
def test_a_checkpoint_that_stops_in_a_tangent_says_at_least():
    """The repeated forward ends in the hook of a tangent's product: the layer's own product ran, and has no
    result that tells its size."""
    model, x = net(), rows()
    with lamina.capture(model) as watch, forward_ad.dual_level():
        dual = forward_ad.make_dual(x.clone().requires_grad_(), torch.ones_like(x))
        y = checkpoint(model, dual, use_reentrant=False)
        forward_ad.unpack_dual(y)[0].sum().backward()
    report = watch.report("exact")
    assert (report.macs, report.macs.state) == (6 * ONCE, "exact")
    again = report.recompute.macs
    assert again.state == "at least" and 3 * ONCE <= int(again) <= 6 * ONCE
    assert any("aten::addmm" in gap for gap in report.gaps)


@observed
def test_a_view_that_gets_its_tangent_late_says_at_least():
    """From the tensor that it is a view of, which was overwritten: nothing about the view itself shows it."""
    w = torch.rand(4, 4)

    def forward(self, x):
        with forward_ad.dual_level():
            whole = torch.zeros(2, 4, 4)
            view = whole[0]
            whole.copy_(forward_ad.make_dual(x, torch.ones_like(x)))
            return forward_ad.unpack_dual(torch.mm(view, w))[0]

    report = exact(Calls(forward), torch.rand(2, 4, 4))
    assert (report.macs, report.macs.state) == (4 * 4 * 4, "at least")
    (gap,) = report.gaps
    assert "aten::mm" in gap and "tangent" in gap and "not seen" in gap


# -- autocast ------------------------------------------------------------------------------------------------


def cast(function, dtype=torch.bfloat16, **options):
    def run(self, *args):
        with torch.autocast("cpu", dtype=dtype, **options):
            return function(self, *args)

    return run


A, B, C = (2, 4, 16), (2, 16, 8), (2, 4, 8)
n_a, n_b, n_c = 2 * 4 * 16, 2 * 16 * 8, 2 * 4 * 8  # not counts: elements
SPELLINGS = {
    "a @ b": (lambda self, a, b: a @ b, 0),
    "bmm": (lambda self, a, b: torch.bmm(a, b), 0),
    "einsum": (lambda self, a, b: torch.einsum("bij,bjk->bik", a, b), 0),
    "baddbmm": (lambda self, a, b: torch.baddbmm(torch.ones(C), a, b), n_c),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_autocast_reads_and_writes_the_same_however_a_product_is_spelled(name, monkeypatch):
    """Each operand is read as float32, written as bfloat16, and read again."""
    function, more = SPELLINGS[name]
    told = in_each_way(Calls(cast(function)), torch.rand(A), torch.rand(B), monkeypatch=monkeypatch)
    operands = n_a + n_b + more
    macs, _, read, written = told[0]
    made = more * 4  # torch.ones
    assert (macs, read, written) == (
        str(n_c * 16),
        str(operands * (4 + 2)),
        str(operands * 2 + n_c * 2 + made),
    )


@pytest.mark.parametrize("join", [torch.cat, torch.concat, torch.hstack])
@pytest.mark.parametrize("inference", [False, True])
def test_autocast_widens_what_it_joins(join, inference):
    """Of float32 and bfloat16 the latter is converted, once."""
    mode = torch.inference_mode if inference else torch.no_grad
    model = nn.Identity()
    x, y = torch.rand(4, 8), torch.rand(4, 8).bfloat16()
    if not_observed() and inference:
        pytest.skip("below a dispatch mode torch has no autocast in what only calls others")
    with lamina.capture(model, ops=True) as watch, mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        join([x, y])
    report = watch.report("exact")
    assert (report.bytes_read, report.bytes_written) == (32 * 2 + 64 * 4, 32 * 4 + 64 * 4)


@pytest.mark.parametrize("cached", [True, False])
def test_autocast_converts_a_weight_once_if_it_keeps_it(cached, monkeypatch):
    model = Calls(cast(lambda self, x: self.fc(self.fc(x)), cache_enabled=cached), fc=nn.Linear(8, 8))
    told = in_each_way(model, rows(), monkeypatch=monkeypatch)
    weights, x = 64 + 8, 24
    conversions = 1 if cached else 2
    wrote = conversions * weights * 2 + x * 2 + 2 * x * 2
    read = conversions * weights * 4 + x * 4 + 2 * (weights + x) * 2
    assert told[0][2:] == (str(read), str(wrote))


LAYERS = {
    "linear": lambda: (nn.Linear(8, 8), rows()),
    "convolution": lambda: (nn.Conv2d(2, 3, 3), torch.rand(1, 2, 8, 8)),
    "transposed": lambda: (nn.ConvTranspose2d(2, 3, 3), torch.rand(1, 2, 8, 8)),
    "lstm": lambda: (Calls(lambda self, x: self.rnn(x)[0], rnn=nn.LSTM(8, 8)), torch.rand(5, 2, 8)),
    "gru": lambda: (Calls(lambda self, x: self.rnn(x)[0], rnn=nn.GRU(8, 8)), torch.rand(5, 2, 8)),
    "attention": lambda: (
        Calls(lambda self, x: F.scaled_dot_product_attention(x, x, x)),
        torch.rand(1, 2, 4, 8),
    ),
    "addmm": lambda: (Calls(lambda self, x: torch.addmm(torch.ones(3), x, x.t())), torch.rand(3, 8)),
    "loss": lambda: (Calls(lambda self, x: F.mse_loss(self.fc(x), x), fc=nn.Linear(8, 8)), rows()),
    "prelu": lambda: (nn.PReLU(), rows()),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_under_autocast_in_each_way(name, monkeypatch):
    layer, x = LAYERS[name]()
    model = Calls(cast(lambda self, x: self.layer(x)), layer=layer)
    told = in_each_way(model, x, monkeypatch=monkeypatch)
    plain = exact(Calls(lambda self, x: self.layer(x), layer=layer), x, backward=True)
    assert [macs for macs, *_ in told[:2]] == [str(plain.macs), str(plain.backward.macs)]


def test_half_precision_by_autocast(monkeypatch):
    model = Calls(cast(lambda self, x: torch.mm(x, x.t()), torch.float16))
    told = in_each_way(model, torch.rand(4, 8), monkeypatch=monkeypatch)
    assert told[0][2:] == (str(2 * 32 * 4 + 2 * 32 * 2), str(2 * 32 * 2 + 16 * 2))


# -- copies --------------------------------------------------------------------------------------------------


def test_a_copy_that_autograd_saves_before_it_is_overwritten(monkeypatch):
    model = Calls(lambda self, x: self.fc(x).sin_(), fc=nn.Linear(8, 8))
    told = in_each_way(model, rows(), monkeypatch=monkeypatch)
    layer = (24 + 64 + 8) * 4, 24 * 4
    assert told[0][2:] == (str(layer[0] + 2 * 96), str(layer[1] + 2 * 96))
    with torch.no_grad():
        report = exact(model, rows())
    assert report.bytes_written in (layer[1] + 96, layer[1] + 2 * 96)


def test_a_conjugate_that_is_computed_for_an_operator(monkeypatch):
    """Its copy is read and written, and then the sum reads it."""
    x = torch.rand(4, 8, dtype=torch.cfloat)
    told = in_each_way(Calls(lambda self, x: torch.add(x.conj(), x)), x, monkeypatch=monkeypatch)
    assert told[0][2:] == (str(3 * 256), str(2 * 256))


# -- what is alone -------------------------------------------------------------------------------------------


@observed
def test_operators_inside_one_that_runs_alone_are_not_observed():
    conv, x = nn.Conv2d(2, 3, 3), torch.rand(1, 2, 8, 8)
    names = [op["name"] for op in seen(conv, partial(conv, x))]
    assert names == ["aten::conv2d", "aten::convolution"]
    with torch.no_grad():
        assert [op["name"] for op in seen(conv, partial(conv, x))] == names


@observed
def test_a_profiler_beside_changes_nothing_that_is_noted():
    """Then torch tells lamina of every operator, also of those inside one that runs alone."""
    model, x = (
        nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(16, 3)),
        torch.rand(2, 4, 4, 4),
    )

    def step():
        model.zero_grad()
        model(x).sum().backward()

    alone = [(op["name"], op["phase"]) for op in seen(model, step)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert [(op["name"], op["phase"]) for op in seen(model, step)] == alone


@observed
@pytest.mark.parametrize("what", ["autocast", "hooks", "tangent"])
def test_operators_inside_are_observed_where_others_may_run(what):
    conv, x = nn.Conv2d(2, 3, 3), torch.rand(1, 2, 8, 8)
    inside = "aten::_to_copy" if what == "autocast" else "aten::_convolution"
    around = {
        "autocast": partial(torch.autocast, "cpu", dtype=torch.bfloat16),
        "hooks": partial(torch.autograd.graph.saved_tensors_hooks, lambda t: t, lambda t: t),
        "tangent": forward_ad.dual_level,
    }[what]

    def run():
        with around():
            conv(forward_ad.make_dual(x, torch.ones_like(x)) if what == "tangent" else x)
            torch.bmm(x[0], x[0])

    assert inside in {op["name"] for op in seen(conv, run)}


# -- how it is known -----------------------------------------------------------------------------------------


@observed
def test_the_states_of_a_thread_are_found():
    layout = probe.find()
    assert layout["hooks"] >= 0 and layout["autograd"] > 0 and layout["tangent"] > 0
    sets = [layout[state] for state in probe.STATES]
    assert all(sets) and sum(sets) == sum(sets[1:], sets[0])
    for i, one in enumerate(sets):
        assert not any(one & other for other in sets[i + 1 :])


@observed
def test_a_key_that_this_torch_does_not_have_is_in_no_set(monkeypatch):
    assert probe._bit_of(torch, "NoSuchKey") == 0
    monkeypatch.setitem(probe.STATES, "turned", ("Conjugate", "NoSuchKey"))
    assert probe._find_states(torch)["turned"] == probe._bit_of(torch, "Conjugate")


@observed
def test_a_torch_without_a_needed_key_is_not_observed(monkeypatch):
    monkeypatch.setitem(probe.STATES, "below", ("NoSuchKey",))
    monkeypatch.setattr(probe, "NEEDED", {"NoSuchKey"})
    with pytest.raises(probe.NotFoundError, match="NoSuchKey"):
        probe._find_states(torch)


@observed
def test_states_that_are_read_wrong_are_noticed():
    """With another bit for autocast a conversion would be taken for the operator's own work."""
    layout = probe.find()
    try:
        for wrong in ({"autocast": 1 << 5}, {"tangent": layout["tangent"] + 16}):
            assert "misread" in (probe.fits({**layout, **wrong}) or ""), wrong
    finally:
        assert probe.fits(layout) is None


def test_the_check_of_what_is_known_multiplies_next_to_nothing():
    """Each process runs it. A convolution of images would have its library prepare kernels and threads."""

    def check():
        for _, call, *_ in probe._trials(torch, partial(torch.empty, device="cpu", dtype=torch.float32)):
            with contextlib.suppress(RuntimeError):  # one raises on purpose
                call()

    assert products(check) == 2 * 3 * 4 * 5  # of torch.addmm() and torch.mm()


def test_nothing_of_a_capture_stays_in_a_thread_s_states():
    before = torch._C._dispatch_tls_local_exclude_set()
    with contextlib.suppress(RuntimeError):
        exact(Calls(lambda self, x: torch.mm(x, x)), torch.rand(2, 3))
    assert str(torch._C._dispatch_tls_local_exclude_set()) == str(before)


@observed
@pytest.mark.parametrize("name", ["relu_", "add_", "sub_", "copy_", "zero_", "fill_"])
def test_what_needs_no_argument_for_its_gradient_saves_none(name):
    """These are hidden from the observer: a copy that autograd saved inside would be missed."""
    x, more = torch.rand(3, 4, requires_grad=True), torch.rand(3, 4, requires_grad=True)
    y = x * 1
    given = {"relu_": (), "zero_": (), "fill_": (2.0,)}.get(name, (more,))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as run:
        getattr(y, name)(*given)
    assert f"aten::{name}" in {event.name for event in run.events()}
    assert "aten::clone" not in {event.name for event in run.events()}
