# SPDX-License-Identifier: Apache-2.0
"""The options with which a report is shown and written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._base.check import check_flag, check_roof, check_whole
from .._old.layouts import check_options

# Options of show() and the writers, with the core's names of them.
OPTIONS = {
    "layout": "layout",
    "format": "format",
    "width": "width",
    "depth": "max_depth",
    "max_depth": "max_depth",
    "color": "color",
    "ascii": "ascii",
    "bars": "bars",
    "exact": "exact",
    "expand": "expand",
    "receptive_field": "receptive_field",
    "effective_rf_stats": "effective_rf_stats",
    "bytes": "bytes",
    "why": "why",
    "by": "by",
    "sort": "sort",
    "rows": "rows",
    "time": "time",
    "roof": "peak",
    "page": "page",
    "memory": "memory",
    "wrap": "wrap",
    "numbers": "numbers",
    "old_params": "old_params",
    "overhead_mb": "overhead_mb",
}
FLAGS = (
    *("color", "ascii", "bars", "exact", "expand", "receptive_field", "effective_rf_stats", "bytes"),
    *("why", "time", "page", "memory"),
)
LEAST = {"width": 20, "depth": 0, "max_depth": -1, "rows": 0}  # of options that are whole numbers
# Options of the layouts of torchscan and thoplw, which lamina._old lays out.
OLD_OPTIONS = ("effective_rf_stats", "wrap", "numbers", "old_params", "overhead_mb")


def core_options(given: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options that have a value by the core's names, and those of the old tools' layouts apart. ``new``
    are the ones that were not checked before.

    Raises:
        TypeError: there is no such option, or its value has another type.
        ValueError: the option can't have this value.
    """
    unknown = [name for name in given if name not in OPTIONS]
    if unknown:
        raise TypeError(f"a report has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
    _check(new)
    wanted = {OPTIONS[name]: value for name, value in given.items() if value is not None}
    old = {name: wanted.pop(name) for name in OLD_OPTIONS if name in wanted}
    check_options(old)
    return wanted, old


def _check(options: Mapping[str, Any]) -> None:
    """Raises TypeError or ValueError, with the option's name, for a value that it can't have."""
    for name, value in options.items():
        if value is None:
            continue
        if name in FLAGS:
            check_flag(name, value)
        elif name in LEAST:
            check_whole(name, value, least=LEAST[name])
        elif name == "roof":
            check_roof(value)
