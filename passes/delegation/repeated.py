"""Operators that each delegate does for itself, rather than being handed what another one has made of its inputs.

Before, where partition 1 reads a view of an input that partition 0 reads, too::

    %1 = edge.aten.unsqueeze_copy.default(%x, dim = 1) {backend.partition = "native:0"} : ...
    %2 = edge.aten.mul.Tensor(%a, %1) {backend.partition = "native:0"} : ...
    %3 = edge.aten.mul.Tensor(%b, %1) {backend.partition = "native:1"} : ...

After::

    %1 = edge.aten.unsqueeze_copy.default(%x, dim = 1) {backend.partition = "native:0"} : ...
    %2 = edge.aten.mul.Tensor(%a, %1) {backend.partition = "native:0"} : ...
    %4 = edge.aten.unsqueeze_copy.default(%x, dim = 1) {backend.partition = "native:1"} : ...
    %3 = edge.aten.mul.Tensor(%b, %4) {backend.partition = "native:1"} : ...

A result that leaves a partition is a tensor that lives from one delegate to the next; here the input lives on instead.
Which operators a backend would rather do again it says itself (``Backend.repeats``); only those are that read nothing
which their partition computes, besides such operators, and no more bytes than they make.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from etir.backends.api.registry import Delegate
from etir.dialects.et.program import GetWeightOp
from etir.passes.delegation.attributes import partition_of, set_partition
from etir.passes.delegation.graph import Ranges, tensor_bytes

Place = tuple[str, int]


def repeat_in_readers(func: FuncOp, delegates: dict[str, Delegate], ranges: Ranges) -> None:
    """Give each partition copies of operators that others would have done for it; ``delegates`` are those of a name."""
    for block in [block for op in func.walk() for region in op.regions for block in region.blocks]:
        _in_block(block, delegates, ranges)


def _in_block(block: Block, delegates: dict[str, Delegate], ranges: Ranges) -> None:
    chosen: dict[Operation, Place] = {}
    for op in block.ops:
        place = partition_of(op)
        if place is None or place[0] not in delegates or len(op.results) != 1:
            continue
        if not delegates[place[0]].backend.repeats(op):
            continue
        given = [v for v in op.operands if isinstance(v.type, TensorType) and not isinstance(v.owner, GetWeightOp)]
        outside = [v for v in given if v.owner not in chosen]
        inside = any(isinstance(v.owner, Operation) and partition_of(v.owner) == place for v in outside)
        size = tensor_bytes(op.results[0].type, ranges)
        if not inside and sum(tensor_bytes(v.type, ranges) for v in given) <= size:
            chosen[op] = place
    # The last ones first: what they read is then read in the other partition, too.
    for op in reversed(chosen):
        for place, reader in list(_first_readers(op, chosen[op])):
            copy = op.clone()
            copy.location = op.location
            set_partition(copy, *place)
            block.insert_op_before(copy, reader)
            copy.results[0].name_hint = op.results[0].name_hint
            for use in list(op.results[0].uses):
                if partition_of(use.operation) == place:
                    use.operation.operands[use.index] = copy.results[0]
    for op in reversed(chosen):
        if op.results[0].first_use is None:
            block.erase_op(op)


def _first_readers(op: Operation, place: Place) -> Iterator[tuple[Place, Operation]]:
    """The partitions of the same backend that read what an operation makes, each with the first operation that does."""
    found: dict[Place, Operation] = {}
    for use in op.results[0].uses:
        there = partition_of(use.operation)
        if there is None or there == place or there[0] != place[0] or use.operation.parent is not op.parent:
            continue
        if there not in found or use.operation.is_before_in_block(found[there]):
            found[there] = use.operation
    yield from sorted(found.items())
