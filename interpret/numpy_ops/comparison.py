"""Comparisons, logic and selection by a condition: operators to bool, and ``where``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from etir.interpret.numpy_ops.dtype import BOOL, Array, Operand, is_complex, is_integral, promoted, result_type, to
from etir.interpret.numpy_ops.registry import op

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "ne": np.not_equal,
}
"""Comparisons are made in the promoted dtype itself: the operands are rounded to it first, as in torch."""

COMPARISON_ALIASES = {"greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne"}

LOGIC: dict[str, Callable[[Array, Array], Array]] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

FLOAT_TESTS: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "isfinite": (np.isfinite, True),
    "isinf": (np.isinf, False),
    "isnan": (np.isnan, False),
}
"""Tests of floating-point values, with their answer for integers."""


def _register_tables() -> None:
    for name, function in COMPARISONS.items():
        names = [name, *(alias for alias, target in COMPARISON_ALIASES.items() if target == name)]
        op(*(f"aten.{n}.{overload}" for n in names for overload in ("Tensor", "Scalar")))(promoted(function))
    for name, function in LOGIC.items():
        op(f"aten.{name}.default")(_logic(function))
    for name, (function, of_integers) in FLOAT_TESTS.items():
        op(f"aten.{name}.default")(_float_test(function, of_integers))


def _logic(function: Callable[[Array, Array], Array]) -> Callable[[Operand, Operand], Array]:
    def apply(self: Operand, other: Operand) -> Array:
        return function(to(self, BOOL), to(other, BOOL))

    return apply


def _float_test(function: Callable[[Array], Array], of_integers: bool) -> Callable[[Array], Array]:
    def apply(self: Array) -> Array:
        return np.full(self.shape, of_integers) if is_integral(self.dtype) else np.asarray(function(self), BOOL)

    return apply


_register_tables()


@op("aten.logical_not.default")
def logical_not(self: Array) -> Array:
    return ~to(self, BOOL)


@op("aten.signbit.default")
def signbit(self: Array) -> Array:
    return self < 0 if is_integral(self.dtype) else np.signbit(self)


@op("aten.isposinf.default")
def isposinf(self: Array) -> Array:
    return self == np.inf


@op("aten.isneginf.default")
def isneginf(self: Array) -> Array:
    return self == -np.inf


@op("aten.isreal.default")
def isreal(self: Array) -> Array:
    return np.imag(self) == 0 if is_complex(self.dtype) else np.ones(self.shape, BOOL)


@op("aten.isclose.default")
def isclose(self: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Array:
    return np.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


@op("aten.allclose.default")
def allclose(self: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    return bool(np.allclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan))


@op("aten.equal.default")
def equal(self: Array, other: Array) -> bool:
    return np.array_equal(self, other)


@op("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(condition: Array, self: Operand, other: Operand) -> Array:
    dtype = result_type(self, other)
    return np.where(to(condition, BOOL), to(self, dtype), to(other, dtype))


@op("aten.isin.Tensor_Tensor")
def isin(elements: Array, test_elements: Array, *, assume_unique: bool = False, invert: bool = False) -> Array:
    return np.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)
