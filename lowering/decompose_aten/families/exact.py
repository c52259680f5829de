"""Formulas for calls whose kernel, where a target has one, computes in another type than torch.

A target's manifest says which calls these are (``wrong`` of the kernel's row); on a target whose kernels are right,
the operators stay.
"""

from __future__ import annotations

import math
from typing import cast

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import bf16, f16, f32, f64
from etir.lowering.build.builder import Builder, Operator, Scalar, TensorOrScalar, dims, element, is_tensor, rank
from etir.lowering.build.promotion import FLOATING, category_of, result_type, to_floating
from etir.lowering.build.sizes import product
from etir.lowering.decompose_aten.decomposition import ALL, decomposition
from etir.lowering.decompose_aten.families.reduction import Dims, positions

MOST_IN_A_ROW = 4096
"""Numbers of float32 that are added one after the other: what the manifest of the stock runtime has as ``above``."""


def _root(b: Builder) -> Operator:
    return cast("Operator", type(b.rewriter.root))


def _declared(b: Builder) -> Attribute:
    """The element type of the result."""
    return element(b.rewriter.root.results[0])


# --- operands of several types ----------------------------------------------------------------------------------------


@decomposition(
    *(aten.eq.Tensor, aten.ne.Tensor, aten.lt.Tensor, aten.le.Tensor, aten.gt.Tensor, aten.ge.Tensor),
    *(aten.maximum.default, aten.minimum.default, aten.atan2.default, aten.fmod.Tensor, aten.remainder.Tensor),
    *(aten.mul.Tensor, aten.div.Tensor, aten.floor_divide.default, aten.pow.Tensor_Tensor),
    symint_args=ALL,
)
def of_one_type(b: Builder, x: SSAValue, y: TensorOrScalar) -> SSAValue | None:
    """Both operands in the type that torch computes in: a tensor of rank 0 takes that of the other one."""
    cast_operands = _of_one_type(b, x, y)
    return cast_operands and b(_root(b), *cast_operands)


@decomposition(aten.div.Tensor_mode, symint_args=("other",))
def division_of_one_type(b: Builder, x: SSAValue, other: TensorOrScalar, rounding_mode: str | None) -> SSAValue | None:
    """Both operands in the type that torch computes in"""
    cast_operands = _of_one_type(b, x, other)
    return cast_operands and b(_root(b), *cast_operands, rounding_mode=rounding_mode)


@decomposition(aten.add.Tensor, aten.sub.Tensor, symint_args=("other", "alpha"))
def sum_of_one_type(b: Builder, x: SSAValue, other: TensorOrScalar, alpha: Scalar) -> SSAValue | None:
    """Both operands in the type that torch computes in"""
    cast_operands = _of_one_type(b, x, other)
    return cast_operands and b(_root(b), *cast_operands, alpha=alpha)


def _of_one_type(b: Builder, x: TensorOrScalar, y: TensorOrScalar) -> tuple[SSAValue, SSAValue] | None:
    if not is_tensor(x) or not is_tensor(y) or element(x) == element(y):
        return b.notify_match_failure("it has no operands of two types")
    common = result_type((x, y))
    if category_of(_declared(b)) == FLOATING:
        # Division and atan2 of integers are computed in the type of their result.
        common = to_floating(common)
    return b.cast(x, common), b.cast(y, common)


@decomposition(aten.clamp.Tensor)
def limits_of_one_type(b: Builder, x: SSAValue, low: SSAValue | None, high: SSAValue | None) -> SSAValue | None:
    """All operands in the type that torch computes in"""
    operands = [t for t in (x, low, high) if t is not None]
    common = result_type(operands)
    if all(element(t) == common for t in operands):
        return b.notify_match_failure("all operands have one type")
    limits = [None if t is None else b.cast(t, common) for t in (low, high)]
    return b(aten.clamp.Tensor, b.cast(x, common), *limits)


@decomposition(aten.leaky_relu.default)
def leaky_relu_of_infinite_slope(b: Builder, x: SSAValue, slope: float) -> SSAValue | None:
    """``where(x > 0, x, x * slope)``, which is NaN for 0"""
    if math.isfinite(slope):
        return b.notify_match_failure("its slope is finite")
    return b(aten.where.self, b.gt(x, 0), x, b.mul(x, slope))


