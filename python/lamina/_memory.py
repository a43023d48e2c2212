# SPDX-License-Identifier: Apache-2.0
"""Memory: how it is measured, and what a report says of it."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _lamina
from ._errors import UnsupportedError
from ._observe import in_a_thread
from ._tree import no_layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SOURCE = "every block that torch's allocator for the CPU handed out and took back"
ANCHOR, ANCHORS = 4093, 16  # bytes that nobody else asks for; tries
PHASES = ("forward", "backward", "recompute")

_proved: list[bool] = []


def refused() -> str | None:
    """Why memory can't be measured here; None where it can. It was tried with a tensor of known size."""
    if not _proved:
        wrong = in_a_thread(_lamina.probe_memory)
        if wrong is not None:
            return wrong
        _proved.append(True)
    return None


# The profilers of captures that were not opened yet, by the capture's identity.
_waiting: dict[int, Profiled] = {}


def measure(watch: _lamina.Capture) -> None:
    """Has a capture that was not started measure memory too; a :class:`Following` is to be open around it.

    Raises:
        UnsupportedError: it can't be, and the sentence says why.
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
    """What came and went by torch's profiler, where the allocator can't be watched.

    Its clock is another than ours. Tensors that are made while we look at ours, one before and one after,
    tell how the two go together.
    """

    def __init__(self) -> None:
        self._profile: Any = None
        self._anchors: list[tuple[int, int]] = []  # our time, and the address of what was made then

    @staticmethod
    def refused() -> str | None:
        """Why the profiler does not serve; None where it does, which was tried."""
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
        """Starts it."""
        profiler = sys.modules["torch"].profiler
        self._profile = profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True)
        self._profile.__enter__()
        self._anchor()

    def close(self) -> None:
        """Stops it; does nothing twice."""
        if len(self._anchors) == 1:
            self._anchor()
            self._profile.__exit__(None, None, None)

    def _anchor(self) -> None:
        """Of several tensors the one that was made fastest: its moment is known best."""
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
        """Address, bytes and our time of what came and (negative) went."""
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
        told = []
        for at, address, size in found:
            gone = (at - theirs[0]) / max(theirs[1] - theirs[0], 1)  # not a count: a share of the time
            ours = at - late[0] - int((late[1] - late[0]) * gone)  # not a count: a time
            told.append((address, size, ours))
        return told


class Following:
    """To be open around a capture of memory: it notes which optimizers make a step meanwhile, for what they
    keep is told apart by that, and runs the profiler where that measures."""

    def __init__(self, watch: _lamina.Capture) -> None:
        self._watch = watch
        self._profiled = _waiting.pop(id(watch), None)
        self._seen: dict[int, Any] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Following:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.tell()

    def open(self) -> None:
        """Asks torch to be told of steps."""
        if self._profiled is not None:
            self._profiled.open()
        module = sys.modules["torch.optim.optimizer"]
        self._handles.append(module.register_optimizer_step_pre_hook(self._before))
        self._handles.append(module.register_optimizer_step_post_hook(self._after))

    def close(self) -> None:
        """The reverse; does nothing twice."""
        while self._handles:
            self._handles.pop().remove()
        if self._profiled is not None:
            self._profiled.close()

    def _before(self, *_: object) -> None:
        self._watch.memory_gradients()  # an optimizer steps when they are there

    def _after(self, optimizer: Any, *_: object) -> None:
        self._seen[id(optimizer)] = optimizer

    def tell(self) -> None:
        """Tells the capture, which was stopped, what there is to be told afterwards."""
        torch = sys.modules["torch"]
        if self._profiled is not None:
            self._watch.memory_events(self._profiled.events())
        for optimizer in self._seen.values():
            for value, parameter in _kept(optimizer, torch):
                self._watch.memory_state(value, parameter)
        self._seen.clear()


def _kept(optimizer: Any, torch: Any) -> Iterator[tuple[Any, Any]]:
    """The tensors that an optimizer keeps, each with the parameter that it is kept for; None: for all. Some
    keep lists of them. One that sees all parameters as a single vector (LBFGS) keeps what belongs to all of
    them with the first."""
    if not optimizer.state:
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


class MemoryUse(NamedTuple):
    """The memory use of a layer in one phase, in bytes.

    ``allocated`` is what the layer allocated; ``freed`` the part that any code freed before the capture
    closed; ``retained`` the part that was live when its call returned (saved for the backward, or part of
    the result; of a backward: when the capture closed); ``peak`` the largest increase during the call.
    """

    allocated: int
    freed: int
    retained: int
    peak: int


class MemoryRow(NamedTuple):
    """The memory of a place in the model. The first three are the layer itself, the totals include the layers
    in it; ``held`` is what it held at the model's peak, by use. ``None``: the backward can't be split by
    layer here; ``report.notes`` say so."""

    path: str
    type: str
    forward: MemoryUse
    backward: MemoryUse | None
    recompute: MemoryUse | None
    total_forward: MemoryUse
    total_backward: MemoryUse | None
    total_recompute: MemoryUse | None
    held: dict[str, int]
    total_held: dict[str, int]


def _uses(place: Mapping[str, Any]) -> list[Any]:
    told = [place[which][phase] for which in ("own", "total") for phase in PHASES]
    return [None if use is None else MemoryUse(*use) for use in told]


def _row(place: Mapping[str, Any]) -> MemoryRow:
    return MemoryRow._make([place["path"], place["type"], *_uses(place), place["held"], place["held_below"]])


class DeviceMemoryRow(NamedTuple):
    """The GPU memory of a place in the model, from the allocator's statistics at the begin and end of its
    calls. The first three are the layer itself, the totals include the layers in it. ``freed`` counts all
    frees during the call, ``retained`` is the increase at its end; ``peak`` includes the layers in it."""

    path: str
    type: str
    forward: MemoryUse
    backward: MemoryUse
    recompute: MemoryUse
    total_forward: MemoryUse
    total_backward: MemoryUse
    total_recompute: MemoryUse


class DeviceMemory:
    """The GPU memory of a run, from the counters of torch's caching allocator: bytes as it hands them out, of
    all threads.

    Attributes:
        peak: the most memory in use at one moment.
        peak_allocated: ``peak`` less ``before``.
        peak_in: the path of the layer that ran at the peak; None: no layer.
        peak_phase: its phase then, ``"forward"``, ``"backward"`` or ``"recompute"``.
        allocated: allocated during the capture.
        freed: freed during the capture.
        before: in use at the beginning.
        rows: one :class:`DeviceMemoryRow` for each place of the model.
    """

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.peak: int = told["peak"]
        self.peak_allocated: int = told["peak_allocated"]
        self.peak_in: str | None = told["peak_in"]
        self.peak_phase: str = told["peak_phase"]
        self.allocated: int = told["allocated"]
        self.freed: int = told["freed"]
        self.before: int = told["before"]
        self.rows = [
            DeviceMemoryRow._make([place["path"], place["type"], *_uses(place)]) for place in told["places"]
        ]
        self._by_path = {row.path: row for row in reversed(self.rows)}

    def __getitem__(self, path: str) -> DeviceMemoryRow:
        """The row of the layer at a path; that of the whole model at ``""``.

        Raises:
            KeyError: the model has no such place.
        """
        try:
            return self._by_path[path]
        except (KeyError, TypeError):
            raise no_layer(path, self._by_path) from None

    def __repr__(self) -> str:
        return f"DeviceMemory(peak={self.peak}, before={self.before})"


class Memory:
    """The memory of a run. Sizes are the requested bytes.

    Attributes:
        peak: the most memory in use at one moment: allocated since the capture opened, and known memory from
            before (parameters, buffers, gradients, inputs, an optimizer's state).
        peak_allocated: the same without memory from before the capture; equal to torch's own counters.
        peak_in: the path of the layer that ran at the peak; None: no layer.
        peak_phase: its phase then, ``"forward"``, ``"backward"`` or ``"recompute"``; None if no layer ran and
            backward passes can't be split by layer.
        allocated: allocated during the capture.
        freed: the part of it that was freed before the capture closed.
        before: known memory from before the capture.
        elsewhere: allocated by threads that the capture does not watch; in no other number.
        held: the parts of ``peak``: ``parameters``, ``buffers``, ``gradients`` (of parameters),
            ``optimizer`` (its state), ``input``, ``activations`` (allocated in a forward, live when the layer
            returned), ``backward`` (allocated in a backward, other than gradients of parameters),
            ``workspace`` (freed before the layer returned), ``other`` (outside the model). If backward passes
            can't be split by layer, there is no ``backward``: it is in ``other``.
        unplaced: the part of ``held`` that no layer holds.
        rss: resident memory of the process when the capture ``"open"``ed, at its ``"peak"`` and at its
            ``"close"``; None if unknown.
        source: how it was measured.
        rows: one :class:`MemoryRow` for each place of the model.
        device: the memory of the GPU that the model is on, a :class:`DeviceMemory`; None if there is no GPU
            or it is unknown, with the reason in ``report.notes``.
    """

    def __init__(self, model: _lamina.Model) -> None:
        told = model.memory()
        self._model = model
        self.peak: int = told["peak"]
        self.peak_allocated: int = told["peak_allocated"]
        self.peak_in: str | None = told["peak_in"]
        self.peak_phase: str | None = told["peak_phase"]
        self.allocated: int = told["allocated"]
        self.freed: int = told["freed"]
        self.before: int = told["before"]
        self.elsewhere: int = told["elsewhere"]
        self._old_gradients: int = told["old_gradients"]  # of held["gradients"], what was there before
        self.held: dict[str, int] = told["held"]
        self.unplaced: dict[str, int] = told["unplaced"]
        self.rss: dict[str, int | None] = told["rss"]
        self.source: str = told["source"]
        self.rows: list[MemoryRow] = [_row(place) for place in told["places"]]
        self._by_path = {row.path: row for row in reversed(self.rows)}
        by_device = model.device_memory()
        self.device: DeviceMemory | None = None if by_device is None else DeviceMemory(by_device)

    def __getitem__(self, path: str) -> MemoryRow:
        """The row of the layer at a path; that of the whole model at ``""``.

        Raises:
            KeyError: the model has no such place.
        """
        try:
            return self._by_path[path]
        except (KeyError, TypeError):
            raise no_layer(path, self._by_path) from None

    def timeline(self, points: int = 1000) -> list[tuple[int, int]]:
        """Returns memory in use over time, as at most ``points`` pairs of a time and bytes.

        Each is the maximum of its part of the run. Times are nanoseconds of the clock of
        ``time.monotonic_ns()``; the first, before anything was allocated, is 0.
        """
        return self._model.memory_course(points)

    def __repr__(self) -> str:
        return f"Memory(peak={self.peak}, held={self.held!r})"
