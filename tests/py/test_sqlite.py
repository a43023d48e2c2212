# SPDX-License-Identifier: Apache-2.0
"""Recordings use the SQLite of Python's own module sqlite3, which is looked for when one is opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import LIMIT, environment, needs_recordings

needs_recordings()
sqlite3 = pytest.importorskip("sqlite3")

NEW = '_lamina.Recorder("run.lamina", None, None, None, 0, 1, 1, 1)'
DOCTOR = """
    import io
    from lamina._command import cli
    host = cli.Host(out := io.StringIO(), io.StringIO())
    host.doctor = lambda: ""
    _lamina.command(["lamina", "doctor"], host)
    print(next(line for line in out.getvalue().splitlines() if line.startswith("recordings: ")))
"""
HIDE = "    import sys; sys.modules['_sqlite3'] = None\n"  # as in a Python that was built without it


def told(tmp_path: Path, code: str, **more: str) -> list[str]:
    """The lines that a fresh Python prints."""
    code = textwrap.dedent("    from lamina import _lamina\n" + code)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment() | more, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()


def test_it_is_that_of_python(tmp_path):
    [line] = told(tmp_path, DOCTOR)
    assert line.startswith(f"recordings: by SQLite {sqlite3.sqlite_version}, Python's (/"), line


def test_it_is_loaded_once_and_when_it_is_needed(tmp_path):
    code = f"""
    import sys
    def copies():
        with open("/proc/self/maps") as maps:
            return {{line.split()[-1] for line in maps if "libsqlite3" in line}}
    print("_sqlite3" in sys.modules, len(copies()))
    {NEW}.close()
    import sqlite3
    print("_sqlite3" in sys.modules, len(copies()) <= 1)
    """
    if not Path("/proc/self/maps").exists():
        pytest.skip("this system has no /proc/self/maps")
    assert told(tmp_path, code) == ["False 0", "True True"]


def test_its_locks_are_shared(tmp_path):
    """A reader in the process that opens and closes the file takes no lock from the recorder: POSIX drops
    all locks of a process on a file when it closes one handle, and one copy of SQLite knows its handles."""
    code = f"""
    import sqlite3, subprocess, sys
    recorder = {NEW}
    sqlite3.connect("run.lamina").execute("SELECT count(*) FROM runs").fetchone()
    other = "import sqlite3; sqlite3.connect('run.lamina', timeout=0).execute('PRAGMA journal_mode=DELETE')"
    done = subprocess.run([sys.executable, "-c", other], text=True, capture_output=True)
    print("database is locked" in done.stderr)
    recorder.close()
    """
    assert told(tmp_path, code) == ["True"]


def test_without_that_module_it_is_the_systems(tmp_path):
    [line] = told(tmp_path, HIDE + DOCTOR)
    if "not possible" in line:
        pytest.skip("this system has no libsqlite3.so.0")
    assert line.startswith("recordings: by SQLite 3.")
    assert ", the system's (/" in line


def test_without_any_it_is_said_and_the_rest_works(tmp_path):
    """A library of that name in which nothing is stands for one that is missing."""
    if not shutil.which("cc") or sys.platform != "linux":
        pytest.skip("there is no C compiler to make an empty library with")
    for name in ("libsqlite3.so.0", "libsqlite3.so"):
        subprocess.run(["cc", "-shared", "-o", tmp_path / name, "-xc", os.devnull], check=True)
    code = f"""
    from lamina._base.errors import LaminaError
    try:
        {NEW}
    except LaminaError as error:
        print(error)
    print(_lamina.text_count(1000))
    """
    sentence, count, line = told(tmp_path, HIDE + code + DOCTOR, LD_LIBRARY_PATH=str(tmp_path))
    assert sentence.startswith("recordings need SQLite, and neither Python's module sqlite3")
    assert sentence.endswith("install it (Debian: libsqlite3-0)")
    assert count.startswith("1")
    assert line == f"recordings: not possible: {sentence}"
