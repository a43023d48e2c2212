# SPDX-License-Identifier: Apache-2.0
"""The drop-in functions give torchscan 0.1.2's numbers and text to the last unit
(tests/data/torchscan.json)."""

from __future__ import annotations

import warnings

import pytest
import torch
from conftest import build_layer, build_net, reference, tuples

import lamina
from lamina.torchscan import modules

DATA = reference("torchscan")
LAYERS = DATA["layer_cases"]
METRICS = {"flops": modules.module_flops, "macs": modules.module_macs, "dmas": modules.module_dmas}


def total(info, *keys):
    return sum(layer[key] for layer in info["layers"] for key in keys)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)  # other tests may have used a GPU
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


# -- whole models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DATA["models"])
def test_model(name, zoo):
    expect = DATA["models"][name]
    # Those whose rows are given really compute; of the others the shapes are enough.
    info = lamina.crawl_module(zoo(name, "cpu" if "rows" in expect else "meta"), tuple(expect["input"][1:]))
    assert total(info, "grad_params", "nograd_params") == expect["params"]
    assert total(info, "num_buffers") == expect["buffers"]
    for metric in METRICS:
        assert total(info, metric) == expect[metric], metric
    assert len(info["layers"]) == expect["n_rows"]
    assert sum(layer["is_leaf"] for layer in info["layers"]) == expect["n_leaf_rows"]
    assert info["overall"] == expect["overall"]
    last = info["layers"][-1]
    assert [last["rf"], last["s"], last["p"]] == [expect["rf_last"], expect["s_last"], expect["p_last"]]
    if "rows" in expect:
        assert [model_row(layer) for layer in info["layers"]] == [
            model_row_expected(expect, row) for row in expect["rows"]
        ]


def model_row(layer):
    shared = [layer[key] for key in ("name", "depth", "type")]
    params = layer["grad_params"] + layer["nograd_params"]
    counts = [params] + [layer[key] for key in ("num_buffers", "flops", "macs", "dmas", "rf", "s", "p")]
    return [*shared, layer["output_shape"], *counts, layer["is_shared"], layer["is_leaf"]]


def model_row_expected(expect, row):
    named = dict(zip(expect["columns"], row, strict=True))
    shared = [named[key] for key in ("name", "depth", "type")]
    counts = [named[key] for key in ("params", "buffers", "flops", "macs", "dmas", "rf", "s", "p")]
    return [*shared, tuple(named["output_shape"]), *counts, named["shared"], named["leaf"]]


# -- layers --------------------------------------------------------------------------------------------------


def label(case):
    args = ",".join(f"{k}={v}" for k, v in case["args"].items())
    return f"{case['layer']}({args})-{case['input']}-{'train' if case['train'] else 'eval'}"


def call(case):
    layer = build_layer(case["layer"], case["args"]).train(case["train"])
    shapes = case["input"] if isinstance(case["input"][0], list) else [case["input"]]
    dtype = getattr(torch, case.get("dtype", "float32"))
    inputs = tuple(torch.rand(shape).to(dtype) for shape in shapes)
    with torch.no_grad():
        return layer, inputs, layer(*inputs)


@pytest.mark.parametrize("case", LAYERS, ids=label)
def test_layer(case):
    layer, inputs, out = call(case)
    expect, unsupported = case["expect"], case["expect"].get("unsupported_warning", ())
    for metric, function in METRICS.items():
        count = function(layer, inputs, out)
        if isinstance(expect[metric], dict):  # the released code raised; 0.2.0 does not
            assert count.state == "unknown" or count == case.get("expect_v020", expect)[metric]
        else:
            # Transformer's FLOPs are a number that the released code itself warned about.
            warned = "at least" if expect[metric] else "unknown"
            assert (int(count), count.state) == (
                expect[metric],
                warned if metric in unsupported else "exact",
            ), metric
    if not any(isinstance(expect[key], dict) for key in ("rf", "s", "p")):
        assert modules.module_rf(layer, inputs, out) == (expect["rf"], expect["s"], expect["p"])


