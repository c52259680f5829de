"""The extended header of a ``.pte`` file, and the alignments that explain where its data is."""

from __future__ import annotations

from collections.abc import Sequence

from etir.diagnostics import SourceLocation
from etir.emit.errors import E0801, E0803
from etir.emit.formats.buffers import Buffer
from etir.emit.formats.checks import align_up
from etir.emit.formats.segments import Container, powers_of_two
from etir.emit.pte import schema
from etir.emit.pte.model import FileLayout

_HEADER_START = 8
_DEFAULTS = FileLayout()


def read_container(buffer: memoryview, name: str) -> Container:
    """Read the extended header. A file without one is all tables.

    Raises E0801 or E0803 when the header does not fit the file.
    """
    size = len(buffer)
    location = SourceLocation(name)
    if bytes(buffer[_HEADER_START : _HEADER_START + 4]) != schema.HEADER_MAGIC:
        return Container(size, 0, 0)
    if size < _HEADER_START + schema.HEADER.size:
        raise E0801.error(f"the extended header ends at byte 40, this file has {size}", location)
    _, length, program_size, base, data_size = schema.HEADER.unpack_from(buffer, _HEADER_START)
    if length < schema.LEGACY_HEADER_LENGTH:
        message = f"at byte 12: the extended header has {length} bytes, expected at least {schema.LEGACY_HEADER_LENGTH}"
        raise E0803.error(message, location)
    if not _HEADER_START + length <= program_size <= size:
        message = f"at byte 16: the program has {program_size} bytes, expected {_HEADER_START + length} to {size}"
        raise E0803.error(message, location)
    if length < schema.HEADER.size:
        data_size = 0
    if base and not program_size <= base <= size:
        message = f"at byte 24: the segments start at byte {base}, expected {program_size} to {size}"
        raise E0803.error(message, location)
    if data_size and (not base or base + data_size > size):
        message = f"at byte 32: {data_size} bytes of segments from byte {base} on do not fit into {size} bytes"
        raise E0803.error(message, location)
    return Container(program_size, base, data_size or (size - base if base else 0))


def infer_constant_alignment(offsets: Sequence[int], data: Sequence[Buffer]) -> int:
    """The alignment that puts ``data`` at ``offsets``, the usual one when none does; without the reserved entry."""
    usual = _DEFAULTS.constant_alignment
    for alignment in powers_of_two(usual):
        end = 0
        placed: set[int] = set()
        for offset, item in zip(offsets, data, strict=True):
            if len(item) and offset in placed:
                continue
            if align_up(end, alignment) != offset:
                break
            placed.add(offset)
            end = offset + len(item)
        else:
            return alignment
    return usual


def infer_delegate_alignment(starts: Sequence[int]) -> int:
    """The alignment of inline blobs that start at ``starts``: the usual one, or less when one of them has less."""
    combined = _DEFAULTS.delegate_alignment
    for start in starts:
        combined = min(combined, start & -start)
    return combined
