# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of lamina's functions, before the model changes."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from .. import _lamina
from .signature import takes

MODES = ("eval", "train")


def check_module(model: object) -> Any:
    """Returns ``model``, or the module that ``torch.compile`` wrapped in it.

    Raises:
        TypeError: ``model`` is no ``torch.nn.Module``; the sentence describes it.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"lamina looks at a torch.nn.Module, and this is {describe_object(model)}{_module_hint(model)}"
        )
    # torch.compile wraps the root in another module. The wrapped module is the user's model, with its names.
    while type(model).__name__ == "OptimizedModule":
        inner = getattr(model, "_orig_mod", None)
        if not isinstance(inner, torch.nn.Module):
            break
        model = inner
    return model


def describe_object(value: object) -> str:
    """``"a str"``, ``"the class ResNet"``: a description of an object for an error message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None:
        return "None"
    name = type(value).__name__
    if name == "module":
        return "a Python module"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _module_hint(model: object) -> str:
    if isinstance(model, type):
        return ": call it first, to build one"
    if isinstance(model, dict):
        return ": a state dict holds weights only; build the model and load them into it"
    if callable(model):
        return ": wrap the function in a module whose forward calls it"
    return ""


def positional(args: Any, kwargs: Any = None, root: Any = None) -> tuple[object, ...]:
    """The positional arguments as a tuple. Raises TypeError if they are neither a tuple nor a lone tensor, if
    the keyword arguments are no mapping, or if the arguments are sizes of an input to ``root``."""
    if kwargs is not None and not hasattr(kwargs, "keys"):
        raise TypeError(
            f"kwargs is {describe_object(kwargs)}; give the keyword arguments as a dict, {{'mask': m}}"
        )
    torch = sys.modules["torch"]
    if isinstance(args, (torch.Tensor, torch.nn.utils.rnn.PackedSequence)):
        return (args,)
    if isinstance(args, tuple):
        if len(args) > 1 and all(type(each) is int for each in args) and root is not None:
            _refuse_sizes(root, args)
        return args
    if isinstance(args, dict):
        raise TypeError(
            "args is a dict; give one argument that is a dict as (d,), "
            "and keyword arguments as the third argument, lamina.inspect(model, (), {...})"
        )
    if type(args).__module__ == "numpy":
        raise TypeError("args is a numpy array; give a tensor: torch.from_numpy(x)")
    if isinstance(args, list) and len(args) > 1 and all(type(each) is int for each in args):
        sizes = ", ".join(map(str, args))
        raise TypeError(f"args is {args!r}; for an input of that shape give a tensor, torch.rand({sizes})")
    raise TypeError(
        f"args is {describe_object(args)}; give a tensor, several arguments as a tuple, "
        "lamina.inspect(model, (x, y)), and one argument that is a list as ([...],)"
    )


def _refuse_sizes(root: Any, args: tuple[int, ...]) -> None:
    """Raises TypeError if a forward takes fewer arguments than ``args`` has integers."""
    wanted = takes(root.forward)
    if wanted is None:
        return
    try:
        wanted.bind(*args)
    except TypeError:
        raise TypeError(
            f"args is {args!r}, and {type(root).__name__} takes {wanted}; for an input of that shape give a "
            f"tensor, torch.rand{tuple(args)!r}"
        ) from None


def check_convention(convention: str | None) -> None:
    """Raises the core's error, a ValueError that lists the conventions, before a model runs, and TypeError
    for a value that is no name."""
    if convention is not None and not isinstance(convention, str):
        raise TypeError(f"convention is {describe_object(convention)}; it is named, as 'exact'")
    if convention is not None and convention not in conventions():
        _lamina.rules(convention)


@cache
def conventions() -> dict[str | None, bool]:
    """For each convention whether it counts operators; None is the default one."""
    by_name: dict[str | None, bool] = {}
    for row in _lamina.conventions():
        by_name[row["name"]] = bool(row["counts_ops"])
        if row["default"]:
            by_name[None] = bool(row["counts_ops"])
    return by_name


def counts_ops(convention: str | None) -> bool:
    """True if the convention, or the default one, counts operators."""
    return conventions().get(convention, False)


def check_whole(name: str, value: Any, *, least: int) -> None:
    """Raises TypeError for a value that is no whole number, and ValueError for one below ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}; it is a whole number")
    if value < least:
        raise ValueError(f"{name}={value} is not possible; give {least} or more")


def check_flag(name: str, value: Any) -> None:
    """Raises TypeError for a value that is neither True nor False."""
    if value is not True and value is not False and value not in (0, 1):
        raise TypeError(f"{name} is {value!r}; it is True or False")


def check_flags(**flags: Any) -> None:
    """Raises TypeError for the first value that is neither True nor False."""
    for name, value in flags.items():
        check_flag(name, value)


def check_text(name: str, value: Any, example: str) -> None:
    """Raises TypeError for a value that is neither None nor a text."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {describe_object(value)}; it is named, as {example!r}")


def check_roof(roof: Any) -> None:
    """Raises TypeError for a value that is neither None nor a roof."""
    if roof is not None and not (hasattr(roof, "flops") and hasattr(roof, "bytes")):
        raise TypeError(f"roof is what lamina.roof() gives, not {roof!r}")


def check_mode(mode: str | None) -> None:
    """Raises ValueError for a mode that is neither None nor one of MODES."""
    if mode is not None and mode not in MODES:
        raise ValueError(
            f"there is no mode {mode!r}; it is 'eval', 'train', or None to run the model as it is"
        )
