# SPDX-License-Identifier: Apache-2.0
"""Ten thousand captures leave no reference and no memory behind."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import nn

from lamina import _lamina

CAPTURES = 10_000
X = torch.randn(2, 3)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.same = self.fc

    def forward(self, x, *, mask=None, bad=False):
        if bad:
            raise ValueError("bad")
        return {"out": (self.fc(x), None), "mask": mask}


NET = nn.Sequential(Pair(), nn.Identity())
MASK = torch.ones(2, dtype=torch.bool)
OPTIONS = {"format": "csv"}


def one_capture():
    snapshot = _lamina.Snapshot(NET)
    outer, capture = _lamina.Capture(NET), _lamina.Capture(NET)
    outer.start()
    capture.start()
    NET(X)
    NET[0](X, mask=MASK)
    with suppress(ValueError):
        NET[0](X, bad=True)
    capture.stop()
    outer.stop()
    model = capture.model()
    snapshot.restore()
    return model


def one_reading():
    model = one_capture()
    costs = model.costs("torchscan", True, lambda event: None if event else (1, 2, 3))
    costs.rows(), costs.totals(), costs.params(), costs.gaps(), costs.unruled(), costs.failure()
    costs.why(0), costs.facts(0), costs.write(OPTIONS)
    model.events(), model.modules(), model.places(), model.tensors(), model.notes()
    _lamina.one_call(NET[1], (X,), X)
    _lamina.rules("thoplw"), _lamina.conventions(), _lamina.formula("x", {"x": 1})
    for wrong in (lambda: model.costs("none"), lambda: _lamina.Capture(3), lambda: costs.write({"no": 1})):
        with pytest.raises(ValueError):
            wrong()


def watched():
    """Objects that a leak would hold on to, with what getrefcount says of each."""
    out = [
        NET,
        X,
        MASK,
        NET[0],
        NET[0].fc,
        NET[0].fc.weight,
        NET[0].fc.bias,
        vars(NET),
        vars(NET[0]),
        NET[0]._modules,
    ]
    out += [
        nn.Module.__dict__["__call__"],
        nn.Linear,
        Pair,
        torch.Tensor,
        nn.Parameter,
        torch.float32,
        dict,
        tuple,
        str,
    ]
    out += [_lamina, _lamina.Capture, _lamina.Model, _lamina.Costs, _lamina.Snapshot, "mask", "fc", OPTIONS]
    return out


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("work, times", [(one_capture, CAPTURES), (one_reading, 500)])
def test_nothing_piles_up(work, times):
    for _ in range(200):
        work()
    objects = watched()
    gc.collect()
    counts, alive, memory = [sys.getrefcount(o) for o in objects], len(gc.get_objects()), resident()
    for _ in range(times):
        work()
    gc.collect()
    # A few references move with the interpreter's caches; a leak would be one for each time, or more.
    for thing, before in zip(objects, counts, strict=True):
        assert abs(sys.getrefcount(thing) - before) < times // 4, thing
    assert abs(len(gc.get_objects()) - alive) < 50
    assert (resident() - memory) / times < 100, "bytes a capture"


def test_failing_allocations_of_python_leave_nothing_open():
    """Python's own test hook makes the n-th allocation fail, whatever asks for it."""
    hook = pytest.importorskip("_testcapi")
    before = nn.Module.__dict__["__call__"]
    one_reading()
    for n in range(0, 400, 7):
        capture = _lamina.Capture(NET)
        hook.set_nomemory(n, n + 1)
        try:
            capture.start()
            NET(X)
            capture.stop()
            capture.model()
        except (MemoryError, ImportError, RuntimeError, SystemError):
            pass
        finally:
            hook.remove_mem_hooks()
        capture.stop()
        assert nn.Module.__dict__["__call__"] is before
