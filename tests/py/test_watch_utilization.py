# SPDX-License-Identifier: Apache-2.0
"""What recordings know of the FLOPs of a step, by closed forms, and the share of the device's peak that they
say the steps reach."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, nullcontext

import pytest
import torch
from conftest import environment, needs_recordings
from torch import nn
from torch.utils.checkpoint import checkpoint
from where_kit import not_observed

import lamina
import warm
from lamina import _inspect, _lamina, _watch, _work
from lamina._command import cli

needs_recordings()
if not_observed():
    pytest.skip(f"what ran without gradients is not told: {not_observed()}", allow_module_level=True)

PEAK = 1e12
FIRST, SECOND = 6 * 8 * 16, 6 * 16 * 4  # MACs of the two layers of `net`
FORWARD, BACKWARD = FIRST + SECOND, FIRST + 2 * SECOND  # no gradient of the input is needed
MODES = ("training", "gradients")


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def x(grad=False):
    return torch.rand(6, 8, requires_grad=grad)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.lamina"


def record(file, model, step, n=8, **options):
    """The kinds of steps of the recording, as JSON has them."""
    with lamina.watch(model, file=file, **{"peak": PEAK} | options) as watch:
        for i in range(n):
            step(i)
    assert watch.stopped is None
    return kinds(file)


def kinds(file):
    return json.loads(shown(file, "--json"))["runs"][0]["models"]


def shown(*words):
    assert cli.main(["show", *map(str, words)]) == 0
    return shown.capture.readouterr().out


@pytest.fixture(autouse=True)
def _captured(capsys):
    shown.capture = capsys


def used(kind):
    told = kind["utilization"]
    return told["flops"], told["hardware_flops"]


def of_both(macs):
    return 2 * macs, 2 * macs


def train(model, given=None):
    def step(_):
        model(x() if given is None else given()).sum().backward()

    return step


# -- what a step computes ------------------------------------------------------------------------------------


def test_each_mode_has_the_operations_of_its_steps(file):
    model = net()

    def step(i):
        model.train(i % 4 < 2)
        with torch.set_grad_enabled(i % 2 == 0):
            out = model(x()).sum()
        if i % 4 == 0:
            out.backward()

    found = {tuple(kind[mode] for mode in MODES): used(kind) for kind in record(file, model, step, 24)}
    assert found == {
        (True, True): of_both(FORWARD + BACKWARD),
        (True, False): of_both(FORWARD),
        (False, True): of_both(FORWARD),
        (False, False): of_both(FORWARD),
    }


def test_the_share_is_of_the_peak_over_the_mean_step(file):
    [kind] = record(file, model := net(), train(model))
    told = kind["utilization"]
    rate = told["flops"] / (kind["phases"]["step_ns"] / 1e9)
    assert told["flops_per_s"] == pytest.approx(rate)
    assert told["mfu"] == told["hfu"] == pytest.approx(rate / PEAK)
    assert (told["peak_flops"], told["peak_of"], told["dtype"]) == (PEAK, "given", "float32")
    assert told["at_least"] is False
    assert told["why"] is None


def test_without_gradients_the_time_is_that_from_step_to_step(file):
    model = net().eval()
    with torch.no_grad():
        [kind] = record(file, model, lambda _: model(x()))
    assert kind["phases"] is None
    told = kind["utilization"]
    assert told["mfu"] == pytest.approx(2 * FORWARD / (kind["step_ns"]["median"] / 1e9) / PEAK)


@pytest.mark.parametrize(("reentrant", "again"), [(True, FORWARD), (False, FIRST)])  # the second stops early
def test_what_a_checkpoint_repeats_is_hardwares(file, reentrant, again):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = net()

        def forward(self, x):
            return checkpoint(self.inside, x, use_reentrant=reentrant)

    [kind] = record(file, model := Checkpointed(), train(model, lambda: x(True)))
    macs = FORWARD + BACKWARD + FIRST
    assert used(kind) == (2 * macs, 2 * (macs + again))
    told = kind["utilization"]
    assert told["hfu"] / told["mfu"] == pytest.approx((macs + again) / macs)


def test_of_accumulated_gradients_each_batch_is_a_step(file):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step(i):
        model(x()).sum().backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    [kind] = record(file, model, step, 16)
    assert used(kind) == of_both(FORWARD + BACKWARD)


class Products(torch.optim.Optimizer):
    """Multiplies matrices in its step, as Muon does."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            if p.grad is not None and p.ndim == 2:
                p.sub_(p.grad @ p.grad.T @ p.grad, alpha=1e-9)


