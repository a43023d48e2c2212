# SPDX-License-Identifier: Apache-2.0
"""The cost of a language model in tokens, by its own dimensions: a count in plain Python, part by part, in
which neither lamina nor torch has a share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

import lamina


@dataclass
class Truth:
    """MACs of a whole batch and bytes of one sequence, as the family's own dimensions give them."""

    prefill: int
    steps: list[int]
    hidden: int  # scores of the prefill that the mask hides, in MACs
    total: int
    active: int
    matrix: int
    pieces: list[tuple[int, int | None]]  # bytes a token, and the tokens until which it grows
    fixed: int = 0
    weights: list[int] = field(default_factory=list)  # bytes that each step reads
    weights_most: list[int] | None = None  # the most, if which experts a step hits is not known

    def cached(self, tokens: int, more: int = 0) -> int:
        """Bytes of a sequence's cache; with ``more`` tokens than a window keeps, what a step attends to."""
        grown = sum(each * min(tokens, (until or tokens) + more) for each, until in self.pieces)
        return self.fixed + grown


class Tally:
    """Adds up a model of 32-bit numbers, part after part. A matrix and the like are those of the decoder, but
    for ``encoder``; ``first``: the tokens that it is given in the prefill, if they are not the prompt."""

    def __init__(self, prompt: int, new: int, batch: int, first: int | None = None) -> None:
        self.prompt, self.first, self.batch = prompt, first or prompt, batch
        self.keys = [*range(self.first + 1, self.first + new)]  # of each step
        self.prefill = self.hidden = self.total = self.active = self.multiplied = self.fixed = 0
        self.steps = [0] * len(self.keys)
        self.reads = self.spread = 0  # elements that a step reads, and more that it may read
        self.grows: Counter[int | None] = Counter()

    def truth(self) -> Truth:
        pieces = sorted(self.grows.items(), key=lambda piece: (piece[0] is None, piece[0]))
        return Truth(
            prefill=self.prefill,
            steps=self.steps,
            hidden=self.hidden,
            total=self.total,
            active=self.active,
            matrix=self.multiplied,
            pieces=[(4 * elements, until) for until, elements in pieces],
            fixed=4 * self.fixed,
            weights=[4 * self.reads] * len(self.keys),
            weights_most=[4 * (self.reads + self.spread)] * len(self.keys),
        )

    def _work(self, prefill: int, step: int) -> None:
        self.prefill += self.batch * prefill
        self.steps = [macs + self.batch * step for macs in self.steps]

    def small(self, *sizes: int) -> None:
        """Parameters that are in no product, as norms."""
        for size in sizes:
            self.total += size
            self.active += size
            self.reads += size

    def table(self, rows: int, width: int, *, tied: bool = False, positions: bool = False) -> None:
        """A table of tokens, or of positions, which are looked up once for the batch. A tied one is that of
        the head."""
        if not tied:
            self.small(rows * width)
            self.reads += width * (1 if positions else self.batch) - rows * width

    def matrix(self, inner: int, outer: int, *, bias: bool = False, once: bool = False) -> None:
        """A matrix with which each token is multiplied; ``once``: one token of a prompt, as by a head."""
        self.small(inner * outer, outer if bias else 0)
        self.multiplied += inner * outer
        self._work((1 if once else self.first) * inner * outer, inner * outer)

    def mlp(self, width: int, inner: int, *, gated: bool = True, bias: bool = False) -> None:
        for _ in range(2 if gated else 1):
            self.matrix(width, inner, bias=bias)
        self.matrix(inner, width, bias=bias)

    def attention(self, heads: int, shared: int, width: int, window: int | None = None) -> None:
        """The scores of queries and keys and what they weigh; ``shared``: heads of keys and values."""

        def seen(key: int) -> int:
            return min(key, window) if window else key

        each, p = 2 * heads * width, self.first
        self._work(each * p * p, 0)
        self.hidden += self.batch * each * (p * p - sum(seen(key) for key in range(1, p + 1)))
        self.steps = [
            macs + self.batch * each * seen(key) for macs, key in zip(self.steps, self.keys, strict=True)
        ]
        self.grows[window - 1 if window else None] += 2 * shared * width

    def cross(self, width: int, *, bias: bool = False) -> None:
        """Attention over what an encoder gave, whose keys and values are made once and kept."""
        self.matrix(width, width, bias=bias)
        self.matrix(width, width, bias=bias)
        for _ in range(2):
            self.encoder(width, width, bias=bias)
        scores = 2 * width * self.prompt
        self._work(self.first * scores, scores)
        self.fixed += 2 * width * self.prompt

    def encoder(self, inner: int, outer: int, *, bias: bool = False) -> None:
        """A matrix with which each token of the prompt is multiplied, and no new one."""
        self.total += inner * outer + (outer if bias else 0)
        self.prefill += self.batch * self.prompt * inner * outer

    def experts(self, width: int, inner: int, many: int, routed: int) -> None:
        """A router and gated experts, of which a token takes some. Sequences may take other ones each."""
        self.matrix(width, many)
        one = 3 * width * inner
        self.total += (many - routed) * one
        for _ in range(routed):
            self.matrix(3 * width, inner)
        self.spread += (min(many, self.batch * routed) - routed) * one

    def convolution(self, width: int, kernel: int, *, bias: bool = False) -> None:
        """A causal convolution of each channel, which runs over its padding too, and in a step over what it
        kept of the last tokens and the new one."""
        self.small(width * kernel, width if bias else 0)
        self.multiplied += width * kernel
        one = width * kernel
        self._work((max(self.first, kernel) + kernel - 1) * one, 2 * one)
        self.fixed += one

    def scan(self, width: int, states: int) -> None:
        """A state of each channel: its update is elementwise, and reading it is a product."""
        self._work(self.first * width * states, width * states)
        self.fixed += width * states


