# SPDX-License-Identifier: Apache-2.0
"""What somebody meets on a first day: files by their endings, two settings of a model, Ctrl-C, a crash."""

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
import torch
from conftest import LIMIT, environment, hear_interrupts
from torch import nn

import lamina
import warm
from lamina._command.cli import main
from lamina._target import load

MODELS = textwrap.dedent(
    """
    import ctypes, itertools, os
    import torch
    from torch import nn

    class MLP(nn.Sequential):
        def __init__(self, width=8):
            super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))

    class Bad(nn.Module):
        def forward(self, x):
            ctypes.string_at(0)

    class Crashes(nn.Module):
        def __init__(self):
            super().__init__()
            self.fine, self.part = nn.Linear(4, 4), nn.Sequential(Bad())

        def forward(self, x):
            return self.part(self.fine(x))

    class Deaf(nn.Module):
        def forward(self, x):
            # All of it is one call into C: Python hears no signal from before the line is written on.
            return sum(itertools.chain(map(os.write, [2], [b"ready\\n"]), itertools.repeat(0)))

    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(512, 2048), nn.Linear(2048, 512)

        def forward(self, x):
            return self.last(self.first(x))
    """
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def said(capsys, *words, ends=0):
    code = main(list(words))
    told = capsys.readouterr()
    assert code == ends, told.err
    return told


# -- a file by its ending ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("a.html", "<!doctype html>"),
        ("a.csv", "path,name,type"),
        ("a.json", "{"),
        ("a.md", "MLP"),
        ("a.txt", "MLP"),
        ("A.CSV", "path,name,type"),
        ("a", "MLP"),
    ],
)
def test_a_file_is_written_in_the_format_of_its_ending(capsys, folder, name, begins):
    said(capsys, "mine.py:MLP", "-i", "2x4", "-o", name)
    assert (folder / name).read_text().lstrip("# *`").startswith(begins)


def test_a_format_that_is_named_goes_before_the_ending(capsys, folder):
    said(capsys, "mine.py:MLP", "-i", "2x4", "--format", "json", "-o", "a.csv")
    assert (folder / "a.csv").read_text().startswith("{")


@pytest.mark.parametrize("name", ["a.png", "a.svg", "a.xlsx"])
def test_an_ending_that_is_not_written_is_refused(capsys, folder, name):
    told = said(capsys, "mine.py:MLP", "-i", "2x4", "-o", name, ends=2)
    assert re.search(rf"-o {name}: `lamina show` writes text.*and not what the name says", told.err)
    assert not (folder / name).exists()


# -- columns -------------------------------------------------------------------------------------------------


def test_a_column_that_was_asked_for_is_the_last_to_go(capsys):
    out = said(capsys, "mine.py:MLP", "-i", "2x4", "--memory", "--rf", "--width", "80").out
    head = next(line for line in out.splitlines() if line.startswith("layer"))
    assert "RF" in head and "peak" in head and "FLOPs" not in head
    assert re.search(r"not shown .*FLOPs", out)


def test_a_difference_says_which_columns_had_no_room(capsys):
    words = ("diff", "mine.py:MLP", "mine.py:MLP", "-i", "2x4", "--new-k", "width=16")
    wide = said(capsys, *words, "--width", "200").out
    narrow = said(capsys, *words, "--width", "50").out
    assert "not shown" not in wide and "bytes moved" in wide
    assert "not shown" in narrow


# -- two settings of a model ---------------------------------------------------------------------------------


def test_one_side_of_a_difference_has_arguments_of_its_own(capsys):
    told = said(capsys, "diff", "mine.py:MLP", "mine.py:MLP", "-i", "2x4", "--new-k", "width=16").out
    assert "mine.py:MLP -> mine.py:MLP width=16" in told and "out_features 8 -> 16" in told
    both = said(
        capsys, "diff", "mine.py:MLP", "mine.py:MLP", "-i", "2x4", "--old-k", "width=16", "--new-k", "width=4"
    ).out
    assert "out_features 16 -> 4" in both


