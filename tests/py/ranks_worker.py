# SPDX-License-Identifier: Apache-2.0
"""One of two processes that run a model together; prints what each saw as a line of JSON."""

from __future__ import annotations

import json
import sys
import warnings

import torch
import torch.distributed as dist
from stored_kit import Wrapper, quantised, storages
from torch import nn
from where_kit import by_path

import lamina
from lamina._observe import memory


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))


def sharded(mesh):
    from torch.distributed.fsdp import fully_shard

    model = net()
    for part in (model[0], model):  # the root keeps what it gathers until the backward
        fully_shard(part, mesh=mesh)
    return model


def parallel(mesh):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    return parallelize_module(net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def told(report):
    return {
        "macs": by_path(report),
        "backward": by_path(report, "backward_macs"),
        "recompute": int(report.recompute.macs),
        "unruled": sorted(report.unruled_ops),
        "params": int(report.params),
        "local": [int(report.local_params), int(report.parameters["local_bytes"])],
        "rows": [
            [row.path, int(row.params), int(row.local_params), int(row.local_bytes)] for row in report.rows
        ],
        "notes": report.notes,
        "text": str(report),
        "json": json.loads(report.to_json())["totals"],
    }


def steps(model, x):
    """A first step, a second, and an inspection; before them one that they don't notice."""
    lamina.inspect(model, x)
    reports = []
    for _ in range(2):
        with lamina.capture(model, ops=True) as watch:
            model(x).sum().backward()
        reports.append(watch.report("exact"))
    reports.append(lamina.inspect(model, (x,), convention="exact", backward=True))
    return [told(report) for report in reports]


class Uneven(nn.Module):
    """Layers that two processes can't halve; of what `cut` gives no gradient comes back."""

    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.a, self.b, self.c = (
            nn.Linear(16, 30),
            nn.Sequential(nn.Linear(30, 30), nn.ReLU()),
            nn.Linear(30, 5),
        )

    def forward(self, x):
        h = torch.relu(self.a(x))
        return self.c(self.b(h.detach() if self.cut else h))


def stored(model, x):
    """What a training step told of memory and gradients, beside what is there; and what a forward told while
    the parameters may be gathered."""
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        model(x).pow(2).mean().backward()
        optimizer.step()

    step()
    optimizer.zero_grad()
    with lamina.capture(model, memory=not memory.refused()) as watch:
        step()
    report = watch.report()
    state = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
    there = {
        "parameters": storages(model.parameters()),
        "optimizer": storages(state),
        "no_gradient": sorted(name for name, p in model.named_parameters() if p.grad is None),
    }
    with lamina.capture(model, memory=not memory.refused()) as forward:
        model(x)
    whole = forward.report().parameters
    for part in model.modules():
        if hasattr(part, "reshard"):
            part.reshard()
    there["gradients"] = storages(p.grad for p in model.parameters() if p.grad is not None)
    gradients = None if memory.refused() else forward.report().memory.held["gradients"]
    optimizer.zero_grad()
    try:
        refused = str(lamina.fit(model, x))
    except lamina.LaminaError as error:
        refused = str(error)
    return {
        "there": there,
        "held": None if memory.refused() else {**report.memory.held, "gradients": gradients},
        "no_gradient": sorted(report.no_gradient),
        "why": sorted(set(report.no_gradient.values())),
        "backward": sorted(lamina.inspect(model, x, backward=True).no_gradient),
        "sizes": [int(whole[key]) for key in ("params", "local_params", "param_bytes", "local_bytes")],
        "refused": refused,
        "again": model(x).shape,
    }


def uneven(mesh, cut=False, **how):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Uneven(cut)
    for part in (model.b, model):
        fully_shard(part, mesh=mesh, **how)
    return model


def sizes(parameter):
    """The sizes that are told of a parameter."""
    model = nn.Module()
    model.weight = parameter
    with lamina.capture(model, ops=False) as watch:
        pass
    told = watch.report("layers").parameters
    return [
        int(told[key]) for key in ("params", "local_params", "param_bytes", "logical_bytes", "local_bytes")
    ]


def wrapped(mesh, rank):
    """A sharded tensor around a quantised one, and a quantised one around sharded tensors."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    whole = quantised(torch.rand(30, 8))
    rows = slice(15 * rank, 15 * rank + 15)
    part = Wrapper(whole.q[rows].clone(), whole.scale[rows].clone())
    spec = DTensorSpec(mesh, (Shard(0),), tensor_meta=TensorMeta(whole.shape, (8, 1), torch.float32))
    outside = nn.Parameter(DTensor(part, spec, requires_grad=False), requires_grad=False)
    inside = Wrapper(*(distribute_tensor(t, mesh, [Shard(0)]) for t in whole.parts()))
    copies = nn.Parameter(distribute_tensor(torch.rand(30, 8), mesh, [Replicate()]))
    return [sizes(p) for p in (outside, nn.Parameter(inside, requires_grad=False), copies)]


def main(rank, meet):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=2)
    from torch.distributed.device_mesh import init_device_mesh

    mesh, x = init_device_mesh("cpu", (2,)), torch.rand(4, 16)
    results = {"ddp": steps(nn.parallel.DistributedDataParallel(net()), x)}
    for name, build in (("fsdp", sharded), ("tp", parallel)):
        try:
            results[name] = steps(build(mesh), x)
        except ImportError as error:
            results[name] = str(error)
    cases = {
        "stored": lambda: stored(uneven(mesh), x),
        "stored without": lambda: stored(uneven(mesh, cut=True), x),
        "stored gathered": lambda: stored(uneven(mesh, reshard_after_forward=False), x),
        "wrapped": lambda: wrapped(mesh, rank),
    }
    for name, case in cases.items():
        try:
            results[name] = case()
        except ImportError as error:
            results[name] = str(error)
    sys.stdout.write("\n" + json.dumps(results) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
