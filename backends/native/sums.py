"""Sums of several branches, each of which adds what it makes to the ones before.

A group takes in the elementwise operators that follow its root, so the first term of a sum has the whole sum in it, and
all other terms wait for it: a layer that adds up k branches of one image has k results of them at once. In turn, the
first term is made by itself, the second one adds to it, and so on, and the last one takes in what follows the sum. Each
lies over the one before, so that there is one result, and every sum is rounded as before. It is what the kernels do,
too (``add-in-product``). Where the sum lies in a border, so do its terms: those of one memory have the same strides.

Two terms live no longer than one of them: the first lies over the second. So it takes two that wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.asked import saves, watched_as
from etir.backends.native.dialect import GroupOp, YieldOp
from etir.backends.native.kinds import WITH_EPILOGUE
from etir.backends.native.passes.native_group import MOST_MEMBERS, make_group
from etir.dialects.sym.ops import DimOp
from etir.dialects.walking import ops_of

SUMS = "sums"
"""The saving that asks for it."""
LEAST_WAITING = 2
"""Terms that wait for the sum."""


def in_turn(func: FuncOp) -> FuncOp:
    """An outlined function of groups, or a copy of it where sums are saved on and there are some."""
    if not any(map(_terms, func.body.block.ops)) or not saves(func, SUMS):
        return func
    copy = _copy(func)
    for op in ops_of(copy.body.block):
        if terms := _terms(op):
            _take_apart(cast(GroupOp, op), terms)
    return copy


@dataclass(frozen=True)
class _Term:
    """A group whose result is read by one operator of another group alone, which is the member of that number."""

    group: GroupOp
    number: int


def _terms(op: Operation) -> list[_Term]:
    """The groups that can take in what a group does from the operator on that reads them, in order; none where they are
    too few.
    """
    if not isinstance(op, GroupOp) or op.kind.data not in WITH_EPILOGUE:
        return []
    members = _members(op)
    readers = [[use.operation for use in arg.uses] for arg in op.body.block.args]
    found: list[_Term] = []
    for number in range(1, len(members)):
        for value, reading in zip(op.inputs, readers, strict=True):
            if reading == [members[number]] and _may_take(value, op) and _is_cut(members, number):
                found.append(_Term(cast(GroupOp, value.owner), number))
                break
    if len(found) < LEAST_WAITING:
        return []
    ends = [*(term.number for term in found[1:]), len(members)]
    fits = [len(_members(t.group)) + end - t.number <= MOST_MEMBERS for t, end in zip(found, ends, strict=True)]
    return found if all(fits) else []


def _may_take(value: SSAValue, group: GroupOp) -> bool:
    """Whether a value is what another group that takes operators makes, of the same type, and nothing else reads it."""
    owner = value.owner
    is_alike = isinstance(owner, GroupOp) and owner.kind.data in WITH_EPILOGUE and owner.parent is group.parent
    return is_alike and value.has_one_use() and value.type == group.outputs[0].type


def _is_cut(members: list[Operation], number: int) -> bool:
    """Whether one value alone goes from the members before a number to those after: that of the last one."""
    later = {*members[number:]}
    return all(use.operation not in later for op in members[: number - 1] for use in op.results[0].uses)


def _members(group: GroupOp) -> list[Operation]:
    return [op for op in ops_of(group.body.block) if not isinstance(op, YieldOp)]


def _copy(func: FuncOp) -> FuncOp:
    """A copy of a function, in a module with the sizes that it refers to; who asks of it asks of the function."""
    copy = func.clone()
    for op, made in zip(func.walk(), copy.walk(), strict=True):
        made.location = op.location
    around = func.parent_op()
    beside = ops_of(around.body.block) if isinstance(around, ModuleOp) else []
    ModuleOp([*(op.clone() for op in beside if isinstance(op, DimOp)), copy])
    watched_as(copy, func)
    return copy


def _take_apart(group: GroupOp, terms: list[_Term]) -> None:
    """Give each term the operators from the one that reads it to the one that reads the next."""
    block = group.parent
    assert block is not None
    members = _members(group)
    values: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, group.inputs, strict=True))
    parts: list[tuple[GroupOp, list[Operation]]] = []

    def add(ops: list[Operation], known: dict[SSAValue, SSAValue]) -> list[Operation]:
        made: list[Operation] = []
        for op in ops:
            clone = op.clone(known)
            clone.location = op.location
            block.insert_op_before(clone, group)
            made.append(clone)
        return made

    parts.append((group, add(members[: terms[0].number], values)))
    for term, end in zip(terms, [*(term.number for term in terms[1:]), len(members)], strict=True):
        given: dict[SSAValue, SSAValue] = dict(zip(term.group.body.block.args, term.group.inputs, strict=True))
        made = add(_members(term.group), given)
        (argument,) = [a for a, v in zip(group.body.block.args, group.inputs, strict=True) if v.owner is term.group]
        values[argument] = made[-1].results[0]
        parts.append((term.group, made + add(members[term.number : end], values)))
    group.outputs[0].replace_all_uses_with(parts[-1][1][-1].results[0])
    for op in (group, *(term.group for term in terms)):
        block.erase_op(op)
    for of, ops in parts:
        make_group(of.kind.data, ops).location = of.location
