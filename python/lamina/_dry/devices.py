# SPDX-License-Identifier: Apache-2.0
"""A model with parameters on the meta device and others that are not: a real run raises where the two meet,
and so does a dry run, whose fake tensors are all on the CPU.

A model with all parameters on the meta device runs dry with any inputs, and with any buffers: models that are
made without memory (``init_empty_weights``) have real ones.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .._base.modules import parameters
from .tensors import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

META, OTHER = 1, 2
MOVES = ("aten::copy_", "aten::_to_copy")  # from one device to another


def of_parameters(root: Any) -> list[tuple[Any, int]] | None:
    """The parameters, each with its place; None: all have the same."""
    found = [(p, META if p.is_meta else OTHER) for p in parameters(root)]
    return found if len({place for _, place in found}) > 1 else None


class Places:
    """Where the parameters are that each tensor of a run was computed from."""

    def __init__(self, core: Any, found: list[tuple[Any, int]]) -> None:
        self._core = core
        self._places: dict[int, int] = {}  # by the address of the memory, which no other tensor gets
        for parameter, place in found:
            self._note(core.fake_of(parameter), place)

    def _address(self, tensor: Any) -> int:
        torch = sys.modules["torch"]
        return int(torch.UntypedStorage.data_ptr(storage_of(tensor)))

    def _note(self, tensor: Any, place: int) -> None:
        address = self._address(tensor)
        if self._core.owns(address):
            self._places[address] = self._places.get(address, 0) | place

    def look(self, function: Any, args: Any, kwargs: Any) -> int:
        """The place of what an operator makes. Raises what torch raises if its arguments lie apart. A number
        in a tensor may lie anywhere."""
        name = getattr(getattr(function, "_schema", None), "name", "")
        found = 0
        for tensor in _tensors((args, kwargs)):
            place = self._places.get(self._address(tensor), 0)
            if place and found and place != found and tensor.dim() and name not in MOVES:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, meta and "
                    f"another: {name} takes one that comes from parameters on the meta device, and one from "
                    "parameters that are not; move all of them there, or none"
                )
            if tensor.dim():
                found |= place
        return found

    def note(self, made: Any, place: int) -> None:
        for tensor in _tensors(made) if place else ():
            self._note(tensor, place)


def _tensors(value: Any) -> Iterator[Any]:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided:
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
