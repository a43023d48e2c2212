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


class Marks(nn.Module):
    """Its forward leaves hooks and attributes at tensors."""

    def __init__(self):
        super().__init__()
        self.part, self.plain = nn.Linear(4, 4), torch.ones(4)
        self.register_buffer("scale", torch.ones(4))
        self.part.weight.register_hook(lambda gradient: gradient)
        self.part.weight.known = self.scale.known = "before"

    def forward(self, x):
        for tensor in (self.part.weight, self.part.bias, self.scale, self.plain, x):
            tensor.known, tensor.new = "changed", x
        x.requires_grad_().register_hook(lambda gradient: None)
        for parameter in self.part.parameters():
            parameter.register_hook(lambda gradient: None)
            parameter.register_post_accumulate_grad_hook(lambda parameter: None)
        return self.part(x) * self.scale + self.plain


@pytest.mark.parametrize(
    "run",
    [
        lamina.inspect,
        lambda net, x: lamina.inspect(net, x, backward=True),
        lambda net, x: lamina.inspect(net, x, time=True),
        lambda net, x: lamina.inspect(net, x, dry=True),
        lamina.fit,
    ],
    ids=["once", "backward", "time", "dry", "fit"],
)
def test_hooks_and_attributes_that_the_forward_gives_to_tensors_are_gone(run):
    def marks():
        tensors = [*net.parameters(), net.scale, net.plain, given]
        return [
            (dict(vars(t)), dict(t._backward_hooks or {}), dict(t._post_accumulate_grad_hooks or {}))
            for t in tensors
        ], given.requires_grad

    net, given = Marks(), torch.ones(2, 4)
    before = marks()
    assert before[0][0][0] == {"known": "before"}
    assert len(before[0][0][1]) == 1
    for _ in range(2):
        run(net, given)
        assert marks() == before
    net.part(torch.ones(2, 4)).sum().backward()
    assert net.part.weight.grad is not None  # no hook of the runs has changed it


class Slotted(nn.Linear):
    """A layer that keeps what it has seen in slots."""

    __slots__ = ("gone", "scale", "seen", "state")

    def __init__(self):
        super().__init__(4, 4)
        self.seen, self.scale, self.state = 0, torch.ones(4), {"keys": [torch.zeros(2)]}

    def forward(self, x):
        self.seen += 1
        self.gone = x
        self.scale.mul_(2)
        self.state["keys"] += [x.sum()]
        return super().forward(x) * self.scale


@pytest.mark.parametrize("given", [False, True], ids=["its own", "given"])
@pytest.mark.parametrize(
    "run",
    [
        lamina.inspect,
        lambda *args: lamina.inspect(*args, backward=True, time=True),
        lambda *args: lamina.inspect(*args, ops=False),
        lambda *args: lamina.inspect(*args, dry=True),
        lamina.fit,
    ],
    ids=["once", "backward", "layers", "dry", "fit"],
)
def test_what_modules_hold_in_slots_is_as_before(run, given):
    class Calls(nn.Module):
        def forward(self, x, layer):
            return layer(x)

    layer = Slotted()
    scale, keys = layer.scale, layer.state["keys"][0]
    if given:
        run(Calls(), (x(), nn.Sequential(layer)))
    else:
        run(nn.Sequential(nn.ReLU(), layer), (x(),))
    assert (layer.seen, layer.scale is scale, hasattr(layer, "gone")) == (0, True, False)
    assert layer.scale.tolist() == [1, 1, 1, 1]
    assert len(layer.state["keys"]) == 1
    assert layer.state["keys"][0] is keys


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
    from lamina._run import once

    class Interrupted:
        def __init__(self, root):
            self.inner, self.times = real(root), 0
            self.wrote = self.inner.wrote

        def restore(self):
            self.times += 1
            if self.times == 1:
                raise KeyboardInterrupt
            return self.inner.restore()

    real, net = once._lamina.Snapshot, nets.Counts()
    before, seeds = fingerprint(net), generators()
    monkeypatch.setattr(once._lamina, "Snapshot", Interrupted)
    given = torch.ones(2, 4)
    with pytest.raises(KeyboardInterrupt):
        lamina.inspect(net, given, mode="eval")  # where the capture walks the tree itself
    assert fingerprint(net) == before
    assert generators() == seeds


