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
from etir.dialects.quantized import QUANTIZE
from etir.interpret.numpy_ops import lookup
from etir.passes.backend.fuse_quantized.calls import CALLS, Call, Made
from etir.passes.backend.fuse_quantized.kernels import Kernels
from etir.passes.backend.fuse_quantized.stored import (
    HIGH,
    IMAGE_ORDER,
    LOW,
    Encoding,
    Stored,
    array_of,
    as_image,
    clamp_bounds,
    encoding_of,
    in_order,
    is_clamp,
    is_image,
)
from etir.passes.infra.rewriting import Pattern, PatternRewriter

LOOKUP = "etir::int8_lookup.out"


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
        if kernel == LOOKUP:
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
        if not self.kernels.has(LOOKUP):
            return "the target has no kernel for tables"
        return self._table(given, given.encoding.table(), out, rewriter)

    def _table(self, given: Stored, numbers: np.ndarray, out: Encoding, rewriter: PatternRewriter) -> SSAValue:
        """Integers of which each stands for one of ``numbers``; themselves, if the table says so."""
        table = out.quantized(numbers)
        if (table == np.arange(LOW, HIGH + 1)).all():
            return given.value
        value = as_image(given.value, rewriter) if is_image(given.value) else given.value
        type = tensor_type(i8, dims_of(tensor_of(value)), order_of(tensor_of(value)))
        return self.kernels.make(LOOKUP, {"input": value, "table": table}, type, rewriter, "lookup")

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
            others = {name: v for name, v in function.args().items() if v is not function.operands[0]}
            for name, other in others.items():
                if isinstance(other, SSAValue):
                    others[name] = array_of(other, self.kernels.store)
                    if others[name] is None or others[name].size != 1:
                        return f"{function.op_name} has another operand"
            try:
                with np.errstate(all="ignore"):
                    numbers = np.asarray(meaning(numbers, **others), np.float32)
            except EtirError as error:
                return str(error)
        return self._table(given, numbers, out, rewriter)

    def _is_function(self, op: EdgeOp) -> bool:
        """Whether an operator is a function of one number."""
        tables = any(kernel == LOOKUP for kernel, _ in self.kernels.rows.get(op.op_name, ()))
        return is_clamp(op) or (tables and _refusal(LOOKUP, op) is None)

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
