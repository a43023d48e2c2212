# SPDX-License-Identifier: Apache-2.0
"""One of two processes that run a model together; prints what each saw as a line of JSON."""

from __future__ import annotations

import json
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from where_kit import by_path

import lamina


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
    sys.stdout.write("\n" + json.dumps(results) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
