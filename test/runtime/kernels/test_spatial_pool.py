"""Pooling kernels against torch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels
from etir_testing.runtime.spatial_cases import LAYOUTS, TOLERANCE, make, operator, relaid

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("spatial")


def check(
    kernels: Kernels, name: str, arguments: list[Any], layout: str = "plain", out_layout: str | None = None
) -> None:
    """The kernel's results are torch's, with the inputs and results in the given layouts."""
    expected = operator(name)(*[a.contiguous() if isinstance(a, torch.Tensor) else a for a in arguments])
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    given = [relaid(a, layout) if isinstance(a, torch.Tensor) else a for a in arguments]
    likes = [relaid(e, out_layout or layout) for e in expected]
    results = kernels.call(f"aten::{name}", given, likes)
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        torch.testing.assert_close(
            result.contiguous(), wanted.contiguous(), equal_nan=True, **TOLERANCE.get(wanted.dtype, {})
        )


# shape, kernel, stride, padding, dilation, ceil_mode
POOLS_2D = [
    ((2, 3, 9, 11), [3, 3], [2, 2], [1, 1], [1, 1], False),
    ((2, 19, 9, 11), [3, 2], [1, 1], [1, 0], [1, 1], True),
    ((1, 8, 12, 150), [2, 3], [], [0, 1], [2, 2], True),
    ((3, 10, 7), [2], [3], [1], [1], True),
    ((2, 70, 5, 6), [5, 5], [5, 5], [2, 2], [1, 1], True),
    ((1, 1, 1, 1), [1, 1], [1, 1], [0, 0], [1, 1], False),
    ((0, 3, 6, 6), [2, 2], [2, 2], [0, 0], [1, 1], False),
]
POOLS_3D = [
    ((2, 3, 5, 6, 7), [2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 1, 1], True),
    ((1, 9, 4, 5, 6), [2], [], [0], [1], False),
    ((4, 5, 6, 7), [2, 2, 2], [1, 2, 3], [1, 0, 1], [2, 1, 2], False),
]


@pytest.mark.parametrize(("layout", "out_layout"), LAYOUTS)
@pytest.mark.parametrize("case", POOLS_2D + POOLS_3D)
def test_max_pool(kernels: Kernels, case: Any, layout: str, out_layout: str) -> None:
    shape, *arguments = case
    name = "max_pool2d_with_indices.out" if case in POOLS_2D else "max_pool3d_with_indices.out"
    check(kernels, name, [make(shape, torch.float32), *arguments], layout, out_layout)


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_max_pool_dtypes(kernels: Kernels, dtype: torch.dtype) -> None:
    for layout in ("plain", "last"):
        x = make((2, 9, 8, 9), dtype)
        check(kernels, "max_pool2d_with_indices.out", [x, [3, 3], [2, 2], [1, 1], [1, 1], True], layout)


@pytest.mark.parametrize("layout", ["plain", "last"])
def test_max_pool_nan_infinity_and_ties(kernels: Kernels, layout: str) -> None:
    x = torch.randint(0, 3, (1, 9, 8, 8)).float()
    x[0, 0, 2:4, 2:5] = float("nan")
    x[0, 1] = float("-inf")
    x[0, 2, 3, 3] = float("inf")
    check(kernels, "max_pool2d_with_indices.out", [x, [3, 3], [1, 1], [1, 1], [1, 1], False], layout)
    check(kernels, "max_pool2d_with_indices.out", [x, [2, 2], [2, 2], [1, 1], [2, 2], True], layout)


@pytest.mark.parametrize("case", POOLS_2D + POOLS_3D)
def test_max_pool_without_indices(kernels: Kernels, case: Any) -> None:
    """The same values in every dtype and layout, NaN and infinities among them, as with indices."""
    shape, *arguments = case
    rank = 2 if case in POOLS_2D else 3
    for dtype, (layout, out_layout) in itertools.product(FLOATS + INTS, LAYOUTS):
        x = make(shape, dtype)
        if dtype in FLOATS:
            flat = x.view(-1)
            flat[:: max(flat.numel() // 5, 2)] = float("nan")
            flat[1 :: max(flat.numel() // 3, 2)] = float("-inf")
        expected, _ = operator(f"max_pool{rank}d_with_indices")(x, *arguments)
        (result,) = kernels.call(
            f"etir::max_pool{rank}d.out", [relaid(x, layout), *arguments], [relaid(expected, out_layout)]
        )
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["aten::max_pool2d_with_indices.out", "etir::max_pool2d.out"])
def test_max_pool_of_windows_beside_the_image(kernels: Kernels, name: str) -> None:
    """A dilated window may have no element inside: minus infinity, as in torch."""
    for dtype in FLOATS:
        arguments = [make((1, 1, 3, 3), dtype), [2, 2], [1, 1], [1, 1], [4, 4], False]
        expected = operator("max_pool2d_with_indices")(*arguments)
        results = kernels.call(name, arguments, list(expected[: 1 if name.startswith("etir") else 2]))
        assert expected[0].tolist() == results[0].tolist() == [[[[float("-inf")]]]]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64])
@pytest.mark.parametrize("case", POOLS_2D)
def test_avg_pool2d(kernels: Kernels, case: Any, dtype: torch.dtype) -> None:
    shape, kernel, stride, padding, _, ceil_mode = case
    if max(padding) * 2 > min(kernel):
        padding = [0]
    for (layout, out_layout), (count, divisor) in zip(
        LAYOUTS, itertools.cycle([(True, None), (False, None), (True, 3), (False, -1)]), strict=False
    ):
        arguments = [make(shape, dtype), kernel, stride, padding, ceil_mode, count, divisor]
        check(kernels, "avg_pool2d.out", arguments, layout, out_layout)


def test_avg_pool1d_and_3d(kernels: Kernels) -> None:
    for dtype in (torch.float32, torch.int64):
        for shape in ((2, 3, 17), (3, 17)):
            for count in (True, False):
                arguments = [make(shape, dtype), [3], [2], [1], True, count]
                expected = torch.nn.functional.avg_pool1d(*arguments)
                (result,) = kernels.call("aten::avg_pool1d.out", arguments, [expected])
                torch.testing.assert_close(result, expected)
    for layout in ("plain", "last"):
        for count, divisor in ((True, None), (False, None), (True, 5)):
            arguments = [make((2, 9, 6, 7, 8), torch.float64), [2, 3, 3], [2, 1, 2], [1, 1, 0], True, count, divisor]
            check(kernels, "avg_pool3d.out", arguments, layout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_avg_pool_backward(kernels: Kernels, dtype: torch.dtype) -> None:
    for count, divisor, layout in ((True, None, "plain"), (False, None, "last"), (True, 4, "odd")):
        x = make((2, 3, 9, 8), dtype)
        window = [[3, 2], [2, 1], [1, 1], True, count, divisor]
        grad = make(tuple(torch.ops.aten.avg_pool2d(x, *window).shape), dtype, 1)
        check(kernels, "avg_pool2d_backward.grad_input", [grad, x, *window], layout)
    x = make((2, 5, 6, 7), torch.float32)
    window = [[2], [], [1], False, True, None]
    grad = make(tuple(torch.ops.aten.avg_pool3d(x, *window).shape), torch.float32, 1)
    check(kernels, "avg_pool3d_backward.grad_input", [grad, x, *window])


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_pool_backward(kernels: Kernels, dtype: torch.dtype) -> None:
    for layout in ("plain", "last", "odd"):
        for dims, window in ((2, [[3, 3], [2, 1], [1, 1], [1, 1], True]), (3, [[2], [], [0], [2], False])):
            x = make((2, 3, 9, 8, 7)[: dims + 2], dtype)
            name = f"max_pool{dims}d_with_indices"
            values, indices = operator(name)(x, *window)
            grad = make(tuple(values.shape), dtype, 1)
            check(kernels, f"{name}_backward.grad_input", [grad, x, *window, indices], layout)


@pytest.mark.parametrize("dtype", FLOATS)
def test_max_unpool(kernels: Kernels, dtype: torch.dtype) -> None:
    for layout in ("plain", "last"):
        for dims in (2, 3):
            x = make((2, 3, 6, 8, 4)[: dims + 2], dtype)
            values, indices = operator(f"max_pool{dims}d_with_indices")(x, [2], [2])
            extra = [[2] * 3, [0] * 3] if dims == 3 else []
            check(kernels, f"max_unpool{dims}d.out", [values, indices, list(x.shape[2:]), *extra], layout)


@pytest.mark.parametrize("dtype", FLOATS)
def test_adaptive_pools(kernels: Kernels, dtype: torch.dtype) -> None:
    for layout, out_layout in LAYOUTS:
        for shape, size in (
            ((2, 3, 7, 9), [3, 4]),
            ((1, 70, 6, 5), [1, 1]),
            ((3, 5, 200), [7, 1]),
            ((2, 9, 3, 3), [5, 4]),
        ):
            check(kernels, "_adaptive_avg_pool2d.out", [make(shape, dtype), size], layout, out_layout)
            check(kernels, "adaptive_max_pool2d.out", [make(shape, dtype), size], layout, out_layout)
        check(kernels, "_adaptive_avg_pool3d.out", [make((2, 3, 5, 6, 7), dtype), [2, 4, 3]], layout, out_layout)
        check(kernels, "adaptive_max_pool3d.out", [make((2, 3, 5, 6, 7), dtype), [2, 4, 3]], layout, out_layout)
    x = make((2, 3, 13), dtype)
    (result,) = kernels.call("aten::adaptive_avg_pool1d.out", [x, [4]], [x])
    torch.testing.assert_close(result, torch.nn.functional.adaptive_avg_pool1d(x, 4), **TOLERANCE.get(dtype, {}))


@pytest.mark.parametrize("dtype", FLOATS)
def test_adaptive_avg_pool_backward(kernels: Kernels, dtype: torch.dtype) -> None:
    for layout in ("plain", "last", "odd"):
        check(
            kernels, "_adaptive_avg_pool2d_backward.out", [make((2, 3, 3, 4), dtype), make((2, 3, 7, 9), dtype)], layout
        )
        check(kernels, "_adaptive_avg_pool2d_backward.out", [make((2, 5, 4), dtype), make((2, 3, 3), dtype)], layout)
    grad, x = make((2, 3, 2, 3, 4), dtype), make((2, 3, 5, 6, 7), dtype)
    check(kernels, "_adaptive_avg_pool3d_backward.out", [grad, x])


def test_adaptive_max_nan(kernels: Kernels) -> None:
    x = make((1, 2, 6, 6), torch.float32)
    x[0, 0, 1, 1] = x[0, 0, 2, 2] = float("nan")
    x[0, 1] = float("-inf")
    check(kernels, "adaptive_max_pool2d.out", [x, [2, 2]])


@pytest.mark.parametrize(
    ("window", "failure"),
    [
        ([[0, 2], [1, 1], [0, 0], [1, 1], False], "KernelArgument"),
        ([[2, 2], [0, 1], [0, 0], [1, 1], False], "KernelArgument"),
        ([[2, 2], [1, 1], [2, 0], [1, 1], False], "KernelArgument"),
        ([[2, 2], [1, 1], [-1, 0], [1, 1], False], "KernelArgument"),
        ([[2, 2], [1, 1], [0, 0], [0, 1], False], "KernelArgument"),
        ([[2, 2, 2], [1, 1], [0, 0], [1, 1], False], "KernelArgument"),
        ([[9, 2], [1, 1], [0, 0], [1, 1], False], "KernelShape"),
        ([[2**40, 2], [1, 1], [0, 0], [1, 1], False], "KernelArgument"),
        ([[2**31 - 1, 2], [1, 1], [0, 0], [2**31 - 1, 1], True], "KernelShape"),
    ],
)
def test_bad_windows(kernels: Kernels, window: list[Any], failure: str) -> None:
    x = torch.ones(1, 2, 5, 5)
    with pytest.raises(KernelFailure) as caught:
        kernels.call("aten::max_pool2d_with_indices.out", [x, *window], [x, x.long()])
    assert caught.value.check == failure


def test_huge_padding_is_quick(kernels: Kernels) -> None:
    big = 2**31 - 1
    x = torch.arange(4.0).reshape(1, 1, 2, 2)
    out = torch.empty(1, 1, 1, 2)
    result, _ = kernels.call(
        "aten::max_pool2d_with_indices.out",
        [x, [2, big], [2, big // 2], [0, big // 2], [1, 1], False],
        [out, out.long()],
    )
    assert result.flatten().tolist() == [3.0] * result.numel()


def test_refusals(kernels: Kernels) -> None:
    x = torch.ones(1, 2, 4, 4)
    half = x.half()
    cases: list[tuple[str, list[Any], list[torch.Tensor], str]] = [
        ("avg_pool2d.out", [x, [2], [], [0], False, True, 0], [x], "KernelArgument"),
        ("avg_pool2d.out", [x, [2], [], [0], False, True, None], [half], "KernelDtypeMismatch"),
        ("avg_pool2d.out", [x.int(), [2], [], [0], False, True, None], [x.int()], "KernelDtype"),
        ("avg_pool2d.out", [x[0, 0], [2], [], [0], False, True, None], [x], "KernelRank"),
        ("_adaptive_avg_pool2d.out", [x, [-1, 2]], [x], "KernelArgument"),
        ("max_unpool2d.out", [x, torch.full((1, 2, 4, 4), 64), [8, 8]], [torch.ones(1, 2, 8, 8)], "KernelIndex"),
        ("max_unpool2d.out", [x, torch.full((1, 2, 4, 4), -1), [8, 8]], [torch.ones(1, 2, 8, 8)], "KernelIndex"),
        (
            "max_pool2d_with_indices_backward.grad_input",
            [x, x, [1], [1], [0], [1], False, torch.full((1, 2, 4, 4), 16)],
            [x],
            "KernelIndex",
        ),
    ]
    for name, arguments, likes, failure in cases:
        with pytest.raises(KernelFailure) as caught:
            kernels.call(f"aten::{name}", arguments, likes)
        assert caught.value.check == failure, name
