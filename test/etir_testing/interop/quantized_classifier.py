"""A small classifier, quantized with the quantizer of XNNPACK."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e


class Classifier(nn.Module):
    """Every kind of operator that XNNPACK has on int8."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 2, 1)
        self.depthwise = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.pointwise = nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first(x))
        z = F.relu(self.pointwise(F.relu(self.depthwise(y))) + y)
        z = F.adaptive_avg_pool2d(F.max_pool2d(z, 2), 1)
        return self.head(z.flatten(1))


def quantized(
    module: nn.Module, inputs: tuple[torch.Tensor, ...], *, is_dynamic: bool = False, is_per_channel: bool = True
) -> nn.Module:
    """``module`` as XNNPACKQuantizer leaves it, calibrated on ``inputs``."""
    quantizer = XNNPACKQuantizer()
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=is_per_channel, is_dynamic=is_dynamic))
    with torch.no_grad():
        prepared = prepare_pt2e(torch.export.export(module.eval(), inputs).module(), quantizer)
        prepared(*inputs)
        return convert_pt2e(prepared)
