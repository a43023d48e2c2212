# SPDX-License-Identifier: Apache-2.0
"""Results of a dry run that torch's shape functions make otherwise than the CPU does: in another layout, of
another type, or where the CPU leaves them empty. Source: what the kernels of PyTorch 2.13 return."""

from __future__ import annotations

import sys
from typing import Any

# The results of these have the shapes and the layouts of these arguments; torch, or an older version, has no
# shape function for them, or one with another layout.
AS_ARGUMENT = {
    "aten::_masked_softmax": (0,),
    "aten::fractional_max_pool3d_backward": (1,),
    "aten::log_sigmoid_backward": (0,),
    "aten::multi_margin_loss_backward": (1,),
    "aten::multilabel_margin_loss_backward": (1,),
    "aten::_weight_norm_interface_backward": (1, 2),
}
# The CPU returns these with columns in order; torch's shape functions do not.
BY_COLUMNS = {"aten::_linalg_svd": (0, 2), "aten::linalg_eig": (1,)}
# The CPU lays out the first result of these as this argument, by channels or in rows; torch's shape functions
# do not.
BY_ARGUMENT = {
    "aten::native_batch_norm_backward": 1,
    "aten::pixel_shuffle": 0,
    "aten::reflection_pad2d_backward": 1,
    "aten::reflection_pad3d_backward": 1,
    "aten::replication_pad2d_backward": 1,
    "aten::replication_pad3d_backward": 1,
}
# The CPU lays out the first result of these in rows; torch's shape functions do not.
IN_ROWS = (
    "aten::_log_softmax_backward_data",
    "aten::glu_backward",
    "aten::huber_loss_backward",
    "aten::mse_loss_backward",
    "aten::native_layer_norm_backward",
    "aten::smooth_l1_loss_backward",
)
# The CPU lays out the result of these as a sum of these arguments; torch's shape functions take them in
# another order.
BY_ELEMENTS = {
    "aten::elu_backward": (0, 5),
    "aten::hardsigmoid_backward": (0, 1),
    "aten::hardswish_backward": (0, 1),
    "aten::hardtanh_backward": (0, 1),
    "aten::softplus_backward": (0, 1),
}
# The CPU leaves these results empty if a flag is off; torch's shape functions do not: the flag, those
# results.
EMPTY = {
    "aten::native_batch_norm": (5, "training", (1, 2)),
    "aten::_native_batch_norm_legit": (5, "training", (1, 2)),
    "aten::_linalg_svd": (2, "compute_uv", (0, 2)),
    "aten::_linalg_eigh": (2, "compute_v", (1,)),
}
# The CPU returns the statistics of these in the type of the input, or in float32 if a weight is of that type;
# torch's shape functions do not.
STATISTICS = (
    "aten::native_layer_norm",
    "aten::native_group_norm",
    "aten::native_batch_norm",
    "aten::_native_batch_norm_legit",
    "aten::_batch_norm_with_update",
)
ONEDNN = ("Mkldnn", "MkldnnTranspose", "???")  # its convolutions; torch has no name for the transposed one


def as_the_cpu_does(run: Any, function: Any, args: Any, kwargs: Any, seen: list[Any]) -> Any:
    """The results of an operator in a dry run (``_Run``), as the CPU lays them out. ``seen``: its tensors."""
    name = function._schema.name
    if name in AS_ARGUMENT:
        empty = run.torch.ops.aten.empty_like.default
        made = [run.by_meta(empty, (args[at],), {}) for at in AS_ARGUMENT[name]]
        return tuple(made) if len(made) > 1 else made[0]
    if name in BY_ELEMENTS:
        return run.by_meta(run.torch.ops.aten.add.Tensor, [args[at] for at in BY_ELEMENTS[name]], {})
    if name in EMPTY:
        return _in_type(run, name, seen, _with_empty(run, function, args, kwargs))
    out = run.by_meta(function, args, kwargs)
    if name == "aten::convolution" and args[0].dtype is not run.torch.float64:
        return _as_suggested(run, _last(run, args[:2]), out)
    if name == "aten::convolution_backward":
        return _by_channels(run, args, _with_weight(run, args, out))
    if name in BY_ARGUMENT or name in IN_ROWS:
        return _as_suggested(run, args[BY_ARGUMENT[name]] if name in BY_ARGUMENT else None, out)
    out = _in_type(run, name, seen, out)
    return _by_columns(run, name, out) if name in BY_COLUMNS else out


