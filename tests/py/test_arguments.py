# SPDX-License-Identifier: Apache-2.0
"""What a run is given is as before afterwards: tensors by value, containers and objects by what they hold."""

from __future__ import annotations

import array
import contextlib
import ctypes
import functools
import io
import random
import types
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np
import pytest
import torch
from test_dry import offered
from torch import nn

import lamina
from lamina import _lamina
from lamina._base.errors import NeedsValuesError
from lamina._observe import support
from lamina._run import arguments

LARGE = 40000  # rows: a tensor of which no run makes a copy, unless it is written to
watched = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")
observed = pytest.mark.skipif(support.way().name != "observer", reason=f"not observed: {support.way().why}")
dry_too = offered()


# -- a picture of a value ------------------------------------------------------------------------------------


def of_tensor(t, seen):
    if hasattr(t, "__tensor_flatten__"):
        values = [picture(getattr(t, name), seen) for name in t.__tensor_flatten__()[0]]
    elif t.layout is torch.sparse_csr:
        values = [part.tolist() for part in (t.crow_indices(), t.col_indices(), t.values())]
    elif t.is_sparse:
        values = t._indices().tolist(), t._values().tolist()
    else:
        values = t.detach().clone().numpy().tobytes(), t.stride(), tuple(t.shape)
    grad = t.grad if t.is_leaf or t.retains_grad else None
    version = None if t.is_inference() else t._version
    own = [(name, picture(value, seen)) for name, value in vars(t).items() if not name.startswith("_")]
    graph = t.requires_grad, t.is_leaf, id(t.grad_fn) if t.grad_fn else None
    return type(t), values, t.dtype, version, graph, id(grad) if grad is not None else None, own


def of_slots(value, seen):
    found = []
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and "__slots__" in vars(cls):
                found.append((name, picture(getattr(value, name, "unset"), seen)))
    return found


def of_object(value, seen):
    own = vars(value) if hasattr(value, "__dict__") else {}
    return [type(value), *((k, picture(v, seen)) for k, v in own.items()), *of_slots(value, seen)]


HELD = {
    dict: lambda v, seen: [
        (repr(key) if isinstance(key, (str, int)) else id(key), picture(each, seen))
        for key, each in (OrderedDict if isinstance(v, OrderedDict) else dict).items(v)
    ],
    list: lambda v, seen: [picture(each, seen) for each in list.__iter__(v)],
    tuple: lambda v, seen: [picture(each, seen) for each in v],
    deque: lambda v, seen: [v.maxlen, *(picture(each, seen) for each in v)],
    (set, frozenset): lambda v, seen: sorted(map(id, v)),
    (bytearray, array.array): lambda v, seen: bytes(v),
    np.ndarray: lambda v, seen: (v.shape, v.tobytes()),
    (io.BytesIO, io.StringIO): lambda v, seen: (v.getvalue(), v.tell()),
    io.IOBase: lambda v, seen: v.tell(),
    torch.Generator: lambda v, seen: v.get_state().tolist(),
    random.Random: lambda v, seen: v.getstate(),
    np.random.Generator: lambda v, seen: str(v.bit_generator.state),
    types.FunctionType: lambda v, seen: [
        picture(v.__defaults__, seen),
        *(picture(c.cell_contents, seen) for c in v.__closure__ or ()),
    ],
    types.GeneratorType: lambda v, seen: "not to be known",
    functools.partial: lambda v, seen: [picture(each, seen) for each in (v.args, v.keywords)],
    nn.Module: lambda v, seen: (v.training, [(n, bits.tolist()) for n, bits in v.state_dict().items()]),
}


def picture(value, seen=None):
    """All that can be seen of a value: identities, and what is inside."""
    seen = {} if seen is None else seen
    if value is None or isinstance(value, (int, float, str, bytes, type)):
        return value
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = f"number {len(seen)}"
    if isinstance(value, torch.Tensor):
        return id(value), of_tensor(value, seen)
    whose = [id(value)] if not isinstance(value, tuple) else []
    for kind, inside in HELD.items():
        if isinstance(value, kind):
            whose.append(inside(value, seen))
    if hasattr(value, "__next__") and not isinstance(value, (io.IOBase, types.GeneratorType)):
        whose.append(repr(value.__reduce__()))
    return [*whose, *of_object(value, seen)]


# -- what a forward does with what it is given ---------------------------------------------------------------


