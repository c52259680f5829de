"""What XNNPACK can claim of quantized graphs: patterns around dequantize operators of constants and of activations."""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue

from etir.backends.api.conditions import dtypes, is_constant, not_empty
from etir.backends.api.patterns import Condition, Match, Node, Row, condition, op
from etir.backends.xnnpack.legalize.quantized import BLOCK_MULTIPLE
from etir.backends.xnnpack.scales import DEQUANTIZE, PER_CHANNEL, PER_GROUP, QUANTIZE, bytes_of
from etir.backends.xnnpack.support import bounded, convolves, few_dims, rescales
from etir.dialects.dtypes import BY_TORCH_NAME
from etir.dialects.schema_op import SchemaOp

_PREFIX = "quantized_decomposed."
_WEIGHTS = (PER_CHANNEL, DEQUANTIZE)
_CHOOSE = tuple(
    f"{_PREFIX}{name}"
    for name in (
        "choose_qparams.tensor",
        "choose_qparams_symmetric.tensor",
        "choose_qparams_per_token_asymmetric.default",
    )
)


@condition("int8 numbers from -128 to 127")
def whole_int8(match: Match) -> str | None:
    return _integers(match.op, (-128,), (127,))


def _integers(operation: SchemaOp, lowest: tuple[int, ...], highest: tuple[int, ...]) -> str | None:
    low, high = operation.arg("quant_min"), operation.arg("quant_max")
    if operation.arg("dtype") != BY_TORCH_NAME["int8"].type:
        return f"integers of type {operation.arg('dtype')}, takes int8"
    return None if low in lowest and high in highest else f"integers from {low} to {high}"


@condition("a constant weight of int8 or 4-bit integers")
def integer_weight(match: Match) -> str | None:
    weight = match["weight"]
    for name in ("input", "scales", "zero_points"):
        value = weight.args().get(name)
        if isinstance(value, SSAValue) and not is_constant(value):
            return f"'{name}' of the weight is computed"
    low, high = weight.arg("quant_min"), weight.arg("quant_max")
    if (low, high) == (-8, 7) and weight.SCHEMA.op_name in (PER_CHANNEL, PER_GROUP):
        return _blocks(weight) if weight.SCHEMA.op_name == PER_GROUP else None
    if weight.SCHEMA.op_name == PER_GROUP:
        return f"groups of integers from {low} to {high}, takes such of 4 bits"
    return _integers(weight, (-128, -127), (127,))


def _blocks(weight: SchemaOp) -> str | None:
    shape = cast(SSAValue, weight.arg("input")).type.get_shape()  # type: ignore[attr-defined]
    size = cast(int, weight.arg("group_size"))
    if len(shape) != 2 or size < 1 or shape[1] % size:
        return f"groups of {size} in {list(shape)}"
    return None if size == shape[1] or size % BLOCK_MULTIPLE == 0 else f"groups of {size} numbers"


@condition("a constant bias")
def constant_bias(match: Match) -> str | None:
    bias = match.arg("bias")
    return None if bias is None or is_constant(bias) else "'bias' is computed, not a weight"


@condition("scales by the first dim of the weight, zero points of 0")
def by_output_channel(match: Match) -> str | None:
    weight = match["weight"]
    if weight.SCHEMA.op_name == PER_GROUP:
        return None
    rank = len(cast(SSAValue, weight.arg("input")).type.get_shape())  # type: ignore[attr-defined]
    axis = weight.arg("axis") % rank
    return None if axis == 0 else f"scales by dim {axis} of the weight"


@condition("an ordinary 2-D convolution")
def plain_convolution(match: Match) -> str | None:
    shape = cast(SSAValue, match.arg("weight")).type.get_shape()  # type: ignore[attr-defined]
    if match.arg("transposed") or len(shape) != 4:
        return "transposed, or not 2-D"
    if shape[1] == 1:
        return "depthwise"
    low, high = match["weight"].arg("quant_min"), match["weight"].arg("quant_max")
    return None if (low, high) != (-8, 7) else "a filter of 4-bit integers"


@condition("zero points of 0")
def no_zero_points(match: Match) -> str | None:
    weight = match["weight"].args()
    value = weight.get("zero_points", weight.get("zero_point"))
    if isinstance(value, SSAValue):
        data = bytes_of(value)
        return None if data is not None and not any(data) else "the weight has zero points, or they are not loaded"
    return None if not value else f"the weight has the zero point {value}"


