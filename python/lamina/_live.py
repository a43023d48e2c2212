# SPDX-License-Identifier: Apache-2.0
"""Live models for the command: from ``pkg.mod:attr`` or ``file.py:attr`` and shapes to a model that was
run once."""

from __future__ import annotations

import sys
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from . import _lamina
from ._errors import NeedsValuesError, UsageError
from ._run import run_once
from ._takes import takes
from ._target import _ToldError, line_of, near, split
from ._target import build as built_of
from ._tree import parameters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from ._health import Wanted
    from ._measure import Measure
    from ._run import Run

SEED = 0
MOST, LONGEST = 0x7FFF_FFFF_FFFF_FFFF, 19  # elements; digits of a size


def run_target(
    target: str,
    inputs: Sequence[str],
    mode: str | None,
    build: Sequence[str],
    *,
    ops: bool | None = False,
    backward: bool = False,
    grad: bool = False,
    dry: bool = False,
    time: Measure | None = None,
    follow: bool = False,
    dtype: str | None = None,
    batch: int = 0,
    built: dict[tuple[str, ...], Any] | None = None,
    health: Wanted | None = None,
    memory: bool = False,
) -> _lamina.Model:
    """Builds the model that ``target`` names, runs it once on made-up inputs, and returns what was seen.

    Floating point inputs are drawn from [0, 1), integers and booleans are zeros; the seed is fixed, so
    every run is the same; a dry run draws none. ``batch`` is the first size of every input, where it is not
    0. The other keywords are those of :func:`lamina._run.run_once`. What ``built`` holds is not built again.

    Raises:
        UsageError: the target, an input or a build argument can't be understood, in a sentence.
        Exception: what the forward raised, with ``lamina_model`` set to what was seen up to there.
    """
    split(target)  # torch takes a while to be imported
    torch = torch_module()
    torch.manual_seed(SEED)
    if dtype is not None:
        dtype = real_dtype(dtype)
    built = {} if built is None else built
    which = (target, *build)
    if which not in built:
        built[which] = built_of(target, build, dry=dry)
    root = built[which]
    args, kwargs = _inputs(root, inputs, dry=dry, batch=batch)
    _check_signature(root, target, args, kwargs)
    options: dict[str, Any] = {"ops": ops, "backward": backward, "grad": grad, "dry": dry, "time": time}
    options |= {"follow": follow, "dtype": dtype, "health": health, "memory": memory}
    run = run_once(root, args, kwargs, mode=mode, **options)
    if run.error is not None:
        _raise(run)
    assert run.model is not None
    return run.model


def real_dtype(name: str) -> str:
    """The name of a floating-point type, without "torch.".

    Raises:
        UsageError: there is no such type.
    """
    torch = sys.modules["torch"]
    short = name.removeprefix("torch.")
    dtype = getattr(torch, short, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        real = [each for each in _dtypes(torch) if getattr(torch, each).is_floating_point]
        raise UsageError(f"{name!r} is no floating-point type{near(short, real)}")
    return str(dtype).removeprefix("torch.")


def _raise(run: Run) -> NoReturn:
    """The forward's exception, with the layer that raised it, and with what was seen for the command to
    print."""
    error: Any = run.error
    failure = run.model.costs().failure() if run.model is not None else None
    told: Any = error
    if isinstance(error, SystemExit):
        told = _ToldError(f"{line_of(error)}; {failure}" if failure else line_of(error))
    elif failure and isinstance(error, Exception) and not isinstance(error, NeedsValuesError):
        told = _ToldError(f"{line_of(error)}; {failure}")
    if run.model is not None:
        told.lamina_model = run.model
    if told is error:
        raise error
    raise told from error


def torch_module() -> ModuleType:
    """torch, which a live model needs.

    Raises:
        UsageError: it can't be imported.
    """
    try:
        return import_module("torch")
    except ImportError as error:
        raise UsageError(
            f"PyTorch can't be imported ({error}); a live model needs it: pip install torch"
        ) from error


# -- inputs --------------------------------------------------------------------------------------------------


def _inputs(
    root: Any, texts: Sequence[str], *, dry: bool, batch: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for text in texts:
        name, value = _input(root, text, dry=dry, batch=batch)
        if name:
            kwargs[name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _input(root: Any, text: str, *, dry: bool, batch: int = 0) -> tuple[str, Any]:
    """``[name=]2x3x4[:dtype]`` as a keyword (or "") and a tensor, which for a dry run takes no memory."""
    torch = sys.modules["torch"]
    name, equals, rest = text.rpartition("=")
    sizes, _, kind = rest.partition(":")
    if (equals and not name.isidentifier()) or not all(size.isdecimal() for size in sizes.split("x")):
        raise UsageError(f"{text!r} is no input; write 1x3x224x224, 1x16:int64 or mask=1x16:bool")
    like = next((p for p in parameters(root) if p.is_floating_point()), torch.empty(0))
    dtype = getattr(torch, kind, None) if kind else like.dtype
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"{kind!r} is no dtype{near(kind, _dtypes(torch))}")
    shape = [int(size) if len(size) <= LONGEST else MOST + 1 for size in sizes.split("x")]
    if batch:
        shape[0] = batch
    if max(shape) > MOST or prod(shape) > MOST:
        raise UsageError(f"{text!r} is no input: it has more elements than can be counted")
    if dry:
        from ._dry import MOST_KNOWN

        unknown = dtype.is_floating_point or prod(shape) > MOST_KNOWN
        return name, torch.zeros(shape, device="meta" if unknown else "cpu", dtype=dtype)
    if dtype.is_floating_point:
        return name, torch.rand(shape, device=like.device).to(dtype)
    return name, torch.zeros(shape, device=like.device, dtype=dtype)


def _dtypes(torch: ModuleType) -> list[str]:
    return [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]


def _check_signature(root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Says which inputs are missing, before the model does so in its own words."""
    wanted = takes(root.forward)
    if wanted is None:
        return
    try:
        wanted.bind(*args, **kwargs)
    except TypeError as error:
        given = len(args) + len(kwargs)
        raise UsageError(
            f"{target} takes forward{wanted}, and with {given} input{'' if given == 1 else 's'} given: "
            f"{error}; give each with -i, such as -i 1x3x224x224"
        ) from None
