"""Attention with something added to its scores that does not lie as they do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir

from etir_testing.models.seeding import seeded_normal


class Positions(nn.Module):
    """Scores of windows, and a table of relative positions, whose heads lie innermost."""

    table: torch.Tensor

    def __init__(self, heads: int, tokens: int, repeated: bool):
        super().__init__()
        self.heads, self.tokens, self.repeated = heads, tokens, repeated
        self.register_buffer("table", seeded_normal(1, tokens * tokens, heads))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        added = (self.table + 1).view(self.tokens, self.tokens, self.heads).permute(2, 0, 1).unsqueeze(0)
        scores = q @ k.transpose(-1, -2) + added
        if self.repeated:
            scores = scores + mask.transpose(-1, -2)
        return torch.softmax(scores, -1) @ v


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(("windows", "heads", "tokens", "size"), [(3, 4, 49, 32), (1, 2, 150, 16), (2, 3, 5, 7)])
def test_tables_by_heads(windows: int, heads: int, tokens: int, size: int, repeated: bool) -> None:
    module = Positions(heads, tokens, repeated).eval()
    q, k, v = (seeded_normal(number, windows, heads, tokens, size) for number in range(2, 5))
    inputs = q, k, v, seeded_normal(5, windows, 1, tokens, tokens)
    program = etir.compile(torch.export.export(module, inputs), target="etir", delegates=["native"])
    assert not program.warnings
    (found,) = etir.runtime.load(program).forward(*inputs)
    with torch.no_grad():
        expected = module(*inputs)
    assert (torch.as_tensor(found) - expected).abs().max() <= 1e-6 * expected.abs().max()
