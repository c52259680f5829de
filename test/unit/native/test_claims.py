"""What the backend claims of operators that it knows some uses of, and why not of the others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.backends.native.truth_rows import MOST_FLAGS

MANY = torch.arange(1 << 15) * 5 % 12
"""Indices that are a weight."""
NEGATIVE, WIDE, TOO_MANY = MANY - 12, MANY % 4, MANY.repeat(16)


class Around(nn.Module):
    """A function between two products."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], **constants: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        for name, constant in constants.items():
            self.register_buffer(name, constant)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.first(x)))


def rejected(function: Callable[[torch.Tensor], torch.Tensor], rows: int = 12) -> dict[str, str]:
    """The operators that are left to the kernels, with the reasons."""
    torch.manual_seed(0)
    exported = torch.export.export(Around(function).eval(), (torch.randn(1, 4, rows, 8),))
    program = etir.compile(exported, target="etir", delegates=["native{cpus=x86-64 arena=free}"])
    assert program.delegation is not None
    return {row.op: row.reason for row in program.delegation.backends[0].rejected}


def at(start: int, end: int, step: int = 1, power: int = 1) -> Callable[[torch.Tensor], torch.Tensor]:
    """Rows by indices that are computed when the program is compiled."""
    return lambda x: x.index_select(2, torch.arange(start, end, step) ** power)


@pytest.mark.parametrize(
    "function",
    [
        at(0, 3),
        at(3, 8, 2),
        at(4, 5),
        at(0, 3, 1, 2),
        at(2, -1, -1),
        lambda x: F.avg_pool2d(x, (2, 1), (2, 1), ceil_mode=True),
        lambda x: F.avg_pool2d(x, (5, 1), (5, 1), ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
        lambda x: torch.where(torch.tensor([True, False] * 4), x, 0.5),
        lambda x: x.masked_fill(torch.tensor([True, False] * 4), 0.5),
        lambda x: torch.where(torch.arange(13).view(1, 1, 13, 1) > 4, x[:, :, :1], 0.5),
        lambda x: x[:, :, 1:].masked_fill((torch.arange(12) > 4)[1:, None], 0.5),
        lambda x: x[:, :, MANY],
        lambda x: 1.0 - x,
    ],
)
def test_claimed(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Indices, slices among them, means of what is in the image, constant truth values, differences of numbers."""
    assert rejected(function) == {}


@pytest.mark.parametrize(
    ("function", "operator", "reason"),
    [
        (at(10, 15, 2), "aten.index_select.default", "outside of the dim"),
        (lambda x: x[:, :, torch.tensor([11, 12])], "aten.index.Tensor", "outside of the dim"),
        (lambda x: x[:, [2, 0], [3, 1]], "aten.index.Tensor", "of several dims"),
        (lambda x: x[:, :, x[0, 0, :4, 0].argsort()], "aten.index.Tensor", "known at run time only"),
        (lambda x: x[:, :, TOO_MANY], "aten.index.Tensor", "more than 16,384"),
        (lambda x: x[:, :, NEGATIVE], "aten.index.Tensor", "more than 16,384"),
        (lambda x: x.flatten(2)[:, WIDE].view(1, -1, 12, 8), "aten.index.Tensor", "more than 16,384"),
        (lambda x: x * F.linear(x, torch.ones(8))[..., None], "aten.linear.default", "one number for each column"),
        (
            lambda x: F.avg_pool2d(x, (4, 1), (4, 1), (1, 0), ceil_mode=True),
            "aten.avg_pool2d.default",
            "windows that are cut",
        ),
    ],
)
def test_rejected(function: Callable[[torch.Tensor], torch.Tensor], operator: str, reason: str) -> None:
    """The kernels do the others."""
    assert reason in rejected(function)[operator]


def test_many_truth_values() -> None:
    """A float each would make a file of them."""
    rows = MOST_FLAGS // 32 + 1
    mask = torch.rand(1, 4, rows, 8) > 0.5
    reason = rejected(lambda x: torch.where(mask, x, 0.5), rows)["aten.where.self"]
    assert "more than 65,536 constant truth values" in reason
