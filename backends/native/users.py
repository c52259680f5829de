"""What rewrites of ``tile`` ask: who reads and who writes a buffer, and what two bodies are as one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Block, SSAValue

from etir.backends.native.places import Place
from etir.backends.native.tile import BufferOp, TemplateOp, WeightOp, YieldOp, shape_of, strides_of


def place_of(value: SSAValue) -> Place:
    """An operand as a place in its base."""
    offset = 0
    base = value
    while isinstance(base.owner, ReinterpretCastOp):
        offset += base.owner.static_offsets.get_values()[0]
        base = base.owner.source
    return Place(base, shape_of(value), strides_of(value.type), offset)


class Users:
    """Which operations of a block read and write each base."""

    def __init__(self, block: Block):
        self.readers: dict[SSAValue, list[TemplateOp]] = {}
        self.writers: dict[SSAValue, list[TemplateOp]] = {}
        for op in block.ops:
            if isinstance(op, TemplateOp):
                for value in op.reads():
                    self.readers.setdefault(place_of(value).base, []).append(op)
                for value in op.writes():
                    self.writers.setdefault(place_of(value).base, []).append(op)

    def only_writer(self, value: SSAValue) -> TemplateOp | None:
        """What writes the whole buffer that a value is in, if that is one operation."""
        place = place_of(value)
        found = self.writers.get(place.base, [])
        if not isinstance(place.base.owner, BufferOp) or len(found) != 1:
            return None
        written = place_of(found[0].writes()[0])
        same = math.prod(written.shape) == math.prod(place.shape) and written.offset == place.offset
        return found[0] if same else None

    def is_read_once(self, value: SSAValue) -> bool:
        """Whether one operation reads the buffer of a value."""
        return len(self.readers.get(place_of(value).base, [])) == 1


def inline(source: Block, arguments: Sequence[SSAValue], to: Block, values: dict[SSAValue, SSAValue]) -> SSAValue:
    """Put a body at the end of another one; what it yields."""
    values.update(zip(source.args, arguments, strict=True))
    for op in source.ops:
        if isinstance(op, YieldOp):
            return values.get(op.values[0], op.values[0])
        clone = op.clone(values)
        to.add_op(clone)
    raise AssertionError("a body ends with tile.yield")


def drop_unused(block: Block) -> None:
    """Erase casts, buffers and weights that nothing uses."""
    for op in [*block.ops][::-1]:
        if isinstance(op, (ReinterpretCastOp, BufferOp, WeightOp)) and op.results[0].first_use is None:
            block.erase_op(op)
