"""The tables of the FlatTensor schema as data, and the file header."""

from __future__ import annotations

import struct

from etir.emit.flatbuffer.schema import TableSchema

IDENTIFIER = b"FT01"
VERSION = 0

HEADER_MAGIC = b"FH01"
HEADER = struct.Struct("<4sIQQQQ")
"""Magic, header length, offset and size of the tables, segment base offset, segment data size; starts at byte 8."""
INSERTED = 48
"""Bytes that the header takes up, padded so that the tables after it keep their alignment.

The header gives this as the offset of the tables, and their size without it: the two add up to where they end.
"""

FLAT_TENSOR = TableSchema("FlatTensor", version="I", segments="o", named_data="o")
NAMED_DATA = TableSchema("NamedData", key="o", segment_index="I", tensor_layout="o")
TENSOR_LAYOUT = TableSchema("TensorLayout", scalar_type="b", sizes="o", dim_order="o")
