# SPDX-License-Identifier: Apache-2.0
"""Rules of the user's own: registered, from a file, from torch's registry, and strict reports."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import product
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import lamina  # noqa: E402
from lamina import _lamina  # noqa: E402
from lamina._base import errors  # noqa: E402
from lamina._observe import support  # noqa: E402
from lamina._results import rules  # noqa: E402

needs_ops = pytest.mark.skipif(support.way().name == "calls", reason=f"no operators: {support.way().why}")


@pytest.fixture(autouse=True)
def nothing_registered():
    """Each test begins and ends without a rule."""
    rules._rules.clear()
    yield
    rules._rules.clear()


@pytest.fixture(scope="module")
def op():
    """An operator whose kernel does its work unseen, as a compiled one does."""

    schema = "(Tensor x, Tensor y, int times, str note) -> Tensor"

    @torch.library.custom_op("lamina_test_own::mul", mutates_args=(), schema=schema)
    def mul(x, y, times, note):
        return torch.from_numpy(x.detach().numpy() @ y.detach().numpy() * times)

    return mul


class Mine(nn.Module):
    def __init__(self, op=None):
        super().__init__()
        self.op = op
        self.y = nn.Parameter(torch.ones(4, 5))

    def forward(self, x):
        return x if self.op is None else self.op(x, self.y, 7, "seven")


@pytest.fixture
def net(op):
    return nn.Sequential(nn.Linear(3, 4), Mine(op))


X = torch.ones(2, 3)


def exact(net, **options):
    return lamina.inspect(net, X, convention="exact", **options)


# -- operators -----------------------------------------------------------------------------------------------


@needs_ops
def test_a_function_may_return_a_count(net):
    def told(count):
        return lambda inputs, outputs: count

    with lamina.registered("lamina_test_own::mul", macs=told(lamina.Count(5, "at least"))):
        report = exact(net)
    assert str(report.rows[-1].macs) == ">= 5"
    assert str(report.macs) == str(sum(row.macs for row in report.rows)) == ">= 29"
    assert "the rule of lamina_test_own::mul is a lower bound" in "".join(report.gaps)
    with lamina.registered("lamina_test_own::mul", macs=told(lamina.Count(0, "unknown"))):
        report = exact(net)
    assert (str(report.rows[-1].macs), str(report.macs)) == ("?", ">= 24")
    assert str(sum(row.macs for row in report.rows)) == ">= 24"
    with lamina.registered("lamina_test_own::mul", macs=told(lamina.Count(5))):
        assert str(exact(net).macs) == "29"


@needs_ops
def test_a_rule_may_be_a_lower_bound(net):
    with lamina.registered("lamina_test_own::mul", macs="least(5)", flops="2*macs+1"):
        report = exact(net)
    assert (report.macs, report.macs.state) == (24 + 5, "at least")
    assert (report.flops, report.flops.state) == (2 * 24 + 11, "at least")
    assert not report.unruled_ops
    assert any("the rule of lamina_test_own::mul is a lower bound" in gap for gap in report.gaps)


@needs_ops
def test_without_a_rule_the_total_is_a_lower_bound_by_name(net):
    report = exact(net)
    assert report.unruled_ops == {"lamina_test_own::mul": 1}
    assert report.macs == 24
    assert report.macs.state == "at least"
    [row] = [row for row in report.rows if row.path == "1"]
    assert row.macs.state == "unknown"
    assert row.reason == "no rule for the operator lamina_test_own::mul"
    assert "has no rule: lamina_test_own::mul (1)" in str(report)
    assert "lamina_test_own::mul" in report.to_json()


@needs_ops
def test_a_formula(net, op):
    lamina.register(op, macs="out*x_last", flops="2*macs")
    report = exact(net)
    assert report.unruled_ops == {}
    assert report.gaps == []
    assert (report.macs, report.macs.state) == (24 + 2 * 4 * 5, "exact")
    assert report.flops == 2 * 24 + 2 * 2 * 4 * 5
    [row] = [row for row in report.rows if row.path == "1"]
    assert row.dmas == 2 * 4 + 4 * 5 + 2 * 5  # each tensor once, where nothing else is said
    assert (row.bytes_read, row.bytes_written) == (4 * (8 + 20), 4 * 10)
    assert row.effective_macs == row.macs
    line = next(w for w in report.why("1") if w["note"] == "lamina_test_own::mul")
    assert (line["formula"], line["substituted"]) == ("out*x_last", "10 \u00d7 4")
    assert report.under("layers").convention == "layers"


@needs_ops
def test_a_number_and_an_argument(net, op):
    lamina.register("lamina_test_own::mul", macs=1000, flops="arg2", dmas=0)
    report = exact(net)
    assert (report.macs, report.flops) == (1024, 48 + 7)


@needs_ops
def test_functions(net, op):
    asked = []

    def macs(inputs, outputs):
        asked.append((inputs, outputs))
        return outputs[0][0] * outputs[0][1] * inputs[0][1]

    def flops(inputs, outputs, *, times, **others):
        assert others.pop("note", "seven") == "seven"
        return times

    lamina.register(op, macs=macs, flops=flops, dmas=lambda inputs, outputs: None)
    report = exact(net)
    assert asked == [(((2, 4), (4, 5)), ((2, 5),))]
    assert report.macs == 64
    assert report.flops == 48 + 7
    assert report.dmas.state == "at least"
    assert any("your rule for lamina_test_own::mul gives no dmas" in gap for gap in report.gaps)


@needs_ops
def test_a_function_that_raises(net, op):
    def macs(inputs, outputs):
        raise ZeroDivisionError("no rows")

    with lamina.registered(op, macs=macs), pytest.raises(RuntimeError) as caught:
        exact(net)
    assert "macs of lamina_test_own::mul raised ZeroDivisionError: no rows" in str(caught.value)
    assert isinstance(caught.value, lamina.LaminaError)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    for wrong in (1.5, "3", -1, True):
        with lamina.registered(op, macs=lambda i, o, w=wrong: w), pytest.raises(RuntimeError, match="gave"):
            exact(net)
    assert exact(net).unruled_ops == {"lamina_test_own::mul": 1}


@needs_ops
def test_names_of_operators(net, op):
    packet = torch.ops.lamina_test_own.mul
    for name in (op, packet, packet.default, "lamina_test_own::mul", "lamina_test_own::mul.default"):
        with lamina.registered(name, macs=1, flops=2):
            assert exact(net).macs == 25
        assert rules._rules == {}
    for wrong in (3, None, nn.Linear(1, 1), "", "a b", "lamina_test_own::"):
        with pytest.raises((TypeError, ValueError)):
            lamina.register(wrong, macs=1)


@needs_ops
def test_it_wins_over_ours_and_counts_all_inside():
    net = nn.Linear(3, 4)
    with lamina.registered("aten::linear", macs=5, flops=6, dmas=7):
        report = exact(net)
        assert (report.macs, report.flops, report.dmas) == (5, 6, 7)
    with lamina.registered(torch.ops.aten.addmm, macs="2*out*red"):
        assert exact(net).macs == 48
    assert exact(net).macs == 24


@needs_ops
def test_a_backward_operator():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    with lamina.registered("aten::tanh_backward", macs=0, flops="100*out"):
        report = exact(net, backward=True)
    assert report.backward.flops - exact(net, backward=True).backward.flops == 97 * 8


def test_unregister(op):
    lamina.register(op, macs=1)
    lamina.unregister(op)
    with pytest.raises(KeyError, match="lamina_test_own::mul"):
        lamina.unregister(op)


def test_registered_puts_back(op):
    lamina.register(op, macs=1)
    with lamina.registered(op, macs=2):
        assert rules._rules["lamina_test_own::mul"].formulas["macs"] == "2"
    assert rules._rules["lamina_test_own::mul"].formulas["macs"] == "1"


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({}, "give macs, flops, dmas, bytes_read or bytes_written"),
        ({"macs": -1}, "not negative"),
        ({"macs": True}, "is True"),
        ({"macs": 1.5}, "is 1.5"),
        ({"macs": "out*"}, "expected a number, a name or"),
        ({"macs": "nosuch"}, "a name that is not a fact"),
        ({"flops": "2*macs"}, "macs is not given"),
    ],
)
def test_wrong_values(values, part):
    with pytest.raises((TypeError, ValueError)) as caught:
        lamina.register("mylib::op", **values)
    assert part in str(caught.value)
    assert rules._rules == {}


# -- layers --------------------------------------------------------------------------------------------------


def test_layers():
    net = nn.Sequential(nn.Linear(3, 4), Mine())
    plain = lamina.inspect(net, X, convention="layers")
    assert plain.unruled == {"Mine": 1}
    for name, convention in product((Mine, "Mine", f"{Mine.__module__}.Mine"), (None, "layers")):
        with lamina.registered(name, macs="out*5", flops="2*macs", dmas="ins+outs+params"):
            report = lamina.inspect(net, X, convention=convention)
            lines = report.why("1")
        assert lines[0]["formula"] == "out*5"
        assert report.unruled == {}
        assert report.macs == 24 + 8 * 5
        assert report.rows[-1]["rule_kind"] in (name, f"{Mine.__module__}.Mine")
        assert report.rows[-1].dmas == 8 + 8 + 20
    with lamina.registered("Mine", macs=lambda inputs, outputs: inputs[0][0] * 100):
        assert lamina.inspect(net, X).macs == 24 + 200


def test_bytes_of_a_layer():
    net = nn.Sequential(nn.Linear(3, 4), Mine()).double()
    linear = lamina.inspect(nn.Sequential(nn.Linear(3, 4)).double(), X.double())
    with lamina.registered("Mine", macs=40, bytes_read="ins_bytes+params_bytes", bytes_written="outs_bytes"):
        report = lamina.inspect(net, X.double())
    assert (report.bytes_read, report.bytes_read.state) == (linear.bytes_read + 8 * (8 + 20), "exact")
    assert (report.bytes_written, report.bytes_written.state) == (linear.bytes_written + 8 * 8, "exact")
    with lamina.registered("Mine", macs=40, bytes_read=lambda inputs, outputs: inputs[0][0]):
        report = lamina.inspect(net, X.double())
    assert (report.bytes_read, report.bytes_read.state) == (linear.bytes_read + 2, "exact")
    assert report.bytes_written.state == "at least"


def test_bytes_of_an_operator():
    with lamina.registered("aten::linear", macs=5, bytes_read="2*ins_bytes", bytes_written=0):
        report = lamina.inspect(nn.Linear(3, 4), X)
        assert (report.bytes_read, report.bytes_written) == (2 * 4 * (6 + 12 + 4), 0)


def test_the_old_tools_know_no_rules_of_ours():
    net = nn.Linear(3, 4)
    before = lamina.crawl_module(net, (3,))["overall"]
    with lamina.registered("Linear", macs=1, flops=1, dmas=1):
        assert lamina.crawl_module(net, (3,))["overall"] == before
        assert lamina.inspect(net, X).macs == 1


# -- files ---------------------------------------------------------------------------------------------------


def test_a_file(tmp_path):
    path = tmp_path / "my.rules"
    path.write_text("# mine\nMine  macs = 11\n      flops = 2*macs\nother::op flops = 3\n")
    net = nn.Sequential(nn.Linear(3, 4), Mine())
    report = lamina.inspect(net, X, rules=path)
    assert report.macs == 24 + 11
    assert report.under("layers").macs == 24 + 11
    assert rules._rules == {}
    assert lamina.rules_file(path) == ["Mine", "other::op"]
    assert lamina.inspect(net, X).macs == 24 + 11
    lamina.unregister("Mine")
    assert lamina.inspect(net, X).macs == 24
    with lamina.registered("Mine", macs=99):  # the file that is asked for wins
        assert lamina.inspect(net, X, rules=str(path)).macs == 24 + 11
    with lamina.capture(net) as cap:
        net(X)
    assert cap.report(rules=path).macs == 24 + 11


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("Mine macs = 1 +", 1, "expected a number"),
        ("\n\nMine macs = rod", 3, "a name that is not a fact"),
        ("Mine mac = 1", 1, "no metric 'mac'"),
        ("Mine", 1, "gives no number"),
        ("Mine macs = 1\nMine macs = 2", 2, "has a rule already, on line 1"),
        ("= 3", 1, "a rule begins with"),
    ],
)
def test_malformed_files(tmp_path, text, line, part):
    path = tmp_path / "my.rules"
    path.write_text(text)
    net = Mine()
    net.forward = None  # a malformed file is found before the model runs
    for call in (lambda: lamina.rules_file(path), lambda: lamina.inspect(net, X, rules=path)):
        with pytest.raises(ValueError, match=r"my\.rules") as caught:
            call()
        assert f"my.rules:{line}:" in str(caught.value)
        assert part in str(caught.value)
    assert rules._rules == {}


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError):
        lamina.rules_file(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="UTF-8"):
        lamina.rules_file(tmp_path / "bytes")
    (tmp_path / "nul").write_bytes(b"Mine macs = 1\0")
    with pytest.raises(ValueError, match="null"):
        lamina.rules_file(tmp_path / "nul")


# -- strict --------------------------------------------------------------------------------------------------


@needs_ops
def test_strict_operators(net, op):
    with pytest.raises(lamina.NoRuleError) as caught:
        exact(net, strict=True)
    error = caught.value
    assert isinstance(error, ValueError)
    assert "the operator lamina_test_own::mul (1 run)" in str(error)
    assert error.operators == {"lamina_test_own::mul": 1}
    assert error.layers == {}
    assert error.report.macs == 24
    with lamina.registered(op, flops=3):
        assert exact(net, strict=True).flops == 51
    with lamina.capture(net, ops=True) as cap:
        net(X)
        net(X)
    with pytest.raises(lamina.NoRuleError, match=r"\(2 runs\)"):
        cap.report("exact", strict=True)


def test_strict_layers():
    net = nn.Sequential(nn.Linear(3, 4), Mine())
    with pytest.raises(
        lamina.NoRuleError, match=r"no rule in layers for the layer Mine \(1 call\)"
    ) as caught:
        lamina.inspect(net, X, convention="layers", strict=True)
    assert caught.value.report.unruled == {"Mine": 1}
    assert lamina.inspect(nn.Linear(3, 4), X, strict=True).macs == 24


def test_strict_of_a_forward_that_raises():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        lamina.inspect(Broken(), X, strict=True)


# -- torch's registry ----------------------------------------------------------------------------------------


@contextmanager
def flop_formula(op, formula, **options):
    from torch.utils import flop_counter as counter

    before = {*counter.flop_registry}
    counter.register_flop_formula(op._opoverload.overloadpacket, **options)(formula)
    try:
        yield
    finally:
        for added in {*counter.flop_registry} - before:  # the packet, or, by an older torch, its overloads
            del counter.flop_registry[added]
        rules._seen_of_torch = (0, {})


@needs_ops
def test_torchs_flop_formulas(net, op):
    def formula(x_shape, y_shape, times, *args, out_shape=None, **kwargs):
        assert tuple(out_shape) == (2, 5)
        return 2 * x_shape[0] * x_shape[1] * y_shape[1] + times

    with flop_formula(op, formula):
        report = exact(net)
        assert report.unruled_ops == {}
        assert report.flops == 48 + 2 * 2 * 4 * 5 + 7
        assert report.macs.state == "at least"  # how many of them are pairs is not told
        with lamina.registered(op, macs=1, flops=2):
            assert (exact(net).macs, exact(net).flops) == (25, 50)
    assert exact(net).unruled_ops == {"lamina_test_own::mul": 1}


@needs_ops
def test_torchs_raw_flop_formulas(net, op):
    def formula(x, y, *args, out_val=None, **kwargs):
        return x.numel() + out_val.numel()

    with flop_formula(op, formula, get_raw=True):
        assert exact(net).flops == 48 + 8 + 10


@needs_ops
def test_torchs_own_formulas_do_not_replace_ours():
    assert all("aten::" not in name for name in rules._of_torch())
    assert exact(nn.Linear(3, 4)).macs.state == "exact"


# -- the command ---------------------------------------------------------------------------------------------

TARGET = """
import torch
from torch import nn

