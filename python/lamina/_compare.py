# SPDX-License-Identifier: Apache-2.0
"""One run of a model, counted as other tools would count it, with the causes of the differences."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _lamina
from ._count import Count, from_core

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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
    ``causes``. It is None if the numbers are not counted or unknown; ``gap`` then has the reason.
    ``limits``: where and why the tool itself prints another number.
    """

    convention: str
    macs: Count
    flops: Count
    params: Count
    difference: int | None
    gap: str | None
    causes: tuple[Cause, ...]
    limits: str | None = None


class Comparison:
    """One capture under several conventions; the first row is the reference, ``exact``.

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
    ) -> None:
        self._model = model
        self._conventions = _names(conventions)
        self._what = flops, backward
        self._data: dict[str, Any] = json.loads(self.to_json())

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
        from ._report import terminal_width

        return self._write("text", width=terminal_width()).removesuffix("\n")

    __repr__ = __str__

    def show(self, *, width: int | None = None, exact: bool = False) -> None:
        """Prints the table; ``exact`` prints numbers in full."""
        from ._report import terminal_width

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


def _names(conventions: Any) -> list[str]:
    """The conventions as a list, once each is known to be there."""
    from ._inspect import check_convention
    from ._run import describe_object

    if isinstance(conventions, str):
        conventions = (conventions,)
    if not isinstance(conventions, (list, tuple, set, frozenset)):
        raise TypeError(f"conventions is {describe_object(conventions)}; give names, as ('torch', 'fvcore')")
    for name in conventions:
        if name is None:
            raise TypeError("a convention is None; it is named, as 'exact'")
        if name != "all":
            check_convention(name)
    return list(conventions)


def _row(row: dict[str, Any]) -> Compared:
    macs, flops, params = (
        from_core((row[name] or 0, row[f"{name}_state"])) for name in ("macs", "flops", "params")
    )
    causes = tuple(Cause(c["text"], c["note"], c["difference"], c["calls"]) for c in row["causes"])
    known = (row["convention"], macs, flops, params, row["difference"], row["gap"])
    return Compared(*known, causes, row["limits"])


def compare(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    conventions: Sequence[str] | str = (),
    mode: str | None = None,
    flops: bool = False,
    backward: bool = False,
    dry: bool = False,
) -> Comparison:
    """Runs ``model(*args, **kwargs)`` once and counts that run under several conventions side by side.

    The forward runs without gradients and without torch's fast path of attention layers in eval mode,
    because the other tools never see that path. A backward pass runs only with ``backward``.

    Args:
        model: any ``torch.nn.Module``.
        args: the positional arguments as a tuple, or a single tensor.
        kwargs: the keyword arguments.
        conventions: names, as ``("torch", "fvcore")``, or one name; ``"all"``: every tool. Default: those
            that count operators, ``exact``, ``torch`` and ``fvcore``.
        mode: ``"eval"`` or ``"train"`` for this one forward; by default the model keeps its mode.
        flops: explains FLOPs instead of MACs.
        backward: compares the backward pass, from the sum of the floating-point outputs, instead of the
            forward; every gradient is restored.
        dry: computes nothing, only shapes, as in :func:`lamina.inspect`.

    Raises:
        TypeError: the model is no module, ``args`` no tuple, ``kwargs`` no mapping or a convention no name.
        ValueError: there is no such convention or mode, or operators can't be watched here.
        Exception: an exception of the forward propagates unchanged.
    """
    from ._inspect import check_mode, positional
    from ._run import check_module, run_once

    root = check_module(model)
    given = positional(args, kwargs, root)
    conventions = _names(conventions)
    check_mode(mode)
    run = run_once(root, given, kwargs, mode=mode, ops=True, unfused=True, backward=backward, dry=dry)
    if run.error is not None or run.model is None:
        run.reraise()
    return Comparison(run.model, conventions, flops=flops, backward=backward)
