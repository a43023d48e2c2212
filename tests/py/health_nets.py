# SPDX-License-Identifier: Apache-2.0
"""Networks with a fault each: NaN or Inf is born in one named place, forward or backward, and spreads."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from where_kit import Calls

NAN, INF = float("nan"), float("inf")


class Fault(NamedTuple):
    build: object  # () -> (model, input)
    path: str | None  # whose work it is; None: outside of every layer
    phase: str | None = "forward"  # None: forward where operators are watched, and else backward
    between: tuple | None = None  # (before, after) of a layer's own work
    owned: str | None = None
    op: str | None = None  # with operators watched
    loss: object = None  # of the output; else its sum


class Do(nn.Module):
    """A layer that does what it is told."""

    def __init__(self, work):
        super().__init__()
        self.work = work

    def forward(self, *args):
        return self.work(*args)


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * NAN


class Overflowing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad / torch.zeros_like(grad)


class Silent(torch.autograd.Function):
    """Hands back a gradient that no operator makes."""

    ready = torch.full((3, 6), NAN)

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return Silent.ready


def line(faulty, *, dims=6):
    """A chain with the faulty layer in the middle."""
    return nn.Sequential(nn.Linear(dims, dims), nn.Tanh(), faulty, nn.Linear(dims, dims), nn.ReLU())


def chain(work):
    return lambda: (line(Do(work)), torch.rand(3, 6))


def spoiled(layer, name, value=NAN, shape=(3, 6), wrap=line):
    """A parameter or buffer that holds something bad."""

    def build():
        made = layer()
        with torch.no_grad():
            getattr(made, name).view(-1)[0] = value
        return (wrap(made) if wrap else made), torch.rand(*shape)

    return build


def in_halves(work):
    """Too large a gradient for half precision, into which it is converted where the layer left it."""

    def build():
        return nn.Sequential(nn.Linear(6, 6).half(), Do(work), nn.Linear(6, 6)), torch.rand(3, 6).half()

    return build


def conv_net(faulty):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), faulty, nn.Conv2d(4, 4, 3), nn.Flatten())


def conv(work):
    return lambda: (conv_net(Do(work)), torch.rand(2, 3, 8, 8))


class Residual(nn.Module):
    """Two branches that meet: the gradient of what goes into both is a sum."""

    def __init__(self, long=None, short=None):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.long = nn.Sequential(nn.Linear(6, 6), long or nn.Tanh(), nn.Linear(6, 6))
        self.short = nn.Sequential(nn.Linear(6, 6), short or nn.Tanh())
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        x = self.first(x)
        return self.last(self.long(x) + self.short(x))


def own(work, *, dims=6):
    """Work that a container does between two of its layers."""

    def build():
        return Calls(
            lambda self, x: self.fc(work(self.act(self.conv(x)))),
            conv=nn.Linear(dims, dims),
            act=nn.Sigmoid(),
            fc=nn.Linear(dims, dims),
        ), torch.rand(3, dims)

    return build


def nested(work):
    """The same two levels down."""

    def build():
        model, x = own(work)()
        return nn.Sequential(nn.Linear(6, 6), nn.ModuleDict({"block": model})["block"], nn.ReLU()), x

    return build


def first_work(work):
    return lambda: (Calls(lambda self, x: self.fc(work(x)), fc=nn.Linear(6, 6)), torch.rand(3, 6))


def last_work(work):
    return lambda: (Calls(lambda self, x: work(self.fc(x)), fc=nn.Linear(6, 6)), torch.rand(3, 6))


def shared():
    """The same layer three times; the second call is where it goes wrong."""
    calls = []

    def work(x):
        calls.append(None)
        return x * INF if len(calls) % 3 == 2 else x

    layer = Do(work)
    return nn.Sequential(layer, nn.Linear(6, 6), layer, nn.Linear(6, 6), layer), torch.rand(3, 6)


def half(layer, x, dtype=torch.float16):
    return nn.Sequential(nn.Identity(), layer.to(dtype), nn.Identity()), x.to(dtype)


def big_half():
    layer = nn.Linear(6, 6)
    with torch.no_grad():
        layer.weight.fill_(60000)
    return half(layer, torch.full((3, 6), 100.0))


def lstm():
    rnn = nn.LSTM(4, 3, num_layers=2)
    with torch.no_grad():
        rnn.weight_hh_l1[0, 0] = NAN
    return Calls(
        lambda self, x: self.fc(self.rnn(self.pre(x))[0]), pre=nn.Linear(4, 4), rnn=rnn, fc=nn.Linear(3, 2)
    ), (torch.rand(5, 2, 4))


def attention(spoil):
    """Self attention over a sequence, with a mask that leaves out what lies ahead."""

    def build():
        att = nn.MultiheadAttention(8, 2, batch_first=True)
        mask = torch.full((5, 5), -INF).triu(1)
        spoil(att, mask)
        return Calls(
            lambda self, x: self.fc(self.att(self.pre(x), self.pre(x), self.pre(x), attn_mask=mask)[0]),
            pre=nn.Linear(8, 8),
            att=att,
            fc=nn.Linear(8, 2),
        ), torch.rand(2, 5, 8)

    return build


def mask_whole_row(att, mask):
    mask[2] = -INF


def spoil_projection(att, mask):
    with torch.no_grad():
        att.in_proj_weight[0, 0] = NAN


def encoder(spoil):
    def build():
        model = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 3, enable_nested_tensor=False
        )
        with torch.no_grad():
            spoil(model)
        return model, torch.rand(2, 5, 8)

    return build


def spoil_linear2(model):
    model.layers[1].linear2.weight[0, 0] = INF


def spoil_norm(model):
    model.layers[2].norm1.weight[0] = NAN


def tuples():
    """A layer that gives several; the second is bad, and goes its own way."""
    split = Do(lambda x: (x, {"b": x / torch.zeros_like(x)}))
    return Calls(
        lambda self, x: self.join(*self.take(self.split(self.pre(x)))),
        pre=nn.Linear(6, 6),
        split=split,
        take=Do(lambda pair: (pair[0], pair[1]["b"])),
        join=Do(lambda a, b: a + b),
    ), torch.rand(3, 6)


def in_place():
    return Calls(
        lambda self, x: self.fc(self.act(self.spoil(self.bn(self.pre(x))))),
        pre=nn.Linear(6, 6),
        bn=nn.BatchNorm1d(6),
        spoil=Do(lambda x: x.mul_(INF)),
        act=nn.ReLU(inplace=True),
        fc=nn.Linear(6, 2),
    ), torch.rand(3, 6)


def broadcast(x):
    """Views, steps of nothing, elements in pairs."""
    return (x[:, :1] / 0).expand(3, 6)


def embedding():
    table = nn.Embedding(10, 6)
    with torch.no_grad():
        table.weight[3] = NAN
    return Calls(lambda self, x: self.fc(self.table(x)), table=table, fc=nn.Linear(6, 2)), torch.tensor(
        [[1, 3, 5]]
    )


def masked_log(x):
    return torch.where(x > 0.5, torch.log(x - 0.5), torch.zeros_like(x))


def norm_at_zero(x):
    return (x * 0).pow(2).sum(1, keepdim=True).sqrt() + x


def bf16(work):
    def build():
        return line(Do(work)).bfloat16(), torch.rand(3, 6).bfloat16()

    return build


def checkpointed(work=WrongGradient.apply, *, reentrant=False, block_of=None):
    """Between two layers a block that is run again, with ``work`` in it, or one of the caller's."""

    def build():
        from torch.utils.checkpoint import checkpoint

        block = block_of() if block_of else nn.Sequential(nn.Linear(6, 6), Do(work), nn.Linear(6, 6))
        return Calls(
            lambda self, x: self.fc(checkpoint(self.block, self.pre(x), use_reentrant=reentrant)),
            pre=nn.Linear(6, 6),
            block=block,
            fc=nn.Linear(6, 2),
        ), torch.rand(3, 6)

    return build


