# SPDX-License-Identifier: Apache-2.0
"""Watching a training run: some steps of a model are captured and recorded, the others are counted.

C counts the calls of a root, by the entry in ``torch.nn.Module`` through which captures observe calls; the
entry stays there between captures (:mod:`lamina._guard.standing_entry`). C decides which calls begin a
recorded step and which belong to it (python/ext/calls/step.c). A recorded step is an ordinary capture, open
from one call of the root to the first one after a backward pass. Its model is passed to the recorder, whose
thread writes it. In the first steps of each mode operators are counted too, by a separate capture
(:mod:`lamina._work`). If steps are only timed, no Python code runs for any other.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.check import check_module
from ._base.errors import LaminaError
from ._base.files import file_of
from ._base.ranks import file_of_rank, job_and_attempt, rank_and_world
from ._guard.standing_entry import Rest
from ._inspect import RecordedStep
from ._observe.memory import Optimizers
from ._observe.support import nodes, watched
from ._work import StepWork, check_peak

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from ._work import Work

FILE = "run.lamina"

_roots: set[_Root] = set()  # of all watches
_left: list[StepWork] = []  # captures that a forked child must not close


# -- roots ---------------------------------------------------------------------------------------------------


def torch_calls() -> Callable[[], bool]:
    """A function that returns True while torch itself calls modules: in a backward pass, and while its
    compiler runs layers on tensors without values."""
    from torch._guards import TracingContext

    task: Callable[[], int] = sys.modules["torch"]._C._current_graph_task_id
    tries: Callable[[], Any] = TracingContext.try_get
    return lambda: task() != -1 or tries() is not None


class _Root(_lamina.Root):
    """One root of one watch. C counts its calls and handles its steps; this class opens the captures that C
    can't."""

    __slots__ = ("__weakref__", "module", "name", "schedule", "watch", "work")

    def __init__(self, watch: Watch, recorder: _lamina.Recorder, given: Any, number: int, name: str) -> None:
        module = check_module(given)
        self.schedule = schedule_of(watch.every, number)
        super().__init__(self.schedule, recorder, number, name, watch.sees_nodes, watch.times_only)
        self.watch, self.name = watch, name
        self.work: StepWork | None = None  # of the step that is counted
        self.module: weakref.ref[Any] | None = weakref.ref(module, self._on_module_deleted)
        _roots.add(self)
        self.count(module)

    def open_step(self, module: Any) -> tuple[_lamina.Capture, Callable[[], Any]]:
        """Opens a capture of one step. Returns it and a function that closes it and returns its model. C
        calls this."""
        step = RecordedStep(module, self.watch.memory, self.watch.health)
        return step.open(), step.close

    def count_step(self, module: Any) -> None:
        """Begins to count the operators of a step that was opened. C calls this."""
        self.work = StepWork(module, self.watch.peak)

    def counted(self, whole: bool) -> Work | None:
        """Ends that, and says what the step computed, if it is ``whole``. C calls this."""
        work, self.work = self.work, None
        return None if work is None else work.end(whole=whole)

    def look(self) -> None:
        """C calls this if other code made torch's compiler forget to report that it works."""
        Rest.look()

    def on_failure(self, error: Exception) -> None:
        """C calls this if a step can't be opened, closed or recorded."""
        self.watch.give_up(error)

    def _on_module_deleted(self, _: object) -> None:
        self.forget()

    def forget(self) -> None:
        """Ends the watching of this root."""
        _roots.discard(self)
        self.module = None
        self.uncount()
        self.retire()
        if self.work is not None:  # in a forked child, where closing may wait for threads that are gone
            _left.append(self.work)
            self.work = None


def _forget_all() -> None:
    """Ends all watching in a forked child, such as a worker that loads data, which must not write."""
    for root in [*_roots]:
        root.forget()
    Rest.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# -- the watch -----------------------------------------------------------------------------------------------


MOST_EVERY = 0x7FFF_FFFF


def check_every(every: int | None) -> None:
    """Raises ValueError for what is neither None nor a whole number of steps."""
    whole = isinstance(every, int) and not isinstance(every, bool)
    if every is not None and not (whole and 1 <= every <= MOST_EVERY):
        raise ValueError(
            f"every is {every!r}; it is a whole number from 1 to {MOST_EVERY}: one in so many is recorded"
        )


def schedule_of(every: int | None, root: int = 0) -> _lamina.Schedule:
    """Decides which steps of the ``root``-th root are recorded."""
    return _lamina.Schedule(every or 0, root)


