# SPDX-License-Identifier: Apache-2.0
"""The tables of torchscan and thoplw, byte for byte as those tools print them.

Only users of Python need them, so Python lays them out. C counts, and calls :func:`lay_out`.
"""

from __future__ import annotations

from typing import Any

from .._base.errors import UsageError

# The possible values of the options of these layouts.
CHOICES = {"wrap": ("mid", "end", "none"), "numbers": ("raw", "clever", "ratio")}


def check_options(options: dict[str, Any]) -> None:
    """Raises UsageError for a value that an option of these layouts can't have."""
    for name, choices in CHOICES.items():
        if options.get(name, choices[0]) not in choices:
            first = choices[0]
            raise UsageError(f"{name} can't be {options[name]!r}; the first it can be is {first!r}")
    if not isinstance(options.get("overhead_mb", 0.0), (int, float)):
        raise TypeError(f"overhead_mb is a real number, not {options['overhead_mb']!r}")


def lay_out(
    layout: str,
    kind: str,
    receptive_field: bool,
    rows: list[dict[str, Any]],
    params: dict[str, Any],
    modules: list[dict[str, Any]],
    options: dict[str, Any],
) -> str:
    """The core's rows of one capture in the layout of another tool."""
    from . import scan, thoplw

    if layout in scan.STYLES:
        return scan.table_of_rows(layout, receptive_field, rows, params, modules, **options)
    return thoplw.table_of_rows(rows, modules, kind, **options)
