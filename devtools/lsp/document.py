"""A file that is open in an editor: what is wrong with it, and what stands where.

A file may hold several modules between lines ``// -----``. Each is a :class:`Part` that is read again only when its
text changes, and then without parsing the operations whose lines are the same. Lines and columns count from 0, columns
in characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from etir.devtools.errors import E1430
from etir.devtools.expectations import match, parse_expectations
from etir.devtools.lsp.memo import Memo
from etir.devtools.lsp.names import Name, Names
from etir.devtools.lsp.reader import BrokenOp, Reader, Spot
from etir.diagnostics import Diagnostic, EtirError, SourceLocation
from etir.dialects.context import EtContext
from etir.dialects.et.origin import origins_in, plain
from etir.dialects.split import Chunk, split_input
from etir.dialects.text import deep_regions, source_location
from etir.dialects.verified import VerifiedOperations
from etir.dialects.verify import problems

_FILE = "<text>"
_WORD = re.compile(r'[%@^#!]?[\w$.-]+|"(?:[^"\\\n]|\\.)*"')
_SYMBOL = re.compile(r"@([\w$.-]+)|has a dim '([^']+)'")


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of the text: first character, and the one after the last."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A diagnostic and what it is about."""

    place: Place
    diagnostic: Diagnostic


class Part:
    """One module of a file. Lines of its diagnostics count from 1 in its own text."""

    def __init__(self, text: str, ctx: EtContext, verified: VerifiedOperations, old: Part | None = None):
        self.text = text
        self._starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
        reader = Reader(ctx, text, _FILE, memo=None if old is None else old.memo)
        self.module: ModuleOp = reader.read()
        self.memo: Memo = reader.memo
        self.spots: list[Spot] = sorted(reader.spots, key=lambda spot: (spot.start, -spot.end))
        found = [*reader.faults, *self._unverified(reader, verified)]
        self.diagnostics: list[Diagnostic] = _unexpected(text, found)

    def _unverified(self, reader: Reader, verified: VerifiedOperations) -> Iterator[Diagnostic]:
        """Problems of what could be read that do not come from what could not."""
        broken = [spot.op for spot in self.spots if isinstance(spot.op, BrokenOp)]
        around = {parent.location for op in broken if (parent := op.parent_op()) is not None}
        doubtful = [(self.line_of(start) + 1, self.line_of(end) + 1) for start, end in reader.doubtful]
        try:
            for found in problems(self.module, verified=verified):
                at = found.location
                symbol = _SYMBOL.search(found.message)
                if symbol is not None and (symbol[1] or symbol[2]) in reader.lost_symbols:
                    continue
                if at is not None and any(first <= at.line <= last for first, last in doubtful):
                    continue
                if at is not None and any(at == source_location(location) for location in around):
                    continue
                yield found
        except Exception as error:  # A verifier that does not expect what somebody is just writing.
            message = f"not everything was verified: {type(error).__name__}: {error}".split("\n")[0]
            yield E1430.diagnostic(message, SourceLocation(_FILE, 1, 1))

    def line_of(self, position: int) -> int:
        """The line of a character, from 0."""
        return bisect_right(self._starts, position) - 1

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Line and column of a character, from 0."""
        line = self.line_of(position)
        return line, position - self._starts[line]

    def position(self, line: int, column: int) -> int:
        """The character at a line and column, or the nearest one that there is."""
        if line >= len(self._starts):
            return len(self.text)
        end = self._starts[line + 1] - 1 if line + 1 < len(self._starts) else len(self.text)
        return min(self._starts[line] + column, end)

    def line_text(self, line: int) -> str:
        """A line without its end."""
        end = self._starts[line + 1] - 1 if line + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[line] : end] if line < len(self._starts) else ""

    @cached_property
    def names(self) -> Names:
        """The names in the text."""
        return Names(self.text)

    @cached_property
    def _first(self) -> list[int]:
        return [spot.start for spot in self.spots]

    def spot_at(self, position: int) -> Spot | None:
        """The innermost operation that a character belongs to; on its line at least."""
        index = bisect_right(self._first, position) - 1
        if index < 0 or self.line_of(self.spots[index].start) != self.line_of(position):
            # White space before an operation belongs to it.
            following = index + 1
            if following < len(self.spots) and self.line_of(self._first[following]) == self.line_of(position):
                return self.spots[following]
        while index >= 0:
            spot = self.spots[index]
            if position < spot.end:
                return spot
            index -= 1
        return None

    def spot_of(self, op: Operation) -> Spot | None:
        """Where an operation stands."""
        return self._by_op.get(op)

    @cached_property
    def _by_op(self) -> dict[Operation, Spot]:
        return {spot.op: spot for spot in self.spots}

    @cached_property
    def by_source(self) -> dict[tuple[str, int], list[Spot]]:
        """The operations of each line of the Python program."""
        found: dict[tuple[str, int], list[Spot]] = {}
        for spot in self.spots:
            if (at := source_of(spot)) is not None:
                found.setdefault((at.file, at.line), []).append(spot)
        return found

    def name_of(self, spot: Spot) -> tuple[int, int]:
        """First character and end of the operation's name in the text; of the whole beginning where it is not found."""
        line_end = self.text.find("\n", spot.start)
        line_end = len(self.text) if line_end < 0 else line_end
        at = self.text.find(spot.op.name, spot.start, line_end)
        return (at, at + len(spot.op.name)) if at >= 0 else (spot.start, line_end)

    def span_of(self, diagnostic: Diagnostic) -> tuple[int, int]:
        """What a diagnostic is about, as characters."""
        at = diagnostic.location
        if at is None or at.file != _FILE or not at.line:
            return 0, 0
        position = self.position(at.line - 1, max(at.column - 1, 0))
        index = bisect_right(self._first, position) - 1
        if index >= 0 and self.spots[index].start == position and not isinstance(self.spots[index].op, BrokenOp):
            return self.name_of(self.spots[index])
        word = _WORD.match(self.text, position)
        return (position, word.end() if word is not None else min(position + 1, len(self.text)))


