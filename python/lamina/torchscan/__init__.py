# SPDX-License-Identifier: Apache-2.0
"""The names of torchscan 0.1.2: change the import, keep the code."""

from __future__ import annotations

from . import crawler, modules, process, utils
from .crawler import crawl_module, summary

__all__ = ["crawl_module", "crawler", "modules", "process", "summary", "utils"]
