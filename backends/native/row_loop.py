"""``tile.rows``: operations on images row by row, with a ring of the rows in between.

A window needs a few rows of an image that other operations compute. They are computed when the first window needs them
and forgotten after the last one: a ring has as many rows as a window, and the row that is new takes the place of the
oldest one. The image as a whole is nowhere::

    tile.rows [1, 56] window [3, 1, 1, 56, 1] border 0.0 : f32 above (%x, %w0, %b0) inputs (%w2, %b1, %b2, %r)
        turned (%w1) -> (%y) ring (%m) locals (%l) steps [...] : ... {
    ^bb0(%x0: memref<56x24xf32>, %w: memref<5x24x32xf32>, %b: ..., %row: memref<56x144xf32>):
      tile.brgemm %x0, %w, %row(%b) ...
    } {
    ^bb0(..., %taps: memref<3x3x144xf32>, %rows: memref<1x56x3x3x144xf32, ...>, %y0: memref<56x24xf32>, %l0: ...):
      tile.depthwise %rows, %taps, %l0(%b) ...
      tile.brgemm %l0, %w2, %y0(%b, %r0) ...
    }

The first block computes a row of the image in between from a row of each operand of ``above``; the second one a row of
the result. ``window`` is the window's rows, their stride, the rows of border above the image, the image's own rows, and
the columns of border to the left. Rows above and below the image, and columns beside it, are of the number ``border``.

Row ``i`` of the image lies in row ``i mod n`` of a ring of ``n``, so that a window is the ring as a whole, beginning
with any of its rows. What meets the rows one by one is ``turned``: rows of weights, written twice one after the other,
of which the block is given the ``n`` that begin with the one for the ring's first row.

Rows are the same however many threads share them: each does a run of rows, has a ring of its own (a slot), and computes
the rows that its first window needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, IntegerType, MemRefType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.loop import SLOTS, Part, PartsOp, verify_locals
from etir.backends.native.tile import TemplateOp, extent_of, f32, row_major, shape_of, strides_of


@irdl_op_definition
class RowsOp(PartsOp):
    """Rows of a result, and of the image that its windows read."""

    name = "tile.rows"
    counts = prop_def(ArrayAttr[IntegerAttr])
    window = prop_def(ArrayAttr[IntegerAttr])
    border = prop_def(Attribute)
    steps = prop_def(ArrayAttr[DenseArrayBase[IntegerType]])
    above = var_operand_def(MemRefType)
    inputs = var_operand_def(MemRefType)
    turned = var_operand_def(MemRefType)
    outputs = var_operand_def(MemRefType)
    ring = operand_def(MemRefType)
    locals = var_operand_def(MemRefType)
    fill = region_def("single_block")
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoTerminator())
    assembly_format = (
        "$counts `window` $window `border` $border `above` `(` $above `)` `inputs` `(` $inputs `)` "
        "`turned` `(` $turned `)` `->` `(` $outputs `)` `ring` $ring `locals` `(` $locals `)` `steps` $steps "
        "(`schedule` $schedule^)? attr-dict `:` `(` type($above) `)` `(` type($inputs) `)` `(` type($turned) `)` `->` "
        "`(` type($outputs) `)` `,` type($ring) `(` type($locals) `)` $fill $body"
    )

    def __init__(
        self,
        counts: Sequence[int],
        window: Sequence[int],
        border: float,
        operands: tuple[Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue], Sequence[SSAValue]],
        ring: SSAValue,
        locals: Sequence[SSAValue],
        steps: Sequence[Sequence[int]],
        regions: tuple[Region, Region],
    ):
        super().__init__(
            operands=[*operands, ring, locals],
            properties={
                "counts": ArrayAttr([IntegerAttr(n, i64) for n in counts]),
                "window": ArrayAttr([IntegerAttr(n, i64) for n in window]),
                "border": FloatAttr(border, f32),
                "steps": ArrayAttr([DenseArrayBase.from_list(i64, [*row]) for row in steps]),
            },
            regions=[*regions],
        )

    @property
    def extents(self) -> tuple[int, int]:
        """Images, and rows of each one's result."""
        images, rows = (n.value.data for n in self.counts.data)
        return images, rows

    @property
    def window_of_rows(self) -> tuple[int, int, int, int, int]:
        """The rows of a window, its stride, the rows above the image, the image's rows, the columns to the left."""
        size, stride, above, height, left = (n.value.data for n in self.window.data)
        return size, stride, above, height, left

    @property
    def slots(self) -> int:
        """Rings."""
        return shape_of(self.ring)[0]

    @property
    def row(self) -> SSAValue:
        """The argument of the first block that is the row which it computes."""
        return self.fill.block.args[-1]

    def parts(self) -> list[Part]:
        images, rows = self.extents
        size, _, _, height, _ = self.window_of_rows
        walks = [
            *([(images, height)] * len(self.above)),
            *([(images, rows)] * len(self.inputs)),
            *([(size,)] * len(self.turned)),
            *([(images, rows)] * len(self.outputs)),
        ]
        body = self.body.block.args
        before = len(self.inputs) + len(self.turned)
        args = [*self.fill.block.args[:-1], *body[:before], *body[before + 1 : before + 1 + len(self.outputs)]]
        values = [*self.above, *self.inputs, *self.turned, *self.outputs]
        given = [tuple(row.get_values()) for row in self.steps.data]
        return [Part(*row) for row in zip(values, walks, given, args, strict=True)]

    def scopes(self) -> list[tuple[Block, list[str]]]:
        read = len(self.inputs) + len(self.turned) + 1
        kinds = ["input"] * read + ["output"] * len(self.outputs) + ["buffer"] * len(self.locals)
        return [(self.fill.block, ["input"] * len(self.above) + ["output"]), (self.body.block, kinds)]

    def reads(self) -> list[SSAValue]:
        return [*self.above, *self.inputs, *self.turned]

    def writes(self) -> list[SSAValue]:
        return [*self.outputs, self.ring, *self.locals]

    def makes(self) -> list[SSAValue]:
        return [*self.outputs]

    def verify_(self) -> None:
        if len(self.counts.data) != 2 or any(n < 1 for n in self.extents):
            raise VerifyException("there are images and rows of them")
        if len(self.window.data) != 5:
            raise VerifyException("a window is its rows, stride, rows above, the image's rows, columns to the left")
        size, stride, above, height, left = self.window_of_rows
        if not 1 <= stride <= size or not 0 <= above < size or height < 1 or left < 0:
            raise VerifyException("windows meet each other and the image")
        if not isinstance(self.border, FloatAttr) or self.border.type != f32:
            raise VerifyException("the border is a number of f32")
        counts = [len(self.above) + 1, len(self.inputs) + len(self.turned) + 1 + len(self.outputs) + len(self.locals)]
        for block, count in zip((self.fill.block, self.body.block), counts, strict=True):
            if len(block.args) != count or not all(isinstance(arg.type, MemRefType) for arg in block.args):
                raise VerifyException("the blocks take a part of every operand, the row and the ring")
            if not all(isinstance(op, TemplateOp) and not isinstance(op, PartsOp) for op in block.ops):
                raise VerifyException("the blocks have operations of templates alone")
        wanted = [2] * (len(self.above) + len(self.inputs)) + [1] * len(self.turned) + [2] * len(self.outputs)
        if [len(row) for row in self.steps.data] != wanted:
            raise VerifyException("steps are two numbers for each operand, from image to image and from row to row; "
                                  "one for each that is turned")  # fmt: skip
        for part in self.parts():
            part.verify()
        self._verify_ring(size, left)
        verify_locals([*self.locals], self.body.block.args[len(self.body.block.args) - len(self.locals) :])
        if any(shape_of(value)[0] != self.slots for value in self.locals):
            raise VerifyException("locals have as many slots as there are rings")

    def _verify_ring(self, size: int, left: int) -> None:
        shape, row = shape_of(self.ring), shape_of(self.row)
        if len(shape) != 4 or shape[1] != size or strides_of(self.ring.type) != row_major(shape):
            raise VerifyException(f"the ring is slots of {size} rows of columns and channels, without gaps")
        if not 1 <= shape[0] <= SLOTS:
            raise VerifyException(f"a ring has 1 to {SLOTS} slots")
        if not row or row[-1] != shape[3] or strides_of(self.row.type) != row_major(row):
            raise VerifyException(f"the row is columns of {shape[3]} channels, without gaps")
        if left + math.prod(row[:-1]) > shape[2]:
            raise VerifyException(f"{math.prod(row[:-1])} columns and {left} before them are no row of {shape[2]}")
        whole = self.body.block.args[len(self.inputs) + len(self.turned)]
        if extent_of(whole.type) > math.prod(shape[1:]):
            raise VerifyException(f"windows of {whole.type} do not lie in the ring")
