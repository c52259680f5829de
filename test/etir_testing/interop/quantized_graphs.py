"""Small graphs of ``dequantize -> operator -> quantize`` at the edges of what quantizers make: other integers, other
places of the pairs, bias as integers, extreme factors, weights in blocks.

Each is a function of its inputs, and says how far from eager a runtime may be: one step of the result's scale, since
requantization rounds at other places than eager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed
import torch.nn.functional as F

q = torch.ops.quantized_decomposed

INT8, SYMMETRIC, UINT8 = (-128, 127, torch.int8), (-127, 127, torch.int8), (0, 255, torch.uint8)
REDUCED, INT16 = (0, 127, torch.uint8), (-32768, 32767, torch.int16)


@dataclass(frozen=True)
class Graph:
    """``function`` of ``inputs``; ``step`` is the scale of what it returns, ``integers`` whether XNNPACK computes
    everything between the first and the last convert on integers, ``outside`` whether a part stays outside of it.
    """

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    step: float
    integers: bool = True
    outside: bool = False


def pair(x: torch.Tensor, scale: float, point: int, kind: tuple[int, int, torch.dtype] = INT8) -> torch.Tensor:
    """``x`` rounded to integers and back."""
    return q.dequantize_per_tensor(q.quantize_per_tensor(x, scale, point, *kind), scale, point, *kind)


def rows_of(weight: torch.Tensor, bits: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """The integers of a weight, symmetric, and a scale for each of its first dim."""
    most = 2 ** (bits - 1) - 1
    scales = weight.flatten(1).abs().amax(1) / most
    along = scales.reshape(-1, *[1] * (weight.dim() - 1))
    return (weight / along).round().clamp(-most - 1, most).to(torch.int8), scales


torch.manual_seed(0)
X = torch.randn(4, 16)
IMAGE = torch.randn(2, 8, 6, 6)
POINTS = torch.zeros(12, dtype=torch.int64)
W, S = rows_of(torch.randn(12, 16) / 4)
C, CS = rows_of(torch.randn(12, 8, 3, 3) / 8)
BIAS = torch.randn(12)


def weight(integers: torch.Tensor = W, scales: torch.Tensor = S, low: int = -127, high: int = 127) -> torch.Tensor:
    """The weight multiplied out, with a scale for each output."""
    return q.dequantize_per_channel(integers, scales, POINTS, 0, low, high, torch.int8)


def linear(
    x: torch.Tensor,
    kind: tuple[int, int, torch.dtype] = INT8,
    point: int = 3,
    out: float = 0.05,
    scale: float = 0.03,
    bias: torch.Tensor | None = BIAS,
) -> torch.Tensor:
    """A layer between pairs of integers of one kind."""
    return pair(F.linear(pair(x, scale, point, kind), weight(), bias), out, point, kind)


def conv(x: torch.Tensor, kind: tuple[int, int, torch.dtype] = INT8, point: int = 3) -> torch.Tensor:
    """An image's layer between pairs."""
    return pair(F.conv2d(pair(x, 0.03, point, kind), weight(C, CS), BIAS, padding=1), 0.05, point, kind)


def int32_bias(scale_in: float = 0.03) -> torch.Tensor:
    """The bias as integers whose scales are those of the products."""
    scales = S * scale_in
    integers = (BIAS / scales).round().to(torch.int32)
    return q.dequantize_per_channel(integers, scales, POINTS, 0, -(2**31), 2**31 - 1, torch.int32)


def with_int32_bias(x: torch.Tensor) -> torch.Tensor:
    return pair(F.linear(pair(x, 0.03, 3), weight(), int32_bias()), 0.05, 3)


def with_one_scale(x: torch.Tensor) -> torch.Tensor:
    """One scale for the weight, and for the bias."""
    integers = (BIAS / 0.0003).round().to(torch.int32)
    bias = q.dequantize_per_tensor(integers, 0.0003, 0, -(2**31), 2**31 - 1, torch.int32)
    stored = q.dequantize_per_tensor(W, 0.01, 0, -127, 127, torch.int8)
    return pair(F.linear(pair(x, 0.03, 3), stored, bias), 0.05, 3)


