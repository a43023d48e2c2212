# SPDX-License-Identifier: Apache-2.0
"""Whether operators can be watched here, and the proof.

The observer (python/ext/observe.c) reads torch's own records of running operators, whose layout no header promises. It is
found with operations whose arguments are known, checked with others, and kept in a small file for this very build of
torch. Looking for it may crash, so that is done in a process of its own, once; afterwards each process only checks.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _lamina
from ._errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS = ("observer", "calls")
TIMEOUT = 180  # seconds that the proof in a process of its own may take; importing torch is most of it

Layout = dict[str, int]


class Way(NamedTuple):
    """How operators are watched, one of WAYS, and why that way."""

    name: str
    why: str


_way: Way | None = None


def way() -> Way:
    """How operators are watched in this process; the proof runs when this is first asked for."""
    global _way
    forced = os.environ.get("LAMINA_CAPTURE", "")
    if forced == "calls":
        return Way("calls", "LAMINA_CAPTURE=calls asks for it")
    if _way is None:
        _way = _prove()
    if forced not in ("", *WAYS):
        return Way(_way.name, f"{_way.why}; LAMINA_CAPTURE is none of {', '.join(WAYS)} and is ignored")
    return _way


def need() -> None:
    """Raises UnsupportedError, which says why, where operators can't be watched."""
    name, why = way()
    forced = os.environ.get("LAMINA_CAPTURE", "")
    if name == "calls" or (forced in WAYS and forced != name):
        raise UnsupportedError(f"operators can't be watched here: {why}")


def _prove() -> Way:
    refused = _lamina.why_refused()
    if refused is not None:
        return Way("calls", refused)
    kept = _Kept()
    record = kept.read()
    if record is None:
        record = _ask_child()
        kept.write(record)
    layout, failed = record.get("layout"), record.get("failed")
    if layout is not None:
        failed = _fits(layout)
        if failed is None:
            return Way(
                "observer", "the layout of torch's records was found and checked with known operations"
            )
        _lamina.use_layout(None)
    return Way("calls", str(failed))


# -- what is remembered ------------------------------------------------------------------------------------------------


