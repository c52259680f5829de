"""Complex arithmetic as arithmetic of real and imaginary parts, where the target has no kernel for complex tensors.

Before::

    %c = aten.add.Tensor(%a, %b) : (tensor<4xcomplex<f32>>, tensor<4xf32>) -> tensor<4xcomplex<f32>>

After::

    %p = aten.view_as_real.default(%a) : tensor<4x2xf32>
    %r = aten.add.Tensor(select %p 0, %b)
    %c = aten.view_as_complex.default(stack [%r, select %p 1]) : tensor<4xcomplex<f32>>

Complex numbers are pairs of real ones in memory, so that taking a tensor as pairs, and pairs as a tensor, are views and
no instruction (`elide-views`). Only for sizes that are known: others need a kernel for the view. What only moves
elements is left alone; the kernels for that take any type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ComplexType
from xdsl.ir import Attribute, Operation, SSAValue

from etir.dialects.dtypes import BY_TORCH_NAME
from etir.dialects.et.layout import dims_of, is_static, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.builder import Builder, dims, element, is_tensor
from etir.lowering.decompose_aten.decomposition import OperatorPattern
from etir.passes.rewriting import Rewriter

Parts: TypeAlias = tuple[Any, Any]
"""The real and the imaginary part: tensors, or a number in place of the first; None for an imaginary part of zero."""
Formula: TypeAlias = Callable[[Builder, dict[str, Any], dict[str, Parts]], Parts]
"""The parts of the result from the arguments and the parts of those that are tensors or numbers."""

_PARTS: dict[Attribute, Attribute] = {
    BY_TORCH_NAME[name].type: BY_TORCH_NAME[part].type
    for name, part in (("complex32", "float16"), ("complex64", "float32"), ("complex128", "float64"))
}
"""The element type of the parts."""


def _sum(b: Builder, x: Any, y: Any, packet: str, alpha: Any) -> Any:
    """``x + alpha * y`` or ``x - alpha * y`` of tensors, a number ``y``, or None for zero."""
    if y is None:
        return x
    if alpha != 1:
        y = b.mul(y, alpha) if is_tensor(y) else y * alpha
    if x is None:
        return y if packet == "add" else b.unary("neg", y)
    return b.binary(packet, x, y)


def _product(b: Builder, x: Any, y: Any) -> Any:
    return None if x is None or y is None else b.mul(x, y)


def _sums(packet: str) -> Formula:
    def formula(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
        x, y = parts["self"], parts["other"]
        real, imaginary = (_sum(b, p, q, packet, given.get("alpha", 1)) for p, q in zip(x, y, strict=True))
        return real, imaginary

    return formula


def _times(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    x, y = parts["self"], parts["other"]
    real = _sum(b, b.mul(x[0], y[0]), _product(b, x[1], y[1]), "sub", 1)
    return real, _sum(b, _product(b, x[0], y[1]), _product(b, x[1], y[0]), "add", 1)


def _over(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    """Smith's algorithm ("Algorithm 116: Complex division", 1962): nothing overflows where the result does not."""
    x, y = parts["self"], parts["other"]
    if y[1] is None:
        return b.div(x[0], y[0]), None if x[1] is None else b.div(x[1], y[0])
    wide = b.compare("ge", b.unary("abs", y[0]), b.unary("abs", y[1]))
    large, small = b.where(wide, y[0], y[1]), b.where(wide, y[1], y[0])
    ratio = b.div(small, large)
    scale = b.add(large, b.mul(small, ratio))
    if x[1] is None:
        x = (x[0], b.mul(x[0], 0.0))
    first, second = b.where(wide, x[0], x[1]), b.where(wide, x[1], x[0])
    real = b.div(b.add(first, b.mul(second, ratio)), scale)
    imaginary = b.div(b.sub(second, b.mul(first, ratio)), scale)
    return real, b.where(wide, imaginary, b.unary("neg", imaginary))


