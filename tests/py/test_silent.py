# SPDX-License-Identifier: Apache-2.0
"""What was asked for and can't be told is refused or unknown: never 0, and never without a word."""

import csv
import io
import json
import warnings

import pytest
import torch
from torch import nn

import lamina
from lamina._command.cli import main

FORWARD_ONLY = [c["name"] for c in lamina._lamina.conventions() if not c["counts_ops"]]


class Mute(nn.Module):
    """Returns nothing."""

    def __init__(self):
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x):
        self.l(x)


class Whole(Mute):
    def forward(self, x):
        return self.l(x).argmax(1)


def x(*sizes):
    return torch.rand(*(sizes or (2, 4)))


# -- a backward pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("convention", FORWARD_ONLY)
def test_a_backward_pass_that_a_convention_does_not_count_is_refused(convention):
    with pytest.raises(ValueError, match=f"'{convention}' counts the forward pass alone; .*exact"):
        lamina.inspect(nn.Linear(4, 4), x(), convention=convention, backward=True)


def test_it_is_not_where_the_backward_shows_in_other_numbers():
    for option in ("time", "memory", "health"):
        lamina.inspect(nn.Linear(4, 4), x(), convention="layers", backward=True, **{option: True})


@pytest.mark.parametrize("verb", [["show"], ["why"]])
def test_the_command_refuses_it_too(verb, capsys):
    words = [
        *verb,
        "torch.nn:Linear",
        *([""] if verb == ["why"] else []),
        "-i",
        "1x4",
        "--backward",
        "-c",
        "layers",
    ]
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == "" and "'layers' counts the forward pass alone" in said.err and "exact" in said.err


@pytest.mark.parametrize("net", [Mute(), Whole()], ids=["nothing", "integers"])
def test_a_model_that_gives_nothing_to_go_back_from_has_no_backward(net):
    report = lamina.inspect(net, x(), backward=True)
    assert [note for note in report.notes if note.startswith("no backward pass ran: ")]
    assert "backward   none ran to its end" in str(report)
    assert {report.backward.macs.state, report.backward.flops.state, report.backward.bytes.state} == {
        "unknown"
    }
    assert {row.backward_macs.state for row in report.rows} == {"unknown"}
    told = json.loads(report.to_json())
    assert "backward" not in told["totals"] and "backward" not in told["rows"][1]["subtotal"]
    assert report.macs.state == "exact" and report.macs > 0


def test_neither_has_one_that_raised_before(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        lamina.inspect(nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5)), x(), backward=True)
    assert caught.value.lamina_report.backward.macs.state == "unknown"


def test_where_no_backward_was_asked_for_it_is_unknown():
    assert lamina.inspect(nn.Linear(4, 4), x()).backward.macs.state == "unknown"


# -- scripted modules in the old tools' functions ------------------------------------------------------------


def scripted(how):
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(net) if how == "script" else torch.jit.trace(net, torch.rand(1, 3, 8, 8))


@pytest.mark.parametrize("how", ["script", "trace"])
def test_torchscan_functions_say_unknown(how, capsys):
    net = scripted(how)
    with pytest.warns(UserWarning, match="not supported: Sequential"):
        told = lamina.crawl_module(net, (3, 8, 8))
    layer = told["layers"][0]
    assert {layer[name].state for name in ("flops", "macs", "dmas")} == {"unknown"}
    assert layer["grad_params"] == 224
    with pytest.warns(UserWarning, match="not supported: Sequential"):
        report = lamina.summary(net, (3, 8, 8))
    out = capsys.readouterr().out
    assert "? FLOPs" in out and "? MACs" in out and " 224 " in out and "0.00 FLOPs" not in out
    assert report.macs.state == "unknown"


@pytest.mark.parametrize("how", ["script", "trace"])
def test_thoplw_functions_say_unknown(how, capsys):
    macs, params, info = lamina.profile(scripted(how), torch.rand(1, 3, 8, 8))
    assert macs.state == "unknown" and params == 224
    assert "will be unexpectedly ignored" in capsys.readouterr().out
    assert "?" in info.summary(kind="csv")


# -- options that go with nothing ----------------------------------------------------------------------------


@pytest.mark.parametrize("convention", ["exact", "layers", "torch", None])
def test_a_released_form_that_there_is_not_is_refused(convention, capsys):
    words = ["torch.nn:Linear", "-k", "in_features=4", "-k", "out_features=4", "-i", "1x4", "--released"]
    assert main([*words, *(["-c", convention] if convention else [])]) == 2
    err = capsys.readouterr().err
    assert f"--released: the convention '{convention or 'exact'}' has one form only" in err
    assert "torchscan, thoplw" in err
    assert main([*words, "-c", "thoplw"]) == 0


def test_times_of_a_dry_run_are_refused_in_one_sentence(capsys):
    with pytest.raises(ValueError) as caught:
        lamina.inspect(nn.Linear(4, 4), x(), time=True, dry=True)
    assert main(["torch.nn:ReLU", "-i", "1x4", "--time", "--dry"]) == 2
    assert capsys.readouterr().err == f"lamina: error: --time and --dry: {caught.value}\n"


# -- CSV -----------------------------------------------------------------------------------------------------


def test_csv_has_what_a_row_costs_with_everything_below_and_the_whole():
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2))
    report = lamina.inspect(net, x(1, 4), backward=True)
    lines = list(csv.DictReader(io.StringIO(report.to_csv())))
    told = {row["path"]: row["subtotal"] for row in json.loads(report.to_json())["rows"]}
    for line in lines[:-1]:
        for name in ("params", "macs", "flops", "dmas"):
            count = told[line["path"]][name]
            assert line[f"subtotal_{name}"] == str(count["value"])
            assert line[f"subtotal_{name}_state"] == count["state"]
        assert line["subtotal_backward_flops"] == str(told[line["path"]]["backward"]["flops"]["value"])
    assert lines[1]["macs"] == "0" and lines[1]["subtotal_macs"] == "32"
    total = lines[-1]
    assert (total["path"], total["status"], total["depth"]) == ("total", "total", "0")
    assert total["macs"] == total["subtotal_macs"] == str(int(report.macs)) == "48"
    assert (
        total["params"] == str(int(report.params)) and total["input_shapes"] == total["receptive_field"] == ""
    )
    assert total["subtotal_backward_macs"] == str(int(report.backward.macs))


def test_an_unknown_total_is_an_empty_cell():
    class Odd(nn.Module):
        def forward(self, x):
            return x * 2

    report = lamina.inspect(Odd(), x(), convention="layers", time=True, repeats=1, memory=True)
    total = list(csv.DictReader(io.StringIO(report.to_csv())))[-1]
    assert (total["macs"], total["macs_state"], total["subtotal_macs"]) == ("", "unknown", "")
    assert total["time_ns"] == total["memory_peak"] == ""
