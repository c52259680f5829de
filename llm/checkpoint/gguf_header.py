"""A GGUF file's header: what it says of the model, and where each tensor lies.

The package ``gguf`` reads files that are what they say; a count of 2^60 keeps it busy for good. Here every length is
compared with what is left of the file before anything is read, so that a damaged file is an error with its place. The
meaning of the blocks and the names of the tensors are the package's.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from etir.llm.errors import E1601, E1602, E1604

if TYPE_CHECKING:
    import numpy as np

Value: TypeAlias = "int | float | bool | str | list[Any]"

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of values by their number, as :mod:`struct` writes them."""
_MOST_DIMS = 4
_ALIGNMENT = 32


@dataclass(frozen=True)
class TensorInfo:
    """One tensor: its shape with the fastest dim last, its GGML type by name, and where its bytes are."""

    name: str
    shape: tuple[int, ...]
    type: str
    start: int
    size: int


@dataclass(frozen=True)
class GgufFile:
    """The header of a file; ``data`` is the file, mapped."""

    path: Path
    fields: dict[str, Value]
    tensors: dict[str, TensorInfo]
    data: mmap.mmap

    def raw(self, tensor: TensorInfo) -> np.ndarray:
        """The bytes of a tensor, uint8 of its rows ``[..., bytes of a row]``; a view of the mapped file."""
        import numpy as np

        flat = np.frombuffer(self.data, np.uint8, tensor.size, tensor.start)
        return flat.reshape(*tensor.shape[:-1], -1)


def read_gguf(path: Path) -> GgufFile:
    """The header of a GGUF file.

    Raises E1601 for a file that is not one or of another version, E1602 where it ends too early or is inconsistent,
    E1604 for a tensor of a type that the package ``gguf`` does not know.
    """
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise E1601.error(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
    if data[:4] != MAGIC:
        raise E1601.error(f"'{path}' is no GGUF file: it starts with {data[:4].hex() or 'nothing'}")
    cursor = _Cursor(path, data)
    version = cursor.number("I", "the version")
    if version not in VERSIONS:
        raise E1601.error(f"'{path}' is of GGUF version {version}; versions {VERSIONS[0]} and {VERSIONS[1]} are read")
    tensors, values = cursor.number("Q", "the number of tensors"), cursor.number("Q", "the number of fields")
    fields: dict[str, Value] = {}
    for _ in range(cursor.fits(values, 13, "fields")):
        name = cursor.text("the name of a field")
        fields[name] = cursor.value(cursor.number("I", f"the type of '{name}'"), name)
    infos = [_tensor(cursor) for _ in range(cursor.fits(tensors, 24, "tensors"))]
    alignment = fields.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise E1602.error(f"'{path}': an alignment of {alignment} is no power of two")
    base = -(-cursor.at // alignment) * alignment
    found: dict[str, TensorInfo] = {}
    for info in infos:
        start = base + info.start
        if info.name in found:
            raise E1602.error(f"'{path}' has two tensors '{info.name}'")
        if start + info.size > len(data):
            raise E1602.error(
                f"'{path}' is truncated: tensor '{info.name}' ends at byte {start + info.size:,} of {len(data):,}"
            )
        found[info.name] = TensorInfo(info.name, info.shape, info.type, start, info.size)
    return GgufFile(path, fields, found, data)


def _tensor(cursor: _Cursor) -> TensorInfo:
    """Where a tensor says it is, from the start of the data."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name = cursor.text("the name of a tensor")
    rank = cursor.number("I", f"the rank of '{name}'")
    if not 0 < rank <= _MOST_DIMS:
        raise E1602.error(f"'{cursor.path}': tensor '{name}' has {rank} dims")
    shape = tuple(reversed([cursor.number("Q", f"the shape of '{name}'") for _ in range(rank)]))
    number = cursor.number("I", f"the type of '{name}'")
    offset = cursor.number("Q", f"the place of '{name}'")
    known = {int(type): type for type in GGMLQuantizationType}
    if number not in known:
        raise E1604.error(f"'{cursor.path}': tensor '{name}' is of GGML type {number}, which is not known")
    values, size = GGML_QUANT_SIZES[known[number]]
    if shape[-1] % values:
        raise E1602.error(
            f"'{cursor.path}': rows of {shape[-1]} values of '{name}' are no blocks of {values}, as "
            f"{known[number].name} has"
        )
    return TensorInfo(name, shape, known[number].name, offset, prod(shape) // values * size)


class _Cursor:
    """Reads what the header has next, and never past its end."""

    def __init__(self, path: Path, data: mmap.mmap):
        self.path = path
        self.data = data
        self.at = 4

    def _take(self, size: int, what: str) -> bytes:
        if size > len(self.data) - self.at:
            raise E1602.error(f"'{self.path}' is truncated: {what} would end after its last byte, {len(self.data):,}")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, format: str, what: str) -> Any:
        return struct.unpack(f"<{format}", self._take(struct.calcsize(format), what))[0]

    def fits(self, count: int, least: int, what: str) -> int:
        """``count``, when so many entries of at least so many bytes are possible."""
        if count * least > len(self.data) - self.at:
            raise E1602.error(f"'{self.path}' is truncated or damaged: it claims to have {count:,} {what}")
        return count

    def text(self, what: str) -> str:
        raw = self._take(self.number("Q", what), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise E1602.error(f"'{self.path}': {what} is not UTF-8: {raw[:32]!r}") from None

    def value(self, type: int, name: str) -> Value:
        what = f"field '{name}'"
        if type == _STRING:
            return self.text(what)
        if type != _ARRAY:
            return self.number(self._format(type, name), what)
        inside, count = self.number("I", what), self.number("Q", what)
        if inside in _FORMATS:
            size = struct.calcsize(_FORMATS[inside])
            raw = self._take(size * self.fits(count, size, f"values in {what}"), what)
            return list(struct.unpack(f"<{count}{_FORMATS[inside]}", raw))
        read: Callable[[], Value] = (lambda: self.text(what)) if inside == _STRING else self._nested(inside, name)
        return [read() for _ in range(self.fits(count, 8, f"values in {what}"))]

    def _nested(self, type: int, name: str) -> Callable[[], Value]:
        raise E1602.error(f"'{self.path}': field '{name}' is an array of type {type}, which no model has")

    def _format(self, type: int, name: str) -> str:
        if type not in _FORMATS:
            raise E1602.error(f"'{self.path}': field '{name}' is of type {type}, which GGUF does not have")
        return _FORMATS[type]
