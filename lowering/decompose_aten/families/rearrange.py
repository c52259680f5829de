"""Other views and rearrangements as the core ones: ``view``, ``permute``, ``expand``, ``slice``, ``split_with_sizes``.

A functional program has no strides, so that every reshape is a ``view``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i64
from etir.dialects.et.layout import dims_of
from etir.dialects.sym.ops import arithmetic
from etir.lowering.build.builder import Builder, Relation, dims, element, rank
from etir.lowering.build.dims import wrap, wrap_all
from etir.lowering.build.inference import tensor_type_of
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.build.sizes import Size, SizeLike, product
from etir.lowering.decompose_aten.decomposition import decomposition, rename

rename(
    [
        (aten.split.sizes, aten.split_with_sizes.default),
        (aten.unsafe_split_with_sizes.default, aten.split_with_sizes.default),
        (aten.unsafe_chunk.default, aten.chunk.default),
        (aten.unsafe_split.Tensor, aten.split.Tensor),
        (aten.broadcast_to.default, aten.expand.default),
        (aten.moveaxis.int, aten.movedim.int),
        (aten.moveaxis.intlist, aten.movedim.intlist),
        (aten.swapaxes.default, aten.transpose.int),
        (aten.swapdims.default, aten.transpose.int),
    ]
)


# --- reshapes ---------------------------------------------------------------------------------------------------------


def view_as_declared(b: Builder, x: SSAValue, sizes: Sequence[Any]) -> SSAValue:
    """``view`` to the result type of the operator that is decomposed; ``sizes`` may hold any runtime scalars.

    A single runtime size is left to the operation as -1.
    """
    type = b.declared
    if x.type == type:
        return x
    known = dims_of(type)
    dynamic = [i for i, d in enumerate(known) if not isinstance(d, int)]
    given = [d if isinstance(d, int) else s for s, d in zip(sizes, known, strict=True)]
    if len(dynamic) == 1 and all(d for d in known if isinstance(d, int)):
        given[dynamic[0]] = -1
    return b(aten.view.default, x, given, types=[type])


@decomposition(
    aten.reshape.default,
    aten._unsafe_view.default,
    aten._reshape_copy.default,
    aten._reshape_alias.default,
    symint_args=("shape", "size", "stride"),
)
def reshape(b: Builder, x: SSAValue, sizes: Sequence[Any], *_strides: object) -> SSAValue:
    """``view``"""
    return view_as_declared(b, x, sizes)


@decomposition(aten.view_as.default, aten.reshape_as.default)
def reshape_as(b: Builder, x: SSAValue, other: SSAValue) -> SSAValue:
    """``view`` in the other tensor's sizes"""
    return view_as_declared(b, x, b.sizes(other))


@decomposition(aten.flatten.using_ints)
def flatten(b: Builder, x: SSAValue, start: int, end: int) -> SSAValue:
    """``view`` with a range of dims as one"""
    sizes = b.sizes(x)
    first, last = wrap(start, len(sizes)), wrap(end, len(sizes))
    return view_as_declared(b, x, [*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :]])


@decomposition(aten.ravel.default)
def ravel(b: Builder, x: SSAValue) -> SSAValue:
    """``view`` with one dim"""
    return view_as_declared(b, x, [-1])


@decomposition(aten.unflatten.int, symint_args=("sizes",))
def unflatten(b: Builder, x: SSAValue, dim: int, parts: Sequence[Any]) -> SSAValue:
    """``view`` with one dim as several"""
    sizes = b.sizes(x)
    position = wrap(dim, len(sizes))
    return view_as_declared(b, x, [*sizes[:position], *parts, *sizes[position + 1 :]])


@decomposition(aten.squeeze.default)
def squeeze(b: Builder, x: SSAValue) -> SSAValue:
    """Without all dims of size 1"""
    positions = [i for i, size in enumerate(dims(x)) if size == 1]
    return b.squeeze(x, positions) if positions else x


@decomposition(aten.atleast_1d.default, aten.atleast_2d.default, aten.atleast_3d.default)
def atleast(b: Builder, x: SSAValue) -> SSAValue:
    """New dims of size 1"""
    return at_least(b, x, int(b.rewriter.root.name.split("_")[1][0]))


def at_least(b: Builder, x: SSAValue, count: int) -> SSAValue:
    """``x`` with ``count`` dims or more: new ones first, but the third one last, as NumPy has it."""
    given = rank(x)
    if given >= count:
        return x
    front = min(count, 2) - given
    sizes = [*[1] * max(front, 0), *b.sizes(x)]
    return b.view(x, [*sizes, *[1] * (count - len(sizes))])


