"""Variances, norms, distances and similarities."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.build.builder import Builder, element, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.promotion import FLOATING, category_of, result_type
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.reduction import Dims, positions

# --- variance ---------------------------------------------------------------------------------------------------------


def _variance(b: Builder, x: SSAValue, dim: Dims, correction: float | None, keepdim: bool) -> SSAValue:
    correction = 1 if correction is None else correction
    return b(aten.var.correction, x, positions(x, dim), correction=correction, keepdim=keepdim)


def _mean(b: Builder, x: SSAValue, dim: Dims, keepdim: bool) -> SSAValue:
    return b.mean(x, positions(x, dim), keepdim)


def _finished(b: Builder, variance: SSAValue) -> SSAValue:
    """The variance, or its root for the ``std`` forms."""
    return b.sqrt(variance) if b.rewriter.root.name.startswith("aten.std") else variance


@decomposition(aten.var.default, aten.std.default)
def variance_of_all(b: Builder, x: SSAValue, unbiased: bool) -> SSAValue:
    """``var.correction``"""
    return _finished(b, _variance(b, x, None, int(unbiased), False))


@decomposition(aten.var.dim, aten.std.dim)
def variance_along(b: Builder, x: SSAValue, dim: Dims, unbiased: bool, keepdim: bool) -> SSAValue:
    """``var.correction``"""
    return _finished(b, _variance(b, x, dim, int(unbiased), keepdim))


@decomposition(aten.std.correction)
def deviation(b: Builder, x: SSAValue, dim: Dims, correction: float | None, keepdim: bool) -> SSAValue:
    """The root of ``var.correction``"""
    return _finished(b, _variance(b, x, dim, correction, keepdim))


def _with_mean(b: Builder, x: SSAValue, dim: Dims, correction: float | None, keepdim: bool) -> Sequence[SSAValue]:
    """``var_mean.correction``, or the root of the variance and the mean"""
    if b.rewriter.root.name.startswith("aten.std"):
        return [_finished(b, _variance(b, x, dim, correction, keepdim)), _mean(b, x, dim, keepdim)]
    return b.results(aten.var_mean.correction, x, positions(x, dim), correction=correction, keepdim=keepdim)


@decomposition(aten.var_mean.default, aten.std_mean.default)
def variance_and_mean_of_all(b: Builder, x: SSAValue, unbiased: bool) -> Sequence[SSAValue]:
    """``var_mean.correction``, or the root of the variance and the mean"""
    return _with_mean(b, x, None, int(unbiased), False)


@decomposition(aten.var_mean.dim, aten.std_mean.dim)
def variance_and_mean_along(b: Builder, x: SSAValue, dim: Dims, unbiased: bool, keepdim: bool) -> Sequence[SSAValue]:
    """``var_mean.correction``, or the root of the variance and the mean"""
    return _with_mean(b, x, dim, int(unbiased), keepdim)


@decomposition(aten.var_mean.correction, aten.std_mean.correction)
def variance_and_mean(b: Builder, x: SSAValue, dim: Dims, correction: float | None, keepdim: bool) -> list[SSAValue]:
    """``var.correction`` and ``mean``"""
    return [_finished(b, _variance(b, x, dim, correction, keepdim)), _mean(b, x, dim, keepdim)]


# --- norms ------------------------------------------------------------------------------------------------------------


def vector_norm(b: Builder, x: SSAValue, order: float | None, dim: Dims, keepdim: bool) -> SSAValue:
    """``(sum |x| ** order) ** (1 / order)``, with the limits for 0 and infinity."""
    order = 2 if order is None else order
    reduced = positions(x, dim)
    if order == 2:
        return b.sqrt(b.sum(b.mul(x, x), reduced, keepdim))
    if order == 0:
        return b(aten.sum.dim_IntList, b.ne(x, 0), reduced, keepdim, dtype=element(x))
    magnitude = b.abs(x)
    if math.isinf(order):
        return b(aten.amax.default if order > 0 else aten.amin.default, magnitude, reduced, keepdim)
    if order == 1:
        return b.sum(magnitude, reduced, keepdim)
    return b.pow(b.sum(b.pow(magnitude, order), reduced, keepdim), 1 / order)


def _real(b: Builder, x: SSAValue, dtype: Attribute | None) -> SSAValue | None:
    """``x`` in the type of the norm, or None for a complex one."""
    if category_of(element(x)) > FLOATING:
        return b.notify_match_failure("it is complex")
    return x if dtype is None else b.cast(x, dtype)


@decomposition(aten.linalg_vector_norm.default, aten.linalg_norm.default, in_float=True)
def vector_norm_of_type(
    b: Builder, x: SSAValue, order: float | None, dim: Dims, keepdim: bool, dtype: Attribute | None
) -> SSAValue | None:
    """A norm over all dims, or over the given ones; of matrices the Frobenius norm, or ``linalg_matrix_norm``"""
    matrix = isinstance(b.rewriter.root, aten.linalg_norm.default) and order is not None
    if matrix and len(positions(x, dim)) == 2 and not isinstance(dim, int):
        if order not in (2, -2):
            return b.notify_match_failure("it is a norm of matrices")
        type = tensor_type(element(x) if dtype is None else dtype, dims_of(b.declared))
        return b(aten.linalg_matrix_norm.default, x, order, positions(x, dim), keepdim, dtype=dtype, types=[type])
    real = _real(b, x, dtype)
    return None if real is None else vector_norm(b, real, order, dim, keepdim)


@decomposition(aten.norm.Scalar, in_float=True)
def norm_of_all(b: Builder, x: SSAValue, order: float) -> SSAValue | None:
    """A norm over all dims"""
    real = _real(b, x, None)
    return None if real is None else vector_norm(b, real, order, None, False)


@decomposition(aten.norm.ScalarOpt_dtype, in_float=True)
def norm_of_all_in_type(b: Builder, x: SSAValue, order: float | None, dtype: Attribute) -> SSAValue | None:
    """A norm over all dims"""
    real = _real(b, x, dtype)
    return None if real is None else vector_norm(b, real, order, None, False)


@decomposition(aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dim_dtype, in_float=True)
def norm_along(
    b: Builder, x: SSAValue, order: float | None, dim: Dims, keepdim: bool, dtype: Attribute | None = None
) -> SSAValue | None:
    """A norm over dims"""
    real = _real(b, x, dtype)
    return None if real is None else vector_norm(b, real, order, dim, keepdim)


@decomposition(aten.frobenius_norm.dim, in_float=True)
def frobenius_norm(b: Builder, x: SSAValue, dim: Sequence[int], keepdim: bool) -> SSAValue | None:
    """The norm of order 2"""
    real = _real(b, x, None)
    return None if real is None else vector_norm(b, real, 2, dim, keepdim)


@decomposition(aten.linalg_matrix_norm.str_ord, aten.linalg_norm.ord_str, in_float=True)
def matrix_norm(
    b: Builder, x: SSAValue, order: str, dim: Dims, keepdim: bool, dtype: Attribute | None
) -> SSAValue | None:
    """The norm of order 2, for Frobenius"""
    if order != "fro":
        return b.notify_match_failure("it needs singular values")
    real = _real(b, x, dtype)
    return None if real is None else vector_norm(b, real, 2, dim, keepdim)


# --- quantiles --------------------------------------------------------------------------------------------------------


@decomposition(aten.quantile.scalar, aten.nanquantile.scalar)
def quantile_of_number(
    b: Builder, x: SSAValue, q: float, dim: int | None, keepdim: bool, interpolation: str
) -> SSAValue:
    """The form whose quantile is a tensor"""
    operator = aten.nanquantile.default if "nan" in b.rewriter.root.name else aten.quantile.default
    wanted = b.full([], float(q), element(x))
    return b(operator, x, wanted, dim, keepdim, interpolation=interpolation, types=[b.declared])


# --- distances --------------------------------------------------------------------------------------------------------


def _norm_of_difference(b: Builder, x: SSAValue, order: float, dim: int | None, keepdim: bool) -> SSAValue:
    if category_of(element(x)) > FLOATING:
        dims = None if dim is None else [dim]
        return b(aten.linalg_vector_norm.default, x, order, dims, keepdim, types=[b.declared])
    return vector_norm(b, x, order, dim, keepdim)


@decomposition(aten.dist.default, in_float=True)
def dist(b: Builder, x: SSAValue, y: SSAValue, order: float) -> SSAValue:
    """The norm of the difference"""
    return _norm_of_difference(b, b.sub(x, y), order, None, False)


@decomposition(aten.pairwise_distance.default, in_float=True)
def pairwise_distance(b: Builder, x: SSAValue, y: SSAValue, order: float, eps: float, keepdim: bool) -> SSAValue:
    """The norm of ``x - y + eps`` along the last dim"""
    return _norm_of_difference(b, b.add(b.sub(x, y), eps), order, -1, keepdim)


@decomposition(aten.cosine_similarity.default, in_float=True)
def cosine_similarity(b: Builder, x: SSAValue, y: SSAValue, dim: int, eps: float) -> SSAValue:
    """``sum(x * y) / (max(|x|, eps) * max(|y|, eps))``"""
    common = result_type((x, y))
    x, y = b.cast(x, common), b.cast(y, common)
    x, y = b.broadcast(x, y)
    position = wrap(dim, rank(x))
    lengths = [b.clamp(vector_norm(b, t, 2, position, False), eps) for t in (x, y)]
    return b.div(b.sum(b.mul(x, y), [position]), b.mul(*lengths))
