# SPDX-License-Identifier: Apache-2.0
"""Hooks of the nodes at which leaves receive their gradients. A dry run goes backward to the nodes of its own
leaves, so what a program registered at those of the real ones runs there.

The hooks of a leaf itself need nothing: both tensors have the same dict (python/ext/dry/fakes.c).
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from .._guard.gradients import set_gradient
from .running import running
from .tensors import is_dry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def node_of(leaf: Any) -> Any:
    """The node at which the leaf's gradient comes. torch makes it anew if nothing else holds it."""
    torch = sys.modules["torch"]
    with torch._C._DisableTorchDispatch(), torch.inference_mode(mode=False), torch.enable_grad():
        return leaf.view_as(leaf).grad_fn.next_functions[0][0]


def node_instead(run: Any, node: Any) -> Any:
    """Of a real leaf's node the one that replaces it in a dry run; any other node itself."""
    leaf = getattr(node, "variable", None)
    fake = None if leaf is None or is_dry(leaf) else run.core.fake_of(leaf)
    if fake is None or fake is leaf or not fake.requires_grad:
        return node
    run.watch.pause(True)  # noqa: FBT003 - this is no operator of the model's
    try:
        return node_of(fake)
    finally:
        run.watch.pause(False)  # noqa: FBT003


def _hooks(register: Callable[..., Any]) -> dict[int, Any]:
    """The hooks that the node has, in the order of their registration. torch tells the dict of them only to
    who registers another."""
    handle = register(_nothing)
    hooks = handle.hooks_dict_ref()
    handle.remove()
    return hooks  # type: ignore[no-any-return]


def _nothing(*_: object) -> None:
    pass


@contextmanager
def hooks_of_nodes() -> Iterator[None]:
    """In the block, a backward pass of this thread's dry run calls the hooks of the real leaves' nodes. Such
    a hook may read the gradient of the real leaf, so this has that of the fake one meanwhile."""
    nodes, grads = [], []
    for real, fake in running().core.leaves():
        node = node_of(real)
        before, after = _hooks(node.register_prehook), _hooks(node.register_hook)
        if before or after:
            own = node_of(fake)
            nodes.append(own)  # torch drops the hooks of a node that nothing holds
            grads.append((real, real.grad))
            real.grad = None
            if before:
                own.register_prehook(partial(_before, before, real, fake))
            if after:
                own.register_hook(partial(_after, after, real, fake))
    try:
        yield
    finally:
        for real, grad in grads:
            set_gradient(real, grad)


def _before(hooks: dict[int, Any], real: Any, fake: Any, given: Any) -> Any:
    set_gradient(real, fake.grad)
    for hook in list(hooks.values()):
        instead = hook(given)
        if instead is not None:
            given = instead if isinstance(instead, tuple) else (instead,)
    return given


def _after(hooks: dict[int, Any], real: Any, fake: Any, results: Any, given: Any) -> Any:
    set_gradient(real, fake.grad)
    for hook in list(hooks.values()):
        instead = hook(results, given)
        results = results if instead is None else instead
    return results
