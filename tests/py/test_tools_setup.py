# SPDX-License-Identifier: Apache-2.0
"""tools/setup: installs where it may, says the line to run where it may not, is idle when all is there."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

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


def test_a_failing_command_shows_its_output(setup: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="exit code 3"):
        setup.run([sys.executable, "-c", "print('the cause'); raise SystemExit(3)"])
    assert "the cause" in capsys.readouterr().err


def test_list_changes_nothing() -> None:
    done = subprocess.run([ROOT / "tools/setup", "--list"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
