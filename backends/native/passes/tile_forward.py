"""``tile-forward``: what is only copied is written to where it is copied to.

Before::

    tile.brgemm %p, %v, %o() : ..., memref<12x197x64xf32>
    tile.map %t(%o by heads) { tile.yield %0 }

After ``tile.brgemm %p, %v, %t by heads``: heads of attention, parts of a concatenation and images that are returned
need no copy where the strides of the place are ones that the operation can write.

What a product's columns become in a map with other operands, in another order, lies in that order, too.

With ``planes``, products write planes that a program gives back, whose columns lie apart, and need no image with its
channels side by side.

With ``straight`` among what the function saves (``savings.py``), so is what maps write part by part and one copy reads
as a whole, as a concatenation that is an image for a convolution, and what a product makes whose rows are the pixels of
an image that is joined: what is joined is then never there twice.

Buffers of ``native.late`` bytes and more are copied to: what they are made of is in memory of its own first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from etir.backends.native.asked import saves
from etir.backends.native.footprint import is_injective
from etir.backends.native.functions import LATE, PLANES, least_bytes, tile_functions
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.restride import Moved, moved
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import (
    BrgemmOp,
    BufferOp,
    MapOp,
    PackOp,
    TemplateOp,
    YieldOp,
    bytes_of,
    shape_of,
)
from etir.backends.native.users import base_of, drop_unused, is_read_once, only_writer, place_of, writers_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def forward_copies(func: FuncOp) -> None:
    """Every copy of a buffer that nothing else reads, and what maps of more read in another order than they write."""
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, MapOp) and is_copy(op)]:
        _forward(func, op)
    for op in [op for op in ops_of(block) if isinstance(op, MapOp) and not is_copy(op)]:
        _lie_as_result(block, op)
    drop_unused(block)


def is_copy(op: MapOp) -> bool:
    """Whether a map yields its only input."""
    ops = ops_of(op.body.block)
    return len(op.inputs) == 1 and isinstance(ops[0], YieldOp) and ops[0].values[0] is op.body.block.args[0]


def _forward(func: FuncOp, copy: MapOp) -> None:
    block, source = func.body.block, copy.inputs[0]
    writer = only_writer(source)
    if _is_late(block, copy):
        return
    if writer is None and is_read_once(source):
        _forward_parts(func, copy)
    if writer is None or isinstance(writer, PackOp) or not is_read_once(source):
        return
    written = writer.writes()[0]
    if base_of(written) in [base_of(v) for v in writer.reads()]:
        return
    places = place_of(written), place_of(source), place_of(copy.out)
    to = _target(*places)
    if to is None and (to := _target(*places, merged=True)) is not None and not saves(func, "straight"):
        return
    to = to or _target_of_parts(writer, *places)
    if to is None:
        return
    is_apart = to.shape[-1:] not in ((), (1,)) and to.strides[-1] != 1
    if is_apart and not isinstance(writer, MapOp) and not (isinstance(writer, BrgemmOp) and saves(func, PLANES)):
        return
    _make_first(block, to)
    _write_to(block, writer, to, copy)
    block.erase_op(copy)


def _lie_as_result(block: Block, op: MapOp) -> None:
    """Let a product whose columns lie side by side lie as what a map makes of it, if nothing else reads it: heads of
    attention that are multiplied on the way to rows of all heads. The map can then write over it, and it over queries.
    """
    to = place_of(op.out)
    if to.offset != 0 or math.prod(to.shape) != math.prod(shape_of(to.base)):
        return
    for value in op.inputs:
        source, writer = place_of(value), only_writer(value)
        if not isinstance(writer, BrgemmOp) or not isinstance(source.base.owner, BufferOp) or not is_read_once(value):
            continue
        written, buffer = place_of(writer.c), BufferOp(to.base.type)
        there = Place(buffer.result, to.shape, to.strides)
        target = None if source.shape != to.shape or source.strides == to.strides else _target(written, source, there)
        if target is None or target.strides[-1] != 1 or len(target.strides) < 3:
            continue
        first = block.first_op
        assert first is not None
        buffer.location = source.base.owner.location
        block.insert_op_before(buffer, first)
        _write_to(block, writer, target, op)
        cast = cast_of(there, op)
        block.insert_op_before(cast, op)
        op.operands[op.operands.index(value)] = cast.results[0]


def _is_late(block: Block, copy: MapOp) -> bool:
    """Whether a copy is to large memory of the function's own that it writes late (``native.late``)."""
    func, to = block.parent_op(), base_of(copy.out)
    least = least_bytes(func, LATE) if isinstance(func, FuncOp) else None
    return least is not None and isinstance(to.owner, BufferOp) and bytes_of(to.type) >= least


