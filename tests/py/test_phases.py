# SPDX-License-Identifier: Apache-2.0
"""The phases of recorded steps: where the time of a step goes, in loops as people write them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import torch
from conftest import environment, needs_recordings
from phases_worker import SLOW, STEPS
from torch import nn
from torch.utils.data import DataLoader, Dataset
from where_kit import not_observed

import lamina
import warm

needs_recordings()

pytestmark = pytest.mark.skipif(bool(not_observed()), reason=f"no records of torch: {not_observed()}")

PHASES = ("input", "h2d", "own_forward", "own_backward", "optimizer", "wait", "other")
LATE = 0.02  # seconds


class Late(Dataset):
    """Rows, each of which comes late."""

    def __init__(self, rows=40, late=0.0):
        self.rows, self.late = rows, late

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        time.sleep(self.late)
        return torch.full((8,), float(i)), i % 4


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def phases_in(file, where="1"):
    """By step the whole and its phases, None where one is unknown; those without an end are left out."""
    columns = ", ".join(f"{name}_ns" for name in ("whole", *PHASES))
    with closing(sqlite3.connect(file)) as db:
        rows = db.execute(f"SELECT {columns} FROM steps WHERE {where} ORDER BY id").fetchall()
    told = [dict(zip(("whole", *PHASES), row, strict=True)) for row in rows if row[0] is not None]
    for step in told:
        assert sum(step[name] or 0 for name in PHASES) == step["whole"]
        assert step["other"] is not None
    return told


def loop(model, loader, file, *, every=1, accumulate=1, called=None, optimizer=None):
    """Trains over the loader, and returns the losses."""
    called = model if called is None else called
    optimizer = torch.optim.AdamW(model.parameters()) if optimizer is None else optimizer
    losses = []
    with lamina.watch(model, every=every, file=file) as watch:
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(called(x), y)
            loss.backward()
            if i % accumulate == accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    assert watch.stopped is None
    return losses


def show(*words):
    done = subprocess.run(
        [sys.executable, "-m", "lamina", *map(str, words)],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.parametrize("workers", [0, 1])
def test_a_plain_loop_has_all_phases(tmp_path, workers):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(), batch_size=4, num_workers=workers), file)
    steps = phases_in(file)
    assert len(steps) == 9  # the last one has no end
    for step in steps:
        assert step["h2d"] == step["wait"] == 0
        assert min(step[name] for name in ("input", "own_forward", "own_backward", "optimizer")) > 0
    (model,) = json.loads(show("show", file, "--json"))["runs"][0]["models"]
    told = model["phases"]
    assert told["steps"] == 8  # the first one warms up
    assert sum(phase["mean_ns"] for phase in told["of"]) == told["step_ns"]
    assert [phase["phase"] for phase in told["of"]] == [
        "input", "h2d", "forward", "backward", "optimizer", "comm", "other",
    ]  # fmt: skip
    assert {phase["why"] for phase in told["of"]} == {None}


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the system does not tell it")
def test_a_step_knows_how_long_it_waited_for_a_processor(tmp_path):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(), batch_size=4), file)
    with closing(sqlite3.connect(file)) as db:
        rows = db.execute("SELECT whole_ns, processor_wait_ns FROM steps ORDER BY id").fetchall()
    assert rows.pop() == (None, None)  # how long it took is not known
    assert all(0 <= waited <= whole for whole, waited in rows)


class Labelled(Late):
    """Rows as the Trainer of transformers wants them."""

    def __getitem__(self, i):
        x, label = super().__getitem__(i)
        return {"x": x, "labels": label}


class WithLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x, labels):
        out = self.net(x)
        return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}


def by_accelerate(_, file):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    optimizer = torch.optim.AdamW((model := net()).parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Late(), batch_size=4))
    with lamina.watch(model, every=1, file=file):
        for x, y in loader:
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()


def by_lightning(_, file):
    pl = pytest.importorskip("pytorch_lightning")

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net()

        def training_step(self, batch, _):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    module = Module()
    with lamina.watch(module.net, every=1, file=file):
        pl.Trainer(max_epochs=1, accelerator="cpu", **quiet).fit(module, DataLoader(Late(), batch_size=4))


def by_transformers(folder, file):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), num_train_epochs=1, per_device_train_batch_size=4, report_to=[],
        save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    model = WithLoss()
    with lamina.watch(model, every=1, file=file):
        transformers.Trainer(model, arguments, train_dataset=Labelled()).train()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [by_accelerate, by_lightning, by_transformers])
def test_a_framework_has_all_phases(tmp_path, train):
    """They use torch's loaders and optimizers inside."""
    file = tmp_path / "run.lamina"
    train(tmp_path / "out", file)
    steps = phases_in(file, "training")
    assert len(steps) == 9
    for step in steps:
        assert min(step[name] for name in ("input", "own_forward", "own_backward", "optimizer")) > 0
        assert step["h2d"] == step["wait"] == 0


