# SPDX-License-Identifier: Apache-2.0
"""The values that a capture checks: the options of ``health=True``."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypedDict

from .._base.check import check_flag
from .._base.modules import modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .. import _lamina

    Which = str | type
    Check = Callable[[str, Any, Any], object]

MOST_CALLS = 0x7FFFFFFF  # the largest option


class Look(TypedDict, total=False):
    """Options of ``health=True``.

    ``health_allow``: layers, by pattern of their path or by type, whose results are never a finding.
    ``stats``: also the least, greatest and mean number of every result, and more. ``ring``: the number of
    last calls to print if there is a finding, or the block raises. ``checks``: user-defined functions by
    pattern of a path or by type, called as ``check(path, module, output)``; a value that they return or an
    exception that they raise becomes a finding.
    """

    health_allow: Iterable[Which] | Which
    stats: bool
    ring: int
    checks: Mapping[Which, Check]


class Checks:
    """The values to check, and how."""

    def __init__(
        self,
        *,
        health_allow: Iterable[Which] | Which = (),
        stats: bool = False,
        ring: int = 0,
        checks: Mapping[Which, Check] | None = None,
    ) -> None:
        check_flag("stats", stats)
        one = isinstance(health_allow, (str, type)) or not hasattr(health_allow, "__iter__")
        self.allow: list[Any] = [health_allow] if one else list(health_allow)  # type: ignore[arg-type]
        if checks is not None and not hasattr(checks, "items"):
            raise TypeError(
                "checks is a dict: a function (path, module, output) by pattern of a path or by type"
            )
        if isinstance(ring, bool) or not isinstance(ring, int) or ring < 0:
            raise ValueError(f"ring is {ring!r}; it is how many calls to print, a whole number from 0")
        self.checks = dict(checks or {})
        self.stats = stats
        self.ring = ring
        self._printed = False
        for which in [*self.allow, *self.checks]:
            if not isinstance(which, (str, type)):
                raise TypeError(f"{which!r} names no layers; give a pattern such as 'layer*.bn*', or a type")
        for which, check in self.checks.items():
            if not callable(check):
                raise TypeError(f"the check for {which!r} can't be called; it takes (path, module, output)")

    def begin(self, watch: _lamina.Capture, root: Any, *, gradients: bool) -> None:
        """Makes a capture that has not started check values."""
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

        self._printed = False
        broke = self.show_tail if self.ring else None
        watch.watch_health(self.stats, gradients, allowed, checked, ask, broke)

    def show_tail(self, model: _lamina.Model, error: object) -> bool:
        """Prints the last calls, once, if they were requested and there is a finding; True if it printed
        them. ``error``: the exception, or None."""
        if not self.ring or self._printed:
            return self._printed
        health = model.health()
        assert health is not None
        if error is None and not health["findings"]:
            return False
        self._printed = True
        why = health["sentence"] if health["findings"] else f"{type(error).__name__}: {error}"
        if sys.stderr is not None:
            tail = model.health_tail(min(self.ring, MOST_CALLS))
            sys.stderr.write(f"lamina: {why}\nlamina: the last calls:\n{tail}")
            sys.stderr.flush()
        return True


def _name(which: Which) -> str:
    return which if isinstance(which, str) else which.__name__


def _fits(which: Which, path: str, module: Any) -> bool:
    return fnmatchcase(path, which) if isinstance(which, str) else isinstance(module, which)


def _said(check: Check, path: str, module: Any, output: Any) -> str | None:
    """The finding of a check: its result, unless that is None, False or "", or the exception it raises."""
    torch = sys.modules["torch"]
    try:
        with torch.no_grad():
            said = check(path, module, output)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if said is None or said is False or (isinstance(said, str) and not said):
        return None
    return "found something" if said is True else str(said)
