"""Weights from -63 to 63, on both runtimes, with every way to round them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.dialects.et.program import WeightOp
from etir.dialects.et.weights import payload_of
from etir.dialects.quant.ops import REDUCED
from etir.dialects.text import parse_module, print_module
from etir.quantization.aimet import encodings_text
from etir.quantization.report import KINDS, sqnr
from etir.quantized import Quantized

from etir_testing.interop.xnnpack_runs import run_own, run_stock


class _Net(nn.Module):
    """Convolutions, one of them depthwise and one transposed, linear layers, and a table that integers do not read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(40, 16)
        self.first, self.depthwise = nn.Conv1d(16, 32, 3, padding=1), nn.Conv1d(32, 32, 3, padding=1, groups=32)
        self.up = nn.ConvTranspose1d(32, 16, 2, stride=2)
        self.norm, self.inner, self.outer = nn.LayerNorm(16), nn.Linear(16, 64), nn.Linear(64, 24)
        with torch.no_grad():
            self.norm.weight.uniform_(0.5, 2)
            self.norm.bias.normal_()

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        x = self.table(i).transpose(1, 2)
        x = self.up(torch.relu(self.depthwise(torch.relu(self.first(x)))))
        return self.outer(torch.relu(self.inner(self.norm(x.transpose(1, 2)))))


NET = _Net().eval()
SAMPLES = [(torch.randint(0, 40, (2, 12), generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
EXPORTED = torch.export.export(NET, SAMPLES[0])
TARGETS: dict[str, dict[str, Any]] = {
    "xnnpack": {"delegates": ["xnnpack"]},
    "etir": {"target": "etir"},
    "cortex_m": {"link_libraries": ["cortex_m"]},
}


def _quantize(recipe: str, target: str, **keywords: Any) -> Quantized:
    calibration = SAMPLES[:3]
    return etir.quantize(EXPORTED, recipe, calibration=calibration, **TARGETS[target], **keywords)


def _largest(found: Quantized) -> dict[str, int]:
    """The largest magnitude of each layer's weight in steps of its scales, from what a file of encodings says."""
    sizes = {}
    weights = {name: p.detach().numpy() for name, p in NET.named_parameters()}
    for entry in json.loads(encodings_text(found.observed))["param_encodings"]:
        name = entry["name"].split(":")[0]
        weight, scales = weights[f"{name}.weight"], np.array(entry["scale"])
        axis = list(weight.shape).index(len(scales)) if name == "up" else 0
        along = scales.reshape([-1 if d == axis else 1 for d in range(weight.ndim)])
        sizes[name] = round(float(np.abs(weight / along).max()))
    return sizes


def _run(found: Quantized, target: str) -> np.ndarray:
    data = found.compile().buffer
    return (run_stock if target == "xnnpack" else run_own)(data, list(SAMPLES[3]))[0].numpy()


@pytest.mark.parametrize(
    ("recipe", "target"),
    [*(("static-int8", name) for name in TARGETS), ("dynamic-int8", "xnnpack"), ("dynamic-int8", "etir")],
)
def test_integers_and_results(recipe: str, target: str) -> None:
    """Half the steps of each weight: a bit less of it, and no more of the results."""
    whole, reduced = _quantize(recipe, target), _quantize(recipe, target, reduce_range=True)
    sizes = _largest(reduced)
    assert set(sizes.values()) == {REDUCED}
    assert sizes.keys() == _largest(whole).keys()
    assert set(_largest(whole).values()) == {127}
    wanted = NET(*SAMPLES[3]).detach().numpy()
    losses = [sqnr(wanted, _run(found, target)) for found in (whole, reduced)]
    assert losses[0] - 7 < losses[1] < losses[0] + 1
    for before, after in zip(whole.report.layers, reduced.report.layers, strict=True):
        assert (before.name, before.weight_bytes) == (after.name, after.weight_bytes)
        if before.weight_sqnr is None or "int8" not in before.stored:
            assert after.stored == before.stored
        else:
            assert after.stored == f"{before.stored}, int7 weights"
            assert after.weight_sqnr is not None
            assert 4 < before.weight_sqnr - after.weight_sqnr < 8
    assert f"{len(sizes)} {'int8' if recipe == 'static-int8' else 'int8 at run time'}, int7 weights" in str(
        reduced.report
    )
    assert len(reduced.compile().buffer) == len(whole.compile().buffer)


@pytest.mark.parametrize("target", ["xnnpack", "etir"])
@pytest.mark.parametrize("rounding", ["nearest", "mse", "hqq", "gptq", "awq"])
def test_rounding(rounding: str, target: str) -> None:
    """Each method keeps to the range, and uses it."""
    found = _quantize("static-int8", target, reduce_range=True, rounding=rounding)
    integers = [
        np.frombuffer(payload_of(op.value, cast(Any, op.type)).data, np.int8).astype(np.int16)
        for op in found.module.walk()
        if isinstance(op, WeightOp) and "_int8" in op.sym_name.data
    ]
    largest = [int(np.abs(numbers).max()) for numbers in integers]
    assert len(largest) == 5
    assert max(largest) == REDUCED
    assert min(largest) > 0.9 * REDUCED  # a method may choose a wider scale for a layer
    assert sqnr(NET(*SAMPLES[3]).detach().numpy(), _run(found, target)) > 25


def test_text() -> None:
    """The mark is read as it is printed."""
    text = print_module(_quantize("static-int8", "etir", reduce_range=True).observed)
    assert text.count("#quant.uniform<i8<-63:63>, axis = 0>") == 4  # the transposed one has the other dim
    assert text.count("#quant.uniform<i8<-63:63>, axis = 1>") == 1
    assert print_module(parse_module(text)) == text


def test_a_budget_leaves_integers_for_weights_only() -> None:
    """The head of the report counts them, too."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 32)).eval()
    samples = [(torch.randn(8, 64) * torch.logspace(-2, 2, 64),) for _ in range(3)]
    program = torch.export.export(net, samples[0])
    found = etir.quantize(program, calibration=samples, target="etir", reduce_range=True, budget=30)
    stored = [layer.stored for layer in found.report.layers]
    assert stored == ["int7 weights", "int8, int7 weights", "int8", "int8, int7 weights"]
    assert set(stored) <= set(KINDS)
    assert "layers: 1 int8, 2 int8, int7 weights, 1 int7 weights" in str(found.report)


@pytest.mark.parametrize("recipe", ["8da4w", "weight-int8", "weight-int4"])
def test_recipes_without_it(recipe: str) -> None:
    with pytest.raises(EtirError, match="weights of a reduced range") as caught:
        _quantize(recipe, "etir", reduce_range=True)
    assert caught.value.ids == ("E1501",)


def test_integers_of_others(tmp_path: Path) -> None:
    """An ONNX model has its own."""
    with pytest.raises(EtirError, match="whose range is to be reduced") as caught:
        _quantize("static-int8", "etir", reduce_range=True, ranges=tmp_path / "net.onnx")
    assert caught.value.ids == ("E1508",)
