# SPDX-License-Identifier: Apache-2.0
"""tools/setup: installs where it may, says the line to run where it may not, is idle when all is there."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import lamina._lamina

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script as a module, over an empty folder and with three packages, of which two are missing."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("tools_setup", str(ROOT / "tools/setup"))
    spec = spec_from_loader("tools_setup", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    module.ROOT, module.VENV = tmp_path, tmp_path / ".venv"
    module.VENV.mkdir()
    module.SYSTEM = [
        ("demo", "here", lambda: True),
        ("demo", "a", lambda: False),
        ("lint", "b", lambda: False),
        ("fuzz", "b", lambda: False),
    ]
    return module


def test_missing_packages_follow_the_purpose(setup: ModuleType) -> None:
    assert setup.missing_packages("demo") == ["a"]
    assert setup.missing_packages("lint") == ["a", "b"]
    assert setup.missing_packages("all") == ["a", "b"]


def test_where_it_may_not_install_it_prints_the_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "privilege", lambda: None)
    with pytest.raises(SystemExit) as stop:
        setup.system("lint")
    assert str(stop.value).endswith("sudo apt-get install -y --no-install-recommends a b")


def test_what_an_installation_did_not_bring_is_named(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "privilege", lambda: ["true"])
    with pytest.raises(SystemExit, match="installed a, but"):
        setup.system("demo")


@pytest.mark.parametrize(
    ("version", "enough"), [("1.8.0_402", False), ("11.0.2", False), ("17.0.15", True), ("21", True)]
)
def test_spark_wants_a_java_that_it_runs_on(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, enough: bool
) -> None:
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert setup.java() is enough
    java.unlink()
    assert not setup.java()


def test_a_java_that_is_too_old_is_told(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "privilege", lambda: ["true"])
    monkeypatch.setattr(setup, "SYSTEM", [("spark", "default-jre-headless", lambda: False)])
    with pytest.raises(SystemExit, match="Spark needs Java 17 or later"):
        setup.system("spark")


def test_nothing_missing_needs_no_privilege(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "SYSTEM", [("demo", "here", lambda: True)])
    monkeypatch.setattr(setup, "privilege", lambda: pytest.fail("asked for privileges"))
    setup.system("all")


def test_a_step_is_skipped_until_its_inputs_change(setup: ModuleType, tmp_path: Path) -> None:
    done: list[int] = []
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.c").write_text("1")
    for _ in range(2):
        setup.step("x", ["word", source], lambda: done.append(1))
    assert len(done) == 1
    (source / "a.c").write_text("2")
    setup.step("x", ["word", source], lambda: done.append(1))
    assert len(done) == 2
    setup.step("x", ["other word", source], lambda: done.append(1))
    assert len(done) == 3


def test_a_step_that_failed_is_done_again(setup: ModuleType) -> None:
    def fail() -> None:
        raise SystemExit("no")

    with pytest.raises(SystemExit):
        setup.step("x", [], fail)
    done: list[int] = []
    setup.step("x", [], lambda: done.append(1))
    assert done == [1]


def python(program: str) -> list[str | Path]:
    return [sys.executable, "-c", program]


def test_a_failing_command_shows_its_output(setup: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="setup: fetching it failed: exit code 3; its output is above"):
        setup.run(python("print('the cause'); raise SystemExit(3)"), "fetching it", tries=2)
    printed = capsys.readouterr()
    assert "the cause" in printed.err
    assert printed.out == "setup: fetching it failed, trying again\n"


def run_until(setup: ModuleType, monkeypatch: pytest.MonkeyPatch, shown: str, end: Path) -> None:
    """A step that prints a line and ends once ``shown`` is on the screen; by its clock seven seconds pass at
    once."""
    seconds = itertools.chain([0], itertools.repeat(7))
    monkeypatch.setattr(setup, "time", SimpleNamespace(monotonic=lambda: next(seconds)))

    def look(text: str, **options: Any) -> None:
        print(text, **options)
        if shown in text:
            end.touch()

    monkeypatch.setattr(setup, "print", look, raising=False)
    program = f"""
import os, time
print("Downloading it (3 MB)", flush=True)
while not os.path.exists({str(end)!r}):
    time.sleep(0.01)
"""
    setup.run(python(program), "step")


def test_a_long_step_says_what_it_does(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(setup, "EVERY", 0.01)
    run_until(setup, monkeypatch, "Downloading", tmp_path / "end")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "setup: step, 7 s: Downloading it (3 MB)"
    assert {*lines[:-1]} <= {"setup: step, 7 s", lines[-1]}


def test_on_a_terminal_one_line_is_rewritten(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(setup, "EVERY", 600.0)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "dumb")
    setup.run(python("print('Downloading it (3 MB)')"), "step")
    assert not capsys.readouterr().out
    monkeypatch.setenv("TERM", "xterm")
    run_until(setup, monkeypatch, "7 s: D", tmp_path / "end")
    *lines, shown, erased, end = capsys.readouterr().out.split("\x1b[K")
    assert {*lines} <= {"\rsetup: step, 7 s", shown}
    assert (shown, erased, end) == ("\rsetup: step, 7 s: D", "\r", "")


@pytest.mark.parametrize(
    ("printed", "meaning"),
    [
        ("NewConnectionError: refused\nERROR: No matching distribution found for torch", "can't be reached"),
        ("ERROR: No matching distribution found for torch==9", "pip finds no torch==9 for Python 3."),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("error: something else", "exit code 1; its output is above"),
    ],
)
def test_a_failure_says_why(setup: ModuleType, printed: str, meaning: str) -> None:
    assert meaning in setup.cause(printed, 1)


def test_an_old_python_is_told_what_to_do(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 18))
    monkeypatch.setattr(sys, "version", "3.9.18 (main)")
    with pytest.raises(
        SystemExit, match=r"^make needs python3 >= 3\.11; found 3\.9\.18\. Put a newer python3 "
    ):
        setup.main(["demo"])


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_make_takes_the_python_that_it_is_told(tmp_path: Path) -> None:
    other = tmp_path / "python-of-mine"
    other.write_text('#!/bin/sh\necho "$@"\n')
    other.chmod(0o755)
    for name, code, said in (
        (str(other), 0, "tools/setup"),
        ("python-nobody-has", 2, "there is no python-nobody"),
    ):
        command = ["make", "-C", ROOT, "--no-print-directory", f"PYTHON={name}", "setup"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert said in done.stdout + done.stderr


def test_list_changes_nothing() -> None:
    done = subprocess.run([ROOT / "tools/setup", "--list"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


DECLARED = """
import torchvision, torch
print(hasattr(torch.ops.torchvision, "nms"))
"""


LIBRARIES = [("whole", "False"), ("for another torch", "True"), (None, "False")]


@pytest.mark.parametrize(("library", "declared"), LIBRARIES)
def test_the_shim_leaves_a_torchvision_that_loads_alone(
    tmp_path: Path, library: str | None, declared: str
) -> None:
    """torch ends the process where an operator is declared twice, so one of the two may do it; a stand-in
    without a library needs no operators."""
    pytest.importorskip("torch")
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").touch()
    text = b"not a library"
    if library == "whole":  # any that loads; what it declares does not matter here
        text = Path(lamina._lamina.__file__ or "").read_bytes()
    if library:
        (package / "_C.so").write_bytes(text)
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests/shim"), str(tmp_path)])}
    done = subprocess.run(python(DECLARED), capture_output=True, text=True, env=env, check=False)
    assert done.stdout == f"{declared}\n", done.stderr
