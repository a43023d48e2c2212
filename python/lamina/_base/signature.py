# SPDX-License-Identifier: Apache-2.0
"""The parameters of a function."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Signature


def takes(function: Callable[..., Any]) -> Signature | None:
    """The signature of a function; None if it has none, such as a scripted forward.
    From Python 3.14 on annotations are evaluated at their first use, and may have names that only a type
    checker imports: those are not evaluated.
    """
    from inspect import signature

    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return signature(function, annotation_format=Format.FORWARDREF)
        return signature(function)
    except (TypeError, ValueError):
        return None
