"""``tile-forward``: what is only copied is written to where it is copied to.

Before::

    tile.brgemm %p, %v, %o() : ..., memref<12x197x64xf32>
    tile.map %t(%o by heads) { tile.yield %0 }

After ``tile.brgemm %p, %v, %t by heads``: heads of attention, parts of a concatenation and images that are returned
need no copy where the strides of the place are ones that the operation can write.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from etir.backends.native.functions import tile_functions
from etir.backends.native.memory import cast_of
from etir.backends.native.places import Place
from etir.backends.native.tile import BufferOp, MapOp, PackOp, YieldOp
from etir.backends.native.users import base_of, drop_unused, is_read_once, only_writer, place_of
from etir.dialects.context import EtContext
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def forward_copies(func: FuncOp) -> None:
    """Every copy of a buffer that nothing else reads."""
    block = func.body.block
    for op in [op for op in block.ops if isinstance(op, MapOp) and is_copy(op)]:
        _forward(block, op)
    drop_unused(block)


def is_copy(op: MapOp) -> bool:
    """Whether a map yields its only input."""
    ops = [*op.body.block.ops]
    return len(op.inputs) == 1 and isinstance(ops[0], YieldOp) and ops[0].values[0] is op.body.block.args[0]


def _forward(block: Block, copy: MapOp) -> None:
    source = copy.inputs[0]
    writer = only_writer(source)
    if writer is None or isinstance(writer, PackOp) or not is_read_once(source):
        return
    written = writer.writes()[0]
    if base_of(written) in [base_of(v) for v in writer.reads()]:
        return
    to = _target(place_of(written), place_of(source), place_of(copy.out))
    if to is None:
        return
    is_apart = to.shape[-1:] not in ((), (1,)) and to.strides[-1] != 1
    if is_apart and not isinstance(writer, MapOp):
        return
    # What the memory is must be known where it is written now.
    base = to.base.owner
    if isinstance(base, BufferOp) and base.parent is block:
        base.detach()
        first = block.first_op
        assert first is not None
        block.insert_op_before(base, first)
    cast = cast_of(to, copy)
    block.insert_op_before(cast, writer)
    for index, value in enumerate(writer.operands):
        if value is written:
            writer.operands[index] = cast.results[0]
    block.erase_op(copy)


def _target(written: Place, source: Place, to: Place) -> Place | None:
    """Where the elements of ``written`` are in ``to``, into which ``source``, the same buffer, is copied."""
    dims = [(n, s, t) for n, s, t in zip(source.shape, source.strides, to.strides, strict=True) if n != 1]
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


@register_pass
@dataclass(frozen=True)
class TileForwardPass(Pass):
    """Write to where a buffer is copied, instead of copying it"""

    name = "tile-forward"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            forward_copies(func)
