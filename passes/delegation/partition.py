"""`partition`: say which operations go to which backend.

Before::

    %0 = edge.aten.linear.default(%x, %w) : ...
    %1 = edge.aten.erfinv.default(%0) : ...
    %2 = edge.aten.relu.default(%1) : ...

After ``partition{backend=xnnpack}``::

    %0 = edge.aten.linear.default(%x, %w) {backend.partition = "xnnpack:0"} : ...
    %1 = edge.aten.erfinv.default(%0) : ...
    %2 = edge.aten.relu.default(%1) {backend.partition = "xnnpack:1"} : ...

Backends are asked in the order of preference in which they are named; each is offered what those before it
rejected. For one backend the partitions of a block are convex, as few as possible, and placed where few bytes cross
(``delegation/levels.py`` has the algorithm and its source). Blocks of control flow are partitioned on their own.

A backend may find its partitions by code of its own instead (``Backend.propose``); they stay as it wants them where
they can be run in one piece beside the others.

Partitions that the text has already stay as they are (`verify-partitions` says what they have to be).

Operations keep their order and nothing else changes, except that an operation that a backend may have in several
patterns at once (dequantize before two users) is copied. The report of what was claimed, and of why the rest was
not, a ``DelegationReport``, is left in ``EtContext.attachments``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from etir.backends.api.interface import PartitionSummary, Proposal
from etir.backends.api.memory import PlansOnly
from etir.backends.api.patterns import operator_of
from etir.backends.api.registry import Delegate, parse_delegate, register_dialect
from etir.diagnostics import raise_if_errors
from etir.dialects.context import EtContext
from etir.dialects.et.origin import Origins, with_origins
from etir.dialects.et.program import GetWeightOp
from etir.dialects.sym.ops import DimOp
from etir.dialects.walking import ops_of
from etir.passes.delegation.attributes import (
    delegates_of,
    function_name,
    partition_of,
    set_delegates,
    set_options,
    set_partition,
)
from etir.passes.delegation.claim import Claims, computes, copy_shared, find_claims
from etir.passes.delegation.cuts import cut_levels
from etir.passes.delegation.graph import BlockGraph, Contraction, Ranges, tensor_bytes, used_values
from etir.passes.delegation.late import make_late
from etir.passes.delegation.levels import find_levels, lower_boundary
from etir.passes.delegation.owned import own_state
from etir.passes.delegation.proposed import fit_proposal
from etir.passes.delegation.repeated import repeat_in_readers
from etir.passes.delegation.report import DelegationReport, ReportBuilder
from etir.passes.delegation.sizes_inside import has_untold_numbers, read_sizes_of_inputs
from etir.passes.delegation.verify_partitions import check_partitions, partitions_of
from etir.passes.delegation.what_if import WhatIf
from etir.passes.generic.cse import CsePass
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Observer

LEFT = "it is to be left to others"
LEFT_PARTITION = "its partition is to be left to others"
"""Reasons of what ``leave`` names."""


@register_pass
@dataclass(frozen=True)
class PartitionPass(Pass):
    """Mark the operations that backends claim with the partition they belong to.

    ``backend`` names backends in order of preference, with options if need be (``backend="xnnpack{fp16=true}"``);
    ``exclude`` names operators that stay on the target's kernels; a partition of fewer than ``min-ops`` operators, one
    that its backend declines, or one that ``leave`` names as the report does, is left to the next backend, and so is an
    operation that it names by its number in the method (``forward_native:17``); a partition ends before an operation
    that ``cut`` names like that, and goes on as another one; ``split`` makes a partition of its own of every part that
    is not connected to the rest; ``own-state`` lets a delegate own the mutable buffers that only its partition reads
    and writes, and with ``share-state`` also those that several methods use in equal partitions, whose delegate they
    then share; ``what-if`` adds to the report what every operator that is not claimed costs.
    """

    name = "partition"
    backend: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    min_ops: int = 1
    leave: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    split: bool = False
    own_state: bool = False
    share_state: bool = False
    what_if: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E1101, E1107 and E1110 for backends that cannot be asked."""
        delegates = [parse_delegate(text) for text in self.backend]
        # What was asked for by hand stays, and the rest is partitioned around it: it has to be possible.
        raise_if_errors([d for func in methods(module) for d in check_partitions(func)])
        for delegate in delegates:
            if delegate.backend.dialect_name:
                register_dialect(ctx, delegate.backend.dialect_name)
        ranges = {op.sym_name.data: op.range for op in module.body.block.ops if isinstance(op, DimOp)}
        report = ReportBuilder(delegates, ranges, ctx.attachments.get(Observer))
        copied = False
        plans = ctx.attachments.get(PlansOnly)
        is_numbered = plans is not None and plans.most is None
        for func in methods(module):
            method = _Method(self, module, func, delegates, ranges, report)
            method.run(is_numbered=is_numbered)
            copied = copied or method.copied
        if copied:
            # Copies that went to one partition, or to none, are one operation again.
            CsePass().run(ctx, module)
        named = {d.name: d for d in delegates}
        for func in methods(module):
            repeat_in_readers(func, named, ranges)
        if self.own_state:
            own_state(module, {d.name: d for d in delegates}, shared=self.share_state)
        set_delegates(module, {**delegates_of(module), **{d.name: d for d in report.delegates}})
        ctx.attachments.set(DelegationReport, report.finish(module))


