# SPDX-License-Identifier: Apache-2.0
"""The live part of ``lamina doctor``: the installation, and a small model that is counted as a test."""

from __future__ import annotations

import sys
from importlib import import_module

from .. import _lamina
from .._base.terminal import progress


def describe() -> str:
    """Lines of ``name: value``: the working features and, for others, the reason and how to fix it."""
    lines = [f"python: {sys.version.split()[0]} ({sys.executable})"]
    try:
        with progress("importing torch"):
            torch = import_module("torch")
    except ImportError as error:
        return "\n".join([*lines, f"torch: not found ({error}); to look at models: pip install torch"]) + "\n"
    lines.append(f"torch: {torch.__version__} ({(torch.__file__ or '').removesuffix('__init__.py')})")
    lines.append(f"GPU: {torch.cuda.get_device_name() if torch.cuda.is_available() else 'none'}")
    lines.append(f"tensors: {_tensors()}")
    lines.append(f"operators: {_operators()}")
    lines.append(f"memory: {_memory()}")
    lines.append(f"roof: {_roof()}")
    lines.append(f"test: {_proof()}")
    return "\n".join(lines) + "\n"


def _tensors() -> str:
    """How tensors are read; both ways have the same results."""
    status = _lamina.describe_status()
    if status["tensors"] == "shim":
        return "read directly (checked)"
    return f"read through their attributes, with the same results but slower: {status['why']}"


def _operators() -> str:
    """How operators are watched, and what to do if they can't be."""
    from .._observe.support import way

    name, why = way()
    if name == "observer":
        return "observed (checked)"
    if name == "dispatch":
        return f"seen through torch's dispatch mode, with the same counts but some ten times slower: {why}"
    return (
        f"not seen, so convention exact, --backward and compare don't work; use -c layers, or PyTorch 2 on"
        f" Linux with x86-64: {why}"
    )


def _memory() -> str:
    """Whether memory can be measured, or the reason why it can't."""
    from .._observe.memory import Profiled, refused

    why = refused()
    if why is None:
        return "measured at torch's allocator for the CPU (checked)"
    unfit = Profiled.refused()
    if unfit is None:
        return f"measured by torch's profiler (checked), which is slower: {why}"
    return f"not measured, so --memory doesn't work; `lamina fit` predicts it instead: {why}; {unfit}"


def _roof() -> str:
    """The best that this machine reaches; measured once."""
    from .._results.roof import roof

    best = roof()
    flops, moved = (_lamina.text_count(int(each)) for each in (best.flops, best.bytes))
    threads = "1 thread" if best.threads == 1 else f"{best.threads} threads"
    return f"{flops}FLOP/s (float32) and {moved}B/s of memory with {threads}; --roof compares layers with it"


def _proof() -> str:
    import torch

    from .._inspect import inspect

    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    expected = 40  # 8 * 4 and 4 * 2
    try:
        macs = inspect(net, torch.ones(1, 8)).macs
    except Exception as error:
        return f"a small model can't be counted: {type(error).__name__}: {error}"
    if macs != expected:
        return f"a small model is counted wrong: {macs} MACs instead of {expected}; please report it"
    return "a small model is counted right"
