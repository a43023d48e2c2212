# SPDX-License-Identifier: Apache-2.0
"""The memory of a run, by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from .._base.check import check_whole
from .._base.modules import core_path, no_layer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .. import _lamina

PHASES = ("forward", "backward", "recompute")


class MemoryUse(NamedTuple):
    """The memory use of a layer in one phase, in bytes.

    ``allocated`` is the memory that the layer allocated; ``freed`` the part that any code freed before the
    capture closed; ``retained`` the part that was live when its call returned (saved for the backward, or
    part of the result; for a backward: when the capture closed); ``peak`` the largest increase during the
    call.
    """

    allocated: int
    freed: int
    retained: int
    peak: int


class MemoryRow(NamedTuple):
    """The memory of a place in the model. The first three are the layer itself, the totals include the layers
    in it; ``held`` is the memory that it held at the model's peak, by use. ``None``: no backward ran, or it
    can't be split by layer here, and ``report.notes`` has the reason."""

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
    uses = [place[which][phase] for which in ("own", "total") for phase in PHASES]
    return [None if use is None else MemoryUse(*use) for use in uses]


def _row(place: Mapping[str, Any]) -> MemoryRow:
    return MemoryRow._make([place["path"], place["type"], *_uses(place), place["held"], place["held_below"]])


class DeviceMemoryRow(NamedTuple):
    """The GPU memory of a place in the model, from the allocator's statistics at the begin and end of its
    calls. The first three are the layer itself, the totals include the layers in it. ``freed`` counts all
    frees during the call, ``retained`` is the increase at its end; ``peak`` includes the layers in it.
    ``None``: no backward ran."""

    path: str
    type: str
    forward: MemoryUse
    backward: MemoryUse | None
    recompute: MemoryUse | None
    total_forward: MemoryUse
    total_backward: MemoryUse | None
    total_recompute: MemoryUse | None


R = TypeVar("R", "MemoryRow", "DeviceMemoryRow")


class _Used(Generic[R]):
    """The numbers and rows that all memory has."""

    def __init__(self, fields: Mapping[str, Any], rows: list[R]) -> None:
        self.peak: int = fields["peak"]
        self.peak_allocated: int = fields["peak_allocated"]
        self.peak_in: str | None = fields["peak_in"]
        self.peak_phase: str | None = fields["peak_phase"]
        self.allocated: int = fields["allocated"]
        self.freed: int = fields["freed"]
        self.before: int = fields["before"]
        self.rows: list[R] = rows
        self._by_path: dict[str, R] = {row.path: row for row in reversed(rows)}

    def __getitem__(self, path: str) -> R:
        """The row of the layer at a path; that of the whole model at ``""`` or ``"."``.

        Raises:
            KeyError: the model has no such place.
        """
        try:
            return self._by_path[core_path(path)]  # type: ignore[index]
        except (KeyError, TypeError):
            raise no_layer(path, self._by_path) from None


class DeviceMemory(_Used[DeviceMemoryRow]):
    """The GPU memory of a run, from the counters of torch's caching allocator: the bytes that it handed out
    to all threads.

    Attributes:
        peak: the most memory in use at one moment.
        peak_allocated: ``peak`` less ``before``.
        peak_in: the path of the layer that ran at the peak; None: no layer.
        peak_phase: its phase then, ``"forward"``, ``"backward"`` or ``"recompute"``; None: the peak was at
            the beginning.
        allocated: allocated during the capture.
        freed: freed during the capture.
        before: in use at the beginning.
        rows: one :class:`DeviceMemoryRow` for each place of the model.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        rows = [[place["path"], place["type"], *_uses(place)] for place in fields["places"]]
        super().__init__(fields, [DeviceMemoryRow._make(row) for row in rows])

    def __repr__(self) -> str:
        return f"DeviceMemory(peak={self.peak}, before={self.before})"


class Memory(_Used[MemoryRow]):
    """The memory of a run. Sizes are the requested bytes.

    Attributes:
        peak: the most memory in use at one moment: allocated since the capture opened, and known memory from
            before (parameters, buffers, gradients, inputs, an optimizer's state).
        peak_allocated: the same without memory from before the capture; equal to torch's own counters.
        peak_in: the path of the layer that ran at the peak; None: no layer.
        peak_phase: its phase then, ``"forward"``, ``"backward"`` or ``"recompute"``; None if the peak was at
            the beginning, or if no layer ran and backward passes can't be split by layer.
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
        fields = model.memory()
        super().__init__(fields, [_row(place) for place in fields["places"]])
        self._model = model
        self.elsewhere: int = fields["elsewhere"]
        self._old_gradients: int = fields["old_gradients"]  # in held["gradients"], from before the capture
        self.held: dict[str, int] = fields["held"]
        self.unplaced: dict[str, int] = fields["unplaced"]
        self.rss: dict[str, int | None] = fields["rss"]
        self.source: str = fields["source"]
        by_device = model.device_memory()
        self.device: DeviceMemory | None = None if by_device is None else DeviceMemory(by_device)

    def timeline(self, points: int = 1000) -> list[tuple[int, int]]:
        """Returns memory in use over time, as at most ``points`` pairs of a time and bytes.

        Each is the maximum of its part of the run. Times are nanoseconds of the clock of
        ``time.monotonic_ns()``; the first, before anything was allocated, is 0.
        """
        check_whole("points", points, least=1)
        return self._model.memory_course(points)

    def __repr__(self) -> str:
        return f"Memory(peak={self.peak}, held={self.held!r})"
