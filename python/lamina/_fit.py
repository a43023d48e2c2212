# SPDX-License-Identifier: Apache-2.0
"""The peak memory of a forward pass and of a training step, predicted from dry runs."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.check import check_module, describe_object, positional
from ._base.dtypes import real_dtype
from ._dry.running import MOST_KNOWN
from ._results.fit import LARGEST, Fit, tensors_in
from ._run.once import run_once

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_GRADIENT = "no parameter gets a gradient from the output"


def fit(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    batch: int | None = None,
    optimizer: str | None = None,
    dtype: Any = None,
) -> Fit:
    """Predicts the peak memory of a forward pass and of a training step of ``model``, on a CPU.

    The model does not run: autograd, the model's code and the layers hold tensors without memory as long as
    they would hold real ones. The workspace of kernels is measured: each operator of up to 64 MiB and 2^31
    products runs once, alone, on made-up tensors. The backward starts at the floating-point outputs and ends
    at the inputs; a loss is not included. The model and its arguments are as before afterwards.

    Args:
        model: any ``torch.nn.Module``; it may be on the meta device.
        args: the positional arguments as a tuple, or a single tensor; they may be on the meta device.
        kwargs: the keyword arguments.
        batch: the number of examples: replaces the first axis of the first tensor, and of every tensor
            whose first axis has the same size.
        optimizer: the optimizer of the step: ``"adamw"`` (the default), ``"sgd"``, ``"sgd-momentum"``, ...
        dtype: predicts as if floating-point parameters, buffers and inputs were of this type, as
            ``torch.bfloat16``.

    Raises:
        TypeError: the model is no module, ``args`` no tuple, ``batch`` no whole number, or ``optimizer`` no
            name.
        ValueError: there is no such optimizer or type, or nothing has a batch axis.
        UnsupportedError: the model is scripted or lazy, or gathers its parameters for each call (FSDP,
            ZeRO-3).
        NeedsValuesError: the model reads values, which were not computed. If it reads them in train mode
            alone, :attr:`Fit.no_step` says so instead.
    """
    root = check_module(model)
    given, named = positional(args, kwargs, root), dict(kwargs or {})
    optimizer = _optimizer(optimizer)
    name = None if dtype is None else _dtype(dtype)
    if batch is not None:
        given, named = of_batch(given, named, batch)
    runs = [
        run_once(root, given, named, mode=mode, ops=True, backward=step, dry=True, follow=True, dtype=name)
        for mode, step in (("eval", False), ("train", True))
    ]
    forward, step = runs
    for run in runs:
        if run.error is not None and (run is forward or not isinstance(run.error, Exception)):
            run.reraise()
    assert forward.model is not None
    why = NO_GRADIENT if step.no_backward else None
    if step.error is not None:
        why = str(step.error) or type(step.error).__name__
    return Fit(forward.model, step.model if why is None else None, optimizer, no_step=why)


def _optimizer(name: str | None) -> str:
    known = _lamina.optimizers()
    if name is None:
        return next(iter(known))
    if not isinstance(name, str):
        raise TypeError(f"an optimizer is named, as 'sgd', and this is {describe_object(name)}")
    if name not in known:
        raise ValueError(f"there is no optimizer {name!r}; there are: {', '.join(known)}")
    return name


def _dtype(dtype: Any) -> str:
    return real_dtype(str(dtype))


def of_batch(
    args: tuple[Any, ...], kwargs: dict[str, Any], batch: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with their examples replaced by ``batch`` examples.

    Raises:
        ValueError: no tensor among them has an axis, or ``batch`` is not positive.
    """
    torch = sys.modules["torch"]
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch is {batch!r}; it is a whole number from 1")
    sizes = [tensor.shape[0] for tensor in tensors_in([*args, *kwargs.values()], torch) if tensor.dim() > 0]
    if batch < 1 or not sizes:
        raise ValueError(
            f"batch={batch} is not possible; give 1 or more"
            if sizes
            else "no input has a batch axis; give them in the size asked for"
        )

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _resized(value, batch, torch) if value.dim() > 0 and value.shape[0] == sizes[0] else value
        if type(value) in (list, tuple):
            return type(value)(changed(v) for v in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(changed(v) for v in value))
        return {k: changed(v) for k, v in value.items()} if type(value) is dict else value

    return tuple(changed(v) for v in args), {k: changed(v) for k, v in kwargs.items()}


def _resized(tensor: Any, batch: int, torch: Any) -> Any:
    """The tensor with ``batch`` examples. Values of integers are repeated, because a model may read them;
    other values are not needed."""
    shape = (batch, *tensor.shape[1:])
    example = tensor.element_size() * max(math.prod(tensor.shape[1:]), 1)  # not a count: whether it can be
    if batch * example >= LARGEST:  # not a count: whether it can be
        raise ValueError(f"no tensor can hold {batch} examples; ask for fewer")
    known = not tensor.is_floating_point() and tensor.device.type == "cpu" and tensor.shape[0] > 0
    if known and batch * tensor[0].numel() <= MOST_KNOWN:  # not a count: whether values are looked at
        examples = torch.arange(batch) % tensor.shape[0]  # not a count: which one is repeated
        return tensor[examples]
    return torch.empty(shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
