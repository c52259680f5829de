"""``scatter_reduce``, and ``index_reduce`` by it, for targets without a kernel of them.

Sums and means are additions at the indices. For the others every element of the result looks at all sources of its
line: ``n`` positions by ``m`` sources, of which those that go elsewhere are replaced by the neutral element. Where
there are fewer sources than positions, every source looks at all sources instead, ``m`` by ``m``, and those that go to
one place all store the same number there.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, ComplexType, IntegerType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import dtype_of, i1
from etir.lowering.build.builder import Builder, Operator, dims, element, rank, wrap
from etir.lowering.decompose_aten.decomposition import decomposition


def _neutral(type: Attribute, reduce: str) -> float | bool | None:
    """What changes nothing: 1, or the least or greatest number of the type; None where the type has none."""
    if reduce == "prod":
        return 1
    largest = reduce == "amin"
    if isinstance(type, AnyFloat):
        return float("inf") if largest else float("-inf")
    if type == i1:
        return largest
    if not isinstance(type, IntegerType):
        return None
    signed = not dtype_of(type).torch_name.startswith("uint")
    bits = type.width.data - signed
    return 2**bits - 1 if largest else -(2**bits) * signed


def _counts(b: Builder, x: SSAValue, dim: int, index: SSAValue, include_self: bool) -> SSAValue:
    own = element(x)
    kind = own.element_type if isinstance(own, ComplexType) else own
    ones = b.full(b.sizes(index), 1, kind)
    count = b(aten.scatter_add.default, b.full(b.sizes(x), int(include_self), kind), dim, index, ones)
    return b.cast(b.clamp(count, 1), own)


_COMBINE: dict[str, Operator] = {
    "prod": aten.mul.Tensor,
    "amax": aten.maximum.default,
    "amin": aten.minimum.default,
}
"""The reductions that need more than additions, of two tensors."""


@decomposition(aten.scatter_reduce.two)
def scatter_reduce(
    b: Builder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, reduce: str, include_self: bool
) -> SSAValue | None:
    """Additions at the indices, or a reduction of all sources of a line"""
    if rank(x) == 0:
        lines = [b.view(v, [1]) for v in (x, index, source)]
        result = scatter_reduce(b, lines[0], 0, lines[1], lines[2], reduce, include_self)
        return None if result is None else b.view(result, [])
    position = wrap(dim, rank(x))
    for axis, size in enumerate(b.sizes(index)):
        source = b.slice(source, axis, 0, size)
    if reduce in ("sum", "mean"):
        base = x if include_self else b(aten.scatter.value, x, position, index, 0)
        total = b(aten.scatter_add.default, base, position, index, source)
        if reduce == "sum":
            return total
        count = _counts(b, x, position, index, include_self)
        if isinstance(element(x), (AnyFloat, ComplexType)):
            return b.div(total, count)
        return b(aten.div.Tensor_mode, total, count, rounding_mode="floor")
    others = [d for d in range(rank(x)) if d != position]
    neutral = _neutral(element(x), reduce)
    if neutral is None:
        return b.notify_match_failure("nothing is neutral in this type")
    uncovered = [d for d in others if dims(x)[d] != dims(index)[d]]
    if uncovered:
        return _of_part(b, x, position, index, source, reduce, include_self, uncovered)
    order = [*others, position]
    x, index, source = (b.permute(v, order) for v in (x, index, source))
    last = rank(x) - 1
    positions, sources = b.sizes(x)[last], b.sizes(index)[last]
    is_sparse = isinstance(positions, int) and isinstance(sources, int) and sources < positions
    places = b.unsqueeze(index, last + 1) if is_sparse else b.unsqueeze(b.arange(positions), 1)
    hit = b.eq(b.unsqueeze(index, last), places)
    filled = b.where(hit, b.unsqueeze(source, last), neutral)
    if reduce == "prod":
        folded = b(aten.prod.dim_int, filled, last + 1)
        folded = b.cast(folded, element(x))
    else:
        folded = b(aten.amax.default if reduce == "amax" else aten.amin.default, filled, [last + 1])
    if is_sparse:
        if include_self:
            folded = b(_COMBINE[reduce], b(aten.gather.default, x, last, index), folded)
        result = b(aten.scatter.src, x, last, index, folded)
    else:
        result = b(_COMBINE[reduce], x, folded) if include_self else b.where(b(aten.any.dim, hit, last + 1), folded, x)
    return b.permute(result, [order.index(d) for d in range(rank(x))])


@decomposition(aten.index_reduce.default)
def index_reduce(
    b: Builder, x: SSAValue, dim: int, index: SSAValue, source: SSAValue, reduce: str, include_self: bool
) -> SSAValue:
    """``scatter_reduce`` with the same indices for every line"""
    if rank(x) == 0:
        x, source = b.view(x, [1]), b.view(source, [1])
        return b.view(index_reduce(b, x, 0, index, source, reduce, include_self), [])
    position = wrap(dim, rank(x))
    shape = [-1 if d == position else 1 for d in range(rank(x))]
    places = b.expand(b.view(index, shape), b.sizes(source))
    return b(aten.scatter_reduce.two, x, position, places, source, reduce, include_self=include_self)


def _of_part(
    b: Builder,
    x: SSAValue,
    dim: int,
    index: SSAValue,
    source: SSAValue,
    reduce: str,
    include_self: bool,
    uncovered: Sequence[int],
) -> SSAValue | None:
    """The lines that indices reach are reduced and put back among the others."""
    parts = [x]
    for d in uncovered:
        parts.append(b.slice(parts[-1], d, 0, b.sizes(index)[d]))
    result = scatter_reduce(b, parts[-1], dim, index, source, reduce, include_self)
    for d, whole in reversed(list(zip(uncovered, parts[:-1], strict=True))):
        if result is not None:
            end = b.scalar(b.sizes(index)[d])
            result = b(aten.slice_scatter.default, whole, result, d, 0, end, types=[whole.type])
    return result
