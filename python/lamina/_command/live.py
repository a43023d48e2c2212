# SPDX-License-Identifier: Apache-2.0
"""Live models for the command: from ``pkg.mod:attr`` or ``file.py:attr`` and shapes to a model that has run
once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from .. import _lamina
from .._base.advice import raised_in
from .._base.check import describe_object
from .._base.dtypes import real_dtype
from .._base.errors import NeedsValuesError, UnsupportedError, UsageError
from .._base.terminal import progress
from .._run.generate import config_words
from .._run.once import run_once
from .._target.inputs import SEED, from_code, made_up
from .._target.load import _ShownError, line_of, load, split
from .._target.load import build as built_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from .._observe.run import Run


FORWARD = "forward"  # of `tokens`: one call of a language model


def run_target(
    target: str,
    inputs: Sequence[str],
    mode: str | None,
    build: Sequence[str],
    *,
    given: str | None = None,
    batch: int = 0,
    dtype: str | None = None,
    optimizer: str | None = None,
    dry: bool = False,
    backward: bool = False,
    dry_because: str | None = None,
    built: dict[Any, Any] | None = None,
    tokens: str | None = None,
    prompt: int = 0,
    fresh: int = 0,
    longest: int = 0,
    **how: Any,
) -> _lamina.Model:
    """Builds the model that ``target`` names, runs it once on made-up inputs, and returns the captured model.
    Floating-point inputs without a given value are drawn from [0, 1), booleans are True, and integers are
    zeros, or ones if their name contains "mask". The seed is fixed, so every run is the same. ``given``
    names code that returns the inputs instead. ``dry_because``: why the run is dry, if nobody asked for
    that. ``batch``, unless 0, is the first size of every input. ``optimizer`` is a name of an optimizer, code
    that makes one, or "" for the default; None: none. ``tokens``: a language model generates ``fresh`` tokens
    after ``prompt``, by :func:`_generated`, or is called once on it; ``longest`` as there. ``how``: the other
    keywords are those of :func:`lamina._run.run_once`. Models in ``built`` are not built again.

    Raises:
        UsageError: the target, an input or a build argument can't be understood, in a sentence.
        Exception: an exception of the forward, with the part of the model that ran as ``lamina_model``.
    """
    if given is not None and inputs:
        raise UsageError("--inputs and -i both give the inputs; leave one of them out")
    split(target)  # importing torch takes a while
    torch = torch_module()
    torch.manual_seed(SEED)
    if dtype is not None:
        how["dtype"] = real_dtype(dtype)
    built = {} if built is None else built
    by = None if optimizer is None else _maker(optimizer, built)
    which = (target, *build)
    if which not in built:
        built[which] = built_of(target, build, built, dry=dry)
    root = built[which]
    about = {"target": target, "build": " ".join(build), "inputs": given or " ".join(inputs)}
    about |= {"dry_because": dry_because or ""}
    if tokens == FORWARD:
        about["config"] = config_words(root)
    elif tokens is not None:
        further = from_code(root, target, given, built, batch=0) if given is not None else ((), {}, [])
        how = {"dry": dry, "about": _texts(about), "time": how["time"], "follow": how["follow"]}
        how["longest"] = longest
        return _generated(root, tokens, (prompt, fresh, batch), further, dtype, how)
    made: list[str]
    if tokens == FORWARD and given is None and not inputs:
        from .._tokens import Asked

        args, kwargs = Asked(root, prompt or None, 1, batch or 1).once()
        made = []
    elif given is not None:
        args, kwargs, made = from_code(root, target, given, built, batch=batch)
    else:
        args, kwargs, made = made_up(root, target, inputs, dry=dry, batch=batch)
    how["about"] = _texts(about)
    how |= {"made": made, "dry": dry, "backward": backward, "optimizer": by if backward else None}
    try:
        run = run_once(root, args, kwargs, mode=mode, **how)
    except UnsupportedError as error:
        raise _spelled(error) from error
    if run.error is not None:
        _raise(run, root)
    assert run.model is not None
    return run.model


def _texts(about: dict[str, str]) -> dict[str, str]:
    return {name: text.encode(errors="replace").decode() for name, text in about.items() if text}


def _generated(
    root: Any,
    which: str,
    sizes: tuple[int, int, int],
    further: tuple[Any, Any, Any],
    dtype: str | None,
    how: Mapping[str, Any],
) -> _lamina.Model:
    """The model of a language model that generated: ``which`` of its steps, "sample" or "every", or
    sequences of other "lengths" or of its "own". ``further``: inputs that code gave, all of them by name."""
    from .._tokens import Asked

    args, kwargs, _ = further
    if args:
        raise UsageError("--inputs gives inputs of generate by name: return a dict")
    prompt, new, batch = sizes
    asked = Asked(root, prompt or None, new or None, batch or 1, inputs=kwargs, dtype=dtype)
    try:
        run = asked.run(which, **how)
    except UnsupportedError as error:
        raise _spelled(error) from error
    if run.error is not None:
        _raise(run, asked.outer)
    assert run.model is not None
    return run.model


def _maker(optimizer: str, files: dict[Any, Any]) -> Any:
    """What makes the optimizer. In Python a name is a str, and code is its function."""
    from .._fit import maker

    if ":" not in optimizer:
        return maker(optimizer or None)
    function = load(*split(optimizer, "function"), files)
    if not callable(function):
        raise UsageError(f"{optimizer} is {describe_object(function)}, not a function of the parameters")
    return maker(function)


def _spelled(error: UnsupportedError) -> UnsupportedError:
    """The same error, with the command's spelling of an option."""
    return type(error)(str(error).replace("dry=True", "--dry"))


def _raise(run: Run, root: Any) -> NoReturn:
    """Raises the forward's exception, with the failing layer, and with the layers that ran before it for the
    command to print."""
    error: Any = run.error
    failure = run.failure(run.model.costs().failure() if run.model is not None else None)
    shown: Any = error
    if isinstance(error, SystemExit):
        shown = _ShownError(f"{line_of(error)}; {failure}" if failure else line_of(error))
    elif isinstance(error, NeedsValuesError):
        shown = _spelled(error)
    elif failure and isinstance(error, Exception):
        shown = _ShownError(f"{line_of(error)}; {failure}")
    if run.model is not None:
        shown.lamina_model = run.model
        shown.lamina_raised = raised_in(root, run.model.costs().rows())
    if shown is error:
        raise error
    raise shown from error


def torch_module() -> ModuleType:
    """torch, which a live model needs.

    Raises:
        UsageError: it can't be imported.
    """
    try:
        with progress("importing torch"):
            return import_module("torch")
    except ImportError as error:
        raise UsageError(
            f"PyTorch can't be imported ({error}); a live model needs it: pip install torch"
        ) from error