def test_the_products_of_an_optimizer_and_of_metrics_are_none_of_the_models(file):
    model = net()
    optimizer, kept = Products(model.parameters()), net(1)

    def step(_):
        model(x()).sum().backward()
        optimizer.step()
        with torch.no_grad():
            kept(x()) @ torch.rand(4, 4)

    assert used(record(file, model, step)[0]) == of_both(FORWARD + BACKWARD)


def test_several_calls_before_a_backward_pass_are_one_step(file):
    model = net()

    def step(_):
        (model(x()).sum() + model(x()).sum()).backward()

    [kind] = record(file, model, step)
    assert (kind["least_calls"], kind["steps"]) == (2, 7)
    assert used(kind) == of_both(2 * (FORWARD + BACKWARD))


def test_each_of_several_models_has_its_own(file):
    one, two = net(), nn.Linear(8, 32)

    def step(_):
        one(x()).sum().backward()
        with torch.no_grad():
            two(x())

    told = {kind["name"]: used(kind) for kind in record(file, [one, two], step)}
    assert told == {"Sequential": of_both(FORWARD + BACKWARD), "Linear": of_both(6 * 8 * 32)}


def test_it_is_what_a_meter_counts(file):
    model = net()
    meter = lamina.callbacks.StepMeter(model, every=1, peak_flops=PEAK)
    with meter.step() as metrics:
        train(model)(0)
    told = record(file, model, train(model))[0]["utilization"]
    assert told["flops"] == round(metrics["lamina/mfu"] * PEAK * metrics["lamina/step_ms"] / 1e3)


# -- which step is counted -----------------------------------------------------------------------------------


@pytest.fixture
def counting(monkeypatch):
    """A list of the numbers of the steps that are counted."""
    counted, count_step = [], _watch._Root.count_step

    def noted(self, module):
        counted.append(self.schedule.number)
        count_step(self, module)

    monkeypatch.setattr(_watch._Root, "count_step", noted)
    return counted


def test_two_steps_of_each_mode_are_counted_and_losses_are_as_without(file, counting):
    def losses(model, watching):
        optimizer, found = torch.optim.AdamW(model.parameters()), []
        with watching:
            for i in range(60):
                loss = model(x()).square().sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
                if i % 20 == 19:
                    with torch.no_grad():
                        model.eval()(x())
                    model.train()
        return found

    plain = losses(net(), nullcontext())
    model = net()
    assert losses(model, lamina.watch(model, file=file)) == plain
    assert counting == [0, 1, 0, 1]  # two of each mode


def test_a_step_that_raises_is_not_the_one_that_counts(file):
    model = net()

    def step(i):
        try:
            model(torch.rand(6, 9) if i < 2 else x()).sum().backward()
        except RuntimeError:
            assert i < 2

    kind = record(file, model, step, 10)[0]
    assert kind["failed_steps"] == 2
    assert used(kind) == of_both(FORWARD + BACKWARD)


def test_other_layers_are_counted_anew(file):
    model = net()

    def step(i):
        if i == 4:
            model[2] = nn.Linear(16, 32)
        model(x()).sum().backward()

    before, after = record(file, model, step, 12)
    wide = 6 * 16 * 32
    assert used(before) == of_both(FORWARD + BACKWARD)
    assert used(after) == of_both(2 * FIRST + 3 * wide)


