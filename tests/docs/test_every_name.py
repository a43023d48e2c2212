# SPDX-License-Identifier: Apache-2.0
"""Every option of the command and every name of the package has an example in the documentation, and the
documentation names no option or subcommand that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lamina

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("skills/*/*.md"))]
DEFS = {name: (ROOT / f"src/cmd/line/{name}.def").read_text("utf-8") for name in ("verbs", "options")}
OPTIONS = {
    name: letter if letter != "0" else ""
    for name, letter in re.findall(r'^(?:OPTION|LIVE)\("([\w-]+)", (?:\'(\w)\'|0),', DEFS["options"], re.M)
}
VERBS = re.findall(r"^VERB\((\w+),", DEFS["verbs"], re.M)


def code(page):
    """The code of a page: blocks and words in backticks, without what commands print."""
    text = page.read_text("utf-8")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        lines = block.splitlines()
        yield from (line for line in lines if language != "console" or line.startswith("$"))
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


CODE = [line for page in PAGES for line in code(page)]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_an_example(name):
    letter = OPTIONS[name]
    pattern = rf"(^|\s)(--{name}\b(?!-)" + (rf"|-{letter}\b)" if letter else ")")
    assert any(re.search(pattern, line) for line in CODE), f"docs/ has no example of --{name}"


@pytest.mark.parametrize("name", [name for name in lamina.__all__ if name != "__version__"])
def test_every_name_has_an_example(name):
    imported = rf"\bfrom lamina(\.\w+)? import .*\b{name}\b"
    assert any(re.search(rf"\blamina\.{name}\b|{imported}", line) for line in CODE), (
        f"docs/ has no lamina.{name}"
    )


@pytest.mark.parametrize("name", VERBS)
def test_every_subcommand_has_an_example(name):
    assert any(re.search(rf"(^|\$ )lamina {name}\b", line) for line in CODE)


def test_no_option_is_made_up():
    ours = [line for line in CODE if re.match(r"(\$ )?lamina [\w.:]", line)]
    named = {name for line in ours for name in re.findall(r"(?<=\s)--([a-z-]+)", line.split(" run ")[0])}
    assert named <= {*OPTIONS, "version"}
    assert len(named) > 10
