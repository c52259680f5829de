"""Special functions, in all dtypes, against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

UNARY: dict[str, tuple[float, float]] = {
    "airy_ai": (-20, 20),
    "bessel_j0": (-60, 60),
    "bessel_j1": (-60, 60),
    "bessel_y0": (-1, 60),
    "bessel_y1": (-1, 60),
    "i0e": (-90, 90),
    "i1": (-80, 80),
    "i1e": (-90, 90),
    "modified_bessel_i0": (-80, 80),
    "modified_bessel_i1": (-80, 80),
    "modified_bessel_k0": (-1, 60),
    "modified_bessel_k1": (-1, 60),
    "scaled_modified_bessel_k0": (-1, 60),
    "scaled_modified_bessel_k1": (-1, 60),
    "spherical_bessel_j0": (-30, 30),
    "erfcx": (-5, 60),
    "ndtri": (-0.1, 1.1),
}
"""Functions and the range that they are tested on."""

ROUGH = 1e-5
"""Torch's own Airy and Bessel functions are off by up to 3e-6 (single precision fits of double-precision functions)."""

CHEBYSHEV = [f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"]
POLYNOMIALS = [*CHEBYSHEV, "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
               "legendre_polynomial_p"]  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    """The kernels of the family, and ``frexp``."""
    return build_kernels("special", "elementwise")


def _close(got: torch.Tensor, wanted: torch.Tensor, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    torch.testing.assert_close(got.double(), wanted.double(), rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
def test_unary(kernels: Kernels, name: str) -> None:
    low, high = UNARY[name]
    x = torch.cat([torch.linspace(low, high, 997, dtype=torch.float64), torch.tensor([0.0, 1.0, torch.nan])])
    wanted = getattr(torch.special, name)(x)
    (got,) = kernels.call(f"aten::special_{name}.out", [x], [x])
    _close(got, wanted, rtol=1e-7, atol=ROUGH if name[:4] in ("airy", "bess") else 1e-9)
    for dtype in (torch.float16, torch.bfloat16):
        narrow = x.to(dtype)
        (got,) = kernels.call(f"aten::special_{name}.out", [narrow], [narrow])
        (exact,) = kernels.call(f"aten::special_{name}.out", [narrow.double()], [x])
        _close(got, exact.to(dtype), rtol=2e-2, atol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_unary_of_integers_bools_nothing_and_any_order(kernels: Kernels, name: str) -> None:
    for x in (torch.arange(-3, 9), torch.tensor([True, False]), torch.empty(0, 3), torch.tensor(0.5)):
        wanted = getattr(torch.special, name)(x)
        (got,) = kernels.call(f"aten::special_{name}.out", [x], [wanted])
        _close(got, wanted, rtol=1e-4, atol=1e-5)
    x = torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last)
    (got,) = kernels.call(f"aten::special_{name}.out", [x], [x])
    _close(got, getattr(torch.special, name)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(kernels: Kernels, name: str) -> None:
    function, kernel = getattr(torch.special, name), f"aten::special_{name}"
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)
    n = torch.arange(-1, 20, dtype=torch.float64)[:, None]
    wanted = function(x, n)
    (got,) = kernels.call(f"{kernel}.out", [x, n], [wanted])
    _close(got, wanted, rtol=1e-6, atol=1e-6)
    (got,) = kernels.call(f"{kernel}.n_scalar_out", [x, 5], [x])
    _close(got, function(x, 5), rtol=1e-6)
    (got,) = kernels.call(f"{kernel}.x_scalar_out", [0.25, n], [n])
    _close(got, function(0.25, n), rtol=1e-6)
    (got,) = kernels.call(f"{kernel}.n_scalar_out", [x, 2**62], [x])
    assert got.shape == x.shape  # and it ends


def test_incomplete_gamma(kernels: Kernels) -> None:
    points = [0, 1e-3, 0.5, 1, 3, 10, 150, 2000, 3e6, 3.001e6, torch.inf, -1]
    a = torch.tensor(points, dtype=torch.float64)
    x = a[:, None]
    for name in ("igamma", "igammac"):
        wanted = getattr(torch, name)(a, x)
        (got,) = kernels.call(f"aten::{name}.out", [a, x], [wanted])
        _close(got, wanted, rtol=1e-6, atol=1e-7)


def test_zeta(kernels: Kernels) -> None:
    x = torch.tensor([1, 1.5, 2, 3, 5, 40, 0.5], dtype=torch.float64)
    q = torch.tensor([-2.5, -1, 0, 0.1, 1, 3, 20, 1e6], dtype=torch.float64)[:, None]
    wanted = torch.special.zeta(x, q)
    (got,) = kernels.call("aten::special_zeta.out", [x, q], [wanted])
    _close(got, wanted)
    (got,) = kernels.call("aten::special_zeta.self_scalar_out", [2, q], [q])
    _close(got, torch.special.zeta(2, q))
    (got,) = kernels.call("aten::special_zeta.out", [x, torch.tensor(-1e300)], [x])
    assert got.shape == x.shape  # and it ends


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_frexp(kernels: Kernels, dtype: torch.dtype) -> None:
    x = (torch.randn(3, 7) * 100).to(dtype)
    x[0, :3] = torch.tensor([0, 1, -0.5])
    wanted: Any = torch.frexp(x)
    got = kernels.call("aten::frexp.Tensor_out", [x], list(wanted))
    assert torch.equal(got[0], wanted[0]) and torch.equal(got[1], wanted[1])
    with pytest.raises(KernelFailure):
        kernels.call("aten::frexp.Tensor_out", [x], [wanted[0], wanted[1].long()])


def test_igammac_of_small_parameters(kernels: Kernels) -> None:
    """a * E1(x) for tiny a, where a difference from 1 has no digit; torch's own doubles are off by a factor."""
    for a, x, wanted in [(1e-30, 1.0, 2.1938393439552028e-31), (1e-30, 0.5, 5.597735947761608e-31)]:
        arguments = [torch.tensor([v], dtype=torch.float64) for v in (a, x)]
        (got,) = kernels.call("aten::igammac.out", arguments, [arguments[0]])
        assert abs(got.item() / wanted - 1) < 1e-14
