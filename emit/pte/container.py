"""The parts of a ``.pte`` file around its tables: the extended header, the segments, and how they were laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from etir.diagnostics import SourceLocation
from etir.emit.buffers import Buffer
from etir.emit.checks import MAX_ALIGNMENT, align_up
from etir.emit.errors import E0801, E0803, E0812
from etir.emit.flatbuffer.view import View
from etir.emit.pte import schema
from etir.emit.pte.model import FileLayout

_HEADER_START = 8
_DEFAULTS = FileLayout()


def _powers(first: int) -> list[int]:
    """Alignments to try: the usual one first."""
    powers = [1 << k for k in range(MAX_ALIGNMENT.bit_length())]
    return [first, *(power for power in powers if power != first)]


@dataclass(frozen=True, slots=True)
class Container:
    """Where the tables end and where the segments are, in bytes; ``segment_base`` 0 means there are none."""

    program_size: int
    segment_base: int
    segment_size: int


def read_container(buffer: memoryview, name: str) -> Container:
    """Read the extended header. A file without one is all tables.

    Raises E0801 or E0803 when the header does not fit the file.
    """
    size = len(buffer)
    location = SourceLocation(name)
    if bytes(buffer[_HEADER_START : _HEADER_START + 4]) != schema.HEADER_MAGIC:
        return Container(size, 0, 0)
    if size < _HEADER_START + schema.HEADER.size:
        raise E0801.error(f"the extended header ends at byte 40, this file has {size}", location)
    _, length, program_size, base, data_size = schema.HEADER.unpack_from(buffer, _HEADER_START)
    if length < schema.LEGACY_HEADER_LENGTH:
        message = f"at byte 12: the extended header has {length} bytes, expected at least {schema.LEGACY_HEADER_LENGTH}"
        raise E0803.error(message, location)
    if not _HEADER_START + length <= program_size <= size:
        message = f"at byte 16: the program has {program_size} bytes, expected {_HEADER_START + length} to {size}"
        raise E0803.error(message, location)
    if length < schema.HEADER.size:
        data_size = 0
    if base and not program_size <= base <= size:
        message = f"at byte 24: the segments start at byte {base}, expected {program_size} to {size}"
        raise E0803.error(message, location)
    if data_size and (not base or base + data_size > size):
        message = f"at byte 32: {data_size} bytes of segments from byte {base} on do not fit into {size} bytes"
        raise E0803.error(message, location)
    return Container(program_size, base, data_size or (size - base if base else 0))


class Segments:
    """The segments of a file, as views into it; ``entries`` are (offset, size), offsets from the segment base."""

    def __init__(self, view: View, buffer: memoryview, container: Container, vector: int):
        self.view = view
        self.container = container
        self.entries: list[tuple[int, int]] = []
        self._data: list[memoryview] = []
        for index, position in enumerate(view.tables(vector, "segments")):
            offset, size = view.row(position, schema.DATA_SEGMENT)
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

    def infer_alignment(self, named: dict[int, int]) -> tuple[int, dict[int, int]]:
        """The segment alignment, and that of the segments in ``named``, that put the segments where they are.

        ``named`` has the indices of named-data segments, which may be aligned further. The usual alignment wins when
        it explains the file; it is the answer, too, when nothing does.
        """
        usual = _DEFAULTS.segment_alignment
        if not self.container.segment_base:
            return usual, {}
        for alignment in _powers(usual):
            if align_up(self.container.program_size, alignment) != self.container.segment_base:
                continue
            further: dict[int, int] = {}
            end = 0
            for index, (offset, size) in enumerate(self.entries):
                choices = _powers(1) if index in named else [1]
                fits = next((c for c in choices if align_up(end, max(alignment, c)) == offset), None)
                if fits is None:
                    break
                further[index] = fits
                end = offset + size
            else:
                return alignment, further
        return usual, {}


def infer_constant_alignment(offsets: Sequence[int], data: Sequence[Buffer]) -> int:
    """The alignment that puts ``data`` at ``offsets``, the usual one when none does; without the reserved entry."""
    usual = _DEFAULTS.constant_alignment
    for alignment in _powers(usual):
        end = 0
        placed: set[int] = set()
        for offset, item in zip(offsets, data, strict=True):
            if len(item) and offset in placed:
                continue
            if align_up(end, alignment) != offset:
                break
            placed.add(offset)
            end = offset + len(item)
        else:
            return alignment
    return usual


def infer_delegate_alignment(starts: Sequence[int]) -> int:
    """The alignment of inline blobs that start at ``starts``: the usual one, or less when one of them has less."""
    combined = _DEFAULTS.delegate_alignment
    for start in starts:
        combined = min(combined, start & -start)
    return combined