def test_an_interrupt_before_the_first_call(monkeypatch):
    from lamina._run import once

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    net, call = nn.Linear(4, 4), module_call()
    monkeypatch.setattr(once, "call_root", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lamina.inspect(net, x())
    assert module_call() == call


# -- what a forward does on its first call -------------------------------------------------------------------

SMALL, LARGE = (4,), (64, 256)

SETS = {
    "data.copy_": lambda net, new: net.b.data.copy_(new),
    "copy_": lambda net, new: net.b.copy_(new),
    "data": lambda net, new: setattr(net.b, "data", new),
    "fill_": lambda net, new: net.b.data.fill_(3.0),
    "one row": lambda net, new: net.b[:2].fill_(7.0),
    "one row of data": lambda net, new: net.b.data[1:2].fill_(7.0),
    "set in data": lambda net, new: net.b.data.__setitem__(1, 7.0),
    "numpy": lambda net, new: net.b.detach().numpy().fill(5.0),
    "another shape": lambda net, new: setattr(net.b, "data", torch.ones(3)),
    "gradient": lambda net, new: net.b.grad.mul_(3) if net.b.grad is not None else None,
}


class FirstCall(nn.Module):
    """Sets its ``b`` from the first batch, as ActNorm does."""

    def __init__(self, how, kind, shape):
        super().__init__()
        self.how, self.done, b = how, False, torch.zeros(shape)
        if kind == "parameter":
            self.b = nn.Parameter(b)
            self.b.grad = torch.ones(shape)
        elif kind == "buffer":
            self.register_buffer("b", b)
        elif kind == "in a list":
            self.all = [b]
        else:
            self.b = b

    def __getattr__(self, name):
        return self.all[0] if name == "b" and "all" in vars(self) else super().__getattr__(name)

    def forward(self, x):
        if not self.done:
            with torch.no_grad():
                SETS[self.how](self, torch.full_like(self.b, 2.0))
            self.done = True
        return x * 2


def left(report):
    return [note for note in report.notes if "be restored" in note]


def state(net):
    b = net.b
    return net.done, bits(b), bits(b.grad), id(b), b.data_ptr(), id(b.grad), b.requires_grad


@pytest.mark.parametrize("kind", ["parameter", "buffer", "attribute", "in a list"])
@pytest.mark.parametrize("how", SETS)
def test_what_the_first_call_sets_is_put_back(how, kind):
    net = FirstCall(how, kind, SMALL)
    before, version = state(net), net.b._version
    assert left(lamina.inspect(net, x())) == []
    assert state(net) == before
    assert net.b._version == version


@pytest.mark.parametrize("kind", ["parameter", "attribute", "in a list"])
@pytest.mark.parametrize("how", SETS)
def test_what_is_too_large_to_copy_is_put_back_or_named(how, kind):
    net = FirstCall(how, kind, LARGE)
    before = state(net)
    notes = left(lamina.inspect(net, x()))
    name = "all" if kind == "in a list" else "b"
    if state(net) == before:
        assert notes == []
    else:
        assert how not in ("data", "another shape")
        name += ".grad" if how == "gradient" else ""
        assert notes == [f"{name} was written to and could not be restored"]


def test_what_could_not_be_put_back_is_in_every_form_of_the_report(tmp_path):
    class Shrinks(nn.Linear):
        def forward(self, x):
            self.weight.mul_(0.9)
            return super().forward(x)

    report, note = lamina.inspect(Shrinks(128, 128), torch.ones(1, 128)), "weight was written to and could"
    (told,) = report.notes
    assert told.startswith(note)
    assert report.under("layers").notes[-1] == told
    for text in (str(report), report.to_markdown(), report.to_json(), report.to_html()):
        assert note in text
    report.to_json(tmp_path / "saved.json")
    assert lamina.Report.load(tmp_path / "saved.json").notes == [told]


def test_a_graph_that_is_held_goes_backward_after_a_look():
    table = nn.Embedding(5, 3, max_norm=0.5)
    loss = (table.weight * table.weight).sum()
    version = table.weight._version
    assert left(lamina.inspect(table, torch.tensor([1, 2]))) == []
    assert table.weight._version == version
    loss.backward()


class Decays(nn.Module):
    """Multiplies by a buffer that each call makes smaller, or gives a gradient."""

    def __init__(self, learns=False):
        super().__init__()
        self.register_buffer("b", torch.ones(4, requires_grad=learns))

    def forward(self, x):
        with torch.enable_grad():
            if self.b.requires_grad:
                (self.b * 2).sum().backward()
        with torch.no_grad():
            self.b.mul_(0.9)
        return x * self.b


def test_a_graph_that_holds_a_buffer_goes_backward_after_a_look():
    net, given = Decays(), x().requires_grad_()
    loss = net(given).sum()
    assert left(lamina.inspect(net, x())) == []
    loss.backward()
    assert torch.equal(given.grad[0], net.b)


def test_a_buffer_keeps_the_gradient_that_it_had():
    net = Decays(learns=True)
    for had in (None, torch.ones(4)):
        net.b.grad = had
        assert left(lamina.inspect(net, x())) == []
        assert net.b.grad is had
    assert torch.equal(had, torch.ones(4))


class Draws(nn.Module):
    """Has random number generators of its own."""

    def __init__(self):
        super().__init__()
        self.torch, self.python = torch.Generator(), random.Random(1)
        self.numpy, self.old = np.random.default_rng(2), np.random.RandomState(3)
        self.bits, self.system = np.random.PCG64(4), random.SystemRandom()
        self.listed, self.named = [random.Random(5)], {"a": torch.Generator()}

    def states(self):
        told = [g.get_state().tolist() for g in (self.torch, self.named["a"])]
        told += [g.getstate() for g in (self.python, self.listed[0])]
        return [*told, str(self.numpy.bit_generator.state), str(self.old.get_state()), str(self.bits.state)]

    def forward(self, x):
        for one in (self.python, self.listed[0], self.system):
            one.gauss(0, 1)
        self.numpy.normal()
        self.old.randn()
        self.bits.random_raw()
        for one in (self.torch, self.named["a"]):
            x = x + torch.rand(x.shape, generator=one)
        return x


def test_generators_that_a_module_holds_are_put_back():
    net = nn.Sequential(Draws())
    before = net[0].states()
    assert left(lamina.inspect(net, x())) == []
    assert net[0].states() == before
    net(x())
    assert all(now != was for now, was in zip(net[0].states(), before, strict=True))


class Caches(nn.Module):
    """Empties its cache whenever its mode is set."""

    used = None

    def __init__(self):
        super().__init__()
        self.cache = None

    def train(self, mode=True):
        self.cache = None
        return super().train(mode)

    def forward(self, x):
        type(self).used = self.cache is not None
        return x * 2


@pytest.mark.parametrize("now", ["eval", "train"])
@pytest.mark.parametrize("mode", ["eval", "train", None])
def test_a_mode_that_a_model_has_is_not_set_again(mode, now):
    net = nn.Sequential(Caches()).train(now == "train")
    net[0].cache = cache = torch.ones(2)
    lamina.inspect(net, x(), mode=mode)
    assert Caches.used == (mode in (None, now))
    assert net[0].cache is cache
    net.training = not net.training  # one that differs is enough
    lamina.inspect(net, x(), mode=now)
    assert not Caches.used


class Yields(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        yield self.fc(x)


class Awaits(Yields):
    async def forward(self, x):
        return self.fc(x)


class AwaitsMany(Yields):
    async def forward(self, x):
        yield self.fc(x)


@pytest.mark.parametrize("convention", ["exact", "layers"])
@pytest.mark.parametrize("build", [Yields, Awaits, AwaitsMany])
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_forward_that_runs_later_is_not_said_to_cost_nothing(build, convention):
    report = lamina.inspect(build(), x(), convention=convention)
    for total in (report.macs, report.flops):
        assert total.state == "unknown"
    assert any("is a generator or a coroutine" in gap for gap in report.gaps), report.gaps
    inside = lamina.inspect(Sums(), x(), convention=convention)
    assert not any("generator" in gap for gap in inside.gaps)
    assert inside.macs >= 2 * 16


def test_the_old_tools_do_not_say_0_of_it_either(capsys):
    assert lamina.profile(Yields(), x(), verbose=False)[0].state == "unknown"
    assert lamina.crawl_module(Yields(), (4,))["layers"][0]["macs"].state == "unknown"
    lamina.summary(Yields(), (4,))
    assert "? MACs" in capsys.readouterr().out


class Sums(nn.Module):
    """Iterates over what a layer inside it yields, so all of it runs."""

    def __init__(self):
        super().__init__()
        self.inner = Yields()

    def forward(self, x):
        return sum(self.inner(x))