def scaled_linear(x: torch.Tensor, out: float) -> torch.Tensor:
    return pair(F.linear(pair(x, 0.03, 3), weight(), BIAS), out, 0)


def moves(x: torch.Tensor) -> torch.Tensor:
    y = pair(x, 0.03, -5)
    return pair(y.flatten(1).view(2, 8, 36).permute(0, 2, 1).unsqueeze(0), 0.03, -5)


def moves_before_quantize(x: torch.Tensor) -> torch.Tensor:
    """No pair after the layer but the one after the moves."""
    y = F.conv2d(pair(x, 0.03, 3), weight(C, CS), BIAS, padding=1)
    return pair(F.relu(y).flatten(2).permute(0, 2, 1), 0.05, -128)


def moves_between_layers(x: torch.Tensor) -> torch.Tensor:
    y = pair(F.relu(F.conv2d(pair(x, 0.03, 3), weight(C, CS), BIAS, padding=1)), 0.03, -128)
    y = torch.cat([y.permute(0, 2, 3, 1).flatten(0, 2)[:, :8]] * 2, 1)
    return pair(F.linear(y, weight(), BIAS), 0.05, 3)


def concat(first: float, second: float, out: float) -> Callable[..., torch.Tensor]:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return pair(torch.cat([pair(x, first, 3), pair(y, second, -20)], 1), out, 7)

    return function


def concat_of_layers(x: torch.Tensor) -> torch.Tensor:
    """The layers' results have no pairs of their own."""
    x = pair(x, 0.03, 3)
    return pair(torch.cat([F.linear(x, weight(), BIAS), F.relu(F.linear(x, weight()))], 1), 0.05, 3)


def skip(x: torch.Tensor) -> torch.Tensor:
    x = pair(x, 0.03, 3)
    return pair(x[:, :12] + pair(F.linear(x, weight(), BIAS), 0.05, 3), 0.06, -3)


def relu6(x: torch.Tensor, *, is_inside: bool) -> torch.Tensor:
    """The stock quantizer puts a pair before ``relu6``, others after it alone."""
    y = F.conv2d(pair(x, 0.03, 3), weight(C, CS), BIAS, padding=1)
    y = pair(y, 0.05, -30) if is_inside else y
    return pair(F.relu6(y), 0.05 if is_inside else 6 / 255, -30 if is_inside else -128)


def padded(x: torch.Tensor) -> torch.Tensor:
    return pair(F.pad(pair(x, 0.03, -5), (1, 2)), 0.03, -5)


def pooled(x: torch.Tensor) -> torch.Tensor:
    return pair(F.max_pool2d(pair(x, 0.03, -5).permute(0, 1, 3, 2), 2), 0.03, -5)


