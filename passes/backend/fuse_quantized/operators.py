"""Operators between dequantize and quantize operators, and which call of a kernel each becomes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from etir.backends.api.integer_kernels import CONDITIONS
from etir.backends.api.patterns import Match
from etir.backends.api.quantization import QuantizedRow
from etir.diagnostics import EtirError
from etir.dialects.dtypes import i8
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.quantized import QUANTIZE
from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.integer import packed
from etir.passes.backend.fuse_quantized.kernels import Kernels, weight_name
from etir.passes.backend.fuse_quantized.stored import (
    IMAGE_ORDER,
    Encoding,
    Stored,
    as_image,
    bias_of,
    clamp_bounds,
    encoding_of,
    in_order,
    is_clamp,
    is_image,
    pair,
    weight_of,
)
from etir.passes.infra.rewriting import Pattern, PatternRewriter

LOOKUP = "etir::int8_lookup.out"
ADD_BITS = 20
"""Bits of the larger factor of a sum."""

Made: TypeAlias = "SSAValue | str"
"""The integers of a result, or why there are none."""


class QuantizedOperator(Pattern):
    """``quantize(clamp(operator(dequantize(x))))``"""

    name = "operator-on-integers"
    roots = (PREFIX + QUANTIZE,)

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        made = self._made(op, rewriter)
        if isinstance(made, str):
            rewriter.notify_match_failure(made)
            return
        order = order_of(tensor_of(op.results[0]))
        rewriter.replace_op(op, [in_order(made, order, rewriter)])

    def _made(self, op: EdgeOp, rewriter: PatternRewriter) -> Made:
        encoding = encoding_of(op, op.results[0])
        if encoding is None:
            return "not float32 numbers that become int8"
        value = op.operands[0]
        bounds: list[tuple[float | None, float | None]] = []
        while is_clamp(value.owner) and value.has_one_use():
            assert isinstance(value.owner, EdgeOp)
            bounds.append(clamp_bounds(value.owner))
            value = value.owner.operands[0]
        for low, high in bounds:
            encoding = encoding.within(low, high)
        given = self.kernels.integers.of(value, rewriter)
        if given is not None:
            return self._requantized(given, encoding, rewriter)
        root = value.owner
        if not isinstance(root, EdgeOp):
            return "an input of the program"
        if not value.has_one_use():
            return f"the result of {root.op_name} has other uses"
        if root.op_name == "aten.cat.default":
            return self._joined(root, encoding, op, rewriter)
        rows = self.kernels.rows.get(root.op_name)
        if rows is None:
            return f"no kernel of the target computes {root.op_name} on int8"
        reasons: list[str] = []
        for kernel, row in rows:
            reason = _refusal(kernel, root)
            if reason is None:
                made = self._call(kernel, row, root, encoding, op, rewriter)
                if not isinstance(made, str):
                    return made
                reason = made
            reasons.append(reason)
        return f"{root.op_name}: {reasons[-1]}"

    def _call(
        self, kernel: str, row: QuantizedRow, root: EdgeOp, out: Encoding, op: EdgeOp, rewriter: PatternRewriter
    ) -> Made:
        if kernel == LOOKUP:
            return self._looked_up(root, out, rewriter)
        given: list[Stored] = []
        for name in row.activations:
            found = self.kernels.integers.of(root.arg(name), rewriter)
            if found is None:
                return f"'{name}' is not made of int8"
            given.append(found)
        return CALLS[kernel](_Call(self.kernels, kernel, root, op, rewriter), given, out)

    def _requantized(self, given: Stored, out: Encoding, rewriter: PatternRewriter) -> Made:
        """Integers of one encoding as those of another."""
        if given.encoding == out:
            return given.value
        if not self.kernels.has(LOOKUP):
            return "the target has no kernel for tables"
        return self._table(given, given.encoding.table(), out, rewriter)

    def _table(self, given: Stored, numbers: np.ndarray, out: Encoding, rewriter: PatternRewriter) -> SSAValue:
        value = as_image(given.value, rewriter) if is_image(given.value) else given.value
        type = tensor_type(i8, dims_of(tensor_of(value)), order_of(tensor_of(value)))
        return self.kernels.make(LOOKUP, {"input": value, "table": out.quantized(numbers)}, type, rewriter, "lookup")

    def _looked_up(self, root: EdgeOp, out: Encoding, rewriter: PatternRewriter) -> Made:
        """Functions of one number, one after the other, are one table."""
        functions: list[EdgeOp] = []
        value: Any = root.results[0]
        given = None
        while given is None:
            inner = value.owner if isinstance(value, SSAValue) else None
            known = isinstance(inner, EdgeOp) and (
                is_clamp(inner) or any(kernel == LOOKUP for kernel, _ in self.kernels.rows.get(inner.op_name, ()))
            )
            if not known or (functions and not value.has_one_use()):
                return "its operand is not made of int8"
            assert isinstance(inner, EdgeOp)
            functions.append(inner)
            value = inner.operands[0]
            given = self.kernels.integers.of(value, rewriter)
        numbers = given.encoding.table()
        for function in reversed(functions):
            meaning = lookup(function.op_name)
            if meaning is None:
                return f"the numbers of {function.op_name} are not known"
            others = {name: v for name, v in function.args().items() if v is not function.operands[0]}
            if any(isinstance(v, SSAValue) for v in others.values()):
                return f"{function.op_name} has another operand"
            try:
                with np.errstate(all="ignore"):
                    numbers = np.asarray(meaning(numbers, **others), np.float32)
            except EtirError as error:
                return str(error)
        return self._table(given, numbers, out, rewriter)

    def _joined(self, root: EdgeOp, out: Encoding, op: EdgeOp, rewriter: PatternRewriter) -> Made:
        """Tensors one after the other, each in the encoding of the result."""
        parts: list[Stored] = []
        for tensor in root.arg("tensors"):
            found = self.kernels.integers.of(tensor, rewriter)
            if found is None:
                return "aten.cat.default: a tensor is not made of int8"
            parts.append(found)
        images = all(is_image(part.value) for part in parts)
        order = IMAGE_ORDER if images else order_of(tensor_of(op.results[0]))
        values: list[SSAValue] = []
        for part in parts:
            made = self._requantized(part, out, rewriter)
            if isinstance(made, str):
                return made
            values.append(in_order(made, order, rewriter))
        type = tensor_type(i8, dims_of(tensor_of(root.results[0])), order)
        joined = root.with_args([type], tensors=tuple(values))
        rewriter.insert_op(joined)
        return joined.results[0]


def _refusal(kernel: str, root: EdgeOp) -> str | None:
    """Why a kernel does not compute an operator, None where it does."""
    match = Match(root, (root,), {})
    return next((reason for c in CONDITIONS[kernel] if (reason := c.failure(match)) is not None), None)


class _Call:
    """What is known of an operator when its kernel's call is made."""

    def __init__(self, kernels: Kernels, kernel: str, root: EdgeOp, op: EdgeOp, rewriter: PatternRewriter):
        self.kernels, self.kernel, self.root, self.op, self.rewriter = kernels, kernel, root, op, rewriter

    def make(self, arguments: dict[str, Any], out: Encoding, order: tuple[int, ...]) -> SSAValue:
        arguments |= {"zero_point": out.zero_point, "low": out.low, "high": out.high}
        type = tensor_type(i8, dims_of(tensor_of(self.op.results[0])), order)
        return self.kernels.make(self.kernel, arguments, type, self.rewriter, weight_name(self.root))

    def layer(self, x: Encoding, out: Encoding) -> tuple[np.ndarray, np.ndarray, np.ndarray] | str:
        """The integers of the weight, of the bias without zero points, and the factor of each channel."""
        weight = weight_of(self.root.arg("weight"), self.kernels.store)
        if isinstance(weight, str):
            return weight
        numbers, scales = weight
        bias = bias_of(self.root.arg("bias"), numbers.shape[0], self.kernels.store)
        if bias is None:
            return "the bias is no constant"
        products = x.scale * scales
        with np.errstate(all="ignore"):
            factors = (products / out.scale).astype(np.float32)
            whole = np.rint(bias / products)
        sums = (
            np.abs(numbers.astype(np.int64)).reshape(len(numbers), -1).sum(1) if numbers.size else np.zeros(len(bias))
        )
        if not np.isfinite(factors).all() or not np.isfinite(whole).all():
            return "the scale of a channel is too small or too large"
        # What the kernel adds up stays within 32 bits.
        too_large = np.abs(whole) + 255.0 * sums >= 2.0**31
        if too_large.any():
            return f"the bias of channel {int(np.argmax(too_large))} does not fit 32 bits"
        return numbers, whole.astype(np.int64), factors


