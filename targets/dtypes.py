"""Named sets of scalar types, and PyTorch's rules of promotion and casting on them.

The sets are what kernel tables are written in. They have the names of ExecuTorch's ``ET_SWITCH_*_TYPES`` macros:

* ``INT``: Byte, Char, Short, Int, Long; ``FLOAT``: Float, Double; ``REAL``: both;
* with the suffixes ``H`` (Half), ``B`` (Bool) and ``BF16`` (BFloat16), in this order: ``REALHBBF16``, ``FLOATHBF16``;
* ``COMPLEX``: ComplexFloat, ComplexDouble; ``COMPLEXH``: these and ComplexHalf;
* ``any``: every type of the format.

The rules are written out here, rather than asked of torch, because the link check must work where torch is not
installed; a test compares them with torch's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from etir.emit.formats.scalar_type import SCALAR_TYPES, ScalarType
from etir.targets.errors import E0602

ScalarKind = Literal["bool", "int", "float"]
"""What a Python scalar passed as a ``Scalar`` argument counts as when types are promoted."""

DTypeLike = ScalarType | int | str
"""A scalar type, its number in a file, or its name in any case (``Float``, ``bfloat16``)."""

_S = ScalarType
_SIGNED = (_S.CHAR, _S.SHORT, _S.INT, _S.LONG)
_INTEGRAL = (_S.BYTE, *_SIGNED)
_UNSIGNED = (_S.UINT16, _S.UINT32, _S.UINT64)
_FLOAT = (_S.HALF, _S.BFLOAT16, _S.FLOAT, _S.DOUBLE)
_COMPLEX = (_S.COMPLEXHALF, _S.COMPLEXFLOAT, _S.COMPLEXDOUBLE)

_BASES: dict[str, tuple[ScalarType, ...]] = {
    "INT": _INTEGRAL,
    "FLOAT": (_S.FLOAT, _S.DOUBLE),
    "REAL": (*_INTEGRAL, _S.FLOAT, _S.DOUBLE),
}
_SUFFIXES = (("H", _S.HALF), ("B", _S.BOOL), ("BF16", _S.BFLOAT16))


def _named_sets() -> dict[str, tuple[ScalarType, ...]]:
    sets = dict(_BASES)
    for suffix, dtype in _SUFFIXES:
        sets |= {name + suffix: (*types, dtype) for name, types in sets.items()}
    return sets | {"COMPLEX": _COMPLEX[1:], "COMPLEXH": _COMPLEX, "any": tuple(_S)}


SETS = _named_sets()
"""The sets that the module's docstring lists."""

_CATEGORY: dict[ScalarType, int] = {
    _S.BOOL: 0,
    **dict.fromkeys((*_INTEGRAL, *_UNSIGNED), 1),
    **dict.fromkeys(_FLOAT, 2),
    **dict.fromkeys(_COMPLEX, 3),
}
_PART_OF_COMPLEX = {_S.COMPLEXHALF: _S.HALF, _S.COMPLEXFLOAT: _S.FLOAT, _S.COMPLEXDOUBLE: _S.DOUBLE}
_COMPLEX_OF_PART = {
    _S.HALF: _S.COMPLEXHALF,
    _S.BFLOAT16: _S.COMPLEXFLOAT,
    _S.FLOAT: _S.COMPLEXFLOAT,
    _S.DOUBLE: _S.COMPLEXDOUBLE,
}


def scalar_type(dtype: DTypeLike) -> ScalarType:
    """``dtype`` as a :class:`ScalarType`. Raises E0602 for a name or number that is not one."""
    found = ScalarType.__members__.get(dtype.upper()) if isinstance(dtype, str) else SCALAR_TYPES.get(int(dtype))
    if found is None:
        known = ", ".join(f"{t.name} ({int(t)})" for t in ScalarType)
        raise E0602.error(f"{dtype!r} is not a scalar type; known are {known}")
    return found


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
    category = _CATEGORY[high]
    if low in _UNSIGNED or high in _UNSIGNED:
        return high if category == 2 else None
    if category == 3:
        return _promote_complex(low, high)
    if _CATEGORY[low] < category:
        return high
    if category == 2:
        return _S.FLOAT if {low, high} == {_S.HALF, _S.BFLOAT16} else max(low, high, key=_FLOAT.index)
    if low == _S.BYTE or high == _S.BYTE:
        signed = high if low == _S.BYTE else low
        return _S.SHORT if signed == _S.CHAR else signed
    return max(low, high, key=_SIGNED.index)


def _promote_complex(low: ScalarType, high: ScalarType) -> ScalarType | None:
    if _CATEGORY[low] < 2:
        return high
    part = promote(_PART_OF_COMPLEX.get(low, low), _PART_OF_COMPLEX[high])
    return None if part is None else _COMPLEX_OF_PART[part]


def promote_all(dtypes: Iterable[ScalarType]) -> ScalarType | None:
    """The common type of some types, folded from the left with :func:`promote`; ``None`` also if there are none."""
    common: ScalarType | None = None
    for dtype in dtypes:
        common = dtype if common is None else promote(common, dtype)
        if common is None:
            return None
    return common


def promote_with_scalar(dtype: ScalarType, kind: ScalarKind) -> ScalarType:
    """The type of a tensor of ``dtype`` combined with a Python scalar, which counts if it is of a higher category."""
    if can_hold(dtype, kind):
        return dtype
    return _S.LONG if kind == "int" else _S.FLOAT


def can_hold(dtype: ScalarType, kind: ScalarKind) -> bool:
    """Whether a Python scalar of this kind is of no higher category than ``dtype``."""
    return _CATEGORY.get(dtype, -1) >= ("bool", "int", "float").index(kind)


def can_cast(source: ScalarType, target: ScalarType) -> bool:
    """Whether a result of type ``source`` may be written as ``target``: never to a lower category."""
    if source not in _CATEGORY or target not in _CATEGORY:
        return source == target
    return _CATEGORY[source] <= _CATEGORY[target]