def stacked(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return pair(torch.stack([pair(x, 0.03, 3), pair(y, 0.03, 3)]).flip(1), 0.03, 3)


def split(x: torch.Tensor) -> torch.Tensor:
    first, second = pair(x, 0.03, 3).split(8, 1)
    return pair(first * second.select(1, 3).unsqueeze(1), 0.05, 3)


def byte_input(x: torch.Tensor) -> torch.Tensor:
    """Integers from outside, not negative, and the same outwards."""
    y = F.linear(q.dequantize_per_tensor(x, 0.03, 120, *UINT8), weight(), BIAS)
    return q.quantize_per_tensor(y, 0.05, 131, *UINT8)


def softmax_on_integers(x: torch.Tensor) -> torch.Tensor:
    return pair(F.softmax(pair(x, 0.03, 3), -1), 1 / 256, -128)


def far_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return pair(pair(x, 1e-5, 3) + pair(y, 0.05, 3), 0.05, 3)


def far_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return pair(pair(x, 1e-5, 3) * pair(y, 1e-3, 3), 0.5, 3)


def function(
    f: Callable[..., torch.Tensor], out: float, point: int, scale: float = 0.03
) -> Callable[..., torch.Tensor]:
    """A function of one tensor between two pairs."""
    return lambda x: pair(f(pair(x, scale, -17)), out, point)


def sequence(x: torch.Tensor) -> torch.Tensor:
    y = F.conv1d(pair(x.flatten(2), 0.03, 3), weight(C[..., 0], CS), BIAS, stride=2, padding=1)
    return pair(F.hardtanh(y, -1.0, 1.0), 2 / 255, -1)


def enlarged(x: torch.Tensor, *, by_channel: bool) -> torch.Tensor:
    """A transposed convolution, with a scale for each output or one."""
    stored, points = C.transpose(0, 1).contiguous(), POINTS
    filters = q.dequantize_per_channel(stored, CS, points, 1, -127, 127, torch.int8)
    if not by_channel:
        filters = q.dequantize_per_tensor(stored, 0.004, 0, -127, 127, torch.int8)
    return pair(F.conv_transpose2d(pair(x, 0.03, 3), filters, BIAS, stride=2), 0.05, 3)


def attention(x: torch.Tensor) -> torch.Tensor:
    rows = pair(x, 0.03, 3).unsqueeze(0)
    return pair(torch.bmm(rows, rows.transpose(1, 2)), 0.2, -20)


def onnx_style(x: torch.Tensor, point: int = 128) -> torch.Tensor:
    """Two layers as ONNX has them: uint8 activations with zero points, int32 bias, a weight of uint8."""
    y = pair(x, 0.03, 114, UINT8)
    bias = q.dequantize_per_channel(
        (BIAS / (CS * 0.03)).round().to(torch.int32), CS * 0.03, POINTS, 0, -(2**31), 2**31 - 1, torch.int32
    )
    y = pair(F.relu(F.conv2d(y, weight(C, CS), bias, padding=1)), 0.02, 0, UINT8)
    stored = (W[:, :12].to(torch.int32) + point).clamp(0, 255).to(torch.uint8)
    matrix = q.dequantize_per_tensor(stored, 0.004, point, *UINT8)
    return pair(F.linear(pair(y.mean([2, 3]), 0.01, 0, UINT8), matrix), 0.01, 120, UINT8)


BYTES = torch.randint(0, 256, (4, 16), dtype=torch.uint8)

GRAPHS: dict[str, Graph] = {
    "linear": Graph(linear, (X,), 0.05),
    "convolution": Graph(conv, (IMAGE,), 0.05),
    "linear, -127 to 127": Graph(lambda x: linear(x, SYMMETRIC, 0), (X,), 0.05),
    "linear, -127 to 127, saturated": Graph(lambda x: linear(x, SYMMETRIC, 0, 0.01, 0.01), (X,), 0.01),
    "linear, uint8": Graph(lambda x: linear(x, UINT8, 128), (X,), 0.05),
    "linear, uint8, another zero point": Graph(lambda x: linear(x, UINT8, 100, 0.03), (X,), 0.03),
    "linear, 7 bits of uint8": Graph(lambda x: linear(x, REDUCED, 60), (X,), 0.05),
    "convolution, uint8": Graph(lambda x: conv(x, UINT8, 128), (IMAGE,), 0.05),
    "convolution, -127 to 127": Graph(lambda x: conv(x, SYMMETRIC, 0), (IMAGE,), 0.05),
    "linear, int16": Graph(lambda x: linear(x, INT16, 0, 0.0005), (X,), 0.0005, integers=False, outside=True),
    "uint8 inwards and outwards": Graph(byte_input, (BYTES,), 1.0, outside=True),
    "int32 bias": Graph(with_int32_bias, (X,), 0.05),
    "int32 bias, one scale": Graph(with_one_scale, (X,), 0.05),
    "no bias": Graph(lambda x: linear(x, bias=None), (X,), 0.05),
    "factor above 256": Graph(lambda x: scaled_linear(x * 100, 3e-7), (X,), 3e-7, integers=False, outside=True),
    "factor below 2^-32": Graph(lambda x: scaled_linear(x, 1e9), (X,), 1e9),
    "chain of moves": Graph(moves, (IMAGE,), 0.03),
    "moves before quantize": Graph(moves_before_quantize, (IMAGE,), 0.05),
    "moves between layers": Graph(moves_between_layers, (IMAGE,), 0.05),
    "concat, one scale": Graph(concat(0.05, 0.05, 0.05), (X, X * 2), 0.05),
    "concat, two scales": Graph(concat(0.03, 0.05, 0.05), (X, X * 2), 0.05),
    "concat, three scales": Graph(concat(0.03, 0.05, 0.06), (X, X * 2), 0.06),
    "concat, far scales": Graph(concat(1e-6, 0.05, 0.05), (X * 1e-4, X), 0.05, integers=False),
    "concat of layers": Graph(concat_of_layers, (X,), 0.05),
    "addition, three scales": Graph(skip, (X,), 0.06),
    "addition, far scales": Graph(far_sum, (X * 1e-3, X), 0.05, integers=False),
    "product, far scales": Graph(far_product, (X * 1e-3, X), 0.5, integers=False),
    "relu6 after a pair": Graph(lambda x: relu6(x, is_inside=True), (IMAGE,), 0.05),
    "relu6 before a pair": Graph(lambda x: relu6(x, is_inside=False), (IMAGE,), 6 / 255),
    "padding": Graph(padded, (IMAGE,), 0.03),
    "max pool after a move": Graph(pooled, (IMAGE,), 0.03),
    "split, select, product": Graph(split, (X,), 0.05),
    "stack and flip": Graph(stacked, (X, X.flip(0)), 0.03, integers=False, outside=True),
    "softmax": Graph(softmax_on_integers, (X,), 1 / 256, integers=False),
    "gelu": Graph(function(F.gelu, 0.02, -120), (X,), 0.02),
    "gelu by tanh": Graph(function(lambda x: F.gelu(x, approximate="tanh"), 0.02, -120), (X,), 0.02),
    "gelu by tanh, small steps": Graph(
        function(lambda x: F.gelu(x, approximate="tanh"), 0.0005, 0), (X,), 0.0005, integers=False
    ),
    "sigmoid": Graph(function(torch.sigmoid, 1 / 256, -128), (X,), 1 / 256),
    "tanh": Graph(function(torch.tanh, 1 / 128, 0), (X,), 1 / 128),
    "hardswish": Graph(function(F.hardswish, 0.02, -110), (X,), 0.02),
    "elu": Graph(function(F.elu, 0.02, -80), (X,), 0.02),
    "exp": Graph(function(torch.exp, 0.05, -128), (X,), 0.05),
    "absolute value": Graph(function(torch.abs, 0.015, -128), (X,), 0.015),
    "leaky_relu": Graph(function(lambda x: F.leaky_relu(x, 0.1), 0.02, -90), (X,), 0.02),
    "leaky_relu, falling": Graph(function(lambda x: F.leaky_relu(x, -0.3), 0.02, -90), (X,), 0.02),
    "leaky_relu, far scales": Graph(function(lambda x: F.leaky_relu(x, 0.001), 1e-5, 0), (X,), 1e-5, integers=False),
    "two functions": Graph(
        function(lambda x: pair(torch.tanh(pair(F.gelu(x), 0.02, -120)), 0.01, 0), 0.01, 0), (X,), 0.01
    ),
    "resize": Graph(
        function(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False), 0.03, -17),
        (IMAGE,),
        0.03,
    ),
    "average pool": Graph(function(lambda x: F.avg_pool2d(x, 2), 0.03, -17), (IMAGE,), 0.03, integers=False),
    "mean over the image": Graph(function(lambda x: x.mean([2, 3], keepdim=True), 0.01, 3), (IMAGE,), 0.01),
    "sequence with a clamp": Graph(sequence, (IMAGE,), 2 / 255),
    "transposed convolution": Graph(lambda x: enlarged(x, by_channel=True), (IMAGE,), 0.05),
    "transposed convolution, one scale": Graph(lambda x: enlarged(x, by_channel=False), (IMAGE,), 0.05),
    "attention": Graph(attention, (X,), 0.2, integers=False),
    "ONNX-style": Graph(onnx_style, (IMAGE,), 0.01),
    "ONNX-style, another zero point of a weight": Graph(lambda x: onnx_style(x, 131), (IMAGE,), 0.01, integers=False),
    "requantized twice": Graph(lambda x: pair(pair(x, 0.03, 3), 0.05, -7), (X,), 0.05),
}
"""By what is special about each."""
