"""Programs that were trained to be quantized and were not converted: their pretended quantization becomes pairs, and
delegates compute on integers; the numbers are those of the module in eval mode.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import get_default_qat_qconfig, get_default_qat_qconfig_mapping, prepare_qat
from torch.ao.quantization.fake_quantize import disable_observer
from torch.ao.quantization.quantize_fx import prepare_qat_fx

import etir

from etir_testing.interop.program_runs import Function
from etir_testing.interop.xnnpack_runs import facts_of, run_own, run_stock


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, groups=8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.second(F.relu(self.first(x)))).mean([2, 3]))


X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def _by_modules() -> nn.Module:
    module = _Net().train()
    module.qconfig = get_default_qat_qconfig("qnnpack")
    return prepare_qat(module)


def _by_graph() -> nn.Module:
    return prepare_qat_fx(_Net().train(), get_default_qat_qconfig_mapping("qnnpack"), (X,))


@pytest.mark.parametrize("observes", [False, True])
@pytest.mark.parametrize("prepare", [_by_modules, _by_graph])
def test_not_converted(prepare: object, observes: bool) -> None:
    torch.manual_seed(0)
    module = prepare()  # type: ignore[operator]
    for _ in range(3):
        module(torch.randn(2, 3, 8, 8))
    module.eval()
    exported = torch.export.export(module, (X,))
    module.apply(disable_observer)
    with torch.no_grad():
        expected = module(X)
    if not observes:
        exported = torch.export.export(module, (X,))
    step = (expected.max() - expected.min()).item() / 50
    for options in ({}, {"target": "etir"}, {"delegates": ["xnnpack"]}):
        data = etir.compile(exported, **options).buffer
        found = run_stock(data, [X]) if options.get("target") != "etir" else run_own(data, [X])
        assert (found[0] - expected).abs().max().item() <= step
        assert not any("copy_" in kernel or "isinf" in kernel for kernel in facts_of(data).kernels)
    facts = facts_of(data)
    assert facts.delegate_calls == 1
    assert not facts.kernels
    layers = [n for g in facts.graphs for n in g.nodes if n.kind.name in ("conv2d", "depthwise_conv2d")]
    if prepare is _by_graph:  # by modules, nothing is quantized where the program is entered
        assert {g.values[n.outputs[0]].datatype.name for g in facts.graphs for n in layers} == {"qint8"}


def test_fake_quantize_alone() -> None:
    """Activations by tensor, weights by channel, parameters as numbers and as tensors."""
    torch.manual_seed(0)
    weight, scales, points = torch.randn(8, 16) / 4, torch.rand(8) * 0.01 + 0.005, torch.zeros(8, dtype=torch.int32)

    scale, point = torch.tensor(0.02), torch.tensor(5, dtype=torch.int32)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.fake_quantize_per_tensor_affine(x, 0.03, 3, -128, 127)
        w = torch.fake_quantize_per_channel_affine(weight, scales, points, 0, -127, 127)
        return torch.fake_quantize_per_tensor_affine(F.linear(y, w), scale, point, -128, 127)

    x = torch.randn(4, 16)
    exported = torch.export.export(Function(function), (x,))
    data = etir.compile(exported, delegates=["xnnpack"]).buffer
    assert (run_stock(data, [x])[0] - function(x)).abs().max().item() <= 0.0201
    assert facts_of(data).nodes == {"convert": 2, "fully_connected": 1}
