# SPDX-License-Identifier: Apache-2.0
"""User-defined rules for operators and layers, which add to lamina's rules or override them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from .. import _lamina
from .._base.count import Count
from .._base.errors import CountError, FormatError
from .._base.files import file_of
from .._base.signature import takes

Shape: TypeAlias = "tuple[int, ...] | None"
# A number, a formula over facts, a function of shapes, or nothing.
Value: TypeAlias = "int | str | Callable[..., int | None] | None"
Values: TypeAlias = "tuple[tuple[int, Any], ...]"  # an operator's arguments from the core

# Each tensor is read or written once, as in the core for an operator whose rule has only formulas.
_ONCE = {"dmas": "ins+outs", "bytes_read": "ins_bytes", "bytes_written": "outs_bytes"}


class OwnRule(NamedTuple):
    """One rule: formulas by metric, and functions for the other metrics."""

    name: str
    formulas: dict[str, str]
    functions: dict[str, Callable[..., int | None]]


_rules: dict[str, OwnRule] = {}
_lock = threading.Lock()


def register(
    op: Any,
    *,
    macs: Value = None,
    flops: Value = None,
    dmas: Value = None,
    bytes_read: Value = None,
    bytes_written: Value = None,
) -> None:
    """Sets the cost of an operator or a layer. It overrides lamina's own rule, until :func:`unregister`.

    Args:
        op: an operator as ``"mylib::op"``, ``torch.ops.mylib.op`` (an overload too), or the object that
            ``torch.library.custom_op`` or ``torch.library.triton_op`` returned; or a layer's class or its
            name.
        macs: multiply-accumulates: a number, a formula over facts (``"out*x_last"``; docs/your-own-rules.md
            lists them), or a function.
        flops: operations, the same; a formula may name ``macs``.
        dmas: elements read and written; the default for an operator is each input and output tensor once.
        bytes_read: bytes read, by default as ``dmas``; a formula may name ``ins_bytes``, and for a layer
            ``params_bytes``.
        bytes_written: bytes written, the same; ``outs_bytes``.

    A function is called as ``f(inputs, outputs)`` with two tuples of shapes of all input and output tensors;
    an unknown shape is None. Its other parameters get the operator's arguments of these names, if those are
    no tensors. It returns an int, a :class:`Count` such as ``Count(5, "at least")``, or None for unknown. A
    metric that is not given is unknown. An operator's rule counts everything that runs inside it; a layer's
    rule the layer's own work, without the layers that it calls.

    Raises:
        TypeError: ``op`` is no operator or layer, or a value has the wrong type.
        ValueError: a formula is malformed; the sentence says where.
    """
    rule = _rule(op, _given(macs, flops, dmas, bytes_read, bytes_written))
    with _lock:
        _rules[rule.name] = rule


def unregister(op: Any) -> None:
    """Removes the rule of :func:`register` or :func:`rules_file` for ``op``.

    Raises:
        KeyError: there is none.
    """
    name = name_of(op)
    with _lock:
        if name not in _rules:
            raise KeyError(f"no rule is registered for {name!r}")
        del _rules[name]


@contextmanager
def registered(
    op: Any,
    *,
    macs: Value = None,
    flops: Value = None,
    dmas: Value = None,
    bytes_read: Value = None,
    bytes_written: Value = None,
) -> Iterator[None]:
    """Registers a rule for the reports in a ``with`` block; see :func:`register`."""
    rule = _rule(op, _given(macs, flops, dmas, bytes_read, bytes_written))
    with _lock:
        before = _rules.get(rule.name)
        _rules[rule.name] = rule
    try:
        yield
    finally:
        with _lock:
            if before is None:
                _rules.pop(rule.name, None)
            else:
                _rules[rule.name] = before


def rules_file(path: str | os.PathLike[str]) -> list[str]:
    """Registers every rule of a file and returns their names; docs/your-own-rules.md has the syntax.

    Raises:
        TypeError: ``path`` is no path.
        OSError: the file can't be read.
        ValueError: it is malformed; ``file:line:column`` and a sentence.
    """
    rules = read_rules(path)
    with _lock:
        for rule in rules:
            _rules[rule.name] = rule
    return [rule.name for rule in rules]


def read_rules(path: Any) -> list[OwnRule]:
    """The rules of a file, without registering them; raises as :func:`rules_file`."""
    file = file_of(path, "rules")
    if not file.exists():
        raise FileNotFoundError(f"rules: there is no file {file}; docs/your-own-rules.md shows one")
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{os.fspath(path)}: it is not UTF-8 text; {error.reason}") from None
    return [OwnRule(name, formulas, {}) for name, formulas in _lamina.read_rules(text, os.fspath(path))]


# -- names -------------------------------------------------------------------------------------------------


def name_of(op: Any) -> str:
    """The name under which a rule is stored: "mylib::op", or a layer's class."""
    if isinstance(op, str):
        return _lamina.check_rule((op, {}, True))
    if isinstance(op, type):
        return f"{op.__module__}.{op.__qualname__}"
    for path in ("_qualname", "_qualified_op_name", "_schema.name", "_opoverload._schema.name"):
        found = op
        for part in path.split("."):
            found = getattr(found, part, None)
        if isinstance(found, str) and "::" in found:
            return _lamina.check_rule((found, {}, True))
    raise TypeError(
        f"{type(op).__name__} is neither an operator nor a class of layers; give 'mylib::op', "
        "torch.ops.mylib.op, what torch.library.custom_op gave, or a class"
    )


