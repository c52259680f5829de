"""Operators that make tensors: most become ``full`` or ``arange``, which constant folding knows.

Uninitialized tensors become zeros: reading one is an error in the program, and zeros are the same on every run.
"""

from __future__ import annotations

import math
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TYPE, f32, i64
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.build.builder import Builder, Scalar, element, is_tensor, rank
from etir.lowering.decompose_aten.decomposition import ALL, decomposition

MAX_CONSTANT = 65536
"""Largest number of elements of a tensor that a decomposition writes into the text as a constant."""


def _filled(b: Builder, sizes: Any, value: Scalar) -> SSAValue:
    """``full`` with the declared result type, so that dynamic sizes need no inference."""
    type = b.declared
    if not isinstance(value, SSAValue):
        category = BY_TYPE[type.element_type].category
        if category < 3 or not value.imag:
            value = bool(value) if category == 0 else int(value.real) if category == 1 else float(value.real)
    return b(aten.full.default, sizes, value, dtype=type.element_type, types=[type])


@decomposition(aten.zeros.default, aten.empty.memory_format, symint_args=("size",))
def zeros(b: Builder, size: Any, *_options: object) -> SSAValue:
    """``full`` of 0"""
    return _filled(b, size, 0)


@decomposition(aten.ones.default, symint_args=("size",))
def ones(b: Builder, size: Any, *_options: object) -> SSAValue:
    """``full`` of 1"""
    return _filled(b, size, 1)


@decomposition(aten.zeros_like.default, aten.empty_like.default, aten.zero.default)
def zeros_like(b: Builder, x: SSAValue, *_options: object) -> SSAValue:
    """``full`` of 0 in the input's size"""
    return _filled(b, b.sizes(x), 0)


@decomposition(aten.ones_like.default)
def ones_like(b: Builder, x: SSAValue, *_options: object) -> SSAValue:
    """``full`` of 1 in the input's size"""
    return _filled(b, b.sizes(x), 1)


@decomposition(aten.full_like.default, symint_args=("fill_value",))
def full_like(b: Builder, x: SSAValue, value: Scalar, *_options: object) -> SSAValue:
    """``full`` in the input's size"""
    return _filled(b, b.sizes(x), value)


@decomposition(aten.new_zeros.default, aten.new_empty.default, symint_args=("size",))
def new_zeros(b: Builder, _x: SSAValue, size: Any, *_options: object) -> SSAValue:
    """``full`` of 0"""
    return _filled(b, size, 0)


@decomposition(aten.empty_strided.default, aten.empty_permuted.default, symint_args=("size", "stride"))
def empty(b: Builder, size: Any, *_options: object) -> SSAValue:
    """``full`` of 0"""
    return _filled(b, size, 0)


@decomposition(aten.new_empty_strided.default, symint_args=("size", "stride"))
def new_empty(b: Builder, _x: SSAValue, size: Any, *_options: object) -> SSAValue:
    """``full`` of 0"""
    return _filled(b, size, 0)


@decomposition(aten.new_ones.default, symint_args=("size",))
def new_ones(b: Builder, _x: SSAValue, size: Any, *_options: object) -> SSAValue:
    """``full`` of 1"""
    return _filled(b, size, 1)


@decomposition(aten.new_full.default, symint_args=("size", "fill_value"))
def new_full(b: Builder, _x: SSAValue, size: Any, value: Scalar, *_options: object) -> SSAValue:
    """``full``"""
    return _filled(b, size, value)


@decomposition(aten.fill.Scalar, symint_args=("value",))
def fill(b: Builder, x: SSAValue, value: Scalar) -> SSAValue:
    """``full`` in the input's size"""
    return _filled(b, b.sizes(x), value)


@decomposition(aten.fill.Tensor)
def fill_with_tensor(b: Builder, x: SSAValue, value: SSAValue) -> SSAValue:
    """The value in the input's type and size"""
    return b.expand(b.cast(value, element(x)), b.sizes(x))


@decomposition(aten.arange.default, aten.arange.start, symint_args=("start", "end"))
def arange(b: Builder, *values: Any) -> SSAValue:
    """``arange.start_step`` with a step of 1"""
    start, end = (0, values[0]) if isinstance(b.rewriter.root, aten.arange.default) else values[:2]
    type = b.declared
    return b(aten.arange.start_step, start, end, 1, dtype=type.element_type, types=[type])


@decomposition(aten.range.step, aten.range.default)
def inclusive_range(b: Builder, start: float, end: float, *rest: Any) -> SSAValue | None:
    """``arange`` to just beyond the end"""
    step = rest[0] if isinstance(b.rewriter.root, aten.range.step) else 1
    count = math.floor((end - start) / step) + 1
    type = b.declared
    return b(aten.arange.start_step, start, start + count * step, step, dtype=type.element_type, types=[type])


