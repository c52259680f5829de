"""The tables of the BundledProgram schema as data."""

from __future__ import annotations

from etir.emit.flatbuffer.schema import TableSchema

IDENTIFIER = b"BP08"
VERSION = 2
"""What ExecuTorch 1.5.1 writes. Its runtime reads any."""
PROGRAM_ALIGNMENT = 32
DATA_ALIGNMENT = 16

BUNDLED_PROGRAM = TableSchema("BundledProgram", version="I", method_test_suites="o", program="o")
SUITE = TableSchema("BundledMethodTestSuite", method_name="o", test_cases="o")
CASE = TableSchema("BundledMethodTestCase", inputs="o", expected_outputs="o")
VALUE = TableSchema("Value", val_type="B", val="o")
TENSOR = TableSchema("Tensor", scalar_type="b", sizes="o", data="o", dim_order="o")
INT = TableSchema("Int", int_val="q")
BOOL = TableSchema("Bool", bool_val="B")
DOUBLE = TableSchema("Double", double_val="Q")

TENSOR_TAG, INT_TAG, BOOL_TAG, DOUBLE_TAG = 1, 2, 3, 4
