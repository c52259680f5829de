"""Where a result may be written directly, so that no copy is needed.

A value that is stored into state, into a caller's tensor or into a result of control flow has a destination. Its
producer writes there directly when nothing reads what the destination held before at or after the producer: the old
value's reads (and those of every view of it) all come earlier. Otherwise the value gets a buffer of its own and is
copied at the store.

``index_put`` into the current value of a state is the one operator that is done in place: it reads the old value and
writes the new one element by element, and the runtimes have its in-place kernel. That kernel takes one vector of
positions and values of exactly the shape that they replace (`canonicalize` gives them that shape); other forms are not
in place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from etir.dialects.backend.ops import ViewOp
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, tensor_of
from etir.dialects.et.program import ReadStateOp, UpdateInputOp, WriteStateOp
from etir.passes.analysis.index_put import replaced_shape

InPlace: TypeAlias = edge.aten.index_put.default
"""The functional operator whose in-place form, ``aten.index_put_.default``, the runtimes have; it writes ``self``."""


def positions_in(block: Block) -> dict[Operation, int]:
    """The place of every operation of a block in program order; nested ones take the place of what they are in."""
    places: dict[Operation, int] = {}
    for index, op in enumerate(block.ops):
        for nested in op.walk():
            places[nested] = index
    return places


def aliases_of(values: Iterable[SSAValue]) -> list[SSAValue]:
    """``values`` and every view of them."""
    found = list(values)
    for value in found:
        for use in value.uses:
            if isinstance(use.operation, ViewOp):
                found.append(use.operation.result)
    return found


def last_read(values: Iterable[SSAValue], places: dict[Operation, int], ignoring: Operation | None = None) -> int:
    """The place of the last operation that reads one of ``values`` or a view of them; -1 when none does."""
    last = -1
    for value in aliases_of(values):
        for use in value.uses:
            op = use.operation
            if op is ignoring or isinstance(op, ViewOp):
                continue
            if isinstance(op, UpdateInputOp) and use.index == 0:
                continue
            last = max(last, places.get(op, len(places)))
    return last


def stores_of(block: Block) -> list[tuple[WriteStateOp | UpdateInputOp, SSAValue, tuple[SSAValue, ...]]]:
    """The stores at the end of a method: the operation, the stored value, and the values that hold the old content."""
    reads: dict[str, list[SSAValue]] = {}
    stores: list[tuple[WriteStateOp | UpdateInputOp, SSAValue, tuple[SSAValue, ...]]] = []
    for op in block.ops:
        if isinstance(op, ReadStateOp):
            reads.setdefault(op.symbol.root_reference.data, []).append(op.result)
        elif isinstance(op, WriteStateOp):
            stores.append((op, op.value, tuple(reads.get(op.symbol.root_reference.data, ()))))
        elif isinstance(op, UpdateInputOp):
            stores.append((op, op.value, (op.input,)))
    return stores


def written_in_place(value: SSAValue, old: tuple[SSAValue, ...], places: dict[Operation, int]) -> list[SSAValue]:
    """The values that are the old content, changed in place, one after another up to ``value``; empty when one cannot.

    ``index_put`` of ``index_put`` of the old content: each is the last to read what the one before left.
    """
    chain = [value]
    held = old
    while not _writes_in_place(chain[-1].owner, held, places):
        op = chain[-1].owner
        if not isinstance(op, InPlace):
            return []
        before = op.self_
        if not _writes_in_place(op, (before,), places) or before.owner not in places:
            return []
        chain.append(before)
    return chain


def _writes_in_place(op: Operation | Block, old: tuple[SSAValue, ...], places: dict[Operation, int]) -> bool:
    """Whether ``op`` may change the old content in place: it is the last to read it, and reads it as ``self`` only."""
    if not isinstance(op, InPlace):
        return False
    target = op.self_
    if op.accumulate or replaced_shape(op) != dims_of(tensor_of(op.values)):
        return False
    if target not in old or sum(1 for operand in op.operands if operand in old) != 1:
        return False
    views = [v for v in aliases_of(old) if v not in old]
    if any(operand in views for operand in op.operands):
        return False
    return last_read(old, places, ignoring=op) < places[op]
