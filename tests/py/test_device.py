# SPDX-License-Identifier: Apache-2.0
"""Times by a GPU's clock, of a GPU that there is not: a capture puts events around calls and nodes, reads
them when it closes, and leaves none behind."""

from __future__ import annotations

import ast
import csv
import gc
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import environment
from fake_gpu import FAKE_GPU, fake
from test_health import ALL, check, step
from torch import nn
from where_kit import Calls, no_operators, on_a_thread_of_torchs

import lamina
import warm
from lamina._observe import support

ROOT = Path(__file__).resolve().parents[2]
observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")


class Busy(torch.autograd.Function):
    """Takes so long on the device, forward and backward."""

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.backward_ns = backward
        ctx.save_for_backward(x)  # a checkpoint does all again that comes before what was saved last
        fake("work", forward)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        fake("work", ctx.backward_ns)
        return grad, None, None


class Layer(nn.Module):
    def __init__(self, forward=0, backward=0):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.took = (forward, backward)

    def forward(self, x):
        return Busy.apply(x * self.weight, *self.took)


def two():
    return nn.Sequential(Layer(1000, 3000), Layer(5000, 7000))


@pytest.fixture(autouse=True)
def device():
    fake("use", 1)
    yield
    gc.collect()
    assert fake("live") == 0  # whatever happened, every event was given back
    assert fake("errors") == 0  # and no error is left for torch to meet
    fake("use", 0)


def capture(run, model, **options):
    with lamina.capture(model, time=True, **options) as watch:
        run()
    return watch.report()


def rows(report):
    """By path; of several calls the last, which is what was done again."""
    return {row.path: row.time.device for row in report.rows if row.time is not None}


def forward(model):
    return capture(lambda: model(torch.rand(3)), model)


def test_without_a_gpu_there_is_nothing():
    fake("use", 0)
    report = forward(two())
    assert report.time.device is None
    assert report.rows[0].time.device is None
    assert "device" not in report.to_csv()
    assert "device" not in str(report)
    fake("use", 1)
    with lamina.capture(two()) as watch:  # nor where no times are asked for
        two()(torch.rand(3))
    assert fake("made") == 0
    del watch


def test_calls_are_told_by_the_clock_of_the_device():
    report = forward(two())
    device = rows(report)
    assert device[""].forward == (6000, 0)
    assert device["0"].forward == (1000, 1000)
    assert device["1"].forward == (5000, 5000)
    assert report.time.device.forward.median == 6000
    assert report.time.forward.median != 6000
    assert fake("made") == 6  # two a call
    assert report.time.device.operators == []


@observed
def test_nodes_are_told_by_the_layer_that_made_them():
    model = two()
    report = capture(lambda: model(torch.rand(3)).sum().backward(), model)
    device = rows(report)
    assert device["0"].backward == (3000, 3000)
    assert device["1"].backward == (7000, 7000)
    assert device[""].backward == (10000, 0)
    times = report.time.device
    assert times.backward.median == 10000
    assert times.outside.median == 0
    assert times.whole.median == 16000


@observed
@pytest.mark.parametrize("run", [lambda work: work(), on_a_thread_of_torchs])
def test_what_is_done_again(run):
    from torch.utils.checkpoint import checkpoint

    model = Calls(
        lambda self, x: checkpoint(self.block, self.first(x), use_reentrant=False),
        block=Layer(1000, 3000),
        first=Layer(10, 20),
    )
    report = capture(lambda: run(model(torch.rand(3)).sum().backward), model)
    device = rows(report)
    assert device["block"].recompute == (1000, 1000)
    assert next(row for row in report.rows if row.path == "block").time.device.backward == (3000, 3000)
    assert device["first"].backward == (20, 20)
    assert report.time.device.whole.median == 1010 + 1000 + 3020


def test_runs_have_medians_and_late_ones():
    model = two()

    def run():
        for i in range(9):
            model[1].took = (50000 if i == 6 else 5000 + i % 3, 0)
            model(torch.rand(3))

    report = capture(run, model)
    late = report.time.device.outliers
    assert [(one.run, one.path) for one in late] == [(6, "1")]
    layers = {layer.path: layer for layer in report.time.device.layers}
    assert layers["1"].forward.median == 5001
    assert layers["1"].forward.deviation == 1
    assert layers["1"].forward.most_run == 6


