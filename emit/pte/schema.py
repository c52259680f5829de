"""The tables of the Program schema as data: slots in vtable order, union tags, the extended header.

Bool slots have the code ``B`` and doubles ``Q`` (their IEEE 754 bits): the view and the builder move raw bits, and
what they mean is the reader's and the writer's business.
"""

from __future__ import annotations

import struct

from etir.emit.flatbuffer.schema import TableSchema
from etir.emit.pte import model

IDENTIFIER = b"ET12"
VERSION = 0

HEADER_MAGIC = b"eh00"
HEADER = struct.Struct("<4sIQQQ")
"""Magic, header length, program size, segment base offset, segment data size; starts at byte 8 of the file."""
LEGACY_HEADER_LENGTH = 24
"""Length of a header without the segment data size, the shortest that is accepted."""

PROGRAM = TableSchema(
    "Program",
    version="I",
    execution_plan="o",
    constant_buffer="o",
    backend_delegate_data="o",
    segments="o",
    constant_segment="o",
    mutable_data_segments="o",
    named_data="o",
)
EXECUTION_PLAN = TableSchema(
    "ExecutionPlan",
    name="o",
    container_meta_type="o",
    values="o",
    inputs="o",
    outputs="o",
    chains="o",
    operators="o",
    delegates="o",
    non_const_buffer_sizes="o",
    non_const_buffer_device="o",
)
CONTAINER_METADATA = TableSchema("ContainerMetadata", encoded_inp_str="o", encoded_out_str="o")
NON_CONST_BUFFER_DEVICE = TableSchema("NonConstBufferDevice", buffer_idx="i", device_type="b", device_index="b")
EVALUE = TableSchema("EValue", val_type="B", val="o")

NULL = TableSchema("Null")
INT = TableSchema("Int", int_val="q")
BOOL = TableSchema("Bool", bool_val="B")
DOUBLE = TableSchema("Double", double_val="Q")
STRING = TableSchema("String", string_val="o")
INT_LIST = TableSchema("IntList", items="o")
DOUBLE_LIST = TableSchema("DoubleList", items="o")
BOOL_LIST = TableSchema("BoolList", items="o")
TENSOR_LIST = TableSchema("TensorList", items="o")
OPTIONAL_TENSOR_LIST = TableSchema("OptionalTensorList", items="o")
TENSOR = TableSchema(
    "Tensor",
    scalar_type="b",
    storage_offset="i",
    sizes="o",
    dim_order="o",
    requires_grad="B",
    data_buffer_idx="I",
    allocation_info="o",
    layout="b",
    shape_dynamism="b",
    extra_tensor_info="o",
)
ALLOCATION_DETAILS = TableSchema("AllocationDetails", memory_id="I", memory_offset_low="I", memory_offset_high="I")
EXTRA_TENSOR_INFO = TableSchema(
    "ExtraTensorInfo",
    mutable_data_segments_idx="Q",
    fully_qualified_name="o",
    location="b",
    device_type="b",
    device_index="b",
)

OPERATOR = TableSchema("Operator", name="o", overload="o")
BACKEND_DELEGATE = TableSchema("BackendDelegate", id="o", processed="o", compile_specs="o")
DATA_REFERENCE = TableSchema("BackendDelegateDataReference", location="b", index="I")
COMPILE_SPEC = TableSchema("CompileSpec", key="o", value="o")

CHAIN = TableSchema("Chain", inputs="o", outputs="o", instructions="o", stacktrace="o")
INSTRUCTION = TableSchema("Instruction", instr_args_type="B", instr_args="o")
KERNEL_CALL = TableSchema("KernelCall", op_index="i", args="o")
DELEGATE_CALL = TableSchema("DelegateCall", delegate_index="i", args="o")
MOVE_CALL = TableSchema("MoveCall", move_from="i", move_to="i")
JUMP_FALSE_CALL = TableSchema("JumpFalseCall", cond_value_index="i", destination_instruction="i")
FREE_CALL = TableSchema("FreeCall", value_index="i")
FRAME_LIST = TableSchema("FrameList", items="o")
FRAME = TableSchema("Frame", filename="o", lineno="i", name="o", context="o")

BUFFER = TableSchema("Buffer", storage="o")
INLINE_DATA = TableSchema("BackendDelegateInlineData", data="o")
SUBSEGMENT_OFFSETS = TableSchema("SubsegmentOffsets", segment_index="I", offsets="o")
NAMED_DATA = TableSchema("NamedData", key="o", segment_index="I")

DATA_INLINE, DATA_IN_SEGMENT = 0, 1
"""``BackendDelegateDataReference.location``."""

VALUE_TAGS: dict[type[model.EValue], int] = {
    model.Null: 1,
    model.Int: 2,
    model.Bool: 3,
    model.Double: 4,
    model.Tensor: 5,
    model.String: 6,
    model.IntList: 7,
    model.DoubleList: 8,
    model.BoolList: 9,
    model.TensorList: 10,
    model.OptionalTensorList: 11,
}
"""Tags of the union KernelTypes."""

INSTRUCTION_TAGS: dict[type[model.Instruction], int] = {
    model.KernelCall: 1,
    model.DelegateCall: 2,
    model.MoveCall: 3,
    model.JumpFalseCall: 4,
    model.FreeCall: 5,
}
"""Tags of the union InstructionArguments."""
