"""Convolutions of the runtime against torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from etir_testing.runtime.kernels import KernelFailure, build_kernels

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.fixture(scope="module")
def kernels() -> Any:
    return build_kernels("convolution")


@dataclass(frozen=True)
class Case:
    """Sizes of an input and a kernel; `out` counts output channels of all groups."""

    batch: int
    channels: int
    out: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = (0,)

    def tensors(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Input, weight and bias, of small integers for integer dtypes."""
        first, second = (self.channels, self.out) if self.transposed else (self.out, self.channels)
        shapes = [(self.batch, self.channels, *self.size), (first, second // self.groups, *self.kernel), (self.out,)]
        if dtype.is_floating_point:
            return tuple(torch.randn(s, dtype=torch.float64).to(dtype) for s in shapes)  # type: ignore[return-value]
        return tuple(torch.randint(0, 100, s).to(dtype) for s in shapes)  # type: ignore[return-value]

    @property
    def numbers(self) -> list[Any]:
        return [list(self.stride), list(self.padding), list(self.dilation), self.transposed, list(self.output_padding),
                self.groups]  # fmt: skip

    def expected(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None) -> torch.Tensor:
        """Computed in double, exact for the integers in use, and cut to the dtype as wrapping arithmetic is."""
        spread = [t if isinstance(t, (bool, int)) else t * (len(self.size) // len(t)) for t in self.numbers]
        result = torch.ops.aten.convolution(x.double(), w.double(), None if b is None else b.double(), *spread)
        return result.to(x.dtype) if x.dtype.is_floating_point else result.to(torch.int64).to(x.dtype)


PLAIN = {
    "3x3": Case(2, 5, 7, (9, 11), (3, 3), padding=(1,)),
    "blocks": Case(1, 40, 70, (12, 13), (3, 3), padding=(1, 1)),
    "stride": Case(2, 6, 8, (15, 14), (3, 3), (2, 3), (1, 0)),
    "dilation": Case(1, 3, 9, (20, 17), (3, 2), (1, 2), (2, 3), (2, 3)),
    "1x1": Case(2, 33, 20, (7, 6), (1, 1)),
    "1x1 stride": Case(2, 9, 20, (7, 6), (1, 1), (2,)),
    "1x1 padding": Case(2, 9, 20, (7, 6), (1, 1), (1,), (1,)),
    "1x1 of one position": Case(3, 40, 30, (1, 1), (1, 1)),
    "whole image": Case(2, 20, 30, (4, 5), (4, 5)),
    "groups": Case(2, 12, 18, (8, 9), (3, 3), (1,), (1,), groups=3),
    "one channel out": Case(1, 4, 1, (6, 40), (3, 3)),
    "large kernel": Case(1, 3, 16, (40, 41), (7, 7), (2,), (3,)),
    "more padding than image": Case(1, 2, 3, (2, 3), (3, 3), (2,), (5, 6)),
    "1-d": Case(2, 8, 12, (50,), (5,), (2,), (2,)),
    "1-d long kernel": Case(1, 2, 3, (600,), (300,), (7,), (150,)),
    "3-d": Case(2, 3, 5, (5, 6, 7), (3, 2, 3), (1, 2, 1), (1, 0, 1)),
    "3-d dilated groups": Case(1, 4, 6, (9, 9, 9), (2, 2, 2), (2,), (1,), (3, 1, 2), groups=2),
}
DEPTHWISE = {
    "small": Case(2, 33, 33, (7, 7), (3, 3), (1,), (1,), groups=33),
    "wide": Case(1, 10, 10, (6, 83), (3, 3), (1,), (1,), groups=10),
    "wide, stride 2": Case(1, 10, 10, (7, 150), (3, 3), (2,), (1,), groups=10),
    "tall, stride 2": Case(1, 3, 3, (200, 19), (5, 5), (2, 2), (2,), groups=3),
    "stride 3": Case(1, 10, 10, (30, 40), (3, 5), (3,), (2,), groups=10),
    "dilation": Case(1, 9, 9, (50, 80), (3, 3), (1,), (4,), (4,), groups=9),
    "multiplier": Case(2, 5, 15, (9, 40), (3, 3), (1,), (1,), groups=5),
    "narrow": Case(1, 40, 40, (90, 3), (3, 3), (1,), (1,), groups=40),
    "no taps in sight": Case(1, 9, 9, (2, 2), (2, 2), (1,), (6,), (1,), groups=9),
    "1-d": Case(2, 12, 12, (400,), (9,), (1,), (8,), groups=12),
    "3-d": Case(1, 10, 10, (5, 6, 30), (3, 3, 3), (1,), (1,), groups=10),
    "many channels": Case(1, 75, 75, (5, 6), (3, 3), (2,), (1,), groups=75),
}
TRANSPOSED = {
    "stride 1": Case(2, 5, 7, (6, 7), (3, 3), (1,), (1,), transposed=True),
    "stride 2": Case(1, 6, 9, (8, 9), (4, 4), (2,), (1,), transposed=True),
    "output padding": Case(2, 3, 4, (5, 6), (3, 3), (2, 3), (1, 0), transposed=True, output_padding=(1, 2)),
    "dilation": Case(1, 3, 4, (5, 6), (3, 2), (2,), (2, 1), (3, 2), transposed=True, output_padding=(1,)),
    "stride past the kernel": Case(1, 3, 4, (3, 4), (2, 2), (5, 4), (0,), transposed=True),
    "groups": Case(2, 6, 9, (5, 5), (3, 3), (2,), (1,), groups=3, transposed=True),
    "depthwise": Case(1, 12, 12, (6, 9), (3, 3), (2,), (1,), groups=12, transposed=True),
    "1x1": Case(1, 6, 9, (5, 5), (1, 1), (1,), transposed=True),
    "1-d": Case(2, 6, 4, (30,), (4,), (2,), (1,), transposed=True),
    "3-d": Case(1, 3, 4, (3, 4, 5), (3, 2, 3), (2, 1, 2), (1, 0, 1), transposed=True, output_padding=(1, 0, 0)),
}
CASES = (
    PLAIN | {f"depthwise {k}": v for k, v in DEPTHWISE.items()} | {f"transposed {k}": v for k, v in TRANSPOSED.items()}
)


def channels_last(t: torch.Tensor) -> torch.Tensor:
    """The same values with dim 1 innermost."""
    return t.movedim(1, -1).contiguous().movedim(-1, 1)


def check(kernels: Any, arguments: Sequence[Any], expected: torch.Tensor, like: torch.Tensor | None = None) -> None:
    (got,) = kernels.call("aten::convolution.out", arguments, [expected if like is None else like])
    assert kernels.temp_used == 0
    if expected.dtype in (torch.float16, torch.bfloat16):
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-2)
    elif expected.dtype == torch.float32:
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=2e-4)
    else:
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_float(kernels: Any, case: Case) -> None:
    x, w, b = case.tensors(torch.float32)
    check(kernels, [x, w, b, *case.numbers], case.expected(x, w, b))
    check(kernels, [x, w, None, *case.numbers], case.expected(x, w, None))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("layouts", [2, 4, 5, 7])
def test_channels_last(kernels: Any, case: Case, layouts: int) -> None:
    x, w, b = case.tensors(torch.float32)
    expected = case.expected(x, w, b)
    x = channels_last(x) if layouts & 1 else x
    w = channels_last(w) if layouts & 2 else w
    check(kernels, [x, w, b, *case.numbers], expected, channels_last(expected) if layouts & 4 else None)


@pytest.mark.parametrize("dtype", [d for d in FLOATS + INTS if d != torch.float32], ids=str)
@pytest.mark.parametrize(
    "name", ["3x3", "blocks", "1x1", "depthwise small", "depthwise wide, stride 2", "transposed groups"]
)
def test_dtypes(kernels: Any, name: str, dtype: torch.dtype) -> None:
    case = CASES[name]
    x, w, b = case.tensors(dtype)
    expected = case.expected(x, w, b)
    check(kernels, [x, w, b, *case.numbers], expected)
    check(kernels, [channels_last(x), w, b, *case.numbers], expected, channels_last(expected))


@pytest.mark.parametrize("name", ["3x3", "1x1", "depthwise small"])
def test_bias_of_another_dtype(kernels: Any, name: str) -> None:
    case = CASES[name]
    x, w, b = case.tensors(torch.bfloat16)
    b = b.float()
    expected = case.expected(x, w, b)
    check(kernels, [x, w, b, *case.numbers], expected)
    check(kernels, [channels_last(x), w, b, *case.numbers], expected, channels_last(expected))


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (0, 1, 3, 2), (3, 2, 1, 0), (2, 3, 0, 1)])
@pytest.mark.parametrize("name", ["3x3", "groups", "1x1", "depthwise wide", "transposed stride 2"])
def test_other_orders(kernels: Any, name: str, order: tuple[int, ...]) -> None:
    def ordered(t: torch.Tensor) -> torch.Tensor:
        inverse = [order.index(d) for d in range(4)]
        return t.permute(order).contiguous().permute(inverse)

    case = CASES[name]
    x, w, b = case.tensors(torch.float32)
    expected = case.expected(x, w, b)
    check(kernels, [ordered(x), w, b, *case.numbers], expected)
    check(kernels, [x, ordered(w), b, *case.numbers], expected)
    check(kernels, [x, w, b, *case.numbers], expected, ordered(expected))


