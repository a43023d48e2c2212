# SPDX-License-Identifier: Apache-2.0
"""Nets that every torch from 1.13 on can build, for holding two versions of torch against each other."""

from __future__ import annotations

import nets
import torch
from torch import nn


def build():
    """Name -> (net, args, kwargs)."""
    x = torch.zeros(2, 4)
    image = torch.zeros(1, 3, 16, 16)
    return {
        "block": (nets.block().eval(), (image,), {}),
        "train": (nets.block().train(), (image,), {}),
        "keywords": (nets.Keywords(), (), {"x": x}),
        "repeats": (nets.Repeats(), (x,), {}),
        "two inputs": (nets.TwoInputs(), (x, x), {}),
        "dict": (nets.Wraps(lambda t: {"a": t}, lambda o: o["a"]), (x,), {}),
        "dataclass": (nets.Wraps(nets.Box, lambda o: o.tensor), (x,), {}),
        "owner": (nets.Owner(), (x,), {}),
        "unused": (nets.Unused(), (x,), {}),
        "lazy": (nn.Sequential(nn.LazyLinear(3)), (x,), {}),
        "lstm": (nn.LSTM(4, 5, 2, bidirectional=True), (torch.zeros(3, 2, 4),), {}),
        "attention": (nn.MultiheadAttention(4, 2), (torch.zeros(3, 2, 4),) * 3, {}),
        "embedding": (nn.Embedding(10, 4), (torch.zeros(2, 3, dtype=torch.int64),), {}),
        "half": (nn.Linear(4, 4).to(torch.bfloat16), (x.to(torch.bfloat16),), {}),
        "shared": (shared(), (x,), {}),
    }


def shared():
    layer = nn.Linear(4, 4)
    return nn.Sequential(nn.Sequential(layer), nn.Sequential(layer), nn.ReLU())
