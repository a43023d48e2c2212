# SPDX-License-Identifier: Apache-2.0
"""Models that are read from files: what is in them is as in the live model, and the rest is unknown."""

import json
import math
import os
import pickle
import struct
import subprocess
import sys
import types
import warnings
import zipfile
from collections import OrderedDict, namedtuple

import pytest
import torch
from torch import nn

import lamina
from lamina._base.errors import UnsupportedError
from lamina._command.cli import main

onnx = pytest.importorskip("onnx")

NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        place = [len(data), len(data) + len(values)]
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": place}
        data += values
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))


def test_a_file_has_the_parameters_of_the_live_model(tmp_path, net):
    live = lamina.inspect(net, torch.rand(1, 3, 8, 8))
    report = lamina.read(safetensors(tmp_path / "net", net.state_dict()))
    assert report.params == live.params
    assert report.parameters["param_bytes"] == live.parameters["param_bytes"]
    assert report.parameters["buffers"] == live.parameters["buffers"]
    of = {row.path: row for row in report.rows}
    for row in live.rows:
        if row.params:
            assert (of[row.path].params, of[row.path].param_bytes) == (row.params, row.param_bytes)
            assert of[row.path].type == "?"


def test_what_the_file_does_not_tell_is_unknown(tmp_path, net):
    report = lamina.read(safetensors(tmp_path / "net", net.state_dict()))
    assert report.macs.state == report.flops.state == "unknown"
    assert report.parameters["grad_params"].state == "unknown"
    assert any("no graph" in gap for gap in report.gaps)
    assert not report.unruled
    assert "MACs not known" in str(report)
    assert report.provenance["format"] == "safetensors"
    for what in (report.graph, report.speed, report.failure, lambda: report.sees("0", 0)):
        with pytest.raises(ValueError, match="nothing of a file is run"):
            what()
    for name in ("time", "memory"):
        with pytest.raises(ValueError, match="nothing of a file is run"):
            getattr(report, name)
    with pytest.raises(ValueError, match=r"lamina\.read\(path, health=True\)"):
        _ = report.health


def test_files_and_runs_are_compared(tmp_path, net):
    file = lamina.read(safetensors(tmp_path / "net", net.state_dict()))
    net[4] = nn.Linear(288, 8)
    later = lamina.read(safetensors(tmp_path / "later", net.state_dict()))
    assert "4" in str(file.diff(later))
    live = lamina.inspect(net, torch.rand(1, 3, 8, 8))
    assert "params" in str(file.diff(live))
    assert "<html" in file.to_html()
    assert file.plot("icicle")


def test_the_order_of_tensors_in_a_file_is_no_difference(tmp_path, net):
    state = net.state_dict()
    turned = safetensors(tmp_path / "turned", dict(reversed(state.items())))
    change = lamina.read(safetensors(tmp_path / "net", state)).diff(lamina.read(turned))
    assert "Nothing differs" in str(change)
    rows = json.loads(lamina.read(turned).to_json())["rows"]
    assert next(row for row in rows if row["path"] == "1")["attributes"]["dtype"] == "float32 int64"


@pytest.mark.parametrize("allowed", [[], ["--allow-incomplete"]])
def test_what_a_file_does_not_tell_is_within_no_limit(tmp_path, capsys, net, allowed):
    path = str(safetensors(tmp_path / "net", net.state_dict()))
    assert main(["check", path, "--max", "macs=1T", *allowed]) == 1
    assert "macs  ?, limit 1T, not complete: it is not known" in capsys.readouterr().out
    assert main(["check", path, "--max", "params=1T", *allowed]) == 0


def test_the_page_of_a_file_has_its_name(tmp_path, net):
    path = safetensors(tmp_path / "a<b>.safetensors", net.state_dict())
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    assert "<title>a&lt;b&gt;.safetensors · lamina report</title>" in (tmp_path / "page.html").read_text(
        "utf-8"
    )


