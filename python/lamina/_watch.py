# SPDX-License-Identifier: Apache-2.0
"""Watching a training run: one in N steps of a model is captured and recorded, the others are counted.

C counts the calls of a root, by the entry in ``torch.nn.Module`` through which captures observe calls; the
entry stays there between captures (:mod:`lamina._guard.standing_entry`). If torch's compiler may be used, a
``__call__`` in the root's own class counts them: a Python function, which the compiler can trace. In both
cases C decides which calls begin a recorded step and which belong to it (python/ext/calls/step.c). A recorded
step is an ordinary capture, open from one call of the root to the first one after a backward pass. Its model
is passed to the recorder, whose thread writes it. If C counts the calls and steps are only timed, no Python
code runs for any of this.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from contextlib import ExitStack, nullcontext, suppress
from time import time_ns
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.check import check_module
from ._base.errors import LaminaError
from ._base.ranks import file_of_rank, rank_and_world
from ._guard.compiled import AS_IT_IS, Compiled
from ._guard.standing_entry import Rest
from ._inspect import Capture
from ._observe.support import nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from ._observe.support import Watched

EVERY = 100
FILE = "run.lamina"
TRAINING, GRAD = 1, 2  # together, a kind of call

_roots: dict[int, _Root] = {}  # by the identity of the called module
_lock = threading.Lock()


# -- calls of the roots --------------------------------------------------------------------------------------


class _CountedClass:
    """A class whose calls Python counts, and its original ``__call__``."""

    known: dict[type, _CountedClass] = {}  # noqa: RUF012 - one for the process, guarded by the lock

    def __init__(self, cls: Any) -> None:
        self.users = 0
        self.original = cls.__dict__.get("__call__")
        self.replacement = _make_call(cls, self.original)

    @classmethod
    def add(cls, of: Any) -> None:
        with _lock:
            entry = cls.known.get(of)
            if entry is None:
                entry = cls.known[of] = cls(of)
                of.__call__ = entry.replacement
            entry.users += 1

    @classmethod
    def remove(cls, of: Any) -> None:
        with _lock:
            entry = cls.known[of]
            entry.users -= 1
            if entry.users:
                return
            del cls.known[of]
            if of.__dict__.get("__call__") is not entry.replacement:
                return  # other code replaced our __call__ and may call it: it still calls the original
            if entry.original is None:
                del of.__call__
            else:
                of.__call__ = entry.original

    @classmethod
    def is_plain(cls, of: Any) -> bool:
        """True if a class has the ``__call__`` of torch.nn.Module, lamina's replacement aside."""
        last = sys.modules["torch"].nn.Module
        for base in of.__mro__:
            if base is last:
                return True
            ours = base in cls.known and cls.known[base].original is None
            if not ours and "__call__" in base.__dict__:
                return False
        return False


def compiling_now() -> Callable[[], bool]:
    """A function that returns True when torch's compiler traces it, and False otherwise."""
    compiling: Callable[[], bool] = sys.modules["torch"].compiler.is_dynamo_compiling
    return compiling


def torch_calls() -> Callable[[], bool]:
    """A function that returns True while torch itself calls modules: in a backward pass, and while its
    compiler runs layers on tensors without values."""
    from torch._guards import TracingContext

    task: Callable[[], int] = sys.modules["torch"]._C._current_graph_task_id
    tries: Callable[[], Any] = TracingContext.try_get
    return lambda: task() != -1 or tries() is not None


def _base_with_call(cls: Any) -> Any:
    """The base class that a class has its ``__call__`` from."""
    return next(base for base in cls.__mro__[1:] if "__call__" in base.__dict__)


def _make_call(cls: Any, own: Any) -> Callable[..., Any]:
    compiling, roots = compiling_now(), _roots
    base = _base_with_call(cls) if own is None else None
    # The compiler traces this function. If it were looked up at each call, the compiler would compile again
    # while a capture is open, and it can't trace the method by which a capture replaces it.
    plain = own if own is not None else _lamina.behind(cls.__call__)

    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if compiling():
            return plain(self, *args, **kwargs)
        root = roots.get(id(self))
        # This is looked up at each call, because an open capture replaces the method of torch.nn.Module.
        answer = own if base is None else base.__call__
        if root is None or root.inside or root.in_c:
            return answer(self, *args, **kwargs)
        return _count_call(root, answer, own, base, self, args, kwargs)

    return __call__