def _given(*values: Value) -> dict[str, Value]:
    return dict(zip(("macs", "flops", "dmas", "bytes_read", "bytes_written"), values, strict=True))


def _rule(op: Any, values: Mapping[str, Value]) -> OwnRule:
    name = name_of(op)
    formulas: dict[str, str] = {}
    functions: dict[str, Callable[..., int | None]] = {}
    for metric, value in values.items():
        if isinstance(value, str):
            formulas[metric] = value
        elif isinstance(value, int) and not isinstance(value, bool):
            if value < 0:
                raise ValueError(f"{metric} of {name} is {value}; a count is not negative")
            formulas[metric] = str(value)
        elif callable(value):
            functions[metric] = value
        elif value is not None:
            raise TypeError(
                f"{metric} of {name} is {value!r}; it is an int, a formula such as 'out*x_last' or a function"
            )
    if not formulas and not functions:
        raise TypeError(f"no number is given for {name}; give macs, flops, dmas, bytes_read or bytes_written")
    if functions and "::" in name:
        once = {metric: formula for metric, formula in _ONCE.items() if metric not in functions}
        formulas = {**once, **formulas}
    _lamina.check_rule((name, formulas, bool(functions)))
    return OwnRule(name, formulas, functions)


# -- for reports -------------------------------------------------------------------------------------------


class OwnRules:
    """The rules of one report: ``first``, then those that are registered now, then torch's flop formulas."""

    def __init__(self, rules: Mapping[str, OwnRule]) -> None:
        self._rules = rules

    @classmethod
    def for_core(
        cls, first: Sequence[OwnRule] = ()
    ) -> tuple[list[tuple[str, dict[str, str], bool]], Callable[..., Any]] | tuple[None, None]:
        """The arguments for the core: the rules, and the function that it calls for metrics without a
        formula."""
        of_torch = _of_torch()
        if not (of_torch or _rules or first):
            return None, None  # the usual case
        with _lock:
            return cls({**of_torch, **_rules, **{rule.name: rule for rule in first}})._for_core()

    def _for_core(self) -> tuple[list[tuple[str, dict[str, str], bool]], Callable[..., Any]]:
        return [(r.name, r.formulas, bool(r.functions)) for r in self._rules.values()], self.ask

    def ask(self, name: str, inputs: Values, outputs: Values) -> dict[str, int | tuple[int, str] | None]:
        """The numbers that functions return for one operator or call; None: unknown. A :class:`Count` keeps
        its state.
        Raises:
            CountError: a function raised or did not return a number.
        """
        numbers: dict[str, int | tuple[int, str] | None] = {}
        for metric, function in self._rules[name].functions.items():
            try:
                number = _call(function, name, inputs, outputs)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise CountError(f"the function registered for {metric} of {name} raised {what}") from error
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
                raise CountError(
                    f"the function registered for {metric} of {name} gave {number!r}; it gives an int of at "
                    "least 0, or None"
                )
            if isinstance(number, Count):
                numbers[metric] = None if number.state == "unknown" else (int(number), number.state)
            else:
                numbers[metric] = number
        return numbers


