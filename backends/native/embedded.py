"""Weights that become constants of an outlined function: what lowering has to see, and what a blob cannot name.

The indices by which elements are taken decide what code is made, where they are few. Truth values that fill no words of
the file are none of a blob's weights: the kernels have them in their program then, and code has floats of the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr, TensorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, Use

from etir.backends.api.patterns import operator_of
from etir.backends.native.taken import EMBEDDING, INDEX, INDEX_SELECT, integers_of, is_long, source_of
from etir.dialects.et.program import ConstantOp, GetWeightOp, WeightOp
from etir.dialects.et.weights import payload_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of

WORD = 4
"""Bytes that all weights of a blob are a multiple of."""


def embed_constants(func: FuncOp, symbols: Mapping[str, Operation]) -> None:
    """Make such weights constants of the function; ``symbols`` are weights of its module by name."""
    block = func.body.block
    for read in [op for op in ops_of(block) if isinstance(op, GetWeightOp)]:
        weight = symbols.get(read.symbol.root_reference.data)
        uses = _uses_of_constant(read, weight) if isinstance(weight, WeightOp) else []
        if not uses or not isinstance(weight, WeightOp):
            continue
        type = cast("TensorType[Any]", read.result.type)
        data = payload_of(weight.value, cast("TensorType[Attribute]", weight.type)).data
        made = ConstantOp(DenseIntOrFPElementsAttr(type, BytesAttr(bytes(data))))
        made.location = read.location
        block.insert_op_before(made, read)
        for use in uses:
            use.operation.operands[use.index] = made.result
        if read.result.first_use is None:
            block.erase_op(read)


def _uses_of_constant(read: GetWeightOp, weight: WeightOp) -> list[Use]:
    """The uses of a weight that want a constant."""
    uses = [*read.result.uses]
    type = read.result.type
    if isinstance(type, TensorType) and type.element_type == i1:
        return uses if math.prod(type.get_shape()) % WORD else []
    taking = [use for use in uses if _takes_by(use)]
    return taking if taking and integers_of(weight, type) is not None else []


def _takes_by(use: Use) -> bool:
    """Whether elements are taken by what is used."""
    op = use.operation
    if not isinstance(op, SchemaOp) or operator_of(op) not in (EMBEDDING, INDEX, INDEX_SELECT):
        return False
    return source_of(op) is not op.operands[use.index] and not is_long(op)
