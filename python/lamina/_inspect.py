# SPDX-License-Identifier: Apache-2.0
"""lamina's two entry points: ``inspect`` runs the model, ``capture`` watches it while your code runs it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.advice import PYTHON, advise, raised_in
from ._base.check import (
    check_convention,
    check_flags,
    check_mode,
    check_module,
    check_whole,
    conventions,
    counts_ops,
    positional,
)
from ._base.errors import UsageError
from ._fit import fit
from ._guard.compiled import AROUND, AS_IT_IS, Compiled, compiles_autograd
from ._guard.generators import state_of_generators
from ._guard.standing_entry import Recorded
from ._observe.run import Run
from ._observe.support import watched
from ._results.fit import Again
from ._results.report import NoRuleError, Report
from ._run.capture import Opened, new_watch
from ._run.once import run_once
from ._run.provenance import provenance
from ._run.repeat import Repeats
from ._stage import Stages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType, TracebackType

    from typing_extensions import Unpack

    from ._observe.support import Watched
    from ._observe.values import Checks, Look
    from ._results.rules import OwnRule

NOT_CALLED = "no layer of the model was called while the capture was open"


def inspect(
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    convention: str | None = None,
    mode: str | None = None,
    receptive_field: bool = False,
    depth: int | None = None,
    ops: bool | None = None,
    backward: bool = False,
    time: bool = False,
    warmup: int = 3,
    repeats: int | None = None,
    memory: bool = False,
    health: bool = False,
    dry: bool = False,
    rules: str | os.PathLike[str] | None = None,
    strict: bool = False,
    **look: Unpack[Look],
) -> Report:
    """Runs ``model(*args, **kwargs)`` once without gradients and reports on every layer.

    Args:
        model: any ``torch.nn.Module``. A model under ``torch.compile`` is shown layer by layer.
        args: the positional arguments as a tuple, as for ``torch.export``, or a single tensor.
        kwargs: the keyword arguments.
        convention: how to count, one of ``lamina conventions``; by default ``exact``, which counts every
            operator that runs. If operators can't be watched, it is ``layers``, and a note says so.
        mode: ``"eval"`` or ``"train"`` for this one forward; by default the model keeps its mode.
        receptive_field: shows the receptive field too.
        depth: shows layers down to this depth; deeper ones are folded into their ancestor.
        ops: watches every operator that runs; the default, unless ``convention`` counts layers.
        backward: runs the forward with gradients, then a backward pass from the sum of the floating-point
            outputs, which ends at the model's inputs. Every ``grad`` is restored afterwards, and
            ``report.backward`` has the cost.
        time: runs the model several times more and measures the time of each layer, with ``backward`` its
            backward too. The table shows the median run, ``report.time`` all runs. The timed runs watch no
            operators. The model is not restored between them; its arguments are.
        warmup: runs before the timed ones.
        repeats: timed runs; by default 5 to 20, as many as fit into ten seconds. With ``warmup=0,
            repeats=1`` the model runs once and that run is timed.
        memory: measures what each layer allocates and retains, and what makes the peak: ``report.memory``.
        health: checks results and gradients for NaN and Inf: ``report.health``. Its options
            ``health_allow``, ``stats``, ``ring`` and ``checks`` are in docs/health.md; each implies it.
        dry: computes and allocates nothing: the model's own forward runs on shapes alone. The model and
            ``args`` may be on the meta device. A model that reads values, as with ``.item()``, ends the run.
        rules: a file of your own rules, which override lamina's and those of :func:`lamina.register`.
        strict: raises if an operator or a layer has no rule.

    Returns:
        The report. The model, its arguments and the random number generators are restored; ``notes`` names
        exceptions.

    Raises:
        TypeError: the model is no module, ``args`` no tuple or ``kwargs`` no mapping.
        NeedsValuesError: in a dry run, the model reads values or can't be followed. The sentence names the
            layer, and ``lamina_report`` holds the layers up to there. Leave ``dry`` out to run the model.
        ValueError: there is no such convention or mode; or operators can't be watched, with the reason; or
            ``rules`` is malformed, with the line. A ``lamina.NoRuleError``, which holds the report, if
            ``strict`` finds something without a rule.
        OSError: ``rules`` can't be read.
        Exception: an exception of the forward propagates unchanged. Its ``lamina_report`` holds the layers
            up to the one that failed, and a note on it names that layer and its input shapes.
    """
    root = check_module(model)
    given = positional(args, kwargs, root)
    _check_asked(convention, mode, depth, receptive_field=receptive_field, backward=backward, time=time)
    check_flags(memory=memory, health=health, dry=dry, strict=strict, ops=ops or False)
    own = rules_of(rules)
    wanted = looks(look, health=health, dry=dry, of=inspect)
    watched = wants_ops(ops, convention, needed=backward and not (time or memory or wanted))
    how = Repeats(warmup, repeats).check(dry=dry, asked=time)
    options: dict[str, Any] = {"ops": watched, "time": how, "memory": memory, "health": wanted, "dry": dry}
    run = run_once(root, given, kwargs, mode=mode, backward=backward, unfused=_unfused(convention), **options)
    shown: dict[str, Any] = {"depth": depth, "time": time, "memory": memory}
    report = report_of(run, convention, own=own, receptive_field=receptive_field, **shown)
    report._again = Again(fit, root, given, kwargs, grad=backward)
    return all_ruled(report) if strict else report


def _check_asked(convention: Any, mode: Any, depth: Any, **flags: Any) -> None:
    check_convention(convention)
    check_mode(mode)
    check_depth(depth)
    check_flags(**flags)


def check_depth(depth: Any) -> None:
    """Raises for a depth that no table can have, before the model runs."""
    if depth is not None:
        check_whole("depth", depth, least=0)


def _unfused(convention: str | None) -> bool:
    """True if the tool of the convention's name makes every layer run its own forward."""
    if convention is None:
        return False
    return any(row["unfused"] for row in _lamina.conventions() if row["name"] == convention)


