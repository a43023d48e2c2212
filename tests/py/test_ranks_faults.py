# SPDX-License-Identifier: Apache-2.0
"""What the system does not let lamina do with the folder of a run, and what is named that is none: one
sentence, an exit code, and no half file."""

from __future__ import annotations

import ctypes
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_until

import recordings
from lamina._command import cli
from lamina._ranks import TABLES, open_run
from lamina._ranks import merge as merging

duckdb = pytest.importorskip("duckdb")

LAMINA = [sys.executable, "-m", "lamina"]
DROP_FROM_BOUNDING_SET, OVERRIDE, READ_SEARCH = 24, 1, 2  # of prctl, and two of root's capabilities


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def apart(*words: object, before: Callable[[], None]) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in which ``before`` was called."""
    command = [*LAMINA, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=before)


def as_anyone() -> None:
    """Root may read what nobody may; this takes that from the program which comes next."""
    for capability in (OVERRIDE, READ_SEARCH):
        ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of four ranks on two nodes, of which rank 2 is slow."""
    files = recordings.make(tmp_path, slow=2)
    merging.merge(files, str(tmp_path / "run"), lambda _: None, lambda *_: None)
    return tmp_path / "run"


def verdict(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = open_run(str(folder)).judged().as_dict()["verdict"]
    return told


@pytest.mark.parametrize("verb", ["sql", "merge"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty", "it is no folder of a run: it has no ranks/"),
        ("other", "it is no folder of a run: it has no ranks/"),
        ("file", "it is a file, and a run is a folder"),
        ("nowhere", "it can't be read: No such file or directory"),
    ],
)
def test_what_is_no_run_is_told_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, name: str, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    code, out, err = run(capsys, verb, tmp_path / name, *(["SELECT 1"] if verb == "sql" else []))
    if verb == "merge" and name in ("file", "nowhere"):  # it may be meant as a recording
        assert (code, out) == (2, "") and "no folder is named that the recordings go into" in err
        return
    assert (code, out) == (3, "")
    assert err.startswith(f"lamina: error: {tmp_path / name}: {said}\n"), err


@pytest.mark.parametrize("table", ["windows", "meets"])
def test_a_folder_that_lacks_a_reduction_makes_both_of_its_steps(folder: Path, table: str) -> None:
    whole = verdict(folder)
    shutil.rmtree(folder / table)
    found = verdict(folder)
    for name in ("kind", "ranks", "nodes", "phase", "layer", "since"):
        assert found[name] == whole[name], name
    assert found["gain"] == pytest.approx(whole["gain"], abs=0.005)


@pytest.mark.parametrize("table", ["windows", "meets", "steps", "layers", "ranks"])
def test_a_merge_names_a_file_of_the_folder_that_was_cut(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], table: str
) -> None:
    cut = sorted(folder.glob(f"{table}/**/*.parquet"))[0]
    cut.write_bytes(cut.read_bytes()[:-9])
    files = sorted(tmp_path.glob("run.*.lamina"))
    code, out, err = run(capsys, "merge", *files, "-o", folder)
    assert (code, out) == (3, "")
    assert err == f"lamina: error: {cut}: it was cut, or it is no Parquet file; copy or write it again\n"


@pytest.mark.parametrize("what", [".", "ranks", "windows", "windows/day=2025-12-01/n0-0.parquet"])
def test_what_may_not_be_read_is_named(folder: Path, what: str) -> None:
    """A folder that may not be listed is not taken for one that has nothing."""
    closed = folder / what
    closed.chmod(0)
    try:
        for words in (("show", folder), ("sql", folder, "SELECT COUNT(*) FROM windows"), ("report", folder)):
            done = apart(*words, before=as_anyone)
            assert (done.returncode, done.stdout) == (3, ""), done.stderr
            assert done.stderr.startswith(f"lamina: error: {closed}: "), done.stderr
            assert done.stderr.endswith("Permission denied\n") and done.stderr.count("\n") == 1
    finally:
        closed.chmod(0o755)


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    folder.chmod(0o555)
    try:
        done = apart("merge", *tmp_path.glob("run.*.lamina"), "-o", folder, before=as_anyone)
    finally:
        folder.chmod(0o755)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"lamina: error: {folder}/") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("Permission denied\n")
    assert sorted(folder.rglob("*")) == before


def test_a_disk_that_is_full_leaves_no_half_file(tmp_path: Path, folder: Path) -> None:
    """No file may grow beyond some bytes, which DuckDB tells like a disk without room."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    to = tmp_path / "new"
    done = apart("merge", *tmp_path.glob("run.*.lamina"), "-o", to, before=small_files)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"lamina: error: {to}: ") and done.stderr.count("\n") == 1, done.stderr
    assert "File too large" in done.stderr and "exception_message" not in done.stderr
    assert not [file for file in to.rglob("*") if file.name.startswith(".")]
    for file in to.rglob("*.parquet"):
        assert file.read_bytes() == (folder / file.relative_to(to)).read_bytes()


def waits_for_a_lock(pid: int) -> bool:
    return any("->" in line and f" {pid} " in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="what waits for a lock is not told here")
def test_two_merges_at_once_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where each rank of a node merges its own recording when it ends."""
    one, other = recordings.make(tmp_path, ranks=2)
    folder = tmp_path / "run"
    gather, second = merging._Home._gather, []

    def gather_beside_another(home: Any) -> None:
        gather(home)
        second.append(subprocess.Popen([*LAMINA, "merge", other, "-o", folder], stdout=subprocess.DEVNULL))
        wait_until(lambda: second[0].poll() is not None or waits_for_a_lock(second[0].pid))

    monkeypatch.setattr(merging._Home, "_gather", gather_beside_another)
    try:
        assert run(capsys, "merge", one, "-o", folder)[0] == 0
        assert second[0].wait() == 0
    finally:
        for process in second:
            with suppress(ProcessLookupError):
                process.kill()
    ranks = open_run(str(folder)).db.execute("SELECT rank FROM ranks ORDER BY rank").fetchall()
    assert ranks == [(0,), (1,)]
    assert {item.name for item in folder.iterdir()} <= TABLES.keys()


def test_a_lock_that_a_merge_left_behind_stops_nobody(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".merge-n0-0.lock", ".merge-all.lock"):
        folder.joinpath(name).touch()
    files = sorted(tmp_path.glob("run.*.lamina"))
    assert run(capsys, "merge", *files, "-o", folder)[0] == 0
    assert run(capsys, "merge", folder)[0] == 0
    assert not [item for item in folder.iterdir() if item.name.startswith(".")]
