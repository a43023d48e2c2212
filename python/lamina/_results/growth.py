# SPDX-License-Identifier: Apache-2.0
"""How totals grow with the sizes that a file leaves open."""

from __future__ import annotations

from typing import Any, NamedTuple


class Linear(NamedTuple):
    """A total by one size. ``grows``: ``"linear"`` if it is ``fixed`` + ``each`` x size, ``"otherwise"`` if
    not, ``"unknown"`` if it is not exact at one of the three values at which it was counted. ``each`` and
    ``fixed`` are None unless it is linear."""

    grows: str
    each: int | None
    fixed: int | None


class Growth(NamedTuple):
    """How totals grow with one size, all others as they are. ``value``: the one that the model was counted
    at; None if it has none. ``numbers``: by metric, such as ``numbers["macs"]``."""

    size: str
    value: int | None
    numbers: dict[str, Linear]


def growth_from_core(fields: dict[str, Any]) -> Growth:
    """The growth with one size, from the fields of the core."""
    numbers = {name: Linear(**of) for name, of in fields.items() if isinstance(of, dict)}
    return Growth(fields["size"], fields["value"], numbers)
