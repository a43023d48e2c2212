# SPDX-License-Identifier: Apache-2.0
"""What the native command takes for files of models, beside other tools: `make bench-files`, with its bars.

Whole processes on files that are in the page cache. Each run of the command is paired with `/bin/true` and
with a run of the peer, in turns; a figure is the median over the rounds. Bars hold for CPU time, user and
system, which a busy machine changes little; the wall's time is printed beside it. Peers are in a virtual
environment of their own (build/peers); one that is missing or fails is named.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "build/peers"
NATIVE = ROOT / "build/native"
PACKAGES = ["numpy", "safetensors", "gguf", "picklescan", "onnx-tool"]
OWN = ROOT / ".venv/bin/python"  # which has torch
MS = 1000.0
TRUE_TIMES, TRUE_PLUS_MS, MB_MS, PIP_PLUS_MS = 1.5, 2.0, 1.0, 15.0


class Took(NamedTuple):
    cpu: float  # milliseconds
    wall: float


class Row(NamedTuple):
    name: str
    file: Path
    words: list[str]  # of the command
    peer: str  # its name
    code: str  # what it runs in Python, with the file in sys.argv[1]
    header_mb: float | None  # of the file, for the bar; None: the bar is how much faster the command is
    least: float = 1  # so many times as fast as the peer, for that bar
    python: Path = PEERS / "bin/python"  # which runs the peer


SAFE_OPEN = (
    "import sys; from safetensors import safe_open; f = safe_open(sys.argv[1], 'numpy'); print(len(f.keys()))"
)
GGUF = "import sys; from gguf import GGUFReader; print(len(GGUFReader(sys.argv[1]).tensors))"
LOAD = "import sys, torch; torch.export.load(sys.argv[1])"
ONNX_TOOL = "import sys, onnx_tool; onnx_tool.model_profile(sys.argv[1])"
ONNX_LOAD = "import sys, onnx; onnx.load(sys.argv[1])"
# resnet50 as both, in a Python that has torchvision.
EXPORT = """
import sys, torch, torchvision
model, x = torchvision.models.resnet50().eval(), (torch.rand(1, 3, 224, 224),)
torch.export.save(torch.export.export(model, x), sys.argv[1])
torch.onnx.export(model, x, sys.argv[2], dynamo=False)
"""
# A Llama of 80 narrow layers: its program is as long as that of one with 70 billion parameters.
LLAMA = """
import sys, torch, transformers
config = transformers.LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=80, num_attention_heads=8,
    num_key_value_heads=4, vocab_size=128, use_cache=False,
)
class Logits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.llama = transformers.LlamaForCausalLM(config)
    def forward(self, ids):
        return self.llama(ids).logits
ids = torch.zeros(1, 16, dtype=torch.long)
torch.export.save(torch.export.export(Logits().eval(), (ids,), strict=False), sys.argv[1])
"""
SCAN = "import sys; from picklescan.scanner import scan_file_path as s; print(s(sys.argv[1]).infected_files)"


# -- the files ---------------------------------------------------------------------------------------------


def safetensors(path: Path, megabytes: float, data: int = 0) -> Path:
    """One whose header has about so many megabytes; the bytes of its tensors are a hole in the file."""
    n = int(megabytes * 1e6 / 103)
    each = max(2, data // n // 2 * 2)
    entries, at = {}, 0
    for i in range(n):
        name = f"model.layers.{i // 100}.block.{i % 100:02}.weight"
        entries[name] = {"dtype": "F16", "shape": [each // 2], "data_offsets": [at, at + each]}
        at += each
    header = json.dumps(entries, separators=(",", ":")).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + at)
    return path


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def gguf(path: Path, megabytes: float) -> Path:
    """One with a vocabulary of about so many megabytes, and 300 tensors."""
    tokens, n = int(megabytes * 1e6 / 16), 300
    parts = [b"GGUF", struct.pack("<IQQ", 3, n, 2), text("general.architecture"), struct.pack("<I", 8)]
    parts += [text("llama"), text("tokenizer.ggml.tokens"), struct.pack("<IIQ", 9, 8, tokens)]
    parts += [text(f"tok{i:05}") for i in range(tokens)]
    for i in range(n):
        parts += [text(f"blk.{i // 10}.w{i % 10}.weight"), struct.pack("<IQQIQ", 2, 32, 32, 1, i * 2048)]
    head = b"".join(parts)
    with path.open("wb") as file:
        file.write(head + bytes(-len(head) % 32))
        file.truncate(file.tell() + n * 2048)
    return path


def checkpoint(path: Path, n: int) -> Path:
    """A zip file with one pickle, as torch.save writes it, of a plain dict."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", pickle.dumps({f"epoch.{i}": float(i) for i in range(n)}, protocol=2))
        archive.writestr("net/version", "3\n")
    return path


