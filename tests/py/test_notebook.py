# SPDX-License-Identifier: Apache-2.0
"""What a notebook shows: static, safe, in its theme, and without any effect on what stands beside it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import browser
import pytest
import report_nets
import torch
from conftest import needs_fit
from torch import nn

import lamina

# Of Jupyter's own style: what it says of tables, headings and rows wherever they stand in an output.
HOST = """
.jp-RenderedHTMLCommon table{table-layout:fixed;margin:0 auto 1em;border-collapse:collapse}
.jp-RenderedHTMLCommon thead{border-bottom:1px solid;vertical-align:bottom}
.jp-RenderedHTMLCommon td,.jp-RenderedHTMLCommon th{vertical-align:middle;padding:.5em;line-height:2;
white-space:normal;max-width:none;text-align:right;border:none}
.jp-RenderedHTMLCommon tbody tr:nth-child(odd){background:#123}
.jp-RenderedHTMLCommon tbody tr:nth-child(even){background:#f5f5f5}
.jp-RenderedHTMLCommon code{background:#345;padding:9px}.jp-RenderedHTMLCommon p{margin-bottom:1em}
"""
# What a rule that holds everywhere would change.
BESIDE = (
    '<h1>Title</h1><p>Text <code>x</code></p><table><tbody><tr><th>a</th><td class="n w9">1</td></tr></table>'
)
STYLES = """() => [...document.querySelectorAll('#beside *')].map(e => {
  const s = getComputedStyle(e); return [...s].map(k => k + ':' + s.getPropertyValue(k)).join(';'); })"""


class Dead(nn.Module):
    def forward(self, x):
        return x.sin()


def watched(folder: Path) -> lamina.Watch:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    with lamina.watch(model, every=1, file=folder / "run.lamina", memory=True, health=True) as watch:
        for _ in range(12):
            model(torch.randn(4, 8)).sum().backward()
    return watch


def loaded(report: lamina.Report, path: Path) -> lamina.Report:
    report.to_json(path)
    return lamina.Report.load(path)


def fitted(*args) -> lamina.Fit:
    needs_fit()
    return lamina.fit(*args)


class Shown(dict):
    """What has an output, by name; what not every machine can make is made when it is asked for."""

    def __init__(self, ready, later):
        super().__init__(ready)
        self.later = later

    def __missing__(self, name):
        self[name] = self.later[name]()
        return self[name]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shown")
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    x = torch.rand(2, 3, 8, 8)
    report = lamina.inspect(net, x, backward=True, memory=True, time=True, health=True, repeats=2, warmup=0)
    hostile = report_nets.hostile()
    ready = {
        "report": report,
        "hostile": hostile,
        "not_exact": report_nets.not_exact(),
        "saved": loaded(report, folder / "net.json"),
        "hostile_saved": loaded(hostile, folder / "hostile.json"),
        "comparison": report.compare("torch", "torchinfo", "layers"),
        "watch": watched(folder),
    }
    later = {
        "folded": report_nets.llama_of_80_layers,
        "deep": report_nets.resnet18,
        "fit": lambda: fitted(net, x).beside(step=10_000_000),
        "forward_alone": lambda: fitted(Dead(), torch.rand(3)),
    }
    return Shown(ready, later)


NAMES = ["report", "folded", "deep", "hostile", "not_exact", "saved", "hostile_saved", "comparison", "fit"]
NAMES += ["forward_alone", "watch"]


class Elements(HTMLParser):
    """The names of elements and of their attributes; each element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.top = 0
        self.feed(text)
        assert not self.open
        assert self.top == 1

    def handle_starttag(self, tag, attrs):
        self.top += not self.open
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_one_element_that_does_nothing(shown, name):
    bundle = shown[name]._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/plain", "text/html"}
    html = bundle["text/html"]
    found = Elements(html)
    assert not {"script", "iframe", "img", "link", "object", "form", "a", "h1", "h2", "h3"} & set(found.tags)
    assert not {"id", "style", "href", "src"} & found.attributes
    assert not {a for a in found.attributes if a.startswith("on")}
    assert not re.search(r"url\(|@import|https?:", html)
    assert len(html) < 150_000


def test_text_stands_beside_it(shown):
    for name in ("report", "saved", "comparison", "fit"):
        assert shown[name]._repr_mimebundle_()["text/plain"] == str(shown[name])
    assert shown["watch"]._repr_mimebundle_()["text/plain"].startswith("<a watch: every step, recorded in ")


def test_the_numbers_are_those_of_the_text(shown):
    report = shown["report"]
    for name in ("report", "saved"):
        html = shown[name]._repr_html_()
        assert f'{lamina_text(report.macs)}</span><span class="w">' in html
        assert "<svg" in html
        assert html.count('<th scope="row">') == 6
    assert "<svg" not in shown["fit"]._repr_html_()
    fit = shown["fit"]
    assert "measured 9.54 MiB, off by" in fit._repr_html_()
    assert all(f'<th scope="row">{part}</th>' in fit._repr_html_() for part, n in fit.step.parts.items()
               if n and part != "backward")  # fmt: skip
    forward = shown["forward_alone"]._repr_html_()
    assert "training step</span>" not in forward
    assert f"no training step: {shown['forward_alone'].no_step}" in forward
    compared = shown["comparison"]._repr_html_()
    assert [f'<th scope="row">{row.convention}</th>' in compared for row in shown["comparison"].rows] == [
        True
    ] * 4
    assert 'steps recorded</span><span class="v">12</span>' in shown["watch"]._repr_mimebundle_()["text/html"]


def lamina_text(count) -> str:
    return lamina._lamina.text_count(int(count)).replace(" ", "\u202f")


def test_every_module_is_within_reach(shown):
    """80 equal blocks are one row; below the rows that are open at first the others are folded away."""
    assert "\u00d780 equal" in shown["folded"]._repr_html_()
    html = shown["deep"]._repr_html_()
    (summary,) = re.findall(r"<summary>(.*?)</summary>", html)
    assert summary == "All modules, 62 rows"
    assert [part.count("<tr data-i") for part in html.split("<details>")] == [18, 62]


def test_a_level_that_is_too_long_is_cut():
    net = nn.Sequential(nn.Sequential(*[nn.Linear(1 + i % 2, 2 - i % 2) for i in range(300)]))
    html = lamina.inspect(net, torch.rand(1, 1))._repr_html_()
    assert "<summary>More modules, 150 of 302 rows</summary>" in html
    assert "152 more rows" in html


def test_nothing_was_recorded_yet(tmp_path):
    watch = lamina.watch(nn.Linear(1, 1), file=tmp_path / "none.lamina")
    assert set(watch._repr_mimebundle_()) == {"text/plain"}


def test_a_part_of_a_model_that_raised():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            self.fc(x)
            raise ValueError("<b>")

    net = Fails()
    with pytest.raises(ValueError, match="<b>"), lamina.capture(net) as cap:
        net(torch.rand(1, 2))
    html = cap.report()._repr_html_()
    assert "Only a part of the model ran." in html
    assert "<b>Fails" not in html


def test_the_format_is_the_page(shown, capsys):
    report = shown["report"]
    report.show(format="html")
    assert capsys.readouterr().out == report.to_html()


# -- in a browser --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as started:
        yield started


def notebook(shown, path: Path, theme: str) -> Path:
    """Two outputs of each, set as notebooks set them, in a page that has a style of its own."""
    outputs = "".join(
        f'<div class="jp-RenderedHTMLCommon" data-output="{name}">'
        f"{shown[name]._repr_mimebundle_()['text/html']}</div>"
        for name in [*NAMES, *NAMES]
    )
    back, text = ("#111", "#eee") if theme == "dark" else ("#fff", "#111")
    light = str(theme == "light").lower()
    path.write_text(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>n</title><style>{HOST}'
        f"body{{background:{back};color:{text};width:900px}}</style></head>"
        f'<body data-jp-theme-light="{light}"><main><div id="beside">{BESIDE}</div>'
        f'<div id="cells"></div><template id="outputs">{outputs}</template></main></body></html>',
        encoding="utf-8",
    )
    return path


INSERT = "() => { cells.innerHTML = outputs.innerHTML; }"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("system", ["light", "dark"])
def test_in_a_notebook(chromium, shown, tmp_path, theme, system):
    path = notebook(shown, tmp_path / "notebook.html", theme)
    with chromium.open(path, color_scheme=system) as window:
        before = window.run(STYLES)
        window.run(INSERT)
        assert window.run(STYLES) == before
        assert window.count(".lamina") == 2 * len(NAMES)
        assert window.said == []
        assert window.asked == [path.as_uri()]
        back, text = [("rgb(255, 255, 255)", "rgb(31, 35, 40)"), ("rgb(13, 17, 23)", "rgb(230, 237, 243)")][
            theme == "dark"
        ]
        looks = window.run(
            """() => [...new Set([...document.querySelectorAll('.lamina')].map(e => {
            const s = getComputedStyle(e); return s.backgroundColor + ' ' + s.color; }))]"""
        )
        assert looks == [f"{back} {text}"]
        assert window.run(
            """() => [...new Set([...document.querySelectorAll('.lamina tr')].map(
            e => getComputedStyle(e).backgroundColor))]"""
        ) == ["rgba(0, 0, 0, 0)"]  # the host's stripes do not show
        window.run("() => document.querySelectorAll('.lamina details').forEach(d => { d.open = true; })")
        if theme != system:  # where they agree it looks the same
            assert window.faults() == []


def test_it_follows_the_system_where_the_host_tells_nothing(chromium, shown, tmp_path):
    path = tmp_path / "plain.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><main>{shown["report"]._repr_html_()}</main>')
    for system, back in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(13, 17, 23)")):
        with chromium.open(path, color_scheme=system, java_script_enabled=False) as window:
            assert window.page.locator(".lamina svg").is_visible()
            assert window.page.locator(".lamina tbody tr").first.is_visible()
        with chromium.open(path, color_scheme=system) as window:
            assert (
                window.run("() => getComputedStyle(document.querySelector('.lamina')).backgroundColor")
                == back
            )


def test_names_that_mean_harm_are_shown_as_text(chromium, shown, tmp_path):
    path = notebook(shown, tmp_path / "notebook.html", "light")
    with chromium.open(path) as window:
        window.run(INSERT)
        names = " ".join(window.texts('[data-output^="hostile"] tbody th'))
        assert "<img" in names and "\\u202e" in names
        assert window.count("#cells img") == window.count("#cells script") == 0
        wide = "e => e.scrollWidth > e.clientWidth"
        assert not window.run(f"() => [...document.querySelectorAll('.lamina')].some({wide})")
        assert window.said == []
