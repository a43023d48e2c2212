# SPDX-License-Identifier: Apache-2.0
"""The optimizer of a predicted training step: its state and its step against those that torch's own profiler
counts."""

from __future__ import annotations

import allocated
import pytest
import torch
from conftest import why_no_fit
from torch import nn

import lamina
from lamina._dry.optimizer import names

optim = torch.optim
WHY = why_no_fit()
pytestmark = pytest.mark.skipif(WHY is not None, reason=str(WHY))


def net():
    return nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 256), nn.Linear(256, 64))


def plain(parts=3):
    return nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(parts)))


class Together:
    """Several optimizers that step one after another."""

    def __init__(self, every):
        self.every = every
        self.state = {}

    def zero_grad(self):
        for one in self.every:
            one.zero_grad()

    def step(self):
        for one in self.every:
            one.step()
            self.state.update(one.state)


def measured(model, x, optimizer):
    if isinstance(optimizer, list):
        optimizer = Together(optimizer)
    step = allocated.step_peak(model, (x,), {}, optimizer) + allocated.held(model, (x,), {})
    return step, allocated.kept(optimizer)


def holds(step, model, x, optimizer):
    """A prediction against the allocator: the step to 0.1 %, what the optimizer keeps to the byte."""
    taken, kept = measured(model, x, optimizer)
    assert (step.gap, step.rough) == (None, None)
    assert abs(step.bytes - taken) <= 0.001 * taken
    assert step.parts["optimizer"] == kept


# A name, and the options that it stands for.
NAMED = {
    "sgd": {},
    "sgd-momentum": {"momentum": 0.9},
    "sgd-nesterov": {"momentum": 0.9, "nesterov": True},
    "adam": {},
    "adamw": {},
    "adam-amsgrad": {"amsgrad": True},
    "adamw-fused": {"fused": True},
    "adamw-foreach": {"foreach": True},
    "adam-maximize": {"maximize": True},
    "nadam": {},
    "radam": {},
    "adamax": {},
    "rmsprop": {},
    "rmsprop-momentum": {"momentum": 0.9},
    "rmsprop-centered": {"centered": True},
    "rprop": {},
    "adagrad": {},
    "adadelta": {},
    "asgd": {},
    "adafactor": {},
}


@pytest.mark.parametrize("examples", [2, 512])
@pytest.mark.parametrize("name", NAMED)
def test_named_optimizers(name, examples):
    classes = {cls.lower(): getattr(optim, cls) for cls in dir(optim)}
    make = classes.get(name.partition("-")[0])
    if make is None:
        pytest.skip("this torch has no such optimizer")
    model, x = net(), torch.randn(examples, 256)
    step = lamina.fit(model, x, optimizer=name).step
    assert step.optimizer == name
    holds(step, model, x, make(model.parameters(), lr=1e-3, **NAMED[name]))


def test_every_optimizer_of_torch_has_a_name():
    of_torch = {c for c in vars(optim).values() if isinstance(c, type) and issubclass(c, optim.Optimizer)}
    assert set(names()) == {cls.__name__.lower() for cls in of_torch - {optim.Optimizer}}
    assert names()[0] == "adamw"
    assert {name.partition("-")[0] for name in NAMED} - set(names()) <= {"adafactor"}


@pytest.mark.skipif(not hasattr(optim, "Adafactor"), reason="since torch 2.5")
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_adafactor_holds_what_it_made_for_the_last_weight(parts):
    model, x = plain(parts), torch.rand(32, 64)
    holds(lamina.fit(model, x, optimizer="adafactor").step, model, x, optim.Adafactor(model.parameters()))


