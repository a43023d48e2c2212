# SPDX-License-Identifier: Apache-2.0
"""``--json`` on every subcommand: one document on the output and nothing else, as docs/answers.schema.json
says, or a sentence on why there is none. A new subcommand needs its line in ``ANSWERS_OF`` or ``NONE``."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import environment, needs_fit, needs_recordings
from schemas import ANSWERS, closed, jsonschema, without_words, wrong

import ranked
import warm
from lamina._command import cli

NET = """
    import torch
    from torch import nn

    def net(channels=8, window=3, bias=True, p=0.1):
        conv = nn.Conv2d(3, channels, window, padding=window // 2, bias=bias)
        norm, head = nn.BatchNorm2d(channels), nn.Linear(64 * channels, 2)
        return nn.Sequential(conv, norm, nn.ReLU(), nn.Dropout(p), nn.Flatten(), head)

    class Spare(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.spare = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.first(self.first(x)).sort().values

    class Talk(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

        def forward(self, ids):
            return self.head(self.table(ids))

    def other():
        return net(channels=4, window=5, bias=False, p=0.5)

    def wrong():
        return nn.Sequential(nn.Linear(4, 4), nn.Linear(3, 3))
"""
TRAIN = """
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    for _ in range(4):
        net(torch.rand(2, 4)).sum().backward()
"""
CHECKS = """
    [[check]]
    target = "net.py:net"
    input = "1x3x8x8"
    max = { macs = "1K" }

    [[check]]
    target = "net.py:Spare"
    input = "1x4"
    max = { params = 1 }
"""
IMAGE = ("-i", "1x3x8x8")
MEASURED = ("--backward", "--time", "--repeats", "2", "--memory")

# Of each subcommand what is asked, with the exit code and the kind of the document.
ANSWERS_OF: dict[str, list[tuple[tuple[str, ...], int, str]]] = {
    "show": [
        (("show", "net.py:net", *IMAGE), 0, "report/1"),
        (("net.py:net", *IMAGE, *MEASURED, "--health"), 0, "report/1"),
        (("show", "net.py:wrong", "-i", "1x4"), 3, "report/1"),
        (("show", "run.lamina"), 0, "recording/2"),
        (("show", "run.lamina", "again.lamina"), 0, "recording/2"),
        (("show", "many"), 0, "ranks/1"),
    ],
    "sql": [
        (("sql", "many", "SELECT rank, node, ended_by, world > 3 AS large, 0.5 FROM ranks"), 0, "sql/1"),
        (("sql", "many", "SELECT nothing"), 2, ""),
    ],
    "diff": [
        (("diff", "net.py:net", "net.py:other", *IMAGE), 0, "diff/1"),
        (("diff", "net.py:net", "net.py:other", *IMAGE, *MEASURED), 0, "diff/1"),
        (("diff", "net.py:net", "net.py:other", *IMAGE, "--exit-code"), 1, "diff/1"),
        (("diff", "saved.json", "net.py:other", *IMAGE), 0, "diff/1"),
        (("diff", "run.lamina", "again.lamina"), 0, "diff/1"),
        (("diff", "saved.json", "run.lamina", "--depth", "0"), 0, "diff/1"),
        (("diff", "saved.json", "saved.json"), 0, "diff/1"),
        (("diff", "base.safetensors", "tuned.safetensors", "--weights"), 0, "weights/1"),
        (("diff", "base.safetensors", "small.gguf", "--weights", "--exit-code"), 1, "weights/1"),
        (("diff", "base.safetensors", "net.py:net", "--weights"), 2, ""),
    ],
    "why": [
        (("why", "net.py:net", "0", *IMAGE), 0, "why/1"),
        (("why", "net.py:Spare", ".", "-i", "1x4", "--backward"), 0, "why/1"),
        (("why", "net.py:Spare", "first", "-i", "1x4", "-c", "layers"), 0, "why/1"),
        (("why", "net.py:net", "9", *IMAGE), 2, ""),
    ],
    "compare": [
        (("compare", "net.py:net", *IMAGE, "-c", "all"), 0, "compare/1"),
        (("compare", "net.py:Spare", "-i", "1x4", "--backward", "--flops"), 0, "compare/1"),
        (("compare", "net.py:Talk", "--tokens", "--prompt", "9", "--backward"), 0, "compare/1"),
    ],
    "check": [
        (("check", "net.py:net", *IMAGE, "--max", "macs=1", "--max", "params=1M"), 1, "check/1"),
        (("check", "net.py:other", *IMAGE, "--baseline", "saved.json", "--within", "1%"), 1, "check/1"),
        (("check", "net.py:net", *IMAGE, "--save", "new.json"), 0, "check/1"),
        (("check", "net.py:wrong", "-i", "1x4", "--max", "macs=1"), 3, "check/1"),
        (("check", "run.lamina", "--max", "input=100%"), 1, "check/1"),
        (("check",), 1, "check/1"),
    ],
    "graph": [
        (("graph", "net.py:net", *IMAGE), 0, "graph/1"),
        (("graph", "net.py:Spare", "-i", "1x4", "--backward"), 0, "graph/1"),
    ],
    "fit": [(("fit", "net.py:net", *IMAGE), 0, "fit/1"), (("fit", "net.py:Spare", "-i", "1x4"), 0, "fit/1")],
    "tokens": [
        (("tokens", "net.py:Talk", "--prompt", "5", "--new", "3", "--dry"), 0, "tokens/1"),
        (("tokens", "net.py:Talk", "--prompt", "5", "--device-memory", "1MB"), 0, "tokens/1"),
        (("tokens", "net.py:Talk", "--prompt", "5", "--new", "3", "--dry", "--peak", "l4"), 0, "tokens/1"),
        (("tokens", "net.py:Talk", "--new", "3", "--time", "--repeats", "1", "--peak", "l4"), 0, "tokens/1"),
        (("tokens", "net.py:Spare", "--dry"), 2, ""),
    ],
    "live": [
        (("live", "run.lamina"), 0, "recording/2"),
        (("live", "run.lamina", "--once"), 0, "recording/2"),
    ],
    "export": [
        (("export", "run.lamina", "--tensorboard", "logs"), 0, "export/1"),
        (("export", "run.lamina", "--prometheus", "run.prom"), 0, "export/1"),
        (("export", "run.lamina"), 2, ""),
    ],
    "rules": [(("rules",), 0, "rules/1"), (("rules", "torchscan"), 0, "rules/1"), (("rules", "no"), 2, "")],
    "conventions": [(("conventions",), 0, "conventions/1")],
    "table": [
        (("table", "torchscan", "alexnet"), 1, "table/1"),
        (("table", "thoplw", "alexnet"), 1, "table/1"),
    ],
    "scan": [
        (("scan", "state.pt", "model.pt"), 1, "scan/1"),
        (("scan", "none.pt"), 3, "scan/1"),
    ],
    "doctor": [(("doctor",), 0, "doctor/1")],
    "version": [(("version",), 0, "version/1"), (("--version",), 0, "version/1")],
    "help": [(("help",), 0, "help/1"), (("help", "show"), 0, "help/1"), (("help", "no"), 2, "")],
}
NONE = {
    "report": ("report", "net.py:net", *IMAGE),
    "plot": ("plot", "icicle", "net.py:net", *IMAGE),
    "merge": ("merge", "--json", "run.lamina"),
    "run": ("run", "--json", "train.py"),
    "completion": ("completion", "bash"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, its saved report, recordings of two runs, and a torchvision of one model."""
    from textwrap import dedent

    needs_recordings()
    folder = tmp_path_factory.mktemp("answers")
    files = {"net.py": NET, "train.py": TRAIN, "lamina.toml": CHECKS, "torchvision/__init__.py": ""}
    files["torchvision/models.py"] = "import torch\ndef alexnet(weights): return torch.nn.Conv2d(3, 1, 3)\n"
    (folder / "torchvision").mkdir()
    shutil.copytree(Path(__file__).parents[1] / "data/files", folder, dirs_exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(dedent(text))
    for line in (
        ["run", "--every", "1", "--memory", "--health", "train.py"],
        ["run", "--every", "1", "--file", "again.lamina", "train.py"],
        ["show", "net.py:net", *IMAGE, "--json", "-o", "saved.json"],
    ):
        warm.python("-m", "lamina", *line, cwd=folder, env=environment(), check=True)
    if find_spec("duckdb"):
        ranked.write(folder / "many", slow="rank = 3", more_us=20000)
    return folder


@pytest.fixture
def ask(place, monkeypatch, capsys):
    """Runs a command line there, in this process."""
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("net", "torchvision")]:
        monkeypatch.delitem(sys.modules, name)

    def run(*argv: str) -> SimpleNamespace:
        code = cli.main(argv)
        told = capsys.readouterr()
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return SimpleNamespace(code=code, out=told.out, err=told.err)

    return run


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(ANSWERS)
    assert closed(ANSWERS)


def test_every_subcommand_answers_or_says_why_not(ask):
    verbs = json.loads(ask("help", "--json").out)["subcommands"]
    assert {verb["name"] for verb in verbs if verb["no_json"] is None} == set(ANSWERS_OF)
    assert {verb["name"] for verb in verbs if verb["no_json"]} == set(NONE)
    for verb in verbs:
        assert ("json" in [option["name"] for option in verb["options"]]) == (verb["name"] in ANSWERS_OF)


@pytest.mark.parametrize("verb", NONE)
def test_where_there_is_none(ask, verb):
    argv = NONE[verb]
    done = ask(*argv, *([] if "--json" in argv else ["--json"]))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"lamina: error: --json: `lamina {verb}` has none: ")


CASES = [case for cases in ANSWERS_OF.values() for case in cases]


@pytest.mark.parametrize(("argv", "code", "kind"), CASES, ids=[" ".join(argv) for argv, _, _ in CASES])
def test_one_document(ask, place, argv, code, kind):
    if argv[0] == "fit":
        needs_fit()
    if "many" in argv:
        pytest.importorskip("duckdb")
    done = ask(*argv, "--json")
    (place / "new.json").unlink(missing_ok=True)
    assert done.code == code, done.err
    assert ("error" in done.err) == (code in (2, 3))
    if not kind:
        assert done.out == ""
        return
    told = json.loads(done.out)
    assert told["schema"] == f"lamina.{kind}"
    assert told["schema_version"] == int(kind.rpartition("/")[2])
    assert wrong(told) == []
    assert wrong({**told, "unheard_of": 1}) != []
    for name in ("schema", "schema_version", "version"):
        assert wrong({key: value for key, value in told.items() if key != name}) != []


def test_the_file_of_an_answer(ask, place):
    """-o takes the document, and the output stays empty."""
    done = ask("rules", "--json", "-o", "rules.json")
    assert (done.code, done.out) == (0, "")
    assert wrong(json.loads((place / "rules.json").read_text("utf-8"))) == []


def test_every_kind_is_asked_for():
    kinds = {f"lamina.{kind}" for _, _, kind in CASES if kind}
    assert kinds == set(ANSWERS["properties"]["schema"]["enum"])
    assert kinds == {part["if"]["properties"]["schema"]["const"] for part in ANSWERS["allOf"]}


OPTIONAL = {
    "steps",  # of a recording
    "device_memory", "bound",  # of tokens, where one was named, and where a device was
    "logical_bytes", "local_bytes",  # where they differ from param_bytes
    "before_deviation", "after_deviation",  # of times
    "phases",  # of two recordings, where both have them
    "measured", "off",  # where the run was of the predicted kind
    "kind", "in_shapes", "out_shapes",  # of an operator
    "tokens", "a_token", "formula", "source",  # of a comparison, where it is one in tokens
    "other", "parameters", "buffers", "gradients", "optimizer", "input", "activations", "backward",
    "workspace",  # of a row, where it holds none
}  # fmt: skip


def left_open(schema: object) -> set[str]:
    """Fields that an object may lack."""
    if isinstance(schema, list):
        return set().union(*map(left_open, schema))
    if not isinstance(schema, dict):
        return set()
    mine = set(schema.get("properties", {})) - set(schema.get("required", []))
    return (mine if schema.get("type") == "object" else set()).union(*map(left_open, schema.values()))


def test_fields_are_required():
    assert left_open(ANSWERS["$defs"]) == OPTIONAL


def test_every_field_has_its_words():
    assert without_words(ANSWERS) == []


def drop(*path: str | int):
    def spoil(told: dict) -> None:
        at = told
        for step in path[:-1]:
            at = at[step]
        del at[path[-1]]

    return spoil


def put(value: object, *path: str | int):
    def spoil(told: dict) -> None:
        at = told
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = value

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        drop("changed", 0, "attributes"),
        drop("changed", 0, "attributes", "kernel_size", "after"),
        put({}, "changed", 0, "attributes", "kernel_size", "before"),
        put(1, "changed", 0, "new"),
        drop("changed", 0, "numbers", "macs", "difference"),
        put({}, "changed", 0, "numbers", "mac"),
        put("more", "changed", 0, "numbers", "macs", "difference", "state"),
        drop("totals", "macs", "before"),
        put({"value": None, "state": "exact"}, "totals", "macs", "after"),
        put("page", "before", "kind"),
        put("step_time", "by"),
        drop("equal"),
        put("lamina.diff/2", "schema"),
        put("lamina.check/1", "schema"),
    ],
)
def test_what_is_wrong_in_a_difference_is_refused(ask, spoil):
    told = json.loads(ask("diff", "net.py:net", "net.py:other", *IMAGE, "--json").out)
    spoiled = copy.deepcopy(told)
    spoil(spoiled)
    assert wrong(told) == []
    assert wrong(spoiled) != []


def test_the_attributes_of_a_difference(ask):
    told = json.loads(ask("diff", "net.py:net", "net.py:other", *IMAGE, "--json").out)
    of = {module["path"]: module["attributes"] for module in told["changed"]}
    assert of["0"] == {
        "kernel_size": {"before": [3, 3], "after": [5, 5]},
        "padding": {"before": [1, 1], "after": [2, 2]},
        "out_channels": {"before": 8, "after": 4},
        "bias": {"before": True, "after": False},
    }
    assert of["1"] == {"num_features": {"before": 8, "after": 4}}
    assert of["3"] == {"p": {"before": 0.1, "after": 0.5}}


def test_the_numbers_of_a_check(ask):
    told = json.loads(ask("check", "net.py:net", *IMAGE, "--max", "macs=1", "--json").out)
    spoiled = copy.deepcopy(told)
    spoiled["checks"][0]["limits"][0]["layers"][0]["nows"] = 1
    assert wrong(spoiled) != []
    del told["checks"][0]["limits"][0]["now"]
    assert wrong(told) != []
