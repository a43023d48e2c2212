# SPDX-License-Identifier: Apache-2.0
"""Receptive fields on the graph of the data, against the gradients of the input."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
import rf_nets
import torch
import torch.nn.functional as F
from torch import nn
from where_kit import Calls, not_observed

import lamina
from lamina._observe import support

pytestmark = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")
# A dispatch mode is not shown them: it sees the steps that they are made of.
whole = pytest.mark.skipif(bool(not_observed()), reason=f"recurrences and circular padding: {not_observed()}")


class UNet(nn.Module):
    """Halving, transposed convolutions of two kinds, skips, interpolation by odd factors."""

    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(3, 4, 3, padding=1)
        self.down2 = nn.Conv2d(4, 8, 3, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, padding=1)
        self.up2 = nn.ConvTranspose2d(8, 8, 2, 2)
        self.join2 = nn.Conv2d(16, 4, 3, padding=1)
        self.up1 = nn.ConvTranspose2d(4, 4, 4, 2, padding=1)
        self.join1 = nn.Conv2d(8, 2, 3, padding=1)
        self.bigger = nn.Upsample(scale_factor=1.5, mode="bilinear")
        self.nearest = nn.Upsample(size=(97, 90))
        self.last = nn.ConvTranspose2d(2, 2, 3, stride=3, dilation=2)

    def forward(self, x):
        a = self.down1(x).relu()
        b = self.down2(F.max_pool2d(a, 2)).relu()
        y = self.middle(F.max_pool2d(b, 2)).relu()
        y = self.join2(torch.cat([self.up2(y), b], 1)).relu()
        y = self.join1(torch.cat([self.up1(y), a], 1))
        return self.last(self.nearest(self.bigger(y)))


class Dilated(nn.Module):
    """Growing dilation, paddings of several kinds, cubic interpolation, positions moved into channels."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(4 if i else 3, 4, 3, padding=2**i, dilation=2**i) for i in range(4))
        )
        self.mirror = nn.ReflectionPad2d(3)
        self.wide = nn.Conv2d(4, 4, (7, 5), stride=(2, 1))
        self.pool = nn.AdaptiveAvgPool2d((13, 17))
        self.same = nn.Conv2d(4, 4, 3, padding="same", dilation=3)
        self.shuffle = nn.PixelShuffle(2)
        self.cubic = nn.Upsample(scale_factor=2, mode="bicubic", align_corners=True)

    def forward(self, x):
        y = self.wide(self.mirror(self.features(x)))
        return self.cubic(self.shuffle(self.same(self.pool(y))))[..., 3:-2, ::2].flip(-1)


