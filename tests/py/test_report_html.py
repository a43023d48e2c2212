# SPDX-License-Identifier: Apache-2.0
"""``report.to_html``: the file holds together, and its text is what its policy allows."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import lamina


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(self.conv(x)).relu() + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(4)])
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.blocks(x).mean((2, 3)))


class Page(HTMLParser):
    """Elements in their order, each with its attributes and its text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.texts.append("")
        if tag not in {"meta", "input", "br"}:
            self.open.append((tag, len(self.texts) - 1))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open:
            self.texts[self.open[-1][1]] += data

    def text_of(self, tag, **attrs):
        return [
            t
            for (name, has), t in zip(self.elements, self.texts, strict=True)
            if name == tag and attrs.items() <= has.items()
        ]


@pytest.fixture(scope="module")
def report():
    roof = lamina.Roof(1e11, 1e10, 1)
    net = Net()
    x = torch.rand(2, 4, 8, 8)
    report = lamina.inspect(net, x, backward=True, time=True, memory=True, health=True, repeats=2, warmup=0)
    return report, report.to_html(roof=roof)


def test_the_policy_allows_the_files_own_text_alone(report):
    page = Page(report[1])
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        text = page.text_of(tag)[-1]
        sum_ = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert len(text) > 1000
        assert f"{directive} 'sha256-{sum_}'" in policy
    assert policy.startswith("default-src 'none';")
    assert not page.open  # every element is closed
    for tag, attrs in page.elements:
        assert not {"style", "src", "srcset", "action", "onclick"} & attrs.keys(), tag
        assert attrs.get("href", "#").startswith("#")


def test_every_section_and_its_data(report):
    page = Page(report[1])
    sections = [a["id"] for tag, a in page.elements if tag == "section"]
    assert sections == ["verdict", "modules", "icicle", "memory", "roofline", "graph", "prov"]
    assert [a["href"][1:] for tag, a in page.elements if tag == "a" and a["href"][1:] in sections][-7:]
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    (block,) = page.text_of("script", type="application/json", id="data")
    data = json.loads(block)
    root = {number["name"]: number["forward"]["total"][0] for number in data["numbers"]}
    assert root["params"] == int(report[0].params) == 4 * 156 + 25
    assert root["macs"] == int(report[0].macs)
    assert page.text_of("title")[0] == "Net · lamina report"


def test_the_total_is_the_reports(report):
    """4 x 148 of convolutions, 4 x 8 of norms and 25 of the head: 649; MACs 2·(4·64·4·36 + 20)."""
    first = re.search(r'<tr data-i="0">.*?</tr>', report[1])[0]
    assert re.findall(r">(649|73\.8.K)<", first) == ["649", "73.8\u202fK"]
    assert int(report[0].macs) == 2 * (4 * 64 * 4 * 36 + 20) == 73768
    assert "<bdi>1…3</bdi>" in report[1]  # the first block's input needs no gradient
    assert "\u00d73 equal" in report[1]


def test_two_writings_are_equal(report):
    assert report[0].to_html(roof=lamina.Roof(1e11, 1e10, 1)) == report[1]


def test_where_it_is_written(report, tmp_path):
    path = tmp_path / "a.html"
    text = report[0].to_html(path)
    assert path.read_text(encoding="utf-8") == text
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report[0].to_html(path)
    assert report[0].to_html(str(path), overwrite=True) == text
    to = io.StringIO()
    assert report[0].to_html(to) == to.getvalue() == text


def test_what_is_not_known_has_no_section():
    text = lamina.inspect(nn.Linear(2, 3), torch.rand(1, 2)).to_html()
    sections = re.findall(r'<section id="(\w+)"', text)
    assert sections == ["verdict", "modules", "icicle", "prov"]
    assert "<code>memory=True</code>" in text
    assert 'href="#memory"' not in text


def test_a_model_that_raised():
    class Fails(Net):
        def forward(self, x):
            self.blocks(x)
            raise ValueError("no <b>good</b>")

    net = Fails()
    with pytest.raises(ValueError, match="good"), lamina.capture(net) as cap:
        net(torch.rand(1, 4, 8, 8))
    text = cap.report().to_html()
    assert "Only a part of the model ran." in text
    assert "not used" not in text
    Page(text)


class Wider(Net):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 7)


def test_a_difference(report, tmp_path):
    """10 more parameters: 2 x (4 weights + 1 bias) of 649 are 1.5 %."""
    saved = tmp_path / "before.json"
    report[0].to_json(saved)
    now = lamina.inspect(Wider(), torch.rand(2, 4, 8, 8))
    for before in (report[0], saved, str(saved), lamina.Report.load(saved)):
        text = now.to_html(before=before)
        page = Page(text)
        (title,) = page.text_of("h1", id="h-verdict")
        assert "→" in title
        assert "was 649, +1.5\u202f%" in text
        assert "0 modules added, 0 removed, 2 changed, 0 renamed." in text
        assert "not measured before" not in text[: text.index("<script")]
        (block,) = page.text_of("script", type="application/json", id="data")
        assert len(json.loads(block)["changes"]) == json.loads(block)["places"]
    assert "The same modules," in report[0].to_html(before=report[0])


def test_nothing_to_compare_with(report, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        report[0].to_html(before=tmp_path / "none.json")
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(lamina.LaminaError, match="no report that lamina saved as JSON"):
        report[0].to_html(tmp_path / "page.html", before=other)
    assert not (tmp_path / "page.html").exists()
    with pytest.raises(TypeError):
        report[0].to_html(before=3)


def test_names_from_strangers():
    evil = "</script><img src=x onerror=alert(1)>\u202e\u0007"
    net = nn.Sequential()
    net.add_module(evil, nn.Linear(2, 2))
    page = Page(lamina.inspect(net, torch.rand(1, 2)).to_html())
    assert "img" not in {tag for tag, _ in page.elements}
    assert any("</script><img" in t and "\\u202e" in t for t in page.text_of("bdi"))
    (block,) = page.text_of("script", type="application/json", id="data")
    assert evil in json.loads(block)["texts"]
