# SPDX-License-Identifier: Apache-2.0
"""Measures memory, and finds the tensors that an optimizer keeps."""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections import deque
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

from .. import _lamina
from .._base.errors import UnsupportedError
from .._guard.code_copy import leading_to, twin_of
from .support import in_a_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

SOURCE = "every block that torch's allocator for the CPU handed out and took back"
ANCHOR, ANCHORS = 4093, 16  # a size that no other code allocates, in bytes; tries

_proved: list[bool] = []


def refused() -> str | None:
    """The reason why memory can't be measured, from a test with a tensor of known size; None if it can."""
    if not _proved:
        wrong = in_a_thread(_lamina.probe_memory)
        if wrong is not None:
            return wrong
        _proved.append(True)
    return None


# The profilers of captures that were not opened yet, by the capture's identity.
_waiting: dict[int, Profiled] = {}


def measure(watch: _lamina.Capture) -> None:
    """Makes a capture that has not started measure memory too, inside a :class:`MemoryTrace`.

    Raises:
        UnsupportedError: memory can't be measured; the sentence says why.
    """
    wrong = refused()
    if wrong is None:
        watch.measure_memory(SOURCE)
        return
    unfit = Profiled.refused()
    if unfit is not None:
        raise UnsupportedError(f"memory can't be measured here: {wrong}; nor by torch's profiler: {unfit}")
    watch.measure_memory(f"torch's profiler, because {wrong}", True)  # noqa: FBT003
    watch.note(f"memory was measured by torch's profiler, of the layers' forward alone, because {wrong}")
    _waiting[id(watch)] = Profiled()


class Profiled:
    """Allocations and frees by torch's profiler, if the allocator can't be watched.

    Its clock is not lamina's. Tensors that are created at known times, one before and one after, relate the
    two.
    """

    def __init__(self) -> None:
        self._profile: Any = None
        self._anchors: list[tuple[int, int]] = []  # lamina's time, and a tensor's address

    @staticmethod
    def refused() -> str | None:
        """The reason why the profiler can't be used, from a test; None if it can."""
        torch = sys.modules["torch"]
        probe = Profiled()
        try:
            probe.open()
            address = torch.empty(12345, dtype=torch.uint8, device="cpu").data_ptr()
            probe.close()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        seen = [size for at, size, _ in probe.events() if at == address and size in (12345, -12345)]
        return None if seen == [12345, -12345] else "it did not show a tensor of known size come and go"

    def open(self) -> None:
        """Starts the profiler."""
        profiler = sys.modules["torch"].profiler
        self._profile = profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True)
        self._profile.__enter__()
        self._anchor()

    def close(self) -> None:
        """Stops the profiler; a second call does nothing."""
        if len(self._anchors) == 1:
            self._anchor()
            self._profile.__exit__(None, None, None)

    def _anchor(self) -> None:
        """Creates several tensors and notes the one that was created fastest: its time is the most exact."""
        torch = sys.modules["torch"]
        fastest: tuple[int, int, int] | None = None
        made = []  # kept, so that no two have one address
        for _ in range(ANCHORS):
            begun = time.monotonic_ns()
            made.append(torch.empty(ANCHOR, dtype=torch.uint8, device="cpu"))
            took = time.monotonic_ns() - begun
            if fastest is None or took < fastest[0]:
                fastest = (took, begun, made[-1].data_ptr())
        assert fastest is not None
        self._anchors.append(fastest[1:])

    def events(self) -> list[tuple[int, int, int]]:
        """Address, bytes and lamina's time of allocations and (negative) frees."""
        todo = list(self._profile.profiler.kineto_results.experimental_event_tree())
        found = []
        while todo:
            event = todo.pop()
            todo += event.children
            if event.tag.name == "Allocation" and event.extra_fields.device.type == "cpu":
                fields = event.extra_fields
                found.append((event.start_time_ns, int(fields.ptr), int(fields.alloc_size)))
        found.sort(key=lambda event: event[0])
        (first, one), (last, other) = self._anchors
        theirs = [at for at, address, size in found if (address, size) == (one, ANCHOR)][:1]
        theirs += [at for at, address, size in found if (address, size) == (other, ANCHOR)][-1:]
        late = (theirs[0] - first, theirs[1] - last)  # not a count: by so much our clock is behind theirs
        blocks = []
        for at, address, size in found:
            gone = (at - theirs[0]) / max(theirs[1] - theirs[0], 1)  # not a count: a share of the time
            ours = at - late[0] - int((late[1] - late[0]) * gone)  # not a count: a time
            blocks.append((address, size, ours))
        return blocks