def _shapes(values: Values) -> tuple[Shape, ...]:
    return tuple(value["shape"] for _, value in values if isinstance(value, dict))


def _call(function: Callable[..., int | None], name: str, inputs: Values, outputs: Values) -> int | None:
    if isinstance(function, _OfTorch):
        return function(name, inputs, outputs)
    return function(_shapes(inputs), _shapes(outputs), **_wanted(function, name, inputs))


def _wanted(function: Callable[..., Any], name: str, inputs: Values) -> dict[str, Any]:
    """The arguments of an operator that are no tensors and that the function takes, by their names in the
    schema."""
    wanted = takes(function)
    if wanted is None:
        return {}
    parameters = list(wanted.parameters.values())
    every = any(p.kind is p.VAR_KEYWORD for p in parameters)
    names = {p.name for p in parameters[2:] if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    if not every and not names:
        return {}
    schema = _schema(name)
    named = {}
    for position, value in inputs:
        if isinstance(value, dict) or schema is None or position >= len(schema.arguments):
            continue
        argument = schema.arguments[position].name
        if every or argument in names:
            named[argument] = value
    return named


def _schema(name: str) -> Any:
    """The schema of an operator's first overload; None if torch does not know it."""
    space, _, rest = name.partition("::")
    packet = getattr(getattr(sys.modules["torch"].ops, space), rest, None) if rest else None
    overloads = packet.overloads() if packet is not None else []
    return getattr(packet, overloads[0])._schema if overloads else None


# -- torch's flop formulas ---------------------------------------------------------------------------------


class _OfTorch:
    """A function of torch's registry of flop formulas. It receives tensors without memory, and lists and
    defaults by the operator's schema."""

    def __init__(self, formula: Callable[..., int]) -> None:
        self._formula = formula

    def __call__(self, name: str, inputs: Values, outputs: Values) -> int | None:
        schema = _schema(name)
        if schema is None or not all(_known(value) for _, value in (*inputs, *outputs)):
            return None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for position, argument in enumerate(schema.arguments):
            values = [_value(value) for at, value in inputs if at == position]
            listed = str(argument.type).startswith("List[Tensor")
            value = values if listed else values[0] if values else argument.default_value
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        results = [_value(value) for _, value in outputs]
        out = results[0] if len(results) == 1 else tuple(results)
        return self._formula(*args, **kwargs, out_val=out)


def _known(value: Any) -> bool:
    return not isinstance(value, dict) or value["shape"] is not None


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    torch = sys.modules["torch"]
    dtype = getattr(torch, value["dtype"], torch.float32)
    return torch.empty(value["shape"], dtype=dtype, device="meta")


_seen_of_torch: tuple[int, dict[str, OwnRule]] = (0, {})


def _of_torch() -> dict[str, OwnRule]:
    """The formulas of torch's registry for operators without a word. They return FLOPs, but not the number of
    multiply-accumulates among them; elements count once per tensor."""
    global _seen_of_torch
    counter = sys.modules.get("torch.utils.flop_counter")
    registry = getattr(counter, "flop_registry", None)
    if not isinstance(registry, dict):
        return {}
    if _seen_of_torch[0] == len(registry):  # it only grows
        return _seen_of_torch[1]
    rules = {}
    for op, formula in registry.items():
        try:
            name = name_of(op)
        except (TypeError, ValueError):
            continue  # a higher-order operator, which runs others
        if _lamina.op_kind(name) is None and callable(formula):
            rules[name] = OwnRule(name, dict(_ONCE), {"flops": _OfTorch(formula)})
    _seen_of_torch = (len(registry), rules)
    return rules