def compiled(work, backend="eager"):
    """A layer whose forward went through torch's compiler, which runs it operator by operator."""

    def build():
        model = line(Do(work))
        torch._dynamo.reset()
        model[2].compile(backend=backend)
        x = torch.rand(3, 6)
        model(x)
        return model, x

    return build


def no_class():
    """Nothing of a batch is to be learnt from, so the loss is the mean of nothing."""
    return nn.Sequential(nn.Linear(6, 6), Do(lambda x: (x, torch.full((3,), -100))), Loss()), torch.rand(3, 6)


class Loss(nn.Module):
    def forward(self, pair):
        return nn.functional.cross_entropy(*pair)


def exploding():
    """What is small grows on its way; on the way back what is not small grows as much."""
    return nn.Sequential(
        nn.Linear(6, 6), Do(lambda x: x * 1e-30), Do(lambda x: x * 1e25), Do(lambda x: x * 1e25)
    ), torch.rand(3, 6)


def chosen_quotient(x):
    zero = x * 0
    return torch.where(zero > 0, zero / zero.abs(), x)


def nan_input():
    x = torch.rand(3, 6)
    x[1, 2] = NAN
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU()), x


def no_variance():
    norm = nn.BatchNorm1d(6).eval()
    norm.running_var.fill_(-1)
    return nn.Sequential(nn.Linear(6, 6), norm, nn.Linear(6, 2)), torch.rand(8, 6)