@pytest.mark.parametrize("over", [None, 0], ids=["apart", "in place"])
@pytest.mark.parametrize("name", [*PLAIN, "depthwise small", "depthwise many channels"])
def test_adding(kernels: Any, name: str, over: int | None) -> None:
    """The result over what is added, and apart from it; with a bias and without, plain and channels last."""
    case = CASES[name]
    stride, padding, dilation, _, _, groups = case.numbers
    for dtype in FLOATS if name in ("3x3", "blocks", "1x1", "groups", "depthwise small") else [torch.float32]:
        x, w, b = case.tensors(dtype)
        for bias in (b, None):
            product = case.expected(x.double(), w.double(), None if bias is None else bias.double())
            addend = torch.randn(product.shape, dtype=torch.float64).to(dtype)
            expected = (product + addend.double()).to(dtype)
            for layout in (torch.clone, channels_last):
                given = [layout(addend), layout(x), w, bias, stride, padding, dilation, groups]
                kept = given[0].clone()
                (got,) = kernels.call("etir::convolution_add.out", given, [layout(expected)], over=over)
                tolerance = {torch.float64: 1e-12, torch.float32: 2e-4}.get(dtype, 4e-2)
                torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)
                assert over is not None or torch.equal(given[0], kept)


def test_adding_refuses(kernels: Any) -> None:
    x, w, b, r = torch.randn(1, 4, 6, 6), torch.randn(8, 4, 3, 3), torch.randn(8), torch.randn(1, 8, 4, 4)
    numbers = [[1, 1], [0, 0], [1, 1], 1]

    def refused(check: str, *arguments: Any, like: torch.Tensor = r) -> None:
        with pytest.raises(KernelFailure) as failure:
            kernels.call("etir::convolution_add.out", list(arguments), [like])
        assert failure.value.check == check

    refused("KernelShape", torch.randn(1, 8, 4, 1), x, w, b, *numbers)
    refused("KernelRank", torch.randn(8, 4, 4), x, w, b, *numbers)
    refused("KernelDimOrder", channels_last(r), x, w, b, *numbers)
    refused("KernelShape", r, x, w, torch.randn(1), *numbers)
    refused("KernelDtypeMismatch", r.double(), x, w, b, *numbers)
    refused("KernelDtypeMismatch", r, x, w, b.double(), *numbers)
    refused("KernelArgument", r, x, w, b, *numbers[:3], 0)
    whole = [t.to(torch.int32) for t in (r, x, w, b)]
    refused("KernelDtype", *whole, *numbers, like=whole[0])