def test_inspect_shows_medians():
    report = lamina.inspect(two(), torch.rand(3), time=True, repeats=5)
    assert report.time.device.runs == 5
    assert rows(report)["1"].forward == (5000, 5000)
    text = report._text(time=True, width=160)
    assert "device self" in text
    assert "\ndevice     forward 6.00 us ± 0 ns" in text
    told = json.loads(report.to_json())
    assert told["time"]["device"]["forward"]["median"] == 6000
    by_path = {row["path"]: row for row in told["rows"]}
    assert by_path["0"]["time"]["device"]["forward"] == {"total": 1000, "self": 1000}
    lines = {line["path"]: line for line in csv.DictReader(io.StringIO(report.to_csv()))}
    assert lines["1"]["device_ns"] == "5000"
    assert lines["1"]["device_self_ns"] == "5000"


@pytest.mark.skipif(bool(no_operators()), reason=f"no operators: {no_operators()}")
def test_how_fast_it_was_is_told_by_the_device():
    model = nn.Sequential(Layer(1000), Layer(5000))
    report = lamina.inspect(model, torch.rand(3), time=True, repeats=5, convention="exact")
    speeds = {speed.path: speed for speed in report.speed() if speed.phase == "forward"}
    assert (speeds["0"].ns, speeds["1"].ns) == (1000, 5000)
    assert speeds["0"].flops == pytest.approx(5 * speeds["1"].flops)
    assert speeds["0"].bound == "unknown"  # this machine's roof is not the device's
    roof = lamina.Roof(flops=speeds["0"].flops, bytes=1e30, threads=1)
    assert [speed.bound for speed in report.speed(roof) if speed.path == "0"] == ["compute"]


def test_nothing_waits_before_the_end():
    fake("lazy", 1)  # events are ready when somebody waits
    model = two()
    with lamina.capture(model, time=True) as watch:
        for _ in range(10):
            model(torch.rand(3))
        assert fake("syncs") == 0
        assert fake("live") == 60
    assert fake("syncs") == 1  # for the last event of the one stream
    assert fake("live") == 0
    assert watch.report().time.device.forward.median == 6000


class Beside(nn.Module):
    """`side` runs on another stream, beside `main`."""

    def __init__(self):
        super().__init__()
        self.side, self.main = Layer(8000), Layer(5000)

    def forward(self, x):
        fake("stream", 1)
        y = self.side(x)
        fake("stream", 0)
        z = self.main(x)
        fake("wait", 1)
        return y + z


def test_streams_beside_each_other():
    device = rows(forward(Beside()))
    assert device["side"].forward == (8000, 8000)
    assert device["main"].forward == (5000, 5000)
    assert device[""].forward == (8000, None)  # what was its own is not told by the others


class Leaves(nn.Module):
    """A stream is current when it returns that was not when it was called."""

    def __init__(self):
        super().__init__()
        self.inner = Layer(1000)

    def forward(self, x):
        y = self.inner(x)
        fake("stream", 2)
        return y


def test_a_stream_that_changes_within_a_layer():
    report = forward(nn.Sequential(Leaves(), Layer(10)))
    device = rows(report)
    assert device["0"].forward == (None, None)
    assert device["0.inner"].forward == (1000, 1000)
    assert device["1"].forward == (10, 10)
    assert device[""].forward == (None, None)
    assert any("another stream was current at its end" in note for note in report.notes)
    assert "?" in report._text(time=True, width=160)
    told = json.loads(report.to_json())
    assert told["rows"][0]["time"]["device"]["forward"] == {"total": None, "self": None}


def test_no_more_events():
    fake("fail_create", 4)
    report = forward(two())
    device = rows(report)
    assert device["0"].forward == (1000, 1000)
    assert device["1"].forward == (None, None)
    assert device[""].forward == (None, None)
    assert [note for note in report.notes if "no more events: fake error 2 (out of memory)" in note]
    assert report.time.forward.median > 0  # the host's are there


