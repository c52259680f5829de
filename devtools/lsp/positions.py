"""Columns as the protocol counts them: units of an encoding that client and server have agreed on."""

from __future__ import annotations

from collections.abc import Iterable

UTF8, UTF16, UTF32 = "utf-8", "utf-16", "utf-32"


def to_units(text: str, column: int, encoding: str) -> int:
    """How many units the first ``column`` characters of a line take."""
    before = text[:column]
    if encoding == UTF32 or before.isascii():
        return len(before)
    return _units(before, encoding)


def from_units(text: str, units: int, encoding: str) -> int:
    """The character of a line that a number of units reaches, or its end."""
    if encoding == UTF32 or text.isascii():
        return min(units, len(text))
    for column, character in enumerate(text):
        units -= _units(character, encoding)
        if units < 0:
            return column
    return len(text)


def _units(text: str, encoding: str) -> int:
    if encoding == UTF8:
        return len(text.encode("utf-8", "surrogatepass"))
    return sum(2 if ord(character) > 0xFFFF else 1 for character in text)


Edit = tuple[tuple[int, int, int, int] | None, str]
"""A change: first line and units, last line and units, or None for everything, and what stands there now."""


def apply_edits(text: str, edits: Iterable[Edit], encoding: str) -> str:
    """The text after some changes, each of the text that the one before has left. Places that are not there are moved
    to the nearest one that is.
    """
    for place, new in edits:
        if place is None:
            text = new
            continue
        starts = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]
        start = _offset(text, starts, place[0], place[1], encoding)
        end = max(_offset(text, starts, place[2], place[3], encoding), start)
        text = text[:start] + new + text[end:]
    return text


def _offset(text: str, starts: list[int], line: int, units: int, encoding: str) -> int:
    if line >= len(starts):
        return len(text)
    start = starts[line]
    end = starts[line + 1] - 1 if line + 1 < len(starts) else len(text)
    return start + from_units(text[start:end], units, encoding)