def test_internal_name(kernels: Any) -> None:
    case = CASES["3x3"]
    x, w, b = case.tensors(torch.float32)
    expected = case.expected(x, w, b)
    flags = [False, False, True, True]
    (got,) = kernels.call("aten::_convolution.out", [x, w, b, *case.numbers, *flags], [expected])
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_empty(kernels: Any) -> None:
    case = Case(0, 3, 4, (5, 5), (3, 3))
    x, w, b = case.tensors(torch.float32)
    check(kernels, [x, w, b, *case.numbers], torch.empty(0, 4, 3, 3))
    x, w = torch.empty(2, 0, 5, 5), torch.empty(4, 0, 3, 3)
    check(kernels, [x, w, b, *case.numbers], b.reshape(1, 4, 1, 1).expand(2, 4, 3, 3).contiguous())


def test_refusals(kernels: Any) -> None:
    x, w, b = torch.randn(1, 4, 6, 6), torch.randn(8, 4, 3, 3), torch.randn(8)
    one, zero = [1, 1], [0, 0]
    out = torch.empty(1, 8, 4, 4)

    def refused(check: str, arguments: list[Any], like: torch.Tensor = out) -> None:
        with pytest.raises(KernelFailure) as failure:
            kernels.call("aten::convolution.out", arguments, [like])
        assert failure.value.check == check

    refused("KernelDtypeMismatch", [x, w.double(), b, one, zero, one, False, zero, 1])
    refused("KernelDtypeMismatch", [x, w, b, one, zero, one, False, zero, 1], out.double())
    refused("KernelDtype", [x > 0, w > 0, None, one, zero, one, False, zero, 1], out > 0)
    refused("KernelRank", [x[0], w, b, one, zero, one, False, zero, 1])
    refused("KernelRank", [x, w, b[None], one, zero, one, False, zero, 1])
    refused("KernelShape", [x, w, b[:7].clone(), one, zero, one, False, zero, 1])
    refused("KernelShape", [x, torch.randn(8, 3, 3, 3), b, one, zero, one, False, zero, 1])
    refused("KernelShape", [x, torch.randn(8, 4, 7, 3), b, one, zero, one, False, zero, 1])
    refused("KernelShape", [x, torch.randn(8, 4, 0, 3), b, one, zero, one, False, zero, 1])
    refused("KernelShape", [x, torch.randn(7, 2, 3, 3), b, one, zero, one, False, zero, 2])
    for stride in ([0, 1], [1, -1], [1, 1, 1], [2**62, 1], []):
        refused("KernelArgument", [x, w, b, stride, zero, one, False, zero, 1])
    for padding in ([-1, 0], [0, 2**40], []):
        refused("KernelArgument", [x, w, b, one, padding, one, False, zero, 1])
    refused("KernelArgument", [x, w, b, one, zero, [0, 1], False, zero, 1])
    for groups in (0, -1, 3, 2**40):
        refused("KernelArgument", [x, w, b, one, zero, one, False, zero, groups])
    refused("KernelArgument", [x, torch.randn(4, 8, 3, 3), b, one, zero, one, True, [1, 1], 1])
    refused("KernelShape", [x, torch.randn(4, 8, 3, 3), b, one, [9, 9], one, True, zero, 1])
    refused("KernelShape", [x, torch.randn(4, 8, 3, 3), b, [2**30, 1], zero, one, True, zero, 1])
    refused("KernelResize", [x, w, b, one, one, one, False, zero, 1])