@pytest.mark.parametrize("what", ["fail_sync", "fail_elapsed", "fail_record"])
def test_an_error_of_the_device_is_one_sentence(what):
    fake("lazy", 1)
    fake(what, 700)
    report = forward(two())
    assert report.time.device is None
    notes = [note for note in report.notes if "on the device" in note]
    assert len(notes) == 1
    assert "fake error 700 (an illegal memory access was encountered)" in notes[0]
    assert report.time.forward.median > 0
    assert report.rows[1].time.forward.total > 0


class Recorded(nn.Module):
    """Records a graph while it runs."""

    def __init__(self):
        super().__init__()
        self.inner = Layer(1000)

    def forward(self, x):
        fake("stream", 3)
        fake("capturing", 1)
        y = self.inner(x)
        fake("capturing", 0)
        fake("stream", 0)
        return y


def test_a_graph_that_is_recorded_has_no_times():
    report = forward(Recorded())
    device = rows(report)
    assert device["inner"].forward == (None, None)
    assert device[""].forward == (0, None)
    assert any("a graph was being recorded" in note for note in report.notes)


def test_closed_while_a_graph_is_recorded():
    model = two()
    with lamina.capture(model, time=True) as watch:
        model(torch.rand(3))
        fake("capturing", 1)
    assert watch.report().time.device.forward.median == 6000


def test_captures_inside_each_other():
    model = two()
    with lamina.capture(model, time=True) as outer, lamina.capture(model[1], time=True) as inner:
        model(torch.rand(3))
    assert outer.report().time.device.forward.median == 6000
    assert inner.report().time.device.forward.median == 5000


def test_a_forward_that_raises():
    class Fails(nn.Module):
        def forward(self, x):
            fake("work", 70)
            raise ValueError("on purpose")

    model = nn.Sequential(Layer(1000), Fails())
    with pytest.raises(ValueError, match="on purpose"), lamina.capture(model, time=True) as watch:
        model(torch.rand(3))
    device = rows(watch.report())
    assert device["0"].forward == (1000, 1000)
    assert device["1"].forward == (70, 70)
    assert device[""].forward == (1070, 0)


def test_closed_in_the_middle_of_a_call():
    watch = lamina.capture(model := two(), time=True)

    def stop(*_):
        watch.__exit__(None, None, None)

    model[0].register_forward_hook(stop)
    watch.__enter__()
    model(torch.rand(3))
    device = rows(watch.report())
    assert device["0"].forward == (None, None)
    assert device[""].forward == (None, None)


def test_a_model_without_memory_is_told_by_its_inputs():
    model = nn.Sequential(nn.ReLU())
    report = capture(lambda: model([torch.rand(3)][0]), model)
    assert report.time.device.forward.median == 0
    nothing = Calls(lambda self: self.inner(3), inner=Calls(lambda self, n: n))
    report = capture(nothing, nothing)
    assert report.time.device is None
    assert not any("device" in note for note in report.notes)


def test_a_dropped_capture_leaves_nothing():
    watch = lamina.capture(model := two(), time=True)
    watch.__enter__()
    model(torch.rand(3))
    assert fake("live") == 6
    del watch
    gc.collect()
    assert fake("live") == 0


# -- memory ------------------------------------------------------------------------------------------------

MIB = 1 << 20


class Holds(torch.autograd.Function):
    """Asks the device's allocator for `passing` bytes and gives them back, and for `kept` that stay."""

    @staticmethod
    def forward(ctx, x, passing, kept):
        fake("allocate", passing)
        fake("free", passing)
        fake("allocate", kept)
        ctx.kept = kept
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        fake("allocate", 3 * ctx.kept)
        fake("free", 4 * ctx.kept)
        return grad, None, None


class Holder(nn.Module):
    def __init__(self, passing, kept):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.takes = (passing, kept)

    def forward(self, x):
        return Holds.apply(x * self.weight, *self.takes)


