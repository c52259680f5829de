"""`experts-to-layers`: a loop that multiplies each row by the matrix that its number chooses is one operator.

Before, as mixtures of experts are decomposed (`grouped-mm`)::

    %w = et.get_weight @gate_up : tensor<4x64x256xf32>
    %y = control.scan over (%r = %x, %n = %numbers) : (), (tensor<6x64xf32>, tensor<6xi64>) -> (tensor<6x256xf32>) {
      %m = edge.aten.index_select.default(%w, dim = 0, %n) : ...
      %p = edge.aten.mm.default(%r, %m) : ...
      control.yield %p : tensor<256xf32>
    }

After, with the rows of all matrices below each other::

    %w = et.get_weight @gate_up_rows : tensor<1024x64xf32>
    %y = edge.etir.expert_linear.default(%x, %w, %numbers, columns = 256) : ...

So the matrices of experts are the weight of a layer, and quantized like others: a scale for each row of each expert, or
blocks in it. `lower-expert-layers` makes calls of kernels or a loop of it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.control.ops import ScanOp, yielded
from etir.dialects.dtypes import f32, i64
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.dialects.experts import declare, expert_op
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

ROWS = "_rows"
"""What the names of such weights end with."""
_VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "view_copy.default",
        "unsqueeze_copy.default",
        "squeeze_copy.default",
        "squeeze_copy.dim",
        "squeeze_copy.dims",
    )
)
_PRODUCTS = {"aten.mm.default": "mat2", "aten.bmm.default": "mat2"}


@register_pass
@dataclass(frozen=True)
class ExpertsToLayersPass(Pass):
    """Write loops over rows that choose a matrix each as ``etir.expert_linear``."""

    name = "experts-to-layers"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Matrices whose bytes are not loaded stay as they are."""
        pattern = _Loop(ConstantStore(module))
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
        if pattern.made:
            declare(module)


class _Loop(Pattern):
    """``scan(x, numbers)`` with ``x[i] @ matrices[numbers[i]]`` in it."""

    name = "loop-of-experts"

    def __init__(self, store: ConstantStore):
        self.store = store
        self.made = False

    def rewrite(self, op: ScanOp, rewriter: PatternRewriter) -> None:
        matrices = _matrices(op)
        if matrices is None or not self.store.is_constant(matrices):
            return rewriter.notify_match_failure("no loop over rows that choose a constant matrix each")
        type = tensor_of(matrices)
        shape = type.get_shape()
        columns = shape[2]
        if 0 in shape or type.element_type != f32:
            return rewriter.notify_match_failure("matrices of another dtype than float32, or none")
        # The like of the constant is an operator: a loop has no name of its own.
        weight = matrices_as_rows(self.store, matrices, op)
        arguments = {"input": op.inputs[0], "weight": weight.results[0], "experts": op.inputs[1], "columns": columns}
        made = expert_op().make(arguments, [op.outputs[0].type], location=op.location)
        rewriter.insert_op(weight)
        rewriter.insert_op(made)
        rewriter.replace_op(op, list(made.results))
        self.made = True
        return None


def matrices_as_rows(store: ConstantStore, matrices: SSAValue, like: Operation) -> Operation:
    """A constant ``[count * columns, depth]``, placed as an operator is: of float32 ``[count, depth, columns]`` the
    columns of each matrix as rows, below each other.
    """
    type = tensor_of(matrices)
    count, depth, columns = shape = type.get_shape()
    order = order_of(type)
    stored = np.frombuffer(store.data(matrices), np.float32).reshape([shape[d] for d in order])
    rows = stored.transpose(np.argsort(order)).swapaxes(1, 2).reshape(count * columns, depth)
    owner = matrices.owner
    hint = owner.symbol.root_reference.data if isinstance(owner, GetWeightOp) else "experts"
    return store.make(np.ascontiguousarray(rows).tobytes(), tensor_type(f32, rows.shape), like, f"{hint}{ROWS}")


def _matrices(op: ScanOp) -> SSAValue | None:
    """The matrices ``[experts, depth, columns]`` that a loop chooses from; None where it does something else."""
    if op.inits or len(op.inputs) != 2 or len(op.outputs) != 1:
        return None
    row, number = op.body.block.args
    types = [v.type for v in (*op.inputs, op.outputs[0])]
    if not all(isinstance(type, TensorType) and is_contiguous(type) for type in types):
        return None
    rows, numbers, result = (cast("TensorType", type) for type in types)
    if numbers.element_type != i64 or numbers.get_num_dims() != 1:
        return None
    if any(type.element_type != f32 or type.get_num_dims() != 2 for type in (rows, result)):
        return None
    product = _behind(yielded(op.body)[0]).owner
    if not isinstance(product, EdgeOp) or product.op_name not in _PRODUCTS:
        return None
    right = cast(SSAValue, product.arg("mat2"))
    if _behind(cast(SSAValue, product.arg("self"))) is not row:
        return None
    select = _behind(right).owner
    if not isinstance(select, EdgeOp) or select.op_name != "aten.index_select.default":
        return None
    matrices = cast(SSAValue, select.arg("self"))
    shape = tensor_of(matrices).get_shape()
    if (
        len(shape) != 3
        or select.arg("dim") not in (0, -3)
        or _behind(cast(SSAValue, select.arg("index"))) is not number
    ):
        return None
    if not is_contiguous(tensor_of(right)) or dims_of(tensor_of(right))[-2:] != shape[1:]:
        return None
    # A row that the loop reads as several is no row of a layer.
    if (dims_of(rows)[1], dims_of(result)[1]) != tuple(shape[1:]):
        return None
    return matrices


def _behind(value: SSAValue) -> SSAValue:
    """What a value is a view of that has the same elements in their order."""
    while isinstance(value.owner, EdgeOp) and value.owner.op_name in _VIEWS:
        value = value.owner.operands[0]
    return value
