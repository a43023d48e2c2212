# SPDX-License-Identifier: Apache-2.0
"""Every wrong input of wrong_inputs.py ends with one clear sentence: never a traceback, never silence."""

import io
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import warnings

import pytest
import torch
import wrong_inputs
from conftest import needs_fit
from torch import nn
from wrong_inputs import COMMANDS, FILES, PYTHON, REMARKS

import lamina
from lamina._command.cli import main

LONGEST = 700  # characters of a sentence, with its hint


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the cases name."""
    at = tmp_path_factory.mktemp("wrong")
    for name, content in FILES.items():
        (at / name).write_bytes(content)
    (at / "folder.lamina").mkdir()
    model = nn.Linear(2, 2)
    with lamina.watch(model, every=1, file=str(at / "good.lamina")):
        for _ in range(3):
            model(torch.rand(1, 2)).sum().backward()
    good = (at / "good.lamina").read_bytes()
    (at / "cut.lamina").write_bytes(good[: len(good) // 2])
    (at / "newer.lamina").write_bytes(good)
    for name, change in (
        ("other.lamina", "create table t (a)"),
        ("newer.lamina", "pragma user_version = 99"),
    ):
        base = sqlite3.connect(at / name)
        base.execute(change)
        base.commit()
        base.close()
    return at


@pytest.fixture(autouse=True)
def there(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("wrongs", "syntax", "imports", "raises"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def check(case, said):
    for pattern in (case.what, case.where, case.then):
        assert re.search(pattern, said, re.M), f"{pattern!r} is not in: {said}"


def ids(cases):
    return [case.typed for case in cases]


@pytest.mark.parametrize("case", COMMANDS, ids=ids(COMMANDS))
def test_the_command_says_what_is_wrong(case, capsys):
    code = main(shlex.split(case.typed))
    said = capsys.readouterr()
    assert "Traceback" not in said.err + said.out and "internal error" not in said.err
    if case.typed.startswith("fit ") and "this torch does not report" in said.err:
        needs_fit()
    assert code == case.ends, said.err
    lines = said.err.splitlines()
    sentence = [line for line in lines if line.startswith("lamina: error: ")]
    assert len(sentence) == 1, f"one sentence: {said.err!r}"
    hints = [line for line in lines if line.startswith("  hint: ")]
    assert len(sentence[0]) + sum(map(len, hints)) <= LONGEST
    check(case, "\n".join([*sentence, *hints]))


@pytest.mark.parametrize("case", REMARKS, ids=ids(REMARKS))
def test_what_could_be_misread_has_a_word_beside_it(case, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = main([*shlex.split(case.typed), "--width", "200"])
    assert code == case.ends
    check(case, capsys.readouterr().out)


@pytest.mark.parametrize("case", PYTHON, ids=ids(PYTHON))
def test_python_says_what_is_wrong(case):
    import importlib

    sys.path.insert(0, ".")
    m = importlib.import_module("wrongs")
    x = torch.rand(1, 3, 8, 8)
    names = {"torch": torch, "nn": nn, "lamina": lamina, "m": m, "x": x}
    if re.match(r"report|layers", case.typed):
        names["report"] = lamina.inspect(m.small(), x)
        names["layers"] = lamina.inspect(m.small(), x, convention="layers")
    with pytest.raises(BaseException) as caught:
        eval(case.typed, names)
    error = caught.value
    assert isinstance(error, case.ends) and not isinstance(error, AssertionError)
    assert len(str(error).splitlines()) <= 1 or isinstance(error, RuntimeError)
    assert len(str(error)) <= LONGEST
    check(case, "\n".join([str(error), *getattr(error, "__notes__", ())]))


def test_what_a_model_prints_is_not_part_of_the_output(capsys):
    assert main(["wrongs.py:Noisy", "-i", "1x4", "--format", "json"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("{") and "debug" not in said.out and said.err.startswith("debug")


def test_a_terminal_that_can_do_nothing_is_sent_no_control_codes(monkeypatch):
    from lamina._base import terminal

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(terminal, "PROGRESS_AFTER", 0)
    for kind in ("dumb", "xterm"):
        monkeypatch.setattr(sys, "stderr", Terminal())
        monkeypatch.setenv("TERM", kind)
        with terminal.progress("running the model") as shown:
            shown.at("running the model")
        assert bool(sys.stderr.getvalue()) == (kind == "xterm")


def test_there_are_enough_of_them():
    cases = [*COMMANDS, *REMARKS, *PYTHON]
    assert len(cases) >= 150 and len(set(ids(cases))) == len(cases)
    assert all(case.what or case.where for case in cases)
    assert wrong_inputs.MODELS.startswith("\nimport torch")


class Anything(nn.Linear):
    def forward(self, x, **options):
        return super().forward(x)


@pytest.mark.parametrize(
    ("option", "meant"), [("convetion", "convention"), ("backwards", "backward"), ("heath", "health")]
)
def test_a_misspelt_option_is_told_where_the_forward_takes_any(option, meant):
    with pytest.raises(TypeError, match=f"there is no option '{option}'; did you mean {meant}"):
        lamina.inspect(Anything(3, 4), torch.rand(2, 3), **{option: True})


def test_rules_from_a_pipe(folder, capsys):
    """A pipe that nobody writes into is told, and who writes late is waited for."""
    os.mkfifo(folder / "rules.fifo")
    command = ["torch.nn:Linear", "-k", "in_features=3", "-k", "out_features=4", "-i", "2x3"]
    command += ["--rules", "rules.fifo"]
    assert main(command) == 2
    assert "no program wrote into it for five seconds" in capsys.readouterr().err

    write = "sleep 0.3; echo 'aten::addmm  macs = 7' > rules.fifo"
    for _ in range(20):  # a writer that waits for a processor may come too late
        with subprocess.Popen(["sh", "-c", write]) as writer:
            ended = main([*command, "--format", "json"])
            writer.kill()
        if not ended:
            break
        capsys.readouterr()
    assert json.loads(capsys.readouterr().out)["totals"]["macs"]["value"] == 7
