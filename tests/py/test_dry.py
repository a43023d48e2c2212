# SPDX-License-Identifier: Apache-2.0
"""A dry run says what a real one says, computes nothing, and leaves nothing behind."""

from __future__ import annotations

import copy
import json
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import nets
import pytest
import torch
import torch.nn.functional as F
from conftest import DATA, LIMIT
from corpus_nets import build
from ext_kit import module_call
from test_nothing_left import fingerprint, generators
from torch import nn

import lamina
from lamina import _lamina
from lamina._base.errors import NeedsValuesError, UnsupportedError
from lamina._dry.running import since
from lamina._observe import support

TRUTH = {model["name"]: model for model in json.loads((DATA / "truth.json").read_text())}


def offered() -> bool:
    try:
        lamina.inspect(nn.Identity(), torch.rand(1), dry=True)
    except UnsupportedError:
        return False
    return True


pytestmark = pytest.mark.skipif(not offered(), reason="this torch has no tensors without memory")
watched = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")
# Under torch's dispatch mode a real run goes another way itself, and composites are not told.
observed = pytest.mark.skipif(support.way().name != "observer", reason=f"not observed: {support.way().why}")


def numbers(report):
    """Every row's numbers and states, and the report's."""
    rows = [
        (
            row.path,
            row.type,
            *[(int(n), n.state) for n in (row.params, row.macs, row.flops, row.dmas)],
            *[(int(n), n.state) for n in (row.backward_macs, row.backward_flops, row.backward_dmas)],
            *[(int(n), n.state) for n in (row.recompute_macs, row.recompute_flops, row.recompute_dmas)],
        )
        for row in report.rows
    ]
    return rows, int(report.macs), int(report.flops), int(report.dmas), report.params


def same(net, args, kwargs=None, **more):
    real = lamina.inspect(net, args, kwargs, **more)
    dry = lamina.inspect(net, args, kwargs, dry=True, **more)
    assert numbers(dry) == numbers(real)
    return dry


# -- the corpus ----------------------------------------------------------------------------------------------

# Models that no dry run can follow, and what it says of them.
ALAS = {
    "script_module": "a dry run can't run the model (RecursiveScriptModule), which is scripted or traced, ",
    "data_dependent": "a dry run can't follow the model itself (EarlyExit): it needs a tensor's value as a ",
    "quantized_dynamic": "a dry run can't follow 0 (Linear): it runs quantized::linear_dynamic, of which ",
}
# A real run of a model without values does what the meta device does, which is not what the CPU does.
ELSEWHERE = {"resnet50_meta"}
CORPUS = [name for name in TRUTH if name not in ELSEWHERE]


@pytest.mark.parametrize(
    ("name", "convention"),
    [
        *[pytest.param(name, "exact", marks=watched) for name in CORPUS],
        *[(name, "layers") for name in CORPUS[::4]],
    ],
)
def test_corpus(name, convention):
    if name in ("quantized_dynamic",) and not hasattr(torch.ao, "quantization"):
        pytest.skip("this torch quantises otherwise")
    if name == "dataparallel" and torch.cuda.is_available():
        pytest.skip("where there is a GPU, DataParallel takes no model of the CPU")
    model, args, kwargs = build(TRUTH[name])
    if name not in ALAS:
        same(model, args, kwargs, convention=convention)
        return
    with pytest.raises(UnsupportedError) as caught:
        lamina.inspect(model, args, kwargs, convention=convention, dry=True)
    assert str(caught.value).startswith(ALAS[name])
    assert str(caught.value).endswith("leave dry=True out to run the model")


@pytest.mark.skipif(not hasattr(torch, "quantize_per_tensor"), reason="this torch quantises otherwise")
def test_a_quantised_tensor_is_refused():
    net = nn.Sequential(nn.Linear(8, 8))
    net.register_buffer("table", torch.quantize_per_tensor(torch.randn(8, 8), 0.1, 0, torch.qint8))
    net.forward = lambda x: x @ net.table.dequantize()
    with pytest.raises(NeedsValuesError, match=r"works on a Tensor with torch\.strided and torch\.qint8"):
        lamina.inspect(net, torch.randn(2, 8), dry=True)


@watched
@pytest.mark.parametrize(
    "name",
    ["resnet18", "densenet121", "nn_encoder_fastpath", "checkpointed", "unet_small", "lstm_classifier"],
)
def test_backward(name):
    model, args, kwargs = build(TRUTH[name])
    same(model, args, kwargs, convention="exact", backward=True)


@watched
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", [nn.BatchNorm2d, nn.InstanceNorm2d])
def test_a_gradient_of_the_input_that_is_not_requested_does_not_count(kind, training):
    net = kind(3, affine=True).train(training)
    same(net, torch.rand(2, 3, 4, 4), convention="exact", backward=True)


@watched
@pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="gradients have their tensors' type")
def test_gradients_of_another_type():
    net = nn.Linear(4, 4).bfloat16()
    net.weight.grad_dtype = torch.float32
    real, dry = (
        lamina.inspect(net, torch.rand(2, 4).bfloat16(), backward=True, dry=dry).backward
        for dry in (False, True)
    )
    assert (real.bytes_written, real.bytes_read) == (dry.bytes_written, dry.bytes_read)
    assert net.weight.grad_dtype is torch.float32


