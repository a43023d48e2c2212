# SPDX-License-Identifier: Apache-2.0
"""Budgets in CI: the made-up repository of docs/check.md goes red when somebody adds a functional
convolution, and green again when the baseline is renewed: by the command, pytest, the action and the hook."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import LIMIT, ROOT, environment
from schemas import ANSWERS, wrong

import warm
from lamina._base.errors import UsageError
from lamina._command.project import read_checks

PAGE = (ROOT / "docs/check.md").read_text("utf-8")
CONVOLUTION = "the model itself (Net): +73.7 K, by its own aten::convolution 73.7 K"
NO_CACHE = ("-p", "no:cacheprovider", "-p", "no:randomly")


def block(language, part):
    """The block of the page in a language that has a text in it."""
    found = [text for text in re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S) if part in text]
    assert len(found) == 1, (language, part)
    return found[0]


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "net.py").write_text(block("py", "class Net"), "utf-8")
    (tmp_path / "lamina.toml").write_text(block("toml", "net.py:Net"), "utf-8")
    (tmp_path / "test_net.py").write_text(block("py", "def test_net"), "utf-8")
    return tmp_path


def add_convolution(folder):
    """What somebody adds to forward."""
    before = "        x = F.relu(self.conv(x))\n"
    source = (folder / "net.py").read_text("utf-8")
    assert before in source
    (folder / "net.py").write_text(source.replace(before, before + block("py", "F.conv2d(x")), "utf-8")


def run(words, folder, **more):
    env = environment(**more)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    env.pop("COLUMNS", None)
    return subprocess.run(
        words, cwd=folder, env=env, text=True, capture_output=True, check=False, timeout=LIMIT
    )


def lamina(folder, *words, **more):
    env = {name: value for name, value in environment(**more).items() if name != "COLUMNS"}
    return warm.lamina(["check", *words], cwd=folder, env=env)


def by_pytest(folder, *words):
    path = os.pathsep.join([str(folder), environment()["PYTHONPATH"]])
    env = {name: value for name, value in environment(PYTHONPATH=path).items() if name != "COLUMNS"}
    return warm.python("-m", "pytest", "-q", *NO_CACHE, *words, cwd=folder, env=env)


# -- the made-up repository ----------------------------------------------------------------------------------


def test_the_command_goes_red_and_green_again(repository):
    renewed = lamina(repository, "--renew")
    assert renewed.returncode == 0, renewed.stderr
    assert "net.py:Net: saved as macs.json\n" in renewed.stdout
    green = lamina(repository)
    assert green.returncode == 0, green.stdout
    assert green.stdout.startswith("checks of lamina.toml\nnet.py:Net: within budget\n")

    add_convolution(repository)
    red = lamina(repository, "--junit", "check.xml")
    assert red.returncode == 1
    assert red.stdout.startswith(block("text", "checks of lamina.toml"))
    suite = ElementTree.parse(repository / "check.xml").getroot()
    assert suite.get("failures") == str(len(suite.findall(".//failure"))) == "2"
    assert CONVOLUTION in "".join(suite.itertext())

    below = repository / "a" / "b"
    below.mkdir(parents=True)
    assert lamina(below, "--renew").returncode == 0
    green = lamina(below)
    assert green.returncode == 0, green.stdout
    assert green.stdout.startswith("checks of ../../lamina.toml\n../../net.py:Net: within budget\n")


def test_pytest_goes_red_and_green_again(repository):
    assert lamina(repository, "--renew").returncode == 0
    green = by_pytest(repository, "--lamina", "--strict-markers")
    assert green.returncode == 0, green.stdout
    assert "2 passed" in green.stdout

    add_convolution(repository)
    red = by_pytest(repository, "--lamina", "--strict-markers")
    assert red.returncode == 1
    assert "2 failed" in red.stdout
    assert red.stdout.count(CONVOLUTION) == 2
    assert "FAILED test_net.py::test_net" in red.stdout
    assert "FAILED lamina.toml::net.py:Net" in red.stdout
    alone = by_pytest(repository, "--lamina", "-k", "net.py:Net")
    assert "1 failed, 1 deselected" in alone.stdout, alone.stdout

    assert lamina(repository, "--renew").returncode == 0
    assert by_pytest(repository).returncode == 0  # without the checks of the file


def test_pytest_with_several_processes(repository):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    assert lamina(repository, "--renew").returncode == 0
    add_convolution(repository)
    red = by_pytest(repository, "--lamina", "-n", "2")
    assert red.returncode == 1, red.stdout + red.stderr
    assert "2 failed" in red.stdout
    assert red.stdout.count(CONVOLUTION) == 2


def script_of_the_action():
    """The script of action.yml's one step."""
    _, _, script = (ROOT / "action.yml").read_text("utf-8").partition("      run: |\n")
    return textwrap.dedent(script)


