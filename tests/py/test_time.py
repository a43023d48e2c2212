# SPDX-License-Identifier: Apache-2.0
"""Times: whose backward a node is when nothing but nodes is watched; that times add up; medians of runs."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import time
from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import Calls

import lamina
from lamina._command import cli
from lamina._observe import support
from lamina._results import roof as roofs
from lamina._run import capture

observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")


def small():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 4), nn.BatchNorm1d(4))


def tied():
    layer = nn.Linear(5, 5)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), layer)


def checkpointed(*, reentrant):
    block = nn.Sequential(nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 5))
    return Calls(
        lambda self, x: checkpoint(self.block, self.first(x), use_reentrant=reentrant),
        block=block,
        first=nn.Linear(5, 5),
    )


def penalised():
    """A forward with a backward pass in it."""

    def forward(self, x):
        y = self.a(x).square().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        return self.b(grad)

    return Calls(forward, a=nn.Linear(5, 5), b=nn.Linear(5, 2))


NETS = {
    "layers": (small, (3, 6)),
    "shared": (tied, (3, 5)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Flatten()), (1, 3, 8, 8)),
    "recurrent": (lambda: Calls(lambda self, x: self.rnn(x)[0], rnn=nn.LSTM(4, 3)), (5, 2, 4)),
    "checkpoint": (lambda: checkpointed(reentrant=False), (3, 5)),
    "reentrant": (lambda: checkpointed(reentrant=True), (3, 5)),
    "twice": (penalised, (3, 5)),
}


def step(model, x):
    model.zero_grad()
    model(x).sum().backward()


def nodes(model, x, **options):
    """Every node that ran, with the path of the call that it is credited to."""
    with lamina.capture(model, **options) as watch:
        step(model, x)
    told = watch._model
    places, events = told.places(), told.events()
    path = [places[event["place"]]["path"] for event in events] + [None]
    # The forward of an autograd.Function is a node in the capture of operators.
    back = [op for op in told.operators() if op["phase"] != "forward" and op["node"]]
    return [(op["name"], path[op["call"]]) for op in back]


@observed
@pytest.mark.parametrize("name", NETS)
def test_a_node_is_credited_alike_with_and_without_operators(name):
    make, shape = NETS[name]
    torch.manual_seed(0)
    model, x = make(), torch.randn(*shape, requires_grad=True)
    step(model, x)
    alone, among = Counter(nodes(model, x, time=True)), Counter(nodes(model, x, ops=True))
    assert alone and all(among[node] >= n for node, n in alone.items())
    assert all("Backward" not in name for name, _ in among - alone)
    assert {path for _, path in alone} > {None}  # that of the sum, and others


@observed
def test_what_keeps_a_gradient_is_the_layers():
    told = nodes(small(), torch.randn(3, 6), time=True)
    assert Counter(path for name, path in told if name.endswith("AccumulateGrad")) == {"0": 2, "2": 2, "3": 2}


@observed
def test_operators_are_unknown_where_only_nodes_were_watched():
    with lamina.capture(small(), ops=False, time=True) as watch:
        step(watch._root, torch.randn(3, 6))
    report = watch.report()
    assert report.macs == 3 * (30 + 20)
    assert report.backward.macs.state == "unknown"
    with pytest.raises(ValueError, match="operators"):
        report.under("exact")
    with pytest.raises(ValueError, match="operators"):
        report.graph()


@observed
def test_a_run_that_only_times_watches_no_operators():
    once = {"time": True, "warmup": 0, "repeats": 1}
    report = lamina.inspect(small(), (torch.randn(3, 6),), ops=False, backward=True, **once)
    assert report.backward.macs.state == "unknown"
    assert report._model.n_operators() > 5
    both = lamina.inspect(small(), (torch.randn(3, 6),), backward=True, convention="exact", **once)
    assert both.backward.macs == (30 + 20 * 2) * 3


def test_why_a_backward_is_not_told_is_a_note(monkeypatch):
    monkeypatch.setattr(capture, "nodes", lambda: "because")
    report = lamina.inspect(small(), (torch.randn(3, 6),), ops=False, backward=True, time=True)
    assert any("backward takes is not known: because" in note for note in report.notes)
    assert report._model.n_operators() == 0


# -- times ---------------------------------------------------------------------------------------------------


def vision(name, size, **options):
    def make():
        models = pytest.importorskip("torchvision.models")
        model = getattr(models, name)(weights=None, **options)
        x = torch.randn(2, 3, size, size)
        return model, lambda: model(x).sum()

    return make


def lstm():
    model = Calls(
        lambda self, x: self.head(self.rnn(x)[0]), rnn=nn.LSTM(64, 128, num_layers=2), head=nn.Linear(128, 9)
    )
    x = torch.randn(20, 8, 64)
    return model, lambda: model(x).sum()


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=200, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256
    )
    model, ids = transformers.BertModel(config), torch.randint(0, 200, (2, 64))
    return model, lambda: model(ids).last_hidden_state.sum()


def llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=200, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256
    )
    model, ids = transformers.LlamaForCausalLM(config), torch.randint(0, 200, (2, 64))
    return model, lambda: model(input_ids=ids, labels=ids).loss


TIMED = {
    "resnet18": vision("resnet18", 64),
    "densenet121": vision("densenet121", 64),
    "vgg11_bn": vision("vgg11_bn", 64),
    "vit_b_16": vision("vit_b_16", 64, image_size=64),
    "swin_t": vision("swin_t", 64),
    "lstm": lstm,
    "bert": bert,
    "llama": llama,
}


def one_step(model, loss_of):
    """Times of one step, and how long it took by a clock of our own: the forward, and the backward from its
    first node on, since torch goes through the whole graph before that."""
    model.zero_grad()
    began = []
    with lamina.capture(model, time=True) as watch:
        t0 = time.perf_counter_ns()
        loss = loss_of()
        t1 = time.perf_counter_ns()
        loss.register_hook(lambda _: began.append(time.perf_counter_ns()))
        loss.backward()
        t2 = time.perf_counter_ns()
    return watch.report(), t1 - t0, t2 - began[0]


def apart(told, ours, between=100_000):
    """The share by which a time differs from our own clock's, which has Python's way there and back in it."""
    return max(0, abs(told - ours) - between) / ours


@observed
@pytest.mark.parametrize("name", TIMED)
def test_self_times_add_up_to_the_whole(name):
    model, loss_of = TIMED[name]()
    one_step(model, loss_of)
    off = []
    for _ in range(30):  # whoever else uses the machine may take it away between two of our clocks
        report, forward, backward = one_step(model, loss_of)
        rows = [row.time for row in report.rows if row.time is not None]
        told = report.time
        root = report.rows[0].time
        assert sum(row.forward.self for row in rows) == root.forward.total == told.forward.median
        assert sum(row.backward.self for row in rows) == told.backward.median == root.backward.total
        engine = told.engine.median + told.outside.median
        assert told.whole.median == told.forward.median + told.backward.median + engine
        off.append(
            max(
                apart(told.forward.median, forward),
                apart(told.backward.median + engine, backward),
            )
        )
        if off[-1] <= 0.02:
            return
    pytest.fail(f"off by {off}")


@observed
def test_containers_take_what_is_in_them():
    model, loss_of = TIMED["resnet18"]()
    report, *_ = one_step(model, loss_of)
    rows = [(row.path, row.time) for row in report.rows if row.time is not None]
    by_path = dict(rows)
    for path in ("layer1", "layer2.0", "layer4.0.downsample"):
        inside = [time for p, time in rows if p.startswith(path + ".")]
        own = by_path[path]
        assert own.forward.total == own.forward.self + sum(time.forward.self for time in inside)
        assert own.backward.total == own.backward.self + sum(time.backward.self for time in inside)
    assert all(
        time.backward.self > 0 for path, time in by_path.items() if path.endswith(("conv1", "bn2", "fc"))
    )


@observed
def test_what_a_container_does_itself_is_told_in_one_line():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.inner = nn.Parameter(torch.rand(200, 200)), nn.Linear(200, 200)

        def forward(self, x):
            return self.inner(x @ self.weight)

    model = nn.Sequential(Own(), nn.Linear(200, 5))
    report = lamina.inspect(model, torch.rand(16, 200), time=True, repeats=3, convention="exact")
    table = report._text(width=200).splitlines()
    column = table[2].index("%")
    rows = [line for line in table[3:8] if line]
    names = [re.match(r"[ ├─└│]*(\[own parameters\]|\S+)", line)[1] for line in rows]
    shares = {name: line[column - 3 : column + 1] for name, line in zip(names, rows, strict=True)}
    assert list(shares) == ["Sequential", "0", "[own parameters]", "inner", "1"]
    assert shares.pop("[own parameters]") == ""  # its container's line has it
    assert sum(map(float, shares.values())) == pytest.approx(100, abs=0.3)
    spent = [row.time for row in report.rows if row.time is not None]
    assert sum(time.forward.self for time in spent) == report.time.whole.median  # of three runs it is one
    listed = report._text(width=200, sort="time").splitlines()
    assert any(line.startswith("0 [own parameters] ") for line in listed)
    assert float(listed[3].split()[-1]) == pytest.approx(100, abs=0.1)


@observed
def test_what_is_done_again_is_told_apart():
    model = checkpointed(reentrant=False)
    report, *_ = one_step(model, lambda: model(torch.randn(3, 5)).sum())
    again = {row.path for row in report.rows if row.time is not None and row.time.recompute.self}
    assert again == {"block", "block.0", "block.1", "block.2"}
    assert report.rows[0].time.recompute.total == report.time.recompute.median > 0


def test_medians_of_runs_and_the_late_one():
    naps = []

    def forward(self, x):
        x = self.a(x)
        time.sleep(0.01)
        return self.b(x)

    def nap(self, x):
        time.sleep(naps.pop(0))
        return x * 2

    model = Calls(forward, a=nn.Linear(5, 5), b=Calls(nap))
    for _ in range(30):  # whoever else uses the machine may make another run late
        naps[:] = [0, 0, 0, 0, 0, 0, 0.2, 0, 0, 0, 0, 0]
        report = lamina.inspect(model, (torch.randn(3, 5),), time=True, warmup=2, repeats=9)
        times = report.time
        late = [(late.run, late.path) for late in times.outliers if late.late > 150e6]
        if times.layers[0].forward_self.median < 50e6 and late == [(3, "b")]:
            break
    assert times.runs == 9
    assert 9e6 < times.layers[0].forward_self.median < 50e6
    assert late == [(3, "b")]
    assert times.layers[0].forward.most_run == 3
    assert report.macs == 75
    assert "run 3 took" in str(report)
    assert re.search(r"run \d of 9, the median", str(report))


def test_a_module_that_calls_itself_takes_its_time_once():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x, deep=6):
            x = self.layer(x)
            return x if deep == 0 else self(x, deep - 1)

    report = lamina.inspect(Again(), torch.rand(64, 64), time=True)
    whole = report.rows[0].time.forward.total
    line = next(line for line in str(report).splitlines() if line.startswith("Again (7 calls)"))
    told, unit = re.findall(r"([\d.]+) (us|ms)", line)[0]
    assert float(told) * {"us": 1e3, "ms": 1e6}[unit] == pytest.approx(whole, rel=0.01)


def test_calls_that_vary_between_runs_are_told():
    class Varies(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.runs = nn.Linear(8, 8), 0

        def forward(self, x):
            self.runs += 1
            for _ in range(1 + self.runs % 2):
                x = self.layer(x)
            return x

    assert "1 call happened in some runs only" in str(lamina.inspect(Varies(), torch.rand(4, 8), time=True))
    steady = lamina.inspect(nn.Linear(8, 8), torch.rand(4, 8), time=True)
    assert "in some runs only" not in str(steady)


@observed
@pytest.mark.parametrize("backward", [False, True])
def test_measuring_leaves_the_model_as_it_was(backward):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    model(torch.randn(3, 4)).sum().backward()
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    grads = [(p, p.grad, p.grad.clone()) for p in model.parameters()]
    torch.manual_seed(3)
    lamina.inspect(model, (torch.randn(3, 4),), time=True, backward=backward, warmup=1, repeats=3)
    after = torch.randn(4)
    torch.manual_seed(3)
    torch.randn(3, 4)
    assert torch.equal(after, torch.randn(4))
    assert all(torch.equal(kept[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is grad and torch.equal(grad, was) for p, grad, was in grads)
    assert model.training


def test_what_a_timed_run_raises_comes_through():
    calls = iter(range(100))

    def forward(self, x):
        if next(calls) == 3:
            raise RuntimeError("the fourth")
        return self.a(x)

    with pytest.raises(RuntimeError, match="the fourth") as raised:
        lamina.inspect(Calls(forward, a=nn.Linear(5, 5)), (torch.randn(3, 5),), time=True, warmup=1)
    assert raised.value.lamina_report.macs == 75


def test_tables_and_data_have_times_where_they_were_asked_for():
    model, x = small().eval(), torch.randn(3, 6)
    plain = lamina.inspect(model, x)
    assert plain.rows[0].time is None
    assert '"time"' not in plain.to_json()
    assert "time_ns" not in plain.to_csv()
    with pytest.raises(ValueError, match="time=True"):
        plain.time  # noqa: B018
    with pytest.raises(ValueError, match="time=True"):
        plain.to_markdown(time=True)
    timed = lamina.inspect(model, x, time=True, warmup=0, repeats=1)
    told = json.loads(timed.to_json())
    assert told["time"]["runs"] == 1
    assert told["rows"][0]["time"]["forward"]["total"] == timed.rows[0].time.forward.total > 0
    assert told["time"]["whole"]["median"] == timed.time.whole.median
    first = next(csv.DictReader(io.StringIO(timed.to_csv())))
    assert int(first["time_ns"]) == timed.rows[0].time.forward.total
    assert "self" in str(timed).splitlines()[2]
    assert "self" not in timed.to_markdown(time=False)


@observed
def test_operators_have_times_too():
    with lamina.capture(small(), ops=True, time=True) as watch:
        step(watch._root, torch.randn(3, 6))
    told = {(op.name, op.phase): op for op in watch.report("exact").time.operators}
    addmm, linear = told["aten::addmm", "forward"], told["aten::linear", "forward"]
    assert addmm.n == linear.n == 2
    assert 0 < addmm.self <= addmm.total <= linear.total
    assert told["aten::mm", "backward"].self > 0
    assert told["AddmmBackward0", "backward"].node


@pytest.mark.parametrize("wrong", [{"warmup": -1}, {"repeats": 0}, {"dry": True}])
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"not possible|dry run"):
        lamina.inspect(small(), (torch.randn(3, 6),), time=True, **wrong)


@pytest.mark.parametrize("given", [{"warmup": 0}, {"repeats": 3}])
def test_how_often_is_of_runs_that_are_timed(given, capsys):
    with pytest.raises(ValueError, match="give time=True too"):
        lamina.inspect(small(), (torch.randn(3, 6),), **given)
    if "repeats" in given:
        assert cli.main(["show", "mine.py:net", "-i", "3x6", "--repeats", "3"]) == 2
        assert "--repeats 3 is of runs that are timed\n  hint: add --time" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["warmup", "repeats"])
def test_what_is_no_number_is_named(name):
    with pytest.raises(TypeError, match=f"{name} is '3'; it is a whole number"):
        lamina.inspect(small(), (torch.randn(3, 6),), time=True, **{name: "3"})


def test_without_nodes_the_backward_is_unknown_and_not_zero(monkeypatch):
    monkeypatch.setattr(capture, "nodes", lambda: "because")
    with lamina.capture(small(), ops=False, time=True) as watch:
        step(watch._root, torch.randn(3, 6))
    report = watch.report()
    assert report.time.backward is report.time.engine is None
    assert report.rows[0].time.backward == (None, None)
    assert report.rows[0].time.forward.total > 0
    assert "bwd time" not in str(report)


# -- timelines -----------------------------------------------------------------------------------------------


def stepped():
    model = TIMED["resnet18"]()[0].eval()
    with lamina.capture(model, time=True) as watch:
        model(torch.randn(1, 3, 32, 32)).sum().backward()
    return watch.report()


@observed
def test_a_trace_is_what_viewers_take():
    report = stepped()
    told = json.loads(report.to_trace())
    spans = [event for event in told["traceEvents"] if event["ph"] == "X"]
    assert {event["ph"] for event in told["traceEvents"]} == {"X", "M"}
    assert all(
        isinstance(event["name"], str) and event["dur"] >= 0 <= event["ts"] and event["pid"] == 1
        for event in spans
    )
    called = [row for row in report.rows if row.event is not None and row.event >= 0]
    assert len([e for e in spans if e["cat"] == "layer,forward"]) == len(called)
    conv = [e for e in spans if e["args"].get("layer") == "layer1.0.conv1"]
    assert any(e["name"] == "ConvolutionBackward0" and e["cat"] == "operator,backward" for e in conv)
    assert {event["tid"] for event in told["traceEvents"]} == {0}
    open_until = []  # of the one thread: what is inside ends before what is around it
    for event in sorted(spans, key=lambda e: (e["ts"], -e["dur"])):
        end = event["ts"] + event["dur"]
        while open_until and open_until[-1] <= event["ts"] + 1e-6:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + 1e-6
        open_until.append(end)


@observed
def test_a_speedscope_file_is_what_the_viewer_takes(tmp_path):
    path = tmp_path / "run.speedscope.json"
    stepped().to_speedscope(path)
    told = json.loads(path.read_text("utf-8"))
    assert told["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert 0 <= told["activeProfileIndex"] < len(told["profiles"])
    frames = told["shared"]["frames"]
    assert {"ResNet", "layer1.0.conv1", "ConvolutionBackward0"} <= {frame["name"] for frame in frames}
    for profile in told["profiles"]:
        assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            assert last <= event["at"] <= profile["endValue"]
            last = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert event["type"] == "C"
                assert stack.pop() == event["frame"] < len(frames)
        assert not stack


def test_a_dry_run_has_no_timeline():
    report = lamina.inspect(small(), (torch.randn(3, 6),), dry=True)
    with pytest.raises(ValueError, match="no timeline"):
        report.to_trace()


# -- how fast ------------------------------------------------------------------------------------------------


@pytest.fixture
def quick_peak(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(roofs, "SECONDS", 0.01)
    monkeypatch.setattr(roofs, "ELEMENTS", 1 << 20)
    monkeypatch.setattr(roofs, "SIDES", (64, 128))
    return tmp_path


def test_a_peak_is_measured_once_and_kept(quick_peak, monkeypatch):
    first = lamina.roof()
    assert first.flops > 1e8
    assert first.bytes > 1e8
    assert first.threads == torch.get_num_threads()
    monkeypatch.setattr(roofs, "_measure", lambda *_: pytest.fail("measured again"))
    assert lamina.roof() == first
    (kept,) = quick_peak.rglob("roof-*.json")
    whole = json.loads(kept.read_text())
    kept.write_text("{")
    monkeypatch.setattr(roofs, "_measure", lambda *_: first._replace(flops=7.0))
    assert lamina.roof().flops == 7.0
    kept.write_text(json.dumps(whole | {"flops": 0}))
    assert lamina.roof().flops == 7.0
    assert lamina.roof(again=True).flops == 7.0


def test_a_peak_is_of_one_type_of_numbers_and_one_device(quick_peak, monkeypatch):
    single = lamina.roof()
    double = lamina.roof(dtype=torch.float64, device="cpu")
    assert (single.dtype, single.device, double.dtype, double.device) == ("float32", "cpu", "float64", "cpu")
    assert double.flops > 0
    assert len([*quick_peak.rglob("roof-*.json")]) == 2
    monkeypatch.setattr(roofs, "_measure", lambda *_: pytest.fail("measured again"))
    assert (lamina.roof(), lamina.roof(dtype="float64")) == (single, double)
    for options, said in (
        ({"dtype": "float9"}, "'float9' is not a type that torch has"),
        ({"dtype": torch.int64}, "not a floating-point type"),
        ({"device": "meta"}, "device='meta': its peak can't be measured; give cpu or a GPU, as cuda"),
        ({"device": "nowhere"}, "device='nowhere' can't be used here"),
        ({"device": "cuda:99"}, "device='cuda:99' can't be used here"),
    ):
        with pytest.raises(ValueError, match=said):
            lamina.roof(**options)


def test_a_type_without_products_has_no_peak(quick_peak, monkeypatch):
    def refuses(*_, **__):
        raise NotImplementedError("not for this type")

    monkeypatch.setattr(torch, "mm", refuses)
    with pytest.raises(
        ValueError, match=r"torch can't multiply matrices of torch\.bfloat16 on cpu, so its peak"
    ):
        lamina.roof(dtype=torch.bfloat16)


def test_larger_products_are_not_tried_once_one_takes_long(quick_peak, monkeypatch):
    sides, product = [], torch.mm

    def noted(a, b, out):
        sides.append(len(a))
        return product(a, b, out=out)

    monkeypatch.setattr(torch, "mm", noted)
    monkeypatch.setattr(roofs, "SECONDS", 0.0)
    lamina.roof()
    assert set(sides) == {64}


def test_a_peak_that_can_not_be_kept_is_no_error(quick_peak, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(quick_peak / "file"))
    (quick_peak / "file").write_text("")
    assert lamina.roof().flops > 1e8


@observed
def test_the_command_shows_how_fast_rows_were(quick_peak, monkeypatch, capsys):
    (quick_peak / "mine.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Flatten())\n"
    )
    monkeypatch.chdir(quick_peak)
    assert cli.main(["show", "mine.py:net", "-i", "256x512", "--roof", "--repeats", "2", "--wide"]) == 0
    head, rows, ends = capsys.readouterr().out.split("\n\n")
    reached = r"( \(reached in this run\))?"
    roof = rf"^roof       \d[\d.]* [kMGT]FLOP/s{reached} and \d[\d.]* [kMGT]B/s of memory{reached}$"
    assert re.search(roof, ends, re.M)
    assert head.endswith("eval mode")
    title, whole, linear, _, view = rows.splitlines()
    for column in ("fwd", "FLOPs/byte", "FLOP/s", "bytes/s", "limited by"):
        assert column in title
    assert re.search(
        r"\d [MGT] +\d[\d.]* [kMGT] +((compute|memory) \(|neither \(reaches <?)\d+ % of peak\)$", linear
    )
    assert re.search(r" - +- +-$", view)  # what does nothing has no speed
    assert whole.split()[0] == "Sequential"
    assert list(quick_peak.rglob("roof-*.json"))
    assert cli.main(["show", "mine.py:net", "-i", "256x512", "--roof", "-c", "layers"]) == 2
    assert "layers does not count bytes; ask for exact" in capsys.readouterr().err


@observed
def test_how_fast_rows_were(capsys):
    model, x = nn.Sequential(nn.Linear(512, 512), nn.Tanh()), torch.randn(256, 512)
    report = lamina.inspect(model, x, time=True, backward=True, convention="exact", warmup=1, repeats=3)
    roof = roofs.Roof(1e30, 1e30, 1)
    told = {(speed.path, speed.phase): speed for speed in report.speed(roof)}
    linear, tanh = told["0", "forward"], told["1", "forward"]
    assert linear.ns == report.rows[1].time.forward.self
    assert linear.flops == pytest.approx(int(report.rows[1].flops) / linear.ns * 1e9)
    assert linear.bound == tanh.bound == "neither"
    assert linear.intensity == report.rows[1].intensity > tanh.intensity
    assert ("0", "backward") in told
    assert ("", "forward") not in told
    inside = {(speed.path, speed.phase): speed for speed in report.speed(roof, inside=True)}
    whole, back = inside["", "forward"], inside["", "backward"]
    assert whole.ns == report.rows[0].time.forward.total >= linear.ns + tanh.ns
    assert whole.flops == pytest.approx(int(report.flops) / whole.ns * 1e9)
    assert back.ns == report.rows[0].time.backward.total
    assert back.flops == pytest.approx(int(report.backward.flops) / back.ns * 1e9)
    assert inside["1", "forward"] == tanh  # calls nothing
    head = report.to_markdown(roof=roof).splitlines()
    assert any("FLOP/s" in line and "limited by" in line for line in head)
    assert any("1 % of peak)" in line for line in head if "Linear" in line)
    report.show(roof=roof)
    text = capsys.readouterr().out
    assert "neither (reaches <1 % of peak)" in text
    assert "reached in this run" not in text
    assert "FLOP/s" not in report.to_markdown()
    with pytest.raises(ValueError, match="time=True"):
        lamina.inspect(model, x).speed(roof)


@observed
def test_a_roof_that_a_row_exceeds_was_measured_too_low(capsys):
    model, x = nn.Sequential(nn.Linear(512, 512)), torch.randn(256, 512)
    report = lamina.inspect(model, x, time=True, warmup=0, repeats=1)
    (linear,) = report.speed(lamina.Roof(1e30, 1e30, 1))
    for roof, bound in (
        (lamina.Roof(linear.flops / 1.15, linear.bytes * 4, 1), "compute"),
        (lamina.Roof(linear.flops * 4, linear.bytes / 1.15, 1), "memory"),
    ):
        (speed,) = report.speed(roof)
        assert (speed.bound, speed.share) == (bound, 1)
        report.show(roof=roof)
        text = capsys.readouterr().out
        assert f"{bound} (100 % of peak)" in text
        assert text.count("(reached in this run)") == 1


def test_all_times_are_told_in_one_line():
    report = lamina.inspect(small(), torch.ones(3, 6), time=True, backward=True)
    told = repr(report.time)
    assert "\n" not in told
    assert len(told) < 250
    assert f"forward={report.time.forward.median}" in told
    assert f"{len(report.time.layers)} layers" in told


def test_a_roof_of_nothing_is_refused():
    report = lamina.inspect(nn.Linear(4, 4), torch.ones(1, 4), time=True, warmup=0, repeats=1)
    for roof in (lamina.Roof(0.0, 1.0, 1), lamina.Roof(1.0, math.nan, 1)):
        with pytest.raises(ValueError, match="a roof has more than 0 FLOPs and bytes a second"):
            report.show(roof=roof)


@pytest.mark.parametrize(("warmup", "repeats", "runs"), [(0, 1, 1), (0, 3, 4), (2, 1, 4), (2, 3, 6)])
def test_the_run_that_counts_is_timed_only_if_it_is_the_one_run(warmup, repeats, runs):
    calls = []
    model = nn.Identity()
    model.register_forward_hook(lambda *_: calls.append(1))
    lamina.inspect(model, torch.rand(2), time=True, warmup=warmup, repeats=repeats)
    assert len(calls) == runs
