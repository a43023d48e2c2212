# SPDX-License-Identifier: Apache-2.0
"""torchscan's ``summary`` and ``crawl_module``: its numbers and its layout, from one capture."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .._base.check import check_module, describe_object
from .._base.modules import parameters
from .._inspect import report_of
from .._results.report import Report
from .._results.rows import Row
from .._run.once import run_once
from .modules import CONVENTION, warn_unsupported
from .process import get_process_gpu_ram

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["apply", "crawl_module", "summary"]

# The core's layout of each style that summary prints.
STYLES = {"0.1.2": "torchscan-0.1.2", "0.1.1": "torchscan-0.1.1", "lamina": "lamina"}
WRAPS = ("mid", "end", None)
MIB = 1024 * 1024  # not a count: a unit
MOST_AXES = 3  # of an image, without its batch axis
DEEPEST = 0x7FFF_FFFF  # the largest depth that the core accepts


def apply(module: Any, fn: Callable[[Any, str], object], name: str | None = None) -> None:
    """Calls ``fn(module, dotted name)`` on the whole tree, parents first.

    The root's name is ``name``, or its class's name in lower case. A module in two places is visited at
    both.
    """
    top = type(module).__name__.lower() if name is None else name
    pending = [(module, top)]
    while pending:  # not recursive: a tree may be deeper than Python's stack
        current, path = pending.pop()
        fn(current, path)
        children = [(child, f"{path}.{key}") for key, child in current._modules.items() if child is not None]
        pending.extend(reversed(children))


def crawl_module(module: Any, input_shape: Any, dtype: Any = None) -> dict[str, Any]:
    """Runs the model once on random values and returns the cost of every layer.

    Args:
        module: any ``torch.nn.Module``; it runs in its current mode and is restored.
        input_shape: the shape of the input without its batch axis, or a list of such shapes, one for each
            input. The batch is 1.
        dtype: one dtype, or a list with one for each input; by default that of the first parameter.

    Returns:
        ``{"overheads": ..., "layers": [...], "overall": ...}``: one dict for each call in ``layers``, parents
        first. Numbers without a formula in torchscan are a :class:`lamina.Count` 0 with state "unknown", and
        cause a UserWarning.

    Raises:
        TypeError: ``module`` is no module, the shape no tuple of sizes, or ``dtype`` no dtype.
        ValueError: there are fewer dtypes than shapes, or a size is negative.
    """
    report, overheads = _crawl(module, input_shape, dtype)
    _warn(report)
    return {
        "overheads": overheads,
        "layers": [_layer(row) for row in _called(report)],
        "overall": _overall(report),
    }


def summary(
    module: Any,
    input_shape: Any = None,
    wrap_mode: str | None = "mid",
    max_depth: int | None = None,
    receptive_field: bool = False,
    effective_rf_stats: bool = False,
    dtype: Any = None,
    style: str = "0.1.2",
    **unknown: Any,
) -> Report:
    """Prints the table of layers and returns it as a report. An interpreter prints a result that is not
    assigned, so write ``report = summary(...)`` there.

    Args:
        module, input_shape, dtype: as for :func:`crawl_module`.
        wrap_mode: the place where long names are cut: "mid", "end", or None for a plain cut.
        max_depth: sums up deeper layers into their ancestor at this depth.
        receptive_field: adds the receptive field; ``effective_rf_stats`` adds its stride and padding.
        style: "0.1.2" for torchscan 0.1.2's layout, "0.1.1" for the layout of its README, "lamina" for
            lamina's own, which counts every call.

    Raises:
        TypeError: ``module`` is no module, the shape no tuple of sizes, or ``dtype`` no dtype.
        ValueError: a size is negative, the tree has no layer at ``max_depth``, or there is no such style or
            wrap mode.
    """
    if unknown:
        raise TypeError(_no_argument(*unknown))
    if style not in STYLES:
        raise ValueError(f"there is no style {style!r}; it is one of {', '.join(STYLES)}")
    if wrap_mode not in WRAPS:
        raise ValueError(f"there is no wrap_mode {wrap_mode!r}; it is 'mid', 'end' or None")
    if max_depth is not None and not isinstance(max_depth, int):
        raise TypeError(
            f"max_depth is {describe_object(max_depth)}; it is a whole number, or None for the whole tree"
        )
    shown: dict[str, Any] = {
        "layout": STYLES[style],
        "wrap": wrap_mode or "none",
        "depth": max_depth if max_depth is None else max(-1, min(int(max_depth), DEEPEST)),
        "receptive_field": receptive_field,
        "effective_rf_stats": effective_rf_stats,
    }
    released, old = style != "lamina", style == "0.1.1"
    report, overheads = _crawl(module, input_shape, dtype, released=released, old=old, **shown)
    text = report._text(overhead_mb=overheads["framework"]["fwd"] + overheads["cuda"]["fwd"])
    _warn(report)
    sys.stdout.write(text + "\n")
    return report


def _no_argument(name: str, *_: str) -> str:
    """The error for an argument of torchinfo's summary, which this one has by another name or not at all."""
    what = f"summary() has no argument {name!r}; "
    if name == "input_size":
        return what + "give input_shape=(3, 224, 224), which is the size of the input without its batch axis"
    if name in ("input_data", "col_names", "verbose", "device", "mode"):
        return what + "lamina.inspect(model, torch.rand(1, 3, 224, 224)) runs a model on an input of yours"
    return (
        what + "it takes input_shape, wrap_mode, max_depth, receptive_field, effective_rf_stats, dtype, style"
    )