def _with_empty(run: Any, function: Any, args: Any, kwargs: Any) -> Any:
    """Makes results empty that a flag does not request."""
    at, name, unwanted = EMPTY[function._schema.name]
    wanted = args[at] if at < len(args) else kwargs.get(name, True)
    out = run.by_meta(function, args, kwargs)
    if wanted:
        return _by_columns(run, function._schema.name, out)
    return tuple(new(run, (0,), each.dtype) if at in unwanted else each for at, each in enumerate(out))


def _in_type(run: Any, name: str, seen: list[Any], out: Any) -> Any:
    """The results of a normalisation, with its statistics in the type of a real run."""
    torch = run.torch
    if name not in STATISTICS:
        return out
    dtype = torch.float32 if any(t.dtype is torch.float32 for t in seen) else seen[0].dtype
    if out[1].dtype is dtype:
        return out
    return out[0], *(new(run, t.shape, dtype) for t in out[1:3]), *out[3:]


def _by_columns(run: Any, name: str, out: tuple[Any, ...]) -> tuple[Any, ...]:
    which = BY_COLUMNS.get(name, ())
    return tuple(
        in_columns(run, each.shape, each.dtype) if at in which else each for at, each in enumerate(out)
    )


def _with_weight(run: Any, args: Any, out: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of a convolution. oneDNN computes that of the weight with that of the bias, also of a
    frozen weight."""
    torch = run.torch
    _, x, weight, _, *how, mask = args
    if mask[1] or not mask[2]:
        return out
    with torch._C._DisableTorchDispatch():
        plain = [torch.empty((), dtype=t.dtype).expand(t.shape) for t in (x, weight)]
        backend = torch._C._select_conv_backend(*plain, None, *how).name
    return (out[0], new(run, weight.shape, weight.dtype), out[2]) if backend in ONEDNN else out


def _by_channels(run: Any, args: Any, out: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of a convolution, both channels last if its input or weight is. The shape function of
    an older torch returns them in rows."""
    like = _last(run, args[1:3])
    if like is None:
        return out
    last = sys.modules["torch._prims_common"].suggest_memory_format(like)
    return tuple(
        g if g is None or g.dim() == 1 else new(run, g.shape, g.dtype, memory_format=last) for g in out
    )


def _last(run: Any, tensors: Any) -> Any:
    """The first of these tensors that has its channels last; None: none has."""
    laid_out, rows = sys.modules["torch._prims_common"].suggest_memory_format, run.torch.contiguous_format
    return next((each for each in tensors if laid_out(each) is not rows), None)


def _as_suggested(run: Any, x: Any, out: Any) -> Any:
    """The results, the first by channels if ``x`` is, else in rows."""
    torch, laid_out = run.torch, sys.modules["torch._prims_common"].suggest_memory_format
    layout = torch.contiguous_format if x is None else laid_out(x)
    first = out[0] if isinstance(out, tuple) else out
    if first is None:
        return out
    with torch._C._DisableTorchDispatch():
        made = torch.empty(first.shape, dtype=first.dtype, device="meta", memory_format=layout)
        made = first if made.stride() == first.stride() else run.core.like(made)
    return (made, *out[1:]) if isinstance(out, tuple) else made


def new(run: Any, shape: Any, dtype: Any, **layout: Any) -> Any:
    """A new fake tensor, in rows unless ``layout`` says otherwise."""
    with run.torch._C._DisableTorchDispatch():
        return run.core.like(run.torch.empty(shape, dtype=dtype, device="meta", **layout))


def in_columns(run: Any, shape: Any, dtype: Any) -> Any:
    """A new fake tensor, whose matrices are stored by columns."""
    *many, rows, columns = shape
    with run.torch._C._DisableTorchDispatch():
        return run.core.like(run.torch.empty([*many, columns, rows], dtype=dtype, device="meta").mT)