def _forward_parts(func: FuncOp, copy: MapOp) -> None:
    """Let maps or products that write the parts of a buffer write where all of it is copied, if that is to be saved."""
    block = func.body.block
    source, to = place_of(copy.inputs[0]), place_of(copy.out)
    writers = writers_of(source.base)
    if not isinstance(source.base.owner, BufferOp) or not is_known((*source.shape, *source.strides, *to.strides)):
        return
    if math.prod(source.shape) != math.prod(shape_of(source.base)) or not is_injective(source.shape, source.strides):
        return
    if any(not isinstance(op, MapOp | BrgemmOp) or to.base in [base_of(v) for v in op.reads()] for op in writers):
        return
    dims = [Moved(*row) for row in zip(source.shape, source.strides, to.strides, strict=True)]
    written = [place_of(op.writes()[0]) for op in writers]
    found = [moved(place, dims, source.offset) for place in written]
    targets = [
        Place(to.base, place.shape, row[0], to.offset + row[1])
        for place, row in zip(written, found, strict=True)
        if row is not None
    ]
    if not writers or len(targets) < len(writers):
        return
    has_products = any(isinstance(op, BrgemmOp) for op in writers)
    if not saves(func, PLANES if has_products else "straight"):
        return
    _make_first(block, to)
    for op, target in zip(writers, targets, strict=True):
        _write_to(block, op, target, copy)
    block.erase_op(copy)


def _make_first(block: Block, to: Place) -> None:
    """What the memory is must be known where it is written now."""
    base = to.base.owner
    if isinstance(base, BufferOp) and base.parent is block:
        base.detach()
        first = block.first_op
        assert first is not None
        block.insert_op_before(base, first)


def _write_to(block: Block, writer: TemplateOp, to: Place, like: MapOp) -> None:
    """Let an operation write to a place instead of what it writes."""
    written = writer.writes()[0]
    cast = cast_of(to, like)
    block.insert_op_before(cast, writer)
    for index, value in enumerate(writer.operands):
        if value is written:
            writer.operands[index] = cast.results[0]


def _target(written: Place, source: Place, to: Place, *, merged: bool = False) -> Place | None:
    """Where the elements of ``written`` are in ``to``, into which ``source``, the same buffer, is copied. Dims that lie
    in one another in both may be ``merged``: an image's rows and columns, where its pixels are rows of a product.
    """
    dims = [(n, s, t) for n, s, t in zip(source.shape, source.strides, to.strides, strict=True) if n != 1]
    if merged:
        dims = _merged(dims) if is_known([n for dim in dims for n in dim]) else dims
    if written.offset != source.offset:
        return None
    strides: list[int] = []
    for n, s in zip(written.shape, written.strides, strict=True):
        if n == 1:
            strides.append(0)
            continue
        found = [dim for dim in dims if dim[:2] == (n, s)]
        if len(found) != 1:
            return None
        dims.remove(found[0])
        strides.append(found[0][2])
    if dims:
        return None
    return Place(to.base, written.shape, tuple(strides), to.offset)


def _target_of_parts(writer: TemplateOp, written: Place, source: Place, to: Place) -> Place | None:
    """:func:`_target` of a product whose dims are parts of those that are copied, as channels by groups."""
    if not isinstance(writer, BrgemmOp) or not is_known((*source.shape, *source.strides, *to.strides)):
        return None
    if not is_injective(source.shape, source.strides):
        return None
    dims = [Moved(*row) for row in zip(source.shape, source.strides, to.strides, strict=True)]
    found = moved(written, dims, source.offset)
    return None if found is None else Place(to.base, written.shape, found[0], to.offset + found[1])


def _merged(dims: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Dims of two places, the outer ones first, as few as there can be."""
    found: list[tuple[int, int, int]] = []
    for n, s, t in sorted(dims, key=lambda dim: -dim[1]):
        if found and found[-1][1:] == (n * s, n * t):
            n *= found.pop()[0]
        found.append((n, s, t))
    return found


@register_pass
@dataclass(frozen=True)
class TileForwardPass(Pass):
    """Write to where a buffer is copied, instead of copying it"""

    name = "tile-forward"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            forward_copies(func)
