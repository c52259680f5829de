"""The kernels of ExecuTorch's operators for Cortex-M, and what they mean, against ExecuTorch's own references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from etir.interpret.numpy_ops import lookup
from etir.passes.backend.fuse_quantized.cortex_m import fixed_point

from etir_testing.interop.cortex_m_references import register_references
from etir_testing.runtime.kernels import KernelFailure, Kernels, build_kernels

LAST = torch.channels_last
register_references()


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return build_kernels("cortex_m")


class Numbers:
    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def int8(self, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-128, 128, shape).astype(np.int8))

    def image(self, *shape: int) -> torch.Tensor:
        return self.int8(*shape).to(memory_format=LAST)

    def point(self) -> int:
        return int(self.random.integers(-128, 128))

    def factors(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Multipliers and shifts of factors of some sizes, 0 and one above 1 among them."""
        factors = 2.0 ** self.random.uniform(-14, -4, count)
        factors[count // 2] = 0.0
        factors[-1] = 1.75
        multipliers, shifts = fixed_point(factors)
        return torch.from_numpy(multipliers), torch.from_numpy(shifts)

    def bias(self, count: int) -> torch.Tensor:
        return torch.from_numpy(self.random.integers(-20000, 20000, count).astype(np.int32))

    def limits(self) -> list[int]:
        return sorted(self.random.integers(-128, 128, 2).tolist())


def check(kernels: Kernels, name: str, arguments: list[Any], has_reference: bool = True) -> None:
    """The kernel, the interpreter and ExecuTorch's reference give the same bits. torch has no convolution of integers
    with gaps, and so neither has the reference.
    """
    given = [v.numpy() if isinstance(v, torch.Tensor) else np.int8 if v is torch.int8 else v for v in arguments]
    wanted = lookup(f"cortex_m.{name}.default")(*given)
    if has_reference:
        np.testing.assert_array_equal(wanted, getattr(torch.ops.cortex_m, name).default(*arguments).numpy())
    like = torch.from_numpy(np.zeros_like(wanted, order="C"))
    if "2d" in name or (name == "pad" and is_last(arguments[0])):
        like = like.to(memory_format=LAST)
    (found,) = kernels.call(f"cortex_m::{name}.out", arguments, [like])
    np.testing.assert_array_equal(found.numpy(), wanted)


def is_last(image: torch.Tensor) -> bool:
    return image.ndim == 4 and image.is_contiguous(memory_format=LAST)


SCRATCH = torch.zeros(64, dtype=torch.uint8)


@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 4, 3)])
def test_elementwise(kernels: Kernels, shape: tuple[int, ...]) -> None:
    n = Numbers(len(shape))
    for _ in range(4):
        a, b = n.int8(*shape), n.int8(*shape)
        multipliers, shifts = (v.tolist() for v in fixed_point(np.array([0.5, 0.2173, 2.0**-19 * 1.3])))
        operands = [a, n.point(), multipliers[0], shifts[0], b, n.point(), -multipliers[1], shifts[1]]
        check(kernels, "quantized_add", [*operands, n.point(), multipliers[2], shifts[2], *n.limits()])
        check(kernels, "quantized_mul", [a, n.point(), b, n.point(), n.point(), multipliers[1], -7])
        check(kernels, "quantized_activation", [a, n.int8(256)])
        x = torch.from_numpy((9 * n.random.standard_normal(shape)).astype(np.float32))
        point, range_ = n.point(), [-128, 127, torch.int8]
        check(kernels, "quantize_per_tensor", [x, 0.07, point, *range_])
        check(kernels, "dequantize_per_tensor", [a, 0.07, point, *range_])


