# SPDX-License-Identifier: Apache-2.0
"""The differences between two reports, or a report and a file, module by module."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _lamina
from .._base.check import check_text
from .._base.count import Count, from_core
from .._base.errors import LaminaError
from .changes import Changes
from .report import Report, source_of

if TYPE_CHECKING:
    import os


class DiffNumber(NamedTuple):
    """One number of both reports. ``state`` is that of ``difference``: ``"exact"``, ``"at least"``,
    ``"at most"``, ``"roughly"`` (both numbers are lower bounds, and their known parts are compared) or
    ``"unknown"``: then ``difference`` is None. ``percent`` is relative to ``before``, None unless both are
    exact and ``before`` is not 0."""

    before: Count
    after: Count
    difference: int | None
    state: str
    percent: float | None


class DiffAttribute(NamedTuple):
    """An attribute that differs: a number, a text, a tuple of sizes, or None."""

    before: bool | int | float | str | tuple[int, ...] | None
    after: bool | int | float | str | tuple[int, ...] | None


class DiffModule(NamedTuple):
    """A module that differs, as it is and as it was. An added module has no ``before_path``, a removed one no
    ``path``; shapes are texts, such as ``"1x3x224x224 float32"``.
    ``attributes``: by name, those that both have and that differ, as ``attributes["kernel_size"].after``;
    ``bias`` is true or false. ``modules``: the number of modules that the line represents. ``whole``: the
    numbers include everything in the module. ``numbers``: by metric, those of the module alone, or with
    everything in it.
    """

    path: str | None
    type: str | None
    inputs: str | None
    outputs: str | None
    before_path: str | None
    before_type: str | None
    before_inputs: str | None
    before_outputs: str | None
    attributes: dict[str, DiffAttribute]
    modules: int
    whole: bool
    numbers: dict[str, DiffNumber]


class Diff(Changes):
    """The difference of two reports; ``str()`` is a table, the largest difference first.

    Modules are matched by path, then by equal types, shapes and counts at another path. ``totals`` has the
    numbers that both have, by metric; ``not_compared`` lists in sentences which numbers can't be compared,
    and why. It is false if no module differs.
    """

    def __init__(
        self,
        before: Report | str | os.PathLike[str],
        after: Report | str | os.PathLike[str],
        *,
        by: str | None = None,
    ) -> None:
        check_text("by", by, "macs")
        self._sides = (*_side(before, "before"), *_side(after, "other"))
        self._by = by
        self._data: dict[str, Any] = json.loads(self.to_json())

    def _text(self, kind: str, width: int, exact: bool, rows: int, depth: int) -> str:
        return _lamina.diff(*self._sides, kind, self._by, width, exact, rows, depth)

    # -- as data -------------------------------------------------------------------------------------------

    @property
    def totals(self) -> dict[str, DiffNumber]:
        """The totals that both have, by metric, such as ``totals["macs"].difference``."""
        return _numbers(self._data["totals"])

    @property
    def added(self) -> list[DiffModule]:
        """Modules that only the second has."""
        return self._modules("added")

    @property
    def removed(self) -> list[DiffModule]:
        """Modules that only the first has."""
        return self._modules("removed")

    @property
    def changed(self) -> list[DiffModule]:
        """Modules of both whose type, attributes, shapes or own counts differ."""
        return self._modules("changed")

    @property
    def renamed(self) -> list[DiffModule]:
        """Equal modules at another path."""
        return self._modules("renamed")

    @property
    def equal(self) -> int:
        """The number of equal modules at the same path."""
        return int(self._data["equal"])

    @property
    def explained(self) -> list[str]:
        """Sentences on what the whole difference of parameters comes from: batch normalisations that an ONNX
        file has folded into convolutions. Empty where nothing is known to explain it."""
        return list(self._data["explained"])

    @property
    def not_compared(self) -> list[str]:
        """The numbers that can't be compared, with the reasons, one sentence each."""
        return list(self._data["not_compared"])

    def _modules(self, change: str) -> list[DiffModule]:
        return [
            DiffModule(
                **{
                    **module,
                    "attributes": _attributes(module["attributes"]),
                    "numbers": _numbers(module["numbers"]),
                }
            )
            for module in self._data[change]
        ]

    def __bool__(self) -> bool:
        return any(self._data[change] for change in ("added", "removed", "changed", "renamed"))

    # -- as text -------------------------------------------------------------------------------------------

    def _repr_html_(self) -> str | None:
        """The page of the second side, with the changes since the first; None for recordings, which have no
        such page."""
        was, _, now, failed, part = *self._sides, True
        try:
            return _lamina.page(now, failed, 0.0, 0.0, was, part)
        except (OSError, LaminaError):
            return None

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The output in a notebook: the changes of the totals and of the modules."""
        page = self._repr_html_()
        return {"text/plain": str(self)} | ({} if page is None else {"text/html": page})


def _side(of: Report | str | os.PathLike[str], name: str) -> tuple[Any, str | None]:
    return source_of(of, name), of._failed() if isinstance(of, Report) else None


def _numbers(fields: dict[str, Any]) -> dict[str, DiffNumber]:
    return {name: _number(number) for name, number in fields.items()}


def _attributes(fields: dict[str, Any]) -> dict[str, DiffAttribute]:
    return {name: DiffAttribute(*map(_value, both.values())) for name, both in fields.items()}


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _number(fields: dict[str, Any]) -> DiffNumber:
    before, after = (
        from_core((fields[side]["value"] or 0, fields[side]["state"])) for side in ("before", "after")
    )
    return DiffNumber(
        before, after, fields["difference"]["value"], fields["difference"]["state"], fields["percent"]
    )
