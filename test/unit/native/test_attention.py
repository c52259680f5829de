"""Attention with something added to its scores that does not lie as they do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir
from etir.backends.native.kernels.loop import Loop

from etir_testing.models.seeding import seeded_normal


class Positions(nn.Module):
    """Scores of windows, and a table of relative positions, whose heads lie innermost."""

    table: torch.Tensor

    def __init__(self, heads: int, tokens: int, repeated: bool):
        super().__init__()
        self.heads, self.tokens, self.repeated = heads, tokens, repeated
        self.register_buffer("table", seeded_normal(1, tokens * tokens, heads))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        added = (self.table + 1).view(self.tokens, self.tokens, self.heads).permute(2, 0, 1).unsqueeze(0)
        scores = q @ k.transpose(-1, -2) + added
        if self.repeated:
            scores = scores + mask.transpose(-1, -2)
        return torch.softmax(scores, -1) @ v


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(("windows", "heads", "tokens", "size"), [(3, 4, 49, 32), (1, 2, 150, 16), (2, 3, 5, 7)])
def test_tables_by_heads(windows: int, heads: int, tokens: int, size: int, repeated: bool) -> None:
    module = Positions(heads, tokens, repeated).eval()
    q, k, v = (seeded_normal(number, windows, heads, tokens, size) for number in range(2, 5))
    inputs = q, k, v, seeded_normal(5, windows, 1, tokens, tokens)
    program = etir.compile(torch.export.export(module, inputs), target="etir", delegates=["native"])
    assert not program.warnings
    (found,) = etir.runtime.load(program).forward(*inputs)
    with torch.no_grad():
        expected = module(*inputs)
    assert (torch.as_tensor(found) - expected).abs().max() <= 1e-6 * expected.abs().max()


class Heads(nn.Module):
    """Queries, keys and values that are made here, so that their memory is the program's."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        q, k, v = torch.tanh(x), torch.tanh(y), torch.tanh(z)
        return torch.exp(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)


def planned(program: etir.Program) -> int:
    """Bytes of planned and temporary memory."""
    rows = [method.runtime for method in program.report().methods]
    return sum(sum(row.planned) + row.temp for row in rows if row is not None)


@pytest.mark.parametrize(
    ("heads", "tokens", "keys", "wide", "is_over"),
    [
        (8, 200, 24, 64, True),
        (2, 768, 16, 64, True),
        (2, 1024, 16, 64, True),  # rows are left, which a loop after the first one reads and writes
        (8, 200, 24, 48, False),
    ],
)
def test_results_lie_over_queries(
    heads: int, tokens: int, keys: int, wide: int, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block of rows is written when its queries have been read, by whichever thread."""
    sizes = (tokens, 64), (keys, 64), (keys, wide)
    inputs = tuple(seeded_normal(number, 1, heads, *size) for number, size in enumerate(sizes))
    exported = torch.export.export(Heads().eval(), inputs)
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert not program.warnings
    expected = Heads()(*inputs)
    found = [torch.as_tensor(etir.runtime.load(program, threads=n).forward(*inputs)[0]).clone() for n in (1, 2)]
    assert torch.equal(*found)
    assert (found[0] - expected).abs().max() <= 1e-6 * expected.abs().max()
    over = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    monkeypatch.setattr(Loop, "in_place", lambda *_: ())
    apart = etir.compile(exported, target="etir", delegates=["native{arena=free}"])
    assert (planned(over) < planned(apart)) == is_over
