"""Programs with states as code: new contents are where the old ones are, in no more memory than the kernels need."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn import functional

import etir
import etir.runtime
from etir.dialects.et.payloads import DelegateOp
from etir.dialects.et.workspace import over_of
from etir.memory_bound import bytes_of


class Cells(nn.Module):
    """Three recurrent cells, each with a state."""

    def __init__(self, depth: int = 48) -> None:
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(depth, depth) for _ in range(3))
        for i in range(3):
            self.register_buffer(f"h{i}", torch.zeros(1, depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, cell in enumerate(self.cells):
            x = cell(x, getattr(self, f"h{i}"))
            getattr(self, f"h{i}").copy_(x)
        return x


class Window(nn.Module):
    """Keys and values of the last tokens, which move on in each call."""

    def __init__(self, depth: int = 32, heads: int = 2, tokens: int = 24) -> None:
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(nn.Linear(depth, depth) for _ in range(4))
        self.register_buffer("keys", torch.zeros(1, tokens, depth))
        self.register_buffer("values", torch.zeros(1, tokens, depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value, out = self.layers
        keys = torch.cat([self.keys[:, x.shape[1] :], key(x)], 1)
        values = torch.cat([self.values[:, x.shape[1] :], value(x)], 1)
        self.keys.copy_(keys)
        self.values.copy_(values)
        by_head = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (query(x), keys, values)]
        return x + out(functional.scaled_dot_product_attention(*by_head).transpose(1, 2).flatten(2))


class Decayed(nn.Module):
    """Sums that decay from token to token, and the token before."""

    def __init__(self, depth: int = 32) -> None:
        super().__init__()
        self.key, self.value, self.gate = nn.Linear(depth, depth), nn.Linear(depth, depth), nn.Linear(depth, depth)
        self.norm, self.decay = nn.LayerNorm(depth), nn.Parameter(torch.rand(depth))
        for name in ("over", "under", "before"):
            self.register_buffer(name, torch.zeros(1, depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        now = self.norm(x)
        mixed = 0.5 * now + 0.5 * self.before
        self.before.copy_(now)
        weight = torch.exp(self.key(mixed))
        over = self.over * torch.exp(-self.decay) + weight * self.value(mixed)
        under = self.under * torch.exp(-self.decay) + weight
        self.over.copy_(over)
        self.under.copy_(under)
        return x + torch.sigmoid(self.gate(mixed)) * over / (under + 1e-3)


class Swapped(nn.Module):
    """Each state's new contents are made of the other's old ones, and the old ones are returned."""

    def __init__(self, depth: int = 16) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(depth, depth), nn.Linear(depth, depth)
        self.register_buffer("a", torch.zeros(1, depth))
        self.register_buffer("b", torch.ones(1, depth))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = torch.tanh(self.one(x) + self.b), torch.sigmoid(self.two(x) * self.a)
        old = self.a * 2.0
        self.a.copy_(a)
        self.b.copy_(b)
        return a + b, old


def cases() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Modules, and the shape of what they are given."""
    torch.manual_seed(0)
    return {"cells": (Cells(), (1, 48)), "window": (Window(), (1, 4, 32)), "decayed": (Decayed(), (1, 32)),
            "swapped": (Swapped(), (1, 16))}  # fmt: skip


@pytest.mark.parametrize("name", list(cases()))
def test_states(name: str) -> None:
    """All of it is code, in no more memory than without; code and the kernels in its place give eager's results step by
    step.
    """
    module, shape = cases()[name]
    exported = torch.export.export(deepcopy(module).eval(), (torch.randn(shape),))
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert program.delegation is not None and not program.delegation.fallback
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    assert any(over_of(op.compile_specs) for op in program.module.walk() if isinstance(op, DelegateOp))
    for native in ("trusted", "refuse"):
        loaded, eager = etir.runtime.load(program, native=native), deepcopy(module).eval()
        for _ in range(3):
            x = torch.randn(shape)
            with torch.no_grad():
                wanted = eager(x)
            for got, want in zip(loaded.forward(x), wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
                torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-5, atol=1e-5)