def by_action(folder, arguments="", junit=""):
    summary = folder / "summary.md"
    given = {"LAMINA_ARGUMENTS": arguments, "LAMINA_INSTALL": "", "LAMINA_JUNIT": junit}
    told = {"GITHUB_STEP_SUMMARY": str(summary), "LAMINA_PYTHON": sys.executable}
    done = run(["bash", "-c", script_of_the_action()], folder, **given, **told)
    return done, summary.read_text("utf-8") if summary.exists() else ""


def test_the_action_goes_red_and_green_again(repository):
    assert lamina(repository, "--renew").returncode == 0
    add_convolution(repository)
    red, summary = by_action(repository, junit="a file.xml")
    assert red.returncode == 1
    first = red.stderr.splitlines()[0]
    assert first.startswith("::error file=net.py,title=lamina%3A macs over budget::net.py:Net: macs 295 K")
    assert first.endswith(f"%0A{CONVOLUTION}")
    assert "| net.py:Net | macs | **failed**: 295 K, was 221 K" in summary
    assert (repository / "a file.xml").exists()

    assert lamina(repository, "--renew").returncode == 0
    green, _ = by_action(repository, "net.py:Net -i '1x3x32x32' --baseline \"macs.json\"")
    assert green.returncode == 0, green.stderr
    assert "::error" not in green.stderr
    wrong, _ = by_action(repository, "net.py:Net -i '1x3")
    assert wrong.returncode == 2  # words that can't be read are not left out
    assert wrong.stderr == "::error title=lamina::arguments: No closing quotation\n"


def test_the_action_says_what_it_takes():
    """Each input becomes a variable that the script reads, and the other way round."""
    text = (ROOT / "action.yml").read_text("utf-8")
    given = dict(re.findall(r"(LAMINA_\w+): \$\{\{ inputs\.([\w-]+) \}\}", text))
    inputs = re.findall(r"^  ([\w-]+):$", text.partition("inputs:\n")[2].partition("\nruns:")[0], re.M)
    assert sorted([*given.values(), "working-directory"]) == sorted(inputs)
    assert set(given) == set(re.findall(r"LAMINA_\w+", script_of_the_action()))
    for name in inputs:
        assert f"`{name}`" in PAGE


def test_the_hook_goes_red(repository):
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    entry = re.search(r"entry: (.*)", hook)[1]
    assert "pass_filenames: false" in hook
    assert lamina(repository, "--renew").returncode == 0
    add_convolution(repository)
    red = run(["bash", "-c", entry], repository)
    assert red.returncode == 1
    assert CONVOLUTION in red.stdout


# -- a project's file ----------------------------------------------------------------------------------------


def test_a_failing_target_hides_no_other(repository):
    (repository / "lamina.toml").write_text(
        textwrap.dedent(
            """
            [[check]]
            target = "missing.py:Net"
            input = "1x3x32x32"
            max.macs = "1M"
            [[check]]
            target = "net.py:Net"
            input = ["1x3x32x32"]
            max = ["macs=1K", "peak=1KiB"]
            [[check]]
            target = "net.py:Net"
            input = "1x3x32x32"
            max.mcas = "1M"
            [[check]]
            target = "torch.nn:Linear"
            build = { in_features = 3, out_features = 4 }
            input = "1x3"
            max = { macs = 12, params = 16.0 }
            """
        ),
        "utf-8",
    )
    done = lamina(repository, "--format", "json")
    told = json.loads(done.stdout)
    assert done.returncode == 2, done.stderr  # the worst of them
    assert told["schema"] == "lamina.check/1"
    assert told["within"] is False
    checks = told["checks"]
    assert [check["verdict"] for check in checks] == ["failed", "over", "failed", "within"]
    assert checks[0]["error"] == "there is no file missing.py"
    assert "there is no metric 'mcas'" in checks[2]["error"]
    macs, peak = checks[1]["limits"]
    assert macs["now"]["value"] > macs["most"]["value"] == 1000
    assert [layer["path"] for layer in macs["layers"]] == ["conv", "fc"]
    assert peak["unit"] == "bytes"
    assert peak["verdict"] == "over"
    said = by_pytest(repository, "--lamina", "-k", "Linear or missing")
    assert "1 failed, 1 passed, 3 deselected" in said.stdout, said.stdout + said.stderr


