# SPDX-License-Identifier: Apache-2.0
"""The inputs that the command passes to a model: from ``-i batch.ids=1x16:int64=arange`` to a tensor, or from
user code."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import _lamina
from .._base.check import describe_object
from .._base.errors import UsageError
from .._base.modules import parameters
from .._base.signature import takes
from .._inspect import inspect
from .limit import available
from .load import call, load, near, split

if TYPE_CHECKING:
    from collections.abc import Sequence
    from inspect import Signature

SEED = 0
MOST, LONGEST = 0x7FFF_FFFF_FFFF_FFFF, 19  # elements; digits of a size
FORM = re.compile(r"(?:(?P<name>[^\W\d][\w.]*)=)?(?P<shape>[^:=]*)(?::(?P<dtype>[^=]*))?(?:=(?P<value>.*))?")
EXAMPLES = "write 1x3x224x224, ids=1x16:int64 or ids=1x16:int64=arange"
WORDS = ("zeros", "ones", "rand", "randn", "arange")
FILLS = f"a value is a number, True, False, {', '.join(WORDS)} or randint(0,100)"
RANDINT = re.compile(r"randint\((?:(-?[0-9]+),)?(-?[0-9]+)\)")
NAMES_SHOWN = 6  # the most parameters of a forward that an error names


class Given(NamedTuple):
    """The arguments of a model, and how each made-up tensor among them was made: ``"rand"``."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    made: list[str]


class _Input(NamedTuple):
    """One parsed ``-i``; ``text`` is the whole text, for errors."""

    text: str
    path: list[str]  # batch.ids; empty: by position
    shape: list[int]
    dtype: Any  # None: not given
    value: str | None


# -- reading -------------------------------------------------------------------------------------------------


def dtypes() -> list[str]:
    """The names of torch's types."""
    torch = sys.modules["torch"]
    return [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]


def _read(text: str, batch: int) -> _Input:
    torch = sys.modules["torch"]
    found = FORM.fullmatch(text)
    if found is None or text.endswith("=") or (not found["shape"] and not (found["dtype"] or found["value"])):
        raise UsageError(f"{text!r} is not an input; {EXAMPLES}")
    path = found["name"].split(".") if found["name"] else []
    if not all(part.isidentifier() for part in path):
        raise UsageError(
            f"{text!r}: {found['name']!r} is not a name; write mask=1x16:bool or batch.ids=1x16:int64"
        )
    shape = _shape(text, found["shape"], batch)
    kind = found["dtype"]
    dtype = None if kind is None else getattr(torch, kind.removeprefix("torch."), None)
    if kind is not None and not isinstance(dtype, torch.dtype):
        raise UsageError(
            f"{text!r}: unknown dtype {kind!r}{near(kind, dtypes()) or '; write int64 or float32'}"
        )
    return _Input(text, path, shape, dtype, found["value"])


def _shape(text: str, spelled: str, batch: int) -> list[int]:
    """The sizes of ``1x3x32x32``, ``1,3,32,32`` or ``(1, 3, 32, 32)``."""
    inside = spelled.strip().removeprefix("(").removesuffix(")").rstrip(",").replace(" ", "")
    sizes = re.split("[x,]", inside) if inside else []
    if "x" in inside and "," in inside:
        raise UsageError(f"{text!r}: x and , both stand between sizes; one -i is one input")
    for size in sizes:
        if re.fullmatch("-[0-9]+", size):
            raise UsageError(f"{text!r}: the size {size} is negative; sizes are whole numbers from 1")
        if not size:
            raise UsageError(f"{text!r}: a size is missing; {EXAMPLES}")
        if not re.fullmatch("[0-9]+", size):
            raise UsageError(f"{text!r}: {size!r} is not a size; {EXAMPLES}")
    shape = [int(size) if len(size) <= LONGEST else MOST + 1 for size in sizes]
    if batch and shape:
        shape[0] = batch
    if max(shape, default=1) > MOST or prod(shape) > MOST:
        raise UsageError(f"{text!r} has more elements than can be counted")
    if 0 in shape:
        raise UsageError(f"{text!r}: a size is 0, so there are no elements; sizes are whole numbers from 1")
    return shape


