"""Products of matrices and vectors, ``einsum`` and norms. Half precision is multiplied in float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.arguments import axes_of, axis_of
from etir.interpret.numpy_ops.dtype import (
    Array,
    Scalar,
    compute_dtype,
    float_dtype,
    is_integral,
    real_dtype,
    result_type,
    to,
)
from etir.interpret.numpy_ops.registry import op


def _same_dtype(*operands: Array) -> None:
    if any(x.dtype != operands[0].dtype for x in operands):
        raise ValueError(f"operands differ in dtype: {', '.join(str(x.dtype) for x in operands)}")


def _product(a: Array, b: Array) -> Array:
    """The matrix product in the dtype computed in; not yet rounded."""
    _same_dtype(a, b)
    dtype = compute_dtype(a.dtype)
    return np.matmul(to(a, dtype), to(b, dtype))


@op("aten.matmul.default", "aten.linalg_matmul.default")
def matmul(self: Array, other: Array) -> Array:
    return to(_product(self, other), self.dtype)


def _ranked(a: Array, b: Array, ranks: tuple[int, int]) -> None:
    if (a.ndim, b.ndim) != ranks:
        raise ValueError(f"needs operands of {ranks[0]} and {ranks[1]} dimensions, got {a.ndim} and {b.ndim}")


@op("aten.mm.default")
def mm(self: Array, mat2: Array) -> Array:
    _ranked(self, mat2, (2, 2))
    return matmul(self, mat2)


@op("aten.bmm.default")
def bmm(self: Array, mat2: Array) -> Array:
    _ranked(self, mat2, (3, 3))
    if self.shape[0] != mat2.shape[0]:
        raise ValueError(f"batches differ: {self.shape[0]} and {mat2.shape[0]}")
    return matmul(self, mat2)


@op("aten.mv.default")
def mv(self: Array, vec: Array) -> Array:
    _ranked(self, vec, (2, 1))
    return matmul(self, vec)


@op("aten.dot.default")
def dot(self: Array, tensor: Array) -> Array:
    _ranked(self, tensor, (1, 1))
    return matmul(self, tensor)


@op("aten.vdot.default")
def vdot(self: Array, other: Array) -> Array:
    _ranked(self, other, (1, 1))
    return matmul(np.conj(self), other)


@op("aten.outer.default", "aten.ger.default")
def outer(self: Array, vec2: Array) -> Array:
    dtype = result_type(self, vec2)
    return np.outer(to(self, dtype), to(vec2, dtype))


def _add_product(self: Array, product: Array, beta: Scalar, alpha: Scalar) -> Array:
    """beta * self + alpha * product; a ``beta`` of 0 means that ``self`` is not read, not even a NaN in it."""
    result = product if alpha == 1 else product * to(alpha, product.dtype)
    if beta != 0:
        result = result + to(self, product.dtype) * to(beta, product.dtype)
    if self.ndim > result.ndim:
        raise ValueError(f"{list(self.shape)} does not broadcast to {list(product.shape)}")
    return to(result, self.dtype)


@op("aten.addmm.default")
def addmm(self: Array, mat1: Array, mat2: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    _same_dtype(self, mat1)
    return _add_product(self, _product(mat1, mat2), beta, alpha)


@op("aten.addmv.default")
def addmv(self: Array, mat: Array, vec: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    return _add_product(self, _product(mat, vec), beta, alpha)


@op("aten.baddbmm.default")
def baddbmm(self: Array, batch1: Array, batch2: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    return _add_product(self, _product(batch1, batch2), beta, alpha)


@op("aten.addbmm.default")
def addbmm(self: Array, batch1: Array, batch2: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    return _add_product(self, _product(batch1, batch2).sum(0), beta, alpha)


@op("aten.addr.default")
def addr(self: Array, vec1: Array, vec2: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    dtype = compute_dtype(self.dtype)
    return _add_product(self, np.outer(to(vec1, dtype), to(vec2, dtype)), beta, alpha)


@op("aten.linear.default")
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    result = _product(input, weight.T)
    if bias is not None:
        result = result + to(bias, result.dtype)
    return to(result, input.dtype)


@op("etir.linear_add.default")
def linear_add(self: Array, input: Array, weight: Array, bias: Array | None = None) -> Array:
    """A linear layer plus a tensor of its result's shape."""
    return _added(self, linear(input, weight, bias))