def spoil_first(model, x):
    with torch.no_grad():
        model[0].weight.fill_(NAN)
    return model, x


FAULTS = {
    # -- born in a layer, forward
    "log of a negative": Fault(chain(lambda x: torch.log(x - 2)), "2", op="aten::log"),
    "log of zero": Fault(chain(lambda x: torch.log(x * 0)), "2", op="aten::log"),
    "root of a negative": Fault(chain(lambda x: torch.sqrt(x - 2)), "2", op="aten::sqrt"),
    "power of a negative": Fault(chain(lambda x: (x - 2) ** 0.5), "2", op="aten::pow"),
    "division by zero": Fault(chain(lambda x: x / (x - x)), "2", op="aten::div"),
    "zero by zero": Fault(chain(lambda x: (x - x) / (x - x)), "2", op="aten::div"),
    "exp overflows": Fault(chain(lambda x: torch.exp(x * 1000 + 2000)), "2", op="aten::exp"),
    "inverse sine": Fault(chain(lambda x: torch.asin(x + 3)), "2", op="aten::asin"),
    "one element": Fault(chain(lambda x: x.index_fill(1, torch.tensor([4]), NAN)), "2"),
    "product overflows": Fault(chain(lambda x: (x + 2) * 1e38 * 10), "2", op="aten::mul"),
    "inf minus inf": Fault(chain(lambda x: (x + 1) * INF - (x + 1) * INF), "2", op="aten::mul"),
    "remainder": Fault(chain(lambda x: torch.fmod(x, 0.0)), "2", op="aten::fmod"),
    "in a convolution net": Fault(conv(lambda x: torch.log(-x.abs() - 1)), "2", op="aten::log"),
    "one pixel": Fault(
        conv(lambda x: x.clone().index_put_((torch.tensor(1), torch.tensor(2)), torch.tensor(INF))), "2"
    ),
    "norm of nothing": Fault(chain(lambda x: x / (x * 0).norm(dim=1, keepdim=True)), "2", op="aten::div"),
    "softmax of a masked row": Fault(
        lambda: (
            nn.Sequential(
                nn.Linear(6, 6), Do(lambda x: x.masked_fill(x > -9, -INF)), nn.Softmax(1), nn.Linear(6, 6)
            ),
            torch.rand(3, 6),
        ),
        "2",
        op="aten::_softmax",
    ),
    "in place": Fault(in_place, "spoil", op="aten::mul_"),
    "second of several": Fault(tuples, "split", op="aten::div"),
    "broadcast": Fault(chain(broadcast), "2", op="aten::div"),
    "shared layer": Fault(shared, "0", op="aten::mul"),
    "fp16 overflows": Fault(big_half, "1"),
    "fp16 sum": Fault(
        lambda: half(Do(lambda x: x.sum(1, keepdim=True).expand(3, 6)), torch.full((3, 6), 30000.0)),
        "1",
        op="aten::sum",
    ),
    "fp16 cast": Fault(
        lambda: (
            nn.Sequential(nn.Linear(6, 6), Do(lambda x: (x * 0 + 1e6).half().float()), nn.ReLU()),
            torch.rand(3, 6),
        ),
        "1",
    ),
    "bf16 overflows": Fault(bf16(lambda x: (x + 3).pow(100)), "2", op="aten::pow"),
    "batch norm": Fault(no_variance, "1"),
    "complex": Fault(
        chain(lambda x: torch.view_as_real(torch.log(torch.complex(x * 0, x * 0))).sum(-1)),
        "2",
        op="aten::log",
    ),
    "float64": Fault(
        lambda: (line(Do(lambda x: x / 0)).double(), torch.rand(3, 6).double()), "2", op="aten::div"
    ),
    "zero times inf": Fault(chain(lambda x: torch.mul(x - x, INF)), "2", op="aten::mul"),
    "product of many": Fault(chain(lambda x: ((x + 1) * 1e20).cumprod(1)), "2", op="aten::cumprod"),
    "inverse tangent": Fault(chain(lambda x: torch.atanh(x * 0 + 1)), "2", op="aten::atanh"),
    "one over zero": Fault(chain(lambda x: torch.reciprocal(x * 0)), "2", op="aten::reciprocal"),
    "one over a root": Fault(chain(lambda x: torch.rsqrt(x - 9)), "2", op="aten::rsqrt"),
    "variance of one": Fault(chain(lambda x: x[:, :1].var(1, keepdim=True) + x), "2", op="aten::var"),
    "mean of nothing": Fault(chain(lambda x: x + x[:0].mean()), "2"),
    "matrix product overflows": Fault(
        chain(lambda x: (x + 1) @ torch.full((6, 6), 3e38)), "2", op="aten::mm"
    ),
    "fp16 squares": Fault(lambda: half(Do(torch.square), torch.full((3, 6), 300.0)), "1"),
    "no class": Fault(no_class, "2", op="aten::nll_loss_forward"),
    "in a checkpoint": Fault(checkpointed(lambda x: torch.log(x - 9)), "block.1", op="aten::log"),
    "compiled": Fault(compiled(lambda x: torch.log(x - 2)), "2", op="aten::log"),
    "attention over a masked row": Fault(attention(mask_whole_row), "att"),
    # -- in what a container does itself
    "own work": Fault(own(lambda x: torch.log(x - 2)), "", between=("act", "fc"), op="aten::log"),
    "own work in a block": Fault(nested(lambda x: x / 0), "1", between=("1.act", "1.fc"), op="aten::div"),
    "own work first": Fault(
        first_work(lambda x: torch.sqrt(x - 9)), "", between=(None, "fc"), op="aten::sqrt"
    ),
    "own work last": Fault(last_work(lambda x: x * INF), "", between=("fc", None), op="aten::mul"),
    "own log of zero": Fault(own(lambda x: torch.log(x * 0)), "", between=("act", "fc"), op="aten::log"),
    # -- parameters and buffers
    "weight": Fault(spoiled(lambda: nn.Linear(6, 6), "weight"), "2", owned="weight"),
    "bias": Fault(spoiled(lambda: nn.Linear(6, 6), "bias", INF), "2", owned="bias"),
    "convolution's weight": Fault(
        spoiled(lambda: nn.Conv2d(4, 4, 1), "weight", shape=(2, 3, 8, 8), wrap=conv_net), "2", owned="weight"
    ),
    "running mean": Fault(
        spoiled(lambda: nn.BatchNorm1d(6).eval(), "running_mean"), "2", owned="running_mean"
    ),
    "layer norm": Fault(spoiled(lambda: nn.LayerNorm(6), "weight", -INF), "2", owned="weight"),
    "embedding": Fault(embedding, "table", owned="weight"),
    "lstm": Fault(lstm, "rnn", owned="weight_hh_l1"),
    "projection": Fault(attention(spoil_projection), "att", owned="in_proj_weight"),
    "feed-forward": Fault(encoder(spoil_linear2), "layers.1.linear2", owned="weight"),
    "encoder's norm": Fault(encoder(spoil_norm), "layers.2.norm1", owned="weight"),
    "first layer": Fault(lambda: spoil_first(*chain(torch.relu)()), "0", owned="weight"),
    "running variance": Fault(
        spoiled(lambda: nn.BatchNorm1d(6).eval(), "running_var"), "2", owned="running_var"
    ),
    "gate": Fault(spoiled(lambda: nn.GRUCell(6, 6), "bias_hh"), "2", owned="bias_hh"),
    # -- backward
    "root at zero": Fault(chain(lambda x: torch.sqrt(x * 0) + x), "2", "backward", op="SqrtBackward0"),
    "norm at zero": Fault(chain(norm_at_zero), "2", "backward", op="SqrtBackward0"),
    "masked log": Fault(chain(lambda x: masked_log(x * 0 + 0.5) + x), "2", "backward", op="LogBackward0"),
    "negative root at zero": Fault(
        chain(lambda x: x - torch.sqrt(x * 0)), "2", "backward", op="SqrtBackward0"
    ),
    "wrong gradient": Fault(chain(WrongGradient.apply), "2", "backward", op="WrongGradientBackward"),
    "gradient overflows": Fault(chain(Overflowing.apply), "2", "backward", op="OverflowingBackward"),
    "gradient from nowhere": Fault(chain(Silent.apply), "2", "backward", op="SilentBackward"),
    "long branch": Fault(
        lambda: (Residual(long=Do(WrongGradient.apply)), torch.rand(3, 6)), "long.1", "backward"
    ),
    "short branch": Fault(
        lambda: (Residual(short=Do(WrongGradient.apply)), torch.rand(3, 6)), "short.1", "backward"
    ),
    "own work, backward": Fault(own(lambda x: torch.sqrt(x * 0) + x), "", "backward", op="SqrtBackward0"),
    "in a block, backward": Fault(nested(WrongGradient.apply), "1", "backward", op="WrongGradientBackward"),
    "power, backward": Fault(chain(lambda x: (x * 0) ** 0.5 + x), "2", "backward", op="PowBackward0"),
    "inverse cosine": Fault(chain(lambda x: torch.acos(x * 0 + 1) + x), "2", "backward", op="AcosBackward0"),
    "convolution net, backward": Fault(conv(WrongGradient.apply), "2", "backward"),
    "inverse cosh": Fault(chain(lambda x: torch.acosh(x * 0 + 1) + x), "2", "backward", op="AcoshBackward0"),
    "hypotenuse": Fault(chain(lambda x: torch.hypot(x * 0, x * 0) + x), "2", "backward", op="HypotBackward0"),
    "shared, backward": Fault(
        lambda: (
            (lambda layer: nn.Sequential(layer, nn.Linear(6, 6), layer))(Do(WrongGradient.apply)),
            torch.rand(3, 6),
        ),
        "0",
        "backward",
    ),
    "checkpoint": Fault(checkpointed(), "block.1", "backward"),
    "checkpoint, reentrant": Fault(checkpointed(reentrant=True), "block.1", "backward"),
    "compiled, backward": Fault(
        compiled(lambda x: torch.sqrt(x * 0) + x), "2", "backward", op="SqrtBackward0"
    ),
    "exploding": Fault(exploding, "2", "backward", op="MulBackward0"),
    "fp16 gradient": Fault(
        chain(lambda x: (x.half() * 1000).float()),
        "2",
        "backward",
        loss=lambda y: y.sum() * 3000,
        op="MulBackward0",
    ),
    "conversion, backward": Fault(
        in_halves(lambda x: x.float()), "1", "backward", loss=lambda y: y.sum() * 1e9, op="ToCopyBackward0"
    ),
    "sum with another type, backward": Fault(
        in_halves(lambda x: x + torch.ones(6)),
        "1",
        "backward",
        loss=lambda y: y.sum() * 1e9,
        op="AddBackward0",
    ),
    "copy into another type, backward": Fault(
        in_halves(lambda x: torch.empty(3, 6).copy_(x)), "1", "backward", loss=lambda y: y.sum() * 1e9
    ),
    "converted loss": Fault(
        lambda: (nn.Sequential(nn.Linear(6, 6), nn.Tanh()).half(), torch.rand(3, 6).half()),
        None,
        "backward",
        loss=lambda y: y.float().sum() * 1e9,
        op="ToCopyBackward0",
    ),
    "quotient, backward": Fault(chain(chosen_quotient), "2", "backward"),
    "log of zero times zero": Fault(
        chain(lambda x: x + torch.xlogy(x * 0, x * 0)), "2", "backward", op="XlogyBackward0"
    ),
    "inverse sine at one": Fault(
        chain(lambda x: torch.asin(x * 0 + 1) + x), "2", "backward", op="AsinBackward0"
    ),
    "equal eigenvalues": Fault(
        chain(lambda x: x + torch.linalg.eigh(torch.eye(6) * (x.sum() * 0 + 1))[1][:3]), "2", "backward"
    ),
    "loss": Fault(
        chain(torch.relu), None, "backward", loss=lambda y: torch.sqrt(y.sum() * 0), op="SqrtBackward0"
    ),
}
