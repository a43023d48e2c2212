# SPDX-License-Identifier: Apache-2.0
"""Compiled code during a capture is bypassed or runs, and nothing is compiled.

Calls can only be observed if a model runs layer by layer, so compiled code is bypassed if only calls are
watched. If operators are watched, compiled code runs if it exists for these inputs, and its operators are
counted. Nothing is compiled for other inputs, because code that is compiled under a capture would contain
traces of it.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from .control_flow import Plain
from .imports import Finder
from .redispatch import Redispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from .. import _lamina

COMPILER = "torch._dynamo"
SWITCH = "torch._dynamo.eval_frame"
CALLBACK = "torch._dynamo.callback"
BACKWARDS = "torch._functorch._aot_autograd.runtime_wrappers"
HIGHER_ORDER = "torch._higher_order_ops"
AROUND, AS_IT_IS = "force_eager", "eager_on_recompile"
REFUSED = "torch's compiler can't be turned off inside the code that it compiles"

# Backends to which torch.compile passes every operator unchanged. Others may generate kernels, whose work is
# not observed.
OPERATOR_BY_OPERATOR = ("eager", "eager_noexcept", "eager_debug", "aot_eager", "pre_dispatch_eager")

BACKWARD = "CompiledFunctionBackward"  # the node of code that is compiled for the backward


class Compiled:
    """While one is open, nothing is compiled, and compiled code runs layer by layer or unchanged.

    The switch is for the whole process. Captures nest and run in several threads, so layer by layer wins
    while any capture needs it, and the last one to close restores it. If nothing was compiled yet, there is
    nothing to bypass, and torch's compiler is not imported; if the model imports it, it is disabled at once.
    An open object closes when it is garbage collected. With None instead of a stance the compiler works as it
    does otherwise, and only calls that torch does not record are reported (:class:`Redispatch`).
    """

    _lock = threading.RLock()  # an object may be garbage collected while another one changes the switch
    _open: ClassVar[list[str | None]] = []
    _back: partial[Any] | None = None  # restores the switch
    _now: str | None = None
    _inside = False  # the object is open; also if torch's compiler created a module itself

    def __init__(self, stance: str | None = AROUND) -> None:
        self._mine = stance
        self._inside = False

    def __enter__(self) -> None:
        cls = Compiled
        with cls._lock:
            cls._open.append(self._mine)
            self._inside = True
            try:
                cls._turn()
            except BaseException:  # torch refuses inside compiled code
                self._inside = False
                cls._open.remove(self._mine)
                raise

    def __exit__(self, *_: object) -> None:
        cls = Compiled
        with cls._lock:
            if self._inside:
                self._inside = False
                cls._open.remove(self._mine)
                cls._turn()

    def __del__(self) -> None:
        if self._inside and not sys.is_finalizing():  # at finalization there is nothing to restore
            self.__exit__()

    @classmethod
    def _turn(cls) -> None:
        wanted = next((stance for stance in (AROUND, AS_IT_IS) if stance in cls._open), None)
        Redispatch.turn(cls.is_open())
        if cls._now is None and not Imported.look(cls.imported, wanted=wanted is not None):
            return
        if wanted == cls._now:
            return
        if cls._back is not None:
            cls._back()  # if torch refuses, the next change tries again
            cls._back = cls._now = None
            if Plain.is_open:
                Plain.close()
        if wanted is not None:
            cls._back = _turned(wanted)
        cls._now = wanted

    @classmethod
    def is_open(cls) -> bool:
        """True while any object is open."""
        return bool(cls._open)

    @classmethod
    def asked(cls) -> None:
        """Called when torch reads the switch: code that would be compiled is about to run."""
        if not Plain.is_open:
            with cls._lock:
                if cls._now is not None:
                    Plain.open()

    @classmethod
    def imported(cls) -> None:
        """torch's compiler was imported while a capture was open."""
        with cls._lock:
            cls._turn()


def _turned(wanted: str) -> partial[Any] | None:
    """Sets torch's switch and returns the function that restores it; None if there is no switch."""
    switch = sys.modules.get(SWITCH)
    turn, stance = _known_to(switch, wanted)
    if turn is not None:
        return partial(turn, turn(stance))
    set_stance = getattr(getattr(sys.modules["torch"], "compiler", None), "set_stance", None)
    if set_stance is None:
        return _without_stance(switch, wanted)
    public = set_stance(wanted)
    Plain.open()
    return partial(public.__exit__, None, None, None)


