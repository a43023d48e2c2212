# SPDX-License-Identifier: Apache-2.0
"""What the expressions in truth.json and truth_more.json build models and inputs with. Weights of libraries'
models are not drawn, which is most of what building them takes, unless what runs depends on values."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

randn = torch.randn


class undrawn:
    """Within it the initialisers of torch.nn leave weights as they are."""

    names = ("kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "normal_", "uniform_", "trunc_normal_")

    def __enter__(self):
        self.saved = {name: getattr(nn.init, name) for name in self.names}
        for name in self.names:
            setattr(nn.init, name, lambda tensor, *args, **kwargs: tensor.data.zero_())

    def __exit__(self, *exc):
        for name, value in self.saved.items():
            setattr(nn.init, name, value)


def everything():
    """Every model of both files, those of the smaller ones first."""
    data = Path(__file__).resolve().parent.parent / "data"
    files = ("truth.json", "truth_more.json")
    return [model for file in files for model in json.loads((data / file).read_text())]


def ids(*s, high=100):
    return torch.randint(3, high, s)


def ones(*s):
    return torch.ones(s, dtype=torch.long)


def tv(name, **kw):
    import torchvision.models as M

    if name in ("googlenet", "inception_v3"):
        kw.setdefault("init_weights", False)
    with undrawn():
        return getattr(M, name)(weights=None, **kw)


def tm(name, **kw):
    import timm

    with undrawn():
        return timm.create_model(name, pretrained=False, **kw)


def hf(model, config, **kw):
    import transformers

    kind = getattr(transformers, model)
    with undrawn():
        return kind._from_config(getattr(transformers, config)(**kw))


def tvseg(name, **kw):
    import torchvision.models.segmentation as M

    with undrawn():
        return getattr(M, name)(weights=None, weights_backbone=None, **kw)


def tvvid(name, **kw):
    import torchvision.models.video as M

    with undrawn():
        return getattr(M, name)(weights=None, **kw)


def tvdet(name, **kw):
    import torchvision.models.detection as M

    return getattr(M, name)(weights=None, weights_backbone=None, **kw)


class LSTMClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1000, 64)
        self.rnn = nn.LSTM(64, 128, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(256, 10)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.fc(h[:, -1])


class LSTMCellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(32, 64)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 64)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.fc(h)


class FunctionalCNN(nn.Module):
    """No child modules at all: F.conv2d / F.linear on bare parameters."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(32, 3, 3, 3) * 0.1)
        self.w2 = nn.Parameter(torch.randn(64, 32, 3, 3) * 0.05)
        self.w3 = nn.Parameter(torch.randn(10, 64) * 0.1)
        self.b3 = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        x = F.relu(F.conv2d(x, self.w1, padding=1))
        x = F.max_pool2d(x, 2)
        x = F.relu(F.conv2d(x, self.w2, padding=1, stride=2))
        return F.linear(x.mean((2, 3)), self.w3, self.b3)


class Reused3(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.block = nn.Conv2d(32, 32, 3, padding=1)
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        for _ in range(3):
            x = F.relu(self.block(x))
        return self.fc(x.mean((2, 3)))


def _trunk():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2)
    )


class DictOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = _trunk()
        self.a = nn.Conv2d(32, 4, 1)
        self.b = nn.Conv2d(32, 2, 1)

    def forward(self, x):
        x = self.t(x)
        return {"cls": self.a(x), "box": {"xy": self.b(x), "n": 3}}


Pair = collections.namedtuple("Pair", "a b")


class NamedTupleOut(DictOut):
    def forward(self, x):
        x = self.t(x)
        return Pair(self.a(x), self.b(x))


