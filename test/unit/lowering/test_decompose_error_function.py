"""The complementary error functions, against double precision."""

from __future__ import annotations

import math

import pytest
import torch

from etir_testing.lowering.evaluate import evaluate
from etir_testing.lowering.one_op import check, decompose, one_op_module

POINTS = torch.cat([torch.linspace(-6, 10.5, 4001), torch.tensor([0.46875, -0.46875, 4.0, 0.0, -0.0, 1e-20, 1e-40])])
SPECIAL = torch.tensor([math.inf, -math.inf, math.nan, 1e30, -1e30, 27.0, -27.0])


def results(name: str, x: torch.Tensor) -> torch.Tensor:
    module, tensors = one_op_module(name, [x], {})
    assert name not in decompose(module)
    (result,) = evaluate(module, tensors)
    return result


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 4e-15), (torch.float32, 2e-6)])
@pytest.mark.parametrize("name", ["erfc", "special_erfcx", "special_ndtr"])
def test_digits_are_right_in_the_tail(name: str, dtype: torch.dtype, bound: float) -> None:
    """The relative error, where ``1 - erf(x)`` has none of the digits: 1.5e-12 at 5."""
    x = POINTS.to(dtype)
    if name == "special_ndtr":  # of which torch has no digit either
        x, bound = -x, 4 * bound
        exact = torch.special.erfc(-x.double() * math.sqrt(0.5)) / 2
    else:
        exact = getattr(torch.special, name.removeprefix("special_"))(x.double())
    got = results(f"aten.{name}.default", x)
    assert got.dtype == dtype
    normal = exact.abs() > torch.finfo(dtype).tiny
    assert ((got.double() - exact).abs() / exact.abs())[normal].max() < bound


@pytest.mark.parametrize("name", ["aten.erfc.default", "aten.special_erfcx.default", "aten.special_ndtr.default"])
def test_special_values(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        check(name, SPECIAL.to(dtype), tolerance=1e-5)


def test_integers_and_half() -> None:
    check("aten.erfc.default", torch.arange(-3, 4))
    check("aten.special_ndtr.default", torch.arange(-3, 4))
    check("aten.special_ndtr.default", torch.tensor([True, False]))
    check("aten.erfc.default", torch.linspace(-3, 3, 50).half(), tolerance=1e-3)
