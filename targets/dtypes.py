"""Scalar types as the runtime numbers them, named sets of them, and PyTorch's promotion and casting rules.

The numbers are those of the ``ScalarType`` field of a ``.pte`` file, so values of any other integer enumeration with
that numbering can be used wherever a :class:`ScalarType` is taken. The rules are written out here, rather than asked
of torch, because the link check must work where torch is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Literal

from etir.targets.errors import E0602


class ScalarType(IntEnum):
    """Element type of a tensor; ``int(x)`` is the number in the file."""

    Byte = 0
    Char = 1
    Short = 2
    Int = 3
    Long = 4
    Half = 5
    Float = 6
    Double = 7
    ComplexHalf = 8
    ComplexFloat = 9
    ComplexDouble = 10
    Bool = 11
    QInt8 = 12
    QUInt8 = 13
    QInt32 = 14
    BFloat16 = 15
    QUInt4x2 = 16
    QUInt2x4 = 17
    Bits16 = 22
    Float8_e5m2 = 23
    Float8_e4m3fn = 24
    Float8_e5m2fnuz = 25
    Float8_e4m3fnuz = 26
    UInt16 = 27
    UInt32 = 28
    UInt64 = 29


ScalarKind = Literal["bool", "int", "float"]
"""What a Python number passed as a ``Scalar`` argument counts as when types are promoted."""

DTypeLike = ScalarType | int | str
"""A scalar type, its number, or its name as in :class:`ScalarType` (any case)."""

_S = ScalarType
_SIGNED = (_S.Char, _S.Short, _S.Int, _S.Long)
_INTEGRAL = (_S.Byte, *_SIGNED)
_UNSIGNED = (_S.UInt16, _S.UInt32, _S.UInt64)
_FLOAT = (_S.Half, _S.BFloat16, _S.Float, _S.Double)
_COMPLEX = (_S.ComplexHalf, _S.ComplexFloat, _S.ComplexDouble)

SETS: dict[str, tuple[ScalarType, ...]] = {
    "I": _INTEGRAL,
    "F": (_S.Float, _S.Double),
    "R": (*_INTEGRAL, _S.Float, _S.Double),
    "Cx": _COMPLEX,
    "any": tuple(_S),
}
"""Named sets. ``I``, ``F`` and ``R`` take the suffixes ``H`` (Half), ``B`` (Bool) and ``Bf`` (BFloat16): ``RHBBf``."""

_SUFFIXES = {"": (), "H": (_S.Half,), "B": (_S.Bool,), "Bf": (_S.BFloat16,)}
for _base in ("I", "F", "R"):
    for _half in ("", "H"):
        for _bool in ("", "B"):
            for _bfloat in ("", "Bf"):
                SETS[f"{_base}{_half}{_bool}{_bfloat}"] = (
                    *SETS[_base],
                    *_SUFFIXES[_half],
                    *_SUFFIXES[_bool],
                    *_SUFFIXES[_bfloat],
                )

_BY_NAME = {t.name.lower(): t for t in ScalarType}
_CATEGORY: dict[ScalarType, int] = {
    _S.Bool: 0,
    **dict.fromkeys((*_INTEGRAL, *_UNSIGNED), 1),
    **dict.fromkeys(_FLOAT, 2),
    **dict.fromkeys(_COMPLEX, 3),
}
_VALUE_TYPE = {_S.ComplexHalf: _S.Half, _S.ComplexFloat: _S.Float, _S.ComplexDouble: _S.Double}
_COMPLEX_OF = {_S.Half: _S.ComplexHalf, _S.BFloat16: _S.ComplexFloat, _S.Float: _S.ComplexFloat, _S.Double: _S.ComplexDouble}


def scalar_type(dtype: DTypeLike) -> ScalarType:
    """``dtype`` as a :class:`ScalarType`. Raises E0602 for a name or number that is not one."""
    if isinstance(dtype, str):
        found = _BY_NAME.get(dtype.lower())
        if found is None:
            raise E0602.error(f"'{dtype}' is not a scalar type; known are {', '.join(t.name for t in ScalarType)}")
        return found
    try:
        return ScalarType(int(dtype))
    except ValueError:
        raise E0602.error(f"{int(dtype)} is not the number of a scalar type") from None


def promote(a: ScalarType, b: ScalarType) -> ScalarType | None:
    """The type both convert to in a mixed operation, ``None`` where PyTorch defines none.

    The rules are those of ``torch.promote_types``: the higher category of bool, integer, float and complex wins, the
    wider type wins inside a category, Byte with a signed type needs a signed type that holds both, two different half
    precision formats meet in Float, and the wide unsigned types mix with floating point only.
    """
    if a == b:
        return a
    if a not in _CATEGORY or b not in _CATEGORY:
        return None
    low, high = sorted((a, b), key=_CATEGORY.__getitem__)
    if low in _UNSIGNED or high in _UNSIGNED:
        return high if _CATEGORY[high] == 2 else None
    if _CATEGORY[low] == _CATEGORY[high] == 1:
        return _promote_integers(low, high)
    if _CATEGORY[high] == 3:
        value = _VALUE_TYPE[high]
        if _CATEGORY[low] < 2:
            return high
        other = _VALUE_TYPE.get(low, low)
        common = promote(value, other)
        return None if common is None else _COMPLEX_OF[common]
    if _CATEGORY[low] == _CATEGORY[high] == 2:
        if {low, high} == {_S.Half, _S.BFloat16}:
            return _S.Float
        return max(low, high, key=_FLOAT.index)
    return high


def _promote_integers(a: ScalarType, b: ScalarType) -> ScalarType:
    if _S.Byte in (a, b):
        signed = b if a == _S.Byte else a
        return _S.Short if signed == _S.Char else signed
    return max(a, b, key=_SIGNED.index)


def promote_all(dtypes: Iterable[ScalarType]) -> ScalarType | None:
    """The common type of one or more types, folded from the left with :func:`promote`."""
    common: ScalarType | None = None
    for dtype in dtypes:
        common = dtype if common is None else promote(common, dtype)
        if common is None:
            return None
    return common


def promote_with_scalar(dtype: ScalarType, kind: ScalarKind) -> ScalarType:
    """The type of a tensor of ``dtype`` combined with a Python number: only a higher category changes it."""
    category = {"bool": 0, "int": 1, "float": 2}[kind]
    if _CATEGORY.get(dtype, 3) >= category:
        return dtype
    return _S.Long if kind == "int" else _S.Float


def can_cast(source: ScalarType, target: ScalarType) -> bool:
    """Whether a result of type ``source`` may be written as ``target``: never to a lower category."""
    if source not in _CATEGORY or target not in _CATEGORY:
        return source == target
    return _CATEGORY[source] <= _CATEGORY[target]
