# SPDX-License-Identifier: Apache-2.0
"""A language model in tokens: what a prompt and each new token cost, what a cache keeps, what fits."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .._base.check import check_whole
from .._base.count import Count, from_core
from .roof import best_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .. import _lamina


class TokenCount(Count):
    """A :class:`lamina.Count` of a stage, with its share for each token.

    Attributes:
        a_token: the number divided by the new tokens of the stage; None if one of them is not known.
    """

    a_token: float | None

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return int(self), self.state


def _count(pair: Any, each: float | None) -> TokenCount:
    count = TokenCount(pair[0], pair[1])
    count.a_token = each
    return count


class TokenStage:
    """The prefill, or all decode steps, of the whole batch.

    Attributes:
        calls: calls of the model.
        tokens: new tokens, of all sequences together, without padding; None if they are not known.
        pads: positions that fill prompts up on the left, as a mask shows. They cost what tokens do, so
            ``macs`` and ``effective_macs`` have them, and ``model_macs`` does not. None: not known.
        macs: multiply-accumulates of all products that ran, a :class:`TokenCount`.
        effective_macs: the same without scores that a mask or a causal flag hides.
        model_macs: what the architecture needs: visible scores, routed experts, no padding. If it is not
            known, ``why_model`` says why.
        flops: operations of all operators.
        weights: bytes of parameters that the calls read, in each call once; ``weights_most``: the most, where
            it is not known which experts are hit.
        cache: bytes of cached keys, values and states that the calls attend to.
        why_model: why ``model_macs`` is not known; None: it is.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.calls: int = fields["calls"]
        self.tokens: int | None = fields["tokens"]
        self.pads: int | None = fields["pads"]
        self.why_model: str | None = fields["why_model"]
        each = fields["a_token"]
        self.macs = _count(fields["macs"], each["macs"])
        self.effective_macs = _count(fields["effective_macs"], each["effective_macs"])
        self.model_macs = _count(fields["model_macs"], each["model_macs"])
        self.flops = _count(fields["flops"], each["flops"])
        self.weights = _count(fields["weights"], each["weights"])
        self.weights_most = _count(fields["weights_most"], None)
        self.cache = _count(fields["cache"], each["cache"])

    def __repr__(self) -> str:
        return f"TokenStage(calls={self.calls}, tokens={self.tokens}, macs={self.macs!r})"


class TokenStep:
    """One call of the model.

    Attributes:
        stage: ``"prefill"`` or ``"decode"``.
        step: the number of a decode step, from 1; 0: prefill.
        call: the number of the call in the run; None: the step did not run, and its numbers are on the line
            through those that did.
        batch, new, keys: sequences; new tokens of each; tokens that each sees, its own included.
        pads: how many of the positions of the whole batch are padding; None: not known.
        macs, effective_macs, model_macs, flops, weights, weights_most, cache: as of :class:`TokenStage`.
        held: bytes of the cache of one sequence after the call.
        experts: the least and the most routed experts that were hit in a layer; None: there are none.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.stage: str = fields["stage"]
        self.step: int = fields["step"]
        self.call: int | None = fields["call"]
        self.batch: int | None = fields["batch"]
        self.new: int | None = fields["new"]
        self.keys: int | None = fields["keys"]
        self.pads: int | None = fields["pads"]
        self.macs = from_core(fields["macs"])
        self.effective_macs = from_core(fields["effective_macs"])
        self.model_macs = from_core(fields["model_macs"])
        self.flops = from_core(fields["flops"])
        self.weights = from_core(fields["weights"])
        self.weights_most = from_core(fields["weights_most"])
        self.cache = from_core(fields["cache"])
        self.held = from_core(fields["held"])
        least, most = fields["experts_least"], fields["experts_most"]
        self.experts: tuple[int, int] | None = None if least is None else (least, most)

    def __repr__(self) -> str:
        return f"TokenStep({self.stage}, step={self.step}, keys={self.keys}, macs={self.macs!r})"


class TokenParams:
    """Parameters, in elements; each distinct one counts once.

    Attributes:
        total: all of them.
        active: those that are used for a new token: without experts that it is not routed to, and without
            encoders.
        active_matrix: those that a token is multiplied with: no tables, biases and norms.
        experts, routed, layers: routed experts of a layer, how many of them a token uses, and layers with
            experts; 0 if there are none.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.total = from_core(fields["total"])
        self.active = from_core(fields["active"])
        self.active_matrix = from_core(fields["active_matrix"])
        self.experts: int = fields["experts"]
        self.routed: int = fields["routed"]
        self.layers: int = fields["layers"]

    def __repr__(self) -> str:
        own = f"total={self.total!r}, active={self.active!r}, active_matrix={self.active_matrix!r}"
        return f"TokenParams({own})"


