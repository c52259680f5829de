"""The potential of Lennard-Jones (1924): energies and, as their gradient by torch.func, forces.

``torch.export`` does not take ``torch.func.grad``: the functions are traced to ATen first, as users of it do.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.func import grad, jacrev, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from etir_testing.models.seeding import seeded_normal
from etir_testing.models.zoo_entry import LINEAR_GAIN, Built, seeded


class Cluster(nn.Module):
    """Positions f32[N, atoms, 3] → energies f32[N] and forces f32[N, atoms, 3]."""

    def __init__(self, atoms: int, epsilon: float = 1.0, sigma: float = 1.0) -> None:
        super().__init__()
        self.first, self.second = torch.triu_indices(atoms, atoms, offset=1).unbind(0)
        self.epsilon = epsilon
        self.sigma = sigma

    def energy(self, positions: torch.Tensor) -> torch.Tensor:
        """Energy of one cluster, positions f32[atoms, 3]."""
        squared = (positions[self.first] - positions[self.second]).pow(2).sum(-1)
        attraction = (self.sigma**2 / squared) ** 3
        return 4 * self.epsilon * (attraction**2 - attraction).sum()

    def forward(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return vmap(self.energy)(positions), -vmap(grad(self.energy))(positions)


class Learned(nn.Module):
    """A network of the distance, f32[N, 1]: its energy, and the force as the derivative of its energy."""

    def __init__(self, width: int = 16, layers: int = 4) -> None:
        super().__init__()
        hidden = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.Tanh())]
        self.net = nn.Sequential(nn.Linear(1, width), nn.Tanh(), *hidden, nn.Linear(width, 1))

    def forward(self, distances: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.net(distances), -vmap(jacrev(self.net))(distances).squeeze(-1)


def _traced(module: nn.Module, example: torch.Tensor) -> Built:
    with torch.enable_grad():
        graph = make_fx(module)(example)
    return Built(graph, (example,))


def cluster() -> Built:
    corners = torch.cartesian_prod(*[torch.arange(2.0)] * 3) * 1.2
    return _traced(Cluster(8), corners + 0.05 * seeded_normal(1, 3, 8, 3))


def learned() -> Built:
    return _traced(seeded(Learned(), LINEAR_GAIN), torch.linspace(0.9, 2.0, 16).unsqueeze(1))
