"""Element types: one table that ties a torch dtype to its IR type, its ExecuTorch number and its size.

Signless integers of MLIR stand for torch's signed ones and ``ui8`` and up for the unsigned ones; ``i1`` is bool.
Types that MLIR has no spelling for (torch's quantized storage types) are ``!et.dtype<qint8>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


@irdl_attr_definition
class StorageDType(Data[str], TypeAttribute):
    """An element type without an MLIR spelling: ``!et.dtype<qint8>``."""

    name = "et.dtype"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            position = parser.pos
            name = parser.parse_identifier(" of an element type")
            if name not in BY_TORCH_NAME or BY_TORCH_NAME[name].type != StorageDType(name):
                parser.raise_error(f"unknown element type '{name}'", position)
            return name

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@dataclass(frozen=True)
class DType:
    """One element type.

    ``number`` is the ``ScalarType`` value in ``.pte`` files, ``itemsize`` is in bytes, ``numpy_name`` is None where
    NumPy has no such type. ``category`` orders promotion: 0 bool, 1 integer, 2 floating point, 3 complex, -1 none.
    """

    torch_name: str
    number: int
    type: Attribute
    itemsize: int
    numpy_name: str | None
    category: int

    @property
    def is_float(self) -> bool:
        """Whether the type is a real floating-point type."""
        return self.category == 2

    @property
    def is_integer(self) -> bool:
        """Whether the type is an integer type; bool is not."""
        return self.category == 1


_f16, _f32, _f64, _bf16 = Float16Type(), Float32Type(), Float64Type(), BFloat16Type()


def _uint(width: int) -> IntegerType:
    return IntegerType(width, Signedness.UNSIGNED)


DTYPES: tuple[DType, ...] = (
    DType("uint8", 0, _uint(8), 1, "uint8", 1),
    DType("int8", 1, IntegerType(8), 1, "int8", 1),
    DType("int16", 2, IntegerType(16), 2, "int16", 1),
    DType("int32", 3, IntegerType(32), 4, "int32", 1),
    DType("int64", 4, IntegerType(64), 8, "int64", 1),
    DType("float16", 5, _f16, 2, "float16", 2),
    DType("float32", 6, _f32, 4, "float32", 2),
    DType("float64", 7, _f64, 8, "float64", 2),
    DType("complex32", 8, ComplexType(_f16), 4, None, 3),
    DType("complex64", 9, ComplexType(_f32), 8, "complex64", 3),
    DType("complex128", 10, ComplexType(_f64), 16, "complex128", 3),
    DType("bool", 11, IntegerType(1), 1, "bool", 0),
    DType("qint8", 12, StorageDType("qint8"), 1, None, -1),
    DType("quint8", 13, StorageDType("quint8"), 1, None, -1),
    DType("qint32", 14, StorageDType("qint32"), 4, None, -1),
    DType("bfloat16", 15, _bf16, 2, None, 2),
    DType("quint4x2", 16, StorageDType("quint4x2"), 1, None, -1),
    DType("quint2x4", 17, StorageDType("quint2x4"), 1, None, -1),
    DType("bits16", 22, StorageDType("bits16"), 2, None, -1),
    DType("float8_e5m2", 23, Float8E5M2Type(), 1, None, 2),
    DType("float8_e4m3fn", 24, Float8E4M3FNType(), 1, None, 2),
    DType("float8_e5m2fnuz", 25, Float8E5M2FNUZType(), 1, None, 2),
    DType("float8_e4m3fnuz", 26, Float8E4M3FNUZType(), 1, None, 2),
    DType("uint16", 27, _uint(16), 2, "uint16", 1),
    DType("uint32", 28, _uint(32), 4, "uint32", 1),
    DType("uint64", 29, _uint(64), 8, "uint64", 1),
)

BY_TORCH_NAME: dict[str, DType] = {d.torch_name: d for d in DTYPES}
BY_NUMBER: dict[int, DType] = {d.number: d for d in DTYPES}
BY_TYPE: dict[Attribute, DType] = {d.type: d for d in DTYPES}

i1 = cast(IntegerType, BY_TORCH_NAME["bool"].type)
i8 = cast(IntegerType, BY_TORCH_NAME["int8"].type)
ui8 = cast(IntegerType, BY_TORCH_NAME["uint8"].type)
i32 = cast(IntegerType, BY_TORCH_NAME["int32"].type)
i64 = cast(IntegerType, BY_TORCH_NAME["int64"].type)
f16, f32, f64, bf16 = _f16, _f32, _f64, _bf16


def dtype_of(type: Attribute) -> DType:
    """The table row of an element type. Raises ``KeyError`` for a type that torch does not have (``i4``, ``index``)."""
    return BY_TYPE[type]
