# SPDX-License-Identifier: Apache-2.0
"""Several processes that run one model: results of this process alone are labelled."""

from __future__ import annotations

import os
import sys

from .. import _lamina


def note() -> str | None:
    """A note that names the captured process, if there are several; None if there is one."""
    if not _lamina.has_group():
        return None
    distributed = sys.modules["torch.distributed"]
    try:
        rank, size = distributed.get_rank(), distributed.get_world_size()
    except (AttributeError, RuntimeError, ValueError):
        return None
    if size == 1:
        return None
    return f"work is what rank {rank} of {size} ran; params are the whole model's, local_params this rank's"


def rank_and_world() -> tuple[int, int]:
    """The rank of this process and the number of processes; (0, 1) if it runs alone."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (AttributeError, KeyError, RuntimeError, ValueError):
        return 0, 1


def job_and_attempt(named: str | None) -> tuple[str | None, int]:
    """What all processes and all starts of a run share, ``named`` or as its launcher calls it, or None; and
    the least attempt that this start can be, or 0."""
    given = os.environ.get("TORCHELASTIC_RUN_ID")
    own = given if given and given != "none" else None  # torchrun's word for a run without a name
    starts = os.environ.get("TORCHELASTIC_RESTART_COUNT" if given else "SLURM_RESTART_COUNT", "")
    job = named or own or os.environ.get("SLURM_JOB_ID") or None
    return job, int(starts) + 1 if starts.isdecimal() and len(starts) < 9 and (job or int(starts)) else 0


def file_of_rank(file: str) -> str:
    """``run.lamina`` for one process, ``run.3.lamina`` for rank 3 of several."""
    rank, world = rank_and_world()
    if world < 2:
        return file
    stem, dot, end = file.rpartition(".")
    return f"{stem}.{rank}.{end}" if dot and os.sep not in end and stem else f"{file}.{rank}"
