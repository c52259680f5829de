"""Operators that concatenate tensors, repeat them, or compare neighbors along a dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import bf16, f16, f32, f64, i1, i32, i64
from etir.dialects.et.layout import Dim, dims_of, tensor_type
from etir.lowering.build.builder import Builder, dims, element, rank
from etir.lowering.build.dims import broadcast, wrap, wrap_all
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.build.sizes import SizeLike, product
from etir.lowering.build.sizes import dim as dim_of_size
from etir.lowering.decompose_aten.decomposition import decomposition, rename
from etir.lowering.decompose_aten.families.rearrange import at_least

rename(
    [
        (aten.concat.default, aten.cat.default),
        (aten.concatenate.default, aten.cat.default),
        (aten._stack.default, aten.stack.default),
        (aten.row_stack.default, aten.vstack.default),
    ]
)


@decomposition(aten.stack.default)
def stack(b: Builder, tensors: Sequence[SSAValue], dim: int) -> SSAValue:
    """``cat`` along a new dim"""
    position = wrap(dim, rank(tensors[0]) + 1)
    return b.cat([b.unsqueeze(t, position) for t in tensors], position)


@decomposition(aten.hstack.default, aten.vstack.default, aten.dstack.default, aten.column_stack.default)
def stack_along(b: Builder, tensors: Sequence[SSAValue]) -> SSAValue:
    """``cat`` of tensors that have at least one, two or three dims"""
    name = b.rewriter.root.name.removeprefix("aten.").removesuffix(".default")
    if name == "column_stack":
        return b.cat([b.view(t, [-1, 1]) if rank(t) < 2 else t for t in tensors], 1)
    count = {"hstack": 1, "vstack": 2, "dstack": 3}[name]
    parts = [at_least(b, t, count) for t in tensors]
    return b.cat(parts, {"vstack": 0, "dstack": 2}.get(name, 0 if rank(parts[0]) == 1 else 1))


@decomposition(aten.cat.default)
def cat(b: Builder, tensors: Sequence[SSAValue], dim: int) -> SSAValue | None:
    """A single tensor is itself; tensors of other types are cast to one that kernels do not convert to"""
    common = b.declared.element_type
    if len(tensors) == 1 and element(tensors[0]) == common:
        return tensors[0]
    others = [element(t) for t in tensors if element(t) != common]
    # Of the same number of bytes, which kernels may copy as they are.
    alike = any((other, common) in ((i32, f32), (i64, f64)) for other in others)
    if others and (alike or common in (f16, bf16) or category_of(common) > FLOATING):
        return b(aten.cat.default, [b.cast(t, common) for t in tensors], dim, types=[b.declared])
    return b.notify_match_failure("it joins several tensors")


@decomposition(aten.block_diag.default)
def block_diag(b: Builder, tensors: Sequence[SSAValue]) -> SSAValue | None:
    """``constant_pad_nd`` of each matrix to the whole width, then ``cat``"""
    blocks = [at_least(b, t, 2) for t in tensors]
    widths = [b.sizes(block)[1] for block in blocks]
    total: SizeLike = 0
    for width in widths:
        total = total + width
    rows: list[SSAValue] = []
    before: SizeLike = 0
    for block, width in zip(blocks, widths, strict=True):
        type = tensor_type(element(block), [dims(block)[0], dim_of_size(total)])
        after = total - before - width
        rows.append(b(aten.constant_pad_nd.default, block, [before, after], 0, types=[type]))
        before = before + width
    return b.cat(rows, 0)


# --- repetition -------------------------------------------------------------------------------------------------------


@decomposition(aten.expand_as.default)
def expand_as(b: Builder, x: SSAValue, other: SSAValue) -> SSAValue:
    """``expand`` to the other tensor's sizes"""
    return b.expand(x, b.sizes(other))


