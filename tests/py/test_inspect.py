# SPDX-License-Identifier: Apache-2.0
"""inspect and capture: the report, its numbers, tables and files."""

from __future__ import annotations

import copy
import json
import pickle
import threading

import nets
import pytest
import torch
from conftest import LIMIT
from torch import nn

import lamina
from lamina import Count
from lamina._observe import support


def x(*shape):
    return torch.rand(*(shape or (1, 4)))


def small():
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))


@pytest.fixture
def report():
    return lamina.inspect(small(), x(1, 3, 8, 8))


# -- Count ---------------------------------------------------------------------------------------------------


def test_count_is_an_int_that_knows_its_state():
    count = Count(1814073344)
    assert (count, str(count), f"{count:,}", count.state) == (
        1814073344,
        "1814073344",
        "1,814,073,344",
        "exact",
    )
    assert (str(Count(5, "at least")), str(Count(0, "unknown")), f"{Count(5000, 'at least'):,}") == (
        ">= 5",
        "?",
        ">= 5,000",
    )
    assert hash(count) == hash(1814073344)
    assert {count: 1}[1814073344] == 1


def test_sums_keep_the_worst_state_and_what_is_known():
    parts = [Count(1), Count(2, "at least"), Count(3)]
    assert (sum(parts), sum(parts).state) == (6, "at least")
    assert (5 + Count(1)).state == (Count(1) + 5).state == "exact"
    unknown = Count(0, "unknown")
    assert str(sum([unknown, Count(0), *parts])) == str(sum([*parts, unknown])) == ">= 6"
    assert str(sum([Count(0), unknown, unknown])) == str(unknown + 0) == "?"
    assert isinstance(Count(1) + 1, Count)


def test_count_pickles_and_copies():
    for count in (Count(7), Count(2**80, "at least"), Count(0, "unknown")):
        for again in (pickle.loads(pickle.dumps(count)), copy.deepcopy(count), eval(repr(count))):
            assert (again, again.state) == (count, count.state)


def test_count_refuses_other_states_and_other_types():
    with pytest.raises(ValueError, match="at least"):
        Count(1, "perhaps")
    with pytest.raises(TypeError):
        Count(1) + "1"


# -- the report ----------------------------------------------------------------------------------------------


def test_totals(report):
    assert report.macs == 8 * 36 * 27 + 288 * 5
    assert report.macs.state == "exact"
    assert report.params == 8 * 27 + 288 * 5 + 5
    assert report.convention == ("layers" if support.way().name == "calls" else "exact")
    assert report.gaps == []
    assert report.unruled == {}


def test_rows(report):
    conv = next(row for row in report.rows if row.path == "0")
    assert (conv.type, conv["macs"], conv.in_shapes, conv.out_shapes) == (
        "Conv2d",
        7776,
        ((1, 3, 8, 8),),
        ((1, 8, 6, 6),),
    )
    assert dict(conv)["path"] == "0"
    assert pickle.loads(pickle.dumps(conv)) == conv
    assert "Conv2d" in repr(conv)
    with pytest.raises(AttributeError, match="macs"):
        conv.mcas  # noqa: B018
    with pytest.raises(AttributeError, match="dict"):
        conv.macs = 1


def test_under_another_convention(report):
    assert report.under("torchscan").convention == "torchscan"
    assert report.under("thoplw").macs == 8 * 36 * 27 + 288 * 5 + 5


def test_why(report):
    lines = report.why("0")
    assert any(line["value"] == 7776 and line["metric"] == "macs" and line["formula"] for line in lines)
    (macs,) = [line for line in lines if line["metric"] == "macs" and line["note"] == "aten::convolution"]
    facts = {name: (value, meaning) for name, value, meaning in macs["facts"]}
    assert {"out", "red"} & set(facts) == set(facts) and facts["out"][0] * facts["red"][0] == 7776
    assert "output" in facts["out"][1] or "result" in facts["out"][1]
    assert all(line["facts"] == [] for line in lines if not line["formula"])
    with pytest.raises(KeyError, match="no layer"):
        report.why("7")