def wants_ops(asked: bool | None, convention: str | None, *, needed: bool) -> bool | None:
    """Whether to watch operators, None: if they can be watched; ``needed``: for a backward pass."""
    if needed and convention is not None and not counts_ops(convention):
        others = ", ".join(name for name, ops in conventions().items() if name and ops)
        raise UsageError(
            f"the convention {convention!r} counts the forward pass alone; leave backward=True out, "
            f"or count by one of {others}"
        )
    needed_so = needed or (convention is not None and counts_ops(convention))
    if asked is False and needed_so:
        what = "a backward pass" if needed else f"the convention {convention!r}"
        raise ValueError(f"{what} needs operators to be watched; leave ops=False out")
    if asked is not None or needed_so:
        return asked or needed_so
    return None if convention is None else False


def looks(
    options: Look, *, health: bool, dry: bool = False, of: Callable[..., object] | None = None
) -> Checks | None:
    """The values to check; None: none. Any option that needs values implies ``health``. ``of``: the function
    that received the options, whose own option names are also valid."""
    if not options and not health:
        return None
    from ._observe.values import Look

    unknown = [name for name in options if name not in Look.__annotations__]
    if unknown:
        raise TypeError(_no_option(unknown[0], of, list(Look.__annotations__)))
    if not health and not any(options.values()):
        return None
    if dry:
        raise UsageError("a dry run computes no values to check; leave dry or health out")
    from ._observe.values import Checks

    return Checks(**options)


# Other tools' names for the input or its sizes.
INPUTS = ("input_size", "input_shape", "input_data", "input", "inputs", "input_res", "example_inputs", "x")


def _no_option(name: str, of: Callable[..., object] | None, looked: list[str]) -> str:
    from difflib import get_close_matches

    what = f"there is no option {name!r}"
    if near := get_close_matches(name, [*getattr(of, "__kwdefaults__", ()), *looked], n=1):
        return f"{what}; did you mean {near[0]}?"
    if of is capture:  # the block calls the model
        of_report = name in ("convention", *(Capture.report.__kwdefaults__ or ()))
        return f"{what}; it is one of cap.report({name}=...)" if of_report else what
    by_name = f"what the model takes by name goes into kwargs, as {{{name!r}: ...}}"
    if name in INPUTS:
        return f"{what}; give the input itself, lamina.inspect(model, torch.rand(1, 3, 224, 224)); {by_name}"
    return f"{what}; {by_name}"


def rules_of(file: str | os.PathLike[str] | None) -> list[OwnRule]:
    """The rules of a requested file; none without one."""
    if file is None:
        return []
    from ._results.rules import read_rules

    return read_rules(file)


def all_ruled(report: Report) -> Report:
    """Returns the report; raises NoRuleError if a layer or operator in it has no rule."""
    if report.unruled_ops or report.unruled:
        raise NoRuleError(report)
    return report


def report_of(run: Run, convention: str | None = None, *, released: bool = False, **shown: Any) -> Report:
    """The report of a run. An exception of the forward is raised again, with the report of the layers that
    ran before it."""
    if run.model is None:
        run.reraise()
    if run.health is not None:
        run.health.show_tail(run.model, run.error)
    report = Report(run.model, convention, released=released, **shown)
    if run.error is not None:
        explain(run.error, report, run.failure(report.failure()), run.root)
        run.reraise()
    return report


