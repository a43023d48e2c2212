# SPDX-License-Identifier: Apache-2.0
"""The cost of one call of one layer, from the layer, its inputs and its outputs. Nothing runs."""

from __future__ import annotations

import warnings
from typing import Any

from .. import _lamina
from .._base.check import check_module
from .._base.count import Count, from_core

__all__ = ["module_dmas", "module_flops", "module_macs", "module_rf"]

CONVENTION = "torchscan"
NAMES = {"flops": "FLOPs", "macs": "MACs", "dmas": "DMAs"}


def _one_call(module: Any, inputs: Any, out: Any) -> _lamina.Model:
    """A model with only this layer and this call."""
    layer = check_module(module)
    return _lamina.one_call(layer, inputs if isinstance(inputs, tuple) else (inputs,), out)


def _metric(module: Any, inputs: Any, out: Any, metric: str) -> Count:
    costs = _one_call(module, inputs, out).costs(CONVENTION, released=True)
    row = costs.rows()[0]
    # Of the modules with children, torchscan has a formula for nn.Transformer only, and this leaves parts
    # out: the released tool returned its number with a warning.
    known = row["leaf"] or row["rule_kind"] is not None
    count = from_core(row[metric]) if known else Count(0, "unknown")
    if not row["leaf"] and count.state == "exact":
        count = Count(count, "at least")
    if count.state != "exact":
        warn_unsupported(type(module).__name__, NAMES[metric])
    return count


def warn_unsupported(name: str, what: str, stacklevel: int = 4) -> None:
    """The warning for a layer that torchscan has no formula for."""
    warnings.warn(
        f"Module type not supported: {name}; its {what} are unknown and are not counted",
        stacklevel=stacklevel,
    )


def module_flops(module: Any, inputs: tuple[Any, ...], out: Any) -> Count:
    """Floating point operations of the call ``out = module(*inputs)``. Without a formula the state is
    unknown, with a UserWarning.

    Raises:
        TypeError: ``module`` is no ``torch.nn.Module``.
    """
    return _metric(module, inputs, out, "flops")


def module_macs(module: Any, inp: Any, out: Any) -> Count:
    """Multiply-accumulates of the call ``out = module(inp)``; see :func:`module_flops`."""
    return _metric(module, inp, out, "macs")


def module_dmas(module: Any, inp: Any, out: Any) -> Count:
    """Elements that the call ``out = module(inp)`` reads and writes; see :func:`module_flops`."""
    return _metric(module, inp, out, "dmas")


def module_rf(module: Any, inp: Any, out: Any) -> tuple[float, float, float]:
    """Receptive field, stride and padding of this layer alone. Without a formula they are (1, 1, 0), with a
    UserWarning."""
    model = _one_call(module, inp, out)
    size, stride, padding, state = model.rf(0, CONVENTION)
    if state == "unknown" or not model.modules()[0]["leaf"]:
        warn_unsupported(type(module).__name__, "receptive field", 3)
    return size, stride, padding