def test_text_is_as_wide_as_the_terminal(report, monkeypatch):
    for width in (60, 80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        assert max(len(line) for line in str(report).splitlines()) <= width
    assert repr(report) == str(report)


def test_text_without_a_terminal_is_at_most_100_wide(report, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(len(line) for line in str(report).splitlines()) <= 100


def test_show_prints_the_table(report, capsys):
    report.show(width=80)
    assert "Conv2d" in capsys.readouterr().out
    with pytest.raises(TypeError, match="depth"):
        report.show(deph=2)


def test_colour_follows_the_environment(report, capsys, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    report.show(ascii=False)
    plain = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    report.show(ascii=False)
    coloured = capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    report.show(ascii=False)
    assert capsys.readouterr().out == plain
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    import re

    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == plain


def test_ascii(report, capsys):
    report.show(ascii=True)
    assert capsys.readouterr().out.isascii()


def test_depth_folds_and_keeps_the_total():
    net = nn.Sequential(small(), nn.ReLU())
    deep, flat = (lamina.inspect(net, x(1, 3, 8, 8), depth=depth) for depth in (None, 1))
    assert deep.macs == flat.macs
    assert len(str(flat).splitlines()) < len(str(deep).splitlines())


def test_receptive_field_is_shown_when_asked_for():
    report = lamina.inspect(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 5)), x(1, 3, 16, 16), receptive_field=True
    )
    assert [row.rf for row in report.rows if row.type == "Conv2d"] == [3, 7]
    assert "7" in str(report)


def test_notebook(report):
    assert report._repr_html_().lstrip().startswith("<")
    shown = report._repr_mimebundle_()
    assert shown["text/plain"] == str(report)
    assert shown["text/html"] == report._repr_html_()


@pytest.mark.parametrize(
    ("method", "mark"), [("to_csv", "Conv2d"), ("to_json", '"'), ("to_markdown", "|"), ("to_html", "<")]
)
def test_files(report, method, mark, tmp_path):
    write, path = getattr(report, method), tmp_path / "a"
    text = write(path)
    assert mark in text
    whole = {"page": True} if method == "to_json" else {}  # a file has what its page needs
    assert path.read_text(encoding="utf-8") == text == write(**whole)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write(path)
    path.write_text("old")
    assert write(str(path), overwrite=True) == path.read_text(encoding="utf-8")


def test_json_has_a_schema_number_and_whole_integers(report):
    data = json.loads(report.to_json())
    assert any("schema" in key for key in data)
    assert str(int(report.macs)) in report.to_json()


def test_a_report_does_not_pickle_and_says_what_does(report):
    with pytest.raises(TypeError, match="to_json"):
        pickle.dumps(report)


def test_mode_is_for_this_forward_only():
    net = nets.block().train()
    trained = lamina.inspect(net, x(2, 3, 8, 8), convention="torchscan")
    evaluated = lamina.inspect(net, x(2, 3, 8, 8), convention="torchscan", mode="eval")
    assert trained.flops > evaluated.flops
    assert all(module.training for module in net.modules())
    with pytest.raises(ValueError, match="eval"):
        lamina.inspect(net, x(2, 3, 8, 8), mode="evaluate")


def test_the_convention_of_a_tool_runs_every_layer_as_the_tool_does():
    """torch's kernel for a whole encoder layer calls none of the layers in it."""
    model, x = nn.TransformerEncoderLayer(16, 2, batch_first=True).eval(), torch.rand(1, 4, 16)
    assert len(lamina.inspect(model, x, convention="exact").rows) == 1
    for tool in ("torchscan", "fvcore"):
        assert len(lamina.inspect(model, x, convention=tool).rows) > 8


def test_a_mode_that_can_not_be_set():
    net, x = nn.Sequential(nn.Linear(4, 2), nn.Dropout()).eval(), torch.rand(3, 4)
    frozen = torch.jit.freeze(torch.jit.script(net))  # it has no flag
    for model in (frozen, nn.Sequential(frozen)):
        assert [lamina.inspect(model, x, mode=mode).macs for mode in ("eval", "train")] == [24, 24]
    exported = torch.export.export(net, (x,)).module()
    for mode in ("eval", "train"):
        report = lamina.inspect(exported, x, mode=mode)
        differs = any(module.training != (mode == "train") for module in exported.modules())
        assert report.macs == 24
        assert any(f"could not be set to {mode}" in note for note in report.notes) == differs
    if support.watched(None).ops:
        fit = lamina.fit(exported, x, optimizer="sgd")
        assert fit.step.bytes > fit.forward.bytes > 0


def test_grad_mode_is_restored():
    lamina.inspect(nn.Linear(4, 4), x())
    assert torch.is_grad_enabled()


def test_the_forward_makes_no_graph():
    seen = []

    class Looks(nn.Module):
        def forward(self, x):
            seen.append((torch.is_grad_enabled(), (x * 1).requires_grad))
            return x

    lamina.inspect(Looks(), x().requires_grad_())
    assert seen == [(False, False)]


# -- capture -------------------------------------------------------------------------------------------------


def test_capture_around_code_of_your_own():
    net = small()
    with lamina.capture(net) as cap:
        net(x(1, 3, 8, 8))
        net(x(2, 3, 8, 8))
    once = lamina.inspect(net, x(1, 3, 8, 8))
    assert cap.report().macs == 3 * once.macs
    assert cap.report(convention="thoplw").convention == "thoplw"
    assert cap.error is None


def test_capture_leaves_training_to_the_user():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    before = net[0].weight.detach().clone()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with lamina.capture(net) as cap:
        net(x(8, 4)).square().mean().backward()
        optimizer.step()
    assert not torch.equal(before, net[0].weight)
    assert net[1].num_batches_tracked == 1
    assert cap.report().macs == 8 * 16


def test_captures_nest():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)))
    with lamina.capture(net) as outer:
        net(x())
        with lamina.capture(net[1]) as inner:
            net(x())
    assert (outer.report().macs, inner.report("layers").macs) == (64, 16)


