# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/ are what `lamina plot` draws today; `make docs` draws them anew."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

import transcripts
import warm

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"


def tool() -> ModuleType:
    loader = SourceFileLoader("pictures", str(ROOT / "tools/pictures"))
    spec = importlib.util.spec_from_loader("pictures", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


TOOL = tool()


def test_all_are_there() -> None:
    assert {path.stem for path in PICTURES.iterdir()} == {*TOOL.COUNTED, *TOOL.MEASURED, "page"}


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="it draws torchvision's models")
@pytest.mark.parametrize("name", TOOL.COUNTED)
def test_what_is_counted_is_unchanged(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lamina(*words: str) -> None:
        done = warm.lamina([*words], cwd=tmp_path, env=transcripts.screen())
        assert done.returncode == 0, done.stderr

    monkeypatch.setattr(TOOL, "lamina", lamina)
    TOOL.draw(name, tmp_path)
    new, kept = ((folder / f"{name}.svg").read_text("utf-8") for folder in (tmp_path, PICTURES))
    assert new == kept, f"docs/pictures/{name}.svg is out of date; run `make docs`"


def test_the_tool_asks_lamina_for_each_that_is_named(tmp_path: Path) -> None:
    """With a lamina that writes down what it is asked for."""
    (tmp_path / "lamina").mkdir()
    (tmp_path / "lamina/__init__.py").touch()
    asked = "import sys, pathlib\npathlib.Path(sys.argv[-1]).write_text(' '.join(sys.argv[1:-1]))\n"
    (tmp_path / "lamina/__main__.py").write_text(asked)
    env = transcripts.screen()
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), env["PYTHONPATH"]])
    command = [sys.executable, ROOT / "tools/pictures", tmp_path, "graph", "roofline"]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{tmp_path}/graph.svg", f"{tmp_path}/roofline.svg"]
    assert (tmp_path / "graph.svg").read_text() == f"plot {' '.join(TOOL.COUNTED['graph'])} -f -o"
    assert (tmp_path / "roofline.svg").read_text() == f"plot {' '.join(TOOL.MEASURED['roofline'])} -f -o"


@pytest.mark.parametrize("name", [*TOOL.COUNTED, *TOOL.MEASURED])
def test_a_page_may_show_it(name: str) -> None:
    text = (PICTURES / f"{name}.svg").read_text("utf-8")
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not {"script", "image", "use", "a", "foreignObject"} & {e.tag.split("}")[1] for e in root.iter()}
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert len(text) < 32 * 1024
