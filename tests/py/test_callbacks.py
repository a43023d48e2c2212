# SPDX-License-Identifier: Apache-2.0
"""lamina.callbacks: what Lightning, the Trainer of Hugging Face and plain loops log; nothing stays behind."""

from __future__ import annotations

import subprocess
import sys
import types

import pytest
import torch
from conftest import environment
from ext_kit import module_call
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import lamina
from lamina import callbacks
from lamina._results.time import DeviceTime, Spent, Time
from lamina._watch import MOST_EVERY
from lamina.callbacks import StepMeter, check_options, peak_of

ALWAYS = {"forward_ms", "backward_ms", "other_ms", "step_ms", "flops", "peak_memory", "nonfinite"}


def names(metrics):
    return {name.removeprefix("lamina/") for name in metrics if name.startswith("lamina/")}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def flops_of_step(model, x):
    """What a capture of the same step counts, with its backward and what that recomputes."""
    model.zero_grad()
    with lamina.capture(model) as cap:
        model(x).sum().backward()
    report = cap.report()
    return report.flops + report.backward.flops + report.recompute.flops


# -- plain loops ---------------------------------------------------------------------------------------------


def loop(meter, model, steps, samples=None, tokens=None, value=1.0):
    x, recorded = torch.full((6, 8), value), []
    for i in range(steps):
        with meter.step(samples=samples, tokens=tokens) as metrics:
            model(x).sum().backward()
        if metrics:
            recorded.append((i, metrics))
    return recorded


def test_numbers_of_a_step_are_those_of_a_capture():
    model = net()
    meter = StepMeter(model, every=1, peak_flops=1e9)
    (_, metrics), _ = loop(meter, model, 2, samples=6, tokens=48)
    assert names(metrics) == ALWAYS | {"mfu", "hfu", "samples_per_s", "tokens_per_s"}
    assert metrics["lamina/flops"] == flops_of_step(model, torch.ones(6, 8))
    seconds = metrics["lamina/step_ms"] / 1e3
    macs = 6 * (8 * 16 + 16 * 4) + 6 * (8 * 16 + 2 * 16 * 4)
    assert metrics["lamina/mfu"] == metrics["lamina/hfu"] == pytest.approx(2 * macs / seconds / 1e9)
    assert metrics["lamina/samples_per_s"] == pytest.approx(6 / seconds)
    assert metrics["lamina/tokens_per_s"] == pytest.approx(48 / seconds)
    parts = sum(metrics[f"lamina/{part}_ms"] for part in ("forward", "backward", "other"))
    assert parts == pytest.approx(metrics["lamina/step_ms"])
    assert 0 < metrics["lamina/forward_ms"] < metrics["lamina/step_ms"]
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    assert metrics["lamina/peak_memory"] > weights
    assert metrics["lamina/nonfinite"] == 0
    assert meter.first_bad is None
    assert meter.stopped is None


def test_what_is_recomputed_is_work_and_time_of_its_own():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = net(), nn.Linear(4, 4)

        def forward(self, x):
            return self.head(checkpoint(self.body, x, use_reentrant=False))

    model = Again()
    [(_, metrics)] = loop(StepMeter(model), model, 1)
    assert names(metrics) == ALWAYS | {"recompute_ms"}
    assert metrics["lamina/flops"] == flops_of_step(model, torch.ones(6, 8))
    parts = sum(metrics[f"lamina/{part}_ms"] for part in ("forward", "backward", "recompute", "other"))
    assert parts == pytest.approx(metrics["lamina/step_ms"])


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [
        (torch.ones(3, 2), (3, None)),
        (torch.ones(()), (None, None)),
        ([torch.ones(4, 2), torch.ones(3)], (4, None)),
        (("a word", None, [[], [torch.ones(5)]]), (5, None)),
        ({"text": ["a", "b"], "x": torch.ones(2, 7)}, (2, None)),
        ({"input_ids": torch.ones(2, 9), "labels": torch.ones(8)}, (2, 18)),
        ({"input_ids": [1, 2, 3], "x": torch.ones(4)}, (4, None)),
        ({"x": torch.ones(()), "input_ids": torch.ones(6)}, (None, 6)),
        ([], (None, None)),
        ("text", (None, None)),
        (None, (None, None)),
        (7, (None, None)),
    ],
)
def test_samples_and_tokens_of_a_batch(batch, sizes):
    assert callbacks._sizes(batch) == sizes


@pytest.mark.parametrize(
    ("sizes", "total"),
    [([], None), ([None], None), ([3], 3), ([2, 5], 7), ([2, None], None), ([None, 2], None), ([0, 2], 2)],
)
def test_the_sizes_of_a_step_are_a_sum_if_all_are_known(sizes, total):
    assert callbacks._total(sizes) == total


