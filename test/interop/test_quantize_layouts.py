"""Programs whose images have their channels innermost are quantized as others are; what they write to is not lost."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.quantization.report import sqnr
from etir.runtime import load

from etir_testing.interop.xnnpack_runs import run_stock

TARGETS: dict[str, dict[str, Any]] = {
    "etir": {"target": "etir"},
    "xnnpack": {"delegates": ["xnnpack"]},
    "cortex_m": {"target": "executorch", "link_libraries": ["cortex_m"]},
}


class _Net(nn.Module):
    """Convolutions of several kinds, a branch, a sum; ``inside`` brings the image into the other order by itself."""

    def __init__(self, *, inside: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.depthwise = (
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.Conv2d(16, 16, 3, padding=1, groups=16),
        )
        self.wide, self.head = nn.Conv2d(16, 24, 1), nn.Linear(24, 5)
        self.inside = inside

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.inside:
            x = x.contiguous(memory_format=torch.channels_last)
        x = F.relu6(self.first(x))
        x = x + self.depthwise(x)
        x = torch.cond(x.sum() > 0, lambda v: self.depthwise(v), lambda v: v + 1.0, (x,))
        return self.head(F.relu(self.wide(x)).mean((2, 3))), x


def _samples(*, last: bool) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    format = torch.channels_last if last else torch.contiguous_format
    return [(torch.randn(2, 8, 9, 11, generator=generator).to(memory_format=format),) for _ in range(4)]


@pytest.mark.parametrize("form", ["inputs", "inside"])
@pytest.mark.parametrize("recipe", ["static-int8", "weight-int8"])
@pytest.mark.parametrize("target", TARGETS)
def test_channels_last(target: str, recipe: str, form: str) -> None:
    """The layers, the losses and the numbers of the same program in the contiguous order."""
    module, plain = _Net(inside=form == "inside").eval(), _Net().eval()
    samples = _samples(last=form == "inputs")
    options = TARGETS[target]
    exported = torch.export.export(module, samples[0])
    found = etir.quantize(exported, recipe, calibration=samples, **options)
    others = _samples(last=False)
    wanted = etir.quantize(torch.export.export(plain, others[0]), recipe, calibration=others, **options)
    assert [layer.stored for layer in found.report.layers] == [layer.stored for layer in wanted.report.layers]
    assert any(layer.stored.startswith("int8") for layer in found.report.layers if "conv" in layer.operator)
    assert found.report.output_sqnr == pytest.approx(wanted.report.output_sqnr, abs=0.01)
    program = found.compile()
    run = run_stock if target == "xnnpack" else lambda data, inputs: load(data).forward(*inputs)
    results = run(bytes(program.buffer), list(samples[0]))
    again = run(bytes(wanted.compile().buffer), list(others[0]))
    for one, other, eager in zip(results, again, module(*samples[0]), strict=True):
        one, other = torch.as_tensor(one), torch.as_tensor(other)
        assert one.shape == eager.shape
        assert torch.equal(one, other)
        assert sqnr(eager.detach().numpy(), one.numpy()) > 25
    # Outputs lie as they do without quantization.
    floating = run(bytes(etir.compile(exported, **options).buffer), list(samples[0]))
    assert [torch.as_tensor(v).stride() for v in results] == [torch.as_tensor(v).stride() for v in floating]


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.relu(self.first(x))
        return y, self.second(y)


def test_integers_are_made_in_the_order_of_the_inputs() -> None:
    """No copy stands between an image and the kernels that take it as it lies, nor before an output of integers."""
    samples = [(torch.randn(1, 3, 16, 16).to(memory_format=torch.channels_last),) for _ in range(3)]
    exported = torch.export.export(_Two().eval(), samples[0])
    compiled = etir.quantize(exported, "static-int8", calibration=samples, target="etir").compile()
    operators = compiled.report().methods[0].operators
    assert "dim_order_ops::_to_dim_order_copy.out" not in operators
    conversions = [operators[f"quantized_decomposed::{n}quantize_per_tensor.out"] for n in ("", "de")]
    assert conversions == [1, 1]
    for found, wanted in zip(load(compiled).forward(*samples[0]), _Two().eval()(*samples[0]), strict=True):
        assert torch.as_tensor(found).stride() == wanted.stride()
        assert sqnr(wanted.detach().numpy(), torch.as_tensor(found).numpy()) > 30


class _Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        x.add_(1.0)
        return y


@pytest.mark.parametrize("recipe", ["static-int8", "dynamic-int8", "weight-int4"])
def test_samples_stay_as_they_are(recipe: str) -> None:
    """A program that writes to its inputs does not change the calibration data from one run of it to the next."""
    samples = [(torch.randn(4, 32, generator=torch.Generator().manual_seed(i)),) for i in range(3)]
    before = [x.clone() for (x,) in samples]
    program = torch.export.export(_Writes().eval(), (samples[0][0].clone(),))
    quantized = etir.quantize(program, recipe, calibration=samples, target="etir")
    assert all(torch.equal(x, y) for (x,), y in zip(samples, before, strict=True))
    inputs = torch.stack(before)
    (layer,) = [layer for layer in quantized.report.layers if "linear" in layer.operator]
    given = inputs[0].clone()
    (found,) = load(quantized.compile()).forward(given)
    wanted = _Writes().eval()(inputs[0].clone()).detach()
    assert layer.low is not None and layer.low >= _Writes().layer(inputs).min().item() - 0.1
    assert sqnr(wanted.numpy(), torch.as_tensor(found).numpy()) > (15 if recipe == "weight-int4" else 35)
    torch.testing.assert_close(given, inputs[0] + 1.0, rtol=0, atol=0.05)
