"""`fuse-gelu`: the GELU that models write out with a hyperbolic tangent is one operator.

Before::

    %h = edge.aten.mul.Scalar(%x, other = 0.5)
    %c = edge.aten.pow.Tensor_Scalar(%x, exponent = 3.0)
    %m = edge.aten.mul.Scalar(%c, other = 0.044715)
    %a = edge.aten.add.Tensor(%x, %m)
    %i = edge.aten.mul.Scalar(%a, other = 0.7978845608028654)
    %t = edge.aten.tanh.default(%i)
    %p = edge.aten.add.Scalar(%t, other = 1.0)
    %y = edge.aten.mul.Tensor(%h, %p)

After::

    %y = edge.aten.gelu.default(%x, approximate = "tanh") : (tensor<2x12x128xf32>) -> tensor<2x12x128xf32>

Written out it takes two tensors of the widest layer of a transformer, since %x is read last and first; as one operator
it is computed in place. Models write it in several ways (Hendrycks and Gimpel 2016, "Gaussian error linear units", give
the formula): what is compared is the polynomial that the operators around the tangent compute, so that their order does
not matter. It is recognized in float32, to whose precision the constants of models are the operator's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import tensor_of
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily
from etir.targets.manifest import load

Polynomial: TypeAlias = Mapping[tuple[int, int], float]
"""Coefficients by the powers of two variables: what goes into the GELU, and the tangent."""

SLOPE = math.sqrt(2 / math.pi)
INSIDE: Polynomial = {(1, 0): SLOPE, (3, 0): SLOPE * 0.044715}
OUTSIDE: Polynomial = {(1, 0): 0.5, (1, 1): 0.5}

_ONE, _X, _TANGENT = {(0, 0): 1.0}, {(1, 0): 1.0}, {(0, 1): 1.0}
_MOST_STEPS = 6
"""Operators in a row, on either side of the tangent, more than any way to write it has."""


@register_pass
@dataclass(frozen=True)
class FuseGeluPass(Pass):
    """Compute GELUs that are written out with a hyperbolic tangent by one operator, if ``target`` has a kernel."""

    name = "fuse-gelu"
    target: str = "executorch"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        if load(self.target).lookup("aten::gelu.out") is None:
            return
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [GeluOfTanh()])


class GeluOfTanh(Pattern):
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))."""

    name = "gelu-of-tanh"

    def rewrite(self, op: edge.aten.tanh.default, rewriter: PatternRewriter) -> None:
        type = op.result.type
        if not isinstance(tensor_of(op.result).element_type, Float32Type):
            return rewriter.notify_match_failure("not of float32")
        x = next((v for v in _operands_around(op.self_) if _is(_polynomial(op.self_, {v: _X}), INSIDE)), None)
        if x is None or x.type != type:
            return rewriter.notify_match_failure("the tangent is not that of a GELU's polynomial")
        value: SSAValue = op.result
        for _ in range(_MOST_STEPS):
            if not value.has_one_use():
                return rewriter.notify_match_failure("a part of it has another use")
            user = next(iter(value.uses)).operation
            if not user.results or user.results[0].type != type:
                break
            value = user.results[0]
            found = _polynomial(value, {x: _X, op.result: _TANGENT})
            if found is None:
                break
            if _is(found, OUTSIDE):
                gelu = edge.aten.gelu.default.make({"self": x, "approximate": "tanh"}, [type])
                gelu.results[0].name_hint = value.name_hint
                rewriter.insert_op(gelu, user)
                rewriter.replace_op(user, [gelu.results[0]])
                return None
        return rewriter.notify_match_failure("the tangent does not weigh what it was computed from")


def _operands_around(value: SSAValue) -> list[SSAValue]:
    """What a tensor is computed from, in the order of the steps."""
    found: dict[SSAValue, None] = {}
    level = [value]
    for _ in range(_MOST_STEPS):
        level = list(dict.fromkeys(v for value in level for v in _steps(value.owner)))
        found |= dict.fromkeys(level)
    return list(found)


def _steps(op: object) -> list[SSAValue]:
    if isinstance(op, (edge.aten.mul.Tensor, edge.aten.add.Tensor)):
        return [op.self_, op.other]
    if isinstance(op, (edge.aten.mul.Scalar, edge.aten.add.Scalar, edge.aten.div.Scalar, edge.aten.pow.Tensor_Scalar)):
        return [op.self_]
    return []


def _polynomial(value: SSAValue, known: Mapping[SSAValue, Polynomial], steps: int = _MOST_STEPS) -> Polynomial | None:
    """What a value is as a polynomial of the ``known`` ones; None if it is none, or of too many steps."""
    if value in known:
        return known[value]
    op = value.owner
    if not isinstance(op, Operation) or steps == 0:
        return None
    parts = [_polynomial(v, known, steps - 1) for v in _steps(op)]
    inner = [part for part in parts if part is not None]
    if not parts or len(inner) != len(parts):
        return None
    match op:
        case edge.aten.mul.Tensor():
            return _times(inner[0], inner[1])
        case edge.aten.add.Tensor():
            return _plus(inner[0], _scaled(inner[1], op.alpha))
        case edge.aten.mul.Scalar():
            return _scaled(inner[0], op.other)
        case edge.aten.div.Scalar() if isinstance(op.other, (int, float)) and op.other != 0:
            return _scaled(inner[0], 1 / op.other)
        case edge.aten.add.Scalar():
            return _plus(inner[0], _scaled(_scaled(_ONE, op.other), op.alpha))
        case edge.aten.pow.Tensor_Scalar() if op.exponent in (2, 3):
            square = _times(inner[0], inner[0])
            return square if op.exponent == 2 else _times(square, inner[0])
        case _:
            return None


def _scaled(polynomial: Polynomial | None, number: object) -> Polynomial | None:
    """A polynomial times a number; None where that is known at run time only, or is complex."""
    if polynomial is None or not isinstance(number, (int, float)):
        return None
    return {powers: one * number for powers, one in polynomial.items()}


def _plus(a: Polynomial, b: Polynomial | None) -> Polynomial | None:
    if b is None:
        return None
    return {powers: a.get(powers, 0.0) + b.get(powers, 0.0) for powers in {**a, **b}}


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    result: dict[tuple[int, int], float] = {}
    for (i, j), one in a.items():
        for (k, m), other in b.items():
            result[i + k, j + m] = result.get((i + k, j + m), 0.0) + one * other
    return result


def _is(found: Polynomial | None, wanted: Polynomial) -> bool:
    """Whether coefficients agree to the precision of float32, and there are no others."""
    if found is None:
        return False
    return all(
        math.isclose(found.get(powers, 0.0), wanted.get(powers, 0.0), rel_tol=1e-7) for powers in {**found, **wanted}
    )