def test_modules_that_are_new_in_each_step_are_not_counted_for_ever(file, counting):
    model = net()

    def step(i):
        model[2] = nn.Linear(16, 4 + i)
        model(x()).sum().backward()

    record(file, model, step, 40, every=1)
    assert 1 < len(counting) <= 16


def test_a_step_that_is_unlike_the_first_is_counted_too(file, counting):
    model = net()

    def step(i):  # the first is alone before its backward, then two are
        out = model(x()).sum()
        if i % 2 == 0:
            out.backward()

    told = {kind["least_calls"]: used(kind) for kind in record(file, model, step, 21)}
    assert told[2] == of_both(2 * FORWARD + BACKWARD)
    assert counting == [0, 1, 3]  # the first, and two of the others


@pytest.mark.parametrize("sizes", [(6, 12), (6, 6, 12)])
def test_batches_of_unequal_sizes_make_it_unknown(file, sizes):
    model = net()

    def step(i):
        model(torch.rand(sizes[i % len(sizes)], 8)).sum().backward()

    told = record(file, model, step, 12)[0]["utilization"]
    if sizes[0] == sizes[1]:  # two steps tell no more
        assert told["flops"] == 2 * (FORWARD + BACKWARD)
        return
    assert (told["flops"], told["hardware_flops"], told["mfu"]) == (None, None, None)
    assert told["why"] == "these steps differ in what they compute, as with batches of unequal sizes"


def test_a_model_inside_the_step_of_another_is_as_a_loss(file):
    teacher, model = net(1), net()

    def step(_):  # from call to call; what wants no gradient is no work of a training
        with torch.no_grad():
            goal = teacher(x())
        (teacher(x()) - model(x()) + goal).sum().backward()

    told = {kind["name"]: used(kind) for kind in record(file, model, step, 12)}
    assert told["Sequential"] == of_both(2 * (FORWARD + BACKWARD))


def test_a_kind_of_steps_of_which_none_was_counted_is_unknown(file):
    record(file, model := net(), train(model))
    change(file, "DELETE FROM work")
    told = kinds(file)[0]["utilization"]
    assert (told["flops"], told["mfu"], told["at_least"]) == (None, None, False)
    assert told["why"] == "no step of this kind was counted"
    assert "MFU ? (no step of this kind was counted)" in shown(file)


def test_steps_that_differ_in_their_calls_are_unknown(file):
    model = net()

    def step(i):
        sum(model(x()).sum() for _ in range(2 + i % 5)).backward()

    kind = record(file, model, step, 20)[0]
    assert kind["least_calls"] < kind["most_calls"]
    assert kind["utilization"]["flops"] is None
    assert kind["utilization"]["why"] == "these steps differ in their calls"


# -- what can't be counted -----------------------------------------------------------------------------------


