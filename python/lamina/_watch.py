# SPDX-License-Identifier: Apache-2.0
"""Watching a training run: one in N steps of a model is captured and recorded, the others are counted.

A root's calls are counted in C, by the entry that captures have in ``torch.nn.Module``, which stays there
between them (:mod:`lamina._rest`). Where torch's compiler may be used, they are counted by a ``__call__`` in
the root's own class: a Python function, because the compiler can look through one. Which calls begin a step
that is seen is decided in one place for both (python/ext/turns.c). A sampled step is an ordinary capture,
open from one call of the root to the first one after a backward pass; what it saw goes to the recorder,
whose thread writes it. Where steps are only timed and calls are counted in C, all of that is done there
(python/ext/sample.c).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from contextlib import nullcontext
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.check import check_module
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
OPEN = 4  # captures at a time; a thread may have eight, and the user's own are among them
NOTED = 65536  # calls of modules that a step may have before it gets no further call of the root

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
    compiling, roots, grad = compiling_now(), _roots, sys.modules["torch"].is_grad_enabled
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
        root.inside = True
        try:
            kind = (TRAINING if self.training is True else 0) | (GRAD if grad() else 0)
            if root.other is None and root.turns.skip(kind):  # most steps
                return answer(self, *args, **kwargs)
            return _seen(root, kind, own, base, self, args, kwargs)
        finally:
            root.inside = False

    return __call__


def _seen(
    root: _Root | None, kind: int, own: Any, base: Any, module: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """The call itself, with every watch around it that knows the root."""
    if root is None:
        answer = own if base is None else base.__call__
        return answer(module, *args, **kwargs)
    try:
        root.before(module, kind)
        result = _seen(root.other, kind, own, base, module, args, kwargs)
    except BaseException:
        root.raised()
        raise
    root.after()
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
    root.inside = True
    try:
        grad = sys.modules["torch"].is_grad_enabled()
        kind = (TRAINING if module.training is True else 0) | (GRAD if grad else 0)
        if root.other is None and root.turns.skip(kind):
            return base.__call__(module, *args, **kwargs)
        return _seen(root, kind, None, base, module, args, kwargs)
    finally:
        root.inside = False


class _Step:
    """The capture of one step that is only timed. What it costs is the cost of a recording."""

    __slots__ = ("_goes_back", "_watch", "stance")

    def __init__(self, module: Any, root: Any, stance: Compiled | None, *, nodes: bool) -> None:
        self._watch = _lamina.Capture(root, False, module, None, nodes, True, True)  # noqa: FBT003
        self._watch.measure_device(True, False)  # noqa: FBT003
        self._goes_back = not nodes  # for all that can be seen
        self.stance = stance

    def open(self) -> None:
        """Begins."""
        if self.stance is not None:
            self.stance.__enter__()
        try:
            self._watch.start()
        except BaseException:
            if self.stance is not None:
                self.stance.__exit__()
            raise

    def close(self) -> None:
        """Ends."""
        self._watch.stop()
        if self.stance is not None:
            self.stance.__exit__()

    def went_back(self) -> bool:
        """True where a backward pass was seen, or can't be."""
        return self._goes_back or self._watch.n_ops > 0

    def is_full(self) -> bool:
        """So much was noted that another call of the root would be too many."""
        return self._watch.n_calls >= NOTED

    def seen(self) -> _lamina.Model | None:
        """What it saw, once it is closed."""
        return self._watch.model()


class _Looking(Capture):
    """The same where more than times is asked for."""

    _runs_again = False

    def __init__(self, module: Any, stance: Compiled | None, *, memory: bool, health: bool) -> None:
        wanted = None
        if health:
            from ._observe.values import Wanted

            wanted = Wanted()
        super().__init__(module, ops=False, time=True, memory=memory, health=wanted)
        self.stance = stance

    def _new_stance(self, _: Watched) -> Compiled | nullcontext[None]:
        """Compiled code runs as it does in other steps; where there is none, nobody is asked."""
        return self.stance or nullcontext()

    def open(self) -> None:
        """Begins."""
        self.__enter__()

    def close(self) -> None:
        """Ends."""
        self.__exit__(None, None, None)

    def went_back(self) -> bool:
        """True where a backward pass was seen, or can't be."""
        return self._watch is None or self._watch.n_ops > 0 or nodes() is not None

    def is_full(self) -> bool:
        """So much was noted that another call of the root would be too many."""
        return self._watch is None or self._watch.n_calls >= NOTED

    def seen(self) -> _lamina.Model | None:
        """What it saw, once it is closed."""
        return self._model


