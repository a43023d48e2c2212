# SPDX-License-Identifier: Apache-2.0
"""Other tools' tables against what the tools said of tool_nets.py, in eval and in train mode.

Their numbers were recorded once, with the versions that tests/data/tools.json names. All agree to the last
unit but for those that are listed here, and of these `compare` says why.
"""

from __future__ import annotations

import functools
import inspect
import json
import warnings

import pytest
import tool_nets
import torch
from conftest import DATA

import lamina
from lamina._base.count import total
from lamina._observe import support

pytestmark = [
    pytest.mark.skipif(support.way().name != "observer", reason=f"no called operators: {support.way().why}"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="recorded on torch 2.13"),
    pytest.mark.filterwarnings("ignore"),
]

SAID = json.loads((DATA / "tools.json").read_text())["nets"]
COMPARED = ("torch", "fvcore", "ptflops", "deepspeed", "torchinfo")
# What a tool calls its number, and which of ours that is.
NUMBERS = {"flops": "flops", "macs": "macs", "mult_adds": "macs", "params": "params"}

SUMS = "The tool counts torch.add, torch.mul, x.add and x.mul, but not"
AT = "The tool counts torch.matmul, but not x @ y"
SOFTMAX = "The tool counts F.softmax, but not torch.softmax and x.softmax"
RELU = "The tool counts F.relu, but not torch.relu and x.relu"
AREA = 'The tool counts F.interpolate with mode="area"'
SIZE = "with one size for all axes the tool takes the size of one axis"
FACTORS = "The tool multiplies by the factors of an interpolation"
NUMPY = "the tool takes the count that numpy prints for the best order"
ONE_IMAGE = "even if an image has no batch axis"
ROUNDED = "lamina divides each layer's number, rounded down"
MAPPED = "In torch.vmap the tool sees the shapes of one example"
TIED = "The tool counts a shared parameter in each layer that has it"
# (net, tool, number): (ours less the tool's, what `compare` says of it).
DIFFERENT = {
    ("one_image", "ptflops", "macs"): (1427, ONE_IMAGE),
    ("unfolded", "ptflops", "macs"): (17280, AT),
    ("rnn_cells", "ptflops", "macs"): (-2, ROUNDED),
    ("einsum_heads", "deepspeed", "flops"): (-4, NUMPY),
    ("methods", "ptflops", "macs"): (32, RELU),
    ("methods", "deepspeed", "flops"): (32, SOFTMAX),
    ("arithmetic", "ptflops", "macs"): (-192, SUMS),
    ("arithmetic", "deepspeed", "flops"): (-192, SUMS),
    ("wrapped_arithmetic", "ptflops", "macs"): (-192, SUMS),
    ("wrapped_arithmetic", "deepspeed", "flops"): (-192, SUMS),
    ("batched_products", "ptflops", "macs"): (360, AT),
    ("einsums", "fvcore", "flops"): (-22, NUMPY),
    ("einsums", "deepspeed", "flops"): (-48, NUMPY),
    ("complex_product", "ptflops", "macs"): (60, AT),
    ("upsamples", "deepspeed", "flops"): (72, SIZE),
    ("interpolates", "ptflops", "macs"): (224, FACTORS),
    ("interpolates", "deepspeed", "flops"): (-28, FACTORS),
    ("interpolates_area", "ptflops", "macs"): (-64, AREA),
    ("interpolates_area", "deepspeed", "flops"): (-16, AREA),
    ("interpolates_one_size", "deepspeed", "flops"): (380, SIZE),
    ("interpolates_line", "deepspeed", "flops"): (-108, SIZE),
    ("bare_pools", "ptflops", "macs"): (-288, SUMS),
    ("bare_pools", "deepspeed", "flops"): (-288, SUMS),
    ("shared", "torchinfo", "params"): (-72, TIED),
    ("shared_weight", "torchinfo", "params"): (-64, TIED),
    ("function_of_ones_own", "ptflops", "macs"): (192, AT),
    ("bare_parameters", "ptflops", "macs"): (48, RELU),
    ("bare_parameters", "deepspeed", "flops"): (48, RELU),
    ("mapped", "ptflops", "macs"): (192, MAPPED),
    ("mapped", "deepspeed", "flops"): (256, MAPPED),
    ("mapped", "deepspeed", "macs"): (128, MAPPED),
}
# (net, tool): numbers that are not known here, and what `compare` says of it.
UNKNOWN = {("pruned", "torchinfo"): "The tool counts only the weights that a pruning mask keeps"}


def build(name, mode):
    torch.manual_seed(0)
    make, args = tool_nets.NETS[name]
    return make().train(mode == "train"), args()


