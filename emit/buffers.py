"""Data as it is passed around: anything with contiguous bytes, never copied until it is written.

Segments hold large blobs, so equal ones are found without hashing them whole: by length and three samples first, and
only candidates that agree in those are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from etir.emit.checks import align_up

Buffer: TypeAlias = bytes | bytearray | memoryview

_SAMPLE = 64
_COMPARED_AT_ONCE = 1 << 20


def buffer_bytes(data: Buffer) -> int:
    """Size in bytes, also of a view whose items are wider."""
    return data.nbytes if isinstance(data, memoryview) else len(data)


def flat(data: Buffer) -> Buffer:
    """``data`` as one-dimensional bytes; a copy only if it is not contiguous."""
    if not isinstance(data, memoryview):
        return data
    if not data.nbytes:
        return b""
    return data.cast("B") if data.c_contiguous else data.tobytes()


def _samples(data: Buffer) -> tuple[int, bytes, bytes, bytes]:
    size = len(data)
    middle = size // 2
    return size, bytes(data[:_SAMPLE]), bytes(data[middle : middle + _SAMPLE]), bytes(data[-_SAMPLE:])


def _equal(a: Buffer, b: Buffer) -> bool:
    # Comparing views directly goes byte by byte; chunks of bytes are compared by the C library.
    step = _COMPARED_AT_ONCE
    return a is b or all(bytes(a[i : i + step]) == bytes(b[i : i + step]) for i in range(0, len(a), step))


class BufferPool:
    """Distinct buffers in the order in which they were first added."""

    def __init__(self) -> None:
        self.items: list[Buffer] = []
        self._candidates: dict[tuple[int, bytes, bytes, bytes], list[int]] = {}

    def add(self, data: Buffer) -> int:
        """Index in ``items`` of a buffer with the bytes of ``data``."""
        data = flat(data)
        candidates = self._candidates.setdefault(_samples(data), [])
        for index in candidates:
            if _equal(self.items[index], data):
                return index
        candidates.append(len(self.items))
        self.items.append(data)
        return candidates[-1]


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
