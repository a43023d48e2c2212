# SPDX-License-Identifier: Apache-2.0
"""Every screen of the command, as a transcript that a person can judge; `make golden` rewrites them."""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

import pytest

import ranked
import transcripts

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))

RUNS = {  # folders of the screens of ranks.txt
    "healthy": {},
    "slow": {"slow": "rank = 11", "more_us": 20000, "since": 36, "layer": "blocks.0.mlp"},
    "node": {
        "slow": "node = 'n03'",
        "more_us": 15000,
        "phase": "input",
        "ranks": 64,
        "missing": "node = 'n05'",
    },
    "killed": {"ended": "CASE WHEN rank = 5 THEN '' ELSE 'DistBackendError' END"},
    "short": {"steps": 12},
}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_transcript(path: Path, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    assert list(transcripts.steps(text)), "a transcript without a command tests nothing"
    shutil.copy(FOLDER / "samples.py", tmp_path / "net.py")  # for the screens that look at a file
    shutil.copytree(FOLDER.parent / "data/files", tmp_path, dirs_exist_ok=True)
    if path.stem == "ranks":
        pytest.importorskip("duckdb")
        for name, how in RUNS.items():
            ranked.write(tmp_path / name, **how)
        (tmp_path / "empty").mkdir()
    wrong, new = transcripts.differences(text, tmp_path)
    if path.stem == "fit" and any("this torch does not report" in text for text in wrong):
        pytest.skip("this torch does not report when memory is freed")
    if wrong and transcripts.REWRITE:
        path.write_text(new, "utf-8")
        return
    assert not wrong, "\n\n".join(wrong)


def columns(line: str) -> int:
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in line)
    return len(line) + wide


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_table_is_wider_than_the_screen(width: int) -> None:
    """The golden tables at a width hold it, rewritten or not."""
    path = FOLDER / f"show_{width}.txt"
    for step in transcripts.steps(path.read_text("utf-8")):
        for line in step.expected.splitlines():
            assert columns(line) <= width, (step.command, line)


def test_ascii_means_ascii() -> None:
    for step in transcripts.steps((FOLDER / "show_ascii.txt").read_text("utf-8")):
        assert step.expected.isascii(), step.command
