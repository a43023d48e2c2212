# SPDX-License-Identifier: Apache-2.0
"""One of several processes that train a model together under a watch; the last one may be slow, or die."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn

import lamina


class Slow(nn.Module):
    """Takes its time in one process."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds

    def forward(self, x):
        time.sleep(self.seconds)
        return x


def net(seconds):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), Slow(seconds), nn.Linear(32, 8))


def build(kind, seconds):
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(net(seconds))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = net(seconds), init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    return model


def main(kind, meet, file, fate):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    last = rank == world - 1
    model = build(kind, 0.02 if last and fate == "slow" else 0)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with lamina.watch(model, every=2, file=file, memory=True) as watch:
        for step in range(9):
            loss = model(torch.ones(4, 16)).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if fate == "dies" and step == 6:
                time.sleep(0.8)  # what is done is on the disk
                os.kill(os.getpid(), signal.SIGKILL if last else signal.SIGTERM)
    assert watch.stopped is None, watch.stopped
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