def holders():
    return nn.Sequential(Holder(10 * MIB, 2 * MIB), nn.Sequential(Holder(4 * MIB, 1 * MIB)))


def measured(run, model, **options):
    with lamina.capture(model, memory=True, **options) as watch:
        run()
    return watch.report()


@observed
def test_memory_is_told_at_the_same_points():
    model = holders()
    report = measured(lambda: model(torch.rand(3)).sum().backward(), model)
    device = report.memory.device
    assert device["0"].forward == (12 * MIB, 10 * MIB, 2 * MIB, 10 * MIB)
    assert device["1.0"].forward == (5 * MIB, 4 * MIB, MIB, 4 * MIB)
    assert device["1"].forward[:3] == (0, 0, 0)
    assert device["1"].total_forward == (5 * MIB, 4 * MIB, MIB, 4 * MIB)
    assert device[""].total_forward == (17 * MIB, 14 * MIB, 3 * MIB, 10 * MIB)
    assert device["0"].backward == (6 * MIB, 8 * MIB, -2 * MIB, 6 * MIB)
    assert device[""].total_backward == (9 * MIB, 12 * MIB, -3 * MIB, 6 * MIB)
    assert device.before == MIB
    assert (device.peak, device.peak_in, device.peak_phase) == (11 * MIB, "0", "forward")
    assert device.peak_allocated == 10 * MIB
    assert (device.allocated, device.freed) == (26 * MIB, 26 * MIB)
    assert fake("made") == 0  # no times were asked for
    assert report.memory.allocated < MIB  # the host's are apart
    assert not any("on another device" in note for note in report.notes)


def test_memory_in_tables_and_files():
    model = holders()
    report = measured(lambda: model(torch.rand(3)), model, time=True)
    text = report._text(memory=True, width=200)
    assert "dev allocated" in text
    assert "device memory: peak 11.0 MiB in 0 (forward) · of that before it 1.00 MiB" in text
    told = json.loads(report.to_json())
    assert told["device_memory"]["peak"] == 11 * MIB
    rows = {row["path"]: row for row in told["rows"]}
    assert rows["0"]["device_memory"]["own"]["forward"]["retained"] == 2 * MIB
    assert rows["0"]["time"]["device"]["forward"]["total"] == 0
    lines = {line["path"]: line for line in csv.DictReader(io.StringIO(report.to_csv()))}
    assert lines["1.0"]["device_memory_allocated"] == str(5 * MIB)
    assert lines["1.0"]["device_memory_peak"] == str(4 * MIB)


def test_an_allocator_that_does_not_tell():
    model = holders()
    fake("fail_memory", 1)
    report = measured(lambda: model(torch.rand(3)), model)
    assert report.memory.device is None
    assert [note for note in report.notes if "what a layer allocated on the device is not known" in note]
    assert report.memory.peak > 0


def test_an_allocator_that_stops_to_tell():
    model = holders()
    with lamina.capture(model, memory=True) as watch:
        model(torch.rand(3))
        fake("fail_memory", 1)
        model(torch.rand(3))
    report = watch.report()
    assert report.memory.device is None
    assert [note for note in report.notes if "its allocator does not tell" in note]


def test_a_forward_that_raises_keeps_memory_in_order():
    class Fails(nn.Module):
        def forward(self, x):
            fake("allocate", 5)
            raise ValueError("on purpose")

    model = nn.Sequential(Holder(7, 3), Fails())
    with pytest.raises(ValueError, match="on purpose"), lamina.capture(model, memory=True) as watch:
        model(torch.rand(3))
    device = watch.report().memory.device
    assert device["1"].forward == (5, 0, 5, 5)
    assert device[""].total_forward == (15, 7, 8, 8)


# -- values in a GPU's memory ------------------------------------------------------------------------------


@observed
@pytest.mark.parametrize("name", ALL)
def test_health_names_the_layer(name):
    check(ALL[name], step(ALL[name]))
    assert fake("searches") > 0


