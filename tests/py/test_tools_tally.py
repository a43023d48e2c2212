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
    code, said = tally(python, c)
    assert (code, said.splitlines()[-1]) == (1, "2 passed, 1 failed, 2 skipped")


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


def skip(suite: str, reason: str, name: str = "test_it") -> str:
    return f'<testcase classname="tests.py.{suite}" name="{name}"><skipped message="{reason}"/></testcase>'


def whole(suite: str, reason: str) -> str:
    """As pytest writes a file that skips itself when it is imported."""
    text = repr((f"/tests/py/{suite}.py", 3, f"Skipped: {reason}"))
    skipped = f'<skipped message="collection skipped">{text}</skipped>'
    return f'<testcase classname="" name="tests.py.{suite}">{skipped}</testcase>'


PASSED = '<testcase classname="tests.py.test_a" name="test_that"/>'


def test_reasons_are_counted(tmp_path: Path) -> None:
    cases = skip("test_a", "no nodes: here", "test_x") + skip("test_a", "no nodes: here", "test_y")
    cases += skip("test_a", "no GPU") + skip("test_a", "") + PASSED
    said = ["skipped in python:", "     2  no nodes: here", "     1  no GPU", "     1  no reason given"]
    said.append("1 passed, 0 failed, 4 skipped")
    assert tally(write(tmp_path / "python.xml", cases)) == (0, "\n".join(said))


def test_rare_reasons_are_added_up(tmp_path: Path) -> None:
    cases = "".join(skip("test_a", f"reason {i}") for i in range(25))
    said = tally(write(tmp_path / "python.xml", cases + PASSED))[1].splitlines()
    assert len(said) == 23
    assert said[-2] == "     5  for 5 other reasons"


def test_an_expected_failure_is_told_apart(tmp_path: Path) -> None:
    cases = '<testcase classname="test_a"><skipped type="pytest.xfail" message=""/></testcase>' + PASSED
    assert "     1  expected to fail\n" in tally(write(tmp_path / "python.xml", cases))[1]


def test_a_suite_of_which_nothing_ran_is_a_failure(tmp_path: Path) -> None:
    why = "no operators: torch's records can't be read"
    for cases in (whole("test_b", why), skip("test_b", why) + skip("test_b", why, "test_other")):
        code, said = tally(write(tmp_path / "python.xml", PASSED + cases))
        assert code == 1
        assert f"failed: test_b: all its tests were skipped: {why}" in said.splitlines()


def test_a_suite_that_ran_elsewhere_or_may_be_missing_is_none(tmp_path: Path) -> None:
    ran = write(
        tmp_path / "python.xml", PASSED + skip("test_a", "no nodes", "test_x") + skip("test_c", "no GPU")
    )
    oldest = write(tmp_path / "oldest.xml", whole("test_a", "no operators: this torch is old"))
    code, said = tally(ran, oldest)
    assert code == 0, said
    assert "skipped in oldest:\n     1  no operators: this torch is old\n" in said
