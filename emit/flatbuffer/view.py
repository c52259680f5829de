"""A bounds-checked view of a FlatBuffer: every offset, vtable, vector and string is checked before it is used.

The view never trusts the buffer: a mistake raises an ``EtirError`` that names the object, the byte offset and what was
expected there. Two things keep the work in proportion to the file. Strings and vectors of scalars are decoded once and
remembered by position, because a buffer may refer to the same one many times. And whatever is decoded is charged to a
budget that objects lying beside each other cannot exhaust, but millions of overlapping ones do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from typing import NoReturn, TypeVar

from etir.diagnostics import ErrorId, SourceLocation
from etir.emit.errors import E0801, E0802, E0804, E0805, E0806, E0807, E0810, E0811, E0813
from etir.emit.flatbuffer.schema import CODE_BYTES, TableSchema

T = TypeVar("T")

_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")
_U16_PAIR = struct.Struct("<HH")
_SCALAR_NAMES = {
    "B": "bytes",
    "f": "floats",
    "i": "32-bit ints",
    "I": "32-bit ints",
    "q": "64-bit ints",
    "Q": "64-bit ints",
    "d": "doubles",
}

_BUDGET_FACTOR, _BUDGET_BASE = 8, 1 << 20


class _RowLayout:
    """How to read the present slots of tables that share a vtable: one ``struct`` in address order, then scatter."""

    __slots__ = ("empty", "offset_slots", "size", "slots", "unpack_from")

    def __init__(self, schema: TableSchema, size: int, positions: list[tuple[int, int]]):
        pieces, end = ["<"], 0
        for position, slot in positions:
            code = schema.codes[slot].replace("o", "I")
            pieces.append(f"{position - end}x{code}")
            end = position + CODE_BYTES[code]
        self.unpack_from: Callable[[memoryview, int], tuple[int, ...]] = struct.Struct("".join(pieces)).unpack_from
        self.slots = tuple(slot for _, slot in positions)
        self.offset_slots = tuple((slot, position) for position, slot in positions if schema.codes[slot] == "o")
        self.empty = list(schema.defaults)
        self.size = size


class View:
    """The tables of ``buffer[:end]``; ``name`` is the file name for messages."""

    __slots__ = ("_budget", "_layouts", "_memo", "buffer", "end", "location")

    def __init__(self, buffer: memoryview, end: int, name: str):
        self.buffer = buffer
        self.end = end
        self.location = SourceLocation(name)
        self._budget = _BUDGET_FACTOR * end + _BUDGET_BASE
        self._layouts: dict[TableSchema, dict[tuple[int, int], _RowLayout]] = {}
        self._memo: dict[Hashable, object] = {}

    def fail(self, error: ErrorId, position: int, message: str) -> NoReturn:
        """Raise ``error`` about the byte at ``position``."""
        raise error.error(f"at byte {position} (0x{position:x}): {message}", self.location)

    def charge(self, size: int, position: int) -> None:
        """Count ``size`` bytes as decoded. Raises E0813 when far more has been decoded than the buffer holds."""
        self._budget -= size
        if self._budget < 0:
            self.fail(
                E0813,
                position,
                f"the objects up to here take more than {_BUDGET_FACTOR} times the {self.end} bytes of the FlatBuffer, "
                "so they overlap",
            )

    def once(self, kind: Hashable, position: int, decode: Callable[[int], T]) -> T:
        """``decode(position)``, remembered under ``kind`` and ``position``."""
        key = (kind, position)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = decode(position)
        return found  # pyright: ignore[reportReturnType]  # the kind determines the type

    def root(self, identifier: bytes, what: str, start: int = 0) -> int:
        """Position of the root table of the FlatBuffer at byte ``start``.

        Raises E0801 or E0802 when this is not such a file.
        """
        if self.end < start + 8:
            raise E0801.error(f"{what} has at least {start + 8} bytes, this file has {self.end}", self.location)
        found = bytes(self.buffer[start + 4 : start + 8])
        if found != identifier:
            self.fail(E0802, start + 4, f"expected the identifier {identifier!r} of {what}, found {found!r}")
        return start + _U32.unpack_from(self.buffer, start)[0]

    def row(self, position: int, schema: TableSchema) -> list[int]:
        """The slots of the table at ``position``, their defaults where absent; offset slots hold the position that they
        point to.
        """
        if position & 3:
            self.fail(E0811, position, f"a {schema.name} table has to start at a multiple of 4")
        if not 4 <= position <= self.end - 4:
            self.fail(E0804, position, f"expected a {schema.name} table between byte 4 and byte {self.end - 4}")
        vtable = position - _I32.unpack_from(self.buffer, position)[0]
        layouts = self._layouts.get(schema)
        if layouts is None:
            layouts = self._layouts[schema] = {}
        layout = layouts.get((vtable, position & 7))
        if layout is None:
            layout = layouts[vtable, position & 7] = self._vtable(position, vtable, schema)
        if position + layout.size > self.end:
            self.fail(E0804, position, f"this {schema.name} table of {layout.size} bytes ends after byte {self.end}")
        row = layout.empty.copy()
        for slot, value in zip(layout.slots, layout.unpack_from(self.buffer, position), strict=True):
            row[slot] = value
        for slot, field in layout.offset_slots:
            if not row[slot]:
                self.fail(E0804, position + field, f"{schema.name}.{schema.slots[slot]} points to itself")
            row[slot] += position + field
        return row

    def _vtable(self, table: int, vtable: int, schema: TableSchema) -> _RowLayout:
        if vtable & 1:
            self.fail(E0811, table, f"the vtable of this {schema.name} is at byte {vtable}, expected an even one")
        if not 4 <= vtable <= self.end - 4:
            self.fail(
                E0804, table, f"the vtable of this {schema.name} is at byte {vtable}, the buffer ends at {self.end}"
            )
        vtable_size, size = _U16_PAIR.unpack_from(self.buffer, vtable)
        if vtable_size < 4 or vtable_size & 1 or vtable + vtable_size > self.end:
            self.fail(E0805, vtable, f"a vtable of {schema.name} cannot have {vtable_size} bytes here")
        if size < 4:
            self.fail(E0805, vtable + 2, f"a {schema.name} table has at least 4 bytes, this vtable says {size}")
        count = min((vtable_size - 4) // 2, len(schema.codes))
        fields = struct.unpack_from(f"<{count}H", self.buffer, vtable + 4)
        positions = sorted((field, slot) for slot, field in enumerate(fields) if field)
        end = 4
        for field, slot in positions:
            width = CODE_BYTES[schema.codes[slot]]
            where = f"{schema.name}.{schema.slots[slot]} at byte {field} of the table"
            if field < end or field + width > size:
                self.fail(E0805, vtable + 4 + 2 * slot, f"{where} overlaps another slot or the end ({size} bytes)")
            if (table + field) % width:
                self.fail(E0811, table + field, f"{where} has to be {width}-byte aligned")
            end = field + width
        return _RowLayout(schema, size, positions)

    def required(self, row: list[int], schema: TableSchema, slot: int, position: int) -> int:
        """The offset in ``slot``. Raises E0810 when it is absent."""
        if not row[slot]:
            self.fail(E0810, position, f"this {schema.name} has no '{schema.slots[slot]}'")
        return row[slot]

    def vector(self, position: int, width: int, what: str, unit: str) -> tuple[int, int]:
        """Position of the first element and number of elements of a vector with elements of ``width`` bytes."""
        if position & 3:
            self.fail(E0811, position, f"the vector '{what}' has to start at a multiple of 4")
        if not 4 <= position <= self.end - 4:
            self.fail(E0804, position, f"expected the vector '{what}' between byte 4 and byte {self.end - 4}")
        count: int = _U32.unpack_from(self.buffer, position)[0]
        first = position + 4
        if count * width > self.end - first:
            self.fail(
                E0806,
                position,
                f"'{what}' has {count} {unit}, there is room for {(self.end - first) // width} up to byte {self.end}",
            )
        if width == 8 and count and first & 7:
            self.fail(E0811, first, f"the elements of '{what}' have to be 8-byte aligned")
        return first, count

    def scalars(self, position: int, code: str, what: str) -> tuple[int, ...]:
        """The numbers of a vector with the ``struct`` code ``code``; empty when ``position`` is 0 (absent)."""
        if not position:
            return ()
        key = (code, position)
        found = self._memo.get(key)
        if found is None:
            width = 8 if code == "d" else CODE_BYTES[code]
            first, count = self.vector(position, width, what, _SCALAR_NAMES[code])
            self.charge(4 + width * count, position)
            found = self._memo[key] = struct.unpack_from(f"<{count}{code}", self.buffer, first)
        return found  # pyright: ignore[reportReturnType]  # the code determines the type

    def tables(self, position: int, what: str) -> list[int]:
        """Positions of the tables of a vector; empty when ``position`` is 0 (absent). Charged at every call."""
        if not position:
            return []
        first, count = self.vector(position, 4, what, "tables")
        self.charge(4 + 4 * count, position)
        offsets = struct.unpack_from(f"<{count}I", self.buffer, first)
        return [first + 4 * i + offset for i, offset in enumerate(offsets)]

    def blob(self, position: int, what: str) -> memoryview:
        """The bytes of a vector, not copied; empty when ``position`` is 0 (absent)."""
        if not position:
            return self.buffer[:0]
        first, count = self.vector(position, 1, what, "bytes")
        return self.buffer[first : first + count]

    def string(self, position: int, what: str) -> str:
        """A string; empty when ``position`` is 0 (absent)."""
        if not position:
            return ""
        key = ("s", position)
        found = self._memo.get(key)
        if found is None:
            first, count = self.vector(position, 1, what, "bytes")
            self.charge(5 + count, position)
            last = first + count
            if last >= self.end or self.buffer[last]:
                self.fail(E0807, last, f"the string '{what}' has to end with a zero byte")
            try:
                found = str(self.buffer[first:last], "utf-8")
            except UnicodeDecodeError as error:
                self.fail(E0807, first + error.start, f"the string '{what}' is not UTF-8: {error.reason}")
            self._memo[key] = found
        return found  # pyright: ignore[reportReturnType]  # the key determines the type