def test_a_slow_loader_is_input(tmp_path):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(late=LATE / 4), batch_size=4), file)
    for step in phases_in(file):
        assert step["input"] > LATE * 1e9


def test_a_slow_loader_stands_out(tmp_path):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(rows=96, late=LATE / 4), batch_size=4), file)
    wait_for_a_processor(file, "0")
    (model,) = json.loads(show("show", file, "--json"))["runs"][0]["models"]
    assert model["phases"]["stands_out"] == "input"
    told = " ".join(show("show", file).split())
    assert "of a step: the loop waits for its DataLoader. " + model["phases"]["next"] in told
    (tmp_path / "few").mkdir()
    loop(net(), DataLoader(Late(late=LATE / 4), batch_size=4), tmp_path / "few/run.lamina")
    (model,) = json.loads(show("show", tmp_path / "few/run.lamina", "--json"))["runs"][0]["models"]
    assert model["phases"]["stands_out"] is model["phases"]["next"] is None


def wait_for_a_processor(file, each):
    """Says in a recording that each step waited so long, an expression of SQL."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute(f"UPDATE steps SET processor_wait_ns = {each}")


@pytest.mark.parametrize("each", ["(input_ns + whole_ns) / 2", "NULL"])
def test_what_waits_longer_than_for_input_is_said_to_wait_for_a_processor(tmp_path, each):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(rows=96, late=LATE / 4), batch_size=4), file)
    wait_for_a_processor(file, each)
    (model,) = json.loads(show("show", file, "--json"))["runs"][0]["models"]
    phases = model["phases"]
    told = " ".join(show("show", file).split())
    if each == "NULL":
        assert phases["stands_out"] == "input" and phases["processor_wait_ns"] is None
        return
    input_ns = next(x["mean_ns"] for x in phases["of"] if x["phase"] == "input")
    assert input_ns < phases["processor_wait_ns"] < phases["step_ns"]
    assert phases["stands_out"] == "processor"
    assert "! waiting for a processor takes" in told and phases["next"] in told


def test_what_follows_a_call_of_the_loader_is_not_input(tmp_path):
    file = tmp_path / "run.lamina"
    model = net()
    with lamina.watch(model, every=1, file=file):
        for x, _ in DataLoader(Late(), batch_size=4):
            time.sleep(LATE)
            model(x).sum().backward()
    for step in phases_in(file):
        assert step["other"] > LATE * 1e9


def test_losses_are_as_without_a_recording(tmp_path):
    def losses(every):
        torch.manual_seed(1)
        model = net()
        loader = DataLoader(Late(), batch_size=4, shuffle=True)
        return loop(model, loader, tmp_path / f"{every}.lamina", every=every)

    assert losses(1) == losses(None) == losses(1000)


def test_accumulated_gradients_have_an_optimizer_in_some_steps(tmp_path):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(), batch_size=2), file, accumulate=4)
    steps = phases_in(file)
    assert [i for i, step in enumerate(steps) if step["optimizer"]] == [3, 7, 11, 15]
    assert all(step["optimizer"] == 0 for i, step in enumerate(steps) if i > 3 and i % 4 != 3)
    assert "optimizer in 4 of 18 steps" in show("show", file)


PROGRAM = """
import torch
from torch import nn

