"""DCGAN (Radford et al., 2015, arXiv:1511.06434): generator and discriminator for 64 x 64 images."""

from __future__ import annotations

from torch import nn

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded


def _generator(latent: int = 100, width: int = 64) -> nn.Sequential:
    layers: list[nn.Module] = []
    channels = (latent, width * 8, width * 4, width * 2, width)
    for index, (inputs, outputs) in enumerate(zip(channels, channels[1:], strict=False)):
        stride, padding = (1, 0) if index == 0 else (2, 1)
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False), nn.BatchNorm2d(outputs)]
        layers.append(nn.ReLU(True))
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


def _discriminator(width: int = 64) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for factor in (1, 2, 4):
        layers += [nn.Conv2d(width * factor, width * factor * 2, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(width * factor * 2), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False), nn.Flatten(), nn.Sigmoid())


def generator() -> Built:
    return Built(seeded(_generator(), LINEAR_GAIN), (seeded_normal(1, 1, 100, 1, 1),))


def discriminator() -> Built:
    return Built(seeded(_discriminator(), LINEAR_GAIN), (seeded_normal(1, 2, 3, 64, 64),))