class MemoryTrace:
    """What is open around a capture of memory. It notes the optimizers that make a step, so that their
    tensors can be identified, and runs the profiler if that measures the memory. Without ``hooks`` it takes
    all of :class:`Optimizers`."""

    def __init__(self, watch: _lamina.Capture, *, hooks: bool = True) -> None:
        self._watch = watch
        self._hooks = hooks
        self._profiled = _waiting.pop(id(watch), None)
        self._seen: dict[int, Any] = {}
        self._handles: list[Any] = []

    def open(self) -> None:
        """Registers for torch's optimizer steps."""
        if self._profiled is not None:
            self._profiled.open()
        if not self._hooks:
            return
        module = sys.modules["torch.optim.optimizer"]
        self._handles.append(module.register_optimizer_step_pre_hook(self._before))
        self._handles.append(module.register_optimizer_step_post_hook(self._after))

    def close(self) -> None:
        """Removes the registration and stops the profiler; a second call does nothing."""
        while self._handles:
            self._handles.pop().remove()
        if self._profiled is not None:
            self._profiled.close()

    def _before(self, *_: object) -> None:
        self._watch.memory_gradients()  # a step comes after the gradients

    def _after(self, optimizer: Any, *_: object) -> None:
        self._seen[id(optimizer)] = optimizer

    def tell(self) -> None:
        """Passes to the stopped capture the data that is only known afterwards."""
        torch = sys.modules["torch"]
        if self._profiled is not None:
            self._watch.memory_events(self._profiled.events())
        for optimizer in [*self._seen.values()] if self._hooks else Optimizers.alive():
            for value, parameter in kept(optimizer, torch):
                self._watch.memory_state(value, parameter)
        self._seen.clear()


class Optimizers:
    """The optimizers of this process. Recorded steps use no hooks: torch's compiler would see them where it
    compiles the step of an optimizer. Instead the garbage collector lists the optimizers once, and the
    initializer of torch's class, which the compiler does not trace, reports new ones."""

    _users = 0
    _found: ClassVar[dict[int, weakref.ref[Any]]] = {}  # by identity: an optimizer may have no hash
    _code: tuple[FunctionType, CodeType, CodeType] | None = None  # a method, its code, ours

    @classmethod
    def begin(cls) -> None:
        """Begins to follow them, until as many calls of end()."""
        cls._users += 1
        if cls._users == 1:
            cls._report()
            cls._search()

    @classmethod
    def end(cls) -> None:
        """Restores torch's class after the last call."""
        cls._users -= 1
        if cls._users:
            return
        if cls._code is not None:
            method, own, ours = cls._code
            if method.__code__ is ours:  # no other code has replaced it
                method.__code__ = own
        cls._code = None
        cls._found.clear()

    @classmethod
    def alive(cls) -> list[Any]:
        """All optimizers."""
        if cls._code is None:
            cls._search()
        return [one for ref in [*cls._found.values()] if (one := ref()) is not None]

    @classmethod
    def _report(cls) -> None:
        method = getattr(sys.modules["torch"].optim.Optimizer, "_patch_step_function", None)
        if not isinstance(method, FunctionType):
            return
        twin: Any = twin_of(method)

        def reporting(optimizer: Any, /, *args: Any, **kwargs: Any) -> Any:
            cls._note(optimizer)
            return twin(optimizer, *args, **kwargs)

        own, ours = method.__code__, leading_to(reporting, method)
        method.__code__ = ours
        cls._code = (method, own, ours)

    @classmethod
    def _note(cls, optimizer: Any) -> None:
        key = id(optimizer)
        cls._found[key] = weakref.ref(optimizer, lambda _: cls._found.pop(key, None))

    @classmethod
    def _search(cls) -> None:
        kinds, todo = set(), [sys.modules["torch"].optim.Optimizer]
        while todo:
            kind = todo.pop()
            if kind not in kinds:
                kinds.add(kind)
                todo += kind.__subclasses__()
        for one in gc.get_referrers(*kinds):  # an object refers to its class
            if type(one) in kinds:
                cls._note(one)


def kept(optimizer: Any, torch: Any) -> Iterator[tuple[Any, Any]]:
    """The tensors that an optimizer keeps, each with its parameter; None: for all. Some optimizers keep lists
    of them. One that treats all parameters as a single vector (LBFGS) keeps the tensors for all of them with
    the first."""
    if not getattr(optimizer, "state", None):
        return
    sizes = [p.numel() for group in optimizer.param_groups for p in group["params"]]
    whole = sum(sizes) if len(sizes) > 1 else None  # not a count: the length of such a vector
    for parameter, state in dict(optimizer.state).items():
        todo, seen = [state], set()
        while todo:
            value = todo.pop()
            if isinstance(value, torch.Tensor):
                yield value, None if whole is not None and value.numel() == whole else parameter
            elif isinstance(value, (dict, list, tuple, deque)) and id(value) not in seen:
                seen.add(id(value))
                todo += value.values() if isinstance(value, dict) else value
