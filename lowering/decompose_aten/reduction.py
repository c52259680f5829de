"""Reductions, order statistics and running totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue

from etir.dialects.dtypes import i1
from etir.lowering.builder import Builder, dims, element, rank
from etir.lowering.decompose_aten.decomposition import decomposition, rename
from etir.lowering.dims import wrap, wrap_all
from etir.lowering.promotion import FLOATING, category_of, to_floating

rename(
    [
        ("aten.special_logsumexp.default", "aten.logsumexp.default"),
        ("aten._aminmax.default", "aten.aminmax.default"),
        ("aten._is_any_true.default", "aten.any.default"),
        ("aten._is_all_true.default", "aten.all.default"),
    ]
)

Dims = int | Sequence[int] | None


def positions(x: SSAValue, dim: Dims) -> list[int]:
    """The dims to reduce, from 0; None or an empty list is all of them."""
    given = () if dim is None else (dim,) if isinstance(dim, int) else dim
    return list(wrap_all(given, rank(x))) if given and rank(x) else list(range(rank(x)))


@decomposition("aten.sum.default")
def sum_all(b: Builder, x: SSAValue, dtype: Attribute | None) -> SSAValue:
    """``sum.dim_IntList`` over all dims"""
    return b("aten.sum.dim_IntList", x, positions(x, None), False, dtype=dtype)


@decomposition("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_true(b: Builder, x: SSAValue, dim: Dims = None, keepdim: bool = False) -> SSAValue | None:
    """``not any(not x)``"""
    if element(b.rewriter.root.results[0]) != i1:
        return b.no_match("it gives bytes")
    name = b.rewriter.root.name.replace("aten.all", "aten.any")
    arguments: list[Any] = [] if name.endswith(".default") else [dim, keepdim]
    return b.unary("logical_not", b(name, b.unary("logical_not", x), *arguments))


@decomposition("aten.max.default", "aten.min.default")
def extremum(b: Builder, x: SSAValue) -> SSAValue:
    """``amax`` over all dims"""
    return b(f"aten.a{b.rewriter.root.name.split('.')[1]}.default", x, positions(x, None))


@decomposition("aten.aminmax.default")
def aminmax(b: Builder, x: SSAValue, dim: int | None, keepdim: bool) -> list[SSAValue]:
    """``amin`` and ``amax``"""
    return [b(f"aten.{name}.default", x, positions(x, dim), keepdim) for name in ("amin", "amax")]


@decomposition("aten._aminmax.dim")
def aminmax_along(b: Builder, x: SSAValue, dim: int, keepdim: bool) -> list[SSAValue]:
    """``amin`` and ``amax``"""
    return aminmax(b, x, dim, keepdim)


@decomposition("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(b: Builder, x: SSAValue, dim: Dims) -> SSAValue:
    """``sum(x != 0)``"""
    mask = x if element(x) == i1 else b.compare("ne", x, 0)
    return b.sum(mask, positions(x, dim))


@decomposition("aten.nansum.default")
def nansum(b: Builder, x: SSAValue, dim: Dims, keepdim: bool, dtype: Attribute | None) -> SSAValue:
    """``sum`` with 0 for NaN"""
    if category_of(element(x)) >= FLOATING:
        x = b("aten.where.self", b.unary("isnan", x), b.as_tensor(0, element(x)), x)
    return b("aten.sum.dim_IntList", x, positions(x, dim), keepdim, dtype=dtype)


@decomposition("aten.nanmean.default")
def nanmean(b: Builder, x: SSAValue, dim: Dims, keepdim: bool, dtype: Attribute | None) -> SSAValue:
    """``nansum`` over the number of elements that are not NaN"""
    count = b.sum(b.compare("eq", x, x), positions(x, dim), keepdim)
    return b.div(nansum(b, x, dim, keepdim, dtype), count)


@decomposition("aten.logsumexp.default")
def logsumexp(b: Builder, x: SSAValue, dim: Dims, keepdim: bool) -> SSAValue:
    """``log(sum(exp(x - m))) + m`` with the maximum ``m``, or 0 where that is infinite"""
    x = b.cast(x, to_floating(element(x)))
    reduced = positions(x, dim)
    highest = b.amax(x, reduced, True)
    highest = b("aten.where.self", b.unary("isinf", highest), b.as_tensor(0, element(x)), highest)
    total = b.unary("log", b.sum(b.unary("exp", b.sub(x, highest)), reduced, keepdim))
    return b.add(total, highest if keepdim or not reduced else b.squeeze(highest, reduced))


# --- order ------------------------------------------------------------------------------------------------------------


@decomposition("aten.sort.default")
def sort(b: Builder, x: SSAValue, dim: int, descending: bool) -> Sequence[SSAValue] | None:
    """``topk`` of all elements, which is sorted; equal elements may change places in both"""
    if rank(x) == 0:
        return b.no_match("it has no dims")
    position = wrap(dim, rank(x))
    return b.results("aten.topk.default", x, b.size(x, position), position, descending, True)


@decomposition("aten.argsort.default")
def argsort(b: Builder, x: SSAValue, dim: int, descending: bool) -> SSAValue:
    """The indices of ``sort``"""
    return b.results("aten.sort.default", x, dim, descending)[1]


@decomposition("aten.argsort.stable")
def argsort_stable(b: Builder, x: SSAValue, stable: bool, dim: int, descending: bool) -> SSAValue:
    """The indices of ``sort``"""
    return sort_stable(b, x, stable, dim, descending)[1]


@decomposition("aten.sort.stable")
def sort_stable(b: Builder, x: SSAValue, _stable: bool | None, dim: int, descending: bool) -> tuple[SSAValue, ...]:
    """``sort``, which keeps the order of equal elements in every implementation that etir runs on"""
    return b.results("aten.sort.default", x, dim, descending)


@decomposition("aten.msort.default")
def msort(b: Builder, x: SSAValue) -> SSAValue:
    """The values of ``sort`` along the first dim"""
    return b.results("aten.sort.default", x, 0, False)[0]


@decomposition("aten.kthvalue.default")
def kthvalue(b: Builder, x: SSAValue, k: int, dim: int, keepdim: bool) -> list[SSAValue]:
    """The last of the ``k`` smallest elements that ``topk`` gives"""
    if rank(x) == 0:
        return [x, b.full([], 0, element(b.rewriter.root.results[1]))]
    position = wrap(dim, rank(x))
    found = b.results("aten.topk.default", x, k, position, False, True)
    if keepdim:
        return [b.slice(r, position, k - 1, k) for r in found]
    return [b.select(r, position, k - 1) for r in found]


@decomposition("aten.median.dim")
def median(b: Builder, x: SSAValue, dim: int, keepdim: bool) -> list[SSAValue] | None:
    """The lower one of the elements in the middle"""
    size = dims(x)[wrap(dim, rank(x))] if rank(x) else 1
    if not isinstance(size, int):
        return b.no_match("the size is only known at run time")
    return kthvalue(b, x, (size + 1) // 2, dim, keepdim)


@decomposition("aten.median.default")
def median_of_all(b: Builder, x: SSAValue) -> SSAValue | None:
    """The lower one of the elements in the middle"""
    result = median(b, b.view(x, [-1]), 0, False)
    return None if result is None else result[0]


# --- running totals ---------------------------------------------------------------------------------------------------


@decomposition("aten.cumprod.default")
def cumprod(b: Builder, x: SSAValue, dim: int, dtype: Attribute | None) -> SSAValue | None:
    """Products with the element 1, 2, 4, ... positions before (Hillis and Steele, 1986)"""
    type = element(b.rewriter.root.results[0])
    x = b.cast(x, dtype or type)
    if rank(x) == 0:
        return x
    position = wrap(dim, rank(x))
    size = dims(x)[position]
    if not isinstance(size, int):
        return b.no_match("the size is only known at run time")
    step = 1
    while step < size:
        front = b.slice(x, position, 0, step)
        x = b.cat([front, b.mul(b.slice(x, position, step, None), b.slice(x, position, 0, size - step))], position)
        step *= 2
    return x


@decomposition("aten.cumulative_trapezoid.dx")
def cumulative_trapezoid(b: Builder, y: SSAValue, dx: float, dim: int) -> SSAValue:
    """``cumsum(y[1:] + y[:-1]) * dx / 2``"""
    position = wrap(dim, rank(y))
    areas = b.add(b("aten.slice.Tensor", y, position, 1), b("aten.slice.Tensor", y, position, 0, -1))
    return b.mul(b("aten.cumsum.default", areas, position), dx / 2)
