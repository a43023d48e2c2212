# SPDX-License-Identifier: Apache-2.0
"""Bytes of parameters are those of the storages that hold them, wherever these lie: of tensors that wrap
others, of packed weights."""

from __future__ import annotations

import csv
import io
import json

import pytest
import torch
from conftest import environment, needs_fit
from stored_kit import Asked, Nameless, Own, Pair, Wrapper, quantised, storages
from torch import nn
from where_kit import Calls

import lamina
import warm
from lamina._base.errors import NeedsValuesError
from lamina._observe import memory, support

measured = pytest.mark.skipif(bool(memory.refused()), reason=f"no memory: {memory.refused()}")
X = torch.rand(4, 64)


def linear(weight=None, grad=False):
    layer = nn.Linear(64, 64, bias=False)
    if weight is not None:
        layer.weight = nn.Parameter(weight, requires_grad=grad)
    return layer


def int8(n=64):
    return torch.ones(n, 64, dtype=torch.int8)


def tied():
    one = nn.Parameter(quantised(torch.rand(64, 64)), requires_grad=False)
    net = nn.Sequential(linear(), linear())
    net[0].weight = net[1].weight = one
    return net


def tied_inside():
    one = quantised(torch.rand(64, 64))
    return nn.Sequential(linear(one), linear(Wrapper(*one.parts())))


def shared_scale():
    scale = torch.ones(64, 1)
    return nn.Sequential(*(linear(Wrapper(int8(), scale)) for _ in range(2)))


def one_buffer():
    both = torch.ones(2, 64, 64, dtype=torch.int8)
    return nn.Sequential(*(linear(Wrapper(q, torch.ones(64, 1))) for q in both))


def embedding():
    net = nn.Embedding(100, 64)
    net.weight = nn.Parameter(quantised(net.weight), requires_grad=False)
    return net


def with_float():
    return nn.Sequential(linear(quantised(torch.rand(64, 64))), nn.ReLU(), nn.Linear(64, 8))


def never_called():
    net = Calls(lambda net, x: net.used(x))
    net.used, net.idle = linear(quantised(torch.rand(64, 64))), linear(quantised(torch.rand(64, 64)))
    return net


NETS = {
    "int8 and scales": lambda: nn.Sequential(linear(quantised(torch.rand(64, 64)))),
    "beside plain ones": with_float,
    "that answers functions": lambda: nn.Sequential(linear(quantised(torch.rand(64, 64), Asked))),
    "tied": tied,
    "tied inside": tied_inside,
    "a scale of two": shared_scale,
    "two in one buffer": one_buffer,
    "a part of a larger one": lambda: nn.Sequential(linear(Wrapper(int8(192)[64:128], torch.ones(64, 1)))),
    "a repeated scale": lambda: nn.Sequential(linear(Wrapper(int8(), torch.ones(1, 1).expand(64, 1)))),
    "of bfloat16": lambda: nn.Sequential(linear(Wrapper(int8(), torch.ones(64, 1), dtype=torch.bfloat16))),
    "around another": lambda: nn.Sequential(linear(Pair(quantised(torch.rand(64, 64)), torch.rand(64, 64)))),
    "that is trained": lambda: nn.Sequential(linear(Pair(torch.rand(64, 64), torch.rand(64, 64)), grad=True)),
    "of an embedding": embedding,
    "never called": never_called,
    "with memory of its own": lambda: nn.Sequential(linear(Own(torch.rand(64, 64)))),
}


@pytest.mark.parametrize("name", NETS)
def test_bytes_are_those_of_the_storages(name):
    net = NETS[name]()
    given = torch.arange(4) if isinstance(net, nn.Embedding) else X
    report = lamina.inspect(net, given, memory=not memory.refused())
    own = list(net.parameters())
    told, logical = storages(own), sum(p.numel() * p.element_size() for p in own)
    sums = {key: report.parameters[key] for key in ("param_bytes", "logical_bytes", "local_bytes")}
    assert sums == {"param_bytes": told, "logical_bytes": logical, "local_bytes": told}
    assert {count.state for count in sums.values()} == {"exact"}
    assert report.params == sum(p.numel() for p in own)
    assert sum(row.param_bytes for row in report.rows) == told
    assert sum(row.logical_bytes for row in report.rows) == logical
    if report.memory is not None and not memory.refused():
        assert report.memory.held["parameters"] == told
        assert sum(row.held["parameters"] for row in report.memory.rows) == told
    assert report.no_gradient.keys() == {n for n, p in net.named_parameters() if not p.requires_grad}


