"""``native-group``: which operators are one loop nest.

Before::

    %1 = edge.aten.linear.default(%x, %w, %b) : ...
    %2 = edge.aten.gelu.default(%1) : ...

After::

    %2 = native.group "product" (%x, %w, %b) { ... linear, gelu ... } : ...

A root pulls in the elementwise operators that follow it on tensors of its shape, as long as one tensor is left that
others read: rule ``epilogue`` for products, ``map`` for elementwise operators. ``x * sigmoid(x)`` reads the root twice.
An elementwise root also takes those beside it that only its followers read: both terms of ``x * cos + y * sin``.
A product whose result is only viewed before an elementwise operator keeps its group; the view stands between two
groups. A batch norm with constants is a product and a sum (:mod:`etir.backends.native.batch_norm`), a variance with a
mean two reductions (:mod:`etir.backends.native.statistics`), and a sum of what is joined for it alone so many
additions (:mod:`etir.backends.native.joined`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.batch_norm import spell_out_batch_norms
from etir.backends.native.dialect import GroupOp, YieldOp
from etir.backends.native.elementwise import ELEMENTWISE
from etir.backends.native.embedded import embed_constants
from etir.backends.native.joined import add_joined, join_once
from etir.backends.native.kinds import WITH_EPILOGUE, kind_of
from etir.backends.native.statistics import split_statistics
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import Dim, dims_of
from etir.dialects.et.origin import handed_on, standing_for
from etir.dialects.et.program import WeightOp
from etir.dialects.walking import ops_of
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def group_operators(func: FuncOp) -> None:
    """Put every operator of ``func`` that a template computes into a group."""
    block = func.body.block
    for op in ops_of(block):
        if op.parent is not block or not isinstance(op, EdgeOp):
            continue
        kind = kind_of(op)
        if kind is not None:
            make_group(kind, _members(kind, op))


MOST_MEMBERS = 24
"""Operators of a group: longer bodies need more registers than there are."""


def _members(kind: str, root: Operation) -> list[Operation]:
    """The root and what it pulls in, in order: as many elementwise operators as leave one tensor that others read."""
    members, best = [root], [root]
    while kind in WITH_EPILOGUE and len(members) < MOST_MEMBERS:
        inside = set(members)
        users = {use.operation for op in members for result in op.results for use in result.uses} - inside
        following = next((op for op in _after(members[-1]) if op in users), None) if users else None
        if following is None or not _fits(following, root):
            break
        beside = _beside(following, members) if kind == "map" else []
        members += [*beside, following]
        if users - {*beside} <= {following} and _is_closed(members):
            best = [*members]
    return best


def _beside(op: Operation, members: list[Operation]) -> list[Operation]:
    """Elementwise operators just before one that follows members, which alone reads what they make: the other factor of
    ``x / 2 * (1 + tanh(...))``, or the other term of ``x * cos + y * sin``. What a product has made is its epilogue's,
    and nothing is made later than what is no loop of this kind.
    """
    found = {op}
    between: list[Operation] = []
    previous = op.prev_op
    while previous is not None and previous is not members[-1] and _kind(previous) in (None, "map"):
        users = {use.operation for result in previous.results for use in result.uses}
        if users and users <= found and _fits(previous, members[0]) and not any(map(_goes_on, previous.operands)):
            found.add(previous)
            between.insert(0, previous)
        previous = previous.prev_op
    return between if len(members) + len(between) < MOST_MEMBERS else []


def _goes_on(value: SSAValue) -> bool:
    """Whether a value is made by an operator without a group yet that can go on with what reads it, as products do."""
    kind = kind_of(value.owner) if isinstance(value.owner, EdgeOp) else None
    return kind != "map" and kind in WITH_EPILOGUE


def _kind(op: Operation | Block) -> str | None:
    """The kind of the group that an operator is the root of, and that a group has."""
    if isinstance(op, GroupOp):
        return op.kind.data
    return kind_of(op) if isinstance(op, EdgeOp) else None


def _after(op: Operation) -> Iterator[Operation]:
    following = op.next_op
    while following is not None:
        yield following
        following = following.next_op


def _fits(op: Operation, root: Operation) -> bool:
    """Whether a template that computes ``root`` can do ``op`` on what it has computed."""
    if not isinstance(op, EdgeOp) or op.parent is not root.parent or operator_of(op) not in ELEMENTWISE:
        return False
    return _shape(op.results[0]) == _shape(root.results[0])


def _is_closed(members: list[Operation]) -> bool:
    """Whether nothing but members reads what members but the last one compute."""
    return all(use.operation in members for op in members[:-1] for result in op.results for use in result.uses)


def _shape(value: SSAValue) -> tuple[Dim, ...]:
    return dims_of(cast("TensorType[Attribute]", value.type))


def make_group(kind: str, members: list[Operation]) -> GroupOp:
    """Put operators that follow each other into a group."""
    inside = {result for op in members for result in op.results}
    inputs = list(dict.fromkeys(v for op in members for v in op.operands if v not in inside))
    last = members[-1]
    block = Block(arg_types=[v.type for v in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for op in members:
        clone = op.clone(values)
        clone.location = op.location
        block.add_op(clone)
    result = last.results[0]
    end = YieldOp(values[result])
    end.location = handed_on(last.location)
    block.add_op(end)
    group = GroupOp(kind, inputs, [result.type], Region(block))
    group.location = standing_for(members[0].location, members, [result])
    group.outputs[0].name_hint = result.name_hint
    parent = last.parent
    assert parent is not None
    parent.insert_op_after(group, last)
    result.replace_all_uses_with(group.outputs[0])
    for op in reversed(members):
        parent.erase_op(op)
    return group


@register_pass
@dataclass(frozen=True)
class NativeGroupPass(Pass):
    """Put edge operators of a native delegate into groups that are one loop nest each"""

    name = "native-group"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every outlined function of the module that is given to ``native``."""
        symbols = {op.sym_name.data: op for op in ops_of(module.body.block) if isinstance(op, WeightOp)}
        for func in module.body.block.ops:
            if isinstance(func, FuncOp) and "backend.delegate" in func.attributes:
                spell_out_batch_norms(func, symbols)
                embed_constants(func, symbols)
                split_statistics(func)
                add_joined(func)
                join_once(func)
                group_operators(func)
