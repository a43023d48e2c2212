# SPDX-License-Identifier: Apache-2.0
"""The command ``lamina``. The core parses, runs and prints; this provides streams, live models and the Python
part of doctor."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import contextmanager, redirect_stdout, suppress

from .. import _lamina
from .._base.errors import CountError, FormatError
from .._base.terminal import size_of, takes_unicode
from .progress import Progress

TYPE_CHECKING = False  # importing typing, pathlib or shutil takes longer than reading a file of a model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any, TextIO

    from .script import Script

FAILED, INTERNAL, INTERRUPTED, BROKEN_PIPE = 3, 4, 130, 141
PATIENCE = 1500  # milliseconds that work may take to notice a Ctrl-C
UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)  # output can't be written


class Host:
    """The surroundings of the command: two streams, the terminal's width, and live models."""

    def __init__(self, out: TextIO, err: TextIO, *, alone: bool = False) -> None:
        self.out = out
        self.err = err
        self.alone = alone  # the process is the command's, and its signals are
        self.is_terminal = out.isatty()
        self.err_is_terminal = err.isatty()
        self.is_utf8 = takes_unicode(out)
        self.width, self.height = self._size()
        self._built: dict[Any, Any] = {}  # models that a subcommand with two runs has built
        self._built_dry: dict[Any, Any] = {}  # those that were too large, without values
        self.wanted: Script | None = None

    def _size(self) -> tuple[int, int]:
        """Columns and lines of the terminal; 0 without a terminal and COLUMNS. 0 lines too unless the
        terminal is the process's standard output, where a pager writes."""
        size = size_of(sys.__stdout__)
        with suppress(OSError, ValueError, AttributeError):  # a stream without a file
            if self.is_terminal and self.out.fileno() == 1:
                return size.columns, size.lines
        return size.columns, 0

    def live(self, request: dict[str, Any]) -> _lamina.Model:
        """Builds and runs a live model once; the request has the fields of ``lam_live``, by their names."""
        from .._base.advice import COMMAND, advise
        from .._inspect import looks
        from .._run.repeat import Repeats

        repeats, dry, needs_run = request.pop("repeats"), request["dry"], request.pop("needs_run")
        request["time"] = Repeats(repeats=repeats or None).check(dry=dry, asked=request["time"])
        request["health"] = looks({}, health=request["health"], dry=dry)
        if request.pop("or_layers") and request["ops"]:
            request["ops"] = None
        try:
            with _aside(self.out, self.err), self._last_words(request["target"]):
                return self._run(request, needs_run)
        except Exception as error:
            advice = advise(error.__cause__ or error, COMMAND, getattr(error, "lamina_raised", None))
            if error.args and isinstance(error.args[0], str):
                text = error.args[0].replace("leave dry=True out", "leave --dry out")
                error.args = (text if advice is None else f"{text}; {advice}", *error.args[1:])
            raise

    def _run(self, request: dict[str, Any], needs_run: str | None) -> _lamina.Model:
        """Runs the model; one that is larger than the memory is followed as in a dry run, unless the request
        needs values or times."""
        from .._target.load import _TooLargeShownError
        from .live import run_target

        try:
            return run_target(**request, built=self._built)
        except _TooLargeShownError as error:
            if request["dry"]:
                raise
            if needs_run:
                raise _TooLargeShownError(
                    f"{error}, so it can't run here, and {needs_run} needs a run; leave it out for a dry "
                    "run, which follows the shapes, or ask `lamina fit` what a run would need"
                ) from error
            why = str(error)
        request |= {"dry": True, "dry_because": why}
        return run_target(**request, built=self._built_dry)

    @contextmanager
    def _last_words(self, target: str) -> Iterator[None]:
        """In the block, a signal that ends the process is reported with the layer that ran."""
        if self.alone:
            _lamina.last_words(target)
        try:
            yield
        finally:
            if self.alone:
                _lamina.last_words(None)

    def rules(self) -> tuple[Any, Any]:
        """The rules that the model's code has registered, and the function for metrics without a formula."""
        from .._results.rules import OwnRules

        return OwnRules.for_core()

    def script(self, *program: Any) -> None:
        """Notes the program to run and record once the command has ended, as ``Script`` takes it."""
        from .script import Script

        self.wanted = Script(*program)

    def wait(self, milliseconds: int) -> None:
        """Waits between two reads of a recording."""
        from time import sleep

        self.out.flush()
        sleep(milliseconds / 1000)  # not a count: a clock

    def ranks(self, folder: str, rank: int | None, node: str | None, layers: bool) -> _lamina.Ranks:
        """The verdict on a run of many ranks, from its folder; and one of them, or all layers, beside the
        others."""
        from .._ranks import open_run

        with _files():
            run = open_run(folder)
            found = run.judged()
            if rank is not None or node is not None or layers:
                found.look(rank, node, layers, run.layers)
        return found

    def merge(self, recordings: list[str], folder: str) -> tuple[int, int, int]:
        """Writes recordings into the folder of a run; with none, makes its files fewer. Returns how many were
        written, how many were left as they were, and how many recordings were left out."""
        from .._ranks.merge import merge

        with _files(), Progress(self.err, "merging", shown=self.err_is_terminal) as progress:
            return merge(recordings, folder, progress.tell, progress.at)

    def sql(self, folder: str, query: str) -> Any:
        """The rows of a query over the tables of a run, for Arrow."""
        from tempfile import TemporaryDirectory

        from .._ranks.query import ask

        with (
            _files(),
            Progress(self.err, "asking", shown=self.err_is_terminal),
            TemporaryDirectory(prefix="lamina-") as spill,
        ):
            return ask(folder, query, spill)

    def roof(self, dtype: str | None, device: int) -> tuple[float, float]:
        """The best that a device of this machine reaches: FLOPs and bytes per second."""
        from .._results.roof import best_of
        from .live import torch_module

        torch_module()
        return best_of(dtype or "float32", device)

    def checks(self) -> tuple[str, list[list[str]]]:
        """The file with the checks of the project around the current folder, and the arguments of each
        check."""
        from pathlib import Path

        from .project import read_checks

        return read_checks(Path.cwd())

    def doctor(self) -> str:
        """The abilities of this Python and this torch for lamina."""
        from .doctor import describe

        return describe()


