"""The real and the imaginary part of what operators give for complex tensors, from the parts of their arguments.

A formula gets a :class:`Call` and returns two parts; :data:`FORMULAS` is the table. An imaginary part of None is zero.
Magnitudes are kept in range as the real functions keep theirs: nothing overflows on the way to a finite result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.ir import Attribute

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import BY_TORCH_NAME, i1
from etir.dialects.et.layout import dims_of, tensor_type
from etir.dialects.schema_op import SchemaOp
from etir.lowering.build.builder import Builder, Operator, Relation, dims, element, is_tensor, rank
from etir.lowering.build.dims import wrap

Parts: TypeAlias = tuple[Any, Any]
"""The real and the imaginary part: tensors, or a number in place of the first; None for an imaginary part of zero."""


PART_OF: dict[Attribute, Attribute] = {
    BY_TORCH_NAME[name].type: BY_TORCH_NAME[part].type
    for name, part in (("complex32", "float16"), ("complex64", "float32"), ("complex128", "float64"))
}
"""The element type of the parts of a complex type."""

_COMPLEX_OF = {part: whole for whole, part in PART_OF.items()}


@dataclass(frozen=True)
class Call:
    """An operator with complex tensors: its arguments, and the parts of those that are tensors or numbers."""

    b: Builder
    op: SchemaOp
    given: dict[str, Any]
    parts: dict[str, Parts]

    def real_again(self, arguments: dict[str, Any]) -> Any:
        """The same operator with ``arguments`` in place of its own, of real tensors: its result has real elements."""
        replaced = next(v for v in arguments.values() if is_tensor(v))
        result = tensor_type(element(replaced), dims_of(self.op.results[0].type))  # type: ignore[arg-type]
        others = self.op.given_args()
        if others.get("dtype") is not None:
            others["dtype"] = element(replaced)  # parts have the type of the result's parts already
        made = type(self.op).make({**others, **arguments}, [result])
        self.b.rewriter.insert_op(made)
        return made.results[0]


Formula: TypeAlias = Callable[[Call], Parts]

NOT_TAKEN_APART = frozenset({"condition", "index"})
"""Tensors among the arguments that choose and are not computed with."""


def filled_as(b: Builder, x: Any, value: int) -> Any:
    """A tensor of the sizes and the type of ``x`` with one value everywhere."""
    return b.full([d for d in dims(x) if isinstance(d, int)], value, element(x))


def both(function: Callable[[Any], Any], x: Parts) -> Parts:
    """``function`` of either part."""
    return function(x[0]), function(x[1])


def sum_of(b: Builder, x: Any, y: Any, *, negative: bool = False, alpha: Any = 1) -> Any:
    """``x + alpha * y``, or ``x - alpha * y`` where ``negative``, of tensors, a number ``y``, or None for zero."""
    if y is None:
        return x
    if alpha != 1:
        y = b.mul(y, alpha) if is_tensor(y) else y * alpha
    if x is None:
        return b.neg(y) if negative else y
    return b.sub(x, y) if negative else b.add(x, y)


def _sums(*, negative: bool = False) -> Formula:
    def formula(call: Call) -> Parts:
        x, y = call.parts["self"], call.parts["other"]
        alpha = call.given.get("alpha", 1)
        real, imaginary = (sum_of(call.b, p, q, negative=negative, alpha=alpha) for p, q in zip(x, y, strict=True))
        return real, imaginary

    return formula


# --- moving elements, and sums of them --------------------------------------------------------------------------------


def _each(*names: str) -> Formula:
    """The operator on the real parts of the arguments ``names``, and on their imaginary parts."""

    def formula(call: Call) -> Parts:
        def of(index: int) -> Any:
            tensors = {name: call.parts[name] for name in names if call.given.get(name) is not None}
            if index and all(parts[1] is None for parts in tensors.values()):
                return None
            return call.real_again(
                {n: filled_as(call.b, p[0], 0) if p[index] is None else p[index] for n, p in tensors.items()}
            )

        return of(0), of(1)

    return formula


def _with_number(call: Call) -> Parts:
    """The operator writes a number, which has no imaginary part."""
    real, imaginary = call.parts["self"]
    return call.real_again({"self": real}), call.real_again({"self": imaginary, "value": 0})


def _same(call: Call) -> Parts:
    return call.parts["self"]


def _cast(call: Call) -> Parts:
    """To bool what is not zero; to other real types the real part."""
    b, (real, imaginary) = call.b, call.parts["self"]
    if element(call.op.results[0]) != i1:
        return real, imaginary
    first = b.compare("ne", real, 0.0)
    return (first if imaginary is None else b.logical_or(first, b.compare("ne", imaginary, 0.0))), None


def _variance(call: Call) -> Parts:
    """Of the real parts plus that of the imaginary ones."""
    real, imaginary = (call.real_again({"self": part}) for part in call.parts["self"])
    return call.b.add(real, imaginary), None


def _product_over_dim(call: Call) -> Parts:
    """Halves are multiplied with each other until one element is left."""
    b, parts = call.b, call.parts["self"]
    assert call.op.SCHEMA.name == "prod"
    if "dim" not in call.given:
        parts = both(lambda p: b.view(p, [-1]), parts)
    position = wrap(call.given.get("dim", 0), rank(parts[0]))
    size = dims(parts[0])[position]
    assert isinstance(size, int)
    rest: list[Parts] = []

    def part(start: int, end: int) -> Parts:
        return both(lambda p: b.slice(p, position, start, end), parts)

    while size > 1:
        half = size // 2
        if size % 2:
            rest.append(part(size - 1, size))
        parts, size = product_of(b, part(0, half), part(half, 2 * half)), half
    for one in rest:
        parts = product_of(b, parts, one)
    result = [d for d in dims_of(call.op.results[0].type) if isinstance(d, int)]  # type: ignore[arg-type]
    if size == 0:
        return b.full(result, 1.0, element(parts[0])), None
    return b.view(parts[0], result), b.view(parts[1], result)


# --- products ---------------------------------------------------------------------------------------------------------


def product_of(b: Builder, x: Parts, y: Parts, times: Callable[[Any, Any], Any] | None = None) -> Parts:
    """The parts of a product; ``times`` multiplies two of them (default: element by element)."""

    def multiply(p: Any, q: Any) -> Any:
        return None if p is None or q is None else times(p, q) if times else b.mul(p, q)

    real = sum_of(b, multiply(x[0], y[0]), multiply(x[1], y[1]), negative=True)
    return real, sum_of(b, multiply(x[0], y[1]), multiply(x[1], y[0]))


def _times(call: Call) -> Parts:
    return product_of(call.b, call.parts["self"], call.parts["other"])


def _matrices(call: Call) -> Parts:
    def times(x: Any, y: Any) -> Any:
        return call.real_again({"self": x, "mat2": y})

    return product_of(call.b, call.parts["self"], call.parts["mat2"], times)


def _add_product(call: Call) -> Parts:
    b, beta, alpha = call.b, call.given["beta"], call.given["alpha"]
    batch = call.op.SCHEMA.name == "baddbmm"
    x, y = (call.parts[name] for name in (("batch1", "batch2") if batch else ("mat1", "mat2")))
    products = product_of(b, x, y, b.bmm if batch else b.mm)
    if beta == 0:
        own: Parts = (None, None)
    else:
        own = both(lambda p: p if beta == 1 or p is None else b.mul(p, beta), call.parts["self"])
    scaled = both(lambda p: p if alpha == 1 else b.mul(p, alpha), products)
    return sum_of(b, scaled[0], own[0]), sum_of(b, scaled[1], own[1])


def _convolution(call: Call) -> Parts:
    biases = iter(call.parts["bias"] if call.given.get("bias") is not None else (None, None))
    bias_of = {(0, 0): next(biases), (0, 1): next(biases)}
    x, y = call.parts["input"], call.parts["weight"]

    def one(i: int, j: int) -> Any:
        return call.real_again({"input": x[i], "weight": y[j], "bias": bias_of.get((i, j))})

    real = sum_of(call.b, one(0, 0), one(1, 1), negative=True)
    return real, sum_of(call.b, one(0, 1), one(1, 0))


def quotient_of(b: Builder, x: Parts, y: Parts) -> Parts:
    """Smith's algorithm ("Algorithm 116: Complex division", 1962): nothing overflows where the result does not."""
    if y[1] is None:
        return b.div(x[0], y[0]), None if x[1] is None else b.div(x[1], y[0])
    wide = b.ge(b.abs(y[0]), b.abs(y[1]))
    large, small = b.where(wide, y[0], y[1]), b.where(wide, y[1], y[0])
    ratio = b.div(small, large)
    scale = b.add(large, b.mul(small, ratio))
    if x[1] is None:
        x = (x[0], b.mul(x[0], 0.0))
    first, second = b.where(wide, x[0], x[1]), b.where(wide, x[1], x[0])
    real = b.div(b.add(first, b.mul(second, ratio)), scale)
    imaginary = b.div(b.sub(second, b.mul(first, ratio)), scale)
    return real, b.where(wide, imaginary, b.neg(imaginary))


