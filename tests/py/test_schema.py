# SPDX-License-Identifier: Apache-2.0
"""docs/report.schema.json against reports of every sort. It allows no field that it does not describe, so a
new one in a report needs its line there; and each field has its words in docs/json.md."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from conftest import DATA
from schemas import REPORT, closed, jsonschema, without_words, wrong
from torch import nn

import lamina
from lamina import _lamina


def valid(report: lamina.Report) -> dict:
    told = json.loads(report.to_json(page=True))
    assert wrong(told, REPORT) == []
    return told


class Odd(nn.Module):
    """Work that no rule of a convention of layers knows, a layer that is never called, a shared one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.spare = nn.Linear(4, 4), nn.Linear(4, 2)
        self.again = self.first

    def forward(self, x):
        return self.first(self.first(x)).sort().values


class Fancy(nn.Module):
    def forward(self, x):
        return x * x.sigmoid()


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1))


def logarithm() -> nn.Module:
    class Log(nn.Module):
        def forward(self, x):
            return (x - 2).log()

    return nn.Sequential(nn.Linear(4, 4), Log(), nn.Linear(4, 2))


IMAGE, LINE = torch.rand(2, 3, 8, 8), torch.rand(2, 4)


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(REPORT)


def test_a_resnet_with_everything_measured():
    models = pytest.importorskip("torchvision.models")
    torch.manual_seed(0)
    everything = {"backward": True, "time": True, "memory": True, "health": True, "stats": True}
    told = valid(
        lamina.inspect(models.resnet18(), torch.rand(1, 3, 64, 64), mode="train", repeats=1, **everything)
    )
    assert {"provenance", "time", "memory", "health", "operators"} <= set(told)
    assert len(told["rows"]) == 68 + 8  # of 68 modules 8 are called twice
    assert all("backward_spans" in row for row in told["rows"])


@pytest.mark.parametrize("health", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "net.safetensors",
        "tiny.gguf",
        "shards",
        "state.pt",
        "model.pt",
        "net.pt2",
        "branch.pt2",
        "odd.onnx",
        "tiny.pte",
    ],
)
def test_a_file(name, health):
    told = valid(lamina.read(DATA / "files" / name, health=health))
    assert told["provenance"]["format"]


@pytest.mark.parametrize("convention", [row["name"] for row in _lamina.conventions()])
@pytest.mark.parametrize(
    "net", [convolutions, lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 4), Fancy())]
)
def test_every_convention(net, convention):
    valid(lamina.inspect(net(), IMAGE, convention=convention))


@pytest.mark.parametrize(
    ("net", "x", "options"),
    [
        (convolutions, IMAGE, {"dry": True}),
        (convolutions, IMAGE, {"ops": False}),
        (convolutions, IMAGE, {"backward": True, "dry": True}),
        (convolutions, IMAGE, {"time": True, "warmup": 0, "repeats": 1}),
        (convolutions, IMAGE, {"memory": True}),
        (convolutions, IMAGE, {"memory": True, "ops": False}),
        (Odd, LINE, {"backward": True}),
        (Odd, LINE, {"convention": "layers", "memory": True}),
        (logarithm, LINE, {"health": True, "backward": True}),
        (logarithm, LINE, {"stats": True}),
        (lambda: nn.MultiheadAttention(8, 2), (torch.rand(3, 1, 8),) * 3, {"backward": True}),
        (lambda: nn.LSTM(4, 5), torch.rand(3, 1, 4), {"receptive_field": True}),
        (lambda: nn.Embedding(9, 4), torch.zeros(2, 3, dtype=torch.long), {}),
    ],
)
def test_reports_of_every_sort(net, x, options):
    valid(lamina.inspect(net(), x, **options))


def test_what_is_not_exact_and_not_finite():
    told = valid(lamina.inspect(Odd(), LINE, convention="layers"))
    assert told["totals"]["macs"]["state"] == "at least" and told["gaps"]
    assert valid(lamina.inspect(logarithm(), LINE, health=True))["health"]["findings"]


def test_a_block_of_code_and_a_run_that_raised():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(3, 3))
    with lamina.capture(net, time=True, memory=True) as cap:
        net[0](LINE).sum().backward()
    valid(cap.report())
    with lamina.capture(net) as cap:
        pass
    valid(cap.report())
    with pytest.raises(RuntimeError) as told:
        lamina.inspect(net, LINE)
    valid(told.value.lamina_report)


@pytest.mark.parametrize("name", ["full-json", "own-zoo-json", "ops-step-json"])
def test_reports_of_the_core(name):
    """Of C programs, with a GPU's clock and memory among them."""
    assert wrong(json.loads((DATA / f"report/{name}.txt").read_text("utf-8")), REPORT) == []


def change(path: list, value: object) -> object:
    def changed(told: dict) -> None:
        at = told
        for step in path[:-1]:
            at = at[step]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value

    return changed


@pytest.mark.parametrize(
    "spoil",
    [
        change(["new"], 1),
        change(["totals", "new"], 1),
        change(["rows", 0, "new"], 1),
        change(["rows", 1, "subtotal", "new"], 1),
        change(["memory", "new"], 1),
        change(["memory", "held", "new"], 1),
        change(["provenance", "new"], "x"),
        change(["provenance", "threads"], 2),
        change(["provenance", "date"], "today"),
        change(["schema"], "lamina.report/2"),
        change(["totals", "macs"], {"value": None, "state": "exact"}),
        change(["totals", "macs"], {"value": 5, "state": "unknown"}),
        change(["totals", "macs"], {"value": -5, "state": "exact"}),
        change(["totals", "macs"], {"value": 1.5, "state": "exact"}),
        change(["memory", "course", 0], [1]),
        change(["memory", "course", 0], [1, 2, 3]),
        change(["rows", 0, "span"], [1]),
        change(["rows", 0, "status"], "gone"),
        change(["rows", 0, "path"], None),
        change(["rows", 1, "attributes"], None),
        change(["rows", 1, "attributes", "stride"], {"value": 1}),
        change(["rows", 0, "subtotal"], None),
        change(["gaps"], None),
        change(["memory", "peak"], None),
    ],
)
def test_what_is_wrong_is_refused(spoil, told=[]):  # noqa: B006 - the report is made once
    if not told:
        told.append(valid(lamina.inspect(convolutions(), IMAGE, memory=True)))
    other = copy.deepcopy(told[0])
    spoil(other)
    assert wrong(other, REPORT) != []


def test_every_field_has_its_words():
    assert without_words(REPORT) == []


def test_no_object_is_open():
    assert closed(REPORT)