class _Closed(io.TextIOBase):
    """A standard output that was closed before Python began: writing to it fails."""

    encoding = "utf-8"

    def write(self, text: str, /) -> int:
        if text:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return 0

    def fileno(self) -> int:
        return 1


def _streams() -> tuple[TextIO, TextIO]:
    """The standard streams. If they were closed before Python began, output is an error, and errors are
    discarded; their numbers are taken, for a file that is opened later must not get them."""
    for number, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        if stream is None:
            with suppress(OSError):
                here = os.open(os.devnull, os.O_WRONLY)
                if here != number:
                    os.dup2(here, number)
                    os.close(here)
    out: Any = _Closed() if sys.stdout is None else sys.stdout
    err = io.TextIOWrapper(io.FileIO(os.devnull, "w"), "utf-8") if sys.stderr is None else sys.stderr
    return out, err


@contextmanager
def _files() -> Iterator[None]:
    """In the block, a file of a run's folder that can't be read or written is an error that names it."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise FormatError(f"{os.fsdecode(error.filename)}: {error.strerror}") from error


@contextmanager
def _aside(out: TextIO, err: TextIO) -> Iterator[None]:
    """In the block, output of a model's code, from Python or from C, goes to the error stream: it is not the
    command's data."""
    saved = _diverted(out)
    try:
        with redirect_stdout(err):
            yield
    finally:
        if saved is not None:
            with suppress(OSError):
                _flush(out)
            os.dup2(saved, 1)
            os.close(saved)


def _diverted(out: TextIO) -> int | None:
    """Redirects the standard output to the error stream and returns the function that restores it, or None if
    one of them is closed."""
    saved = None
    try:
        _flush(out)
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:
        if saved is not None:
            os.close(saved)
        return None
    return saved


def _flush(out: TextIO) -> None:
    import ctypes

    out.flush()
    if sys.__stdout__ is not None:
        sys.__stdout__.flush()
    ctypes.CDLL(None).fflush(None)  # the output of C code


def _drop(out: TextIO) -> None:
    """Discards further output: Python flushes the stream when it ends, and must not fail then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


def _complain(err: TextIO, text: str) -> None:
    """Prints an error; if that fails too, the exit code must still be this error's."""
    try:
        print(f"lamina: {text}", file=err)
        err.flush()
    except OSError:
        _drop(err)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (without the program's name) and returns its exit code: 0 fine, 1 a finding, 2
    usage, 3 the model failed, 4 an internal error, 130 interrupted."""
    out, err = _streams()
    for stream in (out, err):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    host = Host(out, err, alone=argv is None)
    if host.alone:
        _lamina.end_at_interrupt(PATIENCE)
    try:
        words = ["lamina", *(sys.argv[1:] if argv is None else argv)]
        code = _lamina.command([word.encode("utf-8", "surrogateescape") for word in words], host)
        out.flush()
    except KeyboardInterrupt:
        if host.alone:
            _lamina.end_at_interrupt(None)  # it was heard: what is left is the end of the process
        return INTERRUPTED
    except SystemExit:  # the model's code raised it, and this was reported
        return FAILED
    except BrokenPipeError:
        # The reader of the output has closed it, so no more output can be written, not even by Python's flush
        # at exit.
        _drop(out)
        return BROKEN_PIPE
    except CountError as error:  # of a function that the model's code registered
        _complain(err, f"error: {error}")
        return FAILED
    except Exception as error:
        if os.environ.get("LAMINA_DEBUG"):
            raise
        if isinstance(error, OSError) and error.filename is None and error.errno in UNWRITTEN:
            _drop(out)
            _complain(err, f"error: the output can't be written: {error.strerror}")
            return FAILED
        _complain(
            err,
            f"internal error: {type(error).__name__}: {error}; LAMINA_DEBUG=1 shows where. Please report it.",
        )
        return INTERNAL
    if host.wanted is None:
        return code
    _lamina.end_at_interrupt(None)  # the program's signals are its own
    return host.wanted.run()
