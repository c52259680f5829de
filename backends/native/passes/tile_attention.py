"""``tile-attention``: scores of attention for a block of rows at a time.

Before::

    tile.brgemm %q, %k, %s() : memref<12x197x64xf32>, ..., memref<12x197x197xf32>
    tile.map %t(%s, %mask) ...
    tile.softmax %t, %p
    tile.brgemm %p, %v, %o()

After, when nothing else reads the scores::

    tile.loop [12, 6] (%q, %k, %mask, %v) -> (%o) locals (%rows) ... {
      tile.brgemm %q0, %k0, %rows0(%mask0) ...
      tile.softmax %rows0, %rows0 scale %s0
      tile.brgemm %rows0, %v0, %o0(%s0) { arith.mulf %sum, %scale }
    }

A block has as many rows as the first cache can hold scores of. Where these are fewer than a product needs to be quick,
it has as many as suit the second cache: what passes over all keys for each block, keys and values, is read less often.
Elementwise operators between the product and the softmax go into the product's body. Scores are not divided by the sum
of their row, which the few elements of the result are. The rows that do not fill a block are a second loop. What is
added to scores, and has not its columns side by side, as a table of relative positions by heads, is copied before.

Where the function saves ``blocks``, blocks have as few rows as are quick (``savings.py``). Where it saves ``slots``, an
attention so small that one thread does it as soon as several has scores for one, and blocks of fewer rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.functions import tile_functions
from etir.backends.native.loop import SLOTS, LoopOp
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.sizes import Size, most
from etir.backends.native.tile import (
    BrgemmOp,
    BufferOp,
    MapOp,
    SoftmaxOp,
    YieldOp,
    body_of,
    memref,
    row_major,
    shape_of,
    strides_of,
)
from etir.backends.native.users import drop_unused, inline, is_read_once, only_reader, only_writer, place_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

SCORES = 6144
"""Floats of the scores of a block: half of a first cache of 48 KiB."""
LEAST_ROWS = 14
"""Rows of a block that a product needs to be quick, however long they are."""
LONG_ROWS = 36
"""Rows of a block whose scores are in the second cache: a multiple of a tile's rows on most processors."""
MOST_SCORES = 1 << 16
"""Floats of the scores of a block beyond which it would not stay in the second cache either."""
FEW_ROWS = (8, 7, 6, 5, 4)
"""Rows of a block where memory is to be saved of an attention that is small as a whole, the first that leave no rest:
with a second loop for that, the result could not lie over the queries.
"""
SMALL = 1 << 19
"""Products of numbers in an attention that threads would not make quicker: some ten microseconds of one."""


@dataclass
class _Attention:
    """The operations of one attention; ``maps`` are between the product and the softmax."""

    scores: BrgemmOp
    maps: list[MapOp]
    softmax: SoftmaxOp
    values: BrgemmOp
    most_scores: int
    """Floats of the scores of a block."""
    is_small: bool = False
    """Whether one thread does it, in as little memory as it can."""


def fuse_attention(func: FuncOp) -> None:
    """Make a loop of every attention in ``func`` whose scores nothing else reads."""
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, SoftmaxOp)]:
        found = _match(op, 0 if saves(func, "blocks") else SCORES)
        if found is not None:
            found.is_small = _work(found) <= SMALL and saves(func, "slots")
            _fuse(found)
    drop_unused(block)


def _match(softmax: SoftmaxOp, scores: int) -> _Attention | None:
    dims = shape_of(softmax.x)
    if softmax.log is not None or len(dims) < 3:
        return None
    values = only_reader(softmax.out)
    if only_writer(softmax.out) is not softmax:
        return None
    if not isinstance(values, BrgemmOp) or values.taps is not None:
        return None
    if place_of(values.a).base is not place_of(softmax.out).base or values.a in values.extra:
        return None
    if not _same(values.a, softmax.out, dims):
        return None
    maps: list[MapOp] = []
    value = softmax.x
    while is_read_once(value):
        writer = only_writer(value)
        if isinstance(writer, BrgemmOp) and writer.taps is None:
            found = _Attention(writer, maps[::-1], softmax, values, scores)
            return found if _fits(found, dims) else None
        if not isinstance(writer, MapOp) or not _same(writer.out, value, dims):
            return None
        sources = [v for v in writer.inputs if isinstance(only_writer(v), (BrgemmOp, MapOp))]
        sources = [v for v in sources if is_read_once(v) and math.prod(shape_of(v)) == math.prod(dims)]
        if len(sources) != 1 or any(_viewed(v, dims) is None for v in writer.inputs):
            return None
        maps.append(writer)
        value = sources[0]
    return None


