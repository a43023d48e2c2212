# SPDX-License-Identifier: Apache-2.0
"""torch_inspector's ``InspectorGadgets``: its file format, with lamina's measurements."""

from __future__ import annotations

import json
import sys
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._base.check import check_module
from .._base.errors import UsageError
from .._base.ranks import file_of_rank
from .._inspect import Capture
from .._observe.memory import refused
from .._observe.values import Checks

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from .. import _lamina
    from .._results.report import Report

PHASES = ("forward", "backward")
MOST_MODELS, MOST_DEPTH = 8, 0x7FFF_FFFF

# The model of each file that this process wrote.
_written: dict[Path, weakref.ref[Any]] = {}


class InspectorGadgets:
    """Measures times, memory and values of every layer of a model, in training.

    Use ``with InspectorGadgets(model, save_file="run.json"): ...`` around your own code, or :meth:`start`
    and :meth:`finish`. No hook is registered, and the model runs unchanged. The measurements are in the file,
    in :attr:`layers` and, in full, in :attr:`report`.

    Args:
        model: any ``torch.nn.Module``, or a list of up to 8; duplicates are watched once.
        watch_forward: False leaves the fields of the forward null.
        watch_backward: False leaves the fields of the backward null.
        watch_depth: lists layers down to this depth; the model itself is at 0; -1: all.
        save_file: the file that :meth:`finish` writes: ``run.json`` becomes ``run_ResNet.json`` with the name
            of the model's class. The folder is created. A file of another model of that class gets a number.
            In a distributed run each process writes its own: ``run_ResNet.0.json``.

    Raises:
        TypeError: a model is no module, or ``save_file`` no path.
        ValueError: there is no model, or more than 8; or ``watch_depth`` is no whole number from -1.
    """

    def __init__(
        self,
        model: Any,
        watch_forward: bool = True,
        watch_backward: bool = True,
        watch_depth: int = -1,
        save_file: str | os.PathLike[str] | None = None,
    ) -> None:
        given = list(model) if isinstance(model, (list, tuple)) else [model]
        self._given = list({id(one): one for one in given}.values())
        self._roots = [check_module(one) for one in self._given]
        if not self._roots:
            raise ValueError("there is no model in the list; give at least one")
        if len(self._roots) > MOST_MODELS:
            raise ValueError(
                f"there are {len(self._roots)} models, and {MOST_MODELS} can be watched at a time; make one "
                "of several InspectorGadgets for the others, later"
            )
        if not isinstance(watch_depth, int) or not -1 <= watch_depth <= MOST_DEPTH:
            raise ValueError(f"watch_depth={watch_depth!r} is not possible; give 0 or more, or -1 for all")
        if save_file is not None:
            save_file = Path(save_file)
        self.watch_forward = watch_forward
        self.watch_backward = watch_backward
        self.watch_depth = watch_depth
        self.save_file = save_file
        self.mode = PHASES[0]
        self._open: ExitStack | None = None
        self._captures: list[Capture] = []
        self._removed: set[str] = set()
        self._finished = False
        self._layers: list[dict[str, Any]] | None = None

    # -- a session -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts watching with empty measurements; does nothing if it is already watching."""
        if self._open is not None:
            return
        memory = refused() is None
        wanted: Any = {"ops": False, "time": True, "memory": memory}
        captures = [Capture(given, health=Checks(), **wanted) for given in self._given]
        with ExitStack() as stack:
            for capture in captures:
                stack.enter_context(capture)
            self._open = stack.pop_all()
        self._captures = captures
        self._layers, self._finished, self._removed = None, False, set()

    def finish(self) -> None:
        """Stops watching and, with ``save_file``, writes a file for each model. A second call does nothing.

        Raises:
            RuntimeError: :meth:`start` was not called.
            OSError: a file can't be written. The measurements are kept.
        """
        if not self._captures:
            raise RuntimeError("nothing was watched yet; call start() first, or use a with block")
        self._close()
        if self._finished:
            return
        self._finished = True
        if self.save_file is not None:
            for root, capture in zip(self._roots, self._captures, strict=True):
                text = self._text_of(capture)
                _file_of(Path(self.save_file), root).write_bytes(text)

    def _close(self) -> None:
        stack, self._open = self._open, None
        if stack is not None:
            stack.close()

    def __enter__(self) -> InspectorGadgets:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()
        except OSError as problem:
            if error is None:
                raise
            # The block's exception must reach the user; `layers` has the measurements.
            if sys.stderr is not None:
                sys.stderr.write(f"lamina: the file could not be written: {problem}\n")

    # -- what was measured -----------------------------------------------------------------------------------

    @property
    def layers(self) -> list[dict[str, Any]]:
        """The contents of the files, a dict for each model: ``{class: {"info": ..., "children": ...}}``.

        Raises:
            RuntimeError: it is still open, or was never started.
        """
        if self._layers is None:
            self._check_closed()
            self._layers = [json.loads(self._text_of(capture)) for capture in self._captures]
        return self._layers

    @property
    def report(self) -> Report:
        """The report of a single model: its table, ``time``, ``memory`` and ``health``.

        Raises:
            ValueError: there are several; see :attr:`reports`.
        """
        if len(self._roots) > 1:
            raise UsageError(f"there are {len(self._roots)} models; reports[0] is the first one's")
        return self.reports[0]

    @property
    def reports(self) -> list[Report]:
        """A report for each model."""
        self._check_closed()
        return [capture.report() for capture in self._captures]

    def _check_closed(self) -> None:
        if self._open is not None or not self._captures:
            raise RuntimeError("nothing is known before finish(), or the end of the with block")

    def _text_of(self, capture: Capture) -> bytearray:
        model: _lamina.Model | None = capture._model
        assert model is not None
        return model.gadgets(self.watch_depth, self.watch_forward, self.watch_backward)

    # -- names that torch_inspector has ----------------------------------------------------------------------

    def forward_mode(self) -> None:
        """Sets ``mode`` to ``"forward"``; forwards are recognised without it."""
        self.set_mode("forward")

    def backward_mode(self) -> None:
        """Sets ``mode`` to ``"backward"``; backward passes are recognised without it."""
        self.set_mode("backward")

    def set_mode(self, mode: str) -> None:
        """Stores ``mode``, and changes nothing else."""
        self.mode = mode

    def initialize_hooks(self) -> None:
        """The same as :meth:`start`; there are no hooks."""
        self.start()

    def start_timer(self) -> None:
        """Does nothing: the clock is read at every call."""

    def remove_forward_hooks(self) -> None:
        """Stops watching, once :meth:`remove_backward_hooks` was called too."""
        self._remove("forward")

    def remove_backward_hooks(self) -> None:
        """Stops watching, once :meth:`remove_forward_hooks` was called too."""
        self._remove("backward")

    def _remove(self, phase: str) -> None:
        self._removed.add(phase)
        if self._removed.issuperset(PHASES):
            self._close()


def _file_of(save_file: Path, root: Any) -> Path:
    """The path of one model's file, in an existing folder. A file of another model that this process wrote is
    not overwritten."""
    stem = f"{save_file.with_suffix('') if save_file.name else save_file}_{type(root).__name__}"
    path, number = Path(file_of_rank(f"{stem}.json")), 1
    while not _may_write(path.absolute(), root):
        number += 1
        path = Path(file_of_rank(f"{stem}_{number}.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    _written[path.absolute()] = weakref.ref(root)
    return path


def _may_write(path: Path, root: Any) -> bool:
    writer = _written.get(path)
    return writer is None or writer() is None or writer() is root
