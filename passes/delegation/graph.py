"""A block as a graph of numbers, contracted step by step as partitions form.

Nodes are the operations of one block that compute something; weights, constants and literals are no nodes, since every
partition reads its own. An operation with regions depends on what its regions use. Terminators and stores are users
outside of every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from etir.dialects.dtypes import BY_TYPE
from etir.dialects.et.layout import dims_of
from etir.dialects.et.program import (
    ConstantOp,
    GetWeightOp,
    NoneOp,
    StringOp,
    UpdateInputOp,
    WriteStateOp,
)
from etir.dialects.sym.expr import bounds
from etir.dialects.sym.ops import ConstantOp as SymConstantOp

FREE = (GetWeightOp, ConstantOp, SymConstantOp, NoneOp, StringOp)
"""Operations that every partition may read for itself."""
STORES = (WriteStateOp, UpdateInputOp)

Ranges = dict[str, tuple[int, int | None]]


def tensor_bytes(type: Attribute, ranges: Ranges) -> int:
    """Bytes of a tensor type, dynamic dims at their upper bound; 0 when there is none, and for what is no tensor."""
    if not isinstance(type, TensorType) or type.element_type not in BY_TYPE:
        return 0
    size = BY_TYPE[type.element_type].itemsize
    for dim in dims_of(type):
        high = dim if isinstance(dim, int) else bounds(dim, ranges)[1]
        if high is None:
            return 0
        size *= max(high, 0)
    return size


def used_values(op: Operation) -> list[SSAValue]:
    """The values that an operation and what is nested in it use, each once."""
    if not op.regions:
        return list(dict.fromkeys(op.operands))
    return list(dict.fromkeys(v for inner in op.walk() for v in inner.operands))


def root_in(block: Block, op: Operation) -> Operation | None:
    """The operation of ``block`` that is or contains ``op``."""
    current: Operation | None = op
    while current is not None and current.parent is not block:
        current = current.parent_op()
    return current


@dataclass(frozen=True)
class Value:
    """A value that may cross a boundary: who makes it (-1: comes from outside), who uses it, and its bytes.

    ``outside`` says that a store or the terminator uses it as well.
    """

    producer: int
    users: tuple[int, ...]
    size: int
    outside: bool


@dataclass
class BlockGraph:
    """The computing operations of a block, in order, and the values between them."""

    block: Block
    ops: list[Operation]
    preds: list[list[int]]
    values: list[Value]
    index: dict[Operation, int] = field(default_factory=dict[Operation, int])

    @staticmethod
    def of(block: Block, ranges: Ranges) -> BlockGraph:
        """The graph of a block."""
        ops = [
            op
            for op in block.ops
            if not isinstance(op, FREE) and not isinstance(op, STORES) and not op.has_trait(IsTerminator)
        ]
        index = {op: i for i, op in enumerate(ops)}
        users: dict[SSAValue, list[int]] = {}
        preds: list[list[int]] = []
        for i, op in enumerate(ops):
            found: dict[int, None] = {}
            for value in used_values(op):
                owner = value.owner
                if isinstance(owner, FREE):
                    continue
                producer = index.get(owner) if isinstance(owner, Operation) else None
                if producer == i or (producer is None and _is_inside(owner, op)):
                    continue
                if producer is not None:
                    found[producer] = None
                users.setdefault(value, []).append(i)
            preds.append(list(found))
        values: list[Value] = []
        for value, readers in users.items():
            owner = value.owner
            producer = index.get(owner, -1) if isinstance(owner, Operation) else -1
            values.append(Value(producer, tuple(readers), tensor_bytes(value.type, ranges), _leaves(value, block)))
        for i, op in enumerate(ops):
            for result in op.results:
                if result not in users and _leaves(result, block):
                    values.append(Value(i, (), tensor_bytes(result.type, ranges), True))
        return BlockGraph(block, ops, preds, values, index)


def _is_inside(owner: Operation | Block, op: Operation) -> bool:
    """Whether a value that ``op`` uses is made within it."""
    current = owner if isinstance(owner, Operation) else owner.parent_op()
    while current is not None:
        if current is op:
            return True
        current = current.parent_op()
    return False


def _leaves(value: SSAValue, block: Block) -> bool:
    """Whether a store or the terminator of ``block`` uses a value."""
    return any(
        use.operation.parent is block and (isinstance(use.operation, STORES) or use.operation.has_trait(IsTerminator))
        for use in value.uses
    )


class Contraction:
    """A graph whose nodes are groups of operations: partitions that are made already, and units that cannot be split.

    ``order`` is a topological order that keeps to the block's wherever it can. ``cycle`` is the nodes on cycles
    when there is none.
    """

    def __init__(self, graph: BlockGraph, groups: Iterable[Sequence[int]]):
        count = len(graph.ops)
        owner = [-1] * count
        self.members: list[tuple[int, ...]] = []
        for group in groups:
            for i in group:
                owner[i] = len(self.members)
            self.members.append(tuple(sorted(group)))
        for i in range(count):
            if owner[i] < 0:
                owner[i] = len(self.members)
                self.members.append((i,))
        self.node_of = owner
        self.preds: list[list[int]] = []
        self.succs: list[list[int]] = [[] for _ in self.members]
        for node, members in enumerate(self.members):
            found = dict.fromkeys(owner[p] for i in members for p in graph.preds[i])
            found.pop(node, None)
            self.preds.append(list(found))
            for p in found:
                self.succs[p].append(node)
        self.order, self.cycle = self._sort()

    def _sort(self) -> tuple[list[int], list[int]]:
        waiting = [len(p) for p in self.preds]
        ready = [(self.members[n][0], n) for n, count in enumerate(waiting) if not count]
        heapify(ready)
        order: list[int] = []
        while ready:
            _, node = heappop(ready)
            order.append(node)
            for successor in self.succs[node]:
                waiting[successor] -= 1
                if not waiting[successor]:
                    heappush(ready, (self.members[successor][0], successor))
        return order, self._cycles([n for n, count in enumerate(waiting) if count])

    def _cycles(self, left: list[int]) -> list[int]:
        """The nodes of ``left`` that are on a cycle or between two, not those that only come after one."""
        while True:
            inside = dict.fromkeys(left)
            kept = [n for n in left if any(s in inside for s in self.succs[n])]
            if len(kept) == len(left):
                return left
            left = kept