class Watch:
    """The recording of :func:`watch`, a context manager.

    Attributes:
        file: the file that it writes, with the rank in its name in a distributed run.
        every: one in ``every`` calls of a model is recorded; None: more at first than later.
        peak: the device's, as it was given; None: as the table of peaks has it.
        stopped: the error that ended the recording early, as a sentence, or None. stderr had it too.
    """

    def __init__(
        self,
        models: Iterable[Any],
        every: int | None = None,
        file: str | os.PathLike[str] = FILE,
        *,
        memory: bool = False,
        health: bool = False,
        job: str | None = None,
        peak: float | str | None = None,
    ) -> None:
        check_every(every)
        self.peak = check_peak(peak)
        file_of(file, "file")
        self._models = list({id(model): model for model in models}.values())
        for model in self._models:
            check_module(model)
        self.every = every
        self.file = file_of_rank(os.fsdecode(file))
        self.stopped: str | None = None
        self.memory, self.health = memory, health  # what steps measure besides times
        self.times_only = not memory and not health
        self._job = job  # what all starts of the run share; None: as its launcher calls it
        self._ended_by: str | None = "end"  # how the program ends
        self.sees_nodes = False  # nodes of backward passes are observed
        self._roots: list[_Root] = []
        self._n_roots = 0
        self._names: dict[str, int] = {}
        self._uncalled: list[str] = []  # names of roots that were not called
        self._dropped_calls = 0  # calls of roots that the program has dropped
        self.totals = (0, 0, 0)  # after closing: calls, recorded steps, the number of the run in the file
        self._recorder: _lamina.Recorder | None = None
        self._process = 0
        self._made_in = os.getpid()
        self._rests = False  # lamina's entry stays in place for this watch

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The output in a notebook: the verdict on the steps recorded so far, and the layers by time."""
        shown = {"text/plain": f"<a watch: {self.rule}, recorded in {self.file}>"}
        with suppress(OSError, LaminaError):  # nothing was recorded yet
            shown["text/html"] = _lamina.recording_part(os.fsencode(self.file))
        return shown

    @property
    def rule(self) -> str:
        """Which steps are recorded, in words: ``one in 50 steps``."""
        return schedule_of(self.every).rule

    @property
    def began(self) -> bool:
        """True after the watch was entered."""
        return self._process != 0

    def __enter__(self) -> Watch:
        if self._process:
            raise RuntimeError("this watch was open already; make another with lamina.watch(model)")
        self._process = os.getpid()
        try:
            self._recorder = _recorder(self.file, self.every, self._job)
        except Exception as error:
            self.give_up(error)
            return self
        atexit.register(self._close_at_exit)
        try:
            self.sees_nodes = nodes() is None  # this proves the observer now, not in the first step
            watched(None)  # the same of operators
            Rest.begin()
            if self.memory:
                Optimizers.begin()
        except Exception as error:
            self.give_up(error)
            return self
        self._rests = True
        for model in self._models:
            self.add(model)
        self._models = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.note_end(error)
        self.close()
        if error is None and self.stopped is None:
            self._warn_of_uncalled_roots()

    def _warn_of_uncalled_roots(self) -> None:
        """Warns of roots that were not called."""
        for name in self._uncalled:
            if sys.stderr is not None:
                sys.stderr.write(
                    f"lamina: no step of {name} was recorded: it was not called itself. Watch what the "
                    "program calls; calls inside compiled functions can't be seen\n"
                )

    def add_found(self, model: Any) -> bool:
        """Watches a root that a program called; the first one begins the recording. False: it can't be
        watched, for example in a forked child, which would write to the same file."""
        if os.getpid() != self._made_in:
            return False
        if not self._process:
            self.__enter__()
            atexit.unregister(self._close_at_exit)  # lamina run closes it, after all other atexit functions
        self.add(model)
        return self._recorder is not None and self.stopped is None

    def add(self, model: Any) -> None:
        """Watches another root."""
        if self._recorder is None or self.stopped is not None:
            return
        kind = type(check_module(model)).__name__
        nth = self._names[kind] = self._names.get(kind, 0) + 1
        dropped = [root for root in self._roots if root.module is None]
        self._dropped_calls += sum(root.schedule.calls for root in dropped)  # not a count: of calls
        self._roots = [root for root in self._roots if root.module is not None]
        name = kind if nth == 1 else f"{kind} {nth}"
        self._roots.append(_Root(self, self._recorder, model, self._n_roots, name))
        self._n_roots += 1

    def note_end(self, error: BaseException) -> None:
        """Notes the exception that ends the program, its type first."""
        if isinstance(error, SystemExit) and not error.code:
            return
        lines = [""]
        with suppress(Exception):  # the program's own code makes the text
            lines = str(error).strip().splitlines() or lines
        text = f"{type(error).__name__}: {lines[0]}" if lines[0] else type(error).__name__
        self._ended_by = text.replace("\0", " ").encode(errors="replace").decode()

    def _close_at_exit(self) -> None:
        """Closes the watch of a program that has ended, by itself or by :func:`sys.exit`: Python tells
        only of other exceptions."""
        self._ended_by = None
        error = getattr(sys, "last_value", None)
        if error is not None and not hasattr(sys, "ps1"):
            self.note_end(error)
        self.close()

    def close(self) -> None:
        """Writes the remaining steps and ends the recording. A second call, or one in a forked child, does
        nothing."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self._close_at_exit)
        for root in self._roots:
            root.end_step()
            root.forget()
        self._uncalled = [root.name for root in self._roots if not root.schedule.calls]
        calls = sum(root.schedule.calls for root in self._roots)  # not a count: of calls
        calls += self._dropped_calls
        self._roots = []
        self._end_rest()
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self.totals = (calls, recorder.steps, recorder.run)
        try:
            recorder.close(self._ended_by)
        except Exception as error:
            self.give_up(error)

    def _end_rest(self) -> None:
        rests, self._rests = self._rests, False
        if rests:
            Rest.end()
            if self.memory:
                Optimizers.end()

    def give_up(self, error: Exception) -> None:
        """Ends the recording with one sentence on stderr; the training goes on."""
        if self.stopped is not None:
            return
        self.stopped = str(error) or type(error).__name__
        for root in [*self._roots]:
            root.forget()
        self._end_rest()
        if sys.stderr is not None:
            sys.stderr.write(f"lamina: the recording stopped, the program goes on: {self.stopped}\n")


