# SPDX-License-Identifier: Apache-2.0
"""Predicted peaks of memory against measured ones: `make bench-fit` prints a row for each model and the bars.

Measured is what torch's profiler counts of its CPU allocator: a forward pass in eval mode with one example,
and the third of three training steps with two, in train mode, from gradients of ones. The error is that of
everything that is held (parameters, buffers, inputs, optimizer included); the one in brackets is of what lies
above parameters, buffers and inputs, where nothing can hide. Each model has a process of its own. What is not
installed is named and skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
RUNS = ("eval", "sgd", "adam")
MEDIAN_BAR, WORST_BAR = 5.0, 15.0
ENOUGH = 40
# Built differently from what is measured here, or with values that decide what runs.
LEFT_OUT = {
    "script_module",
    "compiled_eager",
    "dataparallel",
    "data_dependent",
    "quantized_dynamic",
    "resnet50_meta",
}

SMALL = {"vocab_size": 1000, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 128}
IDS = "ids(1, 64)"
MORE = {
    "resnet34": ("tv('resnet34')", "(randn(1,3,224,224),)", "{}"),
    "mnasnet1_0": ("tv('mnasnet1_0')", "(randn(1,3,224,224),)", "{}"),
    "shufflenet_v2_x1_0": ("tv('shufflenet_v2_x1_0')", "(randn(1,3,224,224),)", "{}"),
    "regnet_x_400mf": ("tv('regnet_x_400mf')", "(randn(1,3,224,224),)", "{}"),
    "vgg11_bn": ("tv('vgg11_bn')", "(randn(1,3,224,224),)", "{}"),
    "resnet50": ("tv('resnet50')", "(randn(1,3,224,224),)", "{}"),
    "swin_v2_t": ("tv('swin_v2_t')", "(randn(1,3,224,224),)", "{}"),
    "efficientnet_v2_s": ("tv('efficientnet_v2_s')", "(randn(1,3,224,224),)", "{}"),
    "deeplabv3_resnet50": ("tvseg('deeplabv3_resnet50')", "(randn(1,3,128,128),)", "{}"),
    "timm_vit_tiny": ("tm('vit_tiny_patch16_224')", "(randn(1,3,224,224),)", "{}"),
    "timm_convnextv2_atto": ("tm('convnextv2_atto')", "(randn(1,3,224,224),)", "{}"),
    "timm_mixer_s32": ("tm('mixer_s32_224')", "(randn(1,3,224,224),)", "{}"),
    "timm_hrnet_w18_small": ("tm('hrnet_w18_small')", "(randn(1,3,224,224),)", "{}"),
    "timm_eca_nfnet_l0": ("tm('eca_nfnet_l0')", "(randn(1,3,224,224),)", "{}"),
    "hf_bert": (f"hf('Bert', **{SMALL | {'intermediate_size': 256}})", "()", f"{{'input_ids': {IDS}}}"),
    "hf_llama": (
        f"hf('Llama', 'ForCausalLM', **{SMALL | {'intermediate_size': 256, 'num_key_value_heads': 2}})",
        "()",
        f"{{'input_ids': {IDS}}}",
    ),
    "hf_qwen2": (
        f"hf('Qwen2', 'ForCausalLM', **{SMALL | {'intermediate_size': 256, 'num_key_value_heads': 2}})",
        "()",
        f"{{'input_ids': {IDS}}}",
    ),
    "hf_gpt2": (
        "hf('GPT2', 'LMHeadModel', vocab_size=1000, n_embd=128, n_layer=2, n_head=4)",
        "()",
        f"{{'input_ids': {IDS}}}",
    ),
    "hf_opt": (
        f"hf('OPT', 'ForCausalLM', **{SMALL | {'ffn_dim': 256, 'word_embed_proj_dim': 128}})",
        "()",
        f"{{'input_ids': {IDS}}}",
    ),
}


def tm(name: str) -> Any:
    import timm

    return timm.create_model(name, pretrained=False)


def hf(family: str, head: str = "Model", **config: Any) -> Any:
    import transformers

    settings = getattr(transformers, f"{family}Config")(**config)
    return getattr(transformers, f"{family}{head}")(settings)


def models() -> dict[str, tuple[str, str, str]]:
    """Expressions of every model, its arguments and its keyword arguments."""
    recorded = {
        model["name"]: (model["build"], model["args"], model["kwargs"])
        for model in json.loads((DATA / "truth.json").read_text())
        if model["name"] not in LEFT_OUT
    }
    return recorded | MORE


def doubled(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return torch.cat([value, value]) if value.dim() else value
    if isinstance(value, (list, tuple)):
        return type(value)(doubled(item) for item in value)
    return {k: doubled(v) for k, v in value.items()} if isinstance(value, dict) else value


def build(name: str, *, twice: bool) -> tuple[Any, Any, Any]:
    import corpus_nets
    import torch

    names = {**vars(corpus_nets), "tm": tm, "hf": hf}
    torch.manual_seed(0)
    model, args, kwargs = (eval(text, names) for text in models()[name])
    return (model, doubled(args), doubled(kwargs)) if twice else (model, args, kwargs)


def one(name: str, run: str) -> dict[str, Any]:
    """One model in one way: bytes predicted, measured and there before, and seconds of the prediction."""
    import allocated
    import torch

    import lamina

    model, args, kwargs = build(name, twice=run != "eval")
    base = allocated.held(model, args, kwargs)
    start = time.process_time()
    fit = lamina.fit(model, args, kwargs, optimizer="adam" if run == "adam" else "sgd")
    seconds = time.process_time() - start
    if run == "eval":
        peak, measured = fit.forward, allocated.forward_peak(model, args, kwargs)
    else:
        if fit.step is None:
            return {"skipped": "no parameter gets a gradient"}
        make = torch.optim.Adam if run == "adam" else torch.optim.SGD
        peak = fit.step
        measured = allocated.step_peak(model, args, kwargs, make(model.parameters(), lr=1e-6))
    return {"predicted": int(peak.bytes), "measured": measured + base, "base": base, "seconds": seconds}


def asked(name: str) -> dict[str, dict[str, Any]]:
    """All runs of one model, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--one", name], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    told = done.stderr.strip().splitlines() or ["nothing"]
    return {run: {"skipped": told[-1][:100]} for run in RUNS}


