# SPDX-License-Identifier: Apache-2.0
"""Health: who gave birth to NaN and Inf, what is no finding, and what it leaves behind."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import threading
import weakref

import pytest
import torch
from conftest import environment
from health_more import MORE, hidden
from health_nets import FAULTS, INF, NAN, Do, Fault, chain, line, nan_input
from torch import nn
from where_kit import Calls

import lamina
import warm
from lamina._observe import support

observed = pytest.mark.skipif(bool(support.nodes()), reason=f"no nodes: {support.nodes()}")


ALL = {**FAULTS, **MORE}


def step(fault, around=contextlib.nullcontext, **options):
    torch.manual_seed(0)
    model, x = fault.build()
    with lamina.capture(model, health=True, **options) as cap:
        with around():
            y = model(x)
        y = y[0] if isinstance(y, tuple) else y
        loss = fault.loss or (lambda out: out.float().sum())
        if y.requires_grad:
            loss(y).backward()
    return cap.report().health


def check(fault, health):
    first = health.first
    assert first is not None, health
    phase = fault.phase or ("forward" if health.operators else "backward")
    assert (first.path, first.phase) == (fault.path, phase), str(health)
    if fault.between:
        assert first.own
        assert (first.before, first.after) == fault.between, first.text
    if fault.owned:
        assert first.owned == fault.owned, first.text
    assert not first.explained
    assert not first.input
    assert all(f.explained or f.phase == first.phase for f in health.findings[1:]), str(health)


def test_there_are_enough_of_them():
    assert len(FAULTS) >= 60
    assert len(MORE) >= 40


@pytest.mark.parametrize("name", ALL)
def test_the_layer_is_named(name):
    fault = ALL[name]
    if fault.phase != "forward" and support.nodes():
        pytest.skip(f"no nodes: {support.nodes()}")
    check(fault, step(fault))


@observed
@pytest.mark.parametrize("name", MORE)
def test_the_layer_is_named_under_autocast(name):
    try:
        health = step(MORE[name], lambda: torch.autocast("cpu", dtype=torch.bfloat16))
    except RuntimeError as error:
        if "not implemented for 'BFloat16'" not in str(error):
            raise
        pytest.skip(f"not in this torch: {error}")
    check(MORE[name], health)


@observed
@pytest.mark.parametrize("name", ALL)
def test_the_operator_is_named(name):
    fault = ALL[name]
    health = step(fault, ops=True)
    check(fault, health)
    if fault.op:
        assert health.first.op == fault.op, str(health)


def test_the_result_that_is_bad_is_told():
    two = Do(lambda x: (x, x / 0))
    health = lamina.inspect(two, torch.rand(2, 3), ops=False, health=True).health
    assert "6 of 6 elements of result number 1, first at [0, 0]" in health.sentence
    with pytest.raises(TypeError, match="n is 'x'"):
        health.tail("x")
    with pytest.raises(ValueError, match="the last -1 calls can't be shown"):
        health.tail(-1)
    assert health.tail(10**12) == health.tail(1)


class Writes(nn.Module):
    """Spoils its first argument, or what is in it, and gives something else."""

    def __init__(self, gives, part=None):
        super().__init__()
        self.gives, self.part = gives, part

    def forward(self, x, **named):
        if self.part is not None:
            return self.part(x[0], at=x[1]), x.reverse()
        x.sub_(x).div_(x)
        return self.gives


@pytest.mark.parametrize("ops", [False, pytest.param(True, marks=observed)])
@pytest.mark.parametrize("gives", [None, torch.ones(2), 3, "itself", "masked"])
def test_an_argument_that_a_layer_writes_to_is_its_result(gives, ops):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.writes = nn.Linear(8, 8), Writes(gives)
            self.deep = Writes(None, Writes(None))
            self.masks = Do(lambda x: x[0].fill_(-math.inf)[:0])
            self.act, self.last = nn.ReLU(), nn.Linear(8, 2)

        def forward(self, x):
            y = self.first(x)
            if gives == "masked":
                z = torch.zeros(2, 8)
                self.masks([z])
                y = y + z.softmax(1).nan_to_num(0.0)[:1]
            elif gives == "itself":
                self.deep([y, x])
            else:
                self.writes(y)
            return self.last(self.act(y))

    with torch.no_grad():
        health = lamina.inspect(Net(), torch.rand(3, 8), health=True, ops=ops).health
    if gives == "masked":
        assert not any(f.own for f in health.findings), health
        return
    path = "deep.part" if gives == "itself" else "writes"
    assert [f.path for f in health.findings] == [path], health
    assert health.first.passed == 2
    if ops:
        assert health.first.op == "aten::div_"
    with torch.inference_mode():
        with lamina.capture(Net(), health=True, ops=ops) as cap:
            pass
        assert not cap.report().health.findings


@observed
def test_what_a_generator_hides_is_known_by_its_operators():
    fault = Fault(hidden, "several", op="aten::div")
    first = step(fault, ops=True).first
    assert (first.path, first.op) == ("several", "aten::div")


@observed
def test_a_hook_is_not_taken_for_the_layer_before():
    assert step(MORE["hook"]).first.op == "a hook or a sum of gradients"
    assert step(MORE["sum of gradients"]).first.op == "a hook or a sum of gradients"


@observed
def test_a_hook_is_not_taken_for_the_write_to_a_slice_before():
    class Written(nn.Module):
        def forward(self, x):
            y = x * 1
            y.register_hook(lambda grad: grad * NAN)
            y = y.clone()
            y[:, 0] = 0
            return y

    first = step(Fault(lambda: (line(Written()), torch.rand(3, 6)), "2")).first
    assert (first.path, first.op) == ("2", "a hook or a sum of gradients")


def test_a_bad_parameter_of_a_layer_with_two_results_is_one_finding():
    class Twice(nn.Linear):
        def forward(self, x):
            return super().forward(x), super().forward(x) * 2

    layer = Twice(6, 6)
    with torch.no_grad():
        layer.weight[0, 0] = NAN
    health = lamina.inspect(layer, torch.rand(3, 6), health=True, ops=False).health
    assert (health.first.owned, health.first.times) == ("weight", 1)


# -- what is no finding ----------------------------------------------------------------------------------


def sound():
    mask = torch.full((5, 5), -INF).triu(1)
    return Calls(
        lambda self, x: self.fc(self.soft(self.score(x) + mask) @ x),
        score=Do(lambda x: x @ x.transpose(1, 2)),
        soft=nn.Softmax(-1),
        fc=nn.Linear(8, 2),
    ), torch.rand(2, 5, 8)


def mask_module():
    return Calls(
        lambda self, x: self.att(x, x, x, attn_mask=self.mask(x))[0],
        mask=Do(lambda x: torch.full((5, 5), -INF).triu(1)),
        att=nn.MultiheadAttention(8, 2, batch_first=True),
    ), torch.rand(2, 5, 8)


SOUND = {
    "plain": chain(torch.relu),
    "scores": sound,
    "a layer that makes masks": mask_module,
    "a layer of masked scores": lambda: (
        nn.Sequential(Do(lambda x: x.masked_fill(x > 0.5, -INF)), nn.Softmax(1), nn.Linear(6, 2)),
        torch.linspace(0, 1, 18).view(6, 3).T,  # no row is masked whole: softmax would make it NaN
    ),
    "cleaned up": chain(lambda x: torch.nan_to_num(torch.log(x - 2))),
    "chosen from": chain(lambda x: torch.where(x > 9, torch.log(x - 9), x)),
    "memory that is not written to": chain(lambda x: torch.empty(1000, 1000).fill_(2).mean() * x),
    "whole numbers": lambda: (nn.Embedding(5, 3), torch.tensor([1, 2])),
    "no elements": lambda: (nn.Linear(4, 2), torch.rand(0, 4)),
    "expanded": lambda: (nn.Linear(4, 2), torch.rand(1, 4).expand(9, 4)),
    "conjugate": lambda: (Do(lambda x: torch.conj(torch.complex(x, x))), torch.rand(3)),
    "sparse": lambda: (Do(lambda x: torch.eye(3).to_sparse()), torch.rand(3)),
}


@pytest.mark.parametrize("ops", [False, pytest.param(True, marks=observed)])
@pytest.mark.parametrize("name", SOUND)
def test_what_is_no_finding(name, ops):
    model, x = SOUND[name]()
    with lamina.capture(model, health=True, ops=ops) as cap:
        y = model(x)
        if isinstance(y, torch.Tensor) and y.requires_grad and name not in ("cleaned up", "chosen from"):
            y.sum().backward()
    health = cap.report().health
    assert health.ok, str(health)
    nothing = name == "no elements" and bool(support.nodes())
    assert health.sentence.startswith("nothing was there" if nothing else "no NaN or Inf in "), (
        health.sentence
    )


@observed
def test_a_view_of_memory_that_nobody_wrote_yet_is_no_finding():
    memory = torch.frombuffer(bytearray(b"\0" * 4 + b"\xff" * 68), dtype=torch.float32)  # 0, and NaN
    model, x = chain(torch.relu)()
    with lamina.capture(model, health=True, ops=True) as cap:
        result = memory[:1].as_strided((3, 6), (6, 1))  # as reductions do with the memory of what they give
        result.zero_()
        model(x)
    assert cap.report().health.ok, cap.report().health


def test_what_comes_in_is_told():
    health = lamina.inspect(*nan_input(), health=True).health
    assert health.first.input
    assert health.first.first == (1, 2)
    assert health.sentence.startswith("NaN came in with an input of the model (Sequential), number 0")
    assert [call.forward for call in health.calls] == ["passed"] * 3


def test_allowed_by_pattern_and_by_type():
    build = chain(lambda x: x.masked_fill(x > -9, INF))
    for allow in ("2", ["nothing", "*2"], Do):
        model, x = build()
        health = lamina.inspect(model, x, health=True, health_allow=allow).health
        assert not health.ok  # the layers after it make NaN of it
        assert health.first.path == "3"
    model, x = SOUND["a layer that makes masks"]()
    model.mask.work = lambda x: torch.full((5, 5), INF).tril(-1) * -1
    assert lamina.inspect(model, x, health=True, health_allow="mask").health.ok


def test_the_sentence():
    health = step(Fault(chain(lambda x: x.index_fill(1, torch.tensor([4]), NAN)), "2"), ops=False)
    assert health.sentence == (
        "NaN first in 2 (Do), forward call 1: 3 of 18 elements, first at [0, 4]; 2 later layers pass it on"
    )
    first = health.first
    assert (first.nan, first.inf, first.first, first.shape) == (3, 0, (0, 4), (3, 6))
    assert (first.value, first.dtype, first.call, first.passed) == ("NaN", "float32", 1, 2)


def test_again_and_again_is_one_finding():
    model, x = chain(lambda x: torch.log(x - 2))()
    with lamina.capture(model, health=True) as cap:
        for _ in range(5):
            with torch.no_grad():
                model(x)
    health = cap.report().health
    assert len(health.findings) == 1
    assert health.first.times == 5


@observed
def test_a_training_loop_that_breaks_names_the_first_step():
    """The weights are NaN after the first bad step, and everything after it is its doing."""
    torch.manual_seed(0)
    calls = []

    def work(x):
        calls.append(None)
        return torch.log(x - 2) if len(calls) == 3 else x

    model = line(Do(work))
    opt = torch.optim.SGD(model.parameters(), 0.01)
    with lamina.capture(model, health=True) as cap:
        for _ in range(5):
            opt.zero_grad()
            model(torch.rand(3, 6)).sum().backward()
            opt.step()
    health = cap.report().health
    assert (health.first.path, health.first.call) == ("2", 3)
    assert all(finding.explained for finding in health.findings[1:]), str(health)


# -- what is looked at, and how often ----------------------------------------------------------------------


def test_what_was_looked_at_is_not_looked_at_again():
    big = torch.rand(64, 512)
    deep = nn.Sequential(nn.Sequential(nn.Sequential(nn.ReLU())))
    health = lamina.inspect(deep, big, ops=False, health=True).health
    assert health.bytes == 2 * big.nbytes  # what went in and what came out, once


def test_what_changes_in_place_is_looked_at_again():
    model = nn.Sequential(nn.Identity(), Do(lambda x: x.mul_(INF)), nn.Identity())
    health = lamina.inspect(model, torch.rand(64, 512), health=True).health
    assert health.first.path == "1"


def test_what_can_not_be_looked_at_is_unknown():
    model = nn.Sequential(nn.Identity(), Do(lambda x: x.to_mkldnn()), Do(lambda x: x.to_dense()))
    health = lamina.inspect(model, torch.eye(3), health=True).health
    assert health.unseen >= 2
    assert [call.forward for call in health.calls] == ["fine", "fine", "unknown", "fine"]


OLDER = "; it may be older: an input there could not be checked"


@pytest.mark.parametrize("ops", [False, pytest.param(True, marks=observed)])
def test_values_after_what_can_not_be_looked_at_may_be_older(ops):
    layers = [Do(lambda x: x.to_mkldnn()), Do(lambda x: x * INF), Do(lambda x: x.to_dense())]
    model = nn.Sequential(*layers)
    with lamina.capture(model, health=True, ops=ops) as cap:
        model(torch.rand(3, 3) + 1)
    health = cap.report().health
    assert health.first.path == "2" and health.sentence.endswith(OLDER)


@observed
def test_values_are_followed_through_what_can_not_be_looked_at():
    layers = [Do(lambda x: (x * INF).to_mkldnn()), Do(lambda x: x.relu()), Do(lambda x: x.to_dense())]
    health = lamina.inspect(nn.Sequential(*layers), torch.rand(3, 3) + 1, health=True).health
    assert (health.first.path, health.first.op) == ("0", "aten::mul") and OLDER not in health.sentence


def dense_of(x):
    return x.to_dense() if x.layout != torch.strided else x


WITH_A_NAN = torch.eye(4).masked_fill(torch.eye(4).roll(1, 0) > 0, NAN)
STORED = {
    "coordinates": (lambda x: (x / 0).to_sparse(), "aten::div"),
    "rows": (lambda x: (x / 0).to_sparse_csr() @ x, "aten::div"),
    "columns": (lambda x: (x / 0).to_sparse_csc(), "aten::div"),
    "blocks": (lambda x: (x / 0).to_sparse_bsr((2, 2)), "aten::div"),
    "from values": (
        lambda x: torch.sparse.mm(torch.sparse_coo_tensor([[0, 1], [2, 3]], x[0, :2] / 0, (4, 4)), x),
        "aten::div",
    ),
    "made sparse": (lambda x: x.to_sparse() / 0, "aten::div"),
    "of compressed rows": (lambda x: x.to_sparse_csr() * INF, "aten::mul"),
    "in place": (lambda x: x.to_sparse().mul_(INF), "aten::mul"),
    "log1p": (lambda x: (x * 0 - 2).to_sparse().log1p(), "aten::log1p"),
    "sum": (lambda x: torch.sparse.sum((x / 0).to_sparse(), 1), "aten::div"),
    "softmax": (lambda x: torch.sparse.softmax((x / 0).to_sparse(), 1), "aten::div"),
    "mask": (lambda x: (x / 0).sparse_mask(torch.ones(4, 4).to_sparse()), "aten::div"),
    "added": (lambda x: (x / 0).to_sparse() + x.to_sparse(), "aten::div"),
    "transposed": (lambda x: torch.sparse.mm((x / 0).to_sparse().t(), x), "aten::div"),
    "sampled": (
        lambda x: torch.sparse.sampled_addmm(torch.ones(4, 4).to_sparse_csr(), x / 0, x),
        "aten::div",
    ),
    "read sparse": (lambda x: torch.sparse.mm(x.to_sparse(), x).neg().log(), "aten::log"),
    "nested": (lambda x: torch.nested.as_nested_tensor([x / 0, x[:2]]).to_padded_tensor(0.0), "aten::div"),
    "in nested": (
        lambda x: (torch.nested.as_nested_tensor([x, x[:2]]) * INF).to_padded_tensor(0.0),
        "aten::mul",
    ),
    "jagged": (
        lambda x: torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged).mul(INF).to_padded_tensor(0.0),
        "aten::mul",
    ),
    "complex": (lambda x: (torch.complex(x, x) / 0).abs(), "aten::div"),
    "complex, by a kernel": (lambda x: (torch.complex(x, x) * 2.2e38).abs() + 1, "aten::abs"),
    "complex -Inf": (lambda x: (torch.complex(x, x) * 0).log().abs(), "aten::log"),
}


@observed
@pytest.mark.parametrize("name", STORED)
@pytest.mark.filterwarnings("ignore")  # torch calls some of these a beta or a prototype
def test_values_that_are_stored_otherwise(name):
    work, op = STORED[name]
    model = nn.Sequential(nn.Identity(), Do(work), Do(dense_of))
    health = lamina.inspect(model, torch.rand(4, 4) + 0.5, health=True).health
    assert (health.first.path, health.first.op) == ("1", op), health.sentence
    assert OLDER not in health.sentence


@observed
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["coo", "csr", "nested"])
def test_values_stored_otherwise_that_come_in(form):
    x = {
        "coo": WITH_A_NAN.to_sparse,
        "csr": WITH_A_NAN.to_sparse_csr,
        "nested": lambda: torch.nested.nested_tensor([WITH_A_NAN, torch.eye(4)]),
    }[form]()
    layer = Do(lambda a: a.to_padded_tensor(0.0) if a.is_nested else a @ torch.eye(4))
    health = lamina.inspect(layer, x, health=True).health
    assert health.first.input and health.sentence.startswith("NaN came in with an input of the model (Do)")


@observed
@pytest.mark.filterwarnings("ignore")
def test_a_sparse_parameter_has_it():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(WITH_A_NAN.to_sparse())

        def forward(self, x):
            return torch.sparse.mm(self.w, x)

    health = lamina.inspect(Sparse(), torch.rand(4, 2), health=True).health
    assert health.first.owned == "w" and "4 of 16 elements" in health.sentence


@observed
def test_parts_of_complex_numbers_are_counted():
    health = lamina.inspect(Do(lambda x: torch.complex(x, x) / 0), torch.rand(2, 2) + 1, health=True).health
    assert "8 of 8 real and imaginary parts, first at [0, 0]" in health.sentence


@pytest.mark.filterwarnings("ignore")
def test_wrapped_sparse_tensors_are_not_read_beyond_their_end():
    def gradient(x):
        return torch.func.grad(lambda v: torch.sparse.mm(torch.eye(4).to_sparse(), v).log().sum())(x)

    health = lamina.inspect(Do(gradient), torch.zeros(4, 4), health=True).health
    assert health.first.value == "-Inf"


class Stands(torch.Tensor):
    """For a part of a longer tensor, as a sharded gradient may; it has no memory of its own."""

    @staticmethod
    def __new__(cls, part):
        return torch.Tensor._make_wrapper_subclass(cls, part.shape, part.stride(), 128, dtype=part.dtype)

    def __init__(self, part):
        self.part = part

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*[each.part if isinstance(each, cls) else each for each in args], **kwargs or {})


def test_a_tensor_that_stands_for_another_is_not_read():
    with lamina.capture(nn.Identity(), health=True) as cap:
        Stands(torch.ones(4, 4)) / 0
    assert cap.report().health.first.op == "aten::div"


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"]
)
@pytest.mark.parametrize("view", ["whole", "transposed", "stepped", "one of many"])
def test_every_type_and_view(dtype, view):
    kind = getattr(torch, dtype, None)
    if kind is None:
        pytest.skip("this torch has no such type")
    x = torch.ones(8, 6, 4)
    x[5, 2, 3] = NAN
    x = x.to(kind)
    views = {
        "whole": lambda x: x,
        "transposed": lambda x: x.permute(2, 0, 1),
        "stepped": lambda x: x[1::2, ::2, 1::2],
        "one of many": lambda x: x[5],
    }
    health = lamina.inspect(Do(lambda x: views[view](x)), x, health=True).health
    assert health.first.input
    only = lamina.inspect(Do(lambda _: views[view](x)), torch.ones(1), health=True).health
    assert only.first.nan == 1
    at = {"whole": (5, 2, 3), "transposed": (3, 5, 2), "stepped": (2, 1, 1), "one of many": (2, 3)}
    assert only.first.first == at[view]


def test_statistics():
    x = torch.tensor([[0.0, 2.0], [-4.0, 1e-45]])
    call = lamina.inspect(nn.Identity(), x, stats=True).health.calls[0]
    stats = call.stats[0]
    assert (stats.numbers, stats.zeros, stats.subnormal, stats.nan, stats.inf) == (4, 1, 1, 0, 0)
    assert (stats.least, stats.greatest, stats.mean) == (-4, 2, -0.5)
    assert stats.headroom == pytest.approx(126)
    turned = torch._neg_view(x)  # its memory has the other sign, as that of z.conj().imag
    stats = lamina.inspect(nn.Identity(), turned, stats=True).health.calls[0].stats[0]
    assert (stats.least, stats.greatest, stats.mean) == (-2, 4, 0.5)
    nothing = lamina.inspect(nn.Identity(), turned * NAN, stats=True).health.calls[0].stats[0]
    assert math.isnan(nothing.least) and math.isnan(nothing.greatest)
    assert lamina.inspect(nn.Identity(), torch.tensor([1]), stats=True).health.calls[0].stats == (None,)
    assert math.isnan(lamina.inspect(nn.Identity(), x * NAN, stats=True).health.calls[0].stats[0].mean)


# -- checks of one's own -----------------------------------------------------------------------------------


def test_checks_by_pattern_and_by_type():
    seen = []

    def large(path, module, output):
        seen.append((path, type(module).__name__))
        return f"{output.abs().max():.1f} is large" if output.abs().max() > 5 else None

    def fails(path, module, output):
        raise ValueError("not this one")

    model = nn.Sequential(nn.Identity(), Do(lambda x: x * 10), nn.ReLU())
    health = lamina.inspect(
        model, torch.ones(2, 2), checks={"1": large, nn.Identity: large, "2": fails, "9*": fails}
    ).health
    assert seen == [("0", "Identity"), ("1", "Do")]
    assert [(f.path, f.check) for f in health.findings] == [("1", "1"), ("2", "2")]
    assert health.findings[0].text == "1 (Do), call 1, 1: 10.0 is large"
    assert health.findings[1].text == "2 (ReLU), call 1, 2: ValueError: not this one"
    assert health.calls[2].forward == "fine"


def test_wrong_options_are_refused():
    with pytest.raises(TypeError, match="names no layers"):
        lamina.capture(nn.ReLU(), health=True, health_allow=[3])
    with pytest.raises(TypeError, match="can't be called"):
        lamina.capture(nn.ReLU(), checks={"*": 3})
    with pytest.raises(ValueError, match="dry run computes no values"):
        lamina.inspect(nn.ReLU(), torch.rand(1), health=True, dry=True)
    with pytest.raises(ValueError, match="were not checked"):
        _ = lamina.inspect(nn.ReLU(), torch.rand(1)).health


# -- the last calls ----------------------------------------------------------------------------------------


def test_the_last_calls_are_printed_when_something_is_found(capsys):
    model, x = chain(lambda x: torch.log(x - 2))()
    lamina.inspect(model, x, health=True, ring=2)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("lamina: NaN first in 2 (Do)")
    assert told[1] == "lamina: the last calls:"
    assert told[2].startswith("1 (Tanh) call 1: 3x6 -> 3x6")
    assert told[3].startswith("2 (Do) call 1: 3x6 -> 3x6")
    assert told[3].endswith("born here")
    assert len(told) == 4


def test_the_last_calls_are_printed_when_the_block_raises(capsys):
    model = line(Do(lambda x: x.nothing))
    with pytest.raises(AttributeError), lamina.capture(model, ring=3, stats=True):
        model(torch.rand(3, 6))
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("lamina: AttributeError: ")
    assert told[-1].endswith("raised")
    assert " to " in told[-2]


@pytest.mark.parametrize("calls", [True, False], ids=["layers", "operators"])
def test_what_c_raises_is_told_by_its_type(capsys, calls):
    """Before Python 3.12 that is no exception yet while it passes."""
    model = line(Do(lambda x: {}["absent"])) if calls else nn.Linear(5, 2)
    with pytest.raises((KeyError, RuntimeError)) as raised, lamina.capture(model, health=True, ring=1):
        model(torch.rand(1, 6 if calls else 3))
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"lamina: {raised.type.__name__}: {raised.value}"


def test_they_are_printed_when_it_breaks_and_once(capsys):
    model, x = chain(lambda x: torch.log(x - 2))()
    with lamina.capture(model, health=True, ring=9) as cap:
        model(x)
        told = capsys.readouterr().err.splitlines()
        model(x)
    assert not capsys.readouterr().err
    assert told[0].startswith("lamina: NaN first in 2 (Do)")
    assert told[2].startswith("the model (")
    assert told[2].endswith("-> ?  not over")
    assert told[-1].endswith("born here")
    assert cap.report().health.tail(1).endswith("born here\n")
    assert cap.report().health.first.times == 2


@observed
def test_they_are_printed_once_a_backward_has_ended(capsys):
    model = nn.Sequential(
        nn.Linear(6, 6), Do(lambda x: x + (x * 0).pow(2).sum(1, keepdim=True).sqrt()), nn.Linear(6, 2)
    )
    with lamina.capture(model, health=True, ring=2):
        model(torch.rand(3, 6)).sum().backward()
        told = capsys.readouterr().err.splitlines()
        model(torch.rand(3, 6))
    assert not capsys.readouterr().err
    assert "in the backward of 1 (Do)" in told[0]
    assert len(told) == 4


def test_another_threads_are_printed_at_its_next_call(capsys):
    model = nn.Sequential(nn.Linear(6, 6), Do(lambda x: x / 0), nn.Linear(6, 2))

    def run() -> None:
        with lamina.capture(model, health=True, ring=2):
            model(torch.rand(3, 6))
            assert "1 (Do)" in capsys.readouterr().err

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not capsys.readouterr().err


def test_what_a_layer_around_it_caught_did_not_break(capsys):
    model = line(Do(lambda x: x.nothing))

    class Around(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x):
            with contextlib.suppress(AttributeError):
                self.inner(x)
            return x

    around = Around()
    with lamina.capture(around, health=True, ring=3):
        around(torch.rand(3, 6))
    assert not capsys.readouterr().err
    with lamina.capture(model, health=True, ring=3):
        with contextlib.suppress(AttributeError):
            model(torch.rand(3, 6))
        told = capsys.readouterr().err.splitlines()
        with contextlib.suppress(AttributeError):
            model(torch.rand(3, 6))
    assert told[0].startswith("lamina: AttributeError: ")
    assert told[-1].endswith("raised")
    assert not capsys.readouterr().err


def test_a_mask_that_turns_out_to_be_none_is_told_when_that_is_known(capsys):
    mask = Do(lambda x: x.masked_fill(x > -9, float("-inf")))
    model = nn.Sequential(mask, Do(lambda x: x * 0))
    with lamina.capture(model, health=True, ring=3):
        mask(torch.rand(3, 6))
        assert not capsys.readouterr().err
        model(torch.rand(3, 6))
        assert capsys.readouterr().err.startswith("lamina: ")


def test_standard_error_may_be_missing(monkeypatch):
    model, x = chain(lambda x: torch.log(x - 2))()
    monkeypatch.setattr(sys, "stderr", None)
    assert not lamina.inspect(model, x, health=True, ring=2).health.ok


def test_nothing_is_printed_when_all_is_well(capsys):
    lamina.inspect(nn.ReLU(), torch.rand(3), health=True, ring=5)
    assert not capsys.readouterr().err


# -- what it leaves ------------------------------------------------------------------------------------------


def test_nothing_is_kept_alive():
    model = nn.Sequential(nn.Linear(600, 600), nn.ReLU())
    kept = []
    with lamina.capture(model, health=True, stats=True) as cap:
        y = model(torch.rand(64, 600))
        kept.append(weakref.ref(y))
        y.sum().backward()
        del y
        gc.collect()
        assert kept[0]() is None
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    del cap
    gc.collect()
    assert set(grads) == {"0.weight", "0.bias"}
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


def test_results_are_untouched():
    torch.manual_seed(0)
    model, x = line(Do(torch.relu)), torch.rand(3, 6)
    plain = model(x)
    with lamina.capture(model, health=True, stats=True):
        looked = model(x)
    assert torch.equal(plain, looked)
    assert looked.grad_fn is not None


# -- tables, JSON and the command ----------------------------------------------------------------------------


def test_the_table_and_json_tell_it():
    import json

    model, x = chain(lambda x: torch.log(x - 2))()
    report = lamina.inspect(model, x, health=True, stats=True)
    lines = str(report).splitlines()
    assert next(line for line in lines if "─ 2 (Do)" in line).endswith("born here")
    assert next(line for line in lines if "3 (Linear)" in line).endswith("passed on")
    assert any(line.startswith("health     NaN first in 2 (Do)") for line in lines)
    told = json.loads(report.to_json())
    assert told["health"]["findings"][0]["path"] == "2"
    assert [row["health"]["forward"] for row in told["rows"]] == [c.forward for c in report.health.calls]
    assert told["rows"][1]["health"]["stats"][0]["numbers"] == 18
    assert "health" not in json.loads(lamina.inspect(model, x).to_json())


def test_csv_tells_it():
    import csv

    model, x = chain(lambda x: torch.log(x - 2))()
    report = lamina.inspect(model, x, health=True, stats=True)
    *rows, whole = csv.DictReader(report.to_csv().splitlines())
    assert whole["status"] == "total" and whole["health"] == whole["least"] == ""
    assert [row["health"] for row in rows] == [call.forward for call in report.health.calls]
    assert {row["backward_health"] for row in rows} == {call.backward for call in report.health.calls}
    first, born = rows[1], rows[3]
    stats = report.health.calls[1].stats[0]
    assert float(first["least"]) == pytest.approx(stats.least)
    assert float(first["greatest"]) == pytest.approx(stats.greatest)
    assert float(first["mean"]) == pytest.approx(stats.mean)
    assert float(first["headroom"]) == pytest.approx(stats.headroom)
    assert (first["zeros"], first["subnormal"]) == ("0", "0")
    assert born["least"] == born["mean"] == ""  # all of it is NaN
    assert born["zeros"] == "0"
    plain = lamina.inspect(model, x, health=True).to_csv()
    assert next(csv.DictReader(plain.splitlines()))["least"] == ""
    assert "health" not in lamina.inspect(model, x).to_csv().splitlines()[0]


def test_the_command_says_so_with_its_exit_code(tmp_path):
    (tmp_path / "nets.py").write_text(
        "from torch import nn\n"
        "class Bad(nn.Module):\n"
        "    def forward(self, x):\n"
        "        return (x - 2).log()\n",
        "utf-8",
    )
    for name, code, told in (("nets.py:Bad", 1, "NaN first in"), ("torch.nn:Tanh", 0, "no NaN or Inf in ")):
        done = warm.lamina(["show", name, "-i", "2x3", "--health"], cwd=tmp_path, env=environment())
        assert done.returncode == code, done.stderr
        assert told in done.stdout
    command = ["show", "torch.nn:Tanh", "-i", "2x3", "--health", "--dry"]
    assert warm.lamina(command, cwd=tmp_path, env=environment()).returncode == 2


def test_a_capture_that_looked_at_no_values_has_no_last_calls():
    with lamina.capture(net := nn.Linear(2, 2)) as watch:
        net(torch.rand(1, 2))
    assert watch._model.health() is None
    with pytest.raises(ValueError, match="values were not checked"):
        watch._model.health_tail(3)


class OfAUser(torch.Tensor):
    """Memory of its own, and operators by Python."""

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            result = function(*args, **(kwargs or {}))
            return result.as_subclass(cls) if function is torch.ops.aten.detach.default else result


@pytest.mark.skipif(not hasattr(torch._C, "_is_cow_tensor"), reason="this torch has no copy on write")
@pytest.mark.parametrize("kind", [torch.Tensor, OfAUser])
@pytest.mark.parametrize("options", [{}, {"memory": True}, {"health": True}], ids=str)
@pytest.mark.parametrize("way", ["capture", "inspect", "watch"])
def test_memory_that_is_shared_until_it_is_written_to_stays_shared(way, options, kind, tmp_path):
    x, weight = torch.rand(2, 4), torch.rand(3, 4)
    given, own, model = torch._lazy_clone(x), torch._lazy_clone(weight), nn.Linear(4, 3)
    model.weight = nn.Parameter(own.as_subclass(kind))
    if way == "inspect":
        report = lamina.inspect(model, given, **options)
        assert report.rows[0].params == 15
    elif way == "watch":
        with lamina.watch(model, file=tmp_path / "steps.lamina", every=1, **options):
            model(given)
    else:
        with lamina.capture(model, **options) as watch:
            model(given)
        assert watch.report().rows
    assert torch._C._is_cow_tensor(given)
    assert torch._C._is_cow_tensor(own)