class _Method:
    def __init__(
        self,
        options: PartitionPass,
        module: ModuleOp,
        func: FuncOp,
        delegates: list[Delegate],
        ranges: Ranges,
        report: ReportBuilder,
    ):
        self.options = options
        self.module = module
        self.func = func
        self.delegates = delegates
        self.ranges = ranges
        self.report = report
        marked = [place for op in func.walk() if (place := partition_of(op)) is not None]
        self.count = 1 + max((number for _, number in marked), default=-1)
        self.copied = False
        self.numbers: dict[Operation, int] = {}

    def run(self, *, is_numbered: bool) -> None:
        """``is_numbered`` lets the operations tell their numbers wherever they go, as their origins."""
        if any(delegate.backend.sizes_inside for delegate in self.delegates):
            read_sizes_of_inputs(self.func)
        self.numbers = {op: number for number, op in enumerate(self.func.walk())}
        if is_numbered:
            for op, number in self.numbers.items():
                op.location = with_origins(op.location, Origins((number + 1,)))
        for op in list(self.func.walk()):
            for region in op.regions:
                for block in list(region.blocks):
                    self.block(block)

    def block(self, block: Block) -> None:
        """Partition one block among the backends."""
        for delegate in self.delegates:
            if any(row.has_duplicable for row in delegate.table.rows):
                self.copied = copy_shared(ops_of(block), delegate) or self.copied
        graph = BlockGraph.of(block, self.ranges)
        by_hand = list(partitions_of(block).values())
        made = [group for ops in by_hand if (group := [graph.index[op] for op in ops if op in graph.index])]
        owner: dict[Operation, None] = dict.fromkeys(op for ops in by_hand for op in ops)
        for delegate in self.delegates:
            proposal = delegate.backend.propose(self.module, block, delegate.options)
            for part in [None] if proposal is None else proposal.by_options():
                self._offer(graph, delegate, part, made, owner)
        if self.options.cut:
            make_late(block, self.ranges)

    def _offer(
        self,
        graph: BlockGraph,
        delegate: Delegate,
        proposal: Proposal | None,
        made: list[list[int]],
        owner: dict[Operation, None],
    ) -> None:
        """Give a backend what it claims, or what it proposes to lower in one way, of what is not in ``owner``."""
        chosen = delegate
        left = self._named(graph, delegate, self.options.leave)

        def is_free(op: Operation) -> bool:
            return op not in owner and op not in left

        if proposal is None:
            claims = find_claims(graph, delegate, is_free, self.options.exclude)
            groups = self._groups(graph, delegate, claims, made, [])
        else:
            excluded = self.options.exclude
            whole, claims = fit_proposal(graph, proposal, made, is_free, lambda op: operator_of(op) in excluded)
            groups = self._groups(graph, delegate, claims, made, whole)
            claims.units += whole
            chosen = replace(delegate, options=proposal.options)
        claims.reasons |= dict.fromkeys(left, LEFT)
        # The first options that a backend chose are the module's, others are their partitions' own.
        named = self.report.refine(chosen) if proposal is not None and groups else chosen
        if self.options.what_if:
            self.report.add_what_if(WhatIf(graph, made, groups, claims, delegate))
        for group in groups:
            ops = [graph.ops[i] for i in group]
            if function_name(self.func.sym_name.data, (delegate.name, self.count)) in self.options.leave:
                claims.reasons.update(dict.fromkeys(ops, LEFT_PARTITION))
                self.count += 1  # names are those of the report without it
                continue
            made.append(group)
            owner.update(dict.fromkeys(ops))
            for op in ops:
                set_partition(op, delegate.name, self.count)
            if chosen != named:
                set_options(self.func, (delegate.name, self.count), chosen)
            self.count += 1
        reasons = {op: why for op, why in claims.reasons.items() if op not in owner and computes(op)}
        self.report.add_reasons(delegate, self.func, reasons)

    def _named(self, graph: BlockGraph, delegate: Delegate, names: Sequence[str]) -> dict[Operation, None]:
        """The operations of a block that an option names by their numbers, for a backend."""
        head = function_name(self.func.sym_name.data, (delegate.name, 0)).rpartition("_")[0]
        named = {name for name in names if name.startswith(f"{head}:")}
        return dict.fromkeys(op for op in graph.ops if named and f"{head}:{self.numbers.get(op)}" in named)

    def _groups(
        self, graph: BlockGraph, delegate: Delegate, claims: Claims, made: list[list[int]], whole: list[list[int]]
    ) -> list[list[int]]:
        """The partitions that the backend gets, in the order of their first operation; ``whole`` are made already."""
        groups: list[list[int]] = []
        before = [*made, *whole]
        cuts = [graph.index[op] for op in self._named(graph, delegate, self.options.cut)]
        while True:
            for unit in drop_cycles(graph, claims.units, before):
                why = "its pattern and another one would each need the other to run first"
                claims.reasons.update({graph.ops[i]: why for i in unit})
            found = partitions(graph, claims.units, before, split=self.options.split, cuts=cuts)
            untold = _untold(graph, found) if delegate.backend.sizes_inside else {}
            if not untold:
                break
            claims.units = [unit for unit in claims.units if not any(i in untold for i in unit)]
            claims.reasons.update({graph.ops[i]: "a size that no tensor of its partition tells" for i in untold})
        for group in [*whole, *found]:
            ops = [graph.ops[i] for i in group]
            size = sum(1 for op in ops if computes(op))
            why = None
            if size == 0:
                why = "a partition without an operator that makes a tensor"
            elif size < self.options.min_ops:
                why = f"a partition of {size} operators is smaller than min-ops={self.options.min_ops}"
            else:
                why = delegate.backend.decline(summary_of(ops, self.ranges), delegate.options)
            if why is None:
                groups.append(group)
            else:
                claims.reasons.update(dict.fromkeys(ops, why))
        return sorted(groups)


