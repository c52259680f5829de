"""What code takes as one operator and the kernels in its place have none for, as the operators that they have.

A softmax whose hidden rows are zeros is a softmax, the largest number of each row, and a choice by whether that is
minus infinity: what ``decompose-aten`` makes of it where no delegate claims it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.et.program import ConstantOp
from etir.dialects.walking import ops_of


def spell_out(func: FuncOp) -> None:
    """Rewrite a function for the kernels."""
    for op in [op for op in ops_of(func.body.block) if isinstance(op, edge.aten._safe_softmax.default)]:
        _safe_softmax(op)


def _safe_softmax(op: EdgeOp) -> None:
    block = op.parent
    assert block is not None
    x, dim = cast(SSAValue, op.arg("self")), op.arg("dim")
    type = op.results[0].type
    dims = [*dims_of(cast("TensorType[Attribute]", type))]
    dims[dim % len(dims)] = 1

    def add(made: Operation) -> SSAValue:
        made.location = op.location
        block.insert_op_before(made, op)
        return made.results[0]

    def call(cls: Any, given: Mapping[str, object], result: Attribute) -> SSAValue:
        return add(cls.make(given, [result]))

    zero = add(ConstantOp(DenseIntOrFPElementsAttr.from_list(TensorType(f32, []), [0.0])))
    chosen = call(edge.aten._softmax.default, {"self": x, "dim": dim, "half_to_float": False}, type)
    largest = call(edge.aten.amax.default, {"self": x, "dim": (dim,), "keepdim": True}, tensor_type(f32, dims))
    hidden = call(edge.aten.eq.Scalar, {"self": largest, "other": -math.inf}, tensor_type(i1, dims))
    result = call(edge.aten.where.self, {"condition": hidden, "self": zero, "other": chosen}, type)
    op.results[0].replace_all_uses_with(result)
    block.erase_op(op)
