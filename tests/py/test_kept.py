# SPDX-License-Identifier: Apache-2.0
"""What a forward keeps for the next one, in `fit` and in measured memory; ids that the command makes."""

import re
from dataclasses import dataclass

import pytest
import torch
from conftest import environment
from torch import nn

import lamina
import warm

B, N, D = 2, 12, 8
IDS = torch.randint(0, 50, (B, N))


@dataclass
class Output:
    logits: object
    cache: object = None


class Layer:
    """Keys and values of one layer, as objects hold them; `window` tokens at most."""

    def __init__(self, window=None):
        self.window, self.keys, self.values = window, None, None

    def update(self, x):
        if self.keys is not None:
            x = torch.cat([self.keys, x], 1)
        self.keys = self.values = x if self.window is None else x[:, -self.window :]
        self.values = self.keys * 2
        return x


class Decoder(nn.Module):
    """Two layers with a cache; one of them may have a window, or keep a state instead."""

    def __init__(self, window=None, state=False, dtype=torch.float32):
        super().__init__()
        self.table = nn.Embedding(50, D, dtype=dtype)
        self.window, self.state = window, state

    def forward(self, ids, cache=None, use_cache=True):
        x = self.table(ids)
        if cache is None:
            cache = [Layer(), torch.zeros(ids.shape[0], D, D) if self.state else Layer(self.window)]
        for layer in cache:
            x = x + (layer.update(x).mean(1, keepdim=True) if isinstance(layer, Layer) else layer.mean())
        if self.state:
            cache = [cache[0], cache[1] + x.mean()]
        return Output(x, cache if use_cache else None)


PAIR = 2 * D * 4  # bytes of keys and values of a token


def told(fit):
    return fit.cached_layers, fit.cache_bytes, fit.cache_fixed


def test_a_cache_grows_by_what_a_step_adds():
    fit = lamina.fit(Decoder(), (IDS,), step=False)
    assert told(fit) == (2, 2 * PAIR, 0)
    assert "the cache grows by 128 B a token of a sequence, in 2 layers" in str(fit)
    assert fit.cache_why is None


def test_a_full_window_and_a_state_do_not_grow():
    fit = lamina.fit(Decoder(window=5), (IDS,), step=False)
    assert told(fit) == (1, PAIR, 5 * PAIR)
    assert "in 1 layer; 320 B a sequence do not grow" in str(fit)
    assert told(lamina.fit(Decoder(window=40), (IDS,), step=False)) == (2, 2 * PAIR, 0)
    assert told(lamina.fit(Decoder(state=True), (IDS,), step=False)) == (1, PAIR, D * D * 4)


def test_the_type_of_what_is_kept_counts():
    assert told(lamina.fit(Decoder(dtype=torch.bfloat16), (IDS,), step=False)) == (2, PAIR, 0)
    assert told(lamina.fit(Decoder(), (IDS,), dtype=torch.bfloat16, step=False)) == (2, PAIR, 0)


def test_a_cache_that_is_given_grows_as_one_that_is_made():
    model = Decoder()
    cache = model(IDS).cache
    fit = lamina.fit(model, (), {"ids": IDS[:, :1], "cache": cache}, step=False)
    assert told(fit) == (2, 2 * PAIR, 0)
    assert cache[0].keys.shape == (B, N, D)


def test_a_model_without_a_cache_tells_none():
    assert lamina.fit(Decoder(), (IDS,), {"use_cache": False}, step=False).cache_fixed is None
    assert lamina.fit(nn.Linear(3, 2), torch.ones(1, 3), step=False).cache_fixed is None


def test_a_step_that_fails_is_told_and_no_number_is_made_up():
    class Picky(Decoder):
        def forward(self, ids, cache=None):
            if cache is not None:
                raise RuntimeError("give a position too")
            return super().forward(ids)

    fit = lamina.fit(Picky(), (IDS,), step=False)
    assert (fit.cache_bytes, fit.cache_fixed) == (None, 2 * N * PAIR)
    assert fit.cache_why == "give a position too"
    assert "after this forward; how it grows is not known: give a position too" in str(fit)


