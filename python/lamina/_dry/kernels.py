# SPDX-License-Identifier: Apache-2.0
"""Asks torch's kernels what they accept. torch's shape functions accept more than its kernels do: products of
float64 and float32, embeddings of floats. So where a dry run meets an operator with arguments of new types,
it runs the operator on a few elements. What the kernel raises then, a real run would raise too.
"""

from __future__ import annotations

import re
import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MOST = 256  # elements in all tensors of an operator that is tried in their own shapes; SMALL in dry/repeats.c
TYPES = re.compile(
    r"type|not implemented for|\bbool|integral|floating|"
    r"\b(Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|Complex\w+|Bool)\b"
)
MISSING = "not implemented for"  # how torch tells that a kernel for this type is missing on this device


# Operators that other operators alone call, with shapes that those have checked: they read memory unchecked.
UNCHECKED = re.compile(r"_|.*(backward|jvp|mkldnn|cudnn|miopen|fbgemm|nnpack)")
_accepted: set[int] = set()  # questions of this process that a kernel answered by running


def checks_its_shapes(function: Any, name: str) -> bool:
    """True if a program may call the operator itself, so that its kernel refuses shapes that do not fit."""
    core = getattr(sys.modules["torch"].Tag, "core", None)
    called = core in function.tags and "backward" not in name
    return name.startswith("aten::") and (called or not UNCHECKED.match(name[6:]))


def ask(
    run: Any,
    function: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    elsewhere: bool,
    question: int,
) -> None:
    """Raises what torch's kernel raises for arguments of these types, whatever their values are. ``run``: the
    dry run (:mod:`lamina._dry.mode`); ``question``: a hash of the operator and of these types.

    Small tensors are tried in their own shapes. Larger ones have two elements along each axis, and an
    exception is believed only if it tells of types. After any other they have one, and the numbers among the
    arguments, such as the groups of a normalisation, are 1 at most. ``elsewhere``: some tensors are not on
    the CPU, whose kernels may lack types that those of another device have.
    """
    if question not in _accepted:
        error = _refusal(run, function, args, kwargs or {})
        if error is not None and elsewhere and MISSING in str(error):
            return
        if error is not None:
            raise error
        _accepted.add(question)


def _refusal(run: Any, function: Any, args: Any, kwargs: Any) -> Exception | None:
    torch = run.torch
    tensors: list[Any] = []
    run._map((args, kwargs), tensors, lambda t: t)
    if any(t.layout is not torch.strided or t.numel() == 0 or t.is_quantized for t in tensors):
        return None
    whole = sum(t.numel() for t in tensors) <= MOST  # not a count: of elements to compute with
    given: Any = (args, kwargs)
    tries = [(0, given)] if whole else [(2, given), (1, _ones(given))]
    for size, (positional, named) in tries:
        attempt = partial(_tried, run, function, positional, named)
        error = attempt(partial(_filled, run, size, 0))
        again = None if error is None else attempt(partial(_filled, run, size, 1))
        if again is None:
            return None
        if whole or TYPES.search(str(error)):
            return error if str(again) == str(error) else None
    return None


def _tried(run: Any, function: Any, args: Any, kwargs: Any, make: Callable[[Any], Any]) -> Exception | None:
    """The exception of the kernel with the tensors that ``make`` returns; None: it ran, or values decided."""
    torch = run.torch
    made: dict[int, Any] = {}

    def once(tensor: Any) -> Any:
        if id(tensor) not in made:
            made[id(tensor)] = make(tensor)
        return made[id(tensor)]

    drawn = torch.Tag.nondeterministic_seeded in function.tags
    generators = torch.random.fork_rng(devices=[], enabled=drawn)
    with torch._C._DisableTorchDispatch(), run.casting(), warnings.catch_warnings(), generators:
        warnings.simplefilter("ignore")
        given, named = run._map(args, [], once), run._map(kwargs, [], once)
        if "generator" in named:
            named["generator"] = None
        try:
            function(*given, **run._here(named, "cpu"))
        except torch.linalg.LinAlgError:
            return None
        except Exception as error:
            return error
    return None


def _ones(value: Any) -> Any:
    """The arguments with 1 for each whole number above it."""
    if isinstance(value, (list, tuple)):
        return type(value)(_ones(v) for v in value)
    if isinstance(value, dict):
        return {k: _ones(v) for k, v in value.items()}
    return min(value, 1) if type(value) is int else value


def _filled(run: Any, size: int, value: int, tensor: Any) -> Any:
    """A tensor of one value, of the same type and number of axes: with ``size`` elements along each axis; 0:
    of the same shape, with the values that are known, and laid out alike if that takes little memory."""
    if size:
        return run.torch.full((size,) * tensor.dim(), value, dtype=tensor.dtype)
    if run.knows(tensor):
        return run.real(tensor)
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    reach = 1 + sum((size - 1) * stride for size, stride in pairs)  # not a count: elements of memory
    if reach > MOST:
        return run.torch.full(tensor.shape, value, dtype=tensor.dtype)
    return run.torch.full((reach,), value, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())
