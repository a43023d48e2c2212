# SPDX-License-Identifier: Apache-2.0
"""Files that the documentation names are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`((?:src|python|tests|tools|bench|include|docs|cmake)/[\w/.*-]+)`")
TEXTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_files_are_there(text):
    if text.name == "CHANGELOG.md":
        return  # it tells of files that went
    missing = [name for name in NAMED.findall(text.read_text()) if not [*ROOT.glob(name.rstrip("/"))]]
    assert not missing