def _unexpected(text: str, found: list[Diagnostic]) -> list[Diagnostic]:
    """What no ``expected-error`` comment of the text expects. What is expected and not there may come of passes."""
    if "expected-" not in text:
        return found
    try:
        expectations = parse_expectations(text, _FILE)
    except EtirError as error:
        return [*found, *error.diagnostics]
    return match(expectations, found, _FILE)[1]


class Document:
    """The text of a file as it is now."""

    def __init__(self, text: str, new_context: Callable[[], EtContext] = EtContext):
        self._new_context = new_context
        self._verified = VerifiedOperations()
        self.parts: list[tuple[int, Part]] = []
        """The parts with their first lines, from 0."""
        self.text = ""
        self.update(text)

    def update(self, text: str) -> None:
        """Read the text again, as far as it has changed."""
        self.text = text
        with deep_regions():
            self._read(split_input(text))

    def _read(self, chunks: Sequence[Chunk]) -> None:
        kept: dict[str, list[Part]] = {}
        for _, part in self.parts:
            kept.setdefault(part.text, []).append(part)
        same = [kept[chunk.text].pop() if kept.get(chunk.text) else None for chunk in chunks]
        rest = [part for parts in kept.values() for part in parts]
        found: list[tuple[int, Part]] = []
        for chunk, part in zip(chunks, same, strict=True):
            if part is None:
                old = rest.pop(0) if rest else None
                part = Part(chunk.text, self._new_context(), self._verified, old)
            found.append((chunk.first_line - 1, part))
        self.parts = found

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong, in the order of the text."""
        found: list[Problem] = []
        for first, part in self.parts:
            for diagnostic in part.diagnostics:
                start, end = part.span_of(diagnostic)
                notes = diagnostic.notes
                if diagnostic.location is not None and diagnostic.location.file != _FILE:
                    notes = (f"at {diagnostic.location}", *notes)
                found.append(Problem(self.place(first, part, start, end), replace(diagnostic, notes=notes)))
        return sorted(found, key=lambda problem: (problem.place.line, problem.place.column))

    @staticmethod
    def place(first: int, part: Part, start: int, end: int) -> Place:
        """Characters of a part as a place in the file."""
        line, column = part.line_and_column(start)
        end_line, end_column = part.line_and_column(end)
        return Place(first + line, column, first + end_line, end_column)

    def at(self, line: int, column: int) -> tuple[int, Part, int]:
        """The part that a line belongs to, its first line, and the character in it."""
        first, part = self.parts[max(bisect_right(self.parts, line, key=lambda entry: entry[0]) - 1, 0)]
        return first, part, part.position(max(line - first, 0), column)

    # --- going somewhere ---------------------------------------------------------------------------------------------

    def definition(self, line: int, column: int) -> Place | SourceLocation | None:
        """Where the name at a place is defined; of an operation or its location, the line of the Python program."""
        first, part, position = self.at(line, column)
        name = part.names.at(position)
        if name is not None:
            found = part.names.definition(name)
            return None if found is None else self.place(first, part, found.start, found.end)
        spot = part.spot_at(position)
        return None if spot is None else source_of(spot)

    def references(self, line: int, column: int, *, with_definition: bool = True) -> list[Place]:
        """Where else the name at a place stands; of an operation, all operations of the same Python line."""
        first, part, position = self.at(line, column)
        name = part.names.at(position)
        if name is None:
            spot = part.spot_at(position)
            at = None if spot is None else source_of(spot)
            return [] if at is None else self.from_source(at.file, at.line)
        found = part.names.references(name)
        return [self.place(first, part, n.start, n.end) for n in found if with_definition or not _defines(part, n)]

    def from_source(self, file: str, line: int) -> list[Place]:
        """The operations of a line of the Python program, which the text may name by another path of the same end."""
        found: list[Place] = []
        for first, part in self.parts:
            for (other, at), spots in part.by_source.items():
                if at == line and same_file(file, other):
                    found += [self.place(first, part, *part.name_of(spot)) for spot in spots]
        return sorted(found, key=lambda place: (place.line, place.column))


def _defines(part: Part, name: Name) -> bool:
    return part.names.definition(name) is name


def same_file(first: str, second: str) -> bool:
    """Whether two paths may name the same file: one ends with the other."""
    one, other = (tuple(path.replace("\\", "/").split("/")) for path in (first, second))
    count = min(len(one), len(other))
    return one[-count:] == other[-count:]


def source_of(spot: Spot) -> SourceLocation | None:
    """The line of the Python program that an operation's text gives."""
    return source_location(plain(spot.written))


def origins_of(spot: Spot) -> tuple[int, ...]:
    """The origins that an operation's text gives."""
    found = origins_in(spot.written)
    return () if found is None else found.numbers


def symbol_of(op: Operation) -> str | None:
    """The symbol that an operation defines."""
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else None
