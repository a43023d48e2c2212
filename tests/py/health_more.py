# SPDX-License-Identifier: Apache-2.0
"""More networks with a fault each: within attention, in place, in rows of a table, made by an optimizer, in a
loss outside of the model, on the way back alone, in checkpoints and in compiled code."""

from __future__ import annotations

import torch
from health_nets import INF, NAN, Do, Fault, WrongGradient, chain, checkpointed, compiled, line
from torch import nn
from torch.nn import functional as F
from where_kit import Calls


class Attention(nn.Module):
    """Attention whose steps can be spoiled by name."""

    def __init__(self, **spoil):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
        self.spoil = spoil

    def forward(self, x):
        def step(name, t):
            return self.spoil[name](t) if name in self.spoil else t

        def heads(name, layer):
            return step(name, layer(x).view(2, 5, 2, 4).transpose(1, 2))

        q, k, v = heads("q", self.q), heads("k", self.k), heads("v", self.v)
        if "mask" in self.spoil:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.spoil["mask"])
        else:
            y = step("p", step("w", q @ k.transpose(-1, -2) / 2).softmax(-1)) @ v
        return self.o(step("y", y.transpose(1, 2).reshape(2, 5, 8)))


def attention(**spoil):
    return lambda: (
        nn.Sequential(nn.Linear(8, 8), Attention(**spoil), nn.LayerNorm(8), nn.Linear(8, 2)),
        torch.rand(2, 5, 8),
    )


def written(work):
    """In place, on a copy."""
    return chain(lambda x: work(x.clone()))


def assigned(x):
    x[0, 1:3] = NAN
    return x


def one_row(x):
    x[1].copy_(x[1] / 0)
    return x


class ThroughData(nn.Module):
    def forward(self, x):
        x.data.mul_(NAN)
        return x


class Counter(nn.Module):
    """Writes to a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(6))

    def forward(self, x):
        self.total.add_(INF)
        return x + (self.total - self.total)


def among(layer, x=None):
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Linear(6, 2)), torch.rand(3, 6) if x is None else x


def table(row, value, act=torch.tanh, build=lambda: nn.Embedding(10, 6)):
    """One row of a table is bad; rows 1, 3 and 5 are looked up."""

    def made():
        of_words = build()
        with torch.no_grad():
            of_words.weight[row] = value
        return Calls(
            lambda self, x: self.fc(self.act(self.table(x))), table=of_words, act=Do(act), fc=nn.Linear(6, 2)
        ), torch.tensor([[1, 3, 5]])

    return made


def tied():
    words, out = nn.Embedding(10, 6), nn.Linear(6, 10, bias=False)
    out.weight = words.weight
    with torch.no_grad():
        words.weight[7] = NAN
    return Calls(lambda self, x: self.out(self.words(x)), words=words, out=out), torch.tensor([[1, 3, 5]])


def stepped(spoil):
    """After a step of an optimizer that made a parameter bad."""

    def build():
        model, x = line(nn.Linear(6, 6)), torch.rand(3, 6)
        model(x).sum().backward()
        spoil(model)
        model.zero_grad()
        return model, x

    return build


def endless_rate(model):
    torch.optim.SGD(model[2].parameters(), lr=INF).step()


def one_bad_gradient(model):
    model[2].bias.grad[0] = NAN
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def outside(loss):
    """Where operators are not watched, it is the loss's backward in which it shows first."""
    return Fault(chain(torch.relu), None, None, loss=loss)


