# SPDX-License-Identifier: Apache-2.0
"""Kernels that scripted code runs without an operator: torch's compilers of scripts insert them."""

from __future__ import annotations

import sys
from typing import Any

# Nodes of a graph: replacements of convolutions and the like by torch.jit.optimize_for_inference, and groups
# that fusers make when a script is run.
KERNELS = (
    "prim::mkldnn_convolution",
    *(f"prim::MKLDNN{name}" for name in ("Group", "LayerNorm", "LayerNorm_", "ScalarMul", "ScalarMul_")),
    *(f"prim::MKLDNN{name}" for name in ("Clamp", "Clamp_", "HardSigmoid", "HardSigmoid_", "HardSwish")),
    *(f"prim::MKLDNN{name}" for name in ("HardSwish_", "HardTanh", "HardTanh_")),
    *(f"prim::{name}" for name in ("oneDNNFusionGroup", "TensorExprGroup", "TensorExprDynamicGroup")),
    *(f"prim::{name}" for name in ("FusionGroup", "CudaFusionGroup")),
)


def hides(module: Any) -> bool:
    """True if a scripted module's code, or the script that this thread ran last, contains such kernels."""
    last = getattr(sys.modules["torch"]._C, "_last_executed_optimized_graph", None)
    graphs = (getattr(module, "inlined_graph", None), last and last())
    there = [graph for graph in graphs if graph is not None]
    return any(graph.findNode(kind, recurse=True) is not None for graph in there for kind in KERNELS)