def test_finite_values_are_not_copied():
    net, x, kept = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.rand(2, 4), []
    for layer in net:  # the stand-in reads memory later: nothing else may be there by then
        layer.register_forward_hook(lambda *call: kept.append(call[2]))
    health = lamina.inspect(net, x, health=True).health
    assert str(health).startswith("no NaN or Inf in ")
    assert health.unseen == 0
    assert 0 < fake("searches") <= health.tensors
    # Memory that nobody has written yet may hold anything: what is found in it is copied.
    assert fake("copies") < fake("searches") // 2


def test_statistics_are_those_of_the_cpu():
    x = torch.randn(3, 50_000).t()
    x[7, 1] = float("inf")
    there = lamina.inspect(nn.Identity(), x, stats=True).health.calls[0].stats
    assert fake("copies") > 0
    fake("use", 0)
    here = lamina.inspect(nn.Identity(), x, stats=True).health.calls[0].stats
    assert here == there
    assert here[0].inf == 1


@pytest.mark.parametrize("fault", ["fail_search", "fail_copy", "capturing"])
def test_values_that_a_device_does_not_give_are_unseen(fault):
    x = torch.full((2, 4), float("nan"))
    fake(fault, 700)
    health = lamina.inspect(nn.Identity(), x, health=True).health
    fake(fault, 0)
    assert (health.unseen == 0) is (fault == "fail_search")
    assert (health.first is None) is (fault != "fail_search")


# -- torch's own libraries, stood in for ------------------------------------------------------------------

CUDA = """
#include "fake_gpu.h"
#define T (fake_gpu_streams())
#define API __attribute__((visibility("default")))
API int cudaEventCreateWithFlags(void **e, unsigned f) { return T->create(e, f); }
API int cudaEventRecord(void *e, void *s) { return T->record(e, s); }
API int cudaEventQuery(void *e) { return T->query(e); }
API int cudaEventSynchronize(void *e) { return T->synchronize(e); }
API int cudaEventElapsedTime(float *ms, void *a, void *b) { return T->elapsed(ms, a, b); }
API int cudaEventDestroy(void *e) { return T->destroy(e); }
API int cudaGetLastError(void) { return T->last_error(); }
API int cudaMemcpyAsync(void *to, void *at, size_t n, int k, void *s) { return T->copy(to, at, n, k, s); }
API int cudaStreamSynchronize(void *s) { return T->wait(s); }
API int cudaStreamIsCapturing(void *s, int *out) { return T->is_capturing(s, out); }
#ifndef NO_MORE
API const char *cudaGetErrorString(int e) { return T->error_text(e); }
API int cudaThreadExchangeStreamCaptureMode(int *m) { return T->exchange_mode(m); }
#endif
#ifdef BY_C10
API int _ZN3c104cuda9GetDeviceEPa(int8_t *out) { int d, e = T->get_device(&d); *out = (int8_t)d; return e; }
API int _ZN3c104cuda14MaybeSetDeviceEa(int8_t d) { return T->set_device(d); }
typedef struct { int8_t type, index; int64_t id; } stream;
API stream _ZN3c104cuda20getCurrentCUDAStreamEa(int8_t d) { return (stream){1, d, 7}; }
API void *_ZNK3c104cuda10CUDAStream6streamEv(const stream *s) {
    void *out = (void *)1;
    if (s->id == 7 && s->type == 1) T->current_stream(s->index, &out);
    return out;
}
#elif !defined(NO_STREAM)
API int cudaGetDevice(int *out) { return T->get_device(out); }
API int cudaSetDevice(int d) { return T->set_device(d); }
API int32_t aoti_torch_get_current_cuda_stream(int32_t d, void **out) { return T->current_stream(d, out); }
#endif
API int64_t control(const char *what, int64_t value) { return fake_gpu(what, value); }
"""

