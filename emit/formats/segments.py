"""Segments: the data that follows the tables of a file, each piece aligned; both formats keep theirs the same way.

A file does not say how its segments were aligned. What it was can be worked out from where they are, and has to be,
so that a file that is read and written again comes out the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from etir.emit.errors import E0812
from etir.emit.flatbuffer.schema import TableSchema
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import SEGMENT_ALIGNMENT, Buffer, flat
from etir.emit.formats.checks import MAX_ALIGNMENT, align_up

DATA_SEGMENT = TableSchema("DataSegment", offset="Q", size="Q")


class SegmentWriter:
    """Places segments one after the other: ``entries`` are (offset, size) in bytes, ``parts`` the bytes themselves."""

    def __init__(self, alignment: int):
        self.alignment = alignment
        self.entries: list[tuple[int, int]] = []
        self.parts: list[Buffer] = []
        self.size = 0

    def add(self, parts: Sequence[Buffer], alignment: int = 1) -> int:
        """Append a segment made of ``parts``; returns its index."""
        offset = align_up(self.size, max(self.alignment, alignment))
        if offset > self.size:
            self.parts.append(bytes(offset - self.size))
        size = sum(map(len, parts))
        self.parts += parts
        self.entries.append((offset, size))
        self.size = offset + size
        return len(self.entries) - 1


def place(data: Sequence[Buffer], alignment: int) -> tuple[list[int], list[Buffer]]:
    """Offsets of buffers laid one after the other, each ``alignment``-aligned, and the parts with their padding.

    The very same object given twice is placed once, but an empty buffer has a place of its own. Padding comes before
    a buffer, so there is none after the last.
    """
    offsets: list[int] = []
    parts: list[Buffer] = []
    placed: dict[int, int] = {}
    end = 0
    for original in data:
        item = flat(original)
        if len(item) and id(original) in placed:
            offsets.append(placed[id(original)])
            continue
        offset = align_up(end, alignment)
        if offset > end:
            parts.append(bytes(offset - end))
        offsets.append(offset)
        placed[id(original)] = offset
        parts.append(item)
        end = offset + len(item)
    return offsets, parts


def powers_of_two(first: int) -> list[int]:
    """Alignments to try: ``first``, which is the usual one, then from the smallest to the largest."""
    powers = [1 << k for k in range(MAX_ALIGNMENT.bit_length())]
    return [first, *(power for power in powers if power != first)]


@dataclass(frozen=True, slots=True)
class Container:
    """Where the tables of a file end and where its segments are, in bytes; ``segment_base`` 0: there are none."""

    tables_size: int
    segment_base: int
    segment_size: int


class Segments:
    """The segments of a file, as views into it; ``entries`` are (offset, size), offsets from the segment base."""

    def __init__(self, view: View, buffer: memoryview, container: Container, vector: int):
        self.view = view
        self.container = container
        self.entries: list[tuple[int, int]] = []
        self._data: list[memoryview] = []
        for index, position in enumerate(view.tables(vector, "segments")):
            offset, size = view.row(position, DATA_SEGMENT)
            if offset + size > container.segment_size:
                message = f"segment {index} ends at {offset + size} of {container.segment_size} bytes of segments"
                view.fail(E0812, position, message)
            start = container.segment_base + offset
            self.entries.append((offset, size))
            self._data.append(buffer[start : start + size])

    def get(self, index: int, position: int, what: str) -> memoryview:
        """Segment ``index``, to which ``what`` at ``position`` refers. Raises E0812 when there is none."""
        if index >= len(self._data):
            self.view.fail(E0812, position, f"{what} is in segment {index}, but there are {len(self._data)} segments")
        return self._data[index]

    def infer_alignment(self, aligned: Iterable[int]) -> tuple[int, dict[int, int]]:
        """The segment alignment, and the further alignment of the segments in ``aligned``, that explain the offsets.

        The usual segment alignment wins when it explains the file; it is the answer, too, when nothing does. Else it
        is the largest that does: a base of 4096 says page alignment, whatever else would have led to it.
        """
        if not self.container.segment_base:
            return SEGMENT_ALIGNMENT, {}
        aligned = frozenset(aligned)
        for alignment in (SEGMENT_ALIGNMENT, *reversed(powers_of_two(1))):
            if align_up(self.container.tables_size, alignment) != self.container.segment_base:
                continue
            further: dict[int, int] = {}
            end = 0
            for index, (offset, size) in enumerate(self.entries):
                choices = powers_of_two(1) if index in aligned else [1]
                fits = next((c for c in choices if align_up(end, max(alignment, c)) == offset), None)
                if fits is None:
                    break
                further[index] = fits
                end = offset + size
            else:
                return alignment, further
        return SEGMENT_ALIGNMENT, {}
