"""Fills, conversions and ranges against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from etir_testing.runtime.elementwise_oracle import COMPLEX, INTS, REAL, REAL_BOOL, check, kernels, sample
from etir_testing.runtime.kernels import KernelFailure

WIDE = [torch.uint16, torch.uint32, torch.uint64]
EVERY = [*REAL_BOOL, *COMPLEX, torch.complex32, *WIDE]


def run(name: str, arguments: list[Any], like: torch.Tensor) -> torch.Tensor:
    return kernels().call(name, arguments, [like])[0]


@pytest.mark.parametrize("dtype", EVERY)
def test_constant_tensors(dtype: torch.dtype) -> None:
    for shape in ([2, 3], [], [0, 4], [700]):
        like = torch.empty(shape, dtype=dtype)
        for name, arguments, wanted in (
            ("full", [shape, 3], 3), ("zeros", [shape], 0), ("ones", [shape], 1), ("full_like", [like, 5, None], 5),
            ("zeros_like", [like, None], 0), ("ones_like", [like, None], 1), ("new_full", [like, shape, 2], 2),
            ("new_zeros", [like, shape], 0), ("new_ones", [like, shape], 1), ("fill.Scalar", [like, 9], 9),
            ("fill.Tensor", [like, torch.tensor(9)], 9),
        ):  # fmt: skip
            full = f"aten::{name}_out" if "." in name else f"aten::{name}.out"
            found = run(full, arguments, like)
            assert found.tolist() == torch.full(shape, wanted).to(dtype).tolist()
        for name, arguments in (
            ("empty", [shape, None]), ("empty_like", [like, None]), ("new_empty", [like, shape]),
        ):  # fmt: skip
            assert list(run(f"aten::{name}.out", arguments, like).shape) == shape
    assert run("aten::scalar_tensor.out", [2], torch.empty((), dtype=dtype)) == torch.tensor(2).to(dtype)


def test_numbers_are_converted() -> None:
    assert run("aten::full.out", [[2], 3.9], torch.empty(2, dtype=torch.int32)).tolist() == [3, 3]
    assert run("aten::full.out", [[2], -1], torch.empty(2, dtype=torch.uint8)).tolist() == [255, 255]
    assert run("aten::full.out", [[1], float("-inf")], torch.empty(1).half()).tolist() == [float("-inf")]
    assert run("aten::full.out", [[1], 0.25], torch.empty(1, dtype=torch.bool)).tolist() == [True]
    assert run("aten::full.out", [[1], True], torch.empty(1)).tolist() == [1.0]
    big = torch.iinfo(torch.int64).min
    assert run("aten::full.out", [[1], big], torch.empty(1, dtype=torch.int64)).tolist() == [big]


@pytest.mark.parametrize(
    ("dtype", "number"),
    [(torch.int8, 128), (torch.int8, 1e3), (torch.uint8, 256), (torch.int64, 1e19), (torch.int32, float("nan")),
     (torch.float16, 1e5), (torch.float32, 1e300), (torch.int64, float("inf"))],
)  # fmt: skip
def test_numbers_out_of_range(dtype: torch.dtype, number: float) -> None:
    with pytest.raises(KernelFailure, match="KernelOverflow"):
        run("aten::full.out", [[2], number], torch.empty(2, dtype=dtype))


def test_conversions() -> None:
    for source, target in itertools.product(EVERY, EVERY):
        values = torch.tensor([0, 1, 2, 100, 0, 7] * 60)
        if not source.is_complex and source.is_floating_point and target not in WIDE:
            values = values * 0.75
        x = values.to(source)
        torch.testing.assert_close(
            run("aten::_to_copy.out", [x, False, None], torch.empty(360, dtype=target)), x.to(target), rtol=0, atol=0
        )


def test_conversions_round_and_keep_special_values() -> None:
    special = torch.tensor([float("inf"), -float("inf"), float("nan"), 1e-8, 65519.0, 65520.0, 3e38, 1.00048828125])
    for target in (torch.float16, torch.bfloat16, torch.float64, torch.bool):
        check("aten::_to_copy.out", [special, False, None], target)
    check("aten::_to_copy.out", [special.double() * 10, False, None], torch.float32)
    check("aten::_to_copy.out", [torch.tensor([-1.0, 300.7, -129.5]), False, None], torch.int8)
    check("aten::_to_copy.out", [torch.tensor([2**53 + 1, -(2**62)]), False, None], torch.int32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.complex128])
def test_copies_change_layout_and_broadcast(dtype: torch.dtype) -> None:
    last = torch.channels_last
    x = sample(dtype, 2, 3, 4, 5, special=False)
    for like in (torch.empty(2, 3, 4, 5), torch.empty(2, 3, 4, 5).to(memory_format=last)):
        for source in (x, x.to(memory_format=last)):
            found = run("aten::_to_copy.out", [source, False, None], like.to(dtype))
            assert torch.equal(found, x) and found.stride() == like.stride()
            found = run(
                "aten::copy.out",
                [like, source[:, :, :1].contiguous(), False],
                like.double() if dtype == torch.float32 else like.to(dtype),
            )
            assert torch.equal(found, x[:, :, :1].expand(2, 3, 4, 5).to(found.dtype))


def test_copy_in_place() -> None:
    target = torch.zeros(3, 4)
    kernels().call("aten::copy_", [target, torch.tensor([1, 2, 3, 4], dtype=torch.int16), False])
    assert target.tolist() == [[1, 2, 3, 4]] * 3
    with pytest.raises(KernelFailure, match="KernelShape"):
        kernels().call("aten::copy_", [target, torch.ones(3), False])
    with pytest.raises(KernelFailure, match="KernelRank"):
        kernels().call("aten::copy_", [target, torch.ones(1, 3, 4), False])


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.complex128])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (1, 3, 16, 16), (2, 3, 33, 31), (2, 17, 6, 4)])
def test_images_change_their_dim_order(dtype: torch.dtype, sizes: tuple[int, ...]) -> None:
    count = 2 * 3 * 33 * 31
    x = torch.arange(count).remainder(251).sub(120).to(dtype)[: torch.Size(sizes).numel()].reshape(sizes)
    last = torch.empty(sizes, dtype=dtype).to(memory_format=torch.channels_last)
    there = run("dim_order_ops::_to_dim_order_copy.out", [x, False, [0, 2, 3, 1]], last)
    assert torch.equal(there, x) and there.is_contiguous(memory_format=torch.channels_last)
    back = run("dim_order_ops::_to_dim_order_copy.out", [there, False, [0, 1, 2, 3]], torch.empty_like(x))
    assert torch.equal(back, x) and back.is_contiguous()


def test_dim_orders() -> None:
    x = sample(torch.float32, 2, 3, 4, 5)
    last = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    order = [0, 2, 3, 1]
    found = run("dim_order_ops::_to_dim_order_copy.out", [x.double(), False, order], last)
    torch.testing.assert_close(found, x, equal_nan=True)
    assert found.stride() == last.stride()
    torch.testing.assert_close(run("dim_order_ops::_clone_dim_order.out", [x, False, order], last), x, equal_nan=True)
    torch.testing.assert_close(run("dim_order_ops::_clone_dim_order.out", [x, False, None], last), x, equal_nan=True)
    assert run("dim_order_ops::_empty_dim_order.out", [[2, 3, 4, 5], order], last).shape == x.shape
    for name, arguments in (("_to_dim_order_copy", [x, False, order]), ("_empty_dim_order", [[2, 3, 4, 5], order])):
        with pytest.raises(KernelFailure, match="KernelDimOrder"):
            run(f"dim_order_ops::{name}.out", arguments, x)


@pytest.mark.parametrize("name", ["et_copy::_h2d_copy.out", "et_copy::_d2h_copy.out", "llama::fallback.out"])
def test_plain_copies(name: str) -> None:
    x = sample(torch.int16, 3, 7)
    assert torch.equal(run(name, [x], x), x)
    with pytest.raises(KernelFailure, match="KernelDtypeMismatch"):
        run(name, [x], x.int())


@pytest.mark.parametrize("dtype", REAL)
def test_arange(dtype: torch.dtype) -> None:
    check("aten::arange.out", [70], dtype)
    check("aten::arange.start_out", [3, 40, 2], dtype)
    check("aten::arange.start_out", [40, 3, -7 if dtype != torch.uint8 else -1], dtype)
    check("aten::arange.start_out", [5, 5, 1], dtype)
    if dtype.is_floating_point:
        check("aten::arange.start_out", [0.5, 9, 0.1], dtype)
        check("aten::arange.out", [4.5], dtype)


@pytest.mark.parametrize("arguments", [[0, 5, 0], [0, 5, -1], [0, float("nan"), 1], [0, float("inf"), 1], [0, 1e30, 1]])
def test_arange_refuses(arguments: list[float]) -> None:
    with pytest.raises(KernelFailure):
        run("aten::arange.start_out", arguments, torch.empty(5))


@pytest.mark.parametrize("dtype", [*INTS, torch.float16, torch.float32, torch.float64])
def test_linspace(dtype: torch.dtype) -> None:
    for steps in (0, 1, 2, 7, 64, 65):
        check("aten::linspace.out", [0, 63, steps], dtype)
        if dtype.is_floating_point:
            tolerances = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float16 else {}
            check("aten::linspace.out", [2.5, -1.25, steps], dtype, **tolerances)
            check("aten::linspace.Tensor_Scalar_out", [torch.tensor(2.5), -1, steps], dtype, **tolerances)
            check("aten::logspace.out", [0, 2, steps, 10.0], dtype)
    with pytest.raises(KernelFailure, match="KernelArgument"):
        run("aten::linspace.out", [0, 1, -1], torch.empty(1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_sequences_of_integers_cut_their_ends(dtype: torch.dtype) -> None:
    """The ends become integers before anything is counted; a base does not."""
    for start, end, steps in ((4.3, 50, 50), (4.3, 1, 50), (0, 7.9, 5), (3.7, 9.2, 1)):
        check("aten::linspace.out", [start, end, steps], dtype)
    for start, end, steps, base in ((0, 1.2, 2, 10.0), (4.3, 0, 4, 3.9), (1, 4.9, 4, 2.0)):
        check("aten::logspace.out", [start, end, steps, base], dtype)
