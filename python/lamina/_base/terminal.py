# SPDX-License-Identifier: Apache-2.0
"""The capabilities of the terminal, and the line that shows progress."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

PROGRESS_AFTER = 0.5  # seconds
WIDTH = 100  # without a terminal
UNICODE = ("utf8", "utf16", "utf32", "cp65001")


def progress(what: str) -> AbstractContextManager[object]:
    """One line on stderr, if that is a terminal that can rewrite a line, and only after half a second."""
    stream = sys.stderr
    plain = stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb"
    return nullcontext() if stream is None or plain else _progress(what, stream)


@contextmanager
def _progress(what: str, stream: TextIO) -> Iterator[None]:
    import threading
    import time

    done, began = threading.Event(), time.monotonic()

    def show() -> None:
        while not done.wait(PROGRESS_AFTER):
            seconds = round(time.monotonic() - began)  # not a count: a clock
            stream.write(f"\rlamina: {what} ... {seconds} s\x1b[K")
            stream.flush()
        stream.write("\r\x1b[K")
        stream.flush()

    thread = threading.Thread(target=show, name="lamina progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


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
