# SPDX-License-Identifier: Apache-2.0
"""Several processes that run one model: what is this one's is said so."""

from __future__ import annotations

import sys

from . import _lamina


def note() -> str | None:
    """Whose work a capture shows where several processes run together; None where there is one."""
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