def test_a_saved_report_of_a_file_prints_what_the_file_printed(tmp_path, net):
    report = lamina.read(safetensors(tmp_path / "net", net.state_dict()))
    report.to_json(tmp_path / "net.json")
    saved = lamina.read(tmp_path / "net.json")
    assert saved.params == report.params
    assert str(saved).split("\n", 1)[1] == str(report).split("\n", 1)[1]
    assert {row.status if hasattr(row, "status") else "" for row in saved.rows} == {
        row.status if hasattr(row, "status") else "" for row in report.rows
    }


def test_json_of_a_file_is_valid(tmp_path, net):
    report = lamina.read(safetensors(tmp_path / "net", net.state_dict()))
    told = json.loads(report.to_json())
    assert told["totals"]["macs"]["value"] is None
    assert told["provenance"]["weights"].startswith("32.0 bits a weight")
    row = next(row for row in told["rows"] if row["path"] == "1")
    assert row["status"] == "not seen"
    assert row["attributes"]["dtype"] == "float32 int64"
    assert row["params"]["value"] == 16


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_has_the_parameters_of_the_live_model(tmp_path, net, zipped):
    live = lamina.inspect(net, torch.rand(1, 3, 8, 8))
    state = net.state_dict()
    state["tied"] = state["4.weight"]
    training = {"epoch": 3, "state": state, "optimizer": torch.optim.Adam(net.parameters()).state_dict()}
    torch.save(training, tmp_path / "net.pt", _use_new_zipfile_serialization=zipped)
    report = lamina.read(tmp_path / "net.pt")
    assert report.params == live.params
    assert report.parameters["param_bytes"] == live.parameters["param_bytes"]
    assert report.parameters["buffers"] == live.parameters["buffers"]
    assert any("'state'" in note for note in report.notes)
    assert main(["scan", str(tmp_path / "net.pt")]) == 0


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_that_python_2_wrote_has_its_tensors(tmp_path, net, zipped):
    class Old(pickle.Pickler):
        def reducer_override(self, obj):
            pairs = type(obj) is OrderedDict
            return (OrderedDict, ([list(item) for item in obj.items()],)) if pairs else NotImplemented

    told = {"state_dict": OrderedDict(net.state_dict())}
    old = types.SimpleNamespace(Pickler=Old, dump=pickle.dump, __name__="old")
    torch.save(told, tmp_path / "net.pt", pickle_module=old, _use_new_zipfile_serialization=zipped)
    report = lamina.read(tmp_path / "net.pt")
    assert report.params == sum(p.numel() for p in net.parameters())
    assert {row.path for row in report.rows} == {"", "0", "1", "4"}


Pair = namedtuple("Pair", "first second")


def test_objects_that_arguments_make_are_looked_into(tmp_path):
    class Old(pickle.Pickler):
        def reducer_override(self, obj):
            return (nn.Parameter, (obj.data, True)) if type(obj) is nn.Parameter else NotImplemented

    old = types.SimpleNamespace(Pickler=Old, dump=pickle.dump, __name__="old")
    pair = Pair(torch.ones(3), nn.Parameter(torch.ones(4)))
    torch.save({"pair": pair, "again": pair, "weight": pair.second}, tmp_path / "net.pt", pickle_module=old)
    report = lamina.read(tmp_path / "net.pt")
    assert report.params == 7
    assert {row.path for row in report.rows} == {"", "pair"}
    deep = ()
    for _ in range(200):
        deep = Pair(deep, 1)
    torch.save({"weight": torch.ones(5), "deep": deep}, tmp_path / "deep.pt")
    assert lamina.read(tmp_path / "deep.pt").params == 5


def test_a_file_of_arrays_says_so(tmp_path):
    numpy = pytest.importorskip("numpy")
    torch.save({"a": numpy.ones(3), "b": {"c": numpy.ones((2, 2))}}, tmp_path / "arrays.pt")
    assert "it has 2 arrays of NumPy, which are not read" in lamina.read(tmp_path / "arrays.pt").notes
    torch.save({"a": numpy.ones(3), "b": torch.ones(2)}, tmp_path / "both.pt")
    assert not any("NumPy" in note for note in lamina.read(tmp_path / "both.pt").notes)


def test_a_module_that_was_saved_whole_has_its_classes(tmp_path, net):
    torch.save(net, tmp_path / "net.pt")
    report = lamina.read(tmp_path / "net.pt")
    assert [row.type for row in report.rows] == [type(m).__name__ for m in net.modules()]
    assert report.params == sum(p.numel() for p in net.parameters())
    assert main(["scan", str(tmp_path / "net.pt")]) == 0