class TokenPiece:
    """Cached tensors of one sequence that grow alike.

    Attributes:
        bytes_a_token: bytes for each token.
        until: tokens after which they grow no more, as a window does; None: they go on.
        tensors: how many there are.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.bytes_a_token: int = fields["bytes_a_token"]
        self.until: int | None = fields["until"]
        self.tensors: int = fields["tensors"]

    def __repr__(self) -> str:
        return f"TokenPiece(bytes_a_token={self.bytes_a_token}, until={self.until}, tensors={self.tensors})"


class TokenCache:
    """What the model keeps from one call to the next, in bytes of one sequence.

    Attributes:
        kind: ``"dynamic"`` if it grows, ``"fixed"`` if it does not, ``"none"`` if each call is given all
            tokens; None if no cache was seen.
        dtype: the type of its largest part.
        fixed: bytes that do not grow; ``shared``: those that all sequences have together.
        pieces: what grows, a list of :class:`TokenPiece`.
        held: bytes after the last call; ``storage``: those of the memory in which it lies, which is more if a
            cached tensor is a part of another one, as a window of all keys of a prompt. It is unknown if that
            memory was there before the run.
        tried: the most tokens of a run; a piece that ends later would not have been seen.
        gap: why it is not known how the cache grows; None: it is.
    """

    def __init__(self, fields: Mapping[str, Any], of: _lamina.Tokens) -> None:
        self._of = of
        self.kind: str | None = fields["kind"]
        self.dtype: str | None = fields["dtype"]
        self.fixed: int | None = fields["fixed"]
        self.shared: int | None = fields["shared"]
        self.pieces = [TokenPiece(piece) for piece in fields["pieces"]]
        self.held = from_core(fields["held"])
        self.storage = from_core(fields["storage"])
        self.tried: int | None = fields["tried"]
        self.gap: str | None = fields["gap"]

    def at(self, tokens: int, batch: int = 1) -> Count:
        """Bytes of the caches of ``batch`` sequences of ``tokens`` tokens.

        Raises:
            TypeError, ValueError: one of them is no whole number, or below 1.
        """
        check_whole("tokens", tokens, least=1)
        check_whole("batch", batch, least=1)
        return from_core(self._of.cache_at(tokens, batch))

    def __repr__(self) -> str:
        return f"TokenCache(kind={self.kind!r}, fixed={self.fixed}, pieces={self.pieces!r})"


class TokenTaken:
    """What a call takes at its peak beside the weights and the cache that it leaves: activations and the
    workspace of operators.

    Attributes:
        bytes: of the whole batch.
        keys: tokens that a sequence sees in that call; None: not known, as the next.
        context_less, batch_less: by how much the context and the batch of :class:`TokenCapacity` are less if
            each sequence takes as many bytes as one of this call.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.bytes = from_core(fields["bytes"])
        self.keys: int | None = fields["keys"]
        self.context_less: int | None = fields["context_less"]
        self.batch_less: int | None = fields["batch_less"]

    def __repr__(self) -> str:
        return f"TokenTaken(bytes={self.bytes!r}, keys={self.keys})"


