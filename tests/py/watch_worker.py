# SPDX-License-Identifier: Apache-2.0
"""One of several processes that train a model together under a watch; they may be killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import lamina


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.Identity(), nn.Linear(32, 8))


class Slow(nn.Identity):
    """A layer that takes its time in one process."""

    def forward(self, x):
        if dist.get_rank() == 1:
            time.sleep(0.05)
        return super().forward(x)


def build(kind):
    if kind == "slow":
        model = net()
        model[1] = Slow()
        return nn.parallel.DistributedDataParallel(model)
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(net())
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = net(), init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    return model


def end(file, rank, world):
    """Kills this process once its steps are on the disk and no other one waits for it."""
    mine, written = Path(file).with_suffix(f".{rank}.lamina"), 0
    while written < 3:  # 0, 2 and 4: the sixth goes on
        time.sleep(0.01)
        with closing(sqlite3.connect(mine)) as db:
            written = db.execute("SELECT count(*) FROM steps").fetchone()[0]
    Path(f"{file}.{rank}").touch()
    while not all(Path(f"{file}.{other}").exists() for other in range(world)):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL if rank == world - 1 else signal.SIGTERM)


def main(kind, meet, file, fate):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    model = build(kind)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    every, steps = (1, 26) if kind == "slow" else (2, 9)
    with lamina.watch(model, every=every, file=file, memory=True) as watch:
        for step in range(steps):
            loss = model(torch.ones(4, 16)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if fate == "dies" and step == 6:
                end(file, rank, world)
    assert watch.stopped is None, watch.stopped
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
