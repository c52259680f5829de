"""What a program raises for by the data of its inputs, it refuses on both runtimes as torch does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from executorch.extension.pybindings import portable_lib
from torch import Tensor, linalg, nn

import etir
from etir.diagnostics import EtirError

GOOD = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
INDEFINITE = torch.tensor([[1.0, 2.0], [2.0, 1.0]])


class Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def asserted(x: Tensor) -> Tensor:
    torch._assert_async((x > 0).all(), "not positive")
    return x.sqrt()


def asserted_number(x: Tensor) -> Tensor:
    torch._assert_async(x[0, 0].clamp(min=0))
    return x.sqrt()


def asserted_in_a_branch(x: Tensor) -> Tensor:
    def checked(x: Tensor) -> Tensor:
        torch._assert_async(x.sum() > 0, "no sum")
        return x * 2

    return torch.cond(x[0, 0] < 100, checked, lambda x: x + 1, (x,))


CHECKS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, str]] = {
    "assert": (asserted, -GOOD, "not positive"),
    "a number that is not 0": (asserted_number, -GOOD, "what the model asserts is not true"),
    "in a branch": (asserted_in_a_branch, -GOOD, "no sum"),
    "inv": (linalg.inv, SINGULAR, "linalg.inv: a matrix is singular"),
    "inv of one of several": (lambda x: linalg.inv(torch.stack([torch.eye(2), x])), SINGULAR, "linalg.inv: "),
    "solve": (lambda x: linalg.solve(x, torch.ones(2)), SINGULAR, "linalg.solve: a matrix is singular"),
    "tensorsolve": (lambda x: linalg.tensorsolve(x, torch.ones(2)), SINGULAR, "linalg.tensorsolve: "),
    "matrix_power": (lambda x: linalg.matrix_power(x, -2), SINGULAR, "linalg.matrix_power: "),
    "cholesky": (linalg.cholesky, INDEFINITE, "linalg.cholesky: a matrix is singular, or has no such"),
    "cholesky of old": (lambda x: torch.ops.aten.cholesky.default(x), INDEFINITE, "cholesky: "),
    "check_errors": (lambda x: linalg.cholesky_ex(x, check_errors=True)[0], INDEFINITE, "linalg.cholesky_ex: "),
    "lu_factor": (lambda x: linalg.lu_factor(x)[0], SINGULAR, "linalg.lu_factor: "),
}


@pytest.mark.parametrize("name", CHECKS)
def test_programs_raise_as_eager_does(name: str) -> None:
    function, bad, message = CHECKS[name]
    program = torch.export.export(Of(function), (GOOD,))
    expected = function(GOOD)
    with pytest.raises(RuntimeError):
        function(bad)
    ours = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    buffer = etir.compile(program, target="executorch").buffer
    stock = portable_lib._load_for_executorch_from_buffer(buffer)
    for run in (lambda x: ours(x)[0], lambda x: stock.run_method("forward", (x,))[0]):
        torch.testing.assert_close(torch.as_tensor(run(GOOD)), expected)
    with pytest.raises(EtirError) as caught:
        ours(bad)
    assert str(caught.value.diagnostics[0].id.id) == "E1208" and message in str(caught.value)
    with pytest.raises(RuntimeError):
        stock.run_method("forward", (bad,))


def test_forms_that_report_do_not_raise() -> None:
    program = torch.export.export(Of(lambda x: linalg.inv_ex(x)[1]), (GOOD,))
    method = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    assert [int(torch.as_tensor(method(x)[0])) for x in (GOOD, SINGULAR)] == [0, 2]


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_every_form_of_a_program(decomposed: bool, strict: bool) -> None:
    program = torch.export.export(Of(asserted), (GOOD,), strict=strict)
    if decomposed:
        program = program.run_decompositions()
    method = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    with pytest.raises(EtirError, match="not positive"):
        method(-GOOD)
