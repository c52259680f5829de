"""Files made with the reference FlatBuffers library, free to break any rule: what our reader is tested against."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import flatbuffers

WIDTHS = {"b": 1, "B": 1, "i": 4, "I": 4, "q": 8, "Q": 8, "d": 8}
Slot = tuple[str, int | float] | None


class Raw:
    """Builds tables from (code, value) slots; code ``o`` is an offset to something built before."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(0)

    def table(self, *slots: Slot) -> int:
        builder = self.builder
        builder.StartObject(len(slots))
        prepend = {
            "b": builder.PrependInt8, "B": builder.PrependUint8, "i": builder.PrependInt32, "I": builder.PrependUint32,
            "q": builder.PrependInt64, "Q": builder.PrependUint64, "d": builder.PrependFloat64,
            "o": builder.PrependUOffsetTRelative,
        }  # fmt: skip
        for index, slot in enumerate(slots):
            if slot is not None:
                prepend[slot[0]](slot[1])
                builder.Slot(index)
        return builder.EndObject()

    def scalars(self, code: str, values: Sequence[int | float]) -> int:
        self.builder.StartVector(WIDTHS[code], len(values), WIDTHS[code])
        data = struct.pack(f"<{len(values)}{code}", *values)
        self.builder.head -= len(data)
        self.builder.Bytes[self.builder.head : self.builder.head + len(data)] = data
        return self.builder.EndVector()

    def tables(self, handles: Sequence[int]) -> int:
        self.builder.StartVector(4, len(handles), 4)
        for handle in reversed(handles):
            self.builder.PrependUOffsetTRelative(handle)
        return self.builder.EndVector()

    def string(self, text: str | bytes) -> int:
        return self.builder.CreateString(text)

    def finish(self, root: int, identifier: bytes = b"ET12") -> bytes:
        self.builder.Finish(root, file_identifier=identifier)
        return bytes(self.builder.Output())

    # Parts of a program

    def value(self, tag: int, *slots: Slot) -> int:
        return self.table(("B", tag), ("o", self.table(*slots)))

    def tensor(self, sizes: Sequence[int] = (2,), order: Sequence[int] = (0,), **slots: Slot) -> int:
        names = (
            "scalar_type", "storage_offset", "sizes", "dim_order", "requires_grad", "data_buffer_idx",
            "allocation_info", "layout", "shape_dynamism", "extra_tensor_info",
        )  # fmt: skip
        fields = {
            "scalar_type": ("b", 6), "sizes": ("o", self.scalars("i", sizes)),
            "dim_order": ("o", self.scalars("B", order)), **slots,
        }  # fmt: skip
        return self.value(5, *[fields.get(name) for name in names])

    def instruction(self, tag: int, *slots: Slot) -> int:
        return self.value(tag, *slots)

    def operator(self, name: str = "aten::add", overload: str = "out") -> int:
        return self.table(("o", self.string(name)), ("o", self.string(overload)))

    def plan(
        self,
        values: Sequence[int] = (),
        instructions: Sequence[int] = (),
        operators: Sequence[int] = (),
        delegates: Sequence[int] = (),
        slots: Mapping[str, Slot] | None = None,
    ) -> int:
        """A method; ``slots`` replaces some of the plan's slots by name."""
        empty = ("o", self.scalars("i", ()))
        table, called = self.tables(values), self.tables(delegates)
        chain = self.table(empty, empty, ("o", self.tables(instructions)), None)
        fields: dict[str, Slot] = {
            "name": ("o", self.string("forward")),
            "container_meta_type": None,
            "values": ("o", table),
            "inputs": empty,
            "outputs": empty,
            "chains": ("o", self.tables([chain])),
            "operators": ("o", self.tables(operators)),
            "delegates": ("o", called),
            "non_const_buffer_sizes": ("o", self.scalars("q", (0, 64))),
            **(slots or {}),
        }
        return self.table(*fields.values())

    def program(self, plan: int, **slots: Slot) -> bytes:
        """A file with one method; ``slots`` gives more slots of the program by name."""
        fields: Mapping[str, Slot] = {
            "version": None, "execution_plan": ("o", self.tables([plan])), "constant_buffer": None,
            "backend_delegate_data": None, "segments": None, "constant_segment": None, "mutable_data_segments": None,
            "named_data": None, **slots,
        }  # fmt: skip
        return self.finish(self.table(*fields.values()))


def with_header(tables: bytes, data: bytes, length: int = 32, **fields: int) -> bytes:
    """``tables`` with an extended header of ``length`` bytes, then ``data``; ``fields`` replaces header fields."""
    program_size = len(tables) + 32
    base = -(-program_size // 128) * 128
    values = {"length": length, "program_size": program_size, "base": base, "size": len(data), **fields}
    header = struct.pack("<4sIQQQ", b"eh00", *values.values())
    if length < 32:
        header = header[:length] + b"\xee" * (32 - length)  # what an early version had there is anybody's guess
    (root,) = struct.unpack_from("<I", tables)
    whole = struct.pack("<I", root + 32) + tables[4:8] + header + tables[8:]
    return whole.ljust(base, b"\0") + data
