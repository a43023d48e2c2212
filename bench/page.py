# SPDX-License-Identifier: Apache-2.0
"""What a report's file costs: its size, the time to write it, and the time until a browser has drawn it.

`make bench` prints these rows after the others. The first paint needs Debian's chromium and playwright, and
is named as missing without them. Beside it, on the same model: torchview's SVG, TorchLens' report and
torchvista's page, each where it is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from operators import Mixed, resident, torchvision_model, verdict
from torch import nn

import lamina

TEMPLATE_BAR = 150_000  # bytes without the data
LARGE_BAR = 2_000_000  # bytes of the file: 10,000 different modules, or a million operators
PAINT_BAR_MS = 1000
MILLION_BAR_S, MILLION_BAR_BYTES = 2.0, 500_000_000
OPENINGS = 5


class Block(nn.Module):
    """Two layers of a width of their own, with what stands around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, width)
        self.act, self.down = nn.GELU(), nn.Linear(width, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


def different(groups: int = 50, blocks: int = 40) -> nn.Module:
    """10,051 modules: every block has another width."""
    return nn.Sequential(
        *(nn.Sequential(*(Block(8 + g * blocks + b) for b in range(blocks))) for g in range(groups))
    )


def write(report: lamina.Report, file: Path) -> dict[str, float]:
    """Writes the report: bytes of the file and of its data, CPU seconds, bytes of memory above the start."""
    start = resident()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    begun = time.thread_time()
    report.to_html(str(file))
    taken = time.thread_time() - begun
    text = file.read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert data is not None
    size = file.stat().st_size
    return {
        "file": size,
        "data": len(data[1].encode()),
        "seconds": taken,
        "memory": resident("VmHWM") - start,
    }


def paint_ms(file: Path) -> float | None:
    """The median time of a browser until the first paint; None: there is no browser."""
    browser = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if browser is None:
        return None
    times = []
    with sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for _ in range(OPENINGS):
            page = chromium.new_page(bypass_csp=True)  # for the question below alone
            page.goto(file.as_uri())
            page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
            times.append(
                float(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            )
            page.close()
        chromium.close()
    return statistics.median(times)


# -- each in a process of its own ----------------------------------------------------------------------------


def small(file: Path) -> dict[str, Any]:
    model, x = torchvision_model("resnet18"), torch.rand(1, 3, 224, 224)
    report = lamina.inspect(model.train(), (x,), backward=True, time=True, memory=True, health=True)
    return write(report, file) | {"paint": paint_ms(file)}


def large(file: Path) -> dict[str, Any]:
    report = lamina.inspect(different(), (torch.rand(2, 8),), dry=True)
    return write(report, file) | {"paint": paint_ms(file)}


def million(file: Path, operators: int = 1_000_000) -> dict[str, Any]:
    model, x = Mixed(20).eval(), torch.rand(4, 8)
    with torch.no_grad():
        with lamina.capture(model, ops=True) as few:
            model(x)
        assert few._model is not None
        model.rounds = operators * model.rounds // few._model.n_operators() + 1
        with lamina.capture(model, ops=True) as whole:
            model(x)
    report = whole.report("exact")
    str(report)  # counts what the page shows too
    assert whole._model is not None
    return write(report, file) | {"operators": whole._model.n_operators(), "paint": paint_ms(file)}


def by_torchview(model: nn.Module, x: torch.Tensor, file: Path) -> None:
    from torchview import draw_graph

    file.write_bytes(draw_graph(model, input_data=x, depth=9).visual_graph.pipe(format="svg"))


def by_torchlens(model: nn.Module, x: torch.Tensor, file: Path) -> None:
    import torchlens

    torchlens.export.html(torchlens.trace(model, x), str(file))


def by_torchvista(model: nn.Module, x: torch.Tensor, file: Path) -> None:
    import torchvista

    torchvista.trace_model(model, x, export_format="html", export_path=str(file))


def by_lamina(model: nn.Module, x: torch.Tensor, file: Path) -> None:
    lamina.inspect(model, (x,)).to_html(str(file))


PEERS: dict[str, Callable[[nn.Module, torch.Tensor, Path], None]] = {
    "lamina": by_lamina,
    "torchview": by_torchview,
    "torchlens": by_torchlens,
    "torchvista": by_torchvista,
}


def peer(name: str, file: Path) -> dict[str, Any]:
    """From the model to its file, all that this tool does; size, seconds, first paint."""
    model, x = torchvision_model("resnet18").eval(), torch.rand(1, 3, 224, 224)
    if name == "torchview":
        file = file.with_suffix(".svg")
    begun = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        PEERS[name](model, x, file)
    return {
        "file": file.stat().st_size,
        "seconds": time.perf_counter() - begun,
        "paint": paint_ms(file),
    }


# -- the rows ------------------------------------------------------------------------------------------------


def row(what: str, value: float, bar: float, unit: str, scale: float = 1) -> bool:
    print(f"  {what:<38} {value / scale:8,.2f} {unit}   bar {bar / scale:g}  {verdict(value, bar)}")
    return value <= bar


def paint_row(found: dict[str, Any], what: str) -> bool:
    if found["paint"] is None:
        print(f"  {what:<38} not measured: no chromium, or no playwright")
        return True
    return row(what, found["paint"], PAINT_BAR_MS, "ms")


def rows() -> bool:
    print("the report's file")
    held = []
    few, many, most = (apart(part) for part in ("--small", "--large", "--million"))
    held.append(row("resnet18, without its data", few["file"] - few["data"], TEMPLATE_BAR, "KB", 1e3))
    print(f"  {'its data':<38} {few['data'] / 1e3:8,.2f} KB")
    held.append(paint_row(few, "first paint"))
    held.append(row("10,051 different modules", many["file"], LARGE_BAR, "MB", 1e6))
    print(f"  {'written in':<38} {many['seconds']:8,.2f} s")
    held.append(paint_row(many, "first paint"))
    held.append(row(f"{most['operators']:,} operators", most["file"], LARGE_BAR, "MB", 1e6))
    held.append(row("written in", most["seconds"], MILLION_BAR_S, "s"))
    held.append(row("with memory of", most["memory"], MILLION_BAR_BYTES, "MB", 1e6))
    print("resnet18 from the model to its file, other tools beside it")
    for name in PEERS:
        try:
            found = apart("--peer", name)
        except (subprocess.CalledProcessError, json.JSONDecodeError):
            print(f"  {name:<20} not installed, or it failed")
            continue
        paint = "?" if found["paint"] is None else f"{found['paint']:.0f} ms"
        print(
            f"  {name:<20} {found['file'] / 1e3:8,.0f} KB   {found['seconds']:6.2f} s   first paint {paint}"
        )
    return all(held)


def apart(*arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, *arguments], text=True, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="resnet18 alone, as JSON")
    parser.add_argument("--large", action="store_true", help="10,051 different modules alone, as JSON")
    parser.add_argument("--million", action="store_true", help="a million operators alone, as JSON")
    parser.add_argument("--peer", choices=PEERS, help="one tool alone, as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        if options.peer:
            print(json.dumps(peer(options.peer, file)))
        elif options.small or options.large or options.million:
            part = small if options.small else large if options.large else million
            print(json.dumps(part(file)))
        else:
            return 0 if rows() else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
