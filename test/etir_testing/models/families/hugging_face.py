"""Models of transformers in small configurations, built by the names of their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from etir_testing.models.seeding import seeded_integers, seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, declare_torchvision, seeded

Input = tuple[str, torch.Tensor]


class Outputs(nn.Module):
    """A model of transformers called with named tensors: the outputs chosen by ``picked``, in that order."""

    def __init__(
        self, model: nn.Module, names: tuple[str, ...], picked: tuple[str, ...], fixed: dict[str, Any]
    ) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.picked = picked
        self.fixed = fixed

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = self.model(**dict(zip(self.names, tensors, strict=True)), **self.fixed)
        return tuple(outputs[name] for name in self.picked)


def ids(batch: int = 1, tokens: int = 12, vocabulary: int = 100, seed: int = 1) -> torch.Tensor:
    """Token ids int64[batch, tokens]."""
    return seeded_integers(seed, vocabulary, batch, tokens)


def mask(batch: int = 1, tokens: int = 12, hidden: int = 2) -> torch.Tensor:
    """An attention mask int64[batch, tokens] whose last tokens are padding."""
    return (torch.arange(tokens) < tokens - hidden).to(torch.int64).expand(batch, tokens).contiguous()


def image(size: int, channels: int = 3) -> torch.Tensor:
    """f32[1, channels, size, size]."""
    return seeded_normal(1, 1, channels, size, size)


def hugging_face(
    model: str,
    config: str,
    inputs: Callable[[], dict[str, torch.Tensor]],
    picked: tuple[str, ...] = ("last_hidden_state",),
    fixed: dict[str, Any] | None = None,
    gain: float = LINEAR_GAIN,
    part: str = "",
    **options: Any,
) -> Callable[[], Built]:
    """Builder of ``transformers.<model>(transformers.<config>(**options))``, or a part of it, with seeded weights."""

    def build() -> Built:
        declare_torchvision()
        import transformers

        torch.manual_seed(0)
        module = getattr(transformers, model)(getattr(transformers, config)(**options)).get_submodule(part)
        tensors = inputs()
        wrapped = Outputs(module, tuple(tensors), picked, {"return_dict": True} | (fixed or {}))
        return Built(seeded(wrapped, gain), tuple(tensors.values()))

    return build
