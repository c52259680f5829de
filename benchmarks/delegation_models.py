"""The models that delegation is measured on: torchvision's, with seeded weights, beside those of the test registry.

``torchvision`` does not import beside a CPU-only torch unless two operators of its extension have schemas; that is
declared here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))

import torch
from torch import nn

from etir_testing.models.registry import MODELS, ModelCase
from etir_testing.models.seeding import seed_weights, seeded_normal

_RELU_GAIN = 2.0**0.5


class Wav2Letter(nn.Module):
    """Wav2Letter (Collobert et al., 2016, arXiv:1609.03193): f32[N, 1, samples] → f32[N, letters, frames], log-softmax.

    The network on raw waveforms of the paper's figure 2, as torchaudio builds it.
    """

    def __init__(self, letters: int = 40) -> None:
        super().__init__()
        shapes = [(1, 250, 250, 160, 45), (250, 250, 48, 2, 23), *[(250, 250, 7, 1, 3)] * 7]
        shapes += [(250, 2000, 32, 1, 16), (2000, 2000, 1, 1, 0), (2000, letters, 1, 1, 0)]
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, stride, padding in shapes:
            layers += [nn.Conv1d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.log_softmax(self.layers(x), dim=1)


def _torchvision(name: str) -> nn.Module:
    library = torch.library.Library("torchvision", "FRAGMENT")
    if not hasattr(torch.ops.torchvision, "nms"):
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


def _case(name: str, module: Callable[[], nn.Module], shape: tuple[int, ...], gain: float) -> ModelCase:
    def inputs(step: int) -> tuple[torch.Tensor, ...]:
        return (seeded_normal(900 + step, *shape),)

    def build() -> Any:
        return seed_weights(module(), seed=0, gain=gain), inputs(0), {}

    requires = () if name == "wav2letter" else ("torchvision", "PIL")
    return ModelCase(name, build, inputs, steps=1, tolerance=1e-3, requires=requires)


_IMAGE = (1, 3, 224, 224)
CASES: dict[str, ModelCase] = {
    "mobilenet_v2": MODELS["mobilenet_v2"],
    "mobilenet_v3": _case("mobilenet_v3", partial(_torchvision, "mobilenet_v3_small"), _IMAGE, _RELU_GAIN),
    "resnet50": _case("resnet50", partial(_torchvision, "resnet50"), _IMAGE, 1.0),
    "efficientnet_b0": _case("efficientnet_b0", partial(_torchvision, "efficientnet_b0"), _IMAGE, _RELU_GAIN),
    "vit_b": _case("vit_b", partial(_torchvision, "vit_b_16"), _IMAGE, 1.0),
    "minilm": MODELS["minilm"],
    "wav2letter": _case("wav2letter", Wav2Letter, (1, 1, 16000), _RELU_GAIN),
    "llama_block": MODELS["llama_block"],
}
"""The cases of the benchmark, by name."""
