"""Element-wise operators against torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from etir.dialects.text import parse_module

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import check, decompose, one_op_module

torch.manual_seed(0)
X = torch.randn(3, 4) * 3
Y = torch.randn(4)
W = torch.rand(3, 4)
SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 1e30])
OTHER = torch.tensor([1.0, math.inf, -math.inf, math.nan, 2.0, 1.5, -2.5 + 1e-7, -math.inf])
INTS = torch.arange(-6, 6).reshape(3, 4)
J = torch.tensor([1, -2, 3, 5])
LARGE = torch.tensor([-1e30, 2e-30, 0.0, math.nan, 1.0, math.inf])
MASK = torch.tensor([True, False, True, False])

CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("aten.absolute.default", (X,), {}),
    ("aten.subtract.Tensor", (X, Y), {"alpha": 2}),
    ("aten.multiply.Scalar", (X, 3), {}),
    ("aten.divide.Tensor_mode", (X, Y), {"rounding_mode": "floor"}),
    ("aten.true_divide.Tensor", (INTS, J), {}),
    ("aten.greater_equal.Scalar", (X, 0.5), {}),
    ("aten.not_equal.Tensor", (INTS, J), {}),
    ("aten.clip.default", (X, -1, None), {}),
    ("aten.__and__.Tensor", (INTS, J), {}),
    ("aten.__or__.Scalar", (INTS, 3), {}),
    ("aten.square.default", (X,), {}),
    ("aten.square.default", (INTS,), {}),
    ("aten.square.default", (X > 0,), {}),
    *(("aten.polygamma.default", (n, X.abs() + 0.5), {}) for n in (0, 1, 4)),
    ("aten.polygamma.default", (2, INTS.abs() + 1), {}),
    ("aten.rsub.Scalar", (X, 2), {}),
    ("aten.rsub.Scalar", (INTS, 2.5), {"alpha": 3}),
    ("aten.rsub.Tensor", (X, Y), {"alpha": 0.5}),
    ("aten.clamp_min.default", (X, 0), {}),
    ("aten.clamp_max.default", (INTS, 1.5), {}),
    ("aten.clamp_min.Tensor", (X, Y), {}),
    ("aten.floor_divide.default", (INTS, J), {}),
    ("aten.floor_divide.Scalar", (X, 2), {}),
    ("aten.remainder.Scalar_Tensor", (7, J), {}),
    ("aten.bitwise_and.Scalar_Tensor", (5, INTS), {}),
    ("aten.max.other", (X, Y), {}),
    ("aten.min.other", (INTS, J), {}),
    ("aten.fmax.default", (SPECIAL, OTHER), {}),
    ("aten.fmin.default", (SPECIAL, OTHER), {}),
    ("aten.fmax.default", (INTS, Y), {}),
    ("aten.isfinite.default", (SPECIAL,), {}),
    ("aten.isfinite.default", (INTS,), {}),
    ("aten.isposinf.default", (SPECIAL,), {}),
    ("aten.isneginf.default", (SPECIAL,), {}),
    ("aten.isreal.default", (X,), {}),
    ("aten.isclose.default", (SPECIAL, OTHER), {}),
    ("aten.isclose.default", (SPECIAL, OTHER), {"equal_nan": True}),
    ("aten.isclose.default", (INTS, J), {"atol": 3.0}),
    ("aten.isclose.default", (INTS > 0, J > 0), {}),
    ("aten.isclose.default", (INTS, J), {"rtol": 0.0, "atol": 0.0}),
    ("aten.signbit.default", (SPECIAL[1:],), {}),
    ("aten.signbit.default", (INTS,), {}),
    ("aten.copysign.Tensor", (X, SPECIAL[1:5]), {}),
    ("aten.copysign.Scalar", (INTS, -0.0), {}),
    ("aten.addcmul.default", (X, Y, W), {"value": 0.3}),
    ("aten.addcmul.default", (INTS, J, J), {"value": 2}),
    ("aten.addcdiv.default", (X, Y, W + 1), {"value": -2}),
    ("aten.lerp.Scalar", (X, W, 0.25), {}),
    ("aten.lerp.Scalar", (X, W, 0.75), {}),
    ("aten.lerp.Tensor", (X, W, W), {}),
    ("aten.logaddexp.default", (SPECIAL, OTHER), {}),
    ("aten.logaddexp2.default", (X, Y), {}),
    ("aten.xlogy.Tensor", (SPECIAL, OTHER), {}),
    ("aten.xlogy.Scalar_Self", (0, OTHER), {}),
    ("aten.xlogy.Scalar_Other", (INTS, 2), {}),
    ("aten.special_xlog1py.default", (X, W), {}),
    ("aten.float_power.Tensor_Scalar", (W, 2), {}),
    ("aten.float_power.Scalar", (2, INTS), {}),
    ("aten.float_power.Tensor_Tensor", (W, X), {}),
    ("aten.exp2.default", (X,), {}),
    ("aten.exp2.default", (INTS,), {}),
    ("aten.erfc.default", (X,), {}),
    ("aten.frac.default", (X,), {}),
    ("aten.deg2rad.default", (X,), {}),
    ("aten.rad2deg.default", (X,), {}),
    ("aten.hypot.default", (X, Y), {}),
    ("aten.hypot.default", (torch.tensor([1e30, 1e-30, 0.0, math.inf, math.nan, -math.inf]), LARGE), {}),
    ("aten.ldexp.Tensor", (X, J), {}),
    ("aten.heaviside.default", (SPECIAL, OTHER), {}),
    ("aten.nan_to_num.default", (SPECIAL,), {}),
    ("aten.nan_to_num.default", (SPECIAL, 2.0, 3.0, -4.0), {}),
    ("aten.nan_to_num.default", (SPECIAL, None, 3.0), {}),
    ("aten.nan_to_num.default", (INTS,), {}),
    ("aten.round.decimals", (X,), {"decimals": 2}),
    ("aten.round.decimals", (X * 100,), {"decimals": -1}),
    ("aten.where.ScalarOther", (MASK, X, 2.0), {}),
    ("aten.where.ScalarSelf", (MASK, 1, INTS), {}),
    ("aten.where.Scalar", (MASK, 1, 0.5), {}),
    ("aten.masked_fill.Scalar", (X, MASK, -math.inf), {}),
    ("aten.masked_fill.Scalar", (INTS, MASK, 3), {}),
    ("aten.masked_fill.Tensor", (X, MASK, torch.tensor(2)), {}),
    ("aten.sgn.default", (X,), {}),
    *[(f"aten.{n}.default", (W,), {}) for n in ("arccos", "arcsin", "arctan", "arcsinh", "negative", "fix")],
    ("aten.arccosh.default", (W + 1,), {}),
    ("aten.arctanh.default", (W / 2,), {}),
    ("aten.arctan2.default", (X, Y), {}),
    ("aten.clip.Tensor", (X, Y - 1, Y + 1), {}),
    *[(f"aten.{n}.Scalar", (X, 0.5), {}) for n in ("greater", "less", "less_equal", "not_equal", "subtract", "divide")],
    *[
        (f"aten.{n}.Tensor", (X, Y), {})
        for n in ("greater", "greater_equal", "less", "less_equal", "multiply", "divide")
    ],
    ("aten.divide.Scalar_mode", (X, 0.7), {"rounding_mode": "trunc"}),
    ("aten.true_divide.Scalar", (INTS, 4), {}),
    *[(f"aten.special_{n}.default", (W,), {}) for n in ("erf", "erfc", "exp2", "expm1", "log1p", "expit", "sinc")],
    ("aten.__and__.Scalar", (INTS, 3), {}),
    ("aten.__or__.Tensor", (INTS, J), {}),
    ("aten.__xor__.Scalar", (INTS, 3), {}),
    ("aten.__xor__.Tensor", (INTS, J), {}),
    ("aten.bitwise_or.Scalar_Tensor", (5, INTS), {}),
    ("aten.bitwise_xor.Scalar_Tensor", (5, INTS), {}),
    ("aten.special_xlogy.default", (X, W), {}),
    ("aten.special_xlogy.self_scalar", (2, W), {}),
    ("aten.special_xlogy.other_scalar", (X, 2), {}),
    ("aten.special_xlog1py.self_scalar", (2, W), {}),
    ("aten.special_xlog1py.other_scalar", (X, 2), {}),
    ("aten.clamp_max.Tensor", (X, Y), {}),
    ("aten._add_relu.Tensor", (X, W), {"alpha": 2}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_elementwise(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    check(name, *args, **kwargs)


def test_a_number_in_the_place_of_a_tensor() -> None:
    text = """
