# SPDX-License-Identifier: Apache-2.0
"""Predicted peaks of memory, compared with measured ones."""

from __future__ import annotations

import json
import sys
import weakref
from html import escape
from operator import index
from typing import TYPE_CHECKING, Any

from .. import _lamina
from .._base.check import describe_object
from .._base.count import Count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .memory import Memory

UNKNOWN = -1
LARGEST = 0x8000_0000_0000_0000  # bytes: more than any tensor has
DEEP = 32  # levels of lists and dicts that are searched; one that contains itself has no end


class Peak:
    """The peak memory of one run, in bytes.

    Attributes:
        bytes: the whole peak; a lower bound if ``gap`` is set.
        parts: its parts: ``parameters``, ``buffers``, ``gradients`` (of parameters), ``optimizer``,
            ``input``, ``activations``, ``backward`` (gradients of results) and ``workspace``.
        at: the operator that runs at the peak, or ``"the optimizer's step"``.
        rows: the layers that hold memory at the peak, the largest first: ``path`` (None outside every
            layer), ``bytes`` and its parts.
        optimizer: the optimizer of the step: its name as given, or the name of its class; None for a forward
            pass.
        gap: why the peak may be higher, or None.
        rough: why it may be some per cent lower or higher, or None.
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
        no_step: why ``step`` is None, in a sentence: no parameter gets a gradient, or the model in train
            mode, or the optimizer's step, can't be followed. None if no step was asked for.
        apart: of :meth:`lamina.Report.fit`, why the measured peak is not compared with a prediction: the run
            was of another kind. None if it is compared, or nothing was measured.
        cached_layers, cache_bytes: of a model that is given tokens and returns a cache, the number of layers
            in which that grows, and the bytes by which a token of a sequence makes it grow, as a dry step
            after the forward shows; None: that is not known, and ``cache_why`` says why. Of other models the
            number of layers with causal attention, and the bytes of one token's keys and values for all of
            them.
        cache_fixed: the bytes of that cache that do not grow, a sequence: states, windows that are full, what
            is allocated at once; with ``cache_why`` all that it holds. None: the model returns no cache.
        masked_layers, masked_bytes: the same for layers with self-attention through the model's own mask,
            which may be causal.
    """

    def __init__(
        self,
        forward: _lamina.Model,
        step: _lamina.Model | None,
        measured: tuple[int, int] = (UNKNOWN, UNKNOWN),
        no_step: str | None = None,
        apart: str | None = None,
    ) -> None:
        self._given = forward, step
        self._measured = measured
        self.no_step = no_step
        self.apart = apart
        fields = json.loads(self._text("json"))
        self.forward = Peak(fields["forward"])
        self.step = Peak(fields["step"]) if fields["step"] else None
        self.cached_layers: int = fields["forward"]["cached_layers"]
        self.cache_bytes: int | None = fields["forward"]["cache_bytes"]
        self.cache_fixed: int | None = fields["forward"]["cache_fixed"]
        self.cache_why: str | None = fields["forward"]["cache_why"]
        self.masked_layers: int = fields["forward"]["masked_layers"]
        self.masked_bytes: int = fields["forward"]["masked_bytes"]

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

    def _repr_html_(self) -> str:
        html = self._text("html")
        said = [("no training step", self.no_step), ("not compared with what was measured", self.apart)]
        more = "".join(f'<p class="exact">{what}: {escape(why)}</p>' for what, why in said if why is not None)
        inside, end, after = html.rpartition("</div>")
        return inside + more + end + after

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}

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


class _GoneError(Exception):
    pass


def _gone() -> Any:
    raise _GoneError


def _taken(call: Mapping[str, Any]) -> tuple[Any, ...]:
    """A call's arguments and their memory."""
    takes = [(arg["name"], arg["shape"], arg["dtype"]) for arg in call["inputs"]]
    return call["place"], call["training"], takes


def _holder(value: Any, torch: Any, depth: int = 0) -> Callable[[], Any]:
    """A function that returns ``value`` again. A tensor that nothing else holds is replaced by one of its
    size, without values."""
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
    """The model and the arguments of a report, to run the model again while it exists; keeps neither of them
    alive."""

    def __init__(
        self,
        predict: Callable[..., Fit],
        model: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any] | None,
        *,
        grad: bool,
        own: bool = False,
    ) -> None:
        self._predict = predict  # lamina.fit
        self._model = weakref.ref(model)
        self._given = _holder((args, dict(kwargs or {})), sys.modules["torch"])
        self._grad = grad  # gradients were enabled
        self._own = own  # user code ran it

    def beside(self, fit: Fit, memory: Memory, seen: _lamina.Model) -> Fit:
        """The fit with the measured peak, if the run was of the predicted kind; ``seen``: the core's model of
        the run."""
        calls = seen.events()
        roots = [call for call in calls if call["parent"] < 0]
        if any(call["failed"] for call in roots):
            return fit._not_beside("the run ended in an error")
        if any(_taken(call) != _taken(roots[0]) for call in roots):
            return fit._not_beside("the run called the model in several ways, and the first is predicted")
        if "backward" not in memory.held:
            return fit._not_beside(
                "backward passes can't be seen here, so it is not known whether there was one"
            )
        if any(row.backward is not None and row.backward.allocated for row in memory.rows):
            why = self._no_such_step(fit, memory, training=roots[0]["training"])
            return fit.beside(step=memory.peak) if why is None else fit._not_beside(why)
        why = self._no_such_forward(seen, training=any(call["training"] for call in calls))
        if why is not None:
            return fit._not_beside(why)
        # Existing gradients of parameters are not part of a forward pass.
        return fit.beside(forward=memory.peak - memory.held["gradients"])

    def _no_such_forward(self, seen: _lamina.Model, *, training: bool) -> str | None:
        """Why the run was no forward pass as predicted, in eval mode without gradients; None: it was one."""
        if training:
            return (
                "the run was in train mode, and a forward pass is predicted in eval mode; "
                'lamina.inspect(model, args, mode="eval", memory=True) measures one'
            )
        if not self._grad:
            return None
        try:
            given = tensors_in(list(self._given()), sys.modules["torch"])
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
        """Why the run was no step as predicted, in train mode with an optimizer step whose state exists;
        None: it was one. A step of an optimizer without state is not needed."""
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
                "there were gradients from before, and the step is predicted without them; begin it with "
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
        """As :func:`lamina.fit`.

        Raises:
            ValueError: the model no longer exists, or an input whose size is unknown.
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
        return self._predict(model, args, kwargs, **options)


def tensors_in(value: Any, torch: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in items for tensor in tensors_in(item, torch)]
