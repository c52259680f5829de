"""Reads an ETDump that nobody vouches for, with the same guarantees as the reader of ``.pte`` files.

Files with a size prefix, which runtimes write, and those without, which ``flatc`` makes of JSON, are both read.
Values whose dtype or kind the reader does not know are errors; what the stock runtime leaves of a value that it could
not log (an event without a value, a value without a tensor) is read as no value.
"""

from __future__ import annotations

import struct

from etir.diagnostics import SourceLocation
from etir.emit.errors import E0801, E0808, E0809, E0825, E0840, E0841
from etir.emit.etdump import schema
from etir.emit.etdump.model import (
    NO_DATA,
    AllocationEvent,
    Block,
    Content,
    DebugEvent,
    ETDump,
    Event,
    ProfileEvent,
    TensorValue,
    Value,
    ValueKind,
)
from etir.emit.flatbuffer.schema import TableSchema
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import SCALAR_TYPES
from etir.emit.formats.shape import shape_error

_WHAT = "a profile (ETDump, .etdp)"
_EVENT_BYTES = 64
"""What an event, or a tensor, costs of the budget for what is decoded; in a file it takes about as much."""
_KINDS = {int(kind): kind for kind in ValueKind}
_NUMBERS = {
    ValueKind.INT: (3, schema.INT),
    ValueKind.FLOAT: (4, schema.FLOAT),
    ValueKind.DOUBLE: (5, schema.DOUBLE),
    ValueKind.BOOL: (6, schema.BOOL),
}
"""Slot of a value and table of the number there."""


def read_etdump(data: Buffer, name: str = "<etdump>") -> ETDump:
    """The profile in ``data``; ``name`` is the file name for messages.

    Raises ``EtirError`` with ids E0801 to E0841.
    """
    buffer = memoryview(data).toreadonly().cast("B") if len(data) else memoryview(b"")
    start, end = schema.PREFIX, len(buffer)
    if bytes(buffer[4:8]) == schema.IDENTIFIER != bytes(buffer[8:12]):
        start = 0
    else:
        View(buffer, end, name).root(schema.IDENTIFIER, _WHAT, start)
        size = struct.unpack_from("<I", buffer)[0]
        if size > end - start:
            message = f"the size prefix says {size} bytes, {end - start} follow: the file was truncated"
            raise E0801.error(message, SourceLocation(name))
        end = start + size
    view = View(buffer, end, name)
    root = view.root(schema.IDENTIFIER, _WHAT, start)
    version, run_data = view.row(root, schema.ETDUMP)
    if version != schema.VERSION:
        view.fail(E0841, root, f"version {version} of the format, etir reads version {schema.VERSION}")
    reader = _Reader(view)
    return ETDump(tuple([reader.block(position) for position in view.tables(run_data, "run_data")]), version)


class _Reader:
    """Decodes the tables of one file."""

    def __init__(self, view: View):
        self.view = view

    def text(self, position: int, what: str) -> str | None:
        return self.view.string(position, what) if position else None

    def block(self, position: int) -> Block:
        name, bundled, allocators, events = self.view.row(position, schema.RUN_DATA)
        self.view.charge(_EVENT_BYTES, position)
        return Block(
            self.text(name, "name"),
            tuple([self.event(at) for at in self.view.tables(events, "events")]),
            bundled,
            tuple([self.allocator(at) for at in self.view.tables(allocators, "allocators")]),
        )

    def allocator(self, position: int) -> str | None:
        (name,) = self.view.row(position, schema.ALLOCATOR)
        return self.text(name, "name")

    def event(self, position: int) -> Event:
        self.view.charge(_EVENT_BYTES, position)
        profile, allocation, debug = self.view.row(position, schema.EVENT)
        if (profile != 0) + (allocation != 0) + (debug != 0) != 1:
            self.view.fail(E0840, position, "an event is one of profile_event, allocation_event and debug_event")
        if profile:
            return self.profile_event(profile)
        if debug:
            return self.debug_event(debug)
        return AllocationEvent(*self.view.row(allocation, schema.ALLOCATION_EVENT))

    def profile_event(self, position: int) -> ProfileEvent:
        row = self.view.row(position, schema.PROFILE_EVENT)
        name, chain, instruction, number, text, metadata, start, end = row
        data = None
        if metadata:
            view = self.view.blob(metadata, "delegate_debug_metadata")
            self.view.charge(len(view), metadata)
            data = bytes(view)
        return ProfileEvent(
            self.text(name, "name"), chain, instruction, start, end, self.delegate_id(position, number, text), data
        )

    def delegate_id(self, position: int, number: int, text: int) -> int | str | None:
        if number != -1 and text:
            self.view.fail(E0840, position, "delegate_debug_id_int and delegate_debug_id_str are both there")
        return self.text(text, "delegate_debug_id_str") if number == -1 else number

    def debug_event(self, position: int) -> DebugEvent:
        chain, instruction, entry, number, text, name = self.view.row(position, schema.DEBUG_EVENT)
        return DebugEvent(
            chain - (1 << 64) if chain >> 63 else chain,
            instruction,
            self.value(entry) if entry else None,
            self.delegate_id(position, number, text),
            self.text(name, "name"),
        )

    def value(self, position: int) -> Value | None:
        row = self.view.row(position, schema.VALUE)
        kind = _KINDS.get(row[0])
        if kind is None:
            self.view.fail(E0808, position, f"val is {row[0]}, expected 0 to {max(_KINDS)}")
        output = bool(self.number(row[7], schema.BOOL)) if row[7] else None
        content: Content = None
        if kind is ValueKind.TENSOR:
            if not row[1]:
                return None
            content = self.tensor(row[1])
        elif kind is ValueKind.TENSOR_LIST:
            if not row[2]:
                return None
            (tensors,) = self.view.row(row[2], schema.TENSOR_LIST)
            content = tuple([self.tensor(at) for at in self.view.tables(tensors, "tensors")])
        elif kind in _NUMBERS:
            slot, table = _NUMBERS[kind]
            bits = self.number(self.view.required(row, schema.VALUE, slot, position), table)
            content = _number(kind, bits)
        return Value(kind, content, output)

    def number(self, position: int, table: TableSchema) -> int:
        (value,) = self.view.row(position, table)
        return value

    def tensor(self, position: int) -> TensorValue:
        self.view.charge(_EVENT_BYTES, position)
        number, sizes_at, strides_at, offset = self.view.row(position, schema.TENSOR)
        scalar_type = SCALAR_TYPES.get(number)
        if scalar_type is None:
            self.view.fail(E0809, position, f"scalar_type is {number}, which no dtype has")
        sizes = self.view.scalars(sizes_at, "q", "sizes")
        strides = self.view.scalars(strides_at, "q", "strides")
        problem = shape_error(scalar_type, sizes, tuple(range(len(sizes))))
        if problem is None and len(strides) != len(sizes):
            problem = f"there are {len(strides)} strides for {len(sizes)} sizes"
        if problem is not None:
            self.view.fail(E0825, position, problem)
        if offset < NO_DATA:
            self.view.fail(E0840, position, f"a tensor cannot be at byte {offset} of the values")
        return TensorValue(scalar_type, sizes, strides, offset)


def _number(kind: ValueKind, bits: int) -> Content:
    match kind:
        case ValueKind.FLOAT:
            return struct.unpack("<f", struct.pack("<I", bits))[0]
        case ValueKind.DOUBLE:
            return struct.unpack("<d", struct.pack("<Q", bits))[0]
        case ValueKind.BOOL:
            return bool(bits)
        case _:
            return bits
