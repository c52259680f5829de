"""Matrix products of the runtime against torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, build_kernels

REAL = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
]  # fmt: skip
DTYPES = [*REAL, torch.complex64, torch.complex128]
# Around the sizes of panels, strips and blocks, for few rows and for many.
SHAPES = [(1, 1, 1), (1, 64, 300), (2, 7, 33), (3, 130, 5), (5, 5, 9), (6, 16, 8), (7, 17, 257), (20, 90, 40),
          (33, 3, 70), (64, 1, 100), (50, 129, 513)]  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> Any:
    return build_kernels("linalg")


def random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    return torch.randint(max(info.min, -(2**40)), min(info.max, 2**40), shape, dtype=torch.int64).to(dtype)


def transposed(t: torch.Tensor) -> torch.Tensor:
    """The same values with the last two dims exchanged in memory."""
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


def batch_last(t: torch.Tensor) -> torch.Tensor:
    """The same values with the first dim innermost."""
    return t.movedim(0, -1).contiguous().movedim(-1, 0)


def check(
    kernels: Any, name: str, arguments: Sequence[Any], expected: torch.Tensor, like: torch.Tensor | None = None
) -> None:
    (got,) = kernels.call(f"aten::{name}", arguments, [expected if like is None else like])
    assert kernels.temp_used == 0
    if expected.dtype in (torch.float16, torch.bfloat16):
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
    elif expected.dtype in (torch.float32, torch.complex64):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=2e-4)
    else:
        torch.testing.assert_close(got, expected)


def reference(f: Any, *tensors: torch.Tensor, **scalars: Any) -> torch.Tensor:
    """16-bit floats in float, where torch's own sums are not better than what is tested."""
    dtype = tensors[0].dtype
    if dtype in (torch.float16, torch.bfloat16):
        return f(*(t.float() for t in tensors), **scalars).to(dtype)
    return f(*tensors, **scalars)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_mm(kernels: Any, dtype: torch.dtype) -> None:
    for m, n, k in SHAPES:
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        check(kernels, "mm.out", [a, b], reference(torch.mm, a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("orders", range(1, 8))
def test_mm_transposed_operands(kernels: Any, dtype: torch.dtype, orders: int) -> None:
    for m, n, k in SHAPES:
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        expected = reference(torch.mm, a, b)
        a = transposed(a) if orders & 1 else a
        b = transposed(b) if orders & 2 else b
        check(kernels, "mm.out", [a, b], expected, transposed(expected) if orders & 4 else None)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (2, -1), (0, 3)])
def test_addmm(kernels: Any, dtype: torch.dtype, beta: int, alpha: int) -> None:
    for m, n, k in [(4, 5, 6), (9, 40, 300), (70, 2, 3)]:
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        for shape in [(m, n), (n,), (1, n), (m, 1), (1,), ()]:
            self = random(*shape, dtype=dtype)
            expected = reference(torch.addmm, self, a, b, beta=beta, alpha=alpha)
            check(kernels, "addmm.out", [self, a, b, beta, alpha], expected)
            if len(shape) == 2:
                check(kernels, "addmm.out", [transposed(self), a, b, beta, alpha], expected, transposed(expected))


def test_addmm_without_beta_ignores_nan(kernels: Any) -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    self = torch.full((3, 5), float("nan"))
    check(kernels, "addmm.out", [self, a, b, 0, 0.5], torch.addmm(self, a, b, beta=0, alpha=0.5))
    (got,) = kernels.call("aten::addmm.out", [self, a, b, 0.5, 0.5], [self])
    assert got.isnan().all()


