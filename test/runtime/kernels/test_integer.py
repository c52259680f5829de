"""The integer operators against NumPy, to the bit: sizes that are no multiple of anything, and numbers at the ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.integer import packed, phases_of, requantized

from etir_testing.runtime.integer_variants import VARIANTS, integer_kernels
from etir_testing.runtime.kernels import KernelFailure, Kernels

LAST = torch.channels_last


@pytest.fixture(scope="module", params=VARIANTS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    return integer_kernels(request.param)


def tensor(value: Any) -> Any:
    return torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


def check(kernels: Kernels, name: str, arguments: list[Any], image: bool = False) -> None:
    """The kernel's result is the oracle's. Images have their channels innermost."""
    wanted = lookup(f"etir.{name}.default")(*arguments)
    given = [tensor(value) for value in arguments]
    like = tensor(np.zeros_like(wanted))
    if image:
        given = [v.to(memory_format=LAST) if isinstance(v, torch.Tensor) and v.ndim == 4 else v for v in given]
        like = like.to(memory_format=LAST) if like.ndim == 4 else like
        given[1:2] = [tensor(value) for value in arguments[1:2]]
    (found,) = kernels.call(f"etir::{name}.out", given, [like])
    np.testing.assert_array_equal(found.numpy(), wanted)


class Numbers:
    """int8 numbers at random; hostile ones are at the ends of the range, so that sums are as large as they get."""

    def __init__(self, seed: int, hostile: bool):
        self.random = np.random.default_rng(seed)
        self.hostile = hostile

    def int8(self, *shape: int) -> np.ndarray:
        if self.hostile:
            return self.random.choice(np.array([-128, 127], np.int8), shape)
        return self.random.integers(-128, 128, shape).astype(np.int8)

    def bias(self, columns: int) -> np.ndarray:
        most = 2**31 if self.hostile else 1000
        return self.random.integers(-most, most, columns).astype(np.int32)

    def factors(self, columns: int) -> np.ndarray:
        if self.hostile:
            choices = np.array([0.0, 2.0**-32, 0.5, 255.0, 1e30, np.finfo(np.float32).tiny / 8], np.float32)
            return self.random.choice(choices, columns)
        return (self.random.random(columns) * 1e-3).astype(np.float32)

    def ends(self) -> list[int]:
        low, high = sorted(self.random.integers(-128, 128, 2).tolist())
        return [int(self.random.integers(-128, 128)), low, high]


LINEAR = [
    (1, 1, 1), (0, 5, 3), (3, 0, 4), (2, 7, 0), (1, 16, 16), (6, 64, 64), (7, 65, 65), (13, 3, 130), (25, 1027, 33),
    (5, 2049, 17), (1, 4096, 80), (30, 260, 300), (2, 8, 1), (8, 64, 32), (33, 100, 48), (81, 3000, 530),
]  # fmt: skip


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), LINEAR)
def test_linear(kernels: Kernels, rows: int, depth: int, columns: int, hostile: bool) -> None:
    n = Numbers(rows + depth + columns, hostile)
    weight = packed(n.int8(columns, depth))
    arguments = [n.int8(rows, depth), weight, n.bias(columns), n.factors(columns)]
    check(kernels, "int8_linear", [*arguments, *n.ends()])
    check(kernels, "int8_float_linear", arguments)


@pytest.mark.parametrize("most", [63, 64, 65, 100])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(12, 4, 16), (15, 1030, 40), (33, 2100, 300), (14, 260, 3)])
def test_pairs_of_products_that_hardly_fit(kernels: Kernels, rows: int, depth: int, columns: int, most: int) -> None:
    """The largest inputs, and weights whose pairs add up to 128 and a little more: 16 bits hold 255 * 128."""
    n = Numbers(rows + depth + columns, False)
    x = n.random.choice(np.array([127, 126, 0, -128], np.int8), (rows, depth), p=[0.8, 0.1, 0.05, 0.05])
    signs = np.repeat(n.random.choice([-1, 1], (columns, depth // 2)), 2, axis=1)
    weight = (np.tile([most, 128 - most], (columns, depth // 2)) * signs).astype(np.int8)
    # Some pairs are one above or below what fits.
    weight += n.random.choice(np.array([-1, 0, 1], np.int8), weight.shape, p=[0.01, 0.98, 0.01])
    arguments = [packed(weight), n.bias(columns), n.factors(columns) * np.float32(0.01), 0, -128, 127]
    check(kernels, "int8_linear", [x, *arguments])


def test_halves_are_rounded_to_even(kernels: Kernels) -> None:
    """Sums of 2 n + 1 with a factor of one half."""
    x = np.arange(-100, 100, dtype=np.int8)[:, None]
    weight, factor = packed(np.ones((1, 1), np.int8)), np.array([0.5], np.float32)
    check(kernels, "int8_linear", [x, weight, np.array([-128], np.int32), factor, 0, -128, 127])


@pytest.mark.parametrize(("rows", "depth", "columns"), LINEAR)
@pytest.mark.parametrize("kind", ["plain", "zeros", "large", "positive"])
def test_dynamic_linear(kernels: Kernels, rows: int, depth: int, columns: int, kind: str) -> None:
    n = Numbers(rows + depth + columns, False)
    x = n.random.standard_normal((rows, depth)).astype(np.float32)
    x = {"plain": x, "zeros": x * 0, "large": x * np.float32(1e30), "positive": np.abs(x) + 3}[kind]
    weight = n.int8(columns, depth)
    scales, bias = n.factors(columns), n.random.standard_normal(columns).astype(np.float32)
    column_sums = weight.astype(np.int64).sum(1).astype(np.int32)
    for addend in (bias, None):
        check(kernels, "int8_dynamic_linear", [x, packed(weight), column_sums, scales, addend])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("depth", [1, 15, 40])
def test_rows_that_are_not_finite(kernels: Kernels, value: float, depth: int) -> None:
    """Their results are NaN, wherever the number is; those of other rows are what they are without it."""
    n = Numbers(depth, False)
    x = n.random.standard_normal((depth + 2, depth)).astype(np.float32)
    weight, scales = n.int8(5, depth), n.factors(5)
    column_sums = weight.astype(np.int64).sum(1).astype(np.int32)
    arguments = [packed(weight), column_sums, scales, None]
    wanted = lookup("etir.int8_dynamic_linear.default")(x, *arguments)
    x[range(depth), range(depth)] = value
    wanted[:depth] = np.nan
    given = [v if v is None else tensor(v) for v in (x, *arguments)]
    (found,) = kernels.call("etir::int8_dynamic_linear.out", given, [tensor(np.zeros_like(wanted))])
    np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(lookup("etir.int8_dynamic_linear.default")(x, *arguments), wanted)


CONVOLUTIONS = [
    # batch, channels, height, width, out channels, groups, kernel, stride, padding, dilation
    (1, 3, 11, 9, 16, 1, (3, 3), (2, 2), (1, 1), (1, 1)),
    (2, 8, 7, 7, 20, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 64, 5, 6, 70, 1, (1, 1), (1, 1), (0, 0), (1, 1)),
    (1, 64, 6, 5, 33, 1, (1, 1), (2, 2), (0, 0), (1, 1)),
    (1, 516, 4, 4, 12, 1, (3, 1), (1, 2), (1, 0), (1, 1)),
    (1, 257, 3, 3, 5, 1, (2, 2), (1, 1), (0, 1), (1, 2)),
    (1, 12, 9, 9, 24, 3, (3, 3), (1, 1), (2, 2), (2, 2)),
    (3, 6, 5, 5, 12, 6, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 4, 9, 8, 9, 1, (8, 8), (1, 1), (4, 4), (1, 1)),
    (0, 4, 5, 5, 8, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 4, 2, 2, 8, 1, (5, 5), (1, 1), (0, 0), (1, 1)),
    (1, 4, 1, 1, 8, 1, (3, 3), (1, 1), (3, 3), (2, 2)),
    # Bands of several lines, lines of their own, weights that lines of the kernel do not divide, groups, two images.
    (2, 64, 19, 23, 40, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 3, 40, 37, 20, 1, (7, 7), (2, 2), (3, 3), (1, 1)),
    (2, 32, 33, 21, 48, 2, (3, 3), (1, 1), (2, 2), (2, 2)),
    (1, 128, 70, 70, 16, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (1, 24, 17, 34, 33, 1, (5, 3), (3, 2), (0, 1), (1, 1)),
    (1, 20, 9, 40, 8, 1, (3, 3), (1, 2), (1, 1), (3, 2)),
]


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize("sizes", CONVOLUTIONS)
def test_convolution(kernels: Kernels, sizes: Any, hostile: bool) -> None:
    batch, channels, height, width, columns, groups, *window = sizes
    n = Numbers(channels + columns, hostile)
    matrix = n.int8(groups, columns // groups, window[0][0] * window[0][1] * channels // groups)
    weight = np.stack([packed(part) for part in matrix])
    x = n.int8(batch, channels, height, width)
    zero = int(n.random.integers(-128, 128))
    arguments = [x, weight, n.bias(columns), n.factors(columns), zero, *map(list, window), groups]
    check(kernels, "int8_conv2d", [*arguments, *n.ends()], image=True)
    check(kernels, "int8_float_conv2d", arguments, image=True)


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 3, 3, (3, 3), (1, 1), (1, 1), (1, 1)),
        (2, 16, 9, 7, (3, 3), (2, 2), (1, 1), (1, 1)),
        (1, 83, 6, 6, (5, 3), (1, 1), (2, 1), (1, 2)),
        (1, 144, 5, 5, (3, 3), (1, 1), (4, 4), (3, 3)),
        (1, 20, 12, 12, (9, 9), (1, 1), (4, 4), (1, 1)),
        (1, 8, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
        # Line by line: vectors of channels and others, and padding of no, one and more pixels.
        (1, 64, 7, 9, (3, 3), (1, 1), (1, 1), (1, 1)),
        (2, 83, 6, 5, (3, 3), (1, 1), (0, 2), (1, 1)),
        (3, 150, 3, 4, (3, 3), (1, 1), (0, 0), (1, 1)),
        (1, 16, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
        (2, 32, 2, 3, (3, 3), (1, 1), (3, 40), (1, 1)),
        (0, 8, 4, 4, (3, 3), (1, 1), (1, 1), (1, 1)),
    ],
)
def test_depthwise(kernels: Kernels, sizes: Any, hostile: bool) -> None:
    batch, channels, height, width, *window = sizes
    n = Numbers(channels, hostile)
    weight = n.int8(window[0][0] * window[0][1], channels)
    x, zero = n.int8(batch, channels, height, width), int(n.random.integers(-128, 128))
    arguments = [x, weight, n.bias(channels), n.factors(channels), zero, *map(list, window), *n.ends()]
    check(kernels, "int8_depthwise_conv2d", arguments, image=True)


TRANSPOSED = [
    # batch, channels, height, width, out channels of a group, groups, kernel, stride, padding, dilation, output padding
    (1, 8, 4, 5, 20, 1, (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    (2, 5, 3, 4, 7, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    (1, 64, 3, 3, 33, 1, (4, 4), (2, 2), (1, 1), (1, 1), (0, 0)),
    (1, 12, 5, 4, 3, 4, (3, 5), (1, 3), (0, 2), (2, 1), (0, 2)),
    (1, 6, 3, 3, 1, 6, (3, 3), (2, 1), (1, 0), (1, 1), (0, 0)),
    (1, 4, 3, 2, 5, 1, (2, 1), (3, 2), (0, 0), (1, 1), (2, 1)),
    (1, 4, 4, 4, 5, 1, (3, 3), (2, 4), (2, 1), (2, 6), (1, 3)),
    (1, 4, 2, 2, 8, 1, (1, 1), (1, 1), (3, 3), (1, 1), (0, 0)),
    (0, 4, 3, 3, 8, 1, (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    (1, 300, 1, 6, 17, 1, (1, 5), (1, 2), (0, 2), (1, 1), (0, 1)),
]


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize("sizes", TRANSPOSED)
def test_transposed(kernels: Kernels, sizes: Any, hostile: bool) -> None:
    """Against torch's transposed convolution in float64, which holds every sum."""
    batch, channels, height, width, outer, groups, kernel, stride, padding, dilation, more = sizes
    n = Numbers(channels + outer, hostile)
    x, weight = n.int8(batch, channels, height, width), n.int8(channels, outer, *kernel)
    columns, zero = outer * groups, int(n.random.integers(-128, 128))
    bias, factors, ends = n.bias(columns), n.factors(columns), n.ends()
    taps = weight.reshape(groups, channels // groups, outer, *kernel).transpose(0, 2, 3, 4, 1)
    parts, biases = [], []
    for lines, across in phases_of(kernel, stride, dilation):
        part = taps[:, :, lines][:, :, :, across].reshape(groups, outer, -1)
        parts.append(np.stack([packed(matrix).reshape(-1, 16, 4) for matrix in part]))
        biases.append(bias - (128 + zero) * part.astype(np.int64).sum(-1).reshape(-1))
    arguments = [x, np.concatenate(parts, 1), np.stack(biases).astype(np.int32), factors, zero]
    arguments += [*map(list, (kernel, stride, padding, dilation, more)), groups, *ends]
    # torch refuses a result without elements.
    if batch and not hostile and padding != (3, 3):
        sums = torch.nn.functional.conv_transpose2d(
            torch.from_numpy(x.astype(np.float64) - zero), torch.from_numpy(weight.astype(np.float64)),
            None, stride, padding, more, groups, dilation,
        ).numpy().transpose(0, 2, 3, 1) + bias  # fmt: skip
        wanted = requantized(sums, factors, *ends).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(lookup("etir.int8_conv_transpose2d.default")(*arguments), wanted)
    check(kernels, "int8_conv_transpose2d", arguments, image=True)


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1), (2, 7, 13, 5), (3, 16, 64, 64), (1, 33, 130, 270), (2, 5, 0, 3), (0, 4, 4, 4), (1, 3, 999, 9)],
)
def test_bmm(kernels: Kernels, sizes: tuple[int, ...], hostile: bool) -> None:
    batch, rows, depth, columns = sizes
    n = Numbers(rows + depth, hostile)
    a, b = n.int8(batch, rows, depth), n.int8(batch, depth, columns)
    for points in ([0, 0], n.random.integers(-128, 128, 2).tolist(), [-128, 127]):
        for factor in (1e-3, 0.5):
            check(kernels, "int8_bmm", [a, b, *points, factor, *n.ends()])


