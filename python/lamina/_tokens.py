# SPDX-License-Identifier: Apache-2.0
"""What a language model costs, in tokens."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.check import check_module, check_whole
from ._base.dtypes import real_dtype
from ._base.errors import UsageError
from ._results.tokens import Tokens
from ._run.generate import NAME, around, inputs_of, once, prompted, sequences
from ._run.once import run_once
from ._run.repeat import Repeats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._observe.run import Run

PROMPT, NEW = 1024, 128


def tokens(
    model: Any,
    prompt: int | None = None,
    new: int | None = None,
    batch: int = 1,
    *,
    inputs: Mapping[str, Any] | None = None,
    dry: bool = False,
    time: bool = False,
    dtype: Any = None,
    device_memory: int | None = None,
) -> Tokens:
    """Counts a language model in tokens: a prefill of a prompt, and the decode steps after it.

    The model generates once, greedily and never stopping early: by its own ``generate`` if it is one of
    transformers, or else by calls over token ids. A prompt of P tokens and N new ones are one prefill, which
    gives the first new token, and N - 1 steps. The model, its configuration and its cache are as before
    afterwards.

    Args:
        model: a language model; for a dry run it may be on the meta device.
        prompt: tokens of the prompt; 1,024 if it is not given. Of an encoder and a decoder it is the
            encoder's length, and the decoder begins with one token.
        new: new tokens of each sequence, 128 if it is not given.
        batch: sequences.
        inputs: further inputs of ``generate`` by name, as images. Token ids among them, as ``input_ids``, are
            the beginning of the prompt, or all of it if ``prompt`` is not given.
        dry: follows the shapes and computes nothing. Of many steps four are run; if they are on one line, the
            others are on it too, or else every step is run.
        time: times the calls too, in further runs that are not counted: 5 to 20 of them, as many as fit into
            ten seconds. ``t.bound(peak)`` has the times, MFU and MBU.
        dtype: counts as if floating-point parameters were of this type; for a dry run.
        device_memory: bytes of a memory, for which ``t.capacity`` tells what fits, and how much less with a
            call's activations. These are predicted by a further dry run, as by :func:`lamina.fit`.

    Raises:
        TypeError: the model is no module, or ``prompt``, ``new``, ``batch`` or ``device_memory`` no whole
            number.
        ValueError: one of them is below 1, the model is no language model, the prompt and the new tokens are
            more than the positions that it has, or a dry run is to be timed.
        NeedsValuesError: in a dry run, the model reads values, as for experts that run one by one.
        Exception: an exception of the model propagates unchanged.
    """
    measure = Repeats().check(dry=dry, asked=time)
    if device_memory is not None:
        check_whole("device_memory", device_memory, least=1)
    asked = Asked(model, prompt, new, batch, inputs=inputs, dtype=dtype)
    return Tokens(asked.read(dry=dry, time=measure, memory=device_memory is not None), device_memory)


class Asked:
    """What is asked of a language model, checked, and the runs that answer it."""

    def __init__(
        self,
        model: Any,
        prompt: int | None,
        new: int | None,
        batch: int,
        *,
        inputs: Mapping[str, Any] | None = None,
        dtype: Any = None,
    ) -> None:
        root = check_module(model)
        for name, value in (("prompt", prompt), ("new", new), ("batch", batch)):
            if value is not None:
                check_whole(name, value, least=1)
        self.how = prompted(root)
        self.given = dict(inputs or {})
        ids = self.given.get("decoder_input_ids" if self.how.decoder else "input_ids")
        length = None if ids is None else ids.shape[1]
        self.given_sizes = (prompt is not None or length is not None, new is not None)
        self.prompt, self.new = prompt or length or PROMPT, new or NEW
        self.batch = batch if ids is None else ids.shape[0]
        self.root, self.outer = root, around(root)
        self.dtype = None if dtype is None else real_dtype(str(dtype))
        self._check_positions()

    def _check_positions(self) -> None:
        """Raises if the model has no positions for so many tokens."""
        how, last = self.how, self.new
        if not how.encoder:
            last += self.prompt - 1  # not a count: what is asked for
        if how.limit is not None and last > how.limit:
            raise UsageError(
                f"{type(self.root).__name__} has positions for {how.limit} tokens, and a prompt of "
                f"{self.prompt} and {self.new} new ones need {last}; ask for fewer"
            )

    def read(self, *, dry: bool, time: Repeats | None = None, memory: bool = False) -> _lamina.Tokens:
        """The tokens of the runs that they need; ``memory``: activations too."""
        costs: _lamina.Costs | None = None
        longer, found = None, None
        followed: _lamina.Costs | str | None = None
        plan = (dry, time is not None, memory)
        for made in count():
            wanted = _lamina.tokens_next(made, found, plan)
            if wanted is None:
                break
            if wanted["purpose"] == "lengths":
                assert costs is not None
                longest = _lamina.tokens_longest(costs, NAME)
                with suppress(Exception):  # a model that can't be followed shows what it shows
                    longer = self._costs(wanted, longest=longest)
            elif wanted["purpose"] == "memory":
                try:
                    followed = self._costs(wanted)
                except Exception as error:  # the result has the reason
                    followed = str(error) or type(error).__name__
            else:
                costs = self._costs(wanted, time)
            if wanted["tells"] and costs is not None:
                sizes = (self.prompt, self.new, self.batch)
                found = _lamina.tokens(costs, longer, followed, NAME, sizes, (*self.given_sizes, True))
        assert found is not None
        return found

    def _costs(
        self, wanted: _lamina._TokenRun, time: Repeats | None = None, *, longest: int = 0
    ) -> _lamina.Costs:
        how: dict[str, Any] = {"dry": wanted["dry"], "follow": wanted["follow"], "longest": longest}
        run = self.run(wanted["which"], **how, time=time if wanted["time"] else None)
        if run.error is not None:
            run.reraise()
        assert run.model is not None
        return run.model.costs()

    def once(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of one call on the prompt."""
        return once(self.root, self.how, self.batch, self.prompt)

    def run(
        self,
        which: str,
        *,
        dry: bool,
        about: Mapping[str, str] | None = None,
        time: Repeats | None = None,
        follow: bool = False,
        longest: int = 0,
    ) -> Run:
        """The model generates: a "sample" of its steps, "every" one, the "first" alone, or sequences of other
        "lengths", of at most ``longest`` tokens unless that is 0, or of its "own" limit. ``follow``: its
        memory is followed."""
        # One sequence shows how a cache grows; inputs that were given fix its length.
        batch, given = (1, {}) if which in ("lengths", "own") else (self.batch, self.given)
        wanted = sequences(self.how, which, self.prompt, self.new, longest)
        inputs = inputs_of(self.root, self.how, batch, given, wanted)
        labels = {"of": NAME, "prompt": self.prompt, "new": self.new, "batch": self.batch}
        facts = {**(about or {}), **{f"tokens_{name}": str(value) for name, value in labels.items()}}
        how: dict[str, Any] = {
            "dry": dry,
            "dtype": self.dtype,
            "about": facts,
            "time": time,
            "follow": follow,
        }
        return run_once(self.outer, (inputs,), mode="eval", ops=True, **how)
