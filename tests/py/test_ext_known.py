# SPDX-License-Identifier: Apache-2.0
"""What an earlier capture found in a module is told again only where it would be found again."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import random
import types
import weakref

import pytest
import torch
from ext_kit import watching
from torch import nn
from torch.overrides import TorchFunctionMode

import lamina

X = torch.randn(2, 4, 8, 8)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.norm(self.conv(x)))


class Other(Block):
    def forward(self, x):
        return super().forward(x) + x


def build():
    return nn.Sequential(Block(), Block(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 5))


def told(net, *, x=X, run=True, **options):
    """The modules, their places and tensors, as a capture describes them; what differs in a copy left out."""
    with lamina.capture(net, **options) as cap, contextlib.suppress(RuntimeError, AttributeError, TypeError):
        if run:
            net(x)
    model = cap._model
    return model.modules(), model.places(), [dict(t, storage=None, object=None) for t in model.tensors()]


def met(net, **options):
    """After it was told twice: the second time from what the first one found."""
    told(net, **options)
    told(net, **options)
    return net


def attrs(net, layer, nth=0, **options):
    """Of the nth module of a class."""
    return [m["attrs"] for m in told(net, **options)[0] if m["type"] == layer][nth]


def is_told_anew(net, **options):
    """Nobody has ever met the modules of a copy."""
    return told(net, **options) == told(copy.deepcopy(net), **options)


def replace_child(net):
    net[0].conv = nn.Conv2d(4, 4, 1)


def replace_dict(net):
    net[0].__dict__ = dict(vars(net[1]))


def change_stride(net):
    net[0].conv.stride = (2, 2)


def change_list(net):
    net[0].conv.stride[0] = 2


def change_behind(net):
    vars(net[0].conv)["stride"] = (2, 1)


def drop_attribute(net):
    del net[0].conv.groups


def new_class(net):
    net[0].__class__ = Other


def new_mode(net):
    net[1].train(mode=False)


def own_forward(net):
    net[0].act.forward = types.MethodType(lambda self, x: x, net[0].act)


def replace_parameter(net):
    net[4].weight = nn.Parameter(torch.zeros(7, 64))


def replace_parameter_behind(net):
    net[4]._parameters["weight"] = nn.Parameter(torch.zeros(7, 64))


def no_bias(net):
    net[4].bias = None


def other_data(net):
    net[4].weight.data = torch.zeros(3, 64, dtype=torch.float64)


def in_half(net):
    net.half()


def freeze(net):
    net[4].weight.requires_grad_(requires_grad=False)


def tie(net):
    net[1].conv.weight = net[0].conv.weight


def replace_buffer(net):
    net[0].norm.running_mean = torch.zeros(9)


def more_buffers(net):
    net[0].register_buffer("more", torch.zeros(3))


def renamed(net):
    net[0]._modules["first"] = net[0]._modules.pop("conv")


def reordered(net):
    net[0]._modules["conv"] = net[0]._modules.pop("conv")


def nested_deeper(net):
    net[2] = nn.Sequential(net[2])


CHANGES = [
    replace_child,
    replace_dict,
    change_stride,
    change_behind,
    drop_attribute,
    new_class,
    new_mode,
    own_forward,
    replace_parameter,
    replace_parameter_behind,
    no_bias,
    other_data,
    in_half,
    freeze,
    tie,
    replace_buffer,
    more_buffers,
    renamed,
    reordered,
    nested_deeper,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told(change):
    net = met(build())
    before = told(net, run=False)
    change(net)
    assert is_told_anew(net, run=False)
    assert told(net, run=False) != before
    assert is_told_anew(net)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_inside_the_run_is_told(change):
    class Changes(nn.Sequential):
        def forward(self, x):
            if x is last:
                change(self)
            return super().forward(x)

    last = X.clone()
    net = met(Changes(*build()))
    fresh = copy.deepcopy(net)
    assert told(net, x=last) == told(fresh, x=last)
    assert told(net) == told(fresh)


def test_what_a_run_changed_is_in_its_own_report():
    class Strides(nn.Sequential):
        def forward(self, x):
            self[0].stride = (2, 2)
            return super().forward(x)

    net = Strides(nn.Conv2d(4, 4, 3))
    met(net)
    net[0].stride = (1, 1)
    assert attrs(net, "Conv2d")["stride"] == (2, 2)


def test_many_changes_one_after_another():
    pick = random.Random(5)
    net = build()
    for _ in range(200):
        change = pick.choice(CHANGES)
        if pick.random() < 0.1:
            net = build()
        with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
            change(net)
        assert is_told_anew(net, run=False)
        assert is_told_anew(net, run=False)


def test_a_list_is_looked_at_each_time():
    net = build()
    net[0].conv.stride = [1, 1]
    met(net)
    change_list(net)
    assert attrs(net, "Conv2d")["stride"] == (2, 1)
    assert is_told_anew(net)


def test_what_a_class_answers_is_asked_each_time():
    class Wide(nn.Linear):
        @property
        def in_features(self):
            return self.wide

        @in_features.setter
        def in_features(self, value):
            self.wide = value

    net = met(nn.Sequential(Wide(3, 2)), x=torch.zeros(1, 3))
    assert attrs(net, "Wide", x=torch.zeros(1, 3))["in_features"] == 3
    Wide.in_features = 7
    assert attrs(net, "Wide", x=torch.zeros(1, 3))["in_features"] == 7


def test_the_next_object_at_an_address_is_another():
    for n in range(50):
        net = nn.Sequential(nn.Linear(3, n + 1), nn.ReLU() if n % 2 else nn.Tanh())
        met(net, x=torch.zeros(1, 3))
        assert is_told_anew(net, x=torch.zeros(1, 3))
        del net
        gc.collect()


def test_nothing_is_kept_alive():
    net = met(build())
    refs = [weakref.ref(module) for module in net.modules()]
    removed = weakref.ref(net[1])
    del net[1]
    gc.collect()
    assert removed() is None
    del net
    gc.collect()
    assert not [ref for ref in refs if ref() is not None]


def test_more_layers_than_there_is_room_for():
    def many(n):
        return nn.Sequential(*[nn.Sequential(nn.Linear(1, 1), nn.ReLU()) for _ in range(n)])

    big, small, x = many(6000), build(), torch.zeros(1, 1)
    for _ in range(3):
        assert len(told(big, x=x)[0]) == 18001
        met(small)
        assert is_told_anew(small)
    big[5][0].in_features = 9
    assert attrs(big, "Linear", 5, run=False)["in_features"] == 9


class Heap(ctypes.Structure):
    """What glibc's mallinfo2() tells."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks")),
        *((name, ctypes.c_size_t) for name in ("fsmblks", "uordblks", "fordblks", "keepcost")),
    ]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="no glibc that tells its heap")