TALKER = """
import torch
from torch import nn


class Talker(nn.Module):
    def __init__(self, width=8, odd=False):
        super().__init__()
        self.table, self.head = nn.Embedding(10, width), nn.Linear(width, 10, bias=False)
        self.odd = odd

    def forward(self, ids, cache=None):
        x = self.table(ids)
        kept = x if cache is None else torch.cat([cache[0], x], 1)
        if self.odd:
            x = torch.ops.odd.twice(x)
        return {"logits": self.head(x + kept.mean(1, keepdim=True)), "cache": [kept]}


torch.library.define("odd::twice", "(Tensor x) -> Tensor")


@torch.library.impl("odd::twice", "cpu")
def twice(x):
    return torch.from_numpy(x.detach().numpy() * 2)
"""


def test_limits_in_tokens_are_held_against_a_model_that_generates(tmp_path):
    (tmp_path / "talk.py").write_text(TALKER, "utf-8")
    (tmp_path / "lamina.toml").write_text(
        textwrap.dedent(
            """
            [[check]]
            target = "talk.py:Talker"
            prompt = 5
            new = 3
            max = { decode_macs_a_token = 80, prefill_macs_a_token = "0.08K", cache = "224B" }
            [[check]]
            target = "talk.py:Talker"
            dry = true
            prompt = 5
            new = 3
            max = { decode_macs_a_token = 79, cache = 223 }
            [[check]]
            target = "talk.py:Talker"
            prompt = 5
            max = { macs = "1G" }
            """
        ),
        "utf-8",
    )
    done = lamina(tmp_path, "--format", "json")
    told = json.loads(done.stdout)
    assert done.returncode == 2, done.stderr
    within, over, wrong = told["checks"]
    assert [check["verdict"] for check in told["checks"]] == ["within", "over", "failed"]
    numbers = {each["metric"]: each["now"] for each in within["limits"]}
    # 8 x 10 products a token; 5 + 3 - 1 tokens of 8 float32 in the cache.
    assert numbers == {
        "decode_macs_a_token": {"value": 80, "state": "exact"},
        "prefill_macs_a_token": {"value": 80, "state": "exact"},
        "cache": {"value": 224, "state": "exact"},
    }
    assert [each["verdict"] for each in over["limits"]] == ["over", "over"]
    assert "--prompt is for limits in tokens, and there is none" in wrong["error"]
    assert within["notes"] == ["it generated 3 tokens after a prompt of 5"]


def test_a_number_in_tokens_that_is_not_known_is_not_within(tmp_path):
    (tmp_path / "talk.py").write_text(TALKER, "utf-8")
    limit = ("talk.py:Talker", "-k", "odd=True", "--prompt=5", "--new=3", "--max=decode_macs_a_token=1M")
    done = lamina(tmp_path, *limit)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not complete: it is a lower bound" in done.stdout
    done = lamina(tmp_path, *limit, "--allow-incomplete")
    assert done.returncode == 0, done.stdout + done.stderr


RECORDED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for (x,) in DataLoader(TensorDataset(torch.ones(120, 4)), batch_size=2):
    net(x).sum().backward()
    optimizer.step()
