"""What kernels make for a later partition alone is made just before that one.

Where a partition is cut so that what it reads late is made late (``delegation/cuts.py``), the operators that make it
may stand at the beginning of the method, as the tables of embeddings that a model looks up one after the other and
then sums. `outline-delegates` keeps the order of what no delegate claims, and delegates are planned in that order. So
pure operators go to where their first reader is, if a partition begins in between and their operands have no more
bytes than their results: these live until then in their place.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Block, Operation
from xdsl.traits import Pure

from etir.dialects.et.program import ReadStateOp
from etir.dialects.walking import ops_of
from etir.passes.delegation.attributes import partition_of
from etir.passes.delegation.claim import computes
from etir.passes.delegation.graph import FREE, STORES, Ranges, root_in, tensor_bytes
from etir.passes.delegation.verify_partitions import partitions_of


def make_late(block: Block, ranges: Ranges) -> None:
    """Move operators of a block that no partition has; dynamic dims have their upper bounds from ``ranges``."""
    firsts = [ops[0] for ops in partitions_of(block).values() if ops]
    place = {op: number for number, op in enumerate(block.ops)}
    for op in reversed(ops_of(block)):
        if not _is_movable(op, ranges):
            continue
        reader = _first_reader(op, block, place)
        if reader is None or isinstance(reader, STORES) or reader is op.next_op:
            continue
        own = partition_of(reader)
        if any(place[op] < place[first] < place[reader] and partition_of(first) != own for first in firsts):
            op.detach()
            block.insert_op_before(op, reader)
            place = {other: number for number, other in enumerate(block.ops)}


def _is_movable(op: Operation, ranges: Ranges) -> bool:
    if partition_of(op) is not None or not computes(op) or not op.has_trait(Pure):
        return False
    made = [v for v in op.operands if not isinstance(v.owner, FREE)]
    # What a state holds is read before it is stored anew.
    if any(isinstance(v.owner, ReadStateOp) for v in made):
        return False
    return sum(tensor_bytes(v.type, ranges) for v in made) <= sum(tensor_bytes(r.type, ranges) for r in op.results)


def _first_reader(op: Operation, block: Block, place: Mapping[Operation, int]) -> Operation | None:
    readers = [root_in(block, use.operation) for result in op.results for use in result.uses]
    return min((r for r in readers if r is not None), key=place.__getitem__, default=None)
