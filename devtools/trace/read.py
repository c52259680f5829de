"""Reading a trace: what is in it as Python data, each entry when it is asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from etir.devtools.errors import E1401, E1402, E1403
from etir.devtools.trace.container import Container
from etir.diagnostics import SourceLocation
from etir.dialects.et.weights import write_atomically

VERSION = 1


@dataclass(frozen=True)
class Origin:
    """Where an operation of the imported program stands: what it was called, and its line.

    ``nodes`` has for each result the nodes of the FX graph that it is an output of, as pairs of name and number.
    """

    number: int
    op: str
    name: str
    method: str | None
    file: str
    line: int
    path: str
    nodes: tuple[tuple[tuple[str, int], ...], ...] = ()

    @property
    def where(self) -> str:
        """``model.py:41``, or nothing."""
        return f"{self.file}:{self.line}" if self.file else ""

    @property
    def node(self) -> str:
        """The node of the FX graph that the operation was imported for; empty where there is none."""
        return next((name for result in self.nodes for name, _ in result), "")


@dataclass(frozen=True)
class PassEntry:
    """One pass: its text in the pipeline, rewrites by pattern, how much it changed; the names of its entries."""

    index: int
    name: str
    text: str
    rewrites: dict[str, int]
    gone: int
    new: int
    changed: int
    missed: int
    changes: str | None
    level: str | None
    outcome: str | None


class Table:
    """Columns of a JSON entry, with rows of several numbers where ``NAME_start`` says where each begins."""

    def __init__(self, columns: dict[str, Any]):
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns["line"])

    def __getitem__(self, column: str) -> list[Any]:
        return self.columns[column]

    def several(self, column: str, row: int) -> list[int]:
        """The numbers of one row."""
        starts = self.columns[f"{column}_start"]
        return self.columns[column][starts[row] : starts[row + 1]]


class Trace:
    """The bytes of a trace and what they say.

    Raises error E1401 for anything else, E1402 for another version, E1403 for what is damaged.
    """

    def __init__(self, data: bytes, name: str = "<trace>"):
        self.data = data
        self.name = name
        self._entries = Container(data, name)
        head = self._json("trace.json")
        version = head.get("etir_trace") if isinstance(head, dict) else None
        if not isinstance(version, int):
            raise E1401.error("its trace.json is not that of a trace", SourceLocation(name))
        if version != VERSION:
            raise E1402.error(f"it has version {version}, this etir reads {VERSION}", SourceLocation(name))
        self.head: dict[str, Any] = head
        with self._checked("trace.json"):
            self.origins = tuple(map(_origin, head["origins"]))
            self.passes = tuple(_pass(i, entry) for i, entry in enumerate(head["passes"]))
            self.sha256: str | None = head["sha256"]
            self.target: str = head["target"]
            self.remarks: list[Any] = head["remarks"]

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The trace in a file. Raises ``OSError`` when it cannot be read, and what the class does."""
        return cls(Path(path).read_bytes(), str(path))

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_atomically(Path(path), [self.data])

    @property
    def entries(self) -> list[str]:
        """The names of the entries."""
        return self._entries.names

    @property
    def levels(self) -> list[str]:
        """The levels in order: ``0-aten``, ``1-core`` and so on."""
        return [n.removeprefix("levels/")[:-5] for n in self.entries if n.startswith("levels/") and n.endswith(".mlir")]

    def text(self, level: str) -> str:
        """The text of a level: of ``levels``, or a phase's name alone. Raises error E1403 for one that is not there."""
        return self._entries.read(f"levels/{self._level(level)}.mlir").decode("utf-8", "replace")

    def columns(self, level: str) -> Table:
        """The operations of a level."""
        return self._table(f"levels/{self._level(level)}.json")

    def changes(self, index: int) -> dict[str, Any]:
        """What a pass changed: rows of ``gone``, ``new`` (text, origins, pattern), ``changed`` (text before, and the
        same), ``missed`` (pattern, operation, origins, reason, how often).
        """
        name = self.passes[index].changes
        found = {} if name is None else self._json(name)
        return {"gone": [], "new": [], "changed": [], "missed": [], **found}

    @cached_property
    def instructions(self) -> dict[str, Table]:
        """By method: the instructions of the file."""
        return {method: Table(columns) for method, columns in self._json("instructions.json").items()}

    @cached_property
    def memory(self) -> dict[str, Any]:
        """By method: pools, buffers, bounds."""
        return self._json("memory.json")

    @cached_property
    def delegates(self) -> dict[str, Table]:
        """By symbol: the operations inside of delegates that their runtime half reports, and what else is said."""
        return {symbol: Table(columns) for symbol, columns in self._json("delegates.json").items()}

    @cached_property
    def times(self) -> list[tuple[str, float]]:
        """Seconds of each pass, where they were measured."""
        if "times.json" not in self.entries:
            return []
        with self._checked("times.json"):
            return [(str(name), float(seconds)) for name, seconds in self._json("times.json")]
        raise AssertionError

    @cached_property
    def _by_number(self) -> dict[int, Origin]:
        return {origin.number: origin for origin in self.origins}

    def origin(self, number: int) -> Origin | None:
        """The origin of a number, or None."""
        return self._by_number.get(number)

    def _level(self, name: str) -> str:
        return next((level for level in self.levels if name in (level, level.partition("-")[2])), name)

    def _table(self, name: str) -> Table:
        with self._checked(name):
            table = Table(self._json(name))
            len(table)
            return table
        raise AssertionError

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._entries.read(name))
        except (ValueError, RecursionError) as error:
            raise E1403.error(f"its entry '{name}' is not JSON: {error}", SourceLocation(self.name)) from None

    def _checked(self, entry: str) -> _Checked:
        return _Checked(self.name, entry)


def checked(trace: str, entry: str) -> _Checked:
    """Inside of it, data that is not of the form of an entry of a trace is error E1403."""
    return _Checked(trace, entry)


class _Checked:
    """Errors of data that is not of the form that a trace has, as E1403."""

    def __init__(self, name: str, entry: str):
        self._name, self._entry = name, entry

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        if isinstance(error, (KeyError, TypeError, ValueError, IndexError, AttributeError)):
            message = f"its entry '{self._entry}' is not of the form that a trace has: {error!r}"
            raise E1403.error(message, SourceLocation(self._name)) from None
        return False


def _origin(row: dict[str, Any]) -> Origin:
    nodes = tuple(tuple((str(n), int(i)) for n, i in result) for result in row.get("nodes", ()))
    method = row["method"]
    place = (str(row["file"]), int(row["line"]), str(row["path"]))
    return Origin(int(row["origin"]), str(row["op"]), str(row["name"]), method, *place, nodes)


def _pass(index: int, entry: dict[str, Any]) -> PassEntry:
    return PassEntry(
        index,
        str(entry["name"]),
        str(entry["text"]),
        dict(entry["rewrites"]),
        int(entry.get("gone", 0)),
        int(entry.get("new", 0)),
        int(entry.get("changed", 0)),
        int(entry.get("missed", 0)),
        entry.get("changes"),
        entry.get("level"),
        entry.get("outcome"),
    )
