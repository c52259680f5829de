"""A one-instruction program file whose dtypes and dim orders can be changed in place.

Probing runs the same operator tens of thousands of times with other dtypes. Building a file costs a hundred times
more than running it, so the file is built once per operator: every tensor gets 16 bytes of storage per element,
enough for any scalar type, and the places of its scalar type, dim order and data are kept, so that a variant is a few
byte stores. Inputs are constants, results and mutated inputs live in one planned buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import flatbuffers

from etir.targets.dtypes import ScalarType

ELEMENT_BYTES = 16
_HEADER_BYTES = 32
_ALIGNMENT = 128
_STATIC, _DYNAMIC_BOUND = 0, 1
_NULL, _INT, _BOOL, _DOUBLE, _TENSOR, _STRING, _INT_LIST, _DOUBLE_LIST, _BOOL_LIST, _TENSOR_LIST, _OPTIONAL_LIST = range(1, 12)


@dataclass(eq=False)
class TensorSlot:
    """One tensor of the program; ``mutable`` tensors are planned, ``initialised`` ones have data in the file."""

    sizes: tuple[int, ...]
    initialised: bool = True
    mutable: bool = False
    dynamic: bool = False
    type_at: int = field(default=-1, init=False)
    dim_order_at: int = field(default=-1, init=False)
    data_at: int = field(default=-1, init=False)

    @property
    def capacity(self) -> int:
        """Bytes of storage, the same for every dtype, a multiple of 16."""
        return max(prod(self.sizes), 1) * ELEMENT_BYTES


@dataclass(frozen=True)
class IntList:
    items: tuple[int, ...]


@dataclass(frozen=True)
class DoubleList:
    items: tuple[float, ...]


@dataclass(frozen=True)
class BoolList:
    items: tuple[bool, ...]


@dataclass(frozen=True)
class TensorList:
    """Indices of tensor values; -1 stands for an absent item and makes the list optional."""

    items: tuple[int, ...]
    optional: bool = False


Value = TensorSlot | IntList | DoubleList | BoolList | TensorList | str | bool | int | float | None


class OneOpProgram:
    """The file for one call. ``values`` is the value table, ``args`` and ``outputs`` index into it."""

    def __init__(self, op_name: str, values: Sequence[Value], args: Sequence[int], outputs: Sequence[int]):
        self.values = list(values)
        self._builder = flatbuffers.Builder(4096)
        self._builder.ForceDefaults(True)
        self._from_end: list[tuple[TensorSlot, int, int]] = []
        self._constants = self._layout([v for v in self._tensors() if v.initialised and not v.mutable])
        self._initial = self._layout([v for v in self._tensors() if v.initialised and v.mutable])
        self._planned = self._layout([v for v in self._tensors() if v.mutable])
        self.bytes = self._assemble(op_name, args, outputs)

    def set_tensor(self, slot: TensorSlot, dtype: ScalarType, dim_order: Sequence[int], data: bytes | None = None) -> None:
        """Change a tensor in place; ``data`` is its storage in ``dim_order``, at most ``slot.capacity`` bytes."""
        self.bytes[slot.type_at] = int(dtype)
        self.bytes[slot.dim_order_at : slot.dim_order_at + len(slot.sizes)] = bytes(dim_order)
        if data is not None and slot.initialised:
            self.bytes[slot.data_at : slot.data_at + len(data)] = data

    def _tensors(self) -> list[TensorSlot]:
        return [v for v in self.values if isinstance(v, TensorSlot)]

    @staticmethod
    def _layout(slots: Sequence[TensorSlot]) -> dict[int, tuple[int, int]]:
        """Table index (from 1) and byte offset of each slot, by identity, and the total under key 0."""
        offset = 0
        table: dict[int, tuple[int, int]] = {}
        for index, slot in enumerate(slots, 1):
            table[id(slot)] = (index, offset)
            offset += slot.capacity
        table[0] = (len(slots), offset)
        return table

    def _assemble(self, op_name: str, args: Sequence[int], outputs: Sequence[int]) -> bytearray:
        builder = self._builder
        root = self._program(op_name, args, outputs)
        builder.Finish(root, b"ET12")
        body = bytes(builder.Output())
        size = len(body) + _HEADER_BYTES
        base = -(-size // _ALIGNMENT) * _ALIGNMENT
        constant_bytes, initial_bytes = self._constants[0][1], self._initial[0][1]
        header = b"eh00" + (32).to_bytes(4, "little")
        header += b"".join(n.to_bytes(8, "little") for n in (size, base, constant_bytes + initial_bytes))
        root_offset = int.from_bytes(body[:4], "little") + _HEADER_BYTES
        data = bytearray(root_offset.to_bytes(4, "little") + body[4:8] + header + body[8:])
        data.extend(bytes(base - len(data) + constant_bytes + initial_bytes))
        for slot, type_from_end, dim_order_from_end in self._from_end:
            slot.type_at = size - type_from_end
            slot.dim_order_at = size - dim_order_from_end
            if id(slot) in self._constants:
                slot.data_at = base + self._constants[id(slot)][1]
            elif id(slot) in self._initial:
                slot.data_at = base + constant_bytes + self._initial[id(slot)][1]
        return data

    def _vector(self, items: Sequence[int], prepend: Callable[[int], None], size: int) -> int:
        self._builder.StartVector(size, len(items), size)
        for item in reversed(items):
            prepend(item)
        return self._builder.EndVector()

    def _int32s(self, items: Sequence[int]) -> int:
        return self._vector(items, self._builder.PrependInt32, 4)

    def _int64s(self, items: Sequence[int]) -> int:
        return self._vector(items, self._builder.PrependInt64, 8)

    def _offsets(self, items: Sequence[int]) -> int:
        return self._vector(items, self._builder.PrependUOffsetTRelative, 4)

    def _table(self, *fields: tuple[int, str, int | float | bool]) -> int:
        """A table from ``(slot, kind, value)`` triples; wide fields first keep it packed."""
        builder = self._builder
        builder.StartObject(max((slot for slot, _, _ in fields), default=-1) + 1)
        for slot, kind, value in fields:
            {
                "offset": builder.PrependUOffsetTRelativeSlot,
                "i64": builder.PrependInt64Slot,
                "u64": builder.PrependUint64Slot,
                "f64": builder.PrependFloat64Slot,
                "i32": builder.PrependInt32Slot,
                "u32": builder.PrependUint32Slot,
                "i8": builder.PrependInt8Slot,
                "u8": builder.PrependUint8Slot,
                "bool": builder.PrependBoolSlot,
            }[kind](slot, value, 0)
        return builder.EndObject()

    def _program(self, op_name: str, args: Sequence[int], outputs: Sequence[int]) -> int:
        base_name, _, overload = op_name.partition(".")
        name, overload_name = self._builder.CreateString(base_name), self._builder.CreateString(overload)
        operators = self._offsets([self._table((0, "offset", name), (1, "offset", overload_name))])
        call = self._table((1, "offset", self._int32s(args)), (0, "i32", 0))
        instructions = self._offsets([self._table((1, "offset", call), (0, "u8", 1))])
        chain = self._table((2, "offset", instructions))
        values = self._offsets([self._value(v) for v in self.values])
        plan_name = self._builder.CreateString("forward")
        plan = self._table(
            (0, "offset", plan_name),
            (2, "offset", values),
            (3, "offset", self._int32s([])),
            (4, "offset", self._int32s(outputs)),
            (5, "offset", self._offsets([chain])),
            (6, "offset", operators),
            (7, "offset", self._offsets([])),
            (8, "offset", self._int64s([0, self._planned[0][1]])),
        )
        constant_bytes, initial_bytes = self._constants[0][1], self._initial[0][1]
        segments = [(0, constant_bytes), (constant_bytes, initial_bytes)]
        segment_tables = [self._table((0, "u64", offset), (1, "u64", size)) for offset, size in segments]
        mutable = [self._subsegments(1, self._initial)] if initial_bytes else []
        return self._table(
            (1, "offset", self._offsets([plan])),
            (4, "offset", self._offsets(segment_tables)),
            (5, "offset", self._subsegments(0, self._constants)),
            (6, "offset", self._offsets(mutable)),
            (0, "u32", 0),
        )

    def _subsegments(self, segment: int, layout: dict[int, tuple[int, int]]) -> int:
        offsets = [0] + [offset for key, (_, offset) in layout.items() if key != 0]
        return self._table((1, "offset", self._int64s(offsets)), (0, "u32", segment))

    def _value(self, value: Value) -> int:
        kind, table = self._kind_and_table(value)
        return self._table((1, "offset", table), (0, "u8", kind))

    def _kind_and_table(self, value: Value) -> tuple[int, int]:
        match value:
            case None:
                return _NULL, self._table()
            case bool():
                return _BOOL, self._table((0, "bool", value))
            case int():
                return _INT, self._table((0, "i64", value))
            case float():
                return _DOUBLE, self._table((0, "f64", value))
            case str():
                return _STRING, self._table((0, "offset", self._builder.CreateString(value)))
            case TensorSlot():
                return _TENSOR, self._tensor(value)
            case IntList(items):
                return _INT_LIST, self._table((0, "offset", self._int64s(items)))
            case DoubleList(items):
                self._builder.StartVector(8, len(items), 8)
                for item in reversed(items):
                    self._builder.PrependFloat64(item)
                return _DOUBLE_LIST, self._table((0, "offset", self._builder.EndVector()))
            case BoolList(items):
                vector = self._vector([int(i) for i in items], self._builder.PrependUint8, 1)
                return _BOOL_LIST, self._table((0, "offset", vector))
            case TensorList(items, optional):
                kind = _OPTIONAL_LIST if optional else _TENSOR_LIST
                return kind, self._table((0, "offset", self._int32s(items)))

    def _tensor(self, slot: TensorSlot) -> int:
        builder = self._builder
        rank = len(slot.sizes)
        dim_order = self._vector(range(rank), builder.PrependUint8, 1)
        dim_order_from_end = dim_order - 4
        sizes = self._int32s(slot.sizes)
        allocation = None
        if slot.mutable:
            offset = self._planned[id(slot)][1]
            allocation = self._table((0, "u32", 1), (1, "u32", offset), (2, "u32", 0))
        index = self._constants.get(id(slot)) or self._initial.get(id(slot)) or (0, 0)
        builder.StartObject(10)
        builder.PrependUOffsetTRelativeSlot(2, sizes, 0)
        builder.PrependUOffsetTRelativeSlot(3, dim_order, 0)
        if allocation is not None:
            builder.PrependUOffsetTRelativeSlot(6, allocation, 0)
        builder.PrependUint32Slot(5, index[0], 0)
        builder.PrependInt8Slot(0, int(ScalarType.Float), 0)
        type_from_end = builder.Offset()
        builder.PrependInt8Slot(8, _DYNAMIC_BOUND if slot.dynamic else _STATIC, 0)
        self._from_end.append((slot, type_from_end, dim_order_from_end))
        return builder.EndObject()
