# SPDX-License-Identifier: Apache-2.0
"""What a step of a recording computes, for its share of the peak of the device that it runs on."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _lamina
from ._base.machine import processor
from ._inspect import RecordedStep
from ._results.rules import OwnRules

if TYPE_CHECKING:
    # FLOPs, those with repeated forward work, whether they are lower bounds, the peak in FLOP/s, why FLOPs
    # are unknown, why the peak is, the device, the type of its numbers, and what the peak is of.
    Work: TypeAlias = tuple[int, int, bool, float, str | None, str | None, str | None, str | None, str | None]

HOW = "give it with --peak or peak="


def check_peak(peak: float | str | None) -> str | None:
    """The peak as a text; raises ValueError if it is neither FLOP/s above 0 nor a device that is known."""
    if peak is None:
        return None
    if isinstance(peak, bool) or not isinstance(peak, int | float | str):
        raise ValueError(f"peak is {peak!r}; it is FLOP/s, such as 9.9e14, or a device, such as 'h100-sxm'")
    text = peak if isinstance(peak, str) else repr(float(peak))
    _lamina.peak_flops(text, "float32")  # each device has a peak for this type
    return text


class StepWork:
    """Counts the operators of a step that a recording has begun. Nothing is raised but what ends the program:
    without a count the recording goes on.

    Args:
        module: the root whose step it is.
        peak: as :func:`check_peak` returns it.
    """

    def __init__(self, module: Any, peak: str | None) -> None:
        self._module, self._peak = weakref.ref(module), peak
        self._step: RecordedStep | None = None
        self._why: str | None = None
        try:
            step = RecordedStep(module, memory=False, health=False, time=False, ops=True)
            self._why = step.unseen
            if step.unseen is None:
                step.open()
                self._step = step
        except Exception as error:
            self._why = str(error) or type(error).__name__

    def end(self, *, whole: bool) -> Work | None:
        """Ends the count. Returns what the step computed; None unless it did all its work."""
        step, self._step = self._step, None
        model = None
        try:
            if step is not None:
                model = step.close()
        except Exception as error:
            self._why = str(error) or type(error).__name__
        return self._work(model) if whole else None

    def _work(self, model: _lamina.Model | None) -> Work:
        flops = hardware = -1
        at_least, why, why_peak = False, self._why, None
        device = dtype = most = of = None
        try:
            if model is not None:
                costs = model.costs(None, False, None, *OwnRules.for_core())  # noqa: FBT003
                flops, hardware, at_least, why, dtype = costs.step_work()
        except Exception as error:
            why = str(error) or type(error).__name__
        try:
            device, why_peak = _device_of(self._module())
            if self._peak is not None:
                most, name, own = _lamina.peak_flops(self._peak, dtype)
                of, why_peak = name if own is None else f"{name}:{own}", None
            elif why_peak is None:
                most, of, why_peak = _peak_of(self._module(), device, dtype)
        except Exception as error:
            why_peak = str(error) or type(error).__name__
        return flops, hardware, at_least, most or 0.0, why, why_peak, device, dtype, of


def _device_of(module: Any) -> tuple[str | None, str | None]:
    """The name of the device that the parameters are on, and why no table has its peak, if none does."""
    devices = {each.device for each in module.parameters()} if module is not None else set()
    if len(devices) != 1:
        return None, f"the model is on {len(devices)} devices" if devices else "the model has no parameters"
    [device] = devices
    if device.type == "cpu":
        return processor() or "cpu", f"the table of peaks has no processors: {HOW}"
    named = getattr(getattr(sys.modules["torch"], device.type, None), "get_device_name", None)
    return (named(device) if named is not None else device.type), None


def _peak_of(
    module: Any, device: str | None, dtype: str | None
) -> tuple[float | None, str | None, str | None]:
    """The peak that the table has for the device, what of, and if it has none, why not."""
    if device is None or dtype is None:
        return None, None, f"which numbers are multiplied is not known: {HOW}"
    if dtype == "float32" and _rounds(module):
        return None, None, f"products of float32 may run as TF32, of which the peak is another: {HOW}"
    found = _lamina.peak_of_device(device, dtype)
    if found is None:
        return None, None, f"the table of peaks has no {device} for {dtype}: {HOW}"
    most, name, of = found
    return most, f"{name}:{of}", None


def _rounds(module: Any) -> bool:
    """True if torch may round float32 to TF32 in the model's products."""
    torch: Any = sys.modules["torch"]
    if torch.backends.cuda.matmul.allow_tf32:
        return True
    convolves = any(isinstance(each, torch.nn.modules.conv._ConvNd) for each in module.modules())
    return bool(torch.backends.cudnn.allow_tf32) and convolves
