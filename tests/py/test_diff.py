# SPDX-License-Identifier: Apache-2.0
"""report.diff and `lamina diff`: what is added, removed, changed, renamed, and what can't be compared."""

from __future__ import annotations

import json
import time

import pytest
import torch
from conftest import environment, needs_recordings
from torch import nn

import lamina
import warm
from lamina._results.diff import Diff


def sequence(layers):
    made = nn.Sequential()
    for name, layer in layers.items():
        made.add_module(name, layer)
    return made


def report(model, *sizes, **options):
    return lamina.inspect(model.eval(), torch.ones(*(sizes or (1, 8))), **options)


@pytest.fixture(scope="module")
def before():
    return report(
        sequence({"a": nn.Linear(8, 8), "act": nn.ReLU(), "b": nn.Linear(8, 4), "c": nn.Linear(4, 2)})
    )


def test_equal_reports(before):
    diff = before.diff(before)
    assert not diff
    assert str(diff).splitlines()[1:] == ["Nothing differs: 5 modules are equal."]
    assert diff.equal == 5
    assert diff.totals["macs"].difference == 0


def test_added_removed_retyped_and_changed(before):
    after = report(
        sequence({"a": nn.Linear(8, 8), "act": nn.GELU(), "b": nn.Linear(8, 6), "d": nn.Linear(6, 6)})
    )
    diff = before.diff(after)
    assert diff
    assert [(m.path, m.before_path) for m in diff.added] == [("d", None)]
    assert [(m.path, m.before_path) for m in diff.removed] == [(None, "c")]
    changed = {m.path: m for m in diff.changed}
    assert set(changed) == {"", "act", "b"}
    assert (changed["act"].before_type, changed["act"].type) == ("ReLU", "GELU")
    assert (changed["b"].before_outputs, changed["b"].outputs) == ("1x4 float32", "1x6 float32")
    macs = changed["b"].numbers["macs"]
    assert (macs.before, macs.after, macs.difference, macs.state, macs.percent) == (32, 48, 16, "exact", 50)
    assert diff.equal == 1
    # The lines' own numbers add up to the totals.
    lines = [*diff.added, *diff.removed, *diff.changed, *diff.renamed]
    for metric in ("params", "macs", "flops", "bytes"):
        assert sum(line.numbers[metric].difference for line in lines) == diff.totals[metric].difference
    assert diff.totals["macs"].difference == after.macs - before.macs


def test_renamed_blocks_are_followed():
    def block(width):
        return sequence({"one": nn.Linear(8, width), "act": nn.ReLU(), "two": nn.Linear(width, 8)})

    was = report(sequence({"x": block(5), "y": block(6), "end": nn.Linear(8, 8)}))
    now = report(sequence({"x": block(5), "z": block(6), "end": nn.Linear(8, 8)}))
    diff = was.diff(now)
    assert [(m.before_path, m.path, m.modules) for m in diff.renamed] == [("y", "z", 4)]
    assert not diff.added and not diff.removed and not diff.changed
    assert "> y -> z (Sequential, 4 modules)" in str(diff)
    # The same with a changed layer in the renamed block.
    wide = sequence({"one": nn.Linear(8, 6), "act": nn.ReLU(), "two": nn.Linear(6, 8, bias=False)})
    now = report(sequence({"x": block(5), "z": wide, "end": nn.Linear(8, 8)}))
    diff = was.diff(now)
    assert [(m.before_path, m.path) for m in diff.changed] == [("y.two", "z.two")]
    assert [(m.before_path, m.path) for m in diff.renamed] == [("y", "z")]
    assert not diff.added and not diff.removed


