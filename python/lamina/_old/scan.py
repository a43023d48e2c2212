# SPDX-License-Identifier: Apache-2.0
"""torchscan's table: 0.1.2's, whose columns are as wide as their cells, and 0.1.1's of fixed width. Functions
with torchscan's names are those of its ``utils``."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.count import Count, from_core, total
from .._base.errors import RangeError, UsageError
from .text import clean, fixed, lower_bound, real

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TITLES = [
    "Layer",
    "Type",
    "Output Shape",
    "Param #",
    "Receptive field",
    "Effective stride",
    "Effective padding",
]
CAPS = (27, 20, 25, 15, 15, 16, 17)
# The columns: the layer's four, then the receptive field, then its stride and padding.
PLAIN, WITH_RF, ALL = 4, 5, 7
UNCUT_NAME = 100  # names are wrapped to this length while widths are computed
DEEPEST = 1_000_000  # no real tree is deeper, and each level takes five characters of a name
MIB = 1024 * 1024
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
WORK = (
    ("flops", "Floating Point Operations on forward: ", "FLOPs"),
    ("macs", "Multiply-Accumulations on forward: ", "MACs"),
    ("dmas", "Direct memory accesses on forward: ", "DMAs"),
)


class Style(NamedTuple):
    """The differences of the layouts of the two versions."""

    columns: int
    cut_name: int  # the width of the name inside its column
    gaps: tuple[int, ...]  # spaces before each column
    rules: tuple[int, ...]  # of fixed columns: the rules' length without and with the receptive field
    end: str


STYLES = {
    "torchscan-0.1.2": Style(ALL, 27, (0, 4, 4, 4, 4, 4, 4), (), ""),
    "torchscan-0.1.1": Style(WITH_RF, 25, (0, 2, 2, 1, 1), (90, 108), "\n"),
}


class Line(NamedTuple):
    """The data of one layer's cells."""

    name: str
    type: str
    shape: str
    depth: int
    params: Count
    fields: list[str]  # receptive field, stride and padding


class Totals(NamedTuple):
    """The numbers below the table."""

    trainable: Count
    frozen: Count
    bytes: Count
    overhead_mb: float
    work: dict[str, Count]


# -- pieces --------------------------------------------------------------------------------------------------


def format_name(name: str, depth: int = 0) -> str:
    """Returns the name with the tree's lines before it: ``"|    └─conv1"`` at depth 2."""
    if depth > DEEPEST:
        raise RangeError(f"the depth is {depth}; no tree is deeper than {DEEPEST}")
    if depth < 2:
        return f"├─{name}" if depth == 1 else name
    return f"{'|    ' * (depth - 1)}└─{name}"


def wrap_string(
    s: str, max_len: int, delimiter: str = ".", wrap: str = "[...]", mode: str | None = "end"
) -> str:
    """Cuts ``s`` to ``max_len`` characters, with the marker ``wrap`` at its end or before its last component.

    Raises:
        ValueError: the mode is neither "end" nor "mid".
    """
    if len(s) <= max_len or mode in (None, "none"):
        return s
    if mode not in ("mid", "end"):
        raise UsageError(f"there is no wrap mode {mode!r}; it is 'mid' or 'end'")
    tail = wrap if mode == "end" else f"{wrap}.{s.rpartition(delimiter)[2]}"
    return s[: max_len - len(tail)] + tail


def unit_scale(val: float) -> tuple[float, str]:
    """Divides the number by the largest of 1e12, 1e9, 1e6 and 1e3 that it reaches, and returns it with T, G,
    M or k; smaller numbers are returned unchanged, with ""."""
    for unit, prefix in PREFIXES:
        if val >= unit and not isinf(val):
            return val / unit, prefix
    return val, ""


def format_s(f_string: str, min_w: int | None = None, max_w: int | None = None) -> str:
    """Pads the string to ``min_w`` and cuts it to ``max_w`` characters."""
    padded, most = max(min_w or 0, 0), len(f_string) if max_w is None else max(max_w, 0)
    return f_string[:most].ljust(padded if max_w is None else min(padded, most))


