# SPDX-License-Identifier: Apache-2.0
"""Runs `python ...` in a child process that has torch imported, which is most of what such a process takes.

Each is a fork of a process that imported torch, and the modules in ``imports``, and nothing of lamina.
What a program gets is what Python gives one: arguments, folder, variables, path, ``__main__``, a fresh seed,
signals; it ends with the code or signal that Python ends with (test_warm.py). It does not go through all
objects of torch at its end, as Python does, which takes longer than most programs. Variables that are read
when Python or torch starts have a parent of their own, and options of Python are refused. Tests of Python's
start and end, of what is imported, and of signals begin a Python of their own.
"""

from __future__ import annotations

import codecs
import gc
import io
import json
import linecache
import os
import select
import signal
import subprocess
import sys
import tempfile
import types
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 600.0  # seconds, after which what is still awaited never comes, however slow the machine is
AT_START = ("PYTHON", "OMP_", "MKL_", "KMP_", "LANG", "LC_", "LD_", "TORCH_", "MALLOC_")
SHIM = str(Path(__file__).resolve().with_name("shim"))  # has Python's sitecustomize
VISION = ("torchvision.models",)
# Torch's compiler starts no processes of its own, and does not compile and load one program for each kind of
# vector instructions, to see whether they work: it uses none.
COMPILER = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_VEC_ISA_OK": "0"}
# What Python reads at its start and a child does.
BY_CHILD = ("PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING")