@pytest.mark.skipif(not hasattr(optim, "Muon"), reason="since torch 2.9")
def test_muon():
    model, x = plain(), torch.rand(8, 64)
    holds(lamina.fit(model, x, optimizer="muon").step, model, x, optim.Muon(model.parameters()))

    def both(parameters):
        matrices = [p for p in parameters if p.dim() == 2]
        return [optim.Muon(matrices), optim.AdamW([p for p in parameters if p.dim() < 2])]

    model, x = net(), torch.rand(8, 256)
    step = lamina.fit(model, x, optimizer=both).step
    assert step.optimizer == "Muon and AdamW"
    holds(step, model, x, both(list(model.parameters())))
    with pytest.raises(
        ValueError, match=r"'muon' can't be made of this model's parameters: Muon only supports"
    ):
        lamina.fit(model, x, optimizer="muon")


class Signs(optim.Optimizer):
    """Somebody's own: a mean of gradients, of which the signs are taken."""

    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"], state["steps"] = torch.zeros_like(p), 0
                state["steps"] += 1
                state["mean"].lerp_(p.grad, 0.1)
                p.add_(state["mean"].sign(), alpha=-group["lr"])


def scheduled(parameters):
    made = optim.SGD(parameters, 0.1)
    optim.lr_scheduler.StepLR(made, 1)
    return made


FUNCTIONS = {
    "foreach": lambda p: optim.AdamW(p, foreach=True),
    "fused": lambda p: optim.AdamW(p, fused=True),
    "weight decay": lambda p: optim.Adam(p, weight_decay=0.1),
    "several options": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, foreach=True),
    "a rate in a tensor": lambda p: optim.Adam(p, lr=torch.tensor(1e-3)),
    "groups": lambda p: optim.SGD([{"params": p[:2]}, {"params": p[2:], "momentum": 0.9}], lr=0.1),
    "somebody's own": Signs,
    "a list": lambda p: [optim.Adam(p[:2]), Signs(p[2:])],
    "with a scheduler": scheduled,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_parameters(name):
    model, x = net(), torch.randn(4, 256)
    step = lamina.fit(model, x, optimizer=FUNCTIONS[name]).step
    holds(step, model, x, FUNCTIONS[name](list(model.parameters())))


def test_the_model_and_its_optimizer_are_as_before():
    model, x = net(), torch.randn(4, 256)
    model.own = optim.Adam(model.parameters())
    before = [p.clone() for p in model.parameters()]
    assert lamina.fit(model, x).step.optimizer == "adamw"
    assert len(model.own.state) == 0
    assert all(
        torch.equal(p, was) and p.grad is None for p, was in zip(model.parameters(), before, strict=True)
    )
    mine = [p for group in model.own.param_groups for p in group["params"]]
    assert all(p is q for p, q in zip(mine, model.parameters(), strict=True))


def test_a_type_counts_for_the_state_too():
    model, x = plain(), torch.rand(8, 64)
    half, whole = (lamina.fit(model, x, dtype=dtype).step for dtype in (torch.bfloat16, None))
    counters = 3 * 4  # the number of steps of each parameter
    assert 2 * (half.parts["optimizer"] - counters) == whole.parts["optimizer"] - counters


def test_parameters_without_memory_have_a_state():
    with torch.device("meta"):
        model = nn.Linear(1 << 14, 1 << 14, bias=False)
    step = lamina.fit(model, torch.empty(8, 1 << 14, device="meta"), optimizer="adamw-fused").step
    assert step.parts["optimizer"] == 2 * (1 << 28) * 4 + 4


def test_what_the_optimizer_keeps_is_its_layer_s():
    model, x = net(), torch.randn(2, 256)
    step = lamina.fit(model, x, optimizer=lambda p: optim.SGD(p[:2], 0.1, momentum=0.9)).step
    kept = {row["path"]: row["optimizer"] for row in step.rows if "optimizer" in row}
    assert kept == {"0": 4 * (256 * 512 + 512)}


