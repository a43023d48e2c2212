# SPDX-License-Identifier: Apache-2.0
"""Models for the tests of the report's page, each looked at in its own way; small, so that it is short."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lamina

ROOF = lamina.Roof(1e11, 1e10, 2)  # a machine that is always the same


@torch.library.custom_op("lamina_test_page::scan", mutates_args=(), schema="(Tensor x) -> Tensor")
def scan(x):
    """An operator that lamina has no rule for and can't look into."""
    return torch.from_numpy(x.detach().numpy().cumsum(-1))


class Scan(nn.Module):
    def forward(self, x):
        return torch.ops.lamina_test_page.scan(x)


class Log(nn.Module):
    def forward(self, x):
        return (-1 - x.abs()).log()


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.lstm = nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 2)

    def forward(self, ids):
        x, _ = self.lstm(self.embed(ids))
        return self.head(x.mean(1))


def torchvision_model(name, **options):
    torchvision = pytest.importorskip("torchvision")
    return getattr(torchvision.models, name)(**options)


def llama(layers, device="cpu"):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        num_hidden_layers=layers, hidden_size=64, num_attention_heads=8, num_key_value_heads=2,
        intermediate_size=128, vocab_size=100, use_cache=False,
    )  # fmt: skip
    with torch.device(device):
        return transformers.LlamaForCausalLM(config)


def resnet18():
    net, x = torchvision_model("resnet18"), torch.randn(1, 3, 64, 64)
    return lamina.inspect(net, x, memory=True, health=True, backward=True, time=True, warmup=0, repeats=2)


def vit_b_16():
    return lamina.inspect(torchvision_model("vit_b_16", image_size=32), torch.randn(1, 3, 32, 32), dry=True)


def densenet121():
    return lamina.inspect(
        torchvision_model("densenet121"), torch.randn(2, 3, 32, 32), dry=True, backward=True
    )


def small_llama():
    ids = torch.zeros(1, 8, dtype=torch.long)
    return lamina.inspect(llama(2), ids, memory=True, backward=True)


def llama_of_80_layers():
    return lamina.inspect(llama(80, "meta"), torch.zeros(1, 8, dtype=torch.long), dry=True)


def lstm():
    return lamina.inspect(Sentiment(), torch.randint(0, 100, (4, 12)), memory=True)


def detection():
    """In train mode: what a box detector does with its candidates needs torchvision's own operators."""
    models = __import__("torchvision.models.detection").models.detection
    net = models.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None).train()
    truth = {"boxes": torch.tensor([[1.0, 1.0, 30.0, 30.0]]), "labels": torch.tensor([1])}
    return lamina.inspect(net, ([torch.randn(3, 64, 64)] * 2, [truth] * 2))


def with_nan():
    net = nn.Sequential(nn.Linear(4, 4), Log(), nn.Linear(4, 4))
    return lamina.inspect(net, torch.randn(2, 4), health=True)


def not_exact():
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), Scan()) for _ in range(3)))
    return lamina.inspect(nn.Sequential(blocks, nn.Linear(8, 3)), torch.randn(2, 8))


LOOKS = {
    look.__name__: look
    for look in (
        resnet18, vit_b_16, densenet121, small_llama, llama_of_80_layers, lstm, detection, with_nan,
        not_exact,
    )
}  # fmt: skip
HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u202eright to left", "x" * 10_000,
    "שלום", "esc\x1b[31m", "nul\x00", "&lt;b&gt;", "a\"b'c",
]  # fmt: skip


def hostile():
    """Modules whose names are what a page must not believe."""
    net = nn.Sequential()
    for name in HOSTILE:
        net.add_module(name, nn.Linear(4, 4))
    return lamina.inspect(net, torch.randn(2, 4), memory=True)


class Before(nn.Module):
    """Against After: a module is changed, one is renamed, one is added, two and their insides are removed."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.mix = nn.Conv2d(8, 8, 3, padding=1)
        self.more = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
        self.flat = nn.AdaptiveMaxPool2d(4)
        self.classifier = nn.Linear(128, 10)

    def forward(self, x):
        return self.classifier(self.flat(self.more(self.mix(self.stem(x)))).flatten(1))


class After(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.mix = nn.Conv2d(8, 8, 1)
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.pool(self.mix(self.stem(x))).flatten(1))


def one_changed(net, **options):
    return lamina.inspect(net, torch.randn(2, 3, 16, 16), **options)
