# SPDX-License-Identifier: Apache-2.0
"""The name of torch_inspector 0.1.0: change the import, keep the code."""

from __future__ import annotations

from ._gadgets import InspectorGadgets

__all__ = ["InspectorGadgets"]
