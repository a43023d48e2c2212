# SPDX-License-Identifier: Apache-2.0
"""The models that a test's body runs, compared with the budget of its marker."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .._base.errors import LaminaError
from .._base.modules import parameters
from .._command.project import number_text
from .._guard.standing_entry import Rest
from .._inspect import capture
from .._watch import torch_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    import pytest

TAKEN = ("baseline", "within", "allow_incomplete", "convention")
MOST = 5  # the most calls that a failure lists
NO_MODEL = (
    "lamina: the test has a budget and ran no model with parameters; call the model in its body, or take the "
    "marker away"
)


class Watching:
    """Captures each call of a root: a module with parameters that is called from outside any other module. At
    the end all changes to torch are undone."""

    def __init__(self, marker: pytest.Mark, root: Path) -> None:
        self._most: list[str] = []
        self._within: list[str] = []
        self._wrong = ""
        self._calls = 0
        self._over: dict[str, None] = {}  # the texts about calls, each once
        self._open = False
        options = dict(marker.kwargs)
        baseline = options.pop("baseline", None)
        self._baseline = None if baseline is None else str(root.joinpath(os.fspath(baseline)))
        self._incomplete = bool(options.pop("allow_incomplete", False))
        self._convention = options.pop("convention", None)
        within = options.pop("within", None)
        if isinstance(within, dict):
            self._within = [f"{name}={share}" for name, share in within.items()]
        elif within is not None:
            self._within = [str(within)]
        for name, limit in options.items():
            if not name.startswith("max_"):
                self._wrong = f"the marker has no {name!r}; it has max_METRIC, {', '.join(TAKEN)}"
            self._most.append(f"{name.removeprefix('max_')}={number_text(limit)}")
        if marker.args:
            self._wrong = f"the marker takes names, as max_macs='2G', and was given {marker.args[0]!r}"
        elif not self._most and baseline is None:
            self._wrong = "the marker has no budget; give max_macs='2G' or baseline='macs.json'"
        self._base: Any = None

    def __enter__(self) -> None:
        if self._wrong:
            return
        try:
            self._base = import_module("torch").nn.Module
        except ImportError as error:
            self._wrong = f"PyTorch can't be imported ({error}), and the budget needs it: pip install torch"
            return
        self._again = torch_calls()
        self._open = True
        Rest.begin()
        _lamina.find(self._find)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:
            return
        self._open = False
        _lamina.find(None)
        Rest.end()

    def problem(self) -> str | None:
        """Why the test fails, as text; None: it doesn't."""
        if self._wrong:
            return f"lamina: {self._wrong}"
        if not self._calls:
            return NO_MODEL
        lines = [*self._over]
        more = ["lamina: other calls do not hold the budget either"] if len(lines) > MOST else []
        return "\n".join([*lines[:MOST], *more]) or None

    # -- calls -----------------------------------------------------------------------------------------------

    def _find(self, module: Any) -> Callable[..., Any] | None:
        """The function that C calls instead of a module that is called outside any other; None: the
        module."""
        if not self._is_root(module):
            return None
        return lambda *args, **kwargs: self._call(self._base.__call__, module, args, kwargs)

    def _is_root(self, module: Any) -> bool:
        return self._open and not self._again() and next(parameters(module), None) is not None

    def _call(
        self, call: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        with capture(module, memory=self._needs("peak"), time=self._needs("time")) as seen:
            result = call(module, *args, **kwargs)
        self._calls += 1
        self._judge(seen, type(module).__name__)
        return result

    def _needs(self, metric: str) -> bool:
        return any(text.startswith(f"{metric}=") for text in (*self._most, *self._within))

    def _judge(self, seen: Any, name: str) -> None:
        try:
            costs = seen.report(self._convention)._costs
            verdict, text = costs.check(name, self._most, self._within, self._baseline, self._incomplete)
        except LaminaError as error:
            self._over[f"lamina: {error}"] = None
            return
        if verdict != "within":
            self._over[f"lamina: {text.rstrip()}"] = None