class _Kept:
    """The file that holds the layout for this build of torch. Where it can't be written, nothing is remembered."""

    def __init__(self) -> None:
        self.key = self._key()
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        self.path = os.path.join(base, "lamina", f"observer-{self._digest()}.json")

    def _key(self) -> dict[str, Any]:
        torch = sys.modules["torch"]
        path = os.path.join(os.path.dirname(torch.__file__ or ""), "lib", "libtorch_cpu.so")
        key: dict[str, Any] = {
            "lamina": _lamina.version(),
            "torch": str(torch.__version__),
            "git": getattr(getattr(torch, "version", None), "git_version", None),
            "library": path,
        }
        try:
            stat = os.stat(path)
        except OSError:
            return key
        return {**key, "size": stat.st_size, "mtime": stat.st_mtime_ns}

    def _digest(self) -> str:
        from hashlib import sha256

        return sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:16]

    def read(self) -> dict[str, Any] | None:
        try:
            with open(self.path, encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_uid != os.getuid():
                    return None
                record = json.load(file)
        except (OSError, ValueError):
            return None
        fits = isinstance(record, dict) and record.get("key") == self.key
        return record if fits and ("layout" in record or "failed" in record) else None

    def write(self, record: dict[str, Any]) -> None:
        if record.get("passing"):
            return  # the next process may have better luck
        part = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with open(part, "w", encoding="utf-8") as file:
                json.dump({"key": self.key, **record}, file)
            os.replace(part, self.path)
        except OSError:
            return


# -- in a process of its own -------------------------------------------------------------------------------------------

_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from lamina._observe import child; child()"


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
        told = json.loads(done.stdout.decode().strip().rpartition("\n")[2])
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return {"failed": f"the proof gave no answer: {last}", "passing": True}
    return told if isinstance(told, dict) else {"failed": "the proof gave no answer", "passing": True}


def child() -> None:
    """Finds and checks the layout, and prints it as one line of JSON. It may crash: it runs in its own process."""
    import torch

    torch.set_num_threads(1)
    try:
        layout = find()
        failed = _fits(layout)
    except _NotFound as error:
        layout, failed = {}, str(error)
    except Exception as error:
        layout, failed = {}, f"{type(error).__name__}: {error}"
    print(json.dumps({"failed": failed} if failed is not None else {"layout": layout}))


# -- finding -----------------------------------------------------------------------------------------------------------


class _NotFound(Exception):
    """What was looked for is not there."""


def _look(
    name: str, call: Callable[[], Any], args: tuple[Any, ...] = (), nodes: bool = False
) -> dict[str, Any]:
    got = _lamina.probe_record(name, call, args, nodes)
    if got is None:
        raise _NotFound(f"{name} ran without a record")
    return got


def find() -> Layout:
    """The layout of this torch's records."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        layout = _find_values(torch)
    with torch.enable_grad():
        layout["sequence"] = _find_sequence(torch)
        layout["forward_thread"] = _find_thread(torch)
    return layout


def _find_values(torch: Any) -> Layout:
    x, w, b = torch.empty(2, 4, 7, 9), torch.empty(4, 3, 3, 2), torch.empty(6)
    rest = ([2, 3], [1, 0], [1, 1], True, [0, 0], 2)
    convolution, name = torch.ops.aten.convolution, "aten::convolution"
    whole = _look(name, partial(convolution, x, w, b, *rest), (x, w, b, *rest))
    without = _look(name, partial(convolution, x, w, None, *rest), (x, w, None, *rest))
    slope = _look("aten::leaky_relu", partial(torch.ops.aten.leaky_relu, x, 0.125), (x, 0.125))
    same = _look("aten::relu_", x.relu_, (x,))
    tags, words = whole["tags"], whole["words"]
    offsets = {got["inputs"] for got in (whole, without, slope, same)}
    if len(offsets) != 1 or -1 in offsets or same["outputs"] < 0:
        raise _NotFound("the arguments of known operations are not where records keep theirs")
    numbers = (
        words[6] & 0xFF == 1
        and words[8] == 2
        and slope["words"][1] == struct.unpack("Q", struct.pack("d", 0.125))[0]
    )
    kinds = [tags[0], without["tags"][2], tags[6], tags[8], slope["tags"][1], tags[3]]
    if len(set(kinds)) != len(kinds) or len(set(tags[:3])) != 1 or not numbers:
        raise _NotFound("the kinds of arguments can't be told apart")
    names = ("tensor", "none", "boolean", "integer", "real")
    return {
        **dict(zip(names, kinds, strict=False)),
        "inputs": whole["inputs"],
        "outputs": same["outputs"],
        "list": whole["list"],
        "list_tag": kinds[5],
    }


def _words(record: bytes) -> dict[int, int]:
    """The words of a record from where its own fields may begin."""
    return {at: int.from_bytes(record[at : at + 8], sys.byteorder) for at in range(64, len(record) - 7, 8)}


def _find_sequence(torch: Any) -> int:
    made, minus_one = 1500, 2**64 - 1  # far from any other small number
    p = torch.empty(3, requires_grad=True)
    for _ in range(made):
        p * 2
    first, second = (_words(_look("aten::mul", partial(torch.mul, p, 2), (p, 2))["begin"]) for _ in range(2))
    with torch.no_grad():
        third = _words(_look("aten::mul", partial(torch.mul, p, 2), (p, 2))["begin"])
    places = [
        at for at in first if first[at] >= made and second[at] == first[at] + 1 and third[at] == minus_one
    ]
    if len(places) != 1:
        raise _NotFound(f"{len(places)} places in a record look like a sequence number")
    return places[0]


def _find_thread(torch: Any) -> int:
    """Where a node's record holds the thread of its forward; -1 where that can't be told."""
    from threading import Thread

    seen: list[tuple[int, dict[int, int]]] = []

    def forward(kept: list[Any]) -> None:
        p = torch.empty(3, requires_grad=True)
        kept += [p * 2, _look("aten::mul", partial(torch.mul, p, 2), (p, 2))["thread"]]

    for _ in range(3):
        kept: list[Any] = []
        thread = Thread(target=forward, args=(kept,))
        thread.start()
        thread.join()
        y, number = kept
        seen.append((number, _words(_look("MulBackward0", y.sum().backward, (), True)["begin"])))
    places = [at for at in seen[0][1] if all(words[at] == number for number, words in seen)]
    distinct = len({number for number, _ in seen}) > 1
    return places[0] if distinct and len(places) == 1 else -1


# -- checking ----------------------------------------------------------------------------------------------------------


def _fits(layout: Layout) -> str | None:
    """Uses the layout and checks it with operations that it was not found with; why it does not fit, or None."""
    torch = sys.modules["torch"]
    try:
        _lamina.use_layout(layout)
        with ExitStack() as stack:
            modes = getattr(getattr(torch.utils, "_python_dispatch", None), "_disable_current_modes", None)
            if modes is not None:
                stack.enter_context(modes())
            stack.enter_context(torch.autocast("cpu", enabled=False))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            wrong = _check(torch)
    except Exception as error:
        return f"checking the layout of torch's records failed: {type(error).__name__}: {error}"
    return None if wrong is None else f"torch's records of known operations were misread ({wrong})"


def _check(torch: Any) -> str | None:
    watch = _lamina.Capture(torch.nn.Module(), True)
    empty = partial(torch.empty, device="cpu", dtype=torch.float32)
    trials = _trials(torch, empty)
    watch.start()
    try:
        for _, call, *_ in trials:
            try:
                call()
            except RuntimeError:
                continue  # one is meant to raise
    finally:
        watch.stop()
    ops = watch.model().operators()
    at = 0
    for name, _, inputs, outputs, flags in trials:
        while at < len(ops) and ops[at]["name"] != name:
            at += 1
        if at == len(ops):
            return f"{name} was not seen"
        got = ops[at]
        told = tuple(_short(v) for _, v in got["inputs"]), tuple(_short(v) for _, v in got["outputs"])
        if told != (inputs, outputs) or (got["phase"], got["node"], got["failed"]) != flags:
            return f"{name}: {told} {got['phase']}"
        at += 1
    return None


def _short(value: Any) -> Any:
    return (value["shape"], value["dtype"]) if isinstance(value, dict) else value


def _trials(torch: Any, empty: Callable[..., Any]) -> list[tuple[str, Callable[[], Any], Any, Any, Any]]:
    """Operations with what must be read of them: inputs, outputs, and (phase, node, failed)."""
    aten, f = torch.ops.aten, "float32"
    x, w, g = empty(2, 4, 7, 9), empty(6, 2, 3, 2), empty(2, 6, 3, 10)
    conv = ([2, 1], [0, 1], [1, 1], False, [0, 0], 2)
    told = ((2, 1), (0, 1), (1, 1), False, (0, 0), 2)
    a, m, n = empty(5), empty(3, 4), empty(4, 5)
    i, j = (torch.zeros(size, device="cpu", dtype=torch.int64) for size in ((1, 2), (3, 2)))
    p = empty(3).requires_grad_()
    fine, failed, node = ("forward", False, False), ("forward", False, True), ("backward", True, False)
    tx, tw, tg = ((2, 4, 7, 9), f), ((6, 2, 3, 2), f), ((2, 6, 3, 10), f)
    mask = [True, False, False]
    return [
        (
            "aten::convolution",
            partial(aten.convolution, x, w, None, *conv),
            (tx, tw, None, *told),
            (tg,),
            fine,
        ),
        (
            "aten::convolution_backward",
            partial(aten.convolution_backward, g, x, w, None, *conv, mask),
            (tg, tx, tw, None, *told, (1, 0, 0)),
            (tx, None, None),
            fine,
        ),
        (
            "aten::addmm",
            partial(torch.addmm, a, m, n, beta=0.5, alpha=2),
            (((5,), f), ((3, 4), f), ((4, 5), f), 0.5, 2),
            (((3, 5), f),),
            fine,
        ),
        ("aten::mm", partial(torch.mm, m, m), (((3, 4), f), ((3, 4), f)), (), failed),
        (
            "aten::cat",
            partial(torch.cat, [i, j]),
            (((1, 2), "int64"), ((3, 2), "int64"), 0),
            (((4, 2), "int64"),),
            fine,
        ),
        ("aten::mul", partial(_twice, p), (((3,), f), ((), "int64")), (((3,), f),), fine),
        ("MulBackward0", lambda: None, (), (), node),
    ]


def _twice(p: Any) -> None:
    """``p * 2`` and back; the gradient goes with ``p``."""
    (p * 2).sum().backward()