class ByTensor(nn.Module):
    """Looks up what belongs to a parameter by the parameter itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.masks = {"first": 1, self.layer.weight: torch.ones(4, 4), (self.layer.bias, 2): torch.ones(4)}

    def forward(self, x):
        masked = self.layer.weight * self.masks[self.layer.weight]
        return x @ masked + self.masks[self.layer.bias, 2]


@watched
def test_tensors_as_keys():
    net = ByTensor()
    before = [*net.masks.items()]
    same(net, torch.rand(2, 4), backward=True)
    assert lamina.fit(net, torch.rand(2, 4)).step is not None
    after = [*net.masks.items()]
    assert all(a is b for a, b in zip(sum(after, ()), sum(before, ()), strict=True))


# Layers whose kernel runs other operators, some of them after an operator that autocast itself calls.
UNDER_AUTOCAST = {
    "bilinear": lambda: (nn.Bilinear(4, 4, 3), [torch.rand(2, 4)] * 2),
    "encoder": lambda: (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), [torch.rand(2, 3, 4)]),
    "encoder of halves": lambda: (
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
        [torch.rand(2, 3, 4).bfloat16()],
    ),
    "attention": lambda: (nn.MultiheadAttention(4, 2), [torch.rand(3, 2, 4)] * 3),
    "lstm": lambda: (nn.LSTM(4, 4), [torch.rand(3, 2, 4)]),
}


@observed
@pytest.mark.parametrize("name", UNDER_AUTOCAST)
@pytest.mark.parametrize("around", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_autocast_converts_inside_operators_too(name, around):
    net, args = UNDER_AUTOCAST[name]()
    counts = []
    for dry in (False, True):
        with around(), torch.autocast("cpu", torch.bfloat16):
            report = lamina.inspect(net, tuple(args), dry=dry)
        moved = [(int(n), n.state) for n in (report.bytes_read, report.bytes_written)]
        counts.append((*numbers(report), moved))
    assert counts[0] == counts[1]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_a_search_for_nan_in_gradients_reads_no_values():
    net, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.rand(2, 4)
    plain = lamina.fit(net, x).step.bytes
    with torch.autograd.set_detect_anomaly(True):
        same(net, x, backward=True)
        assert lamina.fit(net, x).step.bytes == plain
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled()


@watched
def test_hooks_of_leaves_run_with_their_gradients():
    net, x, last = nn.Linear(4, 4), torch.rand(2, 4, requires_grad=True), nn.Linear(4, 4)
    plain = lamina.inspect(nn.Sequential(net, last), x, backward=True).backward
    net.weight.register_hook(lambda gradient: gradient @ gradient)
    x.register_hook(lambda gradient: gradient * 2)
    once = last.bias.register_hook(lambda gradient: (once.remove(), gradient * 3)[1])
    dry = same(nn.Sequential(net, last), x, backward=True)
    assert dry.backward.macs - plain.macs == 4 * 4 * 4
    assert dry.backward.flops - plain.flops == 2 * 4 * 4 * 4 + 2 * 4 + 4
    assert [len(t._backward_hooks) for t in (net.weight, x, last.bias)] == [1, 1, 1]


@watched
@pytest.mark.parametrize("weights", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("layer", [nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.BatchNorm1d(4)])
def test_statistics_have_the_type_of_a_real_run(layer, weights):
    net, x = copy.deepcopy(layer).to(weights), torch.rand(2, 4, 4, dtype=torch.bfloat16)
    dry = same(net, x, convention="exact", backward=True)
    real = lamina.inspect(net, x, backward=True)
    assert (dry.bytes, dry.backward.bytes) == (real.bytes, real.backward.bytes)


@watched
@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm2d(5), nn.LogSigmoid(), nn.ReflectionPad2d(1), nn.ReplicationPad2d(1)],
    ids=lambda layer: type(layer).__name__,
)
@pytest.mark.parametrize("channels_last", [True, False])
def test_a_gradient_is_laid_out_as_in_a_real_run(layer, channels_last):
    x = torch.rand(3, 4, 2, 5).movedim(3, 1) if channels_last else torch.rand(5, 3, 4, 2).transpose(0, 1)
    same(layer, x.requires_grad_(), convention="exact", backward=True)


@watched
@pytest.mark.parametrize("transposed", [False, True])
def test_the_gradient_that_a_normalisation_passes_on_lies_as_in_a_real_run(transposed):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 4, 3, padding=1)

        def forward(self, x):
            x = self.first(x)
            x = self.norm(x.mT.contiguous().mT if transposed else x)
            return self.last(x.mT).mT

    same(Net(), torch.rand(2, 4, 4), backward=True)


def laid_out(x, layout):
    if layout == "by channels":
        return x.contiguous(memory_format=torch.channels_last)
    at = {"transposed": (-1, -2), "by batch": (0, 1)}.get(layout)
    return x if at is None else x.transpose(*at).contiguous().transpose(*at)


KERNEL = torch.rand(4, 4, 3, 3)  # a real one, as a program may keep it elsewhere than in its modules
GRADIENTS_BY = {
    "Conv2d": lambda x: F.conv2d(x, KERNEL),
    "ConvTranspose2d": lambda x: F.conv_transpose2d(x, KERNEL),
    "ELU": F.elu,
    "GLU": lambda x: F.glu(x, 1),
    "Hardsigmoid": F.hardsigmoid,
    "Hardswish": F.hardswish,
    "Hardtanh": F.relu6,
    "Huber": lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none"),
    "LayerNorm": lambda x: F.layer_norm(x, (4,)),
    "LogSigmoid": F.logsigmoid,
    "LogSoftmax": lambda x: x.log_softmax(1),
    "MSE": lambda x: F.mse_loss(x, torch.zeros_like(x), reduction="none"),
    "PixelShuffle": lambda x: F.pixel_shuffle(x, 2),
    "SmoothL1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
    "Softplus": F.softplus,
}


@watched
@pytest.mark.parametrize("of_gradient", ["in rows", "transposed", "by channels", "by batch"])
@pytest.mark.parametrize("of_input", ["in rows", "transposed", "by channels", "by batch"])
@pytest.mark.parametrize("name", GRADIENTS_BY)
def test_results_and_gradients_lie_as_in_a_real_run(name, of_input, of_gradient):
    found = []

    class Net(nn.Module):
        def forward(self, x):
            with torch.enable_grad():
                x = laid_out(x.detach().clone(), of_input).requires_grad_()
                result = GRADIENTS_BY[name](x)
                (gradient,) = torch.autograd.grad(result, x, laid_out(torch.ones(result.shape), of_gradient))
            found.append([(t.shape, t.stride()) for t in (result, gradient)])

    for dry in (False, True):
        lamina.inspect(Net(), torch.rand(2, 4, 4, 4), dry=dry)
    assert found[0] == found[1]


@watched
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_bags_of_other_types(dtype):
    net = nn.EmbeddingBag(10, 4, mode="sum", dtype=dtype)
    same(net, torch.arange(10).view(2, 5), convention="exact", backward=True)


@watched
@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose1d])
def test_a_frozen_weight_has_its_gradient_computed_with_that_of_the_bias(kind):
    net = kind(3, 4, 3)
    net.weight.requires_grad_(False)
    same(net, torch.rand(2, 3, *[8] * (net.weight.dim() - 2)), convention="exact", backward=True)


@watched
@pytest.mark.parametrize("size", [32, 64])  # at 32 pictures of one pixel come, whose layout is both
def test_training_with_channels_last(size):
    torchvision = pytest.importorskip("torchvision")
    model = torchvision.models.mobilenet_v2(weights=None).train().to(memory_format=torch.channels_last)
    x = torch.rand(2, 3, size, size).contiguous(memory_format=torch.channels_last)
    same(model, x, convention="exact", backward=True)


@observed
def test_a_backward_by_index():
    """torch takes another way where a mode is open; what it does is as without one."""

    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.rand(9, 3))
            self.register_buffer("index", torch.randint(0, 9, (16,)))

        def forward(self, x):
            return x + self.table[self.index].sum(0)

    same(Looks(), torch.rand(2, 3), convention="exact", backward=True)


@watched
def test_products_of_groups_and_their_backward():
    """As a mixture of experts multiplies: torch's own shape function takes bfloat16 only."""
    if not hasattr(torch, "_grouped_mm"):
        pytest.skip("this torch has no products of groups")

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(3, 16, 8))
            self.register_buffer("ends", torch.tensor([8, 16, 24], dtype=torch.int32))

        def forward(self, x):
            return torch._grouped_mm(x * 2, self.weight, offs=self.ends).relu()

    x = torch.rand(24, 16, requires_grad=True)
    try:
        Experts()(x).sum().backward()
    except RuntimeError as error:
        pytest.skip(f"not on this CPU: {error}")
    same(Experts(), x, convention="exact", backward=True)


