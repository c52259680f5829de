"""Where a delegate's inputs and outputs may be, seen from the method that calls it.

A method may call several delegates, each with a workspace of its own; no two of them are needed at once, so that all
can begin at the same byte of the method's memory. A tensor that one delegate makes and the next one reads then has one
place in both workspaces: the second is planned around the place that the first has given it. What an operator of the
kernels makes, or the caller gives, may be anywhere in the workspace of the delegate that reads it last.

A tensor that lives while another delegate runs would be in its way, and stays apart; so do inputs that somebody reads
afterwards, states and weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.backend.ops import CallDelegateOp, ViewOp
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.program import WriteStateOp
from etir.dialects.et.workspace import APART

Around = list[int | None]
"""For each input and output its place, None for any one, or ``APART``."""


class Frame:
    """The calls of a module's delegates, and the places that outputs have been given so far."""

    def __init__(self, module: ModuleOp) -> None:
        self._calls: dict[str, CallDelegateOp] = {}
        self._positions: dict[Block, dict[Operation, int]] = {}
        self._at: dict[Block, list[int]] = {}
        self._places: dict[SSAValue, int] = {}
        for op in module.walk():
            if isinstance(op, CallDelegateOp):
                self._calls[op.callee.root_reference.data] = op

    def in_order(self, names: Sequence[str]) -> list[int]:
        """The indices of functions in the order of their calls, which is that in which they are to be planned."""
        order = {name: number for number, name in enumerate(self._calls)}
        return sorted(range(len(names)), key=lambda index: order.get(names[index], -1))

    def around(self, name: str, inputs: int, outputs: int) -> Around:
        """The places of the inputs and outputs of a function; any one where nobody calls it."""
        call = self._calls.get(name)
        if call is None or len(call.operands) != inputs or len(call.results) != outputs:
            return [None] * (inputs + outputs)
        operands = [*call.operands]
        into = [self._input(call, v) if operands.count(v) == 1 else APART for v in operands]
        return [*into, *(None if self._is_undisturbed(v) else APART for v in call.results)]

    def keep(self, name: str, places: Sequence[int | None]) -> None:
        """Remember the places that a function's outputs have been given; None is a place apart."""
        call = self._calls.get(name)
        for value, place in zip(() if call is None else call.results, places, strict=False):
            if place is not None:
                self._places[value] = place

    def _input(self, call: CallDelegateOp, value: SSAValue) -> int | None:
        base, block = _base_of(value), call.parent
        maker = base.owner
        if block is None or (maker if isinstance(maker, Block) else maker.parent) is not block:
            return APART
        if not isinstance(maker, (Block, EdgeOp, CallDelegateOp)) or any(map(_keeps, _uses(base))):
            return APART
        if isinstance(maker, Block) and not isinstance(block.parent_op(), FuncOp):
            return APART
        if self._last_use(base, block) != self._position(call, block) or not self._is_undisturbed(base):
            return APART
        return self._places.get(base) if isinstance(maker, CallDelegateOp) else None

    def _is_undisturbed(self, value: SSAValue) -> bool:
        """Whether no delegate runs between the one that makes a value and the last operation that needs it."""
        maker = value.owner
        block = maker if isinstance(maker, Block) else maker.parent
        if block is None:
            return False
        born = -1 if isinstance(maker, Block) else self._position(maker, block)
        last = self._last_use(value, block)
        return not any(born < at < last for at in self._calls_in(block))

    def _last_use(self, value: SSAValue, block: Block) -> int:
        """The number of the last operation of a block that reads a value or a view of it."""
        found = -1
        for user in _uses(value):
            op: Operation | None = user
            while op is not None and op.parent is not block:
                op = op.parent_op()
            if op is not None:
                found = max(found, self._position(op, block))
        return found

    def _position(self, op: Operation, block: Block) -> int:
        if block not in self._positions:
            self._positions[block] = {op: number for number, op in enumerate(block.ops)}
        return self._positions[block][op]

    def _calls_in(self, block: Block) -> list[int]:
        """The numbers of the operations of a block that run delegates."""
        if block not in self._at:
            found = [op for op in block.ops if any(isinstance(inner, CallDelegateOp) for inner in op.walk())]
            self._at[block] = [self._position(op, block) for op in found]
        return self._at[block]


def _base_of(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, ViewOp):
        value = value.owner.base
    return value


def _uses(value: SSAValue) -> Iterator[Operation]:
    """What uses a value or a view of it."""
    values = [value]
    while values:
        for use in values.pop().uses:
            yield use.operation
            if isinstance(use.operation, ViewOp):
                values.append(use.operation.result)


def _keeps(op: Operation) -> bool:
    """Whether an operation makes a value a state, whose memory it then has."""
    return isinstance(op, WriteStateOp)
