"""Unique elements, segments, combinations and windows at random places: what is chosen by comparing elements.

The number of unique elements depends on the data: it is the size of what ``nonzero`` gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations as all_combinations
from itertools import combinations_with_replacement

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i1, i64
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.sizes import SizeLike, product
from etir.lowering.decompose_aten.decomposition import decomposition
from etir.lowering.decompose_aten.families.creation import MAX_CONSTANT
from etir.lowering.decompose_aten.families.reduction import previous

MAX_SORTED_COLUMNS = 64
"""Rows with more elements than this are not sorted, one stable sort for each element."""


@decomposition(aten.combinations.default)
def combinations(b: Builder, x: SSAValue, count: int, with_replacement: bool) -> SSAValue | None:
    """One ``index_select`` for each place of a combination; the positions are constants"""
    size = dims(x)[0]
    if not isinstance(size, int):
        return b.notify_match_failure("it has a dynamic size")
    if count == 0:
        return b.full([0], 0, element(x))
    rows = math.comb(size + count - 1 if with_replacement else size, count)
    if rows * count > MAX_CONSTANT:
        return b.notify_match_failure("there are too many combinations for a constant")
    choose = combinations_with_replacement if with_replacement else all_combinations
    chosen = list(choose(range(size), count))
    flat = b.constant([i for row in chosen for i in row], i64)
    return b.view(b(aten.index_select.default, x, 0, flat), [rows, count])


@decomposition(aten.nonzero_static.default)
def nonzero_static(b: Builder, x: SSAValue, size: int, fill: int) -> SSAValue:
    """``index_put`` of coordinates into the row that ``cumsum`` counts; what is no element goes to one row more"""
    count = rank(x)
    if count == 0:
        return b.full([size, 0], 0, i64)
    sizes = b.sizes(x)
    flags = x if element(x) == i1 else b.ne(x, 0)
    flags = b.view(flags, [-1])
    row = b.sub(b(aten.cumsum.default, b.cast(flags, i64), 0), 1)
    row = b.where(b.logical_and(flags, b.lt(row, size)), row, size)
    columns: list[SSAValue] = []
    for i, length in enumerate(sizes):
        along = b.view(b.arange(length), [length if k == i else 1 for k in range(count)])
        columns.append(b.view(b.expand(along, sizes), [-1, 1]))
    base = b.full([size + 1, count], fill, i64)
    written = b(aten.index_put.default, base, [row], b.cat(columns, 1), types=[base.type])
    return b.slice(written, 0, 0, size)


@decomposition(aten.bincount.default)
def bincount(b: Builder, x: SSAValue, weights: SSAValue | None, least: int) -> SSAValue:
    """``index_put`` that adds, into as many zeros as the largest element says"""
    declared = b.declared
    size = dims_of(declared)[0]
    zeros: SSAValue
    if isinstance(size, int):
        zeros = b.full([size], 0, declared.element_type)
    else:
        # An element of -1 more, so that there is a largest one.
        largest = b.amax(b.cat([b.cast(x, i64), b.full([1], -1, i64)]), [0])
        number = b(aten._local_scalar_dense.default, b.clamp(b.add(largest, 1), least), types=[i64])
        kind = declared.element_type
        zeros = b(aten.full.default, [number], 0, dtype=kind, types=[declared])
    amount = b.full(b.sizes(x), 1, i64) if weights is None else weights
    amount = b.cast(amount, declared.element_type)
    return b(aten.index_put.default, zeros, [b.cast(x, i64)], amount, True, types=[declared])


# --- unique elements --------------------------------------------------------------------------------------------------


def _starts(b: Builder, rows: SSAValue) -> SSAValue:
    """Whether each row differs from the one before it."""
    first = b.full([1], True, i1)
    count = b.size(rows, 0)
    if count == 1:
        return first
    if isinstance(count, int):
        return b.cat([first, _rows_differ(b, b.slice(rows, 0, 1, None), b.slice(rows, 0, 0, count - 1))])
    # There may be no rows at run time: then there is no first one either.
    return b.logical_or(_rows_differ(b, rows, previous(b, rows, 0)), b.eq(b.arange(count), 0))


def _rows_differ(b: Builder, rows: SSAValue, others: SSAValue) -> SSAValue:
    differs = b.ne(rows, others)
    return b(aten.any.dims, differs, list(range(1, rank(rows)))) if rank(rows) > 1 else differs


def _unique(
    b: Builder, rows: SSAValue, order: SSAValue | None, inverse: bool, counts: bool
) -> tuple[SSAValue, SSAValue | None, SSAValue | None]:
    """Rows of which neighbors differ, the place of each row among them, and how many are equal.

    ``order`` says where the rows come from when they were sorted.
    """
    starts = _starts(b, rows)
    found = [d for d in dims_of(b.declared) if not isinstance(d, int)]
    count = found[0] if found else dims(rows)[0]
    at = b(aten.nonzero.default, starts, types=[tensor_type(i64, [count, 1])])
    at = b(aten.squeeze.dims, at, [1], types=[tensor_type(i64, [count])])
    kept_type = tensor_type(element(rows), [count, *dims(rows)[1:]])
    values = b(aten.index_select.default, rows, 0, at, types=[kept_type])
    if not inverse and not counts:
        return values, None, None
    place = b.sub(b(aten.cumsum.default, b.cast(starts, i64), 0), 1)
    zeros = b.full([b.size(rows, 0)], 0, i64)
    places = how_often = None
    if inverse:
        places = place if order is None else b(aten.index_put.default, zeros, [order], place, types=[zeros.type])
    if counts:
        ones = b.full([b.size(rows, 0)], 1, i64)
        by_place = b(aten.index_put.default, zeros, [place], ones, True, types=[zeros.type])
        per_row = b(aten.index_select.default, by_place, 0, place)
        how_often = b(aten.index_select.default, per_row, 0, at, types=[tensor_type(i64, [count])])
    return values, places, how_often


def _nothing(b: Builder) -> SSAValue:
    return b.full([0], 0, i64)


def _unique_elements(b: Builder, x: SSAValue, sort: bool, inverse: bool, counts: bool) -> Sequence[SSAValue | None]:
    if any(d == 0 for d in dims(x)):
        places = b.full(b.sizes(x), 0, i64) if inverse else _nothing(b)
        return [b.full([0], 0, element(x)), places, _nothing(b)]
    flat, order = b.view(x, [-1]), None
    if sort:
        flat, order = b.results(aten.sort.default, flat)
    values, places, how_often = _unique(b, flat, order, inverse, counts)
    return [values, _nothing(b) if places is None else b.view(places, b.sizes(x)), how_often or _nothing(b)]


def _unique_along(b: Builder, x: SSAValue, dim: int, sort: bool) -> Sequence[SSAValue | None] | None:
    """The rows, the place of each of the original ones among them and how many are equal; torch gives all three
    whether they are asked for or not.
    """
    position = wrap(dim, rank(x))
    others = [d for i, d in enumerate(dims(x)) if i != position]
    if any(not isinstance(d, int) for d in others) or any(d == 0 for d in dims(x)):
        return b.notify_match_failure("its rows have a dynamic size, or none")
    columns = math.prod(d for d in others if isinstance(d, int))
    if sort and columns > MAX_SORTED_COLUMNS:
        return b.notify_match_failure(f"its rows have more than {MAX_SORTED_COLUMNS} elements")
    moved = [position, *(i for i in range(rank(x)) if i != position)]
    rows = b.view(b.permute(x, moved), [b.size(x, position), columns])
    order: SSAValue | None = None
    for column in reversed(range(columns)) if sort else ():
        key = b.select(rows, 1, column)
        key = key if order is None else b(aten.index_select.default, key, 0, order)
        step = b.results(aten.sort.stable, key, stable=True, dim=0)[1]
        order = step if order is None else b(aten.index_select.default, order, 0, step)
    if order is not None:
        rows = b(aten.index_select.default, rows, 0, order)
    values, places, how_often = _unique(b, rows, order, True, True)
    type = b.declared
    count = dims(values)[0]
    shape = tensor_type(element(x), [count, *others])
    values = b(aten.view.default, values, [-1, *others], types=[shape])
    back = [moved.index(i) for i in range(rank(x))]
    if back != list(range(rank(x))):
        values = b(aten.permute.default, values, back, types=[type])
    return [values, places, how_often]


@decomposition(aten._unique.default)
def unique_with_inverse(b: Builder, x: SSAValue, _sorted: bool, inverse: bool) -> Sequence[SSAValue | None]:
    """``sort``, and the elements that differ from the one before them"""
    return _unique_elements(b, x, True, inverse, False)[:2]


@decomposition(aten._unique2.default)
def unique(b: Builder, x: SSAValue, _sorted: bool, inverse: bool, counts: bool) -> Sequence[SSAValue | None]:
    """``sort``, and the elements that differ from the one before them"""
    return _unique_elements(b, x, True, inverse, counts)


@decomposition(aten.unique_dim.default)
def unique_dim(
    b: Builder, x: SSAValue, dim: int, _sorted: bool, _inverse: bool, _counts: bool
) -> Sequence[SSAValue | None] | None:
    """Rows sorted by their last element first, and those that differ from the one before them"""
    return _unique_along(b, x, dim, True)


@decomposition(aten.unique_consecutive.default)
def unique_consecutive(
    b: Builder, x: SSAValue, inverse: bool, counts: bool, dim: int | None
) -> Sequence[SSAValue | None] | None:
    """The elements, or rows, that differ from the one before them"""
    if dim is None:
        return _unique_elements(b, x, False, inverse, counts)
    return _unique_along(b, x, dim, False)


@decomposition(aten.unique_dim_consecutive.default)
def unique_dim_consecutive(
    b: Builder, x: SSAValue, dim: int, _inverse: bool, _counts: bool
) -> Sequence[SSAValue | None] | None:
    """The rows that differ from the one before them"""
    return _unique_along(b, x, dim, False)


# --- segments ---------------------------------------------------------------------------------------------------------

_REDUCTIONS = {"sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0), "max": ("amax", -math.inf),
               "min": ("amin", math.inf)}  # fmt: skip


@decomposition(aten.segment_reduce.default)
def segment_reduce(
    b: Builder, x: SSAValue, reduce: str, lengths: SSAValue | None, _indices: None, offsets: SSAValue | None, axis: int,
    _unsafe: bool, initial: float | None,
) -> SSAValue | None:  # fmt: skip
    """``scatter_reduce``, of segments numbered by counting the ends before each element"""
    position = wrap(axis, rank(x))
    if lengths is not None:
        ends = b(aten.cumsum.default, lengths, position)
    elif offsets is not None:
        ends = b.slice(offsets, position, 1, None)
    else:
        return b.notify_match_failure("it has neither lengths nor offsets")
    count, length = b.size(ends, position), b.size(x, position)
    # [..., length, segments]: how many segments end at or before an element.
    row = b.view(b.arange(length), [length, 1])
    ended = b.le(b.unsqueeze(ends, position), row)
    number = b(aten.sum.dim_IntList, b.cast(ended, i64), [position + 1], False)
    number = b.clamp(number, 0, None) if count == 0 else b(aten.clamp.default, number, None, count)
    trailing = rank(x) - position - 1
    number = b.view(number, [*b.sizes(number), *[1] * trailing]) if trailing else number
    number = b.expand(number, b.sizes(x))
    packet, neutral = _REDUCTIONS[reduce]
    start = neutral if initial is None else float(initial)
    sizes = b.sizes(x)
    sizes[position] = count + 1  # elements after the last segment go to one more
    shape = [*dims(x)]
    shape[position] = dims(ends)[position] + 1
    base = b.full(sizes, start, element(x))
    folded_type = tensor_type(element(x), shape)
    folded = b(aten.scatter_reduce.two, base, position, number, x, packet, types=[folded_type])
    folded = b.slice(folded, position, 0, count)
    if reduce != "mean":
        return folded
    starts = b.sub(ends, lengths) if lengths is not None else b.slice(offsets, position, 0, count)  # type: ignore[arg-type]
    size = b.cast(b.sub(ends, starts), element(x))
    size = b.view(size, [*b.sizes(size), *[1] * trailing]) if trailing else size
    quotient = b.div(folded, size)
    if initial is None:
        return quotient
    return b.where(b.gt(size, 0), quotient, start)


# --- pooling at random places -----------------------------------------------------------------------------------------


@decomposition(aten.fractional_max_pool2d.default, aten.fractional_max_pool3d.default)
def fractional_max_pool(
    b: Builder, x: SSAValue, kernel: Sequence[int], output: Sequence[int], samples: SSAValue
) -> Sequence[SSAValue]:
    """The largest element of each window; where windows are follows from the random numbers"""
    spatial = 2 if "2d" in b.rewriter.root.name else 3
    sizes = b.sizes(x)[-spatial:]
    batched = rank(x) == spatial + 2
    data = x if batched else b.unsqueeze(x, 0)
    lead = b.sizes(data)[:2]
    kernel = list(kernel) * (spatial if len(kernel) == 1 else 1)
    output = list(output) * (spatial if len(output) == 1 else 1)
    flat: SSAValue | None = None
    for axis, size in enumerate(sizes):
        # Samples hold one number for each axis, the last axis first.
        sample = b.select(samples, 2, spatial - 1 - axis)
        starts = _window_starts(b, sample, size, kernel[axis], output[axis])  # [N, C, out]
        offsets = b.arange(kernel[axis])
        position = b.add(b.unsqueeze(starts, 3), offsets)  # [N, C, out, kernel]
        shape = [*lead]
        for other in range(spatial):
            shape += [output[axis], kernel[axis]] if other == axis else [1, 1]
        position = b.view(position, shape)
        flat = position if flat is None else b.add(b.mul(flat, b.scalar(size)), position)
    assert flat is not None
    # [N, C, out..., kernel...], then one row of candidates for each result.
    order = [0, 1, *(2 + 2 * i for i in range(spatial)), *(3 + 2 * i for i in range(spatial))]
    window = math.prod(kernel)
    flat = b.view(b.permute(flat, order), [*lead, math.prod(output) * window])
    elements = b.view(data, [*lead, product(sizes)])
    candidates = b.view(b(aten.gather.default, elements, 2, flat), [*lead, *output, window])
    values, place = b.results(aten.max.dim, candidates, -1, False)
    flat = b.view(flat, [*lead, *output, window])
    chosen = b.squeeze(b(aten.gather.default, flat, -1, b.unsqueeze(place, rank(place))), -1)
    return [values, chosen] if batched else [b.squeeze(values, 0), b.squeeze(chosen, 0)]


def _window_starts(b: Builder, sample: SSAValue, size: SizeLike, kernel: int, count: int) -> SSAValue:
    """``trunc((i + u) * alpha) - trunc(u * alpha)``; the last window ends at the end."""
    last = b(aten.full.default, [*b.sizes(sample), 1], b.scalar(size - kernel), dtype=i64)
    if count == 1:
        return last
    alpha: float | SSAValue
    if isinstance(size, int):
        alpha = (size - kernel) / (count - 1)
    else:
        reach = b(aten.full.default, [], b.scalar(size - kernel), dtype=i64)
        alpha = b.div(b.cast(reach, element(sample)), float(count - 1))
    place = b.unsqueeze(sample, 2)
    index = b.arange(count - 1, element(sample))
    moved = b.sub(b.trunc(b.mul(b.add(index, place), alpha)), b.trunc(b.mul(place, alpha)))
    return b.cat([b.cast(moved, i64), last], 2)
