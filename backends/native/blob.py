"""The blob of the delegate ``native``: what is called with what, images of code, and a program for refused code.

====== ===== =======================================================================================
offset bytes what
====== ===== =======================================================================================
0      4     ``ETNC``
4      4     version of this format
8      8     number of inputs, number of outputs
16     12    number of weights, of variants, of constants
28     4     bytes of the arena
32     8     offset and bytes of the fallback: a blob of the reference delegate; 0 bytes beside linked code, which
             has the weights
40     4     bytes of the workspace, an argument after the outputs that has the arena (from version 3); 0 without one
44     20    what it says of where arguments may be: the digest of compile specs (``memory_digest``), which no runtime
             reads; 0 without any
64           rows of inputs and outputs: the rank and eight sizes, 36 bytes each; a size with bit 31 is the greatest one
             of a dim that is known at run time only, which version 2 has; bit 30 of the first size says that it is of
             truth values, a byte each, and no floats, which inputs have from version 5 on and outputs from version 6
             rows of weights: offset and bytes of the key, bytes of the data, 0
             rows of constants: offset and bytes of the name, number of the weight, panel, k, n, 1 for [n, k] (3 for
             filters [n, k, 3, 3] that are transformed for tiles of 2x2), rows and columns of the window (0: a matrix),
             groups of channels; 4 more than 1 or 0 where channels go round the groups (version 4): windows, or a weight
             that is read as it lies otherwise
             rows of variants: offset and bytes of the processor's name, offset and bytes of the image, its entry, 0,
             SHA-256 of the image, or, for linked code, which has an image of 0 bytes, of its C and its contract
             texts; the fallback, at a multiple of 16; images, at multiples of 64, each with its contract at its end
====== ===== =======================================================================================

The contract of an image is the SHA-256 of what its code relies on: the numbers of inputs and outputs, the bytes of the
arena, the entry, the rows of inputs and outputs, the bytes of each weight. Whoever lists or signs an image so lists the
sizes of the memory that it is given; the runtime enters no image in other tables. The contract of linked code, which
has the entry 0, lies beside it in the client's build.

All numbers are little-endian and of 32 bits. Weights are named data of the program, in the order in which code is given
them. Constants are what the program of the fallback reads by name: a weight as it lies, or unpacked.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from etir.backends.api.interface import PayloadArguments
from etir.backends.errors import E1103, E1108
from etir.backends.native.image import Image
from etir.backends.native.sizes import Size, most
from etir.dialects.et.workspace import DIGEST_BYTES

MAGIC = b"ETNC"
VERSION = 1
VERSION_SIZES = 2
"""The version of blobs that have dims which are known at run time only."""
VERSION_WORKSPACE = 3
"""The version of blobs that are given a workspace, with such dims or without."""
VERSION_SPREAD = 4
"""The version of blobs with weights whose channels go round groups, with a workspace and such dims or without."""
VERSION_FLAGS = 5
"""The version of blobs that are given truth values, with all of this or without."""
VERSION_MADE = 6
"""The version of blobs that make truth values, with all of this or without."""
IS_FLAGS = 1 << 30
"""In the first size of a tensor: it has truth values, a byte each."""
IS_BOUND = 1 << 31
"""In a size: the others are the greatest one of such a dim."""
SPREAD = 4
"""In the row of a constant."""
MAX_RANK = 8
_HEADER = struct.Struct("<4s10I20s")
_TENSOR = struct.Struct("<9I")
_WEIGHT = struct.Struct("<4I")
_CONSTANT = struct.Struct("<10I")
_VARIANT = struct.Struct("<6I32s")


@dataclass(frozen=True)
class Constant:
    """What the fallback reads: ``name`` is weight number ``weight``; in panels of ``panel`` columns, 0 for as it is."""

    name: str
    weight: int
    panel: int = 0
    k: int = 0
    n: int = 0
    transposed: bool = False
    rows: int = 0
    columns: int = 0
    groups: int = 0
    winograd: int = 0
    """Of filters of 3x3 in the order of ``winograd.py``: rows of a tile of the result."""
    spread: bool = False
    """Whether channel n of group g is number ``n groups + g`` of the first dim."""

    @property
    def size(self) -> int:
        """Floats of a channel of the first dim of windows, or of a vector."""
        return 1 if self.panel == 0 else self.rows * self.k


@dataclass(frozen=True)
class Variant:
    """Code for one processor."""

    cpu: str
    image: Image
    linked: bytes = b""
    """The digest of code that a client's build links, of which there is no image; empty for an image."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of the image, or what linked code is found by."""
        return self.linked or hashlib.sha256(self.image.code).digest()


