# SPDX-License-Identifier: Apache-2.0
"""The stub, the module and its errors agree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import environment

import lamina
from lamina import _lamina
from lamina._base import errors

STUB = Path(lamina.__file__).with_name("_lamina.pyi")


def public(names):
    return {n for n in names if not n.startswith("_")}


def test_the_stub_names_what_there_is():
    tree = ast.parse(STUB.read_text())
    functions = public(n.name for n in tree.body if isinstance(n, ast.FunctionDef))
    classes = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")}
    assert functions | set(classes) == public(dir(_lamina))
    for name, node in classes.items():
        told = public(m.name for m in node.body if isinstance(m, ast.FunctionDef))
        assert told == public(dir(getattr(_lamina, name))), name


def test_every_function_has_a_signature_and_a_sentence():
    things = [getattr(_lamina, n) for n in public(dir(_lamina))]
    for kind in [t for t in things if isinstance(t, type)]:
        things += [getattr(kind, n) for n in public(dir(kind))]
    for thing in things:
        assert thing.__doc__ and thing.__doc__.strip().endswith((".", "'."))
        if callable(thing) and not isinstance(thing, type):
            assert thing.__text_signature__ is not None


ODD = """
import torch
from lamina import _lamina

net = torch.nn.Linear(3, 4)
capture = _lamina.Capture(net)
capture.start()
net(torch.rand(2, 3))
capture.stop()
objects = [_lamina, capture, capture.model(), capture.model().costs(), _lamina.Schedule(1)]
given = [(), *((value,) * n for n in (1, 2, 3) for value in (3, 2.5, "x", None, object(), (), [3], {"a": 3}))]
for name, function in [(name, getattr(o, name)) for o in objects for name in dir(o) if name[0] != "_"]:
    for values in given if callable(function) else ():
        try:
            function(*values)
        except Exception as error:
            if not str(error) or isinstance(error, SystemError):
                print(name, values, repr(error))
"""


def test_whatever_a_function_is_given_it_answers_or_says_what_is_wrong():
    command = [sys.executable, "-X", "faulthandler", "-c", ODD]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_errors_are_what_they_say():
    kinds = [v for v in vars(errors).values() if isinstance(v, type) and issubclass(v, Exception)]
    assert all(issubclass(k, errors.LaminaError) for k in kinds)
    assert issubclass(errors.UsageError, ValueError) and issubclass(errors.RangeError, IndexError)
    error = errors.UsageError("x")
    assert (error.status, error.where, error.at) == ("", "", -1)


def test_the_version_is_the_headers():
    assert re.fullmatch(r"\d+\.\d+\.\d+", _lamina.version())


def test_importing_the_extension_imports_nothing():
    script = "import sys, lamina._lamina; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_stub_has_the_modules_own_signatures():
    pytest.importorskip("mypy.stubtest")
    command = [
        sys.executable,
        "-m",
        "mypy.stubtest",
        "lamina._lamina",
        "--ignore-disjoint-bases",
        "--concise",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