def test_infinities_and_nans_pass_through(kernels: Any) -> None:
    a, b = torch.randn(8, 20), torch.randn(20, 40)
    a[2, 3], b[4, 5], b[6, 7] = float("inf"), float("-inf"), float("nan")
    (got,) = kernels.call("aten::mm.out", [a, b], [torch.empty(8, 40)])
    torch.testing.assert_close(got, a @ b, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bmm_and_its_sums(kernels: Any, dtype: torch.dtype) -> None:
    for batch, m, n, k in [(3, 4, 5, 6), (2, 1, 33, 70), (4, 30, 1, 7), (1, 9, 9, 9)]:
        a, b = random(batch, m, k, dtype=dtype), random(batch, k, n, dtype=dtype)
        expected = reference(torch.bmm, a, b)
        check(kernels, "bmm.out", [a, b], expected)
        check(kernels, "bmm.out", [transposed(a), batch_last(b)], expected, batch_last(expected))
        for shape in [(batch, m, n), (m, n), (n,), (1, m, 1)]:
            self = random(*shape, dtype=dtype)
            expected = reference(torch.baddbmm, self, a, b, beta=2, alpha=3)
            check(kernels, "baddbmm.out", [self, a, b, 2, 3], expected)
        self = random(m, n, dtype=dtype)
        check(kernels, "addbmm.out", [self, a, b, 2, 3], reference(torch.addbmm, self, a, b, beta=2, alpha=3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_vectors(kernels: Any, dtype: torch.dtype) -> None:
    for m, k in [(1, 1), (5, 3), (37, 300), (300, 2)]:
        a, x, y = random(m, k, dtype=dtype), random(k, dtype=dtype), random(m, dtype=dtype)
        check(kernels, "mv.out", [a, x], reference(torch.mv, a, x))
        check(kernels, "mv.out", [transposed(a), x], reference(torch.mv, a, x))
        for self in (y, y[:1].clone(), y[0].clone()):
            expected = reference(torch.addmv, self, a, x, beta=3, alpha=2)
            check(kernels, "addmv.out", [self, a, x, 3, 2], expected)
        z = random(k, dtype=dtype)
        check(kernels, "dot.out", [x, z], reference(torch.dot, x, z))
        check(kernels, "vdot.out", [x, z], reference(torch.vdot, x, z))
        check(kernels, "outer.out", [y, x], torch.outer(y, x))
        check(kernels, "ger.out", [y, x], torch.outer(y, x))
        check(kernels, "addr.out", [a, y, x, 2, 3], reference(torch.addr, a, y, x, beta=2, alpha=3))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_linear(kernels: Any, dtype: torch.dtype) -> None:
    def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        product = torch.matmul(x, w.t())
        return product if b is None else product + b

    for shape, n in [((5,), 7), ((1, 300), 65), ((4, 33), 6), ((2, 3, 20), 18), ((2, 0, 20), 5), ((2, 2, 2, 70), 37)]:
        x, w, b = random(*shape, dtype=dtype), random(n, shape[-1], dtype=dtype), random(n, dtype=dtype)
        check(kernels, "linear.out", [x, w, b], reference(linear, x, w, b))
        check(kernels, "linear.out", [x, transposed(w), None], reference(linear, x, w))
        if len(shape) > 2:
            expected = reference(linear, x, w, b)
            check(kernels, "linear.out", [batch_last(x), w, b], expected, batch_last(expected))


@pytest.mark.parametrize("over", [None, 0], ids=["apart", "in place"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_linear_add(kernels: Any, dtype: torch.dtype, over: int | None) -> None:
    """The result over what is added, and apart from it; with a bias and without."""
    shapes = [((5,), 7), ((1, 300), 65), ((4, 33), 6), ((2, 3, 20), 18), ((2, 0, 20), 5), ((2, 2, 2, 70), 37),
              ((3, 0), 4), ((90, 300), 130), ((40, 7), 1)]  # fmt: skip
    for shape, n in shapes:
        x, w, b = random(*shape, dtype=dtype), random(n, shape[-1], dtype=dtype), random(n, dtype=dtype)
        addend = random(*shape[:-1], n, dtype=dtype)
        for weight, bias in ((w, b), (w, None), (transposed(w), b)):
            more = torch.zeros(n, dtype=torch.float64) if bias is None else bias.double()
            expected = (x.double() @ w.double().t() + more + addend.double()).to(dtype)
            for layout in (torch.clone, batch_last) if len(shape) == 3 else (torch.clone,):
                given = [layout(addend), layout(x), weight, bias]
                kept = given[0].clone()
                at = over if addend.numel() else None
                (got,) = kernels.call("etir::linear_add.out", given, [layout(expected)], over=at)
                tolerance = {torch.float64: 1e-10, torch.float32: 2e-4}.get(dtype, 4e-2)
                torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
                assert over is not None or torch.equal(given[0], kept)


def test_linear_add_refuses(kernels: Any) -> None:
    x, w, b, r = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5), torch.randn(3, 5)

    def refused(check: str, *arguments: Any, like: torch.Tensor = r) -> None:
        with pytest.raises(KernelFailure) as failure:
            kernels.call("etir::linear_add.out", list(arguments), [like])
        assert failure.value.check == check

    refused("KernelShape", torch.randn(1, 5), x, w, b)
    refused("KernelRank", torch.randn(5), x, w, b)
    refused("KernelDimOrder", transposed(r), x, w, b)
    refused("KernelShape", r, x, w, torch.randn(1))
    refused("KernelRank", r, x, w[0].clone(), None, like=torch.empty(3))
    refused("KernelDtypeMismatch", r.double(), x, w, b)
    whole = [t.to(torch.int64) for t in (r, x, w, b)]
    refused("KernelDtype", *whole, like=whole[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16, torch.complex128], ids=str)
def test_matmul(kernels: Any, dtype: torch.dtype) -> None:
    for a_shape, b_shape in [
        ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
        ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)), ((1, 3, 4), (2, 4, 5)),
        ((2, 0, 4), (4, 5)), ((2, 3, 0), (0, 5)), ((5, 1, 4), (5, 4, 40)),
    ]:  # fmt: skip
        a, b = random(*a_shape, dtype=dtype), random(*b_shape, dtype=dtype)
        expected = reference(torch.matmul, a, b)
        check(kernels, "matmul.out", [a, b], expected)
        if len(a_shape) == 3 and expected.dim() == 3:
            check(kernels, "matmul.out", [batch_last(a), b], expected, batch_last(expected))


def test_int_mm(kernels: Any) -> None:
    for m, n, k in [(3, 4, 5), (32, 24, 300), (1, 8, 1000)]:
        a, b = random(m, k, dtype=torch.int8), random(k, n, dtype=torch.int8)
        expected = (a.int().double() @ b.double()).int()
        check(kernels, "_int_mm.out", [a, b], expected)
        check(kernels, "_int_mm.out", [a, transposed(b)], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16], ids=str)
def test_empty(kernels: Any, dtype: torch.dtype) -> None:
    for m, n, k in [(0, 4, 5), (3, 0, 5), (3, 4, 0), (0, 0, 0)]:
        a, b = random(m, k, dtype=dtype), random(k, n, dtype=dtype)
        check(kernels, "mm.out", [a, b], torch.mm(a, b))
        self = random(m, n, dtype=dtype)
        check(kernels, "addmm.out", [self, a, b, 2, 1], torch.addmm(self, a, b, beta=2))
        a3, b3 = random(0, m, k, dtype=dtype), random(0, k, n, dtype=dtype)
        check(kernels, "bmm.out", [a3, b3], torch.bmm(a3, b3))
        check(kernels, "addbmm.out", [self, a3, b3, 2, 1], self * 2)
    x = random(0, dtype=dtype)
    check(kernels, "dot.out", [x, x], torch.zeros((), dtype=dtype))


def test_refusals(kernels: Any) -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    out = torch.empty(3, 5)

    def refused(check: str, name: str, arguments: list[Any], like: torch.Tensor) -> None:
        with pytest.raises(KernelFailure) as failure:
            kernels.call(f"aten::{name}", arguments, [like])
        assert failure.value.check == check

    refused("KernelDtypeMismatch", "mm.out", [a, b.double()], out)
    refused("KernelDtypeMismatch", "mm.out", [a, b], out.double())
    refused("KernelDtype", "mm.out", [a > 0, b > 0], out > 0)
    refused("KernelRank", "mm.out", [a, b[0]], out)
    refused("KernelShape", "mm.out", [a, b[:3].clone()], out)
    refused("KernelShape", "bmm.out", [a[None], torch.randn(2, 4, 5)], out[None])
    refused("KernelShape", "addmm.out", [torch.randn(2, 5), a, b, 1, 1], out)
    refused("KernelRank", "addmm.out", [torch.randn(1, 3, 5), a, b, 1, 1], out)
    refused("KernelShape", "linear.out", [a, torch.randn(5, 3), None], out)
    refused("KernelShape", "linear.out", [a, torch.randn(5, 4), torch.randn(4)], out)
    refused("KernelShape", "matmul.out", [torch.randn(2, 3, 4), torch.randn(3, 4, 5)], torch.empty(3, 3, 5))
    refused("KernelRank", "matmul.out", [torch.randn(()), a], out)
    refused("KernelShape", "dot.out", [a[0], b[:, 0].clone()[:3].clone()], torch.empty(()))
    refused("KernelResizeRank", "mm.out", [a, b], torch.empty(15))
    refused("KernelResize", "mm.out", [a, b], torch.empty(2, 2))
    ints = torch.ones(2, 2, dtype=torch.int32)
    refused("KernelOverflow", "addmm.out", [ints, ints, ints, float("nan"), 1], ints)


@pytest.mark.parametrize(("beta", "alpha"), [(1, 1), (0, 1), (1, 0), (2.5, True)])
def test_outer_products_of_bools(kernels: Any, beta: float, alpha: float) -> None:
    x, y = torch.tensor([True, False, True]), torch.tensor([False, True, True, False])
    (found,) = kernels.call("aten::outer.out", [x, y], [torch.empty(3, 4, dtype=torch.bool)])
    assert torch.equal(found, torch.outer(x, y))
    for addend in (torch.tensor([True, False, False, False]), torch.eye(3, 4).bool()):
        wanted = (addend if beta else torch.zeros_like(addend)) | (torch.outer(x, y) & bool(alpha))
        (found,) = kernels.call("aten::addr.out", [addend, x, y, beta, alpha], [wanted])
        assert torch.equal(found, wanted)
