# SPDX-License-Identifier: Apache-2.0
"""Numbers in thoplw's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from .._old.text import clever_scale

if TYPE_CHECKING:
    from collections.abc import Sequence


@overload
def clever_format(x: float, fmt: str = ..., *, fmt_str: str | None = ...) -> str: ...
@overload
def clever_format(x: Sequence[float], fmt: str = ..., *, fmt_str: str | None = ...) -> list[str]: ...
def clever_format(
    x: float | Sequence[float], fmt: str = "%6.2f", *, fmt_str: str | None = None
) -> str | list[str]:
    """Returns a number with a unit: ``"  1.82 G"``. It is divided by 1000 while it is 1000 or more, at most
    five times, and written with the %-format ``fmt``, a space, and one of " ", K, M, G, T, P. A list returns
    a list.

    ``fmt_str`` is thoplw's name for ``fmt``.
    """
    pattern = fmt if fmt_str is None else fmt_str
    if isinstance(x, (list, tuple)):
        return [clever_format(value, pattern) for value in x]
    value, unit = clever_scale(x)  # type: ignore[arg-type]
    if unit == " ":
        return f"{pattern % x} {unit}"  # not a count: the number as given
    return f"{pattern % value} {unit}"  # not a count: the %-format is the caller's