@pytest.mark.parametrize(
    ("a", "b"),
    [((), ()), ((7,), (7,)), ((2, 3, 40), (3, 1)), ((2, 3, 4, 5), (1,)), ((1, 4, 1), (3, 1, 2)), ((0, 3), (3,))],
)
def test_the_less_and_the_greater(kernels: Kernels, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    n = Numbers(len(a))
    for name in ("minimum", "maximum"):
        check(kernels, name, [n.int8(*a), n.int8(*b)])
        with pytest.raises(KernelFailure, match="KernelDtype"):
            kernels.call(f"cortex_m::{name}.out", [n.int8(3).float(), n.int8(3)], [n.int8(3)])


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((5,), (0,)),
        ((3, 40), (1, 0)),
        ((2, 3, 17), (2, 0, 1)),
        ((2, 3, 16, 20), (0, 2, 3, 1)),
        ((2, 20, 5, 3), (3, 0, 2, 1)),
    ],
)
def test_transposes(kernels: Kernels, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    n = Numbers(len(shape))
    check(kernels, "transpose", [n.int8(*shape), list(perm)])
    if len(shape) == 4:
        check(kernels, "transpose", [n.image(*shape), list(perm)])
    for wrong in ([*perm[1:], perm[1 % len(perm)], 0], [len(shape), *perm[1:]]):
        with pytest.raises(KernelFailure, match="KernelArgument"):
            kernels.call("cortex_m::transpose.out", [n.int8(*shape), wrong], [n.int8(*shape)])


@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((5,), [0, 0, 0, 2], [0, 0, 0, 1]),
        ((2, 3), [0, 0, 1, 0], [0, 0, 0, 3]),
        ((2, 3, 4), [0, 1, 2, 3], [0, 0, 0, 0]),
        ((2, 3, 4, 5), [1, 2, 3, 4], [4, 0, 1, 2]),
        ((1, 1, 4, 5), [0, 1, 2, 0], [0, 2, 1, 0]),
        ((2, 8, 1, 1), [0, 1, 1, 3], [0, 1, 1, 0]),
        ((1, 3, 4, 5), [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_padding(kernels: Kernels, shape: tuple[int, ...], before: list[int], after: list[int]) -> None:
    n = Numbers(len(shape))
    for image in (False, True) if len(shape) == 4 else (False,):
        check(kernels, "pad", [n.image(*shape) if image else n.int8(*shape), before, after, n.point()])
    for index, wrong in ((1, [0, 0, 0, -1]), (2, [0, 0, 0]), (3, 128)):
        arguments = [n.int8(*shape), before, after, 0]
        arguments[index] = wrong
        with pytest.raises(KernelFailure, match="KernelArgument"):
            kernels.call("cortex_m::pad.out", arguments, [n.int8(*shape)])


@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 1, 1), (3, 40, 17), (2, 301, 5)])
def test_products(kernels: Kernels, rows: int, depth: int, columns: int) -> None:
    n = Numbers(depth)
    x, weight, bias, offset = n.int8(rows, depth), n.int8(columns, depth), n.bias(columns), n.point()
    (multiplier,), (shift,) = (v[:1].tolist() for v in n.factors(2))
    low, high = n.limits()
    sums = (weight.to(torch.int32).sum(1) * offset + bias)[None]
    for constants in ([bias, None], [None, None], [bias, sums.to(torch.int32)]):
        arguments = [x, weight, *constants, offset, 0, n.point(), [multiplier], [shift], high, low]
        check(kernels, "quantized_linear", arguments)
    a, b = n.int8(2, rows, depth), n.int8(2, columns, depth)
    check(kernels, "quantized_batch_matmul", [a, -n.point(), b, -n.point(), n.point(), multiplier, shift, SCRATCH])


CONVOLUTIONS = [
    # batch, channels, height, width, outputs, inputs of a filter, kernel, stride, padding, dilation
    (1, 3, 9, 8, 5, 3, (3, 3), [2, 1], [1, 0], [1, 1]),
    (2, 8, 5, 6, 6, 4, (2, 3), [1, 2], [0, 2], [1, 1]),
    (1, 8, 5, 6, 12, 2, (2, 3), [1, 2], [0, 2], [2, 1]),
    (1, 70, 3, 3, 33, 70, (1, 1), [1, 1], [0, 0], [1, 1]),
]


@pytest.mark.parametrize("sizes", CONVOLUTIONS)
@pytest.mark.parametrize("has_bias", [True, False])
def test_convolution(kernels: Kernels, sizes: Any, has_bias: bool) -> None:
    batch, channels, height, width, columns, inner, kernel, *window = sizes
    n = Numbers(channels)
    x, weight = n.image(batch, channels, height, width), n.int8(columns, *kernel, inner)
    bias = n.bias(columns) if has_bias else None
    arguments = [x, weight, bias, *window, -n.point(), n.point(), *n.factors(columns), *n.limits(), SCRATCH]
    check(kernels, "quantized_conv2d", arguments, has_reference=window[2] == [1, 1])


@pytest.mark.parametrize(("channels", "multiplier", "dilation"), [(4, 1, [1, 1]), (67, 3, [1, 1]), (67, 1, [1, 2])])
def test_depthwise(kernels: Kernels, channels: int, multiplier: int, dilation: list[int]) -> None:
    n = Numbers(channels)
    x, weight = n.image(1, channels, 6, 5), n.int8(1, 3, 2, channels * multiplier)
    columns = channels * multiplier
    arguments = [x, weight, n.bias(columns), [2, 1], [1, 1], dilation, multiplier, -n.point(), n.point()]
    arguments += [*n.factors(columns), *n.limits(), SCRATCH]
    check(kernels, "quantized_depthwise_conv2d", arguments, has_reference=dilation == [1, 1])


def test_pools(kernels: Kernels) -> None:
    n = Numbers(5)
    for size in ((7, 7), (2, 5)):
        x, point = n.image(2, 70, *size), n.point()
        window = [list(size), list(size), [0, 0], False]
        check(kernels, "quantized_avg_pool2d", [x, *window, point, 1 << 30, 1, SCRATCH])
        for stride, padding in (([1, 2], [0, 1]), ([2, 2], [1, 1])):
            window = [[2, 3], stride, padding, [1, 1], False]
            check(kernels, "quantized_max_pool2d", [x, *window, point, point, *n.limits()])