def _over(call: Call) -> Parts:
    return quotient_of(call.b, call.parts["self"], call.parts["other"])


def reciprocal_of(b: Builder, x: Parts) -> Parts:
    """``1 / x``."""
    return quotient_of(b, (filled_as(b, x[0], 1), None), x)


def _reciprocal(call: Call) -> Parts:
    return reciprocal_of(call.b, call.parts["self"])


# --- one tensor -------------------------------------------------------------------------------------------------------


def _negated(call: Call) -> Parts:
    real, imaginary = call.parts["self"]
    return call.b.neg(real), call.b.neg(imaginary)


def _conjugate(call: Call) -> Parts:
    real, imaginary = call.parts["self"]
    return real, call.b.neg(imaginary)


def magnitude_of(b: Builder, x: Parts) -> Any:
    """``abs(x)``."""
    return b(aten.hypot.default, *x, types=[x[0].type])


def _magnitude(call: Call) -> Parts:
    return magnitude_of(call.b, call.parts["self"]), None


def _angle(call: Call) -> Parts:
    real, imaginary = call.parts["self"]
    return call.b(aten.atan2.default, imaginary, real), None


def direction_of(b: Builder, length: Any, angle: Any) -> Parts:
    """The number of magnitude ``length`` in the direction ``angle``, in radians."""
    return b.mul(length, b.cos(angle)), b.mul(length, b.sin(angle))


