"""Literal arguments of operators as attributes, and their short form in the text.

A Python value of a schema argument (``2``, ``1e-5``, ``[1, 2]``, ``f16`` for a dtype, ``"channels_last"``) becomes one
attribute and comes back from it. ``Scalar`` keeps int, float and bool apart by the attribute's type, because torch
promotes them differently.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser

from etir.dialects.dtypes import BY_TYPE, f64, i1, i32, i64
from etir.dialects.kept import kept
from etir.dialects.schema import Argument, Kind

Scalar: TypeAlias = bool | int | float | complex
Element: TypeAlias = Scalar | SSAValue | None
ArgValue: TypeAlias = Scalar | str | None | Attribute | SSAValue | Sequence[Element]
"""A schema argument as Python sees it: a literal, an SSA value, or a list of them. A dtype is an element type."""

SYMBOLIC = -(2**63)
"""Stands for an SSA operand in a stored integer list."""

_ENUM_KINDS = frozenset({Kind.LAYOUT, Kind.MEMORY_FORMAT, Kind.DEVICE})


@lru_cache(maxsize=4096)
def int_attr(value: int) -> IntegerAttr:
    """``value : i64``, shared."""
    return IntegerAttr(value, i64)


@lru_cache(maxsize=4096)
def float_attr_of_bits(bits: int) -> FloatAttr:
    """The ``f64`` attribute with these bits, shared."""
    return FloatAttr(struct.unpack("<d", struct.pack("<Q", bits))[0], f64)


def float_attr(value: float) -> FloatAttr:
    """``value : f64``; keyed on the bits, because ``0.0 == -0.0`` and ``nan != nan``."""
    return float_attr_of_bits(struct.unpack("<Q", struct.pack("<d", value))[0])


TRUE, FALSE = IntegerAttr.from_bool(True), IntegerAttr.from_bool(False)


@lru_cache(maxsize=4096)
def ints_attr(values: tuple[int, ...]) -> DenseArrayBase:
    """``array<i64: ...>``, shared."""
    return DenseArrayBase(i64, BytesAttr(struct.pack(f"<{len(values)}q", *values)))


@lru_cache(maxsize=4096)
def segments_attr(values: tuple[int, ...]) -> DenseArrayBase:
    """``array<i32: ...>``, shared."""
    return DenseArrayBase(i32, BytesAttr(struct.pack(f"<{len(values)}i", *values)))


def bools_attr(values: Sequence[bool]) -> DenseArrayBase:
    """``array<i1: ...>``."""
    return DenseArrayBase(i1, BytesAttr(bytes(0xFF if v else 0 for v in values)))


def floats_attr(values: Sequence[float]) -> DenseArrayBase:
    """``array<f64: ...>``."""
    return DenseArrayBase(f64, BytesAttr(struct.pack(f"<{len(values)}d", *values)))


def scalar_attr(value: Scalar) -> Attribute:
    """The attribute of one Python scalar; a complex one is ``[real, imaginary]``."""
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return int_attr(value)
    if isinstance(value, float):
        return float_attr(value)
    return ArrayAttr([float_attr(value.real), float_attr(value.imag)])


def scalar_of(attribute: Attribute) -> Scalar:
    """The Python scalar of an attribute made by :func:`scalar_attr`. Raises ``TypeError`` for any other."""
    if type(attribute) is IntegerAttr:
        value = attribute.value.data
        return bool(value) if attribute.type is i1 or attribute.type == i1 else value
    if type(attribute) is FloatAttr:
        return attribute.value.data
    if type(attribute) is ArrayAttr and len(attribute.data) == 2:
        real, imaginary = (scalar_of(a) for a in attribute.data)
        return complex(float(cast(float, real)), float(cast(float, imaginary)))
    raise TypeError(f"{attribute} is not a number")


@kept
def dense_values(attribute: Attribute) -> tuple[int | float | bool, ...]:
    """The values of an ``array<...>`` attribute. Raises ``TypeError`` for any other."""
    if not isinstance(attribute, DenseArrayBase):
        raise TypeError(f"{attribute} is not a list")
    data = attribute.data.data
    if attribute.elt_type == i64:
        return struct.unpack(f"<{len(data) // 8}q", data)
    if attribute.elt_type == i1:
        return tuple(b != 0 for b in data)
    if attribute.elt_type == f64:
        return struct.unpack(f"<{len(data) // 8}d", data)
    return tuple(attribute.iter_values())


def literal_attr(argument: Argument, value: object) -> Attribute:
    """The attribute that stores literal ``value`` for ``argument``.

    Raises ``TypeError`` when the value is not of the schema's type.
    """
    kind = argument.kind
    if value is None:
        return UnitAttr()
    if kind is Kind.DTYPE:
        if isinstance(value, Attribute) and value in BY_TYPE:
            return value
        raise TypeError(f"'{argument.name}' takes an element type, not {value!r}")
    if kind is Kind.STR or kind in _ENUM_KINDS:
        if isinstance(value, str):
            return StringAttr(value)
        raise TypeError(f"'{argument.name}' takes a word, not {value!r}")
    if argument.is_list:
        return _list_attr(argument, value)
    if kind in (Kind.BOOL, Kind.SYMBOOL) and isinstance(value, bool):
        return scalar_attr(value)
    if kind in (Kind.INT, Kind.SYMINT) and isinstance(value, int):
        return int_attr(int(value))
    if kind is Kind.FLOAT and isinstance(value, (int, float)):
        return float_attr(float(value))
    if kind in (Kind.SCALAR, Kind.TENSOR) and isinstance(value, (bool, int, float, complex)):
        return scalar_attr(value)
    raise TypeError(f"'{argument.name}' takes {argument.type_text}, not {value!r}")


def _list_attr(argument: Argument, value: object) -> Attribute:
    if not isinstance(value, (list, tuple)):
        if argument.size is None or not isinstance(value, (bool, int, float)):
            raise TypeError(f"'{argument.name}' takes {argument.type_text}, not {value!r}")
        value = (value,) * argument.size
    items = cast(Sequence[object], value)
    if argument.kind in (Kind.INT, Kind.SYMINT) and all(isinstance(v, int) for v in items):
        return ints_attr(tuple(int(cast(int, v)) for v in items))
    if argument.kind is Kind.BOOL and all(isinstance(v, bool) for v in items):
        return bools_attr(cast(Sequence[bool], items))
    if argument.kind is Kind.FLOAT and all(isinstance(v, (int, float)) for v in items):
        return floats_attr([float(cast(float, v)) for v in items])
    if argument.kind is Kind.SCALAR and all(isinstance(v, (bool, int, float, complex)) for v in items):
        return ArrayAttr([scalar_attr(cast(Scalar, v)) for v in items])
    raise TypeError(f"'{argument.name}' takes {argument.type_text}, not {value!r}")


def literal_of(argument: Argument, attribute: Attribute) -> ArgValue:
    """The Python value of an attribute made by :func:`literal_attr`; lists come back as tuples."""
    # Classes by identity: ``isinstance`` of an attribute's class that it is not asks Python code, three calls each.
    if type(attribute) is UnitAttr:
        return None
    if argument.kind is Kind.DTYPE:
        return attribute
    if type(attribute) is StringAttr:
        return attribute.data
    if argument.is_list and type(attribute) is ArrayAttr:
        return tuple(scalar_of(a) for a in attribute.data)
    if type(attribute) is DenseArrayBase:
        return dense_values(attribute)
    return scalar_of(attribute)


def format_float(value: float) -> str:
    """The shortest text that reads back to the same double, always with a point so that it is not an integer."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    if "." not in text:
        mantissa, e, exponent = text.partition("e")
        text = f"{mantissa}.0{e}{exponent}"
    return text