def test_a_wrapper_on_the_meta_device_has_the_bytes_of_its_parts():
    weight = Wrapper(int8().to("meta"), torch.ones(64, 1, device="meta"))
    report = lamina.inspect(nn.Sequential(linear(weight)), X.to("meta"))
    assert report.parameters["param_bytes"] == 64 * 64 + 64 * 4


def test_a_wrapper_on_the_meta_device_that_names_no_parts():
    weight = Nameless(int8().to("meta"), torch.ones(64, 1, device="meta"))
    report = lamina.inspect(nn.Sequential(linear(weight)), X.to("meta"))
    assert report.parameters["param_bytes"].state == "unknown"


@pytest.mark.filterwarnings("ignore")
def test_a_masked_tensor_is_its_data_and_its_mask():
    masked = pytest.importorskip("torch.masked").masked_tensor(torch.rand(3, 3), torch.ones(3, 3).bool())
    net = Calls(lambda net, x: net.used(x), used=nn.Linear(64, 2))
    net.p = nn.Parameter(masked)
    report = lamina.inspect(net, X, memory=not memory.refused())
    assert report.parameters["param_bytes"] == 4 * 65 * 2 + 9 * 4 + 9
    if not memory.refused():
        assert report.memory.held["parameters"] == 4 * 65 * 2 + 9 * 4 + 9


def test_a_jagged_tensor_is_its_values_and_offsets():
    if not hasattr(torch, "jagged"):
        pytest.skip("this torch has no jagged tensors")
    net = Calls(lambda net, x: net.used(x), used=nn.Linear(64, 2))
    rows = [torch.rand(2, 3), torch.rand(5, 3)]
    net.p = nn.Parameter(torch.nested.nested_tensor(rows, layout=torch.jagged))
    report = lamina.inspect(net, X)
    assert report.parameters["param_bytes"] == 4 * 65 * 2 + 7 * 3 * 4 + 3 * 8
    assert report.params.state == "unknown"  # its shape is no shape of numbers


def test_a_buffer_that_wraps_others():
    net = Calls(lambda net, x: nn.functional.linear(x, net.w))
    net.register_buffer("w", quantised(torch.rand(64, 64)))
    report = lamina.inspect(net, X)
    assert report.params == 0
    assert report.parameters["buffer_bytes"] == storages([net.w])


@pytest.mark.parametrize(
    ("make", "stored"),
    [
        (lambda: torch.rand(1, 16).expand(32, 16), 4 * 16),
        (lambda: torch.rand(1).expand(32, 16), 4),
        (lambda: torch.rand(32, 1).expand(32, 16), 4 * 32),
        (lambda: torch.rand(40).as_strided((32, 4), (1, 2)), 4 * (31 + 2 * 3 + 1)),
        (lambda: torch.rand(16, 32).t(), 4 * 16 * 32),
        (lambda: torch.rand(32, 64)[:, ::4], 4 * 32 * 16),
    ],
    ids=["rows", "one number", "columns", "windows", "transposed", "every fourth"],
)
def test_elements_that_share_memory_are_stored_once(make, stored):
    net = nn.Linear(1, 1, bias=False)
    net.weight = nn.Parameter(make(), requires_grad=False)
    net.register_buffer("table", make())
    x = torch.rand(2, net.weight.shape[1])
    totals = json.loads(lamina.inspect(net, x).to_json())["totals"]
    assert totals["param_bytes"] == totals["buffer_bytes"] == {"value": stored, "state": "exact"}
    logical = totals.get("logical_bytes", totals["param_bytes"])
    assert logical["value"] == 4 * net.weight.numel() == 4 * totals["params"]["value"]
    assert ("logical_bytes" in totals) == (logical["value"] != stored)


