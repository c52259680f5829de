"""`verify-partitions`: refuse partitions that cannot be run as one piece.

Every partition (``backend.partition = "name:number"``) has to be for an installed backend, within one block, and
*convex*: no path may leave it and come back, since the operations on that path would have to run both after and before
the delegate. Two partitions that are convex on their own may still need each other; that is refused as well.
`partition` makes none such; an edit by hand can. The error names the operations of one such path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from etir.backends.api.patterns import operator_of
from etir.backends.api.registry import find_backend
from etir.backends.errors import E1105, E1109
from etir.diagnostics import Diagnostic, EtirError, SourceLocation, raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.et.program import ReadStateOp, WriteStateOp
from etir.dialects.text import source_location
from etir.passes.delegation.attributes import partition_of
from etir.passes.delegation.claim import find_cycle_through
from etir.passes.delegation.graph import BlockGraph, Contraction
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

PartitionId = tuple[str, int]


@register_pass
@dataclass(frozen=True)
class VerifyPartitionsPass(Pass):
    """Check that every partition is convex, for an installed backend, and in one block."""

    name = "verify-partitions"
    checks_only = True

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises one error with every partition that is wrong (E1101, E1105, E1109)."""
        raise_if_errors([d for func in methods(module) for d in check_partitions(func)])


def partitions_of(block: Block) -> dict[PartitionId, list[Operation]]:
    """The operations of each partition of a block, in order; stores and reads of state that a partition owns included.
    Raises E1109."""
    found: dict[PartitionId, list[Operation]] = {}
    for op in block.ops:
        partition = partition_of(op)
        if partition is not None:
            found.setdefault(partition, []).append(op)
    return found


def check_partitions(func: FuncOp) -> list[Diagnostic]:
    """What is wrong with the partitions of a method."""
    problems: list[Diagnostic] = []
    owners: dict[PartitionId, Block] = {}
    for outer in func.walk():
        for block in [b for region in outer.regions for b in region.blocks]:
            where: SourceLocation | None = None
            try:
                found = partitions_of(block)
                for (name, _), ops in found.items():
                    where = source_location(ops[0].location)
                    find_backend(name)
            except EtirError as error:
                problems.extend(d.at(where) for d in error.diagnostics)
                continue
            for partition, ops in found.items():
                if owners.setdefault(partition, block) is not block:
                    message = f"partition {_text(partition)} has operations in several blocks"
                    problems.append(E1109.diagnostic(message, source_location(ops[0].location)))
            if found:
                problems += _check_state(found, func) + _check_convex(block, found)
    return problems


def _text(partition: PartitionId) -> str:
    return f"'{partition[0]}:{partition[1]}'"


def _named(op: Operation) -> str:
    where = source_location(op.location)
    return f"'{operator_of(op)}'" + (f" ({where})" if where is not None else "")


def _check_state(found: dict[PartitionId, list[Operation]], func: FuncOp) -> list[Diagnostic]:
    """A delegate that owns a mutable buffer has all of its reads and writes, and nobody else sees what it held."""
    problems: list[Diagnostic] = []
    for partition, ops in found.items():
        for op in ops:
            if not isinstance(op, (ReadStateOp, WriteStateOp)):
                continue
            name = op.symbol.root_reference.data
            users = [o for o in func.walk() if isinstance(o, (ReadStateOp, WriteStateOp)) and o.symbol == op.symbol]
            users += [u.operation for u in op.result.uses] if isinstance(op, ReadStateOp) else []
            outside = [u for u in users if partition_of(u) != partition]
            if outside:
                message = f"partition {_text(partition)} owns @{name}, which {_named(outside[0])} uses outside of it"
                problems.append(E1109.diagnostic(message, source_location(op.location)))
    return problems


def _check_convex(block: Block, found: dict[PartitionId, list[Operation]]) -> list[Diagnostic]:
    graph = BlockGraph.of(block, {})
    problems: list[Diagnostic] = []
    groups: dict[PartitionId, list[int]] = {}
    for partition, ops in found.items():
        inside = [op for op in ops if op not in graph.index and not isinstance(op, WriteStateOp)]
        if inside:
            message = f"'{inside[0].name}' cannot be in partition {_text(partition)}: every partition reads its own"
            problems.append(E1109.diagnostic(message, source_location(inside[0].location)))
        members = {graph.index[op]: None for op in ops if op in graph.index}
        if not members:
            continue
        groups[partition] = list(members)
        if find_cycle_through(graph.preds, members) is not None:
            problems.append(_path(graph, partition, members))
    if problems:
        return problems
    contracted = Contraction(graph, groups.values())
    if contracted.cycle:
        partitions = list(groups)
        names = [_text(partitions[n]) for n in contracted.cycle if n < len(partitions)]
        first = found[partitions[min(contracted.cycle)]][0]
        message = f"partitions {' and '.join(names)} need each other's results"
        problems.append(
            E1105.diagnostic(message, source_location(first.location), notes=_edges(graph, contracted, partitions))
        )
    return problems


def _path(graph: BlockGraph, partition: PartitionId, members: dict[int, None]) -> Diagnostic:
    """The shortest way out of a partition and back, found breadth first from the operations that leave it."""
    came: dict[int, int] = {}
    queue = [i for i, preds in enumerate(graph.preds) if i not in members and any(p in members for p in preds)]
    for i in queue:
        came[i] = next(p for p in graph.preds[i] if p in members)
    users: dict[int, list[int]] = {}
    for i, preds in enumerate(graph.preds):
        for p in preds:
            users.setdefault(p, []).append(i)
    for i in queue:
        for user in users.get(i, ()):
            if user in members:
                chain = [user, i]
                while chain[-1] not in members:
                    chain.append(came[chain[-1]])
                return _cyclic(partition, [graph.ops[n] for n in reversed(chain)])
            if user not in came:
                came[user] = i
                queue.append(user)
    raise AssertionError("a partition that is not convex has a path out and back")


def _cyclic(partition: PartitionId, path: Sequence[Operation]) -> Diagnostic:
    first, *outside, last = path
    through = " -> ".join(_named(op) for op in outside)
    return E1105.diagnostic(
        f"partition {_text(partition)} would need its own result: {_named(first)} in it feeds {through} outside, which "
        f"feeds {_named(last)} in it again",
        source_location(first.location),
        help=f"take {_named(first)} or {_named(last)} out of the partition, or {_named(outside[0])} into it",
    )


def _edges(graph: BlockGraph, contracted: Contraction, partitions: Sequence[PartitionId]) -> list[str]:
    """For every two partitions in the cycle, one pair of operations that ties them."""
    on_cycle = dict.fromkeys(contracted.cycle)
    notes: dict[tuple[int, int], str] = {}
    for i, preds in enumerate(graph.preds):
        user = contracted.node_of[i]
        for p in preds:
            producer = contracted.node_of[p]
            if producer == user or producer not in on_cycle or user not in on_cycle:
                continue
            ends = [_text(partitions[n]) if n < len(partitions) else "outside" for n in (producer, user)]
            text = f"{_named(graph.ops[p])} ({ends[0]}) feeds {_named(graph.ops[i])} ({ends[1]})"
            notes.setdefault((producer, user), text)
    return list(notes.values())
