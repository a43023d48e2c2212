# SPDX-License-Identifier: Apache-2.0
"""Reports that are read back from JSON, and files that are not what they seem."""

import json

import pytest
import torch
from torch import nn

import lamina


def saved(tmp_path, report):
    tmp_path.mkdir(exist_ok=True)
    report.to_json(tmp_path / "net.json")
    return lamina.Report.load(tmp_path / "net.json")


def below(text):
    """All below the header."""
    return text.split("\n\n", 1)[1]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))


def test_everything_that_the_file_tells_comes_back(tmp_path, net):
    report = lamina.inspect(net, torch.rand(1, 3, 8, 8))
    back = saved(tmp_path, report)
    assert isinstance(back, lamina.Report)
    assert (back.convention, back.gaps, back.notes) == (report.convention, report.gaps, report.notes)
    for name in ("macs", "flops", "dmas", "bytes", "bytes_read", "effective_macs", "params"):
        ours, theirs = getattr(back, name), getattr(report, name)
        assert (ours, ours.state) == (theirs, theirs.state), name
    assert back.parameters == report.parameters
    assert [row.path for row in back.rows] == [row.path for row in report.rows]
    for ours, theirs in zip(back.rows, report.rows, strict=True):
        same = {
            "macs",
            "total_macs",
            "params",
            "total_params",
            "in_shapes",
            "out_dtypes",
            "depth",
            "type",
            "rule_kind",
        }
        assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
    assert back.unused == report.unused


def test_a_size_of_0_comes_back(tmp_path):
    back = saved(tmp_path, lamina.inspect(nn.Linear(4, 2), torch.rand(0, 4)))
    assert (back.rows[0].in_shapes, back.rows[0].out_shapes) == (((0, 4),), ((0, 2),))


