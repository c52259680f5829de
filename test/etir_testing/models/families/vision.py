"""Models of torchvision, built by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import RELU_GAIN, Built, seeded, torchvision_models


class OneOutput(nn.Module):
    """A model of images whose outputs are named: the values of its dictionary in order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(self.model(x).values())


def image_model(
    name: str,
    size: int,
    *,
    group: str | None = None,
    gain: float = RELU_GAIN,
    frames: int | None = None,
    **options: Any,
) -> Callable[[], Built]:
    """Builder of ``torchvision.models[.group].name`` on images f32[1, 3, size, size], or on videos of ``frames``."""

    def build() -> Built:
        models = torchvision_models()
        constructor = getattr(models if group is None else getattr(models, group), name)
        torch.manual_seed(0)  # some constructors draw more than seeding overwrites
        if group in ("segmentation", "detection"):
            options.setdefault("weights_backbone", None)
        module = constructor(weights=None, **options)
        if group == "segmentation":
            module = OneOutput(module)
        shape = (1, 3, size, size) if frames is None else (1, 3, frames, size, size)
        return Built(seeded(module, gain), (seeded_normal(1, *shape),))

    return build


def backbone_with_pyramid(size: int) -> Built:
    """ResNet-50 with a feature pyramid, the trunk of torchvision's detectors."""
    models = torchvision_models()
    from torchvision.models.detection.backbone_utils import BackboneWithFPN

    body = models.resnet50(weights=None)
    names = {f"layer{i}": str(i - 1) for i in (1, 2, 3, 4)}
    module = BackboneWithFPN(body, names, [256, 512, 1024, 2048], 64)
    return Built(seeded(OneOutput(module)), (seeded_normal(1, 1, 3, size, size),))


def raft(size: int) -> Built:
    """RAFT small (Teed and Deng, 2020): optical flow between two images, two iterations."""
    models = torchvision_models()

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = models.optical_flow.raft_small(weights=None)

        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return self.model(first, second, num_flow_updates=2)[-1]

    images = tuple(seeded_normal(seed, 1, 3, size, size).clamp(-1, 1) for seed in (1, 2))
    return Built(seeded(Flow(), gain=1.0), images)


def mvit() -> Built:
    """A multiscale video transformer (Li et al., 2021) of three blocks, with pooled keys and relative positions."""
    torchvision_models()
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    one, half, every = [1, 1, 1], [1, 2, 2], [3, 3, 3]
    blocks = [
        MSBlockConfig(1, 16, 32, every, every, one, half),
        MSBlockConfig(2, 32, 64, every, every, half, one),
        MSBlockConfig(2, 64, 64, every, every, one, one),
    ]
    module = MViT(
        (32, 32), 4, blocks, residual_pool=True, residual_with_cls_embed=False, rel_pos_embed=True, proj_after_attn=True
    )
    return Built(seeded(module, gain=1.0), (seeded_normal(1, 1, 3, 4, 32, 32),))
