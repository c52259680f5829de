"""Histograms: bins as edges, elements counted by ``bucketize`` and an adding ``index_put``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import tensor_type
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.decompose_aten.decomposition import decomposition


def _edges(b: Builder, x: SSAValue, bins: int, limits: Sequence[float] | None) -> SSAValue:
    """``bins + 1`` evenly spaced numbers over a range, by default that of the elements; both ends are exact."""
    type = element(x)
    steps = b.arange(bins + 1, type)
    least: SSAValue | float
    most: SSAValue | float
    if limits is not None or any(d == 0 for d in dims(x)):
        least, most = (0.0, 1.0) if limits is None else (float(limits[0]), float(limits[1]))
        if least == most:
            least, most = least - 0.5, most + 0.5
        step: SSAValue | float = (most - least) / bins
    else:
        flat = b.view(x, [-1])
        lowest, highest = b(aten.amin.default, flat, [0]), b.amax(flat, [0])
        widening = b.mul(b.cast(b.eq(lowest, highest), type), 0.5)
        least, most = b.sub(lowest, widening), b.add(highest, widening)
        step = b.div(b.sub(most, least), bins)
    forward = b.add(b.mul(steps, step), least)
    backward = b.add(b.mul(b(aten.sub.Scalar, steps, bins), step), most)
    return b.where(b.lt(steps, (bins + 1) // 2), forward, backward)


def _places(b: Builder, column: SSAValue, edges: SSAValue, bins: int) -> tuple[SSAValue, SSAValue]:
    """The bin of each element, and whether it lies in the range; the last bin holds its upper edge."""
    shape = tensor_type(i64, dims(column))
    place = b.sub(b(aten.bucketize.Tensor, column, edges, right=True, types=[shape]), 1)
    first, last = b.select(edges, 0, 0), b.select(edges, 0, bins)
    inside = b.logical_and(b.ge(column, first), b.le(column, last))
    return b.clamp(place, 0, bins - 1), inside


def _counted(
    b: Builder, columns: Sequence[SSAValue], edges: Sequence[SSAValue], weight: SSAValue | None, density: bool
) -> SSAValue:
    """Elements, or rows of several columns, counted in the bins between the edges."""
    type = element(columns[0])
    bins: list[int] = []
    for row in edges:
        size = dims(row)[0]
        assert isinstance(size, int)
        bins.append(size - 1)
    amount = b.full(b.sizes(columns[0]), 1.0, type) if weight is None else b.view(weight, [-1])
    indices: list[SSAValue] = []
    for column, row, count in zip(columns, edges, bins, strict=True):
        place, inside = _places(b, column, row, count)
        indices.append(place)
        amount = b.where(inside, amount, 0.0)
    zeros = b.full(bins, 0.0, type)
    counts = b(aten.index_put.default, zeros, indices, amount, True, types=[zeros.type])
    if not density:
        return counts
    counts = b.div(counts, b(aten.sum.default, counts))
    for axis, row in enumerate(edges):
        width = b.sub(b.slice(row, 0, 1, None), b.slice(row, 0, 0, bins[axis]))
        counts = b.div(counts, b.view(width, [bins[axis] if i == axis else 1 for i in range(len(bins))]))
    return counts


@decomposition(aten.histogram.bin_ct)
def histogram(
    b: Builder, x: SSAValue, bins: int, limits: Sequence[float] | None, weight: SSAValue | None, density: bool
) -> Sequence[SSAValue]:
    """Evenly spaced edges, and the elements between them"""
    edges = _edges(b, x, bins, limits)
    return [_counted(b, [b.view(x, [-1])], [edges], weight, density), edges]


@decomposition(aten.histogram.bins_tensor)
def histogram_of_edges(
    b: Builder, x: SSAValue, edges: SSAValue, weight: SSAValue | None, density: bool
) -> Sequence[SSAValue]:
    """The elements between given edges"""
    return [_counted(b, [b.view(x, [-1])], [edges], weight, density), edges]


@decomposition(aten.histc.default)
def histc(b: Builder, x: SSAValue, bins: int, least: float, most: float) -> SSAValue:
    """The bin of each element by its share of the range; without a range, that of the elements"""
    type, flat = element(x), b.view(x, [-1])
    low: SSAValue | float = float(least)
    width: SSAValue | float = float(most) - float(least)
    high: SSAValue | float = float(most)
    if least == most and not any(d == 0 for d in dims(x)):
        lowest, highest = b(aten.amin.default, flat, [0]), b.amax(flat, [0])
        widening = b.cast(b.eq(lowest, highest), type)
        low, high = b.sub(lowest, widening), b.add(highest, widening)
        width = b.sub(high, low)
    elif least == most:
        low, width, high = low - 1.0, 2.0, high + 1.0
    inside = b.logical_and(b.ge(flat, low), b.le(flat, high))
    share = b.div(b.mul(b.sub(b.where(inside, flat, low), low), bins), width)
    place = b.clamp(b.cast(share, i64), 0, bins - 1)
    zeros = b.full([bins], 0.0, type)
    amount = b.cast(inside, type)
    return b(aten.index_put.default, zeros, [place], amount, True, types=[zeros.type])


def _columns(b: Builder, x: SSAValue) -> list[SSAValue]:
    """The coordinates of points [..., n]."""
    count = dims(x)[-1]
    assert isinstance(count, int)
    rows = b.view(x, [-1, count]) if rank(x) != 2 else x
    return [b.select(rows, 1, i) for i in range(count)]


@decomposition(aten._histogramdd_bin_edges.default)
def bin_edges(
    b: Builder, x: SSAValue, bins: Sequence[int], limits: Sequence[float] | None, _weight: None, _density: bool
) -> Sequence[SSAValue]:
    """Evenly spaced edges for each coordinate"""
    return [
        _edges(b, column, bins[i], None if limits is None else limits[2 * i : 2 * i + 2])
        for i, column in enumerate(_columns(b, x))
    ]


@decomposition(aten._histogramdd_from_bin_cts.default)
def histogramdd(
    b: Builder, x: SSAValue, bins: Sequence[int], limits: Sequence[float] | None, weight: SSAValue | None, density: bool
) -> SSAValue:
    """Points between evenly spaced edges"""
    edges = bin_edges(b, x, bins, limits, None, False)
    return _counted(b, _columns(b, x), edges, weight, density)


@decomposition(aten._histogramdd_from_bin_tensors.default)
def histogramdd_of_edges(
    b: Builder, x: SSAValue, edges: Sequence[SSAValue], weight: SSAValue | None, density: bool
) -> SSAValue:
    """Points between given edges"""
    return _counted(b, _columns(b, x), edges, weight, density)
