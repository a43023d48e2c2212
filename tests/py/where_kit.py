# SPDX-License-Identifier: Apache-2.0
"""What the tests of attribution share."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import torch
from torch import nn

import lamina
from lamina._observe import support

PHASES = ("macs", "backward_macs", "recompute_macs")


class Calls(nn.Module):
    """A module whose forward is a function of itself and its inputs."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.does = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args):
        return self.does(self, *args)


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class Deeper(torch.autograd.Function):
    """Its backward runs a backward in itself, so many times, and then ``work``."""

    @staticmethod
    def forward(ctx, x, times, work):
        ctx.times, ctx.work = times, work
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            if ctx.times:
                deeper(ctx.times - 1, ctx.work)
            else:
                ctx.work()
        return grad, None, None


def deeper(times, work):
    Deeper.apply(torch.ones(1, requires_grad=True), times, work).sum().backward()


def on_a_thread_of_torchs(work):
    """Runs it on a thread of autograd's, as a GPU's backward is run: torch begins one for a backward that is
    sixty deep inside others."""
    threads = []
    deeper(64, lambda: (threads.append(threading.get_ident()), work()))
    assert threads != [threading.get_ident()]


def exact(model, *args, **options):
    return lamina.inspect(model, args, convention="exact", **options)


def seen(model, work):
    """Every operator that ran while ``work`` did."""
    with lamina.capture(model, ops=True) as watch:
        work()
    return watch._model.operators()


def by_path(report, field="macs"):
    """What each place costs in all its calls; places that cost nothing are left out."""
    told = {}
    for row in report.rows:
        if int(row[field]):
            told[row.path] = told.get(row.path, 0) + int(row[field])
    return told


def work(report):
    """Forward, backward and recomputed MACs, which must be exact and the sums of the rows'."""
    parts = report, report.backward, report.recompute
    assert [part.macs.state for part in parts] == ["exact"] * 3, report.gaps
    assert [sum(by_path(report, field).values()) for field in PHASES] == [part.macs for part in parts]
    return tuple(int(part.macs) for part in parts)


def no_operators():
    """Why the tests of operators can't run here, or an empty text."""
    way = support.way()
    return way.why if way.name == "calls" else ""


def tells_layouts():
    """True if torch tells in C whether a tensor is sparse, and how it is stored."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    return not library.exists() or hasattr(ctypes.CDLL(str(library)), "aoti_torch_get_layout")


def not_observed():
    """Why what only the observer sees can't be tested here, or an empty text."""
    way = support.way()
    return "" if way.name == "observer" else way.why


def tells_backends():
    """An older torch gives all compiled code one name, and some later ones don't tell which backend compiled
    what, so that what was fused can't be told from what was not."""
    try:
        from torch._C._dynamo.eval_frame import _CacheEntry as Entry
    except ImportError:
        return False
    return hasattr(Entry, "trace_annotation") and hasattr(Entry, "backend")