def test_one_in_so_many_steps_is_recorded_as_a_watch_does():
    model = net()
    recorded = [i for i, _ in loop(StepMeter(model, every=10), model, 60)]
    assert recorded[0] == 0
    assert 5 <= len(recorded) <= 7
    assert len({i % 10 for i in recorded}) > 1  # not always the same part of a loop with a period


def test_what_is_not_asked_for_is_left_out():
    model = net()
    [(_, metrics)] = loop(StepMeter(model, memory=False, health=False), model, 1)
    assert names(metrics) == ALWAYS - {"peak_memory", "nonfinite"}


def test_work_that_cant_be_counted_makes_a_lower_bound():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 8)

        def forward(self, x):
            return torch.linalg.svdvals(self.fc(x))

    model = Odd()
    [(_, metrics)] = loop(StepMeter(model, peak_flops=1e12), model, 1)
    assert {"flops_at_least", "mfu_at_least", "hfu_at_least"} <= names(metrics)
    assert not {"flops", "mfu", "hfu"} & names(metrics)


def test_the_first_bad_layer_has_a_name(capfd):
    model = net()
    with torch.no_grad():
        model[2].weight[0, 0] = float("nan")
    meter = StepMeter(model, every=1)
    recorded = loop(meter, model, 2)
    assert meter.first_bad == "2"
    assert all(metrics["lamina/first_bad/2"] == 1 for _, metrics in recorded)
    assert all(metrics["lamina/nonfinite"] >= 1 for _, metrics in recorded)
    told = capfd.readouterr().err
    assert told.count("lamina: step 1: ") == 1
    assert "step 2" not in told  # once is enough


def test_a_bad_input_is_no_layers(capfd):
    model = net()
    meter = StepMeter(model)
    [(_, metrics)] = loop(meter, model, 1, value=float("nan"))
    assert metrics["lamina/first_bad/(no layer)"] == 1.0


def test_a_compiled_model():
    compiled = torch.compile(net(), backend="eager")
    recorded = loop(StepMeter(compiled, every=1), compiled, 3)
    assert len(recorded) == 3
    for _, metrics in recorded:
        assert metrics["lamina/forward_ms"] > 0
        assert {"flops", "flops_at_least"} & names(metrics)


def test_a_model_that_is_not_called_has_no_times():
    model, meter = net(), StepMeter(net())
    [(_, metrics)] = loop(meter, model, 1)
    assert "lamina/step_ms" in metrics
    assert not {"forward_ms", "backward_ms", "other_ms"} & names(metrics)


def test_an_exception_propagates_and_leaves_nothing():
    model, before = net(), module_call()
    meter = StepMeter(model, every=1)
    with pytest.raises(ZeroDivisionError), meter.step():
        model(torch.ones(1, 8))
        raise ZeroDivisionError
    assert module_call() == before
    assert len(loop(meter, model, 2)) == 2


def test_an_error_of_our_own_does_not_end_the_training(monkeypatch, capfd):
    model, before = net(), module_call()
    meter = StepMeter(model, every=1)
    monkeypatch.setattr(lamina.Report, "rows", property(lambda self: 1 / 0))
    assert loop(meter, model, 3) == []
    assert meter.stopped == "division by zero"
    assert capfd.readouterr().err.count("the program goes on: division by zero") == 1
    assert module_call() == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": 0}, "every is 0; it is a whole number"),
        ({"every": True}, "every is True"),
        ({"every": 2.0}, r"every is 2\.0"),
        ({"every": MOST_EVERY + 1}, "every is 2147483648"),
        ({"peak_flops": 0}, "peak_flops is 0; it is FLOP/s"),
        ({"peak_flops": float("nan")}, "peak_flops is nan"),
        ({"peak_flops": "h100"}, "there is no peak 'h100'"),
        ({"peak_flops": "measured:float32"}, r"give lamina\.roof\(dtype=\.\.\., device=\.\.\.\)\.flops"),
        ({"peak_flops": "h100-sxm"}, "has one peak for each type; name it, as in h100-sxm:bfloat16"),
    ],
)
def test_wrong_options(options, said):
    with pytest.raises(ValueError, match=said):
        StepMeter(net(), **options)
    check_options(every=1, peak_flops=1e-9)
    check_options(every=1, peak_flops="h100-sxm:bfloat16")
    assert peak_of("h100-sxm:bfloat16") == 989e12
    check_options(every=MOST_EVERY, peak_flops=None)


def test_wrong_model():
    with pytest.raises(TypeError):
        StepMeter("resnet18")


# -- the import ----------------------------------------------------------------------------------------------


