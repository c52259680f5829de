"""``tile-inside``: what an elementwise operator makes of a part of a buffer is written into that part.

Before::

    tile.brgemm %h, %w, %gates() : ..., memref<3x96xf32>
    %made = tile.buffer : memref<3x64xf32>
    tile.map %made(%first) { sigmoid }                      // %first are 64 columns of %gates
    tile.map %y(%made, %rest)                               // %rest are the other columns

After, where nothing reads ``%first`` any more::

    tile.map %first(%first) { sigmoid }
    tile.map %y(%first, %rest)

The planner (``tile-plan``) puts results over operands that are read for the last time; here the rest of the buffer is
still read. Rows then lie farther apart than they need to: only functions whose ``native.saves`` has ``inside`` get any
(``savings.py``), and only results that are there where the function needs most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.footprint import footprint, is_injective
from etir.backends.native.functions import tile_functions
from etir.backends.native.kernels import template_of
from etir.backends.native.loop import PartsOp
from etir.backends.native.memory import cast_of
from etir.backends.native.need import Need, need_of
from etir.backends.native.places import Place
from etir.backends.native.restride import Moved, moved
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BufferOp, MapOp, TemplateOp, extent_of, shape_of
from etir.backends.native.users import base_of, drop_unused, only_writer, place_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def write_inside(func: FuncOp) -> None:
    """Write results that are there where most memory is needed into what they are made of, until none can be."""
    if not saves(func, "inside"):
        return
    while _write_one(func):
        pass
    drop_unused(func.body.block)


def may_write_inside(func: FuncOp, need: Need) -> bool:
    """Whether there is a result that may be written into what it is made of, and less is needed then."""
    return any(True for _ in _found(need, ops_of(func.body.block)))


def _write_one(func: FuncOp) -> bool:
    ops = ops_of(func.body.block)
    return any(_put_in(ops, writer, part) for writer, part in _found(need_of(func), ops))


def _found(need: Need, ops: Sequence[Operation]) -> Iterator[tuple[MapOp, SSAValue]]:
    """Maps whose results are there where most memory is needed, and what to write them into."""
    for key in need.there:
        writer = only_writer(need.buffers[key])
        if not isinstance(writer, MapOp):
            continue
        for part in dict.fromkeys(template_of(writer).in_place_always(writer)):
            if _can_be_in(ops, writer, part) and _is_worth(need, key, base_of(part)):
                yield writer, part


def _is_worth(need: Need, key: int, base: SSAValue) -> bool:
    """Whether less is needed where a buffer is gone, and the one that it goes into lives as long."""
    into = need.buffers.index(base)
    ((start, end),), ((_, last),) = need.problem.by_key[into].live, need.problem.by_key[key].live
    return need.is_lower({key: None, into: (2 * start, 2 * max(end, last))})


def _can_be_in(ops: Sequence[Operation], writer: MapOp, part: SSAValue) -> bool:
    """Whether a map may write over an operand, of whose buffer other parts are still read."""
    place = place_of(part)
    if not isinstance(place.base.owner, BufferOp) or place.base is base_of(writer.out):
        return False
    if not is_known((*place.shape, *place.strides, place.offset)) or not is_injective(place.shape, place.strides):
        return False
    if any(n != 1 and s == 0 for n, s in zip(place.shape, place.strides, strict=True)):
        return False
    if writer.operands[:].count(part) != [*template_of(writer).in_place_always(writer)].count(part):
        return False
    later = [*_accesses(ops[ops.index(writer) + 1 :], place.base)]
    beside = [value for value in writer.operands if base_of(value) is place.base and value is not part]
    return bool(later) and not any(_meet(place, place_of(value)) for value in [*later, *beside])


def _accesses(ops: Sequence[Operation], base: SSAValue) -> Iterator[SSAValue]:
    """The operands that are in some memory."""
    for op in ops:
        if isinstance(op, TemplateOp):
            yield from (value for value in op.operands if base_of(value) is base)


def _meet(one: Place, other: Place) -> bool:
    """Whether two parts of a buffer have a float in common."""
    import numpy as np

    if not is_known((*other.shape, *other.strides, other.offset)):
        return True
    marks = np.zeros(extent_of(one.base.type), np.bool_)
    footprint(one.shape, one.strides, one.offset).of(marks)[...] = True
    return bool(footprint(other.shape, other.strides, other.offset).of(marks).any())


def _put_in(ops: Sequence[Operation], writer: MapOp, part: SSAValue) -> bool:
    """Let all that is read of the result be read of the part; False where it cannot be said."""
    out, to = place_of(writer.out), place_of(part)
    if not is_known((*out.shape, *out.strides, out.offset)):
        return False
    rows = [*zip(out.shape, out.strides, to.strides, strict=True)]
    if any(n != 1 and (old == 1) != (new == 1) for n, old, new in rows):
        return False
    dims = [Moved(n, old, new) for n, old, new in rows]
    users = [
        (op, index)
        for op in ops
        if isinstance(op, TemplateOp) and op is not writer
        for index, value in enumerate(op.operands)
        if base_of(value) is out.base
    ]
    found = [moved(place_of(op.operands[index]), dims, out.offset) for op, index in users]
    if any(isinstance(op, PartsOp) for op, _ in users) or any(row is None for row in found):
        return False
    for index, value in enumerate(writer.operands):
        if value is writer.out:
            writer.operands[index] = part
            break
    for (op, index), row in zip(users, found, strict=True):
        assert row is not None
        strides, offset = row
        view = cast_of(Place(to.base, shape_of(op.operands[index]), strides, to.offset + offset), op)
        block = op.parent
        assert block is not None
        block.insert_op_before(view, op)
        op.operands[index] = view.results[0]
    return True


@register_pass
@dataclass(frozen=True)
class TileInsidePass(Pass):
    """Write what is made of a part of a buffer into that part, where the function needs most memory"""

    name = "tile-inside"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module whose code does without ``inside``."""
        for func in tile_functions(module):
            write_inside(func)
