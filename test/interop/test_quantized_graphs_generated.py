"""Graphs between pairs that a generator draws: operator, shapes, ranges, kinds of integers, scales of weights by
tensor, by channel and by group, with a bias and without. Each is within one step of eager at every operator, on both
runtimes and by kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import etir

from etir_testing.interop.program_runs import Function
from etir_testing.interop.quantized_graphs import INT8, REDUCED, SYMMETRIC, UINT8, pair, q
from etir_testing.interop.xnnpack_runs import run_own, run_stock

KINDS = (INT8, SYMMETRIC, UINT8, REDUCED)
Layer = Callable[[torch.Tensor], torch.Tensor]


def _weight(rng: random.Random, shape: tuple[int, ...], axis: int) -> torch.Tensor:
    """A weight multiplied out: int8 or uint8 by tensor, int8 by channel, 4 bits by group."""
    form = rng.choice(["tensor", "uint8", "channel", "channel"] + ["group"] * (len(shape) == 2 and shape[1] % 32 == 0))
    if form == "tensor":
        return q.dequantize_per_tensor(torch.randint(-127, 128, shape, dtype=torch.int8), 0.01, 0, *SYMMETRIC)
    if form == "uint8":
        return q.dequantize_per_tensor(torch.randint(0, 256, shape, dtype=torch.uint8), 0.01, 128, *UINT8)
    if form == "group":
        integers = torch.randint(-8, 8, shape, dtype=torch.int8)
        scales = torch.rand(shape[0], shape[1] // 32).to(torch.bfloat16).float() * 0.1 + 0.0625
        return q.dequantize_per_channel_group(integers, scales, None, -8, 7, torch.int8, 32, torch.float32)
    integers = torch.randint(-127, 128, shape, dtype=torch.int8)
    points = torch.zeros(shape[axis], dtype=torch.int64)
    return q.dequantize_per_channel(integers, torch.rand(shape[axis]) * 0.02 + 0.001, points, axis, *SYMMETRIC)


def _layer(rng: random.Random, dims: int) -> tuple[Layer, tuple[int, ...]]:
    """An operator, and the shape of its input."""
    channels, size = rng.choice([3, 8, 17, 32, 64]), rng.choice([1, 5, 8])
    outputs = rng.choice([1, 8, 12])
    bias = rng.choice([None, torch.randn(outputs)])
    if dims == 2:
        weight = _weight(rng, (outputs, channels), 0)
        return (lambda x: F.linear(x, weight, bias)), (size, channels)
    window = (rng.choice([1, 3]),) * (dims - 2)
    stride, padding = rng.choice([1, 2]), rng.choice([0, 1])
    shape = (2, channels, *(7,) * (dims - 2))
    transposed = dims == 4 and rng.random() < 0.25
    if transposed:
        weight = _weight(rng, (channels, outputs, *window), 1)
        return (lambda x: F.conv_transpose2d(x, weight, bias, stride)), shape
    convolve = F.conv1d if dims == 3 else F.conv2d
    if rng.random() < 0.25:
        depthwise = _weight(rng, (channels, 1, *window), 0)
        return (lambda x: convolve(x, depthwise, None, stride, padding, 1, channels)), shape
    weight = _weight(rng, (outputs, channels, *window), 0)
    return (lambda x: convolve(x, weight, bias, stride, padding)), shape


FUNCTIONS: tuple[Layer, ...] = (
    F.relu,
    F.relu6,
    F.gelu,
    torch.sigmoid,
    torch.tanh,
    F.hardswish,
    lambda x: F.leaky_relu(x, 0.2),
    lambda x: x.flatten(1),
    lambda x: x.transpose(0, 1),
    lambda x: torch.cat([x, x], 1),
    lambda x: x[:1],
    lambda x: x + x,
)


def _encoding(x: torch.Tensor, kind: tuple[int, int, torch.dtype]) -> tuple[float, int]:
    """The scale and the zero point of what a graph computes."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    if kind is SYMMETRIC:
        return max(-low, high, 1e-3) / 127, 0
    scale = max(high - low, 1e-3) / (kind[1] - kind[0])
    return scale, max(kind[0], min(kind[1], round(kind[0] - low / scale)))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(40))
def test_graph(seed: int) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    kind = rng.choice(KINDS)
    layer, shape = _layer(rng, rng.choice([2, 2, 3, 4, 4]))
    after = rng.choice(FUNCTIONS)
    x = torch.randn(shape) * rng.choice([0.01, 1.0, 50.0])
    first = _encoding(x, kind)
    middle = _encoding(layer(pair(x, *first, kind)), kind)
    last = _encoding(after(pair(layer(pair(x, *first, kind)), *middle, kind)), kind)

    def function(x: torch.Tensor) -> torch.Tensor:
        return pair(after(pair(layer(pair(x, *first, kind)), *middle, kind)), *last, kind)

    with torch.no_grad():
        exported = torch.export.export(Function(function), (x,))
        wanted = function(x)
    delegated = etir.compile(exported, delegates=["xnnpack"]).buffer
    kernels = etir.compile(exported, target="etir").buffer
    slope = 1.2  # the steepest of the functions, whose operand may be a step off
    allowed = last[0] * (1 + 1e-4) + slope * middle[0] * (2 if after is FUNCTIONS[-1] else 1)
    for (output,) in (run_stock(delegated, [x]), run_own(delegated, [x]), run_own(kernels, [x])):
        assert (output - wanted).abs().max().item() <= allowed
