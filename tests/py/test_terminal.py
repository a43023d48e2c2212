# SPDX-License-Identifier: Apache-2.0
"""What a terminal alone gets: bars, a pager, progress."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
import types

import pytest
import torch
from conftest import environment
from torch import nn
from tty_kit import on_terminal, screen_of

import lamina
from lamina._base import terminal

BAR = "\x1b[37;44m"
NETS = """
    import os
    import sys
    import time
    from torch import nn

    def wait(until):  # a file is there, or so many seconds have passed
        if isinstance(until, float):
            time.sleep(until)
        while isinstance(until, str) and not os.path.exists(until):
            time.sleep(0.01)

    class Slow(nn.Module):
        def __init__(self, built=0.0, run=0.0, says="", fails=False):
            super().__init__()
            wait(built)
            self.fc, self.run, self.says, self.fails = nn.Linear(8, 8), run, says, fails
        def forward(self, x):
            wait(self.run)
            if self.says:
                sys.stdout.write(self.says + "\\n")
            if self.fails:
                raise ValueError("as asked")
            return self.fc(x)

    CALLS = []  # which nothing restores

    class Talks(nn.Module):
        def __init__(self, run, at, says=""):  # its call of that number waits
            super().__init__()
            self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)
            self.run, self.at, self.says = run, at, says
        def forward(self, ids):
            CALLS.append(self)
            if len(CALLS) == self.at:
                sys.stdout.write(self.says)
                sys.stdout.flush()
                wait(self.run)
            return self.head(self.table(ids))

    def two():
        return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