@pytest.mark.parametrize("case", [c for c in LAYERS if "unsupported_warning" in c["expect"]], ids=label)
def test_unsupported_layer_warns_by_name(case):
    layer, inputs, out = call(case)
    for metric in case["expect"]["unsupported_warning"]:
        with pytest.warns(UserWarning, match=case["layer"]):
            METRICS.get(metric, modules.module_rf)(layer, inputs, out)


# -- small nets ----------------------------------------------------------------------------------------------

CHAINS = {name: chain for name, chain in DATA["chains"].items() if "error" not in chain}
TEXTS = [(name, text) for name, chain in CHAINS.items() for text in chain["text"]]
# v0.1.1's listing of a net is only given where that version ran.
OLD_TEXTS = [(name, text) for name, chain in CHAINS.items() for text in chain["v011"].get("text", ())]


def text_id(value):
    if isinstance(value, dict) and "model" in value:
        value = {"call": {"model": value["model"], **value["call"]}}
    return (
        ",".join(f"{k}={v}" for k, v in value["call"].items()) or "plain"
        if isinstance(value, dict)
        else value
    )


@pytest.mark.parametrize("name", CHAINS)
def test_chain_rows(name):
    chain = CHAINS[name]
    info = lamina.crawl_module(build_net(chain), tuple(chain["input"]))
    keys = [key for key in chain["columns"] if key != "input_shape"]  # the released one lost an axis
    expect = [dict(zip(chain["columns"], tuples(row), strict=True)) for row in chain["rows"]]
    assert [[layer[key] for key in keys] for layer in info["layers"]] == [
        [row[key] for key in keys] for row in expect
    ]
    assert info["overall"] == chain["overall"]
    for layer, row in zip(info["layers"], expect, strict=True):
        assert (-1, *layer["input_shape"][2:]) == row["input_shape"]


@pytest.mark.parametrize(("name", "text"), TEXTS, ids=text_id)
def test_chain_text(name, text, capsys):
    chain = CHAINS[name]
    net = build_net(chain)
    if "error" in text:
        with pytest.raises(ValueError):
            lamina.summary(net, tuple(chain["input"]), **text["call"])
        return
    lamina.summary(net, tuple(chain["input"]), **text["call"])
    assert capsys.readouterr().out.splitlines() == text["lines"]


@pytest.mark.parametrize(("name", "text"), OLD_TEXTS, ids=text_id)
def test_chain_text_011(name, text, capsys):
    chain = CHAINS[name]
    lamina.summary(build_net(chain), tuple(chain["input"]), style="0.1.1", **text["call"])
    assert capsys.readouterr().out.splitlines() == text["lines"]


@pytest.mark.parametrize("name", [name for name, chain in CHAINS.items() if "rf_s_p" in chain["v011"]])
def test_chain_receptive_field_011(name):
    chain = CHAINS[name]
    report = lamina.summary(build_net(chain), tuple(chain["input"]), style="0.1.1", receptive_field=True)
    rows = [[row.name or row.type.lower(), row.rf, row.rf_stride, row.rf_padding] for row in report.rows]
    assert rows == chain["v011"]["rf_s_p"]


# -- whole tables --------------------------------------------------------------------------------------------


MODEL_TEXTS = [
    (style, text)
    for style in ("0.1.2", "0.1.1")
    for text in DATA["model_text"]["v" + style.replace(".", "")]
    if "lines" in text  # v0.1.1 had fewer options
]


@pytest.mark.parametrize(("style", "text"), MODEL_TEXTS, ids=text_id)
def test_model_text(style, text, zoo, capsys):
    shape = DATA["models"][text["model"]]["input"][1:]
    lamina.summary(zoo(text["model"], "meta"), tuple(shape), style=style, **text["call"])
    lines = capsys.readouterr().out.splitlines()
    # v0.1.1 ends in a blank line, which the chains record and the models do not.
    assert lines[: len(text["lines"])] == text["lines"]
    assert lines[len(text["lines"]) :] == ([""] if style == "0.1.1" else [])