"""


def record(folder, program):
    (folder / "train.py").write_text(program, "utf-8")
    done = warm.lamina(["run", "train.py"], cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr


def as_rank(folder, rank, world, *changes):
    """Copies run.lamina as that of a rank. Each step waits 20 ms for others."""
    file = folder / f"run.{rank}.lamina"
    shutil.copy(folder / "run.lamina", file)
    with contextlib.closing(sqlite3.connect(file)) as base, base:
        base.execute("UPDATE runs SET rank = ?, world = ?", (rank, world))
        base.execute(
            "UPDATE steps SET whole_ns = 90000000, input_ns = 1800000, h2d_ns = 0, wait_ns = 20000000,"
            " own_forward_ns = 20000000, own_backward_ns = 40000000, optimizer_ns = 4000000,"
            " other_ns = 4200000"
        )
        for change in changes:
            base.execute(change)


def test_recordings_are_held_against_limits_of_their_own(tmp_path):
    record(tmp_path, RECORDED)
    late = "UPDATE steps SET own_forward_ns = own_forward_ns + 18000000, wait_ns = wait_ns - 18000000"
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.move(tmp_path / "run.lamina", logs / "run.lamina")
    for rank in range(11):
        as_rank(logs, rank, 11, *([late] if rank == 10 else []))
    (tmp_path / "lamina.toml").write_text(
        textwrap.dedent(
            """
            [[check]]
            target = "logs/run.*.lamina"
            max = { straggler = "5%", input = "10%" }
            [[check]]
            target = ["logs/run.0.lamina", "logs/run.1.lamina"]
            max = { straggler = "5%" }
            [[check]]
            target = "logs/run.0.lamina"
            max = { input = "1%" }
            [[check]]
            target = "logs/run.0.lamina"
            max = { straggler = "5%" }
            [[check]]
            target = "logs/none.*.lamina"
            max = { input = "5%" }
            """
        ),
        "utf-8",
    )
    done = lamina(logs, "--json")
    told = json.loads(done.stdout)
    assert not wrong(told, ANSWERS)
    assert done.returncode == 3, done.stderr
    over, two, alone, others, missing = told["checks"]
    assert over["target"] == "run.0.lamina and 10 more"
    straggler, waiting = over["limits"]
    assert straggler["verdict"] == "over" and straggler["ranks"] == [10]
    assert straggler["now"]["value"] == pytest.approx(200000, abs=2000)
    assert straggler["said"].startswith("Rank 10 slows all: without it a step would take 20 % less")
    assert waiting["verdict"] == "within" and waiting["now"] == {"value": 20000, "state": "exact"}
    assert two["verdict"] == "within" and two["limits"][0]["now"] == {"value": 0, "state": "exact"}
    assert two["notes"] == [
        "9 of 11 ranks have no recording that can be compared (2..10); a cause may be among them"
    ]
    assert alone["verdict"] == "over" and alone["limits"][0]["said"].startswith("Give the DataLoader more")
    assert others["error"] == (
        "straggler: it compares ranks, and one recording has no others; name those of all ranks"
    )
    assert "none.*.lamina" in missing["error"]


def test_a_recording_of_unknown_input_is_not_within(tmp_path):
    record(tmp_path, "import torch\nnet = torch.nn.Linear(2, 2)\nnet(torch.ones(1, 2))\n")
    done = lamina(tmp_path, "run.lamina", "--max", "input=99%")
    assert done.returncode == 1, done.stdout
    assert "not complete: " in done.stdout
    done = lamina(tmp_path, "run.lamina", "--max", "macs=1G")
    assert done.returncode == 2
    assert "macs=1G: it is a limit of a model, and run.lamina is a recording" in done.stderr


def words(text, folder, name="lamina.toml"):
    (folder / name).write_text(text, "utf-8")
    return read_checks(folder)


def test_keys_are_the_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, checks = words(
        """
        [tool.other]
        [[tool.lamina.check]]
        target = "sub/net.py:Net"
        input = ["ids=1x16:int64", "1x3"]
        inputs = "data.py:batch"
        build = ["weights=None"]
        mode = "train"
        convention = "layers"
        baseline = "saved/macs.json"
        within = { macs = "5%", params = "0%" }
        max = { peak = "200MiB", macs = 2e9 }
        backward = true
        dry = false
        allow_incomplete = true
        repeats = 7
        prompt = 64
        new = 3
        """,
        tmp_path,
        "pyproject.toml",
    )
    assert file == "pyproject.toml"
    options = """--input=ids=1x16:int64 --input=1x3 --inputs=data.py:batch --build=weights=None --mode=train
        --convention=layers --baseline=saved/macs.json --within=macs=5% --within=params=0% --max=peak=200MiB
        --max=macs=2000000000 --backward --allow-incomplete --repeats=7 --prompt=64 --new=3"""
    assert checks == [[*options.split(), "--", "sub/net.py:Net"]]


def test_the_nearest_file_counts_and_paths_are_from_it(tmp_path, monkeypatch):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n", "utf-8")
    monkeypatch.chdir(below)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "lamina.toml").write_text('[[check]]\ntarget = "n.py:N"\nbaseline = "b.json"\n', "utf-8")
    file, checks = read_checks(below)
    assert file == "../../lamina.toml"
    assert checks == [["--baseline=../../b.json", "--", "../../n.py:N"]]
    assert sys.path[0] == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("[[check]\n", "lamina.toml is not TOML"),
        ("", "lamina.toml has no checks; each is written as [[check]]"),
        ("check = 1\n", "lamina.toml has no checks"),
        (
            "[[chek]]\ntarget = 'n:N'\n",
            "lamina.toml has an unknown key 'chek'; checks are written as [[check]]",
        ),
        ("[[check]]\n", "lamina.toml: check 1 needs a target"),
        ("[[check]]\ntarget = 3\n", "lamina.toml: check 1 needs a target"),
        ("[[check]]\ntarget = []\n", "lamina.toml: check 1 needs a target"),
        ("[[check]]\ntarget = ['a.lamina', 3]\n", "lamina.toml: check 1 needs a target"),
        ("[[check]]\ntarget = 'n:N'\nmaxx = 1\n", "check 1 has an unknown key 'maxx'; did you mean max?"),
        ("[[check]]\ntarget = 'n:N'\nzzz = 1\n", "check 1 has an unknown key 'zzz'; it may have target, "),
        ("[[check]]\ntarget = 'n:N'\nbackward = 'yes'\n", "check 1: backward is true or false"),
        ("[[check]]\ntarget = 'n:N'\nbaseline = true\n", "check 1: baseline is a text or a number"),
        ("[[check]]\ntarget = 'n:N'\nmax = { macs = [] }\n", "check 1: max is a text or a number"),
    ],
)
def test_a_wrong_file_is_told_where(tmp_path, monkeypatch, text, wrong):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as told:
        words(text, tmp_path)
    assert wrong in str(told.value)


def test_a_project_without_checks(tmp_path):
    done = lamina(tmp_path)
    assert done.returncode == 2
    assert "there is no lamina.toml and no pyproject.toml with [tool.lamina]" in done.stderr
    done = by_pytest(tmp_path, "--lamina")
    assert done.returncode == 4
    assert "--lamina: there is no lamina.toml" in done.stderr


# -- the marker ----------------------------------------------------------------------------------------------

MARKED = """
import pytest
import torch
from torch import nn
import torch.nn.functional as F
import lamina

