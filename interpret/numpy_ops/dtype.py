"""Dtypes as torch sees them: promotion, conversion and the dtype to compute in.

NumPy's own rules differ from torch's in almost every mixed case (int32 + float32 is float64 in NumPy), so none of the
operators relies on them: they ask :func:`result_type`, convert with :func:`to` and then compute.

The promotion algorithm is that of torch's documentation ("Tensor Attributes", section ``torch.dtype``): operands fall
into three priorities, tensors with dimensions, tensors without, and Python scalars; a lower priority only counts when
its category (bool < integral < floating < complex) is above that of every higher priority.

bfloat16 is the one torch dtype in common use that NumPy lacks. It is supported through ``ml_dtypes`` where that is
installed; :func:`bfloat16` raises ``EtirError`` (E1051) where it is not.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from etir.interpret.numpy_ops.errors import E1051

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Dtype: TypeAlias = np.dtype[Any]
Scalar: TypeAlias = bool | int | float | complex
Operand: TypeAlias = Array | Scalar

BOOL: Dtype = np.dtype(np.bool_)
INT32: Dtype = np.dtype(np.int32)
INT64: Dtype = np.dtype(np.int64)
FLOAT16: Dtype = np.dtype(np.float16)
FLOAT32: Dtype = np.dtype(np.float32)
FLOAT64: Dtype = np.dtype(np.float64)
COMPLEX64: Dtype = np.dtype(np.complex64)
COMPLEX128: Dtype = np.dtype(np.complex128)

DEFAULT_FLOAT = FLOAT32
"""torch's default dtype, and so that of programs which do not name one."""

_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def bfloat16() -> Dtype:
    """The bfloat16 dtype. Raises ``EtirError`` (E1051) when ``ml_dtypes`` is not installed."""
    try:
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError as error:
        raise E1051.error("a bfloat16 value has to be represented, and ml_dtypes is not installed") from error


def dtype_named(name: str) -> Dtype:
    """The dtype that torch calls ``name``: ``float32``, ``bool``, ``bfloat16``. Raises ``EtirError`` (E1051)."""
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def category(dtype: Dtype) -> int:
    """0 for bool, 1 for integers, 2 for floating point (bfloat16 too), 3 for complex."""
    return 2 if dtype.name == "bfloat16" else _CATEGORY[dtype.kind]


def is_integral(dtype: Dtype) -> bool:
    """Whether ``dtype`` is an integer or bool: what torch calls integral."""
    return category(dtype) <= 1


def is_complex(dtype: Dtype) -> bool:
    """Whether ``dtype`` is complex."""
    return dtype.kind == "c"


def is_reduced(dtype: Dtype) -> bool:
    """Whether ``dtype`` is float16 or bfloat16."""
    return dtype == FLOAT16 or dtype.name == "bfloat16"


def compute_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which arithmetic on ``dtype`` is done: float32 for float16 and bfloat16, else ``dtype``."""
    return FLOAT32 if is_reduced(dtype) else dtype


def accumulate_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which sums over ``dtype`` are accumulated: double precision, int64 for integers."""
    return (INT64, INT64, FLOAT64, COMPLEX128)[category(dtype)]


def real_dtype(dtype: Dtype) -> Dtype:
    """The dtype of the parts of a complex ``dtype``; any other ``dtype`` itself."""
    return {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}.get(dtype, dtype)


def complex_dtype(dtype: Dtype) -> Dtype:
    """The complex dtype whose parts are ``dtype``: complex64 for anything but float64 and complex128."""
    return COMPLEX128 if dtype in (FLOAT64, COMPLEX128) else COMPLEX64


def float_dtype(dtype: Dtype) -> Dtype:
    """What a function such as ``sin`` returns: ``dtype``, but the default float for integers and bool."""
    return DEFAULT_FLOAT if is_integral(dtype) else dtype


def sum_dtype(dtype: Dtype) -> Dtype:
    """What ``sum`` and ``prod`` return when no dtype is asked for: int64 for integers and bool."""
    return INT64 if is_integral(dtype) else dtype


