# SPDX-License-Identifier: Apache-2.0
"""What a call leaves for the next one: the caches that it returns, and the tensors in them.

A cache is any object: a tuple of tuples, a class of the program's, a model's own. So it is looked into as far
as Python can, and what it is called does not matter, but for one thing: a call that returns it for the next
one returns it under the name of the argument that takes it.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.signature import takes
from .arguments import ABSENT, BOUND, PLAIN, _of_machinery, _parts_of, _slot, _slots_of
from .once import run_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    wanted = takes(root.forward)
    return {
        name: value
        for name, value in _named(result).items()
        if wanted is not None
        and name in wanted.parameters
        and not isinstance(value, torch.Tensor)
        and tensors_held(value)
    }


def _named(result: Any) -> dict[str, Any]:
    """The parts of a result that have names: of a dict, a named tuple, a dataclass or another object."""
    if isinstance(result, dict):
        return {key: value for key, value in dict.items(result) if isinstance(key, str)}
    if isinstance(result, tuple):
        return dict(zip(getattr(result, "_fields", ()), result, strict=False))
    return dict(getattr(result, "__dict__", {}))


# -- a step --------------------------------------------------------------------------------------------------

NO_STEP = "a call with one token more, and with what the last one left, returned no cache"


class Kept(NamedTuple):
    """What a forward left for the next one. ``tensors``: for each the number of its layer, its bytes, those
    after a step of one token more, and whether the sequences share it. ``why``: how it grows is not known."""

    tensors: list[tuple[int, int, int, bool]]
    batch: int
    why: str | None


def kept_by(root: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], ids: list[str], **how: Any) -> Kept:
    """Follows a forward and a step after it, in a dry run. ``ids``: the arguments that are tokens; the step
    is given the last token of one of them, the last that it can be given. ``how``: options of the run.

    Without a cache ``tensors`` is empty.
    """
    torch = sys.modules["torch"]
    kept: list[Kept] = []

    class Steps(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.root = root

        def forward(self, *args: Any, **kwargs: Any) -> None:
            caches = caches_of(root, root(*args, **kwargs))
            wanted = takes(root.forward)
            if caches and wanted is not None:
                bound = dict(wanted.bind(*args, **kwargs).arguments)
                kept.append(_after_a_step(root, bound, caches, ids))

    run_once(Steps(), args, kwargs, mode="eval", dry=True, **how)
    return kept[0] if kept else Kept([], 1, None)


def _after_a_step(root: Any, named: dict[str, Any], caches: dict[str, Any], ids: list[str]) -> Kept:
    torch, why = sys.modules["torch"], NO_STEP
    others = {name: value for name, value in named.items() if name not in caches}
    plain = {name: value for name, value in others.items() if not isinstance(value, torch.Tensor)}
    for name in reversed(ids):
        last = named[name][..., -1:]
        for more in (plain, others):
            before = _sizes(caches)
            try:
                after = _sizes(caches_of(root, root(**{**more, name: last, **caches})))
            except Exception as error:  # the model's own, which may want other arguments
                why = str(error).partition("\n")[0] or type(error).__name__
                continue
            if after:
                return _kept(before, after, named[name], None)
    now = _sizes(caches)
    return _kept(now, now, named[ids[-1]], why)


def _sizes(caches: dict[str, Any]) -> dict[str, Any]:
    """The bytes and the shape of each tensor of some caches, by its place."""
    return {
        place: (tensor.nbytes, tuple(tensor.shape))
        for name, cache in caches.items()
        for place, tensor in tensors_held(cache, name)
    }


def _kept(before: dict[str, Any], after: dict[str, Any], first: Any, why: str | None) -> Kept:
    layers: dict[str, int] = {}
    batch = first.shape[0] if first.dim() > 1 else 1
    buffers = [
        (
            layers.setdefault(_layer(place), len(layers)),
            before.get(place, (0,))[0],
            nbytes,
            batch not in shape,
        )
        for place, (nbytes, shape) in after.items()
    ]
    return Kept(sorted(buffers), batch, why)


def _layer(place: str) -> str:
    """What tells the layer of a tensor from others: the first index of its place, ``[2]`` of
    ``cache.layers[2].keys``; without one what the tensor is an attribute of."""
    index = re.search(r"\[[^]]*\]", place)
    return index[0] if index else place.rpartition(".")[0]