def test_a_cache_that_is_given_is_an_input_of_measured_memory():
    model = Decoder()
    cache = model(IDS).cache
    held = lamina.inspect(model, (IDS[:, :1], cache), memory=True).memory.held
    assert held["input"] == IDS[:, :1].untyped_storage().nbytes() + 2 * N * PAIR * B


transformers = pytest.importorskip("transformers")
CACHE = (
    "cache"
    if hasattr(transformers.modeling_outputs.BaseModelOutputWithPast(), "cache")
    else "past_key_values"
)
SMALL = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2}


def built(name, **config):
    cls = getattr(transformers, f"{name}Config")
    arch = {"T5": "T5ForConditionalGeneration", "GPT2": "GPT2LMHeadModel"}.get(name, f"{name}ForCausalLM")
    return getattr(transformers, arch)(cls(**SMALL, **config)).eval()


LLAMA = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LATENT = {
    **LLAMA,
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 8,
    "q_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
}
# (model, layers that grow, bytes a token, bytes that do not grow), for 2 sequences of 12 tokens
FAMILIES = {
    "llama": (lambda: built("Llama", **LLAMA, num_key_value_heads=2), 2, 2 * 2 * 16 * 4, 0),
    "latent attention": (lambda: built("DeepseekV3", **LATENT), 2, 2 * (8 + 4) * 4, 0),
    "baddbmm": (lambda: built("Bloom", hidden_size=32, n_layer=2, n_head=4), 2, 2 * 2 * 32 * 4, 0),
    "window": (
        lambda: built("Mistral", **LLAMA, num_key_value_heads=2, sliding_window=6),
        0,
        0,
        2 * 2 * 16 * 4 * 5,
    ),
    "sinks": (
        lambda: built(
            "GptOss",
            **LLAMA,
            num_key_value_heads=2,
            head_dim=8,
            sliding_window=6,
            num_local_experts=4,
            num_experts_per_tok=2,
        ),
        1,
        2 * 16 * 4,
        2 * 16 * 4 * 5,
    ),
    "gpt2": (lambda: built("GPT2", n_embd=32, n_layer=2, n_head=4), 2, 2 * 2 * 32 * 4, 0),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_caches_of_transformers(name):
    make, *wanted = FAMILIES[name]
    assert told(lamina.fit(make(), (IDS,), step=False)) == tuple(wanted)


def test_the_keys_of_an_encoder_do_not_grow():
    model = built("T5", d_model=32, d_kv=8, d_ff=64, num_layers=3, num_decoder_layers=2, num_heads=4)
    start = torch.zeros(B, 1, dtype=torch.long)
    fit = lamina.fit(model, (), {"input_ids": IDS, "decoder_input_ids": start}, step=False)
    assert told(fit) == (2, 2 * 2 * 32 * 4, 2 * 2 * 32 * 4 * N)


def test_a_static_cache_is_allocated_at_once():
    model = built("Llama", **LLAMA, num_key_value_heads=2)
    cache = transformers.StaticCache(config=model.config, max_cache_len=20)
    with torch.no_grad():
        model(IDS, **{CACHE: cache})
    fit = lamina.fit(model, (), {"input_ids": IDS[:, :1], CACHE: cache}, step=False)
    assert told(fit) == (0, 0, 2 * 2 * 16 * 4 * 20)


def test_eager_attention_has_the_effective_counts_of_torchs():
    counts = [
        lamina.inspect(make(), (IDS,), dry=dry).effective_macs
        for dry in (False, True)
        for make in (
            lambda: built("Llama", **LLAMA, attn_implementation="eager"),
            lambda: built("Llama", **LLAMA, attn_implementation="sdpa"),
        )
    ]
    assert len({(int(count), count.state) for count in counts}) == 1
    assert counts[0].state == "exact"


class Written(nn.Module):
    """Attention of two heads, whose scores are both made before either softmax."""

    def __init__(self, hide):
        super().__init__()
        self.hide = hide

    def forward(self, x):
        first, second = (x @ x.mT) * 0.5, torch.tanh((x @ x.mT) / 2)
        return torch.softmax(self.hide(first), -1) @ x + torch.softmax(second, -1) @ x


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores: scores + torch.full((8, 8), float("-inf")).triu(1),
        lambda scores: scores.masked_fill(torch.ones(8, 8, dtype=torch.bool).triu(1), float("-inf")),
        lambda scores: torch.where(torch.ones(8, 8, dtype=torch.bool).tril(), scores, float("-inf")),
        lambda scores: torch.add(scores, torch.full((8, 8), float("-inf")).triu(1), out=scores) * 2,
        lambda scores: scores,
    ],
    ids=["added", "filled", "chosen", "added in place", "none"],
)
def test_each_softmax_counts_what_its_own_mask_leaves(hide):
    report = lamina.inspect(Written(hide), (torch.rand(2, 3, 8, 4),))
    heads, masked = 6, hide(torch.zeros(8, 8)).isinf().sum().item()
    assert int(report.macs) == heads * 4 * 64 * 4
    assert int(report.effective_macs) == heads * 2 * (2 * 64 - masked) * 4
    assert report.effective_macs.state == "exact"


