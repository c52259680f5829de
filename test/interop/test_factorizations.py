"""Systems, determinants and factorizations on the stock runtime, which has no kernels for any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.extension.pybindings.portable_lib")

import etir  # noqa: E402

from etir_testing.interop.program_runs import Function, assert_same, eager, f32, stock  # noqa: E402

SQUARE = f32(2, 4, 4) + 3 * torch.eye(4)
POSITIVE = SQUARE @ SQUARE.mT + torch.eye(4)
SINGULAR = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]])

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "inverse": (lambda x: (torch.linalg.inv(x), torch.linalg.det(x), torch.linalg.slogdet(x)), (SQUARE,)),
    "exchanges": (lambda x: (torch.linalg.inv(x), torch.linalg.lu(x)), (torch.eye(4)[[2, 0, 3, 1]] * 2,)),
    "solve": (lambda a, x: (torch.linalg.solve(a, x), torch.linalg.solve(a, x[:, :, 0])), (SQUARE, f32(2, 4, 3))),
    "singular": (lambda x: torch.linalg.inv_ex(x).info, (SINGULAR,)),
    "determinant of a singular matrix": (lambda x: torch.linalg.det(x), (SINGULAR,)),
    "lu of tall and wide": (lambda x: (torch.linalg.lu(x), torch.linalg.lu(x.mT.contiguous())), (f32(5, 3),)),
    "cholesky": (
        lambda x, y: (torch.linalg.cholesky(x), torch.linalg.cholesky(x, upper=True), torch.cholesky_solve(y, x)),
        (POSITIVE, f32(2, 4, 2)),
    ),
    "not positive": (lambda x: torch.linalg.cholesky_ex(x).info, (torch.diag(torch.tensor([1.0, -2.0, 3.0])),)),
    "triangular": (
        lambda a, x: [
            torch.linalg.solve_triangular(m, x if left else x.mT, upper=upper, left=left, unitriangular=unit)
            for upper, m in ((True, a.triu()), (False, a.tril()))
            for left in (True, False)
            for unit in (True, False)
        ],
        (SQUARE[0], f32(4, 3)),
    ),
    "qr": (lambda x: (torch.linalg.qr(x), torch.linalg.qr(x, mode="complete"), torch.linalg.qr(x.mT)), (f32(2, 5, 3),)),
    "zero column": (lambda x: torch.linalg.qr(x), (torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, -1.0]]),)),
    "least squares": (lambda a, y: torch.linalg.inv(a.mT @ a) @ (a.mT @ y), (f32(6, 3), f32(6, 1))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_factorizations(name: str) -> None:
    function, inputs = PROGRAMS[name]
    module, calls = Function(function), [inputs]
    program = etir.compile(torch.export.export(module, inputs))
    assert_same(stock(program.buffer, calls), eager(module, calls), "stock runtime", 1e-4)
