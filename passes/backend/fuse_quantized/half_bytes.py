"""Constants of four bits for targets without kernels that read such: half a byte for each number in the file.

Before::

    %w = et.get_weight @w : tensor<96x32xi8>
    %y = edge.dim_order_ops._to_dim_order_copy.default(%w, dtype = f32) : ... -> tensor<96x32xf32>

After, with numbers from -8 to 7, of which the first half of a row is in the low halves of the bytes::

    %p = et.get_weight @w_halves : tensor<96x16xui8>
    %x = edge.dim_order_ops._to_dim_order_copy.default(%p, dtype = f32) : ... -> tensor<96x16xf32>
    high = floor(x / 16), low = x - 16 high
    %y = edge.aten.sub.Scalar(cat(low, high), 8)

The scales that they are multiplied with become constants of 16 bits and a cast, where those hold every one of them.
The numbers are the same. What is multiplied out in each run takes four operators more, so this is for weights, not for
small constants, and where nothing else reads the integers.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TORCH_NAME, f32, i8, ui8
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import is_contiguous, tensor_of, tensor_type
from etir.dialects.et.program import GetWeightOp
from etir.dialects.narrow import in_sixteen_bits
from etir.lowering.build.builder import Builder
from etir.passes.analysis.constants import ConstantStore
from etir.passes.backend.fuse_quantized.kernels import weight_symbol
from etir.passes.backend.fuse_quantized.stored import COPY, array_of
from etir.passes.infra.rewriting import Pattern, PatternRewriter

LEAST = 1024
"""Numbers of a constant that is worth it."""
LEAST_SCALES = 64
"""Scales that are worth a cast."""
VIEW = "aten.view_copy.default"
_SCALE, _SHIFT = "aten.mul.Tensor", "aten.sub.Tensor"


class HalfBytes(Pattern):
    """A constant of int8 in -8 to 7 that becomes float32."""

    name = "constant-of-four-bits"
    roots = (PREFIX + COPY,)

    def __init__(self, module: ModuleOp, store: ConstantStore):
        self.store = store
        self.read = _read_as_bytes(module)

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        import numpy as np

        value = op.operands[0]
        type, source = tensor_of(value), _constant(value)
        if type.element_type != i8 or tensor_of(op.results[0]).element_type != f32:
            rewriter.notify_match_failure("not int8 that becomes float32")
            return
        numbers = array_of(source, self.store) if is_contiguous(tensor_of(source)) else None
        columns = type.get_shape()[-1] if type.get_num_dims() else 0
        if numbers is None or not is_contiguous(tensor_of(op.results[0])) or numbers.size < LEAST or columns % 2:
            rewriter.notify_match_failure("no constant of many numbers in rows of an even length")
            return
        if numbers.min() < -8 or numbers.max() > 7 or weight_symbol(source) in self.read:
            rewriter.notify_match_failure("numbers of more than four bits, or something else reads them")
            return
        low, high = np.split((numbers.reshape(type.get_shape()) + np.int8(8)).astype(np.uint8), 2, axis=-1)
        packed = np.ascontiguousarray(low | high << np.uint8(4))
        hint = f"{weight_symbol(source) or 'weight'}_halves"
        constant = self.store.make(packed.tobytes(), tensor_type(ui8, packed.shape), op, hint)
        rewriter.insert_op(constant)
        b = Builder(rewriter, "edge")
        both = b.cast(constant.results[0], f32)
        upper = b.floor(b.mul(both, 0.0625))
        lower = b(aten.sub.Tensor, both, upper, alpha=16)
        product = _product(op.results[0])
        for scales in () if product is None else product.operands:
            self._narrow(scales, rewriter)
        rewriter.replace_op(op, [b.sub(b(aten.cat.default, [lower, upper], packed.ndim - 1), 8)])

    def _narrow(self, scales: SSAValue, rewriter: PatternRewriter) -> None:
        source = _constant(scales)
        if not self.store.is_constant(source) or not all(is_contiguous(tensor_of(v)) for v in (source, scales)):
            return
        array = array_of(source, self.store)
        if array is None or array.dtype.name != "float32" or array.size < LEAST_SCALES:
            return
        narrow = in_sixteen_bits(array)
        if narrow is None:
            return
        name, stored = narrow
        type = tensor_type(BY_TORCH_NAME[name].type, tensor_of(scales).get_shape())
        hint = f"{weight_symbol(source) or 'scales'}_{name}"
        constant = self.store.make(stored.tobytes(), type, cast(EdgeOp, rewriter.root), hint)
        # Where the scales are: what else reads them may come before the numbers.
        here, rewriter.insertion_point = rewriter.insertion_point, InsertPoint.after(cast(Operation, scales.owner))
        rewriter.insert_op(constant)
        narrowed = Builder(rewriter, "edge").cast(constant.results[0], f32)
        rewriter.insertion_point = here
        rewriter.replace_all_uses_with(scales, narrowed)


def _constant(value: SSAValue) -> SSAValue:
    """What a view is a view of."""
    owner = value.owner
    return owner.operands[0] if isinstance(owner, EdgeOp) and owner.op_name == VIEW else value


def _product(value: SSAValue) -> EdgeOp | None:
    """The product with scales that numbers go into, with their zero points off."""
    while (user := value.get_user_of_unique_use()) is not None and isinstance(user, EdgeOp):
        if user.op_name == _SCALE:
            return user
        if user.op_name not in (VIEW, _SHIFT):
            return None
        value = user.results[0]
    return None


def _read_as_bytes(module: ModuleOp) -> frozenset[str]:
    """The weights that something reads which does not make float32 of them."""
    found: dict[str, None] = {}
    for op in module.walk():
        if isinstance(op, GetWeightOp) and not all(_makes_float(use.operation) for use in op.results[0].uses):
            found[weight_symbol(op.results[0])] = None
    return frozenset(found)


def _makes_float(user: Operation) -> bool:
    if not isinstance(user, EdgeOp):
        return False
    if user.op_name == VIEW:
        return all(_makes_float(use.operation) for use in user.results[0].uses)
    return user.op_name == COPY and tensor_of(user.results[0]).element_type == f32
