"""``tile-sink``: the border of an image is written with the image.

Before::

    %image = tile.buffer ...
    tile.map %border() { tile.yield 0 }
    tile.map %woven(%x) { tile.yield %0 }
    tile.brgemm %woven, %w, %inside()

After, the map of the border follows that of the image. The lowering makes an image with its border and then what the
image is computed of, so that all of the image would take memory while its operands are prepared; the first layers of a
net, whose images are the largest, have that at the peak of their memory. Where the image is the result of elementwise
operators, it may have the memory of their operand (``tile-plan``), as nothing of it is there before. What reads an
image while it writes the first part of it finds its border.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.functions import tile_functions
from etir.backends.native.tile import BufferOp, MapOp, TemplateOp
from etir.backends.native.users import base_of
from etir.backends.native.view import view_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def sink_fills(func: FuncOp) -> None:
    """Every fill of a buffer that nothing has touched before but other fills."""
    waiting: dict[SSAValue, list[MapOp]] = {}
    for op in ops_of(func.body.block):
        if not isinstance(op, TemplateOp):
            continue
        if isinstance(op, MapOp) and not op.inputs and isinstance(base_of(op.out).owner, BufferOp):
            base = base_of(op.out)
            if base not in waiting or waiting[base]:
                waiting.setdefault(base, []).append(op)
            continue
        read = dict.fromkeys(base_of(value) for value in op.reads())
        for base in dict.fromkeys(base_of(value) for value in op.operands):
            fills = waiting.get(base, [])
            waiting[base] = []
            for fill in fills if base in read else reversed(fills):
                _move(fill, op, after=base not in read)


def _move(fill: MapOp, to: TemplateOp, *, after: bool) -> None:
    """Move a fill before or after an operation, with the casts that only it uses."""
    moved: list[Operation] = [fill]
    value = fill.out
    while view_of(value.owner) is not None and value.has_one_use():
        assert isinstance(value.owner, Operation)
        moved.append(value.owner)
        value = value.owner.operands[0]
    block = to.parent
    assert block is not None
    for op in reversed(moved) if not after else moved:
        op.detach()
        if after:
            block.insert_op_after(op, to)
        else:
            block.insert_op_before(op, to)


@register_pass
@dataclass(frozen=True)
class TileSinkPass(Pass):
    """Write the borders of images with the images"""

    name = "tile-sink"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            sink_fills(func)
