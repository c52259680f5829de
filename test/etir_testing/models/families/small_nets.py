"""Small networks of research: LearningToPaint's actor, MAML's Omniglot classifier, a ResNet-18 with group norm."""

from __future__ import annotations

import torch
from torch import nn

from etir_testing.models.resnet import ResNet18
from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import Built, seeded


class Actor(nn.Module):
    """Huang et al., 2019, arXiv:1903.04411: canvas, target, step and coordinates f32[N, 9, H, W] → strokes."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = ResNet18()
        self.trunk.conv1 = nn.Conv2d(9, 64, 3, 2, 1, bias=False)
        self.trunk.maxpool = nn.Identity()
        self.trunk.fc = nn.Linear(512, 65)

    def forward(self, canvas: torch.Tensor, target: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        size = canvas.shape[-1]
        line = torch.arange(size, dtype=torch.float32) / (size - 1.0)
        rows, columns = torch.meshgrid(line, line, indexing="ij")
        coordinates = torch.stack((rows, columns)).unsqueeze(0).expand(canvas.shape[0], -1, -1, -1)
        steps = step.float().view(-1, 1, 1, 1).expand(-1, 1, size, size) / 40
        x = torch.cat((canvas.float() / 255, target.float() / 255, steps, coordinates), dim=1)
        return torch.sigmoid(self.trunk(x))


def learning_to_paint() -> Built:
    canvas, target = ((seeded_normal(s, 1, 3, 64, 64) * 40 + 120).clamp(0, 255).to(torch.uint8) for s in (1, 2))
    return Built(seeded(Actor()), (canvas, target, torch.tensor([7])))


def maml_omniglot() -> Built:
    """Finn et al., 2017, arXiv:1703.03400: four blocks whose norms have the statistics of the batch."""
    layers: list[nn.Module] = []
    for inputs in (1, 64, 64, 64):
        layers += [nn.Conv2d(inputs, 64, 3, padding=1), nn.BatchNorm2d(64, track_running_stats=False)]
        layers += [nn.ReLU(inplace=True), nn.MaxPool2d(2, 2)]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 5))
    return Built(seeded(module), (seeded_normal(1, 5, 1, 28, 28),))


def group_norm_resnet() -> Built:
    """functorch's example of differential privacy on CIFAR-10: every batch norm is a group norm."""
    module = ResNet18(10)
    for part in list(module.modules()):
        for name, child in part.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(part, name, nn.GroupNorm(min(32, child.num_features), child.num_features))
    return Built(seeded(module), (seeded_normal(1, 2, 3, 32, 32),))