@dataclass(frozen=True)
class NativeBlob:
    """The parts of a blob; ``shapes`` are those of the inputs and then of the outputs (:func:`said`), ``weights`` keys
    and bytes.
    """

    inputs: int
    shapes: tuple[tuple[int, ...], ...]
    arena_bytes: int
    weights: tuple[tuple[str, int], ...]
    constants: tuple[Constant, ...]
    variants: tuple[Variant, ...]
    fallback: bytes = field(repr=False)
    workspace: int = 0
    memory: bytes = bytes(DIGEST_BYTES)


def said(shape: Sequence[int], of_flags: bool = False) -> tuple[int, ...]:
    """The sizes of a tensor as a blob has them: bounds of what is known at run time only, with :data:`IS_BOUND`; the
    first one of truth values with :data:`IS_FLAGS`.
    """
    found = [IS_BOUND | most(n) if isinstance(n, Size) else n for n in shape]
    if of_flags:
        found[0] |= IS_FLAGS
    return tuple(found)


def contract(
    entry: int, inputs: int, shapes: Sequence[Sequence[int]], arena_bytes: int, weights: Sequence[int]
) -> bytes:
    """The digest of the tables that code relies on; ``weights`` are the bytes of each one."""
    tables = struct.pack("<4I", inputs, len(shapes) - inputs, arena_bytes, entry)
    tables += b"".join(_TENSOR.pack(len(shape), *shape, *[0] * (MAX_RANK - len(shape))) for shape in shapes)
    tables += struct.pack(f"<{len(weights)}I", *weights)
    return hashlib.sha256(tables).digest()


def bound(
    image: Image, inputs: int, shapes: Sequence[Sequence[int]], arena_bytes: int, weights: Sequence[int]
) -> Image:
    """The image with its contract at the end."""
    return Image(image.code + contract(image.entry, inputs, shapes, arena_bytes, weights), image.entry)


def write_blob(blob: NativeBlob) -> bytes:
    """The bytes of a blob."""
    rows = bytearray()
    tail = bytearray()
    start = (
        _HEADER.size
        + _TENSOR.size * len(blob.shapes)
        + _WEIGHT.size * len(blob.weights)
        + _CONSTANT.size * len(blob.constants)
        + _VARIANT.size * len(blob.variants)
    )

    def put(data: bytes, alignment: int = 1) -> tuple[int, int]:
        tail.extend(bytes(-(start + len(tail)) % alignment))
        at = start + len(tail)
        tail.extend(data)
        return at, len(data)

    for shape in blob.shapes:
        rows += _TENSOR.pack(len(shape), *shape, *[0] * (MAX_RANK - len(shape)))
    for key, size in blob.weights:
        rows += _WEIGHT.pack(*put(key.encode()), size, 0)
    for c in blob.constants:
        rows += _CONSTANT.pack(
            *put(c.name.encode()),
            c.weight,
            c.panel,
            c.k,
            c.n,
            int(c.transposed) | c.winograd | SPREAD * c.spread,
            c.rows,
            c.columns,
            c.groups,
        )
    names = [put(v.cpu.encode()) for v in blob.variants]
    fallback = put(blob.fallback, 16)
    for name, variant in zip(names, blob.variants, strict=True):
        rows += _VARIANT.pack(*name, *put(variant.image.code, 64), variant.image.entry, 0, variant.digest)
    counts = (len(blob.weights), len(blob.variants), len(blob.constants))
    outputs = len(blob.shapes) - blob.inputs
    version = VERSION_SIZES if any(n & IS_BOUND for shape in blob.shapes for n in shape) else VERSION
    version = VERSION_WORKSPACE if blob.workspace else version
    version = VERSION_SPREAD if any(c.spread for c in blob.constants) else version
    if any(shape and shape[0] & IS_FLAGS for shape in blob.shapes):
        version = VERSION_FLAGS
    if any(shape and shape[0] & IS_FLAGS for shape in blob.shapes[blob.inputs :]):
        version = VERSION_MADE
    numbers = (version, blob.inputs, outputs, *counts, blob.arena_bytes, *fallback, blob.workspace, blob.memory)
    return _HEADER.pack(MAGIC, *numbers) + rows + tail


