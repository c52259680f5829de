"""Finds the data of a ``.pte`` file: constants, initial values, delegate blobs and named data, wherever they are.

The file says where a constant starts but not where it ends, so a constant is as long as the largest tensor that refers
to it; one that no tensor refers to lasts until the next one starts. Several entries at the same offset are the same
object, so that writing them again keeps them together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from etir.emit.errors import E0809, E0812, E0815, E0828, E0831
from etir.emit.flatbuffer.view import View
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.checks import quoted
from etir.emit.formats.segments import Container, Segments
from etir.emit.formats.shape import shape_error
from etir.emit.pte import model, schema
from etir.emit.pte.container import infer_constant_alignment, infer_delegate_alignment

_CONSTANT_BUFFER, _INLINE_DATA, _SEGMENTS, _CONSTANT_SEGMENT, _MUTABLE_SEGMENTS, _NAMED_DATA = range(2, 8)
"""Slots of the Program table."""


class DataReader:
    """The data of one file; ``row`` is the Program table."""

    def __init__(self, view: View, buffer: memoryview, container: Container, row: list[int]):
        self.view = view
        self.row = row
        self.segments = Segments(view, buffer, container, row[_SEGMENTS])
        self.inline_positions = view.tables(row[_INLINE_DATA], "backend_delegate_data")
        self.inline_starts: list[int] = []
        self.delegate_segments: list[int] = []

    def delegate_data(self, position: int) -> tuple[memoryview, bool]:
        """The blob that the reference at ``position`` stands for, and whether it is inside the FlatBuffer.

        An empty blob has no place of its own and counts as not inline.
        """
        view = self.view
        location, index = view.row(position, schema.DATA_REFERENCE)
        if location == schema.DATA_IN_SEGMENT:
            self.delegate_segments.append(index)
            return self.segments.get(index, position, "the delegate's blob"), False
        if location != schema.DATA_INLINE:
            message = f"the delegate's data location is {location}, expected 0 (inline) or 1 (in a segment)"
            view.fail(E0809, position, message)
        if index >= len(self.inline_positions):
            message = f"the delegate's blob is inline entry {index}, but there are {len(self.inline_positions)} entries"
            view.fail(E0812, position, message)
        (vector,) = view.row(self.inline_positions[index], schema.INLINE_DATA)
        data = view.blob(vector, "data")
        if len(data):
            self.inline_starts.append(vector + 4)
        return data, bool(len(data))

    def program(self, version: int, plans: tuple[model.ExecutionPlan, ...]) -> model.Program:
        """The program with ``plans`` and all data."""
        constants, alignment = self.constants(plans)
        mutable = self.mutable_data(plans)
        named = self.named_segments()
        segment_alignment, further = self.segments.infer_alignment((*named.values(), *self.delegate_segments))
        delegate_alignment = infer_delegate_alignment(self.inline_starts)
        for index in self.delegate_segments:
            delegate_alignment = max(delegate_alignment, further.get(index, 1))
        layout = model.FileLayout(segment_alignment, alignment, delegate_alignment)
        named_data = {
            key: model.NamedData(self.segments.get(index, 0, key), further.get(index, 1))
            for key, index in named.items()
        }
        return model.Program(plans, constants, mutable, named_data, version, layout)

    def constants(self, plans: Sequence[model.ExecutionPlan]) -> tuple[tuple[Buffer, ...], int]:
        """The constants and their alignment in the file."""
        view = self.view
        inline = view.tables(self.row[_CONSTANT_BUFFER], "constant_buffer")
        table = self.row[_CONSTANT_SEGMENT]
        segment, offsets = self.subsegments(table) if table else (view.buffer[:0], ())
        if inline and offsets:
            message = (
                f"there are {len(inline)} inline constants and {len(offsets)} in a segment, expected one kind only"
            )
            view.fail(E0815, table, message)
        if inline:
            data = [view.blob(view.row(position, schema.BUFFER)[0], "storage") for position in inline]
            return (b"", *data[1:]), model.FileLayout().constant_alignment
        if not offsets:
            return (b"",), model.FileLayout().constant_alignment
        tensors = (v for plan in plans for v in plan.values if isinstance(v, model.Tensor) and not v.allocation_info)
        data = _split(segment, offsets, tensors)
        return (b"", *data), infer_constant_alignment(offsets[1:], data)

    def mutable_data(self, plans: Sequence[model.ExecutionPlan]) -> tuple[Buffer, ...]:
        """Initial values of planned tensors."""
        tables = self.view.tables(self.row[_MUTABLE_SEGMENTS], "mutable_data_segments")
        if not tables:
            return ()
        if len(tables) > 1:
            message = f"there are {len(tables)} mutable data segments, the runtime reads only the first"
            self.view.fail(E0815, tables[1], message)
        segment, offsets = self.subsegments(tables[0])
        tensors = (v for plan in plans for v in plan.values if isinstance(v, model.Tensor) and v.allocation_info)
        return (b"", *_split(segment, offsets, tensors)) if len(offsets) > 1 else ()

    def subsegments(self, position: int) -> tuple[memoryview, tuple[int, ...]]:
        """A segment, and the offsets at which its entries start; nothing when there are no entries."""
        view = self.view
        index, vector = view.row(position, schema.SUBSEGMENT_OFFSETS)
        offsets = view.scalars(vector, "Q", "offsets")
        if not offsets:
            return view.buffer[:0], ()
        segment = self.segments.get(index, position, "a table of offsets")
        for entry, offset in enumerate(offsets):
            if offset > len(segment):
                message = f"entry {entry} starts at {offset} of segment {index}, which has {len(segment)} bytes"
                view.fail(E0812, vector + 4 + 8 * entry, message)
        return segment, offsets

    def named_segments(self) -> dict[str, int]:
        """Segment index by key, in file order."""
        view = self.view
        found: dict[str, int] = {}
        for position in view.tables(self.row[_NAMED_DATA], "named_data"):
            name, index = view.row(position, schema.NAMED_DATA)
            key = view.string(name, "key")
            if not key:
                view.fail(E0828, position, "named data has no key")
            if key in found:
                view.fail(E0831, position, f"the key {quoted(key)} of named data is used before")
            self.segments.get(index, position, f"named data {quoted(key)}")
            found[key] = index
        return found


def _split(segment: memoryview, offsets: Sequence[int], tensors: Iterable[model.Tensor]) -> list[memoryview]:
    """The entries of ``segment`` that start at ``offsets``, without the reserved first one."""
    needed: dict[int, int] = {}
    longest: dict[int, int] = {}
    for tensor in tensors:
        index = tensor.data_buffer_idx
        shape = (tensor.scalar_type, tensor.sizes, tensor.dim_order)
        if 0 < index < len(offsets) and not tensor.is_external and shape_error(*shape) is None:
            needed[index] = max(needed.get(index, 0), tensor.nbytes)
            if tensor.nbytes:
                longest[offsets[index]] = max(longest.get(offsets[index], 0), tensor.nbytes)
    starts = sorted(dict.fromkeys((*offsets[1:], len(segment))))
    entries: dict[tuple[int, int], memoryview] = {}
    result: list[memoryview] = []
    for index, start in enumerate(offsets[1:], 1):
        if needed.get(index) == 0:
            end = start
        elif start in longest:
            end = start + longest[start]
        else:
            end = starts[min(bisect_right(starts, start), len(starts) - 1)]
        result.append(entries.setdefault((start, end), segment[start:end]))
    return result
