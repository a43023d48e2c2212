# SPDX-License-Identifier: Apache-2.0
"""profile gives thoplw 2024.1.25's numbers and text to the last unit (tests/data/thoplw.json)."""

from __future__ import annotations

import csv
import io

import pytest
import torch
from conftest import build_layer, build_net, reference
from torch import nn

import lamina

DATA = reference("thoplw")


@pytest.mark.parametrize("name", DATA["models"])
def test_model(name, zoo, capsys):
    expect = DATA["models"][name]
    # Those whose rows are given really compute; of the others the shapes are enough.
    device = "cpu" if "rows" in expect else "meta"
    macs, params, info = lamina.profile(zoo(name, device), torch.zeros(expect["input"], device=device))
    assert (macs, params) == (expect["macs"], expect["params"])
    assert (macs.state, params.state) == ("exact", "exact")
    assert capsys.readouterr().out.splitlines() == expect["printed"]
    counted = [(path, log) for path, log in info.info if log["macs"] is not None]
    assert len(counted) == expect["n_rows"]
    assert sum(row.running_stats for row in info.report.rows) == expect["bn_running_stats"]
    for (path, log), row in zip(counted, expect.get("rows", ()), strict="rows" in expect):
        assert [path, as_lists(log["shapes_in"]), list(log["shape_out"])] == row[:3]
        assert [log["macs"], log["params"], log["description"]] == row[3:]


def as_lists(shapes):
    return None if shapes is None else [list(shape) for shape in shapes]


def label(case):
    args = ",".join(f"{k}={v}" for k, v in case["args"].items())
    return f"{case['layer']}({args})-{case['input']}"


@pytest.mark.parametrize("case", DATA["layer_cases"], ids=label)
def test_layer(case, capsys):
    expect = case["expect"]
    net = nn.Sequential(build_layer(case["layer"], case["args"])).train(case["train"])
    dtype = getattr(torch, case.get("dtype", "float32"))
    macs, params, info = lamina.profile(net, torch.rand(case["input"]).to(dtype))
    log = dict(info.info)["0"]
    if "error" in expect or (expect["ignored"] and not expect["printed_unknown"]):
        # The released code raised, or left the layer out without a word: a number now, or unknown.
        assert log["macs"] is not None
        assert log["macs"].state == "unknown" or log["macs"] >= 0
        return
    assert (log["macs"], log["params"], log["description"]) == (
        expect["macs"],
        expect["params"],
        expect["description"],
    )
    assert (macs, params) == (expect["total_macs"], expect["total_params"])
    assert as_lists(log["shapes_in"]) == expect["shapes_in"]
    assert (None if log["shape_out"] is None else list(log["shape_out"])) == expect["shape_out"]
    assert (f".{case['layer']}'>" in capsys.readouterr().out) == expect["printed_unknown"]


CHAINS = {name: chain for name, chain in DATA["chains"].items() if "error" not in chain}
TEXTS = [(name, text) for name, chain in CHAINS.items() for text in chain["text"]]


def text_id(value):
    return "-".join(value["call"].values()) if isinstance(value, dict) else value


@pytest.mark.parametrize("name", CHAINS)
def test_chain(name, capsys):
    chain = CHAINS[name]
    macs, params, _ = lamina.profile(build_net(chain), torch.zeros(chain["input"]))
    assert (macs, params) == (chain["macs"], chain["params"])
    assert capsys.readouterr().out.splitlines() == chain["printed"]


@pytest.mark.parametrize(("name", "text"), TEXTS, ids=text_id)
def test_chain_text(name, text):
    chain = CHAINS[name]
    _, _, info = lamina.profile(build_net(chain), torch.zeros(chain["input"]), verbose=False)
    if text.get("error", {}).get("type") == "ValueError":
        with pytest.raises(ValueError, match="text, csv, md"):
            info.summary(**text["call"])
    elif "error" in text:  # the released code divided by a total of 0
        assert "Total" in info.summary(**text["call"])
    elif text["call"]["kind"] == "csv":  # the released code did not quote
        expected = [line.split(",") for line in text["lines"]]
        assert list(csv.reader(io.StringIO(info.summary(**text["call"])))) == expected
    else:
        assert info.summary(**text["call"]).split("\n") == text["lines"]


@pytest.mark.parametrize(("given", "expect"), DATA["clever_format"], ids=lambda value: str(value))
def test_clever_format(given, expect):
    if isinstance(given, dict):
        if isinstance(given["x"], list):  # the released code lost the format on its way into the list
            assert lamina.clever_format(given["x"], given["fmt_str"]) == ["1.824 G"]
        else:
            assert lamina.clever_format(given["x"], given["fmt_str"]) == expect
            assert lamina.thoplw.format.clever_format(**given) == expect
    else:
        assert lamina.clever_format(given) == expect
