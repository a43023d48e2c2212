# SPDX-License-Identifier: Apache-2.0
"""Records operators by a dispatch mode of torch, if the observer can't read torch's records.
torch takes the mode off its stack when it calls it, so operators inside an operator are not observed unless
the mode is pushed again. This is done for operators that only call others: their kernel runs under the mode.
This file finds the call and phase of each operator; C records arguments and results
(python/ext/calls/dispatch.c).
"""

from __future__ import annotations

import sys
import threading
from array import array
from bisect import bisect_right
from functools import partial
from itertools import chain
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import torch
from torch.utils import _python_dispatch as modes

from .. import _lamina
from .._guard.redispatch import Redispatch

FORWARD, BACKWARD, RECOMPUTE = range(3)  # as lam_phase
FAILED, NODE, HIDES = 1, 2, 4  # as lam_op_flags
DETACH = "aten::detach"  # torch dispatches it to the mode again when autograd makes a view of its result
MOST, MOST_INTS = 4096, 32  # entries of a list that is recorded, with tensors and with integers
NUMBERS = {bool: 11, int: 4, float: 7, complex: 10}  # what torch makes tensors of them with (c10::ScalarType)

_torch: Any = torch._C
_push, _pop = _torch._push_on_torch_dispatch_stack, _torch._pop_torch_dispatch_stack
_modes, _mode_at = _torch._len_torch_dispatch_stack, _torch._get_dispatch_stack_at
_node, _task = _torch._current_autograd_node, _torch._current_graph_task_id
_sequence = _torch._autograd._get_sequence_nr  # the number of the next node of this thread
# torch 2.4 has neither of these.
_hooks = getattr(_torch._autograd, "_top_saved_tensors_default_hooks", None)
_keeps = getattr(_torch._autograd, "_get_current_graph_task_keep_graph", None)
_after_modes = _torch._dispatch_keyset_full_after(_torch.DispatchKey.Python)
_redispatch, _decompose = Redispatch.own(), torch._ops.OpOverload.decompose


class _Overload:
    """The constant properties of an operator, read from torch once."""

    def __init__(self, func: Any) -> None:
        schema = getattr(func, "_schema", None)
        self.func, self.higher = func, schema is None  # a higher-order operator runs functions
        self.run = func if schema is None else func._op  # the function that its __call__ calls
        space, colons, rest = str(func.name()).partition("::")
        self.name = f"{space}::{rest.partition('.')[0]}" if colons else f"higher_order::{space}"
        self.unseen = self.name.startswith(("prim::", "profiler::"))  # a query, or a mark: no work
        self.wraps = _lamina.op_wraps(self.name) or _lamina.op_kind(self.name) is None
        try:  # a mode also receives calls that are no operators, such as aten::sym_size
            self.implicit = not self.higher and func._can_decompose()
        except RuntimeError:
            self.implicit = False
        arguments = schema.arguments if schema is not None else []
        self.many = schema is not None and len(schema.returns) > 1
        self.places = {argument.name: at for at, argument in enumerate(arguments)}
        self.defaults = [a.default_value if a.has_default_value() else ... for a in arguments]
        tensors = ("Tensor", "Optional[Tensor]")
        self.operands = {at for at, a in enumerate(arguments) if str(a.type) in tensors}

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int, Any, int]]:
        values = [*args, *self.defaults[len(args) :]]
        for name, value in kwargs.items():
            if name in self.places:
                values[self.places[name]] = value
        return _entries(values, self.operands)

    def results(self, result: Any) -> list[tuple[int, Any, int]]:
        many = self.many and type(result) is tuple
        return _entries(result if many else () if result is None else (result,), set())


def _entries(values: Any, operands: set[int]) -> list[tuple[int, Any, int]]:
    """For C: positions, values, and the type of the tensor that torch makes of a number, or -1. A list has an
    entry for each tensor, or else all its integers, as bytes. ``...`` is no value."""
    entries: list[tuple[int, Any, int]] = []
    for at, value in enumerate(values):
        if not isinstance(value, (list, tuple)):
            entries += [(at, value, NUMBERS.get(type(value), -1) if at in operands else -1)]
        elif tensors := [(at, each, -1) for each in value if isinstance(each, torch.Tensor)]:
            entries += tensors if len(value) <= MOST else []
        elif 0 < len(value) <= MOST_INTS and all(isinstance(x, int) and abs(x) <= sys.maxsize for x in value):
            entries += [(at, array("q", value).tobytes(), -1)]
    return entries


class _Open(NamedTuple):
    """An operator that runs."""

    name: str = ""
    number: int = -1
    trial: bool = False  # it runs on tensors without values, to find a shape: not the work of a call
    place: tuple[int, int] = (-1, FORWARD)  # its call and phase


