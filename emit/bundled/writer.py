"""Writes a bundled program as the bytes of a ``.bpte`` file, which the stock runtime runs and checks."""

from __future__ import annotations

import struct

from etir.diagnostics import raise_if_errors
from etir.emit.bundled import schema
from etir.emit.bundled.model import BundledProgram, Case, Suite, Tensor, Value
from etir.emit.bundled.validate import validate_bundled
from etir.emit.flatbuffer.builder import Builder
from etir.emit.formats.buffers import flat


def write_bundled(bundled: BundledProgram) -> bytes:
    """The bytes of ``bundled``, with its suites in the order of their names.

    Raises ``EtirError`` with every rule of :mod:`etir.emit.bundled.validate` that is broken.
    """
    raise_if_errors(validate_bundled(bundled))
    builder = Builder(alignment=schema.PROGRAM_ALIGNMENT)
    program = builder.blob(flat(bundled.program), schema.PROGRAM_ALIGNMENT)
    suites = [_suite(builder, suite) for suite in sorted(bundled.suites, key=lambda suite: suite.method)]
    root = builder.table(schema.BUNDLED_PROGRAM, (bundled.version, builder.tables(suites), program))
    return b"".join(builder.finish(root, schema.IDENTIFIER))


def _suite(builder: Builder, suite: Suite) -> int:
    cases = [_case(builder, case) for case in suite.cases]
    return builder.table(schema.SUITE, (builder.string(suite.method), builder.tables(cases)))


def _case(builder: Builder, case: Case) -> int:
    inputs = builder.tables([_value(builder, value) for value in case.inputs])
    expected = builder.tables([_value(builder, value) for value in case.expected])
    return builder.table(schema.CASE, (inputs, expected))


def _value(builder: Builder, value: Value) -> int:
    match value:
        case Tensor():
            sizes = builder.scalars("i", value.sizes)
            order = builder.byte_vector(bytes(value.dim_order))
            data = builder.blob(flat(value.data), schema.DATA_ALIGNMENT)
            tag, handle = schema.TENSOR_TAG, builder.table(schema.TENSOR, (value.scalar_type, sizes, data, order))
        case bool():
            tag, handle = schema.BOOL_TAG, builder.table(schema.BOOL, (int(value),))
        case int():
            tag, handle = schema.INT_TAG, builder.table(schema.INT, (value,))
        case float():
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            tag, handle = schema.DOUBLE_TAG, builder.table(schema.DOUBLE, (bits,))
    return builder.table(schema.VALUE, (tag, handle))