def test_an_operator_without_a_rule_makes_a_lower_bound(file):
    @torch.library.custom_op("lamina_test_used::unknown", mutates_args=())
    def unknown(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    unknown.register_autograd(lambda ctx, grad: grad)

    class Custom(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = net()

        def forward(self, x):
            return unknown(self.inside(x))

    told = record(file, model := Custom(), train(model))[0]["utilization"]
    assert told["flops"] == 2 * (FORWARD + BACKWARD)
    assert told["at_least"] is True
    assert "lamina_test_used::unknown" in told["why"]
    out = " ".join(shown(file).split())  # lines break where their times have them
    assert "MFU >= " in out
    assert ">= 5.38 kFLOP a step" in out


def test_compiled_autograd_is_unknown_and_says_so(file, monkeypatch):
    monkeypatch.setattr(_inspect, "compiles_autograd", lambda: True)
    told = record(file, model := net(), train(model))[0]["utilization"]
    assert (told["flops"], told["hardware_flops"], told["mfu"]) == (None, None, None)
    assert told["why"] == "autograd is compiled, so its operators can't be watched"


def test_a_mistake_in_a_rule_of_ones_own_ends_no_recording(file):
    def wrong(*_):
        raise OverflowError("too much")

    lamina.register("aten::gelu", macs=wrong)
    try:
        told = record(file, model := net(), train(model))[0]["utilization"]
    finally:
        lamina.unregister("aten::gelu")
    assert told["flops"] is None
    assert "too much" in told["why"]


# -- the peak ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "peak", "flops", "of"),
    [
        (torch.float32, "h100-sxm", 67e12, "h100-sxm:float32"),
        (torch.bfloat16, "h100-sxm", 989e12, "h100-sxm:bfloat16"),
        (torch.float32, "a100-40gb:bfloat16", 312e12, "a100-40gb:bfloat16"),
        (torch.float32, "2.5e13", 2.5e13, "given"),
        (torch.float32, 25, 25, "given"),
    ],
)
def test_a_peak_is_a_number_or_of_a_device_for_the_type_of_the_products(file, dtype, peak, flops, of):
    model = net().to(dtype)
    told = record(file, model, train(model, lambda: x().to(dtype)), peak=peak)[0]["utilization"]
    assert (told["peak_flops"], told["peak_of"]) == (flops, of)
    assert told["dtype"] == str(dtype).removeprefix("torch.")
    assert told["mfu"] == pytest.approx(told["flops_per_s"] / flops)


def test_under_autocast_the_products_are_of_its_type(file):
    model = net()

    def step(_):
        with torch.autocast("cpu", torch.bfloat16):
            model(x()).sum().backward()

    told = record(file, model, step, peak="h200-sxm")[0]["utilization"]
    assert (told["dtype"], told["peak_of"]) == ("bfloat16", "h200-sxm:bfloat16")


def test_a_type_without_a_peak_is_unknown(file):
    model = net().double()
    told = record(file, model, train(model, lambda: x().double()), peak="h200-sxm")[0]["utilization"]
    assert told["flops"] == 2 * (FORWARD + BACKWARD)
    assert told["mfu"] is told["peak_flops"] is None
    assert "no peak of h200-sxm is known for float64" in told["why"]


def test_no_table_has_the_peak_of_a_processor(file):
    told = record(file, model := net(), train(model), peak=None)[0]["utilization"]
    assert told["mfu"] is told["hfu"] is told["peak_flops"] is None
    assert told["flops"] == 2 * (FORWARD + BACKWARD)
    assert told["why"] == f"the table of peaks has no processors: {_work.HOW}"
    assert "MFU ?; 5.38 kFLOP a step, " in " ".join(shown(file).split())


@pytest.mark.parametrize(
    ("name", "dtype", "flops", "of"),
    [
        ("NVIDIA H200", "bfloat16", 989e12, "h200-sxm"),
        ("NVIDIA H100 80GB HBM3", "float16", 989e12, "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "float32", 19.5e12, "a100-80gb-sxm"),
        ("Tesla T4", "float16", 65e12, "t4"),
    ],
)
def test_a_gpu_is_known_by_the_name_that_its_driver_tells(name, dtype, flops, of):
    assert _lamina.peak_of_device(name, dtype) == (flops, of, dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("NVIDIA H200 NVL", "bfloat16"),  # less than that of the other
        ("NVIDIA H100 PCIe", "bfloat16"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "bfloat16"),
        ("NVIDIA H200", "int8"),
        ("", "bfloat16"),
    ],
)
def test_what_the_table_does_not_have_is_unknown(name, dtype):
    assert _lamina.peak_of_device(name, dtype) is None


def test_float32_that_may_run_as_another_type_is_unknown(monkeypatch):
    linear, convolution = net(), nn.Conv2d(1, 1, 1)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    assert _work._peak_of(linear, "NVIDIA H200", "float32")[0] == 67e12
    flops, of, why = _work._peak_of(convolution, "NVIDIA H200", "float32")
    assert (flops, of) == (None, None)
    assert "TF32" in why
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    assert _work._peak_of(convolution, "NVIDIA H200", "float32")[0] == 67e12
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        assert "TF32" in _work._peak_of(linear, "NVIDIA H200", "float32")[2]
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    "peak", [0, -1, float("nan"), float("inf"), True, [1], "h100", "measured", "1e12 x", ""]
)
def test_what_is_no_peak_is_refused_before_anything_runs(file, peak):
    with pytest.raises(ValueError, match="peak"):
        lamina.watch(net(), file=file, peak=peak)
    assert not file.exists()


