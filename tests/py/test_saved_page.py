# SPDX-License-Identifier: Apache-2.0
"""The page of a report that was saved as JSON: the same as the page of the run itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import report_nets
import torch
from conftest import environment
from torch import nn

import lamina
import warm

MODELS = ["resnet18", "vit_b_16", "sentiment", "not_exact", "nan", "small_llama", "checkpointed", "lists"]


def page_of(saved: Path) -> str:
    path = saved.with_suffix(".html")
    command = [sys.executable, "-m", "lamina", "report", str(saved), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path.read_text("utf-8")


def data_of(page: str) -> dict:
    return json.loads(re.findall(r'id="data">(.*?)</script>', page, re.S)[0])


def sections_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'<section id="(\w+)"(.*?)</section>', page, re.S))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.after, self.before = nn.ReLU(), nn.Linear(8, 8)  # registered in the other order

    def forward(self, x):
        return self.after(self.before(x)) + x


class Lists(nn.Module):
    """Containers that are never called, a layer that is called twice, one that isn't."""

    def __init__(self):
        super().__init__()
        self.spare, self.blocks = nn.Linear(3, 3), nn.ModuleList(Block() for _ in range(3))
        self.outer = nn.ModuleDict({"inner": nn.ModuleList([nn.Linear(8, 8)])})

    def forward(self, x):
        for block in (*self.blocks, self.blocks[0], *self.outer["inner"]):
            x = block(x)
        return x


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Block(), Block()

    def forward(self, x):
        return self.b(torch.utils.checkpoint.checkpoint(self.a, x, use_reentrant=False))


def look(name: str) -> lamina.Report:
    x, measured = torch.rand(2, 8), {"memory": True, "time": True, "warmup": 0, "repeats": 1}
    if name == "sentiment":
        ids = torch.zeros(2, 7, dtype=torch.long)
        return lamina.inspect(report_nets.Sentiment(), ids, backward=True, **measured)
    if name == "not_exact":
        return lamina.inspect(nn.Sequential(nn.Linear(8, 8), report_nets.Scan()), x, memory=True)
    if name == "nan":
        net = nn.Sequential(nn.Linear(8, 8), report_nets.Log(), nn.Linear(8, 8))
        return lamina.inspect(net, x, health=True, backward=True)
    if name == "lists":
        return lamina.inspect(Lists(), x, backward=True, **measured)
    if name == "checkpointed":
        return lamina.inspect(Checkpointed(), x.requires_grad_(), backward=True, **measured)
    return getattr(report_nets, name)()


@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_page_of_the_run(name, tmp_path):
    report, saved = look(name), tmp_path / "saved.json"
    report.to_json(saved, roof=report_nets.ROOF)
    live = report.to_html(roof=report_nets.ROOF)
    page = page_of(saved)
    was, now = data_of(live), data_of(page)
    assert was["drawings"] and was["formulas"]
    assert now.keys() == was.keys()
    assert [key for key in was if now[key] != was[key]] == []
    sections = sections_of(live)
    sections.pop("tokens", None)  # which calls there were is not saved
    assert "graph" in sections
    assert sections_of(page).keys() == sections.keys()
    told = {"verdict", "prov"}  # these name the file
    assert [s for s in sections if s not in told and sections_of(page)[s] != sections[s]] == []


def test_a_convention_that_counts_no_operators(tmp_path):
    report, saved = lamina.inspect(Lists(), torch.rand(2, 8), convention="layers"), tmp_path / "saved.json"
    report.to_json(saved)
    was, now = data_of(report.to_html()), data_of(page_of(saved))
    assert [key for key in was if now[key] != was[key]] == []


def test_the_command_saves_all_that_a_page_shows(tmp_path):
    saved = tmp_path / "saved.json"
    command = ["show", "torch.nn:Linear", "-k", "in_features=4", "-k", "out_features=3", "-i", "2x4"]
    command += ["--format", "json", "-o", str(saved)]
    assert warm.lamina(command, cwd=tmp_path, env=environment()).returncode == 0
    page = page_of(saved)
    assert data_of(page)["formulas"]
    assert "<h3>What was left out</h3><ul><li>nothing</li></ul>" in page


def test_a_report_without_what_a_page_shows(tmp_path):
    """As an older lamina saved it: what is missing is said by name."""
    saved = tmp_path / "saved.json"
    text = lamina.inspect(Lists(), torch.rand(2, 8), memory=True).to_json()
    assert {"tree", "levels", "formulas", "at_work", "left_out"}.isdisjoint(json.loads(text))
    saved.write_text(text)
    page = page_of(saved)
    assert "a saved report that has no formulas and no graph; `lamina show TARGET --json`" in page
    assert {"verdict", "modules", "icicle", "memory", "prov"} == set(sections_of(page))
    data = data_of(page)
    assert data["drawings"] == data["formulas"] == [] and data["places"] == 15
    assert set(data["memory"]["at_work"]) - {-1}


def test_python_reads_it_too(tmp_path):
    saved = tmp_path / "saved.json"
    report = lamina.inspect(Lists(), torch.rand(2, 8))
    report.to_json(saved)
    loaded = lamina.Report.load(saved)
    assert [row.path for row in loaded.rows] == [row.path for row in report.rows]