# -- filling -------------------------------------------------------------------------------------------------


def _number(text: str) -> bool | int | float | None:
    if text in ("True", "False"):
        return text == "True"
    if re.fullmatch("[+-]?[0-9]+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return None


def _dtype_of(given: _Input, like: Any) -> Any:
    """The type of an input: the given one, else one that its value needs, else that of the model's
    parameters."""
    torch = sys.modules["torch"]
    if given.dtype is not None:
        return given.dtype
    if given.value in ("True", "False"):
        return torch.bool
    whole = given.value == "arange" or (given.value or "").startswith("randint")
    return torch.int64 if whole else like.dtype


def _default(dtype: Any, name: str) -> str:
    torch = sys.modules["torch"]
    if dtype.is_floating_point or dtype.is_complex:
        return "rand"
    if dtype is torch.bool:
        return "True"
    return "ones" if "mask" in name.lower() else "zeros"


def _range(dtype: Any) -> str:
    """The values that a type holds."""
    torch = sys.modules["torch"]
    if dtype is torch.bool:
        return "it holds True and False"
    info = torch.finfo(dtype) if dtype.is_floating_point or dtype.is_complex else torch.iinfo(dtype)
    return f"it holds {info.min} to {info.max}"


def _holds(given: _Input, dtype: Any, *numbers: Any) -> None:
    """Raises UsageError if a type can't hold these numbers."""
    torch = sys.modules["torch"]
    name = str(dtype).removeprefix("torch.")
    for number in numbers:
        if dtype is torch.bool:
            fits = number in (0, 1)
        elif dtype.is_floating_point or dtype.is_complex:
            fits = isinstance(number, float) or abs(number) <= torch.finfo(dtype).max
        else:
            whole = isinstance(number, int) or number.is_integer()
            fits = whole and torch.iinfo(dtype).min <= number <= torch.iinfo(dtype).max
        if not fits:
            raise UsageError(f"{given.text!r}: {name} can't hold {number}; {_range(dtype)}")


def _filled(given: _Input, dtype: Any, value: str, device: Any, number: int) -> Any:
    """The tensor of an input. ``number`` counts the inputs, so that each gets different integers, also in a
    dry run."""
    torch = sys.modules["torch"]
    shape, real = given.shape, dtype.is_floating_point or dtype.is_complex
    if value in ("rand", "randn"):
        if not real:
            name = str(dtype).removeprefix("torch.")
            raise UsageError(
                f"{given.text!r}: {value} gives fractions, and {name} holds none; write randint(0,10)"
            )
        return getattr(torch, value)(shape, device=device).to(dtype)
    if value == "arange":
        last = shape[-1] if shape else 1
        _holds(given, dtype, last - 1)  # not a count: the largest value
        return torch.arange(last, device=device).to(dtype).expand(shape).contiguous()
    if value in ("zeros", "ones"):
        return getattr(torch, value)(shape, device=device, dtype=dtype)
    if drawn := RANDINT.fullmatch(value.replace(" ", "")):
        low, high = int(drawn[1] or 0), int(drawn[2])
        if low >= high:
            raise UsageError(
                f"{given.text!r}: from {low} up to {high} there is no number; write randint(0,100)"
            )
        _holds(given, dtype, low, high - 1)  # not a count: the largest value
        generator = torch.Generator().manual_seed(SEED + number)  # not a count: another one for each
        return torch.randint(low, high, shape, generator=generator).to(dtype).to(device)
    fill = _number(value)
    if fill is None:
        hint = FILLS + ("; a name stands before =, as in ids=1x16" if given.text.startswith("=") else "")
        raise UsageError(
            f"{given.text!r}: unknown value {value!r}{near(value, (*WORDS, 'randint')) or '; ' + hint}"
        )
    _holds(given, dtype, fill)
    return torch.full(shape, fill, device=device, dtype=dtype)


def _tensor(given: _Input, name: str, like: Any, number: int, *, dry: bool) -> tuple[Any, str]:
    """The tensor and how it was made. For a dry run it has values if it is small enough to be known."""
    from .._dry.running import MOST_KNOWN

    torch = sys.modules["torch"]
    dtype = _dtype_of(given, like)
    value = _default(dtype, name) if given.value is None else given.value
    real = dtype.is_floating_point or dtype.is_complex
    if dry and (real or prod(given.shape) > MOST_KNOWN):
        _filled(
            given._replace(shape=given.shape and [1]), dtype, value, "cpu", number
        )  # raises the error of a wrong value
        return torch.empty(given.shape, dtype=dtype, device="meta"), _described(value, given)
    size = torch.empty((), dtype=dtype).element_size()
    here, needed = available(), prod(given.shape) * size  # not a count: whether it can be made
    if here is not None and needed > here and like.device.type == "cpu":
        raise UsageError(
            f"{given.text!r} needs {_lamina.text_bytes(needed)}, and there are {_lamina.text_bytes(here)}; "
            "--dry follows the shapes and takes none"
        )
    return _filled(given, dtype, value, "cpu" if dry else like.device, number), _described(value, given)


def _described(value: str, given: _Input) -> str:
    """``"rand"``, ``"all 7"``: how a tensor was made up."""
    return value if _number(value) is None or not given.shape else f"all {value}"


# -- arguments -----------------------------------------------------------------------------------------------


class _Made(NamedTuple):
    """Arguments, and by the identity of each tensor how it was made and which ``-i`` it is of."""

    args: list[Any]
    kwargs: dict[str, Any]
    how: dict[int, str]
    number: dict[int, int]


def made_up(root: Any, target: str, texts: Sequence[str], *, dry: bool, batch: int = 0) -> Given:
    """The arguments made from all ``-i``. Whole numbers without a value that choose rows of the model's
    largest table, as the ids of a language model do, are random ones among those rows.

    Raises:
        UsageError: one is malformed or can't be made, or the forward takes other arguments.
    """
    torch = sys.modules["torch"]
    like = next((p for p in parameters(root) if p.is_floating_point()), torch.empty(0))
    read = [_read(text, batch) for text in texts]
    wanted = takes(root.forward)
    names = _positional(wanted)
    made = _made(read, names, like, dry=dry)
    if wanted is not None:
        _check(wanted, target, tuple(made.args), made.kwargs)
    rows = _rows_of_tables(root, read, made)
    if rows:
        read = [
            given._replace(value=f"randint(0,{rows[number]})") if number in rows else given
            for number, given in enumerate(read)
        ]
        made = _made(read, names, like, dry=dry)
    described = [
        made.how[id(tensor)] + (", the rows of its table" if made.number[id(tensor)] in rows else "")
        for tensor in _tensors([made.args, made.kwargs])
    ]
    return Given(tuple(made.args), made.kwargs, described)


def _made(read: Sequence[_Input], names: Sequence[str], like: Any, *, dry: bool) -> _Made:
    made = _Made([], {}, {}, {})
    for number, given in enumerate(read):
        at = len(made.args)
        name = given.path[-1] if given.path else names[at] if at < len(names) else ""
        tensor, how = _tensor(given, name, like, number, dry=dry)
        made.how[id(tensor)], made.number[id(tensor)] = how, number
        if given.path:
            _put(made.kwargs, given, tensor)
        else:
            made.args.append(tensor)
    return made


def _rows_of_tables(root: Any, read: Sequence[_Input], made: _Made) -> dict[int, int]:
    """Among how many rows of the model's largest table the whole numbers of an ``-i`` without a value choose,
    as a dry run shows; by the number of the ``-i``. Empty if the model can't be followed."""
    tensors = _tensors([made.args, made.kwargs])
    free = [
        (entry, made.number[id(tensor)])
        for entry, tensor in enumerate(tensors)
        if made.how[id(tensor)] == "zeros" and read[made.number[id(tensor)]].value is None
    ]
    if not free:
        return {}
    try:
        model = inspect(root, tuple(made.args), made.kwargs, dry=True)._model
    except Exception:  # the run itself will tell, or does what can't be followed
        return {}
    rows = {number: model.table_rows(entry) for entry, number in free}
    return {number: found[0] for number, found in rows.items() if found is not None and found[1]}


def _tensors(value: Any) -> list[Any]:
    """The tensors in ``value``, in the order in which a capture visits them."""
    if isinstance(value, (list, dict)):
        return [
            tensor
            for each in (value.values() if isinstance(value, dict) else value)
            for tensor in _tensors(each)
        ]
    return [value]


def _put(kwargs: dict[str, Any], given: _Input, tensor: Any) -> None:
    """Puts a tensor into the keyword arguments: ``batch.ids`` is the entry ``ids`` of the dict ``batch``."""
    at = kwargs
    for part in given.path[:-1]:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise UsageError(f"{given.text!r}: {part!r} is an input already, and can't be a dict too")
    if given.path[-1] in at:
        raise UsageError(f"{given.text!r}: {'.'.join(given.path)!r} is given twice")
    at[given.path[-1]] = tensor


def _positional(wanted: Signature | None) -> list[str]:
    """The names of the arguments by position."""
    kinds = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
    return [p.name for p in wanted.parameters.values() if p.kind.name in kinds] if wanted else []


def _check(wanted: Signature, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Reports missing or unknown inputs, before the model raises its own error."""
    all_names = list(wanted.parameters)
    shown = ", ".join(all_names[:NAMES_SHOWN]) + (", ..." if len(all_names) > NAMES_SHOWN else "")
    anything = any(p.kind.name == "VAR_KEYWORD" for p in wanted.parameters.values())
    for name in kwargs:
        if name not in all_names and not anything:
            hint = near(name, all_names)
            if not hint and len(all_names) == 1 and not isinstance(kwargs[name], dict):
                hint = f"; if {all_names[0]} is a dict, write -i {all_names[0]}.{name}=SHAPE"
            elif all_names and isinstance(kwargs[name], dict):
                hint += f" (a dict goes to the parameter before the dot: {all_names[0]}.NAME=...)"
            raise UsageError(f"{target}: forward({shown}) has no parameter {name!r}{hint}")
    try:
        wanted.bind(*args, **kwargs)
    except TypeError as error:
        given = len(args) + len(kwargs)
        raise UsageError(
            f"{target} takes forward({shown}), and with {given} input{'' if given == 1 else 's'} given: "
            f"{error}; give each with -i, such as -i 1x3x224x224"
        ) from None


# -- from code -----------------------------------------------------------------------------------------------


def from_code(root: Any, target: str, name: str, files: dict[Any, Any], *, batch: int = 0) -> Given:
    """The arguments from ``FILE.py:NAME``: a tensor, a tuple, a dict of keyword arguments, or a tuple and a
    dict; or a function that returns one of these.

    Raises:
        UsageError: it is another object, or the forward takes other arguments.
    """
    torch = sys.modules["torch"]
    where, path = split(name, "function")
    value = load(where, path, files)
    if callable(value) and not isinstance(value, (torch.Tensor, torch.nn.Module)):
        value = call(value, {}, where, name, "it is called with no argument")
    args, kwargs = _arguments(value, name)
    if batch:
        from .._fit import of_batch

        try:
            args, kwargs = of_batch(args, kwargs, batch)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    wanted = takes(root.forward)
    if wanted is not None:
        _check(wanted, target, args, kwargs)
    return Given(args, kwargs, [])


def _arguments(value: Any, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return (value,), {}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return (), dict(value)
    if type(value) is tuple:
        pair = len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], Mapping)
        return (value[0], dict(value[1])) if pair else (value, {})
    raise UsageError(
        f"{name} gives {describe_object(value)}; give a tensor, a tuple of arguments, a dict of keyword "
        "arguments, or (args, kwargs)"
    )
