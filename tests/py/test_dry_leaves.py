# SPDX-License-Identifier: Apache-2.0
"""Dry runs with what a program does to its leaves: hooks where a gradient arrives, gradients that are there
before, and parameters on more than one device."""

from __future__ import annotations

import copy

import pytest
import torch
from test_dry import offered
from torch import nn

import lamina
from lamina._base.errors import NeedsValuesError, UnsupportedError
from lamina._observe import support

pytestmark = [
    pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}"),
    pytest.mark.skipif(not offered(), reason="this torch has no dry runs"),
]

OTHER = torch.ones(4, 4)  # what a hook multiplies with: 64 multiply-adds


def node_of(leaf):
    return leaf.expand_as(leaf).grad_fn.next_functions[0][0]


def on_node(register):
    def hook(net):
        net.node = node_of(net.weight)  # torch drops the hooks of a node that nothing holds
        getattr(net.node, register)(lambda *gradients: (gradients[-1][0] @ OTHER, None)[1])

    return hook


def replaces(net):
    net.node = node_of(net.weight)
    net.node.register_prehook(lambda given: (given[0] @ OTHER,))


def reads_the_gradient(net):
    weight, net.node = net.weight, node_of(net.weight)
    net.node.register_hook(lambda *_: (weight.grad @ OTHER, None)[1])


def removes_itself(net):
    net.node = node_of(net.weight)
    net.handle = net.node.register_hook(lambda *given: (net.handle.remove(), given[1][0] @ OTHER, None)[2])


def of_many(mode):
    def hook(net):
        function = (lambda all_: all_[0] @ OTHER) if mode == "all" else (lambda first: first @ OTHER)
        torch.autograd.graph.register_multi_grad_hook([net.weight, net.bias], function, mode=mode)

    return hook


HOOKS = {
    "after a node": on_node("register_hook"),
    "before a node": on_node("register_prehook"),
    "one that replaces the gradient": replaces,
    "one that reads the gradient of the parameter": reads_the_gradient,
    "one that removes itself": removes_itself,
    "of all gradients": of_many("all"),
}


def test_the_first_of_many_gradients():
    """Which one comes first, and so the work, differs from run to run of one of the others."""
    net = nn.Linear(4, 4, bias=False)
    torch.autograd.graph.register_multi_grad_hook([net.weight], lambda first: first @ OTHER, mode="any")
    assert lamina.inspect(net, torch.ones(2, 4), dry=True, backward=True).backward.macs == 32 + 64


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_where_a_gradient_arrives(name):
    counts = []
    for dry in (False, True):
        net, x = nn.Linear(4, 4), torch.ones(2, 4)
        HOOKS[name](net)
        net.weight.grad = was = torch.zeros(4, 4)
        report = lamina.inspect(net, x, backward=True, dry=dry)
        assert net.weight.grad is was
        counts.append((int(report.backward.macs), report.backward.macs.state))
    assert counts == [(32 + 64, "exact")] * 2


@pytest.mark.parametrize("name", HOOKS)
def test_a_step_with_hooks_where_a_gradient_arrives(name):
    net = nn.Linear(4, 4)
    plain = lamina.fit(net, torch.ones(2, 4)).step.bytes
    HOOKS[name](net)
    assert lamina.fit(net, torch.ones(2, 4)).step.bytes >= plain


def test_hooks_are_still_there_afterwards():
    net, seen = nn.Linear(4, 4), []
    net.node = node_of(net.weight)
    net.node.register_hook(lambda *_: seen.append("after"))
    net.node.register_prehook(lambda *_: seen.append("before"))
    for _ in range(2):
        lamina.inspect(net, torch.ones(2, 4), dry=True, backward=True)
        assert seen == ["before", "after"]
        seen.clear()
    net(torch.ones(2, 4)).sum().backward()
    assert seen == ["before", "after"]


@pytest.mark.parametrize("dry", [False, True])
def test_an_optimizer_in_the_backward_is_named(dry):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: None)
    notes = lamina.inspect(net, torch.ones(2, 4), dry=dry, backward=True).notes
    assert [note for note in notes if "register_post_accumulate_grad_hook of 0.weight and of 3 more" in note]
    assert not any("accumulate" in note for note in lamina.inspect(net, torch.ones(2, 4), dry=dry).notes)


