"""Element types as ``.pte`` and ``.ptd`` files number them, and their sizes in bytes.

The numbers are PyTorch's. The sub-byte types count packed bytes, as PyTorch does: a size of n is n bytes.
"""

from __future__ import annotations

from enum import IntEnum


class ScalarType(IntEnum):
    """Element type of a tensor; the value is the number in the file."""

    BYTE = 0
    CHAR = 1
    SHORT = 2
    INT = 3
    LONG = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEXHALF = 8
    COMPLEXFLOAT = 9
    COMPLEXDOUBLE = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    QUINT4X2 = 16
    QUINT2X4 = 17
    BITS16 = 22
    FLOAT8E5M2 = 23
    FLOAT8E4M3FN = 24
    FLOAT8E5M2FNUZ = 25
    FLOAT8E4M3FNUZ = 26
    UINT16 = 27
    UINT32 = 28
    UINT64 = 29


_BYTES = {
    1: "BYTE CHAR BOOL QINT8 QUINT8 QUINT4X2 QUINT2X4 FLOAT8E5M2 FLOAT8E4M3FN FLOAT8E5M2FNUZ FLOAT8E4M3FNUZ",
    2: "SHORT HALF BFLOAT16 BITS16 UINT16",
    4: "INT FLOAT COMPLEXHALF QINT32 UINT32",
    8: "LONG DOUBLE COMPLEXFLOAT UINT64",
    16: "COMPLEXDOUBLE",
}
ITEM_BYTES: dict[ScalarType, int] = {ScalarType[name]: size for size, names in _BYTES.items() for name in names.split()}
"""Bytes per element."""

SCALAR_TYPES: dict[int, ScalarType] = {int(t): t for t in ScalarType}
"""From the number in a file to the type."""


NUMPY_NAMES = {
    ScalarType.BYTE: "uint8",
    ScalarType.CHAR: "int8",
    ScalarType.SHORT: "int16",
    ScalarType.INT: "int32",
    ScalarType.LONG: "int64",
    ScalarType.HALF: "float16",
    ScalarType.FLOAT: "float32",
    ScalarType.DOUBLE: "float64",
    ScalarType.COMPLEXFLOAT: "complex64",
    ScalarType.COMPLEXDOUBLE: "complex128",
    ScalarType.BOOL: "bool",
    ScalarType.UINT16: "uint16",
    ScalarType.UINT32: "uint32",
    ScalarType.UINT64: "uint64",
}
"""NumPy's names of the dtypes that it has."""
