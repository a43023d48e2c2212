# SPDX-License-Identifier: Apache-2.0
"""The parameters of a function."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Signature


def takes(function: Callable[..., Any]) -> Signature | None:
    """Its signature; None where it has none, as a scripted forward may.

    From Python 3.14 on annotations are read when they are asked for, and may name what only a type checker
    imports: those are left as they stand.
    """
    from inspect import signature

    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return signature(function, annotation_format=Format.FORWARDREF)
        return signature(function)
    except (TypeError, ValueError):
        return None
