"""``flex_attention`` with functions of the user's for scores and masks, on both runtimes against eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.extension.pybindings import portable_lib
from torch import Tensor, nn
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree

import etir
from etir.diagnostics import EtirError
from etir.lowering.import_fx import import_program

Q, K, V = (torch.randn(2, 4, 8, 16, generator=torch.Generator().manual_seed(i)) for i in range(3))


class Attention(nn.Module):
    """A function of queries, keys and values, and of tensors that it looks things up in."""

    documents: Tensor
    relative: Tensor

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.slopes = nn.Parameter(torch.tensor([0.5, -0.25, 0.125, 1.0]))
        self.register_buffer("documents", torch.tensor([0, 0, 1, 1, 1, 2, 2, 2]))
        self.register_buffer("relative", torch.linspace(-1, 1, 2 * 8 * 8).reshape(2, 8, 8))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        return self.function(self, q, k, v)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Callable[..., Any], batch: int | None = None) -> Any:
    return flex_attention(q, k, v, block_mask=create_block_mask(mask, batch, None, 8, 8, device="cpu"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plain": lambda m, q, k, v: flex_attention(q, k, v, scale=0.3),
    "slopes of heads": lambda m, q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + m.slopes[h] * (i - j)
    ),
    "a table by three indices": lambda m, q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + m.relative[b, i, j]
    ),
    "capped, and sums": lambda m, q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: torch.tanh(s / 5) * 5, return_lse=True
    ),
    "causal documents": lambda m, q, k, v: masked(
        q, k, v, lambda b, h, i, j: (i >= j) & (m.documents[i] == m.documents[j])
    ),
    "a row without a score": lambda m, q, k, v: masked(q, k, v, lambda b, h, i, j: j < i),
    "grouped heads": lambda m, q, k, v: flex_attention(q, k[:, :2], v[:, 2:], enable_gqa=True),
    "one batch of keys": lambda m, q, k, v: masked(q, k[:1], v[:1], lambda b, h, i, j: i >= j, 2),
    "a function that is more than elementwise": lambda m, q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + torch.stack([m.slopes[h], s]).amax(0)
    ),
    "an operator that reduces": lambda m, q, k, v: flex_attention(
        q, k, v, score_mod=lambda s, b, h, i, j: s + s.softmax(0) + s.sum()
    ),
}


def runs(program: torch.export.ExportedProgram, *calls: tuple[Tensor, ...]) -> list[list[Any]]:
    """What both runtimes give for each call."""
    ours = etir.runtime.load(etir.compile(program, target="etir"))["forward"]
    buffer = etir.compile(program, target="executorch").buffer
    stock = portable_lib._load_for_executorch_from_buffer(buffer)
    return [[list(ours(*call)), stock.run_method("forward", call)] for call in calls]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    model = Attention(FUNCTIONS[name])
    program = torch.export.export(model, (Q, K, V))
    with torch.no_grad():
        expected = pytree.tree_leaves(model(Q, K, V))
    for found in runs(program, (Q, K, V))[0]:
        torch.testing.assert_close(found, expected)


def test_half_precision_has_scores_in_single() -> None:
    model = Attention(FUNCTIONS["slopes of heads"])
    given = tuple(t.bfloat16() for t in (Q, K, V))
    (found, _), expected = runs(torch.export.export(model, given), given)[0], model(*given).detach()
    torch.testing.assert_close(found, [expected])


def test_dynamic_lengths() -> None:
    model = Attention(lambda m, q, k, v: flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s.where(i >= j, -1e9)))
    rows, columns = Dim("rows", max=32), Dim("columns", max=32)
    program = torch.export.export(model, (Q, K, V), dynamic_shapes=({2: rows}, {2: columns}, {2: columns}))
    calls = [(torch.randn(2, 4, m, 16), *(torch.randn(2, 4, n, 16) for _ in "kv")) for m, n in ((1, 5), (7, 3), (9, 9))]
    for call, both in zip(calls, runs(program, *calls), strict=True):
        for found in both:
            torch.testing.assert_close(found, [model(*call)])


def test_scores_broadcast_instead_of_being_mapped() -> None:
    """One dim for each index: no operator of the scores is repeated, and none of ``vmap`` is left."""
    program = torch.export.export(Attention(FUNCTIONS["slopes of heads"]), (Q, K, V))
    text = str(import_program(program))
    assert text.count("aten.bmm") == 2 and text.count("aten._safe_softmax") == 1 and "tensor<1x4x1x1xf32>" in text


def test_dynamic_sizes_of_other_functions_are_refused() -> None:
    """torch's map fixes them, which would be silently wrong for every other size."""
    length = Dim("length", max=32)
    program = torch.export.export(
        Attention(FUNCTIONS["an operator that reduces"]), (Q, K, V), dynamic_shapes=({2: length},) * 3
    )
    for target in ("etir", "executorch"):
        with pytest.raises(EtirError, match=r"E0410.*flex_attention.*torch fixes dynamic sizes"):
            etir.compile(program, target=target)