def _without_stance(switch: Any, wanted: str) -> partial[Any] | None:
    """The same before torch 2.6, which has no stances. A function that is to be compiled passes its compiler
    to another function before it runs. With None instead of the compiler it runs layer by layer; with False
    compiled code runs, and nothing is compiled."""
    names = (name for name in ("_maybe_set_eval_frame", "set_eval_frame") if hasattr(switch, name))
    name = next(names, None)
    if name is None:
        return None
    own = getattr(switch, name)
    before = own(None)
    own(before)
    if callable(before):
        raise RuntimeError(REFUSED)

    def instead(compiler: Any) -> Any:
        if not callable(compiler):
            return own(compiler)
        Compiled.asked()
        return own(None if wanted == AROUND or _is_torchs(sys._getframe(1)) else False)

    were = [(switch, name, own)]
    setattr(switch, name, instead)
    backwards: Any = sys.modules.get(BACKWARDS)
    if hasattr(backwards, "track_graph_compiling"):
        were.append((backwards, "track_graph_compiling", backwards.track_graph_compiling))
        backwards.track_graph_compiling = _reported(backwards.track_graph_compiling)
    return partial(_put_back, were)


def _reported(compiles: Any) -> Any:
    """The context in which a backward is compiled, for which torch calls no callbacks before 2.6."""

    @contextmanager
    def reports(*args: Any) -> Iterator[None]:
        handler: Any = sys.modules[CALLBACK].callback_handler
        handler.run_start_callbacks()
        try:
            with compiles(*args):
                yield
        finally:
            handler.run_end_callbacks()

    return reports


def _put_back(were: list[tuple[Any, str, Any]]) -> None:
    for module, name, was in were:
        setattr(module, name, was)


@cache
def _known_to(switch: Any, name: str) -> tuple[Callable[[Any], Any] | None, Any]:
    """The function that sets torch's switch as ``torch.compiler.set_stance`` does, and a stance of a subclass
    that reports when torch reads it: at each call of a function that is to be compiled, and before operators
    that compile themselves run. Only these operators need :class:`Plain`, which takes longer than all the
    rest here. None if this torch has no stances."""
    turn: Any = getattr(switch, "_set_stance", None)
    plain: Any = getattr(switch, "DynamoStance", None)
    now: Any = getattr(switch, "_stance", None)
    try:
        from torch._C._dynamo.eval_frame import get_eval_frame_callback as compiling
    except ImportError:
        return None, None
    if turn is None or plain is None or not isinstance(now, plain):
        return None, None

    class Stance(plain):  # type: ignore[misc]
        skip_guard_eval_unsafe = False
        backend = None

        @property
        def stance(self) -> str:
            Compiled.asked()
            return AROUND if _is_torchs(sys._getframe(1)) else name

    return partial(_set_stance, vars(switch), compiling), object.__new__(Stance)


def _is_torchs(asks: FrameType) -> bool:
    """True if one of torch's operators that compile themselves is about to run. Code that an earlier run
    compiled for it contains the layers that its functions call, which would not be observed."""
    caller: FrameType | None = asks
    while caller is not None and caller.f_globals.get("__name__") == SWITCH:
        caller = caller.f_back
    return caller is not None and str(caller.f_globals.get("__name__")).startswith(HIGHER_ORDER)


def _set_stance(names: dict[str, Any], compiling: Any, stance: Any) -> Any:
    """Sets the stance, as torch's own function, which imports another module each time. Raises inside
    compiled code."""
    if compiling():
        raise RuntimeError(REFUSED)
    before, names["_stance"] = names["_stance"], stance
    return before


