# SPDX-License-Identifier: Apache-2.0
"""Language models in tokens: stages, steps, parameters, caches and what fits are held against closed forms of
families of transformers, written out here, and of a model without that library."""

from __future__ import annotations

import copy
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina._base.errors import NeedsValuesError
from lamina._command import cli
from lamina._results import roof as roofs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
from samples import Talker, Zoo
from token_truth import Truth, decode, holds, of_transformers


def attends(queries: int, keys: int, heads: int, width: int) -> int:
    return 2 * queries * keys * heads * width


def dense(
    p: int,
    n: int,
    b: int,
    *,
    d: int,
    inner: int,
    layers: int,
    heads: int,
    kv: int,
    width: int,
    vocab: int,
    gated: bool = True,
    tied: bool = False,
    norms: int = 2,
    extra: int = 0,
    window: int | None = None,
    windows: int = 0,
    last: int = 0,
) -> Truth:
    """A decoder with grouped keys; ``windows`` of its layers see ``window`` tokens. ``extra``: parameters of
    a layer that are no matrices, besides ``norms`` of the width; ``last``: such of the whole model."""
    matrix = d * (heads + 2 * kv) * width + heads * width * d + d * inner * (3 if gated else 2)
    whole = layers * matrix + d * vocab

    def work(tokens: int, seen: list[int], capped: list[int]) -> int:
        scores = sum((layers - windows) * k for k in seen) + sum(windows * k for k in capped)
        return b * (tokens * layers * matrix + d * vocab + 2 * heads * width * scores)

    def at(key: int) -> int:
        return min(key, window) if window else key

    prefill = work(p, [p] * p, [p] * p)
    visible = work(p, list(range(1, p + 1)), [at(k) for k in range(1, p + 1)])
    steps = [work(1, [k], [at(k)]) for k in range(p + 1, p + n)]
    small = layers * (norms * d + extra) + last
    total = whole + small + (0 if tied else d * vocab)
    token = 2 * kv * width * 4
    pieces: list[tuple[int, int | None]] = []
    if windows and window:
        pieces.append((windows * token, window - 1))
    if layers > windows:
        pieces.append(((layers - windows) * token, None))
    rows = 0 if tied else b * d
    reads = [4 * (whole + small + rows)] * (n - 1)
    return Truth(prefill, steps, prefill - visible, total, total, whole, pieces, weights=reads)


def llama() -> Any:
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
    return ("Llama", config), {
        "d": 32,
        "inner": 48,
        "layers": 2,
        "heads": 4,
        "kv": 2,
        "width": 8,
        "vocab": 60,
        "last": 32,
    }


def qwen3() -> Any:
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config |= {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "tie_word_embeddings": True,
    }
    return ("Qwen3", config), {
        "d": 32,
        "inner": 48,
        "layers": 2,
        "heads": 4,
        "kv": 2,
        "width": 16,
        "vocab": 60,
        "tied": True,
        "extra": 32,
        "last": 32,
    }


def gpt_neox() -> Any:
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "tie_word_embeddings": False}
    return ("GPTNeoX", config), {
        "d": 32,
        "inner": 64,
        "layers": 2,
        "heads": 4,
        "kv": 4,
        "width": 8,
        "vocab": 60,
        "gated": False,
        "norms": 4,
        "extra": 5 * 32 + 64,
        "last": 64,
    }


def falcon() -> Any:
    config = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {"multi_query": True, "new_decoder_architecture": False, "parallel_attn": True, "bias": False}
    config |= {"alibi": False, "bos_token_id": 1, "eos_token_id": 2}
    return ("Falcon", config), {
        "d": 32,
        "inner": 128,
        "layers": 2,
        "heads": 4,
        "kv": 1,
        "width": 8,
        "vocab": 60,
        "gated": False,
        "tied": True,
        "last": 64,
    }


def gemma3() -> Any:
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 9}
    config |= {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}
    return ("Gemma3", config), {
        "d": 32,
        "inner": 48,
        "layers": 3,
        "heads": 4,
        "kv": 2,
        "width": 8,
        "vocab": 60,
        "tied": True,
        "norms": 4,
        "extra": 16,
        "last": 32,
        "window": 9,
        "windows": 2,
    }


DENSE = {"llama": llama, "qwen3": qwen3, "gpt_neox": gpt_neox, "falcon": falcon, "gemma3": gemma3}


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", DENSE)
def test_dense_families_are_as_their_dimensions_say(family, attention, dry):
    (name, config), sizes = DENSE[family]()
    truth = dense(14, 8, 2, **sizes)
    t = lamina.tokens(of_transformers(name, config, attention), prompt=14, new=8, batch=2, dry=dry)
    holds(t, truth)
    for seen in (t.prefill.effective_macs, t.prefill.model_macs):
        assert (int(seen), seen.state) == (truth.prefill - truth.hidden, "exact")
    assert (int(t.decode.model_macs), t.decode.model_macs.state) == (sum(truth.steps), "exact")
    assert t.prefill.macs.a_token == truth.prefill / 28
    assert t.decode.tokens == 14


def test_a_window_that_fills_while_decoding_has_every_step_run():
    (name, config), sizes = gemma3()
    t = lamina.tokens(of_transformers(name, config), prompt=3, new=14, batch=1, dry=True)
    assert [int(step.macs) for step in decode(t)] == dense(3, 14, 1, **sizes).steps
    assert all(step.call is not None for step in t.steps)


def test_steps_between_are_those_that_every_step_has():
    (name, config), sizes = llama()
    t = lamina.tokens(of_transformers(name, config), prompt=5, new=40, dry=True)
    assert sum(step.call is not None for step in decode(t)) == 4
    assert [int(step.macs) for step in decode(t)] == dense(5, 40, 1, **sizes).steps
    assert [step.keys for step in decode(t)] == list(range(6, 45))


def mixtral(**more: Any) -> nn.Module:
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 24, "num_hidden_layers": 2}
    config |= {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 6,
        "sliding_window": None,
    }
    return of_transformers("Mixtral", {**config, "num_experts_per_tok": 2, **more})


