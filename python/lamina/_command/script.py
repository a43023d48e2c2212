# SPDX-License-Identifier: Apache-2.0
"""``lamina run``: a program as Python would run it, with a watch on every root module that it calls.

A root is found at its first call from outside any other module, where calls of modules are redirected to C
(python/ext/calls/module_call.c). torch is not imported before the program imports it, since programs set
environment variables before.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, ref

from .. import _lamina
from .._guard.imports import Finder

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import TracebackType

    from .._watch import Watch


class Script:
    """A program to run: a file, or a module as for ``python -m``."""

    def __init__(
        self,
        module: str | None,
        argv: list[str],
        file: str,
        every: int,
        memory: bool,
        health: bool,
        job: str | None,
        peak: str | None,
    ) -> None:
        self._module, self._argv, self._file, self._every = module, argv, file, every
        self._memory, self._health, self._job, self._peak = memory, health, job, peak
        self._watch: Watch | None = None
        self._process = os.getpid()
        self._raised = False  # the program raised an exception, SystemExit aside

    def run(self) -> int:
        """Runs the program as ``__main__``. Its exceptions propagate to Python, which ends as without
        lamina."""
        source, inside = b"", None
        if not self._file:
            return _refused("--file is empty; name the file that is to be written")
        if Path(self._file).is_dir():
            return _refused(f"--file {self._file}: it is a folder; name a file in it")
        if self._module is None and not self._argv[0]:
            return _refused("the program has no name; name a Python program, or -m MODULE")
        self._file = str(Path(self._file).absolute())  # the program may change its folder
        if self._module is None:
            inside = _main_of(self._argv[0])
        if self._module is None and inside is None:
            try:
                source = Path(self._argv[0]).read_bytes()
            except IsADirectoryError:
                return _refused(f"{self._argv[0]}: it has no __main__.py")
            except OSError as error:
                return _refused(f"{self._argv[0]}: {error.strerror}{_near_file(self._argv[0])}")
        after_import("torch", self._begin)
        _trim_tracebacks()
        atexit.register(self._end)
        try:
            if self._module is not None:
                self._run_module(self._module)
            elif inside is not None:
                self._run_inside(self._argv[0], inside)
            else:
                self._run_file(self._argv[0], source)
        except BaseException as error:
            self._raised = not isinstance(error, SystemExit)
            if self._watch is not None:
                self._watch.note_end(error)
            raise
        return 0

    def _end(self) -> None:
        """Called when Python ends, after the program: its threads may train after its last line, and so may
        its atexit functions. In a forked process it does nothing."""
        if os.getpid() != self._process:
            return
        if self._watch is not None:
            self._watch.close()
        if not self._raised or (self._watch is not None and self._watch.began):
            self._tell()

    def _tell(self) -> None:
        """Prints the last line: the recorded steps, the file, and how to show it; or that nothing was
        recorded."""
        if sys.stderr is None:
            return
        watch = self._watch
        if watch is None or not watch.began:
            outside = " outside compiled code" if watch is not None and _lamina.compiler_used() else ""
            sys.stderr.write(
                f"lamina: nothing was recorded: this process called no model with parameters{outside}\n"
            )
            return
        calls, steps, run = watch.totals
        if run == 0 or not Path(watch.file).exists():
            return  # the recording failed, and its error is on the screen already
        file = watch.file if Path(watch.file).parent != Path.cwd() else Path(watch.file).name
        what = f"{steps} step{'' if steps == 1 else 's'} of {calls} call{'' if calls == 1 else 's'}"
        more = f", run {run} in that file" if run > 1 else ""
        sys.stderr.write(
            f"lamina: recorded {what} ({watch.rule}){more}; see them with: lamina show {quote(file)}\n"
        )

    def _begin(self) -> None:
        from .._watch import Watch

        self._watch = Watch(
            [],
            self._every or None,
            self._file,
            memory=self._memory,
            health=self._health,
            job=self._job,
            peak=self._peak,
        )
        find_roots(self._watch)

    def _run_module(self, name: str) -> None:
        import runpy

        sys.argv[:] = [name, *self._argv]
        here = str(Path.cwd())
        if not _leaves_path() and sys.path[:1] != [here]:
            sys.path.insert(0, here)
        runpy.run_module(name, run_name="__main__", alter_sys=True)

    def _run_file(self, path: str, source: bytes) -> None:
        sys.argv[:] = self._argv
        if not _leaves_path():
            sys.path[0] = str(Path(path).resolve().parent)
        file = str(Path(path).absolute())
        code = compile(source, file, "exec", dont_inherit=True)  # without this file's __future__ imports
        _run_code(code, __file__=file, __cached__=None, __loader__=SourceFileLoader("__main__", file))

    def _run_inside(self, path: str, spec: ModuleSpec) -> None:
        """The ``__main__`` of a folder or a zip file."""
        sys.argv[:] = self._argv
        sys.path[0 : 0 if _leaves_path() else 1] = [str(Path(path).absolute())]
        loader: Any = spec.loader
        more = {"__cached__": spec.cached, "__loader__": loader, "__package__": "", "__spec__": spec}
        _run_code(loader.get_code("__main__"), __file__=spec.origin, **more)


def _refused(why: str) -> int:
    """Says why there is no program to run. The exit code."""
    sys.stderr.write(f"lamina: error: {why}\n")
    return 2


def _near_file(path: str) -> str:
    """``"; did you mean train.py?"``, or what is to be named."""
    from difflib import get_close_matches

    folder = Path(path).parent
    names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
    near = get_close_matches(Path(path).name, names, n=1)
    return f"; did you mean {folder.joinpath(near[0])}?" if near else "; name a Python program, or -m MODULE"


def _main_of(path: str) -> ModuleSpec | None:
    """The ``__main__`` of a folder or a zip file; None if it has none or is neither."""
    from pkgutil import get_importer

    finder = get_importer(str(Path(path).absolute()))
    return None if finder is None else finder.find_spec("__main__", None)


def _run_code(code: Any, **names: Any) -> None:
    from types import ModuleType

    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, **names)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102 - this is its purpose


def _leaves_path() -> bool:
    """True if Python has an option (``-P``, ``-I``) that keeps the program's folder out of the path."""
    return bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def _trim_tracebacks() -> None:
    """Makes tracebacks begin at the program."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        first = trace
        while first is not None and not _is_last_of_ours(first):
            first = first.tb_next
        if first is not None:
            error = error.with_traceback(first.tb_next)
        before(kind, error, error.__traceback__)

    sys.excepthook = hook


def _is_last_of_ours(trace: TracebackType) -> bool:
    """True for the last frame of lamina's code, or of runpy, which runs modules."""
    ours = (str(Path(__file__).parents[1]), "<frozen runpy>")
    following = trace.tb_next
    return trace.tb_frame.f_code.co_filename.startswith(ours) and (
        following is None or not following.tb_frame.f_code.co_filename.startswith(ours)
    )


