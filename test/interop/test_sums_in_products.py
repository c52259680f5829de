"""Programs whose products write sums have the bits of programs whose additions are instructions of their own.

Depths are of several blocks on every processor, sizes dynamic, and results planned over what is added.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
from etir.emit.pte.reader import read_pte


class Residual(nn.Module):
    """Convolutions, linear layers and products of matrices, each added to what dies there."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.wide, self.narrow = nn.Conv2d(12, 110, 3, padding=1), nn.Conv2d(110, 12, 3, padding=1)
        self.point = nn.Conv2d(12, 12, 1, bias=False)
        self.up, self.down = nn.Linear(81, 700), nn.Linear(700, 81)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x)
        y = torch.relu(y + self.narrow(torch.relu(self.wide(y))))
        y = self.point(torch.sigmoid(y)) + y
        z = y.flatten(2)
        z = z + self.down(torch.relu(self.up(z)))
        return z + torch.bmm(torch.tanh(z @ z.transpose(1, 2)), z.exp().clamp(max=3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_bits_of_additions(dtype: torch.dtype) -> None:
    batch = torch.export.Dim("batch", min=1, max=5)
    model = Residual().eval().to(dtype)
    program = torch.export.export(model, (torch.randn(2, 12, 9, 9, dtype=dtype),), dynamic_shapes=({0: batch},))
    joined = etir.compile(program, target="etir")
    apart = etir.compile(program, target="etir", delegates=["reference{leave=aten.add.Tensor}"])
    kernels = {operator.full_name for operator in read_pte(bytes(joined.buffer)).execution_plan[0].operators}
    assert {"etir::convolution_add.out", "etir::linear_add.out", "etir::matmul_add.out"} <= kernels
    assert "aten::add.out" not in kernels
    loaded = [etir.runtime.load(joined, threads=threads) for threads in (1, 2, 3)]
    alone = etir.runtime.load(apart)
    for size in (1, 2, 5):
        x = torch.randn(size, 12, 9, 9, generator=torch.Generator().manual_seed(size)).to(dtype)
        (wanted,) = alone.forward(x)
        for each in loaded:
            (got,) = each.forward(x)
            assert torch.equal(got, wanted)
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    torch.testing.assert_close(wanted, model(x), rtol=tolerance, atol=tolerance)