@decomposition(aten.linspace.default, symint_args=("start", "end"))
def linspace(b: Builder, start: Any, end: Any, steps: int, *_options: object) -> SSAValue | None:
    """Evenly spaced numbers, from both ends towards the middle so that both ends are exact; a constant if it can be"""
    if isinstance(start, SSAValue) or isinstance(end, SSAValue):
        return _spaced(b, start, end, steps)
    if steps > MAX_CONSTANT:
        return b.notify_match_failure(f"{steps} steps are too many for a constant")
    from etir.lowering.decompose_aten.constants import spaced

    row = BY_TYPE[b.declared.element_type]
    return _constant(b, spaced(start, end, steps, row.numpy_name if row.is_float and row.numpy_name else "float32"))


def _spaced(b: Builder, start: Scalar, end: Scalar, steps: int) -> SSAValue:
    """``linspace`` between scalars of which one is a runtime scalar."""
    type = element(b.rewriter.root.results[0])
    wide = type if BY_TYPE[type].is_float and BY_TYPE[type].numpy_name else f32
    first, last = (
        b.cast(b.as_tensor(v), wide) if isinstance(v, SSAValue) else b.as_tensor(v, wide) for v in (start, end)
    )
    if steps <= 1:
        return b.cast(b.expand(first, [steps]), type)
    step = b.div(b.sub(last, first), steps - 1)
    number = b.cast(b.arange(steps), wide)
    forward = b.add(first, b.mul(number, step))
    backward = b.sub(last, b.mul(b.rsub(number, steps - 1), step))
    return b.cast(b.where(b.lt(number, steps // 2), forward, backward), type)


def _constant(b: Builder, values: Any) -> SSAValue:
    """A NumPy array in the element type of the result."""
    return b.constant(values, b.declared.element_type)


@decomposition(aten.rand_like.default, aten.randn_like.default)
def rand_like(b: Builder, x: SSAValue, *_options: object) -> SSAValue:
    """``rand`` or ``randn`` in the input's size"""
    type = b.declared
    drawn = aten.rand.default if isinstance(b.rewriter.root, aten.rand_like.default) else aten.randn.default
    return b(drawn, b.sizes(x), dtype=type.element_type, types=[type])


@decomposition(aten.eye.default, aten.eye.m, symint_args=("n", "m"))
def eye(b: Builder, *sizes: Any) -> SSAValue:
    """``where(row == column, 1, 0)`` of two ranges"""
    rows, columns = (sizes[0], sizes[0]) if isinstance(b.rewriter.root, aten.eye.default) else sizes[:2]
    type = b.declared
    height, width = dims_of(type)
    row = column = b(aten.arange.start_step, 0, rows, 1, dtype=i64, types=[tensor_type(i64, [height])])
    if columns is not rows:
        column = b(aten.arange.start_step, 0, columns, 1, dtype=i64, types=[tensor_type(i64, [width])])
    return b.cast(b.eq(b.unsqueeze(row, 1), column), type.element_type)


@decomposition(aten.tril_indices.default, aten.triu_indices.default)
def triangle_indices(b: Builder, rows: int, columns: int, offset: int, *_options: object) -> SSAValue | None:
    """Row and column numbers of a triangle; a constant."""
    from etir.lowering.decompose_aten.constants import triangle_indices as indices

    if 2 * rows * columns > MAX_CONSTANT:
        return b.notify_match_failure("there are too many indices for a constant")
    return _constant(b, indices(rows, columns, offset, lower=isinstance(b.rewriter.root, aten.tril_indices.default)))


_WINDOWS = {"hann": (0.5, 0.5), "hamming": (0.54, 0.46)}


@decomposition(aten.hann_window.default, aten.hamming_window.default)
def window(b: Builder, length: int, *_options: object) -> SSAValue | None:
    """``alpha - beta * cos(2 * pi * n / length)``; a constant."""
    return _window(b, length, True)


@decomposition(aten.hann_window.periodic, aten.hamming_window.periodic)
def periodic_window(b: Builder, length: int, periodic: bool, *_options: object) -> SSAValue | None:
    """A window that is periodic or symmetric; a constant."""
    return _window(b, length, periodic)


def _window(b: Builder, length: int, periodic: bool) -> SSAValue | None:
    if length > MAX_CONSTANT:
        return b.notify_match_failure(f"{length} values are too many for a constant")
    from etir.lowering.decompose_aten.constants import cosine_window

    alpha, beta = _WINDOWS[b.rewriter.root.name.removeprefix("aten.").split("_")[0]]
    return _constant(b, cosine_window(length, alpha, beta, periodic=periodic))


@decomposition(aten.one_hot.default)
def one_hot(b: Builder, x: SSAValue, classes: int) -> SSAValue | None:
    """``x == arange(classes)``, as i64"""
    if classes < 0:
        return b.notify_match_failure("the number of classes depends on the data")
    return b.cast(b.eq(b.unsqueeze(x, rank(x)), b.arange(classes)), i64)


@decomposition(aten.scalar_tensor.default, symint_args=ALL)
def scalar_tensor(b: Builder, value: Scalar, *_options: object) -> SSAValue:
    """``full`` without dims"""
    assert not is_tensor(value)
    return _filled(b, [], value)
