# SPDX-License-Identifier: Apache-2.0
"""Records operators by a dispatch mode of torch, if the observer can't read torch's records.
torch takes the mode off its stack when it calls it, so operators inside an operator are not observed unless
the mode is pushed again. This is done for operators that only call others: their kernel runs under the mode.
This file finds the call and phase of each operator; C records arguments and results
(python/ext/ops/dispatch.c).
"""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from functools import partial
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _python_dispatch as modes

from .. import _lamina
from .._guard.redispatch import Redispatch

if TYPE_CHECKING:
    from collections.abc import Callable

FORWARD, BACKWARD, RECOMPUTE = range(3)  # as lam_phase
FAILED, NODE, HIDES = 1, 2, 4  # as lam_op_flags
DETACH = "aten::detach"  # torch dispatches it to the mode again when autograd makes a view of its result

_torch: Any = torch._C
_push = _torch._push_on_torch_dispatch_stack  # in C, so that no Ctrl-C interrupts it
_modes = _torch._len_torch_dispatch_stack
_node, _task = _torch._current_autograd_node, _torch._current_graph_task_id
_sequence = _torch._autograd._get_sequence_nr  # the number of the next node of this thread
# torch 2.4 has neither of these.
_hooks = getattr(_torch._autograd, "_top_saved_tensors_default_hooks", None)
_keeps = getattr(_torch._autograd, "_get_current_graph_task_keep_graph", None)
_after_modes = _torch._dispatch_keyset_full_after(_torch.DispatchKey.Python)
_redispatch, _decompose = Redispatch.own(), torch._ops.OpOverload.decompose
_late: list[Mode] = []  # modes closed by other threads; only a mode's own thread can remove it


