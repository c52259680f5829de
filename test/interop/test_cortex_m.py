"""Programs on int8 for ExecuTorch's library for Cortex-M: its operators, their numbers, and their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from executorch.backends.cortex_m.library import cmsis_nn
from torch import nn

import etir
from etir.dialects.context import EtContext
from etir.dialects.edge.base import EdgeOp
from etir.emit.pte.reader import read_pte
from etir.interpret.interpreter import Interpreter
from etir.passes.backend.fuse_quantized.cortex_m import depthwise_bytes, patch_bytes, transposed_bytes
from etir.passes.backend.fuse_quantized.driver import FuseQuantizedPass
from etir.quantization.report import sqnr
from etir.runtime import load

from etir_testing.interop.cortex_m_references import register_references

DEVICE: Any = {"target": "executorch", "link_libraries": ["cortex_m"]}
register_references()


class _Net(nn.Module):
    """What a small net for images has: convolutions of all kinds, clamps, sums, products, pools, layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16)
        self.depthwise, self.pointwise = nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 24, 1, bias=False)
        self.grouped = nn.Conv2d(24, 24, 3, padding=1, groups=4)
        self.multiplied = nn.Conv2d(24, 48, 2, groups=24)
        self.hidden, self.head = nn.Linear(48, 20), nn.Linear(20, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu6(self.norm(self.first(x))), 3, 2, 1)
        x = self.pointwise(F.relu(x + F.relu6(self.depthwise(x))))
        x = F.hardswish(self.grouped(x)) * x - x
        x = F.adaptive_avg_pool2d(F.relu(self.multiplied(x)), 1).flatten(1)
        return self.head(torch.tanh(self.hidden(x)))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) @ self.k(x).transpose(1, 2)


class _Decoder(nn.Module):
    """Images that become larger: few and many channels, which CMSIS-NN computes in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.ConvTranspose2d(4, 24, 3, 2, padding=1, output_padding=1), nn.BatchNorm2d(24)
        self.second = nn.ConvTranspose2d(24, 3, (2, 4), (1, 2), bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.norm(self.first(x))))


class _Choices(nn.Module):
    """Padding with zero and with another number, and the greater and the less of two."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, (2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        near, far = self.second(F.pad(x, (1, 2, 0, 1))), self.second(x)
        far = F.pad(far, (1, 2, 1, 0), value=0.3)
        return torch.minimum(torch.maximum(near, far), near * 0.5)


class _Gray(nn.Module):
    """An image of one channel, which ExecuTorch says has its channels innermost, and images of one pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 1, 3), nn.Conv2d(1, 4, 2, stride=2)
        self.third = nn.Conv2d(4, 5, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.third(self.second(F.pad(self.first(x), (0, 1, 2, 1))))
        return torch.tanh(F.pad(x, (1, 0, 0, 1, 1, 0)))


class _Lines(nn.Module):
    """What hears words: convolutions of lines, whole, in groups and by channel."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = (
            nn.Conv1d(4, 12, 5, stride=2, padding=2),
            nn.Conv1d(12, 12, 3, padding=1, groups=12),
        )
        self.grouped, self.last = nn.Conv1d(12, 8, 3, groups=2), nn.Conv1d(8, 6, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        x = F.hardswish(self.grouped(x + F.relu6(self.depthwise(x))))
        return torch.sigmoid(self.last(x))


class _Shares(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1)
        return self.out(weights @ self.v(x))


CASES: dict[str, tuple[type[nn.Module], tuple[int, ...], set[str]]] = {
    "image": (
        _Net,
        (1, 3, 16, 16),
        {
            "quantized_activation", "quantized_add", "quantized_avg_pool2d", "quantized_conv2d",
            "quantized_depthwise_conv2d", "quantized_max_pool2d", "quantized_mul",
        },
    ),
    "larger images": (_Decoder, (1, 4, 6, 5), {"quantized_transpose_conv2d"}),
    "matrices": (_Attention, (2, 5, 8), {"quantized_batch_matmul", "quantized_conv2d", "transpose"}),
    "lines": (
        _Lines, (1, 4, 25),
        {"quantized_activation", "quantized_add", "quantized_conv2d", "quantized_depthwise_conv2d", "quantized_mul"},
    ),
    "choices": (_Choices, (2, 3, 7, 8), {"maximum", "minimum", "pad", "quantized_activation", "quantized_conv2d"}),
    "one channel, one pixel": (_Gray, (1, 1, 8, 10), {"pad", "quantized_activation", "quantized_conv2d"}),
}  # fmt: skip


def _fused(quantized: Any) -> Any:
    module = quantized.module.clone()
    FuseQuantizedPass("executorch", ("cortex_m",)).apply(EtContext(), module)
    return module


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, nn.Module, torch.Tensor, Any]:
    torch.manual_seed(0)
    kind, shape, _ = CASES[request.param]
    module, samples = kind().eval(), [(torch.randn(shape),) for _ in range(3)]
    exported = torch.export.export(module, samples[0])
    return request.param, module, samples[0][0], etir.quantize(exported, calibration=samples, **DEVICE)