def test_capture_of_an_exception_has_a_report():
    net = nets.Fails()
    with pytest.raises(ValueError, match="no good"), lamina.capture(net) as cap:
        net(x(2, 4))
    assert cap.error is net.breaks.error
    assert "before" in {row.path for row in cap.report().rows}


def test_capture_without_a_call():
    with lamina.capture(nn.Linear(4, 4)) as cap:
        pass
    report = cap.report()
    assert report.params == 20
    assert report.macs == 0
    assert "never" in str(report)


def test_a_capture_can_be_used_again():
    net = nn.Linear(4, 4)
    cap = lamina.capture(net)
    for n in (1, 2):
        with cap:
            net(x(n, 4))
        assert cap.report().macs == n * 16


def test_report_too_early():
    cap = lamina.capture(nn.Linear(4, 4))
    with pytest.raises(RuntimeError, match="with"):
        cap.report()
    with cap:
        with pytest.raises(RuntimeError, match="open"):
            cap.report()
        with pytest.raises(RuntimeError, match="open already"), cap:
            pass


# -- progress ------------------------------------------------------------------------------------------------


class Slow(nn.Module):
    """Goes on once something was written, or after a while without it."""

    def __init__(self, written, seconds):
        super().__init__()
        self.wait = lambda: written.wait(seconds)

    def forward(self, x):
        self.wait()
        return x


class Terminal:
    """A stderr that says it is a terminal."""

    encoding = "utf-8"

    def __init__(self, terminal):
        self.terminal, self.text, self.written = terminal, "", threading.Event()

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.text += text
        self.written.set()

    def flush(self):
        pass


@pytest.mark.parametrize(
    ("is_terminal", "after", "said"), [(True, 0.01, True), (True, LIMIT, False), (False, 0.01, False)]
)
def test_progress_on_a_terminal_and_late(is_terminal, after, said, monkeypatch):
    from lamina._base import terminal

    stderr = Terminal(is_terminal)
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setattr(terminal, "PROGRESS_AFTER", after)
    lamina.inspect(Slow(stderr.written, LIMIT if said else 0.1), x())
    assert ("lamina: running" in stderr.text) == said
    assert not said or stderr.text.endswith("\r\x1b[K")


def test_half_a_second():
    from lamina._base import terminal

    assert terminal.PROGRESS_AFTER == 0.5


def test_the_table_as_a_list_and_shares():
    model = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 30))
    report = lamina.inspect(model, torch.rand(1, 4))
    lines = report._text(sort="macs", rows=1).splitlines()
    assert lines[4].split()[:2] == ["1", "(Linear)"]
    assert "not shown  1 smaller line" in lines
    assert report._text(by="params").splitlines()[2].split()[2:4] == ["params", "%"]
    with pytest.raises(ValueError, match="'size' is not a column"):
        report.show(sort="size")
    with pytest.raises(ValueError, match="time=True measures it"):
        report.show(by="time")


@pytest.mark.parametrize("dry", [False, True])
def test_a_flag_may_be_a_number(dry):
    net, x = nn.Linear(4, 4), torch.ones(2, 4)
    assert lamina.inspect(net, x, backward=1, dry=dry).backward.macs == 32
    assert lamina.inspect(net, x, backward=0, dry=dry).macs == 32