def of_transformers(name: str, config: dict[str, Any], attention: str = "sdpa") -> nn.Module:
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.set_verbosity_error()
    kind = {"Gemma3": "Gemma3TextConfig"}.get(name, f"{name}Config")
    head = {"GPT2": "LMHeadModel", "Bart": "ForConditionalGeneration"}.get(name, "ForCausalLM")
    model = getattr(transformers, name + head)
    torch.manual_seed(0)
    made: nn.Module = model._from_config(getattr(transformers, kind)(**config), attn_implementation=attention)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1 and not parameter.any():  # routers that begin with zeros choose no expert
                parameter.normal_(0, 0.02)
    return made.eval()


def decode(t: lamina.Tokens) -> list[Any]:
    return [step for step in t.steps if step.stage == "decode"]


def holds(t: lamina.Tokens, truth: Truth) -> None:
    """Asserts that a run is as its model's dimensions say, and that nothing but ``model`` is unknown."""
    assert (int(t.prefill.macs), t.prefill.macs.state) == (truth.prefill, "exact")
    effective = truth.prefill - truth.hidden
    assert (int(t.prefill.effective_macs), t.prefill.effective_macs.state) == (effective, "exact")
    assert (int(t.decode.effective_macs), t.decode.effective_macs.state) == (sum(truth.steps), "exact")
    assert [int(step.macs) for step in decode(t)] == truth.steps
    assert t.decode.macs == sum(truth.steps)
    assert t.decode.macs.state == "exact"
    assert (t.params.total, t.params.active, t.params.active_matrix) == (
        truth.total,
        truth.active,
        truth.matrix,
    )
    assert [(piece.bytes_a_token, piece.until) for piece in t.cache.pieces] == truth.pieces
    assert t.cache.fixed == truth.fixed
    assert t.cache.gap is None
    batch = t.batch or 0
    cached = [batch * truth.cached(step.keys, 1) for step in decode(t)]
    assert [(int(step.cache), step.cache.state) for step in decode(t)] == [(n, "exact") for n in cached]
    held = [truth.cached(step.keys) for step in decode(t)]
    assert [(int(step.held), step.held.state) for step in decode(t)] == [(n, "exact") for n in held]
    assert [int(step.weights) for step in decode(t)] == truth.weights
    assert [int(step.weights_most) for step in decode(t)] == (truth.weights_most or truth.weights)