def writes(function):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.rand(4, 6))

        def forward(self):
            return function(self.weight * 2)

    return Writes()


def first(x, _=None):
    return x


# What is written to, and what of it goes on.
WRITTEN = {
    "part": lambda x: first(x, x[:, 1:3].mul_(2)),
    "part goes on": lambda x: x.narrow(1, 1, 2).mul_(2),
    "two parts": lambda x: first(x, (x[:, 0].mul_(3), x[:, 1].add_(1))),
    "part of a part": lambda x: first(x, x[1:][:, 2:].mul_(2)),
    "turned": lambda x: first(x, x.t()[0].sigmoid_()),
    "diagonal": lambda x: first(x, x.diagonal().add_(1)),
    "other order": lambda x: first(x, x.view(-1)[::2].mul_(3)),
    "slices": lambda x: torch.zeros(4, 12).narrow(1, 3, 6).copy_(x),
    "part, read anew": lambda x: first(x, x[1].mul_(2))[1:].t() + 1,
}
# Views that go on, whose gradient is another operator's where tensors have a class of their own.
REBUILT = {
    "turned goes on": lambda x: (lambda t: first(t, t[1:3].mul_(3)))(x.t()),
    "whole goes on": lambda x: x.view(6, 4).relu_(),
    "part of a part goes on": lambda x: x[1:][:, 2:].mul_(2),
    "part of all goes on": lambda x: x.narrow(0, 0, 4).narrow(1, 1, 2).mul_(2),
}


@watched
@pytest.mark.parametrize("name", [*WRITTEN, *REBUILT])
def test_a_view_that_is_written_to(name):
    net = writes({**WRITTEN, **REBUILT}[name])
    real = lamina.inspect(net, convention="exact", backward=True)
    dry = lamina.inspect(net, convention="exact", backward=True, dry=True)
    assert numbers(dry)[1:4] == numbers(real)[1:4]
    told, true = dry.backward, real.backward
    assert (dry.macs, told.macs) == (real.macs, true.macs)
    if name in WRITTEN:
        assert (int(told.dmas), told.dmas.state) == (int(true.dmas), true.dmas.state)
    else:
        assert (told.dmas.state, true.dmas.state) == ("at least", "exact")
        assert int(told.dmas) <= true.dmas
    assert any(note.startswith("a view was written to in place") for note in dry.notes) == (name in REBUILT)
    alone = lamina.inspect(net, convention="exact", dry=True)
    assert not any(note.startswith("a view was written to") for note in alone.notes)


@watched
@pytest.mark.parametrize("name", ["layer", "attention", "weights"])
def test_fused_attention(name, way):
    """What the fused kernels run on the CPU is seen inside them, however operators are watched."""
    x = torch.rand(2, 7, 32)
    if name == "layer":
        same(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(), x, convention="exact")
        return
    net = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    same(net, (x, x, x), {"need_weights": name == "weights"}, convention="exact")


# -- what has no memory --------------------------------------------------------------------------------------


def test_an_operator_in_place_answers_with_its_tensor():
    """Autograd would give the tensor itself back, whatever a mode answers; in this mode it doesn't."""
    same = []

    class Net(nn.Module):
        def forward(self, x):
            with torch.inference_mode():
                y = x + 1
                same.append(torch.ops.aten.relu_.default(y) is y)
            return x

    lamina.inspect(Net(), torch.rand(2, 3), dry=True)
    assert same == [True]


def test_meta_model_counts_as_on_the_cpu(zoo):
    real = lamina.inspect(zoo("resnet18"), torch.rand(1, 3, 64, 64))
    dry = lamina.inspect(zoo("resnet18", "meta"), torch.rand(1, 3, 64, 64, device="meta"), dry=True)
    assert numbers(dry) == numbers(real)
    assert all(parameter.is_meta for parameter in zoo("resnet18", "meta").parameters())


@watched
def test_meta_attention_takes_the_kernel_of_the_cpu():
    with torch.device("meta"):
        net = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    report = lamina.inspect(net, torch.rand(2, 7, 32), convention="exact", dry=True)
    assert (
        report.macs
        == lamina.inspect(
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval(),
            torch.rand(2, 7, 32),
            convention="exact",
        ).macs
    )


