# SPDX-License-Identifier: Apache-2.0
"""Parameters that FSDP2 gathered for a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def reshard(modules: Iterable[tuple[str, Any]]) -> None:
    """Gives each of the modules that FSDP2 shards its shards again. FSDP2 notes elsewhere which parameters it
    has gathered, so if they alone were restored, its next forward would gather none."""
    sharded: Any = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    for _, module in modules if sharded is not None else ():
        if isinstance(module, sharded):
            module.reshard()
