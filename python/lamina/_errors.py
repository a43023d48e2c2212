# SPDX-License-Identifier: Apache-2.0
"""The exceptions that lamina raises. Most are also the built-in exception that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._report import Report


class LaminaError(Exception):
    """What all of lamina's own exceptions have in common.

    Attributes:
        status: the core's name for it, ``"USAGE"``; empty when Python raised it.
        where: what it is about, ``"layer1.0.conv1"``; may be empty.
        at: the byte offset in a text that is malformed; -1 where none applies.
    """

    status: str = ""
    where: str = ""
    at: int = -1


class UsageError(LaminaError, ValueError):
    """The caller asked for something that does not exist or can't be done; the sentence says what can."""


class UnsupportedError(UsageError):
    """What was asked for is well formed, but this torch, this machine or this source can't do it."""


class NeedsValuesError(UnsupportedError):
    """A dry run came to where a model looks at values, which nobody computed, or can't be followed.

    Attributes:
        lamina_report: the layers up to there.
    """

    lamina_report: Report


class FormatError(LaminaError, ValueError):
    """A text (a formula, a command line, a file) is malformed."""


class LimitError(LaminaError):
    """A limit that guards against absurd input was reached."""


class RangeError(LaminaError, IndexError):
    """An index or a number lies outside its range."""


class InternalError(LaminaError, RuntimeError):
    """lamina itself is at fault; please report it."""