class OneElement(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        grad[0, 0] = INF
        return grad


class Hooked(nn.Module):
    def forward(self, x):
        y = x * 1
        y.register_hook(lambda grad: grad * NAN)
        return y


class TooMuch(nn.Module):
    """Two gradients that are finite, and whose sum is not."""

    def forward(self, x):
        y = x * 0
        return y * 2e38 + y * 2e38


def gated():
    rnn = nn.GRU(6, 6, batch_first=True)
    with torch.no_grad():
        rnn.weight_ih_l0[8, 0] = NAN
    return Calls(
        lambda self, x: self.fc(self.rnn(self.pre(x))[0][:, -1]),
        pre=nn.Linear(6, 6),
        rnn=rnn,
        fc=nn.Linear(6, 2),
    ), torch.rand(2, 4, 6)


def experts():
    several = nn.ModuleList(
        nn.Sequential(nn.Linear(6, 6), Do(lambda x, i=i: x / 0 if i == 2 else x)) for i in range(4)
    )
    return Calls(
        lambda self, x: self.fc(sum(one(self.pre(x)) for one in self.experts)),
        pre=nn.Linear(6, 6),
        experts=several,
        fc=nn.Linear(6, 2),
    ), torch.rand(3, 6)


def own_checkpoint(reentrant):
    """In what the checkpointed block does itself."""
    return checkpointed(
        reentrant=reentrant,
        block_of=lambda: Calls(lambda self, x: (self.fc(x) * 0).sqrt() + x, fc=nn.Linear(6, 6)),
    )


def group_norm():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), Do(lambda x: x * 0), nn.GroupNorm(2, 4, eps=0.0), nn.Conv2d(4, 4, 3)
    ), torch.rand(2, 3, 8, 8)


def weight_norm():
    from torch.nn.utils.parametrizations import weight_norm

    layer = weight_norm(nn.Linear(6, 6))
    with torch.no_grad():
        layer.parametrizations.weight.original1[2] = 0
    return among(layer)


def bad_target():
    """The model has its loss in it, and makes the target itself."""
    return Calls(
        lambda self, x: self.loss(self.fc(x), torch.full((3, 6), NAN)), fc=nn.Linear(6, 6), loss=nn.MSELoss()
    ), torch.rand(3, 6)


def frozen():
    model, x = chain(lambda x: x / 0)()
    return model.requires_grad_(False), x


def hidden():
    """A generator's elements can't be looked at without taking them."""
    return Calls(
        lambda self, x: self.fc(sum(self.several(self.pre(x)))),
        pre=nn.Linear(6, 6),
        several=Do(lambda x: (y for y in (x, x / 0))),
        fc=nn.Linear(6, 2),
    ), torch.rand(3, 6)