def from_backward(error: BaseException) -> bool:
    """True if torch's engine was running a backward pass when the exception was raised."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is _engine_code():
            return True
        trace = trace.tb_next
    return False


def _engine_code() -> CodeType | None:
    graph = sys.modules.get("torch.autograd.graph")
    return getattr(getattr(graph, "_engine_run_backward", None), "__code__", None)


def explain(error: BaseException, report: Report, failure: str | None, root: Any) -> None:
    """Attaches the partial table, the failing layer's name and advice to an exception of a run, if its class
    allows that."""
    with suppress(Exception):
        error.lamina_report = report  # type: ignore[attr-defined]
    lines = [f"{failure}\n{report}"] if failure else []
    if (advice := advise(error, PYTHON, raised_in(root, report.rows))) is not None:
        lines.append(advice)
    with suppress(Exception):
        for text in lines:
            error.add_note(f"lamina: {text}")


class Capture:
    """An open or closed capture, from :func:`capture`.

    Attributes:
        error: the exception that ended the block and propagated to the caller, or None.
    """

    _has_report = True  # for a user, who may also call report().fit() for another batch
    _hooks_optimizers = True  # which torch's compiler would see

    def __init__(
        self,
        model: Any,
        ops: bool | None = None,
        time: bool = False,
        memory: bool = False,
        health: Checks | None = None,
    ) -> None:
        self._root = check_module(model)
        self._given = model
        self._ops = ops
        self._time = time
        self._memory = memory
        self._health = health
        self._opened: Opened | None = None
        self._model: _lamina.Model | None = None
        self._again: Again | None = None
        self._stages: Stages | None = None
        self.error: BaseException | None = None

    def _note_given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        grad = sys.modules["torch"].is_grad_enabled()
        self._again = Again(fit, self._root, args, kwargs, grad=grad, own=True)

    def _new_stance(self, how: Watched, watch: _lamina.Capture) -> Compiled | Recorded:  # noqa: ARG002
        """The switch of torch's compiler for this capture. Under a dispatch mode compiled code runs layer by
        layer."""
        return Compiled(AS_IT_IS if how.ops and how.dispatch is None else AROUND)

    def __enter__(self) -> Capture:
        if self._opened is not None:
            raise RuntimeError("this capture is open already; make another with lamina.capture(model)")
        how = watched(self._ops)
        wanted: dict[str, Any] = {"time": self._time, "memory": self._memory, "health": self._health}
        watch = new_watch(self._root, self._given, how=how, **wanted)
        stance, hooks = self._new_stance(how, watch), self._hooks_optimizers
        self._model = self.error = self._again = None
        self._stages = None
        if self._has_report:
            facts = provenance()
            self._stages = Stages(watch, facts)
            watch.provenance(facts)
            watch.given(self._note_given)
        opened = Opened(watch, stance, ops=how.ops, memory=self._memory, hooks=hooks)
        self._opened = opened.__enter__()
        if self._stages is not None:
            self._stages.open()
        return self

    def _says_not_called(self) -> bool:
        """True if the totals say already that nothing was called."""
        assert self._model is not None
        return NOT_CALLED in self._model.costs().gaps()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None
        opened, self._opened = self._opened, None
        if self._stages is not None:
            self._stages.close()
        opened.__exit__(kind, error, trace)
        self.error = error
        if error is not None and from_backward(error):
            opened.watch.backward_raised()
        puts: list[Callable[[], None]] = []  # restore generators: describing a module may run user code
        try:
            self._model = opened.model(lambda: puts.append(state_of_generators()))
            if self._has_report and not (self._again or self._model.events()) and not self._says_not_called():
                self._model.add_note(NOT_CALLED)
        finally:
            for put in puts:
                put()
        if self._health is not None:
            self._health.show_tail(self._model, error)

    def report(
        self,
        convention: str | None = None,
        *,
        receptive_field: bool = False,
        depth: int | None = None,
        rules: str | os.PathLike[str] | None = None,
        strict: bool = False,
    ) -> Report:
        """Returns the report of the block, also if an exception ended it.

        Raises:
            RuntimeError: the block is still open, or was never entered.
            ValueError: there is no such convention; the file of ``rules`` is malformed; or, with ``strict``,
                a layer or operator has no rule. ``rules`` and ``strict`` are as in :func:`inspect`.
        """
        if self._opened is not None:
            raise RuntimeError("the capture is still open; ask for its report after the with block")
        if self._model is None:
            raise RuntimeError(
                "the capture was never opened; write: with lamina.capture(model) as cap: model(x)"
            )
        check_convention(convention)
        check_depth(depth)
        shown: dict[str, Any] = {"receptive_field": receptive_field, "depth": depth}
        shown |= {"time": self._time, "memory": self._memory}
        report = Report(self._model, convention, own=rules_of(rules), **shown)
        report._again = self._again
        return all_ruled(report) if strict else report


class RecordedStep(Capture):
    """The capture of a step that a recording or a callback chose: torch's compiler works in it as it does
    otherwise. ``ops``: operators are counted; ``report``: it has one, and all calls in the block are the
    step's. Without it only those are that the root makes, or that its backward pass repeats. ``memory`` needs
    Optimizers.begin().

    Attributes:
        unseen: why operators are not counted; None: they are, or are not wanted.
    """

    _hooks_optimizers = False

    def __init__(
        self,
        model: Any,
        memory: bool,
        health: bool,
        *,
        time: bool = True,
        ops: bool = False,
        report: bool = False,
    ) -> None:
        wanted = None
        if health:
            from ._observe.values import Checks

            wanted = Checks()
        self.unseen = _why_unseen(report) if ops else None
        counts = ops and self.unseen is None
        super().__init__(model, ops=None if counts else False, time=time, memory=memory, health=wanted)
        self._has_report = report

    def _new_stance(self, how: Watched, watch: _lamina.Capture) -> Recorded:  # noqa: ARG002
        watch.of_step(not self._has_report)
        return Recorded()

    def open(self) -> _lamina.Capture:
        """Opens the capture."""
        self.__enter__()
        assert self._opened is not None
        return self._opened.watch

    def close(self) -> _lamina.Model | None:
        """Closes the capture and returns its model."""
        self.__exit__(None, None, None)
        return self._model


def _why_unseen(report: bool) -> str | None:
    """Why the operators of a step that a program makes can't be watched; None: they can."""
    how = watched(None)
    if compiles_autograd():  # that reads sizes of tensors of which no Python object may exist yet
        return "autograd is compiled, so its operators can't be watched"
    if how.dispatch is not None and _lamina.compiler_used():
        return "operators are watched by a dispatch mode, under which torch compiles nothing"
    if not report and not how.ops:
        return how.why_not or "operators can't be watched here"
    if not report and how.dispatch is not None:
        return "operators could be watched by a dispatch mode alone, which a recording does not open"
    return None