class Norm(optim.Optimizer):
    """Reads the norm of a gradient, which decides what it does."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad.norm().item() > 0.5:
                    p.sub_(p.grad * 2)


def test_where_made_up_values_decide_it_is_said():
    step = lamina.fit(net(), torch.randn(2, 256), optimizer=Norm).step
    assert step.rough == "values may decide what the step of Norm does"


class Fails(Norm):
    def step(self, closure=None):
        raise RuntimeError("it is Sunday")


class Array(Norm):
    def step(self, closure=None):
        self.param_groups[0]["params"][0].grad.numpy()


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        ("lbfgs", "the step of LBFGS can't be followed: it needs closure"),
        ("sparseadam", "the step of SparseAdam can't be followed: it raised RuntimeError"),
        (Fails, "the step of Fails can't be followed: it raised RuntimeError: it is Sunday"),
        (Array, "a dry run can't follow the optimizer's step: it needs its values as an array"),
    ],
)
def test_a_step_that_can_t_be_followed(optimizer, why):
    fit = lamina.fit(net(), torch.randn(2, 256), optimizer=optimizer)
    assert fit.step is None
    assert fit.no_step.startswith(why)
    assert fit.forward.bytes > 0


def test_sparse_gradients_are_refused_by_name():
    model = nn.Sequential(nn.Embedding(100, 16, sparse=True), nn.Flatten(), nn.Linear(64, 4))
    fit = lamina.fit(model, torch.randint(0, 100, (8, 4)), optimizer="sgd")
    assert "it makes a sparse gradient (sparse=False makes a dense one" in fit.no_step
    model[0].sparse = False
    assert lamina.fit(model, torch.randint(0, 100, (8, 4)), optimizer="sgd").step is not None


def test_code_that_runs_when_a_gradient_is_there_is_refused():
    model, x = net(), torch.randn(2, 256)
    each = {p: optim.SGD([p], 0.1) for p in model.parameters()}
    hook = model[1].weight.register_post_accumulate_grad_hook(lambda p: each[p].step())
    fit = lamina.fit(model, x)
    assert fit.step is None
    assert fit.no_step.startswith("code runs as soon as 1.weight has its gradient")
    hook.remove()
    assert lamina.fit(model, x).step is not None


def test_what_is_no_optimizer_is_refused():
    model, x = net(), torch.rand(3, 256)
    one, others = optim.SGD(model.parameters(), 0.1), net()
    for wrong, error, told in (
        (one, TypeError, r"not an? SGD; give one that makes it: lambda p: SGD\(p, ...\)"),
        (
            3,
            TypeError,
            "a name, as 'sgd', or a function of the parameters, not the number 3|not 3|not an int",
        ),
        ("lion", ValueError, "unknown optimizer 'lion'; there are: adamw, "),
        ("AdamW", ValueError, "unknown optimizer 'AdamW', did you mean adamw?"),
        ("sgd-foo", ValueError, r"torch\.optim\.SGD has no option 'foo'"),
        ("adam-momentum", ValueError, r"torch\.optim\.Adam has no option 'momentum'"),
        ("sgd-lr", ValueError, r"torch\.optim\.SGD has no option 'lr'"),
        (lambda p: None, ValueError, "returned None, which is no optimizer"),
        (lambda p: [], ValueError, "returned no optimizer"),
        (
            lambda p: optim.lr_scheduler.StepLR(optim.SGD(p, 0.1), 1),
            ValueError,
            "StepLR, which is no optimizer",
        ),
        (lambda p: one, ValueError, "must make a new optimizer of those that it is given"),
        (lambda p: optim.SGD(others.parameters(), 0.1), ValueError, "must make a new optimizer of those"),
    ):
        with pytest.raises(error, match=told):
            lamina.fit(model, x, optimizer=wrong)


def test_the_forward_alone():
    model, x = net(), torch.rand(3, 256)
    alone, both = lamina.fit(model, x, step=False), lamina.fit(model, x)
    assert (alone.step, alone.no_step) == (None, None)
    assert alone.forward.bytes == both.forward.bytes
    assert "training step" not in str(alone)
    with pytest.raises(ValueError, match="step=False: no optimizer makes a step then"):
        lamina.fit(model, x, step=False, optimizer="sgd")
    report = lamina.inspect(model, x)
    assert report.fit(step=False).forward.bytes == both.forward.bytes
    assert report.fit(optimizer=optim.AdamW).step.bytes == both.step.bytes
