"""`products-to-layers`: a product with a constant matrix is a linear layer.

Before::

    %w = et.get_weight @w : tensor<16x32xf32>
    %y = edge.aten.addmm.default(%b, %x, %w) : ...

After::

    %w = et.get_weight @w_rows : tensor<32x16xf32>
    %y = edge.aten.linear.default(%x, %w, %b) : ...

That is how `addmm`, `mm` and a `bmm` of one matrix are quantized like the layers that they are: what is known of a
layer's weight (a scale for each row of it, blocks in a row) holds for them as well. Only programs that are quantized
need it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.context import EtContext
from etir.dialects.dtypes import f32
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import order_of, tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

MATRICES = {"aten.mm.default": ("self", "mat2"), "aten.addmm.default": ("mat1", "mat2")}
MATRICES["aten.bmm.default"] = ("self", "mat2")
"""The operators, and the arguments that are the input and the matrix."""


@register_pass
@dataclass(frozen=True)
class ProductsToLayersPass(Pass):
    """Write products with constant matrices of float32 as ``linear``."""

    name = "products-to-layers"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """A matrix whose bytes are not loaded stays as it is."""
        store = ConstantStore(module)
        for method in methods(module):
            for op in list(method.walk()):
                if isinstance(op, EdgeOp) and op.op_name in MATRICES:
                    _layer(op, store)


def _layer(op: EdgeOp, store: ConstantStore) -> None:
    value, matrix = (op.arg(name) for name in MATRICES[op.op_name])
    if not isinstance(value, SSAValue) or not isinstance(matrix, SSAValue) or not store.is_constant(matrix):
        return
    type = tensor_of(matrix)
    shape = type.get_shape()
    if type.element_type != f32 or tensor_of(value).element_type != f32 or (len(shape) == 3 and shape[0] != 1):
        return
    bias = op.args().get("self") if op.op_name == "aten.addmm.default" else None
    if bias is not None and (not _is_plain(op) or not isinstance(bias, SSAValue) or not _adds(bias, shape[-1], store)):
        return
    stored = np.frombuffer(store.data(matrix), np.float32).reshape([shape[d] for d in order_of(type)])
    rows = stored.transpose(np.argsort(order_of(type))).reshape(shape[-2:]).T
    hint = matrix.owner.symbol.root_reference.data if isinstance(matrix.owner, GetWeightOp) else "matrix"
    weight = store.make(np.ascontiguousarray(rows).tobytes(), tensor_type(f32, rows.shape), op, f"{hint}_rows")
    arguments = {"input": value, "weight": weight.results[0], "bias": bias}
    layer = edge.aten.linear.default.make(arguments, [op.results[0].type], location=op.location)
    layer.results[0].name_hint = op.results[0].name_hint
    Rewriter.insert_op(weight, InsertPoint.before(op))
    Rewriter.replace_op(op, layer)
    owner = matrix.owner
    if isinstance(owner, Operation) and all(result.first_use is None for result in owner.results):
        Rewriter.erase_op(owner)


def _is_plain(op: EdgeOp) -> bool:
    return op.args().get("alpha", 1) == 1 and op.args().get("beta", 1) == 1


def _adds(bias: SSAValue, columns: int, store: ConstantStore) -> bool:
    return store.is_constant(bias) and tensor_of(bias).get_shape() == (columns,)
