# SPDX-License-Identifier: Apache-2.0
"""An operator that fails in the middle of a run leaves nothing behind, whatever the model and the operator.

Every tenth operator of a run, forward and backward, fails in turn, as an error and as an interrupt. Models
of many operators are sampled. LAMINA_EVERY_FAILURE=1 tries every tenth operator of all, in both modes: at
each a process of its own is split off, in which it fails, so that what ran before runs once.
LAMINA_CORPUS=DIR tries the models that DIR/corpus.json lists, built by what DIR/builders.py defines.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import sys
import zlib
from pathlib import Path

import corpus_nets
import pytest
import torch
from conftest import DATA
from ext_kit import module_call
from test_nothing_left import generators
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from where_kit import not_observed

import lamina
from lamina import _lamina

if not_observed():
    pytest.skip(f"no operators: {not_observed()}", allow_module_level=True)


def corpus():
    """The models to try by name, and what their expressions are made of."""
    at = os.environ.get("LAMINA_CORPUS")
    if not at:
        return json.loads((DATA / "truth.json").read_text()), vars(corpus_nets)
    sys.path.insert(0, at)
    spec = importlib.util.spec_from_file_location("builders", Path(at, "builders.py"))
    builders = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builders)
    return json.loads(Path(at, "corpus.json").read_text()), vars(builders)


MODELS, WORDS = corpus()
TRUTH = {model["name"]: model for model in MODELS}
EVERY = bool(os.environ.get("LAMINA_EVERY_FAILURE"))
MODES = ("train", "eval")
SMALL = 400_000  # parameters: larger models are tried in one mode
FEW, SAMPLES = 200, 3  # operators: of longer runs this many are tried
STEP = 10

CALL = module_call()


class InjectedError(Exception):
    pass


class InjectedInterrupt(KeyboardInterrupt):
    """So that a real one is told from it."""


class Fails(TorchDispatchMode):
    """Raises at the n-th operator that runs while a capture is open; only once."""

    def __init__(self, at, error=InjectedError):
        super().__init__()
        self.at, self.error, self.ran = at, error, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if _lamina.in_place():
            self.ran += 1
            if self.ran == self.at:
                raise self.error(f"operator {self.at}: {func}")
        return func(*args, **(kwargs or {}))


class Forks(Fails):
    """Lets every tenth operator fail in a process of its own, and runs on; ``codes``: what those end with."""

    def __init__(self):
        super().__init__(-1)
        self.child, self.codes = False, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not self.child and _lamina.in_place() and self.ran % STEP == 0:
            pid = os.fork()
            if pid == 0:
                self.child = True
                error = InjectedInterrupt if self.ran // STEP % 2 else InjectedError
                raise error(f"operator {self.ran + 1}: {func}")
            self.codes[self.ran + 1] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return super().__torch_dispatch__(func, types, args, kwargs)


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


def glance(tensor):
    """What shows that a tensor was written to, unless somebody hides it (``.data``)."""
    return tensor.shape, tensor._version, tensor.is_meta or tensor.data_ptr()


def state(net, given, whole=True):
    """All that a run could disturb of a model, its inputs and the process, as values and identities. What is
    in parameters only where ``whole``: it takes long."""
    untouched = module_call() == CALL
    kept = [untouched, torch.is_grad_enabled(), generators()]
    for path, module in net.named_modules(remove_duplicate=False):
        if isinstance(module, torch.jit.ScriptModule):
            kept.append((path, module.training))
            continue
        kept.append((path, id(module), type(module), module.training))
        for name, value in vars(module).items():
            plain = value if isinstance(value, (int, float, str, tuple, bool)) else None
            kept.append((path, name, id(value), contents(value), str(plain)))
    for name, tensor in net.named_parameters():
        kept.append((name, id(tensor), glance(tensor), tensor.requires_grad, id(tensor.grad)))
        kept += [digest(tensor) if whole else None, digest(tensor.grad)]
    kept += [(name, digest(tensor)) for name, tensor in net.named_buffers()]
    kept += [digest(tensor) for tensor in given if isinstance(tensor, torch.Tensor)]
    return kept


def run(net, args, kwargs, at, error):
    """Inspects with a failure at operator ``at``; whether that one was reached."""
    with Fails(at, error) as fails:
        try:
            lamina.inspect(net, args, kwargs, convention="exact", backward=True)
        except error as raised:
            assert str(raised) == str(raised.args[0])
            return True
        except Exception as other:  # the model's own answer to a failure inside it
            assert fails.ran >= at, other
            return True
    return False


def build(name, mode):
    truth = TRUTH[name]
    if truth["build"].startswith("tv") or "tv(" in truth["build"]:
        pytest.importorskip("torchvision")
    torch.manual_seed(0)
    try:
        net, args, kwargs = (eval(truth[part], WORDS) for part in ("build", "args", "kwargs"))
    except ImportError as error:
        pytest.skip(str(error))
    return net.train(mode == "train"), args, kwargs


def smaller(name, net, args):
    """Smaller pictures, where the model takes them: as many operators in less time."""
    text = TRUTH[name]["args"].replace("224,224", "64,64")
    if EVERY and text != TRUTH[name]["args"]:
        small = eval(text, WORDS)
        try:
            lamina.inspect(net, small)
        except Exception:
            return args
        return small
    return args


def points(ran):
    every = list(range(1, ran + 1, STEP))
    if ran < FEW:
        return every
    return every[:: max(1, len(every) // SAMPLES)][:SAMPLES]


def size(name):
    return TRUTH[name].get("params", 0)


CASES = [
    (name, mode)
    for i, name in enumerate(TRUTH)
    for mode in MODES
    # Large ones in the two modes by turns, and the largest only where everything is asked for.
    if EVERY or size(name) < SMALL or (mode == MODES[i % 2] and size(name) < 4 * SMALL)
]


def fail_in_turn(net, args, kwargs, given, ran):
    """Each of some operators fails in a run of its own, one after the other."""
    before, reached = state(net, given, whole=False), 0
    for i, at in enumerate(points(ran)):
        reached += run(net, args, kwargs, at, InjectedInterrupt if i % 2 else InjectedError)
        assert state(net, given, whole=False) == before, f"operator {at} of {ran}"
    assert reached > 0


SAME, OTHER, STRANGE = 0, 3, 4  # what a process ends with: all as before, not so, or not by this failure


def fail_apart(net, args, kwargs, given, _):
    """Every tenth operator fails, each in a process of its own."""
    before = state(net, given)
    with Forks() as forks:
        try:
            lamina.inspect(net, args, kwargs, convention="exact", backward=True)
        except BaseException as raised:
            if not forks.child:
                raise
            ours = isinstance(raised, (InjectedError, InjectedInterrupt, Exception))
            os._exit(STRANGE if not ours else SAME if state(net, given) == before else OTHER)
        if forks.child:  # the model went on all the same
            os._exit(SAME if state(net, given) == before else OTHER)
    assert {at: code for at, code in forks.codes.items() if code != SAME} == {}
    assert forks.codes


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_failure_anywhere_leaves_nothing(name, mode):
    net, args, kwargs = build(name, mode)
    args = smaller(name, net, args)
    given = [*args, *kwargs.values()]
    for parameter in list(net.parameters())[:1]:
        if parameter.is_floating_point():
            parameter.grad = torch.ones_like(parameter)
    whole = state(net, given)
    with Fails(-1) as counts:
        try:
            lamina.inspect(net, args, kwargs, convention="exact", backward=True)
        except Exception as error:
            pytest.skip(f"it does not run so at all: {type(error).__name__}: {error}")
    assert state(net, given) == whole
    (fail_apart if EVERY else fail_in_turn)(net, args, kwargs, given, counts.ran)
    assert state(net, given) == whole
    gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes can be split off here")
def test_a_process_of_its_own_tells_what_is_left():
    """The other mode finds what a run leaves behind."""

    class Leaves(nn.Linear):
        def forward(self, x):
            try:
                return super().forward(x)
            except InjectedError:
                self.weight.data.add_(self.adds)
                raise

    net, x = Leaves(80, 80), torch.rand(1, 80)  # so large that it is not put back, but named
    net.adds = 0
    fail_apart(net, (x,), {}, [x], None)
    net.adds = 1
    with pytest.raises(AssertionError, match=f"1: {OTHER}"):
        fail_apart(net, (x,), {}, [x], None)


def test_a_real_interrupt_is_no_failure_of_ours():
    class Interrupted(nn.Linear):
        def forward(self, x):
            raise KeyboardInterrupt("a person's")

    with pytest.raises(KeyboardInterrupt, match="a person's"):
        run(Interrupted(4, 4), (torch.rand(1, 4),), {}, 1, InjectedInterrupt)