def test_one_side_of_a_difference_has_inputs_of_its_own(capsys):
    words = ("diff", "mine.py:MLP", "mine.py:MLP", "--old-i", "2x4", "--new-i", "6x4")
    assert "before 2x4 float32, now 6x4 float32" in said(capsys, *words).out


def test_arguments_that_both_sides_take_are_said(capsys):
    told = said(capsys, "diff", "mine.py:MLP", "mine.py:MLP", "-i", "2x4", "-k", "width=16").out
    assert "Nothing differs" in told
    assert re.search(r"both +-k width=16; --old-k and --new-k give one of them its own", told)


def test_a_difference_is_a_page_in_a_notebook():
    before = lamina.inspect(nn.Linear(4, 8), torch.rand(2, 4))
    diff = before.diff(lamina.inspect(nn.Linear(4, 16), torch.rand(2, 4)))
    shown = diff._repr_mimebundle_()
    assert set(shown) == {"text/plain", "text/html"}
    assert shown["text/plain"] == str(diff) and "lamina" in shown["text/html"]


def test_why_prints_as_the_command_does(capsys, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(tmp_path)
    import mine

    report = lamina.inspect(mine.MLP().eval(), torch.rand(2, 4))
    lines = report.why("0")
    assert lines[0]["metric"] == "macs" and isinstance(lines, list)
    assert str(lines) == repr(lines)
    printed = said(capsys, "why", "mine.py:MLP", "0", "-i", "2x4").out
    shown = str(lines).split()  # the command wraps lines at the width of a terminal
    assert shown and printed.split()[: len(shown)] == shown


# -- one thing, one number -----------------------------------------------------------------------------------


def test_a_page_has_one_time_of_the_forward():
    report = lamina.inspect(
        nn.Sequential(*(nn.Linear(16, 16) for _ in range(3))), torch.rand(2, 16), backward=True, time=True
    )
    page = report.to_html()
    tile = re.search(r'data-by="time".*?class="v">(.*?)</span><span class="w"', page, re.S)
    row = re.search(r'<tr data-i="0">.*?</tr>', page, re.S)
    assert tile and row
    number = re.sub(r"<[^>]*>", "", tile[1])
    assert number in re.sub(r"<[^>]*>", "", row[0])


def test_a_folded_row_of_a_page_is_one_of_them_as_in_the_table():
    model = nn.Sequential(*(nn.Linear(32, 32) for _ in range(3)))
    report = lamina.inspect(model, torch.rand(2, 32))
    page = report.to_html()
    row = re.search(r'<tr data-i="1">.*?</tr>', page, re.S)
    assert row and "\u00d73 equal, each" in row[0]
    assert "2.05 K" in re.sub(r"<[^>]*>", "", row[0]).replace("\u202f", " ").replace("\xa0", " ")
    assert re.search(r"0\.\.2 x3 \(Linear\).* 2\.05 K .*each", str(report))


# -- too large to run ----------------------------------------------------------------------------------------


@pytest.fixture
def small_machine(monkeypatch):
    monkeypatch.setattr(load, "available", lambda: 1 << 20)


LARGE = ("mine.py:Large", "-i", "1x512")
BECAUSE = "dry run: mine.py:Large needs"


@pytest.mark.parametrize(
    "words",
    [
        ("show", *LARGE),
        ("show", *LARGE, "--backward"),
        ("why", LARGE[0], "first", *LARGE[1:]),
        ("compare", *LARGE),
        ("check", *LARGE, "--max", "macs=1G"),
        ("graph", *LARGE, "-o", "graph.svg"),
        ("plot", "icicle", *LARGE, "-o", "icicle.svg"),
        ("report", *LARGE, "-o", "report.html"),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_model_larger_than_the_memory_is_followed_and_says_so(capsys, small_machine, words):
    told = said(capsys, *words)
    assert BECAUSE in told.out + told.err


def test_two_models_larger_than_the_memory_are_compared(capsys, small_machine):
    told = said(capsys, "diff", "mine.py:Large", *LARGE)
    assert "Nothing differs" in told.out and BECAUSE in told.out + told.err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("show", *LARGE, "--time"), "--time"),
        (("show", *LARGE, "--memory"), "--memory"),
        (("show", *LARGE, "--health"), "--health"),
        (("report", *LARGE, "--time", "-o", "report.html"), "--time"),
    ],
    ids=str,
)
def test_what_needs_a_run_of_a_model_that_is_too_large_is_refused(
    capsys, small_machine, folder, words, option
):
    told = said(capsys, *words, ends=3)
    assert re.search(rf"it can't run here, and {option} needs a run; .*`lamina fit`", told.err)
    assert not (folder / "report.html").exists()


