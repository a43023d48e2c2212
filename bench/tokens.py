# SPDX-License-Identifier: Apache-2.0
"""What counting a language model in tokens costs: a dry run of a large one on the meta device, and a captured
`generate` of a small one beside a plain one.

`make bench` prints these rows after the others, or that transformers is missing, which they need. The
large models are counted in processes of their own, whose memory is measured. Their seconds depend on the
machine: the forward of a small Llama stands beside them as a yardstick.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import warnings
from typing import Any

import torch
from operators import verdict

import lamina

DRY_BAR_S = {"llama 8B": 6.0, "deepseek 671B": 20.0}
MEMORY_BAR = 1 << 30
GENERATE_BAR = 1.2
NEW = 32

DRY = """
import sys, time, torch, transformers, lamina
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, LlamaConfig, LlamaForCausalLM
torch.set_num_threads(1)
with torch.device("meta"):
    if sys.argv[1] == "llama 8B":
        config = LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336,
                             num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
                             max_position_embeddings=131072, tie_word_embeddings=False)
        model = LlamaForCausalLM(config).eval()
    else:
        model = DeepseekV3ForCausalLM(DeepseekV3Config()).eval()
start = time.process_time()
t = lamina.tokens(model, prompt=1024, new=128, dry=True)
taken = time.process_time() - start
status = open("/proc/self/status").read()  # getrusage also has the peak of the process that started this one
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(taken, peak, int(t.params.total))
"""


def small_llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=8,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def cpu_s(work: Any) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def generate_ratio(rounds: int) -> float:
    """CPU time of a captured `generate` over that of a plain one before it, the median of pairs."""
    model = small_llama()
    ids = torch.randint(0, 1000, (1, 64))

    def plain() -> None:
        model.generate(ids, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0)

    def captured() -> None:
        with lamina.capture(model):
            plain()

    plain()
    captured()
    pairs = [(cpu_s(plain), cpu_s(captured)) for _ in range(rounds)]
    return statistics.median(after / before for before, after in pairs)


def dry_run(name: str) -> tuple[float, int, int]:
    """CPU seconds of the count, bytes of the process at most, parameters of the model."""
    command = [sys.executable, "-c", DRY, name]
    told = subprocess.run(command, text=True, capture_output=True, check=True).stdout.split()
    return float(told[0]), int(told[1]), int(told[2])


def rows(rounds: int | None = None) -> bool:
    print("\nlanguage models in tokens, CPU time")
    try:
        import transformers
    except ImportError:
        print("  skipped: transformers is not installed")
        return True
    transformers.utils.logging.set_verbosity_error()
    held = []
    model, ids = small_llama(), torch.randint(0, 1000, (1, 512))
    with torch.no_grad():
        model(ids)
        yardstick = min(cpu_s(lambda: model(ids)) for _ in range(5))
    print(f"  yardstick, a forward of a Llama of 8 layers, 512 tokens {yardstick * 1e3:8.1f} ms")
    for name, bar in DRY_BAR_S.items():
        taken, memory, params = dry_run(name)
        told = verdict(taken, bar)
        print(f"  dry run of {name:<14} {params / 1e9:6.1f} B params {taken:8.2f} s   bar {bar:.0f}  {told}")
        told = verdict(memory, MEMORY_BAR)
        print(f"  its process                {memory / 2**20:26.0f} MiB bar 1024  {told}")
        held += [taken <= bar, memory <= MEMORY_BAR]
    ratio = generate_ratio(rounds or 9)
    told = verdict(ratio, GENERATE_BAR)
    print(f"  a captured generate over a plain one, {NEW} tokens {ratio:12.3f}   bar {GENERATE_BAR}  {told}")
    return all([*held, ratio <= GENERATE_BAR])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(0 if rows() else 1)