def exponential_of(b: Builder, x: Parts) -> Parts:
    """``exp(x)``."""
    return direction_of(b, b.exp(x[0]), x[1])


def _exponential(call: Call) -> Parts:
    return exponential_of(call.b, call.parts["self"])


def _logarithm(call: Call) -> Parts:
    x = call.parts["self"]
    return call.b.log(magnitude_of(call.b, x)), call.b(aten.atan2.default, x[1], x[0])


def root_of(b: Builder, x: Parts) -> Parts:
    """``sqrt(x)``, without a difference of nearly equal numbers."""
    larger = b.sqrt(b.mul(b.add(magnitude_of(b, x), b.abs(x[0])), 0.5))
    is_zero = b.eq(larger, 0.0)
    smaller = b.where(is_zero, 0.0, b.div(x[1], b.mul(b.where(is_zero, 1.0, larger), 2.0)))
    is_right, is_low = b.ge(x[0], 0.0), b.lt(x[1], 0.0)
    signed = b.where(is_low, b.neg(larger), larger)
    return b.where(is_right, larger, b.abs(smaller)), b.where(is_right, smaller, signed)


def _root(call: Call) -> Parts:
    return root_of(call.b, call.parts["self"])


def _inverse_root(call: Call) -> Parts:
    return reciprocal_of(call.b, root_of(call.b, call.parts["self"]))