EVERYWHERE = torch.ones(5, 5).bool()
MORE = {
    # -- within attention
    "scores overflow": Fault(attention(w=lambda w: w * 1e38 * 1e3), "1", op="aten::mul"),
    "all scores masked": Fault(
        attention(w=lambda w: w.masked_fill(EVERYWHERE, -INF)), "1", op="aten::_softmax"
    ),
    "log of probabilities": Fault(attention(p=lambda p: (p * 0).log() * p), "1", op="aten::log"),
    "queries": Fault(attention(q=lambda t: t / (t - t)), "1", op="aten::div"),
    "values": Fault(attention(v=lambda t: t * INF), "1", op="aten::mul"),
    "mask of NaN": Fault(attention(mask=torch.full((5, 5), NAN)), "1"),
    "attention's result, backward": Fault(attention(y=WrongGradient.apply), "1", "backward"),
    "queries, backward": Fault(
        attention(q=lambda t: t + (t * 0).sqrt()), "1", "backward", op="SqrtBackward0"
    ),
    "probabilities, backward": Fault(
        attention(p=lambda p: p + (p * 0).pow(0.5)), "1", "backward", op="PowBackward0"
    ),
    # -- in place
    "divided in place": Fault(written(lambda x: x.div_(0)), "2", op="aten::div_"),
    "log of a log in place": Fault(written(lambda x: x.log_().log_()), "2", op="aten::log_"),
    "filled": Fault(written(lambda x: x.masked_fill_(x > -1, NAN)), "2"),
    "assigned": Fault(written(assigned), "2"),
    "one row": Fault(written(one_row), "2", op="aten::div"),
    "fused in place": Fault(chain(lambda x: x.clone().addcdiv_(x, x - x)), "2", op="aten::addcdiv_"),
    "scattered": Fault(written(lambda x: x.scatter_(1, torch.zeros(3, 1, dtype=torch.long), INF)), "2"),
    "out": Fault(chain(lambda x: torch.log(x.detach() - 9, out=torch.empty_like(x))), "2", op="aten::log"),
    "through data": Fault(lambda: among(ThroughData()), "1", op="aten::mul_"),
    "buffer that is written to": Fault(lambda: among(Counter()), "1"),
    # -- rows of tables
    "row": Fault(table(3, NAN), "table", owned="weight"),
    "endless row": Fault(table(5, INF), "table", owned="weight"),
    "bag": Fault(table(5, NAN, build=lambda: nn.EmbeddingBag(10, 6, mode="mean")), "table", owned="weight"),
    "row that is made shorter": Fault(
        table(3, INF, build=lambda: nn.Embedding(10, 6, max_norm=1.0)), "table", owned="weight"
    ),
    "row that is not used": Fault(table(7, NAN, act=lambda x: x / 0), "act", op="aten::div"),
    "tied": Fault(tied, "out", owned="weight"),
    # -- made by an optimizer
    "rate without end": Fault(stepped(endless_rate), "2", owned="weight"),
    "one bad gradient": Fault(stepped(one_bad_gradient), "2", owned="bias"),
    # -- in a loss outside of the model
    "loss of a power": Fault(
        chain(torch.relu), None, "backward", loss=lambda y: (y * 0).pow(0.5).sum(), op="PowBackward0"
    ),
    "loss times NaN": outside(lambda y: y.sum() * NAN),
    "loss by zero": outside(lambda y: y.sum() / torch.zeros(())),
    "divergence": outside(lambda y: F.kl_div(torch.log(y * 0), y.detach() + 1)),
    "endless target": outside(lambda y: F.mse_loss(y, torch.full_like(y, INF))),
    "loss too large": outside(lambda y: (y * 1e30).sum() * 1e30),
    # -- on the way back alone
    "one element of a gradient": Fault(chain(OneElement.apply), "2", "backward"),
    "hook": Fault(lambda: (line(Hooked()), torch.rand(3, 6)), "2", "backward"),
    "sum of gradients": Fault(
        lambda: (nn.Sequential(nn.Linear(6, 6), TooMuch()), torch.rand(3, 6)), "1", "backward"
    ),
    "one over nearly nothing": Fault(
        chain(lambda x: x + (x * 0 + 1e-30).pow(-1).mul(1e-30)), "2", "backward"
    ),
    "equal singular values": Fault(
        chain(lambda x: x + torch.linalg.svd(torch.eye(6) * (x.sum() * 0 + 1))[0][:3]), "2", "backward"
    ),
    # -- in checkpoints and in compiled code
    "checkpoint, root": Fault(
        checkpointed(lambda x: x + (x * 0).sqrt()), "block.1", "backward", op="SqrtBackward0"
    ),
    "reentrant checkpoint, forward": Fault(
        checkpointed(lambda x: x / 0, reentrant=True), "block.1", op="aten::div"
    ),
    "checkpoint's own": Fault(own_checkpoint(False), "block", "backward", op="SqrtBackward0"),
    "reentrant checkpoint's own": Fault(own_checkpoint(True), "block", "backward", op="SqrtBackward0"),
    "compiled quotient": Fault(compiled(lambda x: x / 0, backend="aot_eager"), "2"),
    "compiled root, backward": Fault(
        compiled(lambda x: x + (x * 0).sqrt(), backend="aot_eager"), "2", "backward"
    ),
    # -- others
    "gates": Fault(gated, "rnn", owned="weight_ih_l0"),
    "expert": Fault(experts, "experts.2.1", op="aten::div"),
    "groups without variance": Fault(group_norm, "2"),
    "weight of no length": Fault(weight_norm, "1.parametrizations.weight.0"),
    "target": Fault(bad_target, "", between=("fc", "loss")),
    "frozen": Fault(frozen, "2", op="aten::div"),
}
