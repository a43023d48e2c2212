# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium as a test sees a page in it: what the page asked for, what it complained of, and what axe
finds in it. tools/setup installs all three; without them the tests that want a browser are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def program() -> str:
    """The browser; skips the calling test where there is none."""
    pytest.importorskip("playwright", reason="no browser: playwright is not installed (tools/setup test)")
    pytest.importorskip("axe_playwright_python", reason="no axe: tools/setup test installs it")
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    return pytest.skip("no browser: chromium is not installed (tools/setup test)")


class Window:
    """One page, with what it asked for and what it complained of."""

    def __init__(self, context: Any) -> None:
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(1000 * LIMIT)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))

    def run(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)

    def empty(self) -> None:
        """Leaves nothing of a page: no document, no pointer above it, no other medium."""
        self.page.goto("about:blank")
        self.page.mouse.move(-1, -1)
        self.page.emulate_media(media="null")
        self.asked.clear()
        self.said.clear()

    def count(self, selector: str) -> int:
        return int(self.run("s => document.querySelectorAll(s).length", selector))

    def texts(self, selector: str) -> list[str]:
        return list(self.run("s => [...document.querySelectorAll(s)].map(e => e.textContent)", selector))

    def attributes(self, selector: str, name: str) -> list[str | None]:
        script = "([s, n]) => [...document.querySelectorAll(s)].map(e => e.getAttribute(n))"
        return list(self.run(script, [selector, name]))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def focus(self) -> str:
        """The element that has the focus: its id, or the name of its tag and what it stands for."""
        return str(
            self.run(
                """() => { const e = document.activeElement, d = Object.entries(e.dataset)[0];
                return e.id || e.tagName.toLowerCase() + (d ? ` ${d[0]}=${d[1]}` : ''); }"""
            )
        )

    def faults(self, *rules: str) -> list[str]:
        """What axe finds, by all that it looks at or by some rules: the rule, and the first element."""
        from axe_playwright_python.sync_playwright import Axe

        found = (
            Axe().run(self.page, options={"runOnly": rules or RULES, "resultTypes": ["violations"]}).response
        )
        return [f"{v['id']}: {v['nodes'][0]['html'][:200]}" for v in found["violations"]]


class Browser:
    def __init__(self, started: Any) -> None:
        self._started = started
        self._idle: dict[str, list[Window]] = {}

    @contextmanager
    def open(
        self, path: Path, address: str = "", *, width: int = 1440, height: int = 900, **how: Any
    ) -> Iterator[Window]:
        """Opens a file; `how` is what Playwright's new_context takes. To start a window takes longer than to
        load a page, so one that a test is done with is emptied and shows the next file."""
        idle = self._idle.setdefault(repr(sorted(how.items())), [])
        size = {"width": width, "height": height}
        if idle:
            window = idle.pop()
            window.page.set_viewport_size(size)
        else:
            window = Window(self._started.new_context(viewport=size, **how))
        try:
            window.page.goto(path.as_uri() + address)
            yield window
            window.empty()
        except BaseException:
            window.page.context.close()
            raise
        idle.append(window)


@contextmanager
def started() -> Iterator[Browser]:
    executable = program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            yield Browser(chromium)
        finally:
            chromium.close()