class Compiler:
    """Keeps the work of torch's compiler out of a capture. The backward of compiled code is compiled when it
    first runs, by running operators on tensors without memory, and this can't be postponed. Some versions of
    the compiler also try operators on small tensors while they are imported."""

    _all: ClassVar[weakref.WeakSet[Compiler]] = weakref.WeakSet()  # those that are not closed

    NOTE = "compiled code went backward for the first time: what torch's compiler did for it is not counted"

    def __init__(self, watch: _lamina.Capture) -> None:
        self._watch = watch
        self._thread = threading.get_ident()
        self._callbacks: list[tuple[list[Any], Callable[[Any], None]]] = []
        Compiler._all.add(self)

    def open(self) -> None:
        handler = getattr(sys.modules.get(CALLBACK), "callback_handler", None)
        me = weakref.ref(self)  # torch's lists must not keep alive a capture that was dropped while open
        for name, does in (("start_callbacks", Compiler._begins), ("end_callbacks", Compiler._ended)):
            others = getattr(handler, name, None)
            if isinstance(others, list):
                others.append(callback := partial(_tell, me, does))
                self._callbacks.append((others, callback))

    def close(self) -> None:
        Compiler._all.discard(self)
        for others, callback in self._callbacks:
            if callback in others:  # other code may empty torch's lists
                others.remove(callback)
        self._callbacks.clear()

    def __del__(self) -> None:
        self.close()

    def _begins(self) -> None:
        if threading.get_ident() == self._thread:
            self._watch.pause(True)  # noqa: FBT003
            self._watch.note(self.NOTE)

    def _ended(self) -> None:
        self._watch.pause(False)  # noqa: FBT003

    @classmethod
    def imports(cls, *, now: bool) -> None:
        """An import of the compiler by this thread begins or ends."""
        for one in [*cls._all]:
            if threading.get_ident() == one._thread:
                one._watch.pause(now)


def _tell(me: weakref.ref[Compiler], does: Callable[[Compiler], None], *_: object) -> None:
    compiler = me()
    if compiler is not None:
        does(compiler)


class Imported:
    """Reports the import of torch's compiler, while a capture waits for it."""

    waiting: ClassVar[list[Callable[[], None]]] = []
    running = False  # the compiler's module code runs: the compiler can't be used yet

    @classmethod
    def look(cls, callback: Callable[[], None], *, wanted: bool) -> bool:
        """True if the compiler was imported. ``wanted``: if it was not, ``callback`` is called after its
        import."""
        there = COMPILER in sys.modules and not cls.running
        if callback in cls.waiting:
            cls.waiting.remove(callback)
        if wanted and not there:
            cls.waiting.append(callback)
        if cls.waiting and FINDER not in sys.meta_path:
            sys.meta_path.insert(0, FINDER)
        elif not cls.waiting and FINDER in sys.meta_path:
            sys.meta_path.remove(FINDER)
        return there

    @classmethod
    def around(cls, run: Callable[[], None]) -> None:
        cls.running = True
        Compiler.imports(now=True)
        try:
            run()
        finally:
            Compiler.imports(now=False)
            cls.running = False
        for callback in [*cls.waiting]:
            callback()


FINDER: Any = Finder(COMPILER, Imported.around)


def compiles_autograd() -> bool:
    """True if the program asked torch to compile backward passes as a whole."""
    return bool(getattr(sys.modules.get("torch._dynamo.config"), "compiled_autograd", False))


def compiled_codes() -> Any:
    """All code that was compiled in this process; False as a condition if there is none, as in most
    processes."""
    frames = sys.modules.get("torch._dynamo.convert_frame")
    return getattr(getattr(frames, "input_codes", None), "seen", None)


def seen_through(codes: Any) -> set[str]:
    """torch's names for compiled code that runs operator by operator."""
    regions = {name: backend in OPERATOR_BY_OPERATOR for name, backend in _regions(codes)}
    through = {name for name, seen in regions.items() if seen}
    return through | {BACKWARD} if through and all(regions.values()) else through


def _regions(seen: Any) -> list[tuple[str, str | None]]:
    """torch's name and the backend of every piece of compiled code in this process."""
    try:
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list as entries

        listed: Any = entries
        codes = [code() for code in seen]
        return [
            (entry.trace_annotation, getattr(entry.backend, "compiler_name", None))
            for code in codes
            if code is not None
            for entry in listed(code)
        ]
    except (ImportError, AttributeError, TypeError):
        return []  # another version of torch: any compiled code may hide work
