"""Type promotion as torch does it, without torch: which element type an operation on mixed operands computes in.

The rule (``at::native::result_type``): operands fall into three groups, tensors with dims, tensors without, and
numbers. Each group promotes among its own; a lower group changes the result only when it is of a higher category
(bool < integer < floating point < complex). So ``f16 tensor * 2.5`` stays f16, and ``i32 tensor * 2.5`` is f32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from xdsl.dialects.builtin import ComplexType, TensorType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.dtypes import BY_TORCH_NAME, bf16, dtype_of, f16, f32, f64, i1, i8, i32, i64, ui8
from etir.lowering.build.sizes import Size

Operand: TypeAlias = SSAValue | bool | int | float | complex
"""A tensor, a runtime scalar (a value of type i64, f64 or i1) or a literal."""

_i16 = BY_TORCH_NAME["int16"].type
_SIGNED: tuple[Attribute, ...] = (i8, _i16, i32, i64)
_FLOATS: tuple[Attribute, ...] = (f16, bf16, f32, f64)
_REAL_OF: dict[Attribute, Attribute] = {ComplexType(real): real for real in (f16, f32, f64)}
_COMPLEX_OF: dict[Attribute, Attribute] = {r: c for c, r in _REAL_OF.items()} | {bf16: ComplexType(f32)}

BOOL, INTEGER, FLOATING, COMPLEX = 0, 1, 2, 3
"""Categories, in the order of promotion; the ``category`` of ``dialects.dtypes.DType``."""


def category_of(element: Attribute) -> int:
    """The category of an element type. Raises ``KeyError`` for a type that torch does not have."""
    return dtype_of(element).category


@lru_cache(maxsize=1024)
def promote_types(a: Attribute, b: Attribute) -> Attribute:
    """The smallest element type that holds both, as ``torch.promote_types``.

    Raises ``TypeError`` for pairs that torch does not promote (``ui16`` with ``i32``, 8-bit floats, quantized types).
    """
    if a == b:
        return a
    low, high = sorted((a, b), key=category_of)
    if category_of(low) == BOOL and category_of(high) >= BOOL:
        return high
    if category_of(high) == COMPLEX:
        real = _REAL_OF[high]
        other = _REAL_OF.get(low, low)
        promoted = promote_types(real, other) if category_of(other) == FLOATING else real
        return _COMPLEX_OF[promoted]
    if category_of(high) == FLOATING and high in _FLOATS:
        if category_of(low) == INTEGER:
            return high
        if low in _FLOATS:
            return f32 if {low, high} == {f16, bf16} else max(low, high, key=_FLOATS.index)
    elif {low, high} <= {ui8, *_SIGNED}:
        signed = [t for t in (low, high) if t in _SIGNED]
        return max(_i16 if ui8 in (low, high) else i8, *signed, key=_SIGNED.index)
    raise TypeError(f"{a} and {b} have no common element type")


def combine(higher: Attribute | None, lower: Attribute | None) -> Attribute | None:
    """The type of a group of operands together with a lower group's; None is an empty group."""
    if higher is None or lower is None:
        return higher if lower is None else lower
    high, low = category_of(higher), category_of(lower)
    if high >= FLOATING:
        return _COMPLEX_OF[higher] if low == COMPLEX and high == FLOATING else higher
    if high == BOOL or low >= FLOATING:
        return promote_types(higher, lower)
    return higher


def scalar_type_of(value: Operand) -> Attribute:
    """The element type that a scalar takes part in promotion with: i1, i64, f32 or complex<f32>."""
    if isinstance(value, SSAValue):
        return f32 if value.type == f64 else value.type
    if isinstance(value, bool):
        return i1
    if isinstance(value, (int, Size)):
        return i64
    return f32 if isinstance(value, float) else _COMPLEX_OF[f32]


def result_type(operands: Iterable[Operand]) -> Attribute:
    """The element type that an operation on ``operands`` computes in, as ``torch.result_type``.

    Raises ``TypeError`` when there is no common type, ``ValueError`` without operands.
    """
    groups: list[Attribute | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, SSAValue) and isinstance(operand.type, TensorType):
            group, element = ((0 if operand.type.get_num_dims() else 1), operand.type.element_type)
        else:
            group, element = 2, scalar_type_of(operand)
        known = groups[group]
        groups[group] = element if known is None else promote_types(known, element)
    combined = combine(groups[0], combine(groups[1], groups[2]))
    if combined is None:
        raise ValueError("nothing to promote")
    return combined


def to_floating(element: Attribute) -> Attribute:
    """``element``, or f32 for bool and integers: the type of ``exp`` or of a true division."""
    return f32 if category_of(element) in (BOOL, INTEGER) else element


def real_of(element: Attribute) -> Attribute:
    """The type of the parts of a complex type; any other type as it is."""
    return _REAL_OF.get(element, element)


def common_type(elements: Sequence[Attribute]) -> Attribute:
    """The promotion of element types of one group, as ``torch.cat`` does. Raises ``TypeError``."""
    common = elements[0]
    for element in elements[1:]:
        common = promote_types(common, element)
    return common