class _Root:
    """One root of one watch: which step it is in, and the capture of a sampled one."""

    __slots__ = (
        "__weakref__",
        "about",
        "again",
        "capture",
        "classes",
        "in_c",
        "inside",
        "keys",
        "module",
        "name",
        "number",
        "other",
        "thread",
        "turns",
        "watch",
    )

    def __init__(self, watch: Watch, given: Any, number: int, name: str) -> None:
        module = check_module(given)
        self.watch, self.number, self.name = watch, number, name
        self.again = going_back()
        self.module = weakref.ref(module, self._gone)
        self.keys = {id(module), id(given)}
        self.classes = {type(module), type(given)}
        self.inside = False
        self.turns = _lamina.Turns(watch.every, number)
        self.capture: _Step | _Looking | None = None
        self.thread = 0  # on which the step that is being seen began
        self.about: tuple[int, bool, bool, int, int] = (0, False, False, 0, 0)
        self.other = _roots.get(id(given))  # the same root of another watch
        if self.other is not None:
            self.other.count_in_python()
        for key in self.keys:
            _roots[key] = self
        self.in_c = self._may_count_in_c()  # who counts
        if self.in_c:
            self._hand_to_c(module)
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
        if self.capture is not None and self.watch.how_in_c() is not None:
            return  # when it is closed
        self.in_c = True
        for of in self.classes:
            _Class.remove(of)
        self._hand_to_c(self.module())

    def _hand_to_c(self, module: Any) -> None:
        """Where steps are only timed, they are seen there too."""
        how = self.watch.how_in_c()
        if how is None:
            _lamina.count(module, self.turns, self.told)
            return
        recorder, nodes = how
        about = (recorder, self.number, self.name, nodes, Rest.told())
        _lamina.count(module, self.turns, self.told, about)

    def count_in_python(self, *, record: bool = True) -> None:
        """Takes it back. A step that is being seen in C is recorded, or the next is seen in its place."""
        if not self.in_c:
            return
        self.in_c = False
        key = next(iter(self.keys))
        _lamina.end_step(key, record)
        _lamina.uncount(key)
        for of in self.classes:
            _Class.add(of)

    def told(self, moment: int, kind: int, error: Exception | None) -> None:
        """A call that is counted in C begins, has ended, or has raised; or it could not be seen there, now or
        from now on."""
        if error is not None:
            self.watch.give_up(error)
        elif moment == 4:
            self.count_in_python()
        elif moment == 0:
            self.before(self.module(), kind)
        elif moment == 1:
            self.after()
        else:
            self.raised()

    def before(self, module: Any, kind: int) -> None:
        """A call of the root begins, and with it a step; but for one that does forward work again."""
        if self.again():
            return
        capture = self.capture
        if capture is not None:
            ended = capture.went_back() or capture.is_full() or self.thread != threading.get_ident()
            if self.turns.goes_on(kind, ended):
                return
            self.finish()
        if self.turns.begin(kind):
            self._open(module, kind)

    def after(self) -> None:
        """It has ended. Without gradients no backward will follow."""
        if self.capture is not None and not self.turns.kind & GRAD:
            self.finish()

    def raised(self) -> None:
        """It has raised. Forward work that is done again ends so on purpose, once all is there."""
        if not self.again():
            self.finish()

    def _open(self, module: Any, kind: int) -> None:
        try:
            self.watch.make_room()
            capture = self.watch.new_capture(module, waits=self.turns.waits)
            training, gradients = bool(kind & TRAINING), bool(kind & GRAD)
            self.about = (self.turns.number, training, gradients, time_ns(), monotonic_ns())
            capture.open()
            self.capture, self.thread = capture, threading.get_ident()
            self.watch.open.append(self)
        except Exception as error:
            self.turns.again()
            self.watch.give_up(error)

    def finish(self) -> None:
        """Closes the capture of a sampled step and hands over what it saw."""
        if self.in_c:
            _lamina.end_step(next(iter(self.keys)), True)  # noqa: FBT003
        capture, self.capture = self.capture, None
        if capture is None:
            return
        wanted = self.turns.end(capture.went_back())
        if self in self.watch.open:
            self.watch.open.remove(self)
        try:
            capture.close()
            if wanted:
                self.watch.write(self, capture)
        except Exception as error:
            self.watch.give_up(error)

    def give_way(self) -> None:
        """Others need the room. Where its backward pass may be yet to come, what was seen is no step, unless
        there will be no other."""
        capture, turns = self.capture, self.turns
        if capture is None or capture.went_back() or not turns.kind & GRAD or not turns.number:
            self.finish()
        else:
            self._give_up_step(capture)

    def _give_up_step(self, capture: _Step | _Looking) -> None:
        """The next one is seen in its place."""
        self.capture = None
        self.turns.again()
        self.watch.open.remove(self)
        capture.close()

    def compiling(self) -> None:
        """Something is about to be compiled, which must not meet a capture: a step with one is given up, and
        the next is seen in its place. One that keeps code from being compiled is not concerned."""
        capture = self.capture
        if capture is None or capture.stance is not None:
            return
        self._give_up_step(capture)

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
            self.in_c = False
            _lamina.uncount(next(iter(self.keys)))
            return
        for of in classes:
            _Class.remove(of)

    def skip(self, gone: _Root) -> None:
        """Another watch of this root was closed."""
        if self.other is gone:
            self.other = gone.other
        elif self.other is not None:
            self.other.skip(gone)


