# SPDX-License-Identifier: Apache-2.0
"""Where Python stands between an operator and its kernel, what ran is counted, and not what was asked for."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from where_kit import Calls, by_path, exact, not_observed, work

import lamina

if not_observed():
    pytest.skip(f"no operators: {not_observed()}", allow_module_level=True)
modes = pytest.importorskip("torch.utils._python_dispatch")
aten = torch.ops.aten
MACS = 2 * 4 * 8  # of the layer below


def layer():
    return nn.Linear(4, 8)


def x():
    return torch.rand(2, 4)


class Answers(modes.TorchDispatchMode):
    """Answers ``addmm``, and leaves all else as it is."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten.addmm.default:
            return self.answer(*args)
        return func(*args, **(kwargs or {}))


class Twice(Answers):
    def answer(self, b, x, w):
        return x @ w * 0.5 + x @ w * 0.5 + b


class Never(Answers):
    def answer(self, b, x, w):
        return b.new_zeros(len(x), w.shape[1])


class AsItIs(Answers):
    def answer(self, b, x, w):
        return torch.addmm(b, x, w)


MODES = [(Twice, 2), (Never, 0), (AsItIs, 1)]


@pytest.mark.parametrize(("mode", "times"), MODES)
@pytest.mark.parametrize("watching", ["observer", "dispatch"])
def test_a_mode_inside_the_model(mode, times, watching, monkeypatch):
    monkeypatch.setenv("LAMINA_CAPTURE", watching)

    def forward(self, x):
        with mode():
            return self.fc(x)

    report = exact(Calls(forward, fc=layer()), x())
    assert (report.macs, report.macs.state) == (times * MACS, "exact")
    assert by_path(report) == ({"fc": times * MACS} if times else {})


@pytest.mark.parametrize(("mode", "times"), MODES)
def test_a_mode_around_the_capture(mode, times):
    with mode():
        report = exact(layer(), x())
    assert (report.macs, report.macs.state) == (times * MACS, "exact")
    net = layer()
    with lamina.capture(net, ops=True) as watch, mode():
        net(x()).sum().backward()
    report = watch.report("exact")
    assert work(report) == (times * MACS, MACS if times == 1 else report.backward.macs, 0)


def test_a_mode_in_a_mode():
    def forward(self, x):
        with AsItIs(), Twice(), AsItIs():
            return self.fc(x)

    assert exact(Calls(forward, fc=layer()), x()).macs == 2 * MACS


def test_a_mode_that_only_looks_changes_nothing():
    from torch.utils.flop_counter import FlopCounterMode

    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 5))
    given = torch.rand(2, 3, 8, 8)
    alone = exact(net, given, backward=True)
    with FlopCounterMode(display=False) as counter:
        under = exact(net, given, backward=True)
    assert work(under) == work(alone)
    assert counter.get_total_flops() == 2 * (under.macs + under.backward.macs)
    for metric in ("flops", "bytes_read", "bytes_written"):
        assert getattr(under, metric) == getattr(alone, metric)


def test_shapes_that_a_fake_mode_follows_count_as_before():
    from torch._subclasses.fake_tensor import FakeTensorMode

    net = layer()
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        given = fake.from_tensor(x())
        for _ in range(2):  # the second is answered by what the first told
            assert exact(net, given).macs == MACS


class Pair(torch.Tensor):
    """Two tensors as one: each operator runs on both."""

    @staticmethod
    def __new__(cls, a, b):
        made = torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)
        made.pair = (a, b)
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        one, two = (
            func(*(arg.pair[i] if isinstance(arg, Pair) else arg for arg in args), **(kwargs or {}))
            for i in range(2)
        )
        return Pair(one, two)


class Doubled(torch.Tensor):
    """A tensor with memory of its own whose class runs each product twice."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            if func is aten.mm.default:
                func(*args)
            return func(*args, **(kwargs or {}))


def test_a_class_of_tensors_that_stands_for_two():
    product = Calls(lambda self, a, b: a @ b)
    report = exact(product, Pair(x(), x()), Pair(torch.rand(4, 8), torch.rand(4, 8)))
    assert (report.macs, report.macs.state) == (2 * MACS, "exact")
    report = exact(Calls(lambda self, a: (Pair(a, a) @ torch.rand(4, 8)).pair[0] @ torch.rand(8, 3)), x())
    assert (report.macs, report.macs.state) == (2 * MACS + 2 * 8 * 3, "exact")


def test_a_class_of_tensors_with_memory_of_its_own():
    def forward(self, a):
        return torch.mm(torch.Tensor._make_subclass(Doubled, a), torch.rand(4, 8))

    report = exact(Calls(forward), x())
    assert (report.macs, report.macs.state) == (2 * MACS, "exact")


def test_a_class_without_an_answer_of_its_own_counts_once():
    named = type("Named", (torch.Tensor,), {})
    report = exact(layer(), x().as_subclass(named))
    assert (report.macs, report.macs.state) == (MACS, "exact")


def test_a_product_larger_than_64_bits():
    def forward(self, a):
        return a.expand(2**21, 2**21) @ a.expand(2**21, 2**21)

    report = exact(Calls(forward), torch.zeros(1, 1, device="meta"))
    assert (report.macs, report.macs.state) == (2**63, "exact")
    assert report.flops == 2**64
