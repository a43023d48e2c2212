# SPDX-License-Identifier: Apache-2.0
"""Modules of one operator each, for predictions of memory."""

from __future__ import annotations

import random

import torch
from torch import nn


class Lone(nn.Module):
    """One operator, of which tensors that need a gradient are parameters and others buffers."""

    def __init__(self, function, args, kwargs):
        super().__init__()
        self.function = function
        self.args, self.kwargs = self._kept(args), self._kept(kwargs)

    def _kept(self, value):
        if isinstance(value, torch.Tensor):
            name = f"t{len(self._parameters) + len(self._buffers)}"
            plain = value.detach().clone()
            if value.requires_grad:
                self.register_parameter(name, nn.Parameter(plain))
            else:
                self.register_buffer(name, plain)
            return _Name(name)
        if isinstance(value, (list, tuple)):
            return type(value)(self._kept(v) for v in value)
        return {k: self._kept(v) for k, v in value.items()} if isinstance(value, dict) else value

    def _found(self, value):
        if isinstance(value, _Name):
            return getattr(self, value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._found(v) for v in value)
        return {k: self._found(v) for k, v in value.items()} if isinstance(value, dict) else value

    def forward(self):
        return self.function(*self._found(self.args), **self._found(self.kwargs))


class _Name(str):
    __slots__ = ()


def convolution(seed):
    """A lone convolution, made from a seed."""
    draw = random.Random(seed)
    axes = draw.choice((1, 2, 2, 2, 3))
    groups = draw.choice((1, 1, 1, 2, 4))
    channels = [groups * draw.choice((1, 3, 8, 15, 16, 20, 32)) for _ in range(2)]
    if draw.random() < 0.15:
        groups = channels[0]
        channels[1] = groups * draw.choice((1, 2))
    transposed = draw.random() < 0.25
    kernel = draw.choice((1, 2, 3, 3, 3, 5, 7))
    kernel = min(kernel, 3) if axes == 3 else kernel
    stride = draw.choice((1, 1, 2, 3))
    dilation = draw.choice((1, 1, 1, 2))
    padding = draw.choice((0, kernel // 2))
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{axes}d")
    net = kind(*channels, kernel, stride, padding, groups=groups, dilation=dilation, bias=draw.random() < 0.5)
    side = {1: 2000, 2: draw.choice((15, 28, 56)), 3: 12}[axes]
    x = torch.randn(draw.choice((1, 2, 4, 17)), channels[0], *[side] * axes)
    if axes == 2 and draw.random() < 0.2:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    return f"{net} of {tuple(x.shape)}", net, x
