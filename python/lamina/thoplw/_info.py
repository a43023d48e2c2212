# SPDX-License-Identifier: Apache-2.0
"""The layers that a profile saw, and their table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._count import total

if TYPE_CHECKING:
    from .._count import Count
    from .._report import Report

KINDS = {"text": "text", "csv": "csv", "md": "md"}
NUMBERS = ("raw", "clever", "ratio")


class LayersInfo:
    """Layers in ``named_modules()`` order.

    Attributes:
        name: the root's class.
        shape: the shape of the input.
        info: ``(dotted name, log)`` for every layer that was called. A log is a dict: ``macs`` and ``params``
            (None for a layer that is not counted), ``shapes_in`` (a list of shapes, None where the inputs
            are no tensors), ``shape_out`` (None where it is no tensor) and ``description``.
        report: everything else that the capture knows, as a :class:`lamina.Report`; None for an info made by
            hand.
    """

    def __init__(self, model_name: str, shape_input: Any) -> None:
        self.name = model_name
        self.shape = shape_input
        self.info: list[tuple[str, dict[str, Any]]] = []
        self.report: Report | None = None

    def append(self, layer_name: str, layer_log: dict[str, Any]) -> None:
        """Adds a layer of your own to ``info`` and to the total. The table shows what the profile saw."""
        self.info.append((layer_name, layer_log))

    def total(self) -> tuple[Count, Count]:
        """Multiply-accumulates and parameters of all layers that are counted."""
        counted = [log for _, log in self.info if log["macs"] is not None]
        return total(log["macs"] for log in counted), total(log["params"] for log in counted)

    def summary(self, kind: str = "text", fmt: str = "raw") -> str:
        """The table.

        Args:
            kind: "text", "csv" or "md".
            fmt: "raw" for whole numbers, "clever" for numbers with units, "ratio" for percents of the total.

        Raises:
            ValueError: there is no such kind, or no profile made this info.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no table kind {kind!r}; it is one of {', '.join(KINDS)}")
        if self.report is None:
            raise ValueError("this LayersInfo was made by hand; lamina.profile makes one that has a table")
        numbers = fmt if fmt in NUMBERS else "raw"
        return self.report._write(layout="thoplw", format=KINDS[kind], numbers=numbers).removesuffix("\n")