def _power(call: Call) -> Parts:
    """Small exponents as torch has them: by products and roots, others by magnitude and angle."""
    b, x, exponent = call.b, call.parts["self"], call.given["exponent"]
    if exponent == 0:
        return filled_as(b, x[0], 1), None
    size = abs(exponent)
    if size == 0.5:
        result = root_of(b, x)
    elif size in (1, 2, 3):
        result = x
        for _ in range(int(size) - 1):
            result = product_of(b, result, x)
    else:
        angle = b(aten.atan2.default, x[1], x[0])
        return direction_of(b, b.pow(magnitude_of(b, x), exponent), b.mul(angle, exponent))
    return reciprocal_of(b, result) if exponent < 0 else result


def _waves(real: tuple[Operator, Operator], imaginary: tuple[Operator, Operator], sign: float = 1.0) -> Formula:
    """The product of a function of the real part and one of the imaginary part, for either part of the result."""

    def formula(call: Call) -> Parts:
        b, x = call.b, call.parts["self"]
        first, second = (b.mul(b(f, x[0]), b(g, x[1])) for f, g in (real, imaginary))
        return first, second if sign == 1 else b.neg(second)

    return formula


def tangent_of(b: Builder, x: Parts) -> Parts:
    """``tanh(x)``: by the tangent of the real part alone, which does not overflow."""
    t, s, c = b.tanh(x[0]), b.sin(x[1]), b.cos(x[1])
    square = b.mul(t, t)
    scale = b.add(b.mul(c, c), b.mul(square, b.mul(s, s)))
    return b.div(t, scale), b.div(b.mul(b.mul(s, c), b.rsub(square, 1.0)), scale)


def _hyperbolic_tangent(call: Call) -> Parts:
    return tangent_of(call.b, call.parts["self"])


def _tangent(call: Call) -> Parts:
    """``-i * tanh(i * x)``."""
    real, imaginary = call.parts["self"]
    first, second = tangent_of(call.b, (call.b.neg(imaginary), real))
    return second, call.b.neg(first)


def _sigmoid(call: Call) -> Parts:
    b = call.b
    real, imaginary = exponential_of(b, both(lambda p: b.neg(p), call.parts["self"]))
    return reciprocal_of(b, (b.add(real, 1.0), imaginary))


# --- truth ------------------------------------------------------------------------------------------------------------


def _compared(relation: Relation, joined: Operator) -> Formula:
    def formula(call: Call) -> Parts:
        b, x, y = call.b, call.parts["self"], call.parts["other"]
        first = b.compare(relation, x[0], y[0])
        if x[1] is None:
            x = (x[0], filled_as(b, x[0], 0))
        return b(joined, first, b.compare(relation, x[1], 0.0 if y[1] is None else y[1])), None

    return formula


def _either(call: Call) -> Parts:
    first, second = (call.b(type(call.op), p) for p in call.parts["self"])
    return call.b.logical_or(first, second), None


# --- made of parts, and Fourier transforms ----------------------------------------------------------------------------


def _polar(call: Call) -> Parts:
    return direction_of(call.b, call.given["abs"], call.given["angle"])


def _complex(call: Call) -> Parts:
    return call.given["real"], call.given["imag"]