def test_states_come_back(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return x * 2

    report = lamina.inspect(nn.Sequential(nn.Linear(4, 4), Odd()), torch.rand(1, 4), convention="layers")
    back = saved(tmp_path, report)
    assert str(back.macs) == ">= 16" and back.macs.state == report.macs.state == "at least"
    assert back.rows[-1].macs.state == "unknown" and back.backward.macs.state == "unknown"
    assert back.unruled == report.unruled == {"Odd": 1} and back.gaps == report.gaps != []


def test_a_layer_of_which_one_call_is_unknown_is_not_said_to_be_fine(tmp_path):
    class Sometimes(nn.Module):
        def forward(self, x, give=True):
            return x * 2 if give else None

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.part = nn.Linear(4, 4), Sometimes()

        def forward(self, x, first):
            x = self.fc(x)
            given = [self.part(x, give) for give in (first, not first)]
            return given[0] if first else given[1]

    for first in (True, False):
        report = lamina.inspect(Net(), (torch.rand(2, 4), first), health=True)
        back = saved(tmp_path / str(first), report)
        shown = below(back._text(width=120))
        line = next(line for line in shown.splitlines() if "part" in line)
        assert line.rstrip().endswith(" ?") and shown == below(report._text(width=120))


def test_it_prints_what_the_report_of_the_run_printed(tmp_path, net):
    report = lamina.inspect(net, torch.rand(1, 3, 8, 8))
    back = saved(tmp_path, report)
    assert str(back) == str(report).replace("train mode", "train mode · saved")
    for options in (
        {"width": 40, "ascii": True},
        {"exact": True, "expand": True},
        {"depth": 0},
        {"bytes": True, "sort": "flops", "rows": 2},
        {"why": True, "by": "params", "receptive_field": True},
    ):
        assert below(back._text(**options)) == below(report._text(**options)), options
    assert back.to_csv() == report.to_csv()
    assert below(back.to_markdown()) == below(report.to_markdown())
    assert str(back.plot("icicle")) == str(report.plot("icicle"))
    assert str(back.plot("graph", by="params")) == str(report.plot("graph", by="params"))


def test_it_needs_its_file_only_once(tmp_path, net):
    back = saved(tmp_path, lamina.inspect(net, torch.rand(1, 3, 8, 8)))
    (tmp_path / "net.json").unlink()
    html = back._repr_mimebundle_()["text/html"]
    assert html.startswith('<div class="lamina"') and "8.93\u202fK" in html
    assert back.to_html().startswith("<!doctype html>")


def test_memory_and_times_are_shown_if_the_file_has_them(tmp_path, net):
    report = lamina.inspect(net, torch.rand(1, 3, 8, 8), memory=True, health=True, ops=True)
    back = saved(tmp_path, report)
    assert below(str(back)) == below(str(report))
    assert back.to_csv() == report.to_csv() and "memory_peak" in back.to_csv()
    assert str(back.plot("memory")) == str(report.plot("memory"))
    timed = lamina.inspect(net, torch.rand(1, 3, 8, 8), time=True)
    again = saved(tmp_path / "timed", timed)
    assert again.to_csv() == timed.to_csv()
    assert below(str(again)) == below(str(timed)) and ", the median" in str(timed)


def test_times_of_all_runs_together_come_back(tmp_path, net):
    with lamina.capture(net, time=True) as watch:
        for _ in range(3):
            net(torch.rand(1, 3, 8, 8))
    report = watch.report()
    assert below(str(saved(tmp_path, report))) == below(str(report)) and "3 runs together" in str(report)
    older = json.loads(report.to_json())
    del older["time"]["shown"]
    (tmp_path / "older.json").write_text(json.dumps(older))
    assert "medians of 3 runs" in str(lamina.Report.load(tmp_path / "older.json"))


class Apart(nn.Module):
    """A layer whose result has no gradient."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x).detach()


def test_that_no_backward_ran_comes_back(tmp_path):
    report = lamina.inspect(Apart(), torch.rand(2, 4), backward=True)
    assert below(str(saved(tmp_path, report))) == below(str(report)) and "none ran to its end" in str(report)


class Uncalled(nn.Module):
    """Layers in lists whose tensors the model uses itself, some of them tied to those of layers it calls."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.ParameterList([torch.ones(4)]), nn.Linear(4, 4)])
        self.tables, self.head = nn.ModuleList([nn.Embedding(4, 4)]), nn.Linear(4, 4)
        self.head.weight = self.tables[0].weight

    def forward(self, x):
        return self.head(x * self.parts[0][0] @ self.parts[1].weight)


def test_memory_of_layers_without_a_row_is_shown_in_the_row_above(tmp_path):
    model = Uncalled()
    report = lamina.inspect(model, torch.ones(2, 4), memory=True)
    assert [row.path for row in report.rows] == ["", "parts", "tables", "head"]
    told = {each["path"]: each["held"] for each in json.loads(report.to_json())["memory"]["places"]}
    assert told["parts.1"]["parameters"] == 4 * 20
    back = saved(tmp_path, report)
    assert below(str(back)) == below(str(report))
    assert back.to_csv() == report.to_csv()
    diff = report.diff(tmp_path / "net.json")
    assert (diff.changed, diff.equal) == ([], 4)


@pytest.mark.parametrize(("net", "kind"), [(nn.Linear(4, 8), nn.Linear), (nn.LSTM(4, 8), nn.LSTM)])
def test_packed_weights_come_back_with_their_memory(tmp_path, net, kind):
    quantize = pytest.importorskip("torch.ao.quantization").quantize_dynamic
    report = lamina.inspect(quantize(nn.Sequential(net), {kind}), torch.ones(3, 2, 4), memory=True)
    back = saved(tmp_path, report)
    assert back.params == sum(p.numel() for p in net.parameters())
    assert below(str(back)) == below(str(report))


def test_a_step_is_shown_as_it_was(tmp_path, net):
    with lamina.capture(net) as capture:
        net(torch.rand(1, 3, 8, 8)).sum().backward()
    report = capture.report()
    back = saved(tmp_path, report)
    assert below(str(back)) == below(str(report)) and "bwd MACs" in str(back)
    assert back.to_csv() == report.to_csv() and back.backward == report.backward


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r.under("layers"),
        lambda r: r.compare(),
        lambda r: r.graph(),
        lambda r: r.fit(),
        lambda r: r.why("0"),
        lambda r: r.sees("0", 1),
        lambda r: r.time,
        lambda r: r.memory,
        lambda r: r.health,
        lambda r: r.speed(),
        lambda r: r.failure(),
        lambda r: r.to_json(),
        lambda r: r.to_trace(),
        lambda r: r.show(time=True),
    ],
)
def test_what_needs_the_run_says_so(tmp_path, net, ask):
    back = saved(tmp_path, lamina.inspect(net, torch.rand(1, 3, 8, 8)))
    with pytest.raises(ValueError, match=r"net\.json|lamina\.fit\(model, args\)") as told:
        ask(back)
    assert "\n" not in str(told.value)


# -- hostile files -------------------------------------------------------------------------------------------


def broken(change):
    def make(d):
        change(d)
        return d

    return make


def put(path, value):
    def change(d):
        *parents, last = path
        for name in parents:
            d = d[name]
        d[last] = value

    return broken(change)


