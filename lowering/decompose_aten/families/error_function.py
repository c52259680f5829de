"""The complementary error function, plain and scaled, for targets without a kernel.

``1 - erf(x)`` has no digit left where ``erf`` is close to 1. Away from 0 the function is ``exp(-x * x)`` times a
rational function (W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics of Computation
23, 1969), which is what the scaled one is. The square in the exponent is the one of a multiple of 1/16, which is
exact, and a small rest: its rounding would be multiplied by as much as the exponent is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.lowering.build.builder import Builder, element
from etir.lowering.build.promotion import to_floating
from etir.lowering.decompose_aten.decomposition import decomposition

NEAR = 0.46875
"""Up to here ``1 - erf(x)`` loses less than two bits."""

Ratio: TypeAlias = "tuple[Sequence[float], Sequence[float]]"
"""The coefficients of a numerator and a denominator, the highest power first."""

_MIDDLE: Ratio = (
    (
        *(
            2.15311535474403846e-8,
            5.64188496988670089e-1,
            8.88314979438837594,
            66.1191906371416295,
            298.635138197400131,
        ),
        *(881.952221241769090, 1712.04761263407058, 2051.07837782607147, 1230.33935479799725),
    ),
    (
        *(1.0, 15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019),
        *(3290.79923573345963, 4362.61909014324716, 3439.36767414372164, 1230.33935480374942),
    ),
)
"""For arguments up to 4."""

_FAR: Ratio = (
    (
        *(1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1),
        *(1.25781726111229246e-1, 1.60837851487422766e-2, 6.58749161529837803e-4),
    ),
    (
        *(1.0, 2.56852019228982242, 1.87295284992346047),
        *(5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3),
    ),
)
"""For larger ones, of the inverse square."""

_LARGEST = 30.0
"""Beyond it ``exp(-x * x)`` is 0 in every floating type."""


@decomposition(aten.erfc.default, in_float=True)
def erfc(b: Builder, x: SSAValue) -> SSAValue:
    """``1 - erf(x)`` near 0, else ``exp(-x * x)`` times a rational function of the magnitude"""
    x = b.cast(x, to_floating(element(x)))
    magnitude = b.abs(x)
    tail = b.mul(_exp_of_square(b, magnitude, -1.0), _scaled_tail(b, magnitude))
    far = b(aten.where.self, b.lt(x, 0), b.rsub(tail, 2), tail)
    return b(aten.where.self, b.le(magnitude, NEAR), b.rsub(b(aten.erf.default, x), 1), far)


@decomposition(aten.special_erfcx.default, in_float=True)
def erfcx(b: Builder, x: SSAValue) -> SSAValue:
    """``exp(x * x) * erfc(x)``"""
    x = b.cast(x, to_floating(element(x)))
    magnitude = b.abs(x)
    growth = _exp_of_square(b, magnitude, 1.0)
    tail = _scaled_tail(b, magnitude)
    far = b(aten.where.self, b.lt(x, 0), b.sub(b.mul(growth, 2), tail), tail)
    return b(aten.where.self, b.le(magnitude, NEAR), b.mul(growth, b.rsub(b(aten.erf.default, x), 1)), far)


@decomposition(aten.special_ndtr.default, in_float=True)
def ndtr(b: Builder, x: SSAValue) -> SSAValue:
    """``erfc(-x / sqrt(2)) / 2``: the left tail is no difference from 1"""
    scaled = b.mul(x, -math.sqrt(0.5))
    return b.mul(b(aten.erfc.default, scaled, types=[scaled.type]), 0.5)


def _exp_of_square(b: Builder, x: SSAValue, sign: float) -> SSAValue:
    """``exp(sign * x * x)`` for ``x >= 0``."""
    x = b.clamp(x, None, _LARGEST)
    coarse = b.mul(b.trunc(b.mul(x, 16)), 1 / 16)
    rest = b.mul(b.sub(x, coarse), b.add(x, coarse))
    return b.mul(b.exp(b.mul(b.mul(coarse, coarse), sign)), b.exp(b.mul(rest, sign)))


def _scaled_tail(b: Builder, x: SSAValue) -> SSAValue:
    """``exp(x * x) * erfc(x)`` for ``x > NEAR``."""
    middle = _ratio(b, x, _MIDDLE)
    inverse = b.reciprocal(b.mul(x, x))
    far = b.div(b.rsub(b.mul(inverse, _ratio(b, inverse, _FAR)), 1 / math.sqrt(math.pi)), x)
    return b(aten.where.self, b.le(x, 4), middle, far)


def _ratio(b: Builder, x: SSAValue, ratio: Ratio) -> SSAValue:
    return b.div(_polynomial(b, x, ratio[0]), _polynomial(b, x, ratio[1]))


def _polynomial(b: Builder, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """Horner's rule."""
    result = b.add(b.mul(x, coefficients[0]), coefficients[1])
    for coefficient in coefficients[2:]:
        result = b.add(b.mul(result, x), coefficient)
    return result
