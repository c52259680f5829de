"""The reference delegate's blob: a header, and a program of one method called ``forward``.

====== ===== ====================================================================================
offset bytes what
====== ===== ====================================================================================
0      4     ``ETRD``
4      4     version of this format
8      4     temporary memory that the method's kernels take, in bytes
12     4     0
16           the program, as a ``.pte`` file; its inputs and outputs are those of the delegate
====== ===== ====================================================================================

All numbers are little-endian. A blob starts at a multiple of 16 in the file, so that the program does too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from etir.backends.errors import E1103, E1108

MAGIC = b"ETRD"
VERSION = 1
HEADER = struct.Struct("<4sIII")


@dataclass(frozen=True)
class ReferenceBlob:
    """The parts of a blob."""

    program: memoryview
    temp_bytes: int


def write_blob(program: bytes, temp_bytes: int) -> bytes:
    """The blob of a program."""
    return HEADER.pack(MAGIC, VERSION, temp_bytes, 0) + program


def read_blob(blob: bytes | memoryview) -> ReferenceBlob:
    """Parse a blob. Raises E1108 for what is none and E1103 for another version."""
    data = memoryview(blob)
    if data.nbytes < HEADER.size:
        raise E1108.error(f"a blob of the reference delegate has at least {HEADER.size} bytes, this one {data.nbytes}")
    magic, version, temp_bytes, _ = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise E1108.error(f"a blob of the reference delegate starts with {MAGIC!r}, this one with {magic!r}")
    if version != VERSION:
        raise E1103.error(f"the blob has version {version} of the reference delegate's format, not {VERSION}")
    return ReferenceBlob(data[HEADER.size :], temp_bytes)