def spectrum_of(b: Builder, x: Any, position: int, normalization: int) -> Parts:
    """The transform of a real tensor along a dim: the half that a kernel computes, and the same mirrored."""
    size = dims(x)[position]
    assert isinstance(size, int)
    shape = [*dims(x)]
    shape[position] = size // 2 + 1
    half_type = tensor_type(_COMPLEX_OF[element(x)], shape)
    half = b(aten._fft_r2c.default, x, [position], normalization, True, types=[half_type])
    pairs = b(aten.view_as_real.default, half, types=[tensor_type(element(x), [*shape, 2])])
    real, imaginary = (b.select(pairs, len(shape), i) for i in (0, 1))
    if size < 3:
        return real, imaginary
    mirrored = [b(aten.flip.default, b.slice(p, position, 1, size - size // 2), [position]) for p in (real, imaginary)]
    mirrored[1] = b.neg(mirrored[1])
    return b.cat([real, mirrored[0]], position), b.cat([imaginary, mirrored[1]], position)


def transform_of(b: Builder, x: Parts, position: int, normalization: int, forward: bool) -> Parts:
    """The transform of a complex tensor along a dim: those of its parts, added up."""
    real, imaginary = x
    if not forward:  # the conjugate of the forward transform of the conjugate
        imaginary = None if imaginary is None else b.neg(imaginary)
    result = spectrum_of(b, real, position, normalization)
    if imaginary is not None:
        other = spectrum_of(b, imaginary, position, normalization)
        result = (b.sub(result[0], other[1]), b.add(result[1], other[0]))
    return result if forward else (result[0], b.neg(result[1]))


def _transform(call: Call) -> Parts:
    result = call.parts["self"]
    for position in call.given["dim"]:
        result = transform_of(
            call.b, result, wrap(position, rank(result[0])), call.given["normalization"],
            call.given.get("forward", True),
        )  # fmt: skip
    return result


FORMULAS: dict[Operator, Formula] = {
    aten.add.Tensor: _sums(),
    aten.add.Scalar: _sums(),
    aten.sub.Tensor: _sums(negative=True),
    aten.sub.Scalar: _sums(negative=True),
    aten.mul.Tensor: _times,
    aten.mul.Scalar: _times,
    aten.div.Tensor: _over,
    aten.div.Scalar: _over,
    aten.mm.default: _matrices,
    aten.bmm.default: _matrices,
    aten.addmm.default: _add_product,
    aten.baddbmm.default: _add_product,
    aten.convolution.default: _convolution,
    aten.sum.default: _each("self"),
    aten.sum.dim_IntList: _each("self"),
    aten.mean.default: _each("self"),
    aten.mean.dim: _each("self"),
    aten.cumsum.default: _each("self"),
    aten.prod.default: _product_over_dim,
    aten.prod.dim_int: _product_over_dim,
    aten.var.correction: _variance,
    aten.flip.default: _each("self"),
    aten.gather.default: _each("self"),
    aten.index.Tensor: _each("self"),
    aten.index_put.default: _each("self", "values"),
    aten.scatter.src: _each("self", "src"),
    aten.scatter_add.default: _each("self", "src"),
    aten.slice_scatter.default: _each("self", "src"),
    aten.select_scatter.default: _each("self", "src"),
    aten.diagonal_scatter.default: _each("self", "src"),
    aten.where.self: _each("self", "other"),
    aten.constant_pad_nd.default: _with_number,
    aten.scatter.value: _with_number,
    aten._to_copy.default: _cast,
    aten.neg.default: _negated,
    aten._conj_physical.default: _conjugate,
    aten.abs.default: _magnitude,
    aten.angle.default: _angle,
    aten.reciprocal.default: _reciprocal,
    aten.exp.default: _exponential,
    aten.log.default: _logarithm,
    aten.sqrt.default: _root,
    aten.rsqrt.default: _inverse_root,
    aten.pow.Tensor_Scalar: _power,
    aten.sin.default: _waves((aten.sin.default, aten.cosh.default), (aten.cos.default, aten.sinh.default)),
    aten.cos.default: _waves((aten.cos.default, aten.cosh.default), (aten.sin.default, aten.sinh.default), -1.0),
    aten.sinh.default: _waves((aten.sinh.default, aten.cos.default), (aten.cosh.default, aten.sin.default)),
    aten.cosh.default: _waves((aten.cosh.default, aten.cos.default), (aten.sinh.default, aten.sin.default)),
    aten.tanh.default: _hyperbolic_tangent,
    aten.tan.default: _tangent,
    aten.sigmoid.default: _sigmoid,
    aten.eq.Tensor: _compared("eq", aten.logical_and.default),
    aten.eq.Scalar: _compared("eq", aten.logical_and.default),
    aten.ne.Tensor: _compared("ne", aten.logical_or.default),
    aten.ne.Scalar: _compared("ne", aten.logical_or.default),
    aten.isnan.default: _either,
    aten.isinf.default: _either,
    aten.polar.default: _polar,
    aten.complex.default: _complex,
    aten._fft_c2c.default: _transform,
    aten._fft_r2c.default: _transform,
}
"""Operator to the parts of its result."""
