# SPDX-License-Identifier: Apache-2.0
"""Language models of unlike mechanisms in tokens: windows and capped scores, shared experts, convolutions and
a scan beside attention, an encoder and a decoder. Each is held against its own dimensions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from token_truth import Tally, Truth, decode, holds, of_transformers
from torch import nn

import lamina

D, VOCAB = 32, 60
SIZES: dict[str, Any] = {"vocab_size": VOCAB, "hidden_size": D, "pad_token_id": None}
SIZES |= {"bos_token_id": 1, "eos_token_id": 2}


def projections(t: Tally, heads: int, kv: int, width: int, *, bias: bool = False) -> None:
    """Those of an attention: queries, keys and values, and what it gives."""
    t.matrix(D, (heads + 2 * kv) * width, bias=bias)
    t.matrix(heads * width, D)


def gemma2(t: Tally) -> dict[str, Any]:
    """Every second layer sees a window, scores and logits are capped, and a layer has four norms."""
    t.table(VOCAB, D, tied=True)
    for layer in range(4):
        t.small(4 * D)
        projections(t, 4, 2, 12)
        t.attention(4, 2, 12, window=None if layer % 2 else 9)
        t.mlp(D, 48)
    t.small(D)
    t.matrix(D, VOCAB, once=True)
    config = {"intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 12}
    return {**config, "num_key_value_heads": 2, "sliding_window": 9, "query_pre_attn_scalar": 12}


def qwen2_moe(t: Tally) -> dict[str, Any]:
    """Layers with routed experts and one for all tokens, which has a gate; one layer is dense. Some see a
    window."""
    t.table(VOCAB, D)
    for layer in range(3):
        t.small(2 * D)
        projections(t, 4, 2, 8, bias=True)
        t.attention(4, 2, 8, window=11 if layer == 0 else None)
        if layer == 1:
            t.mlp(D, 48)
            continue
        t.experts(D, 12, many=6, routed=2)
        t.mlp(D, 20)
        t.matrix(D, 1)
    t.small(D)
    t.matrix(D, VOCAB, once=True)
    config = {"intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2}
    config |= {
        "moe_intermediate_size": 12,
        "shared_expert_intermediate_size": 20,
        "tie_word_embeddings": False,
    }
    return {
        **config,
        "mlp_only_layers": [1],
        "use_sliding_window": True,
        "sliding_window": 11,
        "max_window_layers": 2,
    }


def lfm2(t: Tally) -> dict[str, Any]:
    """Layers of a short gated convolution, which keeps a few tokens, and one of attention."""
    t.table(VOCAB, D, tied=True)
    for layer in range(3):
        t.small(2 * D)
        if layer == 1:
            projections(t, 4, 2, 8)
            t.small(2 * 8)
            t.attention(4, 2, 8)
        else:
            t.matrix(D, 3 * D)
            t.convolution(D, 3)
            t.matrix(D, D)
        t.mlp(D, 48)
    t.small(D)
    t.matrix(D, VOCAB, once=True)
    return {
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "conv_L_cache": 3,
        "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv"],
    }


def jamba(t: Tally) -> dict[str, Any]:
    """Layers of a selective scan with experts, and one of attention with an MLP."""
    t.table(VOCAB, D)
    inner, states, rank = 2 * D, 5, 3
    for layer in range(3):
        t.small(2 * D)
        if layer == 1:
            projections(t, 4, 2, 8)
            t.attention(4, 2, 8)
            t.mlp(D, 24)
            continue
        t.matrix(D, 2 * inner)
        t.convolution(inner, 4, bias=True)
        t.matrix(inner, rank + 2 * states)
        t.small(rank, 2 * states)
        t.matrix(rank, inner, bias=True)
        t.small(inner * states, inner)
        t.scan(inner, states)
        t.matrix(inner, D)
        t.experts(D, 24, many=4, routed=2)
    t.small(D)
    t.matrix(D, VOCAB, once=True)
    config = {"intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2, "mamba_expand": 2}
    config |= {"mamba_d_state": 5, "mamba_d_conv": 4, "mamba_dt_rank": 3}
    config |= {"attn_layer_period": 3, "attn_layer_offset": 1}
    return {**config, "expert_layer_period": 2, "expert_layer_offset": 0}


def bart(t: Tally) -> dict[str, Any]:
    """An encoder and a decoder with tables of positions, biases everywhere and a tied head."""
    t.table(VOCAB, D, tied=True)
    t.total += 42 * D + 2 * D  # the encoder's positions and first norm
    for _ in range(2):
        t.total += 4 * D
        for inner, outer in ((D, 4 * D), (D, 24), (24, D)):
            t.encoder(inner, outer, bias=True)
        t.prefill += t.batch * 2 * D * t.prompt**2
    t.table(42, D, positions=True)
    t.small(2 * D)
    for _ in range(2):
        t.small(6 * D)
        for _ in range(4):
            t.matrix(D, D, bias=True)
        t.attention(4, 4, 8)
        t.cross(D, bias=True)
        t.mlp(D, 40, gated=False, bias=True)
    t.matrix(D, VOCAB, once=True)
    config = {"d_model": D, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24}
    config |= {"decoder_ffn_dim": 40, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    return {**config, "max_position_embeddings": 40}


def mpt(t: Tally) -> dict[str, Any]:
    """A bias of positions is added to scores, of which a bool mask hides some. Norms have no bias."""
    t.table(VOCAB, D, tied=True)
    for _ in range(2):
        t.small(2 * D)
        t.matrix(D, 3 * D)
        t.attention(4, 4, 8)
        t.matrix(D, D)
        t.mlp(D, 4 * D, gated=False)
    t.small(D)
    t.matrix(D, VOCAB, once=True)
    return {"d_model": D, "n_heads": 4, "n_layers": 2, "max_seq_len": 64}


def bloom(t: Tally) -> dict[str, Any]:
    """Scores are made with a bias of positions in one product, and a mask is added. Biases everywhere."""
    t.table(VOCAB, D, tied=True)
    t.small(2 * D)
    for _ in range(2):
        t.small(4 * D)
        t.matrix(D, 3 * D, bias=True)
        t.attention(4, 4, 8)
        t.matrix(D, D, bias=True)
        t.mlp(D, 4 * D, gated=False, bias=True)
    t.small(2 * D)
    t.matrix(D, VOCAB, once=True)
    return {"n_layer": 2, "n_head": 4}


FAMILIES = {
    "Gemma2": gemma2,
    "Qwen2Moe": qwen2_moe,
    "Lfm2": lfm2,
    "Jamba": jamba,
    "Bart": bart,
    "Mpt": mpt,
    "Bloom": bloom,
}


def family(name: str, prompt: int, new: int, batch: int, attention: str = "sdpa") -> tuple[nn.Module, Truth]:
    tally = Tally(prompt, new, batch, first=1 if name == "Bart" else None)
    config = FAMILIES[name](tally)
    sizes = {"vocab_size": VOCAB} if "d_model" in config else SIZES
    return of_transformers(name, {**sizes, **config}, attention), tally.truth()


# Scores that are capped, or have a bias, can't be those of torch's own attention.
WRITTEN_OUT = ("Gemma2", "Mpt", "Bloom")
RUNS = [
    (name, attention)
    for name in FAMILIES
    for attention in ("eager", "sdpa")
    if attention == "eager" or name not in WRITTEN_OUT
]


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
@pytest.mark.parametrize(("name", "attention"), RUNS)
def test_a_family_is_as_its_dimensions_say(name, attention, dry):
    model, truth = family(name, 14, 8, 1, attention)
    holds(lamina.tokens(model, prompt=14, new=8, dry=dry), truth)


@pytest.mark.parametrize(("prompt", "new", "batch"), [(5, 9, 2), (2, 3, 3)])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_prompt_may_be_shorter_than_a_window_and_a_kernel(name, prompt, new, batch):
    model, truth = family(name, prompt, new, batch, "eager")
    holds(lamina.tokens(model, prompt=prompt, new=new, batch=batch, dry=True), truth)


@pytest.mark.parametrize(("name", "one"), [("Qwen2Moe", 3 * D * 12), ("Jamba", 3 * D * 24)])
def test_experts_that_a_batch_hits_are_read_once(name, one):
    model, truth = family(name, 6, 4, 3)
    hit = count_hits(model)
    with lamina.capture(model) as cap, torch.no_grad():
        ids = torch.arange(18).view(3, 6) + 5
        model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    t = cap.report().tokens
    for step, layers in zip(decode(t), [hit[at : at + 2] for at in (2, 4, 6)], strict=True):
        more = 4 * one * sum(layers) - 4 * one * 2 * 2
        assert (int(step.weights), step.weights.state) == (truth.weights[0] + more, "exact")
        assert step.experts == (min(layers), max(layers))


def count_hits(model: nn.Module) -> list[int]:
    """How many experts each call of a layer with experts uses, in a list that fills."""
    hit: list[int] = []
    for module in model.modules():
        if type(module).__name__.endswith("Experts"):
            module.register_forward_pre_hook(lambda _, args: hit.append(len(set(args[1].flatten().tolist()))))
    return hit


@pytest.mark.parametrize("name", FAMILIES)
def test_what_an_architecture_needs_is_known_or_has_a_reason(name):
    model, truth = family(name, 12, 4, 1, "eager")
    t = lamina.tokens(model, prompt=12, new=4, dry=True)
    reasons = {"Lfm2": "convolution", "Jamba": "convolution"}
    if name in reasons:
        assert t.prefill.model_macs.state == t.decode.model_macs.state == "unknown"
        assert reasons[name] in (t.prefill.why_model or "")
    else:
        assert (int(t.prefill.model_macs), t.prefill.model_macs.state) == (
            truth.prefill - truth.hidden,
            "exact",
        )
        assert (int(t.decode.model_macs), t.decode.model_macs.state) == (sum(truth.steps), "exact")