# -- other readers -------------------------------------------------------------------------------------------


def test_open_has_the_shares_of_a_run(file):
    told = record(file, model := net(), train(model))[0]["utilization"]
    recording = lamina.open(file)
    assert recording.mfu == recording.hfu == pytest.approx(told["mfu"])
    assert (recording.mfu_at_least, recording.why_mfu) == (False, None)
    ranks = recording.ranks()
    assert ranks["step_flops"] == ranks["hardware_flops"] == [2.0 * (FORWARD + BACKWARD)]
    assert (ranks["peak_flops"], ranks["peak_of"], ranks["flops_at_least"]) == ([PEAK], ["given"], [False])


def test_open_says_why_a_share_is_unknown(file):
    record(file, model := net(), train(model), peak=None)
    recording = lamina.open(file)
    assert recording.mfu is recording.hfu is None
    assert recording.why_mfu == f"the table of peaks has no processors: {_work.HOW}"


def test_prometheus_has_what_is_known(file, tmp_path):
    told = record(file, model := net(), train(model))[0]["utilization"]
    to = tmp_path / "run.prom"
    assert cli.main(["export", str(file), "--prometheus", str(to)]) == 0
    series = dict(line.rsplit(" ", 1) for line in to.read_text().splitlines() if line[0] != "#")
    labels = '{rank="0",model="Sequential"}'
    assert float(series[f"lamina_mfu{labels}"]) == pytest.approx(told["mfu"], rel=1e-6)
    assert float(series[f"lamina_hfu{labels}"]) == pytest.approx(told["hfu"], rel=1e-6)
    assert f"lamina_mfu_at_least{labels}" not in series


def test_the_page_has_a_tile(file, tmp_path):
    record(file, model := net(), train(model), peak=2.0)
    assert cli.main(["report", str(file), "-o", str(tmp_path / "run.html")]) == 0
    assert "<span>MFU</span>" in (tmp_path / "run.html").read_text()


# -- files ---------------------------------------------------------------------------------------------------


def change(file, sql):
    with closing(sqlite3.connect(file)) as db, db:
        db.executescript(sql)


def test_a_file_of_version_7_is_read_and_upgraded_with_the_next_run(file):
    record(file, model := net(), train(model))
    change(
        file,
        "DROP TABLE work; ALTER TABLE steps DROP COLUMN collectives; UPDATE models SET tree = tree + 1;"
        "ALTER TABLE steps DROP COLUMN collectives_hash; PRAGMA user_version = 7",
    )
    told = kinds(file)[0]["utilization"]
    assert (told["flops"], told["mfu"]) == (None, None)
    assert told["why"] == "the recording is of an older version, which did not count operations"
    tree = kinds(file)[0]["tree"]
    assert used(record(file, model, train(model))[0]) == of_both(FORWARD + BACKWARD)
    assert kinds(file)[0]["tree"] == tree


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("UPDATE work SET flops = -1", "the operations of a step holds what can't be"),
        ("UPDATE work SET flops = 'many'", "the operations of a step holds what can't be"),
        ("UPDATE work SET at_least = 2", "the operations of a step holds what can't be"),
        ("UPDATE work SET peak_flops = 1.5", "the peak of a device holds what can't be"),
        ("UPDATE work SET step = step + 4711", "what was counted names no step that is there"),
        ("UPDATE work SET why = x'00'", "a name is not text"),
    ],
)
def test_a_damaged_row_is_refused(file, sql, what, capsys):
    record(file, model := net(), train(model))
    change(file, sql)
    assert cli.main(["show", str(file)]) == 3
    assert what in capsys.readouterr().err