class Waves(nn.Module):
    """One axis: strides, a wide dilation, a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(2, 4, 5, stride=2)
        self.b = nn.Conv1d(4, 4, 3, dilation=7, padding=7)
        self.c = nn.ConvTranspose1d(4, 4, 5, stride=3, padding=2)
        self.d = nn.AvgPool1d(4)

    def forward(self, x):
        return self.d(self.c(self.b(self.a(x).relu())))


def vision(name, **options):
    def build():
        torchvision = pytest.importorskip("torchvision")
        module, _, function = name.rpartition(".")
        return getattr(getattr(torchvision.models, module) if module else torchvision.models, function)(
            **options
        )

    return build


def features(name):
    return lambda: vision(name)().features


def image(name, **options):
    return lambda: pytest.importorskip("timm").create_model(name, **options)


# What is built, the input, and layers inside it whose field is smaller than the input or reaches its ends.
CASES = {
    "alexnet": (features("alexnet"), (95, 127), ["3", "8", ""]),
    "vgg11": (features("vgg11"), (64, 96), ["6", "13", "20"]),
    "resnet18": (
        vision("resnet18"),
        (97, 65),
        ["layer1.0", "layer2.1.conv1", "layer3.0.downsample", "layer4"],
    ),
    "resnext50": (vision("resnext50_32x4d"), (65, 65), ["layer1.2", "layer2.0.conv2", "layer2.1"]),
    "densenet121": (
        vision("densenet121"),
        (64, 64),
        ["features.denseblock1", "features.transition1", "features"],
    ),
    "googlenet": (
        vision("googlenet", init_weights=False, aux_logits=False),
        (64, 96),
        ["inception3a.branch3", "inception3a", "inception4b"],
    ),
    "inception_v3": (
        vision("inception_v3", init_weights=False, aux_logits=False),
        (107, 107),
        ["Conv2d_4a_3x3", "Mixed_5c", "Mixed_6b.branch7x7dbl_5"],
    ),
    "mobilenet_v2": (vision("mobilenet_v2"), (64, 64), ["features.3", "features.5.conv.1", "features.8"]),
    "mobilenet_v3": (
        vision("mobilenet_v3_small"),
        (64, 64),
        ["features.1.block.0", "features.1", "features.4"],
    ),
    "shufflenet": (vision("shufflenet_v2_x0_5"), (64, 64), ["stage2.0", "stage2.3", "stage3.1.branch2.3"]),
    "squeezenet": (vision("squeezenet1_1"), (64, 64), ["features.3.expand3x3", "features.7", "features"]),
    "efficientnet_b0": (
        vision("efficientnet_b0"),
        (64, 64),
        ["features.1.0.block.0", "features.1", "features.3"],
    ),
    "regnet": (vision("regnet_x_400mf"), (64, 64), ["trunk_output.block1", "trunk_output.block2.block2-1"]),
    "mnasnet": (vision("mnasnet0_5"), (64, 64), ["layers.8", "layers.9.0.layers.3", "layers.10"]),
    "convnext": (vision("convnext_tiny"), (64, 64), ["features.0", "features.1.1", "features.2"]),
    "fcn": (
        vision("segmentation.fcn_resnet50", weights_backbone=None),
        (65, 65),
        ["backbone.layer1", "backbone.layer3.1.conv2", "classifier.0"],
    ),
    "deeplab": (
        vision("segmentation.deeplabv3_mobilenet_v3_large", weights_backbone=None),
        (65, 65),
        ["backbone.4", "classifier.0.convs.1", "classifier"],
    ),
    "hrnet": (image("hrnet_w18_small"), (64, 64), ["layer1", "stage2.0.branches.1", "stage2"]),
    "res2net": (image("res2net50_26w_4s"), (64, 64), ["layer1.0", "layer1.2.convs.1", "layer2.0"]),
    "tf_efficientnet": (image("tf_efficientnet_lite0"), (64, 64), ["conv_stem", "blocks.1.1", "blocks.2.0"]),
    "unet": (UNet, (64, 60), ["middle", "up2", "join2", "up1", "join1", "bigger", "nearest", "last", ""]),
    "dilated": (Dilated, (64, 60), ["features.1", "features", "wide", "pool", "same", "shuffle", "cubic"]),
}


def check(model, x, paths):
    report = lamina.inspect(model, x, ops=True)
    for path, (middle, spans) in rf_nets.seen(model, x, paths).items():
        row = next(row for row in report.rows if row.path == path)
        assert row.rf_state == "exact", (path, row.rf_axes)
        assert not row.rf_at_most
        assert tuple(report.sees(path, *middle)) == spans, (path, row.rf_axes)
    return report


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_gradients_show(name):
    build, sizes, paths = CASES[name]
    torch.manual_seed(0)
    check(rf_nets.make_positive(build()), torch.rand(1, 3, *sizes, dtype=torch.double), paths)


def test_along_one_axis():
    report = check(
        rf_nets.make_positive(Waves()), torch.rand(1, 2, 200, dtype=torch.double), ["a", "b", "c", "d", ""]
    )
    axis = next(row for row in report.rows if row.path == "c").rf_axes[0]
    assert Fraction(*axis["jump"]) == Fraction(2, 3)


# -- known fields --------------------------------------------------------------------------------------------


def rows(model, *shape, **options):
    report = lamina.inspect(model.eval(), torch.rand(shape), ops=True, **options)
    return {row.path: row for row in report.rows}


def test_resnet18_sees_435():
    torchvision = pytest.importorskip("torchvision")
    told = rows(torchvision.models.resnet18(), 1, 3, 224, 224)
    assert (told["layer4"].rf, told["layer4"].rf_stride, told["layer4"].rf_padding) == (435, 32, 217)
    assert told["avgpool"].rf_whole
    assert told["fc"].rf == 224
    axis = told["layer4"].rf_axes[0]
    assert (axis["axis"], axis["size"], axis["narrow"], axis["paths"]) == (2, 435, 11, True)
    assert (axis["jump"], axis["start"], axis["end"]) == ((32, 1), (-217, 1), (217, 1))


def test_it_is_the_same_under_either_convention():
    model = UNet()
    layers, exact = (rows(model, 1, 3, 64, 60, convention=name) for name in ("layers", "exact"))
    assert [row.rf_axes for row in layers.values()] == [exact[path].rf_axes for path in layers]


def test_attention_sees_everything():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 16)
            self.conv = nn.Conv1d(16, 16, 3, padding=1)
            self.encoder = nn.TransformerEncoderLayer(16, 2, batch_first=True)
            self.head = nn.Linear(16, 10)

        def forward(self, ids):
            return self.head(self.encoder(self.conv(self.embed(ids).transpose(1, 2)).transpose(1, 2)))

    for mode in ("eval", "train"):
        report = lamina.inspect(Model(), torch.zeros(2, 9, dtype=torch.long), mode=mode, ops=True)
        told = {row.path: row for row in report.rows}
        assert (told["embed"].rf, told["conv"].rf) == (1, 3)
        assert (told["encoder"].rf, told["encoder"].rf_whole, told["head"].rf_whole) == (9, True, True)


def test_a_linear_layer_over_features_keeps_positions():
    told = rows(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)), 3, 7, 4)
    assert [told[path].rf for path in ("0", "1", "2", "3")] == [1, 1, 1, 1]
    flat = rows(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2)), 5, 3, 8, 8)
    assert (flat["0"].rf, flat["2"].rf, flat["2"].rf_whole, flat["2"].rf_at_most) == (3, 8, True, False)


def test_statistics_over_positions_see_everything():
    told = rows(nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 3)), 1, 3, 9, 9)
    assert (told["0"].rf, told["1"].rf_whole, told["2"].rf_whole) == (3, True, True)
    norm = rows(nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4)), 1, 3, 9, 9)
    assert norm["1"].rf_whole
    own = rows(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)), 1, 3, 9, 9)
    assert own["1"].rf_whole
    running = rows(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), 1, 3, 9, 9)
    assert running["1"].rf == 3 and not running["1"].rf_whole


class Turned(nn.Module):
    def forward(self, x):
        return x.transpose(2, 3)


def test_an_axis_that_is_whole_before_a_window_goes_along_it_is_told():
    plain = nn.Sequential(nn.Softmax(3), nn.Conv2d(1, 1, 3, padding=1))
    turned = nn.Sequential(nn.Softmax(3), Turned(), nn.ReLU(), nn.Conv2d(1, 1, (3, 1)))
    for net, last, window in ((plain, "1", 3), (turned, "3", 1)):
        row = rows(net, 1, 1, 12, 14)[last]
        told = [(axis["axis"], axis["reach"], axis["size"]) for axis in row.rf_axes]
        assert told == [(2, "window", window), (3, "whole", 14)]
        assert (row.rf, row.rf_whole, row.rf_state) == (14, True, "exact")


def test_axes_differ():
    told = rows(nn.Sequential(nn.Conv2d(3, 4, (3, 5), stride=(1, 2)), nn.MaxPool2d((1, 3))), 1, 3, 32, 64)
    axes = told["1"].rf_axes
    assert [(axis["axis"], axis["size"], axis["jump"]) for axis in axes] == [(2, 3, (1, 1)), (3, 9, (6, 1))]
    assert told["1"].rf == 9


def test_what_is_not_known_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            return self.conv(x).as_strided((1, 4, 3, 3), (144, 36, 6, 1))

    report = lamina.inspect(Model(), torch.rand(1, 3, 8, 8), ops=True)
    root = report.rows[0]
    assert root.rf_state == "unknown"
    assert root.rf_axes[0]["why"].startswith("aten::as_strided ")
    with pytest.raises(ValueError, match="aten::as_strided"):
        report.sees("", 1, 1)
    with pytest.raises(ValueError, match="follows 2 axes"):
        report.sees("conv", 1)
    with pytest.raises(KeyError, match="the graph has no layer"):
        report.sees("nowhere", 1)
    assert report.sees("conv", 5, 5) == [(5, 7), (5, 7)]
    for element in ((6, 0), (0, -1), (0, 1000)):
        with pytest.raises(IndexError, match="has no element"):
            report.sees("conv", *element)


def end_cleared(m, x):
    y = x + 1
    y[:, :, -1] = 0
    return m.conv(y)


def start_filled(m, x):
    y = x + 1
    y[:, :, 0].normal_()
    return m.conv(y)


def put_together(m, x):
    o = x.new_empty(1, 4, 20)
    o[:, :2] = m.wide(x)
    o[:, 2:] = x
    return o


def moved_on(m, x):
    y = x + 0
    y[:, :, 1:] = y[:, :, :-1]
    return m.conv(y)


def two_views(m, x):
    b = x.new_empty(1, 4, 20)
    u, v = b[:, :2], b[:, 2:]
    u.copy_(m.wide(x))
    v.copy_(x)
    return m.conv(u)


def other_view(m, x):
    b = x.new_empty(1, 4, 20)
    u, v = b[:, :2], b[:, 2:]
    u.copy_(m.wide(x))
    v.copy_(x)
    return m.conv(v)


@pytest.mark.parametrize(
    ("forward", "size", "first"),
    [
        (end_cleared, 3, (0, 1)),
        (start_filled, 3, (1, 1)),
        (put_together, 5, (0, 2)),
        (moved_on, 3, (0, 0)),
        (two_views, 7, (0, 3)),
        (other_view, 3, (0, 1)),
    ],
)
def test_what_is_written_into_a_part(forward, size, first):
    net = Calls(forward, conv=nn.Conv1d(2, 2, 3, padding=1), wide=nn.Conv1d(2, 2, 5, padding=2))
    report = lamina.inspect(net.eval(), torch.rand(1, 2, 20), ops=True)
    row = report.rows[0]
    assert (row.rf, row.rf_state, row.rf_at_most) == (size, "exact", False)
    assert report.sees("", 0) == [first]


def test_a_square_that_is_written_turned():
    def turned(m, x):
        b = x.new_empty(x.shape)
        b.transpose(2, 3).copy_(x)
        return m.conv(b)

    row = rows(Calls(turned, conv=nn.Conv2d(2, 2, (3, 5))), 1, 2, 8, 8)[""]
    assert [(axis["axis"], axis["size"]) for axis in row.rf_axes] == [(2, 5), (3, 3)]


def test_a_write_that_is_not_followed_is_a_bound():
    def merged(m, x):
        y = torch.zeros(1, 2, 20)
        y.view(1, 40)[:, 3:23] = x[:, 0]
        return m.conv(y) + m.conv(x)

    row = rows(Calls(merged, conv=nn.Conv1d(2, 2, 3)), 1, 2, 20)[""]
    assert row.rf_at_most
    assert row.rf == 20


@pytest.mark.parametrize("made", [torch.zeros, lambda *shape: torch.rand(shape) / 255])
def test_an_input_that_was_made_while_a_capture_was_open(made):
    net = nn.Conv1d(2, 2, 3, padding=1)
    with lamina.capture(net) as capture:
        net(made(4, 2, 20))
    row = capture.report().rows[0]
    assert (row.rf, row.rf_state) == (3, "exact")


@whole
@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(4, 4),
        nn.GRU(4, 4, bidirectional=True),
        nn.TransformerEncoderLayer(4, 2, 8),
        Calls(lambda m, x: m.attention(x, x, x)[0], attention=nn.MultiheadAttention(4, 2)),
    ],
)
def test_a_sequence_that_comes_first(layer):
    report = lamina.inspect(layer.eval(), torch.rand(9, 2, 4), ops=True)
    (axis,) = report.rows[0].rf_axes
    assert (axis["axis"], axis["size"]) == (0, 9)


@whole
def test_a_recurrence_sees_what_came_before():
    report = lamina.inspect(nn.LSTM(4, 4, batch_first=True), torch.rand(2, 9, 4), ops=True)
    assert [report.sees("", step) for step in (0, 3, 8)] == [[(0, 0)], [(0, 3)], [(0, 8)]]
    last = Calls(
        lambda m, x: m.head(m.lstm(x)[1][0][-1]), lstm=nn.LSTM(4, 4, batch_first=True), head=nn.Linear(4, 2)
    )
    row = rows(last, 2, 9, 4)[""]
    assert (row.rf_whole, row.rf_at_most) == (True, False)


def test_the_narrowest_path_beside_one_that_sees_all():
    def excited(m, x):
        return m.conv(x) * x.mean((2, 3), keepdim=True)

    row = rows(Calls(excited, conv=nn.Conv2d(2, 2, 3, padding=1)), 1, 2, 20, 20)[""]
    assert [(axis["reach"], axis["narrow"], axis["paths"]) for axis in row.rf_axes] == [
        ("whole", 3, True)
    ] * 2


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_factor_is_taken_as_it_was_given(mode):
    class Larger(nn.Module):
        def forward(self, x):
            return F.interpolate(x, scale_factor=1.7, mode=mode)

    x = torch.rand(1, 1, 25, dtype=torch.double, requires_grad=True)
    report, y = lamina.inspect(Larger(), x.detach(), ops=True), Larger()(x)
    for o in range(y.shape[2]):
        (gradient,) = torch.autograd.grad(y[0, 0, o], x, retain_graph=True)
        seen = gradient[0, 0].nonzero().flatten().tolist()
        assert report.sees("", o) == [(seen[0], seen[-1])]


@pytest.mark.parametrize(
    ("layer", "first", "last"),
    [
        (nn.ReflectionPad1d(3), (3, 3), (16, 16)),
        (nn.ReplicationPad1d(3), (0, 0), (19, 19)),
        pytest.param(nn.CircularPad1d(3), (17, 17), (2, 2), marks=whole),
    ],
)
def test_padding_copies_positions(layer, first, last):
    report = lamina.inspect(layer, torch.rand(1, 2, 20), ops=True)
    assert [report.sees("", o) for o in (0, 25)] == [[first], [last]]


@pytest.mark.parametrize(
    ("forward", "at_most"),
    [
        (lambda m, x: m.conv(x).masked_fill(x > 0.5, 0), True),
        (lambda m, x: m.conv(x).gather(2, torch.arange(19, -1, -1).expand(1, 2, 20)), True),
        (lambda m, x: m.conv(x).cumsum(2), False),
        (lambda m, x: torch.fft.rfft(m.conv(x), dim=1).abs(), False),
        (lambda m, x: torch.cat(m.conv(x).split([5, 15], 2)[::-1], 2), False),
    ],
)
def test_what_may_be_less_says_at_most(forward, at_most):
    row = rows(Calls(forward, conv=nn.Conv1d(2, 2, 3, padding=1)), 1, 2, 20)[""]
    assert (row.rf_state, row.rf_at_most) == ("exact", at_most)


@pytest.mark.parametrize(
    "parts",
    [
        lambda y: y.chunk(2, -1),
        lambda y: y.split(11, -1),
        lambda y: y.tensor_split(2, -1),
        lambda y: y[0].hsplit(2),
    ],
)
def test_equal_parts_are_told_apart(parts):
    def gated(m, x):
        first, second = parts(m.conv(x))
        return first * torch.sigmoid(second)

    report = lamina.inspect(Calls(gated, conv=nn.Conv1d(1, 1, 3)), torch.rand(1, 1, 24), ops=True)
    row = report.rows[0]
    assert (row.rf, row.rf_state, row.rf_at_most) == (14, "exact", False)
    assert report.sees("", 0) == [(0, 13)]


@pytest.mark.parametrize(
    ("forward", "size"),
    [
        (lambda m, x: x[..., 1:] - x[..., :-1], 2),
        (lambda m, x: x.cumsum(-1), 24),
        (lambda m, x: x.unfold(-1, 3, 2).sum(-1), 3),
        (lambda m, x: F.layer_norm(x, (24,)), 24),
    ],
)
def test_without_windows_the_axis_along_which_something_moves(forward, size):
    row = rows(Calls(forward), 1, 1, 24)[""]
    assert (row.rf, [axis["axis"] for axis in row.rf_axes]) == (size, [2])


def test_tokens_of_patches_see_their_rows_and_columns():
    class Patches(nn.Module):
        def forward(self, x):
            n, c, h, w = x.shape
            x = x.view(n, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1)
            return x.reshape(n, (h // 4) * (w // 4), 16 * c)

    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), Patches(), nn.Linear(64, 2)).eval()
    report = lamina.inspect(model, torch.rand(2, 3, 16, 16), receptive_field=True)
    row = next(row for row in report.rows if row.path == "2")
    assert (row.rf, row.rf_state, row.rf_at_most) == (6, "exact", False)
    assert [axis["out_axis"] for axis in row.rf_axes] == [1, 1]
    seen = [(0, 4), (3, 8), (7, 12), (11, 15)]
    for token in range(16):
        assert report.sees("2", token, token) == [seen[token // 4], seen[token % 4]]


def test_tables_and_json():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()
    report = lamina.inspect(model, torch.rand(1, 3, 9, 9), ops=True, receptive_field=True)
    assert "9 (all)" in str(report)
    fields = json.loads(report.to_json())["rows"][1]["receptive_fields"]
    assert [field["start"] for field in fields] == [[0, 1], [0, 1]]
    assert [field["size"] for field in fields] == [3, 3]
    without = lamina.inspect(model, torch.rand(1, 3, 9, 9), ops=False)
    assert "receptive_fields" not in json.loads(without.to_json())["rows"][1]
    assert without.rows[1].rf_axes is None


class Picked(nn.Module):
    """Two convolutions of every second position, which is picked by number."""

    def __init__(self, pick):
        super().__init__()
        self.pick, self.at = pick, torch.arange(0, 48, 2)
        self.first, self.second = nn.Conv1d(4, 4, 3), nn.Conv1d(4, 4, 3)

    def forward(self, x):
        return self.second(self.first(self.pick(x, self.at)))


@pytest.mark.parametrize("pick", [lambda x, at: x.index_select(2, at), lambda x, at: x[..., at]])
def test_positions_that_are_picked_by_number_are_along_the_convolutions_axis(pick):
    row = lamina.inspect(Picked(pick), torch.rand(1, 4, 48)).rows[-1]
    assert [(axis["axis"], axis["at_most"]) for axis in row.rf_axes] == [(2, True)]
    assert row.receptive_field == 48  # no more than there are; 5 picked ones, of 9 positions, are right


class Force(nn.Module):
    """Returns, or goes on with, the gradient of an energy by its input."""

    def __init__(self, by, then):
        super().__init__()
        self.energy, self.after, self.by, self.then = nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3), by, then

    def forward(self, x):
        with torch.enable_grad():
            return self.then(self, self.by(lambda x: self.energy(x).tanh().sum(), x))


GRADIENTS_OF = {
    "autograd": lambda function, x: torch.autograd.grad(function(x.requires_grad_()), x, create_graph=True)[
        0
    ],
    "functions": lambda function, x: torch.func.grad(function)(x),
}
THEN = {
    "returned": lambda net, gradient: gradient,
    "negated": lambda net, gradient: -gradient,
    "a layer": lambda net, gradient: net.after(gradient),
}


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("by", GRADIENTS_OF)
@pytest.mark.parametrize("then", THEN)
def test_what_a_gradient_in_the_forward_depends_on_is_not_known(then, by, dry):
    """Autograd saves what its operators read, so the way to the input is not seen."""
    report = lamina.inspect(Force(GRADIENTS_OF[by], THEN[then]), torch.rand(1, 2, 9), dry=dry)
    states = {row.path: (row.rf, row.rf_state) for row in report.rows}
    assert states["energy"] == (3, "exact")
    assert all(state != "exact" for path, (_, state) in states.items() if path != "energy")


@pytest.mark.parametrize("again", [False, True])
def test_a_checkpoint_repeats_fields_too(again):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Sequential(nn.Conv1d(2, 2, 3), nn.ReLU(), nn.Conv1d(2, 2, 3))

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.part, x, use_reentrant=again)

    rows = lamina.inspect(Net(), torch.rand(1, 2, 9, requires_grad=True), backward=True).rows
    fields = {"": 5, "part": 5, "part.0": 3, "part.1": 3, "part.2": 5}
    assert all((row.rf, row.rf_state) == (fields[row.path], "exact") for row in rows)
    assert len(rows) > len(fields)


def test_fields_of_the_steps_of_a_training_are_those_of_the_first():
    net = nn.Sequential(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2), nn.Conv1d(2, 2, 3))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with lamina.capture(net) as capture:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.rand(3, 2, 9)).square().mean().backward()
            optimizer.step()
    rows = [(row.path, row.rf, row.rf_state) for row in capture.report().rows[:8]]
    assert rows == 2 * [("", 5, "exact"), ("0", 3, "exact"), ("1", 3, "exact"), ("2", 5, "exact")]
