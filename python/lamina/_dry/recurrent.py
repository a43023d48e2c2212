# SPDX-License-Identifier: Apache-2.0
"""Layers of oneDNN's LSTM in a dry run, with the memory that it keeps for the backward."""

from __future__ import annotations

import sys
from typing import Any

from .. import _lamina
from .layouts import new

MOST_ASKED = 268435456  # products of a recurrence that is run to measure its memory for the backward
RECURRENT = ("aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward")
_workspaces: dict[Any, Any] = {}  # bytes that oneDNN keeps of a forward, by type and shapes; "rule": it fits


def recurrent(run: Any, function: Any, args: Any) -> Any:
    """A layer of oneDNN's LSTM. It keeps memory for its backward, whose size only oneDNN determines."""
    if function._schema.name == RECURRENT[1]:
        x, w1, w2, _, _, hx, cx = args[:7]
        bias = run.torch.empty(w1.shape[:1], dtype=w1.dtype, device="meta")
        whole = run.torch.float32  # in which oneDNN gives the gradients, also of a narrower layer
        return tuple(
            run.core.like(tensor) if tensor.dtype == whole else new(run, tuple(tensor.shape), whole)
            for tensor in (x, w1, w2, bias, bias, hx, cx)
        )
    out = run.by_meta(function, args, {})
    if not run.torch.is_grad_enabled():
        return out
    kept = _kept(run, function, args)
    return (*out[:3], new(run, (kept,), run.torch.uint8))


def _kept(run: Any, function: Any, args: Any) -> int:
    """The bytes of that memory, by the core's rule if it agrees with this oneDNN; otherwise oneDNN runs
    once, on zeros, if that is not much work."""
    x, w1, w2 = args[:3]
    if x.dtype == run.torch.float32 and _kept_is_known(function, args):
        steps, examples, wide = x.shape
        return _lamina.recurrent_kept(steps, examples, wide, w2.shape[1])
    work = x.shape[0] * x.shape[1] * (w1.numel() + w2.numel())  # not a count: how much would be computed
    if work > MOST_ASKED:
        run.block(f"runs {RECURRENT[0]} for a backward pass, with memory that only oneDNN can size")
    return _kept_really(function, args, [tuple(t.shape) for t in args[:7]])


def _kept_is_known(function: Any, args: Any) -> bool:
    """True if the core's rule agrees with oneDNN for two small layers."""
    if "rule" not in _workspaces:
        small = ((3, 2, 5, 64), (9, 5, 40, 100))
        _workspaces["rule"] = all(
            _lamina.recurrent_kept(steps, examples, wide, hidden)
            == _kept_really(function, args, _of_layer(steps, examples, wide, hidden))
            for steps, examples, wide, hidden in small
        )
    return bool(_workspaces["rule"])


def _kept_really(function: Any, args: Any, shapes: list[tuple[int, ...]]) -> int:
    key, torch = (args[0].dtype, *shapes), sys.modules["torch"]
    if key not in _workspaces:
        given = [torch.zeros(shape, dtype=args[0].dtype) for shape in shapes]
        with torch._C._DisableTorchDispatch():
            biased = len(shapes[3]) == 1  # otherwise torch passes zeros in the shape of the weights
            options: tuple[Any, ...] = (False, [], 2, shapes[5][-1], 1, biased, False, False, True)
            _workspaces[key] = function(*given, *options)[3].untyped_storage().nbytes()
    return int(_workspaces[key])


def _of_layer(steps: int, examples: int, wide: int, hidden: int) -> list[tuple[int, ...]]:
    """Shapes of an LSTM layer's data, weights, biases and states."""
    gates, state = 4 * hidden, (examples, hidden)  # not a count: sizes of a layer that is tried
    return [(steps, examples, wide), (gates, wide), (gates, hidden), (gates,), (gates,), state, state]