def by_name(model, args):
    """Several inputs by name, as ptflops hands them over: then it does not divide by the batch."""
    given = model.run if isinstance(model, tool_nets.Plain) else model.forward
    names = [name for name in inspect.signature(given).parameters if name != "m"]
    return dict(zip(names, args, strict=False))


@functools.lru_cache
def compare_all(name, mode, flops, named):
    model, args = build(name, mode)
    if named and len(args) > 1:
        return lamina.compare(model, (), by_name(model, args), conventions="ptflops", flops=flops)
    return lamina.compare(model, args, conventions=COMPARED, flops=flops)


def compare(tool, name, mode, *, flops):
    return compare_all(name, mode, flops, tool == "ptflops")[tool]


def wrong_numbers(tool, name, mode, said):
    for number, value in said.items():
        row = compare(tool, name, mode, flops=number == "flops" and tool != "fvcore")
        ours = row.macs if tool == "fvcore" else getattr(row, NUMBERS[number])
        off, reason = DIFFERENT.get((name, tool, number), (0, ""))
        if (name, tool) in UNKNOWN:
            off, reason = ours - value, UNKNOWN[name, tool]
            assert ours.state != "exact"
        elif ours.state != "exact":
            yield f"{tool} {number}: {ours} is {ours.state}"
        if ours != value + off:
            yield f"{tool} {number}: {value} and {off}, ours {ours}"
        if reason not in (row.limits or ""):
            yield f"{tool} {number}: nothing says {reason!r}: {row.limits}"


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", SAID)
def test_each_says_what_it_said(name, mode):
    said = {tool: numbers for tool, numbers in SAID[name][mode].items() if tool in COMPARED}
    assert not [line for tool in said for line in wrong_numbers(tool, name, mode, said[tool])]


@pytest.mark.parametrize("name", [name for name in SAID if "thoplw" in SAID[name]["eval"]])
def test_profile_says_what_thoplw_said(name):
    model, args = build(name, "eval")
    macs, params, _ = lamina.profile(model, args[0], verbose=False)
    assert {"macs": macs, "params": params} == SAID[name]["eval"]["thoplw"]


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("name", [name for name in SAID if "torchscan" in SAID[name]["eval"]])
def test_crawl_module_says_what_torchscan_said(name, mode):
    model, args = build(name, mode)
    shapes = [tuple(arg.shape[1:]) for arg in args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = lamina.crawl_module(model, shapes[0] if len(shapes) == 1 else shapes)["layers"]
    ours = {key: int(total(layer[key] for layer in layers)) for key in ("flops", "macs", "dmas")}
    ours["params"] = int(total(layer[key] for layer in layers for key in ("grad_params", "nograd_params")))
    assert ours == SAID[name][mode]["torchscan"]


def test_the_record_is_large_enough():
    """And every difference that is expected is one of a number that was recorded."""
    assert set(SAID) == set(tool_nets.NETS)
    assert len(SAID) >= 60
    for tool in ("torch", "fvcore", "deepspeed", "torchinfo"):
        for mode in ("eval", "train"):
            assert sum(tool in each[mode] for each in SAID.values()) >= 60
    for name, tool, number in DIFFERENT:
        assert number in SAID[name]["eval"][tool]


# -- limits are of the run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", COMPARED)
def test_a_run_without_a_case_has_no_limits(tool):
    for flops in (False, True):
        assert compare(tool, "sequences", "eval", flops=flops).limits is None


def test_each_limit_is_of_one_case():
    def limits(tool, name, mode="eval", *, flops=False):
        return compare(tool, name, mode, flops=flops).limits

    eval_mode = "The tool always runs in eval mode; this run had layers in train mode."
    assert limits("ptflops", "sequences", "train") == eval_mode
    assert 'unless mode="train" is given' in limits("torchinfo", "sequences", "train")
    assert limits("ptflops", "skips") is not None
    assert limits("deepspeed", "methods") is None
    assert SOFTMAX in limits("deepspeed", "methods", flops=True)
    assert limits("fvcore", "methods") is None
    assert limits("deepspeed", "activations", flops=True) is None
    gelu = tool_nets.Plain(lambda m, x: torch.nn.functional.gelu(x)).eval()
    row = lamina.compare(gelu, torch.rand(2, 8), conventions="ptflops")["ptflops"]
    assert (
        row.limits
        == "The tool doesn't count an F.gelu that the program looked up before the tool began; lamina does."
    )
    text = " ".join(str(lamina.compare(gelu, torch.rand(2, 8), conventions="ptflops")).split())
    assert row.limits in text