# -- one run -------------------------------------------------------------------------------------------------


def _crawl(
    module: Any, input_shape: Any, dtype: Any, *, released: bool = True, old: bool = False, **shown: Any
) -> tuple[Report, dict[str, dict[str, float]]]:
    root = check_module(module)
    shapes = _shapes(input_shape)
    before = _overhead()
    run = run_once(root, lambda: _random_inputs(root, shapes, dtype), unfused=True)
    _explain_batch(run.error, shapes)
    after = _overhead()
    custom = _without_flatten(run.model) if old and run.model is not None else None
    report = report_of(run, CONVENTION, released=released, custom=custom, backwards=old, **shown)
    overheads = {kind: {"pre": before[kind], "fwd": after[kind]} for kind in ("cuda", "framework")}
    return report, overheads


def _without_flatten(model: _lamina.Model) -> Callable[[int], tuple[int, int, int] | None]:
    """torchscan 0.1.1 counted nothing for Flatten; the core has the rules of 0.1.2."""
    flattens = {i for i, module in enumerate(model.modules()) if module["word"] == "Flatten"}
    calls = {i for i, call in enumerate(model.events()) if call["module"] in flattens}
    return lambda call: (0, 0, 0) if call in calls else None


def _shapes(input_shape: Any) -> list[tuple[int, ...]]:
    """A tuple of sizes is one input, a list of such tuples is several."""
    shapes = input_shape if isinstance(input_shape, list) else [input_shape]
    for shape in shapes:
        if not isinstance(shape, tuple) or not all(isinstance(n, int) for n in shape):
            what = repr(shape) if isinstance(shape, (int, tuple, str)) else describe_object(shape)
            raise TypeError(
                f"the input shape {what} is not a tuple of sizes; give (3, 224, 224), without the "
                "batch axis, or a list of such tuples for several inputs"
            )
        if min(shape, default=0) < 0:
            raise ValueError(f"the input shape {shape!r} has a negative size")
    return shapes


def _explain_batch(error: BaseException | None, shapes: list[tuple[int, ...]]) -> None:
    """Adds a note to an exception of the forward if a shape seems to include the batch axis."""
    for shape in shapes:
        if error is not None and len(shape) > MOST_AXES:
            with suppress(Exception):  # a class of exceptions may refuse notes
                error.add_note(
                    f"lamina: the batch axis is added to input_shape, so the model was given {(1, *shape)}; "
                    f"for a batch of 1 give input_shape={shape[1:]}"
                )


def _random_inputs(root: Any, shapes: list[tuple[int, ...]], dtype: Any) -> tuple[Any, ...]:
    torch = sys.modules["torch"]
    first = next(parameters(root), None)
    if dtype is None:
        dtype = torch.float32 if first is None else first.dtype
    dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
    for each in dtypes:
        if not isinstance(each, torch.dtype):
            raise TypeError(
                f"dtype is {describe_object(each)}; it is a torch.dtype, or a list with one for each input"
            )
    if len(dtypes) < len(shapes):
        raise ValueError(
            f"there are {len(shapes)} input shapes and {len(dtypes)} dtypes; give one dtype for each"
        )
    device = torch.device("cpu") if first is None else first.device
    return tuple(
        torch.rand(1, *shape, device=device).to(kind) for shape, kind in zip(shapes, dtypes, strict=False)
    )


def _overhead() -> dict[str, float]:
    """MiB that CUDA itself and torch's allocator hold beyond what tensors use; 0.0 each without CUDA."""
    cuda = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return {"cuda": 0.0, "framework": 0.0}
    reserved, used = cuda.memory_reserved() / MIB, cuda.memory_allocated() / MIB  # not a count: MiB
    return {"cuda": get_process_gpu_ram(os.getpid()) - reserved, "framework": reserved - used}


# -- rows as torchscan's dicts -------------------------------------------------------------------------------


def _called(report: Report) -> list[Row]:
    return [row for row in report.rows if row.event >= 0]


def _warn(report: Report) -> None:
    for name in report.unruled:
        warn_unsupported(name, "FLOPs, MACs, DMAs and receptive field")


def _layer(row: Row) -> dict[str, Any]:
    return {
        "name": row.name if row.depth else row.type.lower(),
        "depth": row.depth,
        "type": row.type,
        "input_shape": _any_batch(row.in_shapes),
        "output_shape": _any_batch(row.out_shapes),
        "grad_params": row.grad_params,
        "nograd_params": row.nograd_params,
        "param_size": row.param_bytes,
        "num_buffers": row.buffers,
        "buffer_size": row.buffer_bytes,
        "flops": row.flops,
        "macs": row.macs,
        "dmas": row.dmas,
        "rf": row.rf,
        "s": row.rf_stride,
        "p": row.rf_padding,
        "is_shared": row.shared,
        "is_leaf": row.leaf,
    }


def _any_batch(shapes: list[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """The first tensor's shape with -1 for the batch; None if there is no tensor."""
    first = shapes[0] if shapes else None
    return None if first is None else (-1, *first[1:])


def _overall(report: Report) -> dict[str, Any]:
    whole = report.parameters
    return {
        "grad_params": whole["grad_params"],
        "nograd_params": whole["nograd_params"],
        "param_size": whole["param_bytes"],
        "num_buffers": whole["buffers"],
        "buffer_size": whole["buffer_bytes"],
    }
