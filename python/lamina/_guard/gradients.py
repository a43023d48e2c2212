# SPDX-License-Identifier: Apache-2.0
"""A backward pass that leaves no gradient behind."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .._lamina import put_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .. import _lamina

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


def ends_at(name: str) -> str:
    """The note about a tensor behind which there is a graph that is not the run's."""
    return f"the backward pass ends at {name}, computed before the run; what is behind it is not counted"


class Graph(NamedTuple):
    """What a backward pass reaches. ``leaves``: the tensors that would receive a gradient. ``before``: the
    nodes at which a graph begins that was there before the run. ``behind``: those and all behind them."""

    leaves: list[Any]
    before: list[Any]
    behind: dict[Any, None]


def graph_of(tensors: Iterable[Any], first: int, *, alone: bool) -> Graph:
    """The graph behind ``tensors``. This thread numbers nodes from ``first`` on since the run began. If it
    was not ``alone`` in that, all nodes count as the run's: other threads have numbers of their own."""
    ends = [tensor for tensor in tensors if tensor.is_leaf]
    nodes, before = _walk(
        [tensor.grad_fn for tensor in tensors], lambda node: not alone or node._sequence_nr() >= first
    )
    behind, _ = _walk(before, lambda _: True)
    return Graph(ends + _leaves({**nodes, **behind}), before, behind)


def _walk(todo: Iterable[Any], goes_on: Callable[[Any], bool]) -> tuple[dict[Any, None], list[Any]]:
    """The nodes that can be reached, and those at which ``goes_on`` is false."""
    nodes: dict[Any, None] = {}
    ends: dict[Any, None] = {}
    queue = [node for node in todo if node is not None]
    while queue:
        node = queue.pop()
        if node in nodes or node in ends:
            continue
        if not goes_on(node):
            ends[node] = None
            continue
        nodes[node] = None
        queue += (after for after, _ in node.next_functions if after is not None)
    return nodes, list(ends)


def _leaves(nodes: Iterable[Any]) -> list[Any]:
    return [node.variable for node in nodes if getattr(node, "variable", None) is not None]


def next_node() -> int:
    """The number of the node that this thread makes next."""
    return int(sys.modules["torch"]._C._autograd._get_sequence_nr())


@contextmanager
def ended_at(graph: Graph) -> Iterator[None]:
    """In the block no gradient passes the nodes ``graph.before``. A backward pass that keeps the graph runs
    them and all behind them without a gradient, which costs nothing; a program's functions are not called."""
    torch = sys.modules["torch"]
    own = [node for node in graph.behind if isinstance(node, torch._C._FunctionBase)]
    hooks = [node.register_prehook(lambda gradients: tuple(None for _ in gradients)) for node in graph.before]
    try:
        for node in own:
            node.apply = partial(_none_of, len(node.needs_input_grad))
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for node in own:
            vars(node).pop("apply", None)


def _none_of(n: int, *_: Any) -> tuple[None, ...]:
    return tuple(None for _ in range(n))


@cache
def _end() -> Any:
    """The class of nodes at which the graph of a run ends."""
    torch = sys.modules["torch"]

    def forward(ctx: Any, _: Any, made: list[Any]) -> Any:
        ctx.set_materialize_grads(False)
        return made[0]

    def backward(_: Any, gradient: Any) -> tuple[Any, None]:
        return gradient, None

    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("EndOfGraph", (torch.autograd.Function,), {"__module__": __name__, **methods})


def ending(tensor: Any) -> Any:
    """A replacement for the result of a graph: another tensor of its memory, with a graph that ends at once,
    at a leaf. So the backward pass of a run does as much as for a leaf, and the graph behind ``tensor`` stays
    whole. The forward may write to it in place, as to ``tensor``, and not to a leaf."""
    torch = sys.modules["torch"]
    with torch.inference_mode(mode=False), torch.enable_grad():
        leaf = _same(tensor).requires_grad_()
        new = _end().apply(leaf, [_same(tensor)])
    if hasattr(tensor, "__dict__"):
        vars(new).update(vars(tensor))
    return new