def promote_types(a: Dtype, b: Dtype) -> Dtype:
    """torch.promote_types: the smallest dtype of the higher category that both convert to."""
    if a == b:
        return a
    low, high = sorted((a, b), key=category)
    if category(low) == category(high):
        if is_reduced(low) and is_reduced(high):
            return FLOAT32
        if is_reduced(low) or is_reduced(high):
            return high if is_reduced(low) else low
        return np.promote_types(low, high)
    if is_complex(high) and low == FLOAT64:
        return COMPLEX128
    return high


def scalar_dtype(value: Scalar) -> Dtype:
    """The dtype that torch gives a tensor made of a Python scalar."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return INT64
    return COMPLEX64 if isinstance(value, complex) else DEFAULT_FLOAT


def dtype_of(operand: Operand) -> Dtype:
    """The dtype of a tensor or of the tensor that torch would make of a Python scalar."""
    return operand.dtype if isinstance(operand, (np.ndarray, np.generic)) else scalar_dtype(operand)


def result_type(*operands: Operand | None) -> Dtype:
    """torch.result_type of any number of tensors and Python scalars; ``None`` operands do not count."""
    with_dims: Dtype | None = None
    without_dims: Dtype | None = None
    wrapped: Dtype | None = None
    for operand in operands:
        if operand is None:
            continue
        dtype = dtype_of(operand)
        if not isinstance(operand, (np.ndarray, np.generic)):
            wrapped = _promote(wrapped, dtype)
        elif operand.ndim:
            with_dims = _promote(with_dims, dtype)
        else:
            without_dims = _promote(without_dims, dtype)
    result = _combine(with_dims, _combine(without_dims, wrapped))
    if result is None:
        raise ValueError("needs at least one operand")
    return result


def promoted(function: Callable[[Array, Array], Array]) -> Callable[[Operand, Operand], Array]:
    """``function`` of two operands that are converted to their common dtype, :func:`result_type`."""

    def apply(self: Operand, other: Operand) -> Array:
        dtype = result_type(self, other)
        return function(to(self, dtype), to(other, dtype))

    return apply


def _promote(a: Dtype | None, b: Dtype | None) -> Dtype | None:
    if a is None or b is None:
        return b if a is None else a
    return promote_types(a, b)


def _combine(higher: Dtype | None, lower: Dtype | None) -> Dtype | None:
    """The dtype of two priorities: the higher one's, unless the lower one has a higher category."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if category(higher) == 2 and is_complex(lower):
        return complex_dtype(higher)
    if category(higher) >= category(lower):
        return higher
    return promote_types(higher, lower)


def as_dtype(dtype: DTypeLike | None, default: Dtype) -> Dtype:
    """A ``ScalarType?`` argument: ``default`` when it is not given."""
    return default if dtype is None else np.dtype(dtype)


def to(value: Operand, dtype: Dtype) -> Array:
    """``value`` converted as ``Tensor.to`` does: C truncation to integers, any non-zero (NaN too) is True.

    Python integers out of the dtype's range wrap around. An array that already has ``dtype`` is returned as it is.
    """
    array = np.asarray(value)
    if array.dtype == dtype:
        return array
    if is_complex(array.dtype) and not is_complex(dtype):
        return to((array != 0) if dtype == BOOL else np.real(array), dtype)
    if dtype.kind == "u" and category(array.dtype) == 2 and dtype.itemsize < 8:
        return array.astype(INT64).astype(dtype)
    return array.astype(dtype)


def operands_in_compute_dtype(*operands: Operand) -> tuple[list[Array], Dtype]:
    """The operands converted for arithmetic, and the dtype that its result is converted to."""
    dtype = result_type(*operands)
    return [to(x, compute_dtype(dtype)) for x in operands], dtype


def total(x: Array, axes: tuple[int, ...] | None = None, *, keepdims: bool = False) -> Array:
    """The sum of ``x`` over ``axes`` (all when ``None``) in :func:`accumulate_dtype`."""
    return np.asarray(np.sum(x, axis=axes, dtype=accumulate_dtype(x.dtype), keepdims=keepdims))


def average(x: Array, axes: tuple[int, ...] | None = None, *, keepdims: bool = False) -> Array:
    """The mean of ``x`` over ``axes`` (all when ``None``) in :func:`accumulate_dtype`; NaN over nothing."""
    count = math.prod(x.shape[axis] for axis in (range(x.ndim) if axes is None else axes))
    return np.true_divide(total(x, axes, keepdims=keepdims), count)
