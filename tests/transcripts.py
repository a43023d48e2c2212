# SPDX-License-Identifier: Apache-2.0
"""Transcripts: `$ command` lines, each followed by what it prints. Golden files and documentation use them.

What follows a command is its standard output, then its standard error, then `[exit N]` unless it is 0. A
transcript runs in a folder of its own, with a screen of 100 columns, no colour, and no terminal.
LAMINA_REWRITE=1 writes what was printed instead of comparing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import warm

ROOT = Path(__file__).resolve().parents[1]
REWRITE = bool(os.environ.get("LAMINA_REWRITE"))


# What a report tells of the machine and the day that it was made on (docs/json.md); some tell no processor.
HERE = (
    (re.compile(r'"processor": "[^"]*", '), ""),
    (re.compile(r'"(python|system|torch|threads|date)": "[^"]*"'), r'"\1": "..."'),
)


# Another torch than that of the transcripts runs other operators of those that compute nothing, and may name
# the operator that raised.
RAN = None if version("torch").startswith("2.13.") else re.compile(r"\(\d+ of \d+\)|(?<=RuntimeError: )\w+: ")


class Step(NamedTuple):
    """One command of a transcript: its line number, its words as written, what it should print."""

    line: int
    command: str
    expected: str


def steps(text: str) -> Iterator[Step]:
    """The steps of a transcript; lines before the first command are comments."""
    command: tuple[int, str] | None = None
    told: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("$ "):
            if command:
                yield Step(*command, "\n".join(told).rstrip("\n"))
            command, told = (number, line[2:]), []
        else:
            told.append(line)
    if command:
        yield Step(*command, "\n".join(told).rstrip("\n"))


def screen(**more: str) -> dict[str, str]:
    """The environment of a transcript: nothing of the caller's screen gets in."""
    kept = {
        key: os.environ[key] for key in ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH") if key in os.environ
    }
    # Absolute, because a transcript runs in a folder of its own.
    given = [str(Path(path).absolute()) for path in kept.pop("PYTHONPATH", "").split(os.pathsep) if path]
    path = os.pathsep.join([str(ROOT / "tests/shim"), str(ROOT / "tests/golden"), *given])
    defaults = {
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "TERM": "dumb",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    return kept | warm.COMPILER | defaults | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | more


def words_of(command: str) -> tuple[list[str], dict[str, str], int | None, str | None]:
    """Words, leading NAME=value settings, the number of lines for `| head -N`, and the file of `> FILE`."""
    head = re.search(r"\s*\|\s*head -(\d+)$", command)
    if head:
        command = command[: head.start()]
    words = shlex.split(command)
    settings = {}
    while words and re.match(r"^[A-Z_]+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    target = None
    if len(words) > 2 and words[-2] == ">":
        target = words[-1]
        words = words[:-2]
    return words, settings, int(head.group(1)) if head else None, target


def printed(command: str, folder: Path) -> str:
    """What a command of a transcript prints: `lamina ...`, `python ...` and `cat FILE` are understood."""
    words, settings, head, target = words_of(command)
    if words[0] == "cat":
        return (folder / words[1]).read_text("utf-8").rstrip("\n")
    if words[0] not in ("lamina", "python"):
        raise AssertionError(f"a transcript runs lamina, python and cat only, not {words[0]!r}")
    # torchvision imports the compiler, and dispatch tells of that.
    imports = warm.VISION if words[0] == "lamina" and "LAMINA_CAPTURE" not in settings else ()
    words[:1] = [] if words[0] == "python" else ["-m", "lamina"]
    done = warm.python(*words, cwd=folder, env=screen(**settings), imports=imports)
    out = done.stdout
    if target:
        (folder / target).write_text(out, "utf-8")
        out = ""
    if head is not None:
        out = "".join(out.splitlines(keepends=True)[:head])
    out += done.stderr
    text = "\n".join(_without_here(line.rstrip()) for line in out.splitlines()).rstrip("\n")
    return text if done.returncode == 0 else f"{text}\n[exit {done.returncode}]".lstrip("\n")


def _without_here(line: str) -> str:
    """A line of a transcript without what differs between machines and days."""
    if line.startswith('"provenance": '):
        for pattern, instead in HERE:
            line = pattern.sub(instead, line)
    return line


def differences(text: str, folder: Path) -> tuple[list[str], str]:
    """Which steps print something else, and the transcript as it should read."""
    wrong = []
    found = list(steps(text))
    before = text.splitlines()[: found[0].line - 1] if found else text.splitlines()
    new = ["\n".join(before)] if before else []
    for step in found:
        got = printed(step.command, folder)
        if got != step.expected and (RAN is None or RAN.sub("", got) != RAN.sub("", step.expected)):
            wrong.append(
                f"line {step.line}: $ {step.command}\n--- expected\n{step.expected}\n--- printed\n{got}"
            )
        new.append(f"$ {step.command}\n{got}\n" if got else f"$ {step.command}\n")
    return wrong, "\n".join(new)