def test_scripted_modules_have_their_tree(tmp_path, net):
    torch.jit.script(net).save(str(tmp_path / "net.pt"))
    report = lamina.read(tmp_path / "net.pt")
    assert report.params == sum(p.numel() for p in net.parameters())
    assert [row.type for row in report.rows][1:] == [type(m).__name__ for m in net]
    assert main(["scan", str(tmp_path / "net.pt")]) == 0


def test_of_a_training_by_lightning_the_model_is_shown(tmp_path, net):
    saved = {"state_dict": net.state_dict(), "pytorch-lightning_version": "2.6.6", "epoch": 1}
    saved["callbacks"] = {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}}
    saved["optimizer_states"] = [torch.optim.Adam(net.parameters()).state_dict()]
    torch.save(saved, tmp_path / "net.ckpt")
    report = lamina.read(tmp_path / "net.ckpt")
    assert report.params == sum(p.numel() for p in net.parameters())
    assert report.rows[1].path == "0"
    assert any("Lightning keeps" in note for note in report.notes)


def test_weights_of_a_frozen_module_are_constants(tmp_path, net):
    torch.jit.freeze(torch.jit.script(net.eval())).save(str(tmp_path / "net.pt"))
    report = lamina.read(tmp_path / "net.pt", health=True)
    conv, linear = net[0], net[4]  # the normalisation is folded into the convolution
    assert (
        report.params == conv.weight.numel() + conv.out_channels + linear.weight.numel() + linear.out_features
    )
    assert any("constants of its program" in note for note in report.notes)


def test_a_sharded_checkpoint_of_torch_says_what_it_is(tmp_path, capsys, net):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    checkpoint.save({"model": net.state_dict()}, checkpoint_id=tmp_path / "run", no_dist=True)
    with pytest.raises(UnsupportedError, match="whose pieces are not read") as refused:
        lamina.read(tmp_path / "run")
    assert "dcp_to_torch" in str(refused.value)
    checkpoint.save(
        {"w": torch.ones(3)}, checkpoint_id=tmp_path / "one", no_dist=True
    )  # a whole file of torch.save
    for folder in ("run", "one"):
        for path in (tmp_path / folder / ".metadata", *(tmp_path / folder).glob("*.distcp")):
            with pytest.raises(UnsupportedError, match="a file of a checkpoint") as refused:
                lamina.read(path)
            assert f"dcp_to_torch {tmp_path / folder} FILE" in str(refused.value)
            assert main(["diff", str(path), str(path), "--weights"]) == 3
            assert "a file of a checkpoint of torch.distributed" in capsys.readouterr().err


def test_a_quantised_layer_that_was_saved_whole_has_its_weight(tmp_path):
    net = nn.Sequential(nn.Linear(4, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    torch.save(quantised, tmp_path / "net.pt")
    torch.save(
        {"weight": torch.quantize_per_tensor(torch.rand(4, 4), 0.1, 0, torch.qint8)}, tmp_path / "state.pt"
    )
    report = lamina.read(tmp_path / "net.pt")
    assert (report.params, report.parameters["param_bytes"]) == (4 * 8 + 8, 4 * 8 + 8 * 4)
    assert lamina.read(tmp_path / "state.pt").params == 16


def test_the_state_of_an_optimizer_is_no_model(tmp_path, net):
    optimizer = torch.optim.Adam(net.parameters())
    for weight in net.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    report = lamina.read(tmp_path / "optimizer.pt")
    assert report.params == 0
    assert "it is the state of an optimizer, whose tensors are no parameters" in report.notes


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("net/data/aotinductor/model/net.wrapper.so", "a package of AOTInductor"),
        ("MAR-INF/MANIFEST.json", "an archive of TorchServe"),
        ("net/.data/extern_modules", "a package of torch.package"),
        ("model.weights.h5", "a file of Keras"),
        ("weight.npy", "a file of NumPy's arrays"),
        ("net.pt", "unpack it and give one of them"),
    ],
)
def test_zip_files_of_others_are_called_what_they_are(tmp_path, entry, says):
    with zipfile.ZipFile(tmp_path / "net.zip", "w") as made:
        made.writestr(entry, b"")
    with pytest.raises(UnsupportedError, match=says):
        lamina.read(tmp_path / "net.zip")


