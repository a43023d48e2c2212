# SPDX-License-Identifier: Apache-2.0
"""Small nets of kinds that the corpus does not have, which other tools counted (tests/data/tools.json)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

NETS: dict[str, tuple[Any, Any]] = {}  # a name's builder of a net, and of its arguments


class Plain(nn.Module):
    """Children by name, and a forward that is a function."""

    def __init__(self, run, **children):
        super().__init__()
        self.run = run
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *args, **named):
        return self.run(self, *args, **named)


def net(name, *shapes):
    """The function that follows builds a net for tensors of these shapes; an int n is that many words."""

    def put(build):
        def args():
            return tuple(
                torch.randint(0, 20, shape[1:]) if shape[0] == "ids" else torch.rand(shape)
                for shape in shapes
            )

        NETS[name] = build, args
        return build

    return put


def weight(*shape):
    return nn.Parameter(torch.randn(shape) / 10)


# -- convolutions --------------------------------------------------------------------------------------------


@net("grouped", (2, 8, 12, 12))
def grouped():
    return nn.Sequential(
        nn.Conv2d(8, 16, 3, groups=4),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.Conv2d(16, 16, 5, groups=16, padding=2, bias=False),
        nn.Conv2d(16, 32, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 5),
    )


@net("dilated", (1, 3, 20, 14))
def dilated():
    return nn.Sequential(
        nn.Conv2d(3, 6, (3, 2), dilation=(3, 1), stride=(2, 1), bias=False),
        nn.BatchNorm2d(6),
        nn.Hardswish(),
        nn.Conv2d(6, 4, 3, dilation=2, padding=2),
        nn.MaxPool2d(3, 2, 1),
    )


@net("transposed", (2, 6, 7, 5))
def transposed():
    return nn.Sequential(
        nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1, groups=2),
        nn.BatchNorm2d(4),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(4, 2, 4, padding=1, dilation=2, bias=False),
        nn.Tanh(),
    )


@net("transposed_1d_3d", (1, 4, 4, 4, 4))
def transposed_1d_3d():
    return Plain(
        lambda m, x: m.line(m.solid(x).flatten(2)),
        solid=nn.ConvTranspose3d(4, 2, 3, stride=2),
        line=nn.ConvTranspose1d(2, 3, 4, stride=3),
    )


@net("causal_1d", (2, 4, 30))
def causal_1d():
    return nn.Sequential(
        nn.ConstantPad1d((4, 0), 0.0),
        nn.Conv1d(4, 16, 3, dilation=2),
        nn.GLU(1),
        nn.BatchNorm1d(8),
        nn.Conv1d(8, 8, 3, stride=2, groups=8),
        nn.AvgPool1d(2),
        nn.ELU(),
    )


@net("solid", (1, 2, 8, 9, 10))
def solid():
    return nn.Sequential(
        nn.Conv3d(2, 6, (1, 3, 3), groups=2),
        nn.BatchNorm3d(6),
        nn.ReLU6(),
        nn.MaxPool3d(2),
        nn.Conv3d(6, 3, 2, padding=1, bias=False),
        nn.AdaptiveAvgPool3d((1, 2, 2)),
    )


@net("same", (1, 3, 10, 11))
def same():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding="same"), nn.ReLU(), nn.Conv2d(8, 4, 5, padding="valid", bias=False)
    )


@net("same_even", (1, 3, 24))
def same_even():
    return nn.Sequential(nn.Conv1d(3, 8, 4, padding="same", dilation=2), nn.Conv1d(8, 4, 2, padding="same"))


@net("reflected", (1, 3, 9, 9))
def reflected():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.ReflectionPad2d(2),
        nn.Conv2d(4, 4, 3, padding=(1, 0), padding_mode="replicate"),
        nn.ZeroPad2d(1),
    )


@net("one_image", (3, 9, 9))
def one_image():
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 2, 2))


@net("bare_convolutions", (2, 3, 16))
def bare_convolutions():
    def run(m, x):
        y = F.conv1d(x, m.a, m.b, stride=2)
        y = F.conv_transpose1d(y, m.c, padding=1)
        return F.conv2d(y.unsqueeze(1), m.d, groups=1, padding="same")

    return Plain(run, a=weight(6, 3, 3), b=weight(6), c=weight(6, 4, 4), d=weight(2, 1, 3, 3))


@net("inverted_residual", (1, 8, 10, 10))
def inverted_residual():
    def run(m, x):
        y = m.deep(m.wide(x))
        gate = torch.sigmoid(m.up(F.relu(m.down(F.adaptive_avg_pool2d(y, 1)))))
        return x + m.narrow(y * gate)

    return Plain(
        run,
        wide=nn.Sequential(nn.Conv2d(8, 24, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU()),
        deep=nn.Sequential(nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.BatchNorm2d(24), nn.SiLU()),
        down=nn.Conv2d(24, 4, 1),
        up=nn.Conv2d(4, 24, 1),
        narrow=nn.Conv2d(24, 8, 1),
    )


@net("unfolded", (2, 3, 8, 8))
def unfolded():
    def run(m, x):
        columns = F.unfold(x, 3, padding=1)
        y = m.w @ columns
        return F.fold(m.back.t() @ y, 8, 3, padding=1)

    return Plain(run, w=weight(5, 27), back=weight(5, 27))


# -- recurrence ----------------------------------------------------------------------------------------------


@net("lstm_projected", (5, 2, 6))
def lstm_projected():
    return Plain(
        lambda m, x: m.out(m.rnn(x)[0]),
        rnn=nn.LSTM(6, 8, 2, proj_size=4, bidirectional=True),
        out=nn.Linear(8, 3),
    )


@net("gru_stack", (2, 7, 6))
def gru_stack():
    return Plain(
        lambda m, x: m.b(m.a(x)[0])[1],
        a=nn.GRU(6, 8, 2, batch_first=True, dropout=0.2),
        b=nn.GRU(8, 4, batch_first=True, bias=False, bidirectional=True),
    )


@net("rnn_relu", (4, 2, 6))
def rnn_relu():
    return Plain(
        lambda m, x: m.b(m.a(x)[0])[0], a=nn.RNN(6, 5, nonlinearity="relu"), b=nn.RNN(5, 4, 2, bias=False)
    )


@net("gru_cells", (4, 2, 6))
def gru_cells():
    def run(m, x):
        h = m.start.expand(2, 5)
        for step in x:
            h = m.cell(step, h)
        return h

    return Plain(run, cell=nn.GRUCell(6, 5), start=weight(5))


@net("rnn_cells", (4, 2, 6))
def rnn_cells():
    def run(m, x):
        h = torch.zeros(2, 5)
        for step in x:
            h = m.second(m.cell(step, h))
        return h

    return Plain(run, cell=nn.RNNCell(6, 5), second=nn.RNNCell(5, 5, bias=False, nonlinearity="relu"))


@net("lstm_unbatched", (5, 6))
def lstm_unbatched():
    return Plain(lambda m, x: m.rnn(x)[0], rnn=nn.LSTM(6, 4))


@net("lstm_packed", (2, 5, 6))
def lstm_packed():
    def run(m, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
        return m.out(nn.utils.rnn.pad_packed_sequence(m.rnn(packed)[0], batch_first=True)[0])

    return Plain(run, rnn=nn.LSTM(6, 4, batch_first=True), out=nn.Linear(4, 2))


# -- attention -----------------------------------------------------------------------------------------------


@net("cross_attention", (2, 5, 8), (2, 7, 6))
def cross_attention():
    return Plain(
        lambda m, x, y: m.mha(x, y, y)[0], mha=nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
    )


@net("causal_attention", (2, 5, 8))
def causal_attention():
    def run(m, x):
        mask = nn.Transformer.generate_square_subsequent_mask(5)
        return m.mha(x, x, x, attn_mask=mask, need_weights=False, is_causal=True)[0]

    return Plain(run, mha=nn.MultiheadAttention(8, 4, batch_first=True, dropout=0.1))


@net("kernel_attention", (2, 6, 8))
def kernel_attention():
    def run(m, x):
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in m.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return m.out(y.transpose(1, 2).flatten(2))

    return Plain(run, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))


@net("grouped_queries", (2, 6, 8))
def grouped_queries():
    def run(m, x):
        q = m.q(x).unflatten(-1, (4, 2)).transpose(1, 2)
        k, v = (t.unflatten(-1, (2, 2)).transpose(1, 2) for t in m.kv(x).chunk(2, -1))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return m.out(y.transpose(1, 2).flatten(2))

    return Plain(run, q=nn.Linear(8, 8), kv=nn.Linear(8, 8), out=nn.Linear(8, 8, bias=False))


@net("written_attention", (2, 6, 8))
def written_attention():
    def run(m, x):
        q, k, v = m.q(x), m.k(x), m.v(x)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(8)
        scores = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf"))
        return m.drop(F.softmax(scores, dim=-1)).bmm(v)

    return Plain(
        run, q=nn.Linear(8, 8), k=nn.Linear(8, 8), v=nn.Linear(8, 8, bias=False), drop=nn.Dropout(0.1)
    )


@net("einsum_heads", (2, 6, 8))
def einsum_heads():
    def run(m, x):
        q = torch.einsum("bne,ehd->bhnd", x, m.q)
        k = torch.einsum("bne,ehd->bhnd", x, m.k)
        a = F.softmax(torch.einsum("bhnd,bhmd->bhnm", q, k), dim=-1)
        return torch.einsum("bhnm,bmd->bnhd", a, x)

    return Plain(run, q=weight(8, 2, 4), k=weight(8, 2, 4))


@net("functional_attention", (5, 2, 8))
def functional_attention():
    def run(m, x):
        return F.multi_head_attention_forward(
            x, x, x, 8, 2, m.inw, m.inb, None, None, False, 0.0, m.outw, m.outb, training=m.training
        )[0]

    return Plain(run, inw=weight(24, 8), inb=weight(24), outw=weight(8, 8), outb=weight(8))


@net("linear_attention", (2, 6, 8))
def linear_attention():
    def run(m, x):
        q, k = F.elu(m.q(x)) + 1, F.elu(m.k(x)) + 1
        state = torch.matmul(k.transpose(1, 2), m.v(x))
        return torch.matmul(q, state) / (q * k.sum(1, keepdim=True)).sum(-1, keepdim=True)

    return Plain(run, q=nn.Linear(8, 8), k=nn.Linear(8, 8), v=nn.Linear(8, 8))


@net("encoder_pre_norm", (2, 5, 8))
def encoder_pre_norm():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)


@net("decoder_layer", (5, 2, 8), (7, 2, 8))
def decoder_layer():
    return nn.TransformerDecoderLayer(8, 2, 16, activation="gelu")


@net("transformer", (2, 5, 8), (2, 4, 8))
def transformer():
    return nn.Transformer(8, 2, 1, 2, 16, dropout=0.0, batch_first=True)


# -- words ---------------------------------------------------------------------------------------------------


@net("words", ("ids", 2, 6))
def words():
    return Plain(
        lambda m, x: m.out(m.norm(m.table(x)).mean(1)),
        table=nn.Embedding(20, 8, padding_idx=0),
        norm=nn.LayerNorm(8),
        out=nn.Linear(8, 3),
    )


@net("bags", ("ids", 12))
def bags():
    return Plain(
        lambda m, x: m.out(m.table(x, torch.tensor([0, 5, 7]))),
        table=nn.EmbeddingBag(20, 8, mode="sum"),
        out=nn.Linear(8, 3),
    )


@net("tied_words", ("ids", 2, 6))
def tied_words():
    return Plain(
        lambda m, x: F.linear(torch.tanh(m.mix(F.embedding(x, m.table))), m.table),
        mix=nn.Linear(8, 8),
        table=weight(20, 8),
    )


@net("one_hot", ("ids", 2, 6))
def one_hot():
    return Plain(lambda m, x: torch.matmul(F.one_hot(x, 20).float(), m.table), table=weight(20, 8))


# -- norms ---------------------------------------------------------------------------------------------------


@net("norms", (2, 6, 8))
def norms():
    return nn.Sequential(
        nn.LayerNorm((6, 8)),
        nn.LayerNorm(8, elementwise_affine=False),
        nn.RMSNorm(8),
        nn.GroupNorm(3, 6, affine=False),
        nn.InstanceNorm1d(6, affine=True, track_running_stats=True),
        nn.BatchNorm1d(6, affine=False),
    )


@net("bare_norms", (2, 6, 8))
def bare_norms():
    def run(m, x):
        x = F.layer_norm(x, (8,), m.w, m.b)
        x = F.group_norm(x, 2)
        x = F.batch_norm(x, m.mean, m.var, training=m.training)
        return F.normalize(F.instance_norm(x), dim=-1)

    return Plain(run, w=weight(8), b=weight(8), mean=nn.Buffer(torch.zeros(6)), var=nn.Buffer(torch.ones(6)))


@net("response_norm", (1, 6, 7, 7))
def response_norm():
    return nn.Sequential(nn.Conv2d(6, 6, 3), nn.LocalResponseNorm(3), nn.Conv2d(6, 2, 1))


# -- functions -----------------------------------------------------------------------------------------------


@net("functional", (2, 3, 12, 12))
def functional():
    def run(m, x):
        x = F.max_pool2d(F.relu(F.conv2d(x, m.a, m.b, padding=1)), 2)
        x = F.avg_pool2d(F.leaky_relu(x), 2)
        x = F.adaptive_avg_pool2d(F.dropout(x, training=m.training), 1).flatten(1)
        return F.log_softmax(F.linear(F.gelu(x), m.c), dim=1)

    return Plain(run, a=weight(6, 3, 3, 3), b=weight(6), c=weight(4, 6))


@net("methods", (2, 8))
def methods():
    def run(m, x):
        x = m.fc(x).relu().sigmoid() * m.fc(x).tanh()
        return x.exp().log().sqrt().softmax(-1)

    return Plain(run, fc=nn.Linear(8, 8))


@net("activations", (2, 6, 8))
def activations():
    return nn.Sequential(
        nn.ELU(),
        nn.CELU(),
        nn.SELU(),
        nn.GELU(),
        nn.Mish(),
        nn.Hardtanh(),
        nn.Hardsigmoid(),
        nn.Softplus(),
        nn.PReLU(6),
        nn.Sigmoid(),
        nn.LogSigmoid(),
        nn.Softsign(),
        nn.Threshold(0.1, 0.0),
        nn.RReLU(),
        nn.Softmax(-1),
        nn.LogSoftmax(1),
    )


@net("bare_activations", (2, 6, 8))
def bare_activations():
    def run(m, x):
        x = F.elu(F.silu(F.relu6(F.prelu(x, m.w))))
        x = F.hardswish(F.mish(F.softplus(F.hardtanh(x))))
        return F.softmax(F.hardsigmoid(F.celu(F.selu(x))), dim=1)

    return Plain(run, w=weight(6))


@net("arithmetic", (2, 6, 8), (2, 6, 8))
def arithmetic():
    def run(m, x, y):
        z = (x + y) * x - y / (x + 1)
        return (z**2 + 1).sqrt() + x.mul(y).add(1) + torch.sub(x, y)

    return Plain(run)


@net("wrapped_arithmetic", (2, 6, 8), (2, 6, 8))
def wrapped_arithmetic():
    return Plain(lambda m, x, y: torch.mul(torch.add(x, y), x))


@net("products", (4, 6), (6, 5))
def products():
    def run(m, x, y):
        z = torch.mm(x, y) + torch.matmul(x, y) + torch.addmm(m.b, x, y)
        z = z + torch.outer(torch.mv(x, y[:, 0]), m.b)
        return z * torch.dot(m.b, m.b) + torch.tensordot(x, y, dims=1) + torch.chain_matmul(x, y, m.c)

    return Plain(run, b=weight(5), c=weight(5, 5))


@net("batched_products", (3, 4, 6), (3, 6, 5))
def batched_products():
    def run(m, x, y):
        z = torch.baddbmm(m.b, x, y) + torch.bmm(x, y) + x @ y
        return torch.matmul(z, m.w) + torch.matmul(m.v, z)[:, None]

    return Plain(run, b=weight(3, 4, 5), w=weight(5, 5), v=weight(4))


@net("einsums", (3, 4), (3, 5))
def einsums():
    def run(m, x, y):
        z = torch.einsum("bi,bj->ij", x, y) + torch.einsum("bi,bj,ij->ij", x, y, m.w)
        return torch.einsum("ij,ij->", z, m.w) + torch.einsum("bi->b", x)

    return Plain(run, w=weight(4, 5))


@net("bilinear", (3, 4), (3, 5))
def bilinear():
    return Plain(lambda m, x, y: F.bilinear(m.a(x, y), y, m.w), a=nn.Bilinear(4, 5, 6), w=weight(2, 6, 5))


@net("distances", (3, 4), (5, 4))
def distances():
    return Plain(
        lambda m, x, y: (torch.cdist(m.a(x), y), F.cosine_similarity(x[:, None], y[None], dim=-1)),
        a=nn.Linear(4, 4),
    )


@net("losses", (3, 4))
def losses():
    def run(m, x):
        y = m.a(x)
        return (
            F.cross_entropy(y, torch.tensor([0, 1, 2])) + F.mse_loss(y, torch.ones(3, 3)) + F.l1_loss(y, -y)
        )

    return Plain(run, a=nn.Linear(4, 3))


@net("fourier", (2, 6, 8))
def fourier():
    return Plain(
        lambda m, x: m.a(torch.fft.fft2(x).real) + torch.fft.irfft(torch.fft.rfft(x) * m.w, 8),
        a=nn.Linear(8, 8),
        w=weight(5),
    )


@net("complex_product", (3, 4))
def complex_product():
    return Plain(
        lambda m, x: torch.view_as_real(torch.complex(x, x) @ torch.complex(m.w, m.w)), w=weight(4, 5)
    )


# -- resampling ----------------------------------------------------------------------------------------------


@net("upsamples", (2, 3, 5, 6))
def upsamples():
    return nn.Sequential(
        nn.Upsample(scale_factor=2),
        nn.Conv2d(3, 8, 1),
        nn.Upsample((12, 10), mode="bilinear", align_corners=True),
        nn.PixelShuffle(2),
        nn.UpsamplingBilinear2d(scale_factor=2),
        nn.UpsamplingNearest2d(size=9),
        nn.PixelUnshuffle(3),
    )


@net("interpolates", (2, 3, 5, 6))
def interpolates():
    def run(m, x):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = F.interpolate(m.a(x), size=(7, 9), mode="bicubic")
        return F.interpolate(x, scale_factor=(2.0, 1.5), mode="bilinear")

    return Plain(run, a=nn.Conv2d(3, 2, 3))


@net("interpolates_area", (2, 3, 8, 8))
def interpolates_area():
    return Plain(lambda m, x: F.interpolate(m.a(x), size=(4, 4), mode="area"), a=nn.Conv2d(3, 2, 1))


@net("interpolates_one_size", (2, 3, 8, 8))
def interpolates_one_size():
    return Plain(lambda m, x: F.interpolate(m.a(x), size=20), a=nn.Conv2d(3, 2, 1))


@net("interpolates_line", (2, 3, 8))
def interpolates_line():
    def run(m, x):
        x = F.interpolate(m.a(x), scale_factor=3, mode="linear")
        return F.interpolate(x, scale_factor=1.5, mode="nearest-exact", recompute_scale_factor=True)

    return Plain(run, a=nn.Conv1d(3, 2, 1))


@net("sampled_grid", (1, 3, 6, 6))
def sampled_grid():
    def run(m, x):
        theta = m.where(x.flatten(1)).view(1, 2, 3)
        return F.grid_sample(x, F.affine_grid(theta, [1, 3, 4, 4], align_corners=False), align_corners=False)

    return Plain(run, where=nn.Linear(108, 6))


@net("pools", (2, 4, 12, 12))
def pools():
    return nn.Sequential(
        nn.AvgPool2d(3, 2, 1),
        nn.LPPool2d(2, 2),
        nn.AdaptiveMaxPool2d(2),
        nn.AdaptiveAvgPool2d((1, None)),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


@net("bare_pools", (2, 4, 12, 12))
def bare_pools():
    def run(m, x):
        y, at = F.max_pool2d(x, 2, return_indices=True)
        x = F.max_unpool2d(m.a(y), at, 2)
        x = F.adaptive_max_pool2d(F.lp_pool2d(x, 2, 2), 3)
        return F.avg_pool1d(F.max_pool1d(x.flatten(2), 3), 3)

    return Plain(run, a=nn.Conv2d(4, 4, 1))


@net("dropouts", (2, 4, 6, 6))
def dropouts():
    return nn.Sequential(
        nn.Conv2d(4, 4, 3),
        nn.Dropout2d(0.3),
        nn.AlphaDropout(0.2),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(64, 3),
    )


# -- how modules lie -----------------------------------------------------------------------------------------


@net("shared", (3, 8))
def shared():
    layer = nn.Linear(8, 8)
    return nn.Sequential(layer, nn.ReLU(), nn.Sequential(layer, nn.Tanh(), layer), nn.Linear(8, 2))


@net("shared_weight", (3, 8))
def shared_weight():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    return model


@net("containers", (2, 8))
def containers():
    def run(m, x):
        for block in m.blocks:
            x = block["skip"](x) + block["way"](x)
        return torch.cat([m.heads["a"](x), m.heads["b"](x)], dim=1)

    blocks = [
        nn.ModuleDict(
            {"skip": nn.Identity(), "way": nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.LayerNorm(8)))}
        )
        for _ in range(3)
    ]
    heads = nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3, bias=False)})
    return Plain(run, blocks=nn.ModuleList(blocks), heads=heads)


@net("pruned", (2, 8))
def pruned():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    prune.l1_unstructured(model[0], "weight", 0.5)
    return model


@net("frozen", (2, 8))
def frozen():
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    model[0].requires_grad_(requires_grad=False)
    return model


@net("normed_weight", (2, 8))
def normed_weight():
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 6)), nn.ReLU(), nn.Linear(6, 4))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return 2 * (x @ w)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 2 * grad @ w.t(), 2 * x.t() @ grad


@net("function_of_ones_own", (2, 8))
def function_of_ones_own():
    return Plain(lambda m, x: m.a(Doubled.apply(x, m.w)), a=nn.Linear(12, 4), w=weight(8, 12))


@net("unused_branch", (2, 8))
def unused_branch():
    def run(m, x):
        m.pooler(x)
        return m.a(x)

    return Plain(run, pooler=nn.Sequential(nn.Linear(8, 16), nn.Tanh()), a=nn.Linear(8, 4))


@net("by_forward", (2, 8))
def by_forward():
    return Plain(lambda m, x: m.b.forward(m.a.forward(x)), a=nn.Linear(8, 16), b=nn.Linear(16, 4))


class Scaled(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


class Strided(nn.Conv1d):
    pass


@net("subclasses", (2, 4, 9))
def subclasses():
    return nn.Sequential(Strided(4, 6, 3, stride=2), nn.ReLU(), Scaled(4, 5))


@net("skips", (2, 4, 8, 8))
def skips():
    def run(m, x):
        a, b = x.chunk(2, 1)
        y = torch.cat([m.a(a), b], 1)
        return m.b(y) + F.pad(x, (0, 0, 0, 0)) + y.mean((2, 3), keepdim=True)

    return Plain(run, a=nn.Conv2d(2, 2, 3, padding=1), b=nn.Conv2d(4, 4, 1))


@net("bare_parameters", (2, 8))
def bare_parameters():
    def run(m, x):
        for w, b in zip(m.ws, m.bs, strict=True):
            x = torch.relu(F.linear(x, w, b))
        return x

    return Plain(
        run,
        ws=nn.ParameterList([weight(8, 8) for _ in range(3)]),
        bs=nn.ParameterList([weight(8) for _ in range(3)]),
    )


@net("checkpoint", (2, 8))
def checkpoint():
    from torch.utils.checkpoint import checkpoint as again

    return Plain(
        lambda m, x: m.b(again(m.a, x, use_reentrant=False)),
        a=nn.Sequential(nn.Linear(8, 16), nn.GELU()),
        b=nn.Linear(16, 4),
    )


@net("mapped", (3, 2, 8))
def mapped():
    return Plain(lambda m, x: torch.vmap(m.a)(x), a=nn.Linear(8, 4))


@net("sequences", (2, 6, 8))
def sequences():
    return nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.LayerNorm(8), nn.Flatten(), nn.Linear(48, 2)
    )


@net("filled_parts", (2, 8))
def filled_parts():
    def run(m, x):
        y = torch.zeros(2, 10)
        y[:, :4] = m.a(x)
        y[:, 4:].add_(m.b(x))
        m.c(y)
        return y

    return Plain(run, a=nn.Linear(8, 4), b=nn.Linear(8, 6), c=nn.Linear(10, 3))


@net("asked", (2, 8))
def asked():
    return Plain(
        lambda m, x: m.b(x) if m.a(x).sum().item() < 1e9 else m.c(x),
        a=nn.Linear(8, 4),
        b=nn.Linear(8, 5),
        c=nn.Linear(8, 6),
    )


@net("kept_state", (2, 8))
def kept_state():
    def run(m, x):
        m.state.copy_(m.a(x).mean(0).detach())
        m.last = m.c(x)
        return m.b(x)

    return Plain(
        run, a=nn.Linear(8, 4), b=nn.Linear(8, 5), c=nn.Linear(8, 6), state=nn.Buffer(torch.zeros(4))
    )


@net("checkpoint_reentrant", (2, 8))
def checkpoint_reentrant():
    from torch.utils.checkpoint import checkpoint as again

    return Plain(
        lambda m, x: m.b(again(m.a, x.requires_grad_(), use_reentrant=True)),
        a=nn.Sequential(nn.Linear(8, 16), nn.GELU()),
        b=nn.Linear(16, 4),
    )