def format_line_str(
    layer: dict[str, Any],
    col_w: list[int] | None = None,
    wrap_mode: str | None = "mid",
    receptive_field: bool = False,
    effective_rf_stats: bool = False,
) -> list[str]:
    """Returns the cells of one layer's line, padded and cut to ``col_w``; without ``col_w`` unchanged.

    Raises:
        ValueError: there is no such wrap mode.
    """
    columns = _columns(receptive_field, effective_rf_stats)
    return _cells(_line_of_layer(layer), columns, col_w, _check_wrap(wrap_mode))


def format_info(
    module_info: dict[str, Any],
    wrap_mode: str | None = "mid",
    receptive_field: bool = False,
    effective_rf_stats: bool = False,
) -> str:
    """Returns the table of a dict from ``crawl_module``, in the layout of torchscan 0.1.2.

    Raises:
        KeyError: the dict lacks something that the table shows.
        ValueError: there is no such wrap mode.
    """
    layers, whole, overheads = module_info["layers"], module_info["overall"], module_info["overheads"]
    totals = Totals(
        total([whole["grad_params"]]),
        total([whole["nograd_params"]]),
        total((whole["param_size"], whole["buffer_size"])),
        overheads["cuda"]["fwd"] + overheads["framework"]["fwd"],
        {key: lower_bound(layer[key] for layer in layers) for key, *_ in WORK},
    )
    lines = [_line_of_layer(layer) for layer in layers]
    columns = _columns(receptive_field, effective_rf_stats)
    text = _table(STYLES["torchscan-0.1.2"], lines, totals, columns, _check_wrap(wrap_mode))
    return text.removesuffix("\n")


def table_of_rows(
    layout: str,
    receptive_field: bool,
    rows: list[dict[str, Any]],
    params: dict[str, Any],
    modules: list[dict[str, Any]],
    *,
    wrap: str = "mid",
    effective_rf_stats: bool = False,
    overhead_mb: float = 0.0,
    **_: object,
) -> str:
    """The table of the core's rows."""
    # 0.1.1 walks from the last row to the first, and has floats after the stride 1/s of a transposed
    # convolution.
    lines: list[Line] = []
    show = _field
    for row in reversed(rows):
        if layout == "torchscan-0.1.1" and (modules[row["module"]]["word"] or "").startswith("ConvTranspose"):
            show = _field_as_float
        lines.append(_line_of_row(row, show))
    totals = Totals(
        from_core(params["grad_params"]),
        from_core(params["nograd_params"]),
        lower_bound(from_core(params[key]) for key in ("param_bytes", "buffer_bytes")),
        overhead_mb,
        {key: lower_bound(from_core(row[key]) for row in rows) for key, *_ in WORK},
    )
    style, columns = STYLES[layout], _columns(receptive_field, effective_rf_stats)
    return _table(style, lines[::-1], totals, min(columns, style.columns), wrap)


# -- cells ---------------------------------------------------------------------------------------------------


def _check_wrap(mode: str | None) -> str | None:
    if mode not in ("mid", "end", None):
        raise UsageError(f"there is no wrap mode {mode!r}; it is 'mid', 'end' or None")
    return mode


def _columns(receptive_field: bool, effective_rf_stats: bool) -> int:
    return PLAIN if not receptive_field else ALL if effective_rf_stats else WITH_RF


def _cells(line: Line, columns: int, widths: Sequence[int] | None, wrap: str | None) -> list[str]:
    """The cells of one line, padded and cut; without widths unchanged. A name is wrapped to a little more
    than its width, and cut there."""
    room = UNCUT_NAME if widths is None else widths[0] + 3
    name = wrap_string(format_name(line.name, line.depth), room, mode=wrap)
    cells = [name, line.type, line.shape, f"{line.params:,}", *line.fields][:columns]
    return cells if widths is None else [format_s(cell, widths[i], widths[i]) for i, cell in enumerate(cells)]