def test_layers_without_anything_take_room_too():
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Heap

    def held():
        gc.collect()
        heap = mallinfo()
        return heap.uordblks + heap.hblkhd

    told(nn.Sequential(nn.Identity()), run=False)
    net = nn.Sequential(*[nn.Identity() for _ in range(33_000)])
    for module in net.modules():
        vars(module)  # makes the dicts
    before = held()
    told(net, run=False)
    assert held() - before < 5 << 20


def test_a_child_may_have_any_name():
    net = met(nn.Sequential(nn.Linear(3, 2)))
    net[0].add_module("parametrizations", nn.ModuleDict({"weight": nn.Identity()}))
    assert is_told_anew(net)
    assert attrs(net, "Linear")["weight"] is True


def test_what_runs_while_tensors_are_described_takes_them_away():
    """torch tells a tensor without memory's layout through Python, where a mode of the user's hears of it."""

    class Clears(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            for name in [name for name in net[0]._buffers if name != "first"]:
                del net[0]._buffers[name]
            return func(*args, **(kwargs or {}))

    net = nn.Sequential(nn.Identity())
    vars(net[0]).update(_modules={}, _parameters={}, _buffers={})  # an old torch has dicts of another class
    net[0].register_buffer("first", torch.zeros(3, device="meta"))
    for n in range(8):
        net[0].register_buffer(f"one_of_those_that_go_{n}", torch.zeros(3))
    met(net, run=False)
    with watching(net) as watch:
        pass
    with Clears():
        model = watch.model()
    assert list(net[0]._buffers) == ["first"]
    assert [name for name, *_ in model.modules()[1]["owned"]] == ["first"]


def test_a_value_that_takes_itself_away():
    class Leaves:
        def __init__(self, number):
            self.number = number

        def __call__(self):
            return None

        def __getattr__(self, name):
            vars(layer).pop("in_features", None)
            raise AttributeError(name)

        def __index__(self):
            return self.number

    layer = nn.Linear(3, 2)
    layer.in_features = Leaves(3)
    assert attrs(nn.Sequential(layer), "Linear", run=False)["in_features"] == 3


def test_before_puts_back_what_is_described():
    class Number:
        def __init__(self, number):
            self.number = number

        def __index__(self):
            return self.number

    def put_back():
        layer.in_features = 3
        others.extend(Number(5) for _ in range(1000))

    others = []
    layer = nn.Linear(3, 2)
    layer.in_features = Number(4)
    with watching(nn.Sequential(layer)) as watch:
        pass
    assert watch.model(put_back).modules()[1]["attrs"]["in_features"] == 4


def test_a_parameter_that_takes_itself_away():
    class Leaves(nn.Parameter):
        @property
        def shape(self):
            if layer._parameters.pop("more", None) is self:
                del self
                others.extend(Leaves(torch.zeros(9), requires_grad=False) for _ in range(100))
            return torch.Size([9])

    others = []
    layer = nn.Linear(3, 2)
    layer._parameters["more"] = Leaves(torch.zeros(9))
    with watching(nn.Sequential(layer)) as watch:
        pass
    model = watch.model()
    assert model.modules()[1]["owned"][2][0] == "more"
    assert model.tensors()[2]["requires_grad"] is True


def test_describing_that_inspects():
    """A property of the user's that is read while a module is described runs captures of its own."""

    class Curious(nn.Linear):
        seen = 0

        @property
        def out_features(self):
            type(self).seen += 1
            if type(self).seen < 20:
                lamina.inspect(inner, X)
            return 2

        @out_features.setter
        def out_features(self, value):
            pass

    inner = build()
    net = nn.Sequential(build()[0], Curious(8, 2), build()[1])
    met(net)
    met(inner)
    assert Curious.seen
    assert is_told_anew(inner)
    assert attrs(net, "Curious")["out_features"] == 2


@pytest.mark.parametrize("options", [{"ops": True}, {"time": True}, {"memory": True}, {"health": True}])
def test_whatever_is_measured(options):
    net = met(build(), **options)
    assert is_told_anew(net, **options)
    replace_parameter(net)
    no_bias(net)
    assert is_told_anew(net, **options)
    if "memory" in options:
        with lamina.capture(net, memory=True) as cap:
            net(X)
        held = sum(t.numel() * t.element_size() for t in [*net.parameters(), *net.buffers()])
        peak = cap.report().memory.held
        assert peak["parameters"] + peak["buffers"] == held


def test_inspect_uses_it_too():
    net = build().eval()
    first = lamina.inspect(net, X)
    assert str(lamina.inspect(net, X)) == str(first)
    change_stride(net)
    with pytest.raises(RuntimeError):
        lamina.inspect(net, X)
    net[4] = nn.Linear(16, 5)
    net[1].conv.stride = 1
    again, fresh = lamina.inspect(net, X), lamina.inspect(copy.deepcopy(net), X)
    assert str(again) == str(fresh)
    assert again.macs == fresh.macs != first.macs
