"""Small programs whose delegates need no more than the kernels, and more with what is around them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.memory_bound import bytes_of

pytestmark = pytest.mark.filterwarnings("ignore")


class Beside(nn.Module):
    """What a delegate reads is made by the kernels, and its results may be where that was: it has no other memory."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Conv2d(12, 4, 3, padding=1, groups=4)
        self.code = nn.Conv2d(12, 36, 1, groups=3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.kernel(x)), self.code(x)


class Pairs(nn.Module):
    """Examples and keys of any number; a join that lives as long as what attention makes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(x @ y.transpose(1, 2), -1) @ y, torch.cat([x, x * 2], 1)


EXAMPLES, ROWS = torch.export.Dim("examples", max=8), torch.export.Dim("rows", max=20)
KEYS = torch.export.Dim("keys", max=12)
CASES = {
    "no memory of its own": (Beside(), ((2, 12, 7, 9),), None),
    "any number": (Pairs(), ((2, 5, 8), (2, 3, 8)), ({0: EXAMPLES, 1: ROWS}, {0: EXAMPLES, 1: KEYS})),
}


@pytest.mark.parametrize("name", CASES)
def test_no_more_than_without(name: str) -> None:
    torch.manual_seed(0)
    module, shapes, sizes = CASES[name]
    given = tuple(torch.randn(shape) for shape in shapes)
    exported = torch.export.export(module.eval(), given, dynamic_shapes=sizes)
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert program.delegation is not None and program.delegation.backends[0].partitions
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    with torch.no_grad():
        for got, want in zip(etir.runtime.load(program).forward(*given), module(*given), strict=True):
            torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-6)
