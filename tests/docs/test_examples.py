# SPDX-License-Identifier: Apache-2.0
"""Every example of the documentation runs: transcripts must print what they show, Python blocks must work.

A ```console block is a transcript (tests/transcripts.py). The ```python blocks of one file run in order, as
one program, in a folder of its own; `prints: TEXT` in a comment says a line that the program must print.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import transcripts
import warm

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("skills/*/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """(line, text) of every fenced block in a language."""
    text = page.read_text("utf-8")
    return [
        (text.count("\n", 0, found.start()) + 2, found.group(2))
        for found in BLOCK.finditer(text)
        if found.group(1) == language
    ]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if page.exists() and blocks(page, language)]


@pytest.mark.parametrize("page", pages_with("console"), ids=lambda page: page.name)
def test_transcripts(page: Path, tmp_path: Path) -> None:
    wrong = []
    shutil.copytree(ROOT / "tests/data/files", tmp_path, dirs_exist_ok=True)  # that docs/files.md shows
    for line, text in blocks(page, "console"):
        differs, new = transcripts.differences(text, tmp_path)
        if differs and transcripts.REWRITE:
            whole = page.read_text("utf-8")
            page.write_text(
                whole.replace(f"```console\n{text}```", f"```console\n{new.rstrip()}\n```"), "utf-8"
            )
        else:
            wrong += [f"{page.name}, block at line {line}, {each}" for each in differs]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python(page: Path, tmp_path: Path) -> None:
    program = "\n".join(text for _, text in blocks(page, "python"))
    (tmp_path / "example.py").write_text(program, "utf-8")
    imports = warm.VISION if "torchvision" in program else ()
    done = warm.python("example.py", cwd=tmp_path, env=transcripts.screen(), imports=imports)
    if "built without SQLite" in done.stderr:
        pytest.skip("this lamina knows no recordings: it was built without SQLite")
    assert done.returncode == 0, done.stderr
    printed = [line.strip() for line in done.stdout.splitlines()]
    for promised in re.findall(r"# prints: (.*)$", program, re.M):
        assert promised.strip() in printed, f"{page.name} promises {promised!r}"


def test_the_main_pages_have_examples() -> None:
    assert ROOT / "README.md" in pages_with("console")
    assert ROOT / "README.md" in pages_with("python")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "llms.txt"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