ONE_EXPERT = 3 * 32 * 24
ATTENDS = 2 * (32 * (4 + 4) * 8 + 32 * 32)


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
def test_routed_experts_count_as_they_are_routed(dry):
    t = lamina.tokens(mixtral(), prompt=9, new=4, batch=1, dry=dry)
    matrix = ATTENDS + 2 * (32 * 6 + 2 * ONE_EXPERT) + 32 * 60
    assert (t.params.experts, t.params.routed, t.params.layers) == (6, 2, 2)
    assert t.params.active_matrix == matrix
    assert t.params.active == matrix + 32 * 60 + 5 * 32
    assert t.params.total == t.params.active + 2 * 4 * ONE_EXPERT
    assert [int(step.weights) for step in decode(t)] == [4 * (matrix + 32 + 5 * 32)] * 3
    assert [int(step.macs) for step in decode(t)] == [matrix + 2 * 2 * 32 * key for key in (10, 11, 12)]


def test_which_experts_are_hit_is_a_range_in_a_dry_run():
    t = lamina.tokens(mixtral(), prompt=9, new=4, batch=2, dry=True)
    real = lamina.tokens(mixtral(), prompt=9, new=4, batch=2)
    for step, ran in zip(decode(t), decode(real), strict=True):
        assert step.weights.state == "at least"
        assert step.weights_most - step.weights == 2 * 2 * ONE_EXPERT * 4
        assert ran.weights.state == "exact"
        assert step.weights <= ran.weights <= step.weights_most
        assert step.experts == (2, 4)


def test_a_latent_cache_that_each_step_expands_is_named():
    config = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 40, "moe_intermediate_size": 16}
    config |= {
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
    }
    config |= {"num_experts_per_tok": 2, "kv_lora_rank": 16, "q_lora_rank": 12, "qk_rope_head_dim": 4}
    config |= {
        "qk_nope_head_dim": 6,
        "v_head_dim": 5,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
    }
    t = lamina.tokens(of_transformers("DeepseekV3", config), prompt=9, new=4)
    assert [(piece.bytes_a_token, piece.until) for piece in t.cache.pieces] == [(2 * 20 * 4, None)]
    assert [(wide.rows, wide.tokens, wide.layers) for wide in t.wide] == [(12, 1, 2)]
    assert t.wide[0].path.endswith("kv_b_proj")
    assert t.wide[0].macs == 2 * 12 * 16 * 4 * 11
    assert t.decode.model_macs.state == "unknown"
    assert "more rows" in t.decode.why_model
    assert "more rows" in str(t)


def test_a_state_space_keeps_a_fixed_state():
    config = {
        "vocab_size": 60,
        "hidden_size": 16,
        "num_heads": 4,
        "head_dim": 8,
        "state_size": 8,
        "n_groups": 2,
    }
    config |= {"conv_kernel": 4, "chunk_size": 8, "num_hidden_layers": 2, "expand": 2}
    t = lamina.tokens(of_transformers("Mamba2", config, "eager"), prompt=9, new=4)
    state = 2 * (4 * 8 * 8 + (32 + 2 * 2 * 8) * 4) * 4
    assert (t.cache.kind, t.cache.fixed, t.cache.pieces) == ("fixed", state, [])
    assert t.cache.at(100_000) == t.cache.at(1) == state
    assert t.decode.model_macs.state == "unknown"
    assert t.decode.why_model is not None
    assert t.decode.macs.state == "exact"


def test_the_prompt_of_an_encoder_and_a_decoder_is_the_encoders():
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=60,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    inner, mlp = 4 * 32 * 32, 2 * 32 * 48
    encoder = 2 * (11 * (inner + mlp) + 2 * 11 * 11 * 32)
    crossed = 2 * 11 * 2 * 32 * 32
    step = [2 * (inner + 2 * 32 * 32 + mlp + 2 * k * 32 + 2 * 11 * 32) + 32 * 60 for k in (1, 2, 3)]
    for dry in (False, True):
        t = lamina.tokens(model, prompt=11, new=3, dry=dry)
        assert t.prefill.macs == encoder + crossed + step[0]
        assert [int(each.macs) for each in decode(t)] == step[1:]
        assert (t.prefill.tokens, t.decode.tokens) == (11, 2)
        assert [(piece.bytes_a_token, piece.until) for piece in t.cache.pieces] == [(2 * 2 * 32 * 4, None)]
        assert t.cache.fixed == 2 * 2 * 32 * 11 * 4


def test_a_table_of_positions_is_read_once_for_the_batch():
    config = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
    t = lamina.tokens(of_transformers("GPT2", config), prompt=9, new=3, batch=3)
    layer = 12 * 32 * 32 + 13 * 32
    assert [int(step.weights) for step in decode(t)] == [4 * (2 * layer + 2 * 32 + 60 * 32 + 32)] * 2
    with pytest.raises(
        ValueError, match=r"has positions for 40 tokens, and a prompt of 39 and 3 new ones need 41"
    ):
        lamina.tokens(of_transformers("GPT2", config), prompt=39, new=3)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_model_that_tests_its_ids_for_padding_is_followed(attention):
    config = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
    plain = lamina.tokens(of_transformers("GPT2", config, attention), prompt=9, new=8, batch=2, dry=True)
    model = of_transformers("GPT2", {**config, "pad_token_id": 7}, attention)
    t = lamina.tokens(model, prompt=9, new=8, batch=2, dry=True)
    assert [step.macs for step in t.steps] == [step.macs for step in plain.steps]
    assert [step.weights for step in t.steps] == [step.weights for step in plain.steps]
    assert model.config.pad_token_id == 7
    assert not model._forward_pre_hooks


class Rows(nn.Module):
    """Token ``i`` also looks up a row of ``kinds``, all of them the first; positions are looked up by one
    index for the batch, or by one for each sequence."""

    def __init__(self, each, positions=30):
        super().__init__()
        self.each = each
        self.table, self.places, self.kinds = (nn.Embedding(n, 8) for n in (50, positions, 2))
        self.head = nn.Linear(8, 50, bias=False)

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        places = places.expand_as(ids) if self.each else places
        x = self.table(ids) + self.places(places) + self.kinds(torch.zeros_like(ids))
        return self.head(x)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("positions", [30, 70])  # fewer and more than tokens
@pytest.mark.parametrize("dry", [False, True])
def test_rows_that_may_repeat_are_a_lower_bound(each, positions, dry):
    t = lamina.tokens(Rows(each, positions), prompt=9, new=2, batch=2, dry=dry)
    for step, tokens in zip(t.steps, (9, 10), strict=True):
        assert (int(step.weights), step.weights.state) == (
            4 * 8 * (50 + 2 * tokens + tokens + 1),
            "at least",
        )