def drop(*path):
    def change(d):
        *parents, last = path
        for name in parents:
            d = d[name]
        del d[last]

    return broken(change)


HOSTILE = [
    (put(["schema"], "lamina.report/2"), r'its "schema" is not "lamina\.report/1"'),
    (put(["schema"], None), r'its "schema" is not'),
    (drop("schema"), r'its "schema" is not'),
    (drop("rows"), r'it has no list of "rows"'),
    (put(["rows"], {}), r'it has no list of "rows"'),
    (put(["rows"], [7]), r"rows\[0\] has no path"),
    (broken(lambda d: d["rows"].append(d["rows"][1])), r"rows\[\d+\] is the second row of one call"),
    (put(["gaps"], [7]), r"gaps\[0\] is no text"),
    (put(["notes"], "x"), "notes is no list"),
    (put(["unruled"], [{"type": 1, "calls": 1}]), r"unruled\[0\]\.type is no text"),
    (put(["totals", "macs"], 5), r"totals\.macs is no number with its state"),
    (put(["totals", "macs"], {"value": "5", "state": "exact"}), r"totals\.macs\.value is no whole number"),
    (put(["totals", "macs"], {"value": True, "state": "exact"}), r"totals\.macs\.value is no whole number"),
    (put(["totals", "macs"], {"value": 1.5, "state": "exact"}), r"totals\.macs\.value is no whole number"),
    (put(["totals", "macs"], {"value": -5, "state": "exact"}), r"totals\.macs\.value is no whole number"),
    (
        put(["totals", "macs"], {"value": None, "state": "exact"}),
        r"totals\.macs has a value that does not go",
    ),
    (put(["totals", "macs"], {"value": 5, "state": "unknown"}), r"totals\.macs has a value that does not go"),
    (put(["totals", "macs"], {"value": 5, "state": "roughly"}), r"totals\.macs\.state is no known state"),
    (put(["totals", "macs"], {"value": 2**95, "state": "exact"}), r"totals\.macs\.value is larger"),
    (put(["rows", 0, "outputs"], [{"shape": [1, "x"]}]), r"outputs\[0\]\.shape\[1\] is no whole number"),
    (put(["rows", 0, "leaf"], 1), r"rows\[0\]\.leaf is neither true nor false"),
    (put(["provenance"], []), "provenance is no object"),
    (put(["provenance"], {"threads": 2}), r"provenance\.threads is no text"),
    (put(["unused"], [{"path": 3}]), r"unused\[0\]\.path is no text"),
    (put(["time"], {"runs": 2, "shown": {"run": 2}}), r"time\.shown\.run is none of its runs"),
]


@pytest.mark.parametrize(("change", "sentence"), HOSTILE)
def test_a_file_with_something_wrong_in_it_is_refused(tmp_path, net, change, sentence):
    good = json.loads(lamina.inspect(net, torch.rand(1, 3, 8, 8)).to_json())
    (tmp_path / "bad.json").write_text(json.dumps(change(good)))
    with pytest.raises(ValueError, match=sentence) as told:
        lamina.Report.load(tmp_path / "bad.json")
    assert "bad.json" in str(told.value) and "--json" in str(told.value) and "\n" not in str(told.value)


def test_a_configuration_is_called_so(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 64}')
    with pytest.raises(ValueError, match="it is the configuration of a model, a pipeline or a tokenizer"):
        lamina.Report.load(tmp_path / "config.json")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        "7",
        "\xff\xfe",
        "[" * 100_000,
        '{"schema": NaN}',
        '{"schema": ' + "9" * 10_000 + "}",
        "null",
    ],
)
def test_what_is_no_json_or_no_report_is_refused(tmp_path, text):
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"bad\.json: it is no report that lamina saved as JSON") as told:
        lamina.Report.load(path)
    assert len(str(told.value)) < 500


def test_huge_numbers_and_control_characters_are_harmless(tmp_path, net):
    good = json.loads(lamina.inspect(net, torch.rand(1, 3, 8, 8)).to_json())
    good["totals"]["macs"] = {"value": 2**95 - 1, "state": "exact"}
    good["gaps"] = ["b\x1b[31m"]
    good["rows"][1]["name"] = "a\x1b[31m\ud800"
    (tmp_path / "odd.json").write_text(json.dumps(good))
    back = lamina.Report.load(tmp_path / "odd.json")
    assert back.macs == 2**95 - 1 and "\x1b" not in str(back)


def test_a_file_that_is_not_there_or_is_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        lamina.Report.load(tmp_path / "none.json")
    with pytest.raises(IsADirectoryError):
        lamina.Report.load(tmp_path)
