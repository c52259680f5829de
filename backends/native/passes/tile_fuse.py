"""``tile-fuse``: what is made of less than it is, is made in what reads it.

Before, where a mask of scores is made of a number for each key and one for each row::

    tile.map %mask(%keys, %rows) ... : memref<1x1x128x128xf32>(memref<..., strided<[0, 0, 0, 1]>>, ...) { choose }
    tile.map %t(%scores, %mask) ... : memref<1x2x128x128xf32>(memref<...>, memref<..., strided<[0, 0, 128, 1]>>) { add }

After::

    tile.map %t(%scores, %keys, %rows) ... { choose, add }

What is made of two small operands is as large as both together, and waits until it is read; a choice or a sum takes no
longer than to load it. So it goes into every loop that reads it, as a body; ``tile-attention`` has it for a block of
rows at a time then. Functions that take long, as exponentials, stay. Only a function that saves ``fused`` does so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.functions import tile_functions
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known, most
from etir.backends.native.tile import MapOp, YieldOp, body_of
from etir.backends.native.users import drop_unused, inline, only_writer, place_of, readers_of, writers_of
from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

LESS = 2
"""What is made has to be so many times as large as what it is made of."""
MOST_INPUTS = 12
"""Operands of one loop."""


def fuse_maps(func: FuncOp) -> None:
    """Put every such map of ``func`` into its readers, the first one first, so that those may be put into others."""
    block = func.body.block
    op = block.first_op
    while op is not None:
        readers = _readers(op) if isinstance(op, MapOp) else []
        if readers and not saves(func, "fused"):
            return
        for reader in readers:
            assert isinstance(op, MapOp)
            _fuse(op, reader, block)
        following = op.next_op
        if readers:
            block.erase_op(op)
        op = following
    drop_unused(block)


def _readers(op: MapOp) -> list[MapOp]:
    """The maps that read what an operation makes; none where it is not made of less, or where one cannot make it."""
    made = place_of(op.out)
    given = [place_of(value) for value in op.inputs]
    if not given or only_writer(op.out) is not op or any(place.base is made.base for place in given):
        return []
    if LESS * sum(map(_elements, given)) > _elements(made) or not all(map(_is_quick, op.body.block.ops)):
        return []
    if any(not writer.is_before_in_block(op) for place in given for writer in writers_of(place.base)):
        return []
    readers = [*dict.fromkeys(readers_of(op.out))]
    maps = [reader for reader in readers if isinstance(reader, MapOp) and _can_make(op, reader)]
    return maps if len(maps) == len(readers) else []


def _elements(place: Place) -> int:
    """The elements that are there at most: dims of stride 0 repeat them."""
    return math.prod(most(n) for n, stride in zip(place.shape, place.strides, strict=True) if stride != 0)


def _is_quick(op: Operation) -> bool:
    is_arith = type(op).__module__ == arith.__name__ and not isinstance(op, arith.DivfOp)
    return is_arith or isinstance(op, YieldOp)


def _can_make(op: MapOp, reader: MapOp) -> bool:
    base = place_of(op.out).base
    seen = [v for v in reader.inputs if place_of(v).base is base]
    is_short = len(reader.inputs) + len(seen) * (len(op.inputs) - 1) <= MOST_INPUTS
    return is_short and all(_within(place_of(v), op) is not None for v in seen)


def _within(seen: Place, op: MapOp) -> list[Place] | None:
    """What a map is made of, under the dims with which its result is seen; None where dims of that are other ones."""
    made = place_of(op.out)
    if seen.offset != made.offset:
        return None
    dims: list[int | None] = []
    for n, stride in zip(seen.shape, seen.strides, strict=True):
        rows = [*enumerate(zip(made.shape, made.strides, strict=True))]
        found = [d for d, (count, step) in rows if step == stride and _has(count, n) and d not in dims]
        if n != 1 and stride != 0 and not found:
            return None
        dims.append(found[0] if n != 1 and stride != 0 else None)
    given = [place_of(value) for value in op.inputs]
    return [_under(place, dims, seen.shape) for place in given]


def _has(count: int, n: int) -> bool:
    """Whether a dim of so many elements is one of which ``n`` are seen; where one is known at run time only, all."""
    return count >= n > 1 if is_known((count, n)) else count == n


def _under(place: Place, dims: Sequence[int | None], shape: tuple[int, ...]) -> Place:
    """A place with some of its dims, and others that repeat its elements."""
    return Place(place.base, shape, tuple(0 if d is None else place.strides[d] for d in dims), place.offset)


def _fuse(op: MapOp, reader: MapOp, block: Block) -> None:
    """Make a reader's operand in its body."""
    base = place_of(op.out).base
    inputs: list[SSAValue] = []
    parts: list[int | None] = []
    for value in reader.inputs:
        within = _within(place_of(value), op) if place_of(value).base is base else None
        parts.append(None if within is None else len(within))
        casts = [cast_of(place, reader) for place in within or ()]
        for cast in casts:
            block.insert_op_before(cast, reader)
        inputs += [value] if within is None else [cast.results[0] for cast in casts]
    region = body_of(len(inputs))
    to = region.block
    given = iter([*to.args])
    arguments: list[SSAValue] = []
    for count in parts:
        some = [next(given) for _ in range(1 if count is None else count)]
        arguments.append(some[0] if count is None else inline(op.body.block, some, to, {}))
    to.add_op(YieldOp(inline(reader.body.block, arguments, to, {})))
    fused = MapOp(reader.out, inputs, region)
    fused.location = reader.location
    block.insert_op_before(fused, reader)
    block.erase_op(reader)


@register_pass
@dataclass(frozen=True)
class TileFusePass(Pass):
    """Make what is made of less than it is in what reads it, where that saves memory"""

    name = "tile-fuse"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            fuse_maps(func)