def test_a_real_generate_is_prefill_and_steps():
    (name, config), sizes = llama()
    model, truth = of_transformers(name, config), dense(7, 5, 2, **sizes)
    with lamina.capture(model) as cap, torch.no_grad():
        ids = torch.randint(3, 60, (2, 7))
        model.generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    t = cap.report().tokens
    assert (t.prompt, t.new, t.batch, t.prefill.tokens, t.decode.tokens) == (7, 5, 2, 14, 8)
    assert t.prefill.macs == truth.prefill
    assert [int(step.macs) for step in decode(t)] == truth.steps
    assert [step.keys for step in t.steps] == [7, 8, 9, 10, 11]
    assert t.cache.at(11) == 11 * 2 * 2 * 2 * 8 * 4
    assert t.cache.at(12).state == "unknown"
    assert t.context(10**9) is None


def test_a_prompt_in_chunks_is_prefill():
    model = Talker(window=False)
    with lamina.capture(model) as cap, torch.no_grad():
        out = model(torch.zeros(1, 6, dtype=torch.long))
        for tokens in (6, 3, 1, 1):
            out = model(torch.zeros(1, tokens, dtype=torch.long), cache=out["cache"])
    t = cap.report().tokens
    assert [(step.stage, step.new) for step in t.steps] == [
        ("prefill", 6),
        ("prefill", 6),
        ("prefill", 3),
        ("decode", 1),
        ("decode", 1),
    ]
    assert (t.prefill.tokens, t.prompt, t.decode.tokens) == (15, 15, 2)


@pytest.mark.parametrize("fixed", [False, True], ids=["dynamic", "static"])
def test_a_prompt_that_generate_gives_in_two_chunks_is_prefill(fixed):
    (name, config), sizes = llama()
    model, ids = of_transformers(name, config, "eager"), torch.arange(3, 17).view(1, 14)
    how = {"prefill_chunk_size": 9, "cache_implementation": "static" if fixed else "dynamic"}
    with lamina.capture(model) as cap, torch.no_grad():
        model.generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False, **how)
    t = cap.report().tokens
    assert [(step.stage, step.new, step.keys) for step in t.steps[:3]] == [
        ("prefill", 9, 9),
        ("prefill", 5, 14),
        ("decode", 1, 15),
    ]
    assert (t.prompt, t.prefill.tokens, t.decode.calls) == (14, 14, 4)
    room = 18 if fixed else None  # of the cache that all of it multiplies
    scores = 9 * (room or 9) + 5 * (room or 14)
    once = dense(14, 5, 1, **sizes).prefill - 2 * 2 * 32 * 14 * 14
    assert t.prefill.macs == once + 2 * 2 * 32 * scores + 32 * 60  # each chunk has logits of its last token


class Kept(nn.Module):
    """Keys and values that the model keeps: in buffers of a fixed size, or as attributes that grow."""

    def __init__(self, buffers):
        super().__init__()
        self.table, self.mix, self.head = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 50)
        self.buffers_too = buffers
        self.keys = None
        if buffers:
            self.register_buffer("room", torch.zeros(1, 30, 8), persistent=False)

    def forward(self, ids, positions):
        x = self.table(ids)
        made = self.mix(x)
        if self.buffers_too:
            self.room[:, positions] = made
            seen = self.room
        else:
            seen = self.keys = made if self.keys is None else torch.cat([self.keys, made], 1)
        return self.head(torch.softmax(x @ seen.mT, -1) @ seen)


def kept(buffers: bool, *calls: int) -> lamina.Tokens:
    model, at = Kept(buffers), 0
    with lamina.capture(model) as cap, torch.no_grad():
        for tokens in calls:
            model(ids(tokens), torch.arange(at, at + tokens))
            at += tokens
    told = cap.report().tokens
    assert told is not None
    return told


def test_a_cache_in_buffers_is_found():
    t = kept(True, 6, 1, 1, 1)
    assert [(step.stage, step.new, step.keys) for step in t.steps] == [
        ("prefill", 6, 6),
        ("decode", 1, 7),
        ("decode", 1, 8),
        ("decode", 1, 9),
    ]
    assert (t.cache.kind, t.cache.fixed, t.cache.gap) == ("fixed", 30 * 8 * 4, None)
    assert [int(step.held) for step in t.steps] == [30 * 8 * 4] * 4
    assert (t.prompt, t.prefill.tokens, t.decode.tokens) == (6, 6, 3)
    assert t.params.active == 50 * 8 + 8 * 9 + 50 * 9


def test_a_cache_that_a_model_keeps_otherwise_is_said():
    t = kept(False, 6, 1, 1)
    assert [(step.stage, step.keys) for step in t.steps] == [("prefill", 6), ("decode", 7), ("decode", 8)]
    assert (t.cache.kind, t.decode.cache.state) == (None, "unknown")
    assert "not seen: the model keeps it in tensors that are no buffers, and returns none" in squeezed(t)


def squeezed(t: Any) -> str:
    return " ".join(str(t).split())


# -- against a device's peak ---------------------------------------------------------------------------------


