"""The builder's output as the reference FlatBuffers library sees it."""

from __future__ import annotations

import struct

import pytest
from flatbuffers import number_types
from flatbuffers.table import Table

from etir.diagnostics import EtirError
from etir.emit.flatbuffer.builder import Builder
from etir.emit.flatbuffer.schema import TableSchema

MIXED = TableSchema("Mixed", small="b", wide="q", text="o", middle="i", large="Q", flag="B")
FLAGS = {"b": number_types.Int8Flags, "B": number_types.Uint8Flags, "i": number_types.Int32Flags,
         "I": number_types.Uint32Flags, "q": number_types.Int64Flags, "Q": number_types.Uint64Flags}  # fmt: skip


def root(data: bytes) -> Table:
    return Table(bytearray(data), struct.unpack_from("<I", data)[0])


def slot(table: Table, index: int, code: str) -> int:
    offset = table.Offset(4 + 2 * index)
    return table.Get(FLAGS[code], table.Pos + offset) if offset else 0


@pytest.mark.parametrize("values", [(-1, -2, 0, -3, 1 << 63, 255), (0, 5, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0), (0,) * 6])
@pytest.mark.parametrize("before", ["", "x", "xyz", "xyzwv"])
def test_tables(values: tuple[int, ...], before: str) -> None:
    builder = Builder()
    text = builder.string("text " + before)
    values = (*values[:2], text, *values[3:])
    data = b"".join(builder.finish(builder.table(MIXED, values), b"TEST"))
    table = root(data)
    assert [slot(table, i, code) for i, code in enumerate(MIXED.codes) if code != "o"] == [*values[:2], *values[3:]]
    assert table.String(table.Pos + table.Offset(8)) == f"text {before}".encode()
    for index, code in enumerate(MIXED.codes):
        if offset := table.Offset(4 + 2 * index):
            assert (table.Pos + offset) % {"q": 8, "Q": 8, "i": 4, "o": 4}.get(code, 1) == 0


@pytest.mark.parametrize(("code", "values"), [("q", (1, -(1 << 63), 3)), ("i", (1, -2)), ("d", (0.5, -0.0)), ("q", ())])
@pytest.mark.parametrize("before", ["", "x", "xyzw"])
def test_vectors(code: str, values: tuple[int | float, ...], before: str) -> None:
    holder = TableSchema("Holder", text="o", items="o")
    builder = Builder()
    fields = (builder.string(before), builder.scalars(code, values))
    data = b"".join(builder.finish(builder.table(holder, fields), b"TEST"))
    table = root(data)
    field = table.Offset(6)
    start, count = table.Vector(field), table.VectorLen(field)
    assert struct.unpack_from(f"<{count}{code}", data, start) == values
    assert start % struct.calcsize(code) == 0


def test_equal_objects_exist_once_and_different_ones_do_not() -> None:
    builder = Builder()
    text = builder.string("a")
    assert builder.string("a") == text
    assert builder.string("a\0") != text
    first = builder.table(MIXED, (0, 7, text, 0, 0, 0))
    assert builder.table(MIXED, (0, 7, text, 0, 0, 0)) == first
    assert builder.table(MIXED, (0, 7, text, 1, 0, 0)) != first
    assert builder.tables([first, first]) == builder.tables([first, first])
    zero, minus = builder.scalars("d", (0.0,)), builder.scalars("d", (-0.0,))
    assert zero != minus


def test_header_and_alignment() -> None:
    holder = TableSchema("Holder", data="o")
    for header in (b"", bytes(32)):
        for alignment in (1, 16, 64):
            builder = Builder()
            blob = builder.blob(b"DATA!", alignment)
            parts = builder.finish(builder.table(holder, (blob,)), b"TEST", header)
            data = b"".join(parts)
            assert data[4:8] == b"TEST"
            assert data[8 : 8 + len(header)] == header
            assert len(data) == builder.size_with_header(len(header))
            assert data.index(b"DATA!") % alignment == 0


def test_a_blob_that_is_too_large_for_31_bits() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 1 << 31

    builder = Builder()
    builder.blob(Huge(), 16)
    with pytest.raises(EtirError) as caught:
        builder.finish(builder.string(""), b"TEST")
    assert caught.value.ids == ("E0838",)
