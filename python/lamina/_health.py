# SPDX-License-Identifier: Apache-2.0
"""Health: where NaN and Inf come from, statistics of results, and user-defined checks."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from ._tree import modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from . import _lamina

    Which = str | type
    Check = Callable[[str, Any, Any], object]


class Finding(NamedTuple):
    """One finding and the layer that made it.

    ``text`` is the finding as a sentence. ``path``, ``type`` and ``call`` (from 1) name the layer, None
    outside of every layer. ``own``: it was born in that layer's own forward, between its calls of ``before``
    and ``after`` (paths; None at either end). ``owned`` is the parameter or buffer that holds it, ``op`` the
    operator or node that returned it, None if unknown. ``input``: it was in an input of the model. ``check``:
    your check that reported it. ``explained``: an earlier finding is enough to cause it. ``value`` is
    ``"NaN"``, ``"Inf"`` or ``"-Inf"``; ``first`` holds the indices of the first one in a tensor of ``shape``
    and ``dtype``. ``times``: how often it was found there; ``passed``: layers that passed it on.
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
        sentence: the first finding, or that there is none.
        findings: every finding, in order.
        calls: the state of each call.
        tensors, bytes: the amount that was checked.
        unseen: tensors that could not be checked: on another device, sparse, fake.
        gradients, operators: whether gradients, and results of operators, were checked.
        cut: some non-finite values were not kept.
    """

    def __init__(self, model: _lamina.Model, told: Mapping[str, Any]) -> None:
        self._model = model
        self.sentence: str = told["sentence"]
        self.findings = [Finding(**fields) for fields in told["findings"]]
        self.calls = [_call(fields) for fields in told["calls"]]
        self.tensors: int = told["tensors"]
        self.bytes: int = told["bytes"]
        self.unseen: int = told["unseen"]
        self.gradients: bool = told["gradients"]
        self.operators: bool = told["operators"]
        self.cut: bool = told["cut"]

    @property
    def first(self) -> Finding | None:
        """The first finding; None if there is none."""
        return self.findings[0] if self.findings else None

    @property
    def ok(self) -> bool:
        """True if there is no finding."""
        return not self.findings

    def tail(self, n: int = 20) -> str:
        """Returns the last ``n`` calls before the first finding, or before the capture closed, one a line.

        Raises:
            TypeError, ValueError: ``n`` is no whole number, or is not above 0.
        """
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n is {n!r}; it is a whole number of calls")
        if n < 1:
            raise ValueError(f"the last {n} calls can't be told; ask for 1 or more")
        return self._model.health_tail(min(n, 0x7FFFFFFF))

    def __str__(self) -> str:
        return "\n".join([finding.text for finding in self.findings] or [self.sentence])

    def __repr__(self) -> str:
        return f"<lamina health: {self.sentence}>"


def _call(fields: Mapping[str, Any]) -> CallHealth:
    stats = tuple(None if one is None else Stats(**one) for one in fields["stats"])
    return CallHealth(**{**fields, "stats": stats})


def health_of(model: _lamina.Model) -> Health:
    """The health of what a capture saw.

    Raises:
        ValueError: nobody looked.
    """
    told = model.health()
    if told is None:
        raise ValueError("values were not looked at; lamina.inspect(model, args, health=True) does")
    return Health(model, told)


class Look(TypedDict, total=False):
    """Options of ``health=True``.

    ``health_allow``: layers, by pattern of their path or by type, in whose results nothing is a finding.
    ``stats``: tells the least, greatest and mean number of every result too, and more. ``ring``: how many of
    the last calls to print where something is found, or the block raises. ``checks``: functions of your own
    by pattern of a path or by type, called as ``check(path, module, output)``; what they return or raise
    becomes a finding.
    """

    health_allow: Iterable[Which] | Which
    stats: bool
    ring: int
    checks: Mapping[Which, Check]


class Wanted:
    """What is to be looked at, and how."""

    def __init__(
        self,
        *,
        health_allow: Iterable[Which] | Which = (),
        stats: bool = False,
        ring: int = 0,
        checks: Mapping[Which, Check] | None = None,
    ) -> None:
        self.allow = [health_allow] if isinstance(health_allow, (str, type)) else list(health_allow)
        if checks is not None and not hasattr(checks, "items"):
            raise TypeError(
                "checks is a dict: a function (path, module, output) by pattern of a path or by type"
            )
        if isinstance(ring, bool) or not isinstance(ring, int) or ring < 0:
            raise ValueError(f"ring is {ring!r}; it is how many calls to print, a whole number from 0")
        self.checks = dict(checks or {})
        self.stats = stats
        self.ring = ring
        self._told = False
        for which in [*self.allow, *self.checks]:
            if not isinstance(which, (str, type)):
                raise TypeError(f"{which!r} names no layers; give a pattern such as 'layer*.bn*', or a type")
        for which, check in self.checks.items():
            if not callable(check):
                raise TypeError(f"the check for {which!r} can't be called; it takes (path, module, output)")

    def begin(self, watch: _lamina.Capture, root: Any, *, gradients: bool) -> None:
        """Has a capture that was not started look at values."""
        named = list(modules(root))
        asked: dict[int, tuple[str, list[tuple[str, Check]]]] = {}
        for path, module in named:
            mine = [(_name(w), check) for w, check in self.checks.items() if _fits(w, path, module)]
            if mine:
                asked[id(module)] = (path, mine)
        allowed = [module for path, module in named if any(_fits(w, path, module) for w in self.allow)]
        for which in [*self.allow, *self.checks]:
            if not any(_fits(which, path, module) for path, module in named):
                watch.note(f"health: {_name(which)!r} names no layer")
        checked = [module for _, module in named if id(module) in asked]

        def ask(module: Any, output: Any) -> list[tuple[str, str]]:
            path, checks = asked[id(module)]
            return [(name, said) for name, check in checks if (said := _said(check, path, module, output))]

        self._told = False
        broke = self.show_tail if self.ring else None
        watch.watch_health(self.stats, gradients, allowed, checked, ask, broke)

    def show_tail(self, model: _lamina.Model, error: object) -> bool:
        """Prints the last calls, once, where something broke and they were asked for; whether it has.
        ``error``: what was raised, or None."""
        if not self.ring or self._told:
            return self._told
        health = health_of(model)
        if error is None and health.ok:
            return False
        self._told = True
        why = health.sentence if not health.ok else f"{type(error).__name__}: {error}"
        if sys.stderr is not None:
            sys.stderr.write(f"lamina: {why}\nlamina: the last calls:\n{health.tail(self.ring)}")
            sys.stderr.flush()
        return True


def _name(which: Which) -> str:
    return which if isinstance(which, str) else which.__name__


def _fits(which: Which, path: str, module: Any) -> bool:
    return fnmatchcase(path, which) if isinstance(which, str) else isinstance(module, which)


def _said(check: Check, path: str, module: Any, output: Any) -> str | None:
    """What a check finds: what it returns, unless that is None, False or "", or the exception it raises."""
    torch = sys.modules["torch"]
    try:
        with torch.no_grad():
            said = check(path, module, output)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if said is None or said is False or (isinstance(said, str) and not said):
        return None
    return "found something" if said is True else str(said)
