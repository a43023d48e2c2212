# SPDX-License-Identifier: Apache-2.0
"""One of several processes that train a model together, of which the last one is slow in its forward."""

from __future__ import annotations

import os
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch import nn
from watch_worker import build

import lamina

SLOW, STEPS = 0.2, 5


class Slow(nn.Module):
    """The identity, after a while."""

    def forward(self, x):
        time.sleep(SLOW)
        return x


def begin_others(step, rank, alone):
    """The first process sends, and the second one receives and has a collective of its own in the end."""
    if rank == 0:
        dist.send(torch.ones(2), 1)
    else:
        dist.recv(torch.ones(2), 0)
        if step >= STEPS - 2:
            dist.all_reduce(torch.ones(2), group=alone)


def main(kind, meet, file):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    odd = kind == "odd"
    kind = "ddp" if odd else kind
    alone = dist.new_group([1]) if odd else None
    model = build(kind)
    if rank == world - 1 and not odd:
        (model.module if kind == "ddp" else model)[1] = Slow()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with lamina.watch(model, every=1, file=file) as watch:
        for step in range(STEPS):
            model(torch.ones(2, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if odd:
                begin_others(step, rank, alone)
    assert watch.stopped is None
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
