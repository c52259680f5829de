"""Complex numbers among the arguments: a file holds none, but the two parts of one as a tensor."""

from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TORCH_NAME, f32, f64
from etir.dialects.et.layout import tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import Builder, element, is_tensor
from etir.lowering.decompose_aten.decomposition import OperatorPattern
from etir.passes.infra.rewriting import PatternRewriter

_OF_TENSORS = {
    operator.name: tensors
    for tensors, scalar in (
        (aten.add.Tensor, aten.add.Scalar),
        (aten.sub.Tensor, aten.sub.Scalar),
        (aten.mul.Tensor, aten.mul.Scalar),
        (aten.div.Tensor, aten.div.Scalar),
        (aten.eq.Tensor, aten.eq.Scalar),
        (aten.ne.Tensor, aten.ne.Scalar),
    )
    for operator in (tensors, scalar)
}
"""The overload for tensors, by the name of either."""


class ComplexNumberPattern(OperatorPattern):
    """A tensor in place of a complex number that two operands are computed with"""

    name = "complex-number"
    roots = tuple(_OF_TENSORS)

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
        """Replace ``op`` by the overload for tensors."""
        given: dict[str, Any] = op.given_args()
        number = given.get("other")
        if not isinstance(number, complex) or not is_tensor(given["self"]):
            rewriter.notify_match_failure("no complex number is among its arguments")
            return
        b = Builder(rewriter)
        cls = _OF_TENSORS[op.name]
        given["other"] = self._tensor(b, number, given["self"])
        rewriter.replace_op(op, cls.make(given, [r.type for r in op.results]))

    def _tensor(self, b: Builder, number: complex, other: SSAValue) -> SSAValue:
        wide = element(other) in (f64, BY_TORCH_NAME["complex128"].type)
        parts = b.constant([number.real, number.imag], f64 if wide else f32)
        type = BY_TORCH_NAME["complex128" if wide else "complex64"].type
        return b(aten.view_as_complex.default, parts, types=[tensor_type(type, [])])
