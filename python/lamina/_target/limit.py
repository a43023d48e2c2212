# SPDX-License-Identifier: Apache-2.0
"""Limits the memory that a model may take while it is built, so that no machine's memory is filled.

Allocations of tensors are counted at calls of torch, by a function mode (as ``torch.device`` is as a
context). Memory that is mapped from a file is not counted.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._dry.running import MOST_KNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

# These write to the memory that they allocate; memory of the others is only used when it is written.
FILLING = ("ones", "full", "rand", "randn", "randint")
MAKING = (*FILLING, "empty", "empty_strided", "zeros", "eye", "arange", "linspace", "tensor")
LIKE = ("empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "randint_like")
SOME = 0.01  # the value of large weights that would be random, in a dry run
METHODS = ("clone", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "repeat")


class TooLargeError(BaseException):
    """Tensors exceed the limit. Not an Exception, so that user code that catches exceptions does not
    continue."""


@cache
def _functions(names: tuple[str, ...]) -> frozenset[Any]:
    torch = sys.modules["torch"]
    return frozenset(function for name in names if (function := getattr(torch, name, None)) is not None)


@cache
def _methods(names: tuple[str, ...]) -> frozenset[Any]:
    torch = sys.modules["torch"]
    return frozenset(getattr(torch.Tensor, name) for name in names)


@cache
def _random() -> frozenset[Any]:
    """What weights are filled by: torch.nn.init calls the methods, except where a mode gets its function."""
    torch = sys.modules["torch"]
    init = torch.nn.init
    return _methods(("uniform_", "normal_")) | {init.uniform_, init.normal_, init.kaiming_uniform_}


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel()) * int(tensor.element_size())  # not a count: whether it can be made


class _Count:
    """The tensors that were made and are still alive."""

    def __init__(self, most: int, *, dry: bool) -> None:
        torch = sys.modules["torch"]
        self._most = most
        self._dry = dry
        self._there: dict[int, tuple[Any, int]] = {}  # by storage
        self._bytes = 0
        self._plain = torch.Tensor, torch.nn.Parameter
        self._ref = torch.multiprocessing.reductions.StorageWeakRef
        self.over = False

    def call(self, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if function in _functions(FILLING) and kwargs.get("device") is None:
            self._expect(function, args, kwargs)
        if self._dry and function in _random():
            filled = args[0] if args else kwargs["tensor"]
            if filled.numel() > MOST_KNOWN:
                with sys.modules["torch"].no_grad():  # as the functions of torch.nn.init do
                    return filled.fill_(SOME)
        out = function(*args, **kwargs)
        if function in _functions(MAKING + LIKE) or function in _methods(METHODS):
            self._add(out)
        return out

    def _expect(self, function: Any, args: Any, kwargs: dict[str, Any]) -> None:
        made = on_meta(function, args, kwargs)
        if made is not None and _nbytes(made) > self._most:
            self._refuse()

    def _add(self, made: Any) -> None:
        if type(made) not in self._plain or made.device.type != "cpu" or made.layout != self._strided():
            return
        storage = made.untyped_storage()
        if storage._cdata not in self._there or self._there[storage._cdata][0].expired():
            self._there[storage._cdata] = self._ref(storage), storage.nbytes()
            self._bytes += storage.nbytes()  # not a count: memory
        if self._bytes > self._most:
            self._there = {at: kept for at, kept in self._there.items() if not kept[0].expired()}
            self._bytes = sum(n for _, n in self._there.values())  # not a count: memory
        if self._bytes > self._most:
            self._refuse()

    def _strided(self) -> Any:
        return sys.modules["torch"].strided

    def _refuse(self) -> None:
        self.over = True
        raise TooLargeError


def on_meta(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result on the meta device of a function that makes a tensor; None if it has none there."""
    try:
        return function(*args, **{**kwargs, "device": "meta"})
    except Exception:
        return None


def _mode(call: Any) -> Any:
    from torch.overrides import TorchFunctionMode

    def function(_: Any, function: Any, __: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(function, args, kwargs or {})

    return type("Mode", (TorchFunctionMode,), {"__torch_function__": function, "__module__": __name__})()


@contextmanager
def limited(most: int | None, *, dry: bool = False) -> Iterator[None]:
    """In the block, at most ``most`` bytes of tensors are alive at a time. If ``dry``, tensors of more than
    ``MOST_KNOWN`` elements, whose values no dry run reads, are filled with one number and not with random
    ones, which take most of the time in which a model is built.

    Raises:
        TooLargeError: there would be more; raised before the memory is allocated.
    """
    if most is None:
        yield
        return
    import_module("torch.multiprocessing.reductions")  # so that it is not imported inside the mode
    count = _Count(most, dry=dry)
    with _mode(count.call):
        yield
    if count.over:
        raise TooLargeError  # the model's code caught it and continued


def large_on_meta() -> Any:
    """A context in which tensors of more than ``MOST_KNOWN`` elements are made on the meta device. Small ones
    are real, so that code that builds a model can read them, and a dry run knows them."""

    def call(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if function in _functions(MAKING) and kwargs.get("device") is None:
            made = on_meta(function, args, kwargs)
            if made is not None and made.numel() > MOST_KNOWN:
                return made
        return function(*args, **kwargs)

    return _mode(call)


def available() -> int | None:
    """Bytes of memory that are still available here, with swap; None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    kib = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    if "MemAvailable" not in kib:
        return None
    swap, free = kib.get("SwapFree", 0) * 1024, kib["MemAvailable"] * 1024  # not a count: kB of the kernel
    most = group_limit()
    return swap + (free if most is None else min(free, most))  # not a count: what is left


def group_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The memory limit of this process's control group in bytes, by version 2 or 1 of control groups; None
    without a limit. Version 1 then has a number larger than any memory."""
    limits = []
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = root.joinpath(name).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isdecimal():
            limits.append(int(text))
    return min(limits, default=None)