def test_live_and_saved_are_equal(before, tmp_path):
    after = report(sequence({"a": nn.Linear(8, 8), "act": nn.GELU(), "b": nn.Linear(8, 6)}))
    before.to_json(tmp_path / "before.json")
    after.to_json(tmp_path / "after.json")

    def told(diff):
        data = json.loads(diff.to_json())
        del data["before"], data["after"]
        return data

    live = told(before.diff(after))
    assert told(before.diff(tmp_path / "after.json")) == live
    assert told(lamina.Report.load(tmp_path / "before.json").diff(after)) == live
    assert told(lamina.Report.load(tmp_path / "before.json").diff(str(tmp_path / "after.json"))) == live


def test_what_cannot_be_compared_is_said(before):
    other = before.under("torch")
    diff = before.diff(other)
    assert diff.not_compared[0] == (
        "The convention differs: before exact, now torch: MACs, FLOPs and bytes can't be compared."
    )
    assert "macs" not in diff.totals
    assert not diff
    trained = lamina.inspect(sequence({"a": nn.Linear(8, 8), "drop": nn.Dropout()}).train(), torch.ones(2, 8))
    said = before.diff(trained).not_compared
    assert any(sentence.startswith("The mode differs: before eval, now train") for sentence in said)
    assert any(
        sentence.startswith("The inputs differ: before 1x8 float32, now 2x8 float32") for sentence in said
    )
    with pytest.raises(ValueError, match="'time' is not known of the modules of both; there are: params, "):
        before.diff(trained, by="time")
    with pytest.raises(ValueError, match="there is no metric 'speed'"):
        before.diff(trained, by="speed")


def test_a_peak_of_one_backward_can_not_be_compared():
    forward, step = (
        lamina.inspect(nn.Linear(2, 2), torch.ones(1, 2), memory=True, backward=b) for b in (False, True)
    )
    with pytest.raises(
        ValueError, match=r"'peak' can't be compared \(a backward ran: before no, now yes\); there"
    ):
        forward.diff(step, by="peak")


def test_measured_numbers(before):
    def measured(width):
        return report(sequence({"a": nn.Linear(8, width), "b": nn.Linear(width, 4)}), memory=True, time=True)

    diff = measured(8).diff(measured(16), by="memory")
    assert diff.totals["peak"].difference > 0
    assert diff.totals["memory"].difference == 8 * 4
    assert diff.changed[0].path == "a"
    said = before.diff(measured(8)).not_compared
    assert any("has no time, memory and no health" in s or "has no time and no memory" in s for s in said)


