"""Runtime scalars are no constants of a GELU, and nothing breaks on them."""

from __future__ import annotations

import torch
from torch import nn

import etir


class _Scaled(nn.Module):
    """A tangent of what is multiplied by a size, and one that a size is added to."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        return torch.tanh(x * n) + torch.tanh(torch.add(x, 0.5, alpha=2) + n) / n


def test_sizes_as_factors() -> None:
    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    exported = torch.export.export(_Scaled(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("n", max=5)}})
    for target in ("etir", "executorch"):
        program = etir.compile(exported, target=target)
        assert str(program.module).count('"aten::tanh.out"') == 2
