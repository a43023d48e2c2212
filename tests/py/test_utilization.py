# SPDX-License-Identifier: Apache-2.0
"""What ``lamina/mfu`` and ``lamina/hfu`` are shares of: two FLOPs for each MAC of a step's forward and
backward, by closed forms."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from where_kit import not_observed

import lamina
from lamina import callbacks
from lamina.callbacks import StepMeter

if not_observed():
    pytest.skip(f"what ran without gradients is not told: {not_observed()}", allow_module_level=True)

PEAK = 1e12
FIRST, SECOND = 6 * 8 * 16, 6 * 16 * 4  # the products of the two layers of `net`
FORWARD, BACKWARD = FIRST + SECOND, FIRST + 2 * SECOND  # no gradient of the input is needed


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def x(grad=False):
    return torch.rand(6, 8, requires_grad=grad)


def behind(metrics, name):
    """The FLOPs that a share is of, and whether it is a lower bound."""
    [(full, share)] = [(n, v) for n, v in metrics.items() if n.startswith(f"lamina/{name}")]
    return round(share * metrics["lamina/step_ms"] * 1e-3 * PEAK), full.endswith("_at_least")


def utilized(model, step):
    """The MACs behind MFU and HFU of a step, which must be exact."""
    meter = StepMeter(model, every=1, peak_flops=PEAK)
    for _ in range(2):
        with meter.step() as metrics:
            step()
    assert meter.stopped is None
    told = [behind(metrics, name) for name in ("mfu", "hfu")]
    assert [least for _, least in told] == [False, False]
    assert all(flops % 2 == 0 for flops, _ in told)
    return tuple(flops // 2 for flops, _ in told)


def of_both(macs):
    return macs, macs


def test_a_step_has_its_forward_and_its_backward():
    model = net()
    assert utilized(model, lambda: model(x()).sum().backward()) == of_both(FORWARD + BACKWARD)
    assert utilized(model, lambda: model(x(True)).sum().backward()) == of_both(FORWARD + BACKWARD + FIRST)
    assert utilized(model, lambda: model(x())) == of_both(FORWARD)


@pytest.mark.parametrize(("reentrant", "again"), [(True, FORWARD), (False, FIRST)])  # the second stops early
def test_what_a_checkpoint_repeats_is_hardwares(reentrant, again):
    model = net()

    def step():
        checkpoint(model, x(True), use_reentrant=reentrant).sum().backward()

    macs = FORWARD + BACKWARD + FIRST
    assert utilized(model, step) == (macs, macs + again)


def test_all_batches_of_a_step_are_in_it():
    model = net()

    def step():
        for part in x().chunk(3):
            model(part).sum().backward()

    assert utilized(model, step) == of_both(FORWARD + BACKWARD)


@pytest.mark.parametrize(("frozen", "backward"), [(0, SECOND), (2, FIRST + SECOND), (None, 0)])
def test_a_frozen_layer_costs_what_ran_of_its_backward(frozen, backward):
    model = net()
    (model if frozen is None else model[frozen]).requires_grad_(False)

    def step():
        out = model(x()).sum()
        if out.requires_grad:
            out.backward()

    assert utilized(model, step) == of_both(FORWARD + backward)


def test_low_rank_layers_beside_frozen_ones():
    class Low(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = nn.Linear(8, 8).requires_grad_(False)
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

        def forward(self, x):
            return self.frozen(x) + self.up(self.down(x))

    model = nn.Sequential(Low(), Low())
    wide, narrow = 6 * 8 * 8, 6 * 8 * 2
    first, second = 3 * narrow, wide + 4 * narrow  # the input of the first needs no gradient
    macs = 2 * (wide + 2 * narrow) + first + second
    assert utilized(model, lambda: model(x()).sum().backward()) == of_both(macs)


class Products(torch.optim.Optimizer):
    """Multiplies matrices in its step, as Muon does."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        if closure is not None:
            with torch.enable_grad():
                closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.ndim == 2:
                    p.sub_(p.grad @ p.grad.T @ p.grad, alpha=1e-9)


def closure_of(model, optimizer):
    def closure():
        optimizer.zero_grad()
        loss = model(x()).sum()
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize("kind", [Products, torch.optim.AdamW, lambda p: torch.optim.LBFGS(p, max_iter=1)])
@pytest.mark.parametrize("closed", [True, False])
def test_an_optimizers_products_are_not_the_models(kind, closed):
    model = net()
    optimizer = kind(model.parameters())
    closure = closure_of(model, optimizer)
    if not closed and isinstance(optimizer, torch.optim.LBFGS):
        pytest.skip("it takes a closure")

    def step():
        if closed:
            optimizer.step(closure)
        else:
            closure()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    assert utilized(model, step) == of_both(FORWARD + BACKWARD)


