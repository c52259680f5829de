"""Reads a ``.bpte`` file that nobody vouches for, with the same guarantees as the reader of ``.pte`` files."""

from __future__ import annotations

import struct

from etir.diagnostics import raise_if_errors
from etir.emit.bundled import schema
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor, Value
from etir.emit.bundled.validate import validate_bundled
from etir.emit.errors import E0808, E0809, E0844
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.scalar_type import SCALAR_TYPES

_WHAT = "a bundled program (.bpte)"
_ROW_BYTES = 64
"""What a value costs of the budget for what is decoded; in a file it takes about as much."""


def is_bundled(data: Buffer) -> bool:
    """Whether these are the bytes of a bundled program, whatever else is wrong with them."""
    return bytes(memoryview(data).cast("B")[4:8]) == schema.IDENTIFIER if len(data) else False


def read_bundled(data: Buffer, name: str = "<bpte>") -> BundledProgram:
    """The bundled program in ``data``, whose buffers are views into it; ``name`` is the file name for messages.

    The program itself is not read. Raises ``EtirError`` with ids E0801 to E0844.
    """
    buffer = memoryview(data).toreadonly().cast("B") if len(data) else memoryview(b"")
    view = View(buffer, len(buffer), name)
    root = view.root(schema.IDENTIFIER, _WHAT)
    row = view.row(root, schema.BUNDLED_PROGRAM)
    version, suites, program = row
    view.required(row, schema.BUNDLED_PROGRAM, 2, root)
    reader = _Reader(view)
    found = tuple([reader.suite(position) for position in view.tables(suites, "method_test_suites")])
    bundled = BundledProgram(view.blob(program, "program"), found, version)
    raise_if_errors(validate_bundled(bundled, file=name))
    return bundled


class _Reader:
    """Decodes the tables of one file."""

    def __init__(self, view: View):
        self.view = view

    def suite(self, position: int) -> Suite:
        row = self.view.row(position, schema.SUITE)
        self.view.charge(_ROW_BYTES, position)
        name = self.view.string(self.view.required(row, schema.SUITE, 0, position), "method_name")
        return Suite(name, tuple([self.case(at) for at in self.view.tables(row[1], "test_cases")]))

    def case(self, position: int) -> Case:
        inputs, expected = self.view.row(position, schema.CASE)
        self.view.charge(_ROW_BYTES, position)
        return Case(
            tuple([self.value(at) for at in self.view.tables(inputs, "inputs")]),
            tuple([self.value(at) for at in self.view.tables(expected, "expected_outputs")]),
        )

    def value(self, position: int) -> Value:
        row = self.view.row(position, schema.VALUE)
        self.view.charge(_ROW_BYTES, position)
        tag, at = row[0], self.view.required(row, schema.VALUE, 1, position)
        match tag:
            case schema.TENSOR_TAG:
                return self.tensor(at)
            case schema.INT_TAG:
                return self.view.row(at, schema.INT)[0]
            case schema.BOOL_TAG:
                number = self.view.row(at, schema.BOOL)[0]
                if number > 1:
                    self.view.fail(E0844, at, f"a bool is {number}")
                return bool(number)
            case schema.DOUBLE_TAG:
                return struct.unpack("<d", struct.pack("<Q", self.view.row(at, schema.DOUBLE)[0]))[0]
            case _:
                self.view.fail(E0808, position, f"val is of type {tag}, expected 1 to 4")

    def tensor(self, position: int) -> Tensor:
        number, sizes_at, data_at, order_at = self.view.row(position, schema.TENSOR)
        scalar_type = SCALAR_TYPES.get(number)
        if scalar_type is None:
            self.view.fail(E0809, position, f"scalar_type is {number}, which no dtype has")
        sizes = self.view.scalars(sizes_at, "i", "sizes")
        order = self.view.scalars(order_at, "B", "dim_order")
        return Tensor(scalar_type, sizes, order, self.view.blob(data_at, "data"))
