"""Data as it is passed around: anything with contiguous bytes, never copied until it is written.

Segments hold large blobs, so equal ones are found without hashing them whole: by length and three samples first, and
only candidates that agree in those are compared.
"""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

SEGMENT_ALIGNMENT = 128
"""The usual alignment of segments, in bytes."""

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


class ReservedPool:
    """Buffers after an empty one at index 0, which is reserved: distinct ones, but each empty one has its own place."""

    def __init__(self) -> None:
        self.items: list[Buffer] = [b""]
        self._distinct = BufferPool()
        self._places: list[int] = []
        """Where each distinct buffer is in ``items``."""

    def add(self, data: Buffer) -> int:
        """Index in ``items`` of a buffer with the bytes of ``data``."""
        if buffer_bytes(data):
            number = self._distinct.add(data)
            if number < len(self._places):
                return self._places[number]
            self._places.append(len(self.items))
        self.items.append(data)
        return len(self.items) - 1