class Wide(nn.Module):
    """A language model with a cache of eight numbers a token beside large matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 256), nn.Linear(256, 50)
        self.up, self.small, self.out = nn.Linear(256, 512), nn.Linear(256, 8), nn.Linear(512, 256)

    def forward(self, ids: torch.Tensor, cache: Any = None) -> dict[str, Any]:
        x = self.table(ids)
        kept = self.small(x) if cache is None else torch.cat([cache, self.small(x)], 1)
        x = self.out(self.up(x)) + kept.sum((1, 2), keepdim=True)
        return {"logits": self.head(x[:, -1:]), "cache": kept}


H100 = {"flops": 67e12, "bytes": 3.35e12}  # of float32, without TF32


def test_a_stage_takes_at_least_the_longer_of_computing_and_reading():
    t = lamina.tokens(Talker(), prompt=10, new=9, batch=2, dry=True)
    b = t.bound("h100-sxm")
    assert (b.peak, b.dtype, b.flops, b.bytes) == ("h100-sxm", "float32", H100["flops"], H100["bytes"])
    for stage, limit in ((t.prefill, b.prefill), (t.decode, b.decode)):
        compute = 2 * int(stage.effective_macs) / H100["flops"] * 1e9
        memory = (int(stage.weights) + int(stage.cache)) / H100["bytes"] * 1e9
        assert limit.compute == pytest.approx(compute)
        assert limit.memory == pytest.approx(memory)
        assert limit.least == pytest.approx(max(compute, memory))
        assert limit.bound == ("compute" if compute > memory else "memory")
        assert (limit.time, limit.mfu, limit.mbu) == (None, None, None)


def test_a_long_prompt_is_bound_by_compute():
    b = lamina.tokens(Talker(), prompt=1024, new=3, dry=True).bound("h100-sxm")
    assert (b.prefill.bound, b.decode.bound) == ("compute", "memory")


def test_from_the_critical_batch_on_a_step_is_bound_by_compute():
    least = lamina.tokens(Wide(), prompt=1, new=2, dry=True).bound("h100-sxm").critical_batch
    assert least is not None
    assert least > 2
    at = [lamina.tokens(Wide(), 1, 2, n, dry=True).bound("h100-sxm") for n in (least - 2, least + 2)]
    assert [b.decode.bound for b in at] == ["memory", "compute"]
    assert all(least - 1 <= b.critical_batch <= least + 1 for b in at)


def test_where_a_cache_is_read_for_longer_than_it_is_computed_with_memory_binds_every_batch():
    b = lamina.tokens(Talker(), prompt=1024, new=3, dry=True).bound("h100-sxm")
    assert (b.critical_batch, b.always_memory, b.keys) == (None, True, 1026)
    many = lamina.tokens(Talker(), prompt=1024, new=3, batch=512, dry=True).bound("h100-sxm")
    assert many.decode.bound == "memory"


def test_shares_of_the_peak_follow_from_the_time():
    b = lamina.tokens(Talker(), prompt=10, new=3, time=True).bound("h100-sxm")
    for limit in (b.prefill, b.decode):
        assert limit.time is not None
        assert limit.mfu == pytest.approx(limit.compute / limit.time)
        assert limit.mbu == pytest.approx(limit.memory / limit.time)


def test_the_calls_of_a_timed_capture_have_their_own_times():
    model = Talker()
    with lamina.capture(model, time=True) as cap, torch.no_grad():
        out = model(torch.zeros(1, 300, dtype=torch.long))
        for _ in range(3):
            out = model(torch.zeros(1, 1, dtype=torch.long), cache=out["cache"])
    report = cap.report()
    b = report.tokens.bound("h100-sxm")
    assert b.prefill.time is not None
    assert b.decode.time is not None
    calls = [row.time.forward.total for row in report.rows if row.path == "" and row.time is not None]
    assert len(calls) == 4
    assert (b.prefill.time, b.decode.time) == (calls[0], sum(calls[1:]))


def test_a_peak_is_of_a_type_and_dense():
    t = lamina.tokens(Talker(), prompt=4, new=2, dry=True, dtype=torch.bfloat16)
    assert t.bound("h100-sxm").flops == 989e12
    assert t.bound("h100-sxm:float8_e4m3fn").flops == 1979e12
    assert t.bound("h200-sxm:float32").bytes == 4.8e12
    assert t.bound("a100-80gb-sxm").dtype == "bfloat16"


def test_a_peak_that_is_not_known_is_one_sentence():
    t = lamina.tokens(Talker(), prompt=4, new=2, dry=True, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"no peak 'h100'; there are: a100-40gb, .*v100-sxm2, measured"):
        t.bound("h100")
    with pytest.raises(
        ValueError, match=r"no peak of t4 is known for bfloat16; known are those for float16, "
    ):
        t.bound("t4")
    with pytest.raises(ValueError, match="no peak of t4 is known for "):
        t.bound("t4:")
    with pytest.raises(ValueError, match="a dry run computes nothing, so there is no time to tell"):
        lamina.tokens(Talker(), dry=True, time=True)


# -- what the user says of calls -----------------------------------------------------------------------------


def ids(tokens: int) -> torch.Tensor:
    return torch.zeros(1, tokens, dtype=torch.long)


def seen(cap: Any) -> list[tuple[str, int | None, int | None]]:
    return [(step.stage, step.new, step.keys) for step in cap.report().tokens.steps]


def test_a_stage_says_what_calls_are():
    model = Talker(window=False)
    with lamina.capture(model) as cap, torch.no_grad():
        with lamina.stage("prefill"):
            out = model(ids(6))
            out = model(ids(2), cache=out["cache"])
        with lamina.stage("decode"):
            out = model(ids(6), cache=out["cache"])
        out = model(ids(1), cache=out["cache"])
    assert seen(cap) == [("prefill", 6, 6), ("prefill", 2, 8), ("decode", 6, 14), ("decode", 1, 15)]
    t = cap.report().tokens
    assert (t.prompt, t.prefill.tokens, t.decode.tokens) == (8, 8, 7)
    assert [int(step.cache) for step in t.steps] == [0, 8 * 1024, 14 * 1024, 15 * 1024]


def test_without_a_stage_calls_of_the_first_length_are_the_prompts():
    model = Talker(window=False)
    with lamina.capture(model) as cap, torch.no_grad():
        out = model(ids(6))
        model(ids(6), cache=out["cache"])
    assert [stage for stage, _, _ in seen(cap)] == ["prefill", "prefill"]


def test_the_innermost_stage_holds():
    model = Talker(window=False)
    with lamina.stage("prefill"), lamina.capture(model) as cap, torch.no_grad():
        out = model(ids(4))
        with lamina.stage("decode"):
            out = model(ids(4), cache=out["cache"])
            with lamina.stage("prefill"), lamina.stage("prefill"):
                out = model(ids(1), cache=out["cache"])
            out = model(ids(1), cache=out["cache"])
        model(ids(1), cache=out["cache"])
    steps = sorted(cap.report().tokens.steps, key=lambda step: step.call)
    assert [step.stage for step in steps] == ["prefill", "decode", "prefill", "decode", "prefill"]
    assert [step.step for step in steps] == [0, 4, 0, 6, 0]
    assert cap.report().tokens.prompt == 4


def test_a_stage_ends_with_its_block_also_if_it_raises():
    model = Talker(window=False)
    with lamina.capture(model) as cap, torch.no_grad():
        with pytest.raises(RuntimeError), lamina.stage("decode"):
            raise RuntimeError
        model(ids(3))
    assert seen(cap) == [("prefill", 3, 3)]
    assert "stages" not in cap.report().provenance


def test_a_stage_holds_for_each_open_capture_of_its_thread():
    model, other = Talker(window=False), Talker(window=False)
    with lamina.capture(model) as outer, torch.no_grad():
        model(ids(3))
        with lamina.stage("decode"):
            with lamina.capture(other) as inner:
                other(ids(2))
            thread = threading.Thread(target=lambda: lamina.stage("prefill").__enter__())
            thread.start()
            thread.join()
            model(ids(1))
    assert [stage for stage, _, _ in seen(outer)] == ["prefill", "decode"]
    assert [stage for stage, _, _ in seen(inner)] == ["decode"]
    assert inner.report().provenance["stages"] == "0 decode"


def test_steps_whose_prompt_was_not_captured_see_unknown_tokens():
    model = Talker(window=False)
    with torch.no_grad():
        out = model(ids(5))
        with lamina.capture(model) as cap, lamina.stage("decode"):
            out = model(ids(1), cache=out["cache"])
            model(ids(1), cache=out["cache"])
    assert seen(cap) == [("decode", 1, None), ("decode", 1, None)]
    t = cap.report().tokens
    assert (t.prompt, t.new, t.decode.tokens, t.cache.kind, t.cache.fixed) == (None, 2, 2, None, None)
    assert t.cache.gap == "how many tokens its calls see is not known"
    assert t.decode.cache.state == "unknown"
    assert [int(step.held) for step in t.steps] == [6 * 1024, 7 * 1024]
    assert "how it grows is not known: how many tokens its calls see is not known" in squeezed(t)


def test_a_step_that_is_given_all_tokens_again_has_one_new_token():
    model = Talker(window=False)
    with lamina.capture(model) as cap, torch.no_grad():
        model(ids(5))
        with lamina.stage("decode"):
            model(ids(6))
            model(ids(7))
    assert seen(cap) == [("prefill", 5, 5), ("decode", 1, 6), ("decode", 1, 7)]


def test_how_many_of_many_given_tokens_are_new_is_not_known_without_a_cache():
    model = Talker(window=False)
    with lamina.capture(model) as cap, torch.no_grad():
        model(ids(5))
        with lamina.stage("decode"):
            model(ids(9))
    assert seen(cap) == [("prefill", 5, 5), ("decode", None, None)]
    assert cap.report().tokens.decode.macs.a_token is None


def test_a_saved_report_has_its_stages(tmp_path):
    model = Talker(window=False)
    with lamina.stage("decode"), lamina.capture(model) as cap, torch.no_grad():
        model(ids(2))
    cap.report().to_json(tmp_path / "run.json")
    assert lamina.read(tmp_path / "run.json").provenance["stages"] == "0 decode"


def test_a_stage_has_one_of_two_names():
    with pytest.raises(ValueError, match=r"^there is no stage 'Prefill'; use 'prefill' or 'decode'$"):
        lamina.stage("Prefill")
    with pytest.raises(TypeError, match=r"^a stage is a str, 'prefill' or 'decode', not int$"):
        lamina.stage(1)
    with lamina.stage("decode") as entered:
        Talker()(ids(2))
    assert repr(entered) == "lamina.stage('decode')"


def test_a_run_of_no_language_model_has_no_tokens():
    with lamina.capture(nn.Linear(2, 2)) as cap:
        cap._root(torch.rand(1, 2))
    assert cap.report().tokens is None
    assert lamina.inspect(Talker(), torch.zeros(1, 4, dtype=torch.long), ops=False).tokens is None


# -- a model of one's own ------------------------------------------------------------------------------------

LAYER = 4 * 64 * 64 + 2 * 64 * 64


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
def test_a_model_without_generate_is_given_what_it_returns(dry):
    t = lamina.tokens(Talker(), prompt=10, new=9, batch=2, dry=dry)
    assert t.prefill.macs == 2 * (10 * 2 * LAYER + 64 * 100 + 2 * 2 * 64 * 10 * 10)
    assert t.prefill.effective_macs == 2 * (10 * 2 * LAYER + 64 * 100 + 2 * 2 * 64 * 55)
    assert t.prefill.model_macs == t.prefill.effective_macs
    steps = [2 * (2 * LAYER + 64 * 100 + 2 * 2 * 64 * key) for key in range(11, 19)]
    assert [int(step.macs) for step in decode(t)] == steps
    assert t.decode.macs.a_token == sum(steps) / 16
    assert [(piece.bytes_a_token, piece.until, piece.tensors) for piece in t.cache.pieces] == [
        (1024, None, 4)
    ]
    assert [int(step.held) for step in decode(t)] == [1024 * key for key in range(11, 19)]
    assert [int(step.cache) for step in decode(t)] == [2 * 1024 * key for key in range(11, 19)]


def test_a_cache_is_pieces_with_caps():
    t = lamina.tokens(Talker(window=True), prompt=20, new=4, dry=True)
    assert [(piece.bytes_a_token, piece.until) for piece in t.cache.pieces] == [(512, 7), (512, None)]
    assert [t.cache.at(n) for n in (1, 7, 8, 1000)] == [1024, 7 * 1024, 7 * 1024 + 512, 7 * 512 + 512_000]
    assert t.cache.at(8, batch=3) == 3 * t.cache.at(8)


def test_what_fits_is_what_is_left_by_the_weights():
    t = lamina.tokens(Talker(), prompt=20, new=4, dry=True)
    weights = t.params.total * 4
    assert t.weights == weights
    assert t.context(weights + 1024 * 50 + 1023) == 50
    assert t.context(weights + 1024 * 50, batch=5) == 10
    assert t.batch_in(weights + 1024 * 50, 7) == 7
    assert t.context(weights - 1) == 0
    assert t.batch_in(weights - 1, 7) == 0


def test_a_measured_peak_is_of_the_models_type_and_told_as_what_it_is(monkeypatch, tmp_path):
    asked = []

    def measured(threads: int, dtype: str, device: torch.device) -> lamina.Roof:
        asked.append((dtype, str(device)))
        return lamina.Roof(2e12, 1e11, threads, dtype, str(device))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(roofs, "_measure", measured)
    t = lamina.tokens(Talker().to(torch.bfloat16), prompt=9, new=3, time=True)
    b = t.bound("measured")
    assert (b.peak, b.dtype, b.flops, b.bytes) == ("measured", "bfloat16", 2e12, 1e11)
    assert b.source == "torch.mm and a copy, on this machine's processor"
    assert b.decode.mbu == pytest.approx(b.decode.memory / b.decode.time)
    assert t.bound("measured:float32").dtype == "float32"
    assert asked == [("bfloat16", "cpu"), ("float32", "cpu")]
    with pytest.raises(
        ValueError, match="measured: 'float9' is no floating-point type, as float32 or bfloat16"
    ):
        t.bound("measured:float9")
    with pytest.raises(ValueError, match="there is no peak 'Measured'"):
        t.bound("Measured")


def test_the_command_measures_a_peak(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(roofs, "_measure", lambda threads, dtype, _: lamina.Roof(2e12, 1e11, threads, dtype))
    monkeypatch.chdir(Path(__file__).resolve().parents[1] / "golden")
    given = ["tokens", "samples:Talker", "--prompt", "9", "--new", "3", "--peak", "measured"]
    assert cli.main([*given, "--time", "--repeats", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "peak measured: 2 TFLOP/s of float32, dense, and 0.1 TB/s (torch.mm and a copy, on this" in said
    assert "MFU" in said
    assert "MBU" in said
    assert cli.main([*given, "--dry", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bound"]["peak"] == "measured"
    assert cli.main([*given[:-1], "measured:int8", "--dry"]) == 2
    assert capsys.readouterr().err == (
        "lamina: error: peak: measured: 'int8' is no floating-point type, as float32 or bfloat16\n"
    )


def test_padding_of_a_model_without_attention_is_not_known():
    config = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
    model = of_transformers("Mamba", {**config, "state_size": 8, "time_step_rank": 4}, "eager")
    assert padded(model, [9, 4]).prefill.pads is None
    assert padded(model, [9]).prefill.pads == 0


# -- batches that read more experts --------------------------------------------------------------------------


def least_batch(own: float, fixed: float, routed: float, most: float, speed: float) -> int:
    """By trying: the least batch that computes longer than it reads."""
    return next(n for n in range(1, 10**6) if n * own >= (fixed + min(n * routed, most)) / speed)


def test_the_critical_batch_of_routed_experts_is_a_range():
    t = lamina.tokens(mixtral(hidden_size=256, intermediate_size=512), prompt=2, new=3)
    b = t.bound("h100-sxm")
    step, expert = t.steps[-1], 4 * 3 * 256 * 512
    routed, every = 2 * 2 * expert, 2 * 6 * expert  # two of six, in two layers
    fixed = int(step.weights) - routed
    own = 2 * int(step.effective_macs) / b.flops - int(step.cache) / b.bytes
    assert b.critical_batch == least_batch(own, fixed + routed, 0, 0, b.bytes)
    assert b.critical_batch_most == least_batch(own, fixed, routed, every, b.bytes)
    assert b.critical_batch < b.critical_batch_most
    assert (b.why_critical, b.always_memory, b.decode.exact_bytes) == (None, False, True)
    few = lamina.tokens(mixtral(), prompt=9, new=4).bound("h100-sxm")
    assert (few.critical_batch, few.critical_batch_most, few.always_memory) == (None, None, True)


def test_what_binds_a_step_may_depend_on_the_experts_that_are_hit():
    dry = lamina.tokens(mixtral(), prompt=9, new=3, batch=4, dry=True).bound("h100-sxm").decode
    real = lamina.tokens(mixtral(), prompt=9, new=3, batch=4).bound("h100-sxm").decode
    assert dry.memory <= real.memory <= dry.memory_most
    assert real.memory == real.memory_most
    assert dry.memory < dry.memory_most


class Chooses(nn.Module):
    """A language model without a cache, with experts that are layers of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(20, 8), nn.Linear(8, 20)
        self.router = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        best = self.router(x.flatten(0, 1)).topk(1).indices.flatten()
        return self.head(self.experts[int(best[-1])](x))


