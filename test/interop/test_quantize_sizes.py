"""What integers are for: small files and little memory, on every target."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from quantization_flow import stock_file
from torch import nn

import etir
from etir.quantization.report import sqnr

from etir_testing.interop.xnnpack_runs import run_own, run_stock

TARGETS: dict[str, dict[str, Any]] = {
    "etir": {"target": "etir"},
    "executorch": {"target": "executorch"},
    "xnnpack": {"delegates": ["xnnpack"]},
}


class _Block(nn.Module):
    """A block of a transformer, 128 wide."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(128), nn.Linear(128, 384), nn.Linear(128, 128)
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v))
        return x + self.down(F.gelu(self.up(x)))


@pytest.mark.parametrize(
    ("recipe", "target"),
    [
        ("8da4w", "etir"),
        ("8da4w", "xnnpack"),
        ("weight-int4", "etir"),
        ("weight-int4", "xnnpack"),
        ("weight-int4", "executorch"),
    ],
)
@pytest.mark.parametrize("size", [1, 1e-6])
def test_half_a_byte_for_each_weight(recipe: str, target: str, size: float) -> None:
    """And two for a scale of each 32. Where float16 does not hold those of two layers of four, bfloat16 does; etir's
    own kernels have them in float32 then. Those of the stock runtime, which read no such weights, get them from
    operators that split bytes.
    """
    torch.manual_seed(0)
    module, x = _Block().eval(), torch.randn(1, 9, 128)
    with torch.no_grad():
        module.up.weight.mul_(size)
        module.down.weight.div_(size)
    found = etir.quantize(torch.export.export(module, (x,)), recipe, **TARGETS[target])
    data = found.compile().buffer
    weights = sum(layer.weight.numel() for layer in module.modules() if isinstance(layer, nn.Linear))
    others = sum(4 * p.numel() for p in module.parameters()) - 4 * weights
    scales = weights // 32 * (4 if target == "etir" and size < 1 else 2)
    assert len(data) < weights // 2 + scales + others + 14_000
    output = (run_own if target == "etir" else run_stock)(data, [x])[0]
    with torch.no_grad():
        assert sqnr(module(x).numpy(), output.numpy()) > 22
    if target == "xnnpack":
        # By etir's own runtime from the same file.
        assert sqnr(output.numpy(), run_own(data, [x])[0].numpy()) > (100 if recipe == "weight-int4" else 40)


@pytest.mark.parametrize("symmetric", [True, False])
def test_other_quantizers(symmetric: bool) -> None:
    """torchao's weights of 4 bits, with zero points as well, on the stock runtime without a delegate."""
    torchao = pytest.importorskip("torchao.quantization")
    torch.manual_seed(1)
    module, x = nn.Sequential(nn.Linear(256, 192), nn.ReLU(), nn.Linear(192, 128)).eval(), torch.randn(3, 256)
    mapping = torchao.MappingType.SYMMETRIC if symmetric else torchao.MappingType.ASYMMETRIC
    config = torchao.IntxWeightOnlyConfig(
        weight_dtype=torch.int4, granularity=torchao.PerGroup(32), mapping_type=mapping
    )
    torchao.quantize_(module, config)
    data = etir.compile(torch.export.export(module, (x,))).buffer
    weights = 256 * 192 + 192 * 128
    assert len(data) < weights * (0.5 + (4 if symmetric else 12) / 32) + 10_000
    with torch.no_grad():
        assert sqnr(module(x).numpy(), run_stock(data, [x])[0].numpy()) > 100


class _Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_memory_and_file_of_a_net_of_images() -> None:
    """Values are a fourth; the file is that of the stock flow, to two percent and some tables."""
    torch.manual_seed(2)
    module, samples = _Images().eval(), [(torch.randn(1, 3, 32, 32),) for _ in range(2)]
    exported = torch.export.export(module, samples[0])
    floats = etir.compile(exported, target="etir")
    memory: dict[str, int] = {}
    for name in ("etir", "xnnpack"):
        program = etir.quantize(exported, calibration=samples, **TARGETS[name]).compile()
        memory[name] = sum(program.runtime_memory()["forward"].planned)
        with torch.no_grad():
            assert len(program.buffer) < 1.02 * len(stock_file(module, samples, "static-int8")) + 4_000
    assert memory["etir"] <= 0.3 * sum(floats.runtime_memory()["forward"].planned)