# --- permutations -----------------------------------------------------------------------------------------------------


@decomposition(aten.transpose.int)
def transpose(b: Builder, x: SSAValue, first: int, second: int) -> SSAValue:
    """``permute``"""
    return b.transpose(x, first, second) if rank(x) else x


@decomposition(aten.t.default, aten.numpy_T.default)
def reverse_dims(b: Builder, x: SSAValue) -> SSAValue:
    """``permute`` with all dims in reverse"""
    return b.permute(x, range(rank(x))[::-1])


@decomposition(aten.mT.default, aten.mH.default, aten.adjoint.default, aten.matrix_H.default)
def transpose_matrices(b: Builder, x: SSAValue) -> SSAValue | None:
    """``permute`` of the last two dims, for real types"""
    if "complex" in str(x.type):
        return b.notify_match_failure("it is complex")
    return b.transpose(x, -2, -1)


@decomposition(aten.movedim.int, aten.movedim.intlist)
def movedim(b: Builder, x: SSAValue, source: int | Sequence[int], destination: int | Sequence[int]) -> SSAValue:
    """``permute``"""
    count = rank(x)
    sources = wrap_all((source,) if isinstance(source, int) else source, count)
    targets = wrap_all((destination,) if isinstance(destination, int) else destination, count)
    order = [-1] * count
    for origin, target in zip(sources, targets, strict=True):
        order[target] = origin
    rest = iter([i for i in range(count) if i not in sources])
    return b.permute(x, [next(rest) if origin < 0 else origin for origin in order])


@decomposition(aten.fliplr.default, aten.flipud.default)
def flip(b: Builder, x: SSAValue) -> SSAValue:
    """``flip`` of one dim"""
    return b(aten.flip.default, x, [1 if "fliplr" in b.rewriter.root.name else 0])


@decomposition(aten.rot90.default)
def rot90(b: Builder, x: SSAValue, turns: int, plane: Sequence[int]) -> SSAValue:
    """``flip`` and ``permute``"""
    first, second = wrap_all(plane, rank(x))
    turns %= 4
    if turns == 0:
        return x
    flipped = b(aten.flip.default, x, {1: [second], 2: [first, second], 3: [first]}[turns])
    return flipped if turns == 2 else b.transpose(flipped, first, second)