class Own(nn.Module):
    def forward(self, x):
        return 2 * x

entry = nn.Module.__call__

@pytest.mark.lamina(max_macs="1K")
def test_within():
    net = nn.Linear(4, 4)
    net(torch.ones(1, 4)).sum().backward()
    assert net.weight.grad is not None

@pytest.mark.lamina(max_macs=20)
def test_the_larger_call_counts():
    net = nn.Linear(4, 4)
    for n in (1, 2, 2, 2, 3, 4, 5, 6, 7):
        net(torch.ones(n, 4))

@pytest.mark.lamina(max_peak="1KiB", max_params=2e3)
def test_memory():
    nn.Linear(64, 64)(torch.ones(1, 64))

@pytest.mark.lamina(max_macs="1G", convention="layers")
def test_not_complete():
    nn.Sequential(nn.Linear(4, 4), Own())(torch.ones(1, 4))

@pytest.mark.lamina(max_macs="1G", convention="layers", allow_incomplete=True)
def test_not_complete_and_allowed():
    nn.Sequential(nn.Linear(4, 4), Own())(torch.ones(1, 4))

@pytest.mark.lamina(max_macs=15)
def test_beside_lamina_itself():
    net, x = nn.Sequential(nn.Linear(4, 4)), torch.ones(1, 4)
    for compiled in (False, True):
        if compiled:
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
        with lamina.capture(net) as seen:
            net(x)
        assert [row.path for row in seen.report().rows] == ["", "0"]
        assert lamina.inspect(net, x).macs == 16

