# SPDX-License-Identifier: Apache-2.0
"""Runs `lamina ...` in a child process that has torch imported, which is most of what such a process takes.

Each command is a fork of a process that imported torch, torchvision and nothing of lamina. It ends with the
command: Python's own end goes through all objects of torch, which takes longer than most commands. Variables
that are read when Python or torch starts have a process of their own. Tests of what lamina imports, and of
its start and end, begin a Python of their own instead.
"""

from __future__ import annotations

import gc
import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

LIMIT = 600.0  # seconds, after which what is still awaited never comes, however slow the machine is
AT_START = ("PYTHON", "OMP_", "MKL_", "KMP_", "LANG", "LC_", "LD_", "TORCH_", "MALLOC_")


class Parent:
    """A Python with torch imported, which forks for each command."""

    ready: dict[tuple[tuple[str, str], ...], Parent] = {}

    def __init__(self, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )  # it ends when its standard input does, with the tests

    @classmethod
    def of(cls, env: dict[str, str]) -> Parent:
        key = tuple(sorted(item for item in env.items() if item[0].startswith(AT_START)))
        if key not in cls.ready:
            cls.ready[key] = cls(env)
        return cls.ready[key]

    def tell(self, seconds: float) -> int:
        """The next number that it writes: a child's process ID, or how the child ended."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError
        return int(self.process.stdout.readline())

    def run(self, request: dict[str, object]) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        child = self.tell(LIMIT)
        try:
            return self.tell(LIMIT)
        except TimeoutError:
            os.kill(child, 9)
            self.tell(LIMIT)
            raise


def lamina(words: list[str], *, cwd: Path | str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What `lamina WORDS` prints and how it ends, without a terminal or input."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {"words": words, "cwd": str(cwd), "env": env, "out": str(out), "err": str(err)}
        code = Parent.of(env).run(request)
        return subprocess.CompletedProcess(["lamina", *words], code, out.read_text(), err.read_text())


def serve() -> None:
    """Of the parent: forks for each line of its standard input, and says how the child ended."""
    import torch  # noqa: F401

    with suppress(ImportError):  # tests that need it skip
        import torchvision.models  # noqa: F401
    gc.collect()
    # Otherwise each search for garbage goes through all objects of torch. Triton, if it was imported, would
    # print that its frozen objects leak.
    if "triton" not in sys.modules:
        gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            become(json.loads(line))
            return
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(request: dict[str, object]) -> None:
    """Of a child: does what `python -m lamina` does, with torch imported already."""
    import atexit
    import runpy
    import threading

    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["out"], os.O_WRONLY | os.O_CREAT),
        (2, request["err"], os.O_WRONLY | os.O_CREAT),
    ):
        there = os.open(name, flags, 0o600)
        os.dup2(there, number)
        os.close(there)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]  # as `python -m` has it
    sys.argv[:] = ["lamina", *request["words"]]
    code: object = None
    try:
        runpy.run_module("lamina", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    if code is None or isinstance(code, int):  # a text is Python's to print
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit((code or 0) & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    serve()