def test_nor_are_those_of_an_optimizer_inside_the_backward():
    model = net()

    def hook(p):
        each = Products([p])
        each.step()
        each.zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(hook)
    assert utilized(model, lambda: model(x()).sum().backward()) == of_both(FORWARD + BACKWARD)


def test_products_of_the_loss_are_the_models_and_those_without_gradients_are_not():
    model, other, kept = net(), net(), [torch.eye(8)]
    targets = torch.rand(5, 4)

    def step():
        with torch.no_grad():
            other(x())  # another model, such as a teacher
        functional.cross_entropy(model(x()) @ targets.T, torch.arange(6) % 5).backward()
        with torch.no_grad():
            kept[0] = kept[0] @ kept[0]  # an average, or a metric

    assert utilized(model, step) == of_both(FORWARD + BACKWARD + 2 * 6 * 4 * 5)


def test_what_the_forward_runs_without_gradients_is_of_the_forward():
    class Distils(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.teacher = net(), net()

        def forward(self, x):
            with torch.no_grad():
                target = self.teacher(x)
            return functional.mse_loss(self.net(x), target)

    model = Distils()
    assert utilized(model, lambda: model(x()).backward()) == of_both(2 * FORWARD + BACKWARD)


def test_types_do_not_change_it_and_elementwise_work_has_none():
    model = net()

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x()).sum()
        loss.backward()

    assert utilized(model, step) == of_both(FORWARD + BACKWARD)
    plain = nn.Sequential(nn.GELU(), nn.LayerNorm(8))
    assert utilized(plain, lambda: plain(x(True)).sum().backward()) == of_both(0)


@pytest.mark.parametrize(("causal", "scores"), [(False, 12 * 12), (True, 78)])
def test_masked_scores_are_left_out_where_that_is_known(causal, scores):
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(8, 24, bias=False)

        def forward(self, x):
            q, k, v = (part.view(2, 12, 2, 4).transpose(1, 2) for part in self.project(x).chunk(3, -1))
            return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    model = Attends()
    got = utilized(model, lambda: model(torch.rand(2, 12, 8)).sum().backward())
    attends = 2 * 2 * scores * 4  # sequences, heads, scores, width of a head
    # Of a score: the query and the value; backward the query again and four gradients.
    assert got == of_both(2 * 24 * 8 * 24 + 2 * attends + 5 * attends)


def test_experts_count_the_rows_that_they_are_given():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.route = nn.Linear(8, 4, bias=False)
            self.experts = nn.ModuleList(nn.Linear(8, 16, bias=False) for _ in range(4))

        def forward(self, x):
            weight, chosen = self.route(x).softmax(-1).max(-1)
            out = x.new_zeros(len(x), 16)
            for i, expert in enumerate(self.experts):
                at = (chosen == i).nonzero()[:, 0]
                out = out.index_add(0, at, expert(x[at]) * weight[at, None])
            return out

    model = Experts()
    assert utilized(model, lambda: model(x()).sum().backward()) == of_both(2 * 6 * 8 * 4 + 2 * 6 * 8 * 16)


def test_lightning_runs_the_step_inside_the_optimizers(tmp_path):
    pl = pytest.importorskip("pytorch_lightning")

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = net()

        def training_step(self, batch, batch_idx):
            out = self.body(batch[0])
            return functional.cross_entropy(out @ out.detach().T, torch.arange(6))

        def configure_optimizers(self):
            return Products(self.parameters())

    callback = callbacks.LightningCallback(every=1, peak_flops=PEAK)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(12, 8)), batch_size=6)
    pl.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, callbacks=[callback], default_root_dir=tmp_path,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    ).fit(Model(), data)  # fmt: skip
    macs = FORWARD + BACKWARD + 2 * 6 * 4 * 6
    assert [behind(callback.meter.metrics, name) for name in ("mfu", "hfu")] == [(2 * macs, False)] * 2


def test_under_a_convention_that_counts_layers_it_is_unknown():
    report = lamina.inspect(net(), x(), convention="layers")
    assert report._model_macs().state == "unknown"


def test_what_cant_be_counted_makes_a_lower_bound():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return torch.linalg.svdvals(self.layer(x))

    model = Odd()
    with lamina.capture(model) as cap:
        model(x())
    report = cap.report()
    assert report._model_macs() == report.macs >= 6 * 8 * 8
    assert report._model_macs().state == "at least"
