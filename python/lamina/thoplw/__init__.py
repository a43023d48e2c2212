# SPDX-License-Identifier: Apache-2.0
"""The names of thoplw 2024.1.25: change the import, keep the code."""

from __future__ import annotations

from . import format  # noqa: A004 - a public name of thoplw
from ._info import LayersInfo
from ._profile import profile
from .format import clever_format

__all__ = ["LayersInfo", "clever_format", "format", "profile"]