class _Overload:
    """The constant properties of an operator, read from torch once."""

    def __init__(self, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        self.func, self.higher = func, schema is None  # a higher-order operator runs functions
        self.run = func if schema is None else func._op  # the function that its __call__ calls
        space, colons, rest = str(func.name()).partition("::")
        self.name = f"{space}::{rest.partition('.')[0]}" if colons else f"higher_order::{space}"
        self.unseen = self.name.startswith(("prim::", "profiler::"))  # a query, or a mark: no work
        self.moves = self.name == "aten::to"
        self.wraps = _lamina.op_wraps(self.name) or _lamina.op_kind(self.name) is None
        self.implicit = schema is not None and _is_implicit(func)
        arguments = schema.arguments if schema is not None else []
        self.many = schema is not None and len(schema.returns) > 1
        self.places = {argument.name: at for at, argument in enumerate(arguments)}
        self.defaults = tuple(a.default_value if a.has_default_value() else ... for a in arguments)
        tensors = ("Tensor", "Optional[Tensor]")
        self.operands = "".join("T" if str(a.type) in tensors else "." for a in arguments)

    def values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments by their position in the schema; ``...``: there is none, and none is recorded."""
        if not kwargs:
            return args + self.defaults[len(args) :]
        values = [*args, *self.defaults[len(args) :]]
        for name, value in kwargs.items():
            if name in self.places:
                values[self.places[name]] = value
        return tuple(values)

    def results(self, result: Any) -> tuple[Any, ...]:
        if self.many and type(result) is tuple:
            return result
        return () if result is None else (result,)


_overloads: dict[Any, _Overload] = {}


class _Thread:
    """A thread that ran operators under the mode."""

    def __init__(self) -> None:
        self.open: list[tuple[str, bool]] = []  # open operators: name, and whether it is a trial (`trial`)
        self.phase = FORWARD  # of the open operators
        self.op = self.last = -1  # numbers of the innermost open operator, and of the last recorded one
        self.passing: Any = None  # the operator that is passed to the class of its arguments
        self.asked = -1  # the number of modes when the running class was called; -1: no class runs
        self.passed = False  # the class ran other operators for it
        self.trial = False  # operators run on tensors without values, as a trial: not the work of a call
        # What the last operators returned while torch only looked for the shape of what it knows without a
        # kernel, as a sum with zeros in forward-mode AD: it moves the arguments to the meta device first.
        self.tried: list[Any] = []
        self.tasks: list[tuple[int, int]] = []  # runs of the engine, the innermost last, and their calls
        self.peeked = _sequence()  # nodes with this number or a later one were created after the last look
        self.redone = False  # the last nodes were created by a forward that a backward pass repeats
        self.graphless = -1  # the run of the engine whose nodes create no nodes
        self.behind = -1  # the call of the last node that ran
        self.numbers: list[int] = []  # autograd's nodes from numbers[i] on ...
        self.calls: list[int] = []  # ... were created by calls[i]

    def note_origin(self, call: int) -> None:
        while self.numbers and self.numbers[-1] >= self.peeked:
            del self.numbers[-1], self.calls[-1]
        if not self.calls or self.calls[-1] != call:
            self.numbers.append(self.peeked)
            self.calls.append(call)

    def task(self, call: int) -> int | None:
        """The call that was open when the present run of the engine began; None: no run is open."""
        now = _task()
        while self.tasks and self.tasks[-1][0] > now:  # runs nest, and the inner one is newer
            self.tasks.pop()
        if now < 0:
            return None
        if not self.tasks or self.tasks[-1][0] != now:
            self.tasks.append((now, call))
        return self.tasks[-1][1]

    def makes_nodes(self) -> bool:
        """True if nodes are created: a forward is repeated, or the gradients will have gradients."""
        if not torch.is_grad_enabled():
            self.graphless = self.tasks[-1][0]
            return False
        return bool(_sequence() > self.peeked)


class Mode(modes.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operator of its thread for the capture that opened it."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.thread = threading.get_ident()
        self.threads: dict[int, _Thread] = {}

    def close(self) -> None:
        if self.unseen in Redispatch.listeners:
            Redispatch.listeners.remove(self.unseen)
        if self not in _late:
            _late.append(self)
        _take_off_late()

    def called(self, call: int, around: int) -> bool:
        """Notes that a call of a module has begun inside call ``around``. True inside a backward pass."""
        t = self._here()
        t.peeked = _sequence()
        t.note_origin(call)
        return t.task(around) is not None

    def inside(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
        return self._under(function, *args, **kwargs or {})

    def unseen(self, name: str) -> None:
        """Records an operator that is about to run in a way that torch does not dispatch to modes."""
        call = _lamina.open_call(self)
        t = self._here()
        if call is None:
            return
        for runs, tried in reversed(t.open):
            if runs == name:
                return  # it runs inside its own record
            if not tried:
                break
        op = _lamina.begin_op(self, name, (), "", *self._place(t, call), NODE | HIDES)
        t.last = max(op, t.last)
        _lamina.end_op(self, t.op, (), 0)

    # The call and phase of an operator.

    def _here(self) -> _Thread:
        here = threading.get_ident()
        return self.threads.get(here) or self.threads.setdefault(here, _Thread())

    def _place(self, t: _Thread, call: int) -> tuple[int, int]:
        """The call and the phase of an operator; an operator inside another one has those of the outer
        one."""
        if t.open:
            return call, t.phase
        base = t.task(call)
        if base is None:
            if t.redone:
                t.note_origin(call)
                t.redone = False
            return call, FORWARD
        called = call != base
        at, phase = call if called else self._call_of_node(t), BACKWARD
        if not called and not t.makes_nodes():
            return at, phase
        if called or _may_redo(t):
            phase = RECOMPUTE
        t.note_origin(at)
        t.peeked, t.redone = _sequence(), True
        return at, phase

    def _call_of_node(self, t: _Thread) -> int:
        """The call whose forward created the running node. The engine sums gradients between two nodes. A
        node that only accumulates a gradient has the largest number, and runs after the node that gave it."""
        node, own = _node(), self.threads.get(self.thread)
        if node is None:
            return t.behind
        number = node._sequence_nr()
        if own is None:
            t.behind = -1
        elif number <= sys.maxsize:
            at = bisect_right(own.numbers, number)
            t.behind = own.calls[at - 1] if at else -1
        return t.behind

    # Running.

    def _under(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Calls ``function`` with the mode on top of the stack."""
        below = _modes()
        try:
            _push(self)
            return function(*args, **kwargs)
        finally:
            if _modes() > below:
                _torch._pop_torch_dispatch_stack(None)

    def _run(self, t: _Thread, o: _Overload, types: Any, args: Any, kwargs: Any) -> Any:
        if types and any(_answers(cls) for cls in types):
            return self._by_class(t, o, args, kwargs)
        if not o.wraps or o.higher:
            return o.run(*args, **kwargs)
        # By its kernel, unless there is another mode or a tensor subclass, or no tensor to find the keys by.
        keys = None if types or _modes() else _keys([*args, *kwargs.values()])
        if keys is not None:
            return self._under(_redispatch, o.func, keys, *args, **kwargs)
        return self._under(_decompose, o.func, *args, **kwargs) if o.implicit else o.run(*args, **kwargs)

    def _by_class(self, t: _Thread, o: _Overload, args: Any, kwargs: Any) -> Any:
        """Runs an operator that the class of an argument handles. The operator is called again under the
        mode, which then passes it to the class. The operators that the class runs are observed and count
        instead, unless the class hides them from all modes."""
        asked, last = t.asked, t.last
        if [name for name, _ in t.open[-2:]] == [DETACH, DETACH]:  # an older torch would recurse forever
            return o.run(*args, **kwargs)
        t.passing, t.asked = o.func, _modes()
        try:
            return self._under(o.run, *args, **kwargs)
        finally:
            t.passing, t.asked, t.passed = None, asked, t.last > last

    def _watch(self, o: _Overload, call: int, types: Any, args: Any, kwargs: Any) -> Any:
        t = self._here()
        at, phase = self._place(t, call)
        outer, open_before, trial = t.op, len(t.open), t.trial
        results, flags = (), FAILED
        try:  # a Ctrl-C may come after each line
            tries = (o.moves and _to_meta(args, kwargs)) or any(x is y for x in t.tried for y in args)
            t.phase, t.trial = phase, trial or tries or 0 <= t.asked < _modes()
            values, aside = o.values(args, kwargs), NODE if t.trial else 0
            t.op = _lamina.begin_op(self, o.name, values, o.operands, at, phase, aside)
            t.last = max(t.op, t.last)
            t.open.append((o.name, t.trial))
            result = self._run(t, o, types, args, kwargs)
            results, flags = o.results(result), 0
            if t.trial:
                t.tried = [*t.tried, result]
            elif t.tried and any(isinstance(x, torch.Tensor) for x in args):
                t.tried = []
            return result
        finally:
            flags |= NODE if t.passed else 0
            t.op, t.trial, t.passed = outer, trial, False
            del t.open[open_before:]
            _lamina.end_op(self, outer, results, flags)
            if phase == FORWARD:
                t.peeked = _sequence()


def _dispatch(self: Mode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """``__torch_dispatch__``"""
    call = _lamina.open_call(self)
    if call is None:
        return func(*args, **kwargs or {})
    t = self._here()
    if t.passing is func:
        t.passing = None
        return NotImplemented
    o = _overloads.get(func)
    if o is None:
        o = _overloads[func] = _Overload(func)
    if o.unseen:
        return o.run(*args, **kwargs or {})
    return self._watch(o, call, types, args, kwargs or {})


# If this were in the class body, torch would wrap it, and import its compiler for this.
setattr(Mode, "__torch_dispatch__", _dispatch)  # noqa: B010


def _to_meta(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(isinstance(x, torch.device) and x.type == "meta" for x in (*args, *kwargs.values()))


def _may_redo(t: _Thread) -> bool:
    """True if the running code may repeat a forward: hooks for saved tensors are set, as by a checkpoint, or
    the node is a Python function. A run for gradients that will have gradients keeps its graph; there only a
    checkpoint's hooks say so. Older torches show neither; but in one run of the engine either all nodes
    create nodes or none do, and if none do, only a repeated forward creates nodes."""
    if _hooks is None:
        return t.graphless == t.tasks[-1][0]
    hooks, keeps = _hooks(False), _keeps is not None and _keeps()  # noqa: FBT003
    if hooks is not None:
        return not keeps or getattr(hooks[0], "__module__", "") == "torch.utils.checkpoint"
    return _keeps is not None and not keeps and isinstance(_node(), _torch._FunctionBase)


def _answers(cls: type) -> bool:
    """True if a class handles its tensors' operators. Classes that don't have torch's default, a C function.
    False for torch's fake tensors, which only follow shapes, and for lamina's, which a dry run's mode
    handles."""
    if cls.__module__.startswith("lamina."):
        return False
    if hasattr(cls, "__tensor_flatten__"):
        return True
    own = getattr(cls, "__torch_dispatch__", None)
    torchs = f"{cls.__module__}.".startswith("torch.")
    return not torchs and own is not None and not isinstance(own, BuiltinFunctionType)


def _keys(values: list[Any]) -> Any:
    """The dispatch keys after that of modes, of all tensors among the arguments; None without a tensor."""
    found = None
    for value in values:
        if isinstance(value, (list, tuple)):
            values.extend(value)
        elif isinstance(value, torch.Tensor):
            keys = _torch._dispatch_keys(value) & _after_modes
            found = keys if found is None else found | keys
    return found


def _is_implicit(func: Any) -> bool:
    """True for an operator that is composed of others for every kind of tensor."""
    try:
        return bool(_torch._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))
    except RuntimeError:  # a mode also receives calls that are no operators, such as aten::sym_size
        return False


# -- torch's stack of modes ----------------------------------------------------------------------------------


def open_mode() -> Mode:
    """Opens a mode of this thread. It is not entered by torch's function, which also sets flags for torch's
    compiler: all threads share them, and two threads could leave them set. Compiled code is bypassed
    anyway."""
    _take_off_late()
    _name_to_functions()
    mode, above = Mode(), []
    try:
        while _is_somebodys():  # other modes stay above this one: the operators that they run are observed
            above.append(modes._pop_mode())
        modes._push_mode(mode)
    except BaseException:  # Ctrl-C after the push
        _take_off(mode)
        raise
    finally:
        for each in reversed(above):
            modes._push_mode(each)
    Redispatch.listeners.append(mode.unseen)
    return mode


def _name_to_functions() -> None:
    """Adds the mode to the tables of operators that run functions: in an older torch they refuse other
    modes."""
    if hasattr(modes.TorchDispatchMode, "supports_higher_order_operators"):
        return
    for op in getattr(torch._ops, "_higher_order_ops", {}).values():
        tables = (getattr(op, name, None) for name in ("python_key_table", "python_key_mode_table"))
        table = next((each for each in tables if each is not None), None)
        if table is not None and Mode not in table:
            table[Mode] = partial(_answer_function, op)


def _answer_function(op: Any, mode: Mode, *args: Any, **kwargs: Any) -> Any:
    return _dispatch(mode, op, (), args, kwargs)


def _is_somebodys() -> bool:
    """True if the top mode is neither lamina's nor one of torch's own, which are always below others."""
    n = _modes()
    top = _torch._get_dispatch_stack_at(n - 1) if n else None
    return n > 0 and getattr(top, "_mode_key", None) is None and not isinstance(top, (Mode, _lamina.Dry))


def _take_off_late() -> None:
    here = threading.get_ident()
    for mode in [mode for mode in _late if mode.thread == here]:
        _late.remove(mode)
        _take_off(mode)


def _take_off(mode: Mode) -> None:
    """Removes ``mode`` from the stack of this thread, at any depth: captures may close in any order."""
    if not any(_torch._get_dispatch_stack_at(i) is mode for i in range(_modes())):
        return
    above: list[Any] = []
    while (top := modes._pop_mode()) is not mode:
        above.append(top)
    for each in reversed(above):
        modes._push_mode(each)