def _negated(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    real, imaginary = parts["self"]
    return b.unary("neg", real), b.unary("neg", imaginary)


def _conjugate(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    real, imaginary = parts["self"]
    return real, b.unary("neg", imaginary)


def _magnitude(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    real, imaginary = parts["self"]
    return b("aten.hypot.default", real, imaginary, types=[real.type]), None


def _angle(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    real, imaginary = parts["self"]
    return b("aten.atan2.default", imaginary, real), None


def _direction(b: Builder, length: SSAValue, angle: SSAValue) -> Parts:
    return b.mul(length, b.unary("cos", angle)), b.mul(length, b.unary("sin", angle))


def _exponential(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    real, imaginary = parts["self"]
    return _direction(b, b.unary("exp", real), imaginary)


def _polar(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    return _direction(b, given["abs"], given["angle"])


def _complex(b: Builder, given: dict[str, Any], parts: dict[str, Parts]) -> Parts:
    return given["real"], given["imag"]


FORMULAS: dict[str, Formula] = {
    "aten.add.Tensor": _sums("add"),
    "aten.add.Scalar": _sums("add"),
    "aten.sub.Tensor": _sums("sub"),
    "aten.sub.Scalar": _sums("sub"),
    "aten.mul.Tensor": _times,
    "aten.mul.Scalar": _times,
    "aten.div.Tensor": _over,
    "aten.div.Scalar": _over,
    "aten.neg.default": _negated,
    "aten._conj_physical.default": _conjugate,
    "aten.abs.default": _magnitude,
    "aten.angle.default": _angle,
    "aten.exp.default": _exponential,
    "aten.polar.default": _polar,
    "aten.complex.default": _complex,
}
"""Operator to the parts of its result."""


class ComplexPartsPattern(OperatorPattern):
    """Real and imaginary parts in place of a complex operator that the target has no kernel for"""

    name = "complex-parts"
    roots = tuple(FORMULAS)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        """Replace ``op`` by arithmetic of parts."""
        assert isinstance(op, SchemaOp)
        given: dict[str, Any] = op.args()
        tensors = [*filter(is_tensor, given.values()), *op.results]
        complex_types = [element(v) for v in tensors if isinstance(element(v), ComplexType)]
        if not complex_types or any(isinstance(v, complex) for v in given.values()):
            return rewriter.no_match("no complex tensors alone are computed with")
        if len([v for v in given.values() if isinstance(v, SSAValue)]) + len(op.results) != len(tensors):
            return rewriter.no_match("a number is only known at run time")
        if self.kept is None or self.kept.target is None or self.kept.has_kernel(op) or self.is_kept(op, rewriter):
            return rewriter.no_match("the target has a kernel for it, or is not known")
        result = op.results[0]
        if not all(is_static(v.type) for v in tensors):  # type: ignore[arg-type]
            return rewriter.no_match("sizes are only known at run time")
        declared = element(result)
        part = _PARTS[declared if isinstance(declared, ComplexType) else complex_types[0]]
        b = Builder(rewriter)
        parts = {name: _parts(b, value, part) for name, value in given.items() if name in ("self", "other")}
        real, imaginary = FORMULAS[op.name](b, given, parts)
        if isinstance(declared, ComplexType):
            sizes = [d for d in dims_of(result.type) if isinstance(d, int)]  # type: ignore[arg-type]
            imaginary = b("aten.zeros_like.default", real) if imaginary is None else imaginary
            both = [b.expand(b.cast(p, part), sizes) for p in (real, imaginary)]
            pairs = b("aten.stack.default", both, dim=len(sizes))
            real = b("aten.view_as_complex.default", pairs, types=[result.type])
        rewriter.replace(op, [real])
        return None


def _parts(b: Builder, value: Any, part: Attribute) -> Parts:
    """The parts of a tensor in element type ``part``, or of a real number."""
    if not is_tensor(value):
        return value, None
    if not isinstance(element(value), ComplexType):
        return b.cast(value, part), None
    pairs = b("aten.view_as_real.default", value, types=[tensor_type(_PARTS[element(value)], [*dims(value), 2])])
    last = len(dims(value))
    real, imaginary = (b.cast(b("aten.select.int", pairs, dim=last, index=i), part) for i in (0, 1))
    return real, imaginary
