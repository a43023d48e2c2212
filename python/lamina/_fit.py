# SPDX-License-Identifier: Apache-2.0
"""The peak memory of a forward pass and of a training step, predicted from dry runs."""

from __future__ import annotations

import json
import math
import sys
import weakref
from operator import index
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._count import Count
from ._run import check_module, describe_object, run_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ._memory import Memory

UNKNOWN = -1
LARGEST = 0x8000_0000_0000_0000  # bytes that no tensor has
NO_GRADIENT = "no parameter gets a gradient from what comes out"
MOST_KNOWN = 65536  # numbers of an input that a dry run looks at


class Peak:
    """The peak memory of one run, in bytes.

    Attributes:
        bytes: the whole peak; a lower bound if ``gap`` is set.
        parts: its parts: ``parameters``, ``buffers``, ``gradients`` (of parameters), ``optimizer``,
            ``input``, ``activations``, ``backward`` (gradients of results) and ``workspace``.
        at: the operator that runs at the peak, or ``"the optimizer's step"``.
        rows: the layers that hold memory at the peak, the largest first: ``path`` (None outside every
            layer), ``bytes`` and its parts.
        optimizer: the optimizer of the step, None for a forward pass.
        gap: why it may be more, or None.
        rough: why it may be some per cent less or more, or None.
        measured, off: the measured peak of :meth:`Fit.beside`, and the error of the prediction in per cent;
            None without one.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.gap: str | None = fields["gap"]
        self.rough: str | None = fields["rough"]
        self.bytes = Count(fields["peak"], "exact" if self.gap is None else "at least")
        self.parts: dict[str, int] = fields["parts"]
        self.at: str = fields["at"]
        self.rows: list[dict[str, Any]] = fields["rows"]
        self.optimizer: str | None = fields["optimizer"]
        self.measured: int | None = fields.get("measured")
        self.off: float | None = fields.get("off")

    def __repr__(self) -> str:
        return f"<a peak of {_lamina.text_bytes(self.bytes)} in {self.at}>"


class Fit:
    """The predicted peaks of a forward pass and of a training step; ``print(fit)`` shows both.

    Attributes:
        forward: the :class:`Peak` of a forward pass in eval mode without gradients.
        step: the :class:`Peak` of a training step: forward, backward and the optimizer's step; or None.
        no_step: why ``step`` is None, in a sentence: no parameter gets a gradient, or the model can't be
            followed in train mode.
        apart: of :meth:`lamina.Report.fit`, why the measured peak is not compared with a prediction: the run
            was of another kind. None if it is compared, or nothing was measured.
        cached_layers, cache_bytes: the number of layers with causal attention, and the bytes of a cache of
            one token's keys and values for all of them.
        masked_layers, masked_bytes: the same for layers with self-attention through the model's own mask,
            which may be causal.
    """

    def __init__(
        self,
        forward: _lamina.Model,
        step: _lamina.Model | None,
        optimizer: str,
        measured: tuple[int, int] = (UNKNOWN, UNKNOWN),
        no_step: str | None = None,
        apart: str | None = None,
    ) -> None:
        self._given = forward, step, optimizer
        self._measured = measured
        self.no_step = no_step
        self.apart = apart
        told = json.loads(self._text("json"))
        self.forward = Peak(told["forward"])
        self.step = Peak(told["step"]) if told["step"] else None
        self.cached_layers: int = told["forward"]["cached_layers"]
        self.cache_bytes: int = told["forward"]["cache_bytes"]
        self.masked_layers: int = told["forward"]["masked_layers"]
        self.masked_bytes: int = told["forward"]["masked_bytes"]

    def _text(self, form: str, *, exact: bool = False) -> str:
        return _lamina.fitted(*self._given, self._measured, form, exact)

    def beside(self, forward: int | None = None, step: int | None = None) -> Fit:
        """Returns the same with measured peaks, in bytes, and the errors in per cent.

        Raises:
            TypeError, ValueError: a measurement is no whole number, or is not above 0.
        """
        measured = tuple(UNKNOWN if n is None else _measured(n) for n in (forward, step))
        return Fit(*self._given, (measured[0], measured[1]), self.no_step)

    def _not_beside(self, why: str) -> Fit:
        return Fit(*self._given, self._measured, self.no_step, why)

    def _shown(self, *, exact: bool = False) -> str:
        text = self._text("text", exact=exact)
        if self.no_step is not None:
            text += f"\nno training step: {self.no_step}\n"
        return text if self.apart is None else f"{text}\nnot compared with what was measured: {self.apart}\n"

    def __str__(self) -> str:
        return self._shown().removesuffix("\n")

    def __repr__(self) -> str:
        return str(self)

    def show(self, *, exact: bool = False) -> None:
        """Prints both peaks; ``exact``: bytes in full."""
        sys.stdout.write(self._shown(exact=exact))

    def to_json(self) -> str:
        """Returns both peaks as JSON, in bytes."""
        return self._text("json")


def _measured(n: Any) -> int:
    try:
        whole = index(n)
    except TypeError:
        raise TypeError(f"what was measured is {describe_object(n)}; give whole bytes") from None
    if not 0 < whole < LARGEST:
        raise ValueError(f"{whole} bytes can't have been measured; give as many as there were at the peak")
    return whole


def fit(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    batch: int | None = None,
    optimizer: str | None = None,
    dtype: Any = None,
) -> Fit:
    """Predicts the peak memory of a forward pass and of a training step of ``model``, on a CPU.

    The model does not run: autograd, the model's code and the layers hold tensors without memory as long as
    they would hold real ones. The workspace of kernels is measured: each operator of up to 64 MiB and 2^31
    products runs once, alone, on made-up tensors. The backward starts at the floating-point outputs; a loss
    is not included.

    Args:
        model: any ``torch.nn.Module``; it may be on the meta device.
        args: the positional arguments as a tuple, or a single tensor; they may be on the meta device.
        kwargs: the keyword arguments.
        batch: the number of examples: replaces the first axis of the first tensor, and of every tensor
            whose first axis has the same size.
        optimizer: the optimizer of the step: ``"adamw"`` (the default), ``"sgd"``, ``"sgd-momentum"``, ...
        dtype: predicts as if floating-point parameters, buffers and inputs were of this type, as
            ``torch.bfloat16``.

    Raises:
        TypeError: the model is no module, ``args`` no tuple, ``batch`` no whole number, or ``optimizer`` no
            name.
        ValueError: there is no such optimizer or type, or nothing has a batch axis.
        NeedsValuesError: the model reads values, which were not computed. If it reads them in train mode
            alone, :attr:`Fit.no_step` says so instead.
    """
    from ._inspect import positional

    root = check_module(model)
    given, named = positional(args, kwargs, root), dict(kwargs or {})
    optimizer = _optimizer(optimizer)
    name = None if dtype is None else _dtype(dtype)
    if batch is not None:
        given, named = of_batch(given, named, batch)
    runs = [
        run_once(root, given, named, mode=mode, ops=True, backward=step, dry=True, follow=True, dtype=name)
        for mode, step in (("eval", False), ("train", True))
    ]
    forward, step = runs
    for run in runs:
        if run.error is not None and (run is forward or not isinstance(run.error, Exception)):
            run.reraise()
    assert forward.model is not None
    why = NO_GRADIENT if step.no_backward else None
    if step.error is not None:
        why = str(step.error) or type(step.error).__name__
    return Fit(forward.model, step.model if why is None else None, optimizer, no_step=why)


def _optimizer(name: str | None) -> str:
    known = _lamina.optimizers()
    if name is None:
        return next(iter(known))
    if not isinstance(name, str):
        raise TypeError(f"an optimizer is named, as 'sgd', and this is {describe_object(name)}")
    if name not in known:
        raise ValueError(f"there is no optimizer {name!r}; there are {', '.join(known)}")
    return name


def _dtype(dtype: Any) -> str:
    from ._dtypes import real_dtype

    return real_dtype(str(dtype))


def of_batch(
    args: tuple[Any, ...], kwargs: dict[str, Any], batch: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with ``batch`` examples in the place of those that there are.

    Raises:
        ValueError: no tensor among them has an axis, or ``batch`` is not positive.
    """
    torch = sys.modules["torch"]
    if isinstance(batch, bool) or not isinstance(batch, int):
        raise TypeError(f"batch is {batch!r}; it is a whole number from 1")
    sizes = [tensor.shape[0] for tensor in _tensors([*args, *kwargs.values()], torch) if tensor.dim() > 0]
    if batch < 1 or not sizes:
        raise ValueError(
            f"batch={batch} is not possible; give 1 or more"
            if sizes
            else "no input has a batch axis; give them in the size asked for"
        )

    def changed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _resized(value, batch, torch) if value.dim() > 0 and value.shape[0] == sizes[0] else value
        if type(value) in (list, tuple):
            return type(value)(changed(v) for v in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(changed(v) for v in value))
        return {k: changed(v) for k, v in value.items()} if type(value) is dict else value

    return tuple(changed(v) for v in args), {k: changed(v) for k, v in kwargs.items()}


