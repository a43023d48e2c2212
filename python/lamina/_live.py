# SPDX-License-Identifier: Apache-2.0
"""Live models for the command: from ``pkg.mod:attr`` or ``file.py:attr`` and shapes to a model that was
run once."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from math import prod
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, NoReturn

from . import _lamina
from ._errors import NeedsValuesError, UsageError
from ._run import describe_object, run_once
from ._takes import takes
from ._tree import parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
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
    where, path = _split(target)
    torch = torch_module()
    torch.manual_seed(SEED)
    if dtype is not None:
        dtype = real_dtype(dtype)
    built = {} if built is None else built
    which = (target, *build)
    if which not in built:
        built[which] = _module(_load(where, path), target, dict(_keyword(text) for text in build))
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
        raise UsageError(f"{name!r} is no floating-point type{_near(short, real)}")
    return str(dtype).removeprefix("torch.")


class _ToldError(Exception):
    """What code of the user's raised, told in one sentence."""


def _line(error: BaseException) -> str:
    """The class and the first line of what was raised."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _raise(run: Run) -> NoReturn:
    """The forward's exception, with the layer that raised it, and with what was seen for the command to
    print."""
    error: Any = run.error
    failure = run.model.costs().failure() if run.model is not None else None
    told: Any = error
    if failure and isinstance(error, Exception) and not isinstance(error, NeedsValuesError):
        told = _ToldError(f"{_line(error)}; {failure}")
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


# -- finding the model ---------------------------------------------------------------------------------------


def _split(target: str) -> tuple[str, str]:
    """Where a target's model is, and its name there."""
    where, _, path = target.rpartition(":")
    if where and path:
        return where, path
    what = "is a file and names no model" if S_ISREG(_mode(target)) else "does not name a model"
    text = f"{target!r} {what}; write package.module:name or path/to/file.py:name"
    if target and what.startswith("is") and not target.endswith(".py"):
        text += ", with code that builds the model and loads the file into it"
    raise UsageError(text)


def _mode(path: str) -> int:
    """What kind of file a path names; 0 where it names none."""
    try:
        return Path(path).stat().st_mode
    except (OSError, ValueError):
        return 0


def _load(where: str, path: str) -> Any:
    value: Any = _file(where) if where.endswith(".py") or os.sep in where else _package(where)
    for name in path.split("."):
        owner, value = value, getattr(value, name, None)
        if value is None:
            raise UsageError(f"{where} has no {path!r}{_near(name, dir(owner))}")
    return value


def _near(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [n for n in names if not n.startswith("_")], n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _file(path: str) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    file = Path(path)
    if S_ISDIR(_mode(path)):
        raise UsageError(f"{path} is a folder; name a file in it")
    if not _mode(path):
        names = [near.name for near in file.parent.iterdir()] if file.parent.is_dir() else []
        raise UsageError(f"there is no file {path}{_near(file.name, names)}")
    name = file.stem
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = module_from_spec(spec)
    sys.modules.setdefault(name, module)  # dataclasses and pickles look their module up there
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _ToldError(f"{path} can't be run: {_line(error)}{_line_of(error, spec.origin)}") from error
    return module


def _line_of(error: Exception, path: str | None) -> str:
    """The last line of the file that led to an exception."""
    from traceback import extract_tb

    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == path]
    return f", in line {lines[-1]}" if lines else ""


def _package(name: str) -> ModuleType:
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    done = ""
    for part in name.split("."):
        try:
            import_module(f"{done}.{part}" if done else part)
        except ModuleNotFoundError as error:
            if error.name != (f"{done}.{part}" if done else part):
                raise UsageError(f"importing {name} failed: {error}") from error
            inside = f" in {done}" if done else ""
            raise UsageError(f"there is no module {part!r}{inside}{_near(part, _modules(done))}") from None
        done = f"{done}.{part}" if done else part
    return sys.modules[done]


def _modules(package: str) -> list[str]:
    import pkgutil

    path = getattr(sys.modules[package], "__path__", ()) if package else None
    return [module.name for module in pkgutil.iter_modules(path)]


def _module(value: Any, target: str, build: dict[str, Any]) -> Any:
    """The module itself, or what a class or function builds."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.nn.Module):
        if build:
            raise UsageError(f"{target} is a model already and takes no build arguments")
        return value
    if not callable(value):
        raise UsageError(
            f"{target} is {describe_object(value)}; name a module, or a class or function that builds one"
        )
    try:
        built = value(**build)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # inside of it
        raise UsageError(f"{target}: {_line(error)}; give what it takes with -k NAME=VALUE") from None
    if not isinstance(built, torch.nn.Module):
        raise UsageError(f"{target} built {describe_object(built)} and not a torch.nn.Module")
    return built


def _keyword(text: str) -> tuple[str, Any]:
    """``"weights=None"`` as a name and a value; what is no Python literal is a string."""
    from ast import literal_eval

    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"{text!r} is no build argument; write name=value")
    try:
        return name, literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


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
        raise UsageError(f"{kind!r} is no dtype{_near(kind, _dtypes(torch))}")
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
