# SPDX-License-Identifier: Apache-2.0
"""ONNX files that torch's exporters write: costs and parameters are those of the live model."""

import json
import math
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import lamina
from lamina._command.cli import main

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")

VOCAB = Path(__file__).parents[2] / "src" / "vocab"
OPERATORS = Path(__file__).parents[2] / "src" / "read" / "onnx" / "operators.def"


class Again(nn.Module):
    """Calls two of its modules twice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.relu = nn.ReLU()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        x = self.relu(self.conv(x))
        x = self.relu(self.conv(x))
        return self.fc(x.mean((2, 3)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 8)
        self.lstm = nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(32, 6, batch_first=True)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        return self.norm(self.gru(self.lstm(self.words(x))[0])[0])


class Pools(nn.Module):
    """Windows of every kind."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 8, (3, 5), stride=2, padding=(1, 2), dilation=(2, 1), groups=2)
        self.max = nn.MaxPool2d(3, 2, 1, ceil_mode=True)
        self.up = nn.ConvTranspose2d(8, 6, 3, stride=2, output_padding=1)
        self.mean = nn.AvgPool2d(2)
        self.line = nn.Conv1d(6, 5, 3, padding=1)

    def forward(self, x):
        x = self.mean(self.up(self.max(self.conv(x))))
        return self.line(x.flatten(2))


def mixed():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(nn.Linear(12, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


MODELS = {
    "again": (Again, (1, 3, 8, 8)),
    "pools": (Pools, (2, 4, 19, 21)),
    "mixed": (mixed, (2, 5, 12)),
    "words": (Words, None),
}


def made(name):
    torch.manual_seed(0)
    build, shape = MODELS[name]
    model = build().eval()
    with torch.no_grad():
        for p in model.parameters():  # exporters store equal tensors once
            p.add_(torch.randn_like(p))
    return model, torch.rand(shape) if shape else torch.randint(50, (2, 7))


def export(model, x, path, dynamo):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = {"external_data": False, "verbose": False} if dynamo else {}
        torch.onnx.export(model, (x,), path, dynamo=dynamo, **more)
    return path


@pytest.mark.parametrize("dynamo", [False, True], ids=["older", "newer"])
@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_costs_what_it_costs_live(name, dynamo, tmp_path):
    model, x = made(name)
    live = lamina.inspect(model, x)
    file = lamina.read(export(model, x, tmp_path / "net.onnx", dynamo))
    assert file.macs == live.macs
    assert file.params == live.params
    assert file.parameters["grad_params"].state == "unknown"
    assert not file.unruled
    of = {(row.path, row.ordinal): row for row in file.rows}
    for row in live.rows:
        if row.params and row.path and row.depth == 1:
            same = of[row.path, row.ordinal]
            assert (same.macs, same.params) == (row.macs, row.params), row.path
            # exporters leave out what turns the axes and turns them back
            assert sorted(same.out_shapes[0]) == sorted(row.out_shapes[0]), row.path


def test_the_newer_exporter_tells_classes(tmp_path):
    model, x = made("again")
    file = lamina.read(export(model, x, tmp_path / "net.onnx", True))
    assert {row.path: row.type for row in file.rows} == {
        "": "Again",
        "conv": "Conv2d",
        "relu": "ReLU",
        "fc": "Linear",
    }


class Reads(nn.Module):
    """Multiplies by parameters of its own, and by those of a layer that it does not call."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 6)
        self.own = nn.Parameter(torch.rand(6, 6))

    def forward(self, x):
        return nn.functional.linear(self.a(x), self.b.weight, self.b.bias) @ self.own


class Alone(nn.Module):
    """Has no layer."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(6, 4))

    def forward(self, x):
        return nn.functional.linear(x, self.w)


def test_what_the_model_does_itself_is_in_its_own_row(tmp_path):
    x = torch.rand(2, 4)
    live = lamina.inspect(Reads().eval(), x)
    file = lamina.read(export(Reads().eval(), x, tmp_path / "net.onnx", True))
    numbers = {row.path: (row.macs, row.params, row.out_shapes) for row in live.rows}
    assert {row.path: (row.macs, row.params, row.out_shapes) for row in file.rows} == numbers
    live = lamina.inspect(Alone().eval(), x)
    file = lamina.read(export(Alone().eval(), x, tmp_path / "alone.onnx", True))
    assert [(row.type, row.macs, row.params) for row in file.rows] == [("Alone", live.macs, 24)]


@pytest.mark.parametrize("dynamo", [False, True], ids=["older", "newer"])
def test_a_module_that_is_called_again_has_two_calls(dynamo, tmp_path):
    model, x = made("again")
    file = lamina.read(export(model, x, tmp_path / "net.onnx", dynamo))
    live = lamina.inspect(model, x)
    assert [(row.path, row.ordinal) for row in file.rows] == [(row.path, row.ordinal) for row in live.rows]


@pytest.mark.parametrize("dynamo", [False, True], ids=["older", "newer"])
def test_a_folded_normalisation_is_part_of_its_convolution(dynamo, tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU()).eval()
    model[1].weight.data.uniform_(1, 2)
    model[1].bias.data.normal_()
    x = torch.rand(1, 3, 8, 8)
    live = lamina.inspect(model, x)
    file = lamina.read(export(model, x, tmp_path / "net.onnx", dynamo))
    assert file.macs == live.macs
    assert file.params == 8 * 27 + 8  # the bias that the normalisation became
    assert {row.path: row.params for row in file.rows if row.params}["0"] == 8 * 27 + 8
    if dynamo:
        assert any("1 batch normalisation is folded" in note for note in file.notes)


def test_fields_of_a_file_are_those_of_the_live_model(tmp_path):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, dilation=2)
    ).eval()
    x = torch.rand(1, 3, 20, 20)
    live = lamina.inspect(model, x)
    file = lamina.read(export(model, x, tmp_path / "net.onnx", False))
    fields = {row.path: (row.rf, row.rf_stride, row.rf_padding) for row in file.rows}
    assert fields == {row.path: (row.rf, row.rf_stride, row.rf_padding) for row in live.rows}


