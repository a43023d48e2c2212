# SPDX-License-Identifier: Apache-2.0
"""The capabilities of the terminal, and the line that shows progress."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager, suppress

TYPE_CHECKING = False  # as in lamina/__init__.py

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event, Thread
    from typing import TextIO

PROGRESS_AFTER = 0.5  # seconds
WIDTH = 100  # without a terminal
UNICODE = ("utf8", "utf16", "utf32", "cp65001")


def size_of(stream: TextIO | None) -> os.terminal_size:
    """Columns and lines by COLUMNS and LINES, else of the stream's terminal, as shutil has it; 0: unknown."""
    given = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    size = [int(each) if each.isdecimal() else 0 for each in given]
    if not all(size) and stream is not None:
        with suppress(OSError, ValueError, AttributeError):
            there = os.get_terminal_size(stream.fileno())
            size = [one or other for one, other in zip(size, there, strict=True)]
    return os.terminal_size(size)


def progress(what: str) -> Progress:
    """A context that shows the progress of one piece of work; shows nothing unless stderr is a terminal that
    can rewrite a line."""
    stream = sys.stderr
    plain = stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb"
    return Progress(what, None if plain else stream)


class Progress:
    """One line on stderr that shows the present work, erased at the end. It appears after half a second and
    is rewritten each half second by a thread; in :meth:`by_hand` by :meth:`at` alone."""

    def __init__(self, what: str, stream: TextIO | None) -> None:
        self._what = what
        self._stream = stream
        self._began = self._written = 0.0
        self._is_shown = False
        self._done: Event | None = None
        self._thread: Thread | None = None

    def __enter__(self) -> Progress:
        self._began = self._written = time.monotonic()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @contextmanager
    def by_hand(self) -> Iterator[None]:
        """In the block no thread runs, which would disturb measurements."""
        self._stop()
        try:
            yield
        finally:
            self._erase()
            self._start()

    def at(self, what: str) -> None:
        """Notes that the work goes on with ``what``. Called between two measurements; it seldom writes."""
        self._what = what
        if time.monotonic() - self._written >= PROGRESS_AFTER:
            self._write()

    def _start(self) -> None:
        if self._stream is None:
            return
        import threading

        done = self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, args=(done,), name="lamina progress", daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        if self._thread is None or self._done is None:
            return
        self._done.set()  # a Ctrl-C may end the wait for the thread, which then erases the line itself
        self._thread.join()
        self._thread = None

    def _tick(self, done: Event) -> None:
        while not done.wait(PROGRESS_AFTER):
            self._write()
        self._erase()

    def _write(self) -> None:
        self._written = time.monotonic()
        line = f"lamina: {self._what} ... {round(self._written - self._began)} s"  # not a count: a clock
        self._is_shown = True
        # The cursor stays at the line's start, so output of the model overwrites the line.
        self._put(f"\r{line[: self._room()]}\x1b[K\r")

    def _erase(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._put("\r\x1b[K")

    def _put(self, text: str) -> None:
        with suppress(OSError, ValueError):  # a closed stream
            if self._stream is not None:
                self._stream.write(text)
                self._stream.flush()

    def _room(self) -> int:
        """The columns for the line: one that wraps could not be erased."""
        with suppress(OSError, ValueError, AttributeError):
            if self._stream is not None:
                return max(os.get_terminal_size(self._stream.fileno()).columns - 1, 0)
        return WIDTH


def terminal_width() -> int:
    """Columns of the terminal, 100 without one."""
    import shutil

    return shutil.get_terminal_size((WIDTH, 24)).columns


def wants_color(stream: TextIO | None) -> bool:
    """True for colour: on a terminal that supports it, unless NO_COLOR is set; anywhere with FORCE_COLOR or
    CLICOLOR_FORCE."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def takes_unicode(stream: TextIO | None) -> bool:
    """True if the tree's lines can be printed."""
    encoding = getattr(stream, "encoding", None) or ""
    return encoding.lower().replace("-", "") in UNICODE