def watch(
    model: Any,
    *,
    every: int | None = None,
    file: str | os.PathLike[str] = FILE,
    memory: bool = False,
    health: bool = False,
    peak: float | str | None = None,
) -> Watch:
    """Records steps of a training loop: ``with lamina.watch(model): ...``

    A step is one call of ``model``, or several before one backward pass, and everything until the next call,
    including the backward pass. ``model`` may be a list of models. Steps are counted separately for each
    model, in train and in eval mode, with and without gradients. Of each the first 33 steps are recorded, and
    then fewer: one in N, N being the smallest of 2, 5, 10, 20, 50 and 100 that is at least a 32nd of the
    step's number, or 100. With ``every`` the first step is recorded, and then one in ``every`` calls. The
    position of a recorded step moves from window to window, so that all parts of a loop with a period are
    seen.

    A step records the time of each layer, with ``memory`` what the layer allocates and retains, with
    ``health`` any NaN or Inf and the layer that made the first one. Between recorded steps a call of a layer
    costs some ten nanoseconds more; a recorded step costs some 0.15 ms and a few microseconds a layer.

    In the first two recorded steps of each mode operators are counted too, for MFU and HFU: the shares of the
    device's peak that steps reach. ``peak`` is that peak in FLOP/s, or a device, as ``"h100-sxm"``, also with
    a type of numbers, ``"h100-sxm:bfloat16"``; by default that of the GPU's name, if lamina knows it.

    ``file`` is an SQLite database (docs/recording.md). A separate thread writes it within half a second of a
    step's end; if the process is killed, the file is valid and lacks at most the last second. A new run is
    appended to an existing file. In a distributed run (``RANK`` and ``WORLD_SIZE``, as torchrun sets them, or
    an initialised process group) each process writes its own: ``run.0.lamina``. ``lamina show``,
    ``lamina live`` and ``lamina export`` read it.

    An error in writing the file, such as a full disk, ends the recording with one sentence on stderr, and not
    the training.

    Raises:
        TypeError: ``model`` is no ``torch.nn.Module``.
        ValueError: ``every`` is less than 1, ``file`` is empty, or ``peak`` is not above 0 and no device that
            is known.
    """
    models = model if isinstance(model, list | tuple) else [model]
    return Watch(models, every, file, memory=memory, health=health, peak=peak)


# -- what a run is called ------------------------------------------------------------------------------------


def _recorder(file: str, every: int | None, named: str | None) -> _lamina.Recorder:
    from platform import node
    from shlex import join

    words = [*sys.orig_argv]
    if "-c" in words[:-1]:
        words[words.index("-c") + 1] = "..."  # the text of a program is not its name
    command = join(words).encode(errors="replace").decode()  # the bytes of a word may be no UTF-8
    rank, world = rank_and_world()
    torch = str(sys.modules["torch"].__version__)
    job, attempt = job_and_attempt(named)
    job = None if job is None else job.encode(errors="replace").decode()
    return _lamina.Recorder(file, command, node(), torch, rank, world, every or 0, time_ns(), job, attempt)
