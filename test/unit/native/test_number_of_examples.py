"""Code for any number of examples needs no more memory than the kernels, as code for one number does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as f  # noqa: E402

import etir  # noqa: E402
import etir.runtime  # noqa: E402
from etir.memory_bound import bytes_of  # noqa: E402

from etir_testing.native.images import here  # noqa: E402

WIDE, HEADS, WORDS, MOST = 64, 4, 33, 3


class Layer(nn.Module):
    """What layers of transformers have beside each other: a norm, projections, an attention, and two products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.of = nn.LayerNorm(WIDE), nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(4))
        self.up, self.down = nn.Linear(WIDE, 2 * WIDE), nn.Linear(2 * WIDE, WIDE)

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            y = self.norm(x)
            q, k, v = (one(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.of[:3])
            x = y + self.of[3](self.attention(q, k, v, words.bool()[:, None, None, :]).transpose(1, 2).flatten(2))
            x = x + self.down(f.gelu(self.up(self.norm(x))))
        return x

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        """A mask of all scores, made of a value for each key: it is made in the loop that reads it."""
        mask = there.expand(-1, 1, WORDS, WORDS)
        return f.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class Divided(Layer):
    """Queries are divided as heads, where they lie: the result lies over them."""

    def attention(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, there: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q / 4.0, k.transpose(2, 3)).masked_fill(~there, -1e9)
        return torch.matmul(torch.softmax(scores, -1), v)


@pytest.mark.parametrize("layer", [Layer, Divided])
def test_attention(layer: type[Layer]) -> None:
    torch.manual_seed(3)
    module, examples = layer().eval(), torch.export.Dim("examples", min=1, max=MOST)

    def given(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(count, WORDS, WIDE), (torch.arange(WORDS) < torch.tensor([[33], [20], [1]])[:count]).long()

    exported = torch.export.export(module, given(2), dynamic_shapes=({0: examples}, {0: examples}))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert not program.warnings
    waiting = 64 * MOST  # what kernels make of the words before
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir")) + waiting
    for count in (1, 2, MOST):
        inputs = given(count)
        with torch.no_grad():
            wanted = module(*inputs)
        for threads in (1, 2):
            (found,) = etir.runtime.load(program, threads=threads).forward(*inputs)
            assert (torch.as_tensor(found) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_images() -> None:
    """A large image that is read with a step needs no border beside another one."""
    torch.manual_seed(4)
    examples = torch.export.Dim("examples", min=1, max=MOST)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.down = nn.Conv2d(8, 64, 1), nn.Conv2d(32, 32, 3, stride=2, padding=1)
            self.narrow, self.wide, self.short = nn.Conv2d(64, 32, 1), nn.Conv2d(32, 64, 1), nn.Conv2d(64, 64, 1, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.first(x))
            return self.wide(torch.relu(self.down(torch.relu(self.narrow(x))))) + self.short(x)

    module = Block().eval()
    exported = torch.export.export(module, (torch.randn(2, 8, 16, 16),), dynamic_shapes=({0: examples},))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert not program.warnings
    assert bytes_of(program) <= bytes_of(etir.compile(exported, target="etir"))
    for count in (1, 2, MOST):
        x = torch.randn(count, 8, 16, 16)
        with torch.no_grad():
            wanted = module(x)
        (found,) = etir.runtime.load(program).forward(x)
        assert (torch.as_tensor(found) - wanted).abs().max() <= 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("window", [(4, 2, 1), (3, 1, 1), (3, 3, 0, 2), (2, 2)])
def test_transposed_convolutions(window: tuple[int, ...]) -> None:
    """Their windows are read backwards, with strides below zero, for any number of images."""
    torch.manual_seed(5)
    module = nn.Sequential(nn.Conv2d(3, 9, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(9, 7, *window)).eval()
    examples = torch.export.Dim("examples", min=1, max=MOST)
    exported = torch.export.export(module, (torch.randn(2, 3, 6, 5),), dynamic_shapes=({0: examples},))
    program = etir.compile(exported, target="etir", delegates=[f"native{{cpus={here()[-1]}}}"])
    assert not program.warnings and program.delegation is not None
    assert not program.delegation.backends[0].rejected
    for threads in (1, 2):
        loaded = etir.runtime.load(program, threads=threads)
        for count in (2, MOST, 1, 2):
            x = torch.randn(count, 3, 6, 5)
            with torch.no_grad():
                wanted = module(x)
            (found,) = loaded.forward(x)
            assert (torch.as_tensor(found) - wanted).abs().max() <= 2e-6 * wanted.abs().max()