class Reads(nn.Module):
    """Its forward reads the gradient that a parameter or an input has."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        weight, given = self.layer.weight.grad, x.grad
        x = x if given is None else x * given
        return self.layer(x if weight is None else x @ weight)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_a_forward_that_reads_gradients(dtype, frozen):
    net, x = Reads(), torch.ones(2, 4, requires_grad=True)
    net(x).sum().backward()
    net.layer.weight.requires_grad_(not frozen)
    grads = [net.layer.weight.grad, x.grad]
    real, dry = (lamina.inspect(net, x, backward=True, dry=dry) for dry in (False, True))
    assert real.macs == dry.macs == 32 + 32
    assert real.backward.macs == dry.backward.macs
    assert real.bytes_read == dry.bytes_read
    assert lamina.fit(net, x, dtype=dtype).step.bytes > 0
    assert all(a is b for a, b in zip([net.layer.weight.grad, x.grad], grads, strict=True))


def test_a_gradient_that_torch_does_not_accept():
    """A sparse one of a dense weight stays what it is: a product with it can't be followed."""
    net = nn.Embedding(4, 4, sparse=True)
    net(torch.tensor([1])).sum().backward()
    assert net.weight.grad.is_sparse
    assert lamina.inspect(net, torch.tensor([1]), dry=True).macs == 0
    assert net.weight.grad.is_sparse


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4, device="meta")
        self.factor = nn.Parameter(torch.ones((), device="meta"))
        self.register_buffer("table", torch.ones(4))

    def forward(self, x):
        return self.used(x) * self.table


def test_parameters_that_are_partly_on_the_meta_device():
    """The command builds models so, of which only large tensors are there."""
    net, x = Partly(), torch.ones(2, 4)
    assert lamina.inspect(net, x).macs == lamina.inspect(net, x, dry=True).macs == 32
    for layer in (net.used, net.unused):
        layer.to("meta")
    assert lamina.inspect(net, x, dry=True).macs == 32


class Kind(nn.Parameter):
    """A parameter of the program's, with a method of its own."""

    def doubled(self):
        return self @ self.mT


class Branches(nn.Module):
    """Asks what its parameters are."""

    def __init__(self):
        super().__init__()
        self.layer, self.own = nn.Linear(4, 4), Kind(torch.ones(4, 4))
        self.most = nn.ParameterList([nn.Parameter(torch.ones(4, 4))])

    def forward(self, x):
        x = self.layer(x)
        for parameter in (self.layer.weight, self.most[0], nn.Parameter(x.detach().mT @ x)):
            if type(parameter) is nn.Parameter:
                x = x @ parameter
        return x @ self.own.doubled() if type(self.own) is Kind else x


@pytest.mark.parametrize("backward", [False, True])
def test_parameters_are_of_their_class(backward):
    net, x = Branches(), torch.ones(2, 4)
    real, dry = (lamina.inspect(net, x, backward=backward, dry=dry) for dry in (False, True))
    assert real.macs == dry.macs == 32 * 6 + 64
    assert not backward or real.backward.macs == dry.backward.macs
    assert lamina.fit(net, x).step.bytes > 0
    assert [type(p) for p in net.parameters()] == [Kind, nn.Parameter, nn.Parameter, nn.Parameter]


READS = {
    "a list": lambda p: p.tolist(),
    "an array": lambda p: p.numpy(force=True),
    "a number": lambda p: float(p.sum()),
    "an address": lambda p: int(p.data_ptr()),
    "memory": lambda p: p.untyped_storage()[0],
    "pickle": lambda p: p.__reduce_ex__(2),
}


@pytest.mark.parametrize("name", READS)
def test_what_reads_a_parameter_is_refused(name):
    class Net(nn.Linear):
        def forward(self, x):
            READS[name](self.weight)
            return super().forward(x)

    with pytest.raises(NeedsValuesError):
        lamina.inspect(Net(4, 4), torch.ones(2, 4), dry=True)
    READS["a list"](nn.Linear(4, 4).weight)