def test_both_sizes_are_in_every_format(tmp_path):
    report = lamina.inspect(NETS["beside plain ones"](), X)
    stored, logical = 64 * 64 + 64 * 4 + 4 * 65 * 8, 4 * (64 * 64 + 65 * 8)
    saved = json.loads(report.to_json())
    assert saved["totals"]["param_bytes"] == {"value": stored, "state": "exact"}
    assert saved["totals"]["logical_bytes"] == {"value": logical, "state": "exact"}
    assert [row["logical_bytes"]["value"] for row in saved["rows"]][1] == 4 * 64 * 64
    assert "local_bytes" not in saved["totals"]
    last = list(csv.DictReader(io.StringIO(report.to_csv())))[-1]
    assert (last["param_bytes"], last["logical_bytes"]) == (str(stored), str(logical))
    assert "logical size 18.0 KiB" in str(report)
    assert "logical size 18.0" in report.to_html()
    path = tmp_path / "saved.json"
    path.write_text(report.to_json())
    again = lamina.Report.load(path)
    assert again.parameters["logical_bytes"] == logical
    plain = lamina.inspect(nn.Linear(2, 2), torch.rand(1, 2))
    assert "logical" not in plain.to_json() + plain.to_csv() + str(plain)
    assert plain.rows[0].logical_bytes == plain.rows[0].param_bytes == 24
    totals = json.loads(report.diff(plain).to_json())["totals"]
    assert totals["logical_bytes"]["before"]["value"] == logical


def test_parts_that_are_not_named_are_unknown():
    net = nn.Sequential(linear(quantised(torch.rand(64, 64), Nameless)))
    report = lamina.inspect(net, X, memory=not memory.refused())
    assert report.params == 64 * 64
    for key in ("param_bytes", "local_bytes"):
        assert report.parameters[key].state == "unknown", key
    assert report.parameters["logical_bytes"] == 4 * 64 * 64
    (note,) = (note for note in report.notes if "0.weight" in note)
    assert note.startswith("the bytes of 0.weight are not known, and no sum has them")
    assert "parameters (?)" in str(report)
    if not memory.refused():
        assert report.memory.held["parameters"] == 0
        assert any("what tensors of the class Nameless hold is not known" in note for note in report.notes)
    net.append(nn.Linear(64, 2))
    report = lamina.inspect(net, X)
    assert report.parameters["param_bytes"] == 4 * 65 * 2
    assert report.parameters["param_bytes"].state == "at least"


