"""What is made of less than it is, as a mask of keys and rows, is made in what reads it where that saves memory."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from xdsl.dialects.builtin import ArrayAttr, StringAttr

import etir
import etir.runtime
from etir.backends.api.interface import Outlined
from etir.backends.native import savings
from etir.backends.native.blob import read_blob
from etir.backends.native.functions import SAVES
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of
from etir_testing.native.images import ends

SAVED = ("masks", "blocks", "order")
"""What lets a mask be the largest tensor where most memory is needed."""


class Layer(nn.Module):
    """Attention of few heads, beside whose operands a mask of all scores is large."""

    def __init__(self, width: int, heads: int, layers: int = 1) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.ModuleList(nn.Linear(width, width) for _ in range(4)) for _ in range(layers))

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        mask = words.bool()[:, None, None, :].expand(-1, 1, n, n)
        for *inside, out in self.layers:
            y = self.norm(x)
            heads = [layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in inside]
            x = x + out(F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2))
        return x


class Outer(nn.Module):
    """A table of all pairs of two vectors that a layer makes, which is read before and after something wide."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = nn.Linear(24, 1), nn.Linear(24, 1)
        self.up, self.down = nn.Linear(40, 160), nn.Linear(160, 40)

    def forward(self, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        pairs = self.rows(x) * self.columns(x).T + 0.25
        wide = self.up(torch.tanh(pairs + given))
        return torch.softmax(self.down(torch.relu(wide)), -1) * pairs.T[None]


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    there = (torch.arange(64)[None] < torch.tensor([50, 0])[:, None]).long()
    return {
        "mask": (Layer(64, 2), (torch.randn(1, 64, 64), there[:1])),
        "masks of examples": (Layer(64, 2), (torch.randn(2, 64, 64), there)),
        "two layers": (Layer(64, 2, 2), (torch.randn(1, 64, 64), there[:1])),
        "pairs": (Outer(), (torch.randn(40, 24), torch.randn(1, 40, 40))),
    }


@pytest.mark.parametrize("processor", ends())
@pytest.mark.parametrize("name", list(cases()))
def test_code_needs_less(name: str, processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And has eager's numbers, the same bits on two threads; rows without a key are zeros."""
    module, given = cases()[name]
    exported = torch.export.export(module.eval(), given)
    arenas: list[int] = []
    for names in (SAVED, (*SAVED, "fused")):

        def choose(outlined: Outlined, _: object, names: tuple[str, ...] = names) -> None:
            outlined.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])

        monkeypatch.setattr(savings, "choose_savings", choose)
        program = etir.compile(exported, target="etir", delegates=[f"native{{arena=free cpus={processor}}}"])
        assert program.warnings == ()
        arenas.append(sum(read_blob(data).arena_bytes for data in blobs_of(program.buffer)))
    assert arenas[1] < arenas[0]
    with torch.no_grad():
        wanted = module(*given)
    (one,), (two,) = (etir.runtime.load(program, native="trusted", threads=n).forward(*given) for n in (1, 2))
    assert torch.equal(torch.as_tensor(one), torch.as_tensor(two))
    torch.testing.assert_close(torch.as_tensor(one), wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize(("width", "heads", "count"), [(64, 2, 64), (128, 2, 128), (128, 2, 50), (64, 1, 64)])
def test_no_more_than_the_kernels(width: int, heads: int, count: int) -> None:
    torch.manual_seed(1)
    module, given = Layer(width, heads).eval(), (torch.randn(1, count, width), torch.ones(1, count).long())
    exported = torch.export.export(module, given)
    program, kernels = (
        etir.compile(exported, target="etir", delegates=delegates) for delegates in (["native{cpus=x86-64-v4}"], [])
    )
    assert program.delegation is not None and len(program.delegation.backends[0].partitions) == 1
    assert bytes_of(program) <= bytes_of(kernels)
