# SPDX-License-Identifier: Apache-2.0
"""Pictures of a report: what they show, where they go, and what they need."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import lamina
from lamina._results.picture import Picture

SVG = "{http://www.w3.org/2000/svg}"


class Net(nn.Module):
    """Two branches: the graph has more than one line."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.side = nn.Conv2d(3, 8, 1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc((self.conv(x) + self.side(x)).mean((2, 3)))


@pytest.fixture(scope="module")
def report() -> lamina.Report:
    return lamina.inspect(Net(), torch.rand(2, 3, 16, 16), time=True, memory=True, backward=True)


def elements(picture: Picture, name: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(picture.svg)
    assert root.tag == SVG + "svg"
    assert root.get("role") == "img"
    assert root.get("aria-label")
    return list(root.iter(SVG + name))


def titles(picture: Picture) -> list[str]:
    return [e.text or "" for e in elements(picture, "title")]


def boxes(picture: Picture) -> list[ElementTree.Element]:
    return [e for e in elements(picture, "rect") if (e.get("class") or "").startswith("o thin")]


def test_an_icicle_has_the_numbers_of_the_report(report: lamina.Report) -> None:
    picture = report.plot("icicle", width=1002)
    told = titles(picture)
    # 2 * 16 * 16 * 8 * 27, the same by 3, and 2 * 8 * 4: 110592, 12288 and 64.
    assert [t.split(": ")[0] for t in told] == ["Net", "conv (Conv2d)", "side (Conv2d)"]
    assert told[1].split(": ")[1].startswith("111\u202fK, 90")
    widths = [float(e.get("width", "0")) + 1 for e in boxes(picture)]
    assert widths[0] == pytest.approx(1000, abs=0.2)
    assert widths[1] == pytest.approx(1000 * 110592 / 122944, abs=0.2)
    assert widths[2] == pytest.approx(1000 * 12288 / 122944, abs=0.2)


def test_by_another_number_and_with_the_backward(report: lamina.Report) -> None:
    by_params = titles(report.plot("icicle", by="params"))
    assert by_params[0].startswith(f"Net: {8 * 27 + 8 + 24 + 8 + 36}")
    forward, both = (titles(report.plot("icicle", backward=b))[0] for b in (False, True))
    assert forward != both


def test_a_graph_has_a_node_for_each_module(report: lamina.Report) -> None:
    picture = report.plot("graph")
    told = titles(picture)
    for name in ("conv", "side", "fc"):
        assert sum(t.startswith(f"{name} (") for t in told) == 1
    lines = elements(picture, "path")[0].get("d", "")
    assert lines.count("M") >= 5  # into both, out of both, into fc, out


def test_memory_tells_the_peak(report: lamina.Report) -> None:
    texts = [e.text or "" for e in elements(report.plot("memory"), "text")]
    peak = report.memory.peak
    [told] = [t for t in texts if t.startswith("peak ")]
    number, unit = told.removeprefix("peak ").split(", ")[0].split("\u202f")
    factor = {"B": 1, "KiB": 1024, "MiB": 1024**2}[unit]
    assert float(number) * factor == pytest.approx(peak, rel=0.01)


def test_a_roofline_has_a_circle_for_each_layer_that_computes(report: lamina.Report) -> None:
    roof = lamina.Roof(1e12, 1e11, 1)
    picture = report.plot("roofline", roof=roof)
    names = {t.split(" ")[0].rstrip(":") for t in titles(picture)}
    assert {"conv", "side", "fc"} <= names
    assert any("1.00\u202fTFLOP/s" in (e.text or "") for e in elements(picture, "text"))


def test_a_picture_is_shown_and_saved(report: lamina.Report, tmp_path: Path) -> None:
    picture = report.plot("icicle")
    assert str(picture) == picture.svg == picture._repr_svg_()
    assert repr(picture) == f"Picture('icicle', {len(picture.svg.encode())} bytes of SVG)"
    bundle = picture._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/plain": repr(picture), "image/svg+xml": picture.svg}
    path = tmp_path / "net.svg"
    picture.save(path)
    assert path.read_text("utf-8") == picture.svg
    with pytest.raises(FileExistsError, match="overwrite=True"):
        picture.save(path)
    picture.save(path, overwrite=True)
    assert " style=" not in picture.svg
    assert " id=" not in picture.svg
    assert "<script" not in picture.svg


def test_names_of_strangers_stay_text() -> None:
    net = nn.Module()
    net.add_module("</text><script>alert(1)</script>\u202e", nn.Linear(2, 2))
    net.forward = lambda x: next(net.children())(x)  # type: ignore[method-assign]
    report = lamina.inspect(net, torch.rand(1, 2))
    for kind in ("icicle", "graph"):
        picture = report.plot(kind)  # type: ignore[arg-type]
        assert elements(picture, "script") == []
        assert any("<script>alert(1)</script>\\u202e" in t for t in titles(picture))


def test_what_was_not_measured_is_told(tmp_path: Path) -> None:
    plain = lamina.inspect(Net(), torch.rand(1, 3, 8, 8))
    with pytest.raises(ValueError, match="memory=True"):
        plain.plot("memory")
    with pytest.raises(ValueError, match="time=True"):
        plain.plot("roofline")
    with pytest.raises(ValueError, match="there are: icicle, memory, roofline, graph"):
        plain.plot("pie")  # type: ignore[arg-type]
    saved = tmp_path / "report.json"
    plain.to_json(saved)
    loaded = lamina.Report.load(saved)
    assert str(loaded.plot("icicle")) == str(plain.plot("icicle"))
    with pytest.raises(ValueError, match="times were not measured"):
        loaded.plot("roofline")
    with pytest.raises(ValueError, match="not a number to draw by"):
        plain.plot("icicle", by="colour")


def test_a_notebook_shows_the_icicle_above_the_table(report: lamina.Report) -> None:
    html = report._repr_mimebundle_()["text/html"]
    assert html.index('class="h1"') < html.index("<svg") < html.index("<table")
    empty = lamina.inspect(nn.Identity(), torch.rand(2))._repr_mimebundle_()["text/html"]
    assert "<svg" not in empty and "<table" in empty
