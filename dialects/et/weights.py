"""Weights: a symbol with type, original name, digest and size in the text; the bytes live elsewhere.

``#et.blob<"sha256:08fb...", 37632>`` names bytes by content. In memory the attribute also holds a reference to them
(a buffer, never a copy), which takes no part in equality and is not printed; a module that was read from text has
attributes without bytes until :class:`WeightFile` supplies them. Nothing can be lost silently: bytes that do not hash
to the digest are refused. For tests, ``#et.synthetic<seed = 7>`` is a payload that any reader can make again.
"""

from __future__ import annotations

import json
import math
import mmap
import operator
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from etir.dialects.dtypes import dtype_of
from etir.dialects.errors import E0201, E0202, E0203

if TYPE_CHECKING:
    import numpy as np

DIGEST_CHARS = 32
"""Hexadecimal digits kept of the SHA-256: 128 bits."""


def digest_of(data: memoryview | bytes) -> str:
    """``sha256:`` and the first 32 hexadecimal digits of the hash of ``data``."""
    import hashlib  # brings OpenSSL in, and text is read without hashing anything

    return "sha256:" + hashlib.sha256(data).hexdigest()[:DIGEST_CHARS]


class Blob:
    """Immutable bytes known by digest and size, with or without the bytes themselves.

    Two blobs are equal when digest and size are: the bytes are a cache, not part of the value. Bytes that are given
    without a digest are hashed when somebody asks for it: a compilation makes most weights anew on the way to those of
    the program, and nobody asks for theirs.
    """

    __slots__ = ("_digest", "_source", "searched", "size")

    def __init__(self, digest: str | None, size: int, source: memoryview | Callable[[], memoryview] | None = None):
        self._digest = digest
        self.size = size
        self.searched: tuple[str, ...] = ()
        """The files that were to have the bytes and have not, for the message."""
        self._source = source

    @staticmethod
    def of(data: memoryview | bytes) -> Blob:
        """A blob that refers to ``data`` (no copy)."""
        view = memoryview(data).cast("B") if not isinstance(data, memoryview) or data.format != "B" else data
        return Blob(None, view.nbytes, view)

    @property
    def digest(self) -> str:
        """``sha256:`` and the first 32 hexadecimal digits of the hash of the bytes."""
        if self._digest is None:
            self._digest = digest_of(self.data)
        return self._digest

    def attach(self, source: memoryview | Callable[[], memoryview]) -> None:
        """Supply the bytes, or a function that reads them on first use."""
        self._source = source

    @property
    def has_data(self) -> bool:
        """Whether the bytes can be had."""
        return self._source is not None

    @property
    def data(self) -> memoryview:
        """The bytes. Raises error E0201 when they were never supplied."""
        if self._source is None:
            message = f"the {self.size} bytes with digest {self.digest} are not loaded"
            raise E0201.error(message, notes=searched_notes(self.searched))
        if not isinstance(self._source, memoryview):
            self._source = self._source()
        return self._source

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Blob) and self.size == other.size and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((self.digest, self.size))

    def __repr__(self) -> str:
        return f"Blob({self.digest}, {self.size})"


def searched_notes(files: Iterable[str]) -> list[str]:
    """Where bytes were looked for: a note for each file."""
    return [f"'{file}' {'does not have them' if Path(file).exists() else 'does not exist'}" for file in files]


@irdl_attr_definition
class BlobAttr(Data[Blob]):
    """Bytes by content: ``#et.blob<"sha256:08fb...", 37632>``."""

    name = "et.blob"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Blob:
        with parser.in_angle_brackets():
            digest = parser.parse_str_literal(" with the digest of a blob")
            parser.parse_punctuation(",")
            return Blob(digest, parser.parse_integer(allow_negative=False))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f'<"{self.data.digest}", {self.data.size}>')


@irdl_attr_definition
class SyntheticAttr(Data[int]):
    """A payload for tests, made from a seed: ``#et.synthetic<seed = 7>``."""

    name = "et.synthetic"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            parser.parse_keyword("seed")
            parser.parse_punctuation("=")
            return parser.parse_integer(allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<seed = {self.data}>")


def synthetic_array(seed: int, shape: tuple[int, ...], numpy_name: str) -> np.ndarray:
    """The synthetic payload: floats uniform in [-1, 1), integers in [0, 8), bools.

    splitmix64 over the element index, so that the values depend on nothing but seed, shape and dtype.
    """
    import numpy as np

    count = int(np.prod(shape, dtype=np.int64))
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed * 1_000_003)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    dtype = np.dtype(numpy_name)
    if dtype.kind == "f":
        values = (z >> np.uint64(11)).astype(np.float64) / 2**52 - 1.0
    elif dtype.kind == "b":
        values = z & np.uint64(1)
    else:
        values = z % np.uint64(8)
    return values.astype(dtype).reshape(shape)


def payload_of(value: Attribute, type: TensorType[Attribute]) -> Blob:
    """The bytes of a weight's payload, synthetic ones included, in the row-major order of ``type``.

    Raises ``TypeError`` for an attribute that is not a payload, and error E0201 for a synthetic payload of a type
    that NumPy does not have.
    """
    if isinstance(value, BlobAttr):
        return value.data
    if isinstance(value, SyntheticAttr):
        name = dtype_of(type.element_type).numpy_name
        if name is None:
            raise E0201.error(f"there are no synthetic values of type {type.element_type}")
        return Blob.of(memoryview(synthetic_array(value.data, type.get_shape(), name).tobytes()))
    raise TypeError(f"{value} is not a payload")