def all_runs(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for run in RUNS:
        try:
            found[run] = one(name, run)
        except Exception as error:
            found[run] = {"skipped": f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"}
    return found


def per_cent(a: float, b: float) -> float:
    return 100 * (a / b - 1) if b else 0.0


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def tell(label: str, errors: list[float]) -> bool:
    middle, worst = statistics.median(errors), percentile(errors, 0.95)
    ok = middle <= MEDIAN_BAR and worst <= WORST_BAR
    verdict = "ok" if ok else "MISSED"
    print(
        f"{label}: median {middle:.2f} % (bar {MEDIAN_BAR:g}), 95th percentile {worst:.2f} %"
        f" (bar {WORST_BAR:g}), worst {max(errors):.2f} %, {len(errors)} runs  {verdict}"
    )
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", help="one model, as JSON")
    parser.add_argument("models", nargs="*", help="these models only")
    given = parser.parse_args()
    if given.one:
        warnings.filterwarnings("ignore")
        print(json.dumps(all_runs(given.one)))
        return 0
    total: list[float] = []
    above: list[float] = []
    counted = set()
    print(f"{'model':26} {'run':5} {'predicted':>12} {'measured':>12}  {'error':>8} {'(above)':>10}  seconds")
    for name in given.models or models():
        for run, row in asked(name).items():
            if "skipped" in row:
                print(f"{name:26} {run:5} skipped: {row['skipped']}")
                continue
            off = per_cent(row["predicted"], row["measured"])
            over = per_cent(row["predicted"] - row["base"], row["measured"] - row["base"])
            total.append(abs(off))
            above.append(abs(over))
            counted.add(name)
            print(
                f"{name:26} {run:5} {row['predicted']:>12} {row['measured']:>12}  {off:>+7.2f}%"
                f" {over:>+8.2f}%  {row['seconds']:.2f}",
                flush=True,
            )
    if not total:
        return 1
    ok = tell(f"all that is held, {len(counted)} models", total)
    ok = tell("above parameters, buffers and inputs", above) and ok
    return 0 if ok and (given.models or len(counted) >= ENOUGH) else 1


if __name__ == "__main__":
    sys.exit(main())
