"""Kernels on float32 numbers with vectors of 512 bits: the same bits as with those of 256."""

from __future__ import annotations

import pytest
import torch

from etir_testing.runtime.integer_variants import integer_kernels
from etir_testing.runtime.kernels import Kernels


@pytest.fixture(scope="module")
def both() -> tuple[Kernels, Kernels]:
    return integer_kernels("avx2"), integer_kernels("vnni")


def floats() -> torch.Tensor:
    """Every exponent, both signs, what is not finite, and a length that no vector divides."""
    exponents = torch.arange(-149, 128, dtype=torch.float64).exp2()
    random = torch.randn(997, generator=torch.Generator().manual_seed(0)) * 3
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan])
    values = torch.cat([exponents.float(), -1.37 * exponents.float(), random, special, torch.linspace(-6, 6, 1003)])
    assert len(values) % 8 != 0
    return values


def bits(kernels: Kernels, name: str, arguments: list[object], like: torch.Tensor) -> torch.Tensor:
    found = kernels.call(name, arguments, [like])[0]
    return found.view(torch.int32) if found.dtype == torch.float32 else found


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(both: tuple[Kernels, Kernels], approximate: str) -> None:
    x = floats()
    narrow, wide = (bits(kernels, "aten::gelu.out", [x, approximate], torch.empty_like(x)) for kernels in both)
    assert torch.equal(narrow, wide)
    wanted = torch.nn.functional.gelu(x.double(), approximate=approximate).float()
    torch.testing.assert_close(wide.view(torch.float32), wanted, rtol=2e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(("name", "more"), [("erf", []), ("gelu", ["none"])])
@pytest.mark.parametrize("count", [1, 7, 63, 64, 65, 131])
@pytest.mark.parametrize("instructions", ["avx2", "vnni"])
def test_steps_of_any_length(instructions: str, name: str, more: list[object], count: int) -> None:
    """Functions in several loops over blocks: numbers have the bits that they have alone."""
    x = floats()[-1003:][::3][:count].contiguous()
    kernels = integer_kernels(instructions)
    whole = bits(kernels, f"aten::{name}.out", [x, *more], torch.empty_like(x))
    alone = [bits(kernels, f"aten::{name}.out", [v, *more], torch.empty_like(v)) for v in x.split(1)]
    assert torch.equal(whole, torch.cat(alone))
    wanted = getattr(torch.nn.functional, name, torch.erf)(x.double()).float()
    torch.testing.assert_close(whole.view(torch.float32), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["erf", "exp", "log", "mish", "sigmoid", "silu", "tanh"])
def test_functions(both: tuple[Kernels, Kernels], name: str) -> None:
    x = floats()
    narrow, wide = (bits(kernels, f"aten::{name}.out", [x], torch.empty_like(x)) for kernels in both)
    real = wide.view(torch.float32)
    # A NaN may have any sign.
    assert torch.equal(narrow[~real.isnan()], wide[~real.isnan()])
    assert torch.equal(narrow.view(torch.float32).isnan(), real.isnan())
    wanted = getattr(torch.ops.aten, name)(x.double()).float()
    torch.testing.assert_close(real, wanted, rtol=2e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("scale", "zero_point", "low", "high"), [(0.03, -7, -128, 127), (1e-3, 127, -127, 127), (7.5, -128, -3, 99)]
)
def test_quantize(both: tuple[Kernels, Kernels], scale: float, zero_point: int, low: int, high: int) -> None:
    x = floats()
    arguments = [x, scale, zero_point, low, high, torch.int8]
    name, like = "quantized_decomposed::quantize_per_tensor.out", torch.empty_like(x, dtype=torch.int8)
    narrow, wide = (bits(kernels, name, arguments, like) for kernels in both)
    assert torch.equal(narrow, wide)
    finite = x.nan_to_num(nan=-1e30)
    wanted = torch.clamp(
        torch.round(finite * (1 / torch.tensor(scale, dtype=torch.float64)).float()) + zero_point, low, high
    )
    assert torch.equal(wide, wanted.to(torch.int8))


@pytest.mark.parametrize("instructions", ["avx2", "vnni"])
def test_erf_of_every_kind_of_nan(instructions: str) -> None:
    """A NaN may have any sign and any low bits."""
    low = torch.randint(1, 1 << 23, (500,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    x = torch.cat([low | 0x7F800000, low | -0x800000]).view(torch.float32)
    assert x.isnan().all()
    kernels = integer_kernels(instructions)
    assert bits(kernels, "aten::erf.out", [x], torch.empty_like(x)).view(torch.float32).isnan().all()
