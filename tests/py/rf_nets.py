# SPDX-License-Identifier: Apache-2.0
"""The receptive field as it is: the positions of the input that one element of an output has a gradient for.

Weights are positive and normalised, so that no two contributions cancel and no activation saturates; every
maximum of a window is made a mean, so that no position of it is left out.
"""

from __future__ import annotations

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn


def mean_pool(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    assert dilation in (1, (1, 1))
    return F.avg_pool2d(x, kernel_size, stride, padding, ceil_mode, count_include_pad=True)


@contextmanager
def means_for_maxima():
    old = F.max_pool2d, torch.max_pool2d
    F.max_pool2d = torch.max_pool2d = mean_pool
    try:
        yield
    finally:
        F.max_pool2d, torch.max_pool2d = old


def make_positive(model: nn.Module) -> nn.Module:
    model.double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator, dtype=torch.double) * 0.5 + 0.75)
            parameter.div_(2 * parameter[0].numel() if parameter.ndim > 1 else 1)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.data.mul_(1 / 64)
    return model


def seen(model: nn.Module, x: torch.Tensor, paths: list[str]) -> dict[str, tuple[int, ...]]:
    """For each path: the middle element of its output's last axes, then the first and last position along
    each of the input's that this element has a gradient for."""
    found: dict[str, torch.Tensor] = {}

    def keep(path):
        def hook(module, args, out):
            first = out
            if isinstance(out, (dict, list)):
                first = next(iter(out.values() if isinstance(out, dict) else out))
            found.setdefault(path, first)

        return hook

    handles = [model.get_submodule(path).register_forward_hook(keep(path)) for path in paths]
    x = x.double().requires_grad_()
    try:
        with means_for_maxima():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    told = {}
    for path in paths:
        y = found[path]
        middle = tuple(size // 2 for size in y.shape[2:])
        weights = torch.rand(y.shape[1], generator=torch.Generator().manual_seed(1), dtype=torch.double)
        (grad,) = torch.autograd.grad((y[(0, slice(None), *middle)] * weights).sum(), x, retain_graph=True)
        there = grad[0].ne(0).any(dim=0)
        spans = []
        for axis in range(there.ndim):
            others = tuple(i for i in range(there.ndim) if i != axis)
            at = (there.any(dim=others) if others else there).nonzero().flatten().tolist()
            spans.append((at[0], at[-1]) if at else None)
        told[path] = (middle, tuple(spans))
    return told
