# SPDX-License-Identifier: Apache-2.0
"""``lamina report`` of recordings, as a browser sees the page: it asks for nothing and has no script."""

from __future__ import annotations

from pathlib import Path

import browser
import pytest
import torch
from torch import nn

import lamina
from lamina._command.cli import main


@pytest.fixture(scope="module")
def window():
    with browser.started() as started:
        yield started


def record(file: Path, steps: int = 30) -> Path:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    with lamina.watch(model, every=1, file=file, memory=True, health=True):
        for _ in range(steps):
            model(torch.randn(16, 32)).sum().backward()
    return file


def test_a_page_of_recordings(tmp_path, window):
    files = [record(tmp_path / f"run{i}.lamina") for i in range(2)]
    page = tmp_path / "run.html"
    assert main(["report", *map(str, files), "-o", str(page)]) == 0
    for scheme in ("light", "dark"):
        with window.open(page, color_scheme=scheme) as seen:
            assert [a for a in seen.asked if a != page.as_uri()] == []
            assert seen.said == []
            assert seen.count("script") == 0
            assert seen.texts("h2") == [
                "Steps over time",
                "Layers by time",
                "Side by side",
                "How it was measured",
            ]
            assert seen.texts(".tile .v")[0] == "60"  # of both, with their first steps
            assert "slowest of 2: run" in seen.texts(".tile .w")[1]
            assert seen.count("#steps0 svg") == 3  # times, memory, phases
            assert seen.count("#steps0 details tbody tr") == 29
            assert "No NaN and no Inf" in seen.texts(".find")[0]
            assert seen.faults() == []


def test_three_models_are_not_shown_side_by_side(tmp_path, capsys):
    assert main(["report", "torch.nn:Identity", "b.py:Net", "c.py:Net", "-o", str(tmp_path / "x.html")]) == 2
    assert "only recordings are shown side by side" in capsys.readouterr().err