class TokenActivations:
    """What calls take beside weights and cache.

    Attributes:
        prefill, decode: of the prefill, and of the first decode step, each a :class:`TokenTaken`.
        why: why they are not known, or lower bounds; None: they are exact.
        rough: why they may be some per cent lower or higher; None: they are not.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.prefill = TokenTaken(fields["prefill"])
        self.decode = TokenTaken(fields["decode"])
        self.why: str | None = fields["why"]
        self.rough: str | None = fields["rough"]

    def __repr__(self) -> str:
        return f"TokenActivations(prefill={self.prefill!r}, decode={self.decode!r})"


class TokenCapacity:
    """What fits into a memory beside the weights.

    Attributes:
        bytes: the memory.
        context: the most tokens of one sequence; None: without end, or not known, as the next.
        tokens, batch: tokens of a sequence that was generated, and the most sequences that are as long.
        activations: a :class:`TokenActivations`, which ``context`` and ``batch`` leave out.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.bytes: int = fields["bytes"]
        self.context: int | None = fields["context"]
        self.tokens: int | None = fields["tokens"]
        self.batch: int | None = fields["batch"]
        self.activations = TokenActivations(fields["activations"])

    def __repr__(self) -> str:
        return f"TokenCapacity(bytes={self.bytes}, context={self.context}, batch={self.batch})"


class TokenWide:
    """A layer that multiplies more rows than the call has new tokens.

    Attributes:
        path: the layer; ``layers``: how many there are of this name and size.
        rows, tokens: of the last decode step.
        macs: of all of these layers in it.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.path: str | None = fields["path"]
        self.layers: int = fields["layers"]
        self.rows: int = fields["rows"]
        self.tokens: int = fields["tokens"]
        self.macs = from_core(fields["macs"])

    def __repr__(self) -> str:
        return f"TokenWide({self.path!r}, layers={self.layers}, rows={self.rows}, tokens={self.tokens})"


class TokenLimit:
    """What a peak allows of a stage, of all its calls together, in nanoseconds.

    Attributes:
        calls: how many there are.
        compute, memory: what its products take at the peak, and reading weights and cache, either alone;
            None: not known, as the next two.
        memory_most: the same with as many routed experts as may have been hit.
        least: the sum over the calls of the longer of the two.
        bound: ``"compute"`` or ``"memory"``, which takes longer; ``"unknown"``, also if the experts that are
            hit decide.
        time: what the calls took, each the median of its runs; None: they were not timed.
        mfu, mbu: the shares of the peak that they reached: of FLOPs, and of bytes.
        exact_flops, exact_bytes: False: the count is a lower bound, and so is what follows from it.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.calls: int = fields["calls"]
        self.compute: float | None = fields["compute"]
        self.memory: float | None = fields["memory"]
        self.memory_most: float | None = fields["memory_most"]
        self.least: float | None = fields["least"]
        self.bound: str = fields["bound"]
        self.time: int | None = fields["time"]
        self.mfu: float | None = fields["mfu"]
        self.mbu: float | None = fields["mbu"]
        self.exact_flops: bool = fields["exact_flops"]
        self.exact_bytes: bool = fields["exact_bytes"]

    def __repr__(self) -> str:
        return f"TokenLimit(bound={self.bound!r}, least={self.least}, time={self.time}, mfu={self.mfu})"