class Parent:
    """A Python with torch imported, which forks for each program; several may run at a time."""

    ready: dict[tuple[tuple[str, str], ...], Parent] = {}

    def __init__(self, env: dict[str, str], words: list[str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, *words], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )  # it ends when its standard input does, with the tests
        self.told, self.running, self.ended = b"", set[int](), dict[int, int]()

    @classmethod
    def of(cls, env: dict[str, str], imports: Sequence[str]) -> Parent:
        given = {name: value for name, value in env.items() if name not in BY_CHILD}
        # Python reads this folder at its start; a child puts all of them into its path.
        given["PYTHONPATH"] = SHIM if SHIM in env.get("PYTHONPATH", "").split(os.pathsep) else ""
        # Torch's compiler reads more when it is imported.
        read = (*AT_START, "TORCH") if imports else AT_START
        kept = sorted(item for item in given.items() if item[0].startswith(read))
        key = (*kept, ("imports", " ".join(imports)))
        if key not in cls.ready:
            cls.ready[key] = cls(given, [*imports])
        return cls.ready[key]

    def line(self, seconds: float) -> list[int]:
        """The next line that it writes: a child's process ID, and how a child ended."""
        assert self.process.stdout is not None
        while b"\n" not in self.told:
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                raise TimeoutError
            piece = os.read(self.process.stdout.fileno(), 4096)
            if not piece:
                raise EOFError(f"a warm Python ended: {self.process.wait()}")
            self.told += piece
        first, _, self.told = self.told.partition(b"\n")
        return [int(word) for word in first.split()]

    def ask(self, request: dict[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()

    def fork(self, request: dict[str, object]) -> int:
        """A child's process ID."""
        self.ask(request)
        while len(told := self.line(LIMIT)) == 2:
            self.ended[told[0]] = told[1]
        self.running.add(told[0])
        return told[0]

    def wait(self, child: int) -> int:
        """How a child ended, as of subprocess."""
        try:
            while child not in self.ended:
                process, code = self.line(LIMIT)
                self.ended[process] = code
        except TimeoutError:
            self.kill(child)
            raise
        self.running.discard(child)
        return self.ended.pop(child)

    def has_ended(self, child: int) -> bool:
        """True once the child has ended; does not wait."""
        with suppress(TimeoutError):
            while child not in self.ended:
                process, code = self.line(0)
                self.ended[process] = code
        return child in self.ended

    def kill(self, child: int) -> None:
        if child in self.running:
            self.running.discard(child)
            self.ask({"kill": child})


class Running:
    """A program that was started. ``tty``: the terminal that it is on, which it controls."""

    def __init__(
        self,
        words: list[str],
        cwd: Path | str | None,
        env: dict[str, str],
        imports: Sequence[str] = (),
        tty: str | None = None,
        out: Path | None = None,
    ) -> None:
        self.args, self._folder = words, tempfile.TemporaryDirectory()
        self._out, self._err = (Path(self._folder.name, name) for name in ("out", "err"))
        self._parent = Parent.of(env, imports)
        where = {"in": os.devnull, "out": str(self._out), "err": str(self._err)}
        if tty:
            where = {"in": tty, "out": str(out or tty), "err": tty}
        self.pid = self._parent.fork(
            {"words": words, "cwd": str(cwd or Path.cwd()), "env": env, "tty": bool(tty), **where}
        )

    def has_ended(self) -> bool:
        return self._parent.has_ended(self.pid)

    def kill(self) -> None:
        """Kills it, if it has not ended."""
        self._parent.kill(self.pid)

    def end(self) -> subprocess.CompletedProcess[str]:
        """What it printed and how it ended, once it has."""
        try:
            code = self._parent.wait(self.pid)
            files = (self._out, self._err)
            told = (path.read_text("utf-8", "surrogateescape") if path.exists() else "" for path in files)
            return subprocess.CompletedProcess(["python", *self.args], code, *told)
        finally:
            self._folder.cleanup()


def start(
    *words: str | Path, cwd: Path | str | None = None, env: dict[str, str], imports: Sequence[str] = ()
) -> Running:
    """Starts `python WORDS` without a terminal or input, in this folder or another."""
    return Running([str(word) for word in words], cwd, env, imports)


def python(
    *words: str | Path,
    cwd: Path | str | None = None,
    env: dict[str, str],
    check: bool = False,
    imports: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """What `python WORDS` prints and how it ends."""
    done = start(*words, cwd=cwd, env=env, imports=imports).end()
    if check and done.returncode:
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
    return done


def together(running: list[Running]) -> list[subprocess.CompletedProcess[str]]:
    """What programs that wait for each other printed, and how they ended."""
    try:
        return [each.end() for each in running]
    finally:
        for each in running:
            each.kill()


def lamina(words: list[str], *, cwd: Path | str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What `lamina WORDS` prints and how it ends; it has torchvision imported."""
    return python("-m", "lamina", *words, cwd=cwd, env=env, imports=VISION)


# -- the other side ------------------------------------------------------------------------------------------


def serve() -> None:
    """Of the parent: forks for each line of its standard input, and says which child that is and how each
    child ended."""
    import torch  # noqa: F401

    for name in sys.argv[1:]:
        with suppress(ImportError):  # tests that need it skip
            import_module(name)
    gc.collect()
    # Otherwise each search for garbage goes through all objects of torch. Triton, if it was imported, would
    # print that its frozen objects leak.
    if "triton" not in sys.modules:
        gc.freeze()
    own = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [path for path in sys.path[1:] if path not in own]
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    asked, children = b"", set[int]()
    while True:
        there, _, _ = select.select([0, woken], [], [])
        if woken in there:
            os.read(woken, 4096)
            _tell_ended(children)
        if 0 not in there:
            continue
        piece = os.read(0, 1 << 16)
        if not piece:
            os._exit(0)
        *lines, asked = (asked + piece).split(b"\n")
        for request in map(json.loads, lines):
            if "kill" in request:
                if request["kill"] in children:
                    os.kill(request["kill"], signal.SIGKILL)
                continue
            child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(woken)
                os.close(wake)
                become(request)
            children.add(child)
            os.write(1, f"{child}\n".encode())


def _tell_ended(children: set[int]) -> None:
    with suppress(ChildProcessError):
        while True:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            children.discard(child)
            os.write(1, f"{child} {os.waitstatus_to_exitcode(status)}\n".encode())


def become(request: dict[str, Any]) -> None:
    """Of a child: does what Python does with these words, with torch imported already. It does not return."""
    import random
    import warnings

    if request["tty"]:
        os.setsid()  # so that the first terminal it opens is its own
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name, flags in (
        (0, request["in"], os.O_RDWR if request["tty"] else os.O_RDONLY),
        (1, request["out"], os.O_RDWR | os.O_CREAT),
        (2, request["err"], os.O_RDWR | os.O_CREAT),
    ):
        there = os.open(name, flags, 0o600)
        os.dup2(there, number)
        os.close(there)
    os.environ.clear()
    os.environ.update(request["env"])
    _open_streams(*os.environ.get("PYTHONIOENCODING", "").split(":"))
    os.chdir(request["cwd"])
    random.seed()
    sys.modules["torch"].default_generator.seed()
    if asked := os.environ.get("PYTHONWARNINGS"):
        sys.warnoptions[:] = asked.split(",")
        warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    words = request["words"]
    sys.orig_argv[:] = [sys.executable, *words]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path(path).absolute()) for path in given if path]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=sys.modules["builtins"])
    if sys.version_info < (3, 14):  # later ones make them when they are asked for
        main.__dict__.update(__annotations__={})
    code = 0
    try:
        _run(words, main.__dict__)
    except BaseException as error:
        code = _code_of(error)
    _end(code)


def _open_streams(encoding: str, errors: str = "") -> None:
    """Makes the standard streams anew, as Python makes them for what is open there. Of standard error it
    takes no other treatment of what can't be encoded."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old, mode = getattr(sys, name), "w" if number else "r"
        raw: Any = io.FileIO(number, mode, closefd=False)
        raw.name = f"<{name}>"
        buffer: Any = raw
        if not number:
            buffer = io.BufferedReader(raw)
        elif not old.write_through:  # as with PYTHONUNBUFFERED
            buffer = io.BufferedWriter(raw)
        lines = not old.write_through and (number == 2 or (number == 1 and raw.isatty()))
        stream: Any = io.TextIOWrapper(
            buffer,
            codecs.lookup(encoding or old.encoding).name,
            old.errors if number == 2 else errors or ("strict" if encoding else old.errors),
            "\n",
            line_buffering=lines,
            write_through=old.write_through,
        )
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run(words: list[str], names: dict[str, Any]) -> None:
    """Runs a program in the names of ``__main__``."""
    import runpy
    from importlib.machinery import BuiltinImporter, SourceFileLoader

    is_safe = bool(os.environ.get("PYTHONSAFEPATH"))
    if words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        sys.path[:0] = [] if is_safe else [""]
        names["__loader__"] = BuiltinImporter
        if sys.version_info >= (3, 13):  # which show the lines of such code
            lines = words[1].splitlines(keepends=True)
            linecache.cache["<string>"] = (len(words[1]), None, lines, "<string>")
        exec(compile(words[1], "<string>", "exec", dont_inherit=True), names)
    elif words[0] == "-m":
        sys.argv[:] = ["-m", *words[2:]]
        sys.path[:0] = [] if is_safe else [str(Path.cwd())]
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
    elif words[0].startswith("-"):
        raise SystemExit(f"{words[0]}: an option of Python is read when it starts")
    else:
        sys.argv[:] = words
        file = str(Path(words[0]).absolute())
        sys.path[:0] = [] if is_safe else [str(Path(file).resolve().parent)]
        names.update(__file__=file, __cached__=None, __loader__=SourceFileLoader("__main__", file))
        exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), names)


def _code_of(error: BaseException) -> int:
    """The exit code with which Python ends after an exception, which it prints; minus a signal's number."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _end(code: int) -> None:
    import atexit
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(ValueError):  # it was closed
                stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    serve()
