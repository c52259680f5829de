"""The outline of a file: modules, what they define, and the blocks of functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation

from etir.devtools.lsp.document import Document, Part, Place, symbol_of
from etir.devtools.lsp.reader import Spot
from etir.dialects.text import deep_regions

_KINDS = {
    "func.func": "function",
    "et.method": "function",
    "et.weight": "weight",
    "et.state": "weight",
    "sym.dim": "dim",
}


@dataclass(frozen=True)
class Entry:
    """A line of the outline: what it is called, its whole text, and where its name stands."""

    name: str
    kind: str
    detail: str
    whole: Place
    place: Place
    children: list[Entry] = field(default_factory=list["Entry"])


def outline(document: Document) -> list[Entry]:
    """The entries of a file. Several modules have an entry each, one has none."""
    parts: list[Entry] = []
    entries: list[Entry] = []
    for number, (first, part) in enumerate(document.parts):
        entries = [entry for spot in part.spots if (entry := _entry(document, first, part, spot)) is not None]
        end = part.line_and_column(len(part.text))
        whole = Place(first, 0, first + end[0], end[1])
        parts.append(Entry(f"module {number + 1}", "module", "", whole, Place(first, 0, first, 0), entries))
    return entries if len(parts) == 1 else parts


def _entry(document: Document, first: int, part: Part, spot: Spot) -> Entry | None:
    symbol = symbol_of(spot.op)
    if symbol is None:
        return None
    whole = document.place(first, part, spot.start, _end(part, spot))
    at = part.text.find("@", spot.start, spot.end)
    at = spot.start if at < 0 else at
    place = document.place(first, part, at, min(at + len(symbol) + 1, _end(part, spot)))
    kind = _KINDS.get(spot.op.name, "symbol")
    blocks = _blocks(document, first, part, spot) if spot.op.regions else []
    return Entry(symbol, kind, _detail(spot.op), whole, place, blocks)


def _end(part: Part, spot: Spot) -> int:
    """The end of an operation without the white space after it."""
    return spot.start + len(part.text[spot.start : spot.end].rstrip())


def _detail(op: Operation) -> str:
    with deep_regions():
        count = sum(1 for _ in op.walk()) - 1
    return f"{op.name}, {count} operations" if op.regions else op.name


def _blocks(document: Document, first: int, part: Part, spot: Spot) -> list[Entry]:
    found: list[Entry] = []
    for name in part.names.names:
        if name.kind == "block" and name.defines and spot.start <= name.start < spot.end:
            place = document.place(first, part, name.start, name.end)
            found.append(Entry(name.text, "block", "", place, place))
    return found