def test_seventy_billion_parameters():
    """A decoder of 80 layers as wide as Llama 70B: its projections and products to the unit, in no memory."""
    h, kv, ff, heads, s, v = 8192, 1024, 28672, 64, 512, 32000

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.o = nn.Linear(h, h, bias=False), nn.Linear(h, h, bias=False)
            self.k, self.v = nn.Linear(h, kv, bias=False), nn.Linear(h, kv, bias=False)
            self.up, self.gate = nn.Linear(h, ff, bias=False), nn.Linear(h, ff, bias=False)
            self.down = nn.Linear(ff, h, bias=False)

        def forward(self, x):
            def split(y, n):
                return y.view(1, s, n, h // heads).transpose(1, 2)

            k, v = (split(y, kv * heads // h).repeat_interleave(h // kv, 1) for y in (self.k(x), self.v(x)))
            y = nn.functional.scaled_dot_product_attention(split(self.q(x), heads), k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(1, s, h))
            return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    with torch.device("meta"):
        net = nn.Sequential(nn.Embedding(v, h), *[Layer() for _ in range(80)], nn.Linear(h, v, bias=False))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = lamina.inspect(net, torch.zeros(1, s, dtype=torch.int64), dry=True)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB
    dense = 80 * s * (2 * h * h + 2 * h * kv + 3 * h * ff) + s * h * v
    assert sum(row.macs for row in report.rows if row.type == "Linear") == dense
    if support.way().name != "calls":
        report = lamina.inspect(net, torch.zeros(1, s, dtype=torch.int64), dry=True, convention="exact")
        assert (report.macs, report.macs.state) == (dense + 80 * 2 * heads * s * s * (h // heads), "exact")


def test_large_activations_take_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report = lamina.inspect(nn.Conv2d(3, 512, 3), torch.rand(64, 3, 2048, 2048, device="meta"), dry=True)
    assert report.macs == 64 * 512 * 2046 * 2046 * 27
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


@watched
def test_an_attention_with_a_mask_and_no_gradients():
    """torch's fused kernel, whose softmax torch tells no shape of."""
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    mask = torch.triu(torch.full((5, 5), float("-inf")), 1)
    same(net, (torch.rand(2, 5, 16),), {"mask": mask, "is_causal": True}, convention="exact")


TARGETS = torch.tensor([1, 0, 3, 2])

FUNCTIONS = {
    "distance": lambda x: nn.functional.pairwise_distance(x, x + 1),
    "distance 1": lambda x: torch.dist(x, x + 1, p=1),
    "margin": lambda x: nn.functional.soft_margin_loss(x, x),
    "margins": lambda x: nn.functional.soft_margin_loss(x, x, reduction="none"),
    "smoothed": lambda x: nn.functional.cross_entropy(x, TARGETS, label_smoothing=0.1),
    "weighed": lambda x: nn.functional.cross_entropy(x, TARGETS, torch.ones(4), reduction="sum"),
    "normalised": lambda x: torch.native_batch_norm(x, None, None, x[0], x[1], False, 0.1, 1e-5)[0],
}


WHOLE = torch.tensor([[2, 0], [1, 3]])

# What torch runs in another way where tensors have a class of their own, and what its kernels call.
WAYS = {
    "one hot": lambda _: nn.functional.one_hot(WHOLE),
    "one hot of 7": lambda _: nn.functional.one_hot(WHOLE, 7),
    "one hot of computed": lambda x: nn.functional.one_hot(x.argmax(1), 4),
    "one hot of none": lambda _: nn.functional.one_hot(WHOLE[:0], 7),
    "one hot of a range": lambda _: nn.functional.one_hot(torch.arange(4)),
    "pool": lambda x: nn.functional.max_pool1d(x, 2),
    "pool with indices": lambda x: nn.functional.max_pool1d(x, 2, return_indices=True)[0],
    "repeated": lambda x: x.repeat_interleave(WHOLE.view(-1), 0),
    "repeated, of a size": lambda x: x.repeat_interleave(WHOLE.view(-1), 0, output_size=6),
    "singular values": torch.linalg.svdvals,
    "singular vectors": lambda x: torch.linalg.svd(x)[0],
    "eigenvalues": torch.linalg.eigvals,
    "symmetric eigenvalues": torch.linalg.eigvalsh,
    "condition": torch.linalg.cond,
    "rank": torch.linalg.matrix_rank,
    "determinant": torch.linalg.det,
    "determinant in columns": lambda x: torch.linalg.det(x.mT),
    "sign": lambda x: torch.linalg.slogdet(x)[0],
    "log": torch.logdet,
    "factors": lambda x: torch.linalg.lu(x)[1],
    "packed factors": lambda x: torch.linalg.lu_factor(x)[0],
    "wide factors": lambda x: torch.linalg.lu(x[:2])[2],
    "solved": lambda x: torch.linalg.solve(x, x),
    "solved from the right": lambda x: torch.linalg.solve(x, x[:2], left=False),
    "solved for a vector": lambda x: torch.linalg.solve(x, x[0]),
    "inverse": torch.linalg.inv,
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(4)),
    "quantile": lambda x: x.quantile(0.3, 1),
    "quantiles": lambda x: x.nanquantile(x[0, :2]),
    "solved for vectors": lambda x: torch.linalg.solve(x[None], x[None, 0]).contiguous(),
    "vectors": lambda x: torch.linalg.eig(x)[1].contiguous(),
    "pseudo-inverse": lambda x: torch.linalg.pinv(torch.complex(x, x)[:, :3]),
    "conjugate in order": lambda x: torch.linalg.svd(torch.complex(x, x))[2].mH.contiguous(),
    "summed to its own size": lambda x: x.sum_to_size(4, 4) + 1,
}


@watched
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_loss_that_writes_over_its_own_gradient(reduction):
    class Loss(nn.Module):
        def forward(self, x):
            return nn.functional.soft_margin_loss(x, torch.ones(4, 4), reduction=reduction)

    same(Loss(), torch.rand(4, 4, requires_grad=True), convention="exact", backward=True)


@observed
@pytest.mark.parametrize("targets", [[1, 0, 3, 2], [1, -100, 3, -100]])
def test_how_many_weights_of_targets_are_summed_is_not_known(targets):
    class Loss(nn.Module):
        def forward(self, x):
            weights, which = torch.ones(4), torch.tensor(targets)
            return nn.functional.cross_entropy(x, which, weights, label_smoothing=0.1)

    args = torch.rand(4, 4, requires_grad=True)
    real = lamina.inspect(Loss(), args, convention="exact")
    dry = lamina.inspect(Loss(), args, convention="exact", dry=True)
    assert (dry.flops.state, dry.dmas.state) == ("at least", "at least")
    assert int(dry.flops) <= real.flops and int(dry.dmas) <= real.dmas


@observed
def test_what_a_power_series_moves_is_a_lower_bound():
    class Runs(nn.Module):
        def forward(self, x):
            return torch.linalg.matrix_exp(x)

    real = lamina.inspect(Runs(), torch.rand(4, 4), convention="exact")
    dry = lamina.inspect(Runs(), torch.rand(4, 4), convention="exact", dry=True)
    assert (dry.dmas, dry.dmas.state, dry.bytes_read.state) == (32, "at least", "at least")
    assert dry.macs.state == "unknown" and dry.dmas <= real.dmas and dry.bytes_written <= real.bytes_written


@watched
@pytest.mark.parametrize("name", [*FUNCTIONS, *WAYS])
def test_functions(name):
    class Runs(nn.Module):
        def forward(self, x):
            return {**FUNCTIONS, **WAYS}[name](x)

    torch.manual_seed(0)
    if name.startswith("quantile") and since(2, 14):  # its kernel selects, by no operator
        dry = lamina.inspect(Runs(), torch.rand(4, 4), convention="exact", dry=True)
        assert (dry.flops.state, dry.dmas.state) == ("at least", "at least")
        return
    same(Runs(), torch.rand(4, 4), convention="exact")


@watched
def test_a_pool_without_gradients_has_the_field_of_a_real_one():
    net = nn.Sequential(nn.Conv1d(2, 3, 3), nn.MaxPool1d(2), nn.Conv1d(3, 2, 3))
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            real = lamina.inspect(net, torch.rand(1, 2, 20), ops=True)
            dry = lamina.inspect(net, torch.rand(1, 2, 20), ops=True, dry=True)
        assert [row.rf_axes for row in dry.rows] == [row.rf_axes for row in real.rows]
        assert [row.dmas for row in dry.rows] == [row.dmas for row in real.rows]


class Learns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w = nn.Parameter(torch.rand(4, 4) + 0.5)

    def forward(self, x):
        return self.function(self.w * x)


# Gradients that torch computes in another way where tensors have a class of their own.
GRADIENTS = {
    "largest": torch.max,
    "smallest": lambda x: x.min() * 2,
    "middle": torch.median,
    "middle but for NaN": torch.nanmedian,
    "largest of one": lambda x: x[0, 0].max(),
    "symmetric eigenvectors": lambda x: (lambda pair: pair[0].sum() + pair[1].sum())(
        torch.linalg.eigh(x @ x.mT)
    ),
    "margins": lambda x: (
        nn.functional.multi_margin_loss(x, torch.tensor([0, 3, 2, 1]))
        + nn.functional.multilabel_margin_loss(x, torch.tensor([[1, -1, 0, 0]] * 4))
    ),
    "windows at random": lambda x: nn.functional.fractional_max_pool3d(
        x.expand(2, 4, 4, 4), 2, output_size=2, _random_samples=torch.rand(1, 2, 3)
    ),
    "times a complex number": lambda x: (x * (2 + 1j)).real.sum(),
    "one that is normalised": lambda x: nn.functional.layer_norm(x[:1, 0], (1,), x[0, :1], x[1, :1]),
    "normalised by one": lambda x: nn.functional.layer_norm(x[:, :1], (1,), x[0, :1], x[1, :1]),
}


@watched
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_that_go_another_way(name):
    same(Learns(GRADIENTS[name]), torch.rand(4, 4), convention="exact", backward=True)


# The same where values decide: how many factors are 0, or how many elements a mask selects.
DECIDED = {
    "ProdBackward0": torch.prod,
    "ProdBackward1": lambda x: x[:1].prod(0, keepdim=True),
    "CumprodBackward0": lambda x: x.cumprod(1),
    "MaskedFillBackward1": lambda x: x.detach().masked_fill(x > 0.5, x[0, 0]),
    "LinalgHouseholderProductBackward0": lambda x: torch.linalg.householder_product(x, x[0]),
}


@watched
@pytest.mark.parametrize("other", ["a capture", "torch's profiler"])
def test_what_another_observer_sees_changes_nothing(other):
    """Others have torch make records of what runs inside an operator, which lamina does not note."""

    class Runs(nn.Module):
        def forward(self, x):
            return WAYS[self.name](x)

    def told():
        net, x, forward = Runs(), torch.ones(4, 4), []
        for net.name in WAYS:
            forward.append(numbers(lamina.inspect(net, x, convention="exact", dry=True)))
        masked = Learns(DECIDED["MaskedFillBackward1"])
        back = lamina.inspect(masked, x, convention="exact", backward=True, dry=True)
        return forward, numbers(back), int(back.backward.dmas)

    alone = told()
    with lamina.capture(nn.ReLU()) if other == "a capture" else torch.profiler.profile():
        assert told() == alone


@observed
@pytest.mark.parametrize("node", DECIDED)
def test_gradients_that_values_decide_are_lower_bounds(node):
    real, dry = (
        lamina.inspect(Learns(DECIDED[node]), torch.rand(4, 4), convention="exact", backward=True, dry=dry)
        for dry in (False, True)
    )
    assert (dry.flops, dry.dmas) == (real.flops, real.dmas)
    assert (dry.backward.macs, dry.backward.macs.state) == (real.backward.macs, "exact")
    for metric in ("flops", "dmas"):
        told, true = getattr(dry.backward, metric), getattr(real.backward, metric)
        assert (told.state, true.state) == ("at least", "exact")
        assert told < true or node.startswith("Linalg")
    assert any(gap.startswith(f"{node}: a real run goes another way") for gap in dry.gaps)
    lazy = lamina.inspect(
        Learns(DECIDED[node]), torch.rand(4, 4), convention="torch", backward=True, dry=True
    )
    assert lazy.backward.macs.state == "exact"


@observed
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("turned", [False, True])
def test_a_bound_is_below_the_gradient_of_a_product_with_reflections(left, rows, turned):
    a = torch.rand(2, 2, rows).mT if turned else torch.rand(2, rows, 2)
    c = torch.rand(2, rows, 3) if left else torch.rand(2, 3, rows)

    class Reflects(nn.Module):
        def forward(self, a, tau, c):
            return torch.ormqr(a, tau, c, left)

    real, dry = (
        lamina.inspect(
            Reflects(),
            tuple(x.requires_grad_() for x in (a.detach(), torch.rand(2, 2), c.detach())),
            convention="exact",
            backward=True,
            dry=dry,
        ).backward
        for dry in (False, True)
    )
    assert (dry.macs, dry.dmas.state) == (real.macs, "at least")
    assert (dry.flops <= real.flops, dry.dmas < real.dmas) == (True, True)


@watched
@pytest.mark.parametrize("call", ["at once", "one by one", "again and again"])
def test_what_looks_like_one_hot(call, way):
    """The comparison that torch's one_hot is for tensors with a class of their own may be the model's."""

    class Compares(nn.Module):
        def run(self, function, *args):
            return function(*args)

        def forward(self, x):
            i = x.argmax(1)
            if call == "at once":
                return (i.unsqueeze(-1) == torch.arange(4)).long()
            if call == "one by one":
                table = self.run(torch.arange, 4)
                return self.run(torch.eq, self.run(torch.unsqueeze, i, -1), table).long()
            return sum(nn.functional.one_hot(i, n).sum() for n in (4, 5, 6))

    same(Compares(), torch.rand(4, 4), convention="exact")


@watched
def test_fields_of_many_layers_are_those_of_a_real_run():
    """Without times, layers whose results' addresses others have later are told apart by what ran when."""

    class Embeds(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.Embedding(31 + i, 4) for i in range(8))
            self.mix = nn.Conv1d(32, 8, 3)

        def forward(self, x):
            hashed = [table((x * (i + 3)) % (31 + i)) for i, table in enumerate(self.tables)]
            return self.mix(torch.cat(hashed, -1).transpose(1, 2))

    real, dry = (
        lamina.inspect(Embeds(), WHOLE.repeat(2, 8), convention="exact", dry=dry) for dry in (False, True)
    )
    assert [row.rf_axes for row in dry.rows] == [row.rf_axes for row in real.rows]
    assert sum(row.rf_axes is not None for row in dry.rows) == 10


@watched
def test_batch_normalisation_of_an_image_that_does_not_lie_in_order():
    same(nn.BatchNorm2d(16).eval(), torch.rand(1, 1, 64, 16).transpose(1, 3), convention="exact")


@watched
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences(layer):
    """Their sizes follow from lengths that are an input."""

    class Packs(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = layer(6, 4, 2, bidirectional=True)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0])[0]

    same(Packs(), (torch.rand(5, 3, 6), torch.tensor([5, 2, 4])), convention="exact", backward=True)


class Replaced(nn.Linear):
    """Puts new data into the place of a parameter before it is used, as offloaded layers do."""

    def forward(self, x):
        old = self._parameters["weight"]
        self._parameters["weight"] = type(old)(torch.ones(old.shape), requires_grad=old.requires_grad)
        y = super().forward(x)
        self._parameters["weight"] = type(old)(old.detach() * 2, requires_grad=False)
        return y + super().forward(x)


@watched
def test_parameters_that_are_made_again():
    net = Replaced(3, 4)
    weight = net.weight
    same(net, torch.rand(2, 3), convention="exact")
    assert net.weight is weight


class Offloaded(nn.Linear):
    """Has its parameters on the meta device but for the time of its forward."""

    def forward(self, x):
        here = {name: p.detach() for name, p in self._parameters.items()}
        for name, p in here.items():
            self._parameters[name] = nn.Parameter(p.clone(), requires_grad=False)
        y = super().forward(x)
        for name, p in self._parameters.items():
            self._parameters[name] = nn.Parameter(p.to("meta"), requires_grad=False)
        for name, p in self._parameters.items():
            self._parameters[name] = nn.Parameter(p.to("meta"), requires_grad=False)
        return y


@watched
def test_what_goes_to_the_meta_device_is_not_copied():
    dry = same(Offloaded(3, 4), torch.rand(2, 3), convention="exact")
    assert dry.dmas == (2 + 4) * 3 + 4 + 2 * 4 + 2 * (4 * 3 + 4)


def test_packed_weights_are_unpacked_into_real_memory():
    quantized = pytest.importorskip("torch.ao.nn.quantized")
    net = nn.Sequential(quantized.Conv2d(128, 128, 3))
    with pytest.raises(NeedsValuesError) as caught:
        lamina.inspect(net, torch.rand(1, 128, 8, 8), dry=True)
    assert caught.value.lamina_report.parameters["packed"] == 128 * (128 * 9 + 1)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_tensors_end_it(layout):
    net = nn.Linear(4, 4, bias=False)
    net.weight = nn.Parameter(net.weight.detach().to_sparse(layout=layout), requires_grad=False)
    with pytest.raises(NeedsValuesError, match=f"it works on a Parameter with {layout}"):
        lamina.inspect(net, torch.rand(2, 4), dry=True)
    with pytest.raises(NeedsValuesError, match=f"it works on a Tensor with {layout}"):
        lamina.inspect(nn.ReLU(), torch.eye(4).to_sparse(layout=layout), dry=True)


def test_an_operator_that_runs_functions_ends_it():
    class Branches(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with pytest.raises(NeedsValuesError, match="a dry run can't follow the model itself"):
        lamina.inspect(Branches(), torch.rand(3), dry=True)


# -- values --------------------------------------------------------------------------------------------------


class Asks(nn.Module):
    """Looks at values, in the way that it is given."""

    def __init__(self, look):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.look = look

    def forward(self, x):
        return self.look(self.fc(x))


LOOKS = {
    "item": lambda y: y * y.sum().item(),
    "if": lambda y: y if y.sum() > 0 else -y,
    "int": lambda y: y[: int(y.max())],
    "index": lambda y: y[y.argmax()],
    "mask": lambda y: y[y > 0],
    "nonzero": lambda y: y.nonzero(),
    "masked_select": lambda y: y.masked_select(y > 0),
    "unique": lambda y: y.unique(),
    "numpy": lambda y: y.numpy(),
    "array": lambda y: __import__("numpy").asarray(y),
    "tolist": lambda y: y.tolist(),
    "equal": lambda y: torch.equal(y, y + 1),
    "pickle": lambda y: __import__("pickle").dumps(y),
    "random": lambda y: y * torch.rand(()).item(),
    "caught": lambda y: _caught(y),
    "written": lambda y: torch.zeros(2, 4).copy_(y).sum().item(),
    "format": lambda y: f"{y.sum():.3f}",
}


def _caught(y):
    try:
        return y * y.sum().item()
    except Exception:
        return y


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_at_values_ends_it(look):
    net = nn.Sequential(nn.Linear(4, 4), Asks(LOOKS[look]))
    x = torch.rand(2, 4)
    before = fingerprint(net), generators()
    with pytest.raises(NeedsValuesError) as caught:
        lamina.inspect(net, x, dry=True)
    text = str(caught.value)
    assert text.endswith("and nothing was computed; leave dry=True out to run the model")
    assert "\n" not in text
    assert text.startswith(
        "a dry run can't follow the model:" if look == "caught" else "a dry run can't follow 1 (Asks):"
    )
    report = caught.value.lamina_report
    assert [row.path for row in report.rows] == ["", "0", "1", "1.fc"]
    assert report.rows[3].macs == 2 * 4 * 4
    assert (fingerprint(net), generators()) == before


KNOWN = {
    "list": lambda y: y * len(torch.arange(8).tolist()),
    "literal": lambda y: y * torch.tensor([1.0, 2.0])[1].item(),
    "range": lambda y: y[:, torch.arange(8)[::2].tolist()[1] :],
    "if": lambda y: y if torch.arange(4).sum() == 6 else None,
    "mask": lambda y: y[:, torch.arange(4) > 1],
    "written": lambda y: y[:, _written()],
    "numpy": lambda y: y * float(torch.ones(3).numpy().sum()),
    "repeat": lambda y: y[:, torch.arange(2).repeat(2)[3].item() :],
}


def _written():
    mask = torch.zeros(4, dtype=torch.bool)
    mask[1:3] = True
    return mask


@pytest.mark.parametrize("look", KNOWN)
def test_what_follows_from_nothing_fake_is_known(look):
    net = nn.Sequential(Asks(KNOWN[look]), nn.Flatten(), nn.Identity())
    report = same(net, torch.rand(2, 4), **({"convention": "exact"} if look == "list" else {}))
    assert report.rows[-1].out_shapes == lamina.inspect(net, torch.rand(2, 4)).rows[-1].out_shapes


class Counts(nn.Module):
    """Counts in a buffer and asks it, and an input of whole numbers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.fc = nn.Linear(4, 4)

    def forward(self, x, n):
        self.seen += 1
        for _ in range(int(n.max()) + int(self.seen)):
            x = self.fc(x)
        return x


@watched
@pytest.mark.parametrize(
    "ids",
    [
        torch.arange(12).view(3, 4)[:, :-1],
        torch.arange(6).view(2, 3).mT,
        torch.arange(3).expand(2, 3),
        torch.tensor(1),
        torch.zeros(0, 3, dtype=torch.int64),
    ],
    ids=["gaps", "turned", "overlap", "one", "none"],
)
def test_known_values_lie_as_they_did(ids):
    class Copies(nn.Module):
        def forward(self, ids):
            return ids.contiguous() + 1

    same(Copies(), ids, convention="exact")


def test_small_whole_numbers_are_known_and_stay_as_they_were():
    net = Counts()
    n = torch.tensor([2, 3])
    assert same(net, (torch.rand(1, 4), n)).macs == 4 * 16
    assert (net.seen, n.tolist()) == (0, [2, 3])


def test_a_shape_that_does_not_fit_names_the_layer():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(3, 4))
    for rows in (2, 2000):  # a kernel refuses small tensors, and a shape function large ones
        with pytest.raises((RuntimeError, NeedsValuesError), match=r"multiplied|reduction") as caught:
            lamina.inspect(net, torch.rand(rows, 4), dry=True)
        assert "1 (Linear)" in str([caught.value, *getattr(caught.value, "__notes__", [])])


RECURRENT = {
    "lstm": lambda: nn.LSTM(4, 8, batch_first=True),
    "stacked": lambda: nn.LSTM(4, 8, 2, bidirectional=True, dropout=0.5),
    "without a bias": lambda: nn.LSTM(4, 8, bias=False),
    "projected": lambda: nn.LSTM(4, 8, proj_size=3),
    "gru": lambda: nn.GRU(4, 8),
    "rnn": lambda: nn.RNN(4, 8, 2),
}


@watched
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrences(name):
    net, x = RECURRENT[name](), torch.rand(2, 3, 4)
    same(net, x, convention="exact")
    same(net, x, convention="exact", backward=True)


def rule_is_onednns():
    """Whether the oneDNN that is here keeps as much memory for a backward as lamina's rule says."""
    node = nn.LSTM(5, 64, batch_first=True)(torch.rand(2, 3, 5))[0].grad_fn.next_functions[0][0]
    return node._saved_result3.untyped_storage().nbytes() == _lamina.recurrent_kept(3, 2, 5, 64)


@watched
def test_a_large_recurrence_for_a_backward_is_not_guessed(monkeypatch):
    monkeypatch.setattr("lamina._dry.recurrent.MOST_ASKED", 1)
    net, x = nn.LSTM(4, 8, batch_first=True), torch.rand(2, 3, 4)
    same(net, x, convention="exact")
    monkeypatch.setattr("lamina._dry.recurrent._workspaces", {})
    if rule_is_onednns():
        lamina.inspect(net, x, backward=True, dry=True)
    monkeypatch.setattr("lamina._dry.recurrent._workspaces", {"rule": False})
    with pytest.raises(NeedsValuesError, match="memory that only oneDNN can size"):
        lamina.inspect(net, x, backward=True, dry=True)
    monkeypatch.undo()
    monkeypatch.setattr("lamina._dry.recurrent._workspaces", {"rule": False})
    for biased in (True, False):
        same(nn.LSTM(4, 8, bias=biased), x, convention="exact", backward=True)


def test_own_errors_come_through():
    def fail(y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        lamina.inspect(Asks(fail), torch.rand(2, 4), dry=True)
    assert caught.value.lamina_report.rows[1].path == "fc"


def test_refused_up_front():
    net = nn.Sequential(nn.Linear(4, 4), nn.LazyLinear(3))
    with pytest.raises(UnsupportedError, match=r"^a dry run can't run 1 \(LazyLinear\), which is lazy"):
        lamina.inspect(net, torch.rand(2, 4), dry=True)
    traced = nn.Sequential(nn.Linear(4, 4), torch.jit.trace(nn.Linear(4, 4), torch.rand(2, 4)))
    with pytest.raises(UnsupportedError, match=r"^a dry run can't run 1 \(.*\), which is scripted or traced"):
        lamina.inspect(traced, torch.rand(2, 4), dry=True)
    gathered = nn.Linear(4, 4)
    gathered.weight.ds_id = 0  # as ZeRO-3 marks parameters
    with pytest.raises(
        UnsupportedError, match=r"^a dry run can't run the model \(Linear\), which gathers its"
    ):
        lamina.inspect(gathered, torch.rand(2, 4), dry=True)


# -- nothing is left -----------------------------------------------------------------------------------------


class Careless(nn.Module):
    """Leaves on itself what a forward should not, and reads what is no parameter."""

    def __init__(self):
        super().__init__()
        self.n = 0
        self.ema = torch.zeros(4)
        self.history = [torch.zeros(1)]
        self.pair = (torch.rand(4), 3)
        self.table = {"scale": torch.rand(4)}
        self.fc = nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.fc.weight
        self.norm = nn.BatchNorm1d(4)
        self.wrapped = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x):
        self.n += 1
        y = self.norm(self.tied(self.fc(x)) * self.table["scale"] + self.pair[0])
        assert self.tied.weight is self.fc.weight
        assert isinstance(self.fc.weight, nn.Parameter)
        self.ema = self.ema * 0.9 + y.mean(0)
        self.ema.add_(1)
        self.history.append(y)
        self.table["last"] = y
        nn.functional.dropout(y, training=True)
        return self.wrapped(y) * self.n


@pytest.mark.parametrize("backward", [False, pytest.param(True, marks=watched)])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_nothing_is_left(mode, backward):
    net = Careless()
    net.fc.weight.grad = torch.rand(4, 4)
    x = torch.rand(2, 4, requires_grad=True)
    call, before = module_call(), (fingerprint(net), generators())
    lamina.inspect(net, x, mode=mode, backward=backward, dry=True)
    assert (fingerprint(net), generators()) == before
    assert (x.grad, module_call()) == (None, call)
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch.rand(2).sum().item() > 0  # operators compute again


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError])
def test_nothing_is_left_after_an_exception(error):
    net = nn.Sequential(Careless(), Asks(lambda y: (_ for _ in ()).throw(error("stop"))))
    x = torch.rand(2, 4)
    before = fingerprint(net), generators()
    with pytest.raises(error):
        lamina.inspect(net, x, dry=True)
    assert (fingerprint(net), generators()) == before
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_tensor_that_got_out_is_no_trap():
    kept = []
    lamina.inspect(Asks(lambda y: kept.append(y) or y), torch.rand(2, 4), dry=True)
    assert "without values" in repr(kept[0])
    for use in (
        lambda y: y + 1,
        lambda y: y.numpy(),
        lambda y: y.tolist(),
        lambda y: y.sum().item(),
        torch.clone,
    ):
        with pytest.raises(NeedsValuesError, match="dry run that has ended"):
            use(kept[0])


def test_threads_have_their_own():
    reports, nets_ = {}, {name: nn.Sequential(Careless()) for name in "ab"}

    def look(name):
        for _ in range(5):
            reports[name] = lamina.inspect(nets_[name], torch.rand(2, 4), dry=True)

    threads = [threading.Thread(target=look, args=(name,)) for name in nets_]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(reports["a"]) == numbers(reports["b"])


def test_two_at_a_time_leave_the_compiler_on(monkeypatch):
    """torch's compiler leaves everything alone while a flag says that a mode is on, in whichever thread. In
    torch 2.4 the flag stays set after anything was compiled."""
    monkeypatch.setattr(torch.utils._python_dispatch, "_is_in_torch_dispatch_mode", False)
    inside, other_ended = threading.Event(), threading.Event()

    def wait(y):
        inside.set()
        other_ended.wait(LIMIT)
        return y

    first = threading.Thread(target=lamina.inspect, args=(Asks(wait), torch.rand(2, 4)), kwargs={"dry": True})

    def end_first(y):
        first.start()
        inside.wait(LIMIT)
        return y

    lamina.inspect(
        Asks(end_first), torch.rand(2, 4), dry=True
    )  # the first one begins in it and ends after it
    other_ended.set()
    first.join()
    assert not torch.utils._python_dispatch.is_in_torch_dispatch_mode()


def test_in_inference_mode():
    net = nets.block()
    with torch.inference_mode():
        dry = lamina.inspect(net.eval(), torch.rand(1, 3, 8, 8), dry=True)
    assert dry.macs == lamina.inspect(net.eval(), torch.rand(1, 3, 8, 8)).macs


def test_the_report_says_so():
    report = lamina.inspect(nn.Linear(4, 4), torch.rand(2, 4), dry=True)
    assert report.notes == ["a dry run: shapes were followed, nothing was computed and no time was measured"]


def own_thread(part, x):
    found = []
    thread = threading.Thread(target=lambda: found.append(part(x)))
    thread.start()
    thread.join()
    return found[0]


def handed_over(part, x):
    found = []

    def work():
        try:
            found.append(part(x))
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def pool(part, x):
    with ThreadPoolExecutor(2) as workers:
        return sum(workers.map(part, [x, x]))


def forgiven(part, x):
    """The thread's exception is nobody's."""
    thread = threading.Thread(target=part, args=(x,))
    thread.start()
    thread.join()
    return part(x)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("run", [own_thread, handed_over, pool, forgiven])
@pytest.mark.parametrize("dry", [lambda net, x: lamina.inspect(net, x, dry=True), lamina.fit])
def test_work_on_other_threads_is_refused_in_a_sentence(dry, run):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Linear(4, 4)

        def forward(self, x):
            return run(self.part, x)

    net, x = Net(), torch.ones(2, 4)
    with pytest.raises(NeedsValuesError, match=r"follow .*: it uses its tensors on another thread, and"):
        dry(net, x)
    assert lamina.inspect(net, x).params == 20  # a real run has the program's own result
    assert lamina.inspect(net.part, x, dry=True).macs == 32


@pytest.mark.parametrize("own", [False, True])
def test_a_refusal_is_all_that_is_said_of_another_thread(own, monkeypatch, capfd):
    """Python prints a traceback of what ends a thread. A hook of the program's gets the refusal too."""
    given = []
    monkeypatch.setattr(threading, "excepthook", given.append if own else threading.__excepthook__)

    def end(work):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    class Net(nn.Module):
        def forward(self, x):
            end(x.tolist)
            return x

    with pytest.raises(NeedsValuesError, match="another thread"):
        lamina.inspect(Net(), torch.ones(2, 4), dry=True)
    assert [hook.exc_type for hook in given] == [NeedsValuesError] * own
    assert "Traceback" not in capfd.readouterr().err
    end(lambda: 1 / 0)
    assert ("ZeroDivisionError" in capfd.readouterr().err) is not own


def test_dry_takes_only_what_it_can():
    watch = _lamina.Capture(nn.Identity())
    from lamina._dry import mode

    core = mode._Run(watch).core
    with pytest.raises(TypeError, match="Snapshot"):
        core.swap(watch)
    with pytest.raises(TypeError, match="Capture"):
        core.serves(None)
    with pytest.raises(TypeError, match="tensor"):
        core.like(3)


# -- the command ---------------------------------------------------------------------------------------------


def test_command(shell, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def big():\n"
        "    with torch.device('meta'):\n"
        "        return nn.Sequential(nn.Linear(65536, 65536), nn.ReLU())\n"
        "class Asks(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x) if x.sum() > 0 else x\n"
        "def asks():\n"
        "    return nn.Sequential(Asks(4, 4))\n"
    )
    shown = shell("show", "mine.py:big", "-i", "65536x65536", "--dry", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "a dry run" in shown.stdout
    why = shell("why", "mine.py:big", "0", "-i", "2x65536", "--dry", cwd=tmp_path)
    assert "8,589,934,592" in why.stdout.replace("8589934592", "8,589,934,592")
    asked = shell("show", "mine.py:asks", "-i", "2x4", "--dry", cwd=tmp_path)
    assert asked.returncode == 3
    assert "can't follow 0 (Asks): it needs a tensor's value as a number" in asked.stderr
    assert "Asks" in asked.stdout