class WeightFile:
    """A memory-mapped safetensors file that answers digests.

    The digests are in the file's metadata (key ``etir.digests``: name to digest), so that opening a file hashes
    nothing; the bytes of a weight are hashed when they are first used. A safetensors file from elsewhere has no such
    metadata and is hashed when it is opened.
    """

    def __init__(self, path: str | Path):
        """Open ``path``. Raises error E0203 when it is missing, truncated or not a safetensors file."""
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                self._map = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as error:
            raise E0203.error(f"cannot read the weights file '{path}': {error.strerror or error}") from None
        except ValueError:
            raise E0203.error(f"the weights file '{path}' is empty") from None
        if len(self._map) < 8 or (length := struct.unpack("<Q", self._map[:8])[0]) > len(self._map) - 8:
            raise E0203.error(f"'{path}' is not a safetensors file: its header does not fit in {len(self._map)} bytes")
        try:
            header = json.loads(bytes(self._map[8 : 8 + length]))
            metadata = header.pop("__metadata__", {})
            self.is_from_elsewhere = "etir.digests" not in metadata  # not written by write_weight_file
            digests = {name: str(digest) for name, digest in json.loads(metadata.get("etir.digests", "{}")).items()}
            spans: dict[str, tuple[int, int]] = {}
            self._types: dict[str, tuple[str, tuple[int, ...]]] = {}
            for name, entry in header.items():
                start, end = map(operator.index, entry["data_offsets"])
                shape = tuple(map(operator.index, entry["shape"]))
                spans[name], self._types[name] = (start, end), (str(entry["dtype"]), shape)
                size = _SAFETENSORS_BYTES.get(entry["dtype"])
                if min(shape, default=0) < 0 or (size is not None and math.prod(shape) * size != end - start):
                    raise ValueError(f"'{name}' has the shape {list(shape)} in {end - start} bytes")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise E0203.error(f"'{path}' has a malformed safetensors header: {error}") from None
        base = 8 + length
        self._spans: dict[str, tuple[int, int]] = {}
        self._named: dict[str, tuple[int, int]] = {}
        for name, (start, end) in spans.items():
            if not 0 <= start <= end <= len(self._map) - base:
                raise E0203.error(f"'{path}' is truncated: '{name}' ends at byte {base + end} of {len(self._map)}")
            digest = digests.get(name) or digest_of(self._map[base + start : base + end])
            self._spans[digest] = self._named[name] = (base + start, base + end)

    @property
    def names(self) -> tuple[str, ...]:
        """What the tensors of the file are called, in its order."""
        return tuple(self._named)

    def tensor(self, name: str) -> tuple[str, tuple[int, ...], memoryview]:
        """A tensor by its name: torch's name of its dtype, its shape, its bytes in row-major order.

        A dtype that torch has no name for stays as the file calls it. Raises ``KeyError`` for an unknown name.
        """
        dtype, shape = self._types[name]
        start, end = self._named[name]
        known = next((torch for torch, own in _SAFETENSORS_DTYPES.items() if own == dtype), dtype)
        return known, shape, self._map[start:end]

    def __contains__(self, blob: Blob) -> bool:
        """Whether the file has bytes with the digest of ``blob``."""
        return blob.digest in self._spans

    def supply(self, blob: Blob) -> bool:
        """Attach the bytes to ``blob`` if the file has them; they are checked on first use. False when it has not."""
        span = self._spans.get(blob.digest)
        if span is None:
            return False
        start, end = span

        def read() -> memoryview:
            data = self._map[start:end]
            if data.nbytes != blob.size or digest_of(data) != blob.digest:
                raise E0202.error(
                    f"'{self.path}' has {data.nbytes} bytes under digest {blob.digest}, but they hash to "
                    f"{digest_of(data)} ({blob.size} bytes expected)"
                )
            return data

        blob.attach(read)
        return True


_SAFETENSORS_DTYPES = {
    "uint8": "U8",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "bool": "BOOL",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
}


_SAFETENSORS_BYTES = {
    **dict.fromkeys(("U8", "I8", "BOOL"), 1),
    **dict.fromkeys(("I16", "F16", "BF16", "U16"), 2),
    **dict.fromkeys(("I32", "F32", "U32"), 4),
    **dict.fromkeys(("I64", "F64", "U64"), 8),
}
"""Bytes of an element of the types that the format has names for."""


def write_weight_file(path: str | Path, weights: Iterable[tuple[str, TensorType[Attribute], Blob]]) -> None:
    """Write named payloads as a safetensors file; equal bytes are stored once, under the first name.

    The file appears complete or not at all: it is written beside ``path`` and renamed.
    """
    header: dict[str, object] = {}
    digests: dict[str, str] = {}
    parts: list[memoryview] = []
    offset, seen = 0, dict[str, None]()
    for name, type, blob in weights:
        if blob.digest in seen:
            continue
        seen[blob.digest] = None
        dtype = _SAFETENSORS_DTYPES.get(dtype_of(type.element_type).torch_name)
        shape: list[int] = list(type.get_shape()) if dtype is not None else [blob.size]
        header[name] = {"dtype": dtype or "U8", "shape": shape, "data_offsets": [offset, offset + blob.size]}
        digests[name] = blob.digest
        parts.append(blob.data)
        offset += blob.size
    metadata: Mapping[str, str] = {"etir.digests": json.dumps(digests)}
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_atomically(path, [struct.pack("<Q", len(text)), text, *parts])


def write_atomically(path: str | Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write ``parts`` to ``path`` so that a half-written file is never seen under that name."""
    import os
    import tempfile

    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