class UncalledChild(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = _trunk()
        self.aux = nn.Linear(64, 64)
        self.head = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        return self.head(self.t(x))


class TiedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(500, 64)
        self.l1 = nn.Linear(64, 64)
        self.out = nn.Linear(64, 500, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, x):
        return self.out(torch.tanh(self.l1(self.emb(x))))


class KwargsOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(32, 32)
        self.k = nn.Linear(32, 32)

    def forward(self, *, query, key, scale=1.0, mask=None):
        s = self.q(query) @ self.k(key).transpose(-1, -2) * scale
        return s if mask is None else s.masked_fill(mask, -1e9)


class ListInput(nn.Module):
    """Takes a list of tensors, a dict of tensors and a plain int."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 8)
        self.b = nn.Linear(24, 8)

    def forward(self, xs, extra, n):
        y = sum(self.a(x) for x in xs) * n
        return y + self.b(extra["z"])


class CheckpointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = _trunk()
        self.b2 = nn.Sequential(nn.Conv2d(32, 32, 3), nn.ReLU())
        self.h = nn.Linear(32, 5)

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        x = checkpoint(self.b1, x, use_reentrant=False)
        x = checkpoint(self.b2, x, use_reentrant=False)
        return self.h(x.mean((2, 3)))


class BypassForward(nn.Module):
    """Calls child.forward directly, so that module hooks never fire."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 3)
        self.l = nn.Linear(16, 4)

    def forward(self, x):
        return self.l(self.c.forward(x).mean((2, 3)))


class EarlyExit(nn.Module):
    """Data-dependent control flow."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(32, 32)
        self.b = nn.Linear(32, 32)
        self.h = nn.Linear(32, 4)

    def forward(self, x):
        y = self.a(x)
        if y.mean().item() < 1e9:
            y = self.b(y)
        for _ in range(int((y.abs().sum() > 0).item()) * 2):
            y = self.b(F.relu(y))
        return self.h(y)


class EinsumAttn(nn.Module):
    """Raw einsum / matmul / bmm / addmm / baddbmm, no Linear."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 4, 64, 16) * 0.1)
        self.o = nn.Parameter(torch.randn(4, 16, 64) * 0.1)
        self.b = nn.Parameter(torch.zeros(64))
        self.m = nn.Parameter(torch.randn(64, 64) * 0.1)

    def forward(self, x):
        q, k, v = torch.einsum("bnd,shde->sbhne", x, self.w)
        a = torch.softmax(torch.einsum("bhne,bhme->bhnm", q, k) / 4, -1)
        y = torch.einsum("bhnm,bhme,hed->bnd", a, v, self.o)
        y = torch.addmm(self.b, y.flatten(0, 1), self.m)
        z = torch.baddbmm(torch.zeros(1), x, x.transpose(1, 2))
        return y.view_as(x) + torch.bmm(z, x)


class NoParams(nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x.transpose(-1, -2), -1)


class ConvT(nn.Module):
    """3-D, transposed, dilated, grouped and string-padded convolutions."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(8, 16, 3, padding="same", dilation=2)
        self.b = nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1, groups=2)
        self.c = nn.Conv3d(1, 4, 3, groups=1)
        self.d = nn.ConvTranspose3d(4, 2, 2, stride=2)
        self.e = nn.Conv1d(2, 6, 5, groups=2, padding_mode="circular", padding=2)

    def forward(self, x):
        y = self.b(F.gelu(self.a(x)))
        z = self.d(self.c(y.unsqueeze(1)))
        return self.e(z.flatten(2))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        c = [16, 32, 64]
        self.d = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip([3, *c], c, strict=False))
        self.u = nn.ModuleDict(
            {"u1": nn.ConvTranspose2d(64, 32, 2, 2), "u0": nn.ConvTranspose2d(32, 16, 2, 2)}
        )
        self.h = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        s = []
        for i, d in enumerate(self.d):
            x = F.relu(d(x))
            s.append(x)
            if i < 2:
                x = F.max_pool2d(x, 2)
        x = self.u["u1"](x) + s[1]
        x = self.u["u0"](x) + s[0]
        return self.h(x)


def encoder_only():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 3), nn.Linear(64, 10))


def deep_linear(n=1000, d=16):
    return nn.Sequential(*[nn.Linear(d, d) for _ in range(n)])


def parametrized():
    from torch.nn.utils import parametrizations as P

    return nn.Sequential(
        P.weight_norm(nn.Conv2d(3, 16, 3)),
        nn.ReLU(),
        P.spectral_norm(nn.Conv2d(16, 16, 3)),
        nn.Flatten(),
        nn.Linear(16 * 12 * 12, 10),
    )


def quantized_dynamic():
    m = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
    return torch.ao.quantization.quantize_dynamic(m, {nn.Linear}, dtype=torch.qint8)


class SelfAttention(nn.Module):
    """MultiheadAttention called for its weights, and without them."""

    def __init__(self):
        super().__init__()
        self.first = nn.MultiheadAttention(16, 4, batch_first=True)
        self.second = nn.MultiheadAttention(16, 2, batch_first=True, bias=False)

    def forward(self, x):
        y, weights = self.first(x, x, x)
        return self.second(y, y, y, need_weights=False)[0] * weights.sum()


class Elementwise(nn.Module):
    """Operators that no layer makes, spelled in every way that Python has."""

    def forward(self, x):
        y = torch.add(x, x) * 2 + x.mul(x)
        y = F.relu(y) + torch.relu(x) - x.sigmoid()
        return torch.matmul(y, x.transpose(1, 2)).softmax(-1) @ F.softmax(x, 1)


def build(net):
    """The model, the arguments and the keywords that an entry of truth.json or counters.json names."""
    if "tv" in net["build"]:
        pytest.importorskip("torchvision")
    torch.manual_seed(0)
    model, args, kwargs = (eval(net[part], globals()) for part in ("build", "args", "kwargs"))
    return model.eval(), args, kwargs
