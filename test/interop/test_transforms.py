"""Transforms of torch.func inside a model: they are carried out before the program is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.extension.pybindings import portable_lib
from torch._higher_order_ops.associative_scan import associative_scan
from torch.export import Dim
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError


class Of(torch.nn.Module):
    """A function with a weight and a state as a module."""

    count: torch.Tensor

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0, 0.25]))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        self.count.add_(1)
        return self.function(x, y, self.weight), self.count * 1


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "vmap": lambda x, y, w: torch.vmap(lambda a, b: (a * b * w).sum())(x, y),
    "vmap of one": lambda x, y, w: torch.vmap(lambda a: (a[None] * y).softmax(-1) @ w, in_dims=0)(x),
    # Which torch maps over the batch.
    "associative_scan": lambda x, y, w: associative_scan(lambda a, b: a * b, x * y * w, 0, combine_mode="generic"),
    "jvp": lambda x, y, w: torch.func.jvp(lambda a: (a.sin() * w).sum(-1), (x,), (y,)),
}


# A jvp makes torch.export fix the sizes.
@pytest.mark.parametrize(
    ("name", "dynamic"), [("vmap", True), ("vmap of one", False), ("associative_scan", False), ("jvp", False)]
)
def test_transforms_run_on_both_runtimes(name: str, dynamic: bool) -> None:
    model = Of(FUNCTIONS[name])
    n = Dim("n", min=2, max=8)
    shapes: Any = ({0: n}, {0: n}) if dynamic else None
    program = torch.export.export(Of(FUNCTIONS[name]), (torch.randn(3, 4), torch.randn(3, 4)), dynamic_shapes=shapes)
    ours = etir.runtime.load(etir.compile(program, target="etir").buffer)["forward"]
    stock = portable_lib._load_for_executorch_from_buffer(etir.compile(program, target="executorch").buffer)
    with torch.no_grad():
        for size in (3, 7, 2) if dynamic else (3, 3):
            given = (torch.randn(size, 4), torch.randn(size, 4))
            expected = pytree.tree_leaves(model(*given))
            for found in (ours(*given), stock.run_method("forward", given)):
                torch.testing.assert_close(list(found), expected)


def test_what_torch_does_not_carry_out_is_an_error() -> None:
    model = Of(lambda x, y, w: torch.func.grad(lambda a: (a * y * w).tanh().sum())(x))
    program = torch.export.export(model, (torch.randn(3, 4), torch.randn(3, 4)))
    with pytest.raises(EtirError, match=r"E0410.*'forward' has a transform of torch\.func") as caught:
        etir.compile(program, target="etir")
    assert "write" in str(caught.value)
