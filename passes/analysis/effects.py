"""What passes may assume about an operation's effects."""

from __future__ import annotations

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator, Pure, RecursiveMemoryEffect

from etir.dialects.aten.opaque import OpaqueOp
from etir.dialects.schema import SchemaKind
from etir.dialects.schema_op import SchemaOp


def is_pure(op: Operation) -> bool:
    """Whether an operation only computes its results: it is ``Pure``, or its regions hold only such operations."""
    if op.has_trait(Pure, value_if_unregistered=False):
        return True
    if not op.regions or not op.has_trait(RecursiveMemoryEffect, value_if_unregistered=False):
        return False
    return all(
        is_pure(nested) or nested.has_trait(IsTerminator, value_if_unregistered=False)
        for region in op.regions
        for block in region.blocks
        for nested in block.ops
    )


def writes_tensors(op: Operation) -> bool:
    """Whether an operation may change a tensor that other operations read: in-place and out overloads, unknown ones.

    Before ``functionalize`` a value of the ATen level is a handle of storage, and two equal calls are then not always
    one. Writes to state are not meant: they store a value and change none.
    """
    if isinstance(op, SchemaOp):
        return op.SCHEMA.kind is not SchemaKind.FUNCTIONAL
    return isinstance(op, (OpaqueOp, UnregisteredOp))
