# SPDX-License-Identifier: Apache-2.0
"""torchscan's text helpers. They take the dicts that ``crawl_module`` returns, also changed ones; the core
writes the text."""

from __future__ import annotations

from typing import Any

from .. import _lamina
from .._base.count import total

__all__ = [
    "aggregate_info",
    "format_info",
    "format_line_str",
    "format_name",
    "format_s",
    "unit_scale",
    "wrap_string",
]

# What aggregate_info sums up over the layers that it folds.
SUMMED = ("flops", "macs", "dmas", "grad_params", "nograd_params", "param_size", "num_buffers", "buffer_size")
# The columns: the layer's four, then the receptive field, then its stride and padding.
PLAIN, WITH_RF, ALL = 4, 5, 7


def format_name(name: str, depth: int = 0) -> str:
    """Returns the name with the tree's lines before it: ``"|    └─conv1"`` at depth 2."""
    return _lamina.format_name(name, depth)


def wrap_string(s: str, max_len: int, delimiter: str = ".", wrap: str = "[...]", mode: str = "end") -> str:
    """Cuts ``s`` to ``max_len`` characters, with the marker ``wrap`` at its end or before its last component.

    Raises:
        ValueError: the mode is neither "end" nor "mid".
    """
    return _lamina.wrap_string(s, max_len, delimiter, wrap, mode)


def unit_scale(val: float) -> tuple[float, str]:
    """Divides the number by the largest of 1e12, 1e9, 1e6 and 1e3 that it reaches, and returns it with T, G,
    M or k; smaller numbers are returned unchanged, with ""."""
    scaled, prefix = _lamina.unit_scale(val)
    return (scaled, prefix) if prefix else (val, prefix)


def format_s(f_string: str, min_w: int | None = None, max_w: int | None = None) -> str:
    """Pads the string to ``min_w`` and cuts it to ``max_w`` characters."""
    return _lamina.format_s(f_string, min_w, max_w)


def format_line_str(
    layer: dict[str, Any],
    col_w: list[int] | None = None,
    wrap_mode: str | None = "mid",
    receptive_field: bool = False,
    effective_rf_stats: bool = False,
) -> list[str]:
    """Returns the cells of one layer's line, padded and cut to ``col_w``; without ``col_w`` unchanged.

    Raises:
        ValueError: the name is too long and there is no such wrap mode.
    """
    columns = PLAIN if not receptive_field else ALL if effective_rf_stats else WITH_RF
    return [
        _lamina.scan_cell(layer, i, None if col_w is None else col_w[i], wrap_mode) for i in range(columns)
    ]


def format_info(
    module_info: dict[str, Any],
    wrap_mode: str | None = "mid",
    receptive_field: bool = False,
    effective_rf_stats: bool = False,
) -> str:
    """Returns the table of a dict from ``crawl_module``, in the layout of torchscan 0.1.2.

    Raises:
        KeyError: the dict lacks something that the table shows.
        ValueError: there is no such wrap mode.
    """
    return _lamina.scan_write(module_info, wrap_mode, receptive_field, effective_rf_stats).removesuffix("\n")


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
