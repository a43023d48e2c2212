# SPDX-License-Identifier: Apache-2.0
"""thoplw's ``profile``: its numbers and its messages, from one capture."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import contextmanager
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any

from .._base.check import check_module, describe_object
from .._inspect import report_of
from .._old.text import description
from .._run.once import run_once
from ._info import LayersInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .._base.count import Count
    from .._results.report import Report
    from .._results.rows import Row

    CustomOp = Callable[[Any, tuple[Any, ...], Any], "int | None"]

CONVENTION = "thoplw"
# The convention whose report has every call, also of layers that thoplw leaves out.
EVERY_CALL = "layers"


def profile(
    model: Any, tensor: Any, custom_ops: Mapping[type, CustomOp] | None = None, verbose: bool = True
) -> tuple[Count, Count, LayersInfo]:
    """Multiply-accumulates and parameters of a model, in total and layer by layer.

    Args:
        model: any ``torch.nn.Module``. It runs in eval mode and is restored.
        tensor: its input; a tuple for several.
        custom_ops: ``{class: function}`` for layers with your own counts. The function gets the layer, its
            inputs as a tuple and its output, and returns the multiply-accumulates, or None to leave the
            layer out. It applies to exactly that class, not to subclasses.
        verbose: prints the layers that are not counted.

    Returns:
        Multiply-accumulates, parameters, and the layers.

    Raises:
        TypeError: ``model`` is no module, or ``custom_ops`` no dict of functions.
        ValueError: a custom function returned something other than a whole number or None.
        Exception: an exception of the forward or of a custom function.
    """
    root = check_module(model)
    args = tensor if isinstance(tensor, tuple) else (tensor,)
    custom = _Custom(custom_ops or {})
    around = custom.watching(root) if custom.ops else None
    run = run_once(root, args, mode="eval", around=around, unfused=True)
    seen = report_of(run, EVERY_CALL)
    counts = custom.by_call(root, seen)
    report = report_of(run, CONVENTION, released=True, custom=counts if custom.ops else None)
    if verbose:
        _print_ignored(report)
    info = LayersInfo(type(root).__name__, getattr(args[0], "shape", None) if args else None)
    info.report = report
    for name, log in _logs(report, seen):
        info.append(name, log)
    return report.macs, report.parameters["in_rows"], info


class _Custom:
    """Counts by user-defined functions. They need live tensors, so their layers get a hook for this run."""

    def __init__(self, ops: Mapping[type, CustomOp]) -> None:
        if not isinstance(ops, Mapping):
            raise TypeError(f"custom_ops is {describe_object(ops)}; it is a dict, {{class: function}}")
        for cls, count in ops.items():
            if not isinstance(cls, type) or not callable(count):
                raise TypeError(f"custom_ops has {cls!r}: {count!r}; it is a dict, {{class: function}}")
        self.ops = dict(ops)
        self._results: dict[int, list[int | None]] = {}  # by identity of the layer, one a call

    @contextmanager
    def watching(self, root: Any) -> Iterator[None]:
        handles = [m.register_forward_hook(self._hook) for m in root.modules() if type(m) in self.ops]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, layer: Any, inputs: tuple[Any, ...], output: Any) -> None:
        self._results.setdefault(id(layer), []).append(self.ops[type(layer)](layer, inputs, output))

    def by_call(self, root: Any, seen: Report) -> Callable[[int], Any]:
        """A function for the core that returns the result of the user-defined function for a call's
        number."""
        layers = dict(root.named_modules(remove_duplicate=False))
        events = seen._model.events() if self.ops else []
        left = {layer: iter(results) for layer, results in self._results.items()}
        counts: dict[int, Any] = {}
        for row in seen.rows if self.ops else ():
            if row.event < 0 or events[row.event]["failed"]:  # no hook sees a call that raised
                continue
            for macs in islice(left.get(id(layers.get(row.path)), iter(())), 1):
                counts[row.event] = "omit" if macs is None else (_whole(row.type, macs),)
        return counts.get


def _whole(layer: str, macs: Any) -> int:
    """The result of a user-defined function as an integer."""
    try:
        whole = int(macs) if isinstance(macs, float) and macs.is_integer() else index(macs)
    except TypeError:
        whole = -1
    if whole < 0:
        raise ValueError(
            f"the function of custom_ops for {layer} returned {macs!r}; it returns a whole number of "
            "multiply-accumulates, or None to leave the layer out"
        )
    return whole


def _print_ignored(report: Report) -> None:
    ignored = sorted(path for _, _, path in report._costs.unruled())
    if ignored:
        lines = ["The following layers will be unexpectedly ignored:"]
        lines += [f"  - <class '{path}'>" for path in ignored]
        sys.stdout.write("\n".join(lines) + "\n")


def _logs(report: Report, seen: Report) -> Iterator[tuple[str, dict[str, Any]]]:
    """A log for each called layer, with its first name and its last call, in the tree's order."""
    modules = report._model.modules()
    rows = {row.module: row for row in report.rows}
    last = {row.module: row for row in seen.rows if row.event >= 0}
    first: dict[int, Row] = {}
    for row in seen.rows:
        if row.event >= 0 and (row.module not in first or row.place < first[row.module].place):
            first[row.module] = row
    for module in sorted(last, key=lambda module: first[module].place):
        known = module in rows
        path = rows[module].path if known else first[module].path
        row = rows.get(module, last[module])
        yield path, _log(row, known, description(modules[module]) if known else row.type)


def _log(row: Row, counted: bool, description: str) -> dict[str, Any]:
    shapes = list(row.in_shapes)
    return {
        "macs": row.macs if counted else None,
        "params": row.params if counted else None,
        "shapes_in": None if not shapes or None in shapes else shapes,
        "shape_out": row.out_shapes[0] if len(row.out_shapes) == 1 else None,
        "description": description,
    }