def test_experts_that_are_no_stack_leave_the_critical_batch_unknown():
    t = lamina.tokens(Chooses(), prompt=5, new=3)
    b = t.bound("h100-sxm")
    assert (b.critical_batch, b.critical_batch_most) == (None, None)
    assert b.why_critical.startswith("a router chooses among parameters that are read one by one")
    assert lamina.tokens(Talker(), prompt=5, new=1).bound("l4").why_critical == "no decode step ran"


# -- the memory in which a cache lies ------------------------------------------------------------------------


def storage(model: nn.Module, ids: torch.Tensor, calls: int) -> tuple[lamina.Tokens, int]:
    """The tokens of calls that pass their cache on, and bytes of the memory that holds the last one."""
    kept: dict[int, int] = {}
    with lamina.capture(model) as cap, torch.no_grad():
        out = model(ids)
        for _ in range(calls):
            out = model(ids[:, :1], out["cache"])
    for pair in out["cache"]:
        for each in pair:
            kept[each.untyped_storage().data_ptr()] = each.untyped_storage().nbytes()
    told = cap.report().tokens
    assert told is not None
    return told, sum(kept.values())


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_storage_is_the_memory_that_a_real_cache_lies_in(batch, window):
    t, bytes_ = storage(Talker(window=window), torch.zeros(batch, 20, dtype=torch.long), 2)
    assert (t.cache.storage, t.cache.storage.state) == (bytes_ // batch, "exact")
    assert t.cache.storage >= t.cache.held
    assert (
        lamina.tokens(Talker(), prompt=4, new=1).cache.storage.state == "unknown"
    )  # no step shows what is kept
    told = json.loads(t.to_json())["cache"]
    assert told["storage"]["value"] == bytes_ // batch


def test_storage_of_a_static_cache_is_all_that_it_may_hold():
    model = of_transformers("Llama", {**llama()[0][1], "max_position_embeddings": 64})
    how = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False, "cache_implementation": "static"}
    with lamina.capture(model) as cap, torch.no_grad():
        model.generate(torch.randint(1, 60, (2, 6)), pad_token_id=0, **how)
    t = cap.report().tokens
    assert (t.cache.kind, t.cache.storage.state) == ("fixed", "exact")
    assert (
        t.cache.storage == t.cache.held >= 2 * 2 * 2 * 8 * 4 * 8
    )  # layers, keys and values, heads; 8 tokens


