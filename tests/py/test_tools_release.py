# SPDX-License-Identifier: Apache-2.0
"""tools/release, and the files by which a repository works: issue forms, CITATION.cff, Dependabot."""

from __future__ import annotations

import importlib.util
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
loader = SourceFileLoader("release", str(ROOT / "tools/release"))
release = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
loader.exec_module(release)


# -- the texts -----------------------------------------------------------------------------------------------

TEXTS = {
    "include/lamina_core.h": '#define LAM_VERSION "1.2.3"\n',
    "CITATION.cff": "version: 1.2.3\n",
    "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n- A thing.\n",
}


def repository(folder, **changed):
    for name, text in (TEXTS | changed).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_texts_that_agree(tmp_path):
    assert list(release.wrong_texts(repository(tmp_path))) == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("CITATION.cff", "version: 1.2.2\n", "CITATION.cff has version 1.2.2, the library 1.2.3"),
        ("CITATION.cff", "cff-version: 1.2.0\n", "CITATION.cff has version none"),
        ("CHANGELOG.md", "## [Unreleased]\n", "CHANGELOG.md has no line"),
        ("CHANGELOG.md", "## [1.2.3]\n", "CHANGELOG.md has no line"),
        ("CHANGELOG.md", "## [Unreleased]\n\n- A\n\n## [1.2.3] - 2026-01-31\n", "lines under `## [Unrel"),
    ],
)
def test_texts_that_disagree(tmp_path, name, text, said):
    [problem] = release.wrong_texts(repository(tmp_path, **{name: text}))
    assert said in problem


def test_a_header_without_a_version(tmp_path):
    with pytest.raises(SystemExit, match="has no LAM_VERSION"):
        release.version_of(repository(tmp_path, **{"include/lamina_core.h": ""}))


def test_notes_are_the_section_of_the_version():
    changes = TEXTS["CHANGELOG.md"] + "\n### Fixed\n\n- Two.\n\n## [1.2.2] - 2026-01-01\n\n- Old.\n"
    assert release.notes(changes, "1.2.3") == "- A thing.\n\n### Fixed\n\n- Two.\n"
    assert release.notes(changes, "1.2.2") == "- Old.\n"


@pytest.mark.parametrize("changes", ["", "## [1.2.3] - 2026-01-31\n\n## [1.2.2] - 2026-01-01\n\n- Old.\n"])
def test_a_release_has_notes(changes):
    with pytest.raises(SystemExit, match=r"CHANGELOG.md says nothing of 1\.2\.3"):
        release.notes(changes, "1.2.3")


# -- what is built -------------------------------------------------------------------------------------------

ARCHIVE = [f"lamina-1.2.3/{name}" for name in release.SOURCES]
SHARE = [f"lamina-1.2.3.data/data/share/{name}" for name in release.SHARE]
WHEEL = [*release.WHEEL, "lamina/_lamina.abi3.so", "lamina-1.2.3.dist-info/METADATA", *SHARE]
METADATA = "Name: lamina\nVersion: 1.2.3\nSummary: x\n"


def test_what_is_built_is_fine():
    assert list(release.wrong_archive(ARCHIVE, "1.2.3")) == []
    assert list(release.wrong_wheel(WHEEL, METADATA, "1.2.3")) == []


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (ARCHIVE[1:], "lacks CMakeLists.txt"),
        ([*ARCHIVE, "lamina-1.2.3/build/x.c"], "has build/x.c"),
        ([*ARCHIVE, "lamina-1.2.3/python/lamina/_lamina.so"], "which is no source"),
        ([*ARCHIVE, "other/x.c"], "outside lamina-1.2.3/"),
    ],
)
def test_archives_that_are_wrong(names, said):
    [problem] = release.wrong_archive(names, "1.2.3")
    assert said in problem


@pytest.mark.parametrize(
    ("names", "metadata", "said"),
    [
        (WHEEL[1:], METADATA, "lacks lamina/__init__.py"),
        ([name for name in WHEEL if ".so" not in name], METADATA, "lacks the extension"),
        (WHEEL[:-1], METADATA, "lacks share/fish/vendor_completions.d/lamina.fish"),
        ([*WHEEL, "lamina-1.2.3.data/scripts/x"], METADATA, "installs lamina-1.2.3.data/scripts/x outside"),
        (WHEEL, METADATA.replace("1.2.3", "1.2.2"), "does not say Version: 1.2.3"),
        ([*WHEEL, "tests/x.py"], METADATA, "installs tests/x.py outside lamina"),
    ],
)
def test_wheels_that_are_wrong(names, metadata, said):
    [problem] = release.wrong_wheel(names, metadata, "1.2.3")
    assert said in problem


# -- the repository ------------------------------------------------------------------------------------------

FORMS = sorted(
    set((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")) - {ROOT / ".github/ISSUE_TEMPLATE/config.yml"}
)
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def yaml_of(path):
    return pytest.importorskip("yaml").safe_load(path.read_text("utf-8"))


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_are_forms(path):
    form = yaml_of(path)
    assert set(form) == {"name", "description", "title", "labels", "body"}
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert asked
    assert {part["type"] for part in form["body"]} <= KINDS
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)
    assert any(part.get("validations", {}).get("required") for part in asked)


def test_forms_name_files_that_are_there():
    for path in [*FORMS, ROOT / ".github/pull_request_template.md"]:
        for name in re.findall(r"\b(?:docs/)?[\w-]+\.md\b", path.read_text("utf-8")):
            assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_citation():
    cited = yaml_of(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["version"] == release.version_of(ROOT)
    assert cited["license"] == "Apache-2.0"


def test_dependabot_knows_where_to_look():
    told = yaml_of(ROOT / ".github/dependabot.yml")
    assert told["version"] == 2
    assert {each["package-ecosystem"] for each in told["updates"]} == {"github-actions", "pip"}


def test_code_owners_patterns_are_folders():
    lines = (ROOT / ".github/CODEOWNERS").read_text("utf-8").splitlines()
    for pattern in [line.split()[0] for line in lines if line and line[0] != "#"]:
        assert pattern == "*" or (ROOT / pattern.strip("/")).is_dir()
