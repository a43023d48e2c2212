# SPDX-License-Identifier: Apache-2.0
"""One run of a model, counted as other tools would count it, with the causes of the differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._base.check import check_mode, check_module, positional
from ._base.errors import UsageError
from ._results.compare import Comparison, names_of
from ._run.generate import config_words
from ._run.once import run_once
from ._tokens import Asked

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
    tokens: bool = False,
    prompt: int | None = None,
    batch: int | None = None,
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
        tokens: compares the FLOPs of a language model's forward, for each token, with what others define them
            to be by its configuration: ``conventions`` are then ``"titan"``, ``"megatron"``, ``"hf"``,
            ``"palm"``, ``"llm-foundry"`` and ``"vllm"``, by default all of them. With ``backward`` they are
            those of a training step: the forward, the backward and what is computed again.
        prompt: tokens of a sequence, with ``tokens`` and without ``args``: the model is given random ids.
            1,024 if it is not given.
        batch: sequences of them, 1 if it is not given.

    Raises:
        TypeError: the model is no module, ``args`` no tuple, ``kwargs`` no mapping, a convention no name, or
            ``prompt`` or ``batch`` no whole number.
        ValueError: there is no such convention or mode, operators can't be watched here, or with ``tokens``
            the model is no language model, or ``prompt`` and ``args`` are both given.
        Exception: an exception of the forward propagates unchanged.
    """
    root = check_module(model)
    given = positional(args, kwargs, root)
    conventions = names_of(conventions, tokens=tokens)
    check_mode(mode)
    about, made_up = None, False
    if tokens:
        if flops:
            raise UsageError("flops: with tokens it is FLOPs that are compared; leave it out")
        made_up = not given and not kwargs
        given, kwargs = _prompt(root, given, kwargs, prompt, batch)
        about = {"config": config_words(root)}
    elif prompt is not None or batch is not None:
        raise UsageError("prompt and batch make the input of a language model; give tokens=True too")
    options: dict[str, Any] = {"mode": mode, "backward": backward, "dry": dry, "about": about}
    run = run_once(root, given, kwargs, ops=True, unfused=True, **options)
    if run.error is not None or run.model is None:
        run.reraise()
    in_tokens = (bool(tokens), prompt is not None or not made_up)
    return Comparison(run.model, conventions, flops=flops, backward=backward, tokens=in_tokens)


def _prompt(root: Any, given: Any, kwargs: Any, prompt: int | None, batch: int | None) -> Any:
    """The arguments of the forward: those that are given, or else ids that are drawn at random."""
    if not given and not kwargs:
        return Asked(root, prompt, 1, 1 if batch is None else batch).once()
    if prompt is not None or batch is not None:
        raise UsageError("prompt and batch are of an input that is made up, and args or kwargs give it")
    return given, kwargs