def test_a_model_that_fits_is_run(capsys):
    assert "dry run" not in said(capsys, *LARGE).out


# -- the command's own words ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "meant"), [("shwo", "show"), ("dif", "diff"), ("repotr", "report")])
def test_a_typo_of_a_subcommand_is_no_model(capsys, word, meant):
    told = said(capsys, word, "mine.py:MLP", "-i", "2x4", ends=2)
    assert f"did you mean {meant}?" in told.err and "NAME" not in told.err


def test_a_folder_is_no_model(capsys, folder):
    (folder / "there").mkdir()
    assert "it is a folder" in said(capsys, "there", ends=2).err


def test_options_behind_a_program_are_pointed_at(folder):
    (folder / "train.py").write_text("import sys\nprint(sys.argv[1:])\n")

    def run(*words):
        return warm.python("-m", "lamina", "run", *words, env=environment())

    done = run("train.py", "--every", "1")
    assert done.stdout == "['--every', '1']\n" and done.returncode == 0
    assert "--every stands behind the program" in done.stderr
    assert "lamina run --every N train.py" in done.stderr
    assert "stands behind" not in run("--", "train.py", "--every", "1").stderr
    assert "stands behind" not in run("train.py", "--epochs", "1").stderr
    usage = run("--help").stdout.splitlines()[0]
    assert usage.index("[options]") < usage.index("SCRIPT") < usage.index("[ARGUMENT ...]")


# -- signals -------------------------------------------------------------------------------------------------


def test_a_crash_leaves_one_line_with_the_layer_that_ran():
    done = subprocess.run(
        [sys.executable, "-m", "lamina", "mine.py:Crashes", "-i", "1x4"],
        capture_output=True, env=environment(), check=False, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGSEGV and done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("lamina: error: mine.py:Crashes: it was ended by SIGSEGV")
    assert "in part.0 (Bad)" in line


def test_a_crash_in_a_callers_process_is_not_touched(folder):
    program = "import mine, torch, lamina; lamina.inspect(mine.Crashes(), torch.rand(1, 4))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment(), check=False, text=True
    )
    assert done.returncode == -signal.SIGSEGV and "lamina" not in done.stderr


@pytest.mark.parametrize("again", [0, 1])
def test_an_interrupt_is_heard_by_a_model_that_listens_to_nothing(again):
    """The second Ctrl-C ends it at once."""

    with subprocess.Popen(
        [sys.executable, "-m", "lamina", "mine.py:Deaf", "-i", "1x4"],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts, text=True,
    ) as child:  # fmt: skip
        assert child.stderr.readline() == "ready\n"
        for _ in range(1 + again):
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=LIMIT)
    # A shell says 130 for both; on a busy machine Python may come first.
    assert child.returncode in (-signal.SIGINT, 128 + signal.SIGINT) and out == ""
    assert err == "lamina: error: interrupted\n"


def test_a_command_in_a_callers_process_keeps_its_signals():
    before = signal.getsignal(signal.SIGINT), os.getpid()
    assert main(["rules", "torchscan", "-o", "rules.txt"]) == 0
    assert (signal.getsignal(signal.SIGINT), os.getpid()) == before
