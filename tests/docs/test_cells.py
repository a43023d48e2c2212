# SPDX-License-Identifier: Apache-2.0
"""The code in tables of the documentation runs: Python that uses lamina, and its commands.

A cell uses the names that its page has: ``m`` and ``model`` are a model, ``x`` its input, ``r`` and
``report`` its report. ``...`` stands for what a reader fills in. Calls of other tools beside ours, names,
options and values are not run.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import io
import re
import shlex
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import lamina
import ranked
import transcripts
import warm
from lamina._command.cli import main
from lamina.callbacks import StepMeter

ROOT = Path(__file__).resolve().parents[2]
# By its path: Python itself may have loaded another module of this name. What it registers lasts as long as
# the module.
_spec = importlib.util.spec_from_file_location("torchvision_shim", ROOT / "tests/shim/sitecustomize.py")
assert _spec is not None and _spec.loader is not None
_shim = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shim)
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("skills/*/*.md"))]
# What a cell may begin with to be ours: a name that this test has.
OURS = ("lamina", "report", "r", "row", "cap", "print", "Report", "Diff", "trainer", "Trainer", "meter")


def code_of(page: Path) -> list[tuple[int, str]]:
    """(line, code) of the code in tables; in a table that compares tools, without the other tool's column."""
    text = re.sub(
        r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), page.read_text("utf-8"), flags=re.M | re.S
    )
    found, skip = [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            skip = 0
            continue
        columns = re.split(r"(?<!\\)\|", line)[1:-1]
        if "you write" in columns[0] or "you used" in columns[0]:
            skip = 1
        found += [(number, code) for cell in columns[skip:] for code in re.findall(r"`([^`]+)`", cell)]
    return found


def parsed(code: str) -> ast.Module | None:
    with contextlib.suppress(SyntaxError):
        return ast.parse(code if not code.startswith("with ") else f"{code.rstrip(':')}: pass")
    return None


def uses_lamina(tree: ast.Module) -> bool:
    """True for calls and attributes, and for what a program assigns."""
    kinds = (ast.Call, ast.Attribute, ast.Subscript)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return any(isinstance(node, kinds) for node in ast.walk(tree)) and bool(names & set(OURS))


class Small(nn.Module):
    """A model with the layer that pages name."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Sequential())
        self.layer1[0].add_module("conv1", nn.Conv2d(3, 4, 3, stride=32))
        self.ids = nn.Embedding(16, 4)

    def forward(self, x: torch.Tensor | None = None, ids: torch.Tensor | None = None) -> torch.Tensor:
        if isinstance(ids, torch.Tensor) and ids.dtype == torch.int64:
            return self.ids(ids).sum(1)
        assert x is not None
        return self.layer1[0].conv1(x).mean((2, 3))


def names_of() -> dict[str, Any]:
    """What the pages have when a reader comes to a table."""
    m, x = Small(), torch.rand(1, 3, 64, 64)
    report = lamina.inspect(m, x, backward=True, time=True, memory=True, health=True, repeats=1)
    return {
        "torch": torch, "nn": nn, "lamina": lamina, "m": m, "model": m, "x": x, "y": x, "report": report,
        "r": report, "other": lamina.inspect(m, x), "row": report.rows[0], "Report": lamina.Report,
        "Diff": lamina.Diff, "ids": torch.ones(1, 8, dtype=torch.int64), "args": (x,), "kwargs": {},
        "macs": report.macs, "params": report.params, "meter": StepMeter(m, every=1),
        "Trainer": SimpleNamespace, "trainer": None,
    }  # fmt: skip


def python_of(page: Path) -> list[tuple[int, str, ast.Module]]:
    found = []
    for number, code in code_of(page):
        tree = None if FORMAT.match(code) else parsed(code)
        if tree is not None and uses_lamina(tree):
            found.append((number, code, tree))
    return found


FORMAT = re.compile(r"^lamina\.\w+/\d+$")  # the name of a format of JSON, which is a division in Python


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page in PAGES if python_of(page)], ids=lambda page: page.name)
def test_python(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests/data/files/image.onnx", tmp_path)
    base, names, row = names_of(), {}, 0
    for number, code, tree in python_of(page):
        if number != row:
            names, row = dict(base), number
        if "LightningCallback" in code and not any(map(has, ("lightning", "pytorch_lightning"))):
            continue
        if code.startswith("trainer."):
            names["trainer"] = trainer_of(names["m"], tmp_path)
            if names["trainer"] is None:
                continue
        try:
            run(tree, names)
        except Exception as error:
            pytest.fail(f"{page.name}:{number}: `{code}` raises {type(error).__name__}: {error}")


def trainer_of(model: nn.Module, folder: Path) -> Any:
    """One of transformers' trainers; None if there is none here."""
    if not (has("transformers") and has("accelerate")):
        return None
    transformers = importlib.import_module("transformers")
    args = transformers.TrainingArguments(output_dir=str(folder), report_to=[], use_cpu=True)
    return transformers.Trainer(model=model, args=args)


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def run(tree: ast.Module, names: dict[str, Any]) -> None:
    """Runs a cell. The report that it gives is that of the rest of its row."""
    if isinstance(tree.body[0], ast.With):
        tree.body[0].body = ast.parse("m(x)").body
    filled = ast.fix_missing_locations(Filled().visit(tree))
    if isinstance(filled.body[0], ast.Expr):
        filled.body[0] = ast.Assign([ast.Name("_", ast.Store())], filled.body[0].value)
        ast.fix_missing_locations(filled)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(filled, "cell", "exec"), names)
    if isinstance(names.get("_"), lamina.Report):
        names["r"] = names["report"] = names["_"]