def _forget_all() -> None:
    """In a forked child, a worker that loads data: it trains nothing, and must not write."""
    for key in _roots:
        _lamina.uncount(key)
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
        self.open: list[_Root] = []  # whose step is being seen
        self._memory, self._health = memory, health
        self._roots: list[_Root] = []
        self._n_roots = 0
        self._names: dict[str, int] = {}
        self._never: list[str] = []  # roots that were not called
        self._gone = 0  # calls of roots that the program has dropped
        self.told = (0, 0, 0)  # when it was closed: calls, steps that were recorded, its run in the file
        self._recorder: _lamina.Recorder | None = None
        self._process = 0
        self._made_in = os.getpid()
        self._nodes = False

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
        self._nodes = nodes() is None  # the observer is proved now, and not in the first step
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
        self._gone += sum(r.turns.calls for r in self._roots if not r.classes)  # not a count: of calls
        self._roots = [root for root in self._roots if root.classes]
        self._roots.append(_Root(self, model, self._n_roots, kind if nth == 1 else f"{kind} {nth}"))
        self._n_roots += 1

    def close(self) -> None:
        """Writes what is left and ends the recording. Does nothing twice, nor in a forked child."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.close)
        for root in self._roots:
            root.finish()
            root.forget()
        self._never = [root.name for root in self._roots if not root.turns.calls]
        calls = self._gone + sum(root.turns.calls for root in self._roots)  # not a count: of calls
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

    def new_capture(self, module: Any, *, waits: bool) -> _Step | _Looking:
        """The capture of one step, or of what is waited through before one."""
        stance = None if Rest.look() else Compiled(AS_IT_IS)
        if (self._memory or self._health) and not waits:
            return _Looking(module, stance, memory=self._memory, health=self._health)
        root = module if stance is None else check_module(module)
        return _Step(module, root, stance, nodes=self._nodes)

    def count_in_c(self) -> None:
        """Has calls counted in C from now on, where that may be."""
        if Rest.look():
            for root in self._roots:
                root.count_in_c()

    def compiling(self) -> None:
        """Something is about to be compiled."""
        for root in [*self._roots]:
            root.count_in_python(record=False)
        for root in [*self.open]:
            root.compiling()

    def how_in_c(self) -> tuple[_lamina.Recorder, bool] | None:
        """Who records steps, and whether nodes are watched, where steps can be seen from C."""
        if self._recorder is None or self._memory or self._health:
            return None
        return self._recorder, self._nodes

    def make_room(self) -> None:
        """A model that is called no more may keep a step open; it gives way to those that are."""
        while len(self.open) >= OPEN:
            self.open[0].give_way()

    def write(self, root: _Root, capture: _Step | _Looking) -> None:
        """Hands over what one step showed."""
        model = capture.seen()
        if self._recorder is not None and model is not None:
            self._recorder.step(model, root.number, root.name, *root.about)

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