@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 5, 255), (2, 3, 256), (1, 2, 700), (0, 4), (4, 0)])
def test_softmax(kernels: Kernels, shape: tuple[int, ...]) -> None:
    """Also within one step of the softmax of what the integers stand for."""
    for hostile in (False, True):
        n = Numbers(len(shape), hostile)
        x = n.int8(*shape)
        for scale in (0.01, 0.3, 20.0):
            table = np.rint(2.0**23 * np.exp(-scale * np.arange(256.0))).astype(np.int32)
            check(kernels, "int8_softmax", [x, table, 256.0, -128, -128, 127])
            found = lookup("etir.int8_softmax.default")(x, table, 256.0, -128, -128, 127)
            wanted = torch.softmax(torch.from_numpy(x * scale), -1).numpy()
            assert np.abs((found + 128.0) - np.minimum(wanted * 256, 255)).max(initial=0) <= 0.51


@pytest.mark.parametrize("shape", [(0,), (1,), (64,), (7, 33), (2, 5, 3, 3)])
def test_elementwise(kernels: Kernels, shape: tuple[int, ...]) -> None:
    for hostile in (False, True):
        n = Numbers(len(shape), hostile)
        a, b = n.int8(*shape), n.int8(*shape)
        for multipliers in ((1 << 20, 777777), (-(1 << 21), 1 << 21), (0, 1), (-1, -32769), (32767, 32768)):
            check(kernels, "int8_add", [a, b, *multipliers, int(n.random.integers(-(1 << 30), 1 << 30)), 20, *n.ends()])
        for factor in (0.01, 0.5, 300.0, 1e-30):
            check(kernels, "int8_mul", [a, b, *n.random.integers(-128, 128, 2).tolist(), factor, *n.ends()])
        check(kernels, "int8_lookup", [a, n.int8(256)])