class Mine(nn.Module):
    def forward(self, x):
        return x

def net():
    return nn.Sequential(nn.Linear(3, 4), Mine(), Mine())
"""


def command(capsys, *args):
    from lamina._command.cli import main

    code = main(list(args))
    out = capsys.readouterr()
    return code, out.out, out.err


def test_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "target.py").write_text(TARGET)
    (tmp_path / "my.rules").write_text("Mine macs = 1000 flops = macs dmas = ins\n")
    (tmp_path / "bad.rules").write_text("Mine macs = 1\nMine2 macs = lots\n")
    run = ("target.py:net", "-i", "2x3", "--exact")
    code, out, err = command(capsys, "show", *run, "-c", "layers", "--strict")
    assert (code, err) == (1, "lamina: error: no rule for the layer Mine (2 calls)\n")
    assert "Linear" in out
    code, out, err = command(capsys, "show", *run, "--strict", "--rules", "my.rules")
    assert (code, err) == (0, "")
    assert "2,024" in out
    code, out, _ = command(capsys, "why", "target.py:net", "1", "-i", "2x3", "--rules=my.rules")
    assert code == 0
    assert "a rule of your own, my.rules:1" in out
    code, out, err = command(capsys, "show", *run, "--rules", "bad.rules")
    assert (code, out) == (2, "")
    assert "bad.rules:2:14: a name that is not a fact" in err
    code, _, err = command(capsys, "show", *run, "--rules", "none.rules")
    assert code == 2
    assert "--rules none.rules: No such file" in err
    (tmp_path / "nul.rules").write_bytes(b"Mine\0 macs = 1")
    assert "it is not text" in command(capsys, "show", *run, "--rules", "nul.rules")[2]


@needs_ops
def test_why_of_a_lone_operator_without_a_rule(net, capsys, monkeypatch):
    """There are no words for what it does."""
    monkeypatch.setitem(sys.modules, "target_of_mine", SimpleNamespace(net=lambda: net))
    code, out, _ = command(capsys, "why", "target_of_mine:net", "1", "-i", "2x3")
    assert code == 0
    assert "\n  lamina_test_own::mul\n  MACs " in out


REGISTERS = """
import lamina
{how}
"""


@pytest.mark.parametrize(
    ("how", "macs"),
    [
        ("lamina.register(Mine, macs='in', flops='2*macs')", "40"),
        ("lamina.register(Mine, macs=lambda inputs, outputs: inputs[0][0] * 100, flops=0)", "424"),
    ],
)
def test_command_counts_by_what_the_target_registers(tmp_path, capsys, monkeypatch, how, macs):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lamina._results.rules._rules", {})
    name = f"registers_{macs}"
    (tmp_path / f"{name}.py").write_text(TARGET + REGISTERS.format(how=how))
    run = (f"{name}.py:net", "-i", "2x3", "-c", "layers")
    code, out, err = command(capsys, "show", *run, "--strict", "--exact")
    assert (code, err) == (0, "")
    assert f"{macs} MACs" in out
    code, out, err = command(capsys, "why", name + ".py:net", "1", *run[1:])
    assert (code, err) == (0, "")
    assert "MACs" in out
    assert "?" not in out.split("MACs")[1].splitlines()[0]
    (tmp_path / "my.rules").write_text(f"{name}.Mine macs = 1000 flops = macs dmas = ins\n")  # which wins
    code, out, _ = command(capsys, "show", *run, "--exact", "--rules", "my.rules")
    assert (code, "2,024 MACs" in out) == (0, True)
    code, out, _ = command(capsys, "why", name + ".py:net", "1", *run[1:], "--rules", "my.rules")
    assert "a rule of your own, my.rules:1" in out


def test_command_reports_a_registered_function_that_raises(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lamina._results.rules._rules", {})
    how = "lamina.register(Mine, macs=lambda inputs, outputs: 1 // 0)"
    (tmp_path / "raises_rule.py").write_text(TARGET + REGISTERS.format(how=how))
    code, out, err = command(capsys, "show", "raises_rule.py:net", "-i", "2x3", "-c", "layers")
    assert code == 3
    assert "Linear" in out
    assert "function registered for macs" in err
    assert "ZeroDivisionError" in err
    assert "internal error" not in err


def test_core_functions():
    assert _lamina.op_kind("aten::addmm") == "product"
    assert _lamina.op_kind("lamina_test_own::none") is None
    assert _lamina.read_rules("A macs = 1 flops = 2*macs", "x") == [("A", {"macs": "1", "flops": "2*(1)"})]
    for wrong in (3, ("a::b",), ("a::b", {"macs": 3}, False), ("a::b", 3, False)):
        with pytest.raises((TypeError, ValueError)):
            _lamina.check_rule(wrong)
    with pytest.raises(errors.FormatError) as told:
        _lamina.check_rule(("a::b", {"macs": "2 + * 3"}, False))
    assert told.value.at == 4
    assert "inspect" in sys.modules
