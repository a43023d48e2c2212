# SPDX-License-Identifier: Apache-2.0
"""Ten thousand captures leave no reference and no memory behind."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from ext_kit import module_call
from torch import nn

import lamina
from lamina import _lamina

CAPTURES = 10_000
WINDOWS = 5
IMMORTAL = 1 << 31  # from Python 3.12 on, nobody counts the references to None, str and their like
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
    costs.why(0), costs.write(OPTIONS)
    model.events(), model.modules(), model.places(), model.tensors(), model.notes()
    _lamina.one_call(NET[1], (X,), X)
    _lamina.rules("thoplw"), _lamina.conventions()
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
    objects = [o for o in watched() if sys.getrefcount(o) < IMMORTAL]
    gc.collect()
    counts, alive, grown = [sys.getrefcount(o) for o in objects], len(gc.get_objects()), []
    for _ in range(WINDOWS):
        before = resident()
        for _ in range(times // WINDOWS):
            work()
        gc.collect()
        grown.append(resident() - before)
    # A few references move with the interpreter's caches; a leak would be one for each time, or more.
    for thing, before in zip(objects, counts, strict=True):
        assert abs(sys.getrefcount(thing) - before) < times // 4, thing
    assert len(gc.get_objects()) - alive < 50  # fewer: what tests before this one left, and was due to go
    # The allocator takes memory in steps, now and then; a leak would grow in every window. The sanitizer
    # keeps what was freed, up to a limit.
    assert "ASAN_OPTIONS" in os.environ or min(grown) / (times // WINDOWS) < 100, (
        f"bytes grown in each window: {grown}"
    )


def test_failing_allocations_of_python_leave_nothing_open():
    """Python's own test hook makes the n-th allocation fail, whatever asks for it."""
    hook = pytest.importorskip("_testcapi")
    before = module_call()
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
        assert module_call() == before


def readings():
    """Everything that can be asked of the extension without running torch, by name."""
    model = one_capture()
    costs = model.costs()
    own = model.costs("thoplw", True)

    def custom(event):
        return {"macs": (2**70, "at least")} if event else (1, None)

    asked = {
        "custom": lambda: model.costs(custom=custom),  # CPython 3.13.0 itself crashes where making one fails
        "why": lambda: costs.why(1),
        "write": lambda: own.write({"layout": "thoplw"}, {"numbers": "clever"}),
        "no such option": lambda: own.write({"none": 1}),
        "no such convention": lambda: model.costs("none"),
        "rf": lambda: model.rf(1),
        "rules": lambda: _lamina.rules("thoplw"),
        "text": lambda: _lamina.text_count((2**70, "exact"), True),
        "text_bytes": lambda: _lamina.text_bytes(3),
    }
    asked |= {n: getattr(model, n) for n in ("events", "modules", "places", "tensors", "notes", "costs")}
    asked |= {n: getattr(costs, n) for n in ("rows", "totals", "params", "unruled", "gaps", "failure")}
    asked |= {n: getattr(_lamina, n) for n in ("conventions", "version", "describe_status")}
    return asked


def watching():
    """What touches the model: each step alone must leave it as it was."""

    def capture():
        capture = _lamina.Capture(NET)
        try:
            capture.start()
        finally:
            capture.stop()
        return capture.model()

    def described_early():
        capture = _lamina.Capture(NET)
        snapshot = capture.snapshot()
        capture.start()
        capture.stop()
        model = capture.model()
        assert snapshot.restore() == []
        return model

    return {
        "capture": capture,
        "snapshot": lambda: _lamina.Snapshot(NET).restore(),
        "described early": described_early,
        "one call": lambda: _lamina.one_call(NET[1], (X,), X),
    }


def plain(told):
    if isinstance(told, _lamina.Model):
        return told.modules(), told.places(), told.tensors(), told.notes(), len(told.events())
    return told.rows() if isinstance(told, _lamina.Costs) else told


GENERATORS = """
import os, sys, types
import _testcapi
def ask(given):
    return (n for n in given)
(code,) = [c for c in ask.__code__.co_consts if isinstance(c, types.CodeType)]
before = sys.getrefcount(code)
for n in range(60):
    _testcapi.set_nomemory(n, n + 1)
    try:
        ask([1])
    except MemoryError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
os._exit(sys.getrefcount(code) < before)
"""


def makes_generators():
    """True if CPython keeps its references where making a generator fails; 3.12.1 and 3.13.0 lose one."""
    command = [sys.executable, "-c", GENERATORS]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def alone():
    """Ends the thread of tqdm, which wakes up now and then: one of its own allocations could fail instead."""
    bars = sys.modules.get("tqdm")
    if bars and bars.tqdm.monitor:
        bars.tqdm.monitor.exit()
        bars.tqdm.monitor = None


