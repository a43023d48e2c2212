# SPDX-License-Identifier: Apache-2.0
"""How, where and when a run was made: the provenance of its report. Unknown facts are left out."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from typing import TYPE_CHECKING

from .._base.machine import processor

if TYPE_CHECKING:
    from collections.abc import Mapping


def provenance(
    about: Mapping[str, str] | None = None, *, dry: bool = False, backward: bool | None = None
) -> dict[str, str]:
    """The facts of a run that begins now. ``about``: facts that only the caller knows, such as the model's
    ``target``; ``backward`` None: unknown so far."""
    torch = sys.modules["torch"]
    facts = {} if about is None else dict(about)
    facts["dry"] = "yes" if dry else "no"
    if backward is not None:
        facts["backward"] = "yes" if backward else "no"
    facts |= machine()
    facts["torch"] = str(torch.__version__)
    facts["threads"] = str(torch.get_num_threads())
    facts["date"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return facts


@cache
def machine() -> dict[str, str]:
    """Python, the system and the processor, which are the same for all runs of a process."""
    facts = {"python": sys.version.split()[0]}
    if hasattr(os, "uname"):
        name = os.uname()
        facts["system"] = f"{name.sysname} {name.release} {name.machine}"
    model = processor()
    if model:
        facts["processor"] = model
    return facts
