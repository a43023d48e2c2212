# SPDX-License-Identifier: Apache-2.0
"""tools/tally: the closing line counts what ran, inside cmocka programs too; a broken file is a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CMOCKA = """[==========] tests: Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
[  FAILED  ] two
[ RUN      ] three
[  SKIPPED ] three
[==========] tests: 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] tests: 1 test(s), listed below:
[  SKIPPED ] three
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] two
"""


def tally(*paths: Path) -> tuple[int, str]:
    command = [sys.executable, ROOT / "tools/tally", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


def write(path: Path, cases: str) -> Path:
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def test_adds_up_files(tmp_path: Path) -> None:
    python = write(tmp_path / "a.xml", "<testcase name='a'/><testcase name='b'><skipped/></testcase>")
    c = write(tmp_path / "b.xml", f"<testcase name='c'><system-out>{CMOCKA}</system-out></testcase>")
    assert tally(python, c) == (1, "2 passed, 1 failed, 2 skipped")


def test_a_program_that_crashed_counts_as_a_failure(tmp_path: Path) -> None:
    out = "[ RUN      ] one\n[       OK ] one\n"
    crashed = write(tmp_path / "a.xml", f"<testcase><failure/><system-out>{out}</system-out></testcase>")
    assert tally(crashed) == (1, "1 passed, 1 failed")


def test_all_well(tmp_path: Path) -> None:
    assert tally(write(tmp_path / "a.xml", "<testcase/><testcase/>")) == (0, "2 passed, 0 failed")


def test_no_test_at_all_is_no_success(tmp_path: Path) -> None:
    assert tally(write(tmp_path / "a.xml", "")) == (1, "0 passed, 0 failed")


def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path) -> None:
    cut = tmp_path / "a.xml"
    cut.write_text("<testsuites><testcase")
    assert tally(cut, tmp_path / "missing.xml") == (1, "0 passed, 2 failed")
