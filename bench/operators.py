# SPDX-License-Identifier: Apache-2.0
"""What watching operators costs: `make bench` prints these rows after the others.

Times are CPU times of one thread, in pairs with the plain run just before, and the figure is the median of
the pairs' ratios. Memory is the peak of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import lamina

Work = Callable[[], object]
OPERATOR_BAR_US = 0.6
BYTES_BAR = 160
REPORT_BAR_S = 2.0
INSPECT_BAR = 1.15
LONG_S, LONG_BAR = 0.05, 1.06  # a forward that takes longer, and the bar there


def cpu(work: Work) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


def verdict(value: float, bar: float) -> str:
    return "ok" if value <= bar else "MISSED"


# -- one operator --------------------------------------------------------------------------------------------


def operator_us(work: Work, times: int = 2000, rounds: int = 30) -> float:
    """Microseconds that an open capture adds to one operator, those that it calls counted too."""

    def many() -> None:
        for _ in range(times):
            work()

    model, extra = nn.Identity(), []
    with torch.no_grad():
        for _ in range(rounds):
            many()
            base = cpu(many)
            with lamina.capture(model, ops=True) as watch:
                many()
                seen = cpu(many)
            assert watch._model is not None
            extra.append((seen - base) / (watch._model.n_operators() / 2) * 1e6)
    return statistics.median(extra)


def small_operators() -> dict[str, float]:
    a, b = torch.rand(16), torch.rand(16)
    m, n = torch.rand(4, 4), torch.rand(4, 4)
    return {
        "add (16 elements)": operator_us(lambda: torch.add(a, b)),
        "mm (4x4)": operator_us(lambda: torch.mm(m, n)),
    }


# -- a million of them ---------------------------------------------------------------------------------------


class Mixed(nn.Module):
    """Layers and functions of many kinds, over and over."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.linear, self.conv, self.norm = nn.Linear(8, 8), nn.Conv2d(2, 2, 3, padding=1), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        image = torch.rand(1, 2, 4, 4)
        weight, bias = self.linear.weight, self.linear.bias
        for _ in range(self.rounds):
            y = F.linear(x, weight, bias).relu_() + x
            z = torch.cat([y, x], dim=1).view(4, -1)[:, :8]
            image = F.conv2d(image, self.conv.weight, self.conv.bias, padding=1)
            image = F.max_pool2d(image, 3, 1, 1).sigmoid()
            x = F.layer_norm(torch.softmax(z @ y.t(), dim=-1) @ z, (8,)) * 0.5
        return x


def resident(field: str = "VmRSS") -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def million(operators: int) -> dict[str, float]:
    """One capture of so many operators here: bytes an operator at the peak, seconds of the report.

    All that ran count, as torch's profiler lists them; those inside a counted one are not noted.
    """
    model, x = Mixed(20).eval(), torch.rand(4, 8)
    with torch.no_grad():
        with lamina.capture(model, ops=True) as few:
            model(x)
        str(few.report("exact"))
        with torch.profiler.profile() as whole:
            model(x)
        assert few._model is not None
        noted = few._model.n_operators()
        ran = sum(each.count for each in whole.key_averages() if each.key.startswith("aten::"))
        model.rounds = operators * model.rounds // ran + 1
        del few, whole
        start = resident()
        Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
        with lamina.capture(model, ops=True) as watch:
            model(x)
    captured = resident("VmHWM") - start
    begun = time.thread_time()
    report = watch.report("exact")
    str(report)
    taken = time.thread_time() - begun
    assert watch._model is not None
    n = watch._model.n_operators()
    all_that_ran = n * ran / noted
    return {
        "operators": round(all_that_ran),
        "noted": n,
        "bytes": max(captured, resident("VmHWM") - start) / all_that_ran,
        "report_s": taken,
        "flops": int(report.flops),
    }


def in_process(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, *arguments], text=True, capture_output=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


# -- whole models --------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    """A small BERT; torch's own encoder where transformers is not installed."""

    def __init__(self, wide: int = 512) -> None:
        super().__init__()
        try:
            from transformers import BertConfig, BertModel
        except ImportError:
            layer = nn.TransformerEncoderLayer(128, 2, wide, batch_first=True)
            self.embed: nn.Module = nn.Embedding(1000, 128)
            self.bert: nn.Module = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            return
        config = BertConfig(
            vocab_size=1000,
            hidden_size=128,
            num_hidden_layers=4,
            num_attention_heads=2,
            intermediate_size=wide,
        )
        self.embed, self.bert = nn.Identity(), BertModel(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out = self.bert(self.embed(ids))
        return out if isinstance(out, torch.Tensor) else out.last_hidden_state


def torchvision_model(name: str) -> nn.Module:
    import torchvision

    model: nn.Module = getattr(torchvision.models, name)(weights=None)
    return model


WHOLE: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], int, float]] = {
    "resnet18": (lambda: torchvision_model("resnet18"), lambda: torch.rand(1, 3, 224, 224), 9, 1.05),
    "densenet121 at 64x64": (
        lambda: torchvision_model("densenet121"),
        lambda: torch.rand(1, 3, 64, 64),
        15,
        1.2,
    ),
    "a small BERT": (Encoder, lambda: torch.randint(0, 1000, (1, 64)), 25, 1.2),
    "BERT, 151 MFLOPs": (lambda: Encoder(256), lambda: torch.randint(0, 1000, (2, 64)), 25, 1.2),
}


def forward_of(model: nn.Module, x: torch.Tensor) -> Work:
    def work() -> None:
        with torch.no_grad():
            model(x)

    return work


