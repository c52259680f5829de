"""Whether an instruction may still read a view of a buffer: liveness of views, which are names for bytes.

A view stands for the value that its readers read. A state that is read through a slice and written at the end of the
method holds something else in these bytes then, and so does a buffer that is written again: what no instruction reads
any more is not the view's value. As usual for liveness, a path through the jumps is enough, whether or not it is taken.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from etir.dialects.et.instructions import JumpFalseOp, JumpOp, NextOp, ReturnOp
from etir.dialects.et.values import ViewOp


class ViewReads:
    """Asked for one method that does not change meanwhile; answers are kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[Operation, SSAValue], bool] = {}

    def after(self, op: Operation, view: SSAValue) -> bool:
        """Whether an instruction that may come after ``op`` has ``view``, or a view of it, as operand."""
        if (op, view) not in self._known:
            self._known[op, view] = _reachable(_following(op), _readers(view))
        return self._known[op, view]


def _readers(view: SSAValue) -> set[Operation]:
    """The instructions with the value, or a view of it, among their operands."""
    found: set[Operation] = set()
    for use in view.uses:
        if isinstance(use.operation, ViewOp):
            found |= _readers(use.operation.result)
        else:
            found.add(use.operation)
    return found


def _following(op: Operation) -> list[Operation]:
    """The instructions of which one comes next."""
    match op:
        case JumpFalseOp():
            ways = [op.fallthrough.first_op, op.target.first_op]
        case JumpOp() | NextOp():
            ways = [op.target.first_op]
        case ReturnOp():
            ways = []
        case _:
            ways = [op.next_op]
    return [way for way in ways if way is not None]


def _reachable(waiting: list[Operation], wanted: set[Operation]) -> bool:
    """Whether the instructions in ``waiting``, or those that may come after them, are among the wanted ones."""
    seen: set[Operation] = set()
    while waiting and wanted:
        op = waiting.pop()
        if op in wanted:
            return True
        if op not in seen:
            seen.add(op)
            waiting += _following(op)
    return False
