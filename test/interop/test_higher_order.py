"""Operators of higher order that are a computation instead of control flow, on both runtimes against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.extension.pybindings import portable_lib
from torch import Tensor, nn
from torch._higher_order_ops import out_dtype
from torch.utils import _pytree as pytree

import etir

aten = torch.ops.aten
A = torch.tensor([[100, -128, 127, 3], [-77, 90, -1, 64]], dtype=torch.int8)
"""Products of which overflow 8 bits."""


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def wide(operator: Any, *args: Any, dtype: torch.dtype = torch.int32) -> Tensor:
    return out_dtype(operator, dtype, *args)


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "mm": lambda x: wide(aten.mm.default, x, x.t()),
    "linear": lambda x: wide(aten.linear.default, x, x),
    "conv2d": lambda x: wide(aten.conv2d.default, x.reshape(1, 1, 2, 4), x[:, :2].reshape(1, 1, 2, 2)),
    "mul": lambda x: (wide(aten.mul.Tensor, x, x), wide(aten.mul.Scalar, x, 300)),
    "mul by a float": lambda x: wide(aten.mul.Scalar, x, 2.5, dtype=torch.float32),
    "div": lambda x: wide(aten.div.Tensor, x, x.abs() // 2 + 1, dtype=torch.float32),
    "hints_wrapper": lambda x: torch.ops.higher_order.hints_wrapper(
        lambda t: (torch.relu(t),), (x.float(),), {}, hints={"where": "anywhere"}
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operators(name: str) -> None:
    model = Of(FUNCTIONS[name])
    program = torch.export.export(model, (A,))
    expected = pytree.tree_leaves(model(A))
    ours = etir.runtime.load(etir.compile(program, target="etir"))["forward"](A)
    stock = etir.compile(program, target="executorch").buffer
    for found in (list(ours), portable_lib._load_for_executorch_from_buffer(stock).run_method("forward", (A,))):
        assert [t.dtype for t in found] == [t.dtype for t in expected]
        torch.testing.assert_close(found, expected)