def test_a_zip_file_that_is_cut_off_behind_another_in_it_says_so(tmp_path):
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as made:
        made.writestr("a", b"a")
    with zipfile.ZipFile(tmp_path / "net.pt2", "w") as made:
        made.writestr("net/inner.zip", (tmp_path / "inner.zip").read_bytes())
        made.writestr("net/other", b"b" * 100)
    (tmp_path / "cut.pt2").write_bytes((tmp_path / "net.pt2").read_bytes()[:-150])
    with pytest.raises(ValueError, match="no directory at its end: it is cut off"):
        lamina.read(tmp_path / "cut.pt2")


class Attack:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("protocol", range(6))
def test_scan_finds_what_runs_code(tmp_path, capsys, protocol):
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps({"a": [Attack()]}, protocol=protocol))
    torch.save({"a": Attack()}, tmp_path / "net.pt", pickle_protocol=max(protocol, 2))
    for name in ("plain.pkl", "net.pt"):
        assert main(["scan", str(tmp_path / name)]) == 1
        assert "runs code      posix.system" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_scan_of_models_that_are_to_be_quantised(tmp_path, capsys):
    from torch.ao.nn.quantized import FloatFunctional
    from torch.ao.quantization import DeQuantStub, QuantStub, convert, default_qconfig, fuse_modules, prepare

    layers = [QuantStub(), nn.Conv2d(3, 4, 3), nn.ReLU(), DeQuantStub(), FloatFunctional()]
    net = fuse_modules(nn.Sequential(*layers).eval(), [["1", "2"]])
    torch.save(net, tmp_path / "fused.pt")
    assert main(["scan", str(tmp_path / "fused.pt")]) == 0
    net[:4].qconfig = net.qconfig = default_qconfig
    packed = convert(prepare(net))
    torch.save(packed, tmp_path / "packed.pt")
    torch.save(packed.state_dict(), tmp_path / "state.pt")
    assert main(["scan", str(tmp_path / "state.pt")]) == 0
    capsys.readouterr()
    assert main(["scan", str(tmp_path / "packed.pt")]) == 1  # loading it packs weights in native code
    said = capsys.readouterr().out
    assert "conv_relu.ConvReLU2d" in said and "Quantize" not in said


@pytest.mark.skipif(os.name == "nt", reason="no name of a file has such characters there")
def test_names_make_no_lines_of_their_own(tmp_path, capsys):
    path = tmp_path / "a\nother.pt"
    path.write_bytes(b"\x80\x04\x8c\x08os\n  no\x1b\x8c\x01x\x93.")
    assert main(["scan", str(path)]) == 1
    said = capsys.readouterr().out
    assert not any(line.lstrip().startswith(("other", "no")) for line in said.splitlines())
    assert "\x1b" not in said and "a?other.pt" in said and "os?  no?.x" in said


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_bytes_are_those_of_the_types(tmp_path, dtype):
    weight = torch.zeros(6, 7, dtype=dtype)
    report = lamina.read(safetensors(tmp_path / "net", {"fc.weight": weight}))
    assert report.parameters["param_bytes"] == math.prod(weight.shape) * weight.element_size()


def test_wrong_files_are_refused(tmp_path, net):
    whole = safetensors(tmp_path / "net", net.state_dict())
    whole.write_bytes(whole.read_bytes()[:-1])
    with pytest.raises(ValueError, match="behind the end"):
        lamina.read(whole)
    with pytest.raises(FileNotFoundError, match="no file"):
        lamina.read(tmp_path / "none")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="no model file"):
        lamina.read(tmp_path / "folder")
    with pytest.raises(TypeError):
        lamina.read(7)
    (tmp_path / "letter").write_text("Dear all")
    with pytest.raises(ValueError, match="first bytes"):
        lamina.read(tmp_path / "letter")