# --- integers ---------------------------------------------------------------------------------------------------------


@decomposition(aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default)
def rounded_integers(b: Builder, x: SSAValue) -> SSAValue | None:
    """Integers as they are"""
    return x if category_of(element(x)) < FLOATING else b.notify_match_failure("they are no integers")


def _integers(b: Builder, x: SSAValue, y: TensorOrScalar) -> tuple[SSAValue, SSAValue] | None:
    """Dividend and divisor in the type of the result, which is one of integers."""
    type = _declared(b)
    if category_of(type) >= FLOATING:
        return b.notify_match_failure("they are no integers")
    return b.cast(x, type), b.cast(y, type) if is_tensor(y) else b.as_tensor(y, type)


@decomposition(aten.remainder.Tensor, aten.remainder.Scalar, symint_args=("other",))
def remainder_of_integers(b: Builder, x: SSAValue, other: TensorOrScalar) -> SSAValue | None:
    """``x - floor_divide(x, y) * y``"""
    operands = _integers(b, x, other)
    return operands and _remainder(b, *operands)


def _remainder(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.sub(x, b.mul(b(aten.floor_divide.default, x, y), y))


@decomposition(aten.fmod.Tensor, aten.fmod.Scalar, symint_args=("other",))
def fmod_of_integers(b: Builder, x: SSAValue, other: TensorOrScalar) -> SSAValue | None:
    """The remainder that has the sign of ``y``, less ``y`` where ``x`` has the other one"""
    operands = _integers(b, x, other)
    if operands is None:
        return None
    rest, lower = _inexact_below(b, *operands)
    return b.sub(rest, b.mul(b.cast(lower, element(rest)), operands[1]))


@decomposition(aten.div.Tensor_mode, aten.div.Scalar_mode, symint_args=("other",))
def quotient_of_integers(b: Builder, x: SSAValue, other: TensorOrScalar, rounding_mode: str | None) -> SSAValue | None:
    """For ``trunc``, ``floor_divide``, and one more where that is below the quotient and negative"""
    operands = _integers(b, x, other) if rounding_mode == "trunc" else b.notify_match_failure("it is not truncated")
    if operands is None:
        return None
    _, lower = _inexact_below(b, *operands)
    return b.add(b(aten.floor_divide.default, *operands), b.cast(lower, element(operands[0])))


def _inexact_below(b: Builder, x: SSAValue, y: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The remainder of division that rounds down, and where rounding to 0 gives another one."""
    rest = _remainder(b, x, y)
    return rest, b.logical_and(b.ne(rest, 0), b.logical_xor(b.lt(x, 0), b.lt(y, 0)))


@decomposition(aten.pow.Tensor_Scalar)
def power_of_integers(b: Builder, x: SSAValue, exponent: float) -> SSAValue | None:
    """The product of the powers ``x``, ``x ** 2``, ``x ** 4``, ... that the bits of the exponent choose"""
    type = _declared(b)
    if category_of(type) >= FLOATING or exponent < 0:
        return b.notify_match_failure("it is no power of integers")
    power, found, left = b.cast(x, type), None, int(exponent)
    while left:
        if left % 2:
            found = power if found is None else b.mul(found, power)
        left //= 2
        if left:
            power = b.mul(power, power)
    return b.full(b.sizes(x), 1, type) if found is None else found


# --- sums -------------------------------------------------------------------------------------------------------------


@decomposition(aten.sum.dim_IntList)
def exact_sum(b: Builder, x: SSAValue, dim: Dims, keepdim: bool, dtype: Attribute | None) -> SSAValue | None:
    """The product with a matrix of ones, which adds in the type of the result; many of float32 in parts; a tensor of
    rank 0 as it is
    """
    type = _declared(b)
    if not rank(x):
        return b.cast(x, type)
    if type == f32:
        return _sum_of_parts(b, x, positions(x, dim), keepdim)
    if category_of(type) >= FLOATING and type != f64:
        return b.notify_match_failure("the result is neither of integers nor of float32 or float64")
    reduced = positions(x, dim)
    kept = [i for i in range(rank(x)) if i not in reduced]
    sizes = b.sizes(x)
    count = product([sizes[i] for i in reduced])
    rows = b.view(b.permute(b.cast(x, type), [*kept, *reduced]), [product([sizes[i] for i in kept]), count])
    total = b.mm(rows, b.full([count, 1], 1, type))
    return b.view(total, [sizes[i] if i in kept else 1 for i in range(rank(x)) if keepdim or i in kept])


@decomposition(aten.mean.default)
def mean_of_all_in_parts(b: Builder, x: SSAValue, dtype: Attribute | None) -> SSAValue | None:
    """``sum / count``, where the sum is one of parts"""
    return mean_of_parts(b, x, None, False, dtype)


@decomposition(aten.mean.dim)
def mean_of_parts(b: Builder, x: SSAValue, dim: Dims, keepdim: bool, dtype: Attribute | None) -> SSAValue | None:
    """``sum / count``, where the sum is one of parts"""
    reduced = positions(x, dim)
    total = _sum_of_parts(b, x, reduced, keepdim) if _declared(b) == f32 else None
    return total and b.div(total, float(math.prod(cast("list[int]", [dims(x)[i] for i in reduced]))))


def _sum_of_parts(b: Builder, x: SSAValue, reduced: list[int], keepdim: bool) -> SSAValue | None:
    """Sums of sums, of about the same number of elements each: float32 that is added one after the other loses a digit
    for each factor of ten. Sums that are still of many elements decompose in turn.
    """
    shape = dims(x)
    if element(x) != f32 or not all(isinstance(n, int) for n in shape):
        return b.notify_match_failure("the elements are not of float32, or their number is not known")
    sizes = cast("list[int]", list(shape))
    if math.prod(sizes[i] for i in reduced) <= MOST_IN_A_ROW:
        return b.notify_match_failure(f"they are no more than {MOST_IN_A_ROW}")
    longest = max(reduced, key=lambda i: sizes[i])
    size = sizes[longest]
    part = next((n for n in range(math.isqrt(size), 15, -1) if size % n == 0), 0)
    if len(reduced) > 1:
        # Along one dim after the other.
        x = b(aten.sum.dim_IntList, x, [longest], True)
        total = b(aten.sum.dim_IntList, x, [i for i in reduced if i != longest], True)
    elif part:
        x = b.view(x, [*sizes[:longest], size // part, part, *sizes[longest + 1 :]])
        x = b(aten.sum.dim_IntList, x, [longest + 1], False)
        total = b(aten.sum.dim_IntList, x, [longest], True)
    else:
        # No number divides it well: what is left over is a sum of its own.
        part = math.isqrt(size)
        whole = size // part * part
        pieces = (b.slice(x, longest, 0, whole), b.slice(x, longest, whole, None))
        total = b.add(*(b(aten.sum.dim_IntList, piece, reduced, True) for piece in pieces))
    return total if keepdim else b.view(total, [n for i, n in enumerate(sizes) if i not in reduced])


@decomposition(aten.cumsum.default)
def cumsum_of_halves(b: Builder, x: SSAValue, dim: int, dtype: Attribute | None) -> SSAValue | None:
    """In float32"""
    type = _declared(b)
    if type not in (f16, bf16) or not dims(x):
        return b.notify_match_failure("its result is not of 16 bits")
    return b.cast(b(aten.cumsum.default, b.cast(x, f32), dim), type)


@decomposition(aten.var.correction)
def variance_of_halves(b: Builder, x: SSAValue, dim: Dims, correction: float | None, keepdim: bool) -> SSAValue | None:
    """In float32"""
    if element(x) not in (f16, bf16):
        return b.notify_match_failure("they do not have 16 bits")
    wide = b(aten.var.correction, b.cast(x, f32), dim, correction=correction, keepdim=keepdim)
    return b.cast(wide, element(x))


@decomposition(aten.amax.default, aten.amin.default)
def extremum_of_nothing(b: Builder, x: SSAValue, dim: Dims, keepdim: bool) -> SSAValue | None:
    """An empty tensor"""
    sizes = dims(b.rewriter.root.results[0])
    if 0 not in sizes or not all(isinstance(d, int) for d in sizes):
        return b.notify_match_failure("its result has elements")
    return b.full([d for d in sizes if isinstance(d, int)], 0, element(x))
