"""Rows on their way to the file of results.

A disk that is full holds up rows, not the sweep: what took the room is often a cell, which gives it back when it ends.
So the others go on, rows wait here, and are tried again with each that comes. Only what cannot be written at the end,
or too many of them, are an error.
"""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Self

from etir.sweeps.errors import E1906
from etir.sweeps.jobs import Outcome
from etir.sweeps.model import Cell
from etir.sweeps.results import Results

MOST = 1000
"""Rows that wait for room at most."""

PATIENCE = 60.0
"""Seconds in which there has to be room when nothing else is left to do."""


class Writer:
    """Writes rows of one sweep. Leave it to write what waits; when an exception is on its way, once and no more."""

    def __init__(self, results: Results, sweep: str, compiler: str):
        self._results, self._sweep, self._compiler = results, sweep, compiler
        self._waiting: deque[tuple[str, Cell, Outcome, int]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        give_up = time.monotonic() + PATIENCE
        while not self._all_written() and error is None:
            if time.monotonic() > give_up:
                raise self._full()
            time.sleep(0.2)

    def add(self, id: str, cell: Cell, outcome: Outcome, attempts: int) -> None:
        """One more. Raises error E1906 for a file that cannot be written, or when too many wait for room."""
        self._waiting.append((id, cell, outcome, attempts))
        if not self._all_written() and len(self._waiting) > MOST:
            raise self._full()

    def _all_written(self) -> bool:
        while self._waiting:
            id, cell, outcome, attempts = self._waiting[0]
            if not self._results.add(self._sweep, id, cell, outcome, attempts, self._compiler):
                return False
            self._waiting.popleft()
        return True

    def _full(self) -> Exception:
        lost = len(self._waiting)
        return E1906.error(f"'{self._results.path}': the disk is full; {lost} rows could not be written")