@pytest.mark.parametrize("dynamo", [False, True], ids=["older", "newer"])
@pytest.mark.parametrize("both", [False, True])
def test_a_recurrence_reads_steps_and_not_the_batch(both, dynamo, tmp_path):
    net = nn.Sequential(nn.GRU(8, 16, bidirectional=both)).eval()
    x = torch.rand(6, 2, 8)
    live = lamina.inspect(net, x)
    file = lamina.read(export(net, x, tmp_path / "net.onnx", dynamo))
    read, ran = (
        [[(field["axis"], field["size"], field["reach"]) for field in row.receptive_fields] for row in rows]
        for rows in (file.rows, live.rows)
    )
    assert read == ran == [[(0, 6, "whole" if both else "window")]] * 2


class Token(nn.Module):
    """Puts a parameter of its own in front of each sequence, as a vision transformer does."""

    def __init__(self):
        super().__init__()
        self.token, self.fc = nn.Parameter(torch.rand(1, 1, 8)), nn.Linear(8, 3)

    def forward(self, x):
        return self.fc(torch.cat([self.token.expand(len(x), -1, -1), x], 1))


def test_a_parameter_that_is_repeated_is_one(tmp_path):
    x = torch.rand(2, 5, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = {"x": {0: "batch"}}
        torch.onnx.export(
            Token(), (x,), tmp_path / "net.onnx", dynamo=False, input_names=["x"], dynamic_axes=free
        )
    file = lamina.read(tmp_path / "net.onnx", sizes={"batch": 2})
    assert file.params == lamina.inspect(Token(), x).params == 8 + 27


def test_numbers_in_attributes_are_told(tmp_path):
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Scaler", ["x"], ["y"], domain="ai.onnx.ml", offset=[0.5], scale=[2.0, 3.0, 4.0]),
        make("LinearRegressor", ["y"], ["z"], domain="ai.onnx.ml", coefficients=[1.0, 2.0, 3.0], targets=1),
        make("Binarizer", ["z"], ["o"], domain="ai.onnx.ml", threshold=0.5),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, (2, 3))], [info("o", 1, (2, 1))])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), tmp_path / "s.onnx")
    report = lamina.read(tmp_path / "s.onnx")
    assert report.params == 0
    assert (
        "attributes of 2 operators of ai.onnx.ml have 7 numbers, which are no parameters here" in report.notes
    )


