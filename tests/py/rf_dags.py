# SPDX-License-Identifier: Apache-2.0
"""Random networks that are no chains, and what each element of each of their tensors really depends on.

A network is drawn from a seed: a list of nodes, each a module that reads tensors that are there. What an
element depends on is found by running it: a position of the input is changed, and all elements that change
with it depend on it; a position is made NaN, and no element that stays a number can depend on it.
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn

CHANNELS = 4


class Node(nn.Module):
    """One step. ``work`` reads the tensors that are handed to it, ``kept`` are its layers."""

    def __init__(self, name, work, *kept):
        super().__init__()
        self.name, self.work = name, work
        self.kept = nn.ModuleList(kept)

    def forward(self, *tensors):
        return self.work(*self.kept, *tensors)


class Dag(nn.Module):
    """``reads[i]``: which tensors node i reads, 0 the input and k what node k - 1 gave."""

    def __init__(self, nodes, reads):
        super().__init__()
        self.nodes, self.reads = nn.ModuleList(nodes), reads

    def forward(self, x):
        there = [x]
        for node, reads in zip(self.nodes, self.reads, strict=True):
            there.append(node(*(there[i] for i in reads)))
        return there[-1]

    def __str__(self):
        return "; ".join(f"{k + 1}={node.name}{self.reads[k]}" for k, node in enumerate(self.nodes))


def conv(rng, shape):
    kernel = [rng.choice((1, 3, 3, 5)) for _ in range(2)]
    dilation = rng.choice((1, 1, 2))
    mode = rng.choice(("zeros", "zeros", "circular", "reflect", "replicate"))
    padding = [dilation * (k - 1) // 2 for k in kernel]
    groups = rng.choice((1, 1, CHANNELS))
    stride = rng.choice((1, 1, 2))
    return nn.Conv2d(
        CHANNELS, CHANNELS, kernel, stride, padding, dilation, groups, padding_mode=mode
    ), f"conv{kernel}d{dilation}s{stride}{mode}g{groups}"


def layer(make):
    """A node that runs one layer."""

    def node(rng, shape):
        it, name = make(rng, shape)
        return name, lambda it, x: it(x), [it]

    return node


def plain(name, work):
    """A node without layers or choices."""
    return lambda rng, shape: (name, work, [])


def mean_like(it, x):
    return it(x) * x.mean((2, 3), keepdim=True)


def pools(rng, shape):
    kind = rng.choice((nn.MaxPool2d, nn.AvgPool2d))
    return kind(3, 2, 1), kind.__name__


def transposed(rng, shape):
    k, s = rng.choice(((2, 2), (3, 2), (3, 1), (4, 3), (1, 3)))
    dilation, padding, more = rng.choice((1, 1, 2)), rng.randint(0, min(1, k - 1)), rng.randrange(s)
    return nn.ConvTranspose2d(
        CHANNELS, CHANNELS, k, s, padding=padding, output_padding=more, dilation=dilation
    ), f"transposed{k}s{s}p{padding}+{more}d{dilation}"


def resize(rng, shape):
    factor = rng.choice((0.6, 1.3, 1.7, 2, 0.5))
    mode = rng.choice(("nearest", "nearest-exact", "bilinear", "bicubic"))
    return f"resize{factor}{mode}", lambda x: F.interpolate(x, scale_factor=factor, mode=mode), []


def resize_to(rng, shape):
    size = (rng.randint(5, 14), rng.randint(5, 14))
    corners = rng.choice((True, False))
    return f"resize_to{size}", lambda x: F.interpolate(x, size, mode="bilinear", align_corners=corners), []


def adaptive(rng, shape):
    size = (rng.randint(3, 9), rng.randint(3, 9))
    return f"adaptive{size}", lambda x: F.adaptive_avg_pool2d(x, size), []


def padded(rng, shape):
    mode = rng.choice(("constant", "reflect", "replicate", "circular"))
    pad = [rng.randint(0, 2) for _ in range(4)]
    return f"pad{mode}{pad}", lambda x: F.pad(x, pad, mode=mode), []


def sliced(rng, shape):
    a, step, b, pace = rng.randint(0, 2), rng.choice((1, 1, 2)), rng.randint(0, 2), rng.choice((1, 2, 3))
    return f"slice{a}:{step},{b}:{pace}", lambda x: x[:, :, a::step, b::pace], []


def rolled(rng, shape):
    by, axis = rng.randint(-3, 3), rng.choice((2, 3))
    return f"roll{by}along{axis}", lambda x: x.roll(by, axis), []


def rolled_in_one_row(rng, shape):
    by = rng.randint(-3, 3)
    return f"rolled_in_one_row{by}", lambda x: x.flatten(1).roll(by, 1).view(x.shape), []


def flipped(rng, shape):
    axis = rng.choice((2, 3))
    return f"flip{axis}", lambda x: x.flip(axis), []


def filled(rng, shape):
    """A part is overwritten by what depends on nothing."""
    axis, end, how = rng.choice((2, 3)), rng.choice((0, -1)), rng.choice(("set", "zero", "normal", "fill"))

    def work(x):
        y = x + 1
        part = y.select(axis, end)
        if how == "set":
            y[(slice(None),) * axis + (end,)] = 0.5
        elif how == "zero":
            part.zero_()
        elif how == "normal":
            part.copy_(torch.linspace(0, 1, part.numel() // len(y)).view(part.shape[1:]))
        else:
            part.fill_(0.25)
        return y

    return f"filled{axis}{how}{end}", work, []


def in_parts(rng, shape):
    """A buffer that two branches write."""
    it, name = conv(rng, shape)
    it.stride = (1, 1)

    def work(it, x):
        y = it(x)
        o = torch.empty_like(y)
        o[:, :2] = y[:, :2]
        o[:, 2:] = x[:, 2:]
        return o

    return f"in_parts({name})", work, [it]


def rows_in_parts(rng, shape):
    it, name = conv(rng, shape)
    it.stride = (1, 1)
    at = rng.randint(1, 3)

    def work(it, x):
        o = x.new_zeros(x.shape)
        o[:, :, :at] = it(x)[:, :, :at]
        o[:, :, at:] = x[:, :, at:]
        return o

    return f"rows_in_parts({name})", work, [it]


def shifted(rng, shape):
    axis = rng.choice((2, 3))

    def work(x):
        y = x + 0
        if axis == 2:
            y[:, :, 1:] = x[:, :, :-1]
        else:
            y[..., 1:] = y[..., :-1].clone()
        return y

    return f"shifted{axis}", work, []


def views_before(rng, shape):
    it, name = conv(rng, shape)
    it.stride = (1, 1)
    which = rng.choice((0, 1, 2))

    def work(it, x):
        b = x.new_empty(x.shape)
        u, v = b[:, :2], b[:, 2:]
        u.copy_(it(x)[:, :2])
        v.copy_(x[:, 2:])
        return b if which == 2 else torch.cat([(u, v)[which]] * 2, 1)

    return f"views_before{which}({name})", work, [it]


def turned_write(rng, shape):
    """What is written through a transposed view."""

    def work(x):
        n = min(x.shape[2:])
        x = x[:, :, :n, :n]
        b = x.new_zeros(x.shape)
        b.transpose(2, 3).copy_(x)
        return b + 0

    return "turned_write", work, []


def split_rows(rng, shape):
    axis = rng.choice((2, 3))

    def work(x):
        a, b = x.split([x.shape[axis] - 2, 2], axis)
        return a * 2 + b.sum(axis, keepdim=True) if axis == 2 else torch.cat([b, a], axis)

    return f"split_rows{axis}", work, []


def split_channels(rng, shape):
    it, name = conv(rng, shape)

    def work(it, x):
        a, b = x.chunk(2, 1)
        return it(torch.cat([b, a.relu()], 1))

    return f"split_channels({name})", work, [it]


def unbound(rng, shape):
    def work(x):
        parts = x.unbind(1)
        return torch.stack([parts[i] * (i + 1) for i in (2, 0, 1, 3)], 1)

    return "unbound", work, []


def recurrent(rng, shape):
    """Sequence first: the columns of one row are a sequence."""
    it = nn.LSTM(CHANNELS, CHANNELS) if rng.random() < 0.5 else nn.GRU(CHANNELS, CHANNELS)

    def work(it, x):
        n, c, h, w = x.shape
        y, _ = it(x.permute(3, 0, 2, 1).reshape(w, n * h, c))
        return y.view(w, n, h, c).permute(1, 3, 2, 0)

    return "recurrent", work, [it]


def attention(rng, shape):
    it = nn.MultiheadAttention(CHANNELS, 2)

    def work(it, x):
        n, c, h, w = x.shape
        s = x.permute(3, 0, 2, 1).reshape(w, n * h, c)
        y, _ = it(s, s, s, need_weights=rng_weights)
        return y.view(w, n, h, c).permute(1, 3, 2, 0)

    rng_weights = rng.choice((True, False))
    return "attention", work, [it]


def waves(rng, shape):
    axis = rng.choice((2, 3))
    return f"waves{axis}", lambda x: torch.fft.rfft(x, dim=axis).abs(), []


def as_complex(rng, shape):
    def work(x):
        z = torch.view_as_complex(torch.stack([x, x.flip(2)], -1))
        return torch.view_as_real(z * (1 + 1j)).sum(-1)

    return "as_complex", work, []


def folded(rng, shape):
    k, step, dilation = rng.choice((2, 3)), rng.choice((1, 2, 3)), rng.choice((1, 1, 2))
    how = {"kernel_size": k, "stride": step, "padding": 1, "dilation": dilation}
    return f"folded{how}", lambda x: F.fold(F.unfold(x, **how) * 2, x.shape[2:], **how), []


def windows_as_channels(rng, shape):
    step = rng.choice((1, 2))

    def work(x):
        rows, columns = ((n - 2) // step + 1 for n in x.shape[2:])
        return F.unfold(x[:, 1:2], 2, stride=step).view(len(x), CHANNELS, rows, columns)

    return f"windows_as_channels{step}", work, []


def interleaved(rng, shape):
    """Even and odd elements along an axis are taken apart and put together again."""
    axis = rng.choice((2, 3))
    how = rng.choice(("again", "odd first", "after each other"))

    def work(x):
        n = x.shape[axis] // 2
        even, odd = (x.narrow(axis, 0, 2 * n).unflatten(axis, (n, 2)).select(axis + 1, i) for i in (0, 1))
        if how == "after each other":
            return torch.stack([even, odd], axis).flatten(axis, axis + 1)
        return torch.stack([even, odd] if how == "again" else [odd, even], axis + 1).flatten(axis, axis + 1)

    return f"interleaved{axis} {how}", work, []


def stacked(rng, shape):
    axis, at, by = rng.choice((2, 3)), rng.choice((0, 1)), rng.randint(1, 3)

    def work(x):
        return torch.stack([x, x.roll(by, axis) * 2], axis + at).flatten(axis, axis + 1)

    return f"stacked{axis}at{at}roll{by}", work, []


def unfolded(rng, shape):
    axis, size, step = rng.choice((2, 3)), rng.choice((2, 3)), rng.choice((1, 2, 3))
    flat = rng.choice((True, False))

    def work(x):
        windows = x.unfold(axis, size, step)
        return windows.movedim(-1, axis + 1).flatten(axis, axis + 1) if flat else windows.mean(-1)

    return f"unfolded{axis}size{size}step{step}{'flat' if flat else 'mean'}", work, []


def pixels(rng, shape):
    def up(x):
        return F.pixel_shuffle(torch.cat([x, x.flip(2), x.flip(3), x.roll(1, 2)], 1), 2)

    def down(x):
        h, w = (n // 2 * 2 for n in x.shape[2:])
        return F.pixel_unshuffle(x[:, :1, :h, :w], 2)

    return rng.choice((("pixels_up", up, []), ("pixels_down", down, [])))


def viewed(rng, shape):
    """Rows, columns and channels in another shape."""

    def turned(x):
        return x.flatten(2).view(len(x), CHANNELS, x.shape[3], x.shape[2])

    def rows_to_channels(x):
        return x[:, :, : x.shape[2] // 2 * 2].reshape(len(x), 2 * CHANNELS, -1, x.shape[3])[
            :, 1 : 1 + CHANNELS
        ]

    def channels_to_rows(x):
        return x.repeat(1, 2, 1, 1).reshape(len(x), CHANNELS, -1, x.shape[3])

    def dealt(x):
        n = x.shape[2] // 2 * 2
        return x[:, :, :n].unflatten(2, (2, n // 2)).transpose(2, 3).flatten(2, 3)

    work = rng.choice((turned, rows_to_channels, channels_to_rows, dealt))
    return f"viewed_{work.__name__}", work, []


def channels(rng, shape):
    return rng.choice(
        (
            ("channels_shuffled", lambda x: F.channel_shuffle(x, 2), []),
            ("channels_swapped", lambda x: torch.cat([x[:, 2:], x[:, :2].flip(2)], 1), []),
        )
    )


def along(rng, shape):
    """Operators along one axis."""
    axis = rng.choice((2, 3))
    name, work = rng.choice(
        (
            ("diff", lambda x: x.diff(dim=axis)),
            ("glu", lambda x: F.glu(torch.cat([x, x.roll(1, axis)], axis), axis)),
            ("half", lambda x: x.chunk(2, axis)[1]),
            ("thrice", lambda x: x[:, :, :7, :7].repeat_interleave(3, axis)),
            ("normalized", lambda x: F.normalize(x, dim=axis)),
            ("cummax", lambda x: x.cummax(axis)[0]),
            ("sorted", lambda x: x.sort(axis)[0]),
            ("every_second", lambda x: x.index_select(axis, torch.arange(0, x.shape[axis], 2))),
            ("mirrored_where", lambda x: torch.where(x > 0.5, x, x.flip(axis))),
            ("one_of_all", lambda x: x.select(axis, 1).unsqueeze(axis).expand_as(x)),
            ("unbound", lambda x: torch.stack(x.unbind(axis)[::-1], axis)),
        )
    )
    return f"{name}{axis}", work, []


def turned(rng, shape):
    """Both axes at once."""
    name, work = rng.choice(
        (
            ("rot90", lambda x: x.rot90(1, (2, 3))),
            ("tril", lambda x: x.tril()),
            ("diagonal", lambda x: x.diagonal(dim1=2, dim2=3).unsqueeze(2).expand(-1, -1, 5, -1)),
            ("cut", lambda x: F.pad(x, (-1, 2, 1, -2))),
            ("causal", lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
            (
                "other_strides",
                lambda x: x.contiguous().as_strided((len(x), CHANNELS, 5, 5), x.contiguous().stride()),
            ),
        )
    )
    return name, work, []


def gathered(rng, shape):
    def work(x):
        index = torch.arange(x.shape[2] - 1, -1, -1).view(1, 1, -1, 1).expand(x.shape)
        return x.gather(2, index)

    return "gathered", work, []


def scattered(rng, shape):
    def work(x):
        index = torch.zeros_like(x[:, :, :1], dtype=torch.long)
        return x.scatter(2, index, x[:, :, -1:])

    return "scattered", work, []


def summed(rng, shape):
    axis = rng.choice((2, 3))
    return f"summed{axis}", lambda x: x.cumsum(axis), []


def stacked_axis(rng, shape):
    axis = rng.choice((2, 3))
    return f"beside{axis}", lambda x: torch.cat([x, x.flip(axis) * 2], axis), []


def shuffled(rng, shape):
    return "shuffled", lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), []


def linear_over(rng, shape):
    return "last_axis", lambda x: x @ torch.linspace(-1, 1, x.shape[3] ** 2).view(x.shape[3], -1), []


def instance(rng, shape):
    return nn.InstanceNorm2d(CHANNELS, track_running_stats=rng.random() < 0.5), "instance_norm"


def norm(rng, shape):
    return rng.choice(((nn.BatchNorm2d(CHANNELS), "batch_norm"), (nn.GroupNorm(2, CHANNELS), "group_norm")))


ONE = [
    *[layer(conv)] * 8,
    *[layer(pools)] * 2,
    layer(transposed),
    layer(instance),
    layer(norm),
    plain("relu", lambda x: F.gelu(x)),
    plain("softmax", lambda x: x.softmax(3)),
    plain("layer_norm", lambda x: F.layer_norm(x, x.shape[3:])),
    plain("turned", lambda x: x.transpose(2, 3).contiguous()),
    plain("masked", lambda x: x.masked_fill(torch.eye(x.shape[2], x.shape[3], dtype=torch.bool), 0.0)),
    plain("repeated", lambda x: x[:, :, :6, :6].repeat(1, 1, 2, 1)),
    lambda rng, shape: ("excited", mean_like, [conv(rng, shape)[0]]),
    *(resize, resize_to, adaptive, padded, sliced, rolled, flipped, filled, in_parts, rows_in_parts, shifted),
    *(views_before, turned_write, split_rows, split_channels, unbound, recurrent, attention, waves),
    *(as_complex, folded, gathered, scattered, summed, stacked_axis, shuffled, linear_over),
    *(
        windows_as_channels,
        rolled_in_one_row,
        interleaved,
        stacked,
        unfolded,
        pixels,
        viewed,
        channels,
        along,
        along,
        turned,
    ),
]


def fit(a, b):
    return a + F.interpolate(b, a.shape[2:], mode="nearest")


def beside(it, a, b):
    h, w = min(a.shape[2], b.shape[2]), min(a.shape[3], b.shape[3])
    return it(torch.cat([a[:, :, :h, :w], b[:, :, :h, :w]], 1))


TWO = [
    ("add", lambda a, b: a + b if a.shape == b.shape else fit(a, b), list),
    ("crop", lambda a, b: a[:, :, :3, :3] - b[:, :, -3:, -3:], list),
    ("cat", beside, lambda: [nn.Conv2d(2 * CHANNELS, CHANNELS, 1)]),
    ("times", lambda a, b: a * b.mean((2, 3), keepdim=True), list),
]


def draw(seed: int) -> tuple[Dag, torch.Tensor]:
    """A network, and an input that it runs on."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.rand(1, CHANNELS, rng.randint(8, 11), rng.randint(8, 11), dtype=torch.double)
    there, nodes, reads = [x], [], []
    goal = rng.randint(3, 7)
    while len(nodes) < goal:
        read = [rng.choice((len(there) - 1, rng.randrange(len(there))))]
        if len(there) > 2 and rng.random() < 0.25:
            read.append(rng.randrange(len(there)))
            name, work, kept = rng.choice(TWO)
            node = Node(name, work, *kept())
        else:
            name, work, kept = rng.choice(ONE)(rng, there[read[0]].shape)
            node = Node(name, work, *kept)
        node = node.double().eval()
        try:
            with torch.no_grad():
                y = node(*(there[i] for i in read))
        except (RuntimeError, ValueError):
            continue  # too small for this window or padding
        if min(y.shape[2:]) < 3 or max(y.shape[2:]) > 24 or y.shape[1] != CHANNELS:
            continue
        nodes.append(node)
        reads.append(tuple(read))
        there.append(y)
    return Dag(nodes, reads), x


