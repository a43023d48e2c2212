# SPDX-License-Identifier: Apache-2.0
"""The command on a terminal of its own: a pseudo-terminal that it controls, and what is on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import NamedTuple

from conftest import LIMIT, environment

QUIET = 0.25  # seconds without output, after which keys are typed


class Shown(NamedTuple):
    """What was written, what is on the screen at the end, and the exit code."""

    raw: str
    lines: list[str]
    code: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def screen_of(raw: str) -> list[str]:
    """The lines of a screen without an end, from text, carriage returns, erased line ends and colours."""
    lines, column = [""], 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", raw):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            lines.append("")
            column = 0
        elif piece == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif not piece.startswith("\x1b"):
            lines[-1] = lines[-1].ljust(column)[:column] + piece + lines[-1][column + len(piece) :]
            column += len(piece)
    return [line.rstrip() for line in lines]


def on_terminal(
    *argv: str,
    rows: int = 200,
    keys: tuple[tuple[str, bytes], ...] = (),
    files: tuple[tuple[str, Path], ...] = (),
    out: Path | None = None,
    cwd: Path | None = None,
    **variables: str,
) -> Shown:
    """Runs ``python -m lamina``. ``keys``: what is typed once the text before it was written, and no more.
    ``files``: what is made once the text before it was written. ``out``: its standard output, in place of the
    terminal."""
    process, fd = pty.fork()
    if process == 0:
        _become(argv, rows, out, cwd, variables)
    raw, left, end = b"", list(keys), time.monotonic() + LIMIT
    while time.monotonic() < end and (piece := _read(fd)) is not None:
        raw += piece
        for text, file in files:
            if text.encode() in raw:
                file.touch()
        if left and not piece and left[0][0].encode() in raw:
            os.write(fd, left.pop(0)[1])
    if time.monotonic() >= end:
        os.kill(process, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(fd)
    assert not left, (left, raw)
    text = raw.decode(errors="replace").replace("\r\n", "\n")
    return Shown(text, screen_of(text), code)


def _read(fd: int) -> bytes | None:
    """Nothing if nothing is written for a while; None once nobody has the terminal open any more."""
    if not select.select([fd], [], [], QUIET)[0]:
        return b""
    try:
        return os.read(fd, 65536) or None
    except OSError:
        return None


def _become(
    argv: tuple[str, ...], rows: int, out: Path | None, cwd: Path | None, more: dict[str, str]
) -> None:
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # background shells ignore it
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
        if cwd is not None:
            os.chdir(cwd)
        if out is not None:
            os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
        variables = environment(**{"TERM": "xterm", "LANG": "C.UTF-8", "PYTHONUTF8": "1", **more})
        for name in ("PAGER", "LAMINA_PAGER", "LESS", "LINES"):
            if name not in more:
                variables.pop(name, None)
        os.execve(sys.executable, [sys.executable, "-m", "lamina", *argv], variables)
    finally:
        os._exit(99)