def step_of(model: nn.Module, x: torch.Tensor) -> Work:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def work() -> None:
        optimizer.zero_grad()
        out = model(x)
        out.sum().backward()
        optimizer.step()

    return work


def by_lamina(model: nn.Module, work: Work) -> Work:
    def run() -> None:
        with lamina.capture(model, ops=True) as watch:
            work()
        assert watch.report("exact").macs > 0

    return run


def by_counter(_: nn.Module, work: Work) -> Work:
    from torch.utils.flop_counter import FlopCounterMode

    def run() -> None:
        with FlopCounterMode(display=False) as counter:
            work()
        assert counter.get_total_flops() > 0

    return run


def ratio(plain: Work, watched: Work, rounds: int) -> float:
    plain()
    watched()
    found = []
    for _ in range(rounds):
        base = cpu(plain)
        found.append(cpu(watched) / base)
    return statistics.median(found)


def whole_model(name: str, rounds: int | None) -> bool:
    build, make, usual, bar = WHOLE[name]
    torch.manual_seed(0)
    model, x = build(), make()
    held = True
    for what, work_of in (("forward", forward_of), ("training step", step_of)):
        model.train(what != "forward")
        work = work_of(model, x)
        ours = ratio(work, by_lamina(model, work), rounds or usual)
        theirs = ratio(work, by_counter(model, work), max(3, (rounds or usual) // 4))
        held = held and ours <= bar
        print(
            f"  {name:<21} {what:<14} {ours:6.3f}   bar {bar:.2f}  {verdict(ours, bar):<6}"
            f"   FlopCounterMode {theirs:.2f}"
        )
    return held


def apart(file: str, name: str, rounds: int | None) -> bool:
    """Has `file` print the rows of one model in a process of its own: what ran before, here or for another
    model, would be in these figures. True where their bars hold."""
    sys.stdout.flush()
    options = ["--model", name, *(["--rounds", str(rounds)] if rounds else [])]
    done = subprocess.run([sys.executable, file, *options])
    if done.returncode not in (0, 1):
        raise SystemExit(f"{name}: measuring it ended with {done.returncode}")
    return done.returncode == 0


# -- many models ---------------------------------------------------------------------------------------------


def corpus_ratios() -> list[tuple[float, float]]:
    """For each model the seconds of one plain forward, and the CPU time of one `lamina.inspect` over that."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "py"))
    import corpus_nets

    found = []
    for told in corpus_nets.everything():
        torch.manual_seed(0)
        try:
            model, args, kwargs = (
                eval(told[part], vars(corpus_nets)) for part in ("build", "args", "kwargs")
            )
        except ImportError:
            continue
        model.eval()

        def plain(model: nn.Module = model, args: Any = args, kwargs: Any = kwargs) -> None:
            with torch.no_grad():
                model(*args, **kwargs)

        def inspect(model: nn.Module = model, args: Any = args, kwargs: Any = kwargs) -> None:
            lamina.inspect(model, args, kwargs)

        macs = lamina.inspect(model, args, kwargs).macs
        if macs != told["macs"]:
            raise SystemExit(f"{told['name']}: {macs} MACs were counted, and {told['macs']} ran")
        plain()
        seconds = cpu(plain)
        found.append((seconds, ratio(plain, inspect, min(25, max(5, round(0.5 / seconds))))))
    return found


# -- all of it -----------------------------------------------------------------------------------------------


def rows(rounds: int | None = None) -> bool:
    """Prints every row; True when all bars hold."""
    from lamina._observe import support

    way = support.way()
    print(f"\noperators ({way.name})")
    if way.name == "calls":
        print(f"  skipped: {way.why}")
        return True
    held = []
    for name, us in small_operators().items():
        held.append(us <= OPERATOR_BAR_US)
        print(
            f"  {name:<21} {us:6.3f} us an operator   bar {OPERATOR_BAR_US}  {verdict(us, OPERATOR_BAR_US)}"
        )
    many = in_process("--million")
    size, taken = many["bytes"], many["report_s"]
    held += [size <= BYTES_BAR, taken <= REPORT_BAR_S]
    print(f"  {many['operators']:,} operators, {many['noted']:,} of them noted, together at the peak")
    print(f"  {'bytes each':<21} {size:6.0f}   bar {BYTES_BAR}  {verdict(size, BYTES_BAR)}")
    print(f"  {'their report':<21} {taken:6.2f} s   bar {REPORT_BAR_S:.0f}  {verdict(taken, REPORT_BAR_S)}")
    print("captured with operators, and reported, over the plain run (CPU time)")
    held += [apart(__file__, name, rounds) for name in WHOLE]
    found = corpus_ratios()
    print("lamina.inspect over a plain forward (CPU time)")
    long = [each for seconds, each in found if seconds > LONG_S]
    parts = (("", [each for _, each in found], INSPECT_BAR), (" of over 50 ms", long, LONG_BAR))
    for what, ratios, bar in parts:
        median = statistics.median(ratios)
        held.append(median <= bar)
        print(f"  median of {len(ratios)} models{what:<15} {median:.3f}   bar {bar}  {verdict(median, bar)}")
    return all(held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help="rounds a model, instead of each model's own number")
    parser.add_argument("--model", choices=WHOLE, help="the rows of this whole model alone")
    parser.add_argument("--million", nargs="?", type=int, const=1_000_000, help="this part alone, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.million:
        print(json.dumps(million(options.million)))
        return 0
    if options.model:
        return 0 if whole_model(options.model, options.rounds) else 1
    return 0 if rows(options.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
