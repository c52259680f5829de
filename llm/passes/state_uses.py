"""What passes that change the states of caches have to know: what a state begins with, and who uses it in which way.

A pass may change a state when everything that reads or stores it, in any method, is what the pass rewrites. It says
which values are writes of positions that it knows (``chosen``), what is computed between them and attention, and which
operations are rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Container

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.dtypes import dtype_of
from etir.dialects.et.program import ReadStateOp, StateOp, WriteStateOp
from etir.dialects.et.weights import Blob, BlobAttr
from etir.passes.infra.base import methods


def state_read(value: SSAValue) -> str | None:
    """The state that a value is read from; None for any other value."""
    return value.owner.symbol.root_reference.data if isinstance(value.owner, ReadStateOp) else None


def stores(op: Operation, name: str) -> bool:
    """Whether an operation stores the state of this name."""
    return isinstance(op, WriteStateOp) and op.symbol.root_reference.data == name


def starts_as_zeros(state: StateOp) -> bool:
    """Whether a state is known to begin with zeros."""
    given = state.value
    if given is None:
        return True
    return isinstance(given, BlobAttr) and given.data.has_data and not any(bytes(given.data.data))


def retype(state: StateOp, type: TensorType[Attribute]) -> None:
    """Give a state that starts as zeros another type."""
    if state.value is not None:
        count = dtype_of(type.element_type).itemsize * math.prod(type.get_shape())
        state.properties["value"] = BlobAttr(Blob.of(bytes(count)))
    state.properties["type"] = type


def other_use(
    module: ModuleOp,
    name: str,
    chosen: Container[SSAValue],
    inside: Container[Operation],
    passed_on: tuple[type[Operation], ...],
) -> str | None:
    """Who uses a state in another way than a pass knows; None where nobody does.

    Reads may go to the writes that give ``chosen``, these to what is ``inside``, through operations of ``passed_on``,
    and stores be those of ``chosen``.
    """
    for method in methods(module):
        for op in method.walk():
            if isinstance(op, ReadStateOp) and op.symbol.root_reference.data == name:
                for use in op.result.uses:
                    write = use.operation
                    if use.index != 0 or not write.results or write.results[0] not in chosen:
                        return f"'{write.name}' reads '{name}', too"
                    other = _other_reader(write.results[0], inside, passed_on)
                    if other is not None:
                        return f"'{other.name}' reads '{name}', too"
            elif stores(op, name) and op.operands[0] not in chosen:
                return f"'{name}' is stored in another way, too"
    return None


def _other_reader(
    value: SSAValue, inside: Container[Operation], passed_on: tuple[type[Operation], ...]
) -> Operation | None:
    """What reads a cache, and neither stores it nor is inside, after what passes it on."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, WriteStateOp) or op in inside:
            continue
        if not isinstance(op, passed_on):
            return op
        for result in op.results:
            other = _other_reader(result, inside, passed_on)
            if other is not None:
                return other
    return None
