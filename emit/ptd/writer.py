"""Writes tensors by name as the bytes of a ``.ptd`` file: header, tables, then one segment per distinct buffer."""

from __future__ import annotations

from dataclasses import replace

from etir.diagnostics import raise_if_errors
from etir.emit.flatbuffer.builder import Builder
from etir.emit.formats.buffers import Buffer, BufferPool
from etir.emit.formats.checks import align_up
from etir.emit.formats.segments import DATA_SEGMENT, SegmentWriter
from etir.emit.ptd import schema
from etir.emit.ptd.model import FlatTensor, TensorLayout
from etir.emit.ptd.validate import validate_flat_tensor


def write_ptd(flat_tensor: FlatTensor, *, segment_alignment: int | None = None) -> bytes:
    """The bytes of ``flat_tensor``; its own segment alignment applies unless another one is given.

    Raises ``EtirError`` with every rule of :mod:`etir.emit.ptd.validate` that is broken.
    """
    return b"".join(ptd_parts(flat_tensor, segment_alignment=segment_alignment))


def ptd_parts(flat_tensor: FlatTensor, *, segment_alignment: int | None = None) -> list[Buffer]:
    """What :func:`write_ptd` joins: the parts of the file in order, for ``file.writelines``. Data is not copied."""
    if segment_alignment is not None:
        flat_tensor = replace(flat_tensor, segment_alignment=segment_alignment)
    raise_if_errors(validate_flat_tensor(flat_tensor))
    pool = BufferPool()
    index_of = {key: pool.add(named.data) for key, named in flat_tensor.named_data.items()}
    alignments = [1] * len(pool.items)
    for key, named in flat_tensor.named_data.items():
        alignments[index_of[key]] = max(alignments[index_of[key]], named.alignment)
    segments = SegmentWriter(flat_tensor.segment_alignment)
    for item, alignment in zip(pool.items, alignments, strict=True):
        segments.add([item], alignment)
    builder = Builder(alignment=16)
    named_data = [
        builder.table(schema.NAMED_DATA, (builder.string(key), index_of[key], _layout(builder, named.tensor_layout)))
        for key, named in flat_tensor.named_data.items()
    ]
    entries = [builder.table(DATA_SEGMENT, entry) for entry in segments.entries]
    fields = (flat_tensor.version, builder.tables(entries), builder.tables(named_data))
    root = builder.table(schema.FLAT_TENSOR, fields)
    size = builder.size_with_header(schema.INSERTED)
    base = align_up(size, flat_tensor.segment_alignment)
    header = schema.HEADER.pack(
        schema.HEADER_MAGIC, schema.HEADER.size, schema.INSERTED, size - schema.INSERTED, base, segments.size
    )
    tables = builder.finish(root, schema.IDENTIFIER, header.ljust(schema.INSERTED, b"\0"))
    return [*tables, bytes(base - size), *segments.parts]


def _layout(builder: Builder, layout: TensorLayout | None) -> int:
    if layout is None:
        return 0
    sizes, dim_order = builder.scalars("i", layout.sizes), builder.byte_vector(bytes(layout.dim_order))
    return builder.table(schema.TENSOR_LAYOUT, (layout.scalar_type, sizes, dim_order))