class Does(nn.Module):
    """Calls a function on what it is given; the layer has work to count."""

    def __init__(self, does):
        super().__init__()
        self.layer, self.does = nn.Linear(8, 8), does

    def forward(self, *args, **kwargs):
        out = self.does(*args, **kwargs)
        return self.layer(out if isinstance(out, torch.Tensor) else torch.ones(2, 8))


class Keeps(nn.Module):
    """Calls a function on what an object holds, which is an attribute of the model."""

    def __init__(self, does, args, kwargs):
        super().__init__()
        self.layer, self.does = nn.Linear(8, 8), does
        self.held = Holds(args=list(args), kwargs=kwargs)

    def forward(self, x):
        out = self.does(*self.held.args, **self.held.kwargs)
        return self.layer(out if isinstance(out, torch.Tensor) else x)


class Holds:
    """An object of the caller's."""

    def __init__(self, **held):
        vars(self).update(held)


class Cache:
    """Keys of the tokens so far, as a language model's cache."""

    def __init__(self, keys=()):
        self.keys, self.length = list(keys), 0

    def update(self, x):
        self.keys.append(x)
        self.length += 1
        return torch.cat(self.keys)


class Window:
    """A cache of a fixed size, which is written in place."""

    __slots__ = ("__weakref__", "at", "keys", "never")

    def __init__(self):
        self.keys, self.at = torch.zeros(LARGE, 8), torch.tensor(0)

    def update(self, x):
        self.keys[3:7] = x
        self.at.add_(1)
        self.at, self.never = self.at + 1, x
        return self.keys[:7]


class Locked:
    def __init__(self, **held):
        vars(self).update(held)

    def __setattr__(self, *_):
        raise AttributeError("locked")


class Odd(dict):
    def __setitem__(self, *_):
        raise RuntimeError("not this way")


class Shown(list):
    def __iter__(self):
        raise RuntimeError("not this way")


@dataclass(frozen=True)
class Frozen:
    keys: torch.Tensor
    log: list


Pair = namedtuple("Pair", "keys log")


def t(*sizes):
    return torch.rand(*(sizes or (4, 8)))


def large():
    return t(LARGE, 8)


def of_graph(*sizes):
    return t(*sizes).requires_grad_() * 2


def with_gradient():
    x = t().requires_grad_()
    x.sum().backward()
    return x


def function(held=None):
    """One with an attribute and a default, both of which it may change."""

    def own(value, log=(held, [])):
        log[1].append(value)
        return held if held is None else held.zero_()

    own.log = [1]
    return own


def on(*args, **kwargs):
    return args, kwargs


def each(*steps):
    """A forward that does all of these; the last result counts."""
    return lambda *args, **kwargs: [step(*args, **kwargs) for step in steps][-1]