def test_storage_of_a_window_is_that_of_the_keys_it_was_cut_from():
    config = {**llama()[0][1], "sliding_window": 9}
    t = lamina.tokens(of_transformers("Mistral", config), prompt=20, new=3, batch=2)
    token = 2 * 2 * 2 * 8 * 4
    assert (t.cache.held, t.cache.storage) == (8 * token, 9 * token)
    assert "2.00 KiB at 22 tokens in memory of 2.25 KiB" in squeezed(t)


# -- padding -------------------------------------------------------------------------------------------------


def padded(model: nn.Module, lengths: list[int], new: int = 4) -> lamina.Tokens:
    """A captured ``generate`` of prompts of several lengths, the shorter ones filled up on the left."""
    most = max(lengths)
    ids = torch.randint(1, 60, (len(lengths), most))
    mask = torch.tensor([[0] * (most - n) + [1] * n for n in lengths])
    with lamina.capture(model) as cap, torch.no_grad():
        model.generate(ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=False,
                       pad_token_id=0)  # fmt: skip
    told = cap.report().tokens
    assert told is not None
    return told


GPT2 = {"vocab_size": 60, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", ["GPT2", "Llama"])
def test_padding_costs_and_is_no_token(family, attention):
    config = GPT2 if family == "GPT2" else llama()[0][1]
    model = of_transformers(family, config, attention)
    t = padded(model, [9, 4, 6])
    alone = [padded(model, [n]) for n in (9, 4, 6)]
    assert (t.prefill.pads, t.prefill.tokens, t.prompt) == (8, 19, 9)
    assert (t.decode.pads, t.decode.tokens) == (0, 9)
    assert [each.prefill.pads for each in alone] == [0, 0, 0]
    full = padded(model, [9, 9, 9])
    assert (full.prefill.pads, full.prefill.tokens) == (0, 27)
    assert t.prefill.macs == full.prefill.macs  # padding is multiplied as tokens are
    matrix = int(t.params.active_matrix) - 60 * 32  # without the head, of which one position gets logits
    assert t.prefill.model_macs.state == "exact"
    assert t.prefill.effective_macs - t.prefill.model_macs in (8 * matrix, 8 * matrix + 8 * 4)  # and RoPE
    needed = sum(int(each.prefill.model_macs) for each in alone)
    assert (
        abs(int(t.prefill.model_macs) - needed) <= 27 * 4
    )  # positions are computed once for a batch, or not
    assert t.prefill.macs.a_token == int(t.prefill.macs) / 19
    assert "8 of 27 positions of the prefill" in squeezed(t)
    assert "padding" not in str(full)


# -- what fits, with activations -----------------------------------------------------------------------------


def taken_by(model: nn.Module, *args: Any) -> tuple[int, int]:
    """Bytes that a real call takes at its peak, by the allocator, and those of the cache that it leaves."""
    taken = lamina.inspect(model, args, memory=True).memory
    assert taken is not None
    with torch.no_grad():
        kept = [each for pair in model(*args)["cache"] for each in pair]
    return taken.peak_allocated, sum(each.nbytes for each in kept)


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
def test_activations_are_what_a_call_takes_beside_weights_and_cache(dry):
    model = Talker()
    t = lamina.tokens(model, prompt=40, new=5, batch=2, dry=dry, device_memory=1_000_000)
    assert t.capacity is not None
    taken = t.capacity.activations
    assert (taken.why, taken.rough) == (None, None)
    peak, left = taken_by(model, torch.zeros(2, 40, dtype=torch.long))
    assert (taken.prefill.bytes, taken.prefill.bytes.state) == (peak - left, "exact")
    assert (taken.prefill.keys, taken.decode.keys) == (40, 41)
    with torch.no_grad():
        out = model(torch.zeros(2, 40, dtype=torch.long))
    cached = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for pair in out["cache"]
              for each in pair}  # fmt: skip
    peak, left = taken_by(model, torch.zeros(2, 1, dtype=torch.long), out["cache"])
    before = sum(cached.values()) + out["logits"].nbytes  # what the loop holds while a step runs
    assert taken.decode.bytes == before + peak - left