TRANSPOSED = [
    # batch, channels, height, width, outputs, kernel, stride, padding, output padding
    (1, 4, 4, 5, 8, (2, 2), [2, 2], [0, 0], [0, 0]),
    (2, 3, 5, 4, 5, (3, 2), [2, 1], [1, 0], [1, 0]),
    (1, 20, 3, 3, 7, (4, 3), [1, 3], [2, 1], [0, 2]),
    (1, 70, 2, 3, 33, (1, 1), [3, 2], [0, 0], [2, 1]),
]


@pytest.mark.parametrize("sizes", TRANSPOSED)
def test_transposed(kernels: Kernels, sizes: Any) -> None:
    batch, channels, height, width, columns, kernel, *window = sizes
    n = Numbers(channels)
    x, weight = n.image(batch, channels, height, width), n.int8(columns, *kernel, channels)
    for bias in (n.bias(columns), None):
        arguments = [x, weight, bias, *window, [1, 1], -n.point(), n.point(), *n.factors(columns), *n.limits()]
        check(kernels, "quantized_transpose_conv2d", [*arguments, SCRATCH, SCRATCH])


@pytest.mark.parametrize("scale", [0.003, 0.07, 0.9])
@pytest.mark.parametrize("shape", [(5,), (3, 7), (2, 3, 40), (1, 511), (2, 1)])
def test_softmax(kernels: Kernels, shape: tuple[int, ...], scale: float) -> None:
    """In fixed point: ExecuTorch's reference, which is in floating point, is a step off at most."""
    n = Numbers(len(shape))
    (multiplier,), (shift,) = (v.tolist() for v in fixed_point(np.array([scale * 2.0**26])))
    for low, high in ((-128, 128), (-3, 3), (127, 128)):
        x = torch.from_numpy(n.random.integers(low, high, shape).astype(np.int8))
        arguments = [x, len(shape) - 1, n.point(), -128, multiplier, shift, -int(31 * 2.0**26 / 2.0**shift)]
        check(kernels, "softmax", arguments, has_reference=False)
        found = lookup("cortex_m.softmax.default")(x.numpy(), *arguments[1:]).astype(int)
        wanted = torch.ops.cortex_m.softmax.default(*arguments).numpy().astype(int)
        assert np.abs(found - wanted).max() <= 1
        # Half of them, at least, are the nearest number.
        assert (found == wanted).mean() > 0.5


def test_shares_that_are_too_small(kernels: Kernels) -> None:
    """A row of equal numbers, each of which has less than half a part of 256."""
    for count, part in ((511, 1), (512, 0), (4095, 0)):
        x = torch.full((2, count), 9, dtype=torch.int8)
        check(kernels, "softmax", [x, 1, 0, -128, 1 << 30, 20, -255], has_reference=False)
        found = lookup("cortex_m.softmax.default")(x.numpy(), 1, 0, -128, 1 << 30, 20, -255)
        assert (found == part - 128).all()


def test_softmaxes_that_are_refused(kernels: Kernels) -> None:
    x = torch.zeros(2, 6, dtype=torch.int8)
    good: dict[str, Any] = {"dim": 1, "in": 0, "out": -128, "multiplier": 1 << 30, "shift": 20, "diff_min": -200}
    for name, value in (("dim", 0), ("out", 0), ("multiplier", -1), ("shift", 31), ("shift", -1), ("diff_min", 1)):
        with pytest.raises(KernelFailure) as failure:
            kernels.call("cortex_m::softmax.out", [x, *{**good, name: value}.values()], [torch.zeros_like(x)])
        assert failure.value.check == "KernelArgument"
    with pytest.raises(KernelFailure) as failure:
        kernels.call("cortex_m::softmax.out", [x, *{**good, "shift": 30}.values()], [torch.zeros_like(x)])
    assert failure.value.check == "KernelArgument"
    long = torch.zeros(1, 4096, dtype=torch.int8)
    with pytest.raises(KernelFailure) as failure:
        kernels.call("cortex_m::softmax.out", [long, *good.values()], [torch.zeros_like(long)])
    assert failure.value.check == "KernelShape"


def test_refused(kernels: Kernels) -> None:
    n = Numbers(6)
    x, weight = n.image(1, 4, 5, 5), n.int8(3, 2, 2, 4)
    rest = [[1, 1], [0, 0], [1, 1], 0, 0, *n.factors(3), -128, 127, SCRATCH]
    out = torch.zeros(1, 3, 4, 4, dtype=torch.int8).contiguous(memory_format=LAST)
    wrong: dict[str, list[Any]] = {
        "KernelDimOrder": [x.contiguous(), weight, None, *rest],
        "KernelShape": [x, n.int8(3, 2, 2, 3), None, *rest],
        "KernelArgument": [x, weight, None, [1, 0], *rest[1:]],
        "KernelDtype": [x.to(torch.uint8), weight, None, *rest],
    }
    for name, arguments in wrong.items():
        with pytest.raises(KernelFailure) as failure:
            kernels.call("cortex_m::quantized_conv2d.out", arguments, [out])
        assert failure.value.check == name