def _tensors(value: Any, torch: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in _tensors(item, torch)]


def _resized(tensor: Any, batch: int, torch: Any) -> Any:
    """Whole numbers are repeated, for a model may look at them; others have no values here."""
    shape = (batch, *tensor.shape[1:])
    example = tensor.element_size() * max(math.prod(tensor.shape[1:]), 1)  # not a count: whether it can be
    if batch * example >= LARGEST:  # not a count: whether it can be
        raise ValueError(f"no tensor can hold {batch} examples; ask for fewer")
    known = not tensor.is_floating_point() and tensor.device.type == "cpu" and tensor.shape[0] > 0
    if known and batch * tensor[0].numel() <= MOST_KNOWN:  # not a count: whether values are looked at
        examples = torch.arange(batch) % tensor.shape[0]  # not a count: which one is repeated
        return tensor[examples]
    return torch.empty(shape, dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)


class _GoneError(Exception):
    pass


def _gone() -> Any:
    raise _GoneError


def _taken(call: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a call was of, and what it took."""
    takes = [(arg["name"], arg["shape"], arg["dtype"]) for arg in call["inputs"]]
    return call["place"], call["training"], takes


DEEP = 32  # levels of lists and dicts that are looked into; one that holds itself has no end


def _holder(value: Any, torch: Any, depth: int = 0) -> Callable[[], Any]:
    """What gives ``value`` again; in the place of a tensor that nobody else holds any more one of its size,
    without values."""
    if depth == DEEP:
        return _gone
    if isinstance(value, torch.Tensor):
        ref = weakref.ref(value)
        plain = value.layout is torch.strided and not value.is_nested
        size, dtype, grad = (value.shape if plain else None), value.dtype, value.requires_grad

        def tensor() -> Any:
            there = ref()
            if there is None and size is None:
                raise _GoneError
            if there is None:
                return torch.empty(size, dtype=dtype, device="meta", requires_grad=grad)
            return there

        return tensor
    if type(value) in (list, tuple):
        kind, items = type(value), [_holder(v, torch, depth + 1) for v in value]
        return lambda: kind(item() for item in items)
    if type(value) is dict:
        named = {k: _holder(v, torch, depth + 1) for k, v in value.items()}
        return lambda: {k: item() for k, item in named.items()}
    return lambda: value


class Again:
    """What a report was made of, to run it again while the model is there; nothing of it is kept."""

    def __init__(
        self,
        model: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None,
        *,
        grad: bool,
        own: bool = False,
    ) -> None:
        self._model = weakref.ref(model)
        self._given = _holder((args, dict(kwargs or {})), sys.modules["torch"])
        self._grad = grad  # gradients were enabled
        self._own = own  # code of the user's own ran it

    def beside(self, fit: Fit, memory: Memory, seen: _lamina.Model) -> Fit:
        """With the peak that the run had, where it was a run of the kind that is predicted; ``seen`` is what
        was seen of it."""
        calls = seen.events()
        roots = [call for call in calls if call["parent"] < 0]
        backward = [row.backward for row in memory.rows]
        if any(call["failed"] for call in roots):
            return fit._not_beside("the run ended in an error")
        if any(_taken(call) != _taken(roots[0]) for call in roots):
            return fit._not_beside("the run called the model in several ways, and the first is predicted")
        if None in backward:
            return fit._not_beside("backward passes can't be told here, nor whether there was one")
        if any(use.allocated for use in backward if use is not None):
            why = self._no_such_step(fit, memory, training=roots[0]["training"])
            return fit.beside(step=memory.peak) if why is None else fit._not_beside(why)
        why = self._no_such_forward(seen, training=any(call["training"] for call in calls))
        if why is not None:
            return fit._not_beside(why)
        # Gradients of parameters that lie there are no part of a forward pass.
        return fit.beside(forward=memory.peak - memory.held["gradients"])

    def _no_such_forward(self, seen: _lamina.Model, *, training: bool) -> str | None:
        """A forward pass is predicted in eval mode without gradients."""
        if training:
            return (
                "the run was in train mode, and a forward pass is predicted in eval mode; "
                'lamina.inspect(model, args, mode="eval", memory=True) measures one'
            )
        if not self._grad:
            return None
        try:
            given = _tensors(list(self._given()), sys.modules["torch"])
        except _GoneError:
            given = []
        if not any(tensor["requires_grad"] for tensor in seen.tensors()) and not any(
            tensor.requires_grad for tensor in given
        ):
            return None
        return (
            "the run kept what a backward pass needs, and a forward pass is predicted without gradients; run "
            "it under torch.no_grad()"
        )

    def _no_such_step(self, fit: Fit, memory: Memory, *, training: bool) -> str | None:
        """A step is predicted in train mode, with the step of an optimizer whose state is there. One that
        keeps nothing is none that does."""
        if fit.step is None:
            return "it was of a training step, and none is predicted"
        if not self._own:
            return (
                "a backward pass of lamina's own is not a step of an optimizer; run one of yours under "
                "lamina.capture(model, memory=True)"
            )
        if not training:
            return "the step was in eval mode, and one is predicted in train mode"
        if memory._old_gradients:
            return (
                "gradients of before lay there, and a step is predicted from none; begin it with "
                "optimizer.zero_grad()"
            )
        name, kept = fit.step.optimizer, memory.held["optimizer"]
        if kept and not fit.step.parts["optimizer"]:
            return f"its optimizer keeps tensors, and {name} none; name the one that ran by optimizer=..."
        if fit.step.parts["optimizer"] and not kept:
            return (
                f"at its peak no optimizer kept anything, as {name} does from its second step on; capture "
                "such a step, or name the one that ran by optimizer=..."
            )
        return None

    def fit(self, **options: Any) -> Fit:
        """As :func:`fit`.

        Raises:
            ValueError: the model is gone, or an input of which no size is known.
        """
        model = self._model()
        try:
            args, kwargs = self._given()
        except _GoneError:
            model = None
        if model is None:
            raise ValueError(
                "the model of this report, or an input of it, is gone; use lamina.fit(model, args) instead"
            )
        return fit(model, args, kwargs, **options)
