# SPDX-License-Identifier: Apache-2.0
"""The dry run of each thread, and constants that all dry runs share."""

from __future__ import annotations

import sys
import threading
from typing import Any

MOST_KNOWN = 65536  # the most values of a tensor that a dry run reads

_thread = threading.local()
_open: list[Any] = []  # the dry runs of all threads


def running() -> Any:
    """The dry run of this thread; None: there is none."""
    return getattr(_thread, "run", None)


def set_running(run: Any) -> Any:
    """Sets the dry run of this thread and returns the previous one."""
    before, _thread.run = running(), run
    if before is not None:
        _open.remove(before)
    if run is not None:
        _open.append(run)
    return before


def elsewhere() -> Any:
    """The dry run of another thread, if this thread has none: whose tensors it may have. None: there is none,
    or there are several."""
    runs = list(_open)
    return runs[0] if running() is None and len(runs) == 1 else None


def caller() -> Any:
    """The innermost frame that is not lamina's."""
    frame: Any = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("lamina."):
        frame = frame.f_back
    return frame


def since(*version: int) -> bool:
    """True for this version of torch and later ones. Some kernels' inner calls depend on the version, and no
    mode observes them."""
    numbers = sys.modules["torch"].__version__.split(".")[: len(version)]
    return tuple(int(number) for number in numbers) >= version