def _bias(numbers: np.ndarray, bias: np.ndarray, zero_point: int) -> np.ndarray:
    """The bias of a kernel that adds up (x + 128) w."""
    sums = numbers.astype(np.int64).sum(tuple(range(1, numbers.ndim)))
    return (bias - (128 + zero_point) * sums).astype(np.int32)


def _linear(call: _Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    layer = call.layer(x.encoding, out)
    if isinstance(layer, str):
        return layer
    numbers, bias, factors = layer
    rank = tensor_of(x.value).get_num_dims()
    value = in_order(x.value, tuple(range(rank)), call.rewriter)
    constants = {"weight": packed(numbers), "bias": _bias(numbers, bias, x.encoding.zero_point), "factors": factors}
    return call.make({"input": value, **constants}, out, tuple(range(rank)))


def _window(root: EdgeOp) -> dict[str, list[int]] | None:
    """Kernel, stride, padding and dilation of a convolution in two dims; None where they are not numbers."""
    weight = root.arg("weight")
    lists = {name: pair(root.arg(name)) for name in ("stride", "padding", "dilation")}
    if not all(isinstance(n, int) for values in lists.values() for n in values):
        return None
    return {"kernel": list(tensor_of(weight).get_shape()[2:]), **lists}


def _convolution(call: _Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    window = _window(call.root)
    layer = call.layer(x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None:
        return str(layer)
    numbers, bias, factors = layer
    groups = int(call.root.arg("groups"))
    columns = numbers.transpose(0, 2, 3, 1).reshape(groups, numbers.shape[0] // groups, -1)
    constants = {
        "weight": np.stack([packed(group) for group in columns]),
        "bias": _bias(numbers, bias, x.encoding.zero_point),
        "factors": factors,
    }
    image = as_image(x.value, call.rewriter)
    arguments = {"input": image, **constants, "input_zero_point": x.encoding.zero_point, **window, "groups": groups}
    return call.make(arguments, out, IMAGE_ORDER)


def _depthwise(call: _Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    window = _window(call.root)
    layer = call.layer(x.encoding, out) if window is not None else "sizes that are computed"
    if isinstance(layer, str) or window is None:
        return str(layer)
    numbers, bias, factors = layer
    constants = {
        "weight": np.ascontiguousarray(numbers.reshape(numbers.shape[0], -1).T),
        "bias": bias.astype(np.int32),
        "factors": factors,
    }
    image = as_image(x.value, call.rewriter)
    arguments = {"input": image, **constants, "input_zero_point": x.encoding.zero_point, **window}
    return call.make(arguments, out, IMAGE_ORDER)


def _side_by_side(call: _Call, given: list[Stored]) -> tuple[list[SSAValue], tuple[int, ...]]:
    """Operands whose elements are in one order, that of images if one of them has it."""
    images = any(is_image(g.value) for g in given)
    order = IMAGE_ORDER if images else order_of(tensor_of(call.op.results[0]))
    return [in_order(g.value, order, call.rewriter) for g in given], order


def _add(call: _Call, given: list[Stored], out: Encoding) -> Made:
    a, b = given
    factors = [g.encoding.scale / out.scale for g in given]
    sign = -1 if call.root.op_name == "aten.sub.Tensor" else 1
    most = max(factors)
    shift = min(28, math.floor(ADD_BITS - math.log2(most))) if 0 < most < math.inf else 0
    if shift < 1:
        return "the scale of an operand is too large for that of the result"
    first, second = round(math.ldexp(factors[0], shift)), sign * round(math.ldexp(factors[1], shift))
    bias = -(a.encoding.zero_point * first + b.encoding.zero_point * second)
    values, order = _side_by_side(call, given)
    arguments = {"a": values[0], "b": values[1], "a_multiplier": first, "b_multiplier": second}
    return call.make({**arguments, "bias": bias, "shift": shift}, out, order)


def _mul(call: _Call, given: list[Stored], out: Encoding) -> Made:
    a, b = given
    factor = a.encoding.scale * b.encoding.scale / out.scale
    if not math.isfinite(np.float32(factor)):
        return "the scales of the operands are too large for that of the result"
    values, order = _side_by_side(call, given)
    arguments = {"a": values[0], "b": values[1], "factor": factor}
    points = {"a_zero_point": a.encoding.zero_point, "b_zero_point": b.encoding.zero_point}
    return call.make({**arguments, **points}, out, order)


def _mean(call: _Call, given: list[Stored], out: Encoding) -> Made:
    (x,) = given
    height, width = tensor_of(x.value).get_shape()[2:]
    if height * width > 2**16:
        return "a sum of more than 65536 numbers"
    value = as_image(x.value, call.rewriter) if is_image(x.value) else x.value
    rank = tensor_of(call.op.results[0]).get_num_dims()
    factor = x.encoding.scale / (height * width * out.scale)
    arguments = {"input": value, "input_zero_point": x.encoding.zero_point, "keepdim": rank == 4, "factor": factor}
    return call.make(arguments, out, tuple(range(rank)))


CALLS: dict[str, Callable[[_Call, list[Stored], Encoding], Made]] = {
    "etir::int8_linear.out": _linear,
    "etir::int8_conv2d.out": _convolution,
    "etir::int8_depthwise_conv2d.out": _depthwise,
    "etir::int8_add.out": _add,
    "etir::int8_mul.out": _mul,
    "etir::int8_mean.out": _mean,
}
"""How a call of each kernel is made of an operator."""
