# SPDX-License-Identifier: Apache-2.0
"""The peak memory of a forward pass and of a training step, predicted from dry runs."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from ._base.check import check_flag, check_module, positional
from ._base.dtypes import real_dtype
from ._base.errors import UnsupportedError, UsageError
from ._base.signature import takes
from ._dry.optimizer import maker as maker  # the command's too
from ._dry.running import MOST_KNOWN
from ._results.fit import LARGEST, Fit, tensors_in
from ._run.held import kept_by
from ._run.once import run_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from . import _lamina

NO_GRADIENT = "no parameter gets a gradient from the output"


def fit(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    batch: int | None = None,
    optimizer: str | Callable[[list[Any]], Any] | None = None,
    dtype: Any = None,
    step: bool = True,
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
        optimizer: what makes the step. A name is a class of ``torch.optim``, in lower case, with options that
            are set: ``"adamw"`` (the default), ``"sgd"``, ``"sgd-momentum"``, ``"adamw-fused"``. A function
            takes the list of the model's parameters and returns an optimizer, anybody's, or a list of them:
            ``lambda p: torch.optim.AdamW(p, foreach=True)``.
        dtype: predicts as if floating-point parameters, buffers and inputs were of this type, as
            ``torch.bfloat16``.
        step: False predicts the forward pass alone, which takes less time; :attr:`Fit.step` is then None.

    Raises:
        TypeError: the model is no module, ``args`` no tuple, ``batch`` no whole number, or ``optimizer``
            neither a name nor a function.
        ValueError: there is no such optimizer or type, the optimizer can't be made of these parameters,
            nothing has a batch axis, or ``optimizer`` is given with ``step=False``.
        UnsupportedError: the model is scripted or lazy, or gathers its parameters for each call (FSDP,
            ZeRO-3).
        NeedsValuesError: the model reads values, which were not computed. If it reads them in train mode
            alone, :attr:`Fit.no_step` says so instead.
    """
    root = check_module(model)
    given, named = positional(args, kwargs, root), dict(kwargs or {})
    check_flag("step", step)
    if not step and optimizer is not None:
        raise UsageError("step=False: no optimizer makes a step then; leave it or optimizer out")
    by = maker(optimizer) if step else None
    name = None if dtype is None else _dtype(dtype)
    if batch is not None:
        given, named = of_batch(given, named, batch)
    options: Any = {"ops": True, "dry": True, "follow": True, "dtype": name}
    forward = run_once(root, given, named, mode="eval", **options)
    if forward.error is not None:
        forward.reraise()
    assert forward.model is not None
    _keep(forward.model, root, given, named, name)
    if by is None:
        return Fit(forward.model, None)
    if hooked := _hooked(root):
        return Fit(forward.model, None, no_step=hooked)
    whole = run_once(root, given, named, mode="train", backward=True, optimizer=by, **options)
    if whole.error is not None and (_is_usage(whole.error) or not isinstance(whole.error, Exception)):
        whole.reraise()
    why = NO_GRADIENT if whole.no_backward else None
    if whole.error is not None:
        why = str(whole.error) or type(whole.error).__name__
    return Fit(forward.model, whole.model if why is None else None, no_step=why)


def _keep(model: _lamina.Model, root: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: Any) -> None:
    """Adds to the model what its forward leaves for the next one, if it is given tokens."""
    wanted = takes(root.forward)
    if wanted is None:
        return
    by_position = list(wanted.parameters)
    inputs = model.events()[0]["inputs"]
    rows = {entry: model.table_rows(entry) for entry in range(len(inputs))}
    read = sorted((each[1], entry) for entry, each in rows.items() if each is not None)
    ids = [inputs[entry]["name"] or by_position[inputs[entry]["position"]] for _, entry in read]
    tensors = dict(zip(by_position, args, strict=False)) | kwargs
    ids = [name for name in ids if hasattr(tensors.get(name), "dim")]  # not inside of a dict
    if ids:
        kept = kept_by(root, args, kwargs, ids, dtype=dtype)
        if kept.tensors:
            model.keep(*kept)


def _hooked(root: Any) -> str | None:
    """Why a step can't be followed if code runs as soon as a parameter has its gradient, as an optimizer in
    the backward pass: it knows the real parameters. None: no such code."""
    for name, parameter in root.named_parameters():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            return (
                f"code runs as soon as {name} has its gradient (register_post_accumulate_grad_hook); a dry "
                "run can't follow that; remove the hook to predict a step without it"
            )
    return None


def _is_usage(error: BaseException) -> bool:
    """True if the optimizer does not fit the model: the caller's mistake, not a limit of dry runs."""
    return isinstance(error, UsageError) and not isinstance(error, UnsupportedError)


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
