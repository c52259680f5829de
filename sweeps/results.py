"""Results: one SQLite file, a row for each cell, written as cells end.

The id of a cell, a digest of all that its row depends on, is the primary key: a row is there once whoever writes it,
and a sweep asks for the ids before it starts. The journal is a write-ahead log, so that readers and several sweeps use
the file at once; a writer waits for another one for :data:`PATIENCE` seconds.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from etir.diagnostics import EtirError
from etir.sweeps.errors import E1905, E1906
from etir.sweeps.jobs import Outcome
from etir.sweeps.model import Cell, Figure

VERSION = 1
PATIENCE = 60.0
"""Seconds to wait for another writer."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cells (
  id TEXT PRIMARY KEY, sweep TEXT NOT NULL, program TEXT NOT NULL, target TEXT NOT NULL, delegates TEXT NOT NULL,
  recipe TEXT NOT NULL, options TEXT NOT NULL, status TEXT NOT NULL, error TEXT NOT NULL, message TEXT NOT NULL,
  figures TEXT NOT NULL, seconds REAL NOT NULL, attempts INTEGER NOT NULL, host TEXT NOT NULL, processor TEXT NOT NULL,
  compiler TEXT NOT NULL, finished REAL NOT NULL
) WITHOUT ROWID
"""
_COLUMNS = (
    *("id", "sweep", "program", "target", "delegates", "recipe", "options", "status", "error", "message"),
    *("figures", "seconds", "attempts", "host", "processor", "compiler", "finished"),
)


@dataclass(frozen=True)
class Row:
    """One cell's row. ``seconds`` are those of its own stages, ``finished`` is Unix time."""

    id: str
    sweep: str
    program: str
    target: str
    delegates: str
    recipe: str
    options: str
    status: str
    error: str
    message: str
    figures: dict[str, Figure]
    seconds: float
    attempts: int
    host: str
    processor: str
    compiler: str
    finished: float

    @property
    def name(self) -> str:
        """The coordinates of the cell: what has the same in two sweeps is compared."""
        return "/".join((self.program, self.target, self.delegates, self.recipe, self.options))

    @property
    def is_good(self) -> bool:
        """Whether the program does what it should."""
        return self.status == "ok"


class Results:
    """The file. Raises error E1905 for one that is not etir's, E1906 when it cannot be written."""

    def __init__(self, path: str | Path, *, read_only: bool = False):
        self.path = Path(path)
        if read_only and not self.path.is_file():
            raise E1905.error(f"there is no file '{path}'")
        try:
            self._db = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        except sqlite3.Error as error:
            raise E1906.error(f"cannot open '{path}': {error}") from None
        with self._errors(E1905 if read_only else E1906):
            try:
                found = self._db.execute("PRAGMA user_version").fetchone()[0]
                tables = self._db.execute("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise
                raise E1905.error(f"'{path}' is no file of results: {error}") from None
            if found not in (0, VERSION) or (tables and ("cells",) not in tables) or (read_only and not tables):
                raise E1905.error(f"'{path}' holds no results that this version of etir reads")
            if not read_only:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=NORMAL")
                if found != VERSION:  # A sweep that has nothing to do leaves every byte as it was.
                    self._db.execute(_SCHEMA)
                    self._db.execute(f"PRAGMA user_version={VERSION}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._db.close()

    def _errors(self, id: Any) -> _Errors:
        return _Errors(self.path, id)

    def add(self, sweep: str, id: str, cell: Cell, outcome: Outcome, attempts: int, compiler: str) -> None:
        """Write a row, unless there is one of that id. Raises error E1906; nothing is half written."""
        values = (
            *(id, sweep, cell.program, cell.target, cell.delegates, cell.recipe, cell.options),
            *(outcome.status, outcome.error, outcome.message, json.dumps(dict(outcome.figures))),
            *(outcome.seconds, attempts, outcome.host, outcome.processor, compiler, time.time()),
        )
        marks = ", ".join("?" * len(values))
        with self._errors(E1906):
            self._db.execute(f"INSERT OR IGNORE INTO cells ({', '.join(_COLUMNS)}) VALUES ({marks})", values)

    def has(self, id: str) -> bool:
        """Whether the cell's row is there."""
        with self._errors(E1906):
            return self._db.execute("SELECT 1 FROM cells WHERE id=?", (id,)).fetchone() is not None

    def ids(self) -> frozenset[str]:
        """The ids of all rows."""
        with self._errors(E1905):
            return frozenset(row[0] for row in self._db.execute("SELECT id FROM cells"))

    def remove(self, ids: Sequence[str]) -> None:
        """Forget rows, so that their cells run again."""
        with self._errors(E1906):
            self._db.executemany("DELETE FROM cells WHERE id=?", [(id,) for id in ids])

    def rows(self, *, latest: bool = True) -> Iterator[Row]:
        """All rows by their names; ``latest`` only the last one of each, which another compiler may have written."""
        chosen = "SELECT {0} FROM cells"
        if latest:
            names = "program, target, delegates, recipe, options"
            chosen = (
                f"SELECT {{0}} FROM (SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY finished DESC, id) "
                "AS place FROM cells) WHERE place=1"
            )
        order = " ORDER BY program, target, delegates, recipe, options, finished"
        with self._errors(E1905):
            for row in self._db.execute(chosen.format(", ".join(_COLUMNS)) + order):
                given = dict(zip(_COLUMNS, row, strict=True))
                yield Row(**{**given, "figures": json.loads(given["figures"])})


class _Errors:
    """Turns what SQLite raises into diagnostics."""

    def __init__(self, path: Path, id: Any):
        self._path, self._id = path, id

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not isinstance(error, sqlite3.Error) or isinstance(error, EtirError):
            return
        text = str(error)
        if "locked" in text:
            text = f"another process has kept it locked for {PATIENCE:.0f} s"
        raise self._id.error(f"'{self._path}': {text}") from None
