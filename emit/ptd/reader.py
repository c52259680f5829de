"""Reads a ``.ptd`` file that nobody vouches for, with the same guarantees as the reader of ``.pte`` files."""

from __future__ import annotations

from etir.diagnostics import SourceLocation, raise_if_errors
from etir.emit.errors import E0801, E0803, E0809, E0831
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.checks import quoted
from etir.emit.formats.scalar_type import SCALAR_TYPES
from etir.emit.formats.segments import Container, Segments
from etir.emit.ptd import schema
from etir.emit.ptd.model import FlatTensor, NamedTensor, TensorLayout
from etir.emit.ptd.validate import validate_flat_tensor

_WHAT = "a tensor data file (.ptd)"
_HEADER_END = 8 + schema.HEADER.size


def read_ptd(data: Buffer, name: str = "<ptd>") -> FlatTensor:
    """The named tensors in ``data``, as views into it; ``name`` is the file name for messages.

    Raises ``EtirError`` with ids E0801 to E0850.
    """
    buffer = memoryview(data).toreadonly().cast("B") if len(data) else memoryview(b"")
    View(buffer, len(buffer), name).root(schema.IDENTIFIER, _WHAT)
    container = _read_container(buffer, name)
    view = View(buffer, container.tables_size, name)
    root = view.root(schema.IDENTIFIER, _WHAT)
    version, segments_vector, named_vector = view.row(root, schema.FLAT_TENSOR)
    segments = Segments(view, buffer, container, segments_vector)
    positions = view.tables(named_vector, "named_data")
    found: dict[str, tuple[int, TensorLayout | None]] = {}
    for position in positions:
        row = view.row(position, schema.NAMED_DATA)
        key = view.string(view.required(row, schema.NAMED_DATA, 0, position), "key")
        if key in found:
            view.fail(E0831, position, f"the key {quoted(key)} is used before")
        segments.get(row[1], position, f"named data {quoted(key)}")
        found[key] = (row[1], _read_layout(view, row[2]) if row[2] else None)
    alignment, further = segments.infer_alignment(index for index, _ in found.values())
    named_data = {
        key: NamedTensor(segments.get(index, 0, key), layout, further.get(index, 1))
        for key, (index, layout) in found.items()
    }
    flat_tensor = FlatTensor(named_data, version, alignment)
    raise_if_errors(validate_flat_tensor(flat_tensor, file=name, position_of=positions.__getitem__))
    return flat_tensor


def _read_layout(view: View, position: int) -> TensorLayout:
    row = view.row(position, schema.TENSOR_LAYOUT)
    scalar_type = SCALAR_TYPES.get(row[0])
    if scalar_type is None:
        view.fail(E0809, position, f"scalar_type is {row[0]}, which no dtype has")
    return TensorLayout(scalar_type, view.scalars(row[1], "i", "sizes"), view.scalars(row[2], "B", "dim_order"))


def _read_container(buffer: memoryview, name: str) -> Container:
    size, location = len(buffer), SourceLocation(name)
    if size < _HEADER_END:
        raise E0801.error(f"the header of {_WHAT} ends at byte {_HEADER_END}, this file has {size} bytes", location)
    magic, length, offset, tables, base, data_size = schema.HEADER.unpack_from(buffer, 8)
    if magic != schema.HEADER_MAGIC:
        message = f"at byte 8: expected the header magic {schema.HEADER_MAGIC!r}, found {magic!r}"
        raise E0803.error(message, location)
    if length < schema.HEADER.size:
        raise E0803.error(f"at byte 12: the header has {length} bytes, expected {schema.HEADER.size}", location)
    if offset < schema.HEADER.size or offset + tables > size:
        message = f"at byte 16: {tables} bytes of tables after a header of {offset} do not fit into {size} bytes"
        raise E0803.error(message, location)
    if not offset + tables <= base <= size or base + data_size > size:
        message = (
            f"at byte 32: {data_size} bytes of segments from byte {base} on do not fit "
            f"between byte {offset + tables} and byte {size}"
        )
        raise E0803.error(message, location)
    return Container(offset + tables, base, data_size)
