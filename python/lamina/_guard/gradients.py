# SPDX-License-Identifier: Apache-2.0
"""A backward pass that leaves no gradient behind."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_VALUES = 65536  # of a result that are looked through


def floats(value: object) -> list[Any]:
    """The floating-point tensors in ``value`` that have a gradient to pass on, in any nesting, each once."""
    torch = sys.modules["torch"]
    found: list[Any] = []
    seen: set[int] = set()
    held: list[object] = []  # what a property made on the way stays alive, so that no identity is used twice
    todo = [value]
    while todo and len(seen) < MOST_VALUES:
        item = todo.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        held.append(item)
        if isinstance(item, torch.Tensor):
            if item.is_floating_point() and item.requires_grad:
                found.append(item)
        elif isinstance(item, dict):
            todo += reversed(list(item.values()))
        elif isinstance(item, (list, tuple)):
            todo += reversed(item)
        elif hasattr(item, "__dict__") and not isinstance(item, (type, torch.nn.Module)):
            todo += reversed(list(vars(item).values()))
    return found


def leaves(tensors: Iterable[Any]) -> list[Any]:
    """The tensors that a backward pass from ``tensors`` would give a gradient, as far as the graph shows."""
    found: list[Any] = [tensor for tensor in tensors if tensor.is_leaf]
    todo = [tensor.grad_fn for tensor in tensors]
    seen = set(todo)
    while todo:
        node = todo.pop()
        if node is None:
            continue
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.append(variable)
        for after, _ in node.next_functions:
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return found


@contextmanager
def no_gradients_left(tensors: Iterable[Any]) -> Iterator[None]:
    """Every ``grad`` of ``tensors`` is None in the block and the very same object as before after it.

    What their owners want done once a gradient is there (an optimizer's step) is not done meanwhile.
    """
    kept = {id(tensor): (tensor, tensor.grad) for tensor in tensors if tensor.is_leaf}
    hooks = [getattr(tensor, "_post_accumulate_grad_hooks", None) for tensor, _ in kept.values()]
    silenced = [(hook, dict(hook)) for hook in hooks if isinstance(hook, dict) and hook]
    try:
        for hook, _ in silenced:
            hook.clear()
        for tensor, grad in kept.values():
            if grad is not None:
                tensor.grad = None
        yield
    finally:
        for tensor, grad in kept.values():
            if grad is not None or tensor.grad is not None:
                tensor.grad = grad
        for hook, was in silenced:
            hook.update(was)


def start_of(tensors: Iterable[Any], *, whole: bool = False) -> list[Any]:
    """The gradients of the sum of ``tensors``: a one that is as large as each. ``whole``: with memory for all
    their elements, as a loss would give them."""
    torch = sys.modules["torch"]
    if whole:
        return [torch.ones_like(t) for t in tensors]
    return [torch.ones((), dtype=t.dtype, device=t.device).expand(t.shape) for t in tensors]
