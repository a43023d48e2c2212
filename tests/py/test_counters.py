# SPDX-License-Identifier: Apache-2.0
"""The tables of other counters against what these printed (tests/data/counters.json), to the last unit.

The tools themselves are not needed: their numbers were recorded once, with the versions that the file names.
"""

from __future__ import annotations

import json

import pytest
import torch
from conftest import DATA
from corpus_nets import build

import lamina
from lamina._observe import support

pytestmark = [
    pytest.mark.skipif(support.way().name != "observer", reason=f"no called operators: {support.way().why}"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="recorded on torch 2.13"),
]

KNOWN = {net["name"]: net for net in json.loads((DATA / "truth.json").read_text())}
NETS = {
    net["name"]: KNOWN.get(net["name"], {}) | net
    for net in json.loads((DATA / "counters.json").read_text())["nets"]
}

# What a tool calls its number, and which of ours that is.
NUMBERS = {"flops": "flops", "macs": "macs", "mult_adds": "macs"}

SPELLED = "x @ y is not wrapped and torch.matmul is; as operators they are the same"
SOFTMAX = "torch.softmax and Tensor.softmax are not wrapped and F.softmax is; as operators they are the same"
ROUNDED = "numpy prints the products of an einsum in four digits"
# (net, tool, number): (ours less the tool's, why). All else is equal.
DIFFERENT = {
    ("einsum_attention", "fvcore", "flops"): (30, ROUNDED),
    ("einsum_attention", "deepspeed", "flops"): (860, f"60: {ROUNDED}; 800: {SOFTMAX}"),
    ("einsum_attention", "ptflops", "macs"): (800, SOFTMAX),
    ("no_params", "ptflops", "macs"): (2048 + 128, f"2048: {SPELLED}; 128: {SOFTMAX}"),
    ("no_params", "deepspeed", "flops"): (128, SOFTMAX),
    ("kwargs_only", "ptflops", "macs"): (4608, SPELLED),
    ("elementwise", "ptflops", "macs"): (516, f"{SPELLED}; so with add, mul and relu"),
    ("elementwise", "deepspeed", "flops"): (-60, "torch.add is wrapped, x + y is not"),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_each_says_what_it_said(name):
    model, args, kwargs = build(NETS[name])
    with lamina.capture(model, ops=True) as watch:
        model(*args, **kwargs)
    wrong = []
    for tool, said in NETS[name]["said"].items():
        report = watch.report(tool)
        for number, value in said.items():
            if number == "params":
                continue
            ours = report.macs if tool == "fvcore" else getattr(report, NUMBERS[number])
            off, _ = DIFFERENT.get((name, tool, number), (0, ""))
            if (ours, ours.state) != (value + off, "exact"):
                wrong.append(f"{tool} {number}: {value} and {off}, ours {ours} {ours.state}")
    assert not wrong


@pytest.mark.parametrize("name", [n for n in NETS if n != "tied_embedding"][::4])
def test_parameters(name):
    """A tied weight is one to all tools but torchinfo."""
    model, args, kwargs = build(NETS[name])
    with lamina.capture(model, ops=True) as watch:
        model(*args, **kwargs)
    for tool, said in NETS[name]["said"].items():
        assert watch.report(tool).params == said.get("params", watch.report(tool).params)


def test_every_expected_difference_is_of_a_record():
    for name, tool, number in DIFFERENT:
        assert number in NETS[name]["said"][tool]
    assert sum(len(net["said"]) for net in NETS.values()) > 160
