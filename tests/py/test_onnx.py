# SPDX-License-Identifier: Apache-2.0
"""ONNX files that torch's exporters write: costs and parameters are those of the live model."""

import json
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


def test_a_report_of_an_onnx_file_has_every_form(tmp_path):
    model, x = made("pools")
    file = lamina.read(export(model, x, tmp_path / "net.onnx", False))
    assert "<html" in file.to_html()
    assert file.plot("icicle")
    assert '"lamina.report/' in file.to_json()
    file.to_json(tmp_path / "net.json")
    assert lamina.read(tmp_path / "net.json").macs == file.macs


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


def test_words_are_operators_that_onnx_has():
    name = re.compile(r'^NAME\("onnx::(\w+)', re.MULTILINE)
    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
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
