# SPDX-License-Identifier: Apache-2.0
"""A language model that generates: a module around it whose forward makes the calls of a prefill and of
decode steps, at the lengths that are asked for."""

from __future__ import annotations

import sys
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _lamina
from .._base.errors import UnsupportedError, UsageError
from .._base.signature import takes
from .._dry.running import running
from .._dry.tensors import knows
from .held import caches_of
from .once import run_once

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The inputs of a sequence: how it is generated, its token ids, and one further token of each sequence.
NEW, IDS, NEXT = "new", "input_ids", "next"
NAMES = ("input_ids", "ids", "idx", "tokens", "token_ids")  # of the argument; else it is the first one
NAME = "model"  # of the language model in the module around it
SEED = 0


class Wanted(NamedTuple):
    """A sequence to generate: tokens of its prompt, and new ones, of which the first comes of the prefill and
    each further one of a step; ``decoder``: tokens that the decoder of an encoder begins with, 0: one."""

    prompt: int
    new: int
    decoder: int = 0


def sequences(how: Prompted, which: str, prompt: int, new: int, longest: int) -> list[Wanted]:
    """The sequences of a run: for a "sample" of the decode steps, "every" one of them, or two of other
    "lengths", one of few tokens and one of many, that show how the cache grows; or of the "own" limit of the
    model. ``longest``: the most tokens of those; 0: as many as ever."""
    limits = how.encoder, how.limit or 0, how.own or 0, longest
    every = _lamina.token_sequences(which, prompt, new, limits)
    return [Wanted(*each) for each in every]


class Prompted(NamedTuple):
    """How a language model is prompted.

    Attributes:
        generates: it has the ``generate`` of transformers.
        decoder: the prompt is the decoder's, as of a model that is given sound.
        encoder: the prompt is the encoder's, and the decoder begins with one token.
        rows: token ids are below this number.
        limit: positions for which the model has a table; None: it has none.
        own: the model's own limit of tokens; None: unknown.
    """

    generates: bool
    decoder: bool
    encoder: bool
    rows: int
    special: frozenset[int]
    limit: int | None
    own: int | None


def _config(root: Any) -> Any:
    """The configuration of the part that reads text."""
    config = getattr(root, "config", None)
    text = getattr(config, "get_text_config", None)
    return text() if callable(text) else config


def _whole(config: Any, *names: str) -> int | None:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def prompted(root: Any) -> Prompted:
    """How the model is prompted.

    Raises:
        UsageError: it has no table of tokens, so it is no language model.
    """
    torch = sys.modules["torch"]
    config = getattr(root, "config", None)
    generates = callable(getattr(root, "generate", None)) and hasattr(root, "generation_config")
    tables = [m.num_embeddings for m in root.modules() if isinstance(m, torch.nn.Embedding)]
    vocabulary = _whole(_config(root), "vocab_size")
    rows = vocabulary or max(tables, default=0)
    if tables and rows > max(tables):
        rows = max(tables)
    if not rows:
        raise UsageError(
            f"{type(root).__name__} is no language model: it has no table of tokens (torch.nn.Embedding)"
        )
    own = _whole(_config(root), "max_position_embeddings", "n_positions", "max_seq_len", "block_size")
    limit = next((n for n in tables if own is not None and own <= n <= own + 8 and n != rows), None)
    both = bool(getattr(config, "is_encoder_decoder", False))
    by_ids = getattr(root, "main_input_name", "input_ids") == "input_ids"
    ids = {value for name, value in vars(config).items() if name.endswith("token_id")} if config else set()
    special = frozenset(value for value in ids if isinstance(value, int))
    how = Prompted(generates, both and not by_ids, both and by_ids, rows, special, limit and own, own)
    if vocabulary is None and len(set(tables)) > 1:
        how = how._replace(rows=_rows_read(root, how) or rows)
    return how


def _rows_read(root: Any, how: Prompted) -> int | None:
    """Rows of the table that reads the tokens, by a dry run on a few of them; None: it did not show."""
    args, kwargs = once(root, how, 1, 2)
    try:
        run = run_once(root, args, kwargs, mode="eval", ops=True, dry=True)
    except UnsupportedError:
        return None
    tables = None if run.model is None or run.error is not None else run.model.table_rows(0)
    return None if tables is None else tables[0]


def random_ids(how: Prompted, batch: int, tokens: int, seed: int = SEED) -> Any:
    """Token ids that are drawn from the table; ids with a meaning of their own, as that of an image, are left
    out where there are others."""
    torch = sys.modules["torch"]
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, how.rows, (batch, tokens), generator=draw)
    free = next((n for n in range(how.rows) if n not in how.special), 0)
    for special in how.special:
        ids[ids == special] = free
    return ids


