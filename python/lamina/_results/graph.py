# SPDX-License-Identifier: Apache-2.0
"""The data-flow graph: operators and the tensors between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .._base.files import save_text

if TYPE_CHECKING:
    import os

    from .. import _lamina

LEVELS = ("module", "op")


class Graph:
    """The data-flow graph of a run: inputs, operators and outputs, and the tensors between them.

    Attributes:
        nodes: one dict a node: ``id``; ``type``, one of ``"input"``, ``"parameter"``, ``"buffer"``,
            ``"operator"`` and ``"output"``; ``name``; ``path`` of the module in whose call it ran, None
            outside every call; ``phase``; ``shape``; for operators ``kind``, ``in_shapes`` and
            ``out_shapes`` too. Views and operators that only call others are left out.
        edges: one dict an edge: ``from`` and ``to``, both ids of nodes; ``arg``, the index of the argument;
            ``shape`` of the tensor that is read.
    """

    def __init__(self, model: _lamina.Model) -> None:
        parts = model.graph()
        self._model = model
        self.nodes: list[dict[str, Any]] = parts["nodes"]
        self.edges: list[dict[str, Any]] = parts["edges"]

    def dot(self, level: Literal["module", "op"] = "module") -> str:
        """Returns the graph as Graphviz' DOT.

        ``"module"``: a node for a call's work between two of its inner calls, of the forward only. ``"op"``:
        a node for each operator, parameter and input.

        Raises:
            ValueError: there is no such level.
        """
        if level not in LEVELS:
            raise ValueError(f"there is no level {level!r}; it is 'module' or 'op'")
        return self._model.graph_dot(level == "op")

    def to_dot(
        self,
        path: str | os.PathLike[str],
        level: Literal["module", "op"] = "module",
        *,
        overwrite: bool = False,
    ) -> str:
        """Writes :meth:`dot` to ``path`` and returns it.

        Raises:
            FileExistsError: the file exists and ``overwrite`` is not True.
        """
        return save_text(path, self.dot(level), overwrite=overwrite)

    def __repr__(self) -> str:
        return f"<lamina graph: {len(self.nodes)} nodes, {len(self.edges)} edges>"
