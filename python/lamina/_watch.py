# SPDX-License-Identifier: Apache-2.0
"""Watching a training run: one in N steps of a model is captured and recorded, the others are counted.

A root's calls are counted in C, by the entry that captures have in ``torch.nn.Module``, which stays there
between them (:mod:`lamina._rest`). Where torch's compiler may be used, they are counted by a ``__call__`` in
the root's own class: a Python function, because the compiler can look through one. Which calls begin
a recorded step, and which belong to one, is decided in C for both (python/ext/calls/step.c). A recorded step
is an ordinary capture, open from one call of the root to the first one after a backward pass; what it saw
goes to the recorder, whose thread writes it. Where steps are only timed and calls are counted in C, no Python
runs for any of that.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from contextlib import ExitStack, nullcontext
from time import time_ns
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._compiled import AS_IT_IS, Compiled
from ._inspect import Capture
from ._observe import nodes
from ._ranks import file_of_rank, rank_and_world
from ._rest import Rest
from ._run import check_module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from ._observe import Watched

EVERY = 100
FILE = "run.lamina"
TRAINING, GRAD = 1, 2  # together, a kind of call

_roots: dict[int, _Root] = {}  # by the identity of what is called
_lock = threading.Lock()


# -- calls of the roots --------------------------------------------------------------------------------------


class _Class:
    """A class whose calls are counted, and what it answered with before."""

    known: dict[type, _Class] = {}  # noqa: RUF012 - one for the process, guarded by the lock

    def __init__(self, cls: Any) -> None:
        self.users = 0
        self.own = cls.__dict__.get("__call__")
        self.mine = _counting(cls, self.own)

    @classmethod
    def add(cls, of: Any) -> None:
        with _lock:
            entry = cls.known.get(of)
            if entry is None:
                entry = cls.known[of] = cls(of)
                of.__call__ = entry.mine
            entry.users += 1

    @classmethod
    def remove(cls, of: Any) -> None:
        with _lock:
            entry = cls.known[of]
            entry.users -= 1
            if entry.users:
                return
            del cls.known[of]
            if of.__dict__.get("__call__") is not entry.mine:
                return  # somebody put another in its place, which may call ours: it goes on to the original
            if entry.own is None:
                del of.__call__
            else:
                of.__call__ = entry.own

    @classmethod
    def is_plain(cls, of: Any) -> bool:
        """True where a class answers with the ``__call__`` of torch.nn.Module, but for ours."""
        last = sys.modules["torch"].nn.Module
        for base in of.__mro__:
            if base is last:
                return True
            ours = base in cls.known and cls.known[base].own is None
            if not ours and "__call__" in base.__dict__:
                return False
        return False


def compiling_now() -> Callable[[], bool]:
    """What torch's compiler takes for True while it follows code; False anywhere else."""
    told: Callable[[], bool] = sys.modules["torch"].compiler.is_dynamo_compiling
    return told


def going_back() -> Callable[[], bool]:
    """What tells whether this thread runs a backward pass."""
    task: Callable[[], int] = sys.modules["torch"]._C._current_graph_task_id
    return lambda: task() != -1


def _base_of(cls: Any) -> Any:
    """The one of those that a class is made of whose ``__call__`` it answers with."""
    return next(base for base in cls.__mro__[1:] if "__call__" in base.__dict__)


