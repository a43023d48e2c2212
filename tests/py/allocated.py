# SPDX-License-Identifier: Apache-2.0
"""How much memory torch's CPU allocator hands out while something runs, as torch's own profiler notes it."""

from __future__ import annotations

import gc

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


def peak_of(work):
    """The most bytes that were taken at one time while ``work()`` ran, above what there was before, and what
    it gave."""
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watch:
        result = work()
    now = most = 0
    for event in sorted(
        (e for e in watch.profiler.kineto_results.events() if e.name() == "[memory]"),
        key=lambda e: e.start_ns(),
    ):
        now += event.nbytes()
        most = max(most, now)
    return most, result


def floats(value):
    """Floating-point tensors that need a gradient, wherever they are in ``value``."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() and value.requires_grad else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in floats(item)]
    return floats(vars(value)) if hasattr(value, "__dict__") else []


def forward_peak(model, args, kwargs):
    """Of a forward pass in eval mode, above what there was before; the second one, for what it caches."""
    model.eval()
    with torch.no_grad():
        model(*args, **kwargs)
        return peak_of(lambda: model(*args, **kwargs))[0]


def step_peak(model, args, kwargs, optimizer):
    """Of a training step, above the model itself and what the optimizer keeps, and that: the third one."""

    def step():
        optimizer.zero_grad()
        ends = floats(model(*args, **kwargs))
        torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])
        optimizer.step()

    model.train()
    for _ in range(2):
        step()
    optimizer.zero_grad()
    before = kept(optimizer)
    return peak_of(step)[0] + before


def kept(optimizer):
    """Bytes of what an optimizer keeps from step to step."""
    return sum(
        value.untyped_storage().nbytes()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    )


def held(model, args, kwargs):
    """Bytes of parameters, buffers and inputs."""
    wholes = [*model.parameters(), *model.buffers(), *_inputs([*args, *kwargs.values()])]
    tensors = [tensor for whole in wholes for tensor in _with_memory(whole)]
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}.values())


def _with_memory(tensor):
    """The tensor, or those that it wraps."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    return [
        inside for name in tensor.__tensor_flatten__()[0] for inside in _with_memory(getattr(tensor, name))
    ]


def _inputs(values):
    if isinstance(values, torch.Tensor):
        return [values]
    items = (
        values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else []
    )
    return [tensor for item in items for tensor in _inputs(item)]