func.func @forward(%c: tensor<4xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.where.self(%c, %x, 2.0) : (tensor<4xi1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
    module = parse_module(text)
    assert decompose(module) == ["aten.full.default", "aten.where.self"]
    (got,) = evaluate(module, [MASK, Y])
    assert torch.equal(got, torch.where(MASK, Y, 2.0))


@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("amount", [2, torch.tensor([0, 1, 2, 3])])
def test_shifts_are_kernels_of_the_target(side: str, amount: Any) -> None:
    overload = "Scalar" if isinstance(amount, int) else "Tensor"
    (name,) = check(f"aten.__{side}shift__.{overload}", INTS, amount, options={"target": "etir"})
    assert name.startswith(f"aten.bitwise_{'left' if side == 'l' else 'right'}_shift.Tensor")


@pytest.mark.parametrize(("counts", "is_kernel"), [([0, 3, 31], True), ([0, 3, 32], False), ([-1, 3, 4], False)])
def test_shifts_by_counts_that_are_known_to_fit_are_kernels(counts: list[int], is_kernel: bool) -> None:
    """The stock runtime's kernel is right for these."""
    text = f"""
func.func @forward(%x: tensor<3xi32>) -> tensor<3xi32> {{
  %n = et.constant dense<{counts}> : tensor<3xi32>
  %0 = aten.bitwise_left_shift.Tensor(%x, %n) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  func.return %0 : tensor<3xi32>
}}
"""
    module, x = parse_module(text), torch.tensor([5, -7, 1 << 20], dtype=torch.int32)
    assert ("aten.bitwise_left_shift.Tensor" in decompose(module, target="executorch")) == is_kernel
    assert torch.equal(evaluate(module, [x])[0], x << torch.tensor(counts, dtype=torch.int32))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_half(name: str) -> None:
    x = [t.half() for t in (X, Y, W + 1)]
    names = check(f"aten.{name}.default", *x, tolerance=2e-3, value=0.3)
    assert names.count("aten._to_copy.default") == 4


def test_dynamic() -> None:
    assert check("aten.isfinite.default", X, dynamic={0: [0]}) == ["aten.abs.default", "aten.lt.Scalar"]
    check("aten.isfinite.default", INTS, dynamic={0: [0, 1]})
    check("aten.where.ScalarOther", MASK, X, 2.0, dynamic={0: [0], 1: [0, 1]})


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.75, 1.0])
def test_interpolation_starts_from_the_nearer_end(weight: float) -> None:
    """Ends of different magnitude: from the far one the small number would be lost. Bits are torch's."""
    start, end = torch.tensor([1e8, 1.0, -3e7]), torch.tensor([1.0, 1e8, 0.3])
    module, tensors = one_op_module("aten.lerp.Scalar", (start, end, weight), {})
    decompose(module)
    assert torch.equal(evaluate(module, tensors)[0], torch.lerp(start, end, weight))
