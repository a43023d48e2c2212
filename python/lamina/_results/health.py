# SPDX-License-Identifier: Apache-2.0
"""Health: where NaN and Inf come from, statistics of results, and user-defined checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .._observe.values import MOST_CALLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .. import _lamina


class Finding(NamedTuple):
    """One finding and the layer that made it.

    ``text`` is the finding as a sentence. ``path``, ``type`` and ``call`` (from 1) name the layer, None
    outside of every layer. ``own``: the value was born in that layer's own forward, between its calls of
    ``before`` and ``after`` (paths; None at either end). ``owned`` is the parameter or buffer that holds the
    value, ``op`` the operator or node that returned it, None if unknown. ``input``: it was in an input of the
    model. ``check``: your check reported it. ``explained``: an earlier finding is enough to cause it.
    ``value`` is ``"NaN"``, ``"Inf"`` or ``"-Inf"``; ``first`` holds the indices of the first one in a tensor
    of ``shape`` and ``dtype``. ``times``: how often it was found there; ``passed``: layers that passed it on.
    """

    text: str
    phase: str
    path: str | None
    type: str | None
    call: int | None
    before: str | None
    after: str | None
    own: bool
    input: bool
    check: str | None
    explained: bool
    owned: str | None
    op: str | None
    value: str | None
    nan: int
    inf: int
    first: tuple[int, ...] | None
    shape: tuple[int, ...] | None
    dtype: str | None
    times: int
    passed: int


class Stats(NamedTuple):
    """Statistics of one result; a complex number counts as two. ``least``, ``greatest`` and ``mean`` are of
    the finite numbers, NaN if there are none. ``headroom`` is how often the largest magnitude can be doubled
    before it overflows its type, infinite if all are zero."""

    numbers: int
    nan: int
    inf: int
    zeros: int
    subnormal: int
    least: float
    greatest: float
    mean: float
    headroom: float


class CallHealth(NamedTuple):
    """The state of one call. ``forward`` and ``backward`` are ``"fine"``, ``"born"`` (finite inputs, results
    that are not), ``"passed"`` (inputs that are not finite), or ``"unknown"`` (not checked). ``stats``: of
    each result, if requested."""

    path: str
    type: str
    call: int
    forward: str
    backward: str
    stats: tuple[Stats | None, ...]


class Health:
    """Where NaN and Inf come from.

    Attributes:
        sentence: the first finding as a sentence, or one that reports none.
        findings: every finding, in order.
        calls: the state of each call.
        tensors, bytes: the number of tensors that were checked, and their bytes.
        unseen: tensors that could not be checked: on another device, sparse, fake.
        gradients, operators: whether gradients, and results of operators, were checked.
        cut: some non-finite values were not kept.
    """

    def __init__(self, model: _lamina.Model, fields: Mapping[str, Any]) -> None:
        self._model = model
        self.sentence: str = fields["sentence"]
        self.findings = [Finding(**fields) for fields in fields["findings"]]
        self.calls = [_call(fields) for fields in fields["calls"]]
        self.tensors: int = fields["tensors"]
        self.bytes: int = fields["bytes"]
        self.unseen: int = fields["unseen"]
        self.gradients: bool = fields["gradients"]
        self.operators: bool = fields["operators"]
        self.cut: bool = fields["cut"]

    @property
    def first(self) -> Finding | None:
        """The first finding; None if there is none."""
        return self.findings[0] if self.findings else None

    @property
    def ok(self) -> bool:
        """True if there is no finding, and something was checked."""
        return not self.findings and self.tensors > 0

    def tail(self, n: int = 20) -> str:
        """Returns the last ``n`` calls before the first finding, or before the capture closed, one a line.

        Raises:
            TypeError, ValueError: ``n`` is no whole number, or is not above 0.
        """
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n is {n!r}; it is a whole number of calls")
        if n < 1:
            raise ValueError(f"the last {n} calls can't be shown; give 1 or more")
        return self._model.health_tail(min(n, MOST_CALLS))

    def __str__(self) -> str:
        return "\n".join([finding.text for finding in self.findings] or [self.sentence])

    def __repr__(self) -> str:
        return f"<lamina health: {self.sentence}>"


def _call(fields: Mapping[str, Any]) -> CallHealth:
    stats = tuple(None if one is None else Stats(**one) for one in fields["stats"])
    return CallHealth(**{**fields, "stats": stats})


def health_of(model: _lamina.Model) -> Health:
    """The health of a captured model.
    Raises:
        ValueError: values were not checked.
    """
    health = model.health()
    if health is None:
        raise ValueError("values were not checked; lamina.inspect(model, args, health=True) checks them")
    return Health(model, health)
