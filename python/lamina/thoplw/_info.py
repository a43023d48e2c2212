# SPDX-License-Identifier: Apache-2.0
"""The layers of a profile, and their table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._base.count import total
from .._old.thoplw import table_of_info

if TYPE_CHECKING:
    from .._base.count import Count
    from .._results.report import Report

KINDS = ("text", "csv", "md")
NUMBERS = ("raw", "clever", "ratio")
LOG = ("macs", "params", "shapes_in", "shape_out", "description")


class LayersInfo:
    """Layers in ``named_modules()`` order.

    Attributes:
        name: the root's class.
        shape: the shape of the input.
        info: ``(dotted name, log)`` for every layer that was called. A log is a dict: ``macs`` and ``params``
            (None for a layer that is not counted), ``shapes_in`` (a list of shapes, None if the inputs are
            no tensors), ``shape_out`` (None if it is no tensor) and ``description``.
        report: the full :class:`lamina.Report` of the capture; None for an info made by hand. Changes of
            ``info`` do not change it.
    """

    def __init__(self, model_name: str, shape_input: Any) -> None:
        self.name = model_name
        self.shape = shape_input
        self.info: list[tuple[str, dict[str, Any]]] = []
        self.report: Report | None = None

    def append(self, layer_name: str, layer_log: dict[str, Any]) -> None:
        """Adds your own layer to ``info``, and so to the total and the table.

        Args:
            layer_name: its dotted name.
            layer_log: a log with all its entries.
        """
        self.info.append((layer_name, layer_log))

    def total(self) -> tuple[Count, Count]:
        """Multiply-accumulates and parameters of all layers that are counted."""
        counted = [log for _, log in self.info if log["macs"] is not None and log["params"] is not None]
        return total(log["macs"] for log in counted), total(log["params"] for log in counted)

    def summary(self, kind: str = "text", fmt: str = "raw") -> str:
        """The table of ``info``, without layers that are not counted.

        Args:
            kind: "text", "csv" or "md".
            fmt: "raw" for whole numbers, "clever" for numbers with units, "ratio" for percents of the total.

        Raises:
            ValueError: there is no such kind, or a log lacks an entry or has values that are no numbers.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no table kind {kind!r}; it is one of {', '.join(KINDS)}")
        for name, log in self.info:
            _check(name, log)
        numbers = fmt if fmt in NUMBERS else "raw"
        return table_of_info(self.info, self.name, kind, numbers).removesuffix("\n")


def _check(name: str, log: dict[str, Any]) -> None:
    """Raises ValueError if a log, which may be the user's own, lacks entries for a line of the table."""
    lacking = [key for key in LOG if key not in log]
    if lacking:
        raise ValueError(f"the log of {name!r} lacks {', '.join(lacking)}; a log has {', '.join(LOG)}")
    for key in ("macs", "params"):
        if log[key] is not None and not isinstance(log[key], int):
            raise ValueError(f"{key} of {name!r} is {log[key]!r}; it is a whole number or None")
