# SPDX-License-Identifier: Apache-2.0
"""One run of a model, counted as other tools would count it, with the causes of the differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base.check import check_mode, check_module, positional
from ._results.compare import Comparison, names_of
from ._run.once import run_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def compare(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    conventions: Sequence[str] | str = (),
    mode: str | None = None,
    flops: bool = False,
    backward: bool = False,
    dry: bool = False,
) -> Comparison:
    """Runs ``model(*args, **kwargs)`` once and counts that run under several conventions side by side.

    The forward runs without gradients and without torch's fast path of attention layers in eval mode,
    because the other tools never observe that path. A backward pass runs only with ``backward``.

    Args:
        model: any ``torch.nn.Module``.
        args: the positional arguments as a tuple, or a single tensor.
        kwargs: the keyword arguments.
        conventions: names, as ``("torch", "fvcore")``, or one name; ``"all"``: every tool. Default: those
            that count operators, ``exact``, ``torch`` and ``fvcore``.
        mode: ``"eval"`` or ``"train"`` for this one forward; by default the model keeps its mode.
        flops: explains FLOPs instead of MACs.
        backward: compares the backward pass, from the sum of the floating-point outputs, instead of the
            forward; every gradient is restored.
        dry: computes nothing, only shapes, as in :func:`lamina.inspect`.

    Raises:
        TypeError: the model is no module, ``args`` no tuple, ``kwargs`` no mapping or a convention no name.
        ValueError: there is no such convention or mode, or operators can't be watched here.
        Exception: an exception of the forward propagates unchanged.
    """
    root = check_module(model)
    given = positional(args, kwargs, root)
    conventions = names_of(conventions)
    check_mode(mode)
    run = run_once(root, given, kwargs, mode=mode, ops=True, unfused=True, backward=backward, dry=dry)
    if run.error is not None or run.model is None:
        run.reraise()
    return Comparison(run.model, conventions, flops=flops, backward=backward)