class _Thread(threading.local):
    """What each thread has that runs operators under the mode."""

    def __init__(self) -> None:
        self.open = [_Open()]  # the innermost operator is the last
        self.last = -1  # the number of the last recorded operator
        self.passing: Any = None  # the operator that is passed to the class of its arguments
        self.asked = -1  # the number of modes when the running class was called; -1: no class runs
        self.passed = False  # the class ran other operators for it
        # What the last operators returned while torch only looked for the shape of what it knows without a
        # kernel, as a sum with zeros in forward-mode AD: it moves the arguments to the meta device first.
        self.tried: list[Any] = []
        self.peeked = _sequence()  # nodes with this number or a later one were created after the last look
        self.graphless = -1  # the run of autograd's engine whose nodes create no nodes
        self.behind = -1  # the call of the last node that ran
        self.origins: list[
            tuple[int, int]
        ] = []  # numbers of nodes, and the call that created those from it on

    def note_origin(self, call: int) -> None:
        if not self.origins or self.origins[-1][1] != call:
            self.origins.append((self.peeked, call))


class Mode(modes.TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every operator of its thread for the capture that opened it. Only that thread can take it off
    torch's stack: closed by another, it notes nothing, and is taken off when one is opened or closed there.
    It is not entered by torch's function, which also sets flags for torch's compiler that all threads share:
    two threads could leave them set. Compiled code is bypassed anyway."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.closed, self.call = False, -1  # the open call of a module
        self.began = {-1: -1}  # by call: the run of the engine in which it began; -1: in none

    def open(self) -> None:
        _name_to_functions()
        self.thread = _Thread()
        self.origins = self.thread.origins  # of this thread
        _restack(self)
        Redispatch.listeners.add(self.unseen)

    def close(self) -> None:
        self.closed = True
        Redispatch.listeners.discard(self.unseen)
        _restack()

    def called(self, call: int) -> bool:
        """Notes that ``call`` is the open call of a module. True inside a backward pass."""
        self.call, t, task = call, self.thread, _task()
        self.began.setdefault(call, task)
        t.peeked = _sequence()
        t.note_origin(call)
        return bool(task >= 0)

    def inside(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls ``function`` with the mode on top of the stack."""
        below = _modes()
        try:
            _push(self)
            return function(*args, **kwargs)
        finally:
            if _modes() > below:
                _pop(None)

    def unseen(self, name: str) -> None:
        """Records an operator that is about to run in a way that torch does not dispatch to modes."""
        t = self.thread
        for each in reversed(t.open):
            if each.name == name:
                return  # it runs inside its own record
            if not each.trial:
                break
        around = t.open[-1].number
        t.last = max(t.last, _lamina.dispatched(self, around, NODE | HIDES, [], name, *self._place(t)))
        _lamina.dispatched(self, around, 0, [])

    def _place(self, t: _Thread) -> tuple[int, int]:
        """The call and the phase of an operator; inside another one it has those of the outer one."""
        call, phase, task, grad = self.call, FORWARD, _task(), torch.is_grad_enabled()
        if len(t.open) > 1:
            return t.open[-1].place
        makes_nodes = grad and _sequence() > t.peeked  # in a backward pass: it is repeated, or has gradients
        if task >= 0:
            repeats = self.began[call] == task
            call = call if repeats else self._call_of_node(t)
            t.graphless = t.graphless if repeats or grad else task
            phase = RECOMPUTE if repeats or (makes_nodes and _may_repeat(t, task)) else BACKWARD
        if makes_nodes:
            t.note_origin(call)
            t.peeked = _sequence()
        return call, phase

    def _call_of_node(self, t: _Thread) -> int:
        """The call whose forward created the running node. The engine sums gradients between two nodes. A
        node that only accumulates a gradient has the largest number, and runs after the node that gave it."""
        node = _node()
        number = sys.maxsize + 1 if node is None else node._sequence_nr()
        if number <= sys.maxsize:
            at = bisect_right(self.origins, (number, sys.maxsize))
            t.behind = self.origins[at - 1][1] if at else -1
        return t.behind

    def _run(self, o: _Overload, types: Any, args: Any, kwargs: Any) -> Any:
        if types and any(_answers(cls) for cls in types):
            return self._by_class(o, args, kwargs)
        if not o.wraps or o.higher:
            return o.run(*args, **kwargs)
        # By its kernel, unless there is another mode or a tensor subclass, or no tensor to find the keys by.
        keys = None if types or _modes() else _keys([*args, *kwargs.values()])
        if keys is not None:
            return self.inside(_redispatch, (o.func, keys, *args), kwargs)
        return self.inside(_decompose, (o.func, *args), kwargs) if o.implicit else o.run(*args, **kwargs)

    def _by_class(self, o: _Overload, args: Any, kwargs: Any) -> Any:
        """Runs an operator that the class of an argument handles. The operator is called again under the
        mode, which then passes it to the class. The operators that the class runs are observed and count
        instead, unless the class hides them from all modes."""
        t = self.thread
        asked, last = t.asked, t.last
        if [each.name for each in t.open[-2:]] == [DETACH, DETACH]:  # an older torch would recurse forever
            return o.run(*args, **kwargs)
        t.passing, t.asked = o.func, _modes()
        try:
            return self.inside(o.run, args, kwargs)
        finally:
            t.passing, t.asked, t.passed = None, asked, t.last > last

    def _watch(self, o: _Overload, types: Any, args: Any, kwargs: Any) -> Any:
        t = self.thread
        inside, depth, place = t.open[-1], len(t.open), self._place(t)
        trial = inside.trial or 0 <= t.asked < _modes() or _is_trial(t, o, args, kwargs)
        results, flags = [], FAILED
        try:  # a Ctrl-C may come after each line
            values, aside = o.arguments(args, kwargs), NODE if trial else 0
            at = _lamina.dispatched(self, inside.number, aside, values, o.name, *place, len(o.defaults))
            if at < 0:  # it is not noted
                return o.run(*args, **kwargs)
            t.last = at
            t.open.append(_Open(o.name, at, trial, place))
            result = self._run(o, types, args, kwargs)
            results, flags = o.results(result), 0
            if trial:
                t.tried = [*t.tried, result]
            elif t.tried and any(isinstance(x, torch.Tensor) for x in args):
                t.tried = []
            return result
        finally:
            flags |= NODE if t.passed else 0
            t.passed = False
            del t.open[depth:]
            _lamina.dispatched(self, inside.number, flags, results)
            t.peeked = _sequence() if place[1] == FORWARD else t.peeked


def _dispatch(self: Mode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """``__torch_dispatch__``"""
    if self.thread.passing is func:
        self.thread.passing = None
        return NotImplemented
    o = _overloads.get(func) or _overloads.setdefault(func, _Overload(func))
    if o.unseen or self.closed:
        return o.run(*args, **kwargs or {})
    return self._watch(o, types, args, kwargs or {})


_overloads: dict[Any, _Overload] = {}
_named: set[Any] = set()  # operators that run functions, in whose tables the mode is
# If this were in the class body, torch would wrap it, and import its compiler for this.
setattr(Mode, "__torch_dispatch__", _dispatch)  # noqa: B010


def _is_trial(t: _Thread, o: _Overload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    meta = (isinstance(x, torch.device) and x.type == "meta" for x in (*args, *kwargs.values()))
    return (o.name == "aten::to" and any(meta)) or any(x is y for x in t.tried for y in args)


def _may_repeat(t: _Thread, task: int) -> bool:
    """True if the running code may repeat a forward: hooks for saved tensors are set, as by a checkpoint, or
    the node is a Python function. A run for gradients that will have gradients keeps its graph; there only a
    checkpoint's hooks say so. torch 2.4 shows neither; but in one run of the engine either all nodes create
    nodes or none do, and if none do, only a repeated forward creates nodes."""
    if _hooks is None or _keeps is None:
        return t.graphless == task
    hooks, keeps = _hooks(False), _keeps()  # noqa: FBT003
    if hooks is None:
        return not keeps and isinstance(_node(), _torch._FunctionBase)
    return not keeps or getattr(hooks[0], "__module__", "") == "torch.utils.checkpoint"


def _answers(cls: type) -> bool:
    """True if a class handles its tensors' operators: it does not have torch's default, a C function. False
    for torch's fake tensors, which only follow shapes, and for lamina's, which a dry run's mode handles."""
    own, home = getattr(cls, "__torch_dispatch__", None), f"{cls.__module__}."
    answers = own is not None and not isinstance(own, BuiltinFunctionType) and not home.startswith("torch.")
    return (answers or hasattr(cls, "__tensor_flatten__")) and not home.startswith("lamina.")


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


def _restack(new: Mode | None = None) -> None:
    """Takes closed modes off the stack of this thread, at any depth: captures may close in any order. A new
    one goes below other modes, whose operators are observed, and above lamina's and torch's own."""
    stack = [_mode_at(i) for i in range(_modes())]
    kept = [mode for mode in stack if not (isinstance(mode, Mode) and mode.closed)]
    ours = (
        i
        for i, mode in enumerate(kept, 1)
        if isinstance(mode, (Mode, _lamina.Dry)) or getattr(mode, "_mode_key", None) is not None
    )
    at = max(ours, default=0)
    kept[at:at] = [new] if new else []
    if kept != stack:  # in one call of a C function, so that no Ctrl-C comes in between
        list(chain(map(_pop, [None] * len(stack)), map(_push, kept)))


def _name_to_functions() -> None:
    """Adds the mode to the tables of operators that run functions: an older torch's refuse other modes."""
    if not hasattr(modes.TorchDispatchMode, "supports_higher_order_operators"):
        for op in {*getattr(torch._ops, "_higher_order_ops", {}).values()} - _named:
            op.py_impl(Mode)(
                partial(lambda op, mode, *args, **kwargs: _dispatch(mode, op, (), args, kwargs), op)
            )
            _named.add(op)
