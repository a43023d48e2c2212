# SPDX-License-Identifier: Apache-2.0
"""A training step under DistributedDataParallel: its buckets beside what torch's own profiler counts."""

from __future__ import annotations

import allocated
import pytest
import torch
import torch.distributed as dist
from conftest import why_no_fit
from torch import nn

import lamina

WHY = why_no_fit() or (None if dist.is_available() and dist.is_gloo_available() else "torch has no gloo")
pytestmark = [
    pytest.mark.skipif(WHY is not None, reason=str(WHY)),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(autouse=True)
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def dense():
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64))


def frozen():
    model = dense()
    model[0].weight.requires_grad_(False)
    return model


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.unused = (nn.Linear(256, 256) for _ in range(3))
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x).relu())


class Mixed(nn.Module):
    """Parameters of two types, which have a bucket each."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(256, 512).bfloat16(), nn.Linear(512, 64)

    def forward(self, x):
        return self.b(self.a(x.bfloat16()).float())


class Inside(nn.Module):
    """The wrapper is a part of the model."""

    def __init__(self, **options):
        super().__init__()
        self.part, self.out = nn.parallel.DistributedDataParallel(dense(), **options), nn.Linear(64, 4)

    def forward(self, x):
        return self.out(self.part(x))


CASES = {
    "plain": (dense, {}),
    "frozen": (frozen, {}),
    "small buckets": (dense, {"bucket_cap_mb": 0.1}),
    "unused": (Tied, {"find_unused_parameters": True}),
    "static": (dense, {"static_graph": True}),
    "two types": (Mixed, {}),
}


def trained(model, x, make):
    """The peak of a step, without the buckets, which there were before."""
    optimizer = make(model.parameters())
    for _ in range(4):  # torch makes the buckets anew in the first ones
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    return allocated.step_peak(model, (x,), {}, optimizer) + allocated.held(model, (x,), {})


def in_buckets(wrapper):
    return sum(p.numel() * p.element_size() for p in wrapper.parameters() if p.requires_grad)


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("examples", [2, 256])
@pytest.mark.parametrize("name", CASES)
def test_gradients_have_buckets(name, examples, views):
    build, options = CASES[name]
    model = nn.parallel.DistributedDataParallel(build(), gradient_as_bucket_view=views, **options)
    x = torch.rand(examples, 256)
    before = [p.clone() for p in model.parameters()]
    step = lamina.fit(model, x, optimizer="adamw").step
    for p, was in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, was)
        assert p.grad is None
    buckets = in_buckets(model)
    assert (step.gap, step.rough) == (None, None)
    assert step.parts["gradients"] >= buckets
    if views:  # two small lists of the parameters that were used may be there
        assert step.parts["gradients"] <= buckets + 64
    taken = trained(model, x, torch.optim.AdamW) + buckets
    assert abs(step.bytes - taken) <= 0.001 * taken


@pytest.mark.parametrize("views", [False, True])
def test_a_wrapper_inside_the_model(views):
    model, x = Inside(gradient_as_bucket_view=views), torch.rand(64, 256)
    step = lamina.fit(model, x, optimizer="sgd").step
    taken = trained(model, x, lambda p: torch.optim.SGD(p, 0.1)) + in_buckets(model.part)
    assert abs(step.bytes - taken) <= 0.001 * taken


def test_a_wrapped_model_trains_after_a_prediction():
    model, x = nn.parallel.DistributedDataParallel(dense()), torch.rand(4, 256)
    forward = lamina.fit(model, x).forward
    assert forward.bytes == lamina.fit(model.module, x).forward.bytes + in_buckets(model)
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_what_a_hook_of_communication_takes_is_not_known():
    hooks = pytest.importorskip("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    model = nn.parallel.DistributedDataParallel(dense())
    model.register_comm_hook(None, hooks.fp16_compress_hook)
    step = lamina.fit(model, torch.rand(4, 256)).step
    assert step.bytes.state == "at least"
    assert step.gap == "what the communication hook of DistributedDataParallel takes is not known"


def test_a_dry_backward_says_that_nothing_is_reduced():
    model, x = nn.parallel.DistributedDataParallel(dense()), torch.rand(4, 256)
    real, dry = (lamina.inspect(model, x, backward=True, dry=dry) for dry in (False, True))
    assert real.backward.macs == dry.backward.macs
    assert real.backward.flops > dry.backward.flops
    said = [note for note in dry.notes if "adds them up over processes" in note]
    assert len(said) == 1
    assert not any("processes" in note for note in lamina.inspect(model, x, dry=True).notes)
    assert not any(
        "processes" in note for note in lamina.inspect(model.module, x, dry=True, backward=True).notes
    )