SCRIPT = """
import ctypes, sys, weakref
import torch
from torch import nn
import lamina
from lamina import _lamina
library = ctypes.CDLL(sys.argv[1])
library.control.restype = ctypes.c_int64
library.control.argtypes = [ctypes.c_char_p, ctypes.c_int64]
control = lambda what, value=0: library.control(what.encode(), value)
class Stream:
    cuda_stream = int(sys.argv[2])
torch.cuda.is_initialized = lambda: True
torch.cuda.current_stream = lambda device: Stream()
bytes = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
def take(n):
    bytes["current"] += n
    bytes["allocated"] += n
    bytes["peak"] = max(bytes["peak"], bytes["current"])
def give(n):
    bytes["current"] -= n
    bytes["freed"] += n
def anew(device):
    bytes["peak"] = bytes["current"]
full = torch.full
def counted(*sizes, **options):
    tensor = full(*sizes, **options)
    take(4096)
    weakref.finalize(tensor, give, 4096)
    return tensor
torch.full = counted
untold = {}
torch.cuda.memory_stats_as_nested_dict = lambda device: {"allocated_bytes": {"all": bytes | untold}}
torch.cuda.reset_peak_memory_stats = anew
_lamina.pretend_device(1)
control("use", 1)
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
    def forward(self, x):
        control("work", 1234)
        take(700)
        give(500)
        return x * self.weight
model = nn.Sequential(Layer())
for name in ("current", "allocated", "freed"):
    untold = {name: 0}
    with lamina.capture(model, memory=True) as watch:
        model(torch.rand(3))
    print(watch.report().memory.device, watch.report().notes)
untold = {}
control("capturing", 1)
before = bytes["allocated"]
with lamina.capture(model, memory=True, health=True) as watch:  # proofs would become part of the graph
    model(torch.rand(3))
print(watch.report().memory.device, watch.report().notes, bytes["allocated"] - before)
control("capturing", 0)
for _ in range(2):
    with lamina.capture(model, time=True, memory=True) as watch:
        model(torch.rand(3))
    report = watch.report()
    notes = [note for note in report.notes if "backward" not in note]  # not every torch tells of that
    print(report.time.device and report.time.device.forward.median, notes, control("live"))
    print(report.memory.device and tuple(report.memory.device["0"].forward))
print(control("made"))
for value in (1.0, float("nan")):
    print(lamina.inspect(nn.Identity(), torch.full((3,), value), health=True).health)
print(control("copies"), control("searches"))
"""


# What the driver would do with the program's kernels: each thread takes one number in `step`.
DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int64_t loads, launches, waits;
int cuModuleLoadData(void **module, const void *image) {
    const char *fails = getenv("FAILS");
    loads++;
    *module = (void *)image;
    if (strncmp(image, ".version ", 9) != 0 || strcmp(fails, "load") == 0) return 218;
    return strcmp(fails, "memory") == 0 && loads < 3 ? 2 : 0;
}
int cuModuleGetFunction(void **out, void *module, const char *name) {
    char entry[64];
    snprintf(entry, sizeof entry, ".visible .entry %s(", name);
    *out = (void *)(uintptr_t)(atoi(name + strlen("search")) / 8);
    return strstr(module, entry) ? 0 : 500;
}
int cuLaunchKernel(void *width, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    const uint64_t at = *(uint64_t *)params[0], n = *(uint64_t *)params[1];
    const uint64_t mask = *(uint64_t *)params[2], want = *(uint64_t *)params[3], step = blocks * threads;
    if (y != 1 || z != 1 || by != 1 || bz != 1 || shared || stream || extra) return 1;
    for (uint64_t thread = 0; thread < step; thread++)
        for (uint64_t i = thread; i < n; i += step) {
            uint64_t bits = 0;
            memcpy(&bits, (const char *)(uintptr_t)at + i * (uintptr_t)width, (uintptr_t)width);
            if ((bits & mask) == want) **(uint32_t **)params[4] = 1;
        }
    launches++;
    return strcmp(getenv("FAILS"), "launch") == 0 ? 700 : 0;
}
int cuStreamSynchronize(void *stream) { waits++; return stream != NULL; }
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    *out = malloc(bytes);
    return flags != 3;
}
int64_t driver(int what) { return what == 0 ? loads : what == 1 ? launches : waits; }
"""

SEARCHES = """
driver = ctypes.CDLL("libcuda.so.1").driver
driver.restype = ctypes.c_int64
for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2):
    for value in (1.0, float("inf")):
        x = torch.ones(300_001)
        x[-1] = value
        health = lamina.inspect(nn.Identity(), x.to(dtype), health=True).health
        print(value, health.first is None, health.unseen)
