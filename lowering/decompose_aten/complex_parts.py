"""Complex arithmetic as arithmetic of real and imaginary parts, where the target has no kernel for complex tensors.

Before::

    %c = aten.add.Tensor(%a, %b) : (tensor<4xcomplex<f32>>, tensor<4xf32>) -> tensor<4xcomplex<f32>>

After::

    %p = aten.view_as_real.default(%a) : tensor<4x2xf32>
    %r = aten.add.Tensor(select %p 0, %b)
    %c = aten.view_as_complex.default(stack [%r, select %p 1]) : tensor<4xcomplex<f32>>

Complex numbers are pairs of real ones in memory, so that taking a tensor as pairs, and pairs as a tensor, are views and
no instruction (`elide-views`). Only for sizes that are known: others need a kernel for the view.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import i1
from etir.dialects.et.layout import dims_of, is_static, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import Builder, dims, element, is_tensor
from etir.lowering.decompose_aten.complex_formulas import FORMULAS, NOT_TAKEN_APART, PART_OF, Call, Parts, filled_as
from etir.lowering.decompose_aten.decomposition import OperatorPattern
from etir.passes.infra.rewriting import PatternRewriter


class ComplexPartsPattern(OperatorPattern):
    """Real and imaginary parts in place of a complex operator that the target has no kernel for"""

    name = "complex-parts"
    roots = tuple(operator.name for operator in FORMULAS)

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
        """Replace ``op`` by arithmetic of parts."""
        if not any(_is_complex(v) for v in (*op.operands, *op.results)):
            return rewriter.notify_match_failure("it has no complex tensors")
        given: dict[str, Any] = op.args()
        tensors = [*filter(is_tensor, given.values()), *op.results]
        if any(isinstance(v, complex) for v in given.values()):
            return rewriter.notify_match_failure("it has a complex number")
        if len([v for v in given.values() if isinstance(v, SSAValue)]) + len(op.results) != len(tensors):
            return rewriter.notify_match_failure("an argument is a runtime scalar")
        preserved = self.preserved
        if preserved is None or preserved.target is None or preserved.has_kernel(op) or self.is_preserved(op, rewriter):
            return rewriter.notify_match_failure("the target has a kernel for it, or is not known")
        result = op.results[0]
        if not all(is_static(v.type) for v in tensors):  # type: ignore[arg-type]
            return rewriter.notify_match_failure("sizes are dynamic")
        declared = element(result)
        part = PART_OF[declared if _is_complex(result) else next(element(v) for v in op.operands if _is_complex(v))]
        b = Builder(rewriter)
        parts = {
            name: _parts(b, value, part)
            for name, value in given.items()
            if name not in NOT_TAKEN_APART and (is_tensor(value) or isinstance(value, (int, float)))
        }
        real, imaginary = FORMULAS[type(op)](Call(b, op, given, parts))
        if _is_complex(result):
            sizes = [d for d in dims_of(result.type) if isinstance(d, int)]  # type: ignore[arg-type]
            imaginary = filled_as(b, real, 0) if imaginary is None else imaginary
            both = [b.expand(b.cast(p, part), sizes) for p in (real, imaginary)]
            pairs = b(aten.stack.default, both, dim=len(sizes))
            real = b(aten.view_as_complex.default, pairs, types=[result.type])
        elif declared != i1:
            real = b.cast(real, declared)
        rewriter.replace_op(op, [real])
        return None


def _is_complex(value: SSAValue) -> bool:
    return is_tensor(value) and isinstance(element(value), ComplexType)


def _parts(b: Builder, value: Any, part: Attribute) -> Parts:
    """The parts of a tensor in element type ``part``, or of a real number."""
    if not is_tensor(value):
        return value, None
    if not _is_complex(value):
        return b.cast(value, part), None
    pairs = b(aten.view_as_real.default, value, types=[tensor_type(PART_OF[element(value)], [*dims(value), 2])])
    last = len(dims(value))
    real, imaginary = (b.cast(b(aten.select.int, pairs, dim=last, index=i), part) for i in (0, 1))
    return real, imaginary