def test_a_report_of_an_onnx_file_has_every_form(tmp_path):
    model, x = made("pools")
    file = lamina.read(export(model, x, tmp_path / "net.onnx", False))
    assert "<html" in file.to_html()
    assert file.plot("icicle")
    assert '"lamina.report/' in file.to_json()
    file.to_json(tmp_path / "net.json")
    assert lamina.read(tmp_path / "net.json").macs == file.macs


def test_tools_that_count_what_torch_runs_dont_count_a_file_of_onnx(tmp_path, capsys):
    model, x = made("pools")
    path = export(model, x, tmp_path / "net.onnx", False)
    for name in ("torch", "fvcore", "ptflops", "deepspeed", "thoplw"):
        assert main(["show", str(path), "-c", name]) == 2
        said = capsys.readouterr().err
        assert "an ONNX file has others; count by exact, layers, torchscan, torchinfo" in said
        assert main(["compare", str(path), "-c", name]) == 2
    for given in ([], ["-c", "all"]):
        assert main(["compare", str(path), *given]) == 0
        said = capsys.readouterr().out
        rows = [line.split()[0] for line in said.splitlines() if line[:1].isalpha()]
        assert rows[:5] == ["tool", "exact", "layers", "torchscan", "torchinfo"]
        assert not {"torch", "fvcore", "ptflops", "deepspeed", "thoplw"} & {*rows}
        assert "left out: thoplw, torch, fvcore, ptflops, deepspeed count operators of torch" in said
        assert "-c all" not in said
    assert [row.convention for row in lamina.read(path).compare().rows] == rows[1:5]


