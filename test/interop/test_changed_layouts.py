"""Inputs that are channels last and changed in place, on both runtimes against eager: what is returned, what branches
and loops pass on, what the caller's tensor holds afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.program_runs import assert_same, eager, stock, trace  # noqa: E402


class Program(torch.nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def returned(x: Any) -> Any:
    x.div_(2)
    return (x,)


def returned_with_views(x: Any) -> Any:
    x[:, 1] = 3
    return x, x.permute(0, 2, 3, 1), x * 2, x.sum()


def branches(x: Any) -> Any:
    def then() -> Any:
        x.add_(1)
        return (x * 2,)

    def otherwise() -> Any:
        return (x + 1,)

    x.mul_(0.5)
    (y,) = torch.cond(x.sum() > 0, then, otherwise, ())
    return y, x


def branches_that_give_it(x: Any) -> Any:
    x.mul_(2)
    (y,) = torch.cond(x.sum() > 0, lambda a: (a.clone(),), lambda a: (a.relu(),), (x,))
    return y, x


def carried(x: Any) -> Any:
    x.add_(1)
    _, y = while_loop(lambda k, a: k < 2, lambda k, a: (k + 1, a * 2), (torch.tensor(0), x.contiguous()))
    return x, y


def rows(x: Any) -> Any:
    x.add_(1)
    return x, torch_map(lambda a: a.relu() + 1, x.contiguous())


@pytest.mark.parametrize(
    "function",
    [returned, returned_with_views, branches, branches_that_give_it, carried, rows],
    ids=lambda f: f.__name__,
)
def test_changed_channels_last_inputs(function: Callable[..., Any]) -> None:
    model = Program(function)
    given = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)
    calls = [(given + i,) for i in range(2)]
    with torch.no_grad():
        program = torch.export.export(model, (given.clone(),))
    expected = eager(model, calls)
    loaded = etir.runtime.load(etir.compile(program, target="etir").buffer)
    assert_same(trace(lambda flat: loaded.forward(*flat), calls), expected, "etir", 1e-6)
    assert_same(stock(etir.compile(program, target="executorch").buffer, calls), expected, "stock", 1e-6)
