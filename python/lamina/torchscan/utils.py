# SPDX-License-Identifier: Apache-2.0
"""torchscan's text helpers. They take the dicts that ``crawl_module`` returns, also changed ones."""

from __future__ import annotations

from typing import Any

from .._base.count import total
from .._old.scan import format_info, format_line_str, format_name, format_s, unit_scale, wrap_string

__all__ = [
    "aggregate_info",
    "format_info",
    "format_line_str",
    "format_name",
    "format_s",
    "unit_scale",
    "wrap_string",
]

# The fields that aggregate_info sums over the layers that it folds.
SUMMED = ("flops", "macs", "dmas", "grad_params", "nograd_params", "param_size", "num_buffers", "buffer_size")


def aggregate_info(info: dict[str, Any], max_depth: int) -> dict[str, Any]:
    """Sums up every container at ``max_depth`` over the layers under it and drops those; changes and returns
    ``info``.

    Raises:
        ValueError: no layer has exactly that depth; the sentence names the deepest.
    """
    layers = info["layers"]
    if not any(layer["depth"] == max_depth for layer in layers):
        deepest = max((layer["depth"] for layer in layers), default=0)
        raise ValueError(f"no layer is at max_depth {max_depth}; the deepest is at {deepest}")
    for at, layer in enumerate(layers):
        if layer["depth"] == max_depth and not layer["is_leaf"]:
            _absorb(layer, _below(layers, at, max_depth))
    info["layers"] = [layer for layer in layers if layer["depth"] <= max_depth]
    return info


def _below(layers: list[dict[str, Any]], at: int, depth: int) -> list[dict[str, Any]]:
    end = next((i for i in range(at + 1, len(layers)) if layers[i]["depth"] <= depth), len(layers))
    return layers[at + 1 : end]


def _absorb(layer: dict[str, Any], below: list[dict[str, Any]]) -> None:
    for key in SUMMED:
        layer[key] = total([layer[key], *(child[key] for child in below)])
    if below:
        layer.update({key: below[-1][key] for key in ("rf", "s", "p")})
