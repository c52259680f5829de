"""Results: one SQLite file, a row for each cell, written as cells end.

The id of a cell, a digest of all that its row depends on, is the primary key: a row is there once whoever writes it,
and a sweep asks for the ids before it starts. A row that is ``ok`` stays; any other gives way to the row of a cell that
was tried again, so that nothing is lost while it is. The journal is a write-ahead log, so that readers and several
sweeps use the file at once; a writer waits for another one for :data:`PATIENCE` seconds.

The log has a whole page for each row, many times what rows take in the file, and SQLite moves them there when it has
4 MB. On a disk that is nearly full the log is kept short, so that it is not what takes the room; and when there is
none, it is emptied before a row has to wait.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import time
from collections.abc import Container, Iterator
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

SCARCE = 64 << 20
"""Bytes of a disk's room below which the log is kept short."""

LOG_PAGES = {False: 1000, True: 16}
"""Pages of the log that are moved to the file together, by whether room is scarce: the fewer, the more often the disk
has to be waited for."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cells (
  id TEXT PRIMARY KEY, sweep TEXT NOT NULL, program TEXT NOT NULL, target TEXT NOT NULL, delegates TEXT NOT NULL,
  recipe TEXT NOT NULL, options TEXT NOT NULL, status TEXT NOT NULL, error TEXT NOT NULL, message TEXT NOT NULL,
  figures TEXT NOT NULL, seconds REAL NOT NULL, attempts INTEGER NOT NULL, host TEXT NOT NULL, processor TEXT NOT NULL,
  compiler TEXT NOT NULL, finished REAL NOT NULL
) WITHOUT ROWID
"""
LONGEST = 4000
"""Letters of a message that are kept."""

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
        return "/".join(self.at)

    @property
    def at(self) -> tuple[str, ...]:
        """The coordinates, of which names may have slashes."""
        return (self.program, self.target, self.delegates, self.recipe, self.options)

    def machine(self, figure: str = "") -> str:
        """The host and the processor that a figure is of: compiled and timed on a cluster, a cell has two."""
        own = f"{self.host}, {self.processor}" if self.processor else self.host
        return str(self.figures.get("compiled_on", own)) if figure == "compile_seconds" else own

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
                found = self._patiently("PRAGMA user_version").fetchone()[0]
                tables = self._patiently("SELECT name FROM sqlite_master WHERE type='table'").fetchall()
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise
                if read_only and isinstance(error, sqlite3.OperationalError):
                    raise E1905.error(
                        f"cannot read '{path}': {error}",
                        help="SQLite keeps a file of 32 KB beside it to read it; make room there, or copy it elsewhere",
                    ) from None
                raise E1905.error(f"'{path}' is no file of results: {error}") from None
            if found > VERSION and ("cells",) in tables:
                message = f"'{path}' has format {found}; this version of etir reads format {VERSION}"
                raise E1905.error(message, help="read it with the version of etir that wrote it, or a newer one")
            if found not in (0, VERSION) or (tables and ("cells",) not in tables) or (read_only and not tables):
                raise E1905.error(f"'{path}' holds no results that this version of etir reads")
            if not read_only:
                self._patiently("PRAGMA journal_mode=WAL")
                self._patiently("PRAGMA synchronous=NORMAL")
                if found != VERSION:  # A sweep that has nothing to do leaves every byte as it was.
                    self._patiently(_SCHEMA)
                    self._patiently(f"PRAGMA user_version={VERSION}")
            self._is_scarce = False
            self._last = 0.0 if not tables else self._db.execute("SELECT max(finished) FROM cells").fetchone()[0] or 0.0

    def _patiently(self, statement: str) -> sqlite3.Cursor:
        """Execute a statement while another process may open the same new file: SQLite does not wait for the other one
        where both switch to its write-ahead log.
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self._db.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._db.close()

    def _errors(self, id: Any) -> _Errors:
        return _Errors(self.path, id)

    def add(self, sweep: str, id: str, cell: Cell, outcome: Outcome, attempts: int, compiler: str) -> bool:
        """Write a row, unless there is one of that id that is ``ok``; False when the disk has no room for it.

        Raises error E1906 for anything else; nothing is half written.
        """
        # The last row of a cell is the one that was written last, also on a machine whose clock was set back.
        self._last = max(time.time(), math.nextafter(self._last, math.inf))
        message = outcome.message if len(outcome.message) <= LONGEST else f"{outcome.message[:LONGEST]}..."
        values = (
            *(id, sweep, cell.program, cell.target, cell.delegates, cell.recipe, cell.options),
            *(outcome.status, outcome.error, _encodable(message), json.dumps(dict(outcome.figures))),
            *(outcome.seconds, attempts, outcome.host, outcome.processor, compiler, self._last),
        )
        with self._errors(E1906):
            self._mind_the_room()
            return self._has_written(values) or (self._has_emptied_log() and self._has_written(values))

    def _mind_the_room(self) -> None:
        """Keep the log short while the disk has little room."""
        is_scarce = shutil.disk_usage(self.path.parent).free < SCARCE
        if is_scarce != self._is_scarce:
            self._is_scarce = is_scarce
            self._db.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES[is_scarce]}")
            if is_scarce:
                self._has_emptied_log()

    def _has_written(self, values: tuple[Any, ...]) -> bool:
        """Write a row; False when the disk has no room for it."""
        return self._unless_full(_INSERT, values) is not None

    def _has_emptied_log(self) -> bool:
        """Move the pages of the log to the file, and give back its room; False where that finds no room itself, or
        another process reads the log.
        """
        found = self._unless_full("PRAGMA wal_checkpoint(TRUNCATE)")
        return found is not None and found.fetchone()[0] == 0

    def _unless_full(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor | None:
        try:
            return self._db.execute(statement, values)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            return None

    def has(self, id: str) -> bool:
        """Whether the cell's row is there."""
        with self._errors(E1906):
            return self._db.execute("SELECT 1 FROM cells WHERE id=?", (id,)).fetchone() is not None

    def ids(self, *, good: bool = False) -> frozenset[str]:
        """The ids of all rows, or of those that are ``ok``."""
        which = " WHERE status='ok'" if good else ""
        with self._errors(E1905):
            return frozenset(row[0] for row in self._db.execute(f"SELECT id FROM cells{which}"))

    def rows(self, *, latest: bool = True, ids: Container[str] | None = None) -> Iterator[Row]:
        """All rows by their names; ``latest`` only the last one of each, which another compiler may have written;
        ``ids`` those of these alone, whenever they were written.
        """
        latest = latest and ids is None
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
                if ids is None or given["id"] in ids:
                    yield Row(**{**given, "figures": json.loads(given["figures"])})


_INSERT = (
    f"INSERT INTO cells ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name}=excluded.{name}' for name in _COLUMNS[1:])} "
    "WHERE cells.status != 'ok'"
)


def _encodable(text: str) -> str:
    """Text of the user's code as UTF-8 can say it: half of a surrogate pair is written as its number."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