def test_frameworks_are_imported_when_they_are_used():
    code = """
import sys, lamina.callbacks
dir(lamina.callbacks), lamina.callbacks.StepMeter
print([name for name in ("torch", "lightning", "pytorch_lightning", "transformers") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_framework_that_is_not_there_is_named(monkeypatch):
    for module in ("lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    for name, package in (("LightningCallback", "lightning"), ("TrainerCallback", "transformers")):
        monkeypatch.delitem(vars(callbacks), name, raising=False)
        with pytest.raises(ImportError, match=f"pip install {package}"):
            getattr(callbacks, name)
    with pytest.raises(AttributeError, match="it has LightningCallback"):
        callbacks.KerasCallback  # noqa: B018


def test_the_lightning_that_the_program_uses(monkeypatch):
    class Callback:
        pass

    module = types.ModuleType("lightning.pytorch")
    module.Callback = Callback
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", module)
    monkeypatch.delitem(sys.modules, "pytorch_lightning", raising=False)
    monkeypatch.delitem(vars(callbacks), "LightningCallback", raising=False)
    assert issubclass(callbacks.LightningCallback, Callback)
    del callbacks.LightningCallback  # monkeypatch would put back what it deletes, for all tests that follow


# -- a GPU ---------------------------------------------------------------------------------------------------


def test_a_gpus_clock_comes_first_and_it_is_waited_for(monkeypatch):
    waited, model = [], net()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waited.append(None))
    untimed = lamina.capture(model, memory=True, health=True)
    untimed.open = untimed.__enter__
    monkeypatch.setattr(callbacks, "RecordedStep", lambda *_, **__: untimed)
    meter, none = StepMeter(model, every=2), Spent(0, 0)
    by_gpu = DeviceTime(Spent(9_000_000, 3_000_000), Spent(5_000_000, 5_000_000), none)
    timed = types.SimpleNamespace(time=Time(Spent(1, 1), Spent(1, 1), none, by_gpu))
    monkeypatch.setattr(lamina.Report, "rows", [timed, timed, types.SimpleNamespace(time=None)])
    [(_, metrics)] = loop(meter, model, 2)
    assert (metrics["lamina/forward_ms"], metrics["lamina/backward_ms"]) == (6, 10)
    assert len(waited) == 2


# -- Lightning -----------------------------------------------------------------------------------------------


@pytest.fixture
def pl():
    return pytest.importorskip("pytorch_lightning")


class Kept:
    """Mixed into Lightning's logger: keeps what it is given."""

    name, version = "kept", "0"

    def __init__(self):
        super().__init__()
        self.kept = []

    def log_metrics(self, metrics, step=None):
        self.kept += [(step, metrics)] if names(metrics) else []

    def log_hyperparams(self, *args, **kwargs):
        pass


def lightning_run(pl, tmp_path, *, fails=False, called=True, accumulate=1, **options):
    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = net()

        def forward(self, x):
            return self.body(x)

        def training_step(self, batch, batch_idx):
            if fails and batch_idx == 1:
                raise ZeroDivisionError
            x, y = batch
            out = self(x) if called else self.body(x)
            return functional.mse_loss(out, y)

        def validation_step(self, batch, batch_idx):
            self.log("val", functional.mse_loss(self(batch[0]), batch[1]))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    logger = type("Logger", (Kept, pl.loggers.logger.Logger), {})()
    callback = callbacks.LightningCallback(**options)
    loader = DataLoader(torch.utils.data.TensorDataset(torch.rand(12, 8), torch.rand(12, 4)), batch_size=3)
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", logger=logger, callbacks=[callback], default_root_dir=tmp_path,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        accumulate_grad_batches=accumulate,
    )  # fmt: skip
    try:
        trainer.fit(Model(), loader, loader)
    finally:
        assert callback.meter._capture is None
    return callback, logger.kept


@pytest.mark.parametrize("called", [True, False])
def test_lightning_logs_each_recorded_step(pl, tmp_path, called):
    before = module_call()
    callback, kept = lightning_run(pl, tmp_path, called=called, every=1, peak_flops=1e12)
    assert isinstance(callback, pl.Callback)
    assert [step for step, _ in kept] == list(range(8))
    for _, metrics in kept:
        assert names(metrics) == ALWAYS | {"mfu", "hfu", "samples_per_s"}
        assert metrics["lamina/samples_per_s"] == pytest.approx(3e3 / metrics["lamina/step_ms"])
        assert metrics["lamina/forward_ms"] > 0
        assert metrics["lamina/backward_ms"] > 0
    assert module_call() == before
    assert callback.meter.stopped is None


