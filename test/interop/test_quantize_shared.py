"""Layers of one weight, the steps of a recurrent net and modules that are called twice, stay layers of one weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import etir
from etir.dialects.et.program import WeightOp


class _Steps(nn.Module):
    """A recurrent net, a layer that is called three times, and a convolution that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.layer, self.conv = nn.LSTM(32, 64), nn.Linear(64, 64), nn.Conv1d(64, 64, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.cell(x)
        for _ in range(3):
            y = torch.tanh(self.layer(y))
        y = y.permute(1, 2, 0)
        return self.conv(self.conv(y))


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(_Steps().eval(), (torch.randn(6, 2, 32),))


@pytest.fixture(scope="module")
def samples() -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(1)
    sizes = torch.logspace(-1, 0.5, 32)
    return [(torch.randn(6, 2, 32) * sizes,) for _ in range(6)]


def _large(module: Any) -> list[int]:
    """Bytes of all weights of more than a hundred numbers that are integers."""
    found = [op for op in module.body.block.ops if isinstance(op, WeightOp)]
    return [op.value.data.size for op in found if "_int" in op.sym_name.data]


@pytest.mark.parametrize("recipe", ["weight-int4", "weight-int8", "8da4w"])
@pytest.mark.parametrize("keywords", [{"rounding": "gptq"}, {"rounding": "mse", "correct_bias": True}], ids=str)
def test_one_weight(
    program: torch.export.ExportedProgram,
    samples: list[tuple[torch.Tensor, ...]],
    recipe: str,
    keywords: dict[str, Any],
) -> None:
    """Rounding by what layers see has as many bytes as rounding to the nearest, and loses less."""
    plain = etir.quantize(program, recipe, calibration=samples, target="etir")
    tuned = etir.quantize(program, recipe, calibration=samples, target="etir", **keywords)
    assert sorted(_large(tuned.module)) == sorted(_large(plain.module))
    sizes = [len(found.compile().buffer) for found in (plain, tuned)]
    # Layers without a bias get one each: those of the cell's inputs and of its states.
    assert sizes[1] <= sizes[0] + (2 * 4 * 4 * 64 + 300 if "correct_bias" in keywords else 0)
    losses = [found.report.output_sqnr for found in (plain, tuned)]
    assert losses[0] is not None and losses[1] is not None
    assert losses[1] > losses[0] + (2 if "gptq" in keywords.values() and recipe != "8da4w" else 0)
