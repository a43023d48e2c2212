# SPDX-License-Identifier: Apache-2.0
"""What a dry run changes in the process while it is open. All threads share it; it acts in those of dry runs.

A module that the forward imports runs for real: its constants stay when the run is over. Code that traces
operators is refused: fake tensors would be constants of what it makes.
"""

from __future__ import annotations

import sys
import threading
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, ClassVar

from .._guard.imports import Finder
from .hooks import node_instead
from .running import running
from .tensors import Unread, is_dry, of_parameters, refuse

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

EXPORTS = "exports or traces itself"
# Modules of torch that trace, compile or export: an exception that comes out of one means that it could not.
TRACERS = (
    *("torch._dynamo", "torch._export", "torch._functorch", "torch._inductor", "torch._subclasses"),
    *("torch.export", "torch.fx.experimental", "torch.jit._trace", "torch.onnx"),
)


class Process:
    """Opened by each dry run, and closed by the last."""

    _lock = threading.Lock()
    _open = 0
    _were: ClassVar[list[tuple[Any, str, Any]]] = []  # what torch had: where, the name, the function

    @classmethod
    def open(cls) -> None:
        with cls._lock:
            cls._open += 1
            if cls._open > 1:
                return
            sys.meta_path.insert(0, FINDER)
            for module, name, instead in _instead():
                own = getattr(sys.modules.get(module), name, None)
                if own is not None:
                    cls._were.append((sys.modules[module], name, own))
                    setattr(sys.modules[module], name, instead(own))
            kind = sys.modules["torch"].nn.Parameter
            for name, method in of_parameters().items():
                cls._were.append((kind, name, vars(kind).get(name)))
                setattr(kind, name, method)

    @classmethod
    def close(cls) -> None:
        with cls._lock:
            cls._open -= 1
            if cls._open:
                return
            if FINDER in sys.meta_path:
                sys.meta_path.remove(FINDER)
            while cls._were:
                where, name, own = cls._were.pop()
                if own is None:
                    delattr(where, name)
                else:
                    setattr(where, name, own)


def _for_real(execute: Callable[[], None]) -> None:
    """Runs the code of a module; in a thread with a dry run its operators run."""
    run = running()
    if run is None:
        execute()
        return
    before = run.core.real(True)  # noqa: FBT003
    try:
        execute()
    finally:
        run.core.real(before)


FINDER: Any = Finder(None, _for_real)


def _instead() -> list[tuple[str, str, Callable[[Any], Any]]]:
    return [
        ("torch.utils._python_dispatch", "_push_mode", _pushes),
        ("torch.utils.dlpack", "to_dlpack", _exports),
        ("torch", "to_dlpack", _exports),
        ("torch", "get_rng_state", _states),
        ("torch.random", "get_rng_state", _states),
        ("torch._C", "_will_engine_execute_node", _reaches),
    ]


def _pushes(own: Any) -> Any:
    """Opens a mode, unless it is one of torch's that note operators to make a program of them: fake tensors
    would be constants in it."""
    keys: Any = getattr(sys.modules["torch"]._C, "_TorchDispatchModeKey", None)
    traces = [getattr(keys, name, None) for name in ("PROXY", "FUNCTIONAL")]

    def push(mode: Any, *args: Any, **kwargs: Any) -> Any:
        run, key = running(), getattr(mode, "_mode_key", None)
        if run is not None and key is not None and key in traces:
            run.block(f"{EXPORTS} ({_outermost(_callers())})")
        return own(mode, *args, **kwargs)

    return push


def _exports(own: Any) -> Any:
    """torch passes memory to DLPack without an operator."""

    def to_dlpack(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        run = running()
        if run is not None and (is_dry(tensor) or isinstance(tensor, Unread)):
            refuse("needs its memory (DLPack)")
        return own(tensor, *args, **kwargs)

    return to_dlpack


def _reaches(own: Any) -> Any:
    """A hook of many gradients (``torch.autograd.graph.register_multi_grad_hook``) keeps the nodes at which
    those of the real leaves come, and asks which of them will run: in a dry run those of the fake leaves."""

    def will_engine_execute_node(node: Any) -> Any:
        run = running()
        return own(node if run is None else node_instead(run, node))

    return will_engine_execute_node


def _states(own: Any) -> Any:
    """The state of a random number generator is a real tensor that no operator makes, so a fake one stands
    for its memory for as long as it lives: checkpoints keep one each."""

    def get_rng_state() -> Any:
        state, run = own(), running()
        if run is not None:
            with run.torch._C._DisableTorchDispatch():
                state.stand_in = run.core.beside(state)
        return state

    return get_rng_state


def _callers() -> list[FrameType]:
    """The frames that run now, the outermost first."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _outermost(frames: list[FrameType]) -> str | None:
    """The name of the outermost function of torch that traces; None: there is none."""
    for frame in frames:
        module = str(frame.f_globals.get("__name__"))
        if f"{module}.".startswith(tuple(f"{tracer}." for tracer in TRACERS)):
            return f"{module}.{frame.f_code.co_name}"
    return None


def tracer_of(error: BaseException | None) -> str | None:
    """The function of torch that traced or exported and raised this; None for other exceptions."""
    if not isinstance(error, Exception) or isinstance(error, ImportError):
        return None
    return _outermost([frame for frame, _ in walk_tb(error.__traceback__)])