class Kept(torch.optim.Optimizer):
    """An optimizer whose state is quantised."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            moment, state = quantised(parameter.grad), self.state[parameter]
            if "moment" not in state:
                state["moment"] = moment
            for kept, new in zip(state["moment"].parts(), moment.parts(), strict=True):
                kept.copy_(new)


@measured
def test_the_state_of_an_optimizer_may_be_quantised():
    net = nn.Sequential(nn.Linear(64, 32, bias=False), nn.Linear(32, 8, bias=False))
    optimizer = Kept(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        with lamina.capture(net, memory=True) as watch:
            net(X).sum().backward()
            optimizer.step()
    state = [state["moment"] for state in optimizer.state.values()]
    assert watch.report().memory.held["optimizer"] == storages(state)


@measured
def test_gradients_may_wrap_others():
    net = nn.Sequential(linear(Pair(torch.rand(64, 64), torch.rand(64, 64)), grad=True))
    net[0].weight.grad = Pair(torch.rand(64, 64), torch.rand(64, 64))
    assert lamina.inspect(net, X, memory=True).memory.held["gradients"] == 2 * 4 * 64 * 64


@measured
def test_sparse_parameters_hold_their_indices_and_values():
    net = Calls(lambda net, x: torch.sparse.mm(net.weight, x))
    net.weight = nn.Parameter(torch.eye(64).to_sparse())
    held = lamina.inspect(net, torch.rand(64, 3), memory=True).memory.held
    assert held["parameters"] == 64 * (2 * 8 + 4)


@pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")
def test_gradients_of_what_wraps_others():
    net = nn.Sequential(NETS["that is trained"]()[0], nn.Linear(64, 2))
    assert lamina.inspect(net, X, backward=True).no_gradient == {}
    cut = Calls(lambda cut, x: cut.net[1](cut.net[0](x).detach()))
    cut.net = net
    assert lamina.inspect(cut, X, backward=True).no_gradient.keys() == {"net.0.weight"}
    with lamina.capture(net) as watch:
        net(X)
    assert watch.report().no_gradient == {}
    unnamed = nn.Sequential(linear(quantised(torch.rand(64, 64), Nameless), grad=True), nn.Linear(64, 2))
    assert lamina.inspect(unnamed, X, backward=True).no_gradient == {}


def test_fit_predicts_what_is_stored():
    needs_fit()
    net = NETS["that answers functions"]().eval()
    peak = lamina.fit(net, X).forward
    assert (peak.parts["parameters"], peak.gap, peak.rough) == (storages(net.parameters()), None, None)
    if not memory.refused():
        lamina.inspect(net, X)
        assert peak.bytes == lamina.inspect(net, X, mode="eval", memory=True).memory.peak
    with pytest.raises(NeedsValuesError, match=r"^a dry run can't follow 0 \(Linear\): it works on a"):
        lamina.fit(NETS["int8 and scales"](), X)


# -- packed weights ------------------------------------------------------------------------------------------

SOURCE = """
import torch
from torch import nn
def f32(): return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
def int8(): return torch.ao.quantization.quantize_dynamic(f32(), {nn.Linear}, dtype=torch.qint8)
"""
WEIGHTS, BYTES = 17 * 32 + 33 * 8, 16 * 32 + 32 * 8 + 4 * 40


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("torch.ao.quantization")
    if torch.backends.quantized.engine == "none":
        pytest.skip("this torch has no engine for quantised layers")
    (tmp_path / "nets.py").write_text(SOURCE)
    return tmp_path


def command(folder, *words):
    return warm.lamina([*words], cwd=folder, env=environment())


def test_a_budget_counts_packed_weights(folder):
    for metric, is_there in (("params", WEIGHTS), ("param_bytes", BYTES), ("local_bytes", BYTES)):
        for most, code in ((is_there, 0), (is_there - 1, 1)):
            words = ("check", "nets.py:int8", "-i", "4x16", "--max", f"{metric}={most}")
            assert command(folder, *words).returncode == code, (metric, most)


def test_a_difference_shows_packed_weights(folder):
    told = json.loads(command(folder, "diff", "nets.py:f32", "nets.py:int8", "-i", "4x16", "--json").stdout)
    assert [told["totals"]["params"][side]["value"] for side in ("before", "after")] == [WEIGHTS, WEIGHTS]
    assert [told["totals"]["param_bytes"][side]["value"] for side in ("before", "after")] == [
        4 * WEIGHTS,
        BYTES,
    ]


@pytest.mark.filterwarnings("ignore")
def test_rows_totals_and_memory_agree_on_packed_weights(folder):
    names: dict = {}
    exec(SOURCE, names)
    net = names["int8"]()
    report = lamina.inspect(net, torch.rand(4, 16), memory=not memory.refused())
    told = report.parameters
    assert (told["packed"], told["packed_bytes"]) == (WEIGHTS, BYTES)
    assert (report.params, told["param_bytes"], told["nograd_params"]) == (WEIGHTS, BYTES, WEIGHTS)
    assert sum(row.params for row in report.rows) == WEIGHTS
    assert sum(row.param_bytes for row in report.rows) == BYTES
    assert report.rows[0].total_params == WEIGHTS
    if memory.refused():
        return
    assert report.memory.held["parameters"] == BYTES
    assert sum(row.held["parameters"] for row in report.memory.rows) == BYTES
    assert any("packed weights" in note for note in report.notes)
    with lamina.capture(net, memory=True) as watch, torch.no_grad():
        net(torch.rand(4, 16))
    assert watch.report().memory.held["parameters"] == BYTES


@pytest.mark.filterwarnings("ignore")
def test_a_recording_counts_packed_weights(folder):
    names: dict = {}
    exec(SOURCE, names)
    net = names["int8"]()
    with lamina.watch(net, every=1, file=folder / "run.lamina"):
        for _ in range(3):
            net(torch.rand(4, 16))
    told = json.loads(command(folder, "show", "run.lamina", "--json").stdout)
    (model,) = told["runs"][0]["models"]
    sizes = [model[key] for key in ("params", "param_bytes", "local_bytes", "logical_bytes")]
    assert sizes == [WEIGHTS, BYTES, BYTES, BYTES]