@op("etir.matmul_add.default")
def matmul_add(self: Array, input: Array, other: Array) -> Array:
    """A product of matrices plus a tensor of its result's shape."""
    return _added(self, matmul(input, other))


def _added(self: Array, result: Array) -> Array:
    if self.shape != result.shape:
        raise ValueError(f"{list(self.shape)} is not the shape of the result, {list(result.shape)}")
    return to(to(self, compute_dtype(self.dtype)) + to(result, compute_dtype(self.dtype)), self.dtype)


@op("aten.bilinear.default")
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    result = einsum("...i,oij,...j->...o", [input1, weight, input2])
    return result if bias is None else result + bias


@op("aten.einsum.default")
def einsum(equation: str, tensors: Sequence[Array], *, path: Sequence[int] | None = None) -> Array:
    _same_dtype(*tensors)
    equation = equation.replace(" ", "")
    of_result = tensors[0].dtype
    if of_result.kind in "biu" and _sums_one_operand(equation):
        of_result = np.dtype(np.int64)
    dtype = compute_dtype(of_result)
    result = np.einsum(equation, *(to(x, dtype) for x in tensors), optimize="greedy")
    return to(result, of_result)


def _sums_one_operand(equation: str) -> bool:
    """Whether a dim of one operand alone is summed: as everywhere, sums of integers are int64, products are not."""
    inputs, arrow, output = equation.replace("...", ".").partition("->")
    operands = inputs.split(",")
    if not arrow:
        output = "".join(label for label in dict.fromkeys(inputs) if inputs.count(label) == 1) + "."
    return any(
        label not in output and sum(label in other for other in operands) == 1
        for operand in operands
        for label in operand
    )


@op("aten.tensordot.default")
def tensordot(self: Array, other: Array, dims_self: Sequence[int], dims_other: Sequence[int]) -> Array:
    """A dim of size 1 goes with one of any size: the other is summed first."""
    _same_dtype(self, other)
    dtype = compute_dtype(self.dtype)
    a, b = to(self, dtype), to(other, dtype)
    for axis_a, axis_b in zip(dims_self, dims_other, strict=True):
        if a.shape[axis_a] == 1:
            b = b.sum(axis_b, keepdims=True, dtype=dtype)
        elif b.shape[axis_b] == 1:
            a = a.sum(axis_a, keepdims=True, dtype=dtype)
    return to(np.tensordot(a, b, (list(dims_self), list(dims_other))), self.dtype)


@op("aten.inner.default")
def inner(self: Array, other: Array) -> Array:
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    return tensordot(self, other, [self.ndim - 1], [other.ndim - 1])


@op("aten.linalg_vecdot.default")
def linalg_vecdot(x: Array, y: Array, *, dim: int = -1) -> Array:
    a, b = np.broadcast_arrays(x, y)
    axis = axis_of(dim, a.ndim)
    return einsum("...i,...i->...", [np.moveaxis(np.conj(a), axis, -1), np.moveaxis(b, axis, -1)])


@op("aten.linalg_cross.default")
def linalg_cross(self: Array, other: Array, *, dim: int = -1) -> Array:
    dtype = result_type(self, other)
    a, b = np.broadcast_arrays(to(self, dtype), to(other, dtype))
    axis = axis_of(dim, a.ndim)
    if a.shape[axis] != 3:
        raise ValueError(f"dimension {dim} has size {a.shape[axis]}, a cross product needs 3")
    a0, a1, a2 = np.moveaxis(a, axis, 0)
    b0, b1, b2 = np.moveaxis(b, axis, 0)
    return np.moveaxis(np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0]), 0, axis)


