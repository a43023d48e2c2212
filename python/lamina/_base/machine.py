# SPDX-License-Identifier: Apache-2.0
"""This machine: its processor, and what was found out about it and is kept in the user's cache folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

CPUINFO = "/proc/cpuinfo"
FIRST = 65_536  # bytes of that file that are read: the first processor is among them


def processor(file: str = CPUINFO) -> str | None:
    """The processor's name from Linux; None on other systems, or if it has none."""
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - a Path costs more than the rest of it
            first = opened.read(FIRST).decode("utf-8", "replace")
    except OSError:
        return None
    for line in first.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return " ".join(value.split())
    return None


class Kept:
    """The file of this name that holds what was found out for ``key``; with another key it is another file.

    If the file can't be written, nothing is kept.
    """

    def __init__(self, name: str, key: dict[str, Any]) -> None:
        from hashlib import sha256

        digest = sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        base = os.environ.get("XDG_CACHE_HOME") or Path("~", ".cache")
        self.key, self.path = key, Path(base, "lamina", f"{name}-{digest}.json")

    def read(self) -> dict[str, Any] | None:
        """What is kept, if this user wrote it."""
        try:
            path = self.path.expanduser()
            if path.stat().st_uid != os.getuid():
                return None
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
            return None
        return record if isinstance(record, dict) and record.get("key") == self.key else None

    def write(self, record: dict[str, Any]) -> None:
        try:
            path = self.path.expanduser()
            part = path.with_suffix(f".{os.getpid()}")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(json.dumps({"key": self.key, **record}), encoding="utf-8")
            part.replace(path)
        except (OSError, RuntimeError):
            return
