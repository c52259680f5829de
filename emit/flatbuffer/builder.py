"""A FlatBuffers builder that works from the end of the buffer to its start and writes every equal object once.

Offsets in a FlatBuffer point forward only, so a child has to lie after all of its parents. Building from the back
gives that for free: a child exists before its parents, and all parents that come later can share it. Objects are
identified by their distance from the end of the buffer (a *handle*), which stays valid while the buffer grows.

Every table, vector and string is looked up before it is written (hash consing), so equal literals, shapes, strings
and whole instructions exist once. Readers never write into the buffer, so sharing is invisible to them.

Large blobs are kept by reference until the parts are joined: they are copied exactly once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from etir.emit.errors import E0838
from etir.emit.flatbuffer.schema import TableLayout, TableSchema
from etir.emit.formats.buffers import Buffer

_MAX_SIZE = (1 << 31) - 1
_MIN_SIZE = 64
"""The runtime insists on reading this many bytes before it looks at any of them."""


class Builder:
    """Builds one FlatBuffer. Methods return handles, which are never 0; a slot value of 0 means absent.

    ``alignment`` is the least multiple of bytes that the finished buffer has, counting the prefix of 4 bytes
    that ``size_prefixed`` puts before it.
    """

    __slots__ = ("_alignment", "_chunks", "_lists", "_parts", "_prefix", "_size", "_tables", "_vtables")

    def __init__(self, alignment: int = 8, *, size_prefixed: bool = False) -> None:
        self._prefix = 4 if size_prefixed else 0
        self._parts: list[Buffer] = []  # in reverse file order
        self._size = 0
        self._alignment = alignment
        self._tables: dict[TableSchema, dict[tuple[int, ...], int]] = {}
        self._vtables: dict[TableLayout, int] = {}
        self._chunks: dict[tuple[int, bytes], int] = {}
        self._lists: dict[tuple[int, ...], int] = {}

    def _reserve(self, size: int, alignment: int, phase: int) -> int:
        """The handle of an object of ``size`` bytes whose byte ``phase`` is ``alignment``-aligned; adds the padding."""
        padding = (phase - self._size - size) % alignment
        if padding:
            self._parts.append(bytes(padding))
        self._size += size + padding
        return self._size

    def _chunk(self, chunk: bytes, alignment: int, phase: int) -> int:
        key = (alignment, chunk)
        handle = self._chunks.get(key)
        if handle is None:
            handle = self._chunks[key] = self._reserve(len(chunk), alignment, phase)
            self._parts.append(chunk)
        return handle

    def string(self, text: str) -> int:
        """A string; the caller has checked that it can be encoded."""
        data = text.encode()
        return self._chunk(struct.pack(f"<I{len(data)}sx", len(data), data), 4, 0)

    def scalars(self, code: str, values: Sequence[int | float]) -> int:
        """A vector of numbers with the ``struct`` code ``code``; the caller has checked that they fit."""
        chunk = struct.pack(f"<I{len(values)}{code}", len(values), *values)
        width = struct.calcsize(f"<{code}")
        return self._chunk(chunk, max(4, width), 4 if width == 8 else 0)

    def byte_vector(self, data: bytes) -> int:
        """A vector of a few bytes, written once like a vector of numbers."""
        return self._chunk(struct.pack(f"<I{len(data)}s", len(data), data), 4, 0)

    def blob(self, data: Buffer, alignment: int) -> int:
        """A vector of bytes that starts ``alignment``-aligned. Not shared: the caller passes each blob once."""
        self._alignment = max(self._alignment, alignment)
        handle = self._reserve(4 + len(data), max(4, alignment), 4 % max(4, alignment))
        self._parts += (data, struct.pack("<I", len(data)))
        return handle

    def tables(self, handles: Sequence[int]) -> int:
        """A vector of tables."""
        key = tuple(handles)
        handle = self._lists.get(key)
        if handle is None:
            handle = self._lists[key] = self._reserve(4 + 4 * len(key), 4, 0)
            first = handle - 4
            offsets = [first - 4 * i - target for i, target in enumerate(key)]
            self._parts.append(struct.pack(f"<I{len(key)}I", len(key), *offsets))
        return handle

    def table(self, schema: TableSchema, values: tuple[int, ...]) -> int:
        """A table; ``values`` has one number or handle per slot, 0 for an offset that is absent."""
        known = self._tables.get(schema)
        if known is None:
            known = self._tables[schema] = {}
        handle = known.get(values)
        if handle is not None:
            return handle
        layout = schema.layout(schema.present(values))
        vtable = self._vtables.get(layout)
        if vtable is None:
            vtable = self._vtables[layout] = self._chunk(layout.vtable, 2, 0)
        handle = known[values] = self._reserve(layout.size, layout.alignment, layout.phase)
        if layout.offset_slots:
            picked = list(layout.pick(values))
            for k, position in layout.offset_slots:
                picked[k] = handle - position - picked[k]
            self._parts.append(layout.pack(vtable - handle, *picked))
        else:
            self._parts.append(layout.pack(vtable - handle, *layout.pick(values)))
        return handle

    def size_with_header(self, header_size: int) -> int:
        """Bytes of the finished buffer when ``header_size`` bytes follow the root offset and the identifier."""
        size = max(_MIN_SIZE, self._size + 8 + header_size) + self._prefix
        return -(-size // self._alignment) * self._alignment - self._prefix

    def finish(self, root: int, identifier: bytes, header: bytes = b"") -> list[Buffer]:
        """The parts of the buffer in file order: root offset, ``identifier``, ``header``, then the tables.

        A buffer with a size prefix starts with that.

        Raises E0838 when the offsets would not fit.
        """
        total = self.size_with_header(len(header))
        if total > _MAX_SIZE:
            raise E0838.error(f"the tables take {total} bytes, at most {_MAX_SIZE} can be addressed")
        padding = bytes(total - self._size - 8 - len(header))
        start = struct.pack("<I", total) if self._prefix else b""
        start += struct.pack("<I4s", total - root, identifier)
        return [start, header, padding, *reversed(self._parts)]
