# SPDX-License-Identifier: Apache-2.0
"""The cost of training steps, in the log of a training loop.

:class:`StepMeter` is for plain loops, ``LightningCallback`` for Lightning and ``TrainerCallback`` for the
Trainer of Hugging Face. Each records some of the steps and logs their numbers; the others run as they are.
Importing this module imports neither framework: each is imported when its class is first used.

The numbers, all of one recorded step of this process:

==========================  ==================================================================================
``lamina/forward_ms``       the layers' forward passes, by the GPU's clock if the model is on one
``lamina/backward_ms``      the layers' backward passes
``lamina/recompute_ms``     forward work that a backward pass repeats, if there was any
``lamina/other_ms``         the rest of the step: loss, autograd's engine, optimizer, other code
``lamina/step_ms``          the whole step by the wall clock, without the loading of data
``lamina/flops``            floating-point operations of all that ran in the step
``lamina/mfu``              model FLOPs utilization: two FLOPs a MAC of the model's forward and backward, as a
                            share of ``peak_flops`` over the step's time
``lamina/hfu``              hardware FLOPs utilization: the same with the MACs that the backward repeats
``lamina/samples_per_s``    samples a second
``lamina/tokens_per_s``     tokens a second, if the batch has ``input_ids``
``lamina/peak_memory``      the most memory in use at one moment, in bytes, the GPU's if the model is on one
``lamina/nonfinite``        the number of findings of NaN and Inf
``lamina/first_bad/NAME``   1, where NAME is the layer that made the first one, or ``(no layer)``
==========================  ==================================================================================

The MACs are those that were counted, not multiples of the forward's, and effective ones where these are
known. The loss belongs to the model, an optimizer does not. docs/callbacks.md has all of the definition.

An unknown number is left out. If an operator could not be counted, FLOPs, MFU and HFU are lower bounds and
are called ``lamina/flops_at_least``, ``lamina/mfu_at_least`` and ``lamina/hfu_at_least``.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

from . import _lamina
from ._base.check import check_module
from ._inspect import NOT_CALLED, RecordedStep
from ._observe.memory import Optimizers
from ._watch import check_every, schedule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ._base.count import Count
    from ._inspect import Capture
    from ._results.report import Report
    from ._results.time import Spent

__all__ = ["LightningCallback", "StepMeter", "TrainerCallback"]

STEP = 1  # a kind of call for the schedule: each step counts as one call


class StepMeter:
    """Records steps of a plain training loop and returns their numbers.

    Args:
        model: the module that is trained.
        every: one in ``every`` steps is recorded: the first, and then one of every ``every``, at a position
            that moves. By default each step at first, then fewer, as in :func:`lamina.watch`.
        peak_flops: the peak performance of the device in FLOP/s: the manufacturer's figure for the model's
            data type, also by the names of a device and a type, as ``"h100-sxm:bfloat16"``, or
            ``lamina.roof().flops`` for this machine's processor. Without it there is neither MFU nor HFU.
        memory: measures the peak of memory.
        health: checks for NaN and Inf.

    Attributes:
        metrics: the numbers of the newest recorded step.
        first_bad: the path of the layer that made the first NaN or Inf of that step, ``"(no layer)"`` if no
            layer made it, or None.
        stopped: the error in lamina itself that ended the recording, or None. It was printed on stderr too,
            and the training goes on.

    Raises:
        TypeError: ``model`` is no ``torch.nn.Module``.
        ValueError: ``every`` is no whole number from 1, or ``peak_flops`` is not above 0, or names no device
            and type.
    """

    def __init__(  # noqa: D107
        self,
        model: Any,
        *,
        every: int | None = None,
        peak_flops: float | str | None = None,
        memory: bool = True,
        health: bool = True,
    ) -> None:
        check_options(every, peak_flops)
        check_module(model)
        self._model = model  # as given: the module inside a compiled one is not called
        self._peak = peak_of(peak_flops)
        self._memory, self._health = memory, health
        self._schedule = schedule_of(every)
        self._capture: Capture | None = None
        self._begun = 0.0
        self._recording = False
        self._reported: set[str] = set()
        self._leave: Callable[[], object] | None = None  # ends following the optimizers
        self.metrics: dict[str, float] = {}
        self.first_bad: str | None = None
        self.stopped: str | None = None

    @contextmanager
    def step(self, *, samples: int | None = None, tokens: int | None = None) -> Iterator[dict[str, float]]:
        """One step of the loop, forward, backward and optimizer: ``with meter.step(samples=64) as metrics:``

        ``metrics`` is filled when the block ends, and stays empty if the step was not recorded. ``samples``
        and ``tokens`` are those of the step, for the rates. An exception of the block ends the record of the
        step and propagates.
        """
        measured: dict[str, float] = {}
        if not self.begin():
            yield measured
            return
        try:
            yield measured
        except BaseException:
            self.abort()
            raise
        measured.update(self.end(samples=samples, tokens=tokens))

    def begin(self) -> bool:
        """Begins a step; True if it is recorded. :meth:`end` ends it, after an exception :meth:`abort`."""
        self.abort()
        if self.stopped is not None or self._schedule.skip_call(STEP):
            return False
        if not self._schedule.begin_step(STEP):
            return False
        self._schedule.end_step(False)  # noqa: FBT003 - no backward pass follows: the next call is a step
        try:
            _wait_for_gpu()
            self._follow()
            looking = RecordedStep(self._model, self._memory, self._health, ops=True, report=True)
            looking.open()
            self._capture = looking
        except Exception as error:
            self._give_up(error)
            return False
        self._recording, self._begun = True, perf_counter()
        return True

    def _follow(self) -> None:
        """Follows the optimizers of the process, until the training or this object ends."""
        if self._memory and self._leave is None:
            Optimizers.begin()
            self._leave = weakref.finalize(self, Optimizers.end)

    def leave(self) -> None:
        """Ends what :meth:`begin` began; the next one begins it again."""
        self.abort()
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def close(self) -> None:
        """Ends the measurement of the layers before the step ends; otherwise :meth:`end` does this."""
        open_capture = self._capture
        if open_capture is not None and open_capture._opened is not None:
            open_capture.__exit__(None, None, None)

    def abort(self) -> None:
        """Discards the step, if one is being recorded, and closes its capture."""
        self._recording = False
        try:
            self.close()
        finally:
            self._capture = None

    def end(self, *, samples: int | None = None, tokens: int | None = None) -> dict[str, float]:
        """Ends the step and returns its numbers; none if it was not recorded."""
        if not self._recording or self._capture is None:
            return {}
        try:
            _wait_for_gpu()
            seconds = perf_counter() - self._begun
            self.close()
            self.metrics = self._measured(self._capture.report(), seconds, samples, tokens)
        except Exception as error:
            self._give_up(error)
            return {}
        finally:
            self.abort()
        return dict(self.metrics)

    def _measured(
        self, report: Report, seconds: float, samples: int | None, tokens: int | None
    ) -> dict[str, float]:
        metrics = _times(report, seconds)
        work = report.flops + report.backward.flops + report.recompute.flops  # not a count: C counted them
        metrics |= _named("flops", work, 1.0)
        if self._peak is not None:
            of_peak = 2 / seconds / self._peak  # not a count: a share, of two FLOPs for each MAC
            metrics |= _named("mfu", report._model_macs(), of_peak)
            metrics |= _named("hfu", report._model_macs(repeated=True), of_peak)
        for name, count in (("samples", samples), ("tokens", tokens)):
            if count is not None:
                metrics[f"lamina/{name}_per_s"] = count / seconds  # not a count: a rate
        if self._memory:
            device = report.memory.device
            metrics["lamina/peak_memory"] = report.memory.peak if device is None else device.peak
        if self._health:
            metrics |= self._found(report)
        return metrics

    def _found(self, report: Report) -> dict[str, float]:
        first, findings = report.health.first, len(report.health.findings)
        self.first_bad = None
        metrics = {"lamina/nonfinite": float(findings)}
        if first is not None:
            none = first.input or first.path is None  # the NaN was in an input, or in no layer's result
            self.first_bad = "(no layer)" if none else first.path or "(the model)"
            metrics[f"lamina/first_bad/{self.first_bad}"] = 1.0
            if self.first_bad not in self._reported and sys.stderr is not None:
                self._reported.add(self.first_bad)
                sys.stderr.write(f"lamina: step {self._schedule.calls}: {report.health.sentence}\n")
        return metrics

    def _give_up(self, error: Exception) -> None:
        self._capture, self._recording = None, False
        self.stopped = str(error) or type(error).__name__
        if sys.stderr is not None:
            sys.stderr.write(f"lamina: steps are recorded no more, the program goes on: {self.stopped}\n")


def _named(name: str, work: Count, factor: float) -> dict[str, float]:
    """A number that follows from a count, under the name that says what is known of it."""
    if work.state == "unknown":
        return {}
    end = "" if work.state == "exact" else "_at_least"
    return {f"lamina/{name}{end}": work * factor}  # not a count: a share


def check_options(every: int | None, peak_flops: float | str | None) -> None:
    """Raises ValueError for invalid options."""
    check_every(every)
    peak = peak_of(peak_flops)
    if peak is not None and not peak > 0:
        raise ValueError(f"peak_flops is {peak!r}; it is FLOP/s, above 0, such as 312e12")


def peak_of(peak_flops: float | str | None) -> float | None:
    """FLOP/s, also of a device and a type that are named, as ``"h100-sxm:bfloat16"``."""
    if not isinstance(peak_flops, str):
        return peak_flops
    flops = _lamina.peak(peak_flops)[0]
    if not flops:
        raise ValueError(
            f"peak_flops={peak_flops!r} is to be measured, and on which device is not known here; give "
            "lamina.roof(dtype=..., device=...).flops"
        )
    return flops


def _wait_for_gpu() -> None:
    cuda = sys.modules["torch"].cuda
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()


def _times(report: Report, seconds: float) -> dict[str, float]:
    spent = [row.time.device or row.time for row in report.rows if row.time is not None]
    metrics: dict[str, float] = {}
    called = NOT_CALLED not in (
        *report.notes,
        *report.gaps,
    )  # compiled code may be called in the model's place
    for phase in ("forward", "backward", "recompute") if called else ():
        parts: list[Spent] = [getattr(each, phase) for each in spent]
        if any(part.self is None for part in parts):
            continue
        ns = sum(part.self or 0 for part in parts)  # not a count: of times
        if ns or phase != "recompute":
            metrics[f"lamina/{phase}_ms"] = ns / 1e6  # not a count: a unit
    step = seconds * 1e3  # not a count: a unit
    if "lamina/forward_ms" in metrics and "lamina/backward_ms" in metrics:
        metrics["lamina/other_ms"] = max(0.0, step - sum(metrics.values()))  # not a count: a time
    metrics["lamina/step_ms"] = step
    return metrics


# -- the size of a batch -------------------------------------------------------------------------------------


def _sizes(batch: Any) -> tuple[int | None, int | None]:
    """The samples and the tokens of a batch: the first size of its first tensor, and the elements of its
    ``input_ids``; None if it has none."""
    tokens = None
    if hasattr(batch, "keys") and "input_ids" in batch.keys():  # noqa: SIM118 - a BatchEncoding is no mapping
        ids = batch["input_ids"]
        tokens = ids.numel() if hasattr(ids, "numel") else None
    first = _first_tensor(batch)
    return None if first is None or not first.ndim else first.shape[0], tokens


def _first_tensor(batch: Any) -> Any:
    if hasattr(batch, "numel") and hasattr(batch, "ndim"):
        return batch
    if hasattr(batch, "values") and callable(batch.values):
        batch = list(batch.values())
    if isinstance(batch, list | tuple):
        return next((found for each in batch if (found := _first_tensor(each)) is not None), None)
    return None


# -- the frameworks ------------------------------------------------------------------------------------------


class _LightningHooks:
    """Logs the numbers of recorded training batches to each logger of a Lightning ``Trainer``:
    ``Trainer(callbacks=[lamina.callbacks.LightningCallback(every=100)])``.

    The options are those of :class:`StepMeter`; ``meter`` is the newest one. Numbers are logged with the
    number of their step, also if ``log_every_n_steps`` would leave that step out.
    """

    def __init__(
        self,
        *,
        every: int | None = None,
        peak_flops: float | str | None = None,
        memory: bool = True,
        health: bool = True,
    ) -> None:
        super().__init__()
        check_options(every, peak_flops)
        self._options: dict[str, Any] = {"every": every, "peak_flops": peak_flops}
        self._options |= {"memory": memory, "health": health}
        self.meter: StepMeter | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.meter = StepMeter(pl_module, **self._options)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.meter is not None:
            self.meter.begin()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.meter is None or not self.meter._recording:
            return
        samples, tokens = _sizes(batch)
        metrics = self.meter.end(samples=samples, tokens=tokens)
        step = trainer.global_step
        loop = getattr(getattr(trainer, "fit_loop", None), "epoch_loop", None)
        for logger in trainer.loggers if metrics else ():
            logger.log_metrics(metrics, step=getattr(loop, "_batches_that_stepped", step))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._end()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._end()

    def _end(self) -> None:
        if self.meter is not None:
            self.meter.leave()


class _TrainerHooks:
    """Logs the numbers of recorded steps of a Hugging Face ``Trainer`` by its own ``log``, so that
    they reach ``state.log_history`` and all integrations it reports to:
    ``trainer.add_callback(lamina.callbacks.TrainerCallback(trainer, every=100))``.

    The options are those of :class:`StepMeter`; ``meter`` is the newest one. A step is an optimizer step with
    all its forward and backward passes. Layers, FLOPs and memory are measured until the optimizer begins.
    While a step is recorded, ``trainer.training_step`` is wrapped, so that the capture is closed if it
    raises.
    """

    def __init__(
        self,
        trainer: Any,
        *,
        every: int | None = None,
        peak_flops: float | str | None = None,
        memory: bool = True,
        health: bool = True,
    ) -> None:
        super().__init__()
        check_options(every, peak_flops)
        if not callable(getattr(trainer, "training_step", None)) or not hasattr(trainer, "callback_handler"):
            raise TypeError(
                f"trainer is a {type(trainer).__name__}; it is a transformers.Trainer: "
                "trainer.add_callback(TrainerCallback(trainer))"
            )
        self._trainer = trainer
        self._options: dict[str, Any] = {"every": every, "peak_flops": peak_flops}
        self._options |= {"memory": memory, "health": health}
        self._own: dict[str, Any] | None = None  # the trainer's attributes, while a step is recorded
        self._sizes: list[tuple[int | None, int | None]] = []
        self.meter: StepMeter | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()
        model, wrapped = self._trainer.model, getattr(self._trainer, "model_wrapped", None)
        compiled = hasattr(wrapped, "_orig_mod")  # then the model itself is not called
        self.meter = StepMeter(wrapped if compiled else model, **self._options)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()
        if self.meter is None or not self.meter.begin():
            return
        trainer, self._sizes = self._trainer, []
        original = trainer.training_step
        self._own = {name: trainer.__dict__[name] for name in ("training_step",) if name in trainer.__dict__}

        def training_step(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            self._sizes.append(_sizes(inputs))
            try:
                return original(model, inputs, *args, **kwargs)
            except BaseException:
                self._end()
                raise

        trainer.training_step = training_step

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._unwrap()
        if self.meter is not None:
            self.meter.close()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._unwrap()
        if self.meter is None:
            return
        samples = _total([size for size, _ in self._sizes])
        tokens = _total([size for _, size in self._sizes])
        metrics = self.meter.end(samples=samples, tokens=tokens)
        if metrics:
            logs = control.should_log  # log() clears it, but the loss of this step may have to be logged
            self._trainer.log(metrics)
            control.should_log = logs

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._end()
        if self.meter is not None:
            self.meter.leave()

    def _unwrap(self) -> None:
        own, self._own = self._own, None
        if own is not None:
            self._trainer.__dict__.pop("training_step", None)
            self._trainer.__dict__.update(own)

    def _end(self) -> None:
        self._unwrap()
        if self.meter is not None:
            self.meter.abort()


def _total(sizes: list[int | None]) -> int | None:
    """The sum over the batches of a step; None if one is unknown."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None  # not a count: of samples


