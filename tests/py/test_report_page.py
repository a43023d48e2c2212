# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file, as a browser shows it: each number is the report's, every section answers to
one selection, and nothing is asked of the network. What needs no browser comes first."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import browser
import pytest
import report_nets
import torch
from conftest import environment
from schemas import BLOCK, closed, names_of, wrong

import lamina
import warm

PAGE = Path(__file__).resolve().parents[2] / "src/report/page"
CSS = (PAGE / "report.css").read_text()
JS = (PAGE / "report.js").read_text()
NUMBERS = (Path(__file__).resolve().parents[1] / "data/numbers.tsv").read_text()
SECTIONS = ["verdict", "tokens", "modules", "icicle", "memory", "roofline", "graph", "prov"]
WITHOUT_TOKENS = [section for section in SECTIONS if section != "tokens"]
SHOWN = {"params": "params", "macs": "macs", "flops": "flops", "bytes": "bytes"}  # ours: the report's


# -- style and script, without a browser ---------------------------------------------------------------------


def channel(c: int) -> float:
    v = c / 255
    return v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
    r, g, b = (channel(int(digits[i : i + 2], 16)) for i in (0, 2, 4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    """As WCAG 2 defines it: 1 for equal colours, 21 for black on white."""
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def colours(theme: int) -> dict[str, str]:
    found = re.findall(r"--(\w+):light-dark\((#\w+),(#\w+)\)", CSS)
    return {name: pair[theme] for name, *pair in found} | {"edge": re.findall(r"--edge:(#\w+)", CSS)[0]}


FAMILIES = ["conv", "lin", "att", "norm", "act", "emb", "pool", "box"]
TEXT = [  # text, and what it stands on: 4.5 to 1
    *itertools.product(["txt", "dim", "acc", "warn", "bad", "good"], ["bg", "sur"]),
    *itertools.product(["txt", "dim"], ["sur2", "selbg", *(f"{f}f" for f in FAMILIES)]),
    ("txt", "bar"), ("txt", "bar2"), ("acc", "selbg"), ("bg", "acc"),
]  # fmt: skip
LINES = [  # lines and areas that mean something: 3 to 1
    *((f, f"{f}f") for f in FAMILIES), *((f, "bg") for f in FAMILIES), ("edge", "bg"), ("edge", "boxf"),
    ("acc", "bg"), ("acc", "selbg"), ("bad", "bg"), ("good", "bg"), ("warn", "bg"),
]  # fmt: skip


def test_contrast_by_hand():
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)  # the known grey that just fails


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_all_pairs_of_colours_have_contrast(theme):
    of = colours(theme)
    poor = [(a, b) for a, b in TEXT if contrast(of[a], of[b]) < 4.5]
    poor += [(a, b) for a, b in LINES if contrast(of[a], of[b]) < 3]
    assert not poor, [(a, b, round(contrast(of[a], of[b]), 2)) for a, b in poor]


def test_nothing_gets_a_style_of_its_own():
    """The page's policy forbids it without a sound."""
    assert not re.search(r"style\s*=|\.style\b|['\"`]style['\"`]|cssText|insertRule|adoptedStyleSheets", JS)
    assert not re.search(
        r"\beval\b|new Function|https?:|fetch|XMLHttpRequest|import\(|@import|url\(", JS + CSS
    )


def test_size_of_the_template():
    assert len(CSS.encode()) <= 16 * 1024
    assert len(JS.encode()) <= 65 * 1024
    assert len((CSS + JS).encode()) <= 80 * 1024
    assert max(map(len, JS.splitlines())) <= 110


def test_all_widths_and_indents_are_written_out():
    assert re.findall(r"\.w(\d+)\{--w:(\d+)%\}", CSS) == [(str(i), str(2 * i)) for i in range(1, 51)]
    assert re.findall(r"\.i(\d+)\{--i:(\d+)\}", CSS) == [(str(i), str(i)) for i in range(1, 25)]


def test_every_class_of_the_script_has_a_style():
    """Or is a handle of the script alone."""
    used = set(re.findall(r'class="([\w -]+)["$]', JS)) | set(
        re.findall(r"(?:label|path)\([^'\n]*'([\w ]+)'", JS)
    )
    names = {name for words in used for name in words.split() if name} - {"f", "b", "k", "w", "sc", "g", "i"}
    assert not {name for name in names if not re.search(rf"\.{name}[^\w-]", CSS) and not name.endswith("-")}


def test_the_script_reads_all_of_its_data():
    """And the schema names each key in words, and every other key is wrong."""
    assert closed(BLOCK)
    assert not {key for key in names_of(BLOCK) if not re.search(rf"\b{key}\b", JS)} - {"version"}
    assert not {key for key in names_of(BLOCK) if len(key) < 4} - {"own", "run", "x", "y"}
    assert not {key for key in re.findall(r"\bdata\.(\w+)", JS) if key not in BLOCK["properties"]}


# -- pages, each written and opened once ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium():
    with browser.started() as started:
        yield started


class Pages:
    """Reports and their files, made when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reports = {}

    def __getitem__(self, name: str):
        if name not in self.reports:
            look = report_nets.LOOKS.get(name) or getattr(report_nets, name)
            report, path = look(), self.folder / f"{name}.html"
            report.to_html(path, roof=report_nets.ROOF)
            self.reports[name] = report, path
        return self.reports[name]

    def path(self, name: str) -> Path:
        return self[name][1]


@pytest.fixture(scope="module")
def pages(chromium, tmp_path_factory):  # no browser, no reports
    return Pages(tmp_path_factory.mktemp("pages"))


@pytest.fixture(scope="module")
def resnet18(chromium, pages):
    """A page for tests that leave it as they found it, or reload it."""
    with chromium.open(pages.path("resnet18")) as window:
        yield window


def data_of(window):
    return window.run("() => JSON.parse(document.getElementById('data').textContent)")


def paths_of(data):
    paths = [""]
    for i in range(1, data["places"]):
        above, name = paths[data["parent"][i]], data["texts"][data["names"][i]]
        paths.append(f"{above}.{name}" if above else name)
    return paths


def search(window, pattern: str) -> None:
    """Types into the search and waits until the table has followed."""
    window.run("() => document.getElementById('rows').replaceChildren()")
    window.page.fill("#find", pattern)
    window.page.wait_for_function("() => document.getElementById('rows').children.length")


def number(title: str) -> int:
    return int(re.sub(r"\D", "", title))


def totals_by_path(report, metric: str) -> dict[str, tuple[int, bool]]:
    """Of each module: what the report's rows at and below it add up to, and whether that is exact."""
    sums: dict[str, tuple[int, bool]] = {}
    for row in json.loads(report.to_json())["rows"]:
        value = row.get(metric) or {"value": 0, "state": "exact"}
        parts = row["path"].split(".") if row["path"] else []
        for k in range(len(parts) + 1):
            path = ".".join(parts[:k])
            before, known = sums.get(path, (0, True))
            sums[path] = before + (value["value"] or 0), known and value["state"] == "exact"
    return sums


@pytest.mark.parametrize("name", report_nets.LOOKS)
def test_sections_are_filled_and_every_number_is_the_report_s(chromium, pages, name):
    report, path = pages[name]
    with chromium.open(path) as window:
        data, totals = data_of(window), json.loads(report.to_json())["totals"]
        assert wrong(data, BLOCK) == []
        sections = window.attributes("main > section", "id")
        assert sections == [s for s in SECTIONS if s in sections]
        assert {"verdict", "modules", "icicle", "graph", "prov"} <= set(sections)
        assert ("memory" in sections) == bool(data["memory"])
        assert ("tokens" in sections) == (report.tokens is not None)
        assert window.attributes("header nav a", "href") == [f"#{s}" for s in sections]
        check_pictures(window, data)
        for metric, key in SHOWN.items():
            if not window.count(f'#rows td[data-m="{metric}"]'):
                continue
            root = window.attributes(f'#rows > [data-i="0"] td[data-m="{metric}"]', "title")[0]
            assert number(root) == (totals[key]["value"] or 0), metric
            assert ("at least" in root or "unknown" in root) == (totals[key]["state"] != "exact"), metric
        check_cells(window, report, data)
        check_measured_cells(window, report, data)
        assert window.asked == [path.as_uri()]
        assert window.said == []


def check_pictures(window, data) -> None:
    assert window.count("#ifig g.cl") >= min(2, data["places"])
    level = data["drawings"][data["drawing_of"]["0"]]
    assert window.count("#gfig [data-node]") == len(level["nodes"])
    assert window.count("#gfig [data-line]") == len(level["segments"])
    assert window.count("#gfig .hd2") == sum(to < len(level["nodes"]) for _, to in level["segments"])
    if data["memory"]:
        assert window.count("#mfig g.cl") > 0
        assert window.count("#mfig .ax") >= 2
        areas = window.attributes('#mfig path[class^="k"]', "class")
        assert len(areas) >= 2
        assert sorted(window.attributes('#mfig rect[class^="k"]', "class")) == sorted(areas)  # the legend
    if window.count("#rfig"):
        assert window.attributes("#rfig g:has(> circle.o)", "data-i")
        assert set(window.attributes("#rfig g:has(> circle.o)", "data-i")) == data["speeds"].keys()
        assert len(window.texts("#rfig text.s.m")) <= 9


def check_cells(window, report, data) -> None:
    """The exact value of each cell of each row, all rows found by a search."""
    search(window, ".")
    while window.count("[data-more]"):
        window.page.click("[data-more]")
    paths = paths_of(data)
    assert window.count("#rows > tr") == data["places"]
    for metric in SHOWN:
        titles = window.attributes(f'#rows td[data-m="{metric}"]', "title")
        if not titles:
            continue
        own = ["bread", "bwritten"] if metric == "bytes" else [metric]
        wanted = totals_by_path(report, SHOWN[metric])
        for i, title in list(enumerate(titles))[1:]:
            value, known = wanted.get(paths[i], (0, True))
            assert number(title) == value, (metric, paths[i], own)
            if known:
                assert title == window_number(value), (metric, paths[i])


def check_measured_cells(window, report, data) -> None:
    """The same of times and of what is held at the peak; the rows are shown already."""
    told, paths = json.loads(report.to_json()), paths_of(data)
    own: dict[str, dict[str, int]] = {"time": {}, "peak": {}}
    for row in told["rows"]:
        spent = (row.get("time") or {}).get("forward") or {}
        own["time"][row["path"]] = own["time"].get(row["path"], 0) + (spent.get("self") or 0)
    for at in (told.get("memory") or {}).get("places", []):
        own["peak"][at["path"]] = sum(at["held"].values())
    for metric, numbers in own.items():
        for path, title in zip(
            paths, window.attributes(f'#rows td[data-m="{metric}"]', "title"), strict=False
        ):
            inside = [v for p, v in numbers.items() if not path or p == path or p.startswith(f"{path}.")]
            assert number(title) == sum(inside), (metric, path)


def window_number(v: int) -> str:
    return f"{v:,}".replace(",", "\u202f")


def test_numbers_read_as_in_c(resnet18):
    """By the table that tests/c/base/test_base_number.c holds C against."""
    lines = [line.split("\t") for line in NUMBERS.splitlines() if not line.startswith("#")]
    given = [[kind, *map(float, number.split("/"))] for kind, number, _ in lines]
    start = JS.index("/* ---- Numbers as text")
    section = JS[start : JS.index("/* The change from", start)]
    choose = "const of = {count, bytes, time, percent: share};"
    said = resnet18.run(
        f"given => {{ {section} {choose} return given.map(([kind, ...v]) => of[kind](...v)); }}", given
    )
    assert len(lines) >= 40
    assert said == [text.replace(" ", "\u202f").replace("u", "µ") for *_, text in lines]


def test_what_is_at_least_says_so(chromium, pages):
    with chromium.open(pages.path("not_exact")) as window:
        root = '#rows > [data-i="0"] td[data-m="macs"]'
        assert window.texts(root)[0].startswith("≥\u202f")
        assert "al" in window.attributes(root, "class")[0].split()
        assert window.texts("#verdict .tile .v")[1].startswith("≥")
        assert window.texts("#ifig tspan.d")[0].startswith("≥\u202f")
        search(window, "Scan")
        assert window.texts('#rows td[data-m="macs"]') == ["?"] * 3
        for words in window.attributes('#rows td[data-m="macs"]', "class"):
            assert not re.search(r"\bw\d", words)  # no bar


def test_nan_is_tagged_where_it_began(chromium, pages):
    with chromium.open(pages.path("with_nan")) as window:
        assert window.texts("#rows tr:has(.tag.del) th bdi.mono") == ["1"]
        assert window.texts("#rows .tag.del") == ["NaN first"]
        assert "NaN" in window.texts("#verdict .find li.bad")[0]


def test_static_and_live_tables_are_equal(chromium, pages):
    """Numbers that C wrote and numbers that the script writes, character by character."""
    tables = []
    for script in (False, True):
        with chromium.open(pages.path("resnet18"), java_script_enabled=script) as window:
            page = window.page
            cells = [row.locator("td").all_inner_texts() for row in page.locator("#rows > tr").all()]
            tables.append([page.locator("#rows .mono").all_inner_texts(), cells])
            tables[-1].append([tile.split("\n") for tile in page.locator(".tile").all_inner_texts()])
    assert tables[0] == tables[1]


def test_without_javascript_all_is_there(chromium, pages):
    path = pages.path("resnet18")
    with chromium.open(path, java_script_enabled=False) as window:
        page = window.page
        for section in WITHOUT_TOKENS:
            assert page.locator(f"#{section}").is_visible()
            assert page.locator(f"#{section}").inner_text().strip()
        for figure in ("ifig", "mfig", "rfig", "gfig"):
            assert page.locator(f"#{figure} svg").count() == 1
            assert page.locator(f"#{figure} svg").bounding_box()["height"] > 80
        assert page.locator("#rows tr").count() > 10
        assert not page.locator("aside").is_visible()
        assert not page.locator("#bym").is_visible()
        assert window.asked == [path.as_uri()]
        assert window.said == []


def test_the_policy_names_this_style_and_this_script(pages):
    text = pages.path("resnet18").read_text()
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        body = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        assert len(body) == 1
        digest = base64.b64encode(hashlib.sha256(body[0].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in text
    assert not re.search(r"<[^>]* style=", text.split("<script")[0])


# -- one selection, one metric, one phase --------------------------------------------------------------------


@pytest.fixture
def fresh(resnet18, pages):
    """The shared page as it is at first."""
    resnet18.page.set_viewport_size({"width": 1440, "height": 900})
    resnet18.page.goto("about:blank")
    resnet18.asked.clear()
    resnet18.said.clear()
    resnet18.page.goto(pages.path("resnet18").as_uri())
    yield resnet18
    assert resnet18.said == []


def place(window, path: str) -> int:
    return paths_of(data_of(window)).index(path)


def test_a_selection_is_marked_everywhere(fresh):
    i = place(fresh, "layer1.0.conv1")
    fresh.page.click(f'#ifig [data-i="{i}"]')
    assert fresh.texts("aside h2") == ["layer1.0.conv1"]
    assert fresh.attributes("#rows [aria-selected=true]", "data-i") == [str(i)]
    for figure in ("ifig", "mfig", "rfig"):
        assert fresh.count(f'#{figure} .sel[data-i="{i}"]') >= 1, figure
    assert fresh.run("() => location.hash") == "#layer=layer1.0.conv1"
    fresh.page.click("button[data-graph]")
    assert fresh.count(f'#gfig .sel[data-i="{i}"]') == 1
    assert fresh.count("#gfig .lit") >= 2  # the lines into it and out of it
    fresh.press("Escape")
    assert fresh.count(".sel") == 0
    assert fresh.run("() => location.hash") == ""


def test_hovering_a_line_marks_it(fresh):
    fresh.run("() => document.getElementById('gfig').scrollIntoView()")
    fresh.run("""() => document.querySelector('#gfig [data-line] .hit')
        .dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))""")
    assert fresh.count("#gfig [data-line].lit") == 1
    fresh.run("() => document.body.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))")
    assert fresh.count(".lit") == 0


def test_metric_and_phase_drive_all_pictures(fresh, pages):
    before = fresh.texts("#icrumb")[0]
    fresh.page.click('.tile[data-by="params"]')
    assert fresh.focus() == "button by=params"
    assert fresh.attributes("#bym [aria-pressed=true]", "data-by") == ["params"]
    assert fresh.attributes(".tile[aria-pressed=true]", "data-by") == ["params"]
    assert fresh.texts("#thead .hot") == ["params"]
    assert fresh.texts("#icrumb")[0].startswith("params: 11.7\u202fM")
    assert "11.7\u202fM" not in before
    assert "layer4" in fresh.texts("#gfig")[0]
    fresh.press("m", "b")
    assert fresh.run("() => location.hash") == "#step=1"
    rows = json.loads(pages["resnet18"][0].to_json())["rows"]
    both = sum(row["macs"]["value"] + row["backward"]["macs"]["value"] for row in rows if "backward" in row)
    assert fresh.attributes('#rows [data-i="0"] [data-m="macs"]', "title") == [window_number(both)]
    assert fresh.texts('.tile[data-by="macs"] .k') == ["MACs, forward + backward"]


def test_a_link_opens_and_a_reload_restores(chromium, pages):
    with chromium.open(pages.path("resnet18"), "#layer=layer3.1.bn2&by=bytes&step=1") as window:
        for _ in range(2):
            i = place(window, "layer3.1.bn2")
            assert window.attributes("#rows [aria-selected=true]", "data-i") == [str(i)]
            assert window.attributes("#bym [aria-pressed=true]", "data-by") == ["bytes"]
            assert window.attributes("#phase [aria-pressed=true]", "data-phase") == ["1"]
            window.page.reload()
        link = window.page.locator('#mheld a[href^="#layer="]').nth(1)
        path = link.inner_text()
        link.click()
        assert window.texts("aside h2") == [path]
        assert window.said == []


def test_formulas_are_filled_in(fresh):
    fresh.page.click(f'#ifig [data-i="{place(fresh, "conv1")}"]')
    lines = " ".join(fresh.texts("aside .why .f"))
    assert "9\u202f633\u202f792" in lines  # 64 * 32 * 32 places, each of 3 * 7 * 7
    row = f'#rows > [data-i="{place(fresh, "conv1")}"]'
    fresh.page.click(f'{row} td[data-m="bytes"]')
    assert set(fresh.texts("aside .why.hot .f > .dim:first-child")) == {"bytes read", "bytes written"}


def test_opening_in_the_graph_moves_nothing_else_apart(fresh):
    """The order of boxes stays, the opened one stays where it is on the screen, and closing undoes it."""
    boxes = (
        "() => [...document.querySelectorAll('#gfig > svg > [data-i]')].map(e => [e.dataset.i, "
        "e.getBoundingClientRect().top, e.getBoundingClientRect().height])"
    )
    before = fresh.run(boxes)
    i = place(fresh, "layer2")
    opener = f'#gfig [data-open="{i}"]'
    fresh.page.locator(opener).scroll_into_view_if_needed()
    top = fresh.run(f"() => document.querySelector('#gfig [data-i=\"{i}\"]').getBoundingClientRect().top")
    fresh.page.click(opener)
    after = fresh.run(boxes)
    assert [b[0] for b in after] == [b[0] for b in before]
    assert all(a[1] + a[2] <= b[1] for a, b in itertools.pairwise(after))  # nothing overlaps
    data = data_of(fresh)
    inside = data["drawings"][data["drawing_of"][str(i)]]
    assert fresh.count(f'#gfig [data-i="{i}"] [data-node]') == len(inside["nodes"])
    now = fresh.run(f"() => document.querySelector('#gfig [data-i=\"{i}\"]').getBoundingClientRect().top")
    assert abs(now - top) < 2
    fresh.page.click("#gall")
    assert [b[2] for b in fresh.run(boxes)] == [b[2] for b in before]


def test_runs_of_equal_blocks_fold(chromium, pages):
    with chromium.open(pages.path("llama_of_80_layers")) as window:
        i = place(window, "model.layers.0")
        row = f'#rows > [data-i="{i}"]'
        assert window.texts(f"{row} bdi.mono") == ["0…79"]
        assert window.texts(f"{row} .tag")[0] == "\u00d780 equal, each"
        total = totals_by_path(pages["llama_of_80_layers"][0], "macs")
        assert number(window.attributes(f'{row} [data-m="macs"]', "title")[0]) == total["model.layers.0"][0]
        assert window.count(f'#ifig [data-i="{i}"]') == 1
        window.page.click(f"{row} [data-unfold]")
        assert window.count('#rows > tr[aria-level="4"]') >= 80
        assert window.texts(f"{row} bdi.mono") == ["0"]
        window.run("() => { location.hash = '#layer=model.layers.7.mlp' }")
        window.page.wait_for_selector("#rows [aria-selected=true]")
        assert window.count(f'#ifig .sel[data-i="{place(window, "model.layers.0.mlp")}"]') == 1


def test_sort_and_search(fresh):
    def column():
        rows = fresh.attributes('#rows > tr[aria-level="2"] [data-m="params"]', "title")
        return [number(title) for title in rows]

    model_order = column()
    for wanted in (sorted(model_order, reverse=True), sorted(model_order), model_order):
        fresh.page.click('[data-sort="params"]')
        assert column() == wanted
        assert fresh.focus() == "button sort=params"
    search(fresh, r"layer4.*conv\d$")
    assert fresh.count("#rows > tr") == 4
    assert fresh.texts("#more") == ["4 of 68 modules match."]
    fresh.page.fill("#find", "(")
    fresh.page.wait_for_selector("#find[aria-invalid=true]")
    assert fresh.count("#rows > tr") == 4


def test_crosshair(fresh):
    box = fresh.page.locator("#mfig svg").bounding_box()
    fresh.page.locator("#mfig").scroll_into_view_if_needed()
    fresh.page.hover("#mfig", position={"x": box["width"] / 2, "y": 60})
    text = fresh.texts("#cross text")[0]
    assert re.fullmatch(r"[\d.]+\u202f\wiB · [\d.]+\u202f[mµ]?s( · \S+)?", text)
    fresh.page.mouse.move(2, 2)
    assert fresh.count("#cross text") == 0


# -- everybody -----------------------------------------------------------------------------------------------


def test_the_keyboard_alone(fresh):
    """Table, icicle, graph, search, help; the focus is never lost."""
    fresh.page.locator("#rows > tr").first.focus()
    fresh.press("ArrowDown", "ArrowDown", "End", "Home", "ArrowRight")
    assert fresh.focus() == f"tr i={place(fresh, 'conv1')}"
    fresh.press("Home", "ArrowLeft")
    assert fresh.count("#rows > tr") == 1
    assert fresh.focus() == "tr i=0"
    fresh.press("ArrowRight")
    assert fresh.count("#rows > tr") > 5
    assert fresh.focus() == "tr i=0"
    for key in "mbmt":
        fresh.press(key)
        assert fresh.focus() == "tr i=0", key
    fresh.page.locator("#ifig").focus()
    fresh.press("ArrowDown", *["ArrowRight"] * 4, "Enter")
    assert "layer1" in fresh.texts("#icrumb b")[0]
    assert fresh.focus() == "ifig"
    fresh.press("Enter")
    assert "ResNet" in fresh.texts("#icrumb b")[0]
    fresh.page.locator("#gfig").focus()
    nodes = fresh.count("#gfig [data-node]")
    fresh.press("Enter")
    assert fresh.count("#gfig [data-node]") > nodes
    fresh.press("Enter", "+", "-", "0")
    assert fresh.count("#gfig [data-node]") == nodes
    assert fresh.focus() == "gfig"
    fresh.press("/")
    assert fresh.focus() == "find"
    fresh.press("b", "n")
    fresh.page.wait_for_function("() => /match/.test(document.getElementById('more').textContent)")
    fresh.press("Escape")
    assert fresh.focus().startswith("tr i=")
    fresh.press("?")
    assert fresh.count("#help[open] kbd") > 12
    fresh.press("Escape")
    assert fresh.count("#help[open]") == 0
    fresh.page.locator("#mfig").focus()
    fresh.press("ArrowRight")
    assert fresh.count("#cross text") == 1
    for key, section in enumerate(WITHOUT_TOKENS, 1):
        fresh.press(str(key))
        top = fresh.run(f"() => document.getElementById('{section}').getBoundingClientRect().top")
        left = fresh.run("() => document.documentElement.scrollHeight - innerHeight - scrollY")
        assert abs(top) < 70 or left < 2, section


LOOKED = [(*look, size) for look in (("resnet18", "light"), ("resnet18", "dark")) for size in (1440, 320)]
LOOKED += [("not_exact", "light", 1440), ("with_nan", "dark", 390), ("hostile", "light", 390)]
LOOKED += [("detection", "light", 1440), ("llama_of_80_layers", "dark", 1440)]


@pytest.mark.parametrize(("name", "theme", "width"), LOOKED)
def test_axe_finds_nothing(chromium, pages, name, theme, width):
    with chromium.open(pages.path(name), width=width, color_scheme=theme) as window:
        window.run("() => { for (const e of document.querySelectorAll('details')) e.open = true; }")
        window.page.locator("#rows > tr").nth(1).click()
        if window.count("#gfig [data-open]"):
            window.page.locator("#gfig [data-open]").first.dispatch_event("click")
        # Colours are what differs between themes, and of one page only they are looked at in the other one.
        assert window.faults(*(["color-contrast"] if (name, theme) == ("resnet18", "dark") else [])) == []
        if (name, theme) == ("resnet18", "light"):
            window.press("?")
            assert window.faults() == []
            window.press("Escape")
        if (name, theme, width) == ("resnet18", "light", 1440):
            window.run(
                "() => document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=data:,>')"
            )
            assert any(fault.startswith("image-alt") for fault in window.faults("image-alt"))  # so it looks
            window.run("() => { document.querySelector('h1').style.color = '#ccc'; }")
            assert any(fault.startswith("color-contrast") for fault in window.faults("color-contrast"))


def test_a_phone_is_not_wider_than_it_is(chromium, pages):
    for name, width in (("resnet18", 320), ("hostile", 390)):
        with chromium.open(pages.path(name), width=width, height=844) as window:
            assert window.run("() => document.documentElement.scrollWidth") <= width
            assert not window.page.locator("aside").is_visible()
            window.page.locator("#rows > tr").nth(1).click()
            box = window.page.locator("aside").bounding_box()
            assert box["height"] <= 0.47 * 844
            assert box["y"] + box["height"] == pytest.approx(844, abs=1)


INSIDE = """figure => {
    const frame = document.getElementById(figure).getBoundingClientRect();
    const boxes = [...document.querySelectorAll(`#${figure} .sel`)].map(e => e.getBoundingClientRect());
    return boxes.filter(b => b.left >= frame.left - 1 && b.left < frame.right).length; }"""


def test_charts_scroll_in_their_frames_on_a_narrow_screen(chromium, pages):
    """Memory and roofline are drawn for one width: they keep a size that can be read."""
    with chromium.open(pages.path("resnet18"), width=320, height=800) as window:
        for figure in ("mfig", "rfig"):
            frame, whole, scale = window.run(
                f"""() => {{ const e = document.getElementById('{figure}'), s = e.querySelector('svg');
                return [e.clientWidth, e.scrollWidth, s.clientWidth / s.viewBox.baseVal.width]; }}"""
            )
            assert frame < 320 < whole
            assert 11 * scale >= 10  # the smallest text
            box = window.page.locator(f"#{figure}")
            assert (box.get_attribute("tabindex"), box.get_attribute("role")) == ("0", "group")
            assert box.get_attribute("aria-label")
        for path in ("conv1", "layer4.1.conv2", "layer1"):
            i = place(window, path)
            window.run(
                f"() => document.querySelector('#ifig [data-i=\"{i}\"]').dispatchEvent("
                "new MouseEvent('click', {bubbles: true}))"
            )
            assert window.texts("aside h2") == [path]
            assert window.run(INSIDE, "mfig") >= 1, path
            assert window.run(INSIDE, "rfig") == window.count("#rfig .sel"), path
        window.page.locator("#mfig").focus()
        window.press("ArrowRight", "ArrowRight", "ArrowLeft")
        assert window.count("#cross text") == 1
        assert window.run("() => document.documentElement.scrollWidth") <= 320
        assert window.said == []


def test_names_that_mean_harm_are_shown_as_text(chromium, pages):
    with chromium.open(pages.path("hostile")) as window:
        assert window.count("img") == 0
        assert window.count("body > script") == 2
        names = window.texts("#rows bdi.mono")
        assert "</script><script>alert(1)</script>" in names
        assert "<img src=x onerror=alert(1)>" in names
        assert "&lt;b&gt;" in names
        assert r"\u202eright to left" in names
        assert r"esc\u001b[31m" in names
        assert "nul" in names  # a name ends there, for lamina
        assert "שלום" in names
        long = next(name for name in names if name.startswith("xxx"))
        assert len(long) == 46
        assert long[27] == "…"
        for row in range(1, len(names)):
            window.page.locator("#rows > tr").nth(row).click()
            assert len(window.texts("aside h2")[0]) <= 160
            window.page.reload()
            assert window.count("#rows [aria-selected=true]") == 1, names[row]
        assert set(window.asked) == {url for url in window.asked if url.startswith("file:")}
        assert window.said == []


def test_what_the_reader_asked_the_system_for(chromium, pages):
    """Less motion, two colours, dark: all are heard."""
    path = pages.path("resnet18")
    duration = "() => getComputedStyle(document.querySelector('#ifig .o')).transitionDuration"
    image = "() => getComputedStyle(document.querySelector('#rows td.n')).backgroundImage"
    paper = "() => getComputedStyle(document.body).backgroundColor"
    with chromium.open(path) as window:
        assert window.run(duration) == "0.12s"
        assert "gradient" in window.run(image)
        assert window.run(paper) == "rgb(255, 255, 255)"
        window.press("t")
        assert window.run(paper) == "rgb(13, 17, 23)"
    with chromium.open(path, reduced_motion="reduce", forced_colors="active") as window:
        assert window.run(duration) in ("0s", "1e-06s")
        assert window.run(image) == "none"
    with chromium.open(path, color_scheme="dark") as window:
        assert window.run(paper) == "rgb(13, 17, 23)"


def test_print_has_every_section(chromium, pages):
    with chromium.open(pages.path("resnet18"), "#layer=conv1") as window:
        pdf = window.page.pdf(outline=True, tagged=True)
        titles = [t.decode("latin-1") for t in re.findall(rb"/Title \((.*?)\)\n?", pdf)]
        for heading in window.texts("main h1, main section > .hd h2"):
            assert heading in titles
        window.page.emulate_media(media="print")
        for control in ("header", "aside", "#find", "#zin"):
            assert not window.page.locator(control).first.is_visible()
        for frame in ("#tscroll", "#gfig"):  # nothing is clipped
            sizes = window.run(
                f"() => (e => [e.scrollHeight, e.clientHeight])(document.querySelector('{frame}'))"
            )
            assert abs(sizes[0] - sizes[1]) <= 2


def test_a_redraw_does_not_shift_what_stands_above_the_pictures(chromium, pages):
    """The verdict and the table are where they were without the script."""
    tops = []
    for script in (False, True):
        with chromium.open(pages.path("resnet18"), java_script_enabled=script) as window:
            boxes = [window.page.locator(e).bounding_box() for e in ("#verdict .exact", "#tscroll", "#rows")]
            tops.append([round(box["y"] + box["height"]) for box in boxes])
    less = tops[0][0] - tops[1][0]  # findings wrap otherwise where the panel takes its room
    assert abs(less) <= 80


def test_the_command_writes_the_same_page(chromium, tmp_path):
    path = tmp_path / "report.html"
    command = ["report", "torch.nn:Linear", "-k", "in_features=4", "-k", "out_features=3", "-i", "2x4"]
    done = warm.lamina([*command, "-o", str(path)], cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    with chromium.open(path) as window:
        assert window.texts("h1") == ["Linear"]
        assert window.attributes('#rows [data-i="0"] [data-m="macs"]', "title") == ["24"]
        assert window.said == []
        assert window.texts("#verdict .sub code") == ["torch.nn:Linear"]


# -- a difference --------------------------------------------------------------------------------------------


def write_difference(before, after, folder: Path, **saved) -> Path:
    """The page of two reports that were saved."""
    files = [folder / name for name in ("before.json", "after.json")]
    for file, report in zip(files, (before, after), strict=True):
        report.to_json(file, **saved)
    path = folder / "diff.html"
    command = [sys.executable, "-m", "lamina", "report", *map(str, files), "-o", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def changed(chromium, tmp_path_factory):
    options = {"memory": True, "time": True, "warmup": 0, "repeats": 2}
    before = report_nets.one_changed(report_nets.Before(), **options)
    after = report_nets.one_changed(report_nets.After(), **options)
    path = write_difference(before, after, tmp_path_factory.mktemp("changed"), roof=report_nets.ROOF)
    return before, after, path


@pytest.fixture(scope="module")
def deeper(chromium, tmp_path_factory):
    x, nets = torch.randn(1, 3, 64, 64), (report_nets.torchvision_model(f"resnet{n}") for n in (18, 34))
    before, after = (lamina.inspect(net, x, backward=True) for net in nets)
    return before, after, write_difference(before, after, tmp_path_factory.mktemp("deeper"))


MINUS = "\u2212"  # not a hyphen


def difference(a: int, b: int) -> str:
    if a == b:
        return ""
    if not a or not b:
        return "new" if b else "gone"
    share = abs(b - a) / a * 100
    if share < 0.02:
        return "≈"
    places = 0 if share >= 9.95 else 1 if share >= 0.0995 else 2
    rounded = Decimal(share).quantize(Decimal(10) ** -places, ROUND_HALF_UP)  # an f-string: half to even
    return f"{'+' if b > a else MINUS}{rounded}\u202f%"


def test_differences_by_hand():
    assert [difference(*pair) for pair in ((5, 5), (0, 5), (5, 0), (4, 8), (200, 199), (9, 8), (8, 9))] == [
        "", "new", "gone", "+100\u202f%", "\u22120.5\u202f%", "\u221211\u202f%", "+13\u202f%",
    ]  # fmt: skip


def test_a_difference_names_what_changed(chromium, changed):
    with chromium.open(changed[2]) as window:
        tags = {
            row.get_attribute("data-i"): row.locator(".tag").all_inner_texts()
            for row in window.page.locator("#rows > tr").all()
        }
        paths = paths_of(data_of(window))
        removed = [f"{MINUS} removed"]
        assert {paths[int(i)]: found for i, found in tags.items()} == {
            "": ["~ changed"], "stem": [], "mix": ["~ changed"], "more": removed, "more.0": removed,
            "more.1": removed, "flat": removed, "pool": ["+ added"], "head": ["> renamed from classifier"],
        }  # fmt: skip
        assert window.attributes("#rows .tag.ren", "title") == ["was classifier"]
        for words, wanted in {
            "removed": ["more", "more.0", "more.1", "flat"],
            "added|renamed": ["pool", "head"],
            "changed": ["After", "mix"],
            "^classifier$": ["head"],
        }.items():
            search(window, words)
            assert window.texts("#rows bdi.mono") == wanted, words
        window.page.locator("#rows > tr").first.click()
        panel = window.page.locator("aside").inner_text()
        assert "Linear · renamed, was classifier" in panel
        assert window.said == []


def test_static_and_live_tables_of_a_difference_are_equal(chromium, deeper):
    """In rows that both show: one opens more of them at first."""
    tables = []
    for script in (False, True):
        with chromium.open(deeper[2], java_script_enabled=script) as window:
            table = {
                row.get_attribute("data-i"): row.locator("td, .tag").all_text_contents()
                for row in window.page.locator("#rows > tr").all()
            }
            tables.append((table, window.page.locator(".tile").all_text_contents()))
    (static, live), tiles = (t[0] for t in tables), [t[1] for t in tables]
    both = static.keys() & live.keys()
    assert len(both) >= 10
    assert {i: static[i] for i in both} == {i: live[i] for i in both}
    assert tiles[0] == tiles[1]


def test_tiles_of_a_difference(chromium, changed):
    """By hand: 224 + 584 + 584 + 1,290 parameters are 224 + 72 + 1,290 after."""
    with chromium.open(changed[2]) as window:
        notes = dict(zip(window.attributes(".tile", "data-by"), window.texts(".tile .w"), strict=True))
        assert notes["params"] == "was 2.68\u202fK, \u221241\u202f%"
        for key, metric in SHOWN.items():
            was, now = (json.loads(r.to_json())["totals"][metric]["value"] for r in changed[:2])
            assert notes[key].endswith(f", {difference(was, now)}"), key
        assert all(note.startswith("was ") for note in notes.values())


@pytest.mark.parametrize("name", ["changed", "deeper"])
def test_cells_of_a_difference_are_computed_ones(chromium, request, name):
    before, after, path = request.getfixturevalue(name)
    with chromium.open(path) as window:
        data = data_of(window)
        search(window, ".")
        old = [data["renamed"].get(str(i), now) for i, now in enumerate(paths_of(data))]
        for metric in SHOWN:
            cell = f'#rows td[data-m="{metric}"]'
            was, now = (totals_by_path(report, SHOWN[metric]) for report in (before, after))
            words = window.texts(f"{cell} .dl")
            titles = window.attributes(cell, "title")
            assert len(words) == data["places"]
            for i, path_now in enumerate(paths_of(data)):
                a = was.get(old[i], (0, True))[0]
                b = now.get(path_now, (0, True))[0]
                assert words[i] == difference(a, b), (metric, path_now)
                sign = "+" if b > a else MINUS
                exact = f", was {window_number(a)}, {sign}{window_number(abs(b - a))}" if a != b else ""
                assert titles[i] == window_number(b) + exact
        assert window.asked == [path.as_uri()]
        assert window.said == []


def test_modules_that_only_one_report_has(chromium, deeper):
    paths = [{row["path"] for row in json.loads(report.to_json())["rows"]} for report in deeper[:2]]
    with chromium.open(deeper[2]) as window:
        search(window, "added")
        assert set(window.texts("#rows bdi.mono")) == paths[1] - paths[0]
        assert window.count("#rows > tr") == 48
        assert paths[0] <= paths[1]
        assert 2 not in data_of(window)["changes"]


def test_pictures_of_a_difference(chromium, changed):
    before, after = (json.loads(report.to_json()) for report in changed[:2])
    with chromium.open(changed[2]) as window:
        data = data_of(window)
        boxes = window.attributes('#ifig [data-i="0"] rect', "width")
        macs = [report["totals"]["macs"]["value"] for report in (before, after)]
        assert float(boxes[1]) / float(boxes[0]) == pytest.approx(macs[1] / macs[0], abs=0.003)  # one scale
        assert window.texts('#ifig [data-i="0"] tspan:first-child') == ["~ After"] * 2
        removed = [i for i, change in enumerate(data["changes"]) if change == 2]
        assert all(window.count(f'#ifig [data-i="{i}"]') <= 1 for i in removed)
        course = window.attributes("#mfig path.was", "d")
        assert len(course) == 1
        assert re.fullmatch(r"M66 \d+( \d+ \d+)+", course[0])
        assert "dashed: before, peak " in " ".join(window.texts("#mfig text"))


def test_removed_modules_are_in_the_graph(chromium, changed):
    with chromium.open(changed[2]) as window:
        data, names = data_of(window), window.texts("#gfig .cl .m.b")
        assert [name for name in names if name[0] == MINUS] == [f"{MINUS} more", f"{MINUS} flat"]
        gone = {int(i) for i in window.attributes("#gfig .cl:has(> rect.removed)", "data-i")}
        assert gone == {
            i for i, change in enumerate(data["changes"]) if change == 2 and not data["parent"][i]
        }
        more = window.attributes("#gfig .cl:has(> rect.removed) [data-open]", "data-open")
        window.page.locator(f'#gfig [data-open="{more[0]}"]').click()
        names = window.texts("#gfig .cl .m.b")
        assert {f"{MINUS} 0", f"{MINUS} 1"} <= set(names)
        assert window.said == []


def test_both_are_drawn_without_a_script(chromium, changed):
    with chromium.open(changed[2], java_script_enabled=False) as window:
        assert window.page.locator("#ifig svg").count() == 2
        words = window.page.locator("#ifig .crumb").all_inner_texts()
        assert [word.split(":")[0] for word in words] == ["before", "after"]
        assert window.page.locator("#mfig svg:has(path.was)").count() == 1
        assert window.page.locator("#rfig svg:has(circle.was)").count() == 1
        assert window.page.title() == "Before → After · lamina report"


def test_the_roofline_of_a_difference(chromium, changed):
    """Which of them moved far enough to be drawn is up to the clock."""
    with chromium.open(changed[2]) as window:
        data = data_of(window)
        added, removed = ({i for i, c in enumerate(data["changes"]) if c == change} for change in (1, 2))
        hollow = {int(i) for i in window.attributes("#rfig g:has(> circle.was)", "data-i")}
        joined = {int(i) for i in window.attributes("#rfig g:has(> path.was)", "data-i")}
        filled = {int(i) for i in window.attributes("#rfig g:has(> circle.o)", "data-i")}
        assert filled == set(map(int, data["speeds"])) and not filled & removed
        assert hollow and not hollow & added
        assert joined == hollow - removed
        window.page.locator("#rfig g:has(> circle.was)").first.dispatch_event("click")
        assert window.count("#rfig .sel") in (1, 2)  # its other circle too
        assert window.said == []


def test_a_long_word_of_a_stranger_does_not_widen_a_phone(chromium, tmp_path):
    class Strange:
        @staticmethod
        def to_json(file: Path) -> None:
            report.to_json(file)
            file.write_text(file.read_text().replace('"mode": "train"', f'"mode": "{"x" * 300}"'))

    report = lamina.inspect(torch.nn.Linear(8, 8), torch.randn(2, 8))
    with chromium.open(write_difference(Strange, report, tmp_path), width=390, height=844) as window:
        assert any("x" * 300 in text for text in window.texts("li"))
        assert window.run("() => document.documentElement.scrollWidth") <= 390


def test_what_cannot_be_compared_is_not(chromium, tmp_path):
    """Not measured before, and not exact now, are no difference."""
    scan = torch.nn.Sequential(torch.nn.Linear(8, 8), report_nets.Scan())
    before = lamina.inspect(torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.randn(2, 8))
    after = lamina.inspect(scan, torch.randn(2, 8), memory=True)
    with chromium.open(write_difference(before, after, tmp_path)) as window:
        notes = dict(zip(window.attributes(".tile", "data-by"), window.texts(".tile .w"), strict=True))
        assert notes["peak"] == "not measured before"
        assert set(window.texts('#rows td[data-m="peak"] .dl')) == {""}
        assert notes["macs"] == "was 128, not comparable"
        assert window.texts('#rows > [data-i="0"] td[data-m="macs"] .dl') == [""]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 320])
def test_axe_finds_nothing_in_a_difference(chromium, changed, theme, width):
    with chromium.open(changed[2], width=width, color_scheme=theme) as window:
        window.page.locator("#rows > tr").nth(4).click()
        assert window.faults(*(["color-contrast"] if theme == "dark" else [])) == []
        assert window.run("() => document.documentElement.scrollWidth") <= width
        assert window.said == []
