"""Masks that begin with a byte for each key: what is expanded is made in code, with which rows have a key at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import etir
import etir.runtime
from etir.backends.native.blob import IS_FLAGS, read_blob
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of

OF_KERNELS = ("aten.any.dim", "aten.logical_not.default", "aten.logical_or.default", "aten.expand_copy.default")


class Padded(nn.Module):
    """Layers of attention over words, of which integers say whether there is one, or these and those before."""

    def __init__(self, layers: int = 1, width: int = 32, is_causal: bool = False) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        mask = words.bool()[:, None, None, :].expand(-1, 1, n, n)
        if self.is_causal:
            mask = mask & torch.ones(n, n, dtype=torch.bool).tril()
        for qkv, out in zip(self.qkv, self.out, strict=True):
            heads = [t.unflatten(-1, (4, -1)).transpose(1, 2) for t in qkv(x).chunk(3, -1)]
            made = F.scaled_dot_product_attention(*heads, attn_mask=mask)
            x = x + out(made.transpose(1, 2).flatten(2))
        return x


def words(batch: int, count: int, there: int) -> torch.Tensor:
    return (torch.arange(count)[None] < there).long().repeat(batch, 1)


def compiled(module: nn.Module, inputs: tuple[torch.Tensor, ...], *options: str, dims: Any = None) -> etir.Program:
    exported = torch.export.export(module, inputs, dynamic_shapes=dims)
    return etir.compile(exported, target="etir", delegates=[f"native{{{' '.join(options)}}}"] if options else [])


def same(program: etir.Program, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """With code and on the kernels."""
    with torch.no_grad():
        expected = module(*inputs)
    for native in ("trusted", "refuse"):
        (got,) = etir.runtime.load(program, native=native).forward(*inputs)
        largest = float(expected.abs().max())
        torch.testing.assert_close(torch.as_tensor(got), expected, rtol=0, atol=1e-5 * largest)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("layers", "batch", "count"), [(1, 1, 40), (1, 2, 37), (2, 1, 64), (3, 2, 24)])
def test_the_delegate_has_the_keys(layers: int, batch: int, count: int, is_causal: bool) -> None:
    """A byte for each key is what kernels make; rows without a key are zeros, as eager's are, and no more memory is
    needed than without the delegate. Constants of any number are none of the kernels' business either.
    """
    torch.manual_seed(0)
    module = Padded(layers, is_causal=is_causal).eval()
    x = torch.randn(batch, count, 32)
    program = compiled(module, (x, words(batch, count, 7)), "cpus=x86-64")
    assert program.warnings == () and program.delegation is not None
    assert not {row.op for row in program.delegation.backends[0].rejected} & {*OF_KERNELS}
    (blob,) = [read_blob(data) for data in blobs_of(program.buffer)]
    assert [shape[-1] for shape in blob.shapes if shape[0] & IS_FLAGS] == [count]
    assert bytes_of(program) <= bytes_of(compiled(module, (x, words(batch, count, 7))))
    for there in (count, 7, 0):
        same(program, module, (x, words(batch, count, there)))


def test_sizes_of_the_call() -> None:
    """As many keys as the call says, down to two."""
    torch.manual_seed(1)
    module, n = Padded(2).eval(), torch.export.Dim("n", min=2, max=40)
    program = compiled(module, (torch.randn(1, 9, 32), words(1, 9, 4)), "cpus=x86-64", dims=({1: n}, {1: n}))
    for count in (2, 9, 33, 40):
        same(program, module, (torch.randn(1, count, 32), words(1, count, count // 2)))


class Counted(nn.Module):
    """A mask of as many integers as truth values, which kernels compare."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(24, 24)

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        allowed = (places[:, None] >= places[None]) & (places[None] >= 0)
        hidden = ~allowed.any(-1, keepdim=True)
        return torch.where(allowed | hidden, self.layer(x), -1.0)


def test_kernels_go_on_with_as_many() -> None:
    """What is no larger than what it is made of stays where that is made."""
    torch.manual_seed(2)
    module, inputs = Counted().eval(), (torch.randn(24, 24), torch.arange(24) % 5 - 1)
    program = compiled(module, inputs, "cpus=x86-64", "arena=free")
    assert program.delegation is not None
    reasons = {row.op: row.reason for row in program.delegation.backends[0].rejected}
    for name in ("any.dim", "bitwise_and.Tensor", "bitwise_or.Tensor"):
        assert reasons[f"aten.{name}"] == "truth values that kernels make"
    same(program, module, inputs)


class Reduced(nn.Module):
    """Whether any, or all, of what a layer makes is above a number, along some dims."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(9, 11), nn.Linear(11, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        rows, columns = (y > 1.0).any(-1, keepdim=True), (y > -0.5).all(1, keepdim=True)
        both = torch.any(y < -1.0, (0, 2), keepdim=True)
        return self.last(torch.where(rows, y, 0.5) + torch.where(columns, y, 0.25) + torch.where(both, y, 0.0))


def test_any_and_all() -> None:
    torch.manual_seed(3)
    module, inputs = Reduced().eval(), (torch.randn(3, 7, 9),)
    program = compiled(module, inputs, "cpus=x86-64", "arena=free")
    assert program.delegation is not None and len(program.delegation.backends[0].partitions) == 1
    assert not program.delegation.backends[0].rejected
    same(program, module, inputs)