# -- roots ---------------------------------------------------------------------------------------------------


def find_roots(watch: Watch) -> None:
    """Watches every module with parameters that is called from outside any other module, from its first call
    on. Modules that torch itself calls, to repeat forward work or to compile, are not watched."""
    from .._base.check import check_module
    from .._base.modules import parameters
    from .._guard.standing_entry import Rest
    from .._watch import torch_calls

    again = torch_calls()
    seen: dict[int, ReferenceType[Any]] = {}  # by identity: a module may have no hash

    def is_new(module: Any) -> bool:
        key = id(module)
        new = key not in seen
        if new:
            seen[key] = ref(module, lambda _: seen.pop(key, None))
        return new

    def find(module: Any) -> None:
        if id(module) in seen or again():
            return
        root = check_module(module)  # torch.compile may have wrapped it
        is_new(module)
        compilers = "compile_subgraph_reason" in vars(root)  # a graph that torch's compiler made
        known = root is not module and not is_new(root)
        if not known and not compilers and next(parameters(root), None) is not None:
            watch.add_found(root)

    Rest.begin()
    _lamina.find(find)


# -- imports -------------------------------------------------------------------------------------------------


def after_import(name: str, then: Callable[[], None]) -> None:
    """Calls ``then`` after the module ``name`` was imported; now, if it is imported already."""

    def around(run: Callable[[], None]) -> None:
        sys.meta_path.remove(finder)
        run()
        then()

    finder: Any = Finder(name, around)
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, finder)
