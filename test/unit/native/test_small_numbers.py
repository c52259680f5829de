"""Numbers below the normal ones: 0 for products on some processors, and kept by everything else."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.native.images import here  # noqa: E402

LEAST = 2.0**-126


class Net(nn.Module):
    """Products by the identity: one alone, one whose elements have a logarithm, and a half of what is given."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Linear(48, 48, bias=False)
        self.logs = nn.Linear(48, 48, bias=False)
        for layer in (self.rows, self.logs):
            layer.weight.data = torch.eye(48)

    def forward(self, x: Any) -> Any:
        product = self.rows(x)
        return product, torch.log(self.logs(x)), x * 0.5


def given() -> Any:
    """Rows from the least number there is to 1, a row for each power of two."""
    return torch.ldexp(torch.ones(150, 48), torch.arange(-149, 1)[:, None].expand(150, 48))


@pytest.mark.parametrize("processor", here())
def test_products_alone_may_take_small_numbers_as_zero(processor: str) -> None:
    module, x = Net().eval(), given()
    exported = torch.export.export(module, (x,))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={processor}}}"])
    product, logs, half = etir.runtime.load(program).forward(x)
    wanted_product, wanted_logs, wanted_half = module(x)
    assert float(wanted_half[0, 0]) == 0.0 and 0.0 < float(wanted_half[1, 0]) < LEAST
    assert torch.equal(half, wanted_half), "what follows a product has them again"
    assert torch.allclose(logs, wanted_logs, rtol=1e-6, atol=0.0), "a logarithm tells them from 0"
    is_small = wanted_product < LEAST
    assert torch.equal(product[~is_small], wanted_product[~is_small])
    small, kept = product[is_small], wanted_product[is_small]
    assert bool(((small == 0.0) | (small == kept)).all())
