# SPDX-License-Identifier: Apache-2.0
"""What the core's JSON reader takes for a saved report, beside other readers; `make bench` prints these rows.

Each figure is the median of warm runs in one process. Readers for Python make its objects too; yyjson
parses without making any.
"""

from __future__ import annotations

import importlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from operators import torchvision_model

import lamina

ROOT = Path(__file__).resolve().parent.parent
BAR_US, BAR_BYTES = 1000, 417_000  # the reader's time for so many bytes of a saved report
TIMES = 300


def build(folder: Path) -> Path:
    """Compiles the core's reader alone."""
    program = folder / "json_reader"
    base = sorted(str(file) for file in (ROOT / "src" / "base").glob("*.c"))
    command = ["cc", "-O2", "-std=gnu17", f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}"]
    command += [str(ROOT / "bench" / "json_reader.c"), *base, str(ROOT / "src" / "vocab" / "kinds.c")]
    subprocess.run([*command, "-o", str(program), "-lm", "-ldl", "-lpthread"], check=True)
    return program


def median_us(read: Callable[[bytes], object], text: bytes) -> float:
    took = []
    for _ in range(TIMES):
        began = time.perf_counter_ns()
        read(text)
        took.append(time.perf_counter_ns() - began)
    return statistics.median(took) / 1000  # not a count: microseconds


def others() -> dict[str, Callable[[bytes], object]]:
    """The readers that are installed."""
    found: dict[str, Callable[[bytes], object]] = {"json": json.loads}
    for name, attribute in (("orjson", "loads"), ("yyjson", "Document")):
        try:
            found[name] = getattr(importlib.import_module(name), attribute)
        except ImportError:
            print(f"  {name:<12} is not installed: pip install {name}")
    return found


def rows() -> bool:
    """Prints the rows; returns whether the bar is held."""
    if not shutil.which("cc"):
        print("the JSON reader: there is no C compiler")
        return True
    torch.manual_seed(0)
    report = lamina.inspect(torchvision_model("resnet50"), torch.rand(1, 3, 224, 224))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        text = report.to_json(file).encode()
        ours = float(subprocess.check_output([build(Path(folder)), file, str(TIMES)]))
        began = time.perf_counter_ns()
        lamina.Report.load(file)
        whole = (time.perf_counter_ns() - began) / 1000  # not a count: microseconds
    bar = BAR_US * len(text) / BAR_BYTES  # not a count: for a file of this size
    print(f"a saved report of {len(text):,} bytes, microseconds (at most {bar:,.0f}):")
    print(f"  {'lamina':<12} {ours:>9,.0f}   {'ok' if ours <= bar else 'over'}")
    for name, read in others().items():
        print(f"  {name:<12} {median_us(read, text):>9,.0f}")
    print(f"  {'Report.load':<12} {whole:>9,.0f}   once, cold: the file, its checks, and the model of it")
    return ours <= bar


if __name__ == "__main__":
    sys.exit(not rows())