"""


@pytest.fixture
def nets(tmp_path):
    lines = NETS.strip("\n").splitlines()
    (tmp_path / "net.py").write_text("\n".join(line[4:] for line in lines) + "\n")
    return tmp_path


def colours_off(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


# -- bars ----------------------------------------------------------------------------------------------------


def test_bars_on_a_terminal(nets):
    """A Linear of 64 products of 80 has 9 of 11 columns, one of 16 has 2."""
    shown = on_terminal("show", "net.py:two", "-i", "1x8", cwd=nets)
    rows = [line for line in shown.raw.splitlines() if "(Linear)" in line]
    assert shown.code == 0
    assert f"{BAR}  64   80\x1b[0m.0" in rows[0] and f"{BAR}  \x1b[0m16   20.0" in rows[1]
    plain = on_terminal("show", "net.py:two", "-i", "1x8", "--no-bars", cwd=nets)
    assert "\x1b[1m" in plain.raw and BAR not in plain.raw
    assert [line for line in plain.lines if "(Linear)" in line] == [colours_off(row) for row in rows]


def test_no_bars_anywhere_else(nets):
    out = nets / "out.txt"
    for options, variables in (((), {"NO_COLOR": "1"}), (("--ascii",), {})):
        shown = on_terminal("show", "net.py:two", "-i", "1x8", *options, cwd=nets, **variables)
        assert shown.code == 0 and "64" in shown.text and BAR not in shown.raw
    assert on_terminal("show", "net.py:two", "-i", "1x8", cwd=nets, out=out).code == 0
    assert "64" in out.read_text("utf-8") and "\x1b" not in out.read_text("utf-8")


class Terminal:
    encoding = "utf-8"

    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_bars_of_a_report(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    report = lamina.inspect(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2)), torch.ones(1, 8))
    said = {}
    for options in ({}, {"bars": False}, {"color": False}, {"ascii": True}):
        monkeypatch.setattr("sys.stdout", Terminal())
        report.show(**options)
        said[str(options)] = sys.stdout.text
    assert [BAR in text for text in said.values()] == [True, False, False, False]
    assert colours_off(said["{}"]) == said["{'color': False}"]
    assert BAR not in str(report)


# -- the pager -----------------------------------------------------------------------------------------------

RULES = ("rules", "exact")  # over a thousand lines, without torch


@pytest.fixture(scope="module")
def rules():
    command = [sys.executable, "-m", "lamina", *RULES]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(COLUMNS="100"), check=True
    ).stdout


def test_long_output_goes_through_the_pager(rules, tmp_path):
    kept = tmp_path / "kept.txt"
    shown = on_terminal(*RULES, rows=20, LAMINA_PAGER=f"cat >'{kept}'; head -n 3 '{kept}'", PAGER="exit 1")
    assert kept.read_text("utf-8") == rules
    assert shown.code == 0 and shown.raw.splitlines() == rules.splitlines()[:3]


def test_short_output_does_not(rules):
    shown = on_terminal(*RULES, rows=4000, LAMINA_PAGER="echo paged")
    assert shown.code == 0 and shown.raw == rules


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        (("--no-pager",), {"PAGER": "echo paged"}),
        ((), {"PAGER": "echo paged", "LAMINA_PAGER": ""}),
        ((), {"PAGER": "cat"}),
        ((), {"PAGER": "echo paged", "TERM": "dumb"}),
    ],
)
def test_the_pager_is_switched_off(rules, options, variables):
    shown = on_terminal(*RULES, *options, rows=20, **variables)
    assert shown.code == 0 and shown.raw == rules


def test_a_pager_that_is_not_there(rules):
    shown = on_terminal(*RULES, rows=20, PAGER="nosuchpager -x")
    says = "lamina: the pager 'nosuchpager -x' could not be started; --no-pager does without one\n"
    assert shown.code == 0 and shown.raw == rules + says


def test_no_pager_in_a_pipe(rules):
    done = subprocess.run(
        [sys.executable, "-m", "lamina", *RULES],
        capture_output=True,
        text=True,
        env=environment(LAMINA_PAGER="echo paged", LINES="5", COLUMNS="100"),
        check=True,
    )
    assert done.stdout == rules and not done.stderr


@pytest.mark.skipif(shutil.which("less") is None, reason="there is no less here")
def test_less_is_quit_early(rules):
    """A Ctrl-C in less ends nothing; q does."""
    first = rules.splitlines()[0]
    shown = on_terminal(*RULES, rows=20, keys=((first, b"\x03"), (first, b"q")))
    assert shown.code == 0
    assert first in shown.raw and rules.splitlines()[-1] not in shown.raw
    assert "Traceback" not in shown.raw and "error" not in shown.lines[-1]


def test_a_finding_keeps_its_exit_code(nets):
    shown = on_terminal(
        "show", "net.py:Slow", "-i", "1x8", "-k", "fails=True", cwd=nets, rows=3, LAMINA_PAGER="echo paged"
    )
    assert shown.code == 3 and "paged" not in shown.raw
    assert "ValueError: as asked" in [line for line in shown.lines if line][-1]


# -- progress ------------------------------------------------------------------------------------------------


def test_progress_is_shown_and_erased(nets):
    out = nets / "out.txt"
    given = ("show", "net.py:Slow", "-i", "1x8", "-k", "built='built'", "-k", "run='ran'")
    steps = (
        ("\rlamina: building the model ... ", nets / "built"),
        ("\rlamina: running the model ... ", nets / "ran"),
    )
    shown = on_terminal(*given, cwd=nets, out=out, files=steps)
    assert shown.code == 0
    assert all(re.search(re.escape(text) + r"\d+ s\x1b\[K\r", shown.raw) for text, _ in steps)
    assert not any(shown.lines)
    assert "fc (Linear)" in out.read_text("utf-8")


def test_progress_of_timed_runs(nets):
    shown = on_terminal(
        "show", "net.py:Slow", "-i", "1x8", "-k", "run=0.6", "--time", "--repeats", "2", cwd=nets
    )
    assert shown.code == 0
    assert "lamina: warm-up run 2 of 3 ..." in shown.raw and "lamina: timed run 2 of 2 ..." in shown.raw
    assert "lamina:" not in shown.text and "fc (Linear)" in shown.text


def test_progress_leaves_nothing_after_an_error(nets):
    given = (
        "show",
        "net.py:Slow",
        "-i",
        "1x8",
        "-k",
        "run='ran'",
        "-k",
        "fails=True",
        "-k",
        "says='" + "w" * 50 + "'",
    )
    shown = on_terminal(*given, cwd=nets, files=(("running the model", nets / "ran"),))
    assert shown.code == 3 and "lamina: running the model" in shown.raw
    assert "w" * 50 in shown.lines  # what the model prints replaces the line
    assert [line for line in shown.lines if "lamina:" in line] == [
        line for line in shown.lines if line.startswith("lamina: error: ")
    ]


def test_progress_leaves_nothing_after_an_interrupt(nets):
    given = ("show", "net.py:Slow", "-i", "1x8", "-k", "run='never'")
    shown = on_terminal(*given, cwd=nets, keys=(("running the model", b"\x03"),))
    assert shown.code in (130, -signal.SIGINT)
    assert "running the model" not in shown.text


# Two calls are of the run whose steps are counted, two of that whose memory is followed, and two of longer
# prompts.
RUNS = [
    ((), 1, "running the model"),
    (("--dry",), 1, "following the shapes"),
    ((), 3, "predicting the memory of a forward pass"),
    (("--dry",), 5, "following the shapes"),
]


@pytest.mark.parametrize(("options", "at", "says"), RUNS)
def test_progress_of_the_runs_of_a_language_model(nets, options, at, says):
    given = ("tokens", "net.py:Talks", "--prompt", "3", "--new", "2", "--device-memory", "1MB", *options)
    text = f"\rlamina: {says} ... "
    files = ((text, nets / "ran"),)
    shown = on_terminal(*given, "-k", "run='ran'", "-k", f"at={at}", cwd=nets, files=files)
    assert shown.code == 0
    assert re.search(re.escape(text) + r"\d+ s\x1b\[K\r", shown.raw)
    assert "lamina:" not in shown.text and "activations" in shown.text


@pytest.mark.parametrize(("options", "at", "says"), RUNS)
def test_an_interrupt_ends_each_run_of_a_language_model(nets, options, at, says):
    given = ("tokens", "net.py:Talks", "--prompt", "3", "--new", "2", "--device-memory", "1MB", *options)
    built = ("-k", "run='never'", "-k", f"at={at}", "-k", "says='it waits'")
    shown = on_terminal(*given, *built, cwd=nets, keys=(("it waits", b"\x03"),))
    assert shown.code in (130, -signal.SIGINT)
    assert says not in shown.text and "Traceback" not in shown.text
    assert "in all" not in shown.text  # a run that was counted before is not told as if it were all


def test_no_progress_in_a_pipe(nets, shell):
    given = ("show", "net.py:Slow", "-i", "1x8", "-k", "built=0.7", "-k", "run=0.7")
    done = shell(*given, cwd=nets)
    assert done.returncode == 0 and not done.stderr and "\x1b" not in done.stdout


SEEN = []


class Threads(nn.Linear):
    """Notes which threads there are at each call, where nothing restores it."""

    def forward(self, x):
        SEEN.append("lamina progress" in [thread.name for thread in threading.enumerate()])
        return super().forward(x)


def test_no_thread_runs_while_times_are_measured(monkeypatch):
    stderr = Terminal()
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "PROGRESS_AFTER", 0.0)
    model = Threads(4, 4)
    SEEN.clear()
    lamina.inspect(model, torch.ones(1, 4), time=True, warmup=1, repeats=3)
    assert SEEN == [
        True,
        False,
        False,
        False,
        False,
    ]  # the run that counts, a warm-up, three timed ones
    assert "timed run 3 of 3" in stderr.text and screen_of(stderr.text) == [""]
    SEEN.clear()
    lamina.inspect(model, torch.ones(1, 4), time=True, warmup=0, repeats=1)
    assert SEEN == [False]  # the run that counts is the timed one


def test_progress_by_hand_is_written_now_and_then(monkeypatch):
    stderr, now = Terminal(), [1000.0]
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "PROGRESS_AFTER", 60.0)  # seconds of a clock that stands still by itself
    monkeypatch.setattr(terminal, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    with terminal.progress("begins") as shown, shown.by_hand():
        for after in (0, 59, 60, 61, 119, 120, 300):
            now[0] = 1000.0 + after
            shown.at(f"step {after}")
    written = [f"\rlamina: step {after} ... {after} s\x1b[K\r" for after in (60, 120, 300)]
    assert stderr.text == "".join(written) + "\r\x1b[K"


def test_a_stream_that_is_closed_is_no_error(monkeypatch):
    class Closed(Terminal):
        def write(self, text):
            raise ValueError("I/O operation on closed file")

    monkeypatch.setattr("sys.stderr", Closed())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(terminal, "PROGRESS_AFTER", 0.0)
    with terminal.progress("waiting") as shown, shown.by_hand():
        shown.at("waiting more")
