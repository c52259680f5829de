"""Random numbers of other distributions from uniform and normal ones.

Sequences are those of the target's generator, not torch's: a compiled program draws different numbers from the same
distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.ir import Attribute, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import f32, f64, i64
from etir.dialects.et.layout import dims_of, tensor_type
from etir.lowering.build.builder import Builder, Operator, dims, element, rank
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.decompose_aten.decomposition import decomposition

SMALLEST = 2.0**-25
"""What takes the place of a uniform number of 0 where its logarithm is needed."""

SELU_SATURATION = -1.7580993408473766
"""What alpha dropout sets elements to, before scaling: the limit of SELU towards minus infinity."""


def _draw(b: Builder, operator: Operator, sizes: Any, type: Attribute, shape: Sequence[Any]) -> SSAValue:
    """``rand`` or ``randn``; in f32 for element types that are not floating point."""
    drawn = type if category_of(type) == FLOATING else f32
    return b(operator, sizes, dtype=drawn, types=[tensor_type(drawn, shape)])


def _draw_like(b: Builder, operator: Operator, x: SSAValue) -> SSAValue:
    return _draw(b, operator, b.sizes(x), element(x), dims(x))


def _logarithm(b: Builder, uniform: SSAValue) -> SSAValue:
    """The logarithm of uniform numbers, never of 0."""
    return b.log(b.clamp(uniform, SMALLEST))


@decomposition(aten.uniform.default)
def uniform(b: Builder, x: SSAValue, low: float, high: float, _generator: None) -> SSAValue:
    """``rand`` scaled to the range"""
    return b.add(b.mul(_draw_like(b, aten.rand.default, x), high - low), low)


@decomposition(aten.normal_functional.default)
def normal(b: Builder, x: SSAValue, mean: float, std: float, _generator: None) -> SSAValue:
    """``randn`` scaled"""
    return b.add(b.mul(_draw_like(b, aten.randn.default, x), std), mean)


@decomposition(aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor)
def normal_of_tensors(b: Builder, mean: Any, std: Any, _generator: None) -> SSAValue:
    """``randn`` times the deviation, plus the mean"""
    type = b.declared
    tensors = [v for v in (mean, std) if isinstance(v, SSAValue)]
    sizes = [b.size_for(d, tensors) for d in dims_of(type)]
    noise = _draw(b, aten.randn.default, sizes, type.element_type, dims_of(type))
    return b.add(b.mul(noise, std), mean)


@decomposition(aten.normal.float_float)
def normal_of_numbers(b: Builder, mean: float, std: float, size: Any, *_options: object) -> SSAValue:
    """``randn`` scaled"""
    type = b.declared
    return b.add(b.mul(_draw(b, aten.randn.default, size, type.element_type, dims_of(type)), std), mean)


@decomposition(aten.exponential.default)
def exponential(b: Builder, x: SSAValue, rate: float, _generator: None) -> SSAValue:
    """``-log(rand) / rate``"""
    return b.mul(_logarithm(b, _draw_like(b, aten.rand.default, x)), -1 / rate)


@decomposition(aten.geometric.default)
def geometric(b: Builder, x: SSAValue, p: float, _generator: None) -> SSAValue:
    """``ceil(log(rand) / log(1 - p))``, at least 1"""
    trials = b.ceil(b.mul(_logarithm(b, _draw_like(b, aten.rand.default, x)), 1 / math.log1p(-p)))
    return b.cast(b.clamp(trials, 1.0), element(x))


@decomposition(aten.bernoulli.p)
def bernoulli(b: Builder, x: SSAValue, p: float, _generator: None) -> SSAValue:
    """``rand < p``"""
    return b.cast(b.lt(_draw(b, aten.rand.default, b.sizes(x), f32, dims(x)), p), element(x))


# --- integers ---------------------------------------------------------------------------------------------------------


def _integers(b: Builder, low: int, high: int, sizes: Any, shape: Sequence[Any]) -> SSAValue:
    """``low`` to ``high - 1``: a product of a uniform number that rounding may lift to the next integer."""
    precise = f32 if high - low < 2**16 else f64
    scaled = b.mul(_draw(b, aten.rand.default, sizes, precise, shape), high - low)
    whole = b.cast(b.clamp(b.floor(scaled), None, high - low - 1), i64)
    return b.add(whole, low) if low else whole


@decomposition(aten.randint.default)
def randint(b: Builder, high: int, size: Any, *_options: object) -> SSAValue:
    """``floor(rand * high)``"""
    type = b.declared
    return b.cast(_integers(b, 0, high, size, dims_of(type)), type.element_type)


@decomposition(aten.randint.low)
def randint_low(b: Builder, low: int, high: int, size: Any, *_options: object) -> SSAValue:
    """``floor(rand * (high - low)) + low``"""
    type = b.declared
    return b.cast(_integers(b, low, high, size, dims_of(type)), type.element_type)


@decomposition(aten.randint_like.default)
def randint_like(b: Builder, x: SSAValue, high: int, *_options: object) -> SSAValue:
    """``floor(rand * high)``"""
    return b.cast(_integers(b, 0, high, b.sizes(x), dims(x)), b.declared.element_type)


@decomposition(aten.randint_like.low_dtype, aten.random.from_)
def randint_like_low(b: Builder, x: SSAValue, low: int, high: int | None, *_options: object) -> SSAValue | None:
    """``floor(rand * (high - low)) + low``"""
    if high is None:
        return b.notify_match_failure("there is no upper bound")
    return b.cast(_integers(b, low, high, b.sizes(x), dims(x)), b.declared.element_type)


@decomposition(aten.random.to)
def random_to(b: Builder, x: SSAValue, high: int, *_options: object) -> SSAValue:
    """``floor(rand * high)``"""
    return b.cast(_integers(b, 0, high, b.sizes(x), dims(x)), b.declared.element_type)


@decomposition(aten.randperm.default)
def randperm(b: Builder, count: int, *_options: object) -> SSAValue:
    """The order of uniform numbers; of equal ones the first comes first"""
    type = b.declared
    order = b.results(
        aten.sort.default,
        _draw(b, aten.rand.default, [count], f64, [count]),
        0,
        False,
        types=[tensor_type(f64, [count]), tensor_type(i64, [count])],
    )[1]
    return b.cast(order, type.element_type)


# --- choices ----------------------------------------------------------------------------------------------------------


@decomposition(aten.multinomial.default)
def multinomial(b: Builder, x: SSAValue, count: int, replacement: bool, _generator: None) -> SSAValue:
    """The largest of ``p / exponential``: all draws in one row without replacement, one row for each with it"""
    x = x if element(x) in (f32, f64) else b.cast(x, f32)
    if count == 1 or not replacement:
        noise = b.neg(_logarithm(b, _draw_like(b, aten.rand.default, x)))
        chances = b.div(x, noise)
        types = [tensor_type(t, [*dims(x)[:-1], count]) for t in (element(x), i64)]
        return b.results(aten.topk.default, chances, count, types=types)[1]
    chances = b.expand(b.unsqueeze(x, rank(x) - 1), [*b.sizes(x)[:-1], count, b.sizes(x)[-1]])
    noise = b.neg(_logarithm(b, _draw_like(b, aten.rand.default, chances)))
    return b(aten.argmax.default, b.div(chances, noise), -1)


# --- dropout ----------------------------------------------------------------------------------------------------------


def _kept(b: Builder, x: SSAValue, p: float, features: bool) -> SSAValue:
    """Which elements, or which whole channels (dim 1), are kept."""
    shape = [*dims(x)[:2], *[1] * (rank(x) - 2)] if features else dims(x)
    sizes = [d if isinstance(d, int) else b.size(x, i) for i, d in enumerate(shape)]
    return b.ge(_draw(b, aten.rand.default, sizes, f32, shape), p)


def training_dropout(b: Builder, x: SSAValue, p: float, *, alpha: bool, features: bool) -> SSAValue:
    """Dropout with random numbers: elements or whole channels become 0, or the saturation of SELU with mean and
    variance of all kept."""
    if p == 1:
        return b.mul(x, 0.0)
    kept = _kept(b, x, p, features)
    if not alpha:
        return b.mul(x, b.mul(b.cast(kept, element(x)), 1 / (1 - p)))
    scale = 1 / math.sqrt((SELU_SATURATION**2 * p + 1) * (1 - p))
    dropped = b.where(kept, x, SELU_SATURATION)
    return b.cast(b.add(b.mul(dropped, scale), -scale * p * SELU_SATURATION), element(x))


@decomposition(aten.rrelu.default)
def random_rrelu(
    b: Builder, x: SSAValue, lower: float, upper: float, training: bool, _generator: None
) -> SSAValue | None:
    """In training each negative element has a slope of its own"""
    if not training:
        return b.notify_match_failure("it draws nothing in inference")
    slope = b.add(b.mul(_draw_like(b, aten.rand.default, x), upper - lower), lower)
    return b.where(b.gt(x, 0), x, b.mul(x, slope))


@decomposition(aten.rrelu_with_noise_functional.default)
def rrelu_with_noise(
    b: Builder, x: SSAValue, noise: SSAValue, lower: float, upper: float, training: bool, _generator: None
) -> list[SSAValue]:
    """The slopes are a result too, 1 where ``x`` is positive; in inference nothing is drawn"""
    if not training:
        return [b(aten.leaky_relu.default, x, (lower + upper) / 2), noise]
    slope = b.add(b.mul(_draw_like(b, aten.rand.default, x), upper - lower), lower)
    slope = b.where(b.gt(x, 0), b.as_tensor(1, element(x)), slope)
    return [b.mul(x, slope), slope]
