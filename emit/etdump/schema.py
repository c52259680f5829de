"""The tables of the ETDump schema as data.

Floats are read and written as their bits. A default of -1 is left out of the file, so that 0 is written.
"""

from __future__ import annotations

from etir.emit.flatbuffer.schema import TableSchema

IDENTIFIER = b"ED00"
VERSION = 0
PREFIX = 4
"""Bytes of the size that comes before the FlatBuffer; alignment counts from its start."""

ETDUMP = TableSchema("ETDump", version="I", run_data="o")
RUN_DATA = TableSchema("RunData", name="o", bundled_input_index="i=-1", allocators="o", events="o")
ALLOCATOR = TableSchema("Allocator", name="o")
EVENT = TableSchema("Event", profile_event="o", allocation_event="o", debug_event="o")
PROFILE_EVENT = TableSchema(
    "ProfileEvent",
    name="o",
    chain_index="i",
    instruction_id="i=-1",
    delegate_debug_id_int="i=-1",
    delegate_debug_id_str="o",
    delegate_debug_metadata="o",
    start_time="Q",
    end_time="Q",
)
ALLOCATION_EVENT = TableSchema("AllocationEvent", allocator_id="i", allocation_size="Q")
DEBUG_EVENT = TableSchema(
    "DebugEvent",
    chain_index="Q",
    instruction_id="i=-1",
    debug_entry="o",
    delegate_debug_id_int="i=-1",
    delegate_debug_id_str="o",
    name="o",
)
VALUE = TableSchema(
    "Value",
    val="b",
    tensor="o",
    tensor_list="o",
    int_value="o",
    float_value="o",
    double_value="o",
    bool_value="o",
    output="o",
)
TENSOR = TableSchema("Tensor", scalar_type="b", sizes="o", strides="o", offset="q")
TENSOR_LIST = TableSchema("TensorList", tensors="o")
INT = TableSchema("Int", int_val="q")
BOOL = TableSchema("Bool", bool_val="B")
FLOAT = TableSchema("Float", float_val="I")
DOUBLE = TableSchema("Double", double_val="Q")