def test_operators_and_numbers(case: tuple[str, nn.Module, torch.Tensor, Any]) -> None:
    """Everything between the conversions is a kernel of the library, and means what ExecuTorch's references say. The
    file gives the same numbers on etir's own runtime, which has these kernels, too.
    """
    name, module, x, quantized = case
    fused = _fused(quantized)
    names = [op.op_name for op in fused.walk() if isinstance(op, EdgeOp)]
    device = {n.split(".")[1] for n in names if n.startswith("cortex_m.")}
    assert device == CASES[name][2] | {"quantize_per_tensor", "dequantize_per_tensor"}
    assert not [n for n in names if not n.startswith("cortex_m.") and "_copy" not in n and "empty" not in n]
    (found,) = Interpreter(fused, "numpy").run([x.numpy()])
    (wanted,) = Interpreter(fused, "torch").run([x])
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    program = quantized.compile()
    kernels = {op.full_name for op in read_pte(program.buffer).execution_plan[0].operators}
    assert not {n for n in kernels if n.startswith(("quantized_decomposed", "etir"))}
    np.testing.assert_array_equal(load(program).forward(x)[0].numpy(), np.asarray(found))
    with torch.no_grad():
        assert sqnr(module(x).numpy(), np.asarray(found)) > 25


def test_one_scale_is_a_linear_layer() -> None:
    """Of a weight with one scale, which a quantizer for this library makes."""
    import torch.ao.quantization.fx._decomposed

    ops, range_ = torch.ops.quantized_decomposed, (-128, 127, torch.int8)
    torch.manual_seed(1)

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-127, 128, (6, 40), dtype=torch.int8))
            self.bias = nn.Parameter(torch.randn(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 0.03, 5, *range_), 0.03, 5, *range_)
            y = F.linear(x, ops.dequantize_per_tensor(self.weight, 0.01, 0, *range_), self.bias)
            return ops.dequantize_per_tensor(ops.quantize_per_tensor(y, 0.2, -9, *range_), 0.2, -9, *range_)

    module, x = Layer().eval(), torch.randn(3, 40)
    program = etir.compile(torch.export.export(module, (x,)), **DEVICE)
    kernels = [op.full_name for op in read_pte(program.buffer).execution_plan[0].operators]
    assert "cortex_m::quantized_linear.out" in kernels
    with torch.no_grad():
        assert np.abs(load(program).forward(x)[0].numpy() - module(x).numpy()).max() <= 0.2001


def test_a_softmax_has_256_parts() -> None:
    """It is on integers, in fixed point, and what reads it has its parts. Some numbers are a step from the references,
    which compute it in float32.
    """
    torch.manual_seed(0)
    module, samples = _Shares().eval(), [(2 * torch.randn(2, 9, 16),) for _ in range(3)]
    quantized = etir.quantize(torch.export.export(module, samples[0]), calibration=samples, **DEVICE)
    fused = _fused(quantized)
    names = [op.op_name for op in fused.walk() if isinstance(op, EdgeOp)]
    assert names.count("cortex_m.softmax.default") == 1 and "aten._softmax.default" not in names
    (found,) = Interpreter(fused, "numpy").run([samples[0][0].numpy()])
    (wanted,) = Interpreter(fused, "torch").run([samples[0][0]])
    assert sqnr(np.asarray(wanted), np.asarray(found)) > 35
    program = quantized.compile()
    np.testing.assert_array_equal(load(program).forward(samples[0][0])[0].numpy(), np.asarray(found))
    with torch.no_grad():
        assert sqnr(module(samples[0][0]).numpy(), np.asarray(found)) > 25


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.ConvTranspose2d(4, 6, 3, groups=2), "several groups"),
        (nn.ConvTranspose2d(4, 6, 3, dilation=2), "a transposed convolution with gaps"),
    ],
)
def test_transposed_convolutions_that_it_does_not_compute(module: nn.Module, reason: str) -> None:
    samples = [(torch.randn(1, 4, 5, 5),)]
    with pytest.raises(etir.EtirError) as error:
        etir.quantize(torch.export.export(module.eval(), samples[0]), calibration=samples, **DEVICE)
    assert error.value.ids[0] == "E1506" and reason in str(error.value)


