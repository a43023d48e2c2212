# SPDX-License-Identifier: Apache-2.0
"""What the tests of the extension share: copies of it with a way to describe tensors forced, and captures."""

from __future__ import annotations

import importlib.util
import os
from contextlib import contextmanager, suppress

from torch import nn

from lamina import _lamina


def fresh(way: str | None = None):
    """The extension loaded once more, with state of its own, so that it chooses its way anew."""
    spec = importlib.util.spec_from_file_location("lamina._lamina", _lamina.__file__)
    module = importlib.util.module_from_spec(spec)
    before = os.environ.pop("LAMINA_TENSORS", None)
    try:
        if way is not None:
            os.environ["LAMINA_TENSORS"] = way
        spec.loader.exec_module(module)
        module.describe_status()
    finally:
        os.environ.pop("LAMINA_TENSORS", None)
        if before is not None:
            os.environ["LAMINA_TENSORS"] = before
    return module


def module_call():
    """What a call of a module reaches: the entry, its code, and whether it is led to C."""
    call = nn.Module.__dict__["__call__"]
    return call, getattr(call, "__code__", None), _lamina.in_place()


@contextmanager
def watching(root, core=_lamina):
    capture = core.Capture(root)
    capture.start()
    try:
        yield capture
    finally:
        capture.stop()


def seen(root, *args, core=_lamina, **kwargs):
    """The model that one call of ``root`` gives; the call may raise."""
    with watching(root, core) as capture, suppress(Exception):
        root(*args, **kwargs)
    return capture.model()


def shapes(args):
    return [a["shape"] for a in args]


def calls(model):
    """``[(path, path of the parent's place or None)]`` in the order of the calls."""
    events, places = model.events(), model.places()
    path = [places[e["place"]]["path"] for e in events]
    return [(p, path[e["parent"]] if e["parent"] >= 0 else None) for p, e in zip(path, events, strict=True)]
