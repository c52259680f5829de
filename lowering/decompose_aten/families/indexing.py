"""Operators that read or write elements at positions given by tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import bf16, f16, f32, f64, i1, i32, i64
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.build.builder import Builder, Scalar, TensorOrScalar, dims, element, is_tensor, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.inference import size_as_dim
from etir.lowering.build.promotion import FLOATING, category_of, result_type
from etir.lowering.build.sizes import SizeLike, dim, product
from etir.lowering.decompose_aten.constants import window_positions
from etir.lowering.decompose_aten.decomposition import decomposition, rename

rename(
    [
        (aten._unsafe_index.Tensor, aten.index.Tensor),
        (aten._unsafe_index_put.default, aten.index_put.default),
        (aten.argwhere.default, aten.nonzero.default),
    ]
)


@decomposition(aten.nonzero_numpy.default)
def nonzero_numpy(b: Builder, x: SSAValue) -> Sequence[SSAValue]:
    """The columns of ``nonzero``; a tensor without dims counts as one with a single element"""
    x = b.view(x, [1]) if rank(x) == 0 else x
    row = b.declared
    (count,) = dims_of(row)
    found = b(aten.nonzero.default, x, types=[tensor_type(i64, [count, rank(x)])])
    return [b(aten.select.int, found, 1, i, types=[row]) for i in range(rank(x))]


@decomposition(aten._index_put_impl.default)
def index_put_impl(
    b: Builder, x: SSAValue, indices: Sequence[SSAValue | None], values: SSAValue, accumulate: bool, _unsafe: bool
) -> SSAValue:
    """``index_put``"""
    return b(aten.index_put.default, x, indices, values, accumulate)


@decomposition(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor, symint_args=("value",))
def index_fill(b: Builder, x: SSAValue, dim: int, index: SSAValue, value: Scalar) -> SSAValue:
    """``index_put`` of one value"""
    source = b.cast(value, element(x)) if is_tensor(value) else b.as_tensor(value, element(x))  # type: ignore[arg-type]
    return _put(b, x, dim, index, source, False)


@decomposition(aten.index_copy.default)
def index_copy(b: Builder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue) -> SSAValue:
    """``index_put`` along one dim"""
    return _put(b, x, dim, index, source, False)


@decomposition(aten.index_add.default)
def index_add(b: Builder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, alpha: float) -> SSAValue:
    """``index_put`` along one dim, adding"""
    return _put(b, x, dim, index, source if alpha == 1 else b.mul(source, alpha), True)


def _put(b: Builder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, accumulate: bool) -> SSAValue:
    if rank(x) == 0:
        put = _put(b, b.view(x, [1]), 0, b.view(index, [-1]), b.view(source, [-1]), accumulate)
        return b.view(put, [])
    position = wrap(dim, rank(x))
    if rank(index) == 0:
        index = b.view(index, [1])
        if rank(source) == rank(x) - 1 and rank(source):
            source = b.unsqueeze(source, position)
    return b(aten.index_put.default, x, [*[None] * position, index], source, accumulate)


@decomposition(aten.take.default)
def take(b: Builder, x: SSAValue, index: SSAValue) -> SSAValue:
    """``index`` of the flattened tensor"""
    return b(aten.index.Tensor, b.view(x, [-1]), [index])


@decomposition(aten.put.default)
def put(b: Builder, x: SSAValue, index: SSAValue, source: SSAValue, accumulate: bool) -> SSAValue:
    """``index_put`` of the flattened tensor"""
    flat = b(aten.index_put.default, b.view(x, [-1]), [b.view(index, [-1])], b.view(source, [-1]), accumulate)
    return b.view(flat, b.sizes(x))


@decomposition(aten.scatter.value)
def scatter_complex(b: Builder, x: SSAValue, dim: int, index: SSAValue, value: Scalar) -> SSAValue | None:
    """``scatter`` of a tensor of the complex number, which is no argument of a kernel"""
    if not isinstance(value, complex):
        return b.notify_match_failure("the number is real")
    return b(aten.scatter.src, x, dim, index, b.full(b.sizes(index), value, element(x)))


@decomposition(aten.scatter.reduce)
def scatter_reduced(b: Builder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, reduce: str) -> SSAValue:
    """``scatter_add``, or ``scatter_reduce`` of products"""
    if reduce == "add":
        return b(aten.scatter_add.default, x, dim, index, source)
    return b(aten.scatter_reduce.two, x, dim, index, source, "prod")


@decomposition(aten.scatter.value_reduce)
def scatter_value_reduced(b: Builder, x: SSAValue, dim: int, index: SSAValue, value: float, reduce: str) -> SSAValue:
    """``scatter_add`` of a constant, or ``scatter_reduce`` of products"""
    return scatter_reduced(b, x, dim, index, b.full(b.sizes(index), value, element(x)), reduce)


@decomposition(aten.nonzero_numpy.default, aten.where.default)
def nonzero_by_dim(b: Builder, x: SSAValue) -> Sequence[SSAValue] | None:
    """The columns of ``nonzero``"""
    results = b.rewriter.root.results
    if rank(x) == 0:
        return b.notify_match_failure("a scalar counts as a vector")
    count = dims(results[0])[0]
    positions = b(aten.nonzero.default, x, types=[tensor_type(i64, [count, rank(x)])])
    return [b(aten.select.int, positions, 1, i, types=[r.type]) for i, r in enumerate(results)]


# --- search -----------------------------------------------------------------------------------------------------------


@decomposition(
    aten.isin.Tensor_Tensor,
    aten.isin.Tensor_Scalar,
    aten.isin.Scalar_Tensor,
    symint_args=("elements", "element", "test_elements", "test_element"),
)
def isin(b: Builder, elements: TensorOrScalar, tests: TensorOrScalar, _unique: bool, invert: bool) -> SSAValue:
    """Whether any of the tests is equal; of many tests, those that a search among them in order finds"""
    if not is_tensor(tests):
        assert isinstance(elements, SSAValue)
        return b.compare("ne" if invert else "eq", elements, tests)
    assert isinstance(tests, SSAValue)
    flat = b.view(tests, [-1])
    count = b.largest(dims(flat)[0])
    if is_tensor(elements) and (count is None or count > FEW_TESTS):
        type = result_type((elements, tests))
        if type != i1 and category_of(type) <= FLOATING:
            found = _among_sorted(b, b.cast(elements, type), b.cast(flat, type))
            return b.logical_not(found) if invert else found
    equal = b.eq(b.unsqueeze(elements, rank(elements)), flat) if is_tensor(elements) else b.eq(flat, elements)
    found = b(aten.any.dim, equal, rank(equal) - 1)
    return b.logical_not(found) if invert else found


FEW_TESTS = 64
"""With how many each element is compared, which takes a byte for each pair."""


def _among_sorted(b: Builder, x: SSAValue, tests: SSAValue) -> SSAValue:
    """Whether the first test that is not less is equal. The least test stands for a NaN, which a search cannot pass."""
    is_any = None
    if category_of(element(tests)) == FLOATING:
        is_number = b.eq(tests, tests)
        is_any = b(aten.any.dim, is_number, 0)
        least = b(aten.amin.default, b.where(is_number, tests, math.inf), [0])
        tests = b.where(is_number, tests, least)
    ordered = b.results(aten.sort.default, tests, 0, False)[0]
    place = b(aten.searchsorted.Tensor, ordered, x, types=[tensor_type(i64, dims(x))])
    ordered = b(aten.constant_pad_nd.default, ordered, [0, 1], 0)  # One more, for what lies after all of them.
    nearest = b.view(b(aten.index_select.default, ordered, 0, b.view(place, [-1])), b.sizes(x))
    found = b.logical_and(b.eq(nearest, x), b.lt(place, b.scalar(b.size(tests, 0))))
    return found if is_any is None else b.logical_and(found, is_any)


@decomposition(aten.bucketize.Tensor, aten.bucketize.Scalar, symint_args=("self",))
def bucketize(b: Builder, x: Scalar, boundaries: SSAValue, out_int32: bool, right: bool) -> SSAValue:
    """How many boundaries lie before each value"""
    values = x if is_tensor(x) else b.as_tensor(x, result_type((x, boundaries)))
    assert isinstance(values, SSAValue)
    return _count_before(b, boundaries, values, out_int32, right)


@decomposition(aten.searchsorted.Tensor)
def searchsorted(
    b: Builder, sequence: SSAValue, x: SSAValue, out_int32: bool, right: bool, side: str | None, sorter: SSAValue | None
) -> SSAValue:
    """How many elements of the sequence lie before each value"""
    if sorter is not None:
        sequence = b(aten.gather.default, sequence, rank(sequence) - 1, sorter)
    return _count_before(b, sequence, x, out_int32, right or side == "right")


@decomposition(aten.searchsorted.Scalar, symint_args=("self",))
def searchsorted_of_number(
    b: Builder, sequence: SSAValue, x: Scalar, out_int32: bool, right: bool, side: str | None, sorter: SSAValue | None
) -> SSAValue:
    """``searchsorted`` of a tensor without dims"""
    values = b.as_tensor(x, result_type((x, sequence)))
    return searchsorted(b, sequence, values, out_int32, right, side, sorter)


MOST_STEPS = 62
"""Halvings of a sequence whose length has no upper bound."""


def _count_before(b: Builder, sequence: SSAValue, x: SSAValue, out_int32: bool, right: bool) -> SSAValue:
    """Binary search, all values at once: ``not (sequence[middle] >= x)``, or ``>``, goes on in the upper half, so that
    a NaN comes after everything. The middles are torch's, which decide where the sequence is not sorted.
    """
    sizes, last = b.sizes(x), rank(sequence) - 1
    length = b.largest(dims(sequence)[last])
    if last == 0:
        x = b.view(x, [-1])
    low = b.full(b.sizes(x), 0, i64)
    high = b.full(b.sizes(x), b.scalar(b.size(sequence, last)), i64)
    # One element more, which a search that has come to the end may read; what it finds there changes nothing.
    sequence = b(aten.constant_pad_nd.default, sequence, [0, 1], 0)
    for _ in range(MOST_STEPS if length is None else length.bit_length()):
        middle = b(aten.floor_divide.default, b.add(low, high), 2)
        at_or_after = b.compare("gt" if right else "ge", b(aten.gather.default, sequence, last, middle), x)
        ended = b.ge(low, high)
        low = b(aten.where.self, b.logical_or(at_or_after, ended), low, b.add(middle, 1))
        high = b(aten.where.self, at_or_after, middle, high)
    found = b.view(low, sizes)
    return b.cast(found, i32) if out_int32 else found


# --- windows and bags -------------------------------------------------------------------------------------------------


@decomposition(aten.im2col.default)
def im2col(
    b: Builder,
    x: SSAValue,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> SSAValue:
    """``index`` of rows and columns of the windows, whose contents become channels"""
    *outer, height, width = b.sizes(x)
    counts: list[SizeLike] = []
    for i, size in enumerate((height, width)):
        reach = dilation[i] * (kernel[i] - 1) + 1
        counts.append((size + (2 * padding[i] - reach)) // stride[i] + 1)
    if any(padding):
        x = b(aten.constant_pad_nd.default, x, [padding[1], padding[1], padding[0], padding[0]], 0)
    rows, columns = (_window_positions(b, counts[i], kernel[i], stride[i], dilation[i]) for i in range(2))
    rows = b.view(rows, [kernel[0], counts[0], 1, 1])
    windows = b(aten.index.Tensor, x, [*[None] * len(outer), rows, columns])
    n = len(outer)
    ordered = b.permute(windows, [*range(n), n, n + 2, n + 1, n + 3])
    return b.view(ordered, [*outer[:-1], outer[-1] * (kernel[0] * kernel[1]), counts[0] * counts[1]])


def _window_positions(b: Builder, count: SizeLike, kernel: int, stride: int, dilation: int) -> SSAValue:
    """The position [kernel, count] of each element of each window."""
    if isinstance(count, int):
        return b.constant(window_positions(count, kernel, stride, dilation), i64)
    starts = b.arange(count)
    starts = b.mul(starts, stride) if stride != 1 else starts
    return b.add(b.constant([[k * dilation] for k in range(kernel)], i64), starts)


SUM, MEAN, MAX = 0, 1, 2
"""Modes of an embedding bag."""


@decomposition(aten.embedding_bag.default, aten.embedding_bag.padding_idx)
def embedding_bag(
    b: Builder,
    weight: SSAValue,
    indices: SSAValue,
    offsets: SSAValue,
    by_frequency: bool,
    mode: int,
    sparse: bool,
    factors: SSAValue | None,
    include_last: bool,
    padding: int | None = None,
) -> Sequence[SSAValue | None] | None:
    """``_embedding_bag_forward_only``, whose padding is a row of its own or none"""
    if any(result.first_use is not None for result in b.rewriter.root.results[1:]):
        return b.notify_match_failure("its bookkeeping is used")
    rows, columns = b.sizes(weight)
    if padding is not None and padding < 0:
        if not isinstance(rows, int):
            return _bags(b, weight, indices, offsets, mode, factors, include_last, padding)
        padding += rows
    given, count, type = b.size(offsets, 0), b.size(indices, 0), element(weight)
    # What torch's shortest way through a sum leaves out is empty.
    bags = given - int(include_last)
    size = given if mode == SUM else bags
    lists = [0 if mode == SUM and type != f64 and padding is None else count, size, size]
    integers = [tensor_type(element(indices), [dim(n)]) for n in lists]
    if mode == MAX:
        integers[2] = tensor_type(element(indices), [dim(size), dim(columns)])
    results = b.results(
        aten._embedding_bag_forward_only.default, weight, indices, offsets, by_frequency, mode, sparse, factors,
        include_last, -1 if padding is None else padding,
        types=[tensor_type(type, [dim(bags), dim(columns)]), *integers],
    )  # fmt: skip
    return [results[0], None, None, None]


@decomposition(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def embedding_bag_kernel(
    b: Builder, weight: SSAValue, indices: SSAValue, offsets: SSAValue, _by_frequency: bool, mode: int, _sparse: bool,
    factors: SSAValue | None, include_last: bool, padding: int,
) -> Sequence[SSAValue | None] | None:  # fmt: skip
    """``embedding``, summed by bag with ``index_put``, or ``scatter_reduce`` to the maximum"""
    if any(result.first_use is not None for result in b.rewriter.root.results[1:]):
        return b.notify_match_failure("its bookkeeping is used")
    return _bags(b, weight, indices, offsets, mode, factors, include_last, None if padding < 0 else padding)


def _bags(
    b: Builder, weight: SSAValue, indices: SSAValue, offsets: SSAValue, mode: int, factors: SSAValue | None,
    include_last: bool, padding: int | None,
) -> Sequence[SSAValue | None]:  # fmt: skip
    count, type = b.size(indices, 0), element(weight)
    bags = b.size(offsets, 0) - int(include_last)
    starts = b.slice(offsets, 0, 0, bags) if include_last else offsets
    order = b.cast(b.arange(count), element(starts))
    before = b(aten.searchsorted.Tensor, starts, order, right=True, types=[tensor_type(i64, dims(order))])
    bag = b.sub(before, 1)
    valid = None if padding is None else _is_not(b, indices, padding, b.size(weight, 0))
    rows = b(aten.embedding.default, weight, indices)
    if factors is not None:
        rows = b.mul(rows, b.unsqueeze(factors, 1))
    taken = valid
    if include_last and padding is None and mode != MAX and type in (f16, bf16, f32):
        # Offsets end with the number of indices. Where they end earlier, eager's kernels of these types leave the rest
        # out of the sums (but not out of the mean's count); its other kernels take it into the last bag.
        taken = b.lt(order, b.slice(offsets, 0, bags, None))
    if taken is not None:
        rows = b.where(b.unsqueeze(taken, 1), rows, b.as_tensor(-math.inf if mode == MAX else 0, type))
    sizes = [bags, b.size(weight, 1)]
    if mode == MAX:
        lowest = b.full(sizes, -math.inf, type)
        place = b.expand(b.unsqueeze(b.cast(bag, i64), 1), b.sizes(rows))
        highest = b(aten.scatter_reduce.two, lowest, 0, place, rows, "amax", include_self=True)
        empty = b.eq(highest, -math.inf)
        return [b.where(empty, b.as_tensor(0, type), highest), None, None, None]
    total = _put(b, b.full(sizes, 0, type), 0, bag, rows, True)
    if mode == SUM:
        return [total, None, None, None]
    ones = b.full([count], 1, type) if valid is None else b.cast(valid, type)
    counts = _put(b, b.full([bags], 0, type), 0, bag, ones, True)
    return [b.div(total, b.unsqueeze(b.clamp(counts, 1), 1)), None, None, None]


def _is_not(b: Builder, indices: SSAValue, padding: int, rows: SizeLike) -> SSAValue:
    """Where an index is not the row ``padding``, which counts from the end when it is negative."""
    return b.ne(indices, b.scalar(rows + padding) if padding < 0 else padding)


@decomposition(aten.diagonal_scatter.default)
def diagonal_scatter(b: Builder, x: SSAValue, source: SSAValue, offset: int, first: int, second: int) -> SSAValue:
    """``where`` on the diagonal, with the source spread over the columns"""
    count = rank(x)
    rows, columns = wrap(first, count), wrap(second, count)
    order = [*(i for i in range(count) if i not in (rows, columns)), rows, columns]
    matrices = b.permute(x, order)
    height, width = b.sizes(matrices)[-2:]
    column = b.arange(width)
    row = b.unsqueeze(b.arange(height), 1)
    on_diagonal = b.eq(b.add(row, offset) if offset else row, column)
    after = width - b.size(source, -1) - max(offset, 0)
    spread = b(aten.constant_pad_nd.default, source, [max(offset, 0), after], 0)
    written = b(aten.where.self, on_diagonal, b.unsqueeze(spread, -2), matrices)
    return b.permute(written, [order.index(i) for i in range(count)])


@decomposition(aten.as_strided_scatter.default)
def as_strided_scatter(
    b: Builder, x: SSAValue, source: SSAValue, size: Sequence[Any], stride: Sequence[Any], offset: int | None
) -> SSAValue | None:
    """``index_put`` at the positions that the strides give, in the elements in row-major order"""
    if not all(isinstance(n, int) for n in (*size, *stride, offset or 0)):
        return b.notify_match_failure("sizes, strides and the offset are not constants")
    if 0 in size:
        return x
    import numpy as np

    places = np.full(tuple(size), offset or 0, np.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += np.arange(n).reshape([-1 if i == d else 1 for i in range(len(size))]) * step
    flat = b.view(x, [product(b.sizes(x))])
    values = b.view(source, [places.size])
    written = b(aten.index_put.default, flat, [b.constant(places.reshape(-1), i64)], values)
    return b.view(written, b.sizes(x))


@decomposition(aten.as_strided_scatter.default, symint_args=("size", "stride", "storage_offset"))
def strided_scatter(
    b: Builder, x: SSAValue, source: SSAValue, size: Sequence[Any], stride: Sequence[Any], offset: Any
) -> SSAValue | None:
    """``slice_scatter`` into the elements in row-major order where the strides are those of consecutive elements, else
    ``index_put`` at the positions that the strides give
    """
    strides, start = b.as_sizes(stride), b.as_size(0 if offset is None else offset)
    if strides is None or start is None:
        return b.notify_match_failure("nothing is known about a stride or the offset")
    sizes = b.sizes(source)
    if any(size_as_dim(s) != size_as_dim(product(sizes[i + 1 :])) for i, s in enumerate(strides) if sizes[i] != 1):
        return _put_at_strides(b, x, source, strides, start)
    line, count = b.view(source, [product(sizes)]), product(b.sizes(x))
    if start == 0 and size_as_dim(product(sizes)) == size_as_dim(count):
        return b.view(line, b.sizes(x))
    written = b(aten.slice_scatter.default, b.view(x, [count]), line, 0, start, start + product(sizes))
    return b.view(written, b.sizes(x))


def _put_at_strides(
    b: Builder, x: SSAValue, source: SSAValue, strides: Sequence[SizeLike], start: SizeLike
) -> SSAValue:
    """``index_put`` of the elements of ``source`` at positions that are computed when the program runs."""
    sizes, line = b.sizes(source), [product(b.sizes(source))]
    places = b.add(b.full([1] * len(sizes), 0, i64), b.scalar(start))
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        steps = b.mul(b.arange(size), b.scalar(stride))
        places = b.add(places, b.view(steps, [size if i == axis else 1 for i in range(len(sizes))]))
    flat = b.view(x, [product(b.sizes(x))])
    written = b(aten.index_put.default, flat, [b.view(places, line)], b.view(source, line))
    return b.view(written, b.sizes(x))