@pytest.mark.parametrize(("columns", "dim", "reason"), [(511, -1, ""), (512, -1, "512 numbers"), (4, 1, "another dim")])
def test_softmaxes_that_it_does_not_compute(columns: int, dim: int, reason: str) -> None:
    module, samples = nn.Sequential(nn.Linear(6, columns), nn.Softmax(dim)).eval(), [(torch.randn(1, 3, 6),)]
    quantized = etir.quantize(torch.export.export(module, samples[0]), calibration=samples, **DEVICE)
    (row,) = [layer for layer in quantized.report.layers if "softmax" in layer.operator]
    assert reason in row.reason and (row.stored == "int8") is (not reason)
    with torch.no_grad():
        wanted = module(*samples[0]).numpy()
    assert np.abs(wanted - load(quantized.compile()).forward(*samples[0])[0].numpy()).max() < 0.02


def test_scratch_of_transposed_convolutions_is_enough() -> None:
    random = np.random.default_rng(1)
    offsets = {"input_offset": 3, "output_offset": -2, "activation_min": -128, "activation_max": 127}
    for _ in range(400):
        channels, columns = int(random.choice([1, 4, 16, 17, 33, 64, 300])), int(random.choice([1, 4, 33]))
        kernel, stride = random.integers(1, 6, 2).tolist(), random.integers(1, 4, 2).tolist()
        padding = [int(random.integers(0, k)) for k in kernel]
        more = [int(random.integers(0, s)) for s in stride]
        size = random.integers(2, 20, 2).tolist()
        out = [(n - 1) * s - 2 * p + k + m for n, s, p, k, m in zip(size, stride, padding, kernel, more, strict=True)]
        window: Any = {"padding_hw": padding, "stride_hw": stride, "dilation_hw": [1, 1], "padding_offsets_hw": more}
        shapes: Any = {"input_nhwc": [1, *size, channels], "filter_nhwc": [columns, *kernel, channels]}
        for backend in (cmsis_nn.Backend.SCALAR, cmsis_nn.Backend.DSP, cmsis_nn.Backend.MVE):
            kind = (backend, cmsis_nn.DataType.A8W8)
            needed = cmsis_nn.transpose_conv_buffer_size(
                *kind, **shapes, output_nhwc=[1, *out, columns], **window, **offsets
            )
            assert needed <= transposed_bytes(channels, columns, kernel, stride, size[1])
            reversed_filters = cmsis_nn.transpose_conv_reverse_conv_buffer_size(*kind, **shapes, **window, **offsets)
            assert reversed_filters <= columns * kernel[0] * kernel[1] * channels


def test_scratch_is_enough() -> None:
    """What CMSIS-NN says that it takes, on every kind of processor, for convolutions at random."""
    random = np.random.default_rng(0)
    backends = [cmsis_nn.Backend.SCALAR, cmsis_nn.Backend.DSP, cmsis_nn.Backend.MVE]
    offsets = {"input_offset": 3, "output_offset": -2, "activation_min": -128, "activation_max": 127}
    for _ in range(400):
        channels, columns = int(random.choice([1, 3, 4, 6, 33, 64, 124, 125, 300])), int(random.choice([1, 4, 33]))
        kernel, stride = random.integers(1, 6, 2).tolist(), random.integers(1, 3, 2).tolist()
        padding, dilation = random.integers(0, 3, 2).tolist(), [int(random.integers(1, 3)), 1]
        groups = 2 if channels % 2 == columns % 2 == 0 and random.random() < 0.5 else 1
        size = [20, 17]
        out = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(size, padding, dilation, kernel, stride, strict=True)
        ]
        window: Any = {"padding_hw": padding, "stride_hw": stride, "dilation_hw": dilation, **offsets}
        image, taps = [1, *size, channels], kernel[0] * kernel[1]
        for backend in backends:
            needed = cmsis_nn.convolve_wrapper_buffer_size(
                backend, cmsis_nn.DataType.A8W8, input_nhwc=image, output_nhwc=[1, *out, columns],
                filter_nhwc=[columns, *kernel, channels // groups], **window,
            )  # fmt: skip
            assert needed <= patch_bytes(taps * channels)
            needed = cmsis_nn.depthwise_conv_wrapper_buffer_size(
                backend, cmsis_nn.DataType.A8W8, input_nhwc=image, output_nhwc=[1, *out, channels],
                filter_nhwc=[channels, *kernel, 1], ch_mult=1, **window,
            )  # fmt: skip
            assert needed <= depthwise_bytes(channels, taps)
