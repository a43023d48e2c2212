# SPDX-License-Identifier: Apache-2.0
"""tools/mutants: what a test looks at is killed, what it only runs survives, the tree is left alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """#include "base/base.h"

int lmi_larger(int a, int b) {
    if (a > b) return a;
    return b;
}

/* nobody looks: a > b */
int lmi_count(int *seen) {
    *seen = 3;
    return *seen;
}
"""
LOOKS = """#include "base/base.h"

int main(void) {
    int seen;
    lmi_count(&seen);
    return lmi_larger(1, 2) != 2 || lmi_larger(2, 1) != 2 || lmi_larger(2, 2) != 2;
}
"""
TREE = {
    "src/LAYERS": "base:\nmodel: base\ncmd:\n",
    "src/base/base.h": "int lmi_larger(int a, int b);\nint lmi_count(int *seen);\n",
    "src/base/base.c": SOURCE,
    "src/model/model.c": '#include "base/base.h"\n\nint lmi_two(void) {\n    return lmi_larger(1, 2);\n}\n',
    "include/lamina.h": "",
    "tests/c/base/test_base_all.c": LOOKS,
    "tests/c/cmd/test_cmd_all.c": "int main(void) {\n    return 0;\n}\n",
}


def compiles_tests() -> bool:
    if not shutil.which("cc"):
        return False
    header = "#include <cmocka.h>\n"
    done = subprocess.run(
        ["cc", "-E", "-x", "c", "-"], input=header, capture_output=True, text=True, check=False
    )
    return done.returncode == 0


pytestmark = [
    pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="mutants get too few addresses for it"),
    pytest.mark.skipif(not compiles_tests(), reason="there is no C compiler, or no cmocka for it"),
]


def tree(root: Path, **changed: str) -> Path:
    for name, text in {**TREE, **changed}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def mutants(root: Path, *words: str) -> tuple[int, list[str]]:
    command = [sys.executable, ROOT / "tools/mutants", "--root", root, "--jobs", "1", "--limit", "600"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_survivors_are_what_no_test_looks_at(tmp_path: Path) -> None:
    code, lines = mutants(tree(tmp_path), "base", "-n", "100")
    assert code == 0
    *survivors, last = lines
    assert "src/base/base.c:10: *seen = 3; | *seen = 4;" in survivors
    assert "src/base/base.c:10: *seen = 3; | ;" in survivors
    assert "src/base/base.c:11: return *seen; | return 0;" in survivors
    looked_at = {"!(a > b)": 4, "0 && (a > b)": 4, "return !(b)": 5, "return 1": 4}
    for text, line in looked_at.items():
        assert not [
            found for found in survivors if found.startswith(f"src/base/base.c:{line}:") and text in found
        ]
    killed, tried = int(last.split()[2]), int(last.split()[4])
    assert last.startswith("tools/mutants: base: ")
    assert killed >= 6
    assert tried == killed + len(survivors)


def test_what_compiles_to_the_same_is_not_counted(tmp_path: Path) -> None:
    _, lines = mutants(tree(tmp_path), "base", "-n", "100")
    assert not [line for line in lines if "a >= b" in line]  # either returns the larger of two equal ones
    assert not [line for line in lines if "nobody looks" in line]  # a comment


def test_the_tree_is_left_as_it_was(tmp_path: Path) -> None:
    mutants(tree(tmp_path), "base", "-n", "5")
    assert {name: (tmp_path / name).read_text("utf-8") for name in TREE} == TREE
    assert [path.name for path in tmp_path.iterdir() if path.name not in {"src", "include", "tests"}] == [
        "build"
    ]
    assert sorted(path.name for path in (tmp_path / "build/mutants").iterdir() if path.is_dir()) == [
        "objects",
        "tests",
    ]


def test_what_the_build_makes_is_linked_too(tmp_path: Path) -> None:
    page = "extern const unsigned char lmi_page_css[], lmi_page_js[];\n"
    page += "extern const char lmi_page_css_sum[], lmi_page_js_sum[];\nint lmi_size(void);\n"
    code = '#include "report/page/page.h"\n\nint lmi_size(void) {\n    return lmi_page_css[0] == 98;\n}\n'
    test = '#include "report/page/page.h"\n\nint main(void) {\n    return lmi_size() != 1;\n}\n'
    root = tree(
        tmp_path,
        **{
            "src/LAYERS": "base:\nreport/page: base\n",
            "src/report/page/page.h": page,
            "src/report/page/page.c": code,
            "src/report/page/report.css": "body {}\n",
            "src/report/page/report.js": "'use strict';\n",
            "cmake/page.cmake": (ROOT / "cmake/page.cmake").read_text("utf-8"),
            "tests/c/report/page/test_report_page.c": test,
        },
    )
    status, lines = mutants(root, "report/page", "-n", "20")
    assert status == 0, lines
    assert "survived" in lines[-1]
    assert not [line for line in lines if "return 0" in line]


def test_the_seed_decides(tmp_path: Path) -> None:
    root = tree(tmp_path)
    first = mutants(root, "base", "-n", "4", "--seed", "7")
    assert mutants(root, "base", "-n", "4", "--seed", "7") == first


def test_a_mutant_that_hangs_is_killed(tmp_path: Path) -> None:
    hanging = SOURCE.replace(
        "    *seen = 3;", "    volatile int i = 0;\n    while (i < 3) i++;\n    *seen = i;"
    )
    _, lines = mutants(
        tree(tmp_path, **{"src/base/base.c": hanging}), "src/base/base.c", "--limit", "1", "-n", "100"
    )
    assert " killed, " in lines[-1]
    assert not [line for line in lines if line.endswith("while (i < 3) ;")]  # for ever


def test_python_is_tried_by_the_tests_of_its_file(tmp_path: Path) -> None:
    source = "def larger(a, b):\n    if a > b:\n        return a\n    return b\n"
    looks = "from lamina._results.graph import larger\n\n\ndef test_larger():\n    assert larger(2, 1) == 2\n"
    made = {f"{top}/_results/graph.py": source for top in ("python/lamina", "build/site/lamina")}
    made |= dict.fromkeys(("build/site/lamina/__init__.py", "build/site/lamina/_results/__init__.py"), "")
    _, lines = mutants(tree(tmp_path, **made, **{"tests/py/test_graph.py": looks}), "python/lamina")
    assert sorted(lines[:-1]) == [
        "python/lamina/_results/graph.py:2: if a > b: | if a >= b:",
        "python/lamina/_results/graph.py:4: return b | return None",
    ]
    assert lines[-1].startswith("tools/mutants: python/lamina: 3 of 5 killed, 2 survived")
    assert (tmp_path / "build/site/lamina/_results/graph.py").read_text("utf-8") == source


@pytest.mark.parametrize(
    ("changed", "word", "said"),
    [
        ({}, "nowhere", "tools/mutants: nowhere has no sources; src/LAYERS lists the rooms."),
        ({"src/base/base.c": "int x\n"}, "base", "tools/mutants: src/base/base.c does not compile as it is"),
        (
            {"tests/c/base/test_base_all.c": "int main(void) {\n    return 1;\n}\n"},
            "base",
            "tools/mutants: test_base_all fails on the code as it is",
        ),
    ],
)
def test_what_can_not_be_tried_is_said(tmp_path: Path, changed: dict[str, str], word: str, said: str) -> None:
    code, lines = mutants(tree(tmp_path, **changed), word)
    assert code == 1
    assert lines[-1].startswith(said)


def test_a_test_that_is_skipped_has_noticed(tmp_path: Path) -> None:
    code = "def larger(a, b):\n    if a > b:\n        return a\n    return b\n"
    skips = (
        "import pytest\nfrom lamina._fit import larger\n\n\n"
        "@pytest.mark.skipif(larger(1, 2) != 2, reason='broken')\ndef test_it():\n    pass\n"
    )
    files = {
        "python/lamina/_fit.py": code,
        "build/site/lamina/_fit.py": code,
        "build/site/lamina/__init__.py": "",
        "tests/py/test_fit.py": skips,
    }
    status, lines = mutants(tree(tmp_path, **files), "python/lamina/_fit.py", "-n", "20")
    assert status == 0
    *survivors, last = lines
    found = {line.partition(" | ")[2] for line in survivors}
    assert found == {"if a >= b:", "if False and (a > b):", "return None"}
    assert last.startswith("tools/mutants: python/lamina: 2 of 5 killed, 3 survived")