def depends(net: Dag, x: torch.Tensor) -> list[tuple[tuple[torch.Tensor, torch.Tensor], ...]]:
    """For each node, and for each of the input's last two axes: which of its positions change an element, and
    which may. Each tensor is of (positions, channels, rows, columns of the node's result)."""
    places = [(axis, i) for axis in (2, 3) for i in range(x.shape[axis])]
    many = x.repeat(1 + 3 * len(places), 1, 1, 1)
    noise = torch.Generator().manual_seed(1)
    for k, (axis, i) in enumerate(places):
        for row, way in ((1 + 3 * k, "more"), (2 + 3 * k, "less"), (3 + 3 * k, "nan")):
            part = many[row].select(axis - 1, i)
            part += torch.rand(part.shape, generator=noise, dtype=x.dtype) * (4 if way == "more" else -4)
            if way == "nan":
                part.fill_(float("nan"))
    found = []
    handles = [node.register_forward_hook(lambda m, a, y: found.append(y.detach())) for node in net.nodes]
    with torch.no_grad():
        net(many)
    for handle in handles:
        handle.remove()
    told = []
    for y in found:
        changed = ((y[1:] - y[:1]).abs() > 1e-12).view(len(places), 3, *y.shape[1:])
        does = changed[:, :2].any(1)
        may = does | y[1:].isnan().view(len(places), 3, *y.shape[1:])[:, 2]
        told.append(((does[: x.shape[2]], may[: x.shape[2]]), (does[x.shape[2] :], may[x.shape[2] :])))
    return told
