# SPDX-License-Identifier: Apache-2.0
"""The result of a run of a model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from types import TracebackType

    from .. import _lamina
    from .values import Checks


class Run:
    """The result of one forward: the core's ``model``, what it returned or raised, and what could not be
    restored."""

    def __init__(self, root: Any, health: Checks | None = None) -> None:
        self.root = root
        self.health = health
        self.model: _lamina.Model | None = None
        self.error: BaseException | None = None
        self.failed_in: str | None = None  # of the repeated runs: the one that raised it
        self.left: list[str] = []
        self.alone = True  # its forward ran in one thread, as far as it was seen
        self.in_inference_mode = bool(sys.modules["torch"].is_inference_mode_enabled())
        self.no_backward = False  # True: a backward was requested, and no output has a gradient

    def leave(self, problems: list[str]) -> None:
        """Takes what could not be restored, once each: the arguments are restored after every run."""
        self.left += (text for text in problems if text not in self.left)

    def note_left(self) -> None:
        """Adds what could not be restored to the notes of the model, which is built before the restore."""
        if self.model is not None:
            for text in self.left:
                self.model.add_note(text)

    def failure(self, layer: str | None) -> str | None:
        """Where the model raised; ``layer``: of the run that is reported, None if it did not raise."""
        if layer is None and self.failed_in is not None:
            return f"raised in {self.failed_in}, not in the first run, which the table shows"
        return layer

    def reraise(self) -> NoReturn:
        assert self.error is not None
        raise self.error.with_traceback(_user_frames(self.error.__traceback__))


def _user_frames(frames: TracebackType | None) -> TracebackType | None:
    # The first frame is run_once itself, which is about to be added again.
    return frames.tb_next if frames is not None and frames.tb_next is not None else frames