@pytest.mark.parametrize("count", [256, 31, 287])
def test_every_entry_of_a_table(kernels: Kernels, count: int) -> None:
    n = Numbers(count, False)
    x = (np.arange(count) % 256 - 128).astype(np.int8)
    n.random.shuffle(x)
    check(kernels, "int8_lookup", [x, n.random.permutation(np.arange(-128, 128)).astype(np.int8)])


@pytest.mark.parametrize("channels", [1, 37, 224])
def test_max_pool(kernels: Kernels, channels: int) -> None:
    n = Numbers(3, False)
    windows: list[Any] = [
        ([3, 3], [2, 2], [1, 1], [1, 1]),
        ([2, 1], [1, 3], [1, 0], [1, 2]),
        ([5, 5], [1, 1], [2, 2], [2, 2]),
        # Windows without a tap in the image.
        ([2, 2], [3, 3], [1, 1], [5, 7]),
    ]
    for window in windows:
        check(kernels, "int8_max_pool2d", [n.int8(2, channels, 9, 8), *window], image=True)


@pytest.mark.parametrize("shape", [(1, 5, 3, 3), (2, 300, 7, 7), (1, 4, 1, 1), (0, 4, 3, 3)])
@pytest.mark.parametrize("image", [False, True])
@pytest.mark.parametrize("keepdim", [False, True])
def test_mean(kernels: Kernels, shape: tuple[int, ...], image: bool, keepdim: bool) -> None:
    n = Numbers(shape[1], False)
    x = tensor(n.int8(*shape))
    x = x.to(memory_format=LAST) if image else x
    arguments = [-3, keepdim, 0.7 / 9, 5, -100, 100]
    wanted = lookup("etir.int8_mean.default")(x.numpy(), *arguments)
    like = tensor(wanted)
    (found,) = kernels.call("etir::int8_mean.out", [x, *arguments], [like.to(memory_format=LAST) if keepdim else like])
    np.testing.assert_array_equal(found.numpy(), wanted)


