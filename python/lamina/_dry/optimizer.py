# SPDX-License-Identifier: Apache-2.0
"""The optimizer of a training step. Its step is followed as the model is: it runs on the fake parameters and
their gradients, a first time to make what it keeps between steps, and a second time for the prediction."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from .._base.check import describe_object
from .._base.errors import UnsupportedError, UsageError
from .._observe.memory import kept
from .running import running
from .tensors import is_dry

if TYPE_CHECKING:
    from collections.abc import Callable

    from .mode import _Run

DEFAULT = "adamw"
# Words that a name may end with, which stand for more than one argument, or for a number.
WITH = {"momentum": {"momentum": 0.9}, "nesterov": {"momentum": 0.9, "nesterov": True}}


class Maker(NamedTuple):
    """A function that makes the optimizer, or several, of the parameters; ``name`` as the user gave it."""

    name: str | None
    make: Callable[[list[Any]], Any]


def maker(optimizer: Any) -> Maker:
    """The maker that ``optimizer`` names or is; None: the default.

    Raises:
        TypeError: it is neither a name nor a function.
        UsageError: there is no such optimizer in this torch, or it takes no such option.
    """
    if optimizer is None:
        optimizer = DEFAULT
    if isinstance(optimizer, str):
        return Maker(optimizer, _by_name(optimizer))
    if callable(optimizer):
        return Maker(None, optimizer)
    text = f"optimizer is a name, as 'sgd', or a function of the parameters, not {describe_object(optimizer)}"
    if hasattr(optimizer, "param_groups"):
        text += f"; give one that makes it: lambda p: {type(optimizer).__name__}(p, ...)"
    raise TypeError(text)


def names() -> list[str]:
    """The names of torch's optimizers, the default first."""
    return sorted(_classes(), key=lambda name: (name != DEFAULT, name))


def _classes() -> dict[str, Any]:
    optim: Any = sys.modules["torch"].optim
    every = [c for c in vars(optim).values() if isinstance(c, type) and issubclass(c, optim.Optimizer)]
    return {cls.__name__.lower(): cls for cls in every if cls is not optim.Optimizer}


def _by_name(text: str) -> Callable[[list[Any]], Any]:
    import inspect

    name, *options = text.split("-")
    cls = _classes().get(name)
    if cls is None:
        import difflib

        close = difflib.get_close_matches(name.lower(), _classes(), 1)
        near = f", did you mean {close[0]}?" if close else ";"
        raise UsageError(f"unknown optimizer {text!r}{near} there are: {', '.join(names())}")
    takes = inspect.signature(cls).parameters
    given: dict[str, Any] = {}
    for option in options:
        new = WITH.get(option, {option: True})
        for key in new:
            if key not in takes or not (key in WITH or takes[key].default in (None, False)):
                raise UsageError(f"torch.optim.{cls.__name__} has no option {option!r}, as {text!r} says")
        given |= new
    return lambda parameters: cls(parameters, **given)


def follow_step(root: Any, by: Maker) -> None:
    """Makes the optimizer and what it keeps, then follows a step of it. Called in a dry run, after the
    backward pass, while its capture is paused.

    Raises:
        UsageError: the optimizer can't be made of these parameters, or is no optimizer.
        UnsupportedError: its step raised, or can't be followed; the sentence says why.
    """
    run: _Run = running()
    parameters = list(root.parameters())
    if not parameters:
        return
    gradients = [p.grad for p in parameters]
    run.subject = "the optimizer's step"
    run.core.suppose(run.supposed)
    try:
        run.core.before("state")
        every = _made(by, parameters)
        name = by.name or " and ".join(type(one).__name__ for one in every)
        _step(run, every)
        numbers = _belongings(run, every)
        run.core.before(None)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if parameter.grad is not gradient:
                parameter.grad = gradient
        del gradients
        first, run.guessed = run.core.done(), False
        run.watch.pause(False)  # noqa: FBT003
        try:
            _step(run, every)
        finally:
            run.watch.pause(True)  # noqa: FBT003
        run.core.step(name, first, run.guessed and not all(map(_is_torchs, every)))
        del numbers
    finally:
        run.core.before(None)
        run.core.suppose(None)


def _belongings(run: _Run, every: list[Any]) -> list[Any]:
    """Notes for which parameter the optimizers keep each tensor. Returns tensors that stand for those made of
    literals, such as a number of steps, whose memory is not followed."""
    stand_ins: dict[int, Any] = {}
    for one in every:
        for tensor, parameter in kept(one, run.torch):
            if run.core.belongs(tensor, parameter) or tensor.layout is not run.torch.strided:
                continue
            literal = not is_dry(tensor) or type(tensor) is run.known
            if id(tensor) not in stand_ins and literal and tensor.device.type == "cpu":
                stand_ins[id(tensor)] = run.core.like(tensor)
                run.core.belongs(stand_ins[id(tensor)], parameter)
    return list(stand_ins.values())


def _is_torchs(optimizer: Any) -> bool:
    """True for torch's own optimizers: no value that they read decides which operators they run."""
    return bool(f"{type(optimizer).__module__}.".startswith("torch.optim."))


def _made(by: Maker, parameters: list[Any]) -> list[Any]:
    try:
        made = by.make(parameters)
    except (TypeError, ValueError) as error:
        which = f"the optimizer {by.name!r}" if by.name else "the optimizer"
        hint = "; give a function of the parameters: lambda p: [...]" if by.name else ""
        raise UsageError(f"{which} can't be made of this model's parameters: {error}{hint}") from error
    every = list(made) if isinstance(made, (list, tuple)) else [made]
    given = {id(p) for p in parameters}
    if not every:
        raise UsageError("the function of the parameters returned no optimizer")
    for one in every:
        groups = getattr(one, "param_groups", None)
        if groups is None or not callable(getattr(one, "step", None)):
            raise UsageError(
                f"the function of the parameters returned {describe_object(one)}, which is no optimizer: it "
                "has no step() and param_groups"
            )
        if not all(is_dry(p) or id(p) in given for group in groups for p in group["params"]):
            raise UsageError(
                f"the function of the parameters returned {describe_object(one)} of others; it must make a "
                "new optimizer of those that it is given"
            )
    return every


def _step(run: _Run, every: list[Any]) -> None:
    import inspect

    for one in every:
        name, step = type(one).__name__, _plain_step(one)
        needed = [
            p.name
            for p in inspect.signature(step).parameters.values()
            if p.default is p.empty
            and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            and p.name != "self"  # of a function that replaces the method, as a scheduler's
        ]
        if needed:
            raise UnsupportedError(
                f"the step of {name} can't be followed: it needs {', '.join(needed)}, with which it runs the "
                "model several times"
            )
        try:
            step()
        except Exception as error:
            if run.blocked is not None:
                raise
            text = f"the step of {name} can't be followed: it raised {type(error).__name__}: {error}"
            raise UnsupportedError(text) from error


def _plain_step(optimizer: Any) -> Callable[..., Any]:
    """The step without the hooks that all optimizers of the process have: those watch real steps."""
    step = optimizer.step
    plain = getattr(getattr(type(optimizer), "step", None), "__wrapped__", None)
    if plain is None or "step" in vars(optimizer) or not getattr(type(optimizer).step, "hooked", False):
        return step  # type: ignore[no-any-return]
    return plain.__get__(optimizer)  # type: ignore[no-any-return]