print(([driver(i) for i in range(3)], control("copies"), control("errors")))
"""


def compiled(folder, source, name, *flags):
    file, library = folder / f"{name}.c", folder / name
    file.write_text(source)
    command = ["cc", "-shared", "-fPIC", "-O1", f"-Wl,-soname,{name}", *flags, "-o", library, file]
    subprocess.run([*command, FAKE_GPU, "-lpthread"], check=True)
    return library


CUDA_FLAGS = "-fvisibility=hidden", f"-I{ROOT}/python/ext", f"-I{FAKE_GPU.parent}"
without_cuda = pytest.mark.skipif(
    torch.version.cuda is not None, reason="torch has CUDA's libraries, which are found first"
)
compiles = pytest.mark.skipif(not shutil.which("cc") or sys.platform != "linux", reason="needs a C compiler")


@without_cuda
@compiles
@pytest.mark.parametrize("fails", ["", "load", "memory", "launch"])
def test_the_driver_searches(tmp_path, fails):
    cuda = compiled(tmp_path, CUDA, "libtorch_cuda.so", *CUDA_FLAGS)
    driver = compiled(tmp_path, DRIVER, "libcuda.so.1", *CUDA_FLAGS[1:])
    script = SCRIPT.split("class Layer")[0]
    script = script.replace("import lamina\n", f"ctypes.CDLL({str(driver)!r})\nimport lamina\n")
    ran = warm.python("-c", script + SEARCHES, cuda, "0", env=environment(FAILS=fails))
    assert ran.returncode == 0, ran.stderr
    *told, counts = ran.stdout.splitlines()
    assert told == [f"{value} {value == 1.0} 0" for _ in range(4) for value in (1.0, float("inf"))]
    (loads, launches, waits), copies, errors = ast.literal_eval(counts)
    assert (loads, errors) == ({"": 1, "load": 1, "memory": 3, "launch": 1}[fails], 0)
    assert (launches == 0) is (fails == "load")
    assert waits == (0 if fails == "launch" else launches)
    bad = 4 * 2  # the proof and the argument of each type; the result is the same tensor
    assert copies == {"": bad, "memory": bad + 1}.get(fails, copies)
    assert (copies > bad) is (fails != "")


@without_cuda
@compiles
@pytest.mark.parametrize(
    ("how", "stream", "known", "says"),
    [
        ("", 0, True, ""),
        ("-DBY_C10", 0, True, ""),
        ("-DNO_MORE", 0, True, ""),
        ("", 4096, False, "another than the one that torch tells"),
        ("-DNO_STREAM", 0, False, "this torch does not tell in C which stream is current"),
    ],
)
def test_the_functions_of_cuda_are_found(tmp_path, how, stream, known, says):
    library = compiled(tmp_path, CUDA, "libtorch_cuda.so", *CUDA_FLAGS, *how.split())
    ran = warm.python("-c", SCRIPT, library, str(stream), env=environment())
    assert ran.returncode == 0, ran.stderr
    *untold, recorded, first, bytes, second, again, made, fine, bad, looked = ran.stdout.splitlines()
    assert fine.startswith("no NaN or Inf in ")
    assert "NaN" in bad
    assert looked.endswith(" 0")  # the driver's kernels are not stood in for: all is copied
    assert (looked != "0 0") is known
    assert recorded.startswith("None [")
    assert ("a graph is being recorded" in recorded) is (how != "-DNO_STREAM")
    assert recorded.endswith(" 700")  # the model's own
    says_why = "did not show a tensor of known size" if how != "-DNO_STREAM" else "None"
    assert [line.startswith("None [") and says_why in line for line in untold] == [True] * 3
    assert bytes == again == ("(700, 500, 200, 700)" if how != "-DNO_STREAM" else "None")
    if known:
        assert first == second == "1234 [] 0"
        assert made == "10"  # two for the proof, once, and four a capture
    else:
        assert first.startswith("None [") and says in first
        assert made == "0"
