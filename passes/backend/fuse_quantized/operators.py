"""Operators between dequantize and quantize operators, and which call of a kernel each becomes."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from etir.backends.api.integer_kernels import CONDITIONS
from etir.backends.api.patterns import Match
from etir.backends.api.quantization import QuantizedRow
from etir.diagnostics import EtirError
from etir.dialects.dtypes import i8
from etir.dialects.edge.base import PREFIX, EdgeOp
from etir.dialects.et.layout import dims_of, order_of, tensor_of, tensor_type
from etir.dialects.quantized import DEQUANTIZE, QUANTIZE
from etir.interpret.numpy_ops import lookup
from etir.passes.backend.fuse_quantized.calls import CALLS, Call, Made
from etir.passes.backend.fuse_quantized.kernels import TABLES, Kernels
from etir.passes.backend.fuse_quantized.stored import (
    IMAGE_ORDER,
    PAD,
    Encoding,
    Stored,
    array_of,
    clamp_bounds,
    encoding_of,
    in_order,
    is_clamp,
    is_image,
    padded,
)
from etir.passes.infra.rewriting import Pattern, PatternRewriter

CONVERSIONS = {
    QUANTIZE: "cortex_m::quantize_per_tensor.out",
    DEQUANTIZE: "cortex_m::dequantize_per_tensor.out",
}
"""Operators between float32 and int8 with the kernels of the library for Cortex-M."""


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
        if root.op_name == PAD and len(root.operands) == 1:
            return self._padded(root, encoding, rewriter)
        rows = self.kernels.rows.get(root.op_name)
        if rows is None:
            return f"no kernel of the target computes {root.op_name} on int8"
        refusals: list[tuple[int, str]] = []
        for kernel, row in rows:
            refusal = _refusal(kernel, root)
            if refusal is None:
                made = self._call(kernel, row, root, encoding, op, rewriter)
                if not isinstance(made, str):
                    return made
                refusal = len(CONDITIONS[kernel]), made
            refusals.append(refusal)
        # That of the kernel which nearly computes it; of two, the more general one.
        return f"{root.op_name}: {max(reversed(refusals), key=lambda refusal: refusal[0])[1]}"

    def _call(
        self, kernel: str, row: QuantizedRow, root: EdgeOp, out: Encoding, op: EdgeOp, rewriter: PatternRewriter
    ) -> Made:
        if kernel in TABLES:
            return self._looked_up(root, out, rewriter)
        given: list[Stored] = []
        for name in row.activations:
            found = self.kernels.integers.of(root.arg(name), rewriter)
            if found is None:
                return f"'{name}' is not made of int8"
            given.append(found)
        return CALLS[kernel](Call(self.kernels, kernel, root, op, rewriter), given, out)

    def _requantized(self, given: Stored, out: Encoding, rewriter: PatternRewriter) -> Made:
        """Integers of one encoding as those of another."""
        if given.encoding == out:
            return given.value
        if not self.kernels.has_tables:
            return "the target has no kernel for tables"
        return self.kernels.table(given.value, out.quantized(given.encoding.table()), rewriter)

    def _looked_up(self, root: EdgeOp, out: Encoding, rewriter: PatternRewriter) -> Made:
        """Functions of one number, one after the other, are one table."""
        functions: list[EdgeOp] = []
        value: Any = root.results[0]
        given = None
        while given is None:
            inner = value.owner if isinstance(value, SSAValue) else None
            if not isinstance(inner, EdgeOp) or not self._is_function(inner):
                return "its operand is not made of int8"
            if functions and not value.has_one_use():
                return "its operand is not made of int8"
            functions.append(inner)
            value = inner.operands[0]
            given = self.kernels.integers.of(value, rewriter)
        numbers = given.encoding.table()
        for function in reversed(functions):
            meaning = lookup(function.op_name)
            if meaning is None:
                return f"the numbers of {function.op_name} are not known"
            others: dict[str, Any] = {n: v for n, v in function.args().items() if v is not function.operands[0]}
            for name, other in others.items():
                if isinstance(other, SSAValue):
                    number = array_of(other, self.kernels.store)
                    if number is None or number.size != 1:
                        return f"{function.op_name} has another operand"
                    others[name] = number
            try:
                with np.errstate(all="ignore"):
                    numbers = np.asarray(meaning(numbers, **others), np.float32)
            except EtirError as error:
                return str(error)
        return self.kernels.table(given.value, out.quantized(numbers), rewriter)

    def _is_function(self, op: EdgeOp) -> bool:
        """Whether an operator is a function of one number."""
        tables = [kernel for kernel, _ in self.kernels.rows.get(op.op_name, ()) if kernel in TABLES]
        return is_clamp(op) or any(_refusal(kernel, op) is None for kernel in tables)

    def _padded(self, root: EdgeOp, out: Encoding, rewriter: PatternRewriter) -> Made:
        """Integers in the encoding of the result, and what it makes of the number around them."""
        given = self.kernels.integers.of(root.operands[0], rewriter)
        if given is None:
            return "aten.constant_pad_nd.default: its operand is not made of int8"
        made = self._requantized(given, out, rewriter)
        return made if isinstance(made, str) else padded(root, made, out.integer(float(root.arg("value"))), rewriter)

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


def _refusal(kernel: str, root: EdgeOp) -> tuple[int, str] | None:
    """How many conditions of a kernel an operator meets, and why not the next; None where the kernel computes it."""
    match = Match(root, (root,), {})
    failures = (c.failure(match) for c in CONDITIONS[kernel])
    return next(((held, reason) for held, reason in enumerate(failures) if reason is not None), None)


class DeviceConversion(Pattern):
    """``quantize`` and ``dequantize`` by one scale are the kernels of the library for Cortex-M."""

    name = "conversion-on-a-device"
    roots = tuple(PREFIX + name for name in CONVERSIONS)

    def __init__(self, kernels: Kernels):
        self.kernels = kernels

    def rewrite(self, op: EdgeOp, rewriter: PatternRewriter) -> None:
        kernel = CONVERSIONS[op.op_name]
        stored = op.results[0] if op.op_name == QUANTIZE else op.operands[0]
        if not self.kernels.has(kernel) or encoding_of(op, stored) is None:
            rewriter.notify_match_failure("not int8 and float32, or the target has no such kernel")
            return
        arguments = {name: value for name, value in op.given_args().items() if name != "out_dtype"}
        made = self.kernels.make(kernel, arguments, op.results[0].type, rewriter, "converted")
        rewriter.replace_op(op, [made])
