"""Where a delegate's inputs and outputs may be, seen from the method that calls it.

A method may call several delegates, each with a workspace of its own; no two of them are needed at once, so that all
can begin at the same byte of the method's memory. A tensor that one delegate makes and the next one reads then has one
place in both workspaces: the second is planned around the place that the first has given it. What an operator of the
kernels makes, or the caller gives, may be anywhere in the workspace of the delegate that reads it last.

What a condition gives is made in its branches, by one delegate in each, at one place (``branches.py``).

A tensor that lives while another delegate runs would be in its way, and stays apart; so do inputs that somebody reads
afterwards, states and weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from etir.backends.native.branches import given_to, is_written_anew, outermost, ways_out
from etir.dialects.backend.ops import CallDelegateOp, ViewOp
from etir.dialects.control.ops import CondOp, ScanOp, WhileOp
from etir.dialects.dtypes import dtype_of
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import is_static
from etir.dialects.et.program import ReadStateOp, WriteStateOp
from etir.dialects.et.workspace import APART, Workspace
from etir.dialects.walking import ops_of

if TYPE_CHECKING:
    from etir.backends.native.workspace import Planned
    from etir.backends.reference.lowered import LoweredFunction

Around = list[int | None]
"""For each input and output its place, None for any one, or ``APART``."""


@dataclass(frozen=True)
class Carried:
    """A tensor that is made by one of some calls, or read by one for the last time.

    ``places`` has the argument that it is of such calls, by the number of the call; ``kept`` the calls during which it
    lives, ``gaps`` those before which it lives (the number of calls: after all), with the first and the last operation
    of the block, from the call before on, at which it does.
    """

    places: dict[int, int]
    kept: tuple[int, ...]
    gaps: dict[int, tuple[int, int]]


class Frame:
    """The calls of a module's delegates, and the places that outputs have been given so far."""

    def __init__(self, module: ModuleOp) -> None:
        self._calls: dict[str, CallDelegateOp] = {}
        self._positions: dict[Block, dict[Operation, int]] = {}
        self._at: dict[Block, list[int]] = {}
        self._stored: dict[tuple[Block, str], int] = {}
        self._places: dict[SSAValue, int] = {}
        self.planned: dict[str, tuple[FuncOp, LoweredFunction, Planned]] = {}
        """By name the code, the kernels and the plan of functions that have been planned before code is made."""
        self.most = 0
        """Bytes of the largest workspace so far."""
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
        return [*into, *(map(self._output, call.results))]

    def over(self, name: str) -> list[tuple[int, int]]:
        """The inputs and outputs of a function that may be one memory: an output that is the new contents of a state,
        and an input that is the old ones, which nothing reads after the call.
        """
        call = self._calls.get(name)
        found = [] if call is None else [(self._old(call, v), number) for number, v in enumerate(call.results)]
        return [(old, number) for old, number in found if old is not None]

    def _old(self, call: CallDelegateOp, value: SSAValue) -> int | None:
        """Which input of a call has the old contents of the state that a result is stored into."""
        stores = [op for op in _uses(value) if isinstance(op, WriteStateOp)]
        if (
            len(stores) != 1
            or stores[0].value is not value
            or stores[0].parent is not call.parent
            or call.parent is None
        ):
            return None
        symbol = stores[0].symbol
        reads = [op.result for op in call.parent.ops if isinstance(op, ReadStateOp) and op.symbol == symbol]
        given = [number for number, v in enumerate(call.operands) if _base_of(v) in reads]
        if len(given) != 1 or call.operands[given[0]].type != value.type:
            return None
        if not isinstance(value.type, TensorType) or not is_static(value.type):
            return None
        whole = call.operands[given[0]] in reads
        is_last = self._stored_at(stores[0], call.parent) == self._position(call, call.parent)
        return given[0] if whole and is_last else None

    def made_by_kernels(self, name: str) -> list[bool]:
        """Which inputs of a function are made by operators that no delegate claims."""
        call = self._calls.get(name)
        return [] if call is None else [isinstance(_base_of(v).owner, EdgeOp) for v in call.operands]

    def blocks(self, names: Sequence[str]) -> list[list[str]]:
        """The names of functions whose calls are all that run delegates in a block, in the order of the calls."""
        found: dict[Block, list[str]] = {}
        for name in names:
            call = self._calls.get(name)
            if call is not None and call.parent is not None:
                found.setdefault(call.parent, []).append(name)
        rows = {
            block: sorted(given, key=lambda n: self._position(self._calls[n], block)) for block, given in found.items()
        }
        return [row for block, row in rows.items() if len(row) == len(self._calls_in(block))]

    def method_of(self, name: str) -> str | None:
        """The method that calls a function; None where nobody does, or in a loop's body."""
        call = self._calls.get(name)
        func = None if call is None else call.parent_op()
        return func.sym_name.data if isinstance(func, FuncOp) else None

    def is_repeated(self, name: str) -> bool:
        """Whether a loop runs a function."""
        call = self._calls.get(name)
        around = None if call is None else call.parent_op()
        while around is not None and not isinstance(around, FuncOp):
            if isinstance(around, (WhileOp, ScanOp)):
                return True
            around = around.parent_op()
        return False

    def carried(self, names: Sequence[str]) -> list[Carried]:
        """The tensors that calls of a block make or read for the last time, and that may be in their workspaces."""
        calls = [self._calls[name] for name in names]
        values: dict[SSAValue, None] = {}
        for call in calls:
            values |= dict.fromkeys(
                [*(_base_of(v) for v in call.operands if isinstance(v.type, TensorType)), *call.results]
            )
        return [row for value in values if (row := self._carried(value, calls)) is not None]

    def _carried(self, value: SSAValue, calls: Sequence[CallDelegateOp]) -> Carried | None:
        maker, block = value.owner, calls[0].parent
        if block is None or (maker if isinstance(maker, Block) else maker.parent) is not block:
            return None
        if not isinstance(maker, (Block, EdgeOp, CallDelegateOp)):
            return None
        if isinstance(maker, Block) and not isinstance(block.parent_op(), FuncOp):
            return None
        born = -1 if isinstance(maker, Block) else self._position(maker, block)
        if self._is_state(value):
            return None
        last = max(born, self._last_use(value, block))
        at = [self._position(call, block) for call in calls]
        places: dict[int, int] = {}
        for number, call in enumerate(calls):
            found = [i for i, v in enumerate((*call.operands, *call.results)) if _base_of(v) is value]
            if len(found) > 1:
                return None
            if found and at[number] in (born, last):
                if not _is_whole((*call.operands, *call.results)[found[0]], value):
                    return None
                places[number] = found[0]
        if not places:
            return None
        kept = tuple(number for number, position in enumerate(at) if born < position < last)
        ends = [-1, *at, len(self._positions[block])]
        gaps = {
            i: (max(born, ends[i]), min(last, ends[i + 1]))
            for i in range(len(at) + 1)
            if born < ends[i + 1] and last > ends[i]
        }
        return Carried(places, kept, gaps)

    def keep(self, name: str, workspace: Workspace) -> None:
        """Remember the places that a function's inputs and outputs have been given: the same values are at them for
        the delegates of other branches.
        """
        self.most = max(self.most, workspace.size)
        call = self._calls.get(name)
        if call is None:
            return
        for value, place in zip(call.operands, workspace.inputs, strict=False):
            if place is not None and value is _base_of(value):
                self._places.setdefault(value, place)
        for value, place in zip(call.results, workspace.outputs, strict=False):
            if place is not None:
                self._places[outermost(value)] = place

    def _input(self, call: CallDelegateOp, value: SSAValue) -> int | None:
        base = _base_of(value)
        maker = base.owner
        home = maker if isinstance(maker, Block) else maker.parent
        ways = None if home is None else ways_out(call, home)
        if ways is None or any(map(_keeps, _uses(base))):
            return APART
        if not isinstance(maker, (Block, EdgeOp, CallDelegateOp, CondOp)) or not _is_made_once(base):
            return APART
        for block, op in ways:
            at = self._position(op, block)
            born = -1 if isinstance(maker, Block) or block is not home else self._position(maker, block)
            if self._last_use(base, block) != at or any(born < other < at for other in self._calls_in(block)):
                return APART
        return self._places.get(base)

    def _output(self, value: SSAValue) -> int | None:
        """Where a result of a call may be: where a delegate of another branch has it."""
        is_free = self._is_undisturbed(value) and not self._is_state(value) and not self._is_state(outermost(value))
        return self._places.get(outermost(value)) if is_free else APART

    def _is_undisturbed(self, value: SSAValue) -> bool:
        """Whether no delegate runs between the one that makes a value and the last operation that needs it, or what it
        becomes as the result of a condition.
        """
        maker = value.owner
        block = maker if isinstance(maker, Block) else maker.parent
        if block is None:
            return False
        born = -1 if isinstance(maker, Block) else self._position(maker, block)
        last = self._last_use(value, block)
        if any(born < at < last for at in self._calls_in(block)):
            return False
        outside = given_to(value)
        return outside is None or self._is_undisturbed(outside)

    def _is_state(self, value: SSAValue) -> bool:
        """Whether a value is made in a state's own memory: unless it is copied there, since the delegate that makes it,
        or what follows, reads what was in the state before.
        """
        stores = [op for op in _uses(value) if isinstance(op, WriteStateOp)]
        maker = value.owner
        if isinstance(maker, CallDelegateOp) and self._old(maker, value) is not None:
            return True
        if not stores or not isinstance(maker, CallDelegateOp) or maker.parent is None:
            return bool(stores)
        born = self._position(maker, maker.parent)
        return any(op.parent is not maker.parent or self._stored_at(op, maker.parent) < born for op in stores)

    def _last_use(self, value: SSAValue, block: Block) -> int:
        """The number of the last operation of a block that reads a value or a view of it."""
        found = -1
        for user in _uses(value):
            op: Operation | None = user
            while op is not None and op.parent is not block:
                op = op.parent_op()
            if isinstance(op, WriteStateOp):
                found = max(found, self._stored_at(op, block))
            elif op is not None:
                found = max(found, self._position(op, block))
        return found

    def _stored_at(self, store: WriteStateOp, block: Block) -> int:
        """The number of the last operation that needs what was in a state before: its new contents are stored right
        after it, wherever the text says so. -1 where there is none.
        """
        key = (block, store.symbol.root_reference.data)
        if key not in self._stored:
            self._stored[key] = self._position(store, block)  # of states that are stored in one another
            reads = [op for op in ops_of(block) if isinstance(op, ReadStateOp) and op.symbol == store.symbol]
            self._stored[key] = max((self._last_use(op.result, block) for op in reads), default=-1)
        return self._stored[key]

    def _position(self, op: Operation, block: Block) -> int:
        if block not in self._positions:
            self._positions[block] = {op: number for number, op in enumerate(block.ops)}
        return self._positions[block][op]

    def _calls_in(self, block: Block) -> list[int]:
        """The numbers of the operations of a block that run delegates."""
        if block not in self._at:
            found = [op for op in ops_of(block) if any(isinstance(inner, CallDelegateOp) for inner in op.walk())]
            self._at[block] = [self._position(op, block) for op in found]
        return self._at[block]


def _is_made_once(value: SSAValue) -> bool:
    """Whether the memory of a value is needed in one run of its block alone: not that of an argument which a loop
    carries, as a rule.
    """
    return not isinstance(value, BlockArgument) or isinstance(value.owner.parent_op(), FuncOp) or is_written_anew(value)


def _base_of(value: SSAValue) -> SSAValue:
    while isinstance(value.owner, ViewOp):
        value = value.owner.base
    return value


def _is_whole(value: SSAValue, base: SSAValue) -> bool:
    """Whether a view has all bytes of a tensor, in whatever shape: pairs of floats, too, of complex numbers."""
    sizes = {_bytes_of(value)}
    while isinstance(value.owner, ViewOp) and not value.owner.byte_offset:
        value = value.owner.base
        sizes.add(_bytes_of(value))
    return value is base and len(sizes) == 1


def _bytes_of(value: SSAValue) -> int:
    """The bytes of a tensor, dims that are known at run time only as one each."""
    assert isinstance(value.type, TensorType)
    return math.prod(abs(n) for n in value.type.get_shape()) * dtype_of(value.type.element_type).itemsize


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
