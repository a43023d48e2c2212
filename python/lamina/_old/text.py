# SPDX-License-Identifier: Apache-2.0
"""Functions for text in both tools' tables."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING, Any

from .._base.count import Count, total

if TYPE_CHECKING:
    from collections.abc import Iterable

UNITS = (" ", "K", "M", "G", "T", "P")
# Controls, line separators and marks that change the direction of writing, which a terminal would obey.
UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with characters that control a terminal replaced by question marks."""
    return UNPRINTED.sub("?", text)


def fixed(value: float, spec: str) -> str:
    """The number in that format; a question mark if it is not finite."""
    return format(value, spec) if isfinite(value) else "?"


def real(value: float) -> str:
    """The shortest form, with at most six decimals."""
    whole = abs(value) < 1e15 and value == int(value)
    return fixed(value, ".0f" if whole else ".6f").rstrip("" if whole else "0")


def lower_bound(counts: Iterable[int]) -> Count:
    """The sum, a lower bound if a part of it is unknown."""
    found = total(counts)
    return Count(found, "at least") if found.state == "unknown" and found else found


def clever_scale(value: float) -> tuple[float, str]:
    """thoplw's scaling: divides by 1000 at most five times."""
    scaled, at = float(value), 0
    while at < len(UNITS) - 1 and scaled >= 1000:
        scaled, at = scaled / 1000, at + 1
    return scaled, UNITS[at]


def description(module: dict[str, Any]) -> str:
    """The class of a layer, with the window of a convolution or a pool: "Conv2d k=3 p=1 s=2"."""
    attrs, word = module["attrs"], module["word"]
    name = clean(module["type"])
    if "kernel_size" not in attrs or word in (None, "Fold", "Unfold"):
        return name
    shown = {"k": "kernel_size", "p": "padding", "s": "stride"}
    if not word.startswith("Conv"):
        del shown["p"]
    return name + "".join(f" {key}={_value(attrs[name])}" for key, name in shown.items() if name in attrs)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        same = bool(value) and value.count(value[0]) == len(value)
        return str(value[0]) if same else f"({', '.join(map(str, value))})"
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return real(value)
    return str(None if value is None else int(value))
