"""``tile-pieces``: what is read on of a buffer is copied, so that the rest of it takes no memory.

Before::

    tile.brgemm %x, %w, %both() : ..., memref<8x256xf32>
    tile.map %a(%left) ...                                  // %left and %right are halves of %both
    tile.brgemm ...                                         // here the function needs most
    tile.map %y(%a, %right) ...

After::

    tile.map %a(%left) ...
    %piece = tile.buffer : memref<8x128xf32>
    tile.map %piece(%right) { tile.yield %0 }
    tile.brgemm ...
    tile.map %y(%a, %piece) ...

A product makes what several operators read in one piece, as both halves of a gate or keys and values; the kernels,
which split it, keep one half. A copy costs a little time: only functions whose ``native.saves`` has ``pieces`` get any
(``savings.py``), and only buffers that are there where the function needs most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.footprint import Footprint, footprint, is_injective
from etir.backends.native.functions import tile_functions
from etir.backends.native.loop import PartsOp
from etir.backends.native.memory import cast_of
from etir.backends.native.need import Need, need_of
from etir.backends.native.places import Place
from etir.backends.native.restride import Moved, moved
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import (
    BufferOp,
    MapOp,
    TemplateOp,
    YieldOp,
    body_of,
    extent_of,
    memref,
    row_major,
    shape_of,
)
from etir.backends.native.users import base_of, drop_unused, place_of
from etir.dialects.context import EtContext
from etir.dialects.et.workspace import alignment_of
from etir.dialects.walking import ops_of
from etir.passes.analysis.planning.problem import Buffer
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def copy_pieces(func: FuncOp) -> None:
    """Copy pieces of the buffers that are there where most memory is needed, until there are none that are read in part
    from there on.
    """
    if not saves(func, "pieces"):
        return
    while _copy_one(func):
        pass
    drop_unused(func.body.block)


def may_copy_pieces(func: FuncOp, need: Need) -> bool:
    """Whether there is a piece to copy."""
    return _found(func, need) is not None


def _copy_one(func: FuncOp) -> bool:
    piece = _found(func, need_of(func))
    if piece is not None:
        piece.copy()
    return piece is not None


def _found(func: FuncOp, need: Need) -> _Piece | None:
    """A piece of a buffer that is there where most memory is needed, and less is needed with a copy of it."""
    ops = ops_of(func.body.block)
    accesses = _accesses(ops) if need.there else {}
    for key in need.there:
        base = need.buffers[key]
        piece = _piece(ops, base, accesses.get(base, ()), need.at)
        if piece is not None and _is_worth(need, key, piece, ops):
            return piece
    return None


def _is_worth(need: Need, key: int, piece: _Piece, ops: Sequence[Operation]) -> bool:
    """Whether less is needed where the copy is made right after the operation, and the buffer is gone then."""
    ((start, end),) = need.problem.by_key[key].live
    at = 2 * ops.index(piece.after) + 1
    bytes_ = 4 * math.prod(piece.shape)
    copy = Buffer(len(need.problem.buffers) + len(need.buffers), bytes_, ((at, 2 * end),), alignment_of(bytes_))
    return need.is_lower({key: (2 * start, at)}, [copy])


@dataclass(frozen=True)
class _Piece:
    """The floats of a buffer that are read after an operation, by operands of others at these indices."""

    base: SSAValue
    floats: Footprint
    after: TemplateOp
    readers: Sequence[tuple[TemplateOp, int]]

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims of the piece."""
        return tuple(n for n, _ in self.floats.dims) or (1,)

    def within(self, value: SSAValue) -> tuple[tuple[int, ...], int] | None:
        """The strides and the start of an operand in the piece as a buffer; None where its dims are others."""
        rows = zip(self.floats.dims, row_major(self.shape), strict=False)
        return moved(place_of(value), [Moved(n, old, new) for (n, old), new in rows], self.floats.first)

    def copy(self) -> None:
        """Put the copy after the operation, and let what follows read it."""
        block = self.after.parent
        assert block is not None
        buffer = BufferOp(memref(self.shape))
        strides = tuple(s for _, s in self.floats.dims) or (1,)
        source = cast_of(Place(self.base, self.shape, strides, self.floats.first), self.after)
        region = body_of(1)
        region.block.add_op(YieldOp(region.block.args[0]))
        copied = MapOp(buffer.result, [source.results[0]], region)
        made: list[Operation] = [buffer, source, copied]
        for op in reversed(made):
            op.location = self.after.location
            block.insert_op_after(op, self.after)
        for reader, index in self.readers:
            value = reader.operands[index]
            found = self.within(value)
            assert found is not None
            view = cast_of(Place(buffer.result, shape_of(value), *found), reader)
            block.insert_op_before(view, reader)
            reader.operands[index] = view.results[0]


_Access = tuple[int, TemplateOp, int]
"""The number of an operation, the operation, and which of its operands is in some memory."""


def _accesses(ops: Sequence[Operation]) -> dict[SSAValue, list[_Access]]:
    """Who reads and writes each memory, in order."""
    found: dict[SSAValue, list[_Access]] = {}
    for number, op in enumerate(ops):
        if isinstance(op, TemplateOp):
            for index, value in enumerate(op.operands):
                found.setdefault(base_of(value), []).append((number, op, index))
    return found


def _piece(ops: Sequence[Operation], base: SSAValue, accesses: Sequence[_Access], at: int) -> _Piece | None:
    """The part of a buffer that is read at an instant and later, if it is less than the buffer and always the same."""
    later = [place_of(op.operands[index]) for number, op, index in accesses if number >= at]
    if not later or not all(is_known((*p.shape, *p.strides, p.offset)) and 0 not in p.shape for p in later):
        return None
    floats = _floats(later[0])
    shape, strides = [n for n, _ in floats.dims], [s for _, s in floats.dims]
    if math.prod(shape) >= extent_of(base.type) or not is_injective(shape, strides):
        return None
    last: TemplateOp | None = None
    readers: list[tuple[TemplateOp, int]] = []
    for _, op, index in accesses:
        value = op.operands[index]
        place = place_of(value)
        is_piece = is_known((*place.shape, *place.strides, place.offset)) and _floats(place) == floats
        if value in op.writes() or isinstance(op, PartsOp) or not is_piece:
            last, readers = op, []
        else:
            readers.append((op, index))
    if last is None or ops.index(last) >= at or any(op is last for op, _ in readers):
        return None
    found = _Piece(base, floats, last, readers)
    return None if any(found.within(op.operands[index]) is None for op, index in readers) else found


def _floats(place: Place) -> Footprint:
    return footprint(place.shape, place.strides, place.offset)


@register_pass
@dataclass(frozen=True)
class TilePiecesPass(Pass):
    """Copy what is read on of a buffer, where the function needs most memory"""

    name = "tile-pieces"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module whose code does without ``pieces``."""
        for func in tile_functions(module):
            copy_pieces(func)