def _count_call(
    root: _Root, answer: Any, own: Any, base: Any, module: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """Counts a call of a root, and makes the call; most calls need nothing else."""
    root.inside = True
    try:
        grad = sys.modules["torch"].is_grad_enabled()
        kind = (TRAINING if module.training is True else 0) | (GRAD if grad else 0)
        if root.same_root is None and root.schedule.skip_call(kind):
            return answer(module, *args, **kwargs)
        return _call_watched(root, kind, own, base, module, args, kwargs)
    finally:
        root.inside = False


def _call_watched(
    root: _Root | None, kind: int, own: Any, base: Any, module: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """Makes the call, and reports it to the root and to the same root of other watches."""
    if root is None:
        answer = own if base is None else base.__call__
        return answer(module, *args, **kwargs)
    try:
        root.on_begin(module, kind)
        result = _call_watched(root.same_root, kind, own, base, module, args, kwargs)
    except BaseException:
        root.on_raise()
        raise
    root.on_end()
    root.watch.count_in_c()
    return result


def counts_in_c(module: Any) -> bool:
    """True if C counts the calls of a watched module."""
    root = _roots.get(id(module))
    return root is not None and root.in_c


def first_call(base: Any, module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Makes the call in which a root was found. This call has already reached ``base``, torch.nn.Module: a
    ``__call__`` in the root's own class has begun and must not run again."""
    root = _roots.get(id(module))
    if root is None or root.in_c:
        return base.__call__(module, *args, **kwargs)  # C counts it in there
    return _count_call(root, base.__call__, None, base, module, args, kwargs)


class _DetailedCapture(Capture):
    """The capture of one step that measures memory or checks values."""

    _has_report = False

    def __init__(self, module: Any, stance: Compiled | None, *, memory: bool, health: bool) -> None:
        wanted = None
        if health:
            from ._observe.values import Wanted

            wanted = Wanted()
        super().__init__(module, ops=False, time=True, memory=memory, health=wanted)
        self._watch_stance = stance

    def _new_stance(self, _: Watched) -> Compiled | nullcontext[None]:
        """Compiled code runs as it does in other steps."""
        return self._watch_stance or nullcontext()

    def open(self) -> _lamina.Capture:
        """Opens the capture."""
        self.__enter__()
        assert self._watch is not None
        return self._watch

    def close(self) -> _lamina.Model | None:
        """Closes the capture and returns its model."""
        self.__exit__(None, None, None)
        return self._model


class _Root(_lamina.Root):
    """One root of one watch. C handles its steps; this class decides whether C or Python counts its calls,
    and opens the captures that C can't."""

    __slots__ = (
        "__weakref__",
        "classes",
        "inside",
        "keys",
        "module",
        "name",
        "same_root",
        "schedule",
        "watch",
    )

    def __init__(self, watch: Watch, recorder: _lamina.Recorder, given: Any, number: int, name: str) -> None:
        module = check_module(given)
        self.schedule = _lamina.Schedule(watch.every, number)
        super().__init__(self.schedule, recorder, number, name, watch.sees_nodes, watch.times_only)
        self.watch, self.name = watch, name
        self.module = weakref.ref(module, self._on_module_deleted)
        self.keys = {id(module), id(given)}
        self.classes = {type(module), type(given)}
        self.inside = False
        self.same_root = _roots.get(id(given))  # the same root of another watch
        if self.same_root is not None:
            self.same_root.count_in_python()
        for key in self.keys:
            _roots[key] = self
        if self._may_count_in_c():
            self.count(module, Rest.told())
        else:
            for of in self.classes:
                _CountedClass.add(of)

    def _may_count_in_c(self) -> bool:
        module = self.module()
        if not Rest.resting or module is None or self.same_root is not None or self.keys != {id(module)}:
            return False
        return _roots.get(id(module)) is self and _CountedClass.is_plain(type(module))

    def count_in_c(self) -> None:
        """Makes C count the calls, if that is possible. Called between two calls."""
        if self.in_c or not self.classes or not self._may_count_in_c():
            return
        for of in self.classes:
            _CountedClass.remove(of)
        self.count(self.module(), Rest.told())

    def count_in_python(self) -> None:
        """Makes Python count the calls."""
        if not self.in_c:
            return
        self.uncount()
        for of in self.classes:
            _CountedClass.add(of)

    def open_step(self, module: Any, seeks_start: bool) -> tuple[_lamina.Capture, Callable[[], Any], bool]:
        """Opens a capture of one step or, if ``seeks_start``, of the calls before a step, which are not
        recorded. Returns the capture, a function that closes it and returns its model, and whether nothing is
        compiled until then. C calls this."""
        stance, watch = None, self.watch
        if not Rest.look():
            stance = Compiled(AS_IT_IS)
            self.count_in_python()  # C's entry was removed from torch.nn.Module
        elif self.in_c:
            self.count(module, Rest.told())  # torch may have replaced its list
        if not watch.times_only and not seeks_start:
            looking = _DetailedCapture(module, stance, memory=watch.memory, health=watch.health)
            return looking.open(), looking.close, stance is not None
        root, nodes = check_module(module), watch.sees_nodes
        capture = _lamina.Capture(root, False, module, None, nodes, True, True)  # noqa: FBT003
        capture.measure_device(True, False)  # noqa: FBT003
        with ExitStack() as stack:
            if stance is not None:
                stack.enter_context(stance)
            capture.start()
            stack.callback(capture.stop)
            return capture, stack.pop_all().close, stance is not None

    def on_failure(self, error: Exception) -> None:
        """C calls this if a step can't be opened, closed or recorded."""
        self.watch.give_up(error)

    def compiling(self) -> None:
        """Called before torch compiles code, which must not trace C's method in torch.nn.Module."""
        self.count_in_python()
        self.on_compile()

    def _on_module_deleted(self, _: object) -> None:
        self.forget()

    def forget(self) -> None:
        """Ends the watching of this root."""
        for key in self.keys:
            first = _roots.get(key)
            if first is self and self.same_root is None:
                del _roots[key]
            elif first is self and self.same_root is not None:
                _roots[key] = self.same_root
            elif first is not None:
                first.unchain(self)
        classes, self.classes = self.classes, set()
        if self.in_c:
            self.uncount()
        else:
            for of in classes:
                _CountedClass.remove(of)
        self.retire()

    def unchain(self, gone: _Root) -> None:
        """Removes the same root of a closed watch from the chain."""
        if self.same_root is gone:
            self.same_root = gone.same_root
        elif self.same_root is not None:
            self.same_root.unchain(gone)


def _forget_all() -> None:
    """Ends all watching in a forked child, such as a worker that loads data, which must not write."""
    for first in _roots.values():
        root: _Root | None = first
        while root is not None:
            root.uncount()
            root.retire()
            root = root.same_root
    _roots.clear()
    Rest.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# -- the watch -----------------------------------------------------------------------------------------------


MOST_EVERY = 0x7FFF_FFFF


class Watch:
    """The recording of :func:`watch`, a context manager.

    Attributes:
        file: the file that it writes, with the rank in its name in a distributed run.
        every: one in ``every`` calls of a model is recorded.
        stopped: the error that ended the recording early, as a sentence, or None. stderr had it too.
    """

    def __init__(
        self,
        models: Iterable[Any],
        every: int = EVERY,
        file: str | os.PathLike[str] = FILE,
        *,
        memory: bool = False,
        health: bool = False,
    ) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"every is {every!r}; it is a whole number from 1: each which step is seen")
        if every > MOST_EVERY:
            raise ValueError(f"every is {every}; it is {MOST_EVERY} at most")
        if not os.fspath(file):
            raise ValueError("file is empty; name the file that is to be written")
        self._models = list({id(model): model for model in models}.values())
        for model in self._models:
            check_module(model)
        self.every = every
        self.file = file_of_rank(os.fsdecode(file))
        self.stopped: str | None = None
        self.memory, self.health = memory, health  # what steps measure besides times
        self.times_only = not memory and not health
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

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """The output in a notebook: the verdict on the steps recorded so far, and the layers by time."""
        shown = {"text/plain": f"<a watch: one step in {self.every}, recorded in {self.file}>"}
        with suppress(OSError, LaminaError):  # nothing was recorded yet
            shown["text/html"] = _lamina.recording_part(os.fsencode(self.file))
        return shown

    @property
    def began(self) -> bool:
        """True after the watch was entered."""
        return self._process != 0

    def __enter__(self) -> Watch:
        if self._process:
            raise RuntimeError("this watch was open already; make another with lamina.watch(model)")
        self._process = os.getpid()
        try:
            self._recorder = _recorder(self.file, self.every)
        except Exception as error:
            self.give_up(error)
            return self
        self.sees_nodes = nodes() is None  # this proves the observer now, not in the first step
        Rest.begin(self.compiling)
        atexit.register(self.close)
        for model in self._models:
            self.add(model)
        self._models = []
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.stopped is None:
            self._warn_of_uncalled_roots()

    def _warn_of_uncalled_roots(self) -> None:
        """Warns of roots that were not called, such as the module that ``torch.compile`` was given: only the
        module that it returned is called."""
        for name in self._uncalled:
            if sys.stderr is not None:
                sys.stderr.write(
                    f"lamina: no step of {name} was recorded: it was not called itself. Watch what the "
                    "program calls, such as what torch.compile gave\n"
                )

    def add_found(self, model: Any) -> bool:
        """Watches a root that a program called; the first one begins the recording. False: it can't be
        watched, for example in a forked child, which would write to the same file."""
        if os.getpid() != self._made_in:
            return False
        if not self._process:
            self.__enter__()
            atexit.unregister(self.close)  # lamina run closes it, after all other atexit functions
        self.add(model)
        return self._recorder is not None and self.stopped is None

    def add(self, model: Any) -> None:
        """Watches another root."""
        if self._recorder is None:
            return
        kind = type(check_module(model)).__name__
        nth = self._names[kind] = self._names.get(kind, 0) + 1
        dropped = [root for root in self._roots if not root.classes]
        self._dropped_calls += sum(root.schedule.calls for root in dropped)  # not a count: of calls
        self._roots = [root for root in self._roots if root.classes]
        name = kind if nth == 1 else f"{kind} {nth}"
        self._roots.append(_Root(self, self._recorder, model, self._n_roots, name))
        self._n_roots += 1

    def close(self) -> None:
        """Writes the remaining steps and ends the recording. A second call, or one in a forked child, does
        nothing."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.close)
        for root in self._roots:
            root.end_step()
            root.forget()
        self._uncalled = [root.name for root in self._roots if not root.schedule.calls]
        calls = sum(root.schedule.calls for root in self._roots)  # not a count: of calls
        calls += self._dropped_calls
        self._roots = []
        Rest.end(self.compiling)
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self.totals = (calls, recorder.steps, recorder.run)
        try:
            recorder.close()
        except Exception as error:
            self.give_up(error)

    def count_in_c(self) -> None:
        """Makes C count the calls of all roots for which this is possible."""
        if Rest.look():
            for root in self._roots:
                root.count_in_c()

    def compiling(self) -> None:
        """Called before torch compiles code."""
        for root in [*self._roots]:
            root.compiling()

    def give_up(self, error: Exception) -> None:
        """Ends the recording with one sentence on stderr; the training goes on."""
        if self.stopped is not None:
            return
        self.stopped = str(error) or type(error).__name__
        for root in [*self._roots]:
            root.forget()
        Rest.end(self.compiling)
        if sys.stderr is not None:
            sys.stderr.write(f"lamina: the recording stopped, the program goes on: {self.stopped}\n")


def watch(
    model: Any,
    *,
    every: int = EVERY,
    file: str | os.PathLike[str] = FILE,
    memory: bool = False,
    health: bool = False,
) -> Watch:
    """Records one in ``every`` steps of a training loop: ``with lamina.watch(model): ...``

    A step is one call of ``model``, or several before one backward pass, and everything until the next call,
    including the backward pass. ``model`` may be a list of models. Steps are counted separately for each
    model, in train and in eval mode, with and without gradients. The first step of each is recorded, then one
    in ``every`` calls, at a position that moves from window to window, so that all parts of a loop with a
    period are seen. A step records the time of each layer, with ``memory`` what the layer allocates and
    retains, with ``health`` any NaN or Inf and the layer that made the first one. Between recorded steps a
    call of a layer costs some ten nanoseconds more; a recorded step costs some 0.15 ms and a few microseconds
    a layer.

    ``file`` is an SQLite database (docs/recording.md). A separate thread writes it within half a second of a
    step's end; if the process is killed, the file is valid and lacks at most the last second. A new run is
    appended to an existing file. In a distributed run (``RANK`` and ``WORLD_SIZE``, as torchrun sets them, or
    an initialised process group) each process writes its own: ``run.0.lamina``. ``lamina show``,
    ``lamina live`` and ``lamina export`` read it.

    An error in writing the file, such as a full disk, ends the recording with one sentence on stderr, and not
    the training.

    Raises:
        TypeError: ``model`` is no ``torch.nn.Module``.
        ValueError: ``every`` is less than 1, or ``file`` is empty.
    """
    models = model if isinstance(model, list | tuple) else [model]
    return Watch(models, every, file, memory=memory, health=health)


# -- what a run is called ------------------------------------------------------------------------------------


def _recorder(file: str, every: int) -> _lamina.Recorder:
    from platform import node
    from shlex import join

    words = [*sys.orig_argv]
    if "-c" in words[:-1]:
        words[words.index("-c") + 1] = "..."  # the text of a program is not its name
    command = join(words).encode(errors="replace").decode()  # the bytes of a word may be no UTF-8
    rank, world = rank_and_world()
    torch = str(sys.modules["torch"].__version__)
    return _lamina.Recorder(file, command, node(), torch, rank, world, every, time_ns())