class Filled(ast.NodeTransformer):
    """``f(..., option=1)`` gets the model and its input, as a reader would fill them in."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        dots = [a for a in node.args if isinstance(a, ast.Constant) and a.value is Ellipsis]
        if dots:
            shape = "(3, 64, 64)" if ast.unparse(node.func).endswith("summary") else "x"
            node.args = [ast.parse(text, mode="eval").body for text in ("m", shape)]
        return node


# -- commands ------------------------------------------------------------------------------------------------

MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Sequential())
        self.layer1[0].add_module("conv1", nn.Conv2d(3, 4, 3, stride=32))

    def forward(self, x):
        return self.layer1[0].conv1(x).mean((2, 3))
"""
TRAIN = """
import torch
from FILE import Model

model = Model()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.rand(2, 3, 64, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
INPUT = ["-i", "1x3x224x224"]
STANDS_FOR = {
    "TARGET": ["FILE.py:Model"], "LAYER": ["layer1.0.conv1"], "OLD": ["old.json"], "NEW": ["FILE.py:Model"],
    "TABLE": ["thoplw", "alexnet"], "run.*.lamina": ["run.0.lamina", "run.1.lamina"],
}  # fmt: skip
# What a table that lists commands leaves out of them.
REST = {
    "lamina check --json": " FILE.py:Model --max macs=9G",
    "lamina export": " run.lamina --tensorboard logs",
    "lamina table": " thoplw alexnet",
}


def words_of(command: str) -> list[str]:
    words: list[str] = []
    for word in shlex.split((command + REST.get(command, "")).partition(" > ")[0])[1:]:
        if word == "..." and words[-1:] != ["-i"]:
            words += ["FILE.py:Model"]
        else:
            words += ["1x3x224x224"] if word == "..." else STANDS_FOR.get(word, [word])
    if words[0] == "tokens" or "--tokens" in words:
        return ["TALK.py:Talk" if word == "FILE.py:Model" else word for word in words]
    return words + (INPUT if "FILE.py:Model" in words and "-i" not in words else [])


def commands_of(page: Path) -> list[tuple[int, str]]:
    return [(number, code) for number, code in code_of(page) if code.startswith("lamina ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read: a model, a script, its recordings, reports."""
    here = tmp_path_factory.mktemp("cells")
    (here / "FILE.py").write_text(MODEL, "utf-8")
    (here / "train.py").write_text(TRAIN, "utf-8")
    talk = (ROOT / "docs/tokens.md").read_text("utf-8").partition("```python\n")[2]
    (here / "TALK.py").write_text(talk.partition("```")[0], "utf-8")
    for command in (
        "run train.py --every 1 -o run.lamina",
        "FILE.py:Model -i 1x3x224x224 --json -o old.json",
        "check FILE.py:Model -i 1x3x224x224 --save macs.json",
    ):
        lamina_runs(here, shlex.split(command))
    for name in ("base.safetensors", "tuned.safetensors", "image.onnx"):
        shutil.copy(ROOT / "tests/data/files" / name, here / name)
    for name in ("before.lamina", "after.lamina"):
        shutil.copy(here / "run.lamina", here / name)
    for rank in range(2 * (here / "run.lamina").exists()):  # not in a build without SQLite
        file = here / f"run.{rank}.lamina"
        shutil.copy(here / "run.lamina", file)
        with contextlib.closing(sqlite3.connect(file)) as base, base:
            base.execute("UPDATE runs SET rank = ?, world = 2", (rank,))
    if has("duckdb"):
        ranked.write(here / "run")
    return here


def lamina_runs(here: Path, words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it complained of. A script has a process of its own."""
    if words[0] == "run":
        done = warm.python("-m", "lamina", *words, cwd=here, env=transcripts.screen())
        return done.returncode, done.stderr
    told = io.StringIO()
    quiet, loud = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told)
    with contextlib.chdir(here), quiet, loud:
        code = main(words)
    return code, told.getvalue()


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.name)
def test_commands(page: Path, folder: Path) -> None:
    for number, command in commands_of(page):
        words = words_of(command)
        if words[0] == "table" and not has("torchvision"):
            continue
        if "run/" in words and not has("duckdb"):
            continue
        code, complaint = lamina_runs(folder, words)
        if "built without SQLite" in complaint:
            pytest.skip("this lamina knows no recordings: it was built without SQLite")
        # 1: a check or a difference that the page does not promise to be none.
        fine = {0, 1} if words[0] in ("check", "diff") else {0}
        assert code in fine, f"{page.name}:{number}: `{command}` fails: {complaint}"


def test_the_pages_for_users_of_other_tools_have_code() -> None:
    counts = {page.name: len(python_of(page)) for page in PAGES}
    assert counts["from-other-tools.md"] >= 40 and counts["SKILL.md"] >= 20
    assert sum(len(commands_of(page)) for page in PAGES) >= 40
