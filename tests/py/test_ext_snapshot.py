# SPDX-License-Identifier: Apache-2.0
"""A snapshot puts back what a forward changed, and names what it can't."""

from __future__ import annotations

import gc
import random
import weakref
from collections import OrderedDict
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import lamina
from lamina import _lamina

X = torch.randn(2, 3)


def picture(net):
    """Everything that must be as before, by identity where that counts."""
    out = []
    for module in net.modules():
        own = vars(module)
        inner = {
            k: (id(v), [id(x) for x in v] if isinstance(v, (dict, list)) else sorted(map(id, v)))
            for k, v in own.items()
            if isinstance(v, (dict, list, set))
        }
        items = [(k, list(v.items())) for k, v in own.items() if isinstance(v, dict) and k != "mixed"]
        values = [(k, id(v)) for k, v in own.items()]
        out.append((type(module), values, inner, repr(items)))
    state = {k: v.clone() for k, v in net.state_dict().items()}
    grads = [(p.requires_grad, id(p.grad)) for p in net.parameters()]
    return out, state, grads


def same(a, b):
    return (
        a[0] == b[0]
        and a[2] == b[2]
        and all(torch.equal(v, b[1][k]) for k, v in a[1].items())
        and len(a[1]) == len(b[1])
    )


class Changes(nn.Module):
    """A forward that leaves traces in every way that can be put back."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.extra = nn.Tanh()
        self.gone = nn.Tanh()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("swapped", torch.zeros(2))
        self.n = 0
        self.log = ["a", "b"]
        self.cache = {"k": 1, "j": 2}
        self.ordered = OrderedDict(a=1, b=2, c=3)
        self.names = {"x", "y"}
        self.empty_list, self.empty_dict, self.empty_set = [], {}, set()
        self.empty_ordered = OrderedDict()

    def forward(self, x):
        x = self.norm(self.fc(x))
        self.n += 1
        self.count += 1
        self.swapped = torch.ones(2)
        self.last = x
        self.log.append(x)
        self.log.reverse()
        self.cache["new"] = x
        self.cache["k"] = 9
        self.ordered.move_to_end("a")
        self.names.add("z")
        self.names.discard("x")
        for box in (self.empty_list, self.empty_dict, self.empty_set, self.empty_ordered):
            box.append(1) if isinstance(box, list) else box.add(1) if isinstance(box, set) else box.update(
                a=1
            )
        self.later = nn.Tanh()
        del self.gone
        self.extra.eval()
        self.fc.weight.requires_grad_(False)
        self.fc.bias.grad = torch.ones(3)
        self.fc.register_forward_hook(print)
        self.log = []
        return x


def test_everything_that_can_be_is_put_back():
    net = nn.Sequential(Changes())
    before = picture(net)
    snapshot = _lamina.Snapshot(net)
    net(X)
    assert not same(before, picture(net))
    assert snapshot.restore() == []
    assert same(before, picture(net))
    assert list(net[0]._modules) == ["fc", "extra", "gone", "norm"]
    net(X)  # and it works once more
    assert snapshot.restore() == []
    assert same(before, picture(net))


def test_an_untouched_model_is_left_alone():
    net = nn.Sequential(Changes(), nn.Sequential())
    versions = [b._version for b in net.buffers()]
    before = picture(net)
    assert _lamina.Snapshot(net).restore() == []
    assert same(before, picture(net))
    assert [b._version for b in net.buffers()] == versions


def test_buffers_get_their_values_and_keep_their_identity():
    net = nn.BatchNorm1d(3)
    mean, pointer = net.running_mean, net.running_mean.data_ptr()
    snapshot = _lamina.Snapshot(net)
    net(X)
    assert mean.any() and net.num_batches_tracked == 1
    assert snapshot.restore() == []
    assert net.running_mean is mean and mean.data_ptr() == pointer and not mean.any()
    assert net.num_batches_tracked == 0


def test_a_buffer_that_was_resized_gets_its_shape_back():
    net = nn.Module()
    net.register_buffer("b", torch.arange(3.0))
    snapshot = _lamina.Snapshot(net)
    net.b.resize_(2, 3)
    assert snapshot.restore() == []
    assert net.b.tolist() == [0, 1, 2]
    net.b.data = torch.zeros(7)
    assert snapshot.restore() == []
    assert net.b.tolist() == [0, 1, 2]


def test_autograd_does_not_see_the_restoring():
    net = nn.BatchNorm1d(3).eval()
    out = (net.running_var.detach() * torch.ones(3, requires_grad=True)).sum()
    snapshot = _lamina.Snapshot(net)
    snapshot.restore()
    out.backward()


def test_parameters_written_to_are_named():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(100, 100)
            self.plain = torch.zeros(100, 100)

        def forward(self, x):
            with torch.no_grad():
                self.fc.weight.mul_(2)
                self.plain.add_(1)
            return x

    net = nn.Sequential(Writes())
    snapshot = _lamina.Snapshot(net)
    net(X)
    told = snapshot.restore()
    assert sorted(told) == [
        "0.fc.weight was written to and could not be restored",
        "0.plain was written to and could not be restored",
    ]


@pytest.mark.parametrize("n", [3, 100])
def test_a_parameter_whose_data_was_swapped_gets_its_own_back(n):
    net = nn.Linear(n, n)
    was, lay = net.weight.detach().clone(), net.weight.data_ptr()
    snapshot = _lamina.Snapshot(net)
    net.weight.data = torch.zeros(n, n)
    assert snapshot.restore() == []
    assert torch.equal(net.weight, was)
    assert net.weight.data_ptr() == lay
    snapshot = _lamina.Snapshot(net)
    net.weight.data.zero_()
    net.weight.data = torch.zeros(n, n)
    assert snapshot.restore() == ([] if n == 3 else ["weight was written to and could not be restored"])
    assert torch.equal(net.weight, was) == (n == 3)


@pytest.mark.parametrize("n", [8, 1 << 12, 1 << 20])
def test_memory_that_was_freed_is_not_read(n):
    net = nn.Identity()
    net.whole = torch.rand(n)
    net.part = net.whole[n // 2 :]
    snapshot = _lamina.Snapshot(net)
    net.whole.untyped_storage().resize_(0)  # as FSDP does with the parameters of a layer after its call
    told = snapshot.restore()
    assert sorted(told) == [f"{name} was written to and could not be restored" for name in ("part", "whole")]
    assert _lamina.Snapshot(net).restore() == []


def test_embeddings_that_renormalise_are_put_back():
    net = nn.Sequential(nn.Embedding(4, 3, max_norm=0.01))
    before = net[0].weight.detach().clone()
    snapshot = _lamina.Snapshot(net)
    net(torch.tensor([0, 1]))
    assert not torch.equal(net[0].weight, before)
    assert snapshot.restore() == []
    assert torch.equal(net[0].weight, before)


def test_a_gradient_that_grew_is_put_back_or_named():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 9999))
    net(X).sum().backward()
    was = net[0].weight.grad.clone()
    snapshot = _lamina.Snapshot(net)
    net(X).sum().backward()
    assert sorted(snapshot.restore()) == [
        "1.bias.grad was written to and could not be restored",
        "1.weight.grad was written to and could not be restored",
    ]
    assert torch.equal(net[0].weight.grad, was)
    net = net[0]
    snapshot = _lamina.Snapshot(net)
    grad = net.weight.grad
    net.weight.grad = None
    assert snapshot.restore() == []
    assert net.weight.grad is grad


def test_lazy_layers_are_lazy_again():
    net = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    types = [type(m) for m in net.modules()]
    snapshot = _lamina.Snapshot(net)
    net(X)
    assert [type(m) for m in net.modules()] != types
    assert snapshot.restore() == []
    assert [type(m) for m in net.modules()] == types
    assert isinstance(net[0].weight, nn.UninitializedParameter) and net[0].in_features == 0
    assert net(torch.randn(2, 7)).shape == (2, 4)
    assert net[0].weight.shape == (4, 7)


def test_meta_tensors_and_scripted_modules():
    try:
        net = nn.Sequential(nn.BatchNorm1d(3, device="meta"))
    except TypeError:
        pytest.skip("no device argument")
    snapshot = _lamina.Snapshot(net)
    net(X.to("meta"))
    assert snapshot.restore() == []
    net = torch.jit.script(nn.Sequential(nn.BatchNorm1d(3)))
    state = {k: v.clone() for k, v in net.state_dict().items()}
    snapshot = _lamina.Snapshot(net)
    net(X)
    net.eval()
    assert not all(torch.equal(v, net.state_dict()[k]) for k, v in state.items())
    assert snapshot.restore() == []
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in state.items())
    assert net.training and net[0].training if hasattr(net, "__getitem__") else net.training


def test_tensors_of_inference_mode():
    net = nn.Module()
    with torch.inference_mode():
        net.register_buffer("b", torch.zeros(2))
    snapshot = _lamina.Snapshot(net)
    with torch.inference_mode():
        net.b.add_(1)
        assert snapshot.restore() == []
    assert net.b.tolist() == [0, 0]


def test_a_dict_that_refuses_is_named():
    class Refuses(dict):
        def __setitem__(self, key, value):
            raise TypeError("no")

    net = nn.Module()
    net.box = Refuses(a=1)
    snapshot = _lamina.Snapshot(net)
    dict.__setitem__(net.box, "b", 2)
    told = snapshot.restore()
    assert told == ["__dict__ held a container that could not be restored"]


def test_an_interrupt_does_not_leave_the_rest_undone():
    class Interrupts(dict):
        def __setitem__(self, key, value):
            raise KeyboardInterrupt

    net = nn.Sequential(nn.Module(), nn.BatchNorm1d(3))
    net[0].box = Interrupts(a=1)
    snapshot = _lamina.Snapshot(net)
    dict.__setitem__(net[0].box, "b", 2)
    net[1](X)
    with pytest.raises(KeyboardInterrupt):
        snapshot.restore()
    assert not net[1].running_mean.any()


def test_values_that_look_at_the_model_when_dropped():
    net = nn.Module()
    looked = []

    class Looks:
        def __del__(self):
            looked.append((net.a, net.box["k"]))

    net.a = 1
    net.box = {"k": 0}
    snapshot = _lamina.Snapshot(net)
    net.b, net.box["new"] = Looks(), Looks()
    del net.a
    snapshot.restore()
    assert looked == [(1, 0)] * 2


def test_only_a_set_tells_what_was_written():
    with pytest.raises(TypeError, match="wrote takes a set"):
        _lamina.Snapshot(nn.Linear(3, 3)).wrote([1])


def test_only_modules_have_snapshots():
    with pytest.raises(ValueError, match=r"expected a torch\.nn\.Module, not int"):
        _lamina.Snapshot(3)


def test_a_buffer_gets_back_the_memory_that_it_had():
    """Views of it share it again, whatever its data was replaced with."""

    class Moves(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("moved", torch.arange(6.0).reshape(2, 3))
            self.register_buffer("resized", torch.arange(4))
            self.register_buffer("turned", torch.arange(6.0).reshape(2, 3).t())

        def forward(self, x):
            self.moved.data = torch.ones(5)
            self.resized.set_(torch.zeros(7, dtype=torch.int64))
            self.turned.data = self.turned.data.clone()
            self.turned.zero_()
            return x

    net = Moves()
    views = [buffer[:1] for buffer in net.buffers()]
    before = [(buffer.data_ptr(), buffer.clone(), buffer.stride()) for buffer in net.buffers()]
    lamina.inspect(net, torch.ones(2))
    for (at, values, strides), buffer, view in zip(before, net.buffers(), views, strict=True):
        assert (buffer.data_ptr(), buffer.stride()) == (at, strides)
        assert torch.equal(buffer, values)
        assert torch.equal(view, values[:1])


class Hidden(nn.Parameter):
    """A parameter that answers otherwise than its C++ object."""

    grad = property(
        lambda self: self.__dict__.get("mine"), lambda self, value: self.__dict__.update(mine=value)
    )


@pytest.mark.parametrize("had", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("kind", [nn.Parameter, Hidden])
def test_gradients_and_whether_they_are_wanted_are_put_back(kind, wanted, had):
    net = nn.Linear(3, 3, bias=False)
    net.weight = kind(torch.ones(3, 3))
    net.weight.grad = was = torch.ones(3, 3) if had else None
    net.weight.requires_grad_(wanted)
    snapshot = _lamina.Snapshot(net)
    net.weight.grad = torch.zeros(3, 3)
    net.weight.requires_grad_(not wanted)
    assert snapshot.restore() == []
    assert net.weight.grad is was
    assert net.weight.requires_grad is wanted


class Told(NamedTuple):
    modules: list
    tensors: list
    rows: list
    before: list
    left: list


def told_of(net, x, *, early, change=lambda net: None):
    """What a capture tells of the model, whose forward ends with ``change``."""
    watch = _lamina.Capture(net)
    snapshot = watch.snapshot() if early else _lamina.Snapshot(net)
    watch.start()
    with torch.no_grad():
        net(x)
    change(net)
    watch.stop()
    before = []
    model = watch.model(lambda: before.append(1))
    tensors = [
        {name: at for name, at in tensor.items() if name not in ("storage", "object")}
        for tensor in model.tensors()
    ]
    rows = [
        {
            name: row[name]
            for name in ("path", "type", "params", "grad_params", "buffers", "dmas", "in_shapes")
        }
        for row in model.costs().rows()
    ]
    return Told(model.modules(), tensors, rows, before, snapshot.restore())


def some_net():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Sequential(nn.ReLU(), nn.ReLU()))
    net[0].kernel_size = [3, 3]
    net[0].weight.grad = torch.ones_like(net[0].weight)
    shared = nn.Conv2d(4, 4, 1)
    return net.append(shared).append(shared)


class Renamed(nn.Conv2d):
    pass


def parameter(net):
    net[0].weight = nn.Parameter(torch.ones(4, 3, 5, 5))


def in_a_list(net):
    net[0].kernel_size[0] = 7


def frozen(net):
    net[0].weight.requires_grad_(False)


def shrunk(net):
    net[0].weight.data = torch.ones(4, 3, 1, 1)


def class_of(net):
    net[0].__class__ = Renamed


def attribute(net):
    net[0].stride = (2, 2)


def a_buffer(net):
    net[1].register_buffer("more", torch.ones(2))


def nothing(net):
    pass


CHANGES = [nothing, parameter, in_a_list, frozen, shrunk, class_of, attribute, a_buffer]


@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_snapshot_of_a_capture_tells_what_is_there_at_the_end(change, mode):
    x, told = torch.ones(2, 3, 8, 8), []
    for early, then in ((False, change), (True, change), (True, nothing)):
        torch.manual_seed(0)
        net = some_net().train(mode)
        before = {name: value.clone() for name, value in net.state_dict().items()}
        told.append(told_of(net, x, early=early, change=then))
        same = all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        assert same or told[-1].left == ["0.weight was written to and could not be restored"]
    assert told[0] == told[1]
    assert (told[1] == told[2]) == (change is nothing)


class Odd:
    """What a dict, a set or a tuple may hold."""

    value, fails = 3, False

    def __index__(self):
        return Odd.value

    def __hash__(self):
        if Odd.fails:
            raise RuntimeError("no hash any more")
        return 1


class Items(dict):
    def items(self):
        if Odd.fails:
            raise RuntimeError("no items any more")
        return super().items()


class OddLinear(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)
        del self.__dict__["in_features"]
        OddLinear.in_features = 4


class Does(nn.Module):
    """Holds what ``init`` gives it, and changes it in its forward."""

    def __init__(self, init, then):
        super().__init__()
        Odd.value, Odd.fails = 3, False
        init(self)
        self.then = then

    def forward(self, x):
        self.then(self)
        return x


def sparse(*at):
    return torch.sparse_coo_tensor([at, at], [1.0] * len(at), (100, 100))


def weight(*shape, **options):
    return lambda self: setattr(self, "w", nn.Parameter(torch.ones(*shape, **options)))


def buffer(value):
    return lambda self: self.register_buffer("b", value())


def layer(make, **attributes):
    def init(self):
        self.layer = make()
        vars(self.layer).update({name: value() for name, value in attributes.items()})

    return init


def tied(self):
    self.layer = nn.Linear(4, 4)
    vars(self)["tied"] = self.layer.weight


def data_of(name, change):
    def then(self):
        tensor = getattr(self, name)
        tensor.data = change(tensor.data)

    return then


ODD = {
    "numbers of another type": (
        weight(4, 4, dtype=torch.half),
        data_of("w", lambda w: w.view(torch.bfloat16)),
    ),
    "the same on no device": (weight(4, 4, device="meta"), data_of("w", torch.Tensor.half)),
    "of no elements": (weight(0, 4), data_of("w", torch.Tensor.half)),
    "nine axes": (weight(*(1,) * 8, 6), data_of("w", lambda w: w[..., :3])),
    "a sparse buffer": (buffer(lambda: sparse(0)), lambda self: self.b.add_(sparse(1, 2, 3))),
    "a buffer with gradients": (buffer(lambda: torch.ones(3)), lambda self: self.b.requires_grad_()),
    "a buffer turned": (buffer(lambda: torch.eye(3)), lambda self: self.b.t_()),
    "a buffer in one place": (
        buffer(lambda: torch.ones(3, 3)),
        data_of("b", lambda b: b[:1, :1].expand(3, 3)),
    ),
    "a tied weight": (tied, lambda self: self.layer.weight.requires_grad_(False)),
    "a weight that pruning makes": (
        layer(lambda: prune.identity(nn.Linear(4, 4), "weight")),
        lambda self: None,
    ),
    "a class's attribute": (layer(OddLinear), lambda self: setattr(OddLinear, "in_features", 99)),
    "an index in a tuple": (
        layer(lambda: nn.Conv1d(2, 2, 3), kernel_size=lambda: (Odd(),)),
        lambda self: setattr(Odd, "value", 5),
    ),
    "a tensor in a tuple": (
        layer(lambda: nn.Conv1d(2, 2, 3), dilation=lambda: (torch.tensor(1),)),
        lambda self: self.layer.dilation[0].add_(4),
    ),
    "a set that fails": (lambda self: setattr(self, "s", {Odd()}), lambda self: setattr(Odd, "fails", True)),
    "a dict that fails": (
        lambda self: setattr(self, "d", Items(a=1)),
        lambda self: setattr(Odd, "fails", True),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_told_early_is_what_is_there_at_the_end(name):
    told = [told_of(Does(*ODD[name]), X, early=early) for early in (False, True)]
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["a buffer turned", "a buffer in one place", "a buffer with gradients"])
def test_a_buffer_lies_as_it_did(name):
    net = Does(*ODD[name])
    assert told_of(net, X, early=True).left == []
    assert net.b.stride() == (3, 1)[-net.b.dim() :]
    assert not net.b.requires_grad


def test_a_parameter_that_lies_elsewhere_is_put_back_or_said_so():
    net = Does(*ODD["numbers of another type"])
    assert told_of(net, X, early=True).left == []
    assert net.w.dtype == torch.half
    net = Does(*ODD["the same on no device"])
    assert told_of(net, X, early=True).left == ["w was written to and could not be restored"]


def test_a_forward_s_own_exception_comes_through_whatever_can_t_be_compared():
    def fail(self):
        Odd.fails = True
        raise ValueError("the model's own")

    with pytest.raises(ValueError, match="the model's own") as raised:
        lamina.inspect(Does(lambda self: setattr(self, "s", {Odd()}), fail), X)
    assert raised.value.lamina_report is not None


def test_the_gradient_of_a_parameter_that_was_met_as_an_attribute_is_put_back():
    net = nn.Sequential(nn.Linear(3, 3))
    vars(net)["tied"] = net[0].weight
    snapshot = _lamina.Snapshot(net)
    net[0].weight.grad = torch.ones(3, 3)
    net[0].weight.requires_grad_(False)
    assert snapshot.restore() == []
    assert net[0].weight.grad is None
    assert net[0].weight.requires_grad


def test_the_gradient_is_put_back_of_one_that_is_not_the_first_attribute():
    net = nn.Sequential(nn.Linear(3, 3))
    vars(net).update(first=torch.ones(2), tied=net[0].weight)
    net[0].weight.grad = held = torch.full((3, 3), 2.0)
    snapshot = _lamina.Snapshot(net)
    net[0].weight.grad = None
    assert snapshot.restore() == []
    assert net[0].weight.grad is held


def test_a_class_that_reaches_its_capture_goes_too():
    class Net(nn.Module):
        pass

    there = weakref.ref(Net)
    Net.capture = _lamina.Capture(Net())
    Net.capture.snapshot()
    del Net
    gc.collect()
    assert there() is None


def test_a_snapshot_of_a_capture_takes_hooks_off_again():
    net, x = some_net(), torch.ones(2, 3, 8, 8)
    told_of(net, x, early=True, change=lambda net: net[2][1].register_forward_hook(print))
    assert not net[2][1]._forward_hooks


def test_nothing_of_the_users_runs_before_the_model_does():
    ran = []

    class Asked(nn.Linear):
        @property
        def in_features(self):
            ran.append(1)
            return 3

        @in_features.setter
        def in_features(self, value):
            pass

    net = nn.Sequential(nn.Linear(3, 3), Asked(3, 3))
    watch = _lamina.Capture(net)
    snapshot = watch.snapshot()
    assert not ran
    watch.start()
    net(torch.ones(2, 3))
    watch.stop()
    before = []
    model = watch.model(lambda: before.append(1))
    assert before == [1]
    assert ran
    assert model.modules()[2]["attrs"]["in_features"] == 3
    assert snapshot.restore() == []


def test_a_capture_takes_one_snapshot_before_it_starts():
    watch = _lamina.Capture(nn.Linear(3, 3))
    watch.snapshot()
    with pytest.raises(ValueError, match="one snapshot"):
        watch.snapshot()
    started = _lamina.Capture(nn.Linear(3, 3))
    started.start()
    with pytest.raises(ValueError, match="before it is started"):
        started.snapshot()
    started.stop()
    brief = _lamina.Capture(nn.Linear(3, 3), brief=True)
    with pytest.raises(ValueError, match="one snapshot"):
        brief.snapshot()


def test_a_snapshot_of_a_capture_goes_with_it():
    net = some_net()
    there = weakref.ref(net)
    net.capture = _lamina.Capture(net)  # a cycle
    net.capture.snapshot()
    del net
    gc.collect()
    assert there() is None


class Cache:
    def __init__(self):
        self.step = 0


class Deep(nn.Module):
    """Changes what lies in containers of containers, and what an object holds."""

    def __init__(self):
        super().__init__()
        self.layers = [{"k": []}, {"k": [1]}]
        self.pair = ([0], {"a": {"b": torch.ones(1)}})
        self.loop = []
        self.loop.append(self.loop)
        self.cache = Cache()

    def forward(self, x):
        self.layers[0]["k"].append(x)
        self.layers[1]["k"].clear()
        self.pair[0][0] += 1
        self.pair[1]["a"]["b"].add_(1)
        self.pair[1]["a"]["c"] = x
        self.loop.append(x)
        return x


def test_containers_in_containers_are_put_back():
    net = Deep()
    before = _lamina.Snapshot(net)
    net(X)
    assert before.restore() == []
    assert net.layers == [{"k": []}, {"k": [1]}]
    assert net.pair == ([0], {"a": {"b": torch.ones(1)}})
    assert net.loop == [net.loop]


def test_objects_are_told_of_and_left_alone():
    net = Deep()
    net.child, net.draws = nn.Sequential(Deep()), random.Random(0)
    net.child[0].more = [{"k": (net.child[0].cache, Cache())}]
    before = _lamina.Snapshot(net)
    net.draws.gauss(0, 1)
    net.child[0].cache.step += 1
    assert before.restore() == []
    assert net.child[0].cache.step == 1
    more = net.child[0].more[0]["k"][1]
    assert before.objects() == [
        ("cache", net.cache),
        ("child.0.cache", net.child[0].cache),
        ("child.0.more", more),
    ]
