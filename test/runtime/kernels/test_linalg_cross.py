"""Vector products of the runtime against torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, build_kernels

DTYPES = [torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.complex64]


@pytest.fixture(scope="module")
def kernels() -> Any:
    return build_kernels("linalg")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cross(kernels: Any, dtype: torch.dtype) -> None:
    for a_shape, b_shape, dim in [
        ((3,), (3,), -1), ((4, 3), (4, 3), 1), ((3, 4), (3, 4), 0), ((2, 3, 5), (2, 3, 5), -2),
        ((2, 1, 3), (1, 4, 3), 2), ((0, 3), (0, 3), 1),
    ]:  # fmt: skip
        made = [torch.randn(s) if dtype.is_floating_point else torch.randint(0, 9, s) for s in (a_shape, b_shape)]
        a, b = (t.to(dtype) for t in made)
        expected = torch.linalg.cross(a, b, dim=dim).contiguous()
        order = tuple(reversed(range(a.dim())))
        turned = a.permute(order).contiguous().permute(order)
        tolerance = 3e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-5
        for x, like in [(a, expected), (turned, expected), (a, expected.permute(order).contiguous().permute(order))]:
            (got,) = kernels.call("aten::linalg_cross.out", [x, b, dim], [like])
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def test_refusals(kernels: Any) -> None:
    a = torch.randn(2, 3)
    for check, arguments in [
        ("KernelShape", [a, a, 0]),
        ("KernelDim", [a, a, 2]),
        ("KernelRank", [a, a[0], 1]),
        ("KernelShape", [a, torch.randn(4, 3), 1]),
        ("KernelDtypeMismatch", [a, a.double(), 1]),
        ("KernelRank", [torch.randn(()), torch.randn(()), 0]),
    ]:
        with pytest.raises(KernelFailure) as failure:
            kernels.call("aten::linalg_cross.out", arguments, [a])
        assert failure.value.check == check
