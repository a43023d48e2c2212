# SPDX-License-Identifier: Apache-2.0
"""A dispatch mode of torch's whose ``__torch_dispatch__`` is a function in C (python/ext/dispatch.c).

Only what torch wants in Python is here: the class, its place on torch's stack of modes, and the functions
that the C side calls.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _python_dispatch as modes

from . import _lamina
from ._redispatch import Redispatch

if TYPE_CHECKING:
    from collections.abc import Callable


class Mode(modes.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operator of its thread to the capture that opened it."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.thread = threading.get_ident()


# In the body of the class torch would wrap it, and import its compiler to do so.
setattr(Mode, "__torch_dispatch__", _lamina.dispatched_by(Mode))  # noqa: B010


_late: list[Mode] = []  # closed by other threads than their own, which alone can take them off


# Entering a mode also tells torch's compiler, by flags that are one for all threads, and that two threads
# would leave behind. Where compiled code can be stepped around nobody needs them.
_TELLS = not hasattr(torch.compiler, "set_stance")  # before torch 2.6


def _put_on(mode: Any) -> None:
    if _TELLS:
        modes.TorchDispatchMode.__enter__(mode)  # type: ignore[no-untyped-call]
    else:
        modes._push_mode(mode)


def _take_top_off() -> Any:
    if not _TELLS:
        return modes._pop_mode()
    top: Any = torch._C._get_dispatch_stack_at(torch._C._len_torch_dispatch_stack() - 1)
    modes.TorchDispatchMode.__exit__(top, None, None, None)  # type: ignore[no-untyped-call]
    return top


def _open() -> Mode:
    _take_off_late()
    mode, above = Mode(), []
    try:
        while _is_somebodys():  # they are asked first, and what they run is seen
            above.append(_take_top_off())
        _put_on(mode)
    except BaseException:  # Ctrl-C, once it was put on
        _take_off(mode)
        raise
    finally:
        for each in reversed(above):
            _put_on(each)
    return mode


def _is_somebodys() -> bool:
    """Whether the mode that is asked first is no part of torch itself, whose own are always asked last, nor
    lamina's own."""
    n = torch._C._len_torch_dispatch_stack()
    top = torch._C._get_dispatch_stack_at(n - 1) if n else None
    return n > 0 and getattr(top, "_mode_key", None) is None and not isinstance(top, (Mode, _lamina.Dry))


def _close(mode: Mode) -> None:
    _late.append(mode)
    _take_off_late()


def _take_off_late() -> None:
    here = threading.get_ident()
    for mode in [mode for mode in _late if mode.thread == here]:
        _late.remove(mode)
        _take_off(mode)


def _take_off(mode: Mode) -> None:
    """Takes ``mode`` off the stack of this thread, wherever it is: captures need not close in order."""
    stack = [torch._C._get_dispatch_stack_at(i) for i in range(torch._C._len_torch_dispatch_stack())]
    if not any(each is mode for each in stack):
        return
    above: list[Any] = []
    while (top := _take_top_off()) is not mode:
        above.append(top)
    for each in reversed(above):
        _put_on(each)


def _keys(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The dispatch keys of the tensors among the arguments that come after modes; None without a tensor."""
    found = None
    todo = [*args, *(kwargs or {}).values()]
    for value in todo:
        if isinstance(value, (list, tuple)):
            todo.extend(value)
        elif isinstance(value, torch.Tensor):
            keys = torch._C._dispatch_keys(value) & _after_modes
            found = keys if found is None else found | keys
    return found


def _is_implicit(func: Any) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


_after_modes = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.Python)


def functions() -> dict[str, Callable[..., Any] | None]:
    """What the C side calls, by the names in python/ext/dispatch.h."""
    low: Any = torch._C
    autograd = low._autograd
    return {
        "open": _open,
        "close": _close,
        "push": low._push_on_torch_dispatch_stack,  # in C, where no Ctrl-C comes between
        "pop": partial(low._pop_torch_dispatch_stack, *[None] * modes._pop_mode.__code__.co_argcount),
        "below": low._len_torch_dispatch_stack,
        "node": low._current_autograd_node,
        "task": low._current_graph_task_id,
        # torch 2.4 has neither of the next two.
        "keeps": getattr(autograd, "_get_current_graph_task_keep_graph", None),
        "hooks": getattr(autograd, "_top_saved_tensors_default_hooks", None),
        "function": low._FunctionBase,
        "sequence": autograd._get_sequence_nr,
        "keys": _keys,
        "redispatch": Redispatch.own(),
        "is_implicit": _is_implicit,
        "decompose": torch._ops.OpOverload.decompose,
    }