def test_what_fits_with_activations_is_what_fits_beside_a_sequences_share_of_them():
    t = lamina.tokens(Talker(), prompt=40, new=5, batch=2, dry=True, device_memory=1_000_000)
    fits = t.capacity
    assert fits is not None
    assert (fits.bytes, fits.tokens) == (1_000_000, 44)
    assert (fits.context, fits.batch) == (t.context(1_000_000), t.batch_in(1_000_000, 44))
    for taken in (fits.activations.prefill, fits.activations.decode):
        each = -(-int(taken.bytes) // 2)
        assert taken.context_less == fits.context - t.context(1_000_000 - each)
        room, cache = 1_000_000 - t.weights, int(t.cache.at(44))
        assert taken.batch_less == room // cache - room // (cache + each)
    told = json.loads(t.to_json())["device_memory"]
    assert told["activations"]["decode"]["bytes"]["value"] == fits.activations.decode.bytes
    assert "in a prefill of 40 tokens, with which" in squeezed(t)
    assert lamina.tokens(Talker(), prompt=4, new=2, dry=True).capacity is None


def test_activations_that_can_not_be_followed_are_not_known_and_the_reason_is_told():
    t = lamina.tokens(mixtral(), prompt=9, new=3, device_memory=1_000_000_000)
    taken = t.capacity.activations
    if taken.why is None:  # this transformers' experts can be followed
        assert taken.prefill.bytes.state == "exact"
        return
    assert taken.why.startswith("a dry run can't follow")
    assert (taken.prefill.bytes.state, taken.decode.context_less) == ("unknown", None)
    assert f"activations not known: {taken.why}" in squeezed(t)


def test_activations_without_a_cache_and_of_a_prefill_alone():
    t = lamina.tokens(Zoo(), prompt=6, new=3, dry=True, device_memory=1_000_000)
    assert t.capacity.activations.decode.keys == 7
    assert t.capacity.activations.decode.bytes > t.capacity.activations.prefill.bytes > 0
    t = lamina.tokens(Talker(), prompt=6, new=1, dry=True, device_memory=1_000_000)
    assert t.capacity.activations.prefill.bytes.state == "unknown"
    assert t.capacity.activations.why == "which of the memory is a cache was not seen"
    with pytest.raises(ValueError, match="device_memory=0 is not possible"):
        lamina.tokens(Talker(), dry=True, device_memory=0)


def test_a_model_without_a_cache_is_given_all_tokens_again():
    each = 4 * 2 * 16 * 16 + 16 * 50
    for new in (2, 5, 6, 7, 9):
        t = lamina.tokens(Zoo(), prompt=6, new=new, dry=True)
        assert t.prefill.macs == 6 * each
        assert [int(step.macs) for step in decode(t)] == [key * each for key in range(7, 6 + new)]
        assert (t.decode.calls, t.decode.tokens) == (new - 1, new - 1)
        assert (t.params.active, t.params.active_matrix) == (t.params.total - 17 * 16, each)  # one is unused
    assert t.cache.kind == "none"
    assert t.cache.at(1000) == 0


def test_a_dry_run_of_a_model_on_meta():
    with torch.device("meta"):
        model = Talker()
    real = lamina.tokens(Talker(), prompt=10, new=9)
    t = lamina.tokens(model, prompt=10, new=9, dry=True)
    assert [step.macs for step in t.steps] == [step.macs for step in real.steps]
    assert [step.flops for step in t.steps] == [step.flops for step in real.steps]


def test_the_model_is_as_before():
    (name, config), _ = llama()
    model = of_transformers(name, config).train()
    before = copy.deepcopy(model.state_dict())
    own, settings = model.generation_config, model.generation_config.to_dict()
    lamina.tokens(model, prompt=5, new=3)
    lamina.tokens(model, prompt=5, new=30, dry=True)
    assert model.training
    assert model.generation_config is own
    assert own.to_dict() == settings
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_one_new_token_is_the_prefill_alone():
    t = lamina.tokens(Talker(), prompt=5, new=1)
    assert (t.prefill.calls, t.decode.calls, t.decode.macs) == (1, 0, 0)
    assert t.decode.macs.a_token is None


def test_sizes_that_were_not_given_are_marked():
    told = json.loads(lamina.tokens(Talker(), dry=True).to_json())
    assert (told["prompt"], told["prompt_given"], told["new"], told["new_given"]) == (1024, False, 128, False)
    told = json.loads(lamina.tokens(Talker(), prompt=4, new=2).to_json())
    assert (told["prompt"], told["prompt_given"], told["new"], told["new_given"]) == (4, True, 2, True)


def test_bad_input_is_one_sentence():
    with pytest.raises(ValueError, match=r"Linear is no language model: it has no table of tokens"):
        lamina.tokens(nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"lamina looks at a torch.nn.Module"):
        lamina.tokens("gpt2")
    for name in ("prompt", "new", "batch"):
        with pytest.raises(ValueError, match=name):
            lamina.tokens(Talker(), **{name: 0})
        with pytest.raises(TypeError, match=name):
            lamina.tokens(Talker(), **{name: 1.5})
    with pytest.raises(ValueError, match="tokens"):
        lamina.tokens(Talker(), prompt=4, new=2).cache.at(0)


class Reads(Talker):
    def forward(self, ids: torch.Tensor, cache: Any = None) -> Any:
        out = super().forward(ids, cache)
        assert out["logits"].sum().item() == out["logits"].sum().item()
        return out


def test_a_model_that_reads_values_is_run():
    with pytest.raises(NeedsValuesError, match="needs a tensor's value"):
        lamina.tokens(Reads(), prompt=4, new=2, dry=True)
    assert lamina.tokens(Reads(), prompt=4, new=2).prefill.macs > 0


def test_what_the_model_raises_propagates():
    class Raises(Talker):
        def forward(self, ids: torch.Tensor, cache: Any = None) -> Any:
            if cache is not None:
                raise ZeroDivisionError("in the first step")
            return super().forward(ids, cache)

    with pytest.raises(ZeroDivisionError, match="in the first step"):
        lamina.tokens(Raises(), prompt=4, new=2)


# -- the page ------------------------------------------------------------------------------------------------


def test_a_page_and_a_notebook_show_a_run_in_tokens():
    net = Talker().eval()
    with lamina.capture(net) as cap, torch.no_grad():
        out = net(torch.randint(0, 100, (1, 12)))
        for _ in range(3):
            out = net(out["logits"].argmax(-1), cache=out["cache"])
    report = cap.report()
    for html in (report.to_html(), report._repr_html_()):
        assert '<th scope="row">prefill</th>' in html
        assert '<th scope="row">decode</th>' in html
        assert "1.00 KiB a token in 4 tensors" in html
    page = report.to_html()
    assert '<section id="tokens"' in page
    assert '<a href="#tokens">' in page
    assert "<kbd>1</kbd>…<kbd>8</kbd>" in page


def test_a_page_of_a_prompt_alone_has_no_decode():
    html = lamina.inspect(Talker().eval(), torch.zeros(1, 5, dtype=torch.long)).to_html()
    assert '<th scope="row">prefill</th>' in html
    assert '<th scope="row">decode</th>' not in html


@pytest.mark.parametrize("convention", ["exact", "layers"])
def test_a_page_of_two_steps_of_a_cnn_has_no_tokens(convention):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 2)).eval()
    with lamina.capture(net) as cap, torch.no_grad():
        net(torch.rand(1, 3, 8, 8))
        net(torch.rand(1, 3, 8, 8))
    report = cap.report(convention=convention)
    assert 'id="tokens"' not in report.to_html()
    assert "<kbd>1</kbd>…<kbd>7</kbd>" in report.to_html()


def test_a_difference_and_a_page_of_layers_have_no_tokens(tmp_path):
    net, ids = Talker().eval(), torch.zeros(1, 5, dtype=torch.long)
    report = lamina.inspect(net, ids)
    assert 'id="tokens"' not in lamina.inspect(net, ids, convention="layers").to_html()
    report.to_json(tmp_path / "before.json")
    assert 'id="tokens"' not in report.to_html(before=tmp_path / "before.json")
