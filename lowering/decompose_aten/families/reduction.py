"""Reductions, order statistics and running totals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TYPE, i1, i64, ui8
from etir.lowering.build.builder import Builder, Relation, dims, element, rank
from etir.lowering.build.dims import wrap, wrap_all
from etir.lowering.build.promotion import FLOATING, category_of, to_floating
from etir.lowering.build.sizes import SizeLike
from etir.lowering.decompose_aten.decomposition import decomposition, rename

rename(
    [
        (aten.special_logsumexp.default, aten.logsumexp.default),
        (aten._aminmax.default, aten.aminmax.default),
        (aten._is_any_true.default, aten.any.default),
        (aten._is_all_true.default, aten.all.default),
    ]
)

Dims = int | Sequence[int] | None


def positions(x: SSAValue, dim: Dims) -> list[int]:
    """The dims to reduce, from 0; None or an empty list is all of them."""
    given = () if dim is None else (dim,) if isinstance(dim, int) else dim
    return list(wrap_all(given, rank(x))) if given and rank(x) else list(range(rank(x)))


@decomposition(aten.sum.default)
def sum_all(b: Builder, x: SSAValue, dtype: Attribute | None) -> SSAValue:
    """``sum.dim_IntList`` over all dims"""
    return b(aten.sum.dim_IntList, x, positions(x, None), False, dtype=dtype)


@decomposition(aten.all.default, aten.all.dim, aten.all.dims)
def all_true(b: Builder, x: SSAValue, dim: Dims = None, keepdim: bool = False) -> SSAValue | None:
    """``not any(not x)``"""
    if element(b.rewriter.root.results[0]) != i1:
        return b.notify_match_failure("it gives bytes")
    opposite = b.logical_not(x)
    if isinstance(b.rewriter.root, aten.all.default):
        return b.logical_not(b(aten.any.default, opposite))
    some = aten.any.dim if isinstance(b.rewriter.root, aten.all.dim) else aten.any.dims
    return b.logical_not(b(some, opposite, dim, keepdim))


@decomposition(aten.max.default, aten.min.default)
def extremum(b: Builder, x: SSAValue) -> SSAValue:
    """``amax`` over all dims"""
    over_dims = aten.amax.default if isinstance(b.rewriter.root, aten.max.default) else aten.amin.default
    return b(over_dims, x, positions(x, None))


@decomposition(aten.aminmax.default)
def aminmax(b: Builder, x: SSAValue, dim: int | None, keepdim: bool) -> list[SSAValue]:
    """``amin`` and ``amax``"""
    return [b(operator, x, positions(x, dim), keepdim) for operator in (aten.amin.default, aten.amax.default)]


@decomposition(aten._aminmax.dim)
def aminmax_along(b: Builder, x: SSAValue, dim: int, keepdim: bool) -> list[SSAValue]:
    """``amin`` and ``amax``"""
    return aminmax(b, x, dim, keepdim)


@decomposition(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(b: Builder, x: SSAValue, dim: Dims) -> SSAValue:
    """``sum(x != 0)``"""
    mask = x if element(x) == i1 else b.ne(x, 0)
    return b.sum(mask, positions(x, dim))


@decomposition(aten.nansum.default)
def nansum(b: Builder, x: SSAValue, dim: Dims, keepdim: bool, dtype: Attribute | None) -> SSAValue:
    """``sum`` with 0 for NaN"""
    if category_of(element(x)) >= FLOATING:
        x = b(aten.where.self, b.isnan(x), b.as_tensor(0, element(x)), x)
    return b(aten.sum.dim_IntList, x, positions(x, dim), keepdim, dtype=dtype)


@decomposition(aten.nanmean.default)
def nanmean(b: Builder, x: SSAValue, dim: Dims, keepdim: bool, dtype: Attribute | None) -> SSAValue:
    """``nansum`` over the number of elements that are not NaN"""
    count = b.sum(b.eq(x, x), positions(x, dim), keepdim)
    return b.div(nansum(b, x, dim, keepdim, dtype), count)


@decomposition(aten.logsumexp.default)
def logsumexp(b: Builder, x: SSAValue, dim: Dims, keepdim: bool) -> SSAValue:
    """``log(sum(exp(x - m))) + m`` with the maximum ``m``, or 0 where that is infinite"""
    x = b.cast(x, to_floating(element(x)))
    reduced = positions(x, dim)
    highest = b.amax(x, reduced, True)
    highest = b(aten.where.self, b.isinf(highest), b.as_tensor(0, element(x)), highest)
    total = b.log(b.sum(b.exp(b.sub(x, highest)), reduced, keepdim))
    return b.add(total, highest if keepdim or not reduced else b.squeeze(highest, reduced))


# --- order ------------------------------------------------------------------------------------------------------------


@decomposition(aten.sort.default)
def sort(b: Builder, x: SSAValue, dim: int, descending: bool) -> Sequence[SSAValue] | None:
    """``topk`` of all elements, which is sorted; a second one puts equal elements in order if the indices are used"""
    if rank(x) == 0:
        return x, b.full([], 0, i64)
    if element(x) == i1:
        values, order = b.results(aten.sort.default, b.cast(x, ui8), dim, descending)
        return b.cast(values, i1), order
    position = wrap(dim, rank(x))
    values, order = b.results(aten.topk.default, x, b.size(x, position), position, descending, True)
    if b.rewriter.root.results[1].first_use is None or dims(x)[position] in (0, 1):
        return values, order
    order = _in_order(b, values, order, position)
    return b(aten.gather.default, x, position, order), order


def previous(b: Builder, x: SSAValue, position: int) -> SSAValue:
    """The element before each one of a dim; for the first one, itself.

    For dynamic sizes: a slice of all elements but the last has no size where there are none.
    """
    before = b.clamp(b.sub(b.arange(b.size(x, position)), 1), 0)
    return b(aten.index_select.default, x, position, before)


def _in_order(b: Builder, values: SSAValue, order: SSAValue, position: int) -> SSAValue:
    """Where sorted values come from, with the indices of equal ones ascending.

    Values get a number for each group of equal ones: numbers and indices together are keys, all different, that sort
    as wanted.
    """
    size = b.size(values, position)
    if isinstance(size, int):
        before, after = b.slice(values, position, 0, size - 1), b.slice(values, position, 1, None)
    else:
        before, after = previous(b, values, position), values
    differs = b.ne(before, after)
    if category_of(element(values)) >= FLOATING:
        same = b.logical_and(b.isnan(before), b.isnan(after))
        differs = b.logical_and(differs, b.logical_not(same))
    starts = b.cast(differs, i64)
    if isinstance(size, int):
        margin = [0, 0] * (rank(values) - 1 - position) + [1, 0]
        starts = b(aten.constant_pad_nd.default, starts, margin, 0)
    groups = b.mul(b(aten.cumsum.default, starts, position), b.scalar(size))
    keys = b.results(aten.topk.default, b.add(groups, order), size, position, False, True)[0]
    return b.sub(keys, groups)


@decomposition(aten.argsort.default)
def argsort(b: Builder, x: SSAValue, dim: int, descending: bool) -> SSAValue:
    """The indices of ``sort``"""
    return b.results(aten.sort.default, x, dim, descending)[1]


@decomposition(aten.argsort.stable)
def argsort_stable(b: Builder, x: SSAValue, stable: bool, dim: int, descending: bool) -> SSAValue:
    """The indices of ``sort``"""
    return sort_stable(b, x, stable, dim, descending)[1]


@decomposition(aten.sort.stable)
def sort_stable(b: Builder, x: SSAValue, _stable: bool | None, dim: int, descending: bool) -> tuple[SSAValue, ...]:
    """``sort``, which keeps the order of equal elements in every implementation that etir runs on"""
    return b.results(aten.sort.default, x, dim, descending)


@decomposition(aten.msort.default)
def msort(b: Builder, x: SSAValue) -> SSAValue:
    """The values of ``sort`` along the first dim"""
    return b.results(aten.sort.default, x, 0, False)[0]


@decomposition(aten.kthvalue.default, symint_args=("k",), name="kthvalue")
def kthvalue_at(b: Builder, x: SSAValue, given: Any, dim: int, keepdim: bool) -> list[SSAValue] | None:
    """The last of the ``k`` smallest elements that ``topk`` gives"""
    k = b.as_size(given)
    return b.notify_match_failure("nothing is known about k") if k is None else kthvalue(b, x, k, dim, keepdim)


def kthvalue(b: Builder, x: SSAValue, k: SizeLike, dim: int, keepdim: bool) -> list[SSAValue]:
    """The last of the ``k`` smallest elements that ``topk`` gives."""
    if rank(x) == 0:
        return [x, b.full([], 0, element(b.rewriter.root.results[1]))]
    position = wrap(dim, rank(x))
    found = b.results(aten.topk.default, x, k, position, False, True)
    if not isinstance(k, int):
        last = b(aten.full.default, [1], (k - 1).value, dtype=i64)  # type: ignore[union-attr]
        found = tuple(b(aten.index_select.default, r, position, last) for r in found)
        return list(found) if keepdim else [b.squeeze(r, position) for r in found]
    if keepdim:
        return [b.slice(r, position, k - 1, k) for r in found]
    return [b.select(r, position, k - 1) for r in found]


@decomposition(aten.median.dim)
def median(b: Builder, x: SSAValue, dim: int, keepdim: bool) -> list[SSAValue]:
    """The lower one of the elements in the middle, which ``kthvalue`` finds; NaN where there is one"""
    size = b.size(x, dim) if rank(x) else 1
    middle = kthvalue(b, x, (size + 1) // 2, dim, keepdim)
    if rank(x) == 0 or category_of(element(x)) < FLOATING:
        return middle
    # The maximum is NaN as soon as one element is, with its index.
    highest = b.results(aten.max.dim, x, dim, keepdim)
    unordered = b.ne(highest[0], highest[0])
    return [b.where(unordered, found, usual) for found, usual in zip(highest, middle, strict=True)]


@decomposition(aten.median.default)
def median_of_all(b: Builder, x: SSAValue) -> SSAValue:
    """The lower one of the elements in the middle"""
    return median(b, b.view(x, [-1]), 0, False)[0]


@decomposition(aten.nanmedian.dim)
def nanmedian(b: Builder, x: SSAValue, dim: int, keepdim: bool) -> list[SSAValue]:
    """The lower one of the elements in the middle of those that are not NaN, which ``sort`` puts in front"""
    if rank(x) == 0 or category_of(element(x)) < FLOATING:
        return median(b, x, dim, keepdim)
    position = wrap(dim, rank(x))
    count = b.sum(b.cast(b.eq(x, x), i64), [position], True)
    middle = b.clamp(b(aten.div.Scalar_mode, b.sub(count, 1), 2, rounding_mode="floor"), 0)
    found = [b(aten.gather.default, r, position, middle) for r in b.results(aten.sort.default, x, position, False)]
    return found if keepdim else [b.squeeze(r, position) for r in found]


@decomposition(aten.nanmedian.default)
def nanmedian_of_all(b: Builder, x: SSAValue) -> SSAValue:
    """The lower one of the elements in the middle of those that are not NaN"""
    return nanmedian(b, b.view(x, [-1]), 0, False)[0]


# --- running totals ---------------------------------------------------------------------------------------------------


Combine = Callable[[Sequence[SSAValue], Sequence[SSAValue]], Sequence[SSAValue]]
"""What two neighboring ranges give together, from what each of them gives."""


def _scan(
    b: Builder, parts: Sequence[SSAValue], position: int, neutral: Sequence[float], combine: Combine
) -> Sequence[SSAValue] | None:
    """``parts`` combined with those 1, 2, 4, ... positions before (Hillis and Steele, 1986).

    ``neutral`` is combined where nothing is before, if the size is dynamic.
    """
    size, most = b.size(parts[0], position), b.largest(dims(parts[0])[position])
    if most is None:
        return b.notify_match_failure("the size has no upper bound")
    count = rank(parts[0])
    step = 1
    while step < most:
        if isinstance(size, int):
            before = [b.slice(part, position, 0, size - step) for part in parts]
            after = [b.slice(part, position, step, None) for part in parts]
            first = [b.slice(part, position, 0, step) for part in parts]
            parts = [b.cat(list(pair), position) for pair in zip(first, combine(before, after), strict=True)]
        else:  # there may be fewer elements than the step
            margin = [0, 0] * (count - 1 - position) + [step, 0]
            padded = [b(aten.constant_pad_nd.default, p, margin, v) for p, v in zip(parts, neutral, strict=True)]
            parts = combine([b.slice(p, position, 0, size) for p in padded], parts)
        step *= 2
    return parts


@decomposition(aten.cumprod.default)
def cumprod(b: Builder, x: SSAValue, dim: int, dtype: Attribute | None) -> SSAValue | None:
    """Products with the element 1, 2, 4, ... positions before"""
    x = b.cast(x, dtype or element(b.rewriter.root.results[0]))
    if rank(x) == 0:
        return x
    one = 1.0 if category_of(element(x)) >= FLOATING else 1
    found = _scan(b, [x], wrap(dim, rank(x)), [one], lambda first, second: [b.mul(first[0], second[0])])
    return None if found is None else found[0]


@decomposition(aten.logcumsumexp.default, in_float=True)
def logcumsumexp(b: Builder, x: SSAValue, dim: int) -> SSAValue | None:
    """``logaddexp`` with the element 1, 2, 4, ... positions before"""
    if rank(x) == 0:
        return x
    if category_of(element(x)) > FLOATING:
        return b.notify_match_failure("it is complex")

    def combine(first: Sequence[SSAValue], second: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(aten.logaddexp.default, first[0], second[0], types=[second[0].type])]

    found = _scan(b, [x], wrap(dim, rank(x)), [-math.inf], combine)
    return None if found is None else found[0]


@decomposition(aten.cummax.default, aten.cummin.default)
def cummax(b: Builder, x: SSAValue, dim: int) -> Sequence[SSAValue] | None:
    """The larger one, and its place, of each element and the one 1, 2, 4, ... positions before; NaN wins"""
    if rank(x) == 0:
        return [x, b.full([], 0, i64)]
    position, type = wrap(dim, rank(x)), element(x)
    relation: Relation = "ge" if "max" in b.rewriter.root.name else "le"
    sizes = b.sizes(x)
    place = b.view(b.arange(sizes[position]), [sizes[position] if i == position else 1 for i in range(rank(x))])
    floating = category_of(type) >= FLOATING

    def combine(first: Sequence[SSAValue], second: Sequence[SSAValue]) -> list[SSAValue]:
        later = b.compare(relation, second[0], first[0])
        if floating:
            hidden = b.isnan(first[0])
            kept = b.logical_and(later, b.logical_not(hidden))
            later = b.logical_or(kept, b.isnan(second[0]))
        return [b(aten.where.self, later, s, f) for f, s in zip(first, second, strict=True)]

    return _scan(b, [x, b.expand(place, sizes)], position, [_least(type, relation), 0], combine)


def _least(type: Attribute, relation: str) -> float:
    """A number that every number of the type is ``>=``, or ``<=``."""
    row = BY_TYPE[type]
    if row.category >= FLOATING:
        return -math.inf if relation == "ge" else math.inf
    if row.category == 0:
        return 0 if relation == "ge" else 1
    bits = 8 * row.itemsize
    low, high = (0, 2**bits - 1) if str(type).startswith("ui") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low if relation == "ge" else high


@decomposition(aten.cumulative_trapezoid.dx)
def cumulative_trapezoid(b: Builder, y: SSAValue, dx: float, dim: int) -> SSAValue:
    """``cumsum(y[1:] + y[:-1]) * dx / 2``"""
    position = wrap(dim, rank(y))
    areas = b.add(b(aten.slice.Tensor, y, position, 1), b(aten.slice.Tensor, y, position, 0, -1))
    return b.mul(b(aten.cumsum.default, areas, position), dx / 2)
