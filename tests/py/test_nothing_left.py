# SPDX-License-Identifier: Apache-2.0
"""After any run of the model it is bit for bit as before, also after one that an exception ended."""

from __future__ import annotations

import random
import threading

import nets
import numpy as np
import pytest
import torch
from ext_kit import module_call
from torch import nn

import lamina


def x(*shape):
    return torch.rand(*(shape or (2, 4)))


def bits(tensor):
    if tensor is None:
        return None
    return tensor.dtype, tuple(tensor.shape), tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes()


def fingerprint(net):
    """Everything about a model that a person could notice, as values and identities."""
    kept = []
    for path, module in net.named_modules(remove_duplicate=False):
        kept.append((path, id(module), type(module), module.training))
        for name, value in vars(module).items():
            kept.append(
                (path, name, id(value), list(value) if isinstance(value, (dict, list, set)) else None)
            )
            if isinstance(value, (int, float, str, tuple)):
                kept.append((path, name, value))
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        kept.append((name, id(tensor), bits(tensor), tensor.requires_grad, tensor.data_ptr()))
        kept.append((name, bits(tensor.grad), id(tensor.grad)))
    for name, tensor in net.state_dict().items():
        kept.append((name, bits(tensor)))
    return kept


def generators():
    numpy = np.random.get_state()
    return torch.get_rng_state().numpy().tobytes(), random.getstate(), numpy[1].tobytes(), numpy[2:]


class Everything(nn.Module):
    """Modes mixed, gradients there, hooks of the user's own, parameters frozen and tied."""

    def __init__(self):
        super().__init__()
        self.stem = nets.block()
        self.counts = nn.Sequential(nn.Flatten(), nn.Linear(4 * 36, 4), nets.Counts())
        self.tied = nn.Linear(4, 4)
        self.tied.weight = nn.Parameter(torch.eye(4))
        self.again = nn.Linear(4, 4)
        self.again.weight = self.tied.weight
        self.stem[0].weight.requires_grad_(False)
        self.stem[1].eval()
        self.tied.bias.grad = torch.ones(4)
        self.hooked = []
        self.tied.register_forward_hook(lambda module, args, out: self.hooked.append("after"))
        self.tied.register_forward_pre_hook(lambda module, args: self.hooked.append("before"))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        np.random.rand()
        random.random()
        return self.norm(self.again(self.tied(self.counts(self.stem(x)))))


RUNS = {
    "inspect": lambda net, given: lamina.inspect(net, given),
    "inspect train": lambda net, given: lamina.inspect(net, given, mode="train"),
    "inspect eval": lambda net, given: lamina.inspect(net, given, mode="eval"),
    "profile": lambda net, given: lamina.profile(net, given, verbose=False),
    "custom": lambda net, given: lamina.profile(net, given, {nn.Linear: lambda *_: 1}, verbose=False),
    "crawl": lambda net, given: lamina.crawl_module(net, (3, 8, 8)),
    "summary": lambda net, given: lamina.summary(net, (3, 8, 8), max_depth=1),
}


@pytest.mark.parametrize("run", RUNS)
def test_the_model_is_as_before(run, capsys):
    net = Everything()
    call = module_call()
    given = x(2, 3, 8, 8)
    if run in ("crawl", "summary"):
        net.eval()  # a batch of 1 has no variance to train on
    before, seeds = fingerprint(net), generators()
    RUNS[run](net, given)
    assert fingerprint(net) == before
    assert generators() == seeds
    assert module_call() == call


def test_hooks_of_the_user_run_and_stay():
    net = Everything()
    lamina.inspect(net, x(2, 3, 8, 8))
    assert len(net.tied._forward_hooks) == len(net.tied._forward_pre_hooks) == 1
    seen = []
    net.tied.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    lamina.profile(net, x(2, 3, 8, 8), {nn.Linear: lambda *_: 1}, verbose=False)
    assert seen == [(2, 4)]
    assert len(net.tied._forward_hooks) == 2


