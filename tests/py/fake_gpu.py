# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a GPU (tests/c/streams/fake_gpu.h), in the place of torch's own."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

from lamina import _lamina

ROOT = Path(__file__).resolve().parents[2]
FAKE_GPU = ROOT / "tests/c/streams/fake_gpu.c"

if not shutil.which("cc"):
    pytest.skip("the stand-in for a GPU needs a C compiler", allow_module_level=True)


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "fake_gpu.so")
        flags = ["-shared", "-fPIC", "-O1", f"-I{ROOT}/python/ext"]
        subprocess.run(["cc", *flags, "-o", file, FAKE_GPU, "-lpthread"], check=True)
        library = ctypes.CDLL(str(file))
    library.fake_gpu.restype = ctypes.c_int64
    library.fake_gpu.argtypes = [ctypes.c_char_p, ctypes.c_int64]
    library.fake_gpu_streams.restype = ctypes.c_void_p
    return library


def fake(what: str, value: int = 0) -> int:
    """What tests do with it: see fake_gpu.h."""
    told = int(_library().fake_gpu(what.encode(), value))
    if what == "use":
        _lamina.pretend_device(_library().fake_gpu_streams() or 0)
    return told
