# SPDX-License-Identifier: Apache-2.0
"""Small models with one oddity each."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import torch
from torch import nn

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    tensor: torch.Tensor
    label: str = ""


class Plain:
    """An object with a tensor among its attributes."""

    def __init__(self, tensor):
        self.tensor = tensor


class Returns(nn.Module):
    """A linear layer whose result is wrapped by a function."""

    def __init__(self, wrap):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.wrap = wrap

    def forward(self, x):
        return self.wrap(self.fc(x))


class Wraps(nn.Module):
    """Calls a module whose result is no tensor, and goes on with what it found inside."""

    def __init__(self, wrap, unwrap):
        super().__init__()
        self.inner = Returns(wrap)
        self.unwrap = unwrap
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.unwrap(self.inner(x)))


class Keywords(nn.Module):
    """Calls its child, and is called, with keywords only."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, *, x):
        return self.fc(input=x)


class Repeats(nn.Module):
    """Calls one layer several times under one name."""

    def __init__(self, times=3):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.times = times

    def forward(self, x):
        for _ in range(self.times):
            x = self.fc(x)
        return x


class Owner(nn.Module):
    """A container with a parameter of its own beside a child."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(7, 4))
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x) * self.scale.sum()


class Functional(nn.Module):
    """All its work is functional."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight)


class Borrows(nn.Module):
    """Uses a child's weight without calling the child."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return self.proj(torch.nn.functional.linear(x, self.qkv.weight)[..., :4])


class Unused(nn.Module):
    """Has children that nothing calls."""

    def __init__(self):
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.spare = nn.Linear(4, 5)
        self.block = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.several = nn.ModuleList([nn.Linear(4, 2)])

    def forward(self, x):
        return self.used(x)


class Skips(nn.Module):
    """Its block's child is never called."""

    def __init__(self):
        super().__init__()
        self.block = Never()

    def forward(self, x):
        return self.block(x)


class Never(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return x + 1


class Fails(nn.Module):
    """Raises in the middle; ``error`` is what."""

    def __init__(self, error=None):
        super().__init__()
        error = ValueError("no good") if error is None else error
        self.before = nn.Linear(4, 4)
        self.breaks = Breaks(error)
        self.after = nn.Linear(4, 4)

    def forward(self, x):
        return self.after(self.breaks(self.before(x)))


class Breaks(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.bn = nn.BatchNorm1d(4)
        self.error = error

    def forward(self, x):
        self.bn(x)
        if self.error is not None:
            raise self.error
        return x


class Branches(nn.Module):
    """Takes branch ``which``; the other is not called."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.which = "a"

    def forward(self, x):
        return getattr(self, self.which)(x)


class Counts(nn.Module):
    """Changes its own Python attributes, a buffer and the global generators in forward."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.seen = []
        self.register_buffer("ema", torch.zeros(4))
        self.bn = nn.BatchNorm1d(4)

    def forward(self, x):
        import random

        self.calls += 1
        self.seen.append(1)
        self.ema = self.ema + 1
        random.random()
        return self.bn(x + torch.rand(4))


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x, y):
        return self.fc(x + y)


def block():
    """A convolution, batch norm and activation, with everything that inspection might disturb."""
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.5))