class TokenBound:
    """What the peak of a device allows.

    Attributes:
        peak, dtype, source: the device, the type of numbers of its peak, and where the peak is from.
        flops, bytes: the peak: dense FLOPs and bytes a second.
        prefill, decode: each a :class:`TokenLimit`.
        critical_batch: about the least batch at which computing limits the last decode step, if the rows of
            tables that each sequence reads are taken as those of this run; None: there is none
            (``always_memory``), or it is not known, and ``why_critical`` says why. With routed experts it is
            that if all sequences are routed to the same ones.
        critical_batch_most: the same if each sequence is routed to experts of its own, until all are read.
        keys: the tokens that a sequence sees in that step; None: not known.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.peak: str = fields["peak"]
        self.dtype: str = fields["dtype"]
        self.source: str = fields["source"]
        self.flops: float = fields["flops"]
        self.bytes: float = fields["bytes"]
        self.prefill = TokenLimit(fields["prefill"])
        self.decode = TokenLimit(fields["decode"])
        self.critical_batch: int | None = fields["critical_batch"]
        self.critical_batch_most: int | None = fields["critical_batch_most"]
        self.why_critical: str | None = fields["why_critical"]
        self.always_memory: bool = fields["always_memory"]
        self.keys: int | None = fields["keys"]

    def __repr__(self) -> str:
        return f"TokenBound({self.peak!r}, prefill={self.prefill!r}, decode={self.decode!r})"


class Tokens:
    """A language model in tokens; ``print(t)`` shows it.

    Attributes:
        prompt, new, batch: tokens of a prompt, new tokens of a sequence, sequences.
        prefill, decode: the two stages, each a :class:`TokenStage`.
        steps: every call, the prefill's first; a list of :class:`TokenStep`.
        params: a :class:`TokenParams`.
        cache: a :class:`TokenCache`.
        weights: bytes of all parameters; None: not known.
        wide: layers that multiply more rows than there are new tokens, a list of :class:`TokenWide`.
        gaps: why a number is not exact, a sentence each.
        capacity: what fits into the ``device_memory`` that was asked for, a :class:`TokenCapacity`; None:
            none was.
    """

    def __init__(self, core: _lamina.Tokens, memory: int | None = None) -> None:
        self._core = core
        self._memory = memory or 0
        fields = core.as_dict()
        self.prompt: int | None = fields["prompt"]
        self.new: int | None = fields["new"]
        self.batch: int | None = fields["batch"]
        self.dtype: str | None = fields["dtype"]
        self.logits: int | None = fields["logits"]
        self.prefill = TokenStage(fields["prefill"])
        self.decode = TokenStage(fields["decode"])
        self.steps = [TokenStep(step) for step in fields["steps"]]
        self.params = TokenParams(fields["params"])
        self.cache = TokenCache(fields["cache"], core)
        self.weights: int | None = fields["weights"]
        self.wide = [TokenWide(each) for each in fields["wide"]]
        self.gaps: list[str] = list(fields["gaps"])
        self.capacity = None if memory is None else TokenCapacity(core.capacity(memory))

    def context(self, memory: int, batch: int = 1) -> int | None:
        """The most tokens of each of ``batch`` sequences whose caches fit beside the weights into ``memory``
        bytes. None: it never ends, or it is not known how the cache grows (``cache.gap``). What a call takes
        beside them is not in it: ``capacity`` has it."""
        check_whole("memory", memory, least=1)
        check_whole("batch", batch, least=1)
        return _fits(self._core.context(memory, batch))

    def batch_in(self, memory: int, context: int) -> int | None:
        """The most sequences of ``context`` tokens that fit; as :meth:`context`."""
        check_whole("memory", memory, least=1)
        check_whole("context", context, least=1)
        return _fits(self._core.batch(memory, context))

    def bound(self, peak: str) -> TokenBound:
        """What the peak of a device allows: the least times, what limits them and, of a run that was timed,
        MFU and MBU. ``peak`` is a device, as ``"h100-sxm"``, with the peak for the type of most parameters,
        or with another one, as ``"h100-sxm:bfloat16"``. Peaks are the maker's, of dense products.
        ``"measured"`` is the peak of the device that the model runs on, measured once, as by
        :func:`lamina.roof`; that of the processor for a model on the meta device.

        Raises:
            TypeError: ``peak`` is no str.
            ValueError: there is no such device, no peak of it for this type, or none can be measured.
        """
        return TokenBound(self._core.bound(peak, best_of))

    def __str__(self) -> str:
        return self._core.write("text", self._memory, 0, False).removesuffix("\n")  # noqa: FBT003

    def __repr__(self) -> str:
        return str(self)

    def show(self, *, width: int = 0, exact: bool = False) -> None:
        """Prints it; ``exact``: numbers in full."""
        sys.stdout.write(self._core.write("text", self._memory, width, exact))

    def to_json(self) -> str:
        """Returns everything as JSON, by the schema ``docs/answers.schema.json``."""
        return self._core.write("json", self._memory, 0, False)  # noqa: FBT003


NO_END = 0x7FFF_FFFF_FFFF_FFFF


def _fits(most: int) -> int | None:
    return None if most < 0 or most == NO_END else most