def test_lower_bounds_say_so():
    class Odd(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a = nn.Linear(8, width)

        def forward(self, x):
            return self.a(x)

    was = report(Odd(4)).under("layers")
    now = report(Odd(6)).under("layers")
    macs = was.diff(now).totals["macs"]
    assert (macs.before.state, macs.after.state, macs.difference, macs.state) == (
        "at least",
        "at least",
        16,
        "roughly",
    )
    assert macs.percent is None
    assert "~ +16" in str(was.diff(now))


def test_shared_modules():
    shared = nn.Linear(8, 8)
    was = report(sequence({"a": shared, "b": shared}))
    now = report(sequence({"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)}))
    totals = was.diff(now).totals
    assert (totals["params"].before, totals["params"].after) == (72, 144)
    assert totals["macs"].difference == 0


def test_hostile_names():
    model = sequence({"a\x1b[31m|`x`": nn.Linear(8, 8), "\u202eevil": nn.ReLU()})
    diff = report(sequence({"a": nn.Linear(8, 4)})).diff(report(model))
    for text in (str(diff), diff.to_markdown()):
        assert "\x1b" not in text and "\u202e" not in text
    assert {m.path for m in diff.added} == {"a\x1b[31m|`x`", "\u202eevil"}


def test_ten_thousand_modules():
    def deep(n):
        return sequence({str(i): nn.Linear(1, 1) for i in range(n)})

    was, now = (lamina.inspect(deep(n), torch.ones(1, 1)) for n in (10_000, 9_000))
    start = time.thread_time()  # of this thread alone, however busy the machine is
    diff = was.diff(now)
    took = time.thread_time() - start
    assert len(diff.removed) == 1000
    assert diff.equal == 9001
    assert took < 5  # it takes less than one


def test_texts_and_files(before, tmp_path, capsys):
    after = report(sequence({"a": nn.Linear(8, 16), "b": nn.Linear(16, 4)}))
    diff = Diff(before, after)
    assert diff.to_markdown().startswith("### Sequential -\\> Sequential\n")
    diff.to_json(tmp_path / "diff.json")
    assert json.loads((tmp_path / "diff.json").read_text())["schema"] == "lamina.diff/1"
    with pytest.raises(FileExistsError):
        diff.to_markdown(tmp_path / "diff.json")
    diff.show(rows=1, width=120, exact=True)
    assert "more]" in capsys.readouterr().out
    with pytest.raises(OSError):
        before.diff(tmp_path / "no.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(lamina.LaminaError, match="it is no report that lamina saved as JSON"):
        before.diff(tmp_path / "bad.json")


def command(*words, **env):
    done = warm.python("-m", "lamina", "diff", *words, env=environment(**env), imports=warm.VISION)
    return done.returncode, done.stdout, done.stderr


def test_two_files_of_one_name(tmp_path):
    for folder, width in (("old", 4), ("new", 6)):
        (tmp_path / folder).mkdir()
        text = f"from torch import nn\n\n\ndef Net():\n    return nn.Linear(8, {width})\n"
        (tmp_path / folder / "net.py").write_text(text)
    sides = tmp_path / "old/net.py:Net", tmp_path / "new/net.py:Net"
    summary = tmp_path / "summary.md"
    code, out, err = command(*sides, "-i", "1x8", "--github", "--exit-code", GITHUB_STEP_SUMMARY=str(summary))
    assert (code, err) == (1, "")
    assert "out 1x4 -> 1x6" in out
    assert summary.read_text().startswith("### ")
    assert "| out\\_features 4 -\\> 6; out 1x4 -\\> 1x6 | 32 | 48 | +16 | +50% |" in summary.read_text()


def test_recordings(tmp_path):
    needs_recordings()
    for name, width in (("a", 32), ("b", 64)):
        model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
        with lamina.watch(model, file=tmp_path / f"{name}.lamina", every=1, memory=True):
            for _ in range(5):
                model(torch.ones(4, 8)).sum().backward()
    code, out, err = command(tmp_path / "a.lamina", tmp_path / "b.lamina", "--by", "retained")
    assert (code, err) == (0, "")
    assert "a.lamina: medians of 4 training steps of Sequential." in out
    assert "~ 1 (ReLU)" in out
    assert "time of a step" in out
    code, out, err = command(tmp_path / "a.lamina", tmp_path / "a.lamina")
    assert "Nothing differs: 4 modules are equal." in out
    beside = report(model).diff(tmp_path / "b.lamina")
    assert any(
        "has no MACs, FLOPs, bytes moved and no shapes" in sentence for sentence in beside.not_compared
    )
    assert beside.totals["params"].difference == 0
    assert not beside


def test_attributes_that_differ():
    was = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Dropout(0.1), nn.MaxPool2d(2))
    now = nn.Sequential(
        nn.Conv2d(3, 4, (5, 3), padding="same", bias=False), nn.Dropout(0.5), nn.MaxPool2d((2, 2))
    )
    x = torch.rand(1, 3, 8, 8)
    diff = lamina.inspect(was, x, mode="eval").diff(lamina.inspect(now, x, mode="eval"))
    of = {module.path: module.attributes for module in diff.changed}
    assert of == {
        "0": {"kernel_size": ((3, 3), (5, 3)), "padding": ((1, 1), "same"), "bias": (True, False)},
        "1": {"p": (0.1, 0.5)},
    }
    assert of["0"]["kernel_size"].after == (5, 3)
    assert "\n    kernel_size 3x3 -> 5x3, padding 1x1 -> same, bias True -> False\n" in str(diff)
    assert not lamina.inspect(was, x).diff(lamina.inspect(was, x))
