"""Dims of tensors as numbers of ``tile``: symbols have the bounds that the module declares."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, SSAValue

from etir.backends.native.sizes import UNSPECIALIZED, Range, size
from etir.dialects.et.layout import dims_of
from etir.dialects.sym.ops import DimOp

SIZE = "aten.sym_size.int"
"""The operator that reads a dim of a tensor: for the fallback, since code is given the dims of its inputs."""


def dims(value: SSAValue) -> tuple[int, ...]:
    """The dims of a tensor. Raises ``ValueError`` for one without a bound."""
    shape = dims_of(cast("TensorType[Attribute]", value.type))
    if all(isinstance(n, int) for n in shape):
        return cast("tuple[int, ...]", shape)
    ranges = bounds_around(value)
    return tuple(n if isinstance(n, int) else size(n, ranges) for n in shape)


def bounds_around(value: SSAValue) -> dict[str, Range]:
    """The symbols of the module around a value that have an upper bound, with both of their bounds."""
    op = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    while op is not None and not isinstance(op, ModuleOp):
        if op.parent is None:
            # A copy that is in no block stands for what is beside its operands.
            return next((found for operand in op.operands if (found := bounds_around(operand))), {})
        op = op.parent_op()
    return {} if op is None else _declared(op)


@lru_cache(maxsize=2)
def _declared(module: ModuleOp) -> dict[str, Range]:
    found: dict[str, Range] = {}
    for op in module.body.block.ops:
        if isinstance(op, DimOp):
            low, high = op.range
            if high is not None:
                found[op.sym_name.data] = (low if low > UNSPECIALIZED else 0, high)
    return found