@pytest.mark.parametrize("name", [*readings(), *watching()])
@pytest.mark.usefixtures("alone")
def test_each_allocation_of_python_may_fail(name):
    """The n-th allocation fails, for every n: a MemoryError or the right answer, nothing in between."""
    hook = pytest.importorskip("_testcapi")
    if name == "write" and not makes_generators():
        pytest.skip("this CPython itself crashes where making a generator fails")
    ask = {**readings(), **watching()}[name]
    before = module_call()

    def answer():
        try:
            return ask()
        except ValueError as error:
            return str(error)

    expected = answer()
    failures = 0
    for n in range(5000):
        hook.set_nomemory(n, n + 1)
        try:
            told = answer()
        except MemoryError:
            failures += 1
            continue
        except SystemError:
            # The interpreter's own, where it has no memory to note where an exception came from.
            assert name.startswith("no such")
            continue
        finally:
            hook.remove_mem_hooks()
            assert module_call() == before
        assert plain(told) == plain(expected)
        if n > 3 * failures + 30:
            break  # well past the last allocation
    else:
        pytest.fail("it never ends")
    assert failures > 0 or name in ("version", "failure")


FIELDS = ["arena", "free", "fast", "mappings", "mapped", "most", "fast_bytes", "in_use", "rest", "top"]


class Used(ctypes.Structure):
    """What glibc's mallinfo2 tells."""

    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


def in_use():
    """The bytes that C code has allocated and not freed."""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Used
    told = ask()
    return told.in_use + told.mapped


class Loop(nn.Linear):
    def forward(self, x):
        for _ in range(100):
            x = super().forward(x)
        return x


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc 2.33 tells what is used")
@pytest.mark.parametrize("what", ["", "dry", "memory", "health"])
def test_no_memory_of_c_piles_up(what):
    """The least of a few windows: in one torch may fill a cache. What 100 operators leak is over 1 KiB."""
    net, grown = Loop(3, 3), []
    for _ in range(6):
        before = in_use()
        for _ in range(10):
            lamina.inspect(net, X / 0, **({what: True} if what else {}))
        grown.append((in_use() - before) // 10)
    assert min(grown) < 500, grown


def test_a_dry_run_lets_go_of_the_capture_before():
    """A mode serves one capture at a time."""
    first, second = _lamina.Capture(NET), _lamina.Capture(NET)
    mode = _lamina.Dry(torch.Tensor, torch.Tensor, print, print, print)
    before = sys.getrefcount(first)
    mode.serves(first)
    assert sys.getrefcount(first) == before + 1
    mode.serves(second)
    assert sys.getrefcount(first) == before


@pytest.mark.filterwarnings("ignore")
def test_what_torch_made_to_read_a_packed_weight_goes_again():
    """An instance of a class of torch's refers to that class."""
    guard = getattr(torch._C, "_DisableTorchDispatch", None)
    quantize = pytest.importorskip("torch.ao.quantization").quantize_dynamic
    if guard is None or torch.backends.quantized.engine == "none":
        pytest.skip("this torch packs no weights")
    net = quantize(nn.Sequential(nn.Linear(3, 3)))
    before = sys.getrefcount(guard)
    for _ in range(100):
        lamina.inspect(net, X)
    assert sys.getrefcount(guard) < before + 50


def test_no_weak_reference_to_a_checked_tensor_is_left():
    net, inputs = nn.ReLU(), [torch.ones(9999) for _ in range(9)]  # not too small to be remembered
    with lamina.capture(net, health=True) as capture:
        for x in inputs:
            net(x)
    assert capture.report().health.ok
    del capture
    gc.collect()
    assert [weakref.getweakrefcount(x) for x in inputs] == [0] * 9


def test_the_collector_is_shown_all_that_the_module_holds():
    one_capture()
    held = {id(each) for each in gc.get_referents(_lamina)}
    own = [each for each in vars(_lamina).values() if isinstance(each, type)]
    torchs = [nn.Module, nn.Parameter, torch.Tensor, torch.jit.ScriptModule, torch.float32, torch.bool]
    attributes = [vars(torch._C.TensorBase)[name] for name in ("shape", "dtype", "device")]
    wanted = [*own, *torchs, *attributes, torch._C._disabled_torch_dispatch_impl]
    assert len(own) > 5
    assert [each for each in wanted if id(each) not in held] == []

    # In a capture also the types that it has met; of two with the same place in the cache the last.
    met = [type("Met", (), {}) for _ in range(16)]
    root = nn.Flatten()
    root.forward = lambda *values: values
    capture = _lamina.Capture(root)
    capture.start()
    root(*(kind() for kind in met))
    held = {id(each) for each in gc.get_referents(_lamina)}
    capture.stop()
    assert sum(id(kind) in held for kind in met) > 8
    held = {id(each) for each in gc.get_referents(_lamina)}
    assert not any(id(kind) in held for kind in met)
