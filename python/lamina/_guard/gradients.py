# SPDX-License-Identifier: Apache-2.0
"""A backward pass that leaves no gradient behind."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST_VALUES = 65536  # the most values of a result that are searched


def floats(value: object) -> list[Any]:
    """The floating-point tensors in ``value`` through which gradients flow, in any nesting, each once."""
    torch = sys.modules["torch"]
    found: list[Any] = []
    seen: set[int] = set()
    held: list[object] = []  # keeps values of properties alive, so that no identity is reused
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
    """The tensors that would receive a gradient in a backward pass from ``tensors``, as far as the graph
    shows."""
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


def _set_gradient(tensor: Any, grad: Any) -> None:
    """Sets ``tensor.grad``, also if the parameter's values are elsewhere now, as under ZeRO-3: torch takes no
    gradient of another size."""
    if grad is None or grad.shape == tensor.shape:
        tensor.grad = grad
        return
    own, tensor.data = tensor.data, grad.detach()
    tensor.grad, tensor.data = grad, own


@contextmanager
def no_gradients_left(tensors: Iterable[Any]) -> Iterator[None]:
    """In the block every ``grad`` of ``tensors`` is None; after the block it is the same object as before.
    Hooks that run after a gradient is accumulated (an optimizer's step) are disabled in the block.
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
                _set_gradient(tensor, grad)
        for hook, was in silenced:
            hook.update(was)


def start_of(tensors: Iterable[Any], *, whole: bool = False) -> list[Any]:
    """The gradients of the sum of ``tensors``: ones of the size of each. ``whole``: with memory for all their
    elements, as from a loss."""
    torch = sys.modules["torch"]

    def ones(tensor: Any) -> Any:
        if whole or hasattr(tensor, "__tensor_flatten__"):  # a gradient of its own class
            return torch.ones_like(tensor)
        return torch.ones((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)

    return [ones(tensor) for tensor in tensors]
