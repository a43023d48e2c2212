# SPDX-License-Identifier: Apache-2.0
"""Reports that are read from files: the JSON of a report, or a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from .. import _lamina
from .._base.errors import UsageError
from .._base.files import damage_is_a_value_error, file_of, model_file
from .report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .health import Health

MEASURED = ("time", "memory", "roof")  # options of show() that need a run


class FileReport(Report):
    """A report of the model in a file, of which nothing ran; see :func:`lamina.read`."""

    _has = "nothing of a file is run"

    def __init__(self, file: Path, model: _lamina.Model, *, checked: bool = False) -> None:
        self._file = file
        self._checked = checked
        super().__init__(model)
        _ = self._costs  # a file may be one that can't be counted

    def _needs_run(self, what: str) -> NoReturn:
        raise UsageError(
            f"{self._file}: {what} needs the run, and {self._has}; "
            "lamina.inspect(model, args) makes a report that can tell it"
        )

    def _write(self, **options: Any) -> str:
        if asked := [name for name in MEASURED if options.get(name)]:
            self._needs_run(f"the option {asked[0]}, beyond what the file shows,")
        return super()._write(**options)

    def graph(self) -> NoReturn:
        """Raises ValueError: the file has no graph of operators."""
        self._needs_run("the graph")

    def sees(self, path: str, *element: int) -> NoReturn:
        """Raises ValueError: the file has no graph of operators."""
        del path, element
        self._needs_run("what a layer sees")

    def speed(self, roof: object = None, *, inside: bool = False) -> NoReturn:
        """Raises ValueError: the file has no single runs."""
        del roof, inside
        self._needs_run("the speed of each row")

    def failure(self) -> NoReturn:
        """Raises ValueError: the file does not tell which call raised."""
        self._needs_run("the layer that raised")

    def _failed(self) -> None:
        """None: the file itself contains the failure."""

    @property
    def time(self) -> NoReturn:
        """Raises ValueError: the file has no single runs."""
        self._needs_run("report.time")

    @property
    def memory(self) -> NoReturn:
        """Raises ValueError: the file has no single allocations."""
        self._needs_run("report.memory")

    @property
    def health(self) -> Health:
        """Where NaN and Inf are in the weights.

        Raises:
            ValueError: they were not checked; ``lamina.read(path, health=True)`` checks them.
        """
        if not self._checked:
            self._not_checked()
        return super().health

    def _not_checked(self) -> NoReturn:
        raise UsageError(
            f"{self._file}: its weights were not checked; lamina.read(path, health=True) checks them"
        )


class SavedReport(FileReport):
    """A report from a file: its numbers, without the run; see :meth:`Report.load`."""

    _has = "the file has its numbers alone"

    def _not_checked(self) -> NoReturn:
        self._needs_run("report.health")


def _read(
    file: Path,
    *,
    saved: bool,
    inputs: Sequence[str] = (),
    sizes: Mapping[str, int] | None = None,
    health: bool = False,
) -> FileReport:
    with damage_is_a_value_error():
        model, is_saved = _lamina.read(os.fsencode(file), saved, tuple(inputs), dict(sizes or {}), health)
    return SavedReport(file, model) if is_saved else FileReport(file, model, checked=health)


def load(path: str | os.PathLike[str]) -> FileReport:
    """The report in a file; see :meth:`Report.load`."""
    file = file_of(path)
    if not file.exists():
        raise FileNotFoundError(
            f"there is no file {file}; report.to_json(path) and `lamina show TARGET --json -o FILE` write one"
        )
    return _read(file, saved=True)


def _as_text(shape: Any) -> str:
    """A shape as `-i` of the command takes it."""
    shape = getattr(shape, "shape", shape)  # of a tensor or an array
    return shape if isinstance(shape, str) else "x".join(str(int(n)) for n in shape) or "scalar"


def read(
    path: str | os.PathLike[str],
    *,
    inputs: dict[str, Any] | Sequence[Any] = (),
    sizes: Mapping[str, int] | None = None,
    health: bool = False,
) -> Report:
    """Reads the model in a file: an archive of torch.export, ONNX, safetensors, GGUF, a checkpoint of torch,
    TorchScript, ExecuTorch, an index of shards, a folder with one of these, or a report that
    :meth:`Report.to_json` saved.

    Nothing of the file is run, and torch is not imported. ``params``, ``rows``, ``diff``, tables and pages
    are as of a live model; what the file does not tell is unknown. docs/files.md says what each format tells.

    Args:
        path: The file, or its folder.
        inputs: Shapes of the inputs of an ONNX file, by name or in order: ``{"images": (1, 3, 640, 640)}``. A
            text may have values, as those that decide a shape or a branch: ``{"sr": "scalar:int64=16000"}``.
        sizes: Values for sizes that an ONNX file leaves open, or an archive of torch.export, in place of
            those of its example: ``{"batch": 8}``, or ``{"x.1": 224}`` for axis 1 of the input ``x``.
        health: Look for NaN and Inf in all weights, which ``report.health`` then has. Archives of
            torch.export and ONNX are refused then.

    Raises:
        OSError: the file can't be read.
        ValueError: no such format, or a damaged file; the sentence says where.
        lamina.LaminaError: ``inputs`` or ``sizes`` names what is not in the file or not open in it, or has a
            value that it was not exported for.
    """
    file = model_file(path)
    if isinstance(inputs, dict):
        shapes = [f"{name}={_as_text(shape)}" for name, shape in inputs.items()]
    else:
        shapes = [_as_text(shape) for shape in inputs]
    return _read(file, saved=False, inputs=shapes, sizes=sizes, health=bool(health))
