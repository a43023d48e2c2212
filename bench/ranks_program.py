# SPDX-License-Identifier: Apache-2.0
"""One rank of a training run, as a user would write it: bench/ranks.py starts some, and makes one of them
slow, or has it end. It does not know that it is recorded.

    ranks_program.py FOLDER ddp|fsdp FAULT RANK SHARE

FAULT is none, loader, forward, backward (of block 3), raises or killed; RANK has it. A slow rank sleeps for
SHARE of a step, as it takes without that.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

WIDTH, BATCH, BLOCKS, SLOW, STEPS, TRIED = 128, 64, 6, 3, 240, 20


class Sleep:
    """How long the slow rank sleeps in a step."""

    seconds = 0.0


class Pause(torch.autograd.Function):
    """The identity, of which the gradient comes late."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> torch.Tensor:
        time.sleep(Sleep.seconds)
        return grad


class Block(nn.Module):
    def __init__(self, slow: str = "") -> None:
        super().__init__()
        self.up, self.down, self.slow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH), slow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.slow == "forward":
            time.sleep(Sleep.seconds)
        if self.slow == "backward":
            x = Pause.apply(x)
        return x + self.down(torch.relu(self.up(x)))


class Rows(Dataset[torch.Tensor]):
    def __init__(self, slow: bool) -> None:
        self.slow = slow

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, i: int) -> torch.Tensor:
        if self.slow and i % BATCH == 0:
            time.sleep(Sleep.seconds)
        return torch.full((WIDTH,), float(i % 7))


def build(kind: str, slow: str) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(slow if i == SLOW else "") for i in range(BLOCKS)))
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    return model


def main(folder: str, kind: str, fault: str, who: int, share: float) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    mine = fault if rank == who else "none"
    model = build(kind, mine if mine in ("forward", "backward") else "")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    began = time.perf_counter()
    for step, x in enumerate(DataLoader(Rows(mine == "loader"), batch_size=BATCH)):
        if step == TRIED:
            took = torch.tensor([(time.perf_counter() - began) / TRIED])
            dist.all_reduce(took, op=dist.ReduceOp.MAX)
            Sleep.seconds = float(took) * share
        if step == STEPS // 2 and mine == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if step == STEPS // 2 and mine == "raises":
            raise ValueError("a row of shard 7 is cut")
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