def _field(value: float | None) -> str:
    """A receptive field, or one of its parts; 0 if there is none."""
    return fixed(value or 0, ".0f")


def _field_as_float(value: float | None) -> str:
    text = real(value or 0)
    return text if "." in text or text == "?" or abs(value or 0) >= 1e15 else f"{text}.0"


def _line_of_layer(layer: dict[str, Any]) -> Line:
    """The line of one of crawl_module's dicts, which the user may have changed."""
    shape = layer["output_shape"]
    return Line(
        layer["name"],
        layer["type"],
        "?" if shape is None else str(shape),
        layer["depth"],
        total(layer[key] for key in ("grad_params", "nograd_params", "num_buffers")),
        [_field(layer.get(key)) for key in ("rf", "s", "p")],
    )


def _line_of_row(row: dict[str, Any], show: Callable[[float], str]) -> Line:
    is_own = row["event"] < 0 and not (row["never_called"] or row.get("inside"))
    name = "[own parameters]" if is_own else row["name"] if row["path"] else row["type"].lower()
    shapes, known = row["out_shapes"], row["rf_state"] != "unknown"
    return Line(
        clean(name),
        clean(row["type"]),
        "?" if not shapes or shapes[0] is None else str((-1, *shapes[0][1:])),
        row["depth"] + is_own,
        lower_bound(from_core(row[key]) for key in ("params", "buffers")),
        [show(row[key]) if known else "?" for key in ("rf", "rf_stride", "rf_padding")],
    )


# -- the table -----------------------------------------------------------------------------------------------


def _table(style: Style, lines: list[Line], totals: Totals, columns: int, wrap: str | None) -> str:
    """The whole table; every line ends with a newline."""
    titles, widths = TITLES[:columns], list(CAPS[:columns])
    if not style.rules:
        uncut = [titles, *(_cells(line, columns, None, wrap) for line in lines)]
        widths = [min(cap, max(map(len, c))) for cap, c in zip(CAPS, zip(*uncut, strict=True), strict=False)]
    head = _row(style, titles, widths)
    length = style.rules[columns > PLAIN] if style.rules else len(head)
    rows = [_row(style, _cells(line, columns, widths, wrap), widths) for line in lines]
    below = _below(totals, "-" * length)
    whole = ["_" * length, head, "=" * length, *rows, "=" * length, *below, "_" * length]
    return "\n".join(whole) + "\n" + style.end


def _row(style: Style, cells: list[str], widths: list[int]) -> str:
    """One row. The name was wrapped for its whole column, and is cut to the layout's width."""
    cut = [cells[0][: style.cut_name], *cells[1:]]
    return "".join(" " * gap + cell.ljust(n) for gap, cell, n in zip(style.gaps, cut, widths, strict=False))


def _below(totals: Totals, rule: str) -> list[str]:
    mib = totals.bytes / MIB
    return [
        f"Trainable params: {totals.trainable:,}",
        f"Non-trainable params: {totals.frozen:,}",
        f"Total params: {lower_bound((totals.trainable, totals.frozen)):,}",
        rule,
        f"Model size (params + buffers): {_bounded(totals.bytes, mib)} Mb",
        f"Framework & CUDA overhead: {fixed(totals.overhead_mb, '.2f')} Mb",
        f"Total RAM usage: {_bounded(totals.bytes, mib + totals.overhead_mb)} Mb",
        rule,
        *(label + _scaled(totals.work[key], unit) for key, label, unit in WORK),
    ]


def _bounded(count: Count, value: float) -> str:
    if count.state == "unknown":
        return "?"
    return (">= " if count.state == "at least" else "") + fixed(value, ".2f")


def _scaled(count: Count, unit: str) -> str:
    value, prefix = unit_scale(float(count))
    return f"{_bounded(count, value)} {'' if count.state == 'unknown' else prefix}{unit}"
