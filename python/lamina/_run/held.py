# SPDX-License-Identifier: Apache-2.0
"""What a call leaves for the next one: the caches that it returns, and the tensors in them.

A cache is any object: a tuple of tuples, a class of the program's, a model's own. So it is looked into as far
as Python can, and what it is called does not matter, but for one thing: a call that returns it for the next
one returns it under the name of the argument that takes it.
"""

from __future__ import annotations

import sys
from collections import deque
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .arguments import ABSENT, BOUND, PLAIN, _of_machinery, _parts_of, _slot, _slots_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def tensors_held(value: object, name: str = "") -> list[tuple[str, Any]]:
    """The tensors in ``value``, in any nesting, each once with its place, as ``layers[0].keys``.

    Looks into containers, and into the attributes of objects, but not into modules, functions and types. Of a
    tensor that wraps others, those: they have its memory. A whole number in a tensor of its own (how many
    tokens there are, or where to write the next) is left out: it is not what is kept.
    """
    torch = sys.modules["torch"]
    found: list[tuple[str, Any]] = []
    seen: dict[int, Any] = {}  # keeps values alive, so that no identity is reused
    todo = [(name, value)]
    while todo:
        place, item = todo.pop()
        if isinstance(item, PLAIN) or id(item) in seen:
            continue
        seen[id(item)] = item
        if not isinstance(item, torch.Tensor):
            todo += reversed(list(_inside(place, item, torch)))
        elif parts := _parts_of(place, item):
            todo += reversed(parts)
        elif item.is_floating_point() or item.is_complex() or item.numel() != 1:
            found.append((place, item))
    return found


def _inside(name: str, value: Any, torch: Any) -> Iterable[tuple[str, Any]]:
    """The values inside one that is no tensor, each with its place."""
    if isinstance(value, (torch.nn.Module, FunctionType, *BOUND)) or _of_machinery(type(value)):
        return
    if isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", part) for key, part in dict.items(value))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((_below(name, key), part) for key, part in zip(value._fields, value, strict=True))
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from ((f"{name}[{at}]", part) for at, part in enumerate(value))
    yield from ((_below(name, key), part) for key, part in list(getattr(value, "__dict__", {}).items()))
    for slot in _slots_of(type(value)):
        if (part := _slot(slot, value)) is not ABSENT:
            yield _below(name, slot.__name__), part


def _below(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


def caches_of(root: Any, result: object) -> dict[str, Any]:
    """The caches in what a call of ``root`` returned, by the name of the argument that takes each: the parts
    of ``result`` that have an argument's name and hold tensors, but are none themselves.

    Empty if ``result`` names no part, as a plain tuple does.
    """
    torch = sys.modules["torch"]
    try:
        takes = signature(root.forward).parameters
    except (TypeError, ValueError):
        return {}
    return {
        name: value
        for name, value in _named(result).items()
        if name in takes and not isinstance(value, torch.Tensor) and tensors_held(value)
    }


def _named(result: Any) -> dict[str, Any]:
    """The parts of a result that have names: of a dict, a named tuple, a dataclass or another object."""
    if isinstance(result, dict):
        return {key: value for key, value in dict.items(result) if isinstance(key, str)}
    if isinstance(result, tuple):
        return dict(zip(getattr(result, "_fields", ()), result, strict=False))
    return dict(getattr(result, "__dict__", {}))
