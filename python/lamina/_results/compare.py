# SPDX-License-Identifier: Apache-2.0
"""The numbers of one run under several conventions, with the causes of the differences."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _lamina
from .._base.check import check_convention, describe_object
from .._base.count import Count, from_core
from .._base.errors import UsageError
from .._base.terminal import terminal_width

if TYPE_CHECKING:
    from collections.abc import Sequence


class Cause(NamedTuple):
    """One cause of a difference.

    ``difference`` is its part, negative for work that is left out; ``calls`` the number of calls, 0 for the
    part that no cause explains; ``note`` the note of the convention's table.
    """

    text: str
    note: str | None
    difference: int
    calls: int


class Compared(NamedTuple):
    """The numbers of one convention for a forward or a backward pass.

    ``difference`` is the difference of its MACs, or FLOPs, from the reference, the sum of those of
    ``causes``. It is None if the number is not counted or unknown, or the reference is not exact; ``gap``,
    here or of the reference, then has the reason, and ``causes`` are those that are known.
    ``limits``: the cases in which the tool itself may print another number, with the reasons; or None.
    Of a comparison in tokens, numbers are of all tokens and ``a_token`` are the FLOPs for each; None: they
    are not known. ``formula`` is the convention's own, of a training step, ``source`` where it is from.
    """

    convention: str
    macs: Count
    flops: Count
    params: Count
    difference: int | None
    gap: str | None
    causes: tuple[Cause, ...]
    limits: str | None = None
    a_token: float | None = None
    formula: str | None = None
    source: str | None = None


class Comparison:
    """One capture under several conventions; the first row is the reference, ``exact``, or in tokens
    ``counted``.

    ``print(comparison)`` is a table with the causes beside each number: the three largest, or all of them
    if the conventions were named. ``rows`` and the JSON have every cause.
    """

    def __init__(
        self,
        model: _lamina.Model,
        conventions: Sequence[str] | str = (),
        *,
        flops: bool = False,
        backward: bool = False,
        tokens: tuple[bool, bool] = (False, False),
    ) -> None:
        self._model = model
        self._conventions = names_of(conventions, tokens=tokens[0])
        self._what = flops, backward, *tokens
        self._data: dict[str, Any] = json.loads(self.to_json())

    @property
    def tokens(self) -> int | None:
        """The tokens of all sequences; None: they are not known, or it is no comparison in tokens."""
        tokens: dict[str, Any] = self._data.get("tokens", {})
        return tokens.get("tokens")

    @property
    def rows(self) -> list[Compared]:
        """The numbers of each convention, the reference first."""
        return [_row(row) for row in self._data["conventions"]]

    def __getitem__(self, convention: str) -> Compared:
        for row in self._data["conventions"]:
            if row["convention"] == convention:
                return _row(row)
        there = ", ".join(row["convention"] for row in self._data["conventions"])
        raise KeyError(f"{convention!r} was not compared; there are {there}")

    def _write(self, kind: str, *, width: int = 0, exact: bool = False) -> str:
        return self._model.compare(self._conventions, kind, width, exact, *self._what)

    def __str__(self) -> str:
        return self._write("text", width=terminal_width()).removesuffix("\n")

    __repr__ = __str__

    def show(self, *, width: int | None = None, exact: bool = False) -> None:
        """Prints the table; ``exact`` prints numbers in full."""
        sys.stdout.write(self._write("text", width=width or terminal_width(), exact=exact))

    def to_json(self) -> str:
        """Returns everything as JSON with a schema number; plain integers."""
        return self._write("json")

    def to_csv(self) -> str:
        """Returns CSV: one line a convention, and one a cause."""
        return self._write("csv")

    def to_markdown(self, *, exact: bool = False) -> str:
        """Returns the table in Markdown, with every cause in its last column."""
        return self._write("md", exact=exact)

    def _repr_html_(self) -> str:
        return self._write("html")

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def names_of(conventions: Any, *, tokens: bool = False) -> list[str]:
    """The conventions as a list, after a check that they exist, as those of tokens or of layers."""
    if isinstance(conventions, str):
        conventions = (conventions,)
    if not isinstance(conventions, (list, tuple, set, frozenset)):
        raise TypeError(f"conventions is {describe_object(conventions)}; give names, as ('torch', 'fvcore')")
    for name in conventions:
        if name is None:
            raise TypeError("a convention is None; it is named, as 'exact'")
        if tokens:
            _lamina.token_convention(name)
        elif name != "all":
            _check(name)
    return list(conventions)


def _check(name: Any) -> None:
    """Raises unless it is a convention of layers or operators."""
    try:
        check_convention(name)
    except ValueError:
        if not _of_tokens(name):
            raise
        raise UsageError(
            f"{name!r} is a convention of a token: lamina.compare(model, tokens=True) compares those"
        ) from None


def _of_tokens(name: str) -> bool:
    with suppress(ValueError):
        _lamina.token_convention(name)
        return True
    return False


def _row(row: dict[str, Any]) -> Compared:
    macs, flops, params = (
        from_core((row[name] or 0, row[f"{name}_state"])) for name in ("macs", "flops", "params")
    )
    causes = tuple(Cause(c["text"], c["note"], c["difference"], c["calls"]) for c in row["causes"])
    known = (row["convention"], macs, flops, params, row["difference"], row["gap"])
    return Compared(*known, causes, row["limits"], row.get("a_token"), row.get("formula"), row.get("source"))
