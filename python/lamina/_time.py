# SPDX-License-Identifier: Apache-2.0
"""How long it took. All times are nanoseconds; None is what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Spent(NamedTuple):
    """Time of one phase: with every call made inside, and without them."""

    total: int | None
    self: int | None


class DeviceTime(NamedTuple):
    """How long one row took by the clock of the GPU that did the work."""

    forward: Spent
    backward: Spent
    recompute: Spent


class Time(NamedTuple):
    """How long one row took: ``row.time.forward.total``. The recomputation is forward work that was done
    again in a backward pass. ``device`` is the same by a GPU's clock, None where none was read."""

    forward: Spent
    backward: Spent
    recompute: Spent
    device: DeviceTime | None = None


class Spread(NamedTuple):
    """One time over ``n`` runs. ``deviation`` is the median of the absolute differences from the median;
    ``most_run`` the run, from 0, of the largest."""

    n: int
    median: int
    deviation: int
    least: int
    most: int
    most_run: int


class LayerTime(NamedTuple):
    """The ``call``-th call, from 0, that a run makes at ``path``, over the runs: with everything inside, and
    (``_self``) without. None where it is not known."""

    path: str
    call: int
    forward: Spread | None
    forward_self: Spread | None
    backward: Spread | None
    backward_self: Spread | None
    recompute: Spread | None
    recompute_self: Spread | None


class Late(NamedTuple):
    """A run that took much longer than others: more than 5 standard deviations and 5 % above the median. What
    was late most, by ``late``, is the layer at ``path``; None: autograd's engine or nodes of no layer."""

    run: int
    whole: int
    median: int
    path: str | None
    late: int


class OperatorTime(NamedTuple):
    """Operators of one name and phase in all runs together, where operators were watched; nodes of the
    backward in any case. ``total`` is with the operators inside."""

    name: str
    phase: str
    node: bool
    n: int
    total: int
    self: int


class Speed(NamedTuple):
    """How fast the row at ``path`` did its own work in one phase: floating point operations and bytes a
    second, None where the work is not exactly known.

    ``bound`` is what limits it, ``"compute"`` or ``"memory"``, whichever is nearer to its peak, and ``share``
    how much of that peak is reached; ``"neither"`` where neither reaches a tenth; ``"unknown"``.
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
    """How long a capture took, part by part. Every outermost call of the model begins a run.

    Attributes:
        runs: how many there are.
        forward: what the calls of a run took.
        backward: the nodes that they made.
        recompute: what was done again.
        engine: autograd between its nodes.
        outside: nodes that no call made, as the loss's.
        whole: all of these.
        layers: each call by place, in the order of the model's tree.
        outliers: runs that took much longer.
        operators: most time of their own first.
        device: the same by the clock of the GPU that did the work, without operators; ``engine`` is what lies
            between the nodes. None where none was read, and ``report.notes`` say why if there is a GPU.
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
        told = {part: getattr(self, part) for part in PARTS}
        medians = [f"{part}={spread.median}" for part, spread in told.items() if spread is not None]
        lists = [f"{len(getattr(self, name))} {name}" for name in ("layers", "outliers", "operators")]
        return f"Times(runs={self.runs}, medians in ns: {', '.join(medians)}; {', '.join(lists)})"


PARTS = ("forward", "backward", "recompute", "engine", "outside", "whole")


def spread(told: Any) -> Spread | None:
    """A spread as the core tells it."""
    return None if told is None else Spread(*told)


def row_time(told: Any) -> Time | None:
    """A row's time as the core tells it."""
    if told is None:
        return None
    forward, backward, recompute, device = told
    by_device = None if device is None else DeviceTime(*(Spent(*pair) for pair in device))
    return Time(Spent(*forward), Spent(*backward), Spent(*recompute), by_device)


def times(told: Mapping[str, Any]) -> Times:
    """All times as the core tells them."""
    layers = [
        LayerTime(
            layer["path"],
            layer["call"],
            spread(layer["forward"]),
            spread(layer["forward_self"]),
            spread(layer["backward"]),
            spread(layer["backward_self"]),
            spread(layer["recompute"]),
            spread(layer["recompute_self"]),
        )
        for layer in told["layers"]
    ]
    return Times(
        runs=told["runs"],
        **{part: spread(told[part]) for part in PARTS},
        layers=layers,
        outliers=[Late(*late) for late in told["outliers"]],
        operators=[OperatorTime(*op) for op in told["operators"]],
        device=times(told["device"]) if told.get("device") else None,
    )