if TYPE_CHECKING:
    _Base: Any = None

    class LightningCallback(_LightningHooks, _Base):  # type: ignore[misc]
        """See _LightningHooks."""

    class TrainerCallback(_TrainerHooks, _Base):  # type: ignore[misc]
        """See _TrainerHooks."""


# For each class: its hooks, the name of its base class, the modules that may have the base, the package to
# install.
_CLASSES: Mapping[str, tuple[type, str, tuple[str, ...], str]] = {
    "LightningCallback": (
        _LightningHooks,
        "Callback",
        ("lightning.pytorch", "pytorch_lightning"),
        "lightning",
    ),
    "TrainerCallback": (_TrainerHooks, "TrainerCallback", ("transformers",), "transformers"),
}


def __getattr__(name: str) -> Any:
    """Makes the class of a framework at its first use, and imports the framework then."""
    if name not in _CLASSES:
        known = ", ".join(__all__)
        raise AttributeError(f"module 'lamina.callbacks' has no attribute {name!r}; it has {known}")
    hooks, base, modules, package = _CLASSES[name]
    for module in sorted(modules, key=lambda each: each not in sys.modules):
        try:
            found = getattr(import_module(module), base)
        except ImportError:
            continue
        fields = {"__doc__": hooks.__doc__, "__module__": __name__}
        made = globals()[name] = type(name, (hooks, found), fields)
        return made
    needs = " or ".join(modules)
    raise ImportError(f"lamina.callbacks.{name} needs {needs}; install it: pip install {package}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
