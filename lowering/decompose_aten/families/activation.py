"""Activation functions.

Numerics: what torch computes in f32 for narrow types is done in f32 here too (``in_float``).
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.et.layout import Dim
from etir.lowering.build.builder import Builder, Operator, dims, element, rank
from etir.lowering.build.dims import wrap
from etir.lowering.build.promotion import FLOATING, category_of
from etir.lowering.decompose_aten.decomposition import decomposition, rename
from etir.lowering.decompose_aten.families.randomness import training_dropout

rename([(aten.special_expit.default, aten.sigmoid.default), (aten.special_logit.default, aten.logit.default)])


@decomposition(aten.silu.default, in_float=True)
def silu(b: Builder, x: SSAValue) -> SSAValue:
    """``x * sigmoid(x)``"""
    return b.mul(x, b.sigmoid(x))


@decomposition(aten.relu6.default)
def relu6(b: Builder, x: SSAValue) -> SSAValue:
    """``hardtanh(x, 0, 6)``"""
    return b(aten.hardtanh.default, x, 0, 6)


@decomposition(aten.hardsigmoid.default, in_float=True)
def hardsigmoid(b: Builder, x: SSAValue) -> SSAValue:
    """``clamp(x + 3, 0, 6) / 6``"""
    return b.div(b(aten.hardtanh.default, b.add(x, 3), 0, 6), 6)


@decomposition(aten.hardswish.default, in_float=True)
def hardswish(b: Builder, x: SSAValue) -> SSAValue:
    """``x * clamp(x + 3, 0, 6) / 6``"""
    return b.div(b.mul(x, b(aten.hardtanh.default, b.add(x, 3), 0, 6)), 6)


@decomposition(aten.softplus.default, in_float=True)
def softplus(b: Builder, x: SSAValue, beta: float, threshold: float) -> SSAValue:
    """``log1p(exp(beta * x)) / beta``, and ``x`` itself above the threshold, where the exponential could overflow."""
    scaled = x if beta == 1 else b.mul(x, beta)
    soft = b.log1p(b.exp(scaled))
    return b(aten.where.self, b.gt(scaled, threshold), x, soft if beta == 1 else b.div(soft, beta))


@decomposition(aten.mish.default, in_float=True)
def mish(b: Builder, x: SSAValue) -> SSAValue:
    """``x * tanh(log1p(exp(x)))``; where the exponential overflows the hyperbolic tangent is 1 all the same."""
    return b.mul(x, b.tanh(b.log1p(b.exp(x))))


@decomposition(aten.log_sigmoid.default, in_float=True)
def log_sigmoid(b: Builder, x: SSAValue) -> SSAValue:
    """``min(x, 0) - log1p(exp(-|x|))``"""
    return log_sigmoid_forward(b, x)[0]


@decomposition(aten.log_sigmoid_forward.default, in_float=True)
def log_sigmoid_forward(b: Builder, x: SSAValue) -> list[SSAValue]:
    """The second result is a buffer of the kernel; on the CPU it holds ``exp(-|x|)``."""
    buffer = b.exp(b.neg(b.abs(x)))
    return [b.sub(b.clamp(x, high=0), b.log1p(buffer)), buffer]


_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


@decomposition(aten.selu.default)
def selu(b: Builder, x: SSAValue) -> SSAValue:
    """``elu`` with fixed constants (Klambauer et al., 2017)."""
    return b(aten.elu.default, x, _SELU_ALPHA, _SELU_SCALE)


@decomposition(aten.celu.default)
def celu(b: Builder, x: SSAValue, alpha: float) -> SSAValue:
    """``elu`` of ``x / alpha``: ``alpha * (exp(x / alpha) - 1)`` below 0."""
    return b(aten.elu.default, x, alpha, 1, 1 / alpha)


@decomposition(aten.prelu.default, aten._prelu_kernel.default)
def prelu(b: Builder, x: SSAValue, weight: SSAValue) -> SSAValue:
    """``where(x > 0, x, weight * x)``, the weight along dim 1."""
    if rank(weight) and rank(weight) != rank(x) and rank(x) > 1 and dims(weight) != (1,):
        shape: list[Dim] = [1] * rank(x)
        shape[1] = dims(weight)[0]
        weight = b.view(weight, shape)  # type: ignore[arg-type]
    elif rank(weight) > rank(x):
        weight = b.view(weight, [])
    return b(aten.where.self, b.gt(x, 0), x, b.mul(x, weight))


@decomposition(aten.glu.default)
def glu(b: Builder, x: SSAValue, dim: int) -> SSAValue:
    """``a * sigmoid(b)`` of the two halves."""
    half = b.size(x, dim) // 2
    return b.mul(b.slice(x, dim, 0, half), b.sigmoid(b.slice(x, dim, half, None)))


@decomposition(aten.threshold.default)
def threshold(b: Builder, x: SSAValue, limit: float, value: float) -> SSAValue:
    """``where(x <= limit, value, x)``"""
    return b(aten.where.self, b.le(x, limit), b.as_tensor(value, element(x)), x)


@decomposition(aten.hardshrink.default)
def hardshrink(b: Builder, x: SSAValue, lambd: float) -> SSAValue:
    """0 within ``[-lambd, lambd]``."""
    small = b.le(b.abs(x), lambd)
    return b(aten.where.self, small, b.as_tensor(0, element(x)), x)


@decomposition(aten.softshrink.default)
def softshrink(b: Builder, x: SSAValue, lambd: float) -> SSAValue:
    """``x`` moved towards 0 by ``lambd``: ``x - clamp(x, -lambd, lambd)``."""
    return b.sub(x, b.clamp(x, -lambd, lambd))


@decomposition(aten.rrelu.default)
def rrelu(b: Builder, x: SSAValue, lower: float, upper: float, training: bool, _generator: None) -> SSAValue | None:
    """In inference a leaky ReLU with the mean slope."""
    if training:
        return b.notify_match_failure("it draws random slopes in training")
    return b(aten.leaky_relu.default, x, (lower + upper) / 2)


@decomposition(aten.logit.default, in_float=True)
def logit(b: Builder, x: SSAValue, eps: float | None) -> SSAValue:
    """``log(x / (1 - x))`` of ``x`` clamped to ``[eps, 1 - eps]``."""
    if eps is not None:
        x = b.clamp(x, eps, 1 - eps)
    return b.log(b.div(x, b.rsub(x, 1)))


@decomposition(
    aten.dropout.default,
    aten.feature_dropout.default,
    aten.alpha_dropout.default,
    aten.feature_alpha_dropout.default,
)
def dropout(b: Builder, x: SSAValue, p: float, train: bool) -> SSAValue | None:
    """Nothing in inference. In training plain dropout becomes ``native_dropout``, the others random masks."""
    if not train or p == 0:
        return x
    if not isinstance(b.rewriter.root, aten.dropout.default):
        name = b.rewriter.root.name
        return training_dropout(b, x, p, alpha="alpha" in name, features="feature" in name)
    return b.results(aten.native_dropout.default, x, p, True)[0]


@decomposition(aten.sinc.default, aten.special_sinc.default, in_float=True)
def sinc(b: Builder, x: SSAValue) -> SSAValue:
    """``sin(pi * x) / (pi * x)``, 1 at 0."""
    angle = b.mul(x, math.pi)
    quotient = b.div(b.sin(angle), angle)
    return b(aten.where.self, b.eq(x, 0), b.as_tensor(1, element(quotient)), quotient)


@decomposition(aten.softmax.int, aten.special_softmax.default, symint_args=())
def softmax(b: Builder, x: SSAValue, dim: int, dtype: object) -> SSAValue:
    """``_softmax`` of the input cast to ``dtype``."""
    return _softmax(b, aten._softmax.default, x, dim, dtype)


@decomposition(aten.log_softmax.int, aten.special_log_softmax.default)
def log_softmax(b: Builder, x: SSAValue, dim: int, dtype: object) -> SSAValue:
    """``_log_softmax`` of the input cast to ``dtype``."""
    return _softmax(b, aten._log_softmax.default, x, dim, dtype)


def _softmax(b: Builder, operator: Operator, x: SSAValue, dim: int, dtype: object) -> SSAValue:
    if dtype is not None:
        x = b.cast(x, dtype)  # type: ignore[arg-type]
    assert category_of(element(x)) >= FLOATING
    return b(operator, x, wrap(dim, rank(x)), False)