def without_graph(tensor: Any) -> Any:
    """The tensor, or its replacement if it is the result of a graph."""
    return tensor if tensor.grad_fn is None else ending(tensor)


def end_graphs(
    snapshot: _lamina.Snapshot, watch: _lamina.Capture, of: Callable[[Any], Any] = lambda tensor: tensor
) -> None:
    """Has the backward pass end at the model's own tensors that were computed before the run, as a layer's
    attributes may be. ``of``: what the run has instead of a tensor."""
    found = snapshot.graphs()
    for name, _ in found:
        watch.note(ends_at(name))
    if found:
        snapshot.replace({id(tensor): ending(of(tensor)) for _, tensor in found})


def _same(tensor: Any) -> Any:
    """Another tensor of the same memory and class, without a graph."""
    torch = sys.modules["torch"]
    if hasattr(tensor, "__tensor_flatten__"):  # it wraps others
        return tensor.detach()
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass():
        plain = torch.Tensor.data.__get__(tensor)
        return plain if type(plain) is type(tensor) else torch.Tensor._make_subclass(type(tensor), plain)


def set_gradient(tensor: Any, grad: Any) -> None:
    """Sets ``tensor.grad``, also to a gradient that torch does not accept for it: it has another size if the
    parameter's values are elsewhere now, as under ZeRO-3, that of a sparse tensor may be dense, and that of a
    dry run is on the CPU."""
    if not put_gradient(tensor, grad):
        own, tensor.data = tensor.data, grad.detach()
        tensor.grad, tensor.data = grad, own


def _silent(name: str, others: int) -> str:
    of = f"{name} and of {others} more" if others else name
    return (
        "code that runs as soon as a parameter has its gradient "
        f"(register_post_accumulate_grad_hook of {of}) did not run and is not counted"
    )


@contextmanager
def no_gradients_left(tensors: Iterable[Any], left: list[str], name: Callable[[Any], str]) -> Iterator[None]:
    """In the block every ``grad`` of ``tensors`` is None; after the block it is the same object as before.
    Hooks that run after a gradient is accumulated (an optimizer's step) are disabled in the block. ``left``
    gets a sentence about these, and one for each gradient that could not be restored, by the ``name`` of its
    tensor.
    """
    kept = {id(tensor): (tensor, tensor.grad) for tensor in tensors if tensor.is_leaf}
    hooks = [getattr(tensor, "_post_accumulate_grad_hooks", None) for tensor, _ in kept.values()]
    silenced = [(hook, dict(hook)) for hook in hooks if isinstance(hook, dict) and hook]
    if silenced:
        of = next(name(tensor) for (tensor, _), hook in zip(kept.values(), hooks, strict=True) if hook)
        said = _silent(of, len(silenced) - 1)
        left += [said] if said not in left else []
    raised: BaseException | None = None
    try:
        for hook, _ in silenced:
            hook.clear()
        for tensor, grad in kept.values():
            if grad is not None:
                tensor.grad = None
        yield
    finally:
        for tensor, grad in kept.values():
            try:
                if grad is not None or tensor.grad is not None:
                    set_gradient(tensor, grad)
            except Exception as error:  # the other gradients are restored all the same
                left.append(f"the gradient of {name(tensor)} could not be restored: {error}")
            except BaseException as error:  # Ctrl-C
                raised = error
        for hook, was in silenced:
            hook.update(was)
        if raised is not None:
            raise raised


def start_of(tensors: Iterable[Any], *, whole: bool = False) -> list[Any]:
    """The gradients of the sum of ``tensors``: ones of the size of each. ``whole``: with memory for all their
    elements, as from a loss."""
    torch = sys.modules["torch"]

    def ones(tensor: Any) -> Any:
        # A gradient of the same class, or with the parts of a nested tensor.
        if whole or tensor.is_nested or hasattr(tensor, "__tensor_flatten__"):
            return torch.ones_like(tensor)
        return torch.ones((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)

    return [ones(tensor) for tensor in tensors]
