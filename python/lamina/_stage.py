# SPDX-License-Identifier: Apache-2.0
"""What a user says of calls of a language model in a capture: of the prompt, or of new tokens."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from types import TracebackType

    from . import _lamina

NAMES = ("prefill", "decode")


class _Here(threading.local):
    """Of this thread: stages that are entered, the innermost last, and captures that are open."""

    def __init__(self) -> None:
        self.entered: list[stage] = []
        self.captures: WeakSet[Stages] = WeakSet()  # one that is dropped while it is open is forgotten

    def mark(self) -> None:
        name = self.entered[-1].name if self.entered else None
        for each in self.captures:
            each.mark(name)


_here = _Here()


class Stages:
    """The stages of one capture. ``close`` writes them into ``facts``, the provenance of its report, as
    ``"0 prefill, 3 decode, 7 -"``: what is said of calls from that number on, or that nothing is."""

    def __init__(self, watch: _lamina.Capture, facts: dict[str, str]) -> None:
        self._watch, self._facts = watch, facts
        self._marks: list[tuple[int, str | None]] = []
        self._here: WeakSet[Stages] = WeakSet()  # of the thread that opens the capture; another may close it

    def open(self) -> None:
        self._here = _here.captures
        self._here.add(self)
        if _here.entered:
            self.mark(_here.entered[-1].name)

    def mark(self, name: str | None) -> None:
        call = self._watch.n_calls
        if self._marks and self._marks[-1][0] == call:
            self._marks.pop()
        if (self._marks[-1][1] if self._marks else None) != name:
            self._marks.append((call, name))

    def close(self) -> None:
        self._here.discard(self)
        if self._marks:
            self._facts["stages"] = ", ".join(f"{call} {name or '-'}" for call, name in self._marks)


class stage:  # noqa: N801
    """Says what calls of a language model in a capture are: ``with lamina.stage("decode"): ...``.

    ``report.tokens`` tells calls of the model apart by what they are given. In the block they are of this
    stage instead, as those of a prompt in chunks of several lengths or of a step that verifies several
    speculated tokens. It holds for the captures of this thread, also for those that are opened in the block;
    stages nest, and the innermost one holds. Where no capture is open it does nothing.

    Args:
        name: ``"prefill"``, for calls that consume a prompt, or ``"decode"``, for calls with new tokens.

    Raises:
        TypeError: the name is no str.
        ValueError: it is no stage.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a stage is a str, 'prefill' or 'decode', not {type(name).__name__}")
        if name not in NAMES:
            raise ValueError(f"there is no stage {name!r}; use 'prefill' or 'decode'")
        self.name = name

    def __enter__(self) -> stage:
        _here.entered.append(self)
        _here.mark()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        entered = _here.entered  # blocks of generators may end in any order
        for i in reversed(range(len(entered))):
            if entered[i] is self:
                del entered[i]
                break
        _here.mark()

    def __repr__(self) -> str:
        return f"lamina.stage({self.name!r})"