def export(name: str, code: str, *files: Path) -> bool:
    path = {**os.environ, "PYTHONPATH": str(ROOT / "tests/shim")}
    done = subprocess.run([OWN, "-c", code, *files], env=path, capture_output=True, check=False, text=True)
    if done.returncode != 0:
        print(f"  {name} can't be exported here: {done.stderr.strip().splitlines()[-1]}")
    return done.returncode == 0


def exported(folder: Path) -> list[Row]:
    """resnet50 as .pt2 and as ONNX, and a Llama as .pt2; without what can't be exported here."""
    pt2, onnx, llama = folder / "resnet50.pt2", folder / "resnet50.onnx", folder / "llama.pt2"
    made = []
    if export("resnet50", EXPORT, pt2, onnx):
        made += [
            Row("resnet50 as .pt2", pt2, ["show"], "torch.export.load", LOAD, None, 1000, OWN),
            Row("resnet50 as ONNX", onnx, ["show"], "onnx-tool", ONNX_TOOL, None, 150),
            Row("resnet50 as ONNX", onnx, ["show"], "onnx.load", ONNX_LOAD, None, 1, OWN),
        ]
    if export("a Llama", LLAMA, llama):
        made.append(
            Row("80 layers of Llama as .pt2", llama, ["show"], "torch.export.load", LOAD, None, 200, OWN)
        )
    return made


def rows(folder: Path) -> list[Row]:
    made = exported(folder)
    for megabytes in (0.1, 1.0, 10.0):
        file = safetensors(folder / f"{megabytes}.safetensors", megabytes)
        made.append(
            Row(f"safetensors, {megabytes:g} MB of header", file, ["show"], "safe_open", SAFE_OPEN, megabytes)
        )
    sparse = safetensors(folder / "sparse.safetensors", 1.0, 100_000_000_000)
    made.append(Row("safetensors, 100 GB sparse", sparse, ["show"], "safe_open", SAFE_OPEN, 1.0))
    for megabytes in (0.1, 1.0, 6.0):
        file = gguf(folder / f"{megabytes}.gguf", megabytes)
        made.append(Row(f"GGUF, {megabytes:g} MB of header", file, ["show"], "gguf-py", GGUF, megabytes))
    for n in (100, 50_000):
        file = checkpoint(folder / f"{n}.pt", n)
        made.append(Row(f"scan, a pickle of {n} values", file, ["scan"], "picklescan", SCAN, None))
    return made


# -- the measurement ---------------------------------------------------------------------------------------


def run(command: list[str | Path]) -> Took | None:
    """One process; None if it fails."""
    null = os.open(os.devnull, os.O_RDWR)
    files = [(os.POSIX_SPAWN_DUP2, null, each) for each in (0, 1, 2)]
    began = time.perf_counter()
    pid = os.posix_spawn(
        str(command[0]), [str(each) for each in command], dict(os.environ), file_actions=files
    )
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    os.close(null)
    ok = os.waitstatus_to_exitcode(status) == 0
    return Took((used.ru_utime + used.ru_stime) * MS, wall * MS) if ok else None


def median(took: list[Took]) -> Took:
    return Took(statistics.median(t.cpu for t in took), statistics.median(t.wall for t in took))


def in_turns(commands: list[list[str | Path]], rounds: int) -> list[list[Took]] | None:
    """The commands one after another, so many times; the first time of each is not kept. None: one fails."""
    took: list[list[Took]] = [[] for _ in commands]
    for i in range(rounds + 1):
        for kept, command in zip(took, commands, strict=True):
            one = run(command)
            if one is None:
                return None
            if i:
                kept.append(one)
    return took