def test_reading_does_not_import_torch(tmp_path, net):
    safetensors(tmp_path / "net", net.state_dict())
    program = "import sys, lamina; print(lamina.read('net').params, 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    params = sum(p.numel() for p in net.parameters())
    assert done.stdout.split() == [str(params), "False"]


@pytest.mark.parametrize("form", ["safetensors", "zip", "legacy"])
def test_weights_that_are_not_finite_are_found(tmp_path, net, form):
    state = net.state_dict()
    state["0.weight"][2, 1, 0, 2] = math.nan
    state["4.bias"][1:3] = -math.inf
    file = tmp_path / "net"
    if form == "safetensors":
        safetensors(file, state)
    else:
        torch.save(state, file, _use_new_zipfile_serialization=form == "zip")
    report = lamina.read(file, health=True)
    first, second = report.health.findings
    assert (first.path, first.owned, first.nan, first.first) == ("0", "weight", 1, (2, 1, 0, 2))
    assert (second.path, second.owned, second.inf, second.first) == ("4", "bias", 2, (1,))
    states = {row["path"]: row["health"]["forward"] for row in json.loads(report.to_json())["rows"]}
    assert (states[""], states["0"], states["1"], states["4"]) == ("passed", "born", "fine", "born")
    assert "NaN first in 0 (?), which has it in its weight: 1 of 216 elements" in str(report)
    assert main(["show", str(file), "--health"]) == 1
    report.to_json(tmp_path / "saved.json")
    saved = lamina.Report.load(tmp_path / "saved.json")
    assert (
        str(saved).partition("\n")[2] == str(report).partition("\n")[2]
    )  # the first line says that it is one
    assert "born here" in str(saved)


class Views(nn.Module):
    """Parameters and buffers that are views of larger storages, tied, and a mask."""

    def __init__(self):
        super().__init__()
        whole = torch.arange(20.0)
        whole[0], whole[7] = math.nan, math.inf
        self.part = nn.Parameter(whole[5:11].reshape(2, 3))
        self.turned = nn.Parameter(torch.arange(12.0).reshape(3, 4).t())
        self.register_buffer("mask", torch.full((2, 2), -math.inf))
        self.first = nn.Linear(4, 3)
        self.again = nn.Linear(4, 3)
        self.again.weight = self.first.weight
        with torch.no_grad():
            self.turned[3, 2] = math.nan
            self.first.weight[1, 1] = math.nan

    def forward(self, x):
        return self.first(x) + self.again(x) @ self.turned[:3] + self.part.sum() + self.mask.sum()


@pytest.mark.filterwarnings("ignore:No complete tensor")
def test_weights_of_an_exported_program_are_checked(tmp_path):
    program = torch.export.export(Views(), (torch.rand(2, 4),))
    torch.export.save(program, tmp_path / "net.pt2")
    report = lamina.read(tmp_path / "net.pt2", health=True)
    found = {(f.path, f.owned): (f.nan, f.inf, f.first) for f in report.health.findings}
    assert found == {
        ("", "part"): (0, 1, (0, 2)),
        ("", "turned"): (1, 0, (3, 2)),
        ("first", "weight"): (1, 0, (1, 1)),
    }
    states = {row["path"]: row["health"]["forward"] for row in json.loads(report.to_json())["rows"]}
    assert states == {"": "born", "first": "born", "again": "born"}  # a tied weight is the weight of both
    assert report.macs == lamina.read(tmp_path / "net.pt2").macs
    assert main(["show", str(tmp_path / "net.pt2"), "--health"]) == 1
    report.to_json(tmp_path / "saved.json")
    saved = lamina.Report.load(tmp_path / "saved.json")
    assert str(saved).partition("\n")[2] == str(report).partition("\n")[2]


def test_values_that_an_exported_program_does_not_have_are_unknown(tmp_path):
    torch.export.save(torch.export.export(nn.Linear(4, 3), (torch.rand(2, 4),)), tmp_path / "net.pt2")
    with zipfile.ZipFile(tmp_path / "net.pt2") as of, zipfile.ZipFile(tmp_path / "bare.pt2", "w") as to:
        for name in of.namelist():
            if not name.endswith("weights/weight_0"):
                to.writestr(name, of.read(name))
    report = lamina.read(tmp_path / "bare.pt2", health=True)
    assert report.health.sentence == "no NaN or Inf in 1 tensor; 1 could not be checked"
    assert [row["health"]["forward"] for row in json.loads(report.to_json())["rows"]] == ["unknown"]
    assert any("(float32) are not checked: the file does not have them" in note for note in report.notes)