@pytest.mark.parametrize("eager", [False, True])
def test_windows_are_exact_in_a_dry_run(eager):
    config = {"attn_implementation": "eager"} if eager else {}
    model = built("Mistral", **LLAMA, num_key_value_heads=2, sliding_window=6, **config)
    real, dry = (lamina.inspect(model, (IDS,), dry=dry).effective_macs for dry in (False, True))
    assert (int(real), real.state) == (int(dry), dry.state)
    assert real.state == "exact"
    full = lamina.inspect(built("Mistral", **LLAMA, num_key_value_heads=2, sliding_window=None), (IDS,))
    hidden = B * 4 * 2 * 8 * 2 * sum(max(i + 1 - 6, 0) for i in range(N))
    assert full.effective_macs - real == hidden


def test_a_generate_is_counted_whole():
    model = built("Llama", **LLAMA)
    with lamina.capture(model) as cap, torch.no_grad():
        model.generate(IDS, max_new_tokens=3, do_sample=False)
    assert cap.report().flops.state == "exact"


# -- ids that the command makes ----------------------------------------------------------------------------

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.kinds = nn.Embedding(400, 8), nn.Embedding(3, 8)
    def forward(self, ids, kinds=None, mask=None):
        print("ids", len(ids.unique()), int(ids.min()), int(ids.max()))
        x = self.table(ids)
        return x if kinds is None else x + self.kinds(kinds)

class Refused(Net):
    def forward(self, ids):
        if int(self.table.weight.sum() * 0) == 0:
            return super().forward(ids)

class NoTable(nn.Module):
    def forward(self, steps):
        print("ids", len(steps.unique()), int(steps.min()), int(steps.max()))
        return steps * 2
"""


def ran(folder, name, *inputs):
    (folder / "net.py").write_text(NETS)
    options = (part for text in inputs for part in ("-i", text))
    done = warm.python("-m", "lamina", f"net.py:{name}", *options, cwd=folder, env=environment(), check=True)
    return [int(n) for n in re.findall(r"ids (\d+) (\d+) (\d+)", done.stderr)[-1]], done.stdout


def test_ids_are_random_among_the_rows_of_the_largest_table(tmp_path):
    (different, least, most), text = ran(tmp_path, "Net", "ids=1x64:int64")
    assert different > 30
    assert least >= 0
    assert most < 400
    assert "input ids 1x64 int64 randint(0,400), the rows of its table" in text
    assert ran(tmp_path, "Net", "1x64:int64")[0] == [different, least, most]  # the seed is fixed


def test_a_value_that_is_given_stays(tmp_path):
    for text in ("ids=1x64:int64=0", "ids=1x64:int64=zeros"):
        assert ran(tmp_path, "Net", text)[0] == [1, 0, 0]


def test_rows_of_a_smaller_table_are_not_drawn(tmp_path):
    _, text = ran(tmp_path, "Net", "ids=1x64:int64", "kinds=1x64:int64", "mask=1x64:int64")
    assert "input kinds 1x64 int64 zeros" in text
    assert "input mask 1x64 int64 ones" in text


def test_without_a_table_or_without_a_dry_run_they_are_zeros(tmp_path):
    assert ran(tmp_path, "NoTable", "steps=1x64:int64")[0] == [1, 0, 0]
    assert ran(tmp_path, "Refused", "ids=1x64:int64")[0] == [1, 0, 0]