# -- peers and the command ---------------------------------------------------------------------------------


def make_peers() -> set[str]:
    """Installs the peers, and returns the packages that are there."""
    python = PEERS / "bin/python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
    there = set()
    for package in PACKAGES:
        import_it: list[str | Path] = [python, "-c", f"import {package.replace('-', '_')}"]
        if subprocess.run(import_it, capture_output=True, check=False).returncode != 0:
            install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package]
            subprocess.run(install, capture_output=True, check=False)
        if subprocess.run(import_it, capture_output=True, check=False).returncode == 0:
            there.add(package)
        else:
            print(f"  {package} could not be installed: its rows have no peer")
    return there


def build() -> Path:
    options = [] if (NATIVE / "CMakeCache.txt").exists() else ["-DCMAKE_BUILD_TYPE=Release"]
    for words in (["-S", ROOT, "-B", NATIVE, *options], ["--build", NATIVE, "--target", "lamina_command"]):
        done = subprocess.run(["cmake", *words], text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"bench-files: the command could not be built:\n{done.stdout}{done.stderr}")
    return NATIVE / "lamina"


# -- the rows ----------------------------------------------------------------------------------------------


def compare(row: Row, command: Path, rounds: int) -> bool:
    lamina: list[str | Path] = [command, *row.words, row.file]
    peer: list[str | Path] = [row.python, "-c", row.code, row.file]
    took = in_turns([["/bin/true"], lamina], rounds)
    beside = in_turns([lamina, peer], max(3, rounds // 10))
    if took is None:
        print(f"  {row.name:<34} lamina fails")
        return False
    true, mine = took
    over = statistics.median(m.cpu - TRUE_TIMES * t.cpu for t, m in zip(true, mine, strict=True))
    allowed = TRUE_PLUS_MS + MB_MS * max(0.0, (row.header_mb or 0) - 1)
    ratio = statistics.median(p.cpu / m.cpu for m, p in zip(*beside, strict=True)) if beside else None
    held = over <= allowed if row.header_mb is not None else ratio is None or ratio > row.least
    bar = (
        f"{over:6.2f} <= {allowed:g} ms over 1.5 true"
        if row.header_mb is not None
        else f"{row.least:g} times as fast"
    )
    a, b = median(true), median(mine)
    print(
        f"  {row.name:<34} {a.cpu:5.2f} {b.cpu:7.2f} ms ({b.wall:.1f} wall)  {bar:<32}"
        f" {'ok  ' if held else 'OVER'} "
        + (f"{row.peer} {ratio:,.0f} times as long" if ratio else f"{row.peer} failed")
    )
    return held


def pip_command(file: Path, command: Path, rounds: int) -> bool:
    """pip's command beside a Python that does nothing, and the native command."""
    mine: list[str | Path] = [ROOT / ".venv/bin/lamina", "show", file]
    took = in_turns([[OWN, "-c", "pass"], [command, "show", file], mine], rounds)
    if took is None:
        print("  pip's command: it is not in .venv")
        return True
    over = statistics.median(m.cpu - p.cpu - n.cpu for p, n, m in zip(*took, strict=True))
    held = over <= PIP_PLUS_MS
    print(
        f"  {'pip command, 0.1 MB of header':<34} {median(took[0]).cpu:5.2f} {median(took[2]).cpu:7.2f} ms"
        f"              {over:6.2f} <= {PIP_PLUS_MS:g} ms over python and native {'ok' if held else 'OVER'}"
    )
    return held


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="What files of models take.")
    parser.add_argument("--rounds", type=int, default=100, help="pairs of runs (100)")
    options = parser.parse_args(argv)
    command = build()
    make_peers()
    print("CPU milliseconds of whole processes: /bin/true, lamina; then the bar, and the peer")
    with tempfile.TemporaryDirectory() as name:
        held = [compare(row, command, options.rounds) for row in rows(Path(name))]
        held.append(pip_command(Path(name) / "0.1.safetensors", command, max(3, options.rounds // 5)))
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
