# SPDX-License-Identifier: Apache-2.0
"""thoplw's table: counted layers and a total, as text, CSV or Markdown."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.count import Count, from_core, total
from .text import clean, clever_scale, description, fixed, lower_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

TITLES = ("Name", "Input shape", "Output shape", "MACs", "Params", "Description")
ALIGNED = (str.ljust, str.center, str.center, str.rjust, str.rjust, str.ljust)


class Line(NamedTuple):
    """One layer that is counted, or the total of all."""

    path: str
    inputs: str
    output: str
    macs: Count
    params: Count
    description: str
    was_called: bool = True


def table(lines: list[Line], name: str, kind: str, numbers: str) -> str:
    """The lines and their total, for a model of the class `name`; every line ends with a newline."""
    called = [line for line in lines if line.was_called]
    whole = Line(
        "Total",
        called[0].inputs if called else "",
        called[-1].output if called else "",
        lower_bound(line.macs for line in lines),
        lower_bound(line.params for line in lines),
        clean(name),
    )
    rows = [TITLES, *(_cells(line, whole, numbers) for line in lines), _cells(whole, None, numbers)]
    return _csv(rows) if kind == "csv" else _aligned(rows, is_text=kind == "text")


def table_of_info(info: list[tuple[str, dict[str, Any]]], name: str, kind: str, numbers: str) -> str:
    """The table of the logs of a LayersInfo, without layers that are not counted."""
    lines = [
        Line(
            clean(path),
            clean(_shape(log["shapes_in"])),
            clean(_shape(log["shape_out"])),
            total([log["macs"]]),
            total([log["params"]]),
            clean(log["description"]),
        )
        for path, log in info
        if log["macs"] is not None and log["params"] is not None
    ]
    return table(lines, name, kind, numbers)


def table_of_rows(
    rows: list[dict[str, Any]],
    modules: list[dict[str, Any]],
    kind: str,
    *,
    numbers: str = "raw",
    old_params: bool = False,
    **_: object,
) -> str:
    """The table of the core's rows that do work themselves: not those of containers that only call their
    children."""
    params = ("params", "running_stats") if old_params else ("params",)
    lines = [
        Line(
            clean(row["path"]),
            _shapes(row, "in_shapes"),
            _shapes(row, "out_shapes"),
            from_core(row["macs"]),
            lower_bound(from_core(row[key]) for key in params),
            description(modules[row["module"]]),
            row["event"] >= 0,
        )
        for row in rows
        if (row["counted"] if row["event"] >= 0 else not (row["never_called"] or row.get("inside")))
    ]
    return table(lines, modules[0]["type"], kind, numbers)


# -- cells ---------------------------------------------------------------------------------------------------


def _shape(shape: Any) -> str:
    """A shape without its batch axis, "3x224x224"; several with commas."""
    if shape is None:
        return "?"
    sizes = list(shape)
    if sizes and (sizes[0] is None or isinstance(sizes[0], (list, tuple))):
        return ", ".join(map(_shape, sizes))
    return "x".join(map(str, sizes[1:]))


def _shapes(row: dict[str, Any], key: str) -> str:
    if row["event"] < 0:
        return ""
    return ", ".join(map(_shape, row[key])) or "?"


def _cells(line: Line, whole: Line | None, numbers: str) -> tuple[str, ...]:
    macs = _number(line.macs, None if whole is None else whole.macs, numbers)
    params = _number(line.params, None if whole is None else whole.params, numbers)
    return line.path, line.inputs, line.output, macs, params, line.description


def _number(count: Count, whole: Count | None, numbers: str) -> str:
    if count.state == "unknown":
        return "?"
    if numbers == "ratio" and whole is not None:
        return fixed(100 * float(count) / float(whole), "5.2f") + " %" if whole else "-"
    if numbers == "raw":
        return str(count)
    scaled, unit = clever_scale(float(count))
    return f"{'>= ' if count.state == 'at least' else ''}{fixed(scaled, '6.2f')} {unit}"


# -- lines ---------------------------------------------------------------------------------------------------


def _csv(rows: Sequence[Sequence[str]]) -> str:
    """The rows as CSV, without the spaces that align cells."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([cell.strip(" ") for cell in row] for row in rows)
    return out.getvalue()


def _aligned(rows: Sequence[Sequence[str]], *, is_text: bool) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {' | '.join(put(cell, width) for put, cell, width in zip(ALIGNED, row, widths, strict=True))} |"
        for row in rows
    ]
    if is_text:
        rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
        head, rest, last = lines[0], lines[1:-1], lines[-1]
        return "\n".join([head, rule, *rest, *([rule] if rest else []), last]) + "\n"
    rule = f"|{'|'.join(f':{chr(45) * width}:' for width in widths)}|"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"
