# SPDX-License-Identifier: Apache-2.0
"""Importing lamina is cheap, imports nothing else, and torch is only imported by who uses it."""

from __future__ import annotations

import subprocess
import sys

from conftest import environment

IMPORTED = """
import sys
before = set(sys.modules)
import lamina
print(*sorted(set(sys.modules) - before))
"""


def python(code):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=environment()["PYTHONPATH"].split(":")[-1]),
        check=True,
    )
    return done.stdout


def test_importing_lamina_imports_nothing_else():
    assert set(python(IMPORTED).split()) == {"__future__", "lamina"}


def test_names_that_need_no_model_need_no_torch():
    code = """
import sys, lamina
lamina.__version__, lamina.Count(3), lamina.clever_format(1824010216), lamina.Report
lamina.torchscan, lamina.thoplw
assert [name for name in lamina.__all__ if not hasattr(lamina, name)] == []
lamina.torchscan.utils.unit_scale(5e9)
print([name for name in ("torch", "numpy") if name in sys.modules])
"""
    assert python(code).strip() == "[]"


def test_version_is_the_librarys():
    import lamina
    from lamina import _lamina

    assert lamina.__version__ == _lamina.version()
    assert set(lamina.__all__) <= set(dir(lamina))


def test_changing_an_import_is_enough():
    for old, new in (
        ("from torchscan import summary, crawl_module", "from lamina.torchscan import summary, crawl_module"),
        ("import thoplw", "from lamina import thoplw"),
    ):
        assert old != new
        exec(new, {})
    from lamina.thoplw import clever_format, format, profile
    from lamina.thoplw.format import clever_format as again
    from lamina.torchscan import crawler, modules, process, utils

    names = {
        crawler: ["apply", "crawl_module", "summary"],
        modules: ["module_flops", "module_macs", "module_dmas", "module_rf"],
        process: ["get_process_gpu_ram"],
        utils: [
            "format_name",
            "wrap_string",
            "unit_scale",
            "format_s",
            "format_line_str",
            "format_info",
            "aggregate_info",
        ],
    }
    assert all(callable(getattr(module, name)) for module, wanted in names.items() for name in wanted)
    assert again is clever_format is format.clever_format
    assert callable(profile)
