"""Programs of torchao's quantization in training (`prepare_qat_pt2e`), whose patterns multiply the factor of the batch
norm into the weight before it is quantized and divide the result by it: before and after convert, for all targets.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import nn
from torchao.quantization.pt2e import disable_observer, move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

import etir

from etir_testing.interop.xnnpack_runs import facts_of, run_own, run_stock


class _Net(nn.Module):
    """Convolutions with and without a bias of their own, depthwise, with relu, relu6 and nothing after the norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.second, self.second_norm = nn.Conv2d(8, 8, 3, groups=8), nn.BatchNorm2d(8)
        self.third, self.third_norm = nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu6(self.second_norm(self.second(F.relu(self.first_norm(self.first(x))))))
        return self.head(self.third_norm(self.third(x)).mean([2, 3]))


def _trained(by_channel: bool, converted: bool) -> nn.Module:
    torch.manual_seed(0)
    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=by_channel, is_qat=True))
    net = _Net().train()
    nn.init.normal_(net.second_norm.weight, std=0.5)  # factors of both signs
    program = torch.export.export(net, (torch.randn(4, 3, 10, 10),))
    module = prepare_qat_pt2e(program.module(), quantizer)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.05)
    for _ in range(4):
        loss = module(torch.randn(4, 3, 10, 10)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    module.apply(disable_observer)
    move_exported_model_to_eval(module)
    return convert_pt2e(module) if converted else module


_NIGHTLY = pytest.mark.nightly  # torchao takes a minute to convert


@pytest.mark.parametrize(
    ("by_channel", "converted"),
    [
        (True, False),
        pytest.param(False, False, marks=_NIGHTLY),
        pytest.param(True, True, marks=_NIGHTLY),
        pytest.param(False, True, marks=_NIGHTLY),
    ],
)
def test_trained(by_channel: bool, converted: bool) -> None:
    """The numbers of the module, on integers: nothing between two converts computes in floating point."""
    module = _trained(by_channel, converted)
    x = torch.randn(4, 3, 10, 10)
    with torch.no_grad():
        wanted = module(x)
        exported = torch.export.export(module, (x,))
    step = (wanted.max() - wanted.min()).item() / 60
    linked = {"target": "etir", "delegates": ["xnnpack"], "link_backends": ["XnnpackBackend"]}
    for options in ({"delegates": ["xnnpack"]}, linked, {}, {"target": "etir"}):
        data = etir.compile(exported, **options).buffer
        found = (run_own if options.get("target") == "etir" else run_stock)(data, [x])
        assert (found[0] - wanted).abs().max().item() <= step
        facts = facts_of(data)
        assert not any("batch_norm" in kernel or "div" in kernel for kernel in facts.kernels)
        if "delegates" not in options:
            continue
        kinds = {"convert", "copy", "conv2d", "depthwise_conv2d", "global_avg_pooling2d", "fully_connected"}
        assert facts.delegate_calls == 1
        assert set(facts.nodes) <= {*kinds, "clamp", "static_transpose", "static_reshape"}
        assert (facts.nodes["conv2d"], facts.nodes["depthwise_conv2d"]) == (2, 1)
        widened = [
            node.kind.name
            for graph in facts.graphs
            for node in graph.nodes
            if graph.values[node.outputs[0]].datatype.name == "fp32"
        ]
        assert set(widened[:-1]) <= {"static_transpose", "static_reshape"}
        assert widened[-1] == "convert"
