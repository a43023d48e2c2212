# SPDX-License-Identifier: Apache-2.0
"""The command on a terminal of its own: a pseudo-terminal that it controls, and what is on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from pathlib import Path
from typing import NamedTuple

from conftest import LIMIT, environment

import warm

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
    fd, tty = pty.openpty()
    fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
    env = environment(**{"TERM": "xterm", **variables})
    for name in ("PAGER", "LAMINA_PAGER", "LESS", "LINES"):
        if name not in variables:
            env.pop(name, None)
    words = ["-m", "lamina", *argv]
    child = warm.Running(words, cwd, env, tty=os.ttyname(tty), out=out)
    raw, left, end = b"", list(keys), time.monotonic() + LIMIT
    while time.monotonic() < end:
        if tty is not None and child.has_ended():
            os.close(tty)  # what is left to be read is then followed by the end
            tty = None
        piece = _read(fd)
        if piece is None:
            break
        raw += piece
        for text, file in files:
            if text.encode() in raw:
                file.touch()
        if left and not piece and left[0][0].encode() in raw:
            os.write(fd, left.pop(0)[1])
    else:
        child.kill()
    code = child.end().returncode
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
