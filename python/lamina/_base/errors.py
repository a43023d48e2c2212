# SPDX-License-Identifier: Apache-2.0
"""The exceptions that lamina raises. Most are also the built-in exception that fits."""

from __future__ import annotations

TYPE_CHECKING = False  # as in lamina/__init__.py

if TYPE_CHECKING:
    from typing import Any


class LaminaError(Exception):
    """The base class of lamina's exceptions.

    Attributes:
        status: the core's name for it, ``"USAGE"``; empty if Python code raised it.
        where: its subject, ``"layer1.0.conv1"``; may be empty.
        at: the byte offset in a malformed text; -1: none.
    """

    status: str = ""
    where: str = ""
    at: int = -1


class UsageError(LaminaError, ValueError):
    """The request names something that does not exist, or is impossible; the sentence lists what is
    possible."""


class UnsupportedError(UsageError):
    """The request is well formed, but this torch, this machine or this source does not support it."""


class NeedsValuesError(UnsupportedError):
    """In a dry run, the model reads values, which were not computed, or can't be followed.

    Attributes:
        lamina_report: the layers that ran before, a :class:`lamina.Report`.
    """

    lamina_report: Any


class FormatError(LaminaError, ValueError):
    """A text (a formula, a command line, a file) is malformed."""


class LimitError(LaminaError):
    """A limit that guards against absurd input was reached."""


class RangeError(LaminaError, IndexError):
    """An index or a number is out of range."""


class InternalError(LaminaError, RuntimeError):
    """lamina itself is at fault; please report it."""


class CountError(LaminaError, RuntimeError):
    """A function that was registered for an operator's cost raised, or did not return a number."""