@pytest.mark.lamina(max_macs=1)
def test_its_own_failure_stays():
    nn.Linear(4, 4)(torch.ones(1, 4))
    raise KeyError("mine")

@pytest.mark.lamina(max_macs=1)
def test_the_models_failure_stays():
    nn.Linear(4, 4)(torch.ones(1, 5))

@pytest.mark.lamina(max_macs=1)
def test_no_model():
    F.relu(torch.ones(1))
    nn.ReLU()(torch.ones(1))

@pytest.mark.lamina(mcas=1)
def test_unknown_name():
    pass

@pytest.mark.lamina("2G")
def test_without_a_name():
    pass

@pytest.mark.lamina
def test_no_budget():
    pass

@pytest.mark.lamina(max_mcas=1)
def test_unknown_metric():
    nn.Linear(4, 4)(torch.ones(1, 4))

@pytest.mark.lamina(baseline="missing.json")
def test_no_baseline():
    nn.Linear(4, 4)(torch.ones(1, 4))

def test_nothing_is_left():
    assert nn.Module.__call__ is entry
"""


def test_what_a_marker_may_say(tmp_path):
    (tmp_path / "test_marked.py").write_text(MARKED, "utf-8")
    report = tmp_path / "report.xml"
    by_pytest(tmp_path, "--strict-markers", f"--junitxml={report}")
    told = {case.get("name"): case.find("failure") for case in ElementTree.parse(report).iter("testcase")}
    said = {name: failure.text for name, failure in told.items() if failure is not None}
    over = said["test_the_larger_call_counts"]
    for name in ("test_within", "test_not_complete_and_allowed", "test_nothing_is_left"):
        assert name in told and name not in said, said.get(name)
    for name, wanted in {
        "test_the_larger_call_counts": "Linear: over budget\n  macs  32, over 20 by 12 (+60 %)",
        "test_memory": "KiB, over 1KiB by",
        "test_not_complete": "Sequential: not complete\n  macs  >= 16, limit 1G, not complete: ",
        "test_beside_lamina_itself": "      0 (Linear): 16, 100 %",
        "test_its_own_failure_stays": "KeyError: 'mine'",
        "test_the_models_failure_stays": "shapes cannot be multiplied",
        "test_no_model": "lamina: the test has a budget and ran no model with parameters",
        "test_unknown_name": "lamina: the marker has no 'mcas'; it has max_METRIC, baseline, within",
        "test_without_a_name": "lamina: the marker takes names, as max_macs='2G', and was given '2G'",
        "test_no_budget": "lamina: the marker has no budget",
        "test_unknown_metric": "there is no metric 'mcas'; there are: macs, ",
        "test_no_baseline": "missing.json: it can't be read",
    }.items():
        assert wanted in said.pop(name), name
    assert not said
    assert over.count("over 20 by") == 5
    assert over.endswith("lamina: other calls do not hold the budget either")


def test_without_torch_a_marked_test_says_so(tmp_path):
    (tmp_path / "conftest.py").write_text("import sys\nsys.modules['torch'] = None\n", "utf-8")
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.lamina(max_macs=1)\ndef test_it(): pass\ndef test_other(): pass\n",
        "utf-8",
    )
    done = by_pytest(tmp_path)
    assert "1 failed, 1 passed" in done.stdout
    assert "lamina: PyTorch can't be imported" in done.stdout


def test_the_plugin_costs_next_to_nothing():
    """Every run of pytest imports it: no torch, no extension, none of lamina's other modules."""
    code = """
import sys, pytest, typing
before = set(sys.modules)
import lamina.pytest_plugin
print(*sorted(set(sys.modules) - before))
"""
    done = run([sys.executable, "-c", code], None)
    assert done.stdout.split() == ["lamina", "lamina.pytest_plugin"]