def test_weights_of_onnx_are_checked_wherever_the_file_has_them(tmp_path):
    helper, types = onnx.helper, onnx.TensorProto
    wide = torch.arange(12.0).reshape(3, 4)
    wide[1, 2] = math.nan
    mask = onnx.numpy_helper.from_array(torch.full((2, 4), -math.inf).numpy(), "mask")
    stored = [
        onnx.numpy_helper.from_array(wide.numpy(), "raw.weight"),
        helper.make_tensor("listed.bias", types.FLOAT, [4], [1.0, math.inf, 2.0, -math.inf]),
        helper.make_tensor("half.bias", types.FLOAT16, [4], [1.0, 2.0, 3.0, math.nan]),
        helper.make_tensor("fine.bias", types.FLOAT, [4], [1.0, 2.0, 3.0, 4.0]),
        mask,
        types(name="far.bias", data_type=types.FLOAT, dims=[4], data_location=types.EXTERNAL),
    ]
    stored[-1].external_data.add(key="location", value="elsewhere.bin")
    nodes = [
        helper.make_node("MatMul", ["x", "raw.weight"], ["0"]),
        helper.make_node("Cast", ["half.bias"], ["wide"], to=types.FLOAT),
        *(
            helper.make_node("Add", [str(i), name], [str(i + 1)])
            for i, name in enumerate(["listed.bias", "wide", "fine.bias", "mask", "far.bias"])
        ),
    ]
    ends = [helper.make_tensor_value_info(n, types.FLOAT, [2, k]) for n, k in (("x", 3), ("5", 4))]
    model = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], stored))
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    report = lamina.read(tmp_path / "net.onnx", health=True)
    found = {(f.path, f.owned): (f.nan, f.inf, f.first) for f in report.health.findings}
    assert found == {
        ("raw", "weight"): (1, 0, (1, 2)),
        ("listed", "bias"): (0, 2, (1,)),
        ("half", "bias"): (1, 0, (3,)),
    }
    states = {row["path"]: row["health"]["forward"] for row in json.loads(report.to_json())["rows"]}
    assert (states["fine"], states["far"], states["half"]) == ("fine", "unknown", "born")
    assert any("far.bias (float32) are not checked: they are in another file" in n for n in report.notes)
    assert main(["show", str(tmp_path / "net.onnx"), "--health"]) == 1


def test_a_layer_that_has_a_nan_is_not_folded_with_others(tmp_path):
    state = {f"layers.{i}.up.weight": torch.ones(4, 4) for i in range(6)}
    state["layers.3.up.weight"][1, 1] = math.nan
    report = lamina.read(safetensors(tmp_path / "net", state), health=True)
    states = {row["path"]: row["health"]["forward"] for row in json.loads(report.to_json())["rows"]}
    assert [states[f"layers.{i}.up"] for i in range(6)] == ["fine"] * 3 + ["born"] + ["fine"] * 2
    assert [line.split()[-1] for line in str(report).splitlines() if "up (?)" in line].count("here") == 1


def test_weights_that_no_file_has_are_unknown(tmp_path):
    state = {
        "a.wide": torch.ones(1).expand(3),
        "b.meta": torch.empty(2, device="meta"),
        "c.here": torch.ones(2),
    }
    torch.save(state, tmp_path / "net.pt")
    report = lamina.read(tmp_path / "net.pt", health=True)
    assert report.health.sentence == "no NaN or Inf in 1 tensor; 2 could not be checked"
    states = {row["path"]: row["health"]["forward"] for row in json.loads(report.to_json())["rows"]}
    assert (states["a"], states["b"], states["c"]) == ("unknown", "unknown", "fine")
    for name in ("a.wide", "b.meta"):
        assert any(name in note for note in report.notes)
    assert main(["show", str(tmp_path / "net.pt"), "--health"]) == 0
