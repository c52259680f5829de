"""``tile.view``: the same memory with other strides, where numbers of the view are known at run time.

Views of numbers alone are ``memref.reinterpret_cast``::

    %1 = tile.view %0 from #tile.sizes<[64 * s0], s0 = 0 to 31> : memref<?x64xf32, ...> to memref<?x8xf32, ...>
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, MemRefType
from xdsl.dialects.memref import ReinterpretCastOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from etir.backends.native.sizes_attr import SizesAttr
from etir.dialects.kept import kept

# pyright: reportPrivateUsage=false


@irdl_op_definition
class ViewOp(IRDLOperation):
    """Memory from a float of ``source`` on."""

    name = "tile.view"
    start = prop_def(SizesAttr)
    source = operand_def(MemRefType)
    result = result_def(MemRefType)
    assembly_format = "$source `from` $start attr-dict `:` type($source) `to` type($result)"

    def __init__(self, source: SSAValue, start: int, type: Attribute):
        super().__init__(operands=[source], properties={"start": SizesAttr.of([start])}, result_types=[type])

    def verify_(self) -> None:
        if [len(row) for row in self.start.rows] != [1]:
            raise VerifyException("a view starts at one number")


def view_of(op: object) -> tuple[SSAValue, int] | None:
    """What an operation is a view of, and the float that it starts at; None for what is no view."""
    if (source := source_of(op)) is None:
        return None
    if type(op) is ViewOp:
        return source, op.start.rows[0][0]
    return source, _first_offset(cast("Operation", op).properties["static_offsets"])


@kept
def _first_offset(offsets: Attribute) -> int:
    return cast("DenseArrayBase[IntegerType]", offsets).get_values()[0]


def source_of(op: object) -> SSAValue | None:
    """The first half of :func:`view_of`: for who asks for nothing else, some hundred thousand times.

    The source is the first operand of both; by its name it is ten times as long on its way, since xDSL counts the
    operands of a cast in an attribute.
    """
    if type(op) in VIEWS:
        # Not by its index: xDSL's tuples of values have a method in Python for that.
        for source in cast("Operation", op)._operands:
            return source
    return None


VIEWS: tuple[type[Operation], ...] = (ReinterpretCastOp, ViewOp)
"""Operations that are other strides of the same memory."""
