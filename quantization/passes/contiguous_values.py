"""`contiguous-values`: what a program computes with is in the contiguous order, whatever its inputs and outputs are in.

Before, of a program that was exported with an image whose channels lie side by side::

    func.func @forward(%x: tensor<1x3x8x8xf32, #et.layout<order = [0, 2, 3, 1]>>) -> tensor<1x16x6x6xf32, #et...> {
      %w = et.get_weight @w : tensor<16x3x3x3xf32>
      %0 = edge.dim_order_ops._to_dim_order_copy.default(%w, dim_order = [0, 2, 3, 1]) : ...
      %y = edge.aten.convolution.default(%x, %0, ...) : (tensor<1x3x8x8xf32, #et...>, ...) -> tensor<1x16...>

After::

      %0 = edge.dim_order_ops._to_dim_order_copy.default(%x, dim_order = [0, 1, 2, 3]) : ... -> tensor<1x3x8x8xf32>
      %1 = edge.aten.convolution.default(%0, %w, ...) : ... -> tensor<1x16x6x6xf32>
      %y = edge.dim_order_ops._to_dim_order_copy.default(%1, dim_order = [0, 2, 3, 1]) : ...

No number depends on its order. Weights are weights then, not copies of them, so that layers are quantized; integer
kernels and delegates bring images into the order that they compute in themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_contiguous, order_of, tensor_type
from etir.dialects.et.origin import handed_on
from etir.dialects.et.program import GetWeightOp, ReadStateOp, UpdateInputOp
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass

COPY = "dim_order_ops._to_dim_order_copy.default"
_WITH_ORDER = frozenset({COPY, "dim_order_ops._clone_dim_order.default", "dim_order_ops._empty_dim_order.default"})
"""Operators that say the order of their result."""


@register_pass
@dataclass(frozen=True)
class ContiguousValuesPass(Pass):
    """Bring what is computed into the contiguous order. Programs that are in it stay as they are."""

    name = "contiguous-values"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method that has a value in another order."""
        for method in methods(module):
            if any(_is_other(value.type) for value in _values(method)):
                _rewrite(method)


def _values(method: FuncOp) -> list[SSAValue]:
    arguments = [argument for block in _blocks(method) for argument in block.args]
    return [*arguments, *(result for op in method.walk() for result in op.results)]


def _blocks(method: FuncOp) -> list[Block]:
    return [block for op in method.walk() for region in op.regions for block in region.blocks]


def _is_other(type: Attribute) -> bool:
    return isinstance(type, TensorType) and not is_contiguous(type)


def _plain(type: Attribute) -> Attribute:
    return tensor_type(type.element_type, dims_of(type)) if isinstance(type, TensorType) else type


def _rewrite(method: FuncOp) -> None:
    entry = method.body.block
    last = entry.last_op
    wanted = [value.type for value in last.operands] if isinstance(last, ReturnOp) else []
    given = list(entry.args)  # those of the entry block keep their types: they are the caller's
    first = entry.first_op
    for block in _blocks(method):
        for argument in block.args:
            if block is not entry and _is_other(argument.type):
                Rewriter.replace_value_with_new_type(argument, _plain(argument.type))
    for op in list(method.walk()):
        if isinstance(op, GetWeightOp | ReadStateOp):
            _read_in_order(op.result, InsertPoint.after(op), op)
            continue
        for result in op.results:
            if _is_other(result.type):
                Rewriter.replace_value_with_new_type(result, _plain(result.type))
        if isinstance(op, EdgeOp) and op.op_name in _WITH_ORDER:
            _in_the_order(op)
    if first is not None:
        for argument in given:
            _read_in_order(argument, InsertPoint.before(entry.first_op or first), last or first)
    for op in list(method.walk()):
        if isinstance(op, UpdateInputOp) and isinstance(op.input.type, TensorType):
            op.operands[1] = _in_order(op.value, op.input.type, op)
    if last is not None:
        for index, type in enumerate(wanted):
            last.operands[index] = _in_order(last.operands[index], type, last)


def _read_in_order(value: SSAValue, at: InsertPoint, place: Operation) -> None:
    """Who reads a value that has to stay in another order reads a copy of it; what is written to, it remains."""
    if not _is_other(value.type):
        return
    plain = _plain(value.type)
    assert isinstance(plain, TensorType)
    uses = list(value.uses)
    copy = edge.dim_order_ops._to_dim_order_copy.default.make(
        {"self": value, "dim_order": list(order_of(plain))}, [plain], location=handed_on(place.location)
    )
    for use in uses:
        if not (isinstance(use.operation, UpdateInputOp) and use.index == 0):
            use.operation.operands[use.index] = copy.results[0]
    Rewriter.insert_op(copy, at)


def _in_order(value: SSAValue, type: Attribute, op: Operation) -> SSAValue:
    """``value`` as ``type`` before ``op``."""
    if value.type == type or not isinstance(type, TensorType):
        return value
    copy = edge.dim_order_ops._to_dim_order_copy.default.make(
        {"self": value, "dim_order": list(order_of(type))}, [type], location=handed_on(op.location)
    )
    Rewriter.insert_op(copy, InsertPoint.before(op))
    return copy.results[0]


def _in_the_order(op: EdgeOp) -> None:
    """An operator that says the order of its result says the contiguous one; a copy that does nothing goes."""
    type = op.results[0].type
    if op.op_name == COPY and op.operands[0].type == type:
        Rewriter.replace_op(op, [], [op.operands[0]])
        return
    assert isinstance(type, TensorType)
    Rewriter.replace_op(op, op.with_args(dim_order=list(order_of(type))))