def read_arguments(data: bytes | memoryview) -> PayloadArguments:
    """What the header says of the arguments. Raises what :func:`read_blob` does."""
    _, inputs, outputs, *_, memory = _header(memoryview(data))
    return PayloadArguments(inputs, outputs, memory)


def _header(view: memoryview) -> tuple[Any, ...]:
    """The numbers of the header from the version on."""
    if view.nbytes < _HEADER.size or view[:4] != MAGIC:
        raise E1108.error(f"a blob of the delegate 'native' starts with {MAGIC!r} and has {_HEADER.size} bytes")
    _, *numbers = _HEADER.unpack_from(view)
    version = numbers[0]
    if not VERSION <= version <= VERSION_MADE:
        raise E1103.error(f"the blob has version {version} of the delegate 'native', not {VERSION} to {VERSION_MADE}")
    return tuple(numbers)


def read_blob(data: bytes | memoryview) -> NativeBlob:
    """Parse a blob. Raises E1108 for what is none, or damaged, and E1103 for another version."""
    view = memoryview(data)
    version, inputs, outputs, weights, variants, constants, arena, at, size, workspace, memory = _header(view)
    try:
        found = _read(view, inputs, outputs, (weights, constants, variants), arena, (at, size))
        return replace(found, workspace=workspace if version >= VERSION_WORKSPACE else 0, memory=memory)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise E1108.error(f"a blob of the delegate 'native' ends early or is damaged: {error}") from error


def _read(
    view: memoryview, inputs: int, outputs: int, counts: Sequence[int], arena: int, fallback: tuple[int, int]
) -> NativeBlob:
    place = _HEADER.size

    def part(at: int, size: int) -> bytes:
        if at + size > view.nbytes:
            raise IndexError(f"bytes {at} to {at + size} of {view.nbytes}")
        return bytes(view[at : at + size])

    def rows(row: struct.Struct, count: int) -> list[tuple[Any, ...]]:
        nonlocal place
        part(place, row.size * count)
        found = [row.unpack_from(view, place + row.size * i) for i in range(count)]
        place += row.size * count
        return found

    tensors = rows(_TENSOR, inputs + outputs)
    if any(row[0] > MAX_RANK for row in tensors):
        raise IndexError("a tensor has too many dims")
    weights = rows(_WEIGHT, counts[0])
    constants = rows(_CONSTANT, counts[1])
    variants = rows(_VARIANT, counts[2])
    return NativeBlob(
        inputs,
        tuple(tuple(row[1 : 1 + row[0]]) for row in tensors),
        arena,
        tuple((part(row[0], row[1]).decode(), row[2]) for row in weights),
        tuple(
            Constant(
                part(r[0], r[1]).decode(),
                r[2],
                r[3],
                r[4],
                r[5],
                bool(r[6] & ~SPREAD),
                r[7],
                r[8],
                r[9],
                winograd=r[6] & 2,
                spread=bool(r[6] & SPREAD),
            )  # fmt: skip
            for r in constants
        ),
        tuple(
            Variant(part(r[0], r[1]).decode(), Image(part(r[2], r[3]), r[4]), b"" if r[3] else r[6]) for r in variants
        ),
        part(*fallback),
    )