def test_copies_and_views_of_parameters():
    class Net(nn.Linear):
        def forward(self, x):
            same, other = copy.copy(self.weight), copy.deepcopy(self)
            again = nn.Parameter(self.weight, requires_grad=False)
            assert [type(p) for p in (same, other.weight, again)] == [nn.Parameter] * 3
            assert [p.requires_grad for p in (same, other.weight, again)] == [True, True, False]
            assert type(self.weight.data) is not nn.Parameter
            assert type(self.weight.detach().view(16)) is not nn.Parameter
            assert same.untyped_storage()._cdata == self.weight.untyped_storage()._cdata
            return super().forward(x) @ same @ other.weight @ again

    net = Net(4, 4)
    assert lamina.inspect(net, torch.ones(2, 4)).macs == 4 * 32
    assert lamina.inspect(net, torch.ones(2, 4), dry=True).macs == 4 * 32


def test_the_class_of_parameters_is_as_before():
    was, out = dict(vars(nn.Parameter)), []

    class Net(nn.Linear):
        def forward(self, x):
            out.append(self.weight)
            return super().forward(x)

    lamina.inspect(Net(4, 4), torch.ones(2, 4), dry=True)
    assert dict(vars(nn.Parameter)) == was
    assert type(out[0]) is not nn.Parameter
    with pytest.raises(NeedsValuesError, match="has ended"):
        out[0].tolist()
    with pytest.raises(NeedsValuesError, match="has ended"):
        out[0] + 1


class Slots(nn.Parameter):
    __slots__ = ("scale",)


def test_a_class_that_python_gives_to_no_other_object_is_refused():
    net = nn.Linear(4, 4)
    net.weight = Slots(torch.ones(4, 4))
    for run in (lambda net, x: lamina.inspect(net, x, dry=True), lamina.fit):
        with pytest.raises(UnsupportedError, match="the class Slots: Python gives"):
            run(net, torch.ones(2, 4))
    assert lamina.inspect(net, torch.ones(2, 4)).macs == 32


class Doubles(nn.Linear):
    def forward(self, x):
        return super().forward(x.mul_(2))


def test_tensors_of_an_inference_mode():
    """torch saves none for a backward, and outside of the mode it writes to none."""
    with torch.inference_mode():
        x = torch.ones(2, 4)
        assert lamina.inspect(Doubles(4, 4), x, dry=True).macs == 32
    assert lamina.inspect(nn.Linear(4, 4), x, dry=True).macs == 32
    assert lamina.fit(nn.Linear(4, 4), x).step is None
    for dry in (False, True):
        with pytest.raises(RuntimeError, match="cannot be saved for backward"):
            lamina.inspect(nn.Linear(4, 4), x, dry=dry, backward=True)
        with pytest.raises(RuntimeError, match="outside InferenceMode"):
            lamina.inspect(Doubles(4, 4), x, dry=dry)


class Named(torch.Tensor):
    """A tensor of the program's, with an attribute and a method of its own."""

    def squared(self):
        return self @ self.mT


class AsksWhat(nn.Module):
    """Asks whether its input and a buffer are of the program's class, and those that come of them."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("table", torch.ones(4, 4).as_subclass(Named))

    def forward(self, x):
        for tensor in (x, self.table, x * 2):
            if isinstance(tensor, Named):
                x = self.layer(x) @ self.table.squared() * (1 if getattr(tensor, "own", 1) else 2)
        return x


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_tensors_of_a_class_of_the_program(backward, wanted):
    net, x = AsksWhat(), torch.ones(2, 4).as_subclass(Named).requires_grad_(wanted)
    x.own = 3
    real, dry = (lamina.inspect(net, x, backward=backward, dry=dry) for dry in (False, True))
    assert real.macs == dry.macs == 3 * (2 * 32 + 64)
    assert not backward or real.backward.macs == dry.backward.macs
    assert lamina.fit(net, x).step.bytes > 0
    assert type(net.table) is type(x) is Named


def test_values_of_a_tensor_of_the_programs_class_are_not_known():
    class Net(nn.Embedding):
        def forward(self, ids):
            return super().forward(ids if isinstance(ids, Named) else ids[:1])

    ids = torch.tensor([1, 2]).as_subclass(Named)
    assert lamina.inspect(Net(4, 4), ids, dry=True).rows[0].out_shapes == ((2, 4),)

    class Reads(Net):
        def forward(self, ids):
            return super().forward(ids) if ids.tolist() == [1, 2] else ids

    with pytest.raises(NeedsValuesError, match="tolist"):
        lamina.inspect(Reads(4, 4), ids, dry=True)