def partitions(
    graph: BlockGraph, units: list[list[int]], made: list[list[int]], *, split: bool = False, cuts: Sequence[int] = ()
) -> list[list[int]]:
    """Groups of node numbers: the fewest convex partitions of ``units`` beside the partitions already ``made``, but for
    those that end before the nodes of ``cuts``.

    The units are acyclic (:func:`drop_cycles`).
    """
    contracted = Contraction(graph, [*units, *made])
    claimed = [n < len(units) for n in range(len(contracted.members))]
    levels = find_levels(contracted, claimed)
    lower_boundary(graph, contracted, claimed, levels)
    if cut_levels(contracted, claimed, levels, cuts):
        # What a partition begins with would else follow the last of it, and all come together again.
        lower_boundary(graph, contracted, claimed, levels, reads_more=False)
    groups: dict[int, list[int]] = {}
    for node, level in enumerate(levels):
        if claimed[node]:
            groups.setdefault(level, []).extend(contracted.members[node])
    found = [sorted(group) for group in groups.values()]
    return [part for group in found for part in _connected(graph, group)] if split else found


def _untold(graph: BlockGraph, groups: list[list[int]]) -> dict[int, None]:
    """The nodes of partitions that are given a size which nothing in their partition tells."""
    found: dict[int, None] = {}
    for group in groups:
        inside = dict.fromkeys(graph.ops[i] for i in group)
        for i in group:
            if has_untold_numbers(graph.ops[i], inside):
                found[i] = None
    return found


def drop_cycles(graph: BlockGraph, units: list[list[int]], made: list[list[int]]) -> list[list[int]]:
    """Units that are convex one by one may depend on each other in a cycle: the last ones are removed from ``units``
    until none do. Returns them.
    """
    dropped: list[list[int]] = []
    while True:
        contracted = Contraction(graph, [*units, *made])
        on_cycle = [n for n in contracted.cycle if n < len(units)]
        if not on_cycle:
            return dropped
        dropped.append(units.pop(on_cycle[-1]))


def _connected(graph: BlockGraph, group: list[int]) -> list[list[int]]:
    """The connected parts of a partition. None depends on another one: that would be a path out of the partition."""
    inside = dict.fromkeys(group)
    part = {i: i for i in group}

    def find(i: int) -> int:
        while part[i] != i:
            i = part[i]
        return i

    for i in group:
        for p in graph.preds[i]:
            if p in inside:
                part[find(i)] = find(p)
    parts: dict[int, list[int]] = {}
    for i in group:
        parts.setdefault(find(i), []).append(i)
    return list(parts.values())


def summary_of(ops: list[Operation], ranges: Ranges) -> PartitionSummary:
    """What crosses the boundary of a partition."""
    members = dict.fromkeys(ops)
    read = dict.fromkeys(v for op in ops for v in used_values(op))
    constants = [v for v in read if isinstance(v.owner, GetWeightOp)]
    inputs = [v for v in read if v.owner not in members and v not in constants]
    given = [r for op in ops for r in op.results if any(use.operation not in members for use in r.uses)]
    return PartitionSummary(
        tuple(ops),
        sum(tensor_bytes(v.type, ranges) for v in inputs),
        sum(tensor_bytes(v.type, ranges) for v in given),
        sum(tensor_bytes(v.type, ranges) for v in constants),
    )
