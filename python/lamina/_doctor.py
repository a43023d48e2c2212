# SPDX-License-Identifier: Apache-2.0
"""The live side of ``lamina doctor``: what there is, and a capture of a model of three layers as proof."""

from __future__ import annotations

import sys
from importlib import import_module

from . import _lamina


def describe() -> str:
    """Lines of ``name: value``; each tells what is in use, and why where there was a choice."""
    lines = [f"python: {sys.version.split()[0]} ({sys.executable})"]
    try:
        torch = import_module("torch")
    except ImportError as error:
        return "\n".join([*lines, f"torch: none ({error}); live models need it: pip install torch"]) + "\n"
    lines.append(f"torch: {torch.__version__} ({(torch.__file__ or '').removesuffix('__init__.py')})")
    lines.append(f"cuda: {'yes' if torch.cuda.is_available() else 'no'}")
    status = _lamina.describe_status()
    lines.append(f"tensors: {status['tensors']}: {status['why']}")
    lines.append(f"operators: {_operators()}")
    lines.append(f"memory: {_memory()}")
    lines.append(f"roof: {_roof()}")
    stance = hasattr(getattr(torch, "compiler", None), "set_stance")
    compiled = "seen layer by layer" if stance else "opaque; this torch has no torch.compiler.set_stance"
    lines.append(f"compiled models: {compiled}")
    lines.append(f"capture: {_proof()}")
    return "\n".join(lines) + "\n"


def _operators() -> str:
    """Which way operators are watched, and why."""
    from ._observe import way

    words = {"observer": "observed", "dispatch": "seen through torch's dispatch mode", "calls": "not watched"}
    name, why = way()
    return f"{words[name]}; {why}"


def _memory() -> str:
    """Whether memory can be measured, or why it can't."""
    from ._memory import Profiled, refused

    why = refused()
    if why is not None:
        unfit = Profiled.refused()
        return f"not measured; {why}; {unfit}" if unfit else f"measured by torch's profiler; {why}"
    return "measured at torch's allocator for the CPU, which was checked with a tensor of known size"


def _roof() -> str:
    """What this machine reaches at best; measured once."""
    from ._roof import roof

    best = roof()
    flops, bytes_moved = _lamina.text_count(int(best.flops)), _lamina.text_bytes(int(best.bytes))
    return f"{flops} FLOP/s (float32) and {bytes_moved}/s of memory, with {best.threads} threads"


def _proof() -> str:
    import torch

    from ._inspect import inspect

    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    expected = 40  # 8 * 4 and 4 * 2
    try:
        macs = inspect(net, torch.ones(1, 8)).macs
    except Exception as error:
        return f"fails: {type(error).__name__}: {error}"
    return "works" if macs == expected else f"wrong: {macs} multiply-accumulates where there are {expected}"
