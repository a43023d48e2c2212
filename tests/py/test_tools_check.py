# SPDX-License-Identifier: Apache-2.0
"""tools/check: every rule fires on a seeded breach, names its line, and stays quiet on a clean tree."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stdout
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
loader = SourceFileLoader("tools_check", str(ROOT / "tools/check"))
tool = module_from_spec(spec_from_loader("tools_check", loader))
sys.modules["tools_check"] = tool  # its dataclasses look there for the types of their fields
loader.exec_module(tool)
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
SPDX_PY = "# SPDX-License-Identifier: Apache-2.0\n"

NUMBERS = ["params", "macs", "flops", "bytes", "time", "peak"]

CLEAN = {
    "src/LAYERS": "# rooms\nbase:\nmodel: base\nreport/numbers:\nreport/tell:\ncmd:\n",
    "src/base/base.h": SPDX + "#include <stdint.h>\nint lmi_one(void);\n",
    "src/base/one.c": SPDX + '#include "base/base.h"\n\nint lmi_one(void) { return 1; }\n',
    "src/model/model.c": SPDX
    + '#include "base/base.h"\n#include "lamina.h"\n\nint lmi_two(void) {\n    return 2;\n}\n',
    "src/cmd/main.c": SPDX
    + '#include "lamina.h"\n#include <stdio.h>\n\nint main(void) { return puts("hello"); }\n',
    "src/count/rules/conventions.def": "CONVENTION(layers, X)\nCONVENTION(torchscan, X)\n",
    "src/report/numbers/numbers.def": "".join(f'NUMBER(N, "{name}")\n' for name in NUMBERS),
    "include/lamina.h": SPDX + "int lam_version(void);\n",
    "python/ext/LAYERS": "process:\nbase: src/base\ntorch:\ncalls: torch\n",
    "python/ext/base/ext.h": SPDX + '#include <Python.h>\n#include "src/base/base.h"\n',
    "python/ext/calls/calls.h": SPDX + '#include <Python.h>\n#include "lamina.h"\n',
    "python/LAYERS": "_base:\n_old: _base\n_run: _base\nlamina: _base _run\n",
    "python/lamina/_run/once.py": SPDX_PY + "from .. import _lamina\nfrom .._base import errors\n",
    "python/lamina/__init__.py": SPDX_PY + 'NAME = "a" + "b"\n',
}


def seed(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return root


def check(root: Path) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as out:
        code = tool.main(["--root", str(root)])
    return code, out.getvalue()


def clean_tree(root: Path) -> Path:
    files = dict(CLEAN)
    rooms = "base:\nmodel: base\ncount/rules: base model\ncount: model count/\n"
    files["src/LAYERS"] = rooms + "report/numbers:\nreport/tell:\ncmd:\n"
    return seed(root, files)


def circle(n: int) -> dict[str, str]:
    """So many files of one room, of which each uses a function of the next."""
    return {
        f"src/model/c{i}.c": SPDX + f"int lmi_c{i}(void) {{\n    return lmi_c{(i + 1) % n}();\n}}\n"
        for i in range(n)
    }


def test_clean_tree_is_clean(tmp_path: Path) -> None:
    assert check(clean_tree(tmp_path)) == (0, "")


LONG_C = SPDX + "static int f(int a,\n             int b) {\n" + "    a++;\n" * 90 + "    return a + b;\n}\n"
LONG_PY = SPDX_PY + "def f() -> int:\n" + "    print()\n" * 90 + "    return 1\n"

SEEDED = [
    (
        "layers, upward",
        "src/LAYERS",
        "model: base\nbase:\n",
        1,
        "may use base only when base is listed above it",
    ),
    ("layers, no room", "src/stray/x.c", SPDX, 1, "which src/LAYERS does not name"),
    (
        "include, upward",
        "src/base/x.c",
        SPDX + '#include "model/model.h"\n',
        2,
        'may not include "model/model.h"',
    ),
    (
        "include, upward inside a folder",
        "src/count/rules/x.c",
        SPDX + '#include "count/count.h"\n',
        2,
        'may not include "count/count.h": src/LAYERS lets count/rules use base model',
    ),
    ("layers, a folder upward", "src/LAYERS", "base: count/\ncount/rules:\n", 1, "may use count/ only when"),
    ("header, upward", "src/base/x.h", SPDX + "int lmi_two(void);\n", 2, "declares lmi_two(), which no file"),
    ("include, sideways from cmd", "src/cmd/x.c", SPDX + '\n#include "base/base.h"\n', 3, "may not include"),
    (
        "include, a system's header outside base",
        "src/model/x.c",
        SPDX + "#include <unistd.h>\n",
        2,
        "system.h",
    ),
    ("systems", "src/model/x.c", SPDX + "#ifdef _WIN32\n#endif\n", 2, "asks for _WIN32; only src/base may"),
    ("include, Python in src", "src/base/x.c", SPDX + "#include <Python.h>\n", 2, "may not include"),
    ("include, in a table", "src/base/x.def", '#include "model/model.h"\n', 1, "may not include"),
    (
        "include, upward in ext",
        "python/ext/torch/x.c",
        SPDX + '#include "calls/calls.h"\n',
        2,
        'may not include "calls/calls.h": python/ext/LAYERS lets torch use none above it',
    ),
    (
        "layers, no room in lamina",
        "python/lamina/_stray/x.py",
        SPDX_PY,
        1,
        "which python/LAYERS does not name",
    ),
    (
        "imports, a room above",
        "python/lamina/_base/x.py",
        SPDX_PY + "from .._run.once import Run\n",
        2,
        "may not import lamina._run.once.Run: python/LAYERS lets _base use none above it",
    ),
    (
        "imports, inside a function, for a type checker, absolute",
        "python/lamina/_run/x.py",
        SPDX_PY + "def f():\n    from lamina import _report\n",
        3,
        "may not import lamina._report: python/LAYERS lets _run use _base",
    ),
    (
        "includes, Python in the room without it",
        "python/ext/process/x.c",
        SPDX + "#include <Python.h>\n",
        2,
        'may not include "Python.h": this room is without Python',
    ),
    ("layers, no room in ext", "python/ext/stray/x.c", SPDX, 1, "which python/ext/LAYERS does not name"),
    ("include, ext", "python/ext/x.c", SPDX + '#include "base/base.h"\n', 2, "client of lamina.h"),
    (
        "include, ext above its base",
        "python/ext/torch/x.c",
        SPDX + '#include "src/base/base.h"\n',
        2,
        "client of lamina.h",
    ),
    (
        "include, ext of the library",
        "python/ext/base/x.c",
        SPDX + '#include "src/model/model.h"\n',
        2,
        "client of lamina.h",
    ),
    (
        "layers, ext of the library",
        "python/ext/LAYERS",
        "base: src/model\n",
        1,
        "may use src/model only when",
    ),
    (
        "include, ext and torch",
        "python/ext/x.c",
        SPDX + "#include <ATen/ATen.h>\n",
        2,
        "Python.h and libc only",
    ),
    ("include, public header", "include/lamina.h", SPDX + '#include "base/base.h"\n', 2, "public header"),
    ("include, Python in public", "include/lamina_x.h", SPDX + "#include <Python.h>\n", 2, "public header"),
    ("function, C", "src/base/x.c", LONG_C, 2, "f() takes 94 lines"),
    ("function, Python", "tests/x.py", LONG_PY, 2, "f() takes 92 lines"),
    ("file", "src/base/x.c", SPDX + "int a;\n" * 700, 701, "has 701 lines, more than 700"),
    ("header", "include/lamina.h", SPDX + "int a;\n" * 600, 601, "more than 600"),
    ("printf", "src/base/x.c", SPDX + 'void f(void) { printf("x"); }\n', 2, "calls printf()"),
    ("exit", "src/base/x.c", SPDX + "void f(void) {\n    exit(1);\n}\n", 3, "calls exit()"),
    ("abort", "python/ext/x.c", SPDX + "void f(void) { abort(); }\n", 2, "calls abort()"),
    (
        "field, dict",
        "python/ext/results/x.c",
        SPDX + 'int f(PyObject *d, PyObject *v) { return PyDict_SetItemString(d, "peak", v); }\n',
        2,
        "names a field of a result",
    ),
    (
        "field, built",
        "python/ext/results/x.c",
        SPDX + 'PyObject *f(void) { return Py_BuildValue("{s:i}", "peak", 1); }\n',
        2,
        "names a field of a result",
    ),
    (
        "field, JSON",
        "src/report/table/x.c",
        SPDX + 'void f(lmi_buf *b) { lmi_put(b, "{\\"peak\\": "); }\n',
        2,
        "names a field of a result",
    ),
    (
        "numbers, a second table",
        "src/report/diff/x.def",
        "".join(f'METRIC(A, "{name}")\n' for name in NUMBERS),
        1,
        "lists numbers by name",
    ),
    (
        "numbers, by words of a macro",
        "src/report/budget/x.def",
        "".join(f"BUDGET({name}, COUNT)\n" for name in NUMBERS),
        1,
        "lists numbers by name",
    ),
    (
        "numbers, a switch of the command",
        "src/cmd/x.c",
        SPDX + "static const char *const all[] = {" + ", ".join(f'"{name}"' for name in NUMBERS) + "};\n",
        2,
        "lists numbers by name",
    ),
    (
        "numbers, in the page's script",
        "src/report/page/x.js",
        "const METRICS = [\n" + "".join(f"  {{key: '{name}'}},\n" for name in NUMBERS) + "];\n",
        2,
        "lists numbers by name",
    ),
    (
        "convention, strcmp",
        "src/model/x.c",
        SPDX + 'int f(char *n) { return strcmp(n, "torchscan"); }\n',
        2,
        "policy",
    ),
    (
        "convention, ==",
        "src/model/x.c",
        SPDX + 'int f(char *convention) { return convention == "x"; }\n',
        2,
        "policy",
    ),
    ("convention, Python", "python/lamina/x.py", SPDX_PY + 'A = NAME == "torchscan"\n', 2, "policy"),
    ("convention, in", "python/lamina/x.py", SPDX_PY + 'A = NAME in ("layers", "x")\n', 2, "policy"),
    ("multiplies", "python/lamina/x.py", SPDX_PY + "A = B * 2\n", 2, "computes with `*`"),
    ("divides in place", "python/lamina/x.py", SPDX_PY + "A /= 2\n", 2, "computes with `/`"),
    ("adds counts", "python/lamina/x.py", SPDX_PY + "A = row.macs + row.flops\n", 2, "adds counts"),
    ("sums", "python/lamina/x.py", SPDX_PY + "A = sum(rows)\n", 2, "computes with sum()"),
    ("f-string", "python/lamina/x.py", SPDX_PY + 'A = f"{b:>10}"\n', 2, "formats a value"),
    ("pads", "python/lamina/x.py", SPDX_PY + 'A = "x".rjust(10)\n', 2, "formats with .rjust()"),
    ("licence, C", "src/base/x.c", "int a;\n", 1, "SPDX-License-Identifier"),
    ("licence, Python", "tests/x.py", "A = 1\n", 1, "SPDX-License-Identifier"),
    ("licence, script", "tools/x", "#!/bin/sh\ntrue\n", 1, "SPDX-License-Identifier"),
    ("tab", "src/base/x.c", SPDX + "\tint a;\n", 2, "has a tab"),
    ("width", "src/base/x.c", SPDX + "/* " + "x" * 110 + " */\n", 2, "is 116 columns wide"),
    ("width, table", "src/base/x.def", "A(" + "x" * 130 + ")\n", 1, "is 133 columns wide, more than 130"),
    ("width, script", "tools/x", "#!/usr/bin/env python3\n" + SPDX_PY + "#" * 111 + "\n", 3, "columns wide"),
    ("machine path", "docs/x.md", "see\n/" + "home/someone/x\n", 2, "path of one machine"),
    ("machine path, quoted", "tests/x.py", SPDX_PY + 'A = "/' + 'tmp/x"\n', 2, "path of one machine"),
]


@pytest.mark.parametrize(
    ("path", "text", "line", "sentence"), [s[1:] for s in SEEDED], ids=[s[0] for s in SEEDED]
)
def test_rule_fires(tmp_path: Path, path: str, text: str, line: int, sentence: str) -> None:
    root = clean_tree(tmp_path)
    code, before = check(root)
    assert (code, before) == (0, "")
    seed(root, {path: text})
    code, out = check(root)
    assert code == 1
    assert any(told.startswith(f"{path}:{line}: ") and sentence in told for told in out.splitlines()), out


QUIET = [
    ("printf in a comment", "src/base/x.c", SPDX + "/* printf(1) */\n// abort()\n"),
    ("printf in a string", "src/base/x.c", SPDX + 'const char *s = "printf(x) { \\" {";\n'),
    (
        "an attribute named printf",
        "src/base/x.c",
        SPDX + "int f(const char *s, ...) __attribute__((format(printf, 1, 2)));\n",
    ),
    ("snprintf", "src/base/x.c", SPDX + "int f(char *b) { return snprintf(b, 2, b); }\n"),
    ("a long initialiser", "src/base/x.c", SPDX + "static const int a[] = {\n" + "    1,\n" * 90 + "};\n"),
    (
        "numbers as fields of a result",
        "src/report/tell/x.c",
        SPDX + "".join(f'void {name}(void) {{ tell("{name}"); }}\n' for name in NUMBERS),
    ),
    (
        "a few numbers together",
        "src/cmd/x.c",
        SPDX + 'static const char *const some[] = {"macs", "params", "peak", "time"};\n',
    ),
    ("a long struct", "src/base/x.h", SPDX + "struct a {\n" + "    int a;\n" * 90 + "};\n"),
    ("extern C", "include/lamina.h", SPDX + 'extern "C" {\n' + "int f(void);\n" * 90 + "}\n"),
    (
        "a macro with a brace",
        "src/base/x.c",
        SPDX + "#define A(x) \\\n    do { x; \\\n    } while (0)\nint a;\n",
    ),
    ("excused", "python/lamina/x.py", SPDX_PY + "A = now + 500 * MS  # not a count: milliseconds\n"),
    ("an old tool's table", "python/lamina/_old/x.py", SPDX_PY + 'A = f"{2 * n:>8}".ljust(9)\n'),
    ("a list repeated", "python/lamina/x.py", SPDX_PY + "A = [None] * n\n"),
    ("arithmetic in tests", "tests/x.py", SPDX_PY + "A = 2 * 3\n"),
    ("a layout's name", "python/lamina/x.py", SPDX_PY + 'A = style == "0.1.1"\n'),
    ("a make file's tabs", "Makefile", "all:\n\ttrue\n"),
    ("built files", "build/x.c", "\tint a;\n"),
]


@pytest.mark.parametrize(("path", "text"), [q[1:] for q in QUIET], ids=[q[0] for q in QUIET])
def test_rule_stays_quiet(tmp_path: Path, path: str, text: str) -> None:
    root = seed(clean_tree(tmp_path), {path: text})
    assert check(root) == (0, "")


def test_every_rule_is_seeded(tmp_path: Path) -> None:
    """A rule without a seeded breach in this file would be a rule that nobody has seen fire."""
    listed = subprocess.run(
        [sys.executable, ROOT / "tools/check", "--rules"], capture_output=True, text=True, check=True
    )
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    root = clean_tree(tmp_path)
    for number, (_, path, text, _, _) in enumerate(SEEDED):
        inside = path.startswith(("src/LAYERS", "include/"))
        stem, dot, suffix = path.rpartition(".")
        seed(root, {path if inside or not dot else f"{stem}{number}.{suffix}": text})
    seed(root, {f"src/base/more{i}.c": SPDX for i in range(20)} | circle(4))
    _, out = check(root)
    sentences = {
        "layers": "listed above",
        "systems": "only src/base may",
        "includes": "may not include",
        "imports": "may not import",
        "headers": "which no file of",
        "crowded": "sources, more than",
        "circles": "in a circle of",
        "long_functions": "() takes",
        "long_files": "lines, more",
        "quiet": "never prints",
        "named_once": "names a field",
        "numbers_once": "lists numbers by name",
        "convention_tests": "policy",
        "thin_python": "belong to C",
        "licence": "lacks the line",
        "tabs": "has a tab",
        "columns": "columns wide",
        "machine_paths": "of one machine",
    }
    assert sorted(sentences) == sorted(names)
    for name in names:
        assert sentences[name] in out, name


def test_some_rules_only(tmp_path: Path) -> None:
    root = seed(clean_tree(tmp_path), {"src/base/x.c": "\tint a;\n"})
    command = [sys.executable, ROOT / "tools/check", "--root", root, "--only"]
    for rule, code in [("tabs", 1), ("licence", 1), ("layers,includes", 0), ("nonsense", 2)]:
        done = subprocess.run([*command, rule], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr


def test_this_tree_holds_the_rules() -> None:
    code, out = check(ROOT)
    assert code == 0, out


def test_a_crowded_folder(tmp_path: Path) -> None:
    root = clean_tree(tmp_path)
    seed(root, {f"src/base/x{i}.c": SPDX for i in range(19)})
    assert check(root) == (0, "")
    seed(root, {"src/base/x.c": SPDX})
    assert "base has 21 sources, more than 20" in check(root)[1]


def test_a_circle_of_files(tmp_path: Path) -> None:
    """Each names what it uses of which, so that a reader knows what to cut. Three may."""
    root = seed(clean_tree(tmp_path), circle(3))
    assert check(root) == (0, "")
    seed(root, circle(4))
    told = "in a circle of 4 files, more than 3 (c0.c c1.c c2.c c3.c); move what they share below them."
    lines = [f"src/model/c{i}.c:3: uses lmi_c{(i + 1) % 4} of c{(i + 1) % 4}.c {told}" for i in range(4)]
    assert check(root) == (1, "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("static int lmi_c3(void) {\n    return lmi_c0();\n}\n", 0),
        ("/* lmi_c0() */\nint lmi_c3(void) {\n    return 1;\n}\n", 0),
        ("const int *lmi_c0(void);\nint\nlmi_c3(int a,\n       int b) {\n    return a + b;\n}\n", 1),
        ("extern const int lmi_c3[];\n/* of c0.c */ static int (*const at)(void) = lmi_c0;\n", 0),
        ("const int *const lmi_c3[2] = {&lmi_c0};\n", 1),
    ],
    ids=["its own", "in a comment", "over lines", "declared", "a table"],
)
def test_what_is_an_arrow_of_a_circle(tmp_path: Path, text: str, code: int) -> None:
    root = seed(clean_tree(tmp_path), circle(4))
    seed(root, {"src/model/c3.c": SPDX + text})
    assert check(root)[0] == code


def test_a_circle_of_modules(tmp_path: Path) -> None:
    root = clean_tree(tmp_path)
    for n, code in [(3, 0), (4, 1)]:
        for i in range(n):
            text = f"def f():\n    from .c{(i + 1) % n} import f\n"
            seed(root, {f"python/lamina/_run/c{i}.py": SPDX_PY + text})
        assert check(root)[0] == code
    told = "uses c1 of c1.py in a circle of 4 files, more than 3 (c0.py c1.py c2.py c3.py)"
    assert f"python/lamina/_run/c0.py:3: {told}" in check(root)[1]


def test_a_crowded_folder_of_tests(tmp_path: Path) -> None:
    root = clean_tree(tmp_path)
    seed(root, {f"tests/c/base/test_base_x{i}.c": SPDX for i in range(20)})
    assert check(root) == (0, "")
    seed(root, {"tests/c/base/test_base_x.c": SPDX})
    assert "tests/c/base has 21 sources, more than 20" in check(root)[1]