@decomposition(aten.pixel_shuffle.default)
def pixel_shuffle(b: Builder, x: SSAValue, factor: int) -> SSAValue:
    """[..., c * f * f, h, w] to [..., c, h * f, w * f] (Shi et al., 2016)"""
    *batch, channels, height, width = b.sizes(x)
    parts = b.view(x, [*batch, channels // (factor * factor), factor, factor, height, width])
    n = len(batch)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return view_as_declared(b, b.permute(parts, order), [*batch, -1, height * factor, width * factor])


@decomposition(aten.pixel_unshuffle.default)
def pixel_unshuffle(b: Builder, x: SSAValue, factor: int) -> SSAValue:
    """[..., c, h * f, w * f] to [..., c * f * f, h, w]"""
    *batch, channels, height, width = b.sizes(x)
    height, width = height // factor, width // factor
    parts = b.view(x, [*batch, channels, height, factor, width, factor])
    n = len(batch)
    return view_as_declared(
        b, b.permute(parts, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), [*batch, -1, height, width]
    )


@decomposition(aten.channel_shuffle.default, aten.native_channel_shuffle.default)
def channel_shuffle(b: Builder, x: SSAValue, groups: int) -> SSAValue:
    """Channels of all groups in turn (Zhang et al., 2017)"""
    sizes = b.sizes(x)
    parts = b.view(x, [sizes[0], groups, sizes[1] // groups, *sizes[2:]])
    return b.view(b.transpose(parts, 1, 2), sizes)


# --- parts ------------------------------------------------------------------------------------------------------------


def _split(b: Builder, x: SSAValue, sizes: Sequence[SizeLike], position: int) -> Sequence[SSAValue]:
    """Parts along a dim, with the declared types."""
    if len(sizes) == 1:
        return [x]
    types = [r.type for r in b.rewriter.root.results]
    return b.results(aten.split_with_sizes.default, x, sizes, wrap(position, rank(x)), types=types)


@decomposition(aten.split_with_sizes.default, symint_args=("split_sizes",))
def split_complex(b: Builder, x: SSAValue, split_sizes: Sequence[Any], dim: int) -> list[SSAValue] | None:
    """A slice for each part of a complex tensor; of others it is core ATen"""
    sizes = b.as_sizes(split_sizes)
    if category_of(element(x)) <= FLOATING or sizes is None:
        return b.notify_match_failure("it is not complex")
    parts: list[SSAValue] = []
    start: SizeLike = 0
    for size in sizes:
        parts.append(b.slice(x, dim, start, start + size))
        start = start + size
    return parts


@decomposition(aten.unbind.int)
def unbind_complex(b: Builder, x: SSAValue, dim: int) -> list[SSAValue] | None:
    """A ``select`` for each entry of a complex tensor; of others it is one kernel"""
    if category_of(element(x)) <= FLOATING:
        return b.notify_match_failure("it is not complex")
    return [b.select(x, dim, index) for index in range(len(b.rewriter.root.results))]


def _parts(b: Builder, total: SizeLike, part: SizeLike) -> list[SizeLike]:
    """As many parts as there are results: all but the last one of equal size."""
    count = len(b.rewriter.root.results)
    return [*[part] * (count - 1), total - (part * (count - 1))]


@decomposition(aten.chunk.default)
def chunk(b: Builder, x: SSAValue, chunks: int, dim: int) -> Sequence[SSAValue]:
    """``split_with_sizes`` with equal parts, rounded up"""
    total = b.size(x, dim)
    return _split(b, x, _parts(b, total, (total + (chunks - 1)) // chunks), dim)


@decomposition(aten.split.Tensor, symint_args=("split_size",))
def split(b: Builder, x: SSAValue, part: Any, dim: int) -> Sequence[SSAValue] | None:
    """``split_with_sizes`` with equal parts"""
    size = b.as_size(part)
    if size is None:
        return b.notify_match_failure("nothing is known about the size of the parts")
    return _split(b, x, _parts(b, b.size(x, dim), size), dim)


@decomposition(aten.unbind.int)
def unbind(b: Builder, x: SSAValue, dim: int) -> Sequence[SSAValue] | None:
    """``select`` of each index, if a size is dynamic: ``unbind``'s kernel does not resize its results"""
    if all(isinstance(d, int) for d in dims(x)):
        return b.notify_match_failure("all sizes are known")
    return [b(aten.select.int, x, dim, i) for i in range(len(b.rewriter.root.results))]


@decomposition(aten.tensor_split.sections, aten.hsplit.int, aten.vsplit.int, aten.dsplit.int)
def tensor_split(b: Builder, x: SSAValue, sections: int, dim: int | None = None) -> Sequence[SSAValue]:
    """``split_with_sizes`` with parts that differ by one at most"""
    position = _split_dim(b, x, dim)
    total = b.size(x, position)
    return _split(b, x, [(total + (sections - 1 - i)) // sections for i in range(sections)], position)


@decomposition(aten.tensor_split.indices, aten.hsplit.array, aten.vsplit.array, aten.dsplit.array)
def tensor_split_at(
    b: Builder, x: SSAValue, indices: Sequence[int], dim: int | None = None
) -> Sequence[SSAValue] | None:
    """``slice`` between the indices"""
    position = _split_dim(b, x, dim)
    bounds = [0, *indices, 2**63 - 1]
    return [b(aten.slice.Tensor, x, position, start, end) for start, end in pairwise(bounds)]


@decomposition(aten.tensor_split.tensor_indices_or_sections)
def tensor_split_at_data(b: Builder, x: SSAValue, places: SSAValue, dim: int) -> Sequence[SSAValue] | None:
    """``slice`` between the elements of a vector"""
    results = b.rewriter.root.results
    if rank(places) != 1 or dims(places)[0] != len(results) - 1:
        return b.notify_match_failure("the number of parts depends on data")
    position = wrap(dim, rank(x))
    indices = [b.select(places, 0, i) for i in range(len(results) - 1)]
    numbers = [b(aten._local_scalar_dense.default, index, types=[i64]) for index in indices]
    ends: list[Any] = [0, *numbers, 2**63 - 1]
    parts = zip(pairwise(ends), results, strict=True)
    return [b(aten.slice.Tensor, x, position, start, end, types=[part.type]) for (start, end), part in parts]


def _split_dim(b: Builder, x: SSAValue, dim: int | None) -> int:
    if dim is not None:
        return wrap(dim, rank(x))
    kind = b.rewriter.root.name.removeprefix("aten.")[0]
    return {"v": 0, "h": min(rank(x) - 1, 1), "d": 2}[kind]


def add_numbers(b: Builder, x: Any, y: Any) -> Any:
    """The sum of two ints, sizes or runtime scalars of the program."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    x, y = (v.value if isinstance(v, Size) else v if isinstance(v, SSAValue) else b.pool.scalar(v) for v in (x, y))
    return b.insert(arithmetic("add", x, y)).results[0]


@decomposition(aten.narrow.default, aten.narrow_copy.default, symint_args=("start", "length"))
def narrow(b: Builder, x: SSAValue, dim: int, start: Any, length: Any) -> SSAValue:
    """``slice`` from ``start`` to ``start + length``"""
    type = b.declared
    position = wrap(dim, rank(x))
    if x.type == type and start == 0:
        return x
    if isinstance(start, int) and start < 0:
        total = b.size(x, position)
        start = add_numbers(b, total, start)
    return b(aten.slice.Tensor, x, position, start, add_numbers(b, start, length), types=[type])


@decomposition(aten.narrow.Tensor, symint_args=("length",))
def narrow_from_tensor(b: Builder, x: SSAValue, dim: int, start: SSAValue, length: Any) -> SSAValue:
    """``slice`` from the number that the tensor holds"""
    type, position = b.declared, wrap(dim, rank(x))
    given = b(aten._local_scalar_dense.default, start, types=[i64])
    from_end = b.insert(arithmetic("add", given, b.pool.scalar(b.size(x, position)))).results[0]
    negative = b.insert(arithmetic("lt", given, b.pool.scalar(0))).results[0]
    first = b.insert(arithmetic("ite", negative, from_end, given)).results[0]
    return b(aten.slice.Tensor, x, position, first, add_numbers(b, first, length), types=[type])


# --- diagonals --------------------------------------------------------------------------------------------------------


@decomposition(aten.linalg_diagonal.default)
def linalg_diagonal(b: Builder, x: SSAValue, offset: int, first: int, second: int) -> SSAValue:
    """``diagonal``"""
    return b(aten.diagonal.default, x, offset, first, second)


@decomposition(aten.diag.default)
def diag(b: Builder, x: SSAValue, offset: int) -> SSAValue:
    """A matrix with a diagonal, or the diagonal of a matrix"""
    return embed_diagonal(b, x, offset) if rank(x) == 1 else b(aten.diagonal.default, x, offset, 0, 1)


@decomposition(aten.diagflat.default)
def diagflat(b: Builder, x: SSAValue, offset: int) -> SSAValue:
    """A matrix with a diagonal"""
    return embed_diagonal(b, b.view(x, [-1]), offset)


@decomposition(aten.diag_embed.default)
def diag_embed(b: Builder, x: SSAValue, offset: int, first: int, second: int) -> SSAValue:
    """Matrices with a diagonal, their dims at two positions"""
    matrices = embed_diagonal(b, x, offset)
    count = rank(matrices)
    rows, columns = wrap(first, count), wrap(second, count)
    rest = iter(range(count - 2))
    return b.permute(
        matrices, [count - 2 if i == rows else count - 1 if i == columns else next(rest) for i in range(count)]
    )


def embed_diagonal(b: Builder, x: SSAValue, offset: int) -> SSAValue:
    """``where(row + offset == column, x, 0)`` with ``x`` along the columns."""
    if offset:
        x = b(aten.constant_pad_nd.default, x, [max(offset, 0), max(-offset, 0)], 0)
    size = b.size(x, -1)
    column = b.arange(size)
    row = b.unsqueeze(b.add(column, offset) if offset else column, 1)
    element = tensor_type_of(x).element_type
    return b(aten.where.self, b.eq(row, column), b.unsqueeze(x, -2), b.as_tensor(0, element))


@decomposition(aten.tril.default, aten.triu.default)
def triangle(b: Builder, x: SSAValue, diagonal: int) -> SSAValue:
    """``where(column <= row + diagonal, x, 0)``, or ``>=``"""
    inside = triangle_mask(b, b.size(x, -2), b.size(x, -1), diagonal, "le" if "tril" in b.rewriter.root.name else "ge")
    return b(aten.where.self, inside, x, b.as_tensor(0, tensor_type_of(x).element_type))


def triangle_mask(b: Builder, rows: SizeLike, columns: SizeLike, diagonal: int, relation: Relation) -> SSAValue:
    """``column <relation> row + diagonal`` as a matrix of bool."""
    row = b.unsqueeze(b.arange(rows), 1)
    return b.compare(relation, b.arange(columns), b.add(row, diagonal) if diagonal else row)