@condition("rows of int8 with one scale, or of 4-bit integers with one for each multiple of 32")
def affine_rows(match: Match) -> str | None:
    weight = match["weight"]
    for name in ("input", "scale", "zero_point"):
        value = weight.arg(name)
        if isinstance(value, SSAValue) and not is_constant(value):
            return f"'{name}' of the weight is computed"
    shape = cast(SSAValue, weight.arg("input")).type.get_shape()  # type: ignore[attr-defined]
    block, bounds_of = weight.arg("block_size"), (weight.arg("quant_min"), weight.arg("quant_max"))
    if len(shape) != 2 or len(block) != 2 or block[0] != 1 or block[1] < 1 or shape[1] % block[1]:
        return f"blocks of {list(block)} in {list(shape)}"
    if bounds_of == (-8, 7):
        whole = block[1] == shape[1]
        return None if whole or block[1] % BLOCK_MULTIPLE == 0 else f"blocks of {block[1]} elements"
    if bounds_of not in ((-128, 127), (-127, 127)):
        return f"integers from {bounds_of[0]} to {bounds_of[1]}"
    return None if block[1] == shape[1] else f"blocks of {block[1]} elements of int8"


@condition("one scale for each token, chosen at run time")
def affine_tokens(match: Match) -> str | None:
    quantize = match["quantize"]
    block = quantize.arg("block_size")
    shape = cast(SSAValue, quantize.arg("input")).type.get_shape()  # type: ignore[attr-defined]
    if any(size != 1 for size in block[:-1]) or block[-1] not in (shape[-1], -1):
        return f"one scale for each block of {list(block)} in {list(shape)}"
    low, high = quantize.arg("quant_min"), quantize.arg("quant_max")
    return None if (low, high) == (-128, 127) else f"activations from {low} to {high}"


def _affine_rows() -> tuple[Row, ...]:
    """What torchao makes of a linear layer with activations quantized at run time."""
    choose = {name: op("torchao.choose_qparams_affine.default", escaping=True) for name in ("scale", "zero_point")}
    quantize = op("torchao.quantize_affine.default", capture="quantize", escaping=True, inputs=choose)
    activation = op("torchao.dequantize_affine.default", escaping=True, inputs={"input": quantize, **choose})
    weight = op("torchao.dequantize_affine.default", capture="weight", duplicable=True)
    pattern = op("aten.linear.default", inputs={"input": activation, "weight": weight})
    conditions = (*_float_input(), affine_tokens, affine_rows, no_zero_points, constant_bias)
    weight_only = op("aten.linear.default", inputs={"weight": weight})
    alone = (*_float_input(), affine_rows, no_zero_points, constant_bias)
    return (
        Row(pattern, conditions, "linear of torchao, quantized at run time"),
        Row(weight_only, alone, "linear of torchao with an integer weight"),
    )


def _float_input(name: str = "input") -> tuple[Condition, ...]:
    return (dtypes("float32", of=(name,)), not_empty(), few_dims, bounded)


def _dynamic(operator: str, **rest: Node) -> tuple[Node, ...]:
    """The operator that uses an activation quantized at run time, per tensor or per token."""
    found: list[Node] = []
    for kind in ("per_tensor.tensor", "per_token.default"):
        names = {"per_tensor.tensor": ("scale", "zero_point"), "per_token.default": ("scales", "zero_points")}[kind]
        choose = {name: op(*_CHOOSE, escaping=True) for name in names}
        inner = op(f"{_PREFIX}quantize_{kind}", escaping=True, inputs=choose)
        outer = op(f"{_PREFIX}dequantize_{kind}", escaping=True, inputs={"input": inner, **choose})
        found.append(op(operator, inputs={"input": outer, **rest}))
    return tuple(found)


def quantized_rows() -> tuple[Row, ...]:
    """The rows for quantized tensors."""
    weight = op(*_WEIGHTS, capture="weight", duplicable=True)
    channels = op(PER_CHANNEL, capture="weight", duplicable=True)
    rows = op(PER_CHANNEL, PER_GROUP, capture="weight", duplicable=True)
    groups = op(PER_GROUP, capture="weight", duplicable=True)
    static: tuple[Condition, ...] = (*_float_input(), integer_weight, constant_bias, rescales)
    dynamic = (*static, by_output_channel, no_zero_points)
    return (
        Row(op(QUANTIZE), (*_float_input(), whole_int8)),
        Row(op(DEQUANTIZE), (not_empty(), few_dims, bounded, whole_int8)),
        Row(op("aten.linear.default", weight=weight), static, "linear with an integer weight"),
        Row(op("aten.convolution.default", weight=weight), (*static, convolves), "convolution with an integer filter"),
        Row(
            op("aten.linear.default", weight=groups), (*static, no_zero_points), "linear with groups of 4-bit integers"
        ),
        *(
            Row(pattern, dynamic, "linear, quantized at run time")
            for pattern in _dynamic("aten.linear.default", weight=rows)
        ),
        *(
            Row(pattern, (*dynamic, convolves, plain_convolution), "convolution, quantized at run time")
            for pattern in _dynamic("aten.convolution.default", weight=channels)
        ),
        *_affine_rows(),
    )