def once(root: Any, how: Prompted, batch: int, tokens: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of one call on a prompt, whose results are of all positions: without a cache. A decoder
    beside an encoder is given one token."""
    ids, wanted = random_ids(how, batch, tokens), takes(root.forward)
    names = () if wanted is None else wanted.parameters
    name = "decoder_input_ids" if how.decoder else next((name for name in NAMES if name in names), None)
    kwargs: dict[str, Any] = {} if name is None else {name: ids}
    if how.encoder:
        kwargs["decoder_input_ids"] = _first(root, root.config, how, batch, 1)
    if "use_cache" in names:
        kwargs["use_cache"] = False
    return (ids,) if name is None else (), kwargs


def config_words(root: Any) -> str:
    """The whole numbers and lists of the configuration of the part that reads text, as "hidden_size=64
    layer_types=full_attention,full_attention"; "": it has none."""
    config = _config(root)
    if config is None:
        return ""
    names = {"layer_types", "layers_block_type"}  # which may be properties
    names |= {*getattr(config, "__dict__", ()), *(getattr(config, "attribute_map", None) or ())}
    texts = ((name, _word(getattr(config, name, None))) for name in sorted(names))
    return " ".join(f"{name}={text}" for name, text in texts if text is not None and name.isidentifier())


def _word(value: Any) -> str | None:
    """A whole number, or a list of numbers or names; None: it is something else."""
    if isinstance(value, int):
        return str(int(value))
    if not isinstance(value, (list, tuple)) or not value:
        return None
    texts = [str(each) for each in value if isinstance(each, (int, str))]
    plain = len(texts) == len(value) and all(text.replace("_", "").isalnum() for text in texts)
    return ",".join(texts) if plain else None


def around(root: Any) -> Any:
    """A module whose forward is given inputs of the language model and makes its calls."""
    torch = sys.modules["torch"]

    class Generating(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = root

        def forward(self, sequences: Sequence[Mapping[str, Any]]) -> None:
            for each in sequences:
                inputs = dict(each)
                new = inputs.pop(NEW)
                if isinstance(new, int):
                    _call(self.model, inputs[IDS], new)
                else:
                    new.generate(self.model, inputs.pop(NEXT), inputs)

    return Generating()


class Config:
    """How ``generate`` is to work: greedily, for so many tokens, whatever they are."""

    def __init__(self, root: Any, new: int) -> None:
        self.config = deepcopy(root.generation_config)
        plain = {"do_sample": False, "num_beams": 1, "use_cache": True}
        plain |= {"max_new_tokens": new, "min_new_tokens": new}
        unset = ["eos_token_id", "pad_token_id", "max_length", "temperature", "top_k", "top_p"]
        unset += ["suppress_tokens", "begin_suppress_tokens", "forced_decoder_ids"]
        for option, value in (plain | dict.fromkeys(unset)).items():
            setattr(self.config, option, value)

    def generate(self, root: Any, token: Any, inputs: Mapping[str, Any]) -> None:
        """Generates. What is unset here would be taken from the model's own settings, which this replaces
        meanwhile. In a dry run no token is chosen: each step is given ``token``, whose id is known, since a
        model may test its ids, for example for padding."""
        own = root.generation_config
        root.generation_config = self.config

        def give(_: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            chosen = {
                name: token
                for name in (IDS, "decoder_input_ids")
                if (ids := kwargs.get(name)) is not None and ids.shape == token.shape and not knows(ids)
            }
            return (args, {**kwargs, **chosen}) if chosen else None

        hook = root.register_forward_pre_hook(give, with_kwargs=True) if running() else None
        try:
            root.generate(**inputs, generation_config=self.config)
        finally:
            root.generation_config = own
            if hook is not None:
                hook.remove()


def inputs_of(
    root: Any, how: Prompted, batch: int, given: Mapping[str, Any], wanted: Sequence[Wanted]
) -> list[dict[str, Any]]:
    """The inputs of each sequence, and what :func:`around` needs. ``given``: further inputs by name; token
    ids among them are the beginning of each prompt."""
    return [_inputs(root, how, batch, given, each) for each in wanted]


def _inputs(root: Any, how: Prompted, batch: int, given: Mapping[str, Any], wanted: Wanted) -> dict[str, Any]:
    name = "decoder_input_ids" if how.decoder else IDS
    if not how.generates:
        return {NEW: wanted.new, IDS: random_ids(how, batch, wanted.prompt + wanted.new - 1)}
    config = Config(root, wanted.new)
    if how.encoder:
        inputs = {IDS: random_ids(how, batch, wanted.prompt), **given}
    else:
        inputs = {**given, **_prompt(how, batch, given, name, wanted.prompt)}
    if wanted.decoder:
        inputs["decoder_input_ids"] = _first(root, config.config, how, batch, wanted.decoder)
    return {**inputs, NEW: config, NEXT: random_ids(how, batch, 1)}


def _first(root: Any, config: Any, how: Prompted, batch: int, tokens: int) -> Any:
    """The ids that the decoder of an encoder begins with."""
    ids = random_ids(how, batch, tokens)
    start = (getattr(each, "decoder_start_token_id", None) for each in (config, root.config))
    ids[:, 0] = next((n for n in start if isinstance(n, int)), 0)
    return ids


def _prompt(how: Prompted, batch: int, given: Mapping[str, Any], name: str, tokens: int) -> dict[str, Any]:
    """The ids of a prompt, which begins with ids that were given; other whole numbers a position, as types
    and masks, go on as they end."""
    torch = sys.modules["torch"]
    first = given.get(name)
    if first is None:
        return {name: random_ids(how, batch, tokens)}
    more = tokens - first.shape[1]  # not a count: how many ids are drawn
    if more <= 0:
        return {name: first}
    out = {name: torch.cat([first, random_ids(how, first.shape[0], more)], 1)}
    for other, value in given.items():
        if other != name and isinstance(value, torch.Tensor) and value.shape == first.shape:
            out[other] = torch.cat([value, value[:, -1:].expand(-1, more)], 1)
    return out


def _call(root: Any, ids: Any, new: int) -> None:
    """The calls of a model without ``generate``: a step is given one token, and the cache that the call
    before it gave; if that gave none, all tokens so far."""
    prompt = ids.shape[1] - new + 1  # not a count: which ids are given
    wanted = takes(root.forward)
    name = next((name for name in NAMES if wanted is not None and name in wanted.parameters), None)

    def call(given: Any, caches: dict[str, Any]) -> Any:
        return root(given, **caches) if name is None else root(**{name: given}, **caches)

    out = call(ids[:, :prompt], {})
    for last in range(prompt + 1, ids.shape[1] + 1):
        caches = caches_of(root, out)
        out = call(ids[:, last - 1 : last] if caches else ids[:, :last], caches)