IN_PLACE = {
    "a small tensor": (lambda: on(t()), lambda x: x.mul_(2)),
    "a large tensor": (lambda: on(large()), lambda x: x.mul_(2)),
    "a part of it": (lambda: on(large()), each(lambda x: x[10:20].zero_(), lambda x: x)),
    "an entry": (lambda: on(large()), each(lambda x: x.__setitem__((0, 0), 3.0), lambda x: x)),
    "index_copy_": (lambda: on(large()), lambda x: x.index_copy_(0, torch.tensor([1]), t(1, 8))),
    "scatter_": (lambda: on(large()), lambda x: x.scatter_(0, torch.zeros(1, 8, dtype=torch.int64), 5.0)),
    "copy_": (lambda: on(large(), t(1, 8)), lambda x, y: x.copy_(y)),
    "out": (lambda: on(large(), large()), lambda x, y: torch.add(x, 1, out=y)),
    "out that grows": (lambda: on(t(), torch.empty(0)), lambda x, y: torch.add(x, 1, out=y)),
    "a list of tensors": (lambda: on([large(), t()]), each(lambda x: torch._foreach_mul_(x, 2.0))),
    "data": (lambda: on(large()), each(lambda x: x.data.add_(1), lambda x: x)),
    "other data": (lambda: on(large()), each(lambda x: setattr(x, "data", t(3, 8)), lambda x: x)),
    "set_": (lambda: on(large()), each(lambda x: x.set_(t(3, 8)), lambda x: x)),
    "resize_": (lambda: on(large()), each(lambda x: x.resize_(2, 8), lambda x: x)),
    "it grows": (lambda: on(t()), each(lambda x: x.resize_(9, 8), lambda x: x[:4])),
    "transposed": (lambda: on(t(8, 8)), lambda x: x.t_()),
    "another axis": (lambda: on(large()), lambda x: x.unsqueeze_(0)),
    "requires_grad_": (lambda: on(t()), lambda x: x.requires_grad_()),
    "gaps": (lambda: on(t(LARGE, 16)[:, ::2]), lambda x: x.mul_(3)),
    "two views": (lambda: on(*large().split(LARGE // 2)), lambda x, y: x.mul_(y)),
    "one twice": (lambda: (lambda x: on(x, [x], again=x))(large()), lambda x, y, again: x.mul_(2) + again),
    "a parameter": (lambda: on(nn.Parameter(large())), each(lambda x: x.data.mul_(2), lambda x: x)),
    "statistics": (
        lambda: on(t(4, 9000), torch.zeros(9000), torch.ones(9000)),
        lambda x, mean, var: nn.functional.batch_norm(x, mean, var, training=True)[:, :8],
    ),
    "whole numbers": (lambda: on(torch.arange(5)), lambda x: x.add_(1).sum() + torch.ones(2, 8)),
    "sparse": (lambda: on(torch.eye(8).to_sparse()), each(lambda x: x.mul_(2))),
    "more entries": (
        lambda: on(torch.eye(8).to_sparse()),
        each(lambda x: x.add_(torch.ones(8, 8).to_sparse())),
    ),
    "rows of entries": (lambda: on(torch.eye(8).to_sparse_csr()), each(lambda x: x.values().mul_(2))),
    "a gradient": (
        lambda: on(with_gradient()),
        each(lambda x: x.grad is None or x.grad.mul_(3), lambda x: x.detach()),
    ),
    "an attribute": (lambda: on(t()), each(lambda x: setattr(x, "note", 1), lambda x: x)),
    "an array's memory": (
        lambda: (lambda a: on(a, torch.from_numpy(a)))(np.ones((LARGE, 8), "float32")),
        lambda a, x: x.mul_(2),
    ),
}
HOLDING = {
    "a list": (lambda: on([1, t()]), each(lambda v: v.append(3), lambda v: v.reverse())),
    "a dict": (lambda: on({"a": t(), "b": 1}), each(lambda v: v.pop("a"), lambda v: v.update(b=2, c=3))),
    "one in another": (
        lambda: on({"a": [{"b": (t(), [large()])}]}),
        each(lambda v: v["a"][0]["b"][1][0].zero_(), lambda v: v["a"][0]["b"][1].append(1)),
    ),
    "a deque": (lambda: on(deque([t(), 2], maxlen=2)), each(lambda v: v.append(1), lambda v: v.rotate(1))),
    "a set": (lambda: on({1, "x"}), each(lambda v: v.add(7), lambda v: v.discard(1))),
    "in order": (lambda: on(OrderedDict(a=1, b=t())), each(lambda v: v.move_to_end("a"), lambda v: v["b"])),
    "with defaults": (lambda: on(defaultdict(list, a=[1])), each(lambda v: v["b"].append(1))),
    "an object": (
        lambda: on(Holds(x=t(), inner=Holds(log=[1], x=large()))),
        each(lambda v: v.inner.x.add_(1), lambda v: v.inner.log.append(2), lambda v: delattr(v, "x")),
    ),
    "another class": (lambda: on(Holds(x=t())), each(lambda v: setattr(v, "__class__", Cache))),
    "slots": (lambda: on(t(), cache=Window()), lambda x, cache: cache.update(x)),
    "a cache": (lambda: on(t(), cache=Cache([large()])), lambda x, cache: cache.update(x)),
    "a frozen dataclass": (
        lambda: on(Frozen(large(), [1])),
        each(lambda v: v.keys.mul_(2), lambda v: v.log.append(1)),
    ),
    "a named tuple": (
        lambda: on(Pair(large(), [1])),
        each(lambda v: v.keys.mul_(2), lambda v: v.log.append(1)),
    ),
    "tuples of tuples": (lambda: on(((large(), t()), (t(),))), lambda v: v[0][0].zero_()),
    "one that is locked": (
        lambda: on(Locked(x=large())),
        each(lambda v: vars(v).update(y=1), lambda v: v.x.zero_()),
    ),
    "an odd dict": (lambda: on(Odd(x=t())), each(lambda v: v.update(y=1), lambda v: v["x"])),
    "an odd list": (lambda: on(Shown([t()])), each(lambda v: v.append(1), lambda v: v[0])),
    "itself": (lambda: (lambda v: v.append(v) or on(v))([1]), each(lambda v: v.append(2))),
    "a hundred deep": (
        lambda: on(functools.reduce(lambda inner, _: [inner], range(100), [t()])),
        each(lambda v: v.append(2)),
    ),
    "a module": (lambda: on(nn.BatchNorm1d(8), t()), lambda m, x: m.train()(x)),
    "a module in an object": (
        lambda: on(Holds(inner=nn.Sequential(nn.BatchNorm1d(8))), t()),
        each(lambda v, x: setattr(v.inner, "n", 1), lambda v, x: v.inner(x)),
    ),
    "generators": (
        lambda: on({"a": [torch.Generator()], "b": random.Random(1), "c": np.random.default_rng(1)}),
        each(
            lambda v: v["b"].random(),
            lambda v: v["c"].random(),
            lambda v: torch.rand(2, 8, generator=v["a"][0]),
        ),
    ),
    "an array": (lambda: on(np.ones((3, 8))), each(lambda v: v.fill(3))),
    "bytes": (
        lambda: on(bytearray(b"ab"), array.array("d", [1])),
        each(lambda v, w: v.extend(b"c"), lambda v, w: w.append(3)),
    ),
    "a file in memory": (
        lambda: on(io.BytesIO(b"hello"), io.StringIO("hello")),
        each(lambda v, w: v.read(2), lambda v, w: v.write(b"12345"), lambda v, w: w.read()),
    ),
    "a file": (lambda: on(Path.open(Path(__file__))), each(lambda v: v.read())),
    "an iterator": (lambda: on(iter([t(), 2])), lambda v: next(v)),
    "iterators of iterators": (
        lambda: on(Holds(it=zip(iter([t()]), enumerate("ab"), strict=False)), map(abs, [1, 2])),
        each(lambda v, w: list(w), lambda v, w: next(v.it)),
    ),
    "the items of a dict": (lambda: on(iter({"a": 1}.items())), each(lambda v: list(v))),
    "what a function closes over": (
        lambda: (lambda log: on(lambda: log.append(1)))([t()]),
        each(lambda v: v()),
    ),
    "what belongs to a function": (
        lambda: on(function(), function(large())),
        each(lambda v, w: v.log.append(1), lambda v, w: w(3), lambda v, w: setattr(w, "__defaults__", (1,))),
    ),
    "a tuple of torch's": (
        lambda: on(torch.rand(LARGE, 8).max(1)),
        each(lambda v: v.values.zero_(), lambda v: v.indices.add_(1), lambda v: None),
    ),
    "a module's large weight": (
        lambda: on(nn.Linear(8, 4000), t()),
        lambda m, x: (torch.no_grad()(m.weight.mul_)(2), m(x)[:, :8])[1],
    ),
    "what wraps a dict": (
        lambda: on(UserDict(x=large())),
        each(lambda v: v["x"].zero_(), lambda v: v.update(y=1)),
    ),
    "what a method is of": (lambda: on(Cache([t()]).update), lambda v: v(t())),
    "a built-in method": (lambda: (lambda log: on(log.append, log))([1]), each(lambda v, w: v(3))),
    "a partial function": (lambda: on(functools.partial(list.append, [1])), each(lambda v: v(3))),
    "an optimizer": (
        lambda: (lambda p: on(torch.optim.SGD([p], 0.1, momentum=0.9), p))(nn.Parameter(large())),
        each(lambda o, p: setattr(p, "grad", torch.ones_like(p)), lambda o, p: o.step()),
    ),
}
OF_GRAPHS = {
    "the result of a graph": (lambda: on(of_graph(4, 8)), lambda x: x),
    "written to": (lambda: on(of_graph(LARGE, 8)), lambda x: x.mul_(2)),
    "detached": (lambda: on(of_graph(4, 8)), lambda x: x.detach_()),
    "into a cache": (
        lambda: on(t(2, 8).requires_grad_(), large()),
        each(lambda x, c: c[3:5].copy_(x * 2), lambda x, c: c[:8]),
    ),
    "in an object": (lambda: on(Holds(h=[of_graph(4, 8)])), lambda v: v.h[0]),
    "a view of a leaf": (lambda: on(t().requires_grad_()[1:]), lambda x: x),
}
ALL = {**IN_PLACE, **HOLDING, **OF_GRAPHS}
RUNS = {
    "inspect": lambda net, args, kwargs: lamina.inspect(net, args, kwargs),
    "backward": lambda net, args, kwargs: lamina.inspect(net, args, kwargs, backward=True),
    "time": lambda net, args, kwargs: lamina.inspect(net, args, kwargs, time=True, warmup=1, repeats=2),
    "memory": lambda net, args, kwargs: lamina.inspect(net, args, kwargs, memory=True),
    "calls": lambda net, args, kwargs: lamina.inspect(net, args, kwargs, ops=False),
    "dry": lambda net, args, kwargs: lamina.inspect(net, args, kwargs, dry=True),
    "fit": lambda net, args, kwargs: lamina.fit(net, args, kwargs),
}


def allowed(how):
    no = support.way().name == "calls" and how in ("backward", "fit")
    return not no and (dry_too or how not in ("dry", "fit"))


@pytest.mark.parametrize("how", [how for how in RUNS if allowed(how)])
@pytest.mark.parametrize("what", ALL)
def test_what_a_forward_changes_is_as_before(what, how):
    make, does = ALL[what]
    args, kwargs = make()
    net, notes = Does(does), []
    before = picture(args), [picture(value) for value in kwargs.values()]
    try:
        notes = getattr(RUNS[how](net, args, kwargs), "notes", [])
    except NeedsValuesError:
        assert how in ("dry", "fit")
    assert (picture(args), [picture(value) for value in kwargs.values()]) == before
    assert not [note for note in notes if "restored" in note]


@pytest.mark.parametrize("how", [how for how in RUNS if allowed(how) and how != "time"])  # see below
@pytest.mark.parametrize("what", ALL)
def test_what_a_model_holds_in_an_object_is_as_before(what, how):
    make, does = ALL[what]
    net = Keeps(does, *make())
    before = picture(net.held.args), [picture(value) for value in net.held.kwargs.values()]
    try:
        notes = getattr(RUNS[how](net, (torch.ones(2, 8),), {}), "notes", [])
    except NeedsValuesError:
        assert how in ("dry", "fit")
        notes = []
    assert (picture(net.held.args), [picture(value) for value in net.held.kwargs.values()]) == before
    assert not [note for note in notes if "restored" in note]


@pytest.mark.parametrize("how", [how for how in RUNS if allowed(how)])
@pytest.mark.parametrize("held", [False, True])
def test_weak_references_are_as_before(how, held):
    if held and how == "time":
        pytest.skip("timed runs go on with the objects of a model")
    first, second, log = Window(), Holds(), []
    weak = WeakKeyDictionary({first: log}), WeakValueDictionary({1: first}), WeakSet([first])

    def does(by_key, by_value, some):
        by_key.pop(first).append(1)
        by_key[second] = by_value[2] = second
        del by_value[1]
        some ^= {first, second}

    net = Keeps(does, weak, {}) if held else Does(does)
    RUNS[how](net, (torch.ones(2, 8),) if held else weak, {})
    assert dict(weak[0]) == {first: log}
    assert (log, dict(weak[1]), set(weak[2])) == ([], {1: first}, {first})


class Decoder(nn.Module):
    """Fills a cache that it holds, layer by layer, and steps an optimizer that it holds."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.cache = Holds(layers=[Cache(), Cache()], seen={"x": []})
        self.steps = torch.optim.Adam(self.layer.parameters())

    def forward(self, x):
        for cache in self.cache.layers:
            x = cache.update(self.layer(x).detach())
        self.cache.seen["x"].append(x.detach())
        with torch.enable_grad():
            self.layer(x.detach()).sum().backward()
        self.steps.step()
        self.steps.zero_grad()
        return x


@pytest.mark.parametrize("how", [how for how in RUNS if allowed(how)])
def test_a_cache_and_an_optimizer_that_a_model_holds(how):
    net, x = Decoder(), torch.rand(2, 8)
    net(x)

    def now():
        return picture(net.cache), picture(net.steps.state), [p.tolist() for p in net.parameters()]

    before = now()
    with contextlib.suppress(NeedsValuesError):
        RUNS[how](net, (x,), {})
    assert now() == before
    assert len(net(x)) == 6


@watched
def test_timed_runs_go_on_with_the_objects_of_a_model():
    seen, cache = [], Cache()

    def step():
        seen.append(cache.length)
        return cache.update(torch.ones(2, 8))

    net = Keeps(step, (), {})
    net.cache = cache
    lamina.inspect(net, torch.ones(2, 8), time=True, warmup=2, repeats=3)
    assert seen == [0, 1, 2, 3, 4, 5]
    assert (cache.length, cache.keys) == (0, [])


def test_too_many_values_of_a_model_are_said_to_be(monkeypatch):
    monkeypatch.setattr(arguments, "MOST", 4)
    net = Keeps(lambda *_: None, ([1], [2], [3]), {})
    told = lamina.inspect(net, torch.ones(2, 8)).notes
    assert [note for note in told if note.startswith("the model's objects hold more than 4 values; held.")]


def test_a_run_that_raises_gives_back_too():
    args = [large()], {"log": [1]}
    before = picture(args)
    with pytest.raises(ZeroDivisionError):
        lamina.inspect(
            Does(each(lambda x, log: (x.zero_(), log.append(2)), lambda x, log: 1 / 0)),
            (args[0][0],),
            args[1],
        )
    assert picture(args) == before


def test_what_a_forward_is_given_are_the_callers_own_objects():
    seen, x, held = [], t(), {"a": [1]}
    lamina.inspect(Does(lambda x, held: seen.append((x is own, held is box)) or x), (own := x, box := held))
    assert seen == [(True, True)]


# -- no more is copied than is written -----------------------------------------------------------------------


@observed
def test_only_what_is_written_is_copied():
    read, written = large(), large()
    watch, kept = _lamina.Capture(nn.Identity(), True), []
    given = arguments.Arguments((read, written), {}, nn.Identity(), watch)
    save = given._save
    given._save = lambda addresses: kept.append(set(addresses)) or save(addresses)
    given.guard(watch)
    watch.start()
    try:
        (read * 2).sum()
        written[5:].mul_(read[5:])
        written.mul_(2)  # it was copied already
    finally:
        watch.stop()
    assert [addresses for addresses in kept if addresses] == [{_lamina.identity(written)[0]}]


@watched
def test_each_timed_run_begins_from_the_same_state():
    seen = []

    def step(x, cache):
        seen.append((cache.length, len(cache.keys), float(x.sum())))
        return cache.update(x.mul_(2))

    lamina.inspect(Does(step), (torch.ones(LARGE, 8),), {"cache": Cache()}, time=True, warmup=2, repeats=3)
    assert seen == [(0, 0, LARGE * 8.0)] * 6


@pytest.mark.parametrize(
    ("name", "n", "places"),
    [
        ("aten::add_", 3, {0}),
        ("aten::add", 3, set()),
        ("aten::add", 4, {3}),
        ("aten::_foreach_mul_", 2, {0}),
        ("aten::batch_norm", 9, {3, 4}),
        ("aten::batch_norm_update_stats", 4, {1, 2, 3}),
        ("aten::copy_", 3, {0}),
    ],
)
def test_where_an_operator_writes(name, n, places):
    assert arguments.written_by(name, n) == places


def test_an_operator_without_a_schema_may_write_anywhere():
    assert arguments.written_by("mine::unknown", 2) is None


# -- what can't be restored ----------------------------------------------------------------------------------


def test_what_has_no_state_is_named_before_the_run():
    def numbers():
        yield from range(3)

    told = lamina.inspect(Does(each(lambda x: next(x))), (numbers(),)).notes
    assert "args[0], a generator, can't be restored if the forward changes it" in told
    with pytest.raises(ZeroDivisionError) as caught:
        lamina.inspect(Does(lambda x: 1 / 0), (), {"x": Holds(it=[numbers()])})
    assert (
        "x.it[0], a generator, can't be restored if the forward changes it"
        in caught.value.lamina_report.notes
    )


def test_what_never_changes_needs_no_note():
    constants = (
        torch.float32,
        torch.device("cpu"),
        torch.strided,
        slice(1),
        range(3),
        1j,
        np.float32(1),
        b"a",
    )
    assert "restored" not in " ".join(lamina.inspect(Does(lambda *_: None), constants).notes)


def test_what_numpy_writes_to_tensors_of_up_to_a_mib_is_restored():
    """Of 4 MiB together: of five tensors of 1 MiB the last is named."""
    given = [torch.zeros(1 << 18) for _ in range(5)]
    fill = Does(lambda xs: [x.numpy().fill(7) for x in xs] and t())
    told = [note for note in lamina.inspect(fill, (given,)).notes if "could not be restored" in note]
    assert told == ["args[0][4] was written to and could not be restored"]
    assert [bool(x.any()) for x in given] == [False, False, False, False, True]


def test_what_numpy_writes_to_a_large_tensor_is_named():
    x = large()
    told = lamina.inspect(Does(each(lambda x: x.numpy().fill(7), lambda x: x)), (x,)).notes
    assert "args[0] was written to and could not be restored" in told


def test_one_value_that_numpy_writes_is_seen():
    x = large()
    told = lamina.inspect(
        Does(each(lambda x: x.numpy().__setitem__((LARGE // 3, 5), 7), lambda x: x)), (x,)
    ).notes
    assert "args[0] was written to and could not be restored" in told


def test_what_is_written_inside_a_module_has_its_place():
    told = lamina.inspect(
        Does(lambda m, x: (m.weight.detach().numpy().fill(7), m(x)[:, :8])[1]), (nn.Linear(8, 4000), t())
    ).notes
    assert "args[0].weight was written to and could not be restored" in told


def test_memory_of_ctypes_is_named():
    numbers = (ctypes.c_int * 3)()
    told = lamina.inspect(Does(lambda numbers: None), (numbers,)).notes
    assert "args[0], a c_int_Array_3, can't be restored if the forward changes it" in told


def test_a_file_that_is_written_is_named(tmp_path):
    with (tmp_path / "log").open("w") as log:
        told = lamina.inspect(Does(each(lambda log: log.write("x"))), (log,)).notes
    assert "args[0], a TextIOWrapper, can't be restored if the forward changes it" in told


def test_one_that_is_not_what_it_says_is_named():
    class Says:
        __class__ = property(lambda self: dict)

    told = lamina.inspect(Does(lambda x: None), (Says(),)).notes
    assert "args[0], a Says, can't be restored if the forward changes it" in told


def test_a_value_that_can_not_be_put_back_leaves_the_others_to_be(monkeypatch):
    class Stubborn(set):
        pass

    x, log = large(), [1]
    monkeypatch.setattr(arguments._Set, "write", lambda *_: 1 / 0)
    does = each(lambda s, x, log: s.add(3), lambda s, x, log: log.append(2), lambda s, x, log: x.mul_(2))
    before = picture((x, log))
    told = lamina.inspect(Does(does), (Stubborn({1}), x, log)).notes
    assert "args[0] was changed and could not be restored" in told
    assert picture((x, log)) == before


def test_too_many_values_are_said_to_be(monkeypatch):
    monkeypatch.setattr(arguments, "MOST", 3)
    told = lamina.inspect(Does(lambda x: None), ([[1], [2], [3]],)).notes
    assert "the arguments hold more than 3 values; args[0][2] and what follows is not restored" in told


def test_an_interrupt_while_arguments_are_put_back(monkeypatch):
    real, times = arguments._List.put_back, []

    def interrupted(self):
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        real(self)

    args = [1], large(), [2]
    before = picture(args)
    monkeypatch.setattr(arguments._List, "put_back", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lamina.inspect(Does(lambda a, x, b: (a.append(1), b.append(1), x.zero_())[2]), args)
    assert picture(args) == before


# -- the core ------------------------------------------------------------------------------------------------


def test_a_capture_guards_once_and_before_it_starts():
    watch = _lamina.Capture(nn.Identity(), True)
    watch.guard({8}, lambda *_: [])
    with pytest.raises(ValueError, match="once, before it is started"):
        watch.guard({8}, lambda *_: [])
    with pytest.raises(TypeError):
        _lamina.Capture(nn.Identity(), True).guard({"x"}, lambda *_: [])


def test_a_snapshot_without_a_model_keeps_what_it_is_given():
    kept, x = _lamina.Snapshot(None), t()
    assert kept.keep("x", x)
    assert not kept.keep("y", 3)
    assert kept.keep("z", torch.Generator())
    x.zero_()
    assert kept.restore() == []
    assert x.any()
    with pytest.raises(TypeError):
        kept.replace([])
