# SPDX-License-Identifier: Apache-2.0
"""Every error names what, where and what to do."""

from __future__ import annotations

from dataclasses import dataclass

import nets
import pytest
import torch
from torch import nn

import lamina


def x(*shape):
    return torch.rand(*(shape or (1, 4)))


CALLS = {
    "inspect": lambda model: lamina.inspect(model, x()),
    "capture": lamina.capture,
    "summary": lambda model: lamina.summary(model, (4,)),
    "crawl_module": lambda model: lamina.crawl_module(model, (4,)),
    "profile": lambda model: lamina.profile(model, x()),
    "module_flops": lambda model: lamina.torchscan.modules.module_flops(model, (x(),), x()),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "None"),
        ("resnet18", "a str"),
        (nn.Linear, "call it first"),
        ({}, "state dict"),
        (lambda x: x, "wrap the function"),
        (torch.ones(1), "a Tensor"),
    ],
    ids=["None", "str", "class", "dict", "function", "tensor"],
)
def test_no_model(call, given, says):
    with pytest.raises(TypeError, match=says) as caught:
        CALLS[call](given)
    assert "torch.nn.Module" in str(caught.value)


def test_a_wrong_shape_keeps_its_exception_and_gets_the_table():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(5, 2)), nn.ReLU())
    with pytest.raises(RuntimeError, match="shape") as caught:
        lamina.inspect(net, x(3, 4))
    report = caught.value.lamina_report
    assert report.macs == 48
    assert [row.path for row in report.rows if row.failed] == ["", "1", "1.1"]
    if hasattr(caught.value, "__notes__"):
        note, takes = caught.value.__notes__
        assert "it takes 5 features" in takes
        first, _, table = note.partition("\n")
        assert "1.1" in first
        assert "Linear" in first
        assert "(3, 4)" in first
        assert "Linear" in table


class Guarded(nn.Conv2d):
    """One of its attributes raises."""

    def forward(self, x):
        raise RuntimeError("no good")

    @property
    def in_channels(self):
        raise RuntimeError("not for you")

    @in_channels.setter
    def in_channels(self, n):
        pass


class Packed(nn.Module):
    """Its weight is a method, as that of a quantised layer."""

    in_channels = 3

    def weight(self):
        return torch.rand(4, 3, 1, 1)

    def forward(self, x):
        raise RuntimeError("no good")


@pytest.mark.parametrize("layer", [Guarded(3, 4, 1), Packed()], ids=["raises", "method"])
def test_advice_on_a_layer_hides_no_exception(layer):
    with pytest.raises(RuntimeError, match="no good") as caught:
        lamina.inspect(nn.Sequential(layer), x(1, 3, 4, 4))
    assert caught.value.lamina_report.rows[1].failed


@pytest.mark.parametrize("call", ["summary", "profile", "crawl_module"])
def test_drop_ins_explain_too(call):
    with pytest.raises(ValueError, match="no good") as caught:
        CALLS[call](nets.Fails().eval())
    assert "before" in str(caught.value.lamina_report)


def test_unknown_convention_lists_those_there_are():
    for call in (
        lambda: lamina.inspect(nn.Linear(4, 4), x(), convention="torchscn"),
        lambda: lamina.inspect(nn.Linear(4, 4), x()).under("torchscn"),
    ):
        with pytest.raises(ValueError, match="torchscan") as caught:
            call()
        assert "torchscn" in str(caught.value)
        assert isinstance(caught.value, lamina.LaminaError)


def test_unknown_convention_is_said_before_anything_runs():
    ran = []
    net = nn.Linear(4, 4)
    net.register_forward_hook(lambda *_: ran.append(1))
    with pytest.raises(ValueError):
        lamina.inspect(net, x(), convention="nope")
    assert ran == []


def test_unknown_style_and_wrap_mode():
    with pytest.raises(ValueError, match=r"0\.1\.2"):
        lamina.summary(nn.Linear(4, 4), (4,), style="2")
    with pytest.raises(ValueError, match="mid"):
        lamina.summary(nn.Linear(4, 4), (4,), wrap_mode="middle")
    with pytest.raises(TypeError, match="whole number"):
        lamina.summary(nn.Linear(4, 4), (4,), max_depth="2")