class Plain:
    "An optimizer that is not torch's."

    def __init__(self, parameters):
        self.parameters = [*parameters]

    def step(self):
        for p in self.parameters:
            p.data.sub_(0.01 * p.grad)

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = Plain(model.parameters())
for _ in range(6):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_what_torch_did_not_record_is_unknown(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    done = warm.python("-m", "lamina", "run", "train.py", cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
    file = tmp_path / "run.lamina"
    for step in phases_in(file):
        assert step["input"] is step["optimizer"] is None
        assert step["wait"] == 0
        assert step["own_backward"] > 0
    told = show("show", file)
    assert "input unknown, and in other: no DataLoader of torch was seen" in told
    assert "optimizer unknown, and in other: no torch.optim.Optimizer was seen" in told
    of = json.loads(show("show", file, "--json"))["runs"][0]["models"][0]["phases"]["of"]
    unknown = {phase["phase"]: phase["why"] for phase in of if phase["mean_ns"] is None}
    assert unknown == {
        "input": "no DataLoader of torch was seen",
        "optimizer": "no torch.optim.Optimizer was seen outside compiled code",
    }


def test_an_optimizer_that_calls_the_model(tmp_path):
    file, model = tmp_path / "run.lamina", net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x = torch.ones(4, 8)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    with lamina.watch(model, every=1, file=file):
        for _ in range(4):
            optimizer.step(closure)
    for step in phases_in(file):
        assert step["own_forward"] > 0
        assert step["own_backward"] > 0


def test_an_optimizer_in_the_backward_pass(tmp_path):
    """It steps each parameter when its gradient is there."""
    file, model = tmp_path / "run.lamina", net()
    each = {p: torch.optim.SGD([p], 0.01) for p in model.parameters()}

    def hook(p):
        time.sleep(LATE)  # not the optimizer's
        each[p].step()
        each[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    with lamina.watch(model, every=1, file=file):
        for _ in range(4):
            model(torch.ones(4, 8)).sum().backward()
    for step in phases_in(file):
        assert step["optimizer"] > 0
        assert step["own_backward"] > 4 * LATE * 1e9


def test_a_scaler(tmp_path):
    file, model = tmp_path / "run.lamina", net()
    scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD(model.parameters(), 0.01)
    with lamina.watch(model, every=1, file=file):
        for x, _ in DataLoader(Late(), batch_size=8):
            scaler.scale(model(x).sum()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    for step in phases_in(file):
        assert min(step[name] for name in ("input", "own_forward", "own_backward", "optimizer")) > 0


def test_compiled_models(tmp_path):
    file, model = tmp_path / "run.lamina", net()
    loop(model, DataLoader(Late(), batch_size=4), file, called=torch.compile(model, backend="eager"))
    for step in phases_in(file):
        assert min(step[name] for name in ("input", "own_forward", "own_backward", "optimizer")) > 0


def test_steps_without_gradients_or_without_an_end_have_none(tmp_path):
    file, model = tmp_path / "run.lamina", net()
    with lamina.watch(model, every=1, file=file):
        for _ in range(3):
            model(torch.ones(1, 8)).sum().backward()
        with torch.no_grad():
            model(torch.ones(1, 8))
    assert len(phases_in(file, "gradients = 0")) == 0
    assert len(phases_in(file, "gradients = 1")) == 3


def test_two_threads_have_their_own(tmp_path):
    """Each has its model, its loader and its optimizer; one loader is late."""
    files = [tmp_path / "quick.lamina", tmp_path / "late.lamina"]

    def run(file, late):
        loop(net(), DataLoader(Late(late=late), batch_size=4), file)

    threads = [
        threading.Thread(target=run, args=(file, late)) for file, late in zip(files, (0, LATE), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    late = [step["input"] for step in phases_in(files[1])]
    assert min(late) > 3 * LATE * 1e9, late
    quick = sorted(step["input"] for step in phases_in(files[0]))
    assert quick[len(quick) // 2] < 4 * LATE * 1e9


def test_a_thread_that_has_ended_leaves_no_spans_in_the_steps_of_another(tmp_path):
    """All steps of one thread run while the other waits for its second batch."""
    files, began, ended, waited = (
        [tmp_path / "a.lamina", tmp_path / "b.lamina"],
        threading.Event(),
        threading.Event(),
        [],
    )

    class Waits(Late):
        def __getitem__(self, i):
            if i == 1:  # the first step lasts until the second batch is there
                start = time.perf_counter()
                began.set()
                ended.wait()
                waited.append((time.perf_counter() - start) * 1e9)
            return super().__getitem__(i)

    class Slow(torch.optim.SGD):
        def step(self, closure=None):
            time.sleep(LATE)
            return super().step(closure)

    waiting = threading.Thread(target=loop, args=(net(), DataLoader(Waits(rows=3)), files[0]))
    waiting.start()
    began.wait()
    model = net()
    loop(model, DataLoader(Late(rows=5)), files[1], optimizer=Slow(model.parameters(), 0.1))
    ended.set()
    waiting.join()
    first = phases_in(files[0])[0]
    assert first["input"] >= waited[0] > 5 * LATE * 1e9, first


def test_differences_of_phases(tmp_path):
    before, after = tmp_path / "before.lamina", tmp_path / "after.lamina"
    loop(net(), DataLoader(Late(), batch_size=4), before)
    loop(net(), DataLoader(Late(late=LATE), batch_size=4), after)
    told = json.loads(show("diff", before, after, "--json"))["phases"]
    assert told["input"]["after"]["value"] > 4 * LATE * 1e9
    assert told["step"]["difference"]["value"] > 0
    lines = show("diff", before, after).splitlines()
    assert any(line.split()[:1] == ["phase"] for line in lines)
    assert any(line.split()[:1] == ["input"] for line in lines)


def test_the_page_has_them(tmp_path):
    file, page = tmp_path / "run.lamina", tmp_path / "run.html"
    loop(net(), DataLoader(Late(), batch_size=4), file)
    show("report", file, "-o", page)
    text = page.read_text("utf-8")
    assert "Phases of a step" in text
    for phase in ("input", "forward", "backward", "optimizer", "other"):
        assert f"</i>{phase}</th>" in text


COLLECTIVES = "SELECT collectives, collectives_hash FROM steps ORDER BY number"


def together(kind, folder):
    """Two processes by phases_worker; their recordings."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    worker = Path(__file__).with_name("phases_worker.py")
    words = (worker, kind, folder / "meet", folder / "run.lamina")
    ranks = [environment(RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    done = warm.together([warm.start(*words, env=env) for env in ranks])
    if any("ImportError" in each.stderr or "ModuleNotFoundError" in each.stderr for each in done):
        pytest.skip("this torch can't do that")
    assert [each.returncode for each in done] == [0, 0], done[0].stderr + done[1].stderr
    return [folder / f"run.{rank}.lamina" for rank in range(2)]


def collectives_in(file):
    with closing(sqlite3.connect(file)) as db:
        return db.execute(COLLECTIVES).fetchall()


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_a_process_that_waits_for_a_slow_one_has_comm(tmp_path, kind):
    files = together(kind, tmp_path)
    quick, slow = (phases_in(file) for file in files)
    assert len(quick) == len(slow) == STEPS - 1
    own = [[step["whole"] - step["wait"] for step in steps[1:]] for steps in (quick, slow)]
    for step, mine, other in zip(quick[1:], *own, strict=True):
        assert step["wait"] > SLOW / 2 * 1e9
        assert other - mine > SLOW / 2 * 1e9
    made = [collectives_in(file) for file in files]
    assert made[0] == made[1]
    assert all(n > 0 for n, _ in made[0][:-1])
    assert made[0][-1] == (None, None)  # the end of the last step is unknown
    told = json.loads(show("show", *files, "--json"))["verdict"]["collectives"]
    assert told is None  # they have other layers


def test_processes_that_began_other_collectives_are_told(tmp_path):
    """Sending and receiving are none, as one does one of these and another the other."""
    files = together("odd", tmp_path)
    alike, more = ([n for n, _ in collectives_in(file)] for file in files)
    assert [b - a for a, b in zip(alike[:-1], more[:-1], strict=True)] == [0] * (STEPS - 2) + [1]
    told = json.loads(show("show", *files, "--json"))["verdict"]["collectives"]
    assert (told["steps"], told["unlike"], told["step"]) == (STEPS - 2, 1, STEPS - 2)
    assert told["groups"] == [
        {"rank": rank, "ranks": 1, "collectives": n[STEPS - 2]} for rank, n in enumerate((alike, more))
    ]
    text = " ".join(show("show", *files).split())
    assert f"collectives differ in 1 of {STEPS - 2} recorded steps, first in step {STEPS - 2}: rank 0" in text
    steps = lamina.open(*map(str, files)).steps()
    assert steps["collectives"] == [n for file in files for n, _ in collectives_in(file)]
    assert steps["collectives_hash"] == [order for file in files for _, order in collectives_in(file)]


def test_a_process_that_is_alone_has_no_collectives(tmp_path):
    file = tmp_path / "run.lamina"
    loop(net(), DataLoader(Late(), batch_size=4), file)
    made = collectives_in(file)
    assert {n for n, _ in made[:-1]} == {0}
    assert len({order for _, order in made[:-1]}) == 1