def vector_norm(x: Array, order: Scalar, axes: tuple[int, ...], *, keepdims: bool) -> Array:
    """The norm of ``order`` over ``axes``, in double precision."""
    size = np.abs(to(x, np.result_type(x.dtype, np.float64)))
    if order == np.inf:
        return np.asarray(np.max(size, axis=axes, keepdims=keepdims))
    if order == -np.inf:
        return np.asarray(np.min(size, axis=axes, keepdims=keepdims))
    if order == 0:
        return np.asarray(np.sum(size != 0, axis=axes, keepdims=keepdims, dtype=np.float64))
    if order == 2:
        return np.sqrt(np.sum(size * size, axis=axes, keepdims=keepdims))
    return np.sum(size**order, axis=axes, keepdims=keepdims) ** (1 / order)


def _norm(x: Array, order: Scalar, dim: int | Sequence[int] | None, keepdim: bool, dtype: DTypeLike | None) -> Array:
    x = x if dtype is None else to(x, np.dtype(dtype))
    if is_integral(x.dtype):
        raise ValueError(f"a norm is not defined for {x.dtype}")
    return to(vector_norm(x, order, axes_of(dim, x.ndim), keepdims=keepdim), real_dtype(x.dtype))


@op("aten.linalg_vector_norm.default")
def linalg_vector_norm(
    self: Array,
    ord: Scalar = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    return _norm(self, ord, dim, keepdim, dtype)


@op("aten.norm.ScalarOpt_dim")
def norm(self: Array, p: Scalar | None, dim: int | Sequence[int], keepdim: bool = False) -> Array:
    return _norm(self, 2 if p is None else p, dim, keepdim, None)


@op("aten.norm.ScalarOpt_dim_dtype")
def norm_dtype(self: Array, p: Scalar | None, dim: int | Sequence[int], keepdim: bool, *, dtype: DTypeLike) -> Array:
    return _norm(self, 2 if p is None else p, dim, keepdim, dtype)


@op("aten.norm.Scalar")
def norm_of_all(self: Array, p: Scalar = 2) -> Array:
    return _norm(self, p, None, False, None)


@op("aten.linalg_norm.default")
def linalg_norm(
    self: Array,
    ord: Scalar | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """The norm of vectors; that of matrices only where it is the vector norm, without ``ord``."""
    if ord is not None and len(axes_of(dim, self.ndim)) > 1:
        raise ValueError(f"the matrix norm of order {ord} is not supported")
    return _norm(self, 2 if ord is None else ord, dim, keepdim, dtype)


@op("aten.frobenius_norm.dim")
def frobenius_norm(self: Array, dim: int | Sequence[int], keepdim: bool = False) -> Array:
    return _norm(self, 2, dim, keepdim, None)


@op("aten.pairwise_distance.default")
def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> Array:
    dtype = result_type(x1, x2)
    difference = to(to(x1, dtype) - to(x2, dtype), compute_dtype(float_dtype(dtype))) + eps
    return to(vector_norm(difference, p, (difference.ndim - 1,), keepdims=keepdim), real_dtype(float_dtype(dtype)))


@op("aten.cosine_similarity.default")
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-08) -> Array:
    dtype = result_type(x1, x2)
    a, b = np.broadcast_arrays(to(x1, compute_dtype(dtype)), to(x2, compute_dtype(dtype)))
    axes = axes_of(dim, a.ndim)
    a = a / np.maximum(vector_norm(a, 2, axes, keepdims=True), eps)
    b = b / np.maximum(vector_norm(b, 2, axes, keepdims=True), eps)
    return to(np.sum(a * b, axis=axes), dtype)


@op("aten.trace.default")
def trace(self: Array) -> Array:
    return np.asarray(np.trace(self, dtype=np.int64 if is_integral(self.dtype) else self.dtype))