def test_arguments_of_the_wrong_type_are_told_so():
    net = nn.Linear(4, 4)
    watched = lamina.inspect(net, x(), convention="exact")
    for call, says in (
        (
            lambda: lamina.inspect(net, (3, 4)),
            r"for an input of that shape give a tensor, torch.rand\(3, 4\)",
        ),
        (lambda: lamina.fit(net, (3, 4)), r"Linear takes \(input: .*torch.rand\(3, 4\)"),
        (lambda: lamina.compare(net, (3, 4)), r"torch.rand\(3, 4\)"),
        (lambda: lamina.inspect(net, input=x()), "goes into kwargs, as {'input': ...}"),
        (lambda: lamina.inspect(net, input_size=(3, 4)), r"no option 'input_size'; give the input itself"),
        (
            lambda: lamina.inspect(net, input_data=x()),
            r"give the input itself, lamina\.inspect\(model, torch",
        ),
        (lambda: lamina.inspect(net, x(), convetion="exact"), r"'convetion'; did you mean convention\?$"),
        (lambda: lamina.inspect(net, x(), stat=True), r"did you mean stats\?"),
        (lambda: lamina.capture(net, helth=True), r"did you mean health\?"),
        (lambda: lamina.capture(net, depth=1), r"option 'depth'; it is one of cap.report\(depth=\.\.\.\)$"),
        (lambda: lamina.capture(net, backward=True), r"no option 'backward'$"),
        (lambda: lamina.inspect(net, [x()]), r"args is a list; give a tensor, several .*\(model, \(x, y\)\)"),
        (
            lambda: lamina.inspect(net, [3, 4]),
            r"for an input of that shape give a tensor, torch.rand\(3, 4\)",
        ),
        (lambda: lamina.inspect(net, [3]), r"args is a list; give a tensor"),
        (lambda: lamina.inspect(net, {"x": x()}), r"a dict as \(d,\), and keyword arguments as the third"),
        (lambda: lamina.inspect(net, x().numpy()), r"args is a numpy array; .*torch\.from_numpy\(x\)"),
        (lambda: lamina.summary(net, input_size=(4,)), r"'input_size'; give input_shape=\(3, 224, 224\)"),
        (lambda: lamina.summary(net, input_data=x()), r"'input_data'; lamina\.inspect\(model, "),
        (lambda: lamina.summary(net, (4,), depth=2), "'depth'; it takes input_shape.*max_depth"),
        (lambda: lamina.summary(net), "the input shape None is not a tuple"),
        (lambda: lamina.summary(net, x()), "the input shape a Tensor is not a tuple of sizes"),
        (lambda: lamina.inspect(net, x(), {"mask"}), "kwargs is a set; give the keyword arguments as a dict"),
        (lambda: lamina.compare(net, x(), 3), "kwargs is an int"),
        (lambda: lamina.inspect(net, x(), convention=3), "convention is an int; it is named"),
        (lambda: lamina.inspect(net, x(), convention=["exact"]), "convention is a list; it is named"),
        (lambda: lamina.compare(net, x(), conventions=3), "conventions is an int; give names"),
        (lambda: lamina.compare(net, x(), conventions=[None]), "a convention is None"),
        (lambda: watched.compare(3), "convention is an int"),
        (lambda: lamina.inspect(net, x(), rules=3), "rules is an int; it is the name of a file"),
        (lambda: lamina.rules_file([]), "rules is a list"),
        (lambda: lamina.summary(net, (4,), dtype="float32"), "dtype is a str; it is a torch.dtype"),
        (lambda: lamina.crawl_module(net, (4,), dtype=[3]), "dtype is an int"),
        (lambda: lamina.profile(net, x(), 3), "custom_ops is an int; it is a dict"),
        (lambda: lamina.profile(net, x(), {"Linear": print}), "custom_ops has 'Linear'"),
        (lambda: lamina.profile(net, x(), {nn.Linear: 3}), "custom_ops has <class"),
    ):
        with pytest.raises(TypeError, match=says):
            call()
    with pytest.raises(ValueError, match="negative size"):
        lamina.summary(net, (-4,))
    for depth in (2**70, -(2**70)):
        with pytest.raises(ValueError, match="max_depth"):
            lamina.summary(net, (4,), max_depth=depth)


def notes(error):
    return "\n".join(getattr(error, "__notes__", ()))


@pytest.mark.skipif(not hasattr(Exception, "add_note"), reason="notes came with Python 3.11")
def test_what_torch_raises_is_explained():
    with pytest.raises(RuntimeError) as caught:
        lamina.summary(nn.Conv2d(3, 8, 3), (1, 3, 8, 8))
    assert "for a batch of 1 give input_shape=(3, 8, 8)" in notes(caught.value)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    with pytest.raises(ValueError, match="more than 1 value per channel") as caught:
        lamina.inspect(net, torch.rand(1, 4))
    assert 'mode="eval"' in notes(caught.value)
    lamina.inspect(net, torch.rand(1, 4), mode="eval")


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda report: report.unused, "report.unused"),
        (lambda report: report.no_gradient, "report.no_gradient"),
        (lambda report: report.graph(), "the graph"),
    ],
)
def test_what_needs_operators_says_how_to_watch_them(ask, what):
    report = lamina.inspect(nn.Linear(4, 4), x(), convention="layers")
    with pytest.raises(ValueError, match=rf"^{what} needs operators, .*inspect\(model, args, ops=True\)"):
        ask(report)
    ask(lamina.inspect(nn.Linear(4, 4), x(), convention="layers", ops=True))


def test_one_convention_alone_may_be_compared():
    compared = lamina.compare(nn.Linear(4, 4), x(), conventions="torch")
    assert [row.convention for row in compared.rows] == ["exact", "torch"]


def test_a_tree_deeper_than_pythons_stack_is_told_by_its_layer():
    net = nn.Linear(4, 4)
    for _ in range(3000):
        net = nn.Sequential(net)
    for call in ("inspect", "summary", "crawl_module"):
        with pytest.raises(RecursionError) as caught:
            CALLS[call](net)
        told = caught.value.lamina_report.failure()
        assert told.startswith("raised in 0.0.0.")
        assert "[...]" in told
        assert len(told) < 300


def test_unknown_layout_and_format():
    report = lamina.inspect(nn.Linear(4, 4), x())
    with pytest.raises(ValueError, match="lamina"):
        report.show(layout="fancy")
    with pytest.raises(ValueError, match="csv"):
        report.show(format="xml")


def test_unknown_name_in_lamina():
    with pytest.raises(AttributeError, match="inspect"):
        lamina.inspekt  # noqa: B018


@dataclass(frozen=True)
class Frozen(Exception):
    code: int

    def add_note(self, note):
        raise TypeError("no notes")


@pytest.mark.parametrize("look", [lamina.inspect, lambda *given: lamina.crawl_module(given[0], (4,) * 5)])
def test_an_exception_that_refuses_attributes_and_notes_comes_through(look):
    class Raises(nn.Module):
        def forward(self, x):
            raise Frozen(3)

    with pytest.raises(Frozen) as caught:
        look(Raises(), x())
    assert caught.value.code == 3


def test_a_flag_that_is_a_text_is_refused():
    with pytest.raises(TypeError, match="again is 'x'; it is True or False"):
        lamina.roof(again="x")
