"""Mutable buffers that delegates own.

A buffer goes to the one partition that has all its reads and writes. Where methods share their state, several methods
may use it, if each does so in one partition and these partitions are equal: they become one delegate, which the runtime
initializes once (``Sharing::Must`` of ``runtime/executor/backend.h``). Its ``et.state`` says so by an attribute.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from etir.backends.api.registry import Delegate
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.passes.delegation.attributes import PARTITION, partition_of, set_partition
from etir.passes.infra.base import methods

SHARED = "backend.shared"
"""Attribute of an ``et.state`` that one delegate owns for several methods."""
_Owner = tuple[Block, str, int]


def own_state(module: ModuleOp, delegates: dict[str, Delegate], *, shared: bool) -> None:
    """Put the reads and writes of buffers into the partitions that can own them, where the backend can hold state.

    ``shared`` says that buffers of one symbol are the same in all methods.
    """
    users: dict[str, dict[FuncOp, list[ReadStateOp | WriteStateOp]]] = {}
    for func in methods(module):
        for op in func.walk():
            if isinstance(op, (ReadStateOp, WriteStateOp)):
                users.setdefault(op.symbol.root_reference.data, {}).setdefault(func, []).append(op)
    owned: dict[str, list[_Owner]] = {}
    for name, by_method in users.items():
        owners = [_only_owner(ops) for ops in by_method.values()]
        found = [owner for owner in owners if owner is not None and delegates[owner[1]].backend.owns_state]
        if len(found) == len(owners) and (len(owners) == 1 or shared):
            owned[name] = found
    # A partition that reads another state from outside would be given different ones by its methods' delegates.
    for name, owners in owned.items():
        if len(owners) > 1 and len(dict.fromkeys(_content(owner, owned) for owner in owners)) > 1:
            continue
        for ops, owner in zip(users[name].values(), owners, strict=True):
            for op in ops:
                set_partition(op, owner[1], owner[2])
        if len(owners) > 1:
            state = next(op for op in module.body.block.ops if isinstance(op, StateOp) and op.sym_name.data == name)
            state.attributes[SHARED] = UnitAttr()


def _only_owner(ops: list[ReadStateOp | WriteStateOp]) -> _Owner | None:
    """The partition that has all users of a buffer in one method, or None."""
    owners: dict[_Owner | None, None] = {}
    for op in ops:
        if isinstance(op, WriteStateOp):
            owners[_owner(op.value.owner)] = None
        else:
            owners.update(dict.fromkeys(_owner(use.operation, op) for use in op.result.uses))
    return next(iter(owners)) if len(owners) == 1 else None


def _owner(user: Operation | Block, read: ReadStateOp | None = None) -> _Owner | None:
    """Block, backend and number of the partition that an operation is in, or None."""
    if not isinstance(user, Operation) or user.parent is None or (read is not None and user.parent is not read.parent):
        return None
    partition = partition_of(user)
    return None if partition is None else (user.parent, *partition)


def _content(owner: _Owner, owned: dict[str, list[_Owner]]) -> tuple[object, ...]:
    """What a partition computes: equal for those that become equal functions."""
    block, backend, number = owner
    members = [op for op in block.ops if partition_of(op) == (backend, number)]
    numbers: dict[SSAValue, int] = {}
    content: list[object] = [backend]

    def number_of(value: SSAValue) -> object:
        if value in numbers:
            return numbers[value]
        numbers[value] = len(numbers)
        owner = value.owner
        if isinstance(owner, Operation) and not owner.operands and "symbol" in owner.properties:
            symbol = owner.properties["symbol"]
            kept = not isinstance(owner, ReadStateOp) or owner.symbol.root_reference.data in owned
            return numbers[value], value.type, symbol if kept else None
        return numbers[value], value.type

    for op in members:
        for inner in op.walk():
            attributes = sorted((k, v) for k, v in inner.attributes.items() if k != PARTITION)
            content.append((inner.name, tuple(attributes), tuple(sorted(inner.properties.items()))))
            content.append(tuple(number_of(v) for v in inner.operands))
            content.append(tuple((number_of(r), r.type) for r in inner.results))
    members_of = dict.fromkeys(members)
    for op in block.ops:
        if isinstance(op, WriteStateOp) and op.value.owner in members_of:
            content.append((op.symbol.root_reference.data, numbers[op.value]))
    used = [any(use.operation not in members_of for use in r.uses) for op in members for r in op.results]
    return (*content, tuple(used))