@pytest.mark.parametrize(
    "error", [ValueError("no good"), KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("run", ["inspect", "profile", "crawl"])
def test_after_an_exception(run, error):
    net = nets.Fails(error).train()
    call, before = module_call(), fingerprint(net)
    with pytest.raises(type(error)) as caught:
        if run == "inspect":
            lamina.inspect(net, x())
        elif run == "profile":
            lamina.profile(net, x(), {nn.Linear: lambda *_: 1}, verbose=False)
        else:
            net.breaks.bn.eval()  # a batch of 1 has no variance to train on
            before = fingerprint(net)
            lamina.crawl_module(net, (4,))
    assert caught.value is error
    assert fingerprint(net) == before
    assert module_call() == call


@pytest.mark.parametrize(
    "error", [ValueError("no good"), KeyboardInterrupt()], ids=lambda e: type(e).__name__
)
def test_capture_after_an_exception(error):
    net, call = nets.Fails(error), module_call()
    with pytest.raises(type(error)) as caught, lamina.capture(net):
        net(x())
    assert caught.value is error
    assert module_call() == call
    net.breaks.error = None
    assert lamina.inspect(net, x()).macs >= 64


def test_nested_captures_put_the_call_back():
    call = module_call()
    net = nn.Sequential(nn.Linear(4, 4))
    with lamina.capture(net):
        assert module_call() != call
        with lamina.capture(net[0]):
            net(x())
        lamina.inspect(net, x())
        assert module_call() != call
    assert module_call() == call


def test_two_threads_capture_two_models():
    call = module_call()
    widths, reports, go = (4, 8, 16, 32), {}, threading.Barrier(4)

    def work(width):
        net = nn.Sequential(*[nn.Linear(width, width) for _ in range(5)])
        go.wait()
        reports[width] = [lamina.inspect(net, torch.rand(1, width)).macs for _ in range(30)]

    threads = [threading.Thread(target=work, args=(width,)) for width in widths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reports == {width: [5 * width * width] * 30 for width in widths}
    assert module_call() == call


def test_a_model_in_another_thread_is_not_noted():
    net, other = nn.Linear(4, 4), nn.Linear(4, 4)
    with lamina.capture(net) as cap:
        thread = threading.Thread(target=lambda: (net(x()), other(x())))
        thread.start()
        thread.join()
        other(x())
        net(x())
    assert cap.report("layers").macs == 2 * 16


def test_attributes_the_forward_made_are_gone():
    class Makes(nn.Module):
        def forward(self, x):
            self.cache = x
            self.__dict__.setdefault("log", []).append(1)
            return x

    net = Makes()
    lamina.inspect(net, x())
    assert not hasattr(net, "cache")
    assert not hasattr(net, "log")


def test_ten_thousand_deep():
    net = inner = nn.Sequential()
    for _ in range(10_000):
        inner.add_module("x", nn.Sequential())
        inner = inner.x
    with lamina.capture(net) as cap:
        inner(x())
    assert cap.report().macs == 0
    while net:  # dropping it at once would recurse in the interpreter
        net = net._modules.pop("x", None)


def test_no_reference_is_kept():
    import gc
    import weakref

    net = nets.block()
    given = x(1, 3, 8, 8)
    report = lamina.inspect(net, given)
    watched = [weakref.ref(net), weakref.ref(given)]
    del net, given
    gc.collect()
    assert [ref() for ref in watched] == [None, None]
    assert report.macs > 0


def test_an_interrupt_while_things_are_put_back(monkeypatch):
    from lamina import _run

    class Interrupted:
        def __init__(self, root):
            self.inner, self.times = real(root), 0

        def restore(self):
            self.times += 1
            if self.times == 1:
                raise KeyboardInterrupt
            return self.inner.restore()

    real, net = _run._lamina.Snapshot, nets.Counts()
    before, seeds = fingerprint(net), generators()
    monkeypatch.setattr(_run._lamina, "Snapshot", Interrupted)
    given = torch.ones(2, 4)
    with pytest.raises(KeyboardInterrupt):
        lamina.inspect(net, given, mode="eval")  # where the capture walks the tree itself
    assert fingerprint(net) == before
    assert generators() == seeds


def test_an_interrupt_before_the_first_call(monkeypatch):
    from lamina import _run

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    net, call = nn.Linear(4, 4), module_call()
    monkeypatch.setattr(_run, "call_root", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lamina.inspect(net, x())
    assert module_call() == call
