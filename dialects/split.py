"""``--split-input-file``: several modules in one file, between lines ``// -----``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARKER = re.compile(r"^[ \t]*// -----[ \t]*\r?$")
SEPARATOR = "// -----\n"
"""What stands between the outputs."""


@dataclass(frozen=True)
class Chunk:
    """One part of a file and the number, from 1, of its first line."""

    text: str
    first_line: int


def split_input(text: str) -> list[Chunk]:
    """The parts of ``text``. Only a whole line is a marker: the characters may stand in a string."""
    chunks: list[Chunk] = []
    lines = text.split("\n")
    start = 0
    for index, line in enumerate(lines):
        if _MARKER.match(line):
            chunks.append(Chunk("\n".join(lines[start:index]) + "\n", start + 1))
            start = index + 1
    chunks.append(Chunk("\n".join(lines[start:]), start + 1))
    return chunks
