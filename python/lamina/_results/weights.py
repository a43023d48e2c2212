# SPDX-License-Identifier: Apache-2.0
"""The weights of two files against each other, tensor by tensor."""

from __future__ import annotations

import json
import os
from typing import Any, Literal, NamedTuple

from .. import _lamina
from .._base.files import damage_is_a_value_error, model_file
from .changes import Changes

Change = Literal["equal", "changed", "added", "removed", "renamed", "not compared"]


class WeightNumbers(NamedTuple):
    """How much values changed; each is None if they were not compared.

    ``norm``: the L2 norm of the difference, without values that are NaN or Inf. ``relative``: that norm over
    the norm of the values before; None too if those are all 0. ``largest``: the largest absolute difference.
    ``differ``: the share of elements whose values differ, from 0 to 1, and ``elements_differ`` their number.
    ``before_nonfinite`` and ``nonfinite``: values that were, and are, NaN or Inf.
    """

    relative: float | None
    norm: float | None
    largest: float | None
    differ: float | None
    elements_differ: int | None
    before_nonfinite: int | None
    nonfinite: int | None


class TensorChange(NamedTuple):
    """A tensor that is not equal in both files. An added one has no ``before_name``, a removed one no
    ``name``. ``why``: why its values are not compared, a sentence; None if they are, or if it is in one file
    only."""

    change: Change
    name: str | None
    type: str | None
    shape: tuple[int, ...] | None
    before_name: str | None
    before_type: str | None
    before_shape: tuple[int, ...] | None
    elements: int | None
    numbers: WeightNumbers
    why: str | None


class ModuleWeights(NamedTuple):
    """What differs in a module: how many of its tensors became what, and the numbers of those that changed,
    which have ``elements`` elements. ``whole``: everything in the module was added, or removed. ``path`` is
    ``""`` for the whole model."""

    path: str
    whole: bool
    equal: int
    changed: int
    added: int
    removed: int
    renamed: int
    not_compared: int
    elements: int
    numbers: WeightNumbers


class WeightsDiff(Changes):
    """The weights of two files, compared by :func:`lamina.diff_weights`; ``str()`` is a table by module, the
    largest change first. It is false if all tensors are equal."""

    def __init__(
        self, before: str | os.PathLike[str], after: str | os.PathLike[str], *, by: str | None
    ) -> None:
        self._found = _compare(before, after)
        self._by = by
        self._data: dict[str, Any] = json.loads(self._write("json"))

    def _text(self, kind: str, width: int, exact: bool, rows: int, depth: int) -> str:
        return _lamina.weights_text(self._found, kind, self._by, width, exact, rows, depth)

    # -- as data -------------------------------------------------------------------------------------------

    @property
    def tensors(self) -> list[TensorChange]:
        """The tensors that are not equal, in the order of the second file."""
        return [_tensor(fields) for fields in self._data["tensors"]]

    @property
    def modules(self) -> list[ModuleWeights]:
        """The modules with such a tensor, the largest change first."""
        return [_module(fields) for fields in self._data["modules"]]

    @property
    def total(self) -> ModuleWeights:
        """The whole."""
        return _module({"path": "", "whole": False, **self._data["total"]})

    @property
    def notes(self) -> list[str]:
        """What the files leave unknown, one sentence each."""
        return list(self._data["notes"])

    def __bool__(self) -> bool:
        return bool(self._data["tensors"])


def _compare(before: str | os.PathLike[str], after: str | os.PathLike[str]) -> object:
    files = [model_file(path, name) for path, name in ((before, "before"), (after, "after"))]
    with damage_is_a_value_error():
        return _lamina.weights(*map(os.fsencode, files))


def _numbers(fields: dict[str, Any]) -> WeightNumbers:
    values: list[Any] = [fields.pop(name) for name in WeightNumbers._fields]
    values[:4] = [None if value is None else float(value) for value in values[:4]]
    return WeightNumbers(*values)


def _module(fields: dict[str, Any]) -> ModuleWeights:
    fields = dict(fields)
    return ModuleWeights(numbers=_numbers(fields), **fields)


def _tensor(fields: dict[str, Any]) -> TensorChange:
    fields = dict(fields)
    numbers = _numbers(fields)
    for name in ("shape", "before_shape"):
        fields[name] = None if fields[name] is None else tuple(fields[name])
    return TensorChange(numbers=numbers, **fields)


def diff_weights(
    before: str | os.PathLike[str], after: str | os.PathLike[str], *, by: str | None = None
) -> WeightsDiff:
    """Compares the tensors of two files by their values: safetensors, GGUF, checkpoints of torch, an index of
    shards, or a folder with one of these, in any mix.

    Tensors belong together by their names; of a GGUF file and another one also by the names that llama.cpp
    and transformers have for the same part; of the rest those with the same bytes. ``by``: what modules are
    sorted by: ``"relative"`` (default), ``"norm"``, ``"largest"``, ``"differ"`` or ``"elements"``. The files
    are read once or twice, in pieces of a few MiB; nothing of them is run, and torch is not imported.

    Raises:
        OSError: a file can't be read.
        ValueError: a file is none of weights, or damaged, or there is no such metric; the sentence
            says where.
    """
    return WeightsDiff(before, after, by=by)
