"""Spectra between delegates: kernels make complex numbers, and code reads them as pairs of floats."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.memory_bound import bytes_of


class Mixed(nn.Module):
    """Layers of FNet: the real part of a spectrum is added to what it was made of, then a network of two layers."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(count))
        self.wide = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(count))
        self.back = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for norm, wide, back in zip(self.norms, self.wide, self.back, strict=True):
            x = norm(x + torch.fft.fft2(x, dim=(1, 2)).real)
            x = norm(x + back(torch.nn.functional.gelu(wide(x))))
        return x


@pytest.mark.parametrize("shape", [(1, 16, 96), (3, 8, 64)], ids=str)
def test_spectra_lie_in_the_workspace(shape: tuple[int, ...]) -> None:
    """Complex numbers have a place in the workspace of the delegate that reads them as pairs: the program needs no more
    than without the delegate, and all of its work is code.
    """
    torch.manual_seed(0)
    model, x = Mixed(2, shape[-1]).eval(), torch.randn(shape)
    exported = torch.export.export(model, (x,))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    assert [len(b.partitions) for b in program.delegation.backends] == [3]
    with torch.no_grad():
        wanted = model(x)
    for policy in ("trusted", "refuse"):
        (got,) = etir.runtime.load(program, native=policy).forward(x)
        torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=1e-5, atol=1e-5)
