# SPDX-License-Identifier: Apache-2.0
"""The lines of a report, and the cost of a part of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from .. import _lamina
from .._base.count import Count, from_core


class Row(Mapping[str, Any]):
    """One line of a report: a read-only mapping whose keys are attributes too (``row.path``,
    ``row["macs"]``).

    Counts are :class:`Count`; shapes are tuples, None if unknown. ``macs`` is of the row's own work;
    ``total_macs`` includes every row below it. So do the others. Names of CSV and JSON work too:
    ``row.subtotal_macs`` and ``row.trainable`` are ``row.total_macs`` and ``row.grad_params``.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getitem__(self, key: str) -> Any:
        own = key if key in self._fields else _row_aliases().get(key, key)
        return value_of(
            self._fields[own]
        )  # converted on demand: a row has a hundred fields, and few are read

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a row has no {name!r}{_near(name, self._fields)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a row can't be changed; dict(row) is a copy that can")

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Row({dict(self)!r})"

    def __reduce__(self) -> tuple[type[Row], tuple[dict[str, Any]]]:
        return Row, (dict(self),)


@cache
def _row_aliases() -> dict[str, str]:
    """The names that CSV and JSON have for fields of a row, each with the row's own."""
    names = _lamina.row_names()
    return {alias: name for name, path, csv in names for alias in (csv, path.replace(".", "_")) if alias}


def _near(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(names), n=3)
    return f"; did you mean {' or '.join(near)}?" if near else "; list(row) has the names of its fields"


def value_of(value: Any) -> Any:
    """A field as the user sees it: the core's pairs of a number and a state's name become counts."""
    pair = isinstance(value, tuple) and len(value) == 2
    return from_core(value) if pair and isinstance(value[0], int) and isinstance(value[1], str) else value


class Work(NamedTuple):
    """The cost of one part of a run: multiply-accumulates, operations, elements read and written, and the
    same in bytes. ``intensity`` is FLOPs a byte, None if unknown; the effective counts leave out masked
    scores of attention."""

    macs: Count
    flops: Count
    dmas: Count
    bytes_read: Count
    bytes_written: Count
    bytes: Count
    intensity: float | None
    effective_macs: Count
    effective_flops: Count