def test_lightning_with_gradients_accumulated(pl, tmp_path):
    _, kept = lightning_run(pl, tmp_path, every=1, accumulate=2)
    assert len(kept) == 8


def test_lightning_training_that_raises_leaves_nothing(pl, tmp_path):
    before = module_call()
    with pytest.raises(ZeroDivisionError):
        lightning_run(pl, tmp_path, fails=True, every=1)
    assert module_call() == before


def test_lightning_takes_the_same_options():
    pytest.importorskip("pytorch_lightning")
    with pytest.raises(ValueError, match="every is 0"):
        callbacks.LightningCallback(every=0)


# -- the Trainer of Hugging Face -----------------------------------------------------------------------------


class Tokens(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, i):
        ids = torch.arange(10) + i
        return {"input_ids": ids, "labels": ids}


def trainer_of(tmp_path, *, fails=False, wrecked=False, accumulate=1, **options):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    transformers.utils.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2)

    class Trainer(transformers.Trainer):
        def compute_loss(self, *args, **kwargs):
            if fails and self.state.global_step == 1:
                raise ZeroDivisionError
            return super().compute_loss(*args, **kwargs)

    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=2, gradient_accumulation_steps=accumulate,
        max_steps=4, logging_steps=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens())
    if wrecked:

        class Optimizer(torch.optim.SGD):
            def step(self, closure=None):
                raise ZeroDivisionError

        trainer.optimizer = Optimizer(trainer.model.parameters(), 0.1)
    callback = callbacks.TrainerCallback(trainer, **options)
    assert isinstance(callback, transformers.TrainerCallback)
    trainer.add_callback(callback)
    return trainer, callback


def left(trainer, callback):
    """What a step leaves in the trainer and in torch."""
    return "training_step" in vars(trainer), callback.meter._capture, module_call()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_trainer_logs_each_recorded_step(tmp_path, accumulate):
    before = module_call()
    trainer, callback = trainer_of(tmp_path, accumulate=accumulate, every=1, peak_flops=1e12)
    trainer.train()
    ours = [logs for logs in trainer.state.log_history if names(logs)]
    assert [logs["step"] for logs in ours] == [1, 2, 3, 4]
    for logs in ours:
        assert names(logs) == ALWAYS | {"mfu", "hfu", "samples_per_s", "tokens_per_s"}
        seconds = logs["lamina/step_ms"] / 1e3
        assert logs["lamina/samples_per_s"] == pytest.approx(2 * accumulate / seconds)
        assert logs["lamina/tokens_per_s"] == pytest.approx(20 * accumulate / seconds)
    assert len([logs for logs in trainer.state.log_history if "loss" in logs]) == 4  # none is lost
    assert left(trainer, callback) == (False, None, before)
    assert callback.meter.stopped is None


def test_trainers_flops_are_those_of_a_capture(tmp_path):
    trainer, _ = trainer_of(tmp_path, every=4)
    trainer.train()
    [logs] = [logs for logs in trainer.state.log_history if names(logs)][:1]
    ids = torch.stack([torch.arange(10), torch.arange(10) + 1])
    model = trainer.model.train()
    with lamina.capture(model) as cap:
        model(input_ids=ids, labels=ids, num_items_in_batch=torch.tensor(18)).loss.backward()
    report = cap.report()
    counted = report.flops + report.backward.flops
    assert counted < logs["lamina/flops"] < counted + 4 * report.params  # it clips the gradients too


def test_a_trainer_that_compiles(tmp_path):
    trainer, _ = trainer_of(tmp_path, every=2)
    compiled = torch.compile(trainer.model, backend="eager")
    trainer._wrap_model = lambda *_, **__: compiled
    trainer.train()
    logged = [logs for logs in trainer.state.log_history if names(logs)]
    assert len(logged) == 2
    assert all(logs["lamina/forward_ms"] > 0 for logs in logged)


@pytest.mark.parametrize("how", ["fails", "wrecked"])
def test_trainer_that_raises_leaves_nothing(tmp_path, how):
    before = module_call()
    trainer, callback = trainer_of(tmp_path, every=1, **{how: True})
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    assert left(trainer, callback)[0] is False
    assert module_call() == before


def test_trainer_keeps_a_training_step_of_its_own(tmp_path):
    trainer, _ = trainer_of(tmp_path, every=1)
    calls, original = [], trainer.training_step

    def own(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    trainer.training_step = own
    trainer.train()
    assert len(calls) == 4
    assert vars(trainer)["training_step"] is own


def test_trainer_callback_wants_a_trainer():
    pytest.importorskip("transformers")
    with pytest.raises(TypeError, match=r"it is a transformers\.Trainer"):
        callbacks.TrainerCallback(net())
