# SPDX-License-Identifier: Apache-2.0
"""docs/rules.md is what the tables say today; `make docs` prints it anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import transcripts

ROOT = Path(__file__).resolve().parents[2]


def test_rules_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/rules_page"],
        text=True,
        capture_output=True,
        env=transcripts.screen(),
        check=True,
    )
    page = (ROOT / "docs/rules.md").read_text("utf-8")
    assert done.stdout == page, "docs/rules.md is out of date; run `make docs`"
