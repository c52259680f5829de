"""What goes into the branches of conditions and comes out of them.

A branch reads what is made around the condition, and makes what the condition gives. For a delegate in a branch that is
memory like any other: of the tensors that it reads, those that nobody needs after the condition end with it, and a
result of the condition is written by one delegate in each branch, at one place. A branch runs once, whereas what the
body of a loop reads of outside is read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from etir.dialects.control.ops import CondOp, ScanOp, WhileOp, YieldOp
from etir.dialects.et.layout import is_static


def given_to(value: SSAValue) -> SSAValue | None:
    """The result of a condition that a value of one of its branches becomes; None where it becomes none, or several.

    Sizes that are known at run time only may have other bounds outside: then it is copied there.
    """
    yields = [use for use in value.uses if isinstance(use.operation, YieldOp)]
    maker = value.owner
    if len(yields) != 1 or isinstance(maker, Block) or yields[0].operation.parent is not maker.parent:
        return None
    op = yields[0].operation.parent_op()
    if not isinstance(op, CondOp):
        return None
    result = op.results[yields[0].index]
    return result if result.type == value.type else None


def outermost(value: SSAValue) -> SSAValue:
    """The result of the outermost condition that a value becomes, or the value itself."""
    while (outside := given_to(value)) is not None:
        value = outside
    return value


def ways_out(op: Operation, home: Block) -> Iterator[tuple[Block, Operation]] | None:
    """The blocks around an operation up to ``home``, each with what runs the operation there; None where it runs more
    than once in a run of that block, or is not in there.
    """
    found: list[tuple[Block, Operation]] = []
    block = op.parent
    while block is not None:
        found.append((block, op))
        if block is home:
            return iter(found)
        around = block.parent_op()
        if not isinstance(around, CondOp):
            return None
        block, op = around.parent, around
    return None


def is_written_anew(argument: BlockArgument) -> bool:
    """Whether an argument of a loop's body is written as a whole before each run of it: a slice of what a scan goes
    along, and what is carried with sizes that are known at run time only. The kernel that copies other values to what
    is carried may leave bytes as they are, so that their memory is needed all the time.
    """
    op = argument.owner.parent_op()
    if not isinstance(op, (WhileOp, ScanOp)) or argument.owner is not op.body.block:
        return False
    is_sized = isinstance(argument.type, TensorType) and not is_static(argument.type)
    return is_sized or (isinstance(op, ScanOp) and argument.index >= len(op.inits))
