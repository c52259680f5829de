"""Arithmetic on runtime scalars that has no primitive operator at run time.

Small powers are products, ``abs`` and ``floor`` are decomposed into ``max`` and ``ceil``. A root, or any other power,
is that of a tensor with one element in double precision, which is what Python computes with.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import OpResult, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f64, i64
from etir.dialects.sym.ops import ArithmeticOp, ConstantOp, arithmetic
from etir.lowering.build.builder import Builder
from etir.lowering.decompose_aten.decomposition import OperatorPattern
from etir.passes.infra.rewriting import PatternRewriter

MAX_FACTORS = 16
"""The largest exponent that becomes a product."""


class SymIntPattern(OperatorPattern):
    """``sym.sqrt``, ``sym.pow``, ``sym.floor`` and ``sym.abs`` as what the runtime has"""

    name = "symint-ops"
    roots = ("sym.sqrt", "sym.pow", "sym.floor", "sym.abs")

    def rewrite(self, op: ArithmeticOp, rewriter: PatternRewriter) -> None:
        """Replace ``op``."""
        b = Builder(rewriter)
        first, *rest = op.arguments
        match op.name:
            case "sym.abs":
                result = _number(b, "max", first, _number(b, "neg", first))
            case "sym.floor":
                result = first if first.type == i64 else _floor(b, first)
            case "sym.sqrt":
                result = _item(b, b.sqrt(_tensor(b, first)))
            case _:
                result = _power(b, first, rest[0], op)
        rewriter.replace_op(op, [result])


def _number(b: Builder, name: str, *arguments: SSAValue) -> SSAValue:
    return b.insert(arithmetic(name, *arguments)).results[0]


def _floor(b: Builder, x: SSAValue) -> SSAValue:
    return _number(b, "neg", _number(b, "ceil", _number(b, "neg", x)))


def _tensor(b: Builder, x: SSAValue) -> SSAValue:
    """A number as a tensor without dims in double precision."""
    return b(aten.full.default, [], x, dtype=f64, types=[TensorType(f64, [])])


def _item(b: Builder, x: SSAValue) -> SSAValue:
    return b(aten._local_scalar_dense.default, x, types=[f64])


def _power(b: Builder, x: SSAValue, exponent: SSAValue, op: ArithmeticOp) -> SSAValue:
    known = _constant(exponent)
    if isinstance(known, int) and 0 < known <= MAX_FACTORS:
        result = x
        for _ in range(known - 1):
            result = _number(b, "mul", result, x)
        return result
    if known is None:
        power = b(aten.pow.Tensor_Tensor, _tensor(b, x), _tensor(b, exponent))
    else:
        power = b.pow(_tensor(b, x), float(known))
    number = _item(b, power)
    return _number(b, "to_int", _number(b, "round", number)) if op.result.type == i64 else number


def _constant(x: SSAValue) -> Any:
    """The value of a constant, None for anything else."""
    if isinstance(x, OpResult) and isinstance(x.op, ConstantOp):
        return x.op.value.value.data  # type: ignore[attr-defined]
    return None
