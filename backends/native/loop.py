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
that threads do not meet there and the shares do not depend on how many threads there are. A thread that does several
shares uses the slot of the first one for all of them, which stays in its cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, MemRefType, i64
from xdsl.ir import Block, Region, SSAValue
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

from etir.backends.native.sizes import Size, at_least, is_known
from etir.backends.native.sizes_attr import SizesAttr
from etir.backends.native.tile import TemplateOp, extent_of, shape_of, strides_of

SLOTS = 4
"""Shares of a loop with locals: as many threads have work."""


@dataclass(frozen=True)
class Part:
    """``argument`` of a block is a part of ``operand``: the one at index ``i`` starts ``sum(i_d steps_d)`` floats after
    the first one, for indices below ``extents``.
    """

    operand: SSAValue
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    argument: SSAValue

    def verify(self) -> None:
        """Raises VerifyException for parts that do not lie in the operand."""
        if not all(at_least(step, 0) for step in self.steps):
            raise VerifyException("steps are not negative")
        of_steps = ((n - 1) * step for n, step in zip(self.extents, self.steps, strict=True))
        if not at_least(extent_of(self.operand.type), sum(of_steps, extent_of(self.argument.type))):
            raise VerifyException(f"parts of {self.argument.type} do not lie in {self.operand.type}")


class PartsOp(TemplateOp):
    """Operations of templates on parts of operands."""

    def parts(self) -> list[Part]:
        """Each operand that has parts, and the argument that is one."""
        raise NotImplementedError

    def scopes(self) -> list[tuple[Block, list[str]]]:
        """The blocks, and whether each of their arguments is an ``input``, an ``output`` or a ``buffer``."""
        raise NotImplementedError


def verify_locals(values: Sequence[SSAValue], args: Sequence[SSAValue]) -> None:
    """Raises VerifyException unless each local is slots of its argument, and all have as many."""
    for value, arg in zip(values, args, strict=True):
        shape = shape_of(value)
        if shape[1:] != shape_of(arg) or strides_of(value.type)[1:] != strides_of(arg.type):
            raise VerifyException(f"a local of {value.type} has no slots of {arg.type}")
        if isinstance(shape[0], Size) or not 1 <= shape[0] <= SLOTS:
            raise VerifyException(f"a local has 1 to {SLOTS} slots")
    if len({shape_of(value)[0] for value in values}) > 1:
        raise VerifyException("locals have the same number of slots")


@irdl_op_definition
class LoopOp(PartsOp):
    """Operations on parts of operands."""

    name = "tile.loop"
    counts = prop_def(ArrayAttr[IntegerAttr] | SizesAttr)
    steps = prop_def(ArrayAttr[DenseArrayBase[IntegerType]] | SizesAttr)
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
        of_counts = ArrayAttr([IntegerAttr(n, i64) for n in counts]) if is_known(counts) else SizesAttr.of(counts)
        if is_known(n for row in steps for n in row):
            of_steps = ArrayAttr([DenseArrayBase.from_list(i64, [*row]) for row in steps])
        else:
            of_steps = SizesAttr.of(*steps)
        super().__init__(
            operands=[inputs, outputs, locals],
            properties={"counts": of_counts, "steps": of_steps},
            regions=[body],
        )

    @property
    def extents(self) -> tuple[int, ...]:
        """How many parts there are along each dim."""
        if isinstance(self.counts, SizesAttr):
            return self.counts.rows[0] if self.counts.rows else ()
        return tuple(n.value.data for n in self.counts.data)

    def parts(self) -> list[Part]:
        """Each input and output, its steps, and the argument that is a part of it."""
        given = [*self.inputs, *self.outputs]
        return [
            Part(value, self.extents, row, arg)
            for value, row, arg in zip(given, self.rows, self.body.block.args, strict=False)
        ]

    @property
    def rows(self) -> list[tuple[int, ...]]:
        """The steps of each input and output."""
        if isinstance(self.steps, SizesAttr):
            return [*self.steps.rows]
        return [tuple(row.get_values()) for row in self.steps.data]

    def scopes(self) -> list[tuple[Block, list[str]]]:
        counts = [("input", len(self.inputs)), ("output", len(self.outputs)), ("buffer", len(self.locals))]
        return [(self.body.block, [kind for kind, count in counts for _ in range(count)])]

    def reads(self) -> list[SSAValue]:
        return [*self.inputs]

    def writes(self) -> list[SSAValue]:
        return [*self.outputs, *self.locals]

    def makes(self) -> list[SSAValue]:
        return [*self.outputs]

    def verify_(self) -> None:
        count = len(self.inputs) + len(self.outputs)
        args = self.body.block.args
        extents = self.extents
        if not extents or any(not isinstance(n, Size) and n < 1 for n in extents):
            raise VerifyException("a loop has dims of at least one part")
        if len(self.rows) != count or any(len(row) != len(extents) for row in self.rows):
            raise VerifyException(f"steps are {len(extents)} numbers for each input and output")
        if len(args) != count + len(self.locals) or not all(isinstance(arg.type, MemRefType) for arg in args):
            raise VerifyException("the body takes a part of every operand")
        for part in self.parts():
            part.verify()
        verify_locals(self.locals, args[count:])
        if not all(isinstance(op, TemplateOp) and not isinstance(op, PartsOp) for op in self.body.block.ops):
            raise VerifyException("the body has operations of templates alone")

    @property
    def slots(self) -> int:
        """Shares of the loop."""
        total = 1
        for n in self.extents:
            total *= n
        return shape_of(self.locals[0])[0] if self.locals else total
