"""New tensors: constants, ranges, random numbers, and the ``empty`` family (which gives zeros, see the package).

Random operators draw from one generator that starts from seed 0, so a program gives the same numbers every time it is
run in a new process; :func:`seed` starts it anew. The numbers are not torch's: only their distribution is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.dtype import (
    DEFAULT_FLOAT,
    INT64,
    Array,
    Dtype,
    Scalar,
    as_dtype,
    category,
    compute_dtype,
    is_integral,
    result_type,
    scalar_dtype,
    to,
)
from etir.interpret.numpy_ops.registry import op

_random = [np.random.default_rng(0)]


def seed(value: int) -> None:
    """Start the sequence of random numbers again, from ``value``."""
    _random[0] = np.random.default_rng(value)


def generator() -> np.random.Generator:
    """The generator that random operators draw from."""
    return _random[0]


@op("aten.full.default")
def full(size: Sequence[int], fill_value: Scalar, *, dtype: DTypeLike | None = None) -> Array:
    return np.full(tuple(size), to(fill_value, as_dtype(dtype, scalar_dtype(fill_value))))


@op("aten.full_like.default")
def full_like(self: Array, fill_value: Scalar, *, dtype: DTypeLike | None = None) -> Array:
    return np.full(self.shape, to(fill_value, as_dtype(dtype, self.dtype)))


@op("aten.new_full.default")
def new_full(self: Array, size: Sequence[int], fill_value: Scalar, *, dtype: DTypeLike | None = None) -> Array:
    return full(size, fill_value, dtype=as_dtype(dtype, self.dtype))


@op("aten.zeros.default", "aten.empty.memory_format")
def zeros(size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return np.zeros(tuple(size), as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.ones.default")
def ones(size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return np.ones(tuple(size), as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.empty_strided.default")
def empty_strided(size: Sequence[int], stride: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return zeros(size, dtype=dtype)


@op("aten.empty_permuted.default")
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return zeros(size, dtype=dtype)


@op("dim_order_ops._empty_dim_order.default")
def empty_dim_order(
    size: Sequence[int], *, dtype: DTypeLike | None = None, dim_order: Sequence[int] | None = None
) -> Array:
    return zeros(size, dtype=dtype)


@op("aten.zeros_like.default", "aten.empty_like.default")
def zeros_like(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return np.zeros(self.shape, as_dtype(dtype, self.dtype))


@op("aten.ones_like.default")
def ones_like(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return np.ones(self.shape, as_dtype(dtype, self.dtype))


@op("aten.new_zeros.default", "aten.new_empty.default")
def new_zeros(self: Array, size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return np.zeros(tuple(size), as_dtype(dtype, self.dtype))


@op("aten.new_empty_strided.default")
def new_empty_strided(
    self: Array, size: Sequence[int], stride: Sequence[int], *, dtype: DTypeLike | None = None
) -> Array:
    return new_zeros(self, size, dtype=dtype)


@op("aten.new_ones.default")
def new_ones(self: Array, size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return np.ones(tuple(size), as_dtype(dtype, self.dtype))


@op("aten.scalar_tensor.default")
def scalar_tensor(s: Scalar, *, dtype: DTypeLike | None = None) -> Array:
    return to(s, as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.arange.start_step")
def arange(start: float, end: float, step: float = 1, *, dtype: DTypeLike | None = None) -> Array:
    bounds = (start, end, step)
    if step == 0:
        raise ValueError("step is 0")
    if (end - start) / step < 0:
        raise ValueError(f"a step of {step} does not lead from {start} to {end}")
    result = as_dtype(dtype, INT64 if all(isinstance(b, int) for b in bounds) else DEFAULT_FLOAT)
    if category(result) != 1:
        return to(start + step * np.arange(math.ceil((end - start) / step)), result)
    # Only int64 rounds the bounds before it counts; every integer dtype does before it steps.
    first, last, stride = (int(b) for b in bounds)
    span = (last - first) / stride if result == INT64 else (end - start) / step
    return to(first + stride * np.arange(math.ceil(span)), result)


@op("aten.arange.default")
def arange_to(end: float, *, dtype: DTypeLike | None = None) -> Array:
    return arange(0, end, dtype=dtype)


@op("aten.arange.start")
def arange_from(start: float, end: float, *, dtype: DTypeLike | None = None) -> Array:
    return arange(start, end, dtype=dtype)


@op("aten.linspace.default")
def linspace(start: Scalar, end: Scalar, steps: int, *, dtype: DTypeLike | None = None) -> Array:
    """Stepped from the nearer end, so that it is symmetric and both ends are exact; integers are cut, not rounded."""
    result = as_dtype(dtype, result_type(start, end, 0.0))
    if is_integral(result):
        start, end = int(start.real), int(end.real)
    step = (end - start) / max(steps - 1, 1)
    index = np.arange(steps)
    return to(np.where(index < steps / 2, start + step * index, end - step * (steps - 1 - index)), result)


@op("aten.eye.default")
def eye(n: int, *, dtype: DTypeLike | None = None) -> Array:
    return np.eye(n, dtype=as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.eye.m")
def eye_rectangle(n: int, m: int, *, dtype: DTypeLike | None = None) -> Array:
    return np.eye(n, m, dtype=as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.tril_indices.default")
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike | None = None) -> Array:
    return np.stack(np.tril_indices(row, offset, col)).astype(as_dtype(dtype, INT64))


@op("aten.triu_indices.default")
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DTypeLike | None = None) -> Array:
    return np.stack(np.triu_indices(row, offset, col)).astype(as_dtype(dtype, INT64))


@op("aten.fill.Scalar", "aten.fill.Tensor")
def fill(self: Array, value: Scalar | Array) -> Array:
    return np.full(self.shape, to(value, self.dtype))


@op("aten.rand.default")
def rand(size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return _uniform(tuple(size), as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.rand_like.default")
def rand_like(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return _uniform(self.shape, as_dtype(dtype, self.dtype))


def _uniform(shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Numbers in [0, 1): drawn in the dtype computed in, and kept below 1 where rounding would reach it."""
    if category(dtype) != 2:
        raise ValueError(f"random numbers in [0, 1) are not defined for {dtype}")
    drawn = to(generator().random(shape, dtype=np.float64), dtype)
    return np.minimum(drawn, np.nextafter(dtype.type(1), dtype.type(0)))


@op("aten.randn.default")
def randn(size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return to(generator().standard_normal(tuple(size)), as_dtype(dtype, DEFAULT_FLOAT))


@op("aten.randn_like.default")
def randn_like(self: Array, *, dtype: DTypeLike | None = None) -> Array:
    return randn(self.shape, dtype=as_dtype(dtype, self.dtype))


@op("aten.randint.default")
def randint(high: int, size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return randint_from(0, high, size, dtype=dtype)


@op("aten.randint.low")
def randint_from(low: int, high: int, size: Sequence[int], *, dtype: DTypeLike | None = None) -> Array:
    return to(generator().integers(low, high, tuple(size)), as_dtype(dtype, INT64))


@op("aten.randperm.default")
def randperm(n: int, *, dtype: DTypeLike | None = None) -> Array:
    return to(generator().permutation(n), as_dtype(dtype, INT64))


@op("aten.bernoulli.p")
def bernoulli(self: Array, p: float) -> Array:
    return to(generator().random(self.shape) < p, self.dtype)


@op("aten.normal_functional.default")
def normal_functional(self: Array, mean: float = 0.0, std: float = 1.0) -> Array:
    return to(mean + std * to(generator().standard_normal(self.shape), compute_dtype(self.dtype)), self.dtype)
