# SPDX-License-Identifier: Apache-2.0
"""tools/site: pages with their links as they are on the site; every page has its place."""

from __future__ import annotations

import importlib.util
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
loader = SourceFileLoader("site_tool", str(ROOT / "tools/site"))
site = importlib.util.module_from_spec(importlib.util.spec_from_loader("site_tool", loader))
loader.exec_module(site)


@pytest.mark.parametrize(
    ("folder", "text", "told"),
    [
        ("", "[a](docs/time.md)", "[a](time.md)"),
        ("", "[a](docs/time.md#what)", "[a](time.md#what)"),
        ("", "[a](ARCHITECTURE.md)", "[a](architecture.md)"),
        ("", "![a](docs/pictures/icicle.svg)", "![a](pictures/icicle.svg)"),
        ("docs", "[a](time.md)", "[a](time.md)"),
        ("docs", "[a](../README.md#try-it)", "[a](index.md#try-it)"),
        ("docs", "[`src/count/`](../src/count/rules/exact.def)", "`src/count/`"),
        ("docs", "[the rules](../src/count/rules/exact.def)", "the rules (`src/count/rules/exact.def`)"),
        ("docs", "[a](https://pytorch.org) [b](#here)", "[a](https://pytorch.org) [b](#here)"),
        ("docs", "```\n[a](../README.md)\n```", "```\n[a](../README.md)\n```"),
    ],
)
def test_links(folder, text, told):
    assert site.for_site(text, ROOT / folder) == told


def test_what_other_hosts_would_be_asked_for(tmp_path):
    (tmp_path / "a.html").write_text('<a href="https://pytorch.org">x</a><script src="a.js"></script>')
    assert site.hosts(tmp_path) == set()
    (tmp_path / "b.html").write_text('<script src="https://cdn.example.org/a.js"></script>')
    assert site.hosts(tmp_path) == {"b.html fetches https://cdn.example.org/a.js"}


def test_every_page_has_its_place():
    placed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert len(placed) == len(set(placed))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} | set(site.FROM_ROOT.values())
    assert set(placed) == pages, "mkdocs.yml names each page of docs/ once, under nav"


def test_llms_names_every_page():
    named = re.findall(r"\]\(docs/([\w-]+\.md)\)", (ROOT / "llms.txt").read_text("utf-8"))
    assert set(named) | {"gallery.md"} == {page.name for page in (ROOT / "docs").glob("*.md")}