@decomposition(aten.broadcast_tensors.default)
def broadcast_tensors(b: Builder, tensors: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """``expand`` to the common shape"""
    return b.broadcast(*tensors)


@decomposition(aten.tile.default, symint_args=("dims",))
def tile(b: Builder, x: SSAValue, repeats: Sequence[Any]) -> SSAValue:
    """``repeat`` with a count for every dim"""
    given = [*[1] * (rank(x) - len(repeats)), *repeats]
    return b(aten.repeat.default, x, given, types=[b.rewriter.root.results[0].type])


@decomposition(aten.repeat.default)
def repeat(b: Builder, x: SSAValue, repeats: Sequence[int]) -> SSAValue | None:
    """``expand`` where only dims of size 1 are repeated"""
    padded = (*(1,) * (len(repeats) - rank(x)), *dims(x))
    if any(count != 1 and size != 1 for count, size in zip(repeats, padded, strict=True)):
        return b.notify_match_failure("it repeats a dim that is longer than 1")
    return b.expand(x, [-1 if c == 1 and i >= len(repeats) - rank(x) else c for i, c in enumerate(repeats)])


@decomposition(aten.repeat_interleave.self_int, symint_args=("repeats", "output_size"))
def repeat_interleave(b: Builder, x: SSAValue, count: Any, dim: int | None, _size: Any) -> SSAValue | None:
    """``expand`` of a new dim, merged with the one before it"""
    times = b.as_size(count)
    if times is None:
        return b.notify_match_failure("nothing is known about the number of repeats")
    if dim is None:
        x = b.view(x, [-1])
    position = wrap(dim or 0, rank(x))
    sizes: list[SizeLike] = b.sizes(x)
    spread = b.expand(b.unsqueeze(x, position + 1), [*sizes[: position + 1], times, *sizes[position + 1 :]])
    return b.view(spread, [*sizes[:position], sizes[position] * times, *sizes[position + 1 :]])


@decomposition(aten.repeat_interleave.self_Tensor, symint_args=("output_size",))
def repeat_interleave_by_tensor(b: Builder, x: SSAValue, counts: SSAValue, dim: int | None, size: Any) -> SSAValue:
    """``index_select`` with the repeated positions"""
    if dim is None:
        x = b.view(x, [-1])
    position = wrap(dim or 0, rank(x))
    type = b.declared
    if dims(counts) in ((), (1,)):
        counts = b.expand(b.view(counts, [1]), [b.size(x, position)])
    index_type = tensor_type(i64, [dims_of(type)[position]])
    index = b(aten.repeat_interleave.Tensor, counts, output_size=size, types=[index_type])
    return b(aten.index_select.default, x, position, index, types=[type])


@decomposition(aten.meshgrid.default, aten.meshgrid.indexing)
def meshgrid(b: Builder, tensors: Sequence[SSAValue], indexing: str = "ij") -> Sequence[SSAValue]:
    """``expand`` of each tensor along its own dim"""
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) >= 2:
        order[0], order[1] = 1, 0
    lengths: list[SizeLike] = [b.size(t, 0) if rank(t) else 1 for t in tensors]
    shape = [lengths[i] for i in order]
    grids: list[SSAValue] = []
    for i, tensor in enumerate(tensors):
        own: list[SizeLike] = [1] * len(tensors)
        own[order.index(i)] = lengths[i]
        grids.append(b.expand(b.view(tensor, own), shape))
    return grids


@decomposition(aten.cartesian_prod.default)
def cartesian_prod(b: Builder, tensors: Sequence[SSAValue]) -> SSAValue:
    """``stack`` of the flattened ``meshgrid``"""
    if len(tensors) == 1:
        return tensors[0]
    columns = [b.view(grid, [-1, 1]) for grid in meshgrid(b, tensors)]
    return b.cat(columns, 1)


@decomposition(aten.roll.default)
def roll(b: Builder, x: SSAValue, shifts: Sequence[int], positions: Sequence[int]) -> SSAValue:
    """``cat`` of the two parts of each dim in exchanged order"""
    shape = b.sizes(x)
    rolled = x if positions else b.view(x, [-1])
    for shift, position in zip(shifts, wrap_all(positions or (0,), rank(rolled)), strict=True):
        size = b.size(rolled, position)
        start = ((size - shift) if shift > 0 else -shift) % size if size != 0 else 0
        if start == 0:
            continue
        rolled = b.cat([b.slice(rolled, position, start, None), b.slice(rolled, position, 0, start)], position)
    return rolled if positions else b.view(rolled, shape)


# --- neighbors -------------------------------------------------------------------------------------------------------


def _neighbors(b: Builder, x: SSAValue, position: int) -> tuple[SSAValue, SSAValue]:
    """All entries of a dim but the first, and all but the last."""
    return b(aten.slice.Tensor, x, position, 1), b(aten.slice.Tensor, x, position, 0, -1)