def capture(
    model: Any,
    *,
    ops: bool | None = None,
    time: bool = False,
    memory: bool = False,
    health: bool = False,
    **look: Unpack[Look],
) -> Capture:
    """Watches the calls of ``model`` and of everything in it, while your own code runs.

    ``with lamina.capture(model) as cap: ...`` and then ``cap.report()``. Captures nest, and two threads
    may each capture a model. lamina changes nothing here and restores nothing: changes that your code makes
    to the model stay.

    Every operator of this thread is watched, also in backward passes, so the report counts operators, with
    forward, backward and recomputation separate. If operators can't be watched, layers are counted and a
    note says so. ``ops=True`` raises then; ``ops=False`` watches layers alone, which costs less for many
    small operators.

    Compiled code runs if it exists for these inputs, and counts the operators that it calls; kernels that
    the compiler fused are not visible, so its row says "at least". With ``ops=False`` compiled code is
    bypassed, layer by layer. Nothing is compiled or recompiled in the block, except the backward of compiled
    code that never ran one: torch compiles it when it first runs, a note says so, and the compiler's own
    work is not counted.

    ``time=True`` times each layer, forward and backward, at a few per cent of the run's time. Backward
    passes are split by layer if operators can be watched; otherwise a note says why they are not.

    ``memory=True`` notes every block of memory that torch's CPU allocator allocates and frees:
    ``report.memory`` has what each layer allocated, freed and retained, and the parts of the peak.

    ``health=True`` checks the results of every layer, and gradients, for NaN and Inf, and ``report.health``
    says where the first one came from; ``health_allow``, ``stats``, ``ring`` and ``checks`` are as in
    :func:`inspect`. See docs/health.md.

    Raises:
        TypeError: ``model`` is no ``torch.nn.Module``.
        ValueError: when the block is entered, if operators can't be watched or memory can't be measured
            here, with the reason.
    """
    check_flags(time=time, memory=memory, health=health, ops=ops or False)
    return Capture(model, ops, time, memory, looks(look, health=health, of=capture))
