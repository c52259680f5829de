"""Forms in which torch exports a program that differ from what its user wrote, and how they come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import etir
from etir.dialects.context import EtContext
from etir.interpret.interpreter import Interpreter
from etir.lowering.functionalize import FunctionalizePass
from etir.lowering.import_fx import import_program
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline


class Module(nn.Module):
    """A module from a function."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Values of both signs, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", ["addcmul_", "addcdiv_"])
def test_strict_export_writes_a_fused_multiply_add(name: str, dtype: torch.dtype) -> None:
    """Its operator has no kernel; a number stands in the place of one of its tensors."""
    x, y, z = (numbers(*shape, dtype=dtype) for shape in ((2, 3), (3,), (1, 3)))
    module = Module(lambda x, y, z: getattr(x.clone(), name)(y, z, value=0.25))
    program = torch.export.export(module, (x, y, z), strict=True)
    imported = import_program(program)
    assert "prims.fma" in str(imported)
    run_pipeline(EtContext(), imported, pipeline(stop="edge"))
    (got,) = Interpreter(imported, "torch").run([x, y, z])
    torch.testing.assert_close(got, module(x, y, z))
    assert not any("fma" in name for name in etir.compile(program).operators)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize(
    "function", [lambda x: x // 2, lambda x: torch.where(x > 1, x, 2), lambda x: x**2, lambda x: x // 2.5]
)
def test_numbers_beside_scalars_keep_the_type(function: Callable[[Tensor], Tensor], dtype: str) -> None:
    """A number that becomes a tensor without dims does not take part in promotion as one."""
    x = torch.tensor(5).to(getattr(torch, dtype))
    imported = import_program(torch.export.export(Module(function), (x,)))
    run_pipeline(EtContext(), imported, pipeline(stop="edge"))
    (got,) = Interpreter(imported, "torch").run([x])
    assert got.dtype == function(x).dtype and torch.equal(got, function(x))


def _after_cond(x: Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))
    y.reshape(-1).relu_()
    return y


def _after_loop(x: Tensor) -> Any:
    from torch._higher_order_ops.while_loop import while_loop

    _, y = while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))
    y.reshape(-1).relu_()
    return y


def _after_scan(x: Tensor) -> Any:
    from torch._higher_order_ops.scan import scan

    last, rows = scan(lambda c, x: (c + x, c * x), x[0].clone(), x)
    last.reshape(-1, 1).relu_()
    rows.reshape(-1).neg_()
    return last, rows


@pytest.mark.parametrize("function", [_after_cond, _after_loop, _after_scan])
def test_results_of_control_flow_have_known_strides(function: Callable[[Tensor], Any]) -> None:
    """So that it is known that ``reshape`` gives a view of them."""
    x = numbers(2, 3)
    imported = import_program(torch.export.export(Module(function), (x,)))
    FunctionalizePass().apply(EtContext(), imported)
    expected = function(x.clone())
    got = Interpreter(imported, "torch").run([x])
    for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(a, b)