@decomposition(aten.diff.default)
def diff(b: Builder, x: SSAValue, n: int, dim: int, before: SSAValue | None, after: SSAValue | None) -> SSAValue:
    """Differences of neighbors, ``n`` times"""
    if n == 0:
        return x  # Without what comes before and after.
    position = wrap(dim, rank(x))
    x = b.cat([t for t in (before, x, after) if t is not None], position)
    size = dims(x)[position]
    for _ in range(min(n, size) if isinstance(size, int) else n):
        later, earlier = _neighbors(b, x, position)
        x = b.logical_xor(later, earlier) if element(x) == i1 else b.sub(later, earlier)
    return x


@decomposition(aten.trapezoid.dx, aten.trapz.dx)
def trapezoid(b: Builder, y: SSAValue, dx: float, dim: int) -> SSAValue:
    """``sum(y[1:] + y[:-1]) * dx / 2``"""
    position = wrap(dim, rank(y))
    return b.mul(b.sum(b.add(*_neighbors(b, y, position)), [position]), dx / 2)


def _areas(b: Builder, y: SSAValue, x: SSAValue, position: int) -> SSAValue:
    """Twice the area between each element of ``y`` and the next one, for places ``x``, which may have fewer dims."""
    at = position
    if rank(x) == 1:
        shape: list[Any] = [1] * rank(y)
        shape[position] = -1
        x = b.view(x, shape)
    else:
        at = position - rank(y) + rank(x)
    return b.mul(b.add(*_neighbors(b, y, position)), b.sub(*_neighbors(b, x, at)))


@decomposition(aten.trapezoid.x, aten.trapz.x)
def trapezoid_at(b: Builder, y: SSAValue, x: SSAValue, dim: int) -> SSAValue:
    """``sum((y[1:] + y[:-1]) * (x[1:] - x[:-1])) / 2``"""
    position = wrap(dim, rank(y))
    return b.div(b.sum(_areas(b, y, x, position), [position - rank(y)]), 2)


@decomposition(aten.cumulative_trapezoid.x)
def cumulative_trapezoid_at(b: Builder, y: SSAValue, x: SSAValue, dim: int) -> SSAValue:
    """``cumsum((y[1:] + y[:-1]) * (x[1:] - x[:-1])) / 2``"""
    position = wrap(dim, rank(y))
    return b.div(b(aten.cumsum.default, _areas(b, y, x, position), position - rank(y)), 2)


@decomposition(aten._chunk_cat.default)
def chunk_cat(b: Builder, tensors: Sequence[SSAValue], dim: int, count: int) -> SSAValue:
    """``cat`` of tensors as chunks: [..., chunks, elements of one], with zeros where a dim is no multiple"""
    position = wrap(dim, rank(tensors[0]))
    rows: list[SSAValue] = []
    for x in tensors:
        sizes = b.sizes(x)
        each = (sizes[position] + (count - 1)) // count
        missing = each * count - sizes[position]
        if not isinstance(missing, int) or missing:
            x = b(aten.constant_pad_nd.default, x, [0, 0] * (rank(x) - 1 - position) + [0, missing], 0)
        rows.append(b.view(x, [*sizes[:position], count, each * product(sizes[position + 1 :])]))
    return b.cat(rows, position + 1)


@decomposition(aten.sum_to_size.default)
def sum_to_size(b: Builder, x: SSAValue, size: Sequence[int]) -> SSAValue:
    """``sum`` over the dims that were broadcast"""
    front = rank(x) - len(size)
    own: Sequence[Dim] = dims(x)
    positions = [i for i in range(rank(x)) if i < front or (size[i - front] == 1 and own[i] != 1)]
    summed = b.view(b.sum(x, positions, True), list(size)) if positions else x
    return b.cast(summed, element(b.rewriter.root.results[0]))


@decomposition(aten.take_along_dim.default)
def take_along_dim(b: Builder, x: SSAValue, index: SSAValue, dim: int | None) -> SSAValue:
    """``gather`` of tensors that broadcast against each other"""
    if dim is None:
        return b(aten.gather.default, b.view(x, [-1]), 0, b.view(index, [-1]))
    position = wrap(dim, rank(x))

    def others(t: SSAValue) -> list[Dim]:
        return [1 if i == position else d for i, d in enumerate(dims(t))]

    shape = [b.size_for(d, (x, index)) for d in broadcast(others(x), others(index))]
    both: list[SSAValue] = []
    for t in (x, index):
        sizes = list(shape)
        sizes[position] = b.size(t, position)
        both.append(b.expand(t, sizes))
    return b(aten.gather.default, both[0], position, both[1])
