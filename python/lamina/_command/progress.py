# SPDX-License-Identifier: Apache-2.0
"""The line on a terminal that shows how far long work is."""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes longer than reading a file of a model

if TYPE_CHECKING:
    from threading import Event, Thread
    from typing import TextIO

FIRST, EVERY = 0.5, 0.1  # seconds
AWAY = "\r\033[K"


class Progress:
    """In its block, a line on the error stream shows after half a second what is done.

    Args:
        what: as "merging".
        shown: the stream is a terminal's; else there is no line.
    """

    def __init__(self, err: TextIO, what: str, *, shown: bool) -> None:
        self._err, self._what, self._shown = err, what, shown
        self._percent: int | None = None
        self._written = False
        self._over: Event | None = None
        self._thread: Thread | None = None

    def at(self, done: int, of: int) -> None:
        """Notes how much is done."""
        self._percent = 100 * done // max(of, 1)  # not a count: progress

    def tell(self, text: str) -> None:
        """Writes an error, in place of the line."""
        self._err.write(f"{AWAY if self._written else ''}lamina: error: {text}\n")
        self._err.flush()

    def _write(self) -> None:
        from time import monotonic

        over = self._over
        began = monotonic()
        wait = FIRST
        while over is not None and not over.wait(wait):
            wait = EVERY
            seconds = int(monotonic() - began)
            so_far = f"{seconds} s" if self._percent is None else f"{self._percent} %"
            self._written = True
            self._err.write(f"{AWAY}lamina: {self._what} ... {so_far}")
            self._err.flush()

    def __enter__(self) -> Progress:
        if self._shown:
            from threading import Event, Thread

            self._over = Event()
            self._thread = Thread(target=self._write, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._over is not None and self._thread is not None:
            self._over.set()
            self._thread.join()
        if self._written:
            self._err.write(AWAY)
            self._err.flush()
