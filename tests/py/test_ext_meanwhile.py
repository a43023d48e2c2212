# SPDX-License-Identifier: Apache-2.0
"""Code of the user's that runs while a capture notes or tells something: it may close the capture, ask for
its model, or change what is being looked at."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import torch
from ext_kit import calls, watching
from torch import nn

import lamina
from lamina import _lamina


def closes(capture):
    """Ends the capture the first time, and asks for its model."""
    if capture.is_open:
        capture.stop()
        capture.model()


class Gives(nn.Module):
    """A layer that gives the same whatever it is called with."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, x):
        return self.result


def a_tensor(attribute, value, then):
    """A tensor of a class with a property, which does something first."""

    def told(self):
        then()
        return value

    return torch.zeros(30_000).as_subclass(type("Tells", (torch.Tensor,), {attribute: property(told)}))


@pytest.mark.parametrize("when", ["entered", "left"])
def test_a_capture_that_is_closed_while_a_call_is_noted(when):
    root = nn.Sequential(nn.Identity(), Gives(torch.ones(3)), nn.Identity())
    capture = _lamina.Capture(root)
    odd = a_tensor("shape", torch.Size([3]), lambda: closes(capture))
    if when == "left":
        root[1].result = odd
    capture.start()
    out = root(odd if when == "entered" else torch.ones(3))
    assert out is root[1].result
    assert not capture.is_open
    assert calls(capture.model()) == ([] if when == "entered" else [("", None), ("0", ""), ("1", "")])
    assert len(capture.model().modules()) == 4


def test_a_capture_that_is_closed_by_who_is_given_the_arguments():
    root = nn.Sequential(nn.Identity())
    capture = _lamina.Capture(root)
    capture.given(lambda args, kwargs: closes(capture))
    capture.start()
    assert root(1) == 1
    assert calls(capture.model()) == [("", None)]


def test_a_capture_that_is_closed_by_a_check():
    root = nn.Sequential(nn.ReLU(), nn.ReLU())
    capture = _lamina.Capture(root)

    def ask(module, result):
        closes(capture)
        return [("check", "it is none")]

    capture.watch_health(False, False, [], [root[0]], ask)
    capture.start()
    root(torch.ones(3))
    assert calls(capture.model()) == [("", None), ("0", "")]


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_capture_that_is_closed_while_values_are_looked_at(at):
    """The second time it is asked whether the tensor is the one that is known already."""

    class Grows(torch.Tensor):
        @property
        def _version(self):
            asked.append(1)
            if len(asked) == at:
                closes(capture)
            return len(asked)

    asked = []
    root = nn.Sequential(Gives(torch.zeros(30_000).as_subclass(Grows)), nn.Identity())
    capture = _lamina.Capture(root)
    capture.watch_health(False, False, [], [], lambda module, result: [])
    capture.start()
    root(torch.ones(3))
    assert calls(capture.model())[:2] == [("", None), ("0", "")]
    assert len(asked) >= at


def test_records_go_when_the_last_who_needs_them_is_done():
    root = nn.Sequential(Gives(None))
    kept = weakref.ref(root[0])
    capture = _lamina.Capture(root)
    root[0].result = a_tensor("shape", torch.Size([3]), lambda: closes(capture))
    capture.start()
    root(torch.ones(3))
    del root
    gc.collect()
    assert kept() is None


def test_a_model_that_is_asked_for_while_it_is_told():
    class Asks(nn.Linear):
        @property
        def in_features(self):
            try:
                capture.model()
            except Exception as error:
                raised.append(error)
            return 4

        @in_features.setter
        def in_features(self, value):
            pass

    raised = []
    root = nn.Sequential(Asks(4, 2), nn.ReLU())
    with watching(root) as capture:
        root(torch.ones(3, 4))
    model = capture.model()
    assert [module["type"] for module in model.modules()] == ["Sequential", "Asks", "ReLU"]
    assert model.modules()[1]["attrs"]["in_features"] == 4
    assert raised
    assert all(isinstance(e, lamina.LaminaError) and "being told already" in str(e) for e in raised)
    assert capture.model() is model


@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 1, 1, 1, 2, 3, 4)])
def test_a_parameter_that_changes_its_shape_when_it_is_asked(sizes):
    class Changes(nn.Parameter):
        @property
        def requires_grad(self):
            if asked:
                self.data = torch.zeros(*[1] * (len(sizes) - 3), 5, 6, 7)
            return True

    asked = []
    layer = nn.Module()
    layer.weight = Changes(torch.zeros(sizes))
    with watching(nn.Sequential(layer)) as capture:
        pass
    asked.append(True)
    assert capture.model().tensors()[0]["shape"] == sizes


def test_an_argument_that_is_dropped_while_its_memory_is_looked_for():
    armed, box = [], []

    class Drops(type(torch.Tensor)):
        def __getattribute__(cls, name):
            if armed and name == "shape":
                box.clear()
            return super().__getattribute__(name)

    class Odd(torch.Tensor, metaclass=Drops):
        pass

    box.append(torch.ones(1000).as_subclass(Odd))
    root = Gives(None)
    capture = _lamina.Capture(root, brief=True)
    capture.measure_memory("a test")
    capture.start()
    armed.append(True)
    root(box)
    capture.stop()
    assert box == []
    assert capture.model().memory()["held"]["input"] == 4000


def test_what_is_dropped_may_give_another():
    class Gone:
        def __call__(self, args, kwargs):
            pass

        def __del__(self):
            capture.given(last)

    def last(args, kwargs):
        pass

    capture = _lamina.Capture(nn.ReLU())
    before = sys.getrefcount(last)
    for _ in range(20):
        capture.given(Gone())
        capture.given(print)
    capture.given(print)
    assert sys.getrefcount(last) == before
