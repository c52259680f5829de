"""`integer-products-to-layers`: products of quantized rows with weights of integers, written out, are linear layers.

Before, as torchao's ``Int8DynamicActivationInt8WeightConfig`` has it::

    %s, %z = torchao.choose_qparams_affine.default(%x, mapping_type = "SYMMETRIC", block_size = [1, 64], ...)
    %q = torchao.quantize_affine.default(%x, block_size = [1, 64], %s, %z, ...) : ... -> tensor<4x64xi8>
    %t = aten.t.default(%w) : (tensor<96x64xi8>) -> tensor<64x96xi8>
    %p = aten._int_mm.default(%q, %t) : ... -> tensor<4x96xi32>
    %1 = aten.mul.Tensor(aten.to.dtype(%p), %s)
    %y = aten.mul.Tensor(%1, %scales) : (tensor<4x96xf32>, tensor<96xf32>) -> tensor<4x96xf32>

After::

    %d = torchao.dequantize_affine.default(%q, block_size = [1, 64], %s, %z, ...) : ... -> tensor<4x64xf32>
    %m = torchao.dequantize_affine.default(%w, block_size = [1, 64], %scales, ...) : ... -> tensor<96x64xf32>
    %y = aten.linear.default(%d, %m)

That is the form of torchao's other configurations, which `fuse-quantized` makes one call of. A bias that is added to
such a layer's result becomes the layer's. It is for targets that have such kernels; elsewhere the product of integers
stays, as its weight would be float32 in the file. Both multiply the sum by the same scales, in another order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import custom_op
from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas
from etir.dialects.dtypes import f32, i8
from etir.dialects.et.layout import dims_of, tensor_of
from etir.dialects.et.program import ConstantOp, GetWeightOp
from etir.dialects.schema import parse_schema
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import Builder
from etir.lowering.decompose_aten.preserved import AFFINE_INPUT, PreservedOps
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

DEQUANTIZE_AFFINE = (
    "torchao::dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType "
    "input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=6) -> Tensor"
)
LOW, HIGH = -128, 127
_SAME = frozenset({"aten.to.dtype", "aten.reshape.default", "aten.view.default", "aten.flatten.using_ints"})
"""Operators between the parts that change no number, where the element type stays."""


@register_pass
@dataclass(frozen=True)
class IntegerProductsToLayersPass(Pass):
    """Write products of quantized rows with constants as linear layers, for a target that computes them so.

    ``target`` is whose kernels are asked, ``libraries`` those of its libraries that it does not always have. With
    ``delegates`` nothing happens: none of them has a row for such a layer, and its weight would be float32 in them.
    """

    name = "integer-products-to-layers"
    target: str = "executorch"
    delegates: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        if self.delegates or not PreservedOps(self.target, (), libraries=self.libraries).reads_integers:
            return
        pattern = _Product(ctx)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern, _Bias(pattern.made)])
        if pattern.made:
            declare_schemas(module, [DEQUANTIZE_AFFINE])


class _Product(Pattern):
    """``_int_mm(quantize_affine(x), t(w)) * scale of x * scales of w``."""

    name = "product-of-integers"

    def __init__(self, ctx: EtContext) -> None:
        self.ctx = ctx
        self.made: dict[SSAValue, None] = {}

    def rewrite(self, op: aten.mul.Tensor, rewriter: PatternRewriter) -> None:
        found = _match(op)
        if found is None:
            return
        self.ctx.declare_schema(DEQUANTIZE_AFFINE)
        b = Builder(rewriter)
        arguments = found.quantize.given_args()
        scales = b.view(found.scales, [b.sizes(found.weight)[0], 1])
        rows = [1] * (len(found.block) - 1) + [found.block[-1]]
        x = _dequantized(b, found.quantize.results[0], rows, arguments["scale"], arguments["zero_point"])
        weight = _dequantized(b, found.weight, [1, found.block[-1]], scales, None)
        layer = b(aten.linear.default, x, weight)
        self.made[layer] = None
        rewriter.replace_op(op, [b.view(layer, b.sizes(op.results[0]))])


class _Bias(Pattern):
    """``linear(x, w) + bias``, of a layer that was ``made`` here and that nothing else reads."""

    name = "bias-of-product"

    def __init__(self, made: Mapping[SSAValue, None]) -> None:
        self.made = made

    def rewrite(self, op: aten.add.Tensor, rewriter: PatternRewriter) -> None:
        for sums, bias in _factors(op):
            layer = _behind(sums)
            if layer not in self.made or not isinstance(bias.owner, (GetWeightOp, ConstantOp)) or op.alpha != 1:
                continue
            x, weight = layer.owner.operands[:2] if isinstance(layer.owner, SchemaOp) else (None, None)
            columns = dims_of(tensor_of(layer))[-1]
            plain = tensor_of(bias).element_type == f32 and dims_of(tensor_of(bias)) == (columns,)
            same = dims_of(tensor_of(op.results[0])) == dims_of(tensor_of(sums))
            if not plain or not same or not _read_once(sums, layer):
                continue
            b = Builder(rewriter)
            made = b(aten.linear.default, x, weight, bias)
            rewriter.replace_op(op, [b.view(made, b.sizes(op.results[0]))])
            return
        return rewriter.notify_match_failure("no bias of a product of integers")


def _read_once(value: SSAValue, source: SSAValue) -> bool:
    """Whether nothing else reads a value, or what it is a view of up to ``source``."""
    while value.has_one_use():
        if value is source:
            return True
        value = cast(SchemaOp, value.owner).operands[0]
    return False


@dataclass(frozen=True)
class _Found:
    """``weight`` is int8 ``[columns, depth]``, ``scales`` one for each of its rows, ``block`` that of ``quantize``."""

    quantize: SchemaOp
    block: tuple[int, ...]
    weight: SSAValue
    scales: SSAValue


def _match(op: SchemaOp) -> _Found | None:
    """The parts of a product that is multiplied by scales of its rows, then of its columns."""
    for sums, scales in _factors(op):
        inner = _behind(sums).owner
        constant = _behind(scales)
        if not _is(inner, "aten.mul.Tensor") or not isinstance(constant.owner, (GetWeightOp, ConstantOp)):
            continue
        assert isinstance(inner, SchemaOp)
        for product, scale in _factors(inner):
            found = _of_product(_behind(product), _behind(scale), constant)
            if found is None:
                continue
            rows, columns = dims_of(tensor_of(product))[0], dims_of(tensor_of(found.weight))[0]
            if (
                dims_of(tensor_of(scale)) == (rows, 1)
                and dims_of(tensor_of(op.results[0]))[-1] == columns
                and dims_of(tensor_of(scales)) in ((columns,), (1, columns))
                and dims_of(tensor_of(constant)) in ((columns,), (columns, 1))
            ):
                return found
    return None


def _factors(op: SchemaOp) -> list[tuple[SSAValue, SSAValue]]:
    """The tensors that are multiplied, in both orders; none where one of them is a number."""
    if len(op.operands) != 2:
        return []
    one, other = op.operands
    return [(one, other), (other, one)]


def _of_product(sums: SSAValue, scale: SSAValue, scales: SSAValue) -> _Found | None:
    """The parts of ``float(_int_mm(quantize_affine(x, scale), t(weight)))``."""
    cast_to_float = sums.owner
    if not isinstance(cast_to_float, SchemaOp) or not _is(cast_to_float, "aten.to.dtype"):
        return None
    product = _behind(cast_to_float.operands[0]).owner
    if not isinstance(product, SchemaOp) or not _is(product, "aten._int_mm.default"):
        return None
    quantize, transpose = _behind(product.operands[0]).owner, product.operands[1].owner
    if not isinstance(quantize, SchemaOp) or not _is(quantize, AFFINE_INPUT[1]) or not _is(transpose, "aten.t.default"):
        return None
    assert isinstance(transpose, SchemaOp)
    weight, chooser = transpose.operands[0], scale.owner
    if not isinstance(weight.owner, (GetWeightOp, ConstantOp)) or not isinstance(chooser, SchemaOp):
        return None
    x, block = quantize.operands[0], tuple(cast("tuple[int, ...]", quantize.arg("block_size")))
    # Symmetric: the zero points, which the product knows nothing of, are 0.
    if not _is(chooser, AFFINE_INPUT[0]) or chooser.arg("mapping_type") != "SYMMETRIC":
        return None
    parameters = [quantize.arg("scale"), quantize.arg("zero_point")]
    bounds = [(o.arg("quant_min"), o.arg("quant_max")) for o in (quantize, chooser)]
    types = (tensor_of(x).element_type, tensor_of(scale).element_type, tensor_of(scales).element_type)
    depth = dims_of(tensor_of(x))[-1]
    if (
        parameters != list(chooser.results[:2])
        or scale is not chooser.results[0]
        or chooser.operands[0] is not x
        or any(b != (LOW, HIGH) for b in bounds)
        or any(t != f32 for t in types)
        or tensor_of(quantize.results[0]).element_type != i8
        or tensor_of(weight).element_type != i8
        or not isinstance(depth, int)
        or block != (1,) * (len(block) - 1) + (depth,)
        or tuple(cast("tuple[int, ...]", chooser.arg("block_size"))) != block
        or dims_of(tensor_of(product.operands[0]))[-1] != depth
    ):
        return None
    return _Found(quantize, block, weight, scales)


def _dequantized(b: Builder, numbers: SSAValue, block: list[int], scale: Any, point: Any) -> SSAValue:
    type = tensor_of(numbers)
    result = TensorType(f32, type.get_shape(), type.encoding)
    operator = custom_op(parse_schema(DEQUANTIZE_AFFINE))
    return b(operator, numbers, block, scale, point, i8, LOW, HIGH, types=[result])


def _is(op: object, name: str) -> bool:
    return isinstance(op, SchemaOp) and op.SCHEMA.op_name == name


def _behind(value: SSAValue) -> SSAValue:
    """The value whose numbers these are, in the same order and of the same type."""
    while isinstance(value.owner, SchemaOp) and value.owner.SCHEMA.op_name in _SAME:
        source = value.owner.operands[0]
        if tensor_of(source).element_type != tensor_of(value).element_type:
            return value
        value = source
    return value
