# SPDX-License-Identifier: Apache-2.0
"""Times. All are nanoseconds; None is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Spent(NamedTuple):
    """The time of one phase, with the calls inside (``total``) and without them (``self``); None if unknown,
    as of a backward pass if none ran."""

    total: int | None
    self: int | None


class DeviceTime(NamedTuple):
    """The time of one row by the GPU's clock."""

    forward: Spent
    backward: Spent
    recompute: Spent


class Time(NamedTuple):
    """The time of one row: ``row.time.forward.total``. ``recompute`` is forward work that a backward pass
    repeats. ``device`` is the same by a GPU's clock, None if none was read."""

    forward: Spent
    backward: Spent
    recompute: Spent
    device: DeviceTime | None = None


class Spread(NamedTuple):
    """One time over ``n`` runs. ``deviation`` is the median of the absolute differences from the median;
    ``most_run`` is the run, from 0, of the largest time."""

    n: int
    median: int
    deviation: int
    least: int
    most: int
    most_run: int


class LayerTime(NamedTuple):
    """The time of the ``call``-th call, from 0, at ``path`` in a run, over the runs: with everything inside,
    and (``_self``) without. None if unknown."""

    path: str
    call: int
    forward: Spread | None
    forward_self: Spread | None
    backward: Spread | None
    backward_self: Spread | None
    recompute: Spread | None
    recompute_self: Spread | None


class Late(NamedTuple):
    """A run that took much longer than others: more than 5 standard deviations and 5 % above the median.
    ``path`` is the layer with the largest delay, ``late``; None: autograd's engine or nodes of no layer."""

    run: int
    whole: int
    median: int
    path: str | None
    late: int


class OperatorTime(NamedTuple):
    """All operators of one name and phase, in all runs together, if operators were watched; nodes of the
    backward in any case. ``total`` includes the operators inside."""

    name: str
    phase: str
    node: bool
    n: int
    total: int
    self: int


class Speed(NamedTuple):
    """The speed of the own work of the row at ``path`` in one phase: FLOPs and bytes a second, None if the
    work is not exact.

    ``bound`` is its limit, ``"compute"`` or ``"memory"``, the one that is nearer to its peak, and ``share``
    the share of that peak; ``"neither"`` if neither reaches a tenth; or ``"unknown"``.
    """

    path: str
    phase: str
    ns: int
    flops: float | None
    bytes: float | None
    intensity: float | None
    bound: str
    share: float | None


class Times(NamedTuple):
    """The times of a capture, part by part. Every outermost call of the model begins a run.

    Attributes:
        runs: the number of runs.
        forward: the calls of a run. This and the next five are None if unknown, all but ``forward`` and
            ``whole`` also if no backward pass ran.
        backward: the nodes that these calls made.
        recompute: forward work that a backward pass repeats.
        engine: autograd between its nodes.
        outside: nodes that no call made, such as those of a loss.
        whole: the sum of these.
        layers: each call by place, in the order of the model's tree.
        outliers: runs that took much longer.
        operators: the largest own time first.
        device: the same by the GPU's clock, without operators; ``engine`` is the time between the nodes. None
            if no GPU's clock was read; if there is a GPU, ``report.notes`` has the reason.
    """

    runs: int
    forward: Spread | None
    backward: Spread | None
    recompute: Spread | None
    engine: Spread | None
    outside: Spread | None
    whole: Spread | None
    layers: list[LayerTime]
    outliers: list[Late]
    operators: list[OperatorTime]
    device: Times | None = None

    def __repr__(self) -> str:
        parts = {part: getattr(self, part) for part in PARTS}
        medians = [f"{part}={spread.median}" for part, spread in parts.items() if spread is not None]
        lists = [f"{len(getattr(self, name))} {name}" for name in ("layers", "outliers", "operators")]
        return f"Times(runs={self.runs}, medians in ns: {', '.join(medians)}; {', '.join(lists)})"


PARTS = ("forward", "backward", "recompute", "engine", "outside", "whole")


def spread(values: Any) -> Spread | None:
    """A spread from the core's form."""
    return None if values is None else Spread(*values)


def row_time(values: Any) -> Time | None:
    """A row's time from the core's form."""
    if values is None:
        return None
    forward, backward, recompute, device = values
    by_device = None if device is None else DeviceTime(*(Spent(*pair) for pair in device))
    return Time(Spent(*forward), Spent(*backward), Spent(*recompute), by_device)


def times(data: Mapping[str, Any]) -> Times:
    """All times from the core's form."""
    layers = []
    for layer in data["layers"]:
        path, call, *spreads = layer.values()
        layers.append(LayerTime(path, call, *map(spread, spreads)))
    return Times(
        runs=data["runs"],
        **{part: spread(data[part]) for part in PARTS},
        layers=layers,
        outliers=[Late(**late) for late in data["outliers"]],
        operators=[OperatorTime(*op) for op in data["operators"]],
        device=times(data["device"]) if data.get("device") else None,
    )
