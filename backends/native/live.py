"""Bytes of the tensors that live while a group of a function is computed, whatever code does for it in between.

What is kept for later, read and made: inputs and outputs of the function, too, since they may be in its workspace.
Views are what they view, and images the whole that they are a part of where joins share memory. It is an estimate:
borders, and what lies over an operand, are not in it.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.asked import saves
from etir.backends.native.dims import dims
from etir.backends.native.operators import is_view
from etir.backends.native.shared import AS_IMAGES, SHARED, Shares
from etir.backends.native.sizes import most
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of


def live_bytes_at(func: FuncOp) -> dict[Operation, int]:
    """The bytes for each operation of an outlined function of groups; weights and constants are not counted."""
    block = func.body.block
    base: dict[SSAValue, SSAValue] = {arg: arg for arg in block.args}
    first: dict[SSAValue, int] = dict.fromkeys(block.args, 0)
    last: dict[SSAValue, int] = {}
    ops = ops_of(block)
    shares = Shares() if saves(func, SHARED) else None
    for number, op in enumerate(ops):
        for operand in op.operands:
            if operand in base:
                last[base[operand]] = number
        if isinstance(op, (GetWeightOp, ConstantOp)):
            continue
        is_seen = isinstance(op, SchemaOp) and is_view(op) and op.operands[0] in base
        for result in op.results:
            if isinstance(result.type, TensorType):
                base[result] = base[op.operands[0]] if is_seen else _whole(result, shares)
                first.setdefault(base[result], number)
                last.setdefault(base[result], number)
    changes = [0] * (len(ops) + 1)
    for value, start in first.items():
        if value in last:
            changes[start] += bytes_of_tensor(value)
            changes[last[value] + 1] -= bytes_of_tensor(value)
    found: dict[Operation, int] = {}
    live = 0
    for op, change in zip(ops, changes, strict=False):
        live += change
        found[op] = live
    return found


def _whole(value: SSAValue, shares: Shares | None) -> SSAValue:
    """The join whose memory has a tensor where joins share memory, or the tensor itself."""
    while shares is not None:
        op = value.owner
        outer = shares.outer(op) if isinstance(op, SchemaOp) and operator_of(op) in AS_IMAGES else None
        found = outer or shares.of(value)
        if found is None:
            break
        value = found[0].results[0]
    return value


def bytes_of_tensor(value: SSAValue) -> int:
    """The bytes of a tensor: truth values that a function is given have one each, and are floats inside."""
    assert isinstance(value.type, TensorType)
    is_flags = value.type.element_type == i1 and isinstance(value.owner, Block)
    return (1 if is_flags else 4) * most(math.prod(dims(value)))
