# SPDX-License-Identifier: Apache-2.0
"""What did not run, or was not seen, has no number: in Python, in CSV and in JSON."""

import csv
import io
import json
import re

import pytest
import torch
from torch import nn

import lamina
from lamina._base.check import conventions

METRICS = ("macs", "flops", "dmas", "bytes_read", "bytes_written")
PHASES = ("backward", "recompute")


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def table(report):
    return list(csv.DictReader(io.StringIO(report.to_csv())))


def not_called(model, **watched):
    with lamina.capture(model, **watched) as cap:
        pass
    return cap.report()


# -- a backward pass that did not run ------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"ops": True}, {"time": True}, {"memory": True}, {"health": True}])
def test_without_a_backward_pass_its_cost_is_unknown(options):
    report = lamina.inspect(net(), torch.rand(3, 4), **options)
    assert report.macs.state == "exact" and report.macs == 3 * (32 + 16)
    for phase in PHASES:
        for metric in METRICS:
            assert getattr(getattr(report, phase), metric).state == "unknown"
        for row in report.rows:
            assert all(row[f"{phase}_{metric}"].state == "unknown" for metric in METRICS)


def test_without_a_backward_pass_csv_has_no_number_of_one():
    for row in table(lamina.inspect(net(), torch.rand(3, 4))):
        for phase in PHASES:
            for metric in METRICS:
                assert (row[f"{phase}_{metric}"], row[f"{phase}_{metric}_state"]) == ("", "unknown")


def test_without_a_backward_pass_json_has_no_number_of_one():
    def names(value):
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                yield from names(inner)
        if isinstance(value, dict):
            yield from value

    for backward in (False, True):
        told = json.loads(lamina.inspect(net(), torch.rand(3, 4), backward=backward).to_json())
        of_one = set(PHASES) & {*names(told["totals"]), *names(told["rows"])}
        assert of_one == (set(PHASES) if backward else set())


def test_a_backward_pass_that_ran_has_numbers():
    report = lamina.inspect(net(), torch.rand(3, 4), backward=True)
    assert (report.backward.macs, report.backward.macs.state) == (3 * (32 + 16 + 16), "exact")
    assert (report.recompute.macs, report.recompute.macs.state) == (0, "exact")


def test_times_and_memory_of_a_backward_pass_that_did_not_run_are_none():
    report = lamina.inspect(net(), torch.rand(3, 4), time=True, memory=True)
    assert report.time.forward is not None and report.time.backward is None
    assert all(row.time.backward.total is None for row in report.rows)
    assert all(row.backward is None and row.total_backward is None for row in report.memory.rows)


# -- a capture in which nothing ran --------------------------------------------------------------------------


def test_a_capture_without_a_call_has_no_total():
    report = not_called(net())
    for metric in (*METRICS, "bytes", "effective_macs", "effective_flops"):
        assert getattr(report, metric).state == "unknown"
    assert report.params == 58 and report.params.state == "exact"
    assert "complete  " not in str(report).replace("incomplete", "")
    total = table(report)[-1]
    assert (total["macs"], total["macs_state"], total["params"]) == ("", "unknown", "58")
    assert json.loads(report.to_json())["totals"]["macs"] == {"value": None, "state": "unknown"}


@pytest.mark.parametrize("convention", conventions())
def test_no_convention_takes_a_capture_without_a_call_for_nothing(convention):
    with lamina.capture(net()) as cap:
        pass
    assert cap.report(convention).macs.state == "unknown"


def test_a_capture_without_a_call_has_no_time_and_no_fine_values():
    report = not_called(net(), time=True, memory=True, health=True)
    assert report.time.runs == 0 and report.time.forward is None and report.time.whole is None
    assert report.memory.peak_phase is None and report.memory.peak_in is None
    assert not report.health.ok and report.health.sentence.startswith("there was no value to check")


# -- layers that are not seen --------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [torch.jit.script, lambda m: torch.jit.trace(m, torch.rand(3, 4))])
def test_layers_of_scripted_and_traced_code_are_not_said_to_be_unused(make):
    model = nn.Sequential(make(net()), nn.Linear(2, 2))
    report = lamina.inspect(model, torch.rand(3, 4))
    inside = {row.path: row for row in report.rows if row.path.startswith("0.")}
    assert len(inside) == 3 and not report.unused
    for row in inside.values():
        assert row.macs.state == row.backward_macs.state == "unknown"
        assert row.inside and not row.never_called
    assert (report.macs, report.macs.state) == (3 * (32 + 16 + 4), "exact")
    text = str(report)
    assert "0 (Linear) [not seen]" in text and "never called" not in text and ">=" not in text
    assert re.search(r"3 layers are inside\s+scripted, traced or compiled code", text)
    status = {row["path"]: row["status"] for row in json.loads(report.to_json())["rows"]}
    called, unseen = ["", "0", "1"], ["0.0", "0.1", "0.2"]
    assert status == dict.fromkeys(called, "called") | dict.fromkeys(unseen, "not seen")
    assert {row["macs"] for row in table(report) if row["status"] == "not seen"} == {""}


def test_a_layer_beside_scripted_code_that_was_never_called_says_so():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.whole, self.spare = torch.jit.script(net()), nn.Linear(4, 4)

        def forward(self, x):
            return self.whole(x)

    report = lamina.inspect(Idle(), torch.rand(3, 4))
    assert report.unused == {"spare": "it was never called"}
    assert "spare (Linear) [never called]" in str(report)


def test_scripted_code_that_was_never_called_has_layers_that_were_never_called():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.whole, self.last = torch.jit.script(net()), nn.Linear(4, 4)

        def forward(self, x):
            return self.last(x)

    report = lamina.inspect(Idle(), torch.rand(3, 4))
    assert set(report.unused) == {"whole"} and "[not seen]" not in str(report)


def test_a_saved_report_keeps_layers_that_were_not_seen(tmp_path):
    report = lamina.inspect(torch.jit.script(net()), torch.rand(3, 4))
    report.to_json(tmp_path / "scripted.json")
    saved = lamina.Report.load(tmp_path / "scripted.json")
    assert "[not seen]" in str(saved) and saved.macs == report.macs
    assert "not seen" in report.to_html()
