# SPDX-License-Identifier: Apache-2.0
"""FLOPs of a token as other formulas define them: each is held against the formula written out here, over
the configuration and the parameters of a family of transformers, and the reasons against what ran."""

from __future__ import annotations

import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import lamina
from lamina._command.cli import main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))
from samples import Talker, Zoo

NAMES = ["titan", "megatron", "hf", "palm", "llm-foundry", "vllm"]
LENGTH, BATCH = 14, 2
TOKENS = LENGTH * BATCH

SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = SMALL | {"num_key_value_heads": 2, "intermediate_size": 48}
LATENT = {"q_lora_rank": 12, "kv_lora_rank": 16, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", GROUPED | {"tie_word_embeddings": False}),
    "qwen3": ("Qwen3", GROUPED | {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma3": (
        "Gemma3",
        GROUPED
        | {"num_hidden_layers": 3, "head_dim": 8, "sliding_window": 9}
        | {"layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
    ),
    # More positions than tokens: the table of positions is the larger one.
    "gpt2": ("GPT2", {"vocab_size": 36, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}),
    "gpt_neox": (
        "GPTNeoX",
        SMALL | {"intermediate_size": 64, "vocab_size": 96, "tie_word_embeddings": False},
    ),
    "mixtral": (
        "Mixtral",
        GROUPED | {"num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": None},
    ),
    "deepseek_v3": (
        "DeepseekV3",
        GROUPED
        | LATENT
        | {"v_head_dim": 5, "num_hidden_layers": 3, "num_key_value_heads": 4, "moe_intermediate_size": 16}
        | {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 2}
        | {"topk_group": 2, "first_k_dense_replace": 1},
    ),
    "qwen2_moe": (
        "Qwen2Moe",
        GROUPED
        | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
        | {"shared_expert_intermediate_size": 40, "tie_word_embeddings": False},
    ),
    "gpt_oss": (
        "GptOss",
        GROUPED
        | {"head_dim": 16, "sliding_window": 6, "num_local_experts": 4, "num_experts_per_tok": 2}
        | {"layer_types": ["sliding_attention", "full_attention"]},
    ),
    "falcon": (
        "Falcon",
        SMALL | {"multi_query": True, "new_decoder_architecture": False, "bias": False, "alibi": False},
    ),
    "mistral": ("Mistral", GROUPED | {"sliding_window": 5, "tie_word_embeddings": False}),
}
EAGER = {"gpt_oss"}  # it has no attention in one operator


def of_transformers(family: str, attention: str = "sdpa") -> Any:
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.set_verbosity_error()
    name, config = FAMILIES[family]
    kind = getattr(transformers, {"Gemma3": "Gemma3TextConfig"}.get(name, f"{name}Config"))
    arch = getattr(transformers, f"{name}{'LMHeadModel' if name == 'GPT2' else 'ForCausalLM'}")
    torch.manual_seed(0)
    attention = "eager" if family in EAGER else attention
    return arch._from_config(kind(**config), attn_implementation=attention)


def get(config: Any, *names: str, otherwise: int = 0) -> int:
    return next((getattr(config, name) for name in names if getattr(config, name, None)), otherwise)


class Dims:
    """What the formulas take of a model and its configuration."""

    def __init__(self, model: Any) -> None:
        c = model.config
        self.d, self.layers, self.heads = c.hidden_size, c.num_hidden_layers, c.num_attention_heads
        self.kv = 1 if get(c, "multi_query") else get(c, "num_key_value_heads", otherwise=self.heads)
        self.head = get(c, "head_dim", otherwise=self.d // self.heads)
        self.vocab = c.vocab_size
        self.inner = get(c, "intermediate_size", "ffn_hidden_size", "n_inner", otherwise=4 * self.d)
        self.rank, self.q_rank = get(c, "kv_lora_rank"), get(c, "q_lora_rank")
        self.nope, self.rope = get(c, "qk_nope_head_dim"), get(c, "qk_rope_head_dim")
        self.key = self.nope + self.rope if self.rank else self.head
        self.value = c.v_head_dim if self.rank else self.head
        self.experts = get(c, "num_experts", "num_local_experts", "n_routed_experts")
        self.routed = get(c, "num_experts_per_tok") if self.experts else 0
        self.moe = get(c, "moe_intermediate_size", otherwise=self.inner)
        self.shared = get(c, "n_shared_experts")
        self.shared_inner = get(c, "shared_expert_intermediate_size", otherwise=self.shared * self.moe)
        self.sparse = self.layers - get(c, "first_k_dense_replace") if self.experts else 0
        types = getattr(c, "layer_types", None)
        self.window = get(c, "sliding_window") if getattr(c, "use_sliding_window", True) else 0
        sliding = self.layers if types is None else sum("sliding" in each for each in types)
        self.windows = sliding if self.window else 0
        self.gated = 2 if model.config.model_type in ("gpt2", "gpt_neox", "falcon") else 3
        self.attended = sum(
            min(LENGTH, self.window) if i < self.windows else LENGTH for i in range(self.layers)
        )


def elements(model: Any, wanted: Any) -> int:
    return sum(p.numel() for name, p in model.named_parameters() if wanted(name, p))


def titan(model: Any, x: Dims) -> Fraction:
    head = model.get_output_embeddings().weight
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding) and m.weight is not head}
    experts = elements(model, lambda name, _: ".experts." in name)
    rest = elements(model, lambda name, p: ".experts." not in name and id(p) not in tables)
    active = rest + (Fraction(experts * x.routed, x.experts) if x.experts else 0)
    return 2 * active + 2 * x.heads * (x.key + x.value) * x.attended


def projections(x: Dims, norm: int) -> int:
    if not x.rank:
        return x.d * x.head * (2 * x.heads + 2 * x.kv)
    query = x.q_rank * (x.d + x.heads * x.key + norm)
    latent = x.rank * (x.d + x.heads * (x.nope + x.value) + norm) + x.d * x.rope
    return query + latent + x.heads * x.value * x.d


def megatron(_: Any, x: Dims) -> Fraction:
    dense = (x.layers - x.sparse) * x.d * x.inner * x.gated
    sparse = x.sparse * x.d * (x.moe * x.routed + x.shared_inner) * x.gated
    scores = Fraction(x.layers * x.heads * (x.key + x.value) * LENGTH, 2)
    return 2 * (x.layers * projections(x, 1) + dense + sparse + x.d * x.vocab + scores)


def hf(model: Any, _: Dims) -> Fraction:
    return Fraction(2 * model.num_parameters(exclude_embeddings=True))


def palm(model: Any, x: Dims) -> Fraction:
    wpe = elements(model, lambda name, _: ".wpe." in name)
    n = elements(model, lambda *_: True) - wpe
    return Fraction(2 * n + 4 * x.layers * x.heads * (x.d // x.heads) * LENGTH)


def llm_foundry(model: Any, x: Dims) -> Fraction:
    n = elements(model, lambda *_: True)
    if not model.config.tie_word_embeddings:
        n -= model.get_input_embeddings().weight.numel()
    return Fraction(2 * n + 4 * x.layers * x.d * LENGTH)


def vllm(_: Any, x: Dims) -> Fraction:
    sparse = x.layers if x.experts else 0
    dense = (x.layers - sparse) * x.d * x.inner
    experts = sparse * x.d * x.moe * (x.routed + x.shared)
    attended = x.layers * LENGTH if x.rank else x.attended
    head = Fraction(x.d * x.vocab, LENGTH)
    scores = 2 * x.heads * (x.key + x.value) * attended
    return 2 * (x.layers * projections(x, 0) + 3 * dense + 3 * experts + head) + scores


FORMULAS = dict(zip(NAMES, (titan, megatron, hf, palm, llm_foundry, vllm), strict=True))


def adds_up(row: Any) -> None:
    assert sum(cause.difference for cause in row.causes) == row.difference


def texts(row: Any) -> dict[str, int]:
    return {cause.text: cause.difference for cause in row.causes}


@pytest.mark.parametrize("dry", [False, True], ids=["real", "dry"])
@pytest.mark.parametrize("family", FAMILIES)
def test_each_formula_is_as_its_source_writes_it_and_its_reasons_add_up(family, dry):
    model = of_transformers(family)
    x = Dims(model)
    c = lamina.compare(model, tokens=True, prompt=LENGTH, batch=BATCH, dry=dry)
    assert c.tokens == TOKENS
    assert [row.convention for row in c.rows] == ["counted", *NAMES]
    counted = c["counted"]
    for name, formula in FORMULAS.items():
        row = c[name]
        assert row.flops == formula(model, x) * TOKENS, name
        assert row.difference == row.flops - counted.flops
        adds_up(row)
        assert "not explained" not in texts(row), (name, row.causes)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "gemma3", "mixtral", "deepseek_v3", "gpt_oss"])
def test_what_is_counted_is_what_ran_without_hidden_scores(family):
    model = of_transformers(family)
    report = lamina.inspect(model, torch.ones(BATCH, LENGTH, dtype=torch.long), kwargs={"use_cache": False})
    counted = lamina.compare(model, tokens=True, prompt=LENGTH, batch=BATCH)["counted"]
    assert counted.flops == 2 * report.effective_macs
    assert counted.flops.state == "exact"
    assert counted.a_token == pytest.approx(2 * report.effective_macs / TOKENS)


def test_reasons_have_the_figures_of_their_parts():
    model = of_transformers("llama")
    c = lamina.compare(model, tokens=True, prompt=LENGTH, batch=BATCH)
    all_scores = 2 * 2 * 2 * 32 * LENGTH * TOKENS  # two products, two FLOPs, two layers
    hidden = all_scores * (LENGTH - 1) // (2 * LENGTH)
    table, norms = 2 * TOKENS * 60 * 32, 2 * TOKENS * 5 * 32
    lookup = "counts the table of tokens as a product; a token looks up one row"
    causal, small = "counts scores that the causal mask hides", "counts norms and biases as products"
    assert texts(c["palm"]) == {lookup: table, causal: hidden, small: norms}
    assert texts(c["hf"]) == {"leaves out scores of attention": hidden - all_scores, small: norms}
    half = "takes half of all scores, and not what is on the diagonal too"
    assert texts(c["megatron"]) == {half: -all_scores // (2 * LENGTH)}
    last = "counts logits of the last position of a sequence alone"
    assert texts(c["vllm"]) == {causal: hidden, last: -2 * (TOKENS - BATCH) * 60 * 32}


def test_a_tied_head_is_left_out_with_the_table():
    rows = lamina.compare(of_transformers("qwen3"), tokens=True, prompt=LENGTH, conventions="hf").rows
    left_out = texts(rows[1])["leaves out the head, which is also the table of tokens"]
    assert left_out == -2 * LENGTH * 60 * 32


def test_all_routed_experts_and_routers_are_reasons():
    c = lamina.compare(of_transformers("mixtral"), tokens=True, prompt=LENGTH, conventions=["hf", "megatron"])
    idle = 2 * LENGTH * 2 * 4 * 3 * 32 * 48  # two layers, four of six experts, three matrices
    assert texts(c["hf"])["counts all routed experts, of which a token takes some"] == idle
    assert texts(c["megatron"])["leaves out routers"] == -2 * LENGTH * 2 * 32 * 6


def test_windows_and_the_width_of_heads_are_reasons():
    c = lamina.compare(of_transformers("gemma3"), tokens=True, prompt=LENGTH, conventions=["megatron"])
    seen = sum(min(i, 9) for i in range(1, LENGTH + 1))
    hidden = LENGTH * (LENGTH + 1) // 2 - seen
    assert texts(c["megatron"])["counts scores that a window hides"] == 2 * 2 * 2 * 32 * hidden
    c = lamina.compare(of_transformers("qwen3"), tokens=True, prompt=LENGTH, conventions=["palm"])
    narrow = texts(c["palm"])["takes hidden_size / num_attention_heads as the width of a head"]
    assert narrow == -4 * 2 * 4 * 8 * LENGTH * LENGTH


def test_an_mlp_that_is_not_gated_and_a_shared_expert_are_reasons():
    c = lamina.compare(of_transformers("gpt2"), tokens=True, prompt=LENGTH, conventions=["vllm"])
    more = texts(c["vllm"])["takes each MLP as gated, so as three matrices"]
    assert more == 2 * LENGTH * 2 * 32 * 128
    c = lamina.compare(of_transformers("qwen2_moe"), tokens=True, prompt=LENGTH, conventions=["vllm"])
    assert texts(c["vllm"])["takes shared experts as wide as routed ones"] == -2 * LENGTH * 2 * (
        3 * 32 * 40 + 32
    )


class Listed(nn.Module):
    """A language model whose experts are a list of modules, of which a token takes two."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(50, 16), nn.Linear(16, 50, bias=False)
        self.gate = nn.Linear(16, 4, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 24, bias=False), nn.GELU(), nn.Linear(24, 16, bias=False))
            for _ in range(4)
        )
        words = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
        words |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
        self.config = SimpleNamespace(**words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids).flatten(0, 1)
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, place = (chosen == i).nonzero(as_tuple=True)
            y = y.index_add(0, token, expert(x[token]) * weights[token, place, None])
        return self.head(y)


def test_experts_in_a_list_are_experts():
    c = lamina.compare(Listed(), tokens=True, prompt=LENGTH, batch=BATCH)
    one, head, router = 2 * 16 * 24, 16 * 50, 16 * 4
    assert c["counted"].flops == 2 * TOKENS * (2 * one + head + router)
    assert texts(c["hf"]) == {"counts all routed experts, of which a token takes some": 2 * TOKENS * 2 * one}
    assert (
        c["titan"].difference == texts(c["titan"])["counts scores of attention, which the run does not have"]
    )
    assert texts(c["megatron"])["leaves out routers"] == -2 * TOKENS * router
    assert texts(c["vllm"])["takes each expert as gated, so as three matrices"] == 2 * TOKENS * 2 * 16 * 24
    for row in c.rows[1:]:
        adds_up(row)
        assert "not explained" not in texts(row)


# -- a training step -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "gpt2", "mixtral", "deepseek_v3"])
def test_a_training_step_is_three_forwards_of_a_formula(family):
    model = of_transformers(family, "eager")
    forward = lamina.compare(model, tokens=True, prompt=LENGTH, batch=BATCH)
    c = lamina.compare(model, tokens=True, prompt=LENGTH, batch=BATCH, backward=True)
    assert c["counted"].flops == 3 * forward["counted"].flops
    for name in NAMES:
        assert c[name].flops == 3 * forward[name].flops
        adds_up(c[name])
        assert texts(c[name]) == {text: 3 * n for text, n in texts(forward[name]).items()}


def test_frozen_layers_are_a_reason():
    model = of_transformers("llama", "eager")
    model.model.embed_tokens.requires_grad_(False)
    model.model.layers[0].requires_grad_(False)
    c = lamina.compare(model, tokens=True, prompt=LENGTH, backward=True, conventions=["titan"])
    layer = LENGTH * (32 * 8 * (4 + 4 + 2 + 2) + 3 * 32 * 48) + 2 * 32 * LENGTH * (LENGTH + 1) // 2
    frozen = texts(c["titan"])[
        "takes the backward pass as twice the forward, and less ran, as where layers are frozen"
    ]
    assert frozen == 2 * 2 * layer
    adds_up(c["titan"])


def test_without_a_backward_pass_there_is_no_training_step():
    model = of_transformers("llama").requires_grad_(False)
    c = lamina.compare(model, tokens=True, prompt=LENGTH, backward=True)
    assert c["counted"].gap == "no backward pass ran"
    assert c["counted"].flops.state != "exact"
    assert [row.difference for row in c.rows[1:]] == [None] * 6


def test_what_is_computed_again_is_a_reason():
    model = of_transformers("llama", "eager")
    model.gradient_checkpointing_enable()
    c = lamina.compare(model, tokens=True, prompt=LENGTH, backward=True, mode="train", conventions=["titan"])
    again = texts(c["titan"])["leaves out what is computed again, as with checkpoints"]
    # torch stops once it has what the backward pass needs, which is before the last matrix of a layer.
    layer = LENGTH * (32 * 8 * 12 + 2 * 32 * 48) + 2 * 32 * LENGTH * (LENGTH + 1) // 2
    assert again == -2 * 2 * layer
    adds_up(c["titan"])


def test_scores_that_the_backward_computes_again_are_a_reason():
    c = lamina.compare(of_transformers("llama"), tokens=True, prompt=LENGTH, backward=True)
    text = "leaves out scores that attention's backward pass computes again"
    assert all(texts(c[name])[text] < 0 for name in NAMES)


# -- configurations ------------------------------------------------------------------------------------------


def test_a_model_without_a_configuration_says_what_a_formula_needs():
    c = lamina.compare(Talker(), tokens=True, prompt=LENGTH)
    assert c["hf"].difference is not None
    assert c["palm"].gap == (
        "it needs num_hidden_layers, num_attention_heads, hidden_size, and the model has no configuration"
    )
    assert c["palm"].difference is None
    assert c["palm"].a_token is None
    assert "hidden_size" in c["vllm"].gap


def test_a_field_that_is_lacking_is_named():
    model = Talker()
    model.config = SimpleNamespace(hidden_size=64, num_hidden_layers=2, vocab_size=100)
    c = lamina.compare(model, tokens=True, prompt=LENGTH)
    wanted = "it needs num_attention_heads, which the model's configuration does not tell"
    assert [c[name].gap for name in ("titan", "palm", "vllm")] == [wanted] * 3
    assert c["llm-foundry"].gap is None
    adds_up(c["llm-foundry"])


def test_a_configuration_that_lies_changes_no_count():
    model = of_transformers("llama")
    before = lamina.compare(model, tokens=True, prompt=LENGTH)
    model.config.num_hidden_layers, model.config.num_attention_heads = 7, 3
    after = lamina.compare(model, tokens=True, prompt=LENGTH)
    assert after["counted"] == before["counted"]
    assert after["megatron"].flops != before["megatron"].flops
    for row in after.rows[1:]:
        adds_up(row)


@pytest.mark.parametrize("lie", [-1, 0, 10**18, 10**30, math.nan, "4", None, True])
def test_an_odd_configuration_gives_a_number_or_a_sentence(lie):
    model = of_transformers("llama")
    for name in ("hidden_size", "num_attention_heads", "intermediate_size"):
        object.__setattr__(model.config, name, lie)
    ids = torch.ones(1, LENGTH, dtype=torch.long)
    c = lamina.compare(model, ids, tokens=True)
    for row in c.rows[1:]:
        assert (row.gap is None) == (row.flops.state == "exact")
        if row.difference is not None:
            adds_up(row)


def test_layers_that_are_no_attention_have_no_term():
    model = Talker()
    types = ["linear_attention", "full_attention"]
    model.config = SimpleNamespace(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, layer_types=types
    )
    gap = lamina.compare(model, tokens=True, prompt=LENGTH)["titan"].gap
    assert gap.startswith("it needs a term for layers of another kind than attention, ")


def test_a_property_of_a_configuration_is_read_too():
    class Config(SimpleNamespace):
        @property
        def layers_block_type(self) -> list[str]:
            return ["mamba", "attention"]

    model = Talker()
    model.config = Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4)
    assert "another kind than attention" in lamina.compare(model, tokens=True, prompt=LENGTH)["titan"].gap


def test_matrices_of_an_mlp_may_be_in_modules_of_their_own():
    transformers = pytest.importorskip("transformers")
    words = {"vocab_size": 36, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.BertConfig(**words, intermediate_size=48, is_decoder=True)
    c = lamina.compare(transformers.BertLMHeadModel(config), tokens=True, prompt=LENGTH)
    other = 2 * LENGTH * 2 * 32 * 32  # the head has a matrix of its own before that of the table
    sums = texts(c["megatron"])
    half = "takes half of all scores, and not what is on the diagonal too"
    assert sums.pop(half) < 0
    assert sum(sums.values()) == -other // 2
    adds_up(c["megatron"])


def test_a_state_space_lacks_heads_and_its_products_are_a_reason():
    transformers = pytest.importorskip("transformers")
    config = transformers.Mamba2Config(
        vocab_size=60,
        hidden_size=16,
        num_heads=4,
        head_dim=8,
        state_size=8,
        n_groups=2,
        conv_kernel=4,
        chunk_size=8,
        num_hidden_layers=2,
        expand=2,
    )
    c = lamina.compare(transformers.Mamba2ForCausalLM(config), tokens=True, prompt=LENGTH)
    assert "num_attention_heads" in c["titan"].gap
    assert texts(c["hf"])["leaves out products of no parameter, as of a state"] < 0
    adds_up(c["hf"])


def test_an_encoders_prompt_and_a_decoders_one_token():
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config).eval()
    c = lamina.compare(model, tokens=True, prompt=LENGTH, batch=BATCH)
    assert c.tokens == TOKENS
    assert c["hf"].flops == 2 * TOKENS * model.num_parameters(exclude_embeddings=True)
    for row in c.rows[1:]:
        adds_up(row)


# -- the request ---------------------------------------------------------------------------------------------


def test_the_model_is_as_before():
    model = of_transformers("llama").train()
    before = {name: p.detach().clone() for name, p in model.state_dict().items()}
    lamina.compare(model, tokens=True, prompt=LENGTH, backward=True)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(before[name], p) for name, p in model.state_dict().items())


def test_ids_that_are_given_are_the_input():
    model = of_transformers("llama")
    ids = torch.ones(3, 7, dtype=torch.long)
    told = json.loads(lamina.compare(model, (ids,), {"use_cache": False}, tokens=True).to_json())
    assert (told["tokens"]["batch"], told["tokens"]["length"], told["tokens"]["tokens"]) == (3, 7, 21)
    assert told["tokens"]["length_given"]


def test_json_has_the_formula_and_where_it_is_from():
    told = json.loads(lamina.compare(of_transformers("llama"), tokens=True, backward=True).to_json())
    assert (told["phase"], told["tokens"]["length"], told["tokens"]["length_given"]) == (
        "training",
        1024,
        False,
    )
    row = next(row for row in told["conventions"] if row["convention"] == "hf")
    assert row["formula"] == "6 (N - tables of embeddings)"
    assert "Trainer.floating_point_ops" in row["source"]
    assert row["a_token"] == pytest.approx(row["flops"] / 1024)


def test_the_documentation_has_each_formula_and_its_source():
    page = (Path(__file__).resolve().parents[2] / "docs" / "tokens.md").read_text("utf-8")
    for row in lamina.compare(Talker(), tokens=True, prompt=LENGTH).rows[1:]:
        assert f"| `{row.convention}` | {row.formula} | {row.source} |" in page


@pytest.mark.parametrize("form", ["csv", "md", "html"])
def test_other_formats_have_all_rows(form):
    c = lamina.compare(of_transformers("llama"), tokens=True, prompt=LENGTH)
    text = {"csv": c.to_csv, "md": c.to_markdown, "html": c._repr_html_}[form]()
    assert all(name in text for name in ("counted", *NAMES))


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"conventions": "torch"}, r"no convention of a token 'torch'.*titan.*vllm"),
        ({"flops": True}, "it is FLOPs that are compared"),
        ({"prompt": 0}, "prompt"),
        ({"args": (torch.ones(1, 4, dtype=torch.long),), "prompt": 4}, "args or kwargs give it"),
        ({"tokens": False, "prompt": 4}, "give tokens=True too"),
        (
            {"tokens": False, "conventions": "titan", "args": (torch.ones(1, 4, dtype=torch.long),)},
            "tokens=True",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        lamina.compare(Talker(), **({"tokens": True} | how))


def test_a_model_that_is_no_language_model_is_refused():
    with pytest.raises(ValueError, match="no language model"):
        lamina.compare(nn.Linear(3, 3), tokens=True)
    with pytest.raises(ValueError, match="no language model"):
        lamina.compare(nn.Linear(3, 3), torch.ones(2, 3), tokens=True)
    with pytest.raises(ValueError, match="positions for 40 tokens"):
        lamina.compare(of_transformers("gpt2"), tokens=True, prompt=41)


def test_a_file_of_which_nothing_runs_is_refused(tmp_path, capfd):
    path = tmp_path / "talk.pt2"
    torch.export.save(torch.export.export(Zoo(), (torch.zeros(1, 8, dtype=torch.long),)), path)
    assert main(["compare", str(path), "--tokens"]) == 2
    assert "nothing of a file is run, and --tokens needs the run" in capfd.readouterr().err


def test_an_operator_without_a_rule_leaves_the_difference_unknown():
    library = torch.library.Library("lamina_test_tokens", "DEF")
    library.define("odd(Tensor x) -> Tensor")
    library.impl("odd", lambda x: x.clone(), "CompositeExplicitAutograd")

    class Odd(Talker):
        def forward(self, ids: Any, cache: Any = None) -> Any:
            out = super().forward(ids, cache)
            return torch.ops.lamina_test_tokens.odd(out["logits"])

    c = lamina.compare(Odd(), tokens=True, prompt=LENGTH)
    assert c["counted"].flops.state == "at least"
    assert c["hf"].flops.state == "exact"
    assert c["hf"].difference is None
    assert "not exact" in str(c)


def test_a_cnn_with_a_table_is_compared_too():
    c = lamina.compare(Zoo(), torch.zeros(1, 8, dtype=torch.long), tokens=True)
    assert c.tokens == 8
    adds_up(c["hf"])
