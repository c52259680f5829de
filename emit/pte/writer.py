"""Writes a program as the bytes of a ``.pte`` file.

The file is the FlatBuffer, with the extended header between its identifier and its tables, then the segments, in this
order: constants, initial values of mutable buffers, delegate blobs, named data. Data stays where it is until the very
last step, a single join, so writing needs the memory of the result and no more.

The same program gives the same bytes, and equal parts of the FlatBuffer are written once
(:mod:`etir.emit.flatbuffer.builder`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from etir.diagnostics import raise_if_errors
from etir.emit.flatbuffer.builder import Builder
from etir.emit.formats.buffers import Buffer, BufferPool, buffer_bytes
from etir.emit.formats.checks import align_up
from etir.emit.formats.segments import DATA_SEGMENT, SegmentWriter, place
from etir.emit.pte import model, schema
from etir.emit.pte.model import FileLayout, Program
from etir.emit.pte.validate import validate_program


def write_pte(
    program: Program,
    *,
    segment_alignment: int | None = None,
    constant_alignment: int | None = None,
    delegate_alignment: int | None = None,
) -> bytes:
    """The bytes of ``program``.

    Alignments are in bytes, powers of two; those left out are ``program.layout``'s (128, 16 and 16, as ExecuTorch
    writes, unless the program was read from a file that says otherwise). Raises ``EtirError`` with every rule of
    :mod:`etir.emit.pte.validate` that the program breaks.
    """
    parts = pte_parts(
        program,
        segment_alignment=segment_alignment,
        constant_alignment=constant_alignment,
        delegate_alignment=delegate_alignment,
    )
    return b"".join(parts)


def pte_parts(
    program: Program,
    *,
    segment_alignment: int | None = None,
    constant_alignment: int | None = None,
    delegate_alignment: int | None = None,
) -> list[Buffer]:
    """What :func:`write_pte` joins: the parts of the file in order, for ``file.writelines``. Weights are not copied."""
    layout = program.layout
    layout = FileLayout(
        layout.segment_alignment if segment_alignment is None else segment_alignment,
        layout.constant_alignment if constant_alignment is None else constant_alignment,
        layout.delegate_alignment if delegate_alignment is None else delegate_alignment,
    )
    program = replace(program, layout=layout)
    raise_if_errors(validate_program(program))
    writer = _ProgramWriter(program)
    root = writer.program()
    segments, builder = writer.segments, writer.builder
    if not segments.size:
        return builder.finish(root, schema.IDENTIFIER)
    program_size = builder.size_with_header(schema.HEADER.size)
    base = align_up(program_size, layout.segment_alignment)
    header = schema.HEADER.pack(schema.HEADER_MAGIC, schema.HEADER.size, program_size, base, segments.size)
    tables = builder.finish(root, schema.IDENTIFIER, header)
    return [*tables, bytes(base - program_size), *segments.parts]


class _ProgramWriter:
    """Places the data of one program and builds its tables."""

    def __init__(self, program: Program):
        self.source = program
        self.builder = Builder()
        self.segments = SegmentWriter(program.layout.segment_alignment)

    def program(self) -> int:
        """The root table."""
        builder, source = self.builder, self.source
        constants = self.subsegments(source.constants, source.layout.constant_alignment)
        mutable = [self.subsegments(source.mutable_data, 1)] if len(source.mutable_data) > 1 else []
        inline, references = self.delegate_data()
        named = self.named_data()
        plans = [self.plan(plan, references[i]) for i, plan in enumerate(source.execution_plan)]
        segments = [builder.table(DATA_SEGMENT, entry) for entry in self.segments.entries]
        fields = (
            source.version,
            builder.tables(plans),
            builder.tables(()),
            builder.tables(inline),
            builder.tables(segments),
            constants,
            builder.tables(mutable) if mutable else 0,
            builder.tables(named) if named else 0,
        )
        return builder.table(schema.PROGRAM, fields)

    # Data

    def subsegments(self, data: Sequence[Buffer], alignment: int) -> int:
        """A segment with all of ``data`` but the reserved first entry, and the table of offsets into it."""
        offsets, parts = place(data[1:], alignment)
        segment = self.segments.add(parts, alignment)
        fields = (segment, self.builder.scalars("Q", (0, *offsets)))
        return self.builder.table(schema.SUBSEGMENT_OFFSETS, fields)

    def delegate_data(self) -> tuple[list[int], list[list[int]]]:
        """Tables of the inline blobs, and per plan and delegate the table that says where its blob is."""
        alignment = self.source.layout.delegate_alignment
        inline, extracted = BufferPool(), BufferPool()
        segment_of: list[int] = []
        references: list[list[int]] = []
        for plan in self.source.execution_plan:
            references.append([])
            for delegate in plan.delegates:
                if delegate.inline or not buffer_bytes(delegate.data):
                    fields = (schema.DATA_INLINE, inline.add(delegate.data))
                else:
                    index = extracted.add(delegate.data)
                    if index == len(segment_of):
                        segment_of.append(self.segments.add([extracted.items[index]], alignment))
                    fields = (schema.DATA_IN_SEGMENT, segment_of[index])
                references[-1].append(self.builder.table(schema.DATA_REFERENCE, fields))
        blobs = [self.builder.blob(item, alignment) for item in inline.items]
        return [self.builder.table(schema.INLINE_DATA, (blob,)) for blob in blobs], references

    def named_data(self) -> list[int]:
        """Tables of the named data; a blob with several names is aligned for all of them."""
        pool = BufferPool()
        alignments: list[int] = []
        entries: list[tuple[str, int]] = []
        for key, named in self.source.named_data.items():
            index = pool.add(named.data)
            if index == len(alignments):
                alignments.append(1)
            alignments[index] = max(alignments[index], named.alignment)
            entries.append((key, index))
        first = len(self.segments.entries)
        for item, alignment in zip(pool.items, alignments, strict=True):
            self.segments.add([item], alignment)
        builder = self.builder
        return [builder.table(schema.NAMED_DATA, (builder.string(key), first + index)) for key, index in entries]

    # Methods

    def plan(self, plan: model.ExecutionPlan, references: list[int]) -> int:
        builder = self.builder
        container = 0
        if plan.container_meta_type is not None:
            meta = plan.container_meta_type
            strings = (builder.string(meta.encoded_inp_str), builder.string(meta.encoded_out_str))
            container = builder.table(schema.CONTAINER_METADATA, strings)
        devices = [
            builder.table(schema.NON_CONST_BUFFER_DEVICE, (d.buffer_idx, d.device_type, d.device_index))
            for d in plan.non_const_buffer_device
        ]
        delegates = [self.delegate(d, ref) for d, ref in zip(plan.delegates, references, strict=True)]
        operators = [
            builder.table(schema.OPERATOR, (builder.string(o.name), builder.string(o.overload))) for o in plan.operators
        ]
        fields = (
            builder.string(plan.name),
            container,
            builder.tables([_value(builder, value) for value in plan.values]),
            builder.scalars("i", plan.inputs),
            builder.scalars("i", plan.outputs),
            builder.tables([self.chain(chain) for chain in plan.chains]),
            builder.tables(operators),
            builder.tables(delegates),
            builder.scalars("q", plan.non_const_buffer_sizes),
            builder.tables(devices) if devices else 0,
        )
        return builder.table(schema.EXECUTION_PLAN, fields)

    def delegate(self, delegate: model.BackendDelegate, reference: int) -> int:
        builder = self.builder
        specs = [
            builder.table(schema.COMPILE_SPEC, (builder.string(spec.key), builder.byte_vector(bytes(spec.value))))
            for spec in delegate.compile_specs
        ]
        return builder.table(schema.BACKEND_DELEGATE, (builder.string(delegate.id), reference, builder.tables(specs)))

    def chain(self, chain: model.Chain) -> int:
        builder = self.builder
        stacktrace = 0
        if chain.stacktrace is not None:
            stacktrace = builder.tables([self.frame_list(frames) for frames in chain.stacktrace])
        fields = (
            builder.scalars("i", chain.inputs),
            builder.scalars("i", chain.outputs),
            builder.tables([_instruction(builder, instruction) for instruction in chain.instructions]),
            stacktrace,
        )
        return builder.table(schema.CHAIN, fields)

    def frame_list(self, frames: model.FrameList) -> int:
        builder, string = self.builder, self.builder.string
        items = [
            builder.table(schema.FRAME, (string(f.filename), f.lineno, string(f.name), string(f.context)))
            for f in frames.items
        ]
        return builder.table(schema.FRAME_LIST, (builder.tables(items),))


def _tensor(builder: Builder, tensor: model.Tensor) -> int:
    allocation = extra = 0
    if (place_of := tensor.allocation_info) is not None:
        low, high = place_of.memory_offset & 0xFFFFFFFF, place_of.memory_offset >> 32
        allocation = builder.table(schema.ALLOCATION_DETAILS, (place_of.memory_id, low, high))
    if (info := tensor.extra_tensor_info) is not None:
        name = 0 if info.fully_qualified_name is None else builder.string(info.fully_qualified_name)
        fields = (info.mutable_data_segments_idx, name, info.location, info.device_type, info.device_index)
        extra = builder.table(schema.EXTRA_TENSOR_INFO, fields)
    fields = (
        tensor.scalar_type,
        tensor.storage_offset,
        builder.scalars("i", tensor.sizes),
        builder.byte_vector(bytes(tensor.dim_order)),
        tensor.requires_grad,
        tensor.data_buffer_idx,
        allocation,
        tensor.layout,
        tensor.shape_dynamism,
        extra,
    )
    return builder.table(schema.TENSOR, fields)


def _double(builder: Builder, value: model.Double) -> int:
    # As bits: 0.0 and -0.0 are equal as numbers, and would be written once.
    return builder.table(schema.DOUBLE, struct.unpack("<Q", struct.pack("<d", value.double_val)))


_VALUE_WRITERS: dict[type[model.EValue], Callable[[Builder, Any], int]] = {
    model.Null: lambda b, v: b.table(schema.NULL, ()),
    model.Int: lambda b, v: b.table(schema.INT, (v.int_val,)),
    model.Bool: lambda b, v: b.table(schema.BOOL, (v.bool_val,)),
    model.Double: _double,
    model.Tensor: _tensor,
    model.String: lambda b, v: b.table(schema.STRING, (b.string(v.string_val),)),
    model.IntList: lambda b, v: b.table(schema.INT_LIST, (b.scalars("q", v.items),)),
    model.DoubleList: lambda b, v: b.table(schema.DOUBLE_LIST, (b.scalars("d", v.items),)),
    model.BoolList: lambda b, v: b.table(schema.BOOL_LIST, (b.byte_vector(bytes(v.items)),)),
    model.TensorList: lambda b, v: b.table(schema.TENSOR_LIST, (b.scalars("i", v.items),)),
    model.OptionalTensorList: lambda b, v: b.table(schema.OPTIONAL_TENSOR_LIST, (b.scalars("i", v.items),)),
}

_INSTRUCTION_WRITERS: dict[type[model.Instruction], Callable[[Builder, Any], int]] = {
    model.KernelCall: lambda b, i: b.table(schema.KERNEL_CALL, (i.op_index, b.scalars("i", i.args))),
    model.DelegateCall: lambda b, i: b.table(schema.DELEGATE_CALL, (i.delegate_index, b.scalars("i", i.args))),
    model.MoveCall: lambda b, i: b.table(schema.MOVE_CALL, (i.move_from, i.move_to)),
    model.JumpFalseCall: lambda b, i: b.table(schema.JUMP_FALSE_CALL, (i.cond_value_index, i.destination_instruction)),
    model.FreeCall: lambda b, i: b.table(schema.FREE_CALL, (i.value_index,)),
}


def _value(builder: Builder, value: model.EValue) -> int:
    kind = type(value)
    return builder.table(schema.EVALUE, (schema.VALUE_TAGS[kind], _VALUE_WRITERS[kind](builder, value)))


def _instruction(builder: Builder, instruction: model.Instruction) -> int:
    kind = type(instruction)
    fields = (schema.INSTRUCTION_TAGS[kind], _INSTRUCTION_WRITERS[kind](builder, instruction))
    return builder.table(schema.INSTRUCTION, fields)
