"""``tile.loop``: operations on a part of every operand, for one part after another.

What one operation writes and the next one reads lies in memory of the loop's own and stays in a cache: scores of a
block of rows never reach memory::

    tile.loop [12, 6] (%q, %k, %v) -> (%o) locals (%s) steps [[12672, 2112], [14336, 0], ...] : ... {
    ^bb0(%q0: memref<33x64xf32>, %k0: memref<7x64x32xf32>, %v0: ..., %o0: memref<33x64xf32>, %s0: memref<33x197xf32>):
      tile.brgemm %q0, %k0, %s0() ...
      tile.softmax %s0, %s0 ...
      tile.brgemm %s0, %v0, %o0() ...
    }

Arguments of the block are a part of each operand: ``steps`` are the floats from one part to the next one, for each
dim of the loop. Locals have a dim of slots before the dims of their argument; every slot does a share of the loop, so
that threads do not meet there and the shares do not depend on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, MemRefType, i64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.tile import TemplateOp, extent_of, shape_of, strides_of

SLOTS = 4
"""Shares of a loop with locals: as many threads have work."""


@irdl_op_definition
class LoopOp(TemplateOp):
    """Operations on parts of operands."""

    name = "tile.loop"
    counts = prop_def(ArrayAttr[IntegerAttr])
    steps = prop_def(ArrayAttr[DenseArrayBase[IntegerType]])
    inputs = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    locals = var_operand_def(MemRefType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoTerminator())
    assembly_format = (
        "$counts `(` $inputs `)` `->` `(` $outputs `)` `locals` `(` $locals `)` `steps` $steps "
        "(`schedule` $schedule^)? attr-dict `:` `(` type($inputs) `)` `->` `(` type($outputs) `)` "
        "`,` `(` type($locals) `)` $body"
    )

    def __init__(
        self,
        counts: Sequence[int],
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        locals: Sequence[SSAValue],
        steps: Sequence[Sequence[int]],
        body: Region,
    ):
        rows = [DenseArrayBase.from_list(i64, [*row]) for row in steps]
        super().__init__(
            operands=[inputs, outputs, locals],
            properties={"counts": ArrayAttr([IntegerAttr(n, i64) for n in counts]), "steps": ArrayAttr(rows)},
            regions=[body],
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """How many parts there are along each dim."""
        return tuple(n.value.data for n in self.counts.data)

    def parts(self) -> list[tuple[SSAValue, tuple[int, ...], SSAValue]]:
        """Each input and output, its steps, and the argument that is a part of it."""
        given = [*self.inputs, *self.outputs]
        rows = [tuple(row.get_values()) for row in self.steps.data]
        return list(zip(given, rows, self.body.block.args, strict=False))

    def reads(self) -> list[SSAValue]:
        return [*self.inputs]

    def writes(self) -> list[SSAValue]:
        return [*self.outputs, *self.locals]

    def verify_(self) -> None:
        count = len(self.inputs) + len(self.outputs)
        args = self.body.block.args
        extents = self.extents
        if not extents or any(n < 1 for n in extents):
            raise VerifyException("a loop has dims of at least one part")
        if len(self.steps.data) != count or any(len(row) != len(extents) for row in self.steps.data):
            raise VerifyException(f"steps are {len(extents)} numbers for each input and output")
        if len(args) != count + len(self.locals) or not all(isinstance(arg.type, MemRefType) for arg in args):
            raise VerifyException("the body takes a part of every operand")
        for value, row, arg in self.parts():
            if any(step < 0 for step in row):
                raise VerifyException("steps are not negative")
            last = sum((n - 1) * step for n, step in zip(extents, row, strict=True))
            if last + extent_of(arg.type) > extent_of(value.type):
                raise VerifyException(f"parts of {arg.type} do not lie in {value.type}")
        for value, arg in zip(self.locals, args[count:], strict=True):
            shape = shape_of(value)
            if shape[1:] != shape_of(arg) or strides_of(value.type)[1:] != strides_of(arg.type):
                raise VerifyException(f"a local of {value.type} has no slots of {arg.type}")
            if not 1 <= shape[0] <= SLOTS:
                raise VerifyException(f"a local has 1 to {SLOTS} slots")
        if len({shape_of(value)[0] for value in self.locals}) > 1:
            raise VerifyException("locals have the same number of slots")
        if not all(isinstance(op, TemplateOp) and not isinstance(op, LoopOp) for op in self.body.block.ops):
            raise VerifyException("the body has operations of templates alone")

    @property
    def slots(self) -> int:
        """Shares of the loop."""
        total = 1
        for n in self.extents:
            total *= n
        return shape_of(self.locals[0])[0] if self.locals else total