def format_scalar(value: Scalar) -> str:
    """One number as it stands in an operation's argument list."""
    if type(value) is int:
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return format_float(value)
    return f"complex({format_float(value.real)}, {format_float(value.imag)})"


def parse_scalar(parser: Parser) -> Scalar:
    """One number, ``true``, ``false``, ``inf``, ``-inf``, ``nan`` or ``complex(1.0, 2.0)``."""
    value = parse_optional_scalar(parser)
    if value is None:
        parser.raise_error("expected a number, true, false, inf or nan")
    return value


def parse_optional_scalar(parser: Parser) -> Scalar | None:
    """Like :func:`parse_scalar`, or None when something else stands there."""
    negative = parser.parse_optional_punctuation("-") is not None
    word = parser.parse_optional_keyword_in(("true", "false", "inf", "nan", "complex"))
    if word is None:
        number = parser.parse_optional_number(allow_boolean=False)
        if number is None:
            if negative:
                parser.raise_error("expected a number after '-'")
            return None
        return -number if negative else number
    if word == "complex":
        with parser.in_parens():
            real = parse_scalar(parser)
            parser.parse_punctuation(",")
            imaginary = parse_scalar(parser)
        return complex(cast(float, real), cast(float, imaginary))
    if word in ("inf", "nan"):
        return -float(word) if negative else float(word)
    return word == "true"
