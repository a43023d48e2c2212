# SPDX-License-Identifier: Apache-2.0
"""Recordings as tables by columns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .. import _lamina
from .._base.errors import UsageError

if TYPE_CHECKING:
    from .._lamina import Table


class Recording:
    """What one recording holds, or several of the ranks of one run; see :func:`lamina.open`.

    Each method returns a :class:`lamina.Table`, whose columns docs/recording.md lists. Durations are in
    microseconds (``..._us``), moments in microseconds since 1970, sizes in bytes. What was not measured is
    None, and null in Arrow.
    """

    def __init__(self, files: tuple[str | os.PathLike[str], ...], run: int) -> None:
        self.files = tuple(os.fspath(file) for file in files)
        self._held = _lamina.Recordings([(os.fsencode(file), run) for file in files])

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilization of the steps of the model that takes most time, from 0 to 1; of several
        ranks the median. None if it is unknown, of one of them too: :attr:`why_mfu` says why."""
        return self._middle("mfu")

    @property
    def hfu(self) -> float | None:
        """Hardware FLOPs utilization: the same with the work that backward passes repeat."""
        return self._middle("hfu")

    @property
    def mfu_at_least(self) -> bool:
        """True if :attr:`mfu` and :attr:`hfu` are lower bounds."""
        return any(self.ranks()["flops_at_least"])

    @property
    def why_mfu(self) -> str | None:
        """Why they are unknown, or lower bounds; None: they are exact."""
        return next((why for why in self.ranks()["why_mfu"] if why is not None), None)

    def _middle(self, column: str) -> float | None:
        from statistics import median  # takes a twentieth of lamina's import

        shares = self.ranks()[column]
        return None if None in shares else median(shares)

    def ranks(self) -> Table:
        """A row for each file: the process, where it ran, and how far it came."""
        return self._held.table("ranks")

    def steps(self) -> Table:
        """A row for each recorded step of each model: its length, and the phases that it consists of."""
        return self._held.table("steps")

    def layers(self) -> Table:
        """A row for each layer in each hour: medians of its own forward and backward time, without the
        layers inside it, over at most 16 recorded steps of the hour. The files are read again.

        Raises:
            OSError: a file can't be read, or is damaged.
        """
        return self._held.table("layers")

    def __repr__(self) -> str:
        return f"<lamina.Recording: {', '.join(self.files)}>"


def open(*files: str | os.PathLike[str], run: int = 0) -> Recording:  # noqa: A001 - it is lamina.open
    """Opens a recording, or those of several ranks of a run, to read what they hold as tables.

    ::

        steps = lamina.open("run.lamina").steps()
        duckdb.sql("SELECT step, step_us FROM steps")  # polars.from_arrow(steps), pyarrow.table(steps), ...

    Args:
        files: recordings, one for each rank. A file may still be written.
        run: the number of the run in each file; 0: its newest.

    Raises:
        UsageError: no file is named, or a file has no such run.
        OSError: a file can't be read, is no recording, or is damaged.
    """
    if not files:
        raise UsageError('open needs a file, as lamina.open("run.lamina")')
    return Recording(files, run)
