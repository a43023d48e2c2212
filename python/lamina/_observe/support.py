# SPDX-License-Identifier: Apache-2.0
"""Selects how operators are watched, and proves that it works.

Two ways lead to the same records: the observer and, if that can't be used, torch's dispatch mode
(:mod:`lamina._observe.dispatch`), which costs fifteen times as much per operator. ``LAMINA_CAPTURE``
forces one.

The observer (python/ext/observe/observe.c) reads torch's own records of running operators, whose layout is
not documented. The layout is found with operations of known arguments, checked with others, and kept in a
small file for this build of torch. The search may crash, so it runs once, in a separate process; later
processes only run the check.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .. import _lamina
from .._base.errors import UnsupportedError
from .._base.machine import Kept

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
WAYS = ("observer", "dispatch", "calls")
FORMAT = 8  # of that file; files of older versions are not read
TIMEOUT = 180  # seconds for the proof in a separate process; most of it imports torch


class Way(NamedTuple):
    """The way in which operators are watched, one of WAYS, and the reason for it."""

    name: str
    why: str


_found: dict[str, Way] = {}  # by the requested way: "observer", "dispatch"


def way() -> Way:
    """The way in which operators are watched in this process; the first call runs the proof."""
    forced = _lamina.way_asked()
    if forced == "calls":
        return Way("calls", "LAMINA_CAPTURE=calls asks for it")
    if forced == "dispatch":
        found = _proved("dispatch")
        return Way("dispatch", "LAMINA_CAPTURE=dispatch asks for it") if found.name == forced else found
    found = _proved("observer")
    if found.name != "observer" and forced != "observer":
        instead = _proved("dispatch")
        found = Way(instead.name, found.why if instead.name == "dispatch" else f"{found.why}; {instead.why}")
    if forced not in ("", *WAYS):
        return Way(found.name, f"{found.why}; LAMINA_CAPTURE is not one of {', '.join(WAYS)} and is ignored")
    return found


def _proved(name: str) -> Way:
    if name not in _found:
        _found[name] = in_a_thread(_prove if name == "observer" else _prove_dispatch)
    return _found[name]


def in_a_thread(prove: Callable[[], T]) -> T:
    """The result of ``prove``, run in a separate thread. torch's modes, its profiler and its tracing belong
    to a thread, so those of the program neither see the operations of the proof, nor change them."""
    import threading

    given: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            given.append(prove())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started, for example when the interpreter ends
        return prove()
    thread.join()
    if failed:
        raise failed[0]
    return given[0]


def need() -> str | None:
    """The reason for the dispatch mode; None if operators are observed.

    Raises:
        UnsupportedError: operators can't be watched; the sentence says why.
    """
    if not _lamina.way_asked() and "observer" in _found and _found["observer"].name == "observer":
        return None  # the usual case
    name, why = way()
    if name == "calls":
        raise UnsupportedError(f"operators can't be watched here: {why}")
    if name == "observer":
        return None
    if "torch._dynamo" in sys.modules:
        why += "; compiled code runs layer by layer"
    return why


class Watched(NamedTuple):
    """Whether operators are watched; ``dispatch``: the reason for the dispatch mode; ``why_not``: the reason
    why layers are counted instead, if operators were not requested explicitly."""

    ops: bool
    dispatch: str | None = None
    why_not: str | None = None


def watched(ops: bool | None) -> Watched:
    """The way in which operators are watched; ``ops`` None: if they can be.

    Raises:
        UnsupportedError: operators were requested and can't be watched.
    """
    if ops is False:
        return Watched(ops=False)
    try:
        return Watched(ops=True, dispatch=need())
    except UnsupportedError as error:
        if ops:
            raise
        return Watched(ops=False, why_not=f"layers are counted: {error}")


def nodes() -> str | None:
    """The reason why the nodes of a backward pass can't be watched without operators; None if they can."""
    name, why = way()
    return None if name == "observer" else why


def _prove_dispatch() -> Way:
    try:
        from .probe import fits_dispatch

        wrong = fits_dispatch()
    except ImportError as error:
        wrong = f"this torch has no dispatch modes: {error}"
    if wrong is None:
        return Way("dispatch", "torch's dispatch mode was checked with known operations")
    return Way("calls", wrong)


def _prove() -> Way:
    refused = _lamina.why_refused()
    if refused is not None:
        return Way("calls", refused)
    kept = _kept()
    record = kept.read()
    if record is not None and ("layout" in record or "failed" in record):
        answer = _use(record)
        if answer.name == "observer" or "failed" in record:
            return answer
    record = _ask_child()
    if not record.get("passing"):  # else the next process may succeed
        kept.write(record)
    return _use(record)


def _use(record: dict[str, Any]) -> Way:
    """Uses the layout that a proof found, if it fits this process too."""
    from .probe import fits

    wrong = str(record["failed"]) if "failed" in record else fits(record["layout"])
    if wrong is None:
        return Way("observer", "the layout of torch's records was found and checked with known operations")
    _lamina.use_layout(None)
    return Way("calls", wrong)


# -- the file ------------------------------------------------------------------------------------------------


def _kept() -> Kept:
    """The file that holds the layout for this build of torch and of the extension."""
    torch = sys.modules["torch"]
    path = Path(Path(torch.__file__ or "").parent, "lib", "libtorch_cpu.so")
    key: dict[str, Any] = {
        "lamina": _lamina.version(),
        "format": FORMAT,
        "torch": str(torch.__version__),
        "git": getattr(getattr(torch, "version", None), "git_version", None),
    }
    # The extension defines the meaning of a layout: another build of it may read other fields.
    for name, file in (("library", path), ("extension", Path(_lamina.__file__ or ""))):
        key[name] = str(file)
        try:
            stat = file.stat()
        except OSError:
            continue
        key |= {f"{name}_size": stat.st_size, f"{name}_mtime": stat.st_mtime_ns}
    return Kept("observer", key)


# -- in a separate process -----------------------------------------------------------------------------------

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lamina._observe.support import child; child()"
)


def _ask_child() -> dict[str, Any]:
    import subprocess

    if not sys.executable:
        return {
            "failed": "there is no Python executable to prove the layout of torch's records with",
            "passing": True,
        }
    env = {k: v for k, v in os.environ.items() if k not in ("LAMINA_TENSORS", "LAMINA_CAPTURE")}
    env.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, json.dumps(sys.path)],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"failed": f"the proof could not be run: {error}", "passing": True}
    if done.returncode < 0:
        return {"failed": f"the proof crashed with signal {-done.returncode}"}
    try:
        answer = json.loads(done.stdout.decode().strip().rpartition("\n")[2])
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return {"failed": f"the proof gave no answer: {last}", "passing": True}
    return answer if isinstance(answer, dict) else {"failed": "the proof gave no answer", "passing": True}


def child() -> None:
    """Finds and checks the layout, and prints it as a line of JSON. It may crash: it runs in a separate
    process."""
    import torch

    from .probe import NotFoundError, find, fits

    torch.set_num_threads(1)
    answer: dict[str, Any]
    try:
        layout = find()
        failed = fits(layout)
        answer = {"layout": layout} if failed is None else {"failed": failed}
    except NotFoundError as error:
        answer = {"failed": str(error)}
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}", "passing": True}
    sys.stdout.write(json.dumps(answer) + "\n")
