"""Where a value of the executable level is: its buffer, and whether its place is known in the plan."""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.et.values import BufferOp, ViewOp


def elements(type: Attribute) -> int:
    """The number of elements of a static tensor type."""
    return math.prod(cast("TensorType[Attribute]", type).get_shape())


def root_of(value: SSAValue) -> SSAValue:
    """The buffer under the views."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.base
    return value


def start_in(value: SSAValue) -> int:
    """Bytes from the start of the buffer under the views to the first element."""
    start = 0
    while isinstance(value.owner, ViewOp):
        start += value.owner.offset.value.data
        value = value.owner.base
    return start


def is_dynamic(value: SSAValue) -> bool:
    """Whether the sizes of a buffer or view are dynamic."""
    return isinstance(value.owner, (BufferOp, ViewOp)) and value.owner.dynamic is not None


def dynamism(value: SSAValue) -> str | None:
    """What the definition of a buffer or view says of its sizes: ``bound``, ``unbound``, or None for static ones."""
    dynamic = value.owner.dynamic if isinstance(value.owner, (BufferOp, ViewOp)) else None
    return None if dynamic is None else dynamic.data


def is_unplanned(op: Operation) -> bool:
    """Whether the offset of a buffer or view is dynamic."""
    if isinstance(op, ViewOp):
        return op.late is not None or is_unplanned(cast(Operation, op.base.owner))
    return not isinstance(op, BufferOp) or op.caller is not None or op.is_allocated