def test_refused(kernels: Kernels) -> None:
    n = Numbers(1, False)
    weight, bias, factors = packed(n.int8(16, 8)), n.bias(16), n.factors(16)
    good = [n.int8(2, 8), weight, bias, factors, 0, -128, 127]
    wrong: dict[str, tuple[int, Any]] = {
        "KernelDtype": (0, np.zeros((2, 8), np.uint8)),
        "KernelShape": (1, packed(n.int8(16, 12))),
        "KernelArgument": (4, 128),
        "KernelRank": (2, np.zeros((1, 16), np.int32)),
    }
    for name, (index, value) in wrong.items():
        arguments = [tensor(value if i == index else v) for i, v in enumerate(good)]
        with pytest.raises(KernelFailure) as failure:
            kernels.call("etir::int8_linear.out", arguments, [torch.zeros(2, 16, dtype=torch.int8)])
        assert failure.value.check == name
    image = [
        torch.zeros(1, 4, 4, 4, dtype=torch.int8),
        tensor(packed(n.int8(8, 36))[None]),
        torch.zeros(8, dtype=torch.int32),
    ]
    image += [torch.zeros(8), 0, [3, 3], [1, 1], [1, 1], [1, 1], 1, 0, -128, 127]
    with pytest.raises(KernelFailure) as failure:
        kernels.call("etir::int8_conv2d.out", image, [torch.zeros(1, 8, 4, 4, dtype=torch.int8)])
    assert failure.value.check == "KernelDimOrder"