def _counting(cls: Any, own: Any) -> Callable[..., Any]:
    compiling, roots = compiling_now(), _roots
    base = _base_of(cls) if own is None else None
    # What compiled code was made of is not looked up, or it would not serve while a capture is open.
    # An entry of ours, where a capture is open just now, would keep it from being followed.
    plain = own if own is not None else _lamina.behind(cls.__call__)

    def __call__(self: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if compiling():
            return plain(self, *args, **kwargs)
        root = roots.get(id(self))
        # Looked up at each call: a capture that is open has its own entry in torch.nn.Module.
        answer = own if base is None else base.__call__
        if root is None or root.inside or root.in_c:
            return answer(self, *args, **kwargs)
        return _counted(root, answer, own, base, self, args, kwargs)

    return __call__


def _counted(
    root: _Root, answer: Any, own: Any, base: Any, module: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """A call of a root, which is counted; most need no more than ``answer``."""
    root.inside = True
    try:
        grad = sys.modules["torch"].is_grad_enabled()
        kind = (TRAINING if module.training is True else 0) | (GRAD if grad else 0)
        if root.other is None and root.schedule.skip_call(kind):
            return answer(module, *args, **kwargs)
        return _seen(root, kind, own, base, module, args, kwargs)
    finally:
        root.inside = False


def _seen(
    root: _Root | None, kind: int, own: Any, base: Any, module: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """The call itself, with every watch around it that knows the root."""
    if root is None:
        answer = own if base is None else base.__call__
        return answer(module, *args, **kwargs)
    try:
        root.on_begin(module, kind)
        result = _seen(root.other, kind, own, base, module, args, kwargs)
    except BaseException:
        root.on_raise()
        raise
    root.on_end()
    root.watch.count_in_c()
    return result


def counts_in_c(module: Any) -> bool:
    """Whether the calls of a module that is watched are counted in C."""
    root = _roots.get(id(module))
    return root is not None and root.in_c


def first_call(base: Any, module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The call in which a root was found, which has come as far as ``base``, torch.nn.Module. Where its own
    class has a ``__call__``, that has begun already and must not run again."""
    root = _roots.get(id(module))
    if root is None or root.in_c:
        return base.__call__(module, *args, **kwargs)  # what counts in C stands there
    return _counted(root, base.__call__, None, base, module, args, kwargs)


class _Looking(Capture):
    """The capture of one step where more than times is asked for."""

    _runs_again = False

    def __init__(self, module: Any, stance: Compiled | None, *, memory: bool, health: bool) -> None:
        wanted = None
        if health:
            from ._health import Wanted

            wanted = Wanted()
        super().__init__(module, ops=False, time=True, memory=memory, health=wanted)
        self._kept = stance

    def _new_stance(self, _: Watched) -> Compiled | nullcontext[None]:
        """Compiled code runs as it does in other steps; where there is none, nobody is asked."""
        return self._kept or nullcontext()

    def open(self) -> _lamina.Capture:
        """Begins."""
        self.__enter__()
        assert self._watch is not None
        return self._watch

    def close(self) -> _lamina.Model | None:
        """Ends: what it saw."""
        self.__exit__(None, None, None)
        return self._model


class _Root(_lamina.Root):
    """One root of one watch: who counts its calls, and what its steps need of Python."""

    __slots__ = (
        "__weakref__",
        "classes",
        "inside",
        "keys",
        "module",
        "name",
        "other",
        "schedule",
        "watch",
    )

    def __init__(self, watch: Watch, recorder: _lamina.Recorder, given: Any, number: int, name: str) -> None:
        module = check_module(given)
        self.schedule = _lamina.Schedule(watch.every, number)
        super().__init__(self.schedule, recorder, number, name, watch.sees_nodes, watch.times_only)
        self.watch, self.name = watch, name
        self.module = weakref.ref(module, self._gone)
        self.keys = {id(module), id(given)}
        self.classes = {type(module), type(given)}
        self.inside = False
        self.other = _roots.get(id(given))  # the same root of another watch
        if self.other is not None:
            self.other.count_in_python()
        for key in self.keys:
            _roots[key] = self
        if self._may_count_in_c():
            self.count(module, Rest.told())
        else:
            for of in self.classes:
                _Class.add(of)

    def _may_count_in_c(self) -> bool:
        module = self.module()
        if not Rest.resting or module is None or self.other is not None or self.keys != {id(module)}:
            return False
        return _roots.get(id(module)) is self and _Class.is_plain(type(module))

    def count_in_c(self) -> None:
        """Hands the counting over, where that can be done: between two calls."""
        if self.in_c or not self.classes or not self._may_count_in_c():
            return
        for of in self.classes:
            _Class.remove(of)
        self.count(self.module(), Rest.told())

    def count_in_python(self) -> None:
        """Takes it back."""
        if not self.in_c:
            return
        self.uncount()
        for of in self.classes:
            _Class.add(of)

    def open_step(self, module: Any, seeks_start: bool) -> tuple[_lamina.Capture, Callable[[], Any], bool]:
        """A capture of one step, or of what is waited through before one; what closes it and gives what it
        saw; and whether nothing is compiled until then."""
        stance, watch = None, self.watch
        if not Rest.look():
            stance = Compiled(AS_IT_IS)
            self.count_in_python()  # nothing of C's is in torch.nn.Module any more
        elif self.in_c:
            self.count(module, Rest.told())  # torch's list may be another one now
        if not watch.times_only and not seeks_start:
            looking = _Looking(module, stance, memory=watch.memory, health=watch.health)
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
        """A step could not be opened, closed or recorded."""
        self.watch.give_up(error)

    def compiling(self) -> None:
        """Something is about to be compiled, which must not meet what C has in torch.nn.Module."""
        self.count_in_python()
        self.on_compile()

    def _gone(self, _: object) -> None:
        self.forget()

    def forget(self) -> None:
        """The root is not watched any more."""
        for key in self.keys:
            first = _roots.get(key)
            if first is self and self.other is None:
                del _roots[key]
            elif first is self and self.other is not None:
                _roots[key] = self.other
            elif first is not None:
                first.skip(self)
        classes, self.classes = self.classes, set()
        if self.in_c:
            self.uncount()
        else:
            for of in classes:
                _Class.remove(of)
        self.retire()

    def skip(self, gone: _Root) -> None:
        """Another watch of this root was closed."""
        if self.other is gone:
            self.other = gone.other
        elif self.other is not None:
            self.other.skip(gone)


def _forget_all() -> None:
    """In a forked child, a worker that loads data: it trains nothing, and must not write."""
    for first in _roots.values():
        root: _Root | None = first
        while root is not None:
            root.uncount()
            root.retire()
            root = root.other
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
        self.memory, self.health = memory, health
        self.times_only = not memory and not health
        self.sees_nodes = False  # of backward passes
        self._roots: list[_Root] = []
        self._n_roots = 0
        self._names: dict[str, int] = {}
        self._never: list[str] = []  # roots that were not called
        self._gone = 0  # calls of roots that the program has dropped
        self.told = (0, 0, 0)  # when it was closed: calls, steps that were recorded, its run in the file
        self._recorder: _lamina.Recorder | None = None
        self._process = 0
        self._made_in = os.getpid()

    @property
    def began(self) -> bool:
        """True once it was entered."""
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
        self.sees_nodes = nodes() is None  # the observer is proved now, and not in the first step
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
            self._tell_of_those_not_called()

    def _tell_of_those_not_called(self) -> None:
        """A compiled model, for one, is another module than the one that it was made of."""
        for name in self._never:
            if sys.stderr is not None:
                sys.stderr.write(
                    f"lamina: no step of {name} was recorded: it was not called itself. Watch what the "
                    "program calls, such as what torch.compile gave\n"
                )

    def found(self, model: Any) -> bool:
        """A program called a root: the recording begins with the first. False where it can't be watched, as
        in a forked child, which would write to the same file."""
        if os.getpid() != self._made_in:
            return False
        if not self._process:
            self.__enter__()
            atexit.unregister(self.close)  # who runs the program closes it, behind all others
        self.add(model)
        return self._recorder is not None and self.stopped is None

    def add(self, model: Any) -> None:
        """Watches one more root."""
        if self._recorder is None:
            return
        kind = type(check_module(model)).__name__
        nth = self._names[kind] = self._names.get(kind, 0) + 1
        self._gone += sum(r.schedule.calls for r in self._roots if not r.classes)  # not a count: of calls
        self._roots = [root for root in self._roots if root.classes]
        name = kind if nth == 1 else f"{kind} {nth}"
        self._roots.append(_Root(self, self._recorder, model, self._n_roots, name))
        self._n_roots += 1

    def close(self) -> None:
        """Writes what is left and ends the recording. Does nothing twice, nor in a forked child."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.close)
        for root in self._roots:
            root.end_step()
            root.forget()
        self._never = [root.name for root in self._roots if not root.schedule.calls]
        calls = self._gone + sum(root.schedule.calls for root in self._roots)  # not a count: of calls
        self._roots = []
        Rest.end(self.compiling)
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        self.told = (calls, recorder.steps, recorder.run)
        try:
            recorder.close()
        except Exception as error:
            self.give_up(error)

    def count_in_c(self) -> None:
        """Has calls counted in C from now on, where that may be."""
        if Rest.look():
            for root in self._roots:
                root.count_in_c()

    def compiling(self) -> None:
        """Something is about to be compiled."""
        for root in [*self._roots]:
            root.compiling()

    def give_up(self, error: Exception) -> None:
        """Ends the recording, and not the training: one sentence on stderr."""
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
        words[words.index("-c") + 1] = "..."  # a program in the command line is no name of it
    rank, world = rank_and_world()
    torch = str(sys.modules["torch"].__version__)
    return _lamina.Recorder(file, join(words), node(), torch, rank, world, every, time_ns())