def _viewed(value: SSAValue, dims: Sequence[int]) -> Place | None:
    return place_of(value).viewed(dims)


def _same(one: SSAValue, other: SSAValue, dims: Sequence[int]) -> bool:
    """Whether two operands are the same elements under these dims."""
    first, second = _viewed(one, dims), _viewed(other, dims)
    return first is not None and second is not None and first.is_same(second)


def _fits(found: _Attention, dims: Sequence[int]) -> bool:
    m, n = dims[-2:]
    is_whole = shape_of(found.scores.c)[-2:] == (m, n)
    return is_whole and _block(found, m, n) * most(n) <= MOST_SCORES and most(m) > 1


def _work(found: _Attention) -> int:
    """Products of numbers, at most."""
    each = shape_of(found.scores.a)[-1] + shape_of(found.values.c)[-1]
    return math.prod(most(n) for n in (*shape_of(found.softmax.x), each))


def _block(found: _Attention, m: int, n: int) -> int:
    """Rows of a block: all blocks but the last one are equal, and that is hardly lower. A number of rows that is known
    at run time only is in blocks as high as they may be.
    """
    high = found.most_scores // most(n)
    if high < LEAST_ROWS:
        high = max(LEAST_ROWS, min(LONG_ROWS, MOST_SCORES // most(n)) if found.most_scores else 0)
    if found.is_small and not isinstance(m, Size):
        high = next((rows for rows in FEW_ROWS if m % rows == 0), min(high, FEW_ROWS[0]))
    return min(high, most(m)) if isinstance(m, Size) else -(-m // -(-m // high))


def _fuse(found: _Attention) -> None:
    shape = shape_of(found.softmax.x)
    m, n = shape[-2], shape[-1]
    region, extras = _joined(found)
    # Heads of several examples may be dims of their own in a product, and one in the softmax, or the other way round.
    leads = dict.fromkeys(shape_of(v)[:-2] for v in (found.softmax.x, found.scores.c, found.values.c))
    for lead in leads:
        given = _places(found, extras, (*lead, m, n))
        if given is not None:
            break
    else:
        return
    by_row = len(given) - 3
    after = found.values
    block = _block(found, m, n)
    made: list[Operation] = []
    for number in range(1, 1 + len(extras)):
        if given[number].strides[-1] not in (0, 1) and n != 1:
            copied, given[number] = _side_by_side(given[number], found.scores)
            made += copied
    local: tuple[SSAValue, ...] = ()
    whole_blocks = 0 if most(m) == block and isinstance(m, Size) else m // block
    for start, count, height in ((0, whole_blocks, block), (whole_blocks * block, 1, m - whole_blocks * block)):
        if count != 0 and height != 0:
            made += _loop(found, given, by_row, region, (lead, count, height, start, n), len(extras), local)
            loop = made[-1]
            assert isinstance(loop, LoopOp)
            local = tuple(loop.locals)
    parent = after.parent
    assert parent is not None
    parent.insert_ops_before(made, after)
    for op in (found.values, found.softmax, *reversed(found.maps), found.scores):
        parent.erase_op(op)


def _places(found: _Attention, extras: Sequence[SSAValue], dims: tuple[int, ...]) -> list[Place] | None:
    """Where the operands are whose rows are those of scores of these dims, then keys and values, and the result; None
    where strides cannot say one of them.
    """
    scores, values = found.scores, found.values
    rows, wide = dims[:-1], shape_of(values.c)[-1]
    wanted = [(scores.a, (*rows, shape_of(scores.a)[-1])), *((e, dims) for e in extras)]
    wanted += [(e, (*rows, wide)) for e in values.extra]
    wanted += [(v, (*dims[:-2], *shape_of(v)[-3:])) for v in (scores.b, values.b)]
    wanted.append((values.c, (*rows, wide)))
    given = [_viewed(value, shape) for value, shape in wanted]
    known = [place for place in given if place is not None]
    return known if len(known) == len(given) else None


def _side_by_side(place: Place, like: Operation) -> tuple[list[Operation], Place]:
    """A copy whose columns lie side by side, of the elements that are there, and the place of all of them in it."""
    there = tuple(1 if stride == 0 else n for n, stride in zip(place.shape, place.strides, strict=True))
    buffer = BufferOp(memref(there))
    source = cast_of(Place(place.base, there, place.strides, place.offset), like)
    region = body_of(1)
    region.block.add_op(YieldOp(region.block.args[0]))
    made: list[Operation] = [buffer, source, MapOp(buffer.result, [source.results[0]], region)]
    for op in made:
        op.location = like.location
    return made, Place(buffer.result, there, row_major(there)).broadcast(place.shape)


def _loop(
    found: _Attention,
    given: Sequence[Place],
    by_row: int,
    region: Region,
    block: tuple[tuple[int, ...], int, int, int, int],
    extras: int,
    before: Sequence[SSAValue],
) -> list[Operation]:
    """The loop over ``count`` blocks of ``height`` rows from row ``start`` on. ``before``: the scores and scales of a
    loop over higher blocks, whose memory these have.
    """
    lead, count, height, start, n = block
    rank = len(lead)
    made: list[Operation] = []
    operands: list[SSAValue] = []
    steps: list[tuple[int, ...]] = []
    types = []
    for number, place in enumerate(given):
        has_rows = number < by_row or number == len(given) - 1
        if has_rows:
            place = place.sliced(rank, start, count * height)
        cast = cast_of(place, found.scores)
        made.append(cast)
        operands.append(cast.results[0])
        step = height * place.strides[rank] if has_rows else 0
        steps.append((*place.strides[:rank], step))
        inner = (height, place.shape[-1]) if has_rows else place.shape[rank:]
        types.append(memref(inner, place.strides[rank:]))
    slots = 1 if found.is_small else min(SLOTS, most(math.prod(lead) * count))
    # Rows of scores that are as long as the call says still lie at a distance that is known.
    shapes = ((slots, height, n), (slots, height, 1))
    if before:
        strides = strides_of(before[0].type)
        lies = (strides, strides_of(before[1].type))
        places = [Place(*row) for row in zip(before, shapes, lies, strict=True)]
        local: list[Operation] = [cast_of(place, found.scores) for place in places]
    else:
        strides = row_major((slots, most(height), most(n)))
        local = [BufferOp(memref(shapes[0], strides)), BufferOp(memref(shapes[1], (most(height), 1, 1)))]
    for op in local:
        op.location = found.scores.location
    body = Block(arg_types=[*types, memref((height, n), strides[1:]), memref((height, 1), (1, 1))])
    args = body.args
    q, k, v, out, rows, scale = args[0], *args[by_row : by_row + 5]
    masks, added = args[1 : 1 + extras], args[1 + extras : by_row]
    inner_ops = [
        BrgemmOp(q, k, rows, [*masks], region.clone()),
        SoftmaxOp(rows, rows, scale=scale, safe=found.softmax.safe is not None),
        BrgemmOp(rows, v, out, [*added, scale], _scaled(found.values)),
    ]
    for op, like in zip(inner_ops, (found.scores, found.softmax, found.values), strict=True):
        op.location = like.location
        body.add_op(op)
    scratch = [op.results[0] for op in local]
    loop = LoopOp((*lead, count), operands[:-1], operands[-1:], scratch, steps, Region(body))
    loop.location = found.softmax.location
    return [*made, *local, loop]


def _scaled(values: BrgemmOp) -> Region:
    """The body of a product whose sums are multiplied first, with the last one of its extra operands."""
    region = body_of(2 + len(values.extra))
    block = region.block
    scaled = arith.MulfOp(block.args[0], block.args[-1])
    block.add_op(scaled)
    given = [scaled.result, *block.args[1:-1]]
    block.add_op(YieldOp(inline(values.body.block, given, block, {})))
    return region


def _joined(found: _Attention) -> tuple[Region, list[SSAValue]]:
    """The product's body with those of the maps after it, and all of their extra operands."""
    scores = found.scores
    extras: list[SSAValue] = [*scores.extra]
    current = place_of(scores.c).base
    inputs: list[list[SSAValue]] = []
    for op in found.maps:
        inputs.append([v for v in op.inputs if place_of(v).base is not current])
        extras += inputs[-1]
        current = place_of(op.out).base
    region = body_of(1 + len(extras))
    block = region.block
    values: dict[SSAValue, SSAValue] = {}
    result = inline(scores.body.block, [block.args[0], *block.args[1 : 1 + len(scores.extra)]], block, values)
    at = 1 + len(scores.extra)
    current = place_of(scores.c).base
    for op in found.maps:
        arguments: list[SSAValue] = []
        for v in op.inputs:
            if place_of(v).base is current:
                arguments.append(result)
            else:
                arguments.append(block.args[at])
                at += 1
        result = inline(op.body.block, arguments, block, values)
        current = place_of(op.out).base
    block.add_op(YieldOp(result))
    return region, extras


@register_pass
@dataclass(frozen=True)
class TileAttentionPass(Pass):
    """Compute attention by blocks of rows, whose scores do not leave the caches"""

    name = "tile-attention"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            fuse_attention(func)
