"""Values that kernels of the stock runtime get wrong, in programs that do not call them then, on both runtimes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import etir  # noqa: E402
import etir.runtime  # noqa: E402

from etir_testing.interop.program_runs import assert_same, eager, stock, trace  # noqa: E402


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return (self.function(*args),)


def agree(function: Callable[..., Any], *args: Any) -> None:
    model = Applied(function)
    program = torch.export.export(model, args)
    expected = eager(model, [args])
    loaded = etir.runtime.load(etir.compile(program, target="etir").buffer)
    assert_same(trace(lambda flat: loaded.forward(*flat), [args]), expected, "etir", 0)
    assert_same(stock(etir.compile(program, target="executorch").buffer, [args]), expected, "stock", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_sign_of_nan(dtype: torch.dtype) -> None:
    """0, as in eager; the kernel gives NaN."""
    agree(torch.sign, torch.tensor([float("nan"), -0.0, float("-inf"), 3.0], dtype=dtype))


def test_sign_of_integers() -> None:
    agree(torch.sign, torch.tensor([-128, 0, 127], dtype=torch.int8))


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
@pytest.mark.parametrize(
    "other",
    [torch.tensor([1.0, 0.0, 2.0**24]), torch.tensor([1, 0, 2**24 + 1]), torch.tensor(1.0)],
    ids=["float", "long", "rank0"],
)
def test_comparisons_of_doubles_with_others(compare: Callable[..., Any], other: Any) -> None:
    """In float64: the kernels compare as float."""
    doubles = torch.tensor([1 + 1e-12, 2.5e-308, 2.0**24 + 1], dtype=torch.float64)
    agree(compare, doubles, other)
    agree(compare, other, doubles)
