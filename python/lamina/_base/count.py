# SPDX-License-Identifier: Apache-2.0
"""A number with a state: exact, a lower bound or unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

State = Literal["exact", "at least", "unknown"]

# From best to worst.
STATES: tuple[State, ...] = ("exact", "at least", "unknown")


class Count(int):
    """An ``int`` with a ``state``: ``"exact"``, ``"at least"`` or ``"unknown"``.

    It compares, hashes and calculates like a plain int. ``str()`` is ``"1814073344"`` if exact, ``">= 5"``
    for a lower bound and ``"?"`` if unknown; the int is then the known part, 0 if nothing is known. A sum
    has the worse of the two states, except that an unknown sum above 0 is "at least" its known part, as the
    totals of a report are; every other operation returns a plain int.

    Raises:
        ValueError: for a state that does not exist.
    """

    state: State

    def __new__(cls, value: SupportsIndex = 0, state: str = "exact") -> Count:
        if state not in STATES:
            raise ValueError(f"a Count has no state {state!r}; it is 'exact', 'at least' or 'unknown'")
        self = super().__new__(cls, value)
        self.state = state
        return self

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return int(self), self.state

    def __str__(self) -> str:
        return self.__format__("")

    def __repr__(self) -> str:
        number = int.__repr__(self)
        return f"Count({number})" if self.state == "exact" else f"Count({number}, {self.state!r})"

    def __format__(self, spec: str) -> str:
        """The number in any int format; a lower bound begins with ``>= ``, an unknown number is ``?``."""
        if self.state == "unknown":
            return "?"
        number = format(int(self), spec)  # a plain int, since format(self, spec) would call this again
        return number if self.state == "exact" else f">= {number}"

    def __add__(self, other: int) -> Count:
        value = int.__add__(self, other)
        if value is NotImplemented:
            return NotImplemented
        state = worst(self, other)
        return Count(value, "at least" if state == "unknown" and value > 0 else state)

    __radd__ = __add__


def worst(*values: int) -> State:
    """The worst state among numbers; a plain int is exact."""
    return max((getattr(v, "state", "exact") for v in values), key=STATES.index, default="exact")


def total(values: Iterable[int]) -> Count:
    """The sum of the caller's numbers.

    The core sums the numbers of a capture; this is for rows that the user may have changed.
    """
    result = Count(0)
    for value in values:
        result += value  # not a count: the caller's own data
    return result


def from_core(pair: tuple[int, State]) -> Count:
    """A count from the core's value and name of a state, which needs no check."""
    count = int.__new__(Count, pair[0])
    count.state = pair[1]
    return count
