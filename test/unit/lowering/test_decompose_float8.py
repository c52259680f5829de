"""Casts from and to 8-bit floats against torch: every code, ties between neighbors and what is next to them."""

from __future__ import annotations

import pytest
import torch

import etir

FORMATS = [torch.float8_e4m3fn, torch.float8_e5m2]


class _Cast(torch.nn.Module):
    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype)


class _Codes(_Cast):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self.dtype).view(torch.uint8)


def _check(module: _Cast, x: torch.Tensor) -> None:
    compiled = etir.compile(torch.export.export(module, (x,)), target="etir")
    got = torch.as_tensor(etir.runtime.load(compiled.buffer)["forward"](x)[0])
    torch.testing.assert_close(got, module(x), rtol=0, atol=0, equal_nan=True)


def _codes(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.uint8).view(dtype)


@pytest.mark.parametrize("given", FORMATS)
@pytest.mark.parametrize("wanted", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_from(given: torch.dtype, wanted: torch.dtype) -> None:
    _check(_Cast(wanted), _codes(given))


@pytest.mark.parametrize("given", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("wanted", FORMATS)
def test_to(given: torch.dtype, wanted: torch.dtype) -> None:
    numbers = _codes(wanted).float().nan_to_num(posinf=65536, neginf=-65536).sort().values
    ties = (numbers[1:] + numbers[:-1]) / 2
    both = torch.cat([numbers, ties])
    infinite = torch.full_like(both, torch.inf)
    around = [torch.nextafter(both, sign * infinite) for sign in (-1, 1)]
    large = torch.tensor([449.0, 480, 1e5, 1e30, torch.inf, torch.nan])
    x = torch.cat([both, *around, large, -large[:-1]])
    x = torch.arange(-500, 500, dtype=given) if not given.is_floating_point else x.to(given)
    _check(_Codes(wanted), x)
