"""Writes a profile as the bytes of an ETDump, as the stock runtime does: with a size prefix, defaults left out."""

from __future__ import annotations

import struct

from etir.emit.errors import E0830, E0840
from etir.emit.etdump import schema
from etir.emit.etdump.model import (
    AllocationEvent,
    Block,
    DebugEvent,
    ETDump,
    Event,
    ProfileEvent,
    TensorValue,
    Value,
    ValueKind,
)
from etir.emit.flatbuffer.builder import Builder
from etir.emit.flatbuffer.schema import TableSchema
from etir.emit.formats.checks import quoted, text_error

_RANGES = {"b": (-(1 << 7), (1 << 7) - 1), "i": (-(1 << 31), (1 << 31) - 1), "I": (0, (1 << 32) - 1)}
_RANGES |= {"q": (-(1 << 63), (1 << 63) - 1), "Q": (0, (1 << 64) - 1), "B": (0, 255)}


def write_etdump(etdump: ETDump) -> bytes:
    """The bytes of ``etdump``. Raises ``EtirError`` E0830 for a number that its field cannot hold, E0840 for a value
    that is not what its kind says or a name that is no UTF-8.
    """
    builder = Builder(size_prefixed=True)
    writer = _Writer(builder)
    blocks = [writer.block(block) for block in etdump.blocks]
    root = writer.table(schema.ETDUMP, etdump.version, builder.tables(blocks))
    return b"".join(builder.finish(root, schema.IDENTIFIER))


class _Writer:
    """Writes the tables of one file."""

    def __init__(self, builder: Builder):
        self.builder = builder

    def table(self, table: TableSchema, *values: int) -> int:
        for slot, code, value in zip(table.slots, table.codes, values, strict=True):
            if code == "o":
                continue
            low, high = _RANGES[code]
            if not low <= value <= high:
                raise E0830.error(f"{table.name}.{slot} is {value}, at least {low} and at most {high} fit")
        return self.builder.table(table, values)

    def text(self, text: str | None) -> int:
        if text is None:
            return 0
        if (problem := text_error(text)) is not None:
            raise E0840.error(f"the name {problem}")
        return self.builder.string(text)

    def block(self, block: Block) -> int:
        events = [self.event(event) for event in block.events]
        allocators = [self.table(schema.ALLOCATOR, self.text(name)) for name in block.allocators]
        return self.table(
            schema.RUN_DATA,
            self.text(block.name),
            block.bundled_input_index,
            self.builder.tables(allocators) if allocators else 0,
            self.builder.tables(events) if events else 0,
        )

    def event(self, event: Event) -> int:
        match event:
            case ProfileEvent():
                members = (self.profile_event(event), 0, 0)
            case DebugEvent():
                members = (0, 0, self.debug_event(event))
            case AllocationEvent():
                members = (0, self.table(schema.ALLOCATION_EVENT, event.allocator_id, event.allocation_size), 0)
        return self.table(schema.EVENT, *members)

    def delegate_id(self, delegate_id: int | str | None) -> tuple[int, int]:
        if isinstance(delegate_id, str):
            return -1, self.text(delegate_id)
        return -1 if delegate_id is None else delegate_id, 0

    def profile_event(self, event: ProfileEvent) -> int:
        metadata = 0 if event.metadata is None else self.builder.byte_vector(event.metadata)
        number, text = self.delegate_id(event.delegate_id)
        return self.table(
            schema.PROFILE_EVENT,
            self.text(event.name),
            event.chain_index,
            event.instruction_id,
            number,
            text,
            metadata,
            event.start_time,
            event.end_time,
        )

    def debug_event(self, event: DebugEvent) -> int:
        number, text = self.delegate_id(event.delegate_id)
        return self.table(
            schema.DEBUG_EVENT,
            event.chain_index + (1 << 64) if event.chain_index < 0 else event.chain_index,
            event.instruction_id,
            0 if event.value is None else self.value(event.value),
            number,
            text,
            self.text(event.name),
        )

    def value(self, value: Value) -> int:
        slots = [int(value.kind), 0, 0, 0, 0, 0, 0, 0]
        content = value.content
        match value.kind, content:
            case ValueKind.TENSOR, TensorValue():
                slots[1] = self.tensor(content)
            case ValueKind.TENSOR_LIST, tuple():
                tensors = self.builder.tables([self.tensor(tensor) for tensor in content])
                slots[2] = self.table(schema.TENSOR_LIST, tensors)
            case ValueKind.INT, int():
                slots[3] = self.table(schema.INT, int(content))
            case ValueKind.FLOAT, float():
                slots[4] = self.table(schema.FLOAT, *struct.unpack("<I", struct.pack("<f", content)))
            case ValueKind.DOUBLE, float():
                slots[5] = self.table(schema.DOUBLE, *struct.unpack("<Q", struct.pack("<d", content)))
            case ValueKind.BOOL, bool():
                slots[6] = self.table(schema.BOOL, int(content))
            case ((ValueKind.NULL | ValueKind.STRING), None):
                pass
            case _:
                raise E0840.error(f"a value of kind {value.kind.name} cannot be {quoted(repr(content))}")
        if value.output is not None:
            slots[7] = self.table(schema.BOOL, int(value.output))
        return self.table(schema.VALUE, *slots)

    def tensor(self, tensor: TensorValue) -> int:
        sizes = self.builder.scalars("q", tensor.sizes)
        strides = self.builder.scalars("q", tensor.strides)
        return self.table(schema.TENSOR, tensor.scalar_type, sizes, strides, tensor.offset)