def test_a_copy_of_a_file_of_another_rank_has_its_own(file, tmp_path):
    record(file, model := net(), train(model))
    other = tmp_path / "run.1.lamina"
    shutil.copy(file, other)
    change(file, "UPDATE runs SET world = 2")
    change(other, "UPDATE runs SET world = 2, rank = 1")
    change(other, "UPDATE work SET peak_flops = NULL, why_peak = 'of no table'")
    one, two = lamina.open(file, other).ranks()["mfu"]
    assert one > 0
    assert two is None
    assert lamina.open(file, other).mfu is None
    table = shown(file, other, "-w").splitlines()
    [head] = [i for i, line in enumerate(table) if line.startswith("rank ")]
    assert table[head].split()[-2:] == ["MFU", "HFU"]
    assert table[head + 1].endswith("%")
    assert table[head + 2].split()[-2:] == ["?", "?"]


def test_of_ranks_the_reason_stands_once(file, tmp_path):
    record(file, model := net(), train(model), peak=None)
    other = tmp_path / "run.1.lamina"
    shutil.copy(file, other)
    change(file, "UPDATE runs SET world = 2")
    change(other, "UPDATE runs SET world = 2, rank = 1")
    out = shown(file, other)
    assert out.count(f"MFU ? (the table of peaks has no processors: {_work.HOW})") == 1
    assert "MFU " not in out.replace("MFU ?", "")


def test_a_folder_has_what_its_recordings_know(file, tmp_path):
    pytest.importorskip("duckdb")
    record(file, model := net(), train(model), 40)
    run = tmp_path / "run"
    assert cli.main(["merge", str(file), "-o", str(run)]) == 0
    shown.capture.readouterr()
    told = json.loads(shown(run, "--json"))
    assert told["mfu"] == told["hfu"] == pytest.approx(2 * (FORWARD + BACKWARD) / told["step_us"] / 1e6)
    assert (told["mfu_at_least"], told["why_mfu"]) == (False, None)
    change(file, "UPDATE work SET at_least = 1, hardware_flops = 2 * flops, why = 'some of it was not seen'")
    assert cli.main(["merge", str(file), "-o", str(run)]) == 0
    shown.capture.readouterr()
    told = json.loads(shown(run, "--json"))
    assert told["hfu"] == pytest.approx(2 * told["mfu"])
    assert (told["mfu_at_least"], told["why_mfu"]) == (True, "some of it was not seen")
    assert "; >= " in shown(run).splitlines()[0]


# -- the command ---------------------------------------------------------------------------------------------

PROGRAM = """
import torch
model = torch.nn.Linear(8, 16)
for _ in range(6):
    model(torch.rand(6, 8)).sum().backward()
"""


def test_a_program_is_run_with_a_peak(tmp_path, file):
    (tmp_path / "train.py").write_text(PROGRAM)
    words = ["-m", "lamina", "run", "--peak", "t4", "--file", str(file), "train.py"]
    done = warm.python(*words, cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    [kind] = kinds(file)
    assert used(kind) == of_both(2 * FIRST)
    assert (kind["utilization"]["peak_of"], kind["utilization"]["peak_flops"]) == ("t4:float32", 8.1e12)


@pytest.mark.parametrize("peak", ["0", "t5", "measured", "t4:bfloat16"])
def test_a_program_is_not_run_with_what_is_no_peak(tmp_path, peak, monkeypatch):
    (tmp_path / "train.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "--peak", peak, "train.py"]) == 2
    assert "lamina: error: peak: " in shown.capture.readouterr().err
    assert not (tmp_path / "run.lamina").exists()
