"""Quantized graphs on the stock runtime: what XNNPACKQuantizer makes, against what the exported graph computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.quantization.granularity import Granularity, PerAxis, PerGroup
from torchao.utils import unwrap_tensor_subclass

from etir.backends.xnnpack.legalize.numbers import bfloat16
from etir.backends.xnnpack.legalize.quantized import pack_nibbles

from etir_testing.interop.quantized_classifier import Classifier, quantized
from etir_testing.interop.torchao_models import X
from etir_testing.interop.torchao_models import quantized as torchao_model
from etir_testing.interop.xnnpack_runs import compile_and_run, difference


@pytest.mark.parametrize("is_per_channel", [True, False])
def test_static(is_per_channel: bool) -> None:
    """Everything between the first and the last convert works on integers; off by one step at most."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    module = quantized(Classifier(), inputs, is_per_channel=is_per_channel)
    outputs, expected, facts = compile_and_run(module, inputs)
    step = (expected[0].max() - expected[0].min()).item() / 64
    assert (outputs[0] - expected[0]).abs().max().item() <= step
    assert facts.delegate_calls == 1
    assert not facts.kernels
    assert facts.nodes["convert"] == 2
    (graph,) = facts.graphs
    names = {value.datatype.name for value in graph.values}
    assert names == ({"fp32", "qint8", "qcint8", "qcint32"} if is_per_channel else {"fp32", "qint8", "qint32"})


def test_half_quantized_graph_keeps_its_meaning() -> None:
    """Integers become floating point where an operator is not on integers."""

    class Mixed(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sigmoid(self.inner(torch.exp(x))) * 2

    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 16, 16),)
    module = Mixed(quantized(Classifier(), (torch.exp(inputs[0]),)))
    outputs, expected, facts = compile_and_run(module, inputs)
    assert difference(outputs, expected) < 2e-2
    assert facts.delegate_calls == 1


def test_dynamic_linear() -> None:
    """Activations get their scales at run time: one for each token, where the exported graph has one for all."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 1, 64),)
    module = quantized(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 9)), inputs, is_dynamic=True)
    outputs, expected, facts = compile_and_run(module, inputs)
    assert difference(outputs, expected) < 1e-2
    assert facts.nodes == {"convert": 2, "fully_connected": 2}
    assert {v.datatype.name for v in facts.graphs[0].values} == {"fp32", "qdint8", "qcint8"}


def test_dynamic_activation_shared_by_three() -> None:
    """One convert serves all products with the same activation."""

    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(64, 16) for _ in range(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q, k, v = (part(x) for part in self.parts)
            return q * k + v

    torch.manual_seed(0)
    inputs = (torch.randn(1, 1, 64),)
    outputs, expected, facts = compile_and_run(quantized(Three(), inputs, is_dynamic=True), inputs)
    assert difference(outputs, expected) < 2e-2
    assert facts.delegate_calls == 1
    assert facts.nodes["convert"] == 1


def test_dynamic_convolution() -> None:
    """One scale for each image."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3, 9, 9),)
    module = quantized(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU()), inputs, is_dynamic=True)
    outputs, expected, facts = compile_and_run(module, inputs)
    assert difference(outputs, expected) < 1e-2
    assert not facts.kernels


@pytest.mark.parametrize(
    ("dtype", "granularity", "datatype", "tolerance"),
    [
        (torch.int8, PerAxis(0), "qcint8", 2e-6),
        (torch.int4, PerAxis(0), "qcint4", 2e-6),
        (torch.int4, PerGroup(32), "qbint4", 1e-2),
    ],
)
def test_torchao_linear(dtype: torch.dtype, granularity: Granularity, datatype: str, tolerance: float) -> None:
    """Integer weights with one scale a row are exact; those of blocks have scales of bfloat16."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32, bias=False)).eval()
    config = Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype, weight_granularity=granularity)
    quantize_(module, config)
    inputs = (torch.randn(1, 3, 64),)
    outputs, expected, facts = compile_and_run(unwrap_tensor_subclass(module), inputs)
    assert difference(outputs, expected) < tolerance
    assert facts.nodes == {"convert": 2, "fully_connected": 2}
    assert {v.datatype.name for v in facts.graphs[0].values} == {"fp32", "qdint8", datatype}


def test_nibbles() -> None:
    """The even column is the low half; an odd row is filled with zero, which is 8."""
    packed = pack_nibbles(np.array([[-8, 7, 1], [0, -1, 2]], np.int8))
    assert packed.tolist() == [[0xF0, 0x89], [0x78, 0x8A]]


def test_bfloat16() -> None:
    """As torch rounds."""
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    expected = values.bfloat16().view(torch.int16).numpy().view(np.uint16)
    assert (bfloat16(values.numpy()) == expected).all()


class _WeightOnly(nn.Module):
    """A layer whose weight alone is of integers, with one scale for each output."""

    def __init__(self, low: int, high: int, *, has_bias: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        weight = torch.randn(16, 24)
        self.low, self.high = low, high
        self.register_buffer("scales", weight.abs().amax(1) / high)
        stored = torch.clamp(torch.round(weight / weight.abs().amax(1, keepdim=True) * high), low, high)
        self.register_buffer("stored", stored.to(torch.int8))
        self.register_buffer("points", torch.zeros(16, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(16)) if has_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_channel.default(
            self.stored, self.scales, self.points, 0, self.low, self.high, torch.int8
        )
        return F.relu(F.linear(x, weight, self.bias))


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("low", "high", "name"), [(-127, 127, "qcint8"), (-8, 7, "qcint4")])
def test_weight_only(low: int, high: int, name: str, has_bias: bool) -> None:
    """The integers stay integers in the file; the numbers are those of the layer in floating point."""
    inputs = (torch.linspace(-2, 2, 72).reshape(3, 24),)
    outputs, expected, facts = compile_and_run(_WeightOnly(low, high, has_bias=has_bias), inputs)
    torch.testing.assert_close(outputs[0], expected[0], rtol=1e-5, atol=1e-5)
    (graph,) = facts.graphs
    assert [node.kind.name for node in graph.nodes] == ["fully_connected", "add"][: 1 + has_bias]
    assert [value.datatype.name for value in graph.values if value.datatype.name.startswith("q")] == [name]
    assert not facts.kernels


def test_weight_that_is_written_out() -> None:
    """A product with integers that are cast, and a scale for each column, is a layer with an integer weight."""
    module = torchao_model("8w, written out")
    outputs, expected, facts = compile_and_run(module, (X,))
    torch.testing.assert_close(outputs[0], expected[0], rtol=1e-5, atol=1e-4)
    assert facts.nodes == {"fully_connected": 2, "add": 1}
    assert [v.datatype.name for v in facts.graphs[0].values if v.constant is not None].count("qcint8") == 2
    assert not facts.kernels