@pytest.mark.parametrize(
    "given", [["-i", "x=5x4x19x21"], ["-i", "5x4x19x21"], ["--set", "n=5"], ["--set", "batch=5"]]
)
def test_open_sizes_are_given(given, tmp_path, capsys):
    model, x = made("pools")
    path = tmp_path / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n"}}}
        torch.onnx.export(model, (x,), path, dynamo=False, **names)
    assert lamina.read(path).macs.state == "unknown"
    live = lamina.inspect(model, torch.rand(5, 4, 19, 21))
    assert main(["show", str(path), *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["macs"]["value"] == int(live.macs)


def costs_of(path, nodes, x, y, weights):
    """Totals of a graph from x to y, with the shapes of its weights and of its layers."""
    helper = onnx.helper
    made = [
        helper.make_tensor(name, kind, shape, bytes(math.prod(shape) * (4 if kind == 1 else 1)), raw=True)
        for name, (kind, shape) in weights.items()
    ]
    ends = [[helper.make_tensor_value_info(name, 1, shape)] for name, shape in (x, y)]
    opsets = [helper.make_opsetid(name, 1) for name in ("com.microsoft", "com.microsoft.nchwc")]
    graph = helper.make_graph(nodes, "g", *ends, made)
    onnx.save(helper.make_model(graph, opset_imports=[*opsets, helper.make_opsetid("", 17)]), path)
    report = lamina.read(path)
    assert not report.unruled
    return report, [row.out_shapes[0] for row in report.rows if row.depth == 1]


def test_convolutions_with_channels_in_blocks_cost_what_they_cost_without(tmp_path):
    node, same = onnx.helper.make_node, {"pads": [1, 1, 1, 1]}
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    blocks = {"domain": "com.microsoft.nchwc"}
    weights = {"w": (1, (32, 3, 3, 3)), "v": (1, (32, 1, 3, 3)), "u": (1, (16, 32, 1, 1))}
    factors = onnx.helper.make_tensor("f", 1, [4], [1, 1, 2, 2])

    def steps(more):
        scaled = {"scales": [1, 1, 2, 2]} if more else {}
        taken = ["c"] if more else ["c", "", "f"]
        return [
            node("Conv", ["x", "w"], ["a"], **same, **more),
            node("MaxPool", ["a"], ["b"], **window, **more),
            node("Conv", ["b", "v"], ["c"], group=32, **same, **more),
            node("Upsample" if more else "Resize", taken, ["d"], mode="nearest", **scaled, **more),
            node("AveragePool", ["d"], ["e"], **window, **more),
            node("Conv", ["e", "u"], ["g"], **more),
            node("GlobalAveragePool", ["g"], ["h" if more else "y"], **more),
        ]

    ends = ("x", (1, 3, 32, 32)), ("y", (1, 16, 1, 1))
    plain = [node("Constant", [], ["f"], value=factors), *steps({})]
    plain, shapes = costs_of(tmp_path / "plain.onnx", plain, *ends, weights)
    turned = [*steps(blocks), node("ReorderOutput", ["h"], ["y"], channels=16, **blocks)]
    turned, sizes = costs_of(tmp_path / "blocks.onnx", turned, *ends, weights)
    assert sizes == [*shapes, (1, 16, 1, 1)]
    assert (turned.macs, turned.flops, turned.params) == (plain.macs, plain.flops, plain.params)


def test_channels_that_fill_no_block_are_padded(tmp_path):
    node, blocks = onnx.helper.make_node, {"domain": "com.microsoft.nchwc"}
    nodes = [
        node("ReorderInput", ["x"], ["a"], **blocks),
        node("Conv", ["a", "w"], ["b"], **blocks),
        node("ReorderOutput", ["b"], ["y"], channels=20, **blocks),
    ]
    ends = ("x", (1, 20, 8, 8)), ("y", (1, 20, 6, 6))
    report, sizes = costs_of(tmp_path / "net.onnx", nodes, *ends, {"w": (1, (24, 24, 3, 3))})
    assert sizes == [(1, 24, 8, 8), (1, 24, 6, 6), (1, 20, 6, 6)]
    assert int(report.macs) == 24 * 6 * 6 * 24 * 9


def test_a_quantised_lstm_multiplies_as_the_plain_one(tmp_path):
    node = onnx.helper.make_node
    ends = ("x", (7, 2, 8)), ("y", (7, 1, 2, 16))
    weights = {"w": (1, (1, 64, 8)), "r": (1, (1, 64, 16)), "b": (1, (1, 128))}
    plain = [node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=16)]
    plain, _ = costs_of(tmp_path / "plain.onnx", plain, *ends, weights)
    weights = {"w": (3, (1, 8, 64)), "r": (3, (1, 16, 64)), "b": (1, (1, 128))}
    weights |= {"s": (1, (1,)), "z": (3, (1,))}
    taken = ["x", "w", "r", "b", "", "", "", "", "s", "z", "s", "z"]
    quick = [node("DynamicQuantizeLSTM", taken, ["y"], hidden_size=16, domain="com.microsoft")]
    quick, sizes = costs_of(tmp_path / "quick.onnx", quick, *ends, weights)
    assert sizes == [(7, 1, 2, 16)]
    assert (quick.macs, quick.flops, quick.params) == (plain.macs, plain.flops, plain.params)
    assert int(quick.macs) == 7 * 2 * 64 * (8 + 16)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_a_causal_convolution_is_one_of_each_channel(tmp_path, domain):
    nodes = [onnx.helper.make_node("CausalConvWithState", ["x", "w"], ["y", "s"], domain=domain)]
    ends = ("x", (2, 6, 9)), ("y", (2, 6, 9))
    report, _ = costs_of(tmp_path / "net.onnx", nodes, *ends, {"w": (1, (6, 1, 4))})
    assert int(report.macs) == 2 * 6 * 9 * 4


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
@pytest.mark.parametrize("rule, of_keys", [("linear", 1), ("gated", 1), ("delta", 2), ("gated_delta", 2)])
def test_a_linear_attention_multiplies_with_its_states(tmp_path, domain, rule, of_keys):
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    weights = {"k": (1, (2, 7, 12)), "v": (1, (2, 7, 10))}
    nodes = [onnx.helper.make_node("LinearAttention", ["x", "k", "v"], ["y", "s"], domain=domain, **heads)]
    ends = ("x", (2, 7, 24)), ("y", (2, 7, 20))
    report, sizes = costs_of(tmp_path / "net.onnx", nodes, *ends, weights)
    assert sizes == [(2, 7, 20)]
    assert int(report.macs) == 2 * 7 * 6 * 5 * (2 * of_keys + 4)


def test_words_are_operators_that_onnx_has():
    name = re.compile(r'^NAME\("onnx::(\w+)', re.MULTILINE)
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
    known.add("SimplifiedLayerNormalization")  # ONNX Runtime has it in the domain of ONNX
    words = set(name.findall((VOCAB / "names_onnx.def").read_text()))
    assert words <= known
    rows = re.findall(r'^OPERATOR\("", "(\w+)"', OPERATORS.read_text(), re.MULTILINE)
    assert set(rows) <= known
    assert rows == sorted(rows)


def test_shapes_of_inputs_can_be_given_by_name_or_in_order():
    files = Path(__file__).parents[1] / "data" / "files"
    for inputs in (
        {"x": (2, 4), "q": [2, 4], "flag": "scalar:bool=1"},
        {"x": torch.empty(2, 4), "q": "2x4", "flag": "scalar:bool=1"},
        ["2x4", (2, 4), (3,), "scalar:bool=1"],
    ):
        report = lamina.read(files / "odd.onnx", inputs=inputs)
        assert (int(report.macs), report.macs.state) == (64, "exact")
    with pytest.raises(lamina.LaminaError, match="has no input"):
        lamina.read(files / "odd.onnx", inputs={"nothing": (2, 4)})
    with pytest.raises(lamina.LaminaError, match="its inputs have the sizes that the file says"):
        lamina.read(files / "net.pt2", inputs=[(2, 4)])


def open_to(path, model, x, **names):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (x,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": names["axes"]}
        )
    return path


def test_totals_of_one_open_size_are_known_without_its_value(tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(2)).eval()
    path = open_to(tmp_path / "net.onnx", net, torch.rand(1, 3, 8, 8), axes={0: "n", 2: "high"})
    assert lamina.read(path).per == {}
    per = lamina.read(path, sizes={"high": 8}).per
    assert {name: growth.value for name, growth in per.items()} == {"n": None, "high": 8}
    assert per["high"].numbers["macs"] == ("unknown", None, None)
    assert per["n"].numbers["macs"] == ("linear", int(lamina.inspect(net, torch.rand(1, 3, 8, 8)).macs), 0)


@pytest.mark.parametrize("given", [{"inputs": {"x": (5, 3, 8, 8)}}, {"inputs": [(5, 3, 8, 8)]}])
def test_a_size_that_a_shape_gives_can_grow(given, tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    for axes in ({0: "n"}, {0: "batch"}):
        path = open_to(tmp_path / "net.onnx", net, torch.rand(1, 3, 8, 8), axes=axes)
        growth = lamina.read(path, **given).per[axes[0]]
        assert (growth.value, growth.numbers["macs"]) == (5, ("linear", 27 * 4 * 36, 0))


def test_sizes_without_a_name_are_axes(tmp_path):
    path = open_to(tmp_path / "net.onnx", nn.Conv1d(3, 4, 3), torch.rand(1, 3, 8), axes={0: "n", 2: "w"})
    graph = onnx.load(path)
    for axis in (0, 2):
        graph.graph.input[0].type.tensor_type.shape.dim[axis].Clear()
    onnx.save(graph, path)
    for given in ({"inputs": {"x": (2, 3, 10)}}, {"sizes": {"batch": 2, "x.2": 10}}):
        report = lamina.read(path, **given)
        assert int(report.macs) == 2 * 8 * 36
        assert {name: of.numbers["macs"] for name, of in report.per.items()} == {
            "batch": ("linear", 8 * 36, 0),
            "x.2": ("linear", 2 * 36, -2 * 2 * 36),
        }
        assert "MACs 72 x x.2 - 144" in str(report)


def test_a_file_that_fits_one_value_alone_says_so(tmp_path):
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            return self.fc(x).reshape(3, 2) @ torch.ones(2, 2)

    path = open_to(tmp_path / "net.onnx", Fixed(), torch.rand(3, 4), axes={0: "n"})
    report = lamina.read(path, sizes={"n": 3})
    assert report.macs.state == "exact"
    assert report.per["n"].numbers["macs"].grows == "unknown"
    assert "not known at another n" in str(report)


class Normed(nn.Module):
    """Convolutions with and without a bias, normalised, and a layer more."""

    def __init__(self, *, last=False):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.conv, self.bn = nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4)
        self.norm = nn.BatchNorm2d(4) if last else nn.Identity()
        for norm in (self.stem[1], self.bn):
            nn.init.uniform_(norm.bias, 1, 2)

    def forward(self, x):
        return self.norm(torch.relu(self.bn(self.conv(self.stem(x)))))


def test_folded_normalisations_explain_a_difference(tmp_path):
    net, x = Normed().eval(), torch.rand(2, 3, 8, 8)
    live = lamina.inspect(net, x)
    for dynamo in (False, True):
        file = lamina.read(export(net, x, tmp_path / "net.onnx", dynamo))
        less = int(live.flops) - int(file.flops)
        assert int(file.params) - int(live.params) == 8 - 24
        there, back = live.diff(file), file.diff(live)
        for diff in (there, back):
            (sentence,) = diff.explained
            assert sentence.endswith(
                "has 2 BatchNorm2d folded into their convolutions: 24 parameters less, 8 more in 1 bias in "
                f"their place; {less:,} FLOPs less."
            )
            assert sentence in str(diff)
        assert {module.before_path for module in there.removed} >= {"stem.1", "bn"}
        assert {module.path for module in there.changed} == {"stem.0"}  # an unknown class is no change


def test_what_folding_does_not_explain_is_not_said_to_be_folded(tmp_path):
    x = torch.rand(2, 3, 8, 8)
    file = lamina.read(export(Normed().eval(), x, tmp_path / "net.onnx", False))
    other = Normed().eval()
    other.conv = nn.Conv2d(8, 4, 1, groups=2)
    more = Normed().eval()
    more.extra = nn.Linear(3, 2)
    for net in (other, more):
        assert lamina.inspect(net, x).diff(file).explained == []
    again = lamina.read(export(Normed(last=True).eval(), x, tmp_path / "last.onnx", False))
    kept = lamina.inspect(Normed(last=True).eval(), x).diff(again).explained
    assert "has 2 BatchNorm2d folded" in kept[0]
    without = Normed().eval()
    without.stem[1] = without.bn = nn.Identity()
    assert lamina.inspect(Normed().eval(), x).diff(lamina.inspect(without, x)).explained == []


class Detector(nn.Module):
    """Two scales of an image, as in detectors that take images of any size."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.SiLU(), nn.MaxPool2d(5, 1, 2))
        self.up = nn.Upsample(scale_factor=2)
        self.heads = nn.ModuleList([nn.Conv2d(24, 6, 1), nn.Conv2d(16, 6, 1)])

    def forward(self, images):
        high = self.stem(images)
        low = self.down(high)
        maps = self.heads[0](torch.cat([high, self.up(low)], 1)), self.heads[1](low)
        found = torch.cat([m.view(m.shape[0], 6, -1) for m in maps], 2)
        boxes, scores = found.split((4, 2), 1)
        return torch.cat([boxes.softmax(1), scores.sigmoid()], 1)


@pytest.mark.parametrize("dynamo", [False, True], ids=["older", "newer"])
def test_a_detector_of_any_size_is_a_whole_table_at_one_size(dynamo, tmp_path, capsys):
    net, path = Detector().eval(), tmp_path / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            names = {"dynamic_shapes": ({0: "n", 2: "height", 3: "width"},)}
        else:
            names = {"dynamic_axes": {"images": {0: "n", 2: "height", 3: "width"}}}
        torch.onnx.export(
            net, (torch.rand(2, 3, 32, 64),), path, dynamo=dynamo, input_names=["images"], **names
        )
    capsys.readouterr()  # what the exporter says
    assert main(["show", str(path), "-i", "images=1x3x96x64", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    live = lamina.inspect(net, torch.rand(1, 3, 96, 64))
    assert report["totals"]["macs"] == {"value": int(live.macs), "state": "exact"}
    assert report["totals"]["flops"]["state"] == "exact"
    assert not report["gaps"]
    assert all(row["outputs"][0]["shape"] for row in report["rows"] if row.get("outputs"))
    per = {of["size"]: of["macs"] for of in report["per"]}
    assert [of["value"] for of in report["per"]] == [1, 96, 64]
    assert next(iter(per.values())) == {"grows": "linear", "each": int(live.macs), "fixed": 0}
    assert [of["grows"] for of in per.values()] == ["linear", "otherwise", "otherwise"]


@pytest.mark.parametrize(("new", "past"), [(5, 0), (1, 7), (3, 4)])
def test_attention_with_a_cache_counts_as_the_live_one(tmp_path, new, past):
    heads, groups, width = 4, 2, 8
    total = past + new
    cache = {f"past_{part}": (1, groups, past, width) for part in ("key", "value")}
    sizes = {
        "q": (1, new, heads * width),
        "k": (1, new, groups * width),
        "v": (1, new, groups * width),
    } | cache
    info = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in sizes.items()]
    info.append(onnx.helper.make_tensor_value_info("mask", 7, (1, total)))
    made = onnx.helper.make_node
    nodes = [
        made("Shape", ["mask"], ["shape"]),
        made("Gather", ["shape", "one"], ["all"]),
        made("Cast", ["all"], ["total"], to=6),
        made("Sub", ["total", "one32"], ["lengths"]),
        made(
            "GroupQueryAttention",
            [*sizes, "lengths", "total"],
            ["y", "key", "value"],
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=groups,
        ),
    ]
    ones = [onnx.helper.make_tensor("one", 7, [], [1]), onnx.helper.make_tensor("one32", 6, [1], [1])]
    results = [onnx.ValueInfoProto(name=name) for name in ("y", "key", "value")]
    graph = onnx.helper.make_graph(nodes, "g", info, results, ones)
    path = tmp_path / "cache.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    report = lamina.read(path)

    class Live(torch.nn.Module):
        def forward(self, q, k, v):
            seen = torch.ones(new, total, dtype=torch.bool).tril(past)
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, seen, enable_gqa=True)

    keys = torch.rand(1, groups, total, width)
    live = lamina.inspect(Live(), (torch.rand(1, heads, new, width), keys, keys))
    assert (int(report.macs), report.macs.state) == (int(live.macs), "exact")
    assert int(report.effective_macs) == int(live.effective_macs)
