"""Complex numbers among the arguments: a file holds none, but the two parts of one as a tensor."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from etir.dialects.aten.base import aten_op
from etir.dialects.dtypes import BY_TORCH_NAME, f32, f64
from etir.dialects.et.layout import tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import Builder, element, is_tensor
from etir.lowering.decompose_aten.decomposition import OperatorPattern
from etir.passes.infra.rewriting import PatternRewriter

_PACKETS = ("add", "sub", "mul", "div", "eq", "ne")


class ComplexNumberPattern(OperatorPattern):
    """A tensor in place of a complex number that two operands are computed with"""

    name = "complex-number"
    roots = tuple(f"aten.{packet}.{overload}" for packet in _PACKETS for overload in ("Tensor", "Scalar"))

    def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace ``op`` by the overload for tensors."""
        assert isinstance(op, SchemaOp)
        given: dict[str, Any] = op.given_args()
        number = given.get("other")
        if not isinstance(number, complex) or not is_tensor(given["self"]):
            rewriter.notify_match_failure("no complex number is among its arguments")
            return
        b = Builder(rewriter)
        cls = aten_op(f"aten.{op.SCHEMA.name}.Tensor")
        given["other"] = self._tensor(b, number, given["self"])
        rewriter.replace_op(op, cls.make(given, [r.type for r in op.results]))

    def _tensor(self, b: Builder, number: complex, other: SSAValue) -> SSAValue:
        wide = element(other) in (f64, BY_TORCH_NAME["complex128"].type)
        parts = b.constant([number.real, number.imag], f64 if wide else f32)
        type = BY_TORCH_NAME["complex128" if wide else "complex64"].type
        return b("aten.view_as_complex.default", parts, types=[tensor_type(type, [])])
