"""Programs on int8 have the same bits for any number of threads, with the kernels that this processor chooses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
import etir.runtime


class _Net(nn.Module):
    """Windows of several strides, groups and sizes over an odd image, then products of many rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 3, 2, 1)
        self.depthwise, self.point = nn.Conv2d(40, 40, 3, 1, 1, groups=40), nn.Conv2d(40, 72, 1)
        self.grouped, self.wide = nn.Conv2d(72, 72, 3, 1, 1, groups=2), nn.Conv2d(72, 96, 5, 1, 2)
        self.up, self.down = nn.Linear(96, 333), nn.Linear(333, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.point(F.relu(self.depthwise(F.relu(self.first(x))))))
        y = F.relu(self.wide(F.relu(self.grouped(y))))
        return self.down(F.relu(self.up(y.flatten(2).transpose(1, 2))))


@cache
def _compiled(recipe: str) -> tuple[etir.Program, np.ndarray]:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 47, 39)
    with torch.no_grad():
        exported = torch.export.export(_Net().eval(), (x,))
    given = [(x,)] if recipe == "static-int8" else ()
    return etir.quantize(exported, recipe, calibration=given, target="etir").compile(), x.numpy()


@pytest.mark.parametrize("recipe", ["static-int8", "dynamic-int8", "8da4w"])
def test_threads_do_not_change_bits(recipe: str) -> None:
    program, x = _compiled(recipe)

    def run(threads: int) -> np.ndarray:
        method = etir.runtime.load(program, threads=threads)["forward"]
        method(x)
        return np.asarray(method(x)[0]).copy()

    one = run(1)
    assert np.isfinite(one).all() and one.std() > 0
    for threads in (2, 3):
        np.testing.assert_array_equal(run(threads), one)
