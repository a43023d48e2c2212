# SPDX-License-Identifier: Apache-2.0
"""An operator that fails in the middle of a run leaves nothing behind, whatever the model and the operator.

Every tenth operator of a run, forward and backward, fails in turn, as an error and as an interrupt. Models
of many operators are sampled; LAMINA_EVERY_FAILURE=1 tries every tenth operator of all, in both modes.
"""

from __future__ import annotations

import gc
import json
import os
import zlib

import corpus_nets
import pytest
import torch
from conftest import DATA
from test_nothing_left import generators
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from where_kit import not_observed

import lamina

if not_observed():
    pytest.skip(f"no operators: {not_observed()}", allow_module_level=True)

TRUTH = {model["name"]: model for model in json.loads((DATA / "truth.json").read_text())}
EVERY = bool(os.environ.get("LAMINA_EVERY_FAILURE"))
MODES = ("train", "eval")
SMALL = 400_000  # parameters: larger models are tried in one mode
FEW, SAMPLES = 200, 3  # operators: of longer runs this many are tried
STEP = 10

CALL = nn.Module.__dict__["__call__"]


class InjectedError(Exception):
    pass


class Fails(TorchDispatchMode):
    """Raises at the n-th operator that runs while a capture is open; only once."""

    def __init__(self, at, error=InjectedError):
        super().__init__()
        self.at, self.error, self.ran = at, error, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if nn.Module.__dict__["__call__"] is not CALL:
            self.ran += 1
            if self.ran == self.at:
                raise self.error(f"operator {self.at}: {func}")
        return func(*args, **(kwargs or {}))


def digest(tensor):
    if tensor is None:
        return None
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        return str(tensor.layout), tuple(tensor.shape), str(tensor.device)
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), zlib.crc32(flat.numpy())


def contents(value):
    """What a container of a module holds, one level deep."""
    if isinstance(value, dict):
        return [(str(key), id(item)) for key, item in value.items()]
    return [id(item) for item in value] if isinstance(value, (list, set)) else None


def state(net, given):
    """All that a run could disturb of a model, its inputs and the process, as values and identities."""
    kept = [nn.Module.__dict__["__call__"] is CALL, torch.is_grad_enabled(), generators()]
    for path, module in net.named_modules(remove_duplicate=False):
        if isinstance(module, torch.jit.ScriptModule):
            kept.append((path, module.training))
            continue
        kept.append((path, id(module), type(module), module.training))
        for name, value in vars(module).items():
            plain = value if isinstance(value, (int, float, str, tuple, bool)) else None
            kept.append((path, name, id(value), contents(value), str(plain)))
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        kept.append((name, digest(tensor), tensor.requires_grad, digest(tensor.grad)))
    kept += [digest(tensor) for tensor in given if isinstance(tensor, torch.Tensor)]
    return kept


def run(net, args, kwargs, at, error):
    """Inspects with a failure at operator ``at``; how many ran, and whether that one was reached."""
    with Fails(at, error) as fails:
        try:
            lamina.inspect(net, args, kwargs, convention="exact", backward=True)
        except error as raised:
            assert str(raised) == str(raised.args[0])
            return fails.ran, True
        except BaseException as other:  # the model's own answer to a failure inside it
            assert fails.ran >= at, other
            return fails.ran, True
    return fails.ran, False


def build(name, mode):
    truth = TRUTH[name]
    if truth["build"].startswith("tv") or "tv(" in truth["build"]:
        pytest.importorskip("torchvision")
    torch.manual_seed(0)
    try:
        net, args, kwargs = (eval(truth[part], vars(corpus_nets)) for part in ("build", "args", "kwargs"))
    except ImportError as error:
        pytest.skip(str(error))
    return net.train(mode == "train"), args, kwargs


def points(ran):
    every = list(range(1, ran + 1, STEP))
    if EVERY or ran < FEW:
        return every
    return every[:: max(1, len(every) // SAMPLES)][:SAMPLES]


CASES = [
    (name, mode)
    for i, (name, truth) in enumerate(TRUTH.items())
    for mode in MODES
    # Large ones in the two modes by turns, and the largest only where everything is asked for.
    if EVERY or truth["params"] < SMALL or (mode == MODES[i % 2] and truth["params"] < 4 * SMALL)
]


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_failure_anywhere_leaves_nothing(name, mode):
    net, args, kwargs = build(name, mode)
    given = [*args, *kwargs.values()]
    for parameter in list(net.parameters())[:1]:
        if parameter.is_floating_point():
            parameter.grad = torch.ones_like(parameter)
    before = state(net, given)
    with Fails(-1) as counts:
        try:
            lamina.inspect(net, args, kwargs, convention="exact", backward=True)
        except Exception as error:
            pytest.skip(f"it does not run so at all: {type(error).__name__}: {error}")
    assert state(net, given) == before
    reached = 0
    for i, at in enumerate(points(counts.ran)):
        _, failed = run(net, args, kwargs, at, KeyboardInterrupt if i % 2 else InjectedError)
        reached += failed
        assert state(net, given) == before, f"operator {at} of {counts.ran}"
    assert reached > 0
    gc.collect()
