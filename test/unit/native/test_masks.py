"""Masks in native code: truth values as inputs, made to numbers by each delegate, again where that saves memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.backends.native.blob import IS_FLAGS, VERSION_FLAGS, read_blob
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of
from etir_testing.native.functions import functions_of, parsed_function
from etir_testing.native.images import here

LOW = float("-inf")


class Layers(nn.Module):
    """Attention in several layers, which have one mask; something wide is between them."""

    def __init__(self, layers: int = 2, width: int = 24, hidden: int = 200) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.up = nn.ModuleList(nn.Linear(width, hidden) for _ in range(layers))
        self.gate = nn.ModuleList(nn.Linear(width, hidden) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(hidden, width) for _ in range(layers))

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        mask = torch.where(allowed, 0.0, LOW)
        for qkv, up, gate, down in zip(self.qkv, self.up, self.gate, self.down, strict=True):
            q, k, v = qkv(x).chunk(3, -1)
            x = x + torch.softmax(q @ k.transpose(-1, -2) * 0.2 + mask, -1) @ v
            x = x + down(torch.nn.functional.silu(gate(x)) * up(x))
        return x


class Between(Layers):
    """Two delegates, since an operator that code does not know is between the layers."""

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.logcumsumexp(super().forward(x, allowed), 1), allowed)


class Filled(Layers):
    """Attention that writes over what the mask, expanded to the scores, hides."""

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        for qkv, down, up in zip(self.qkv, self.down, self.up, strict=True):
            q, k, v = qkv(x).chunk(3, -1)
            scores = q @ k.transpose(-1, -2) * 0.2
            scores = scores.masked_fill(allowed.expand_as(scores), torch.finfo(torch.float32).min)
            x = x + torch.softmax(scores, -1) @ v
            x = x + down(torch.relu(up(x)))
        return x


class Choice(nn.Module):
    """Values that are broadcast, in a product's tile."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(20, 33)

    def forward(self, x: torch.Tensor, c: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.where(c, self.layer(x), y)) + 1.0


def causal(n: int) -> torch.Tensor:
    return torch.tril(torch.ones(n, n, dtype=torch.bool))


def compiled(module: nn.Module, inputs: tuple[torch.Tensor, ...], dims: Any = None, **options: Any) -> etir.Program:
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dims)
    return etir.compile(exported, target="etir", **options)


def agrees(program: etir.Program, module: nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any) -> None:
    with torch.no_grad():
        expected = module.eval()(*inputs)
    (got,) = etir.runtime.load(program, **options).forward(*inputs)
    largest = float(expected[expected.isfinite()].abs().max())
    torch.testing.assert_close(torch.as_tensor(got), expected, rtol=0, atol=1e-5 * largest, equal_nan=True)


@pytest.mark.parametrize("kind", [Layers, Between, Filled])
def test_a_mask_of_several_layers(kind: type[Layers]) -> None:
    """One byte for each element waits; no more memory than without the delegate, and eager's numbers with code, on the
    kernels, and interpreted.
    """
    torch.manual_seed(0)
    module, inputs = kind(), (torch.randn(1, 40, 24), causal(40))
    program = compiled(module, inputs, delegates=["native"])
    assert program.warnings == ()
    blobs = [read_blob(data) for data in blobs_of(program.buffer)]
    assert len(blobs) == (2 if kind is Between else 1)
    for blob in blobs:
        flags = [shape for shape in blob.shapes if shape[0] & IS_FLAGS]
        assert flags == [(40 | IS_FLAGS, 40)]
    assert all(data[4] == VERSION_FLAGS for data in blobs_of(program.buffer))
    assert bytes_of(program) <= bytes_of(compiled(module, inputs))
    for native in ("trusted", "refuse"):
        agrees(program, module, inputs, native=native)


def test_sizes_that_are_known_at_run_time_only() -> None:
    """Truth values of any number up to the bound, with and without a remainder of vectors."""
    torch.manual_seed(0)
    n = torch.export.Dim("n", max=40)
    module = Layers()
    program = compiled(module, (torch.randn(1, 9, 24), causal(9)), ({1: n}, {0: n, 1: n}), delegates=["native"])
    assert program.warnings == ()
    for count in (1, 2, 31, 40):
        agrees(program, module, (torch.randn(1, count, 24), causal(count)), native="trusted")


class Attention(nn.Module):
    """Two layers of attention by torch, with a mask of truth values that may hide all keys of a query."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))

    def forward(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        batch, count, width = x.shape
        for qkv, out in zip(self.qkv, self.out, strict=True):
            parts = qkv(x).view(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            made = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=allowed)
            x = x + out(made.transpose(1, 2).reshape(batch, count, width))
        return x


def hiding(count: int) -> torch.Tensor:
    allowed = torch.rand(2, 1, count, count) > 0.4
    allowed[0, 0, count // 2] = False
    return allowed


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_attention_that_torch_has_taken_apart(is_dynamic: bool) -> None:
    """One delegate, whose hidden rows are zeros as eager's are, with code and on the kernels; the file has no tensor of
    zeros.
    """
    torch.manual_seed(0)
    module, n = Attention().eval(), torch.export.Dim("n", max=40)
    dims = ({1: n}, {2: n, 3: n}) if is_dynamic else None
    given = (torch.randn(2, 17, 32), hiding(17))
    exported = torch.export.export(module, given, dynamic_shapes=dims).run_decompositions()
    assert any(node.target is torch.ops.aten.logical_not.default for node in exported.graph.nodes)
    program = etir.compile(exported, target="etir", delegates=["native"])
    assert program.warnings == () and program.delegation is not None
    assert len(program.delegation.backends[0].partitions) == 1
    assert "full_like" not in str(program.module)
    for count in (2, 17, 40) if is_dynamic else (17,):
        inputs = (torch.randn(2, count, 32), hiding(count))
        for native in ("trusted", "refuse"):
            agrees(program, module, inputs, native=native)


def test_a_choice_in_a_tile() -> None:
    """NaN and infinities go where they are chosen, and nowhere else."""
    torch.manual_seed(0)
    inputs = (torch.randn(3, 7, 20), torch.randn(7, 1) > 0, torch.tensor([1.0, LOW, float("nan")] * 11))
    module = Choice()
    program = compiled(module, inputs, delegates=["native{arena=free}"])
    assert program.warnings == ()
    agrees(program, module, inputs, native="trusted")


def test_truth_values_are_what_is_asked_for() -> None:
    """Numbers in their place are refused by code, as by kernels."""
    module, inputs = Choice(), (torch.randn(3, 7, 20), torch.randn(7, 1) > 0, torch.randn(33))
    loaded = etir.runtime.load(compiled(module, inputs, delegates=["native{arena=free}"]), native="trusted")
    with pytest.raises(Exception, match=r"bool|Bool|dtype"):
        loaded.forward(inputs[0], torch.ones(7, 1), inputs[2])


def test_the_meaning_of_flags() -> None:
    """The text says memrefs of i1; the NumPy meaning is that of the code."""
    from etir_testing.native.functions import Tiled

    module, inputs = Choice(), (torch.randn(3, 7, 20), torch.randn(7, 1) > 0, torch.randn(33))
    (tiled,) = functions_of(torch.export.export(module.eval(), inputs))
    assert isinstance(tiled, Tiled)
    text = str(tiled.func)
    assert text.count("tile.flags") == 1
    assert "memref<7x1xi1>" in text
    from etir.backends.native.interpreted import run_function

    (got,) = run_function(tiled.func, [x.numpy() for x in inputs], lambda name: tiled.weights[name])
    with torch.no_grad():
        np.testing.assert_allclose(got, module(*inputs).numpy(), rtol=1e-5, atol=1e-5)


BAD = """
func.func private @f(%c: memref<8xi1>, %y: memref<8xf32>) attributes {{native.outputs = 1 : i64}} {{
  {0}
  func.return
}}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("tile.flags %c, %y : memref<8xi1>, memref<8xf32>", None),
        (
            "tile.map %y(%c) : memref<8xf32>(memref<8xi1>) {\n^bb0(%0: f32):\n  tile.yield %0 : f32\n}",
            "takes floats",
        ),
        (
            "%v = memref.reinterpret_cast %c to offset: [0], sizes: [8], strides: [1] : memref<8xi1> to memref<8xf32>\n"
            "tile.map %y(%v) : memref<8xf32>(memref<8xf32>) {\n^bb0(%0: f32):\n  tile.yield %0 : f32\n}",
            "a cast of flags",
        ),
        (
            "%b = tile.buffer : memref<8xi1>\ntile.flags %b, %y : memref<8xi1>, memref<8xf32>",
            "no memref of f32",
        ),
    ],
)
def test_flags_are_read_by_one_operation_alone(body: str, said: str | None) -> None:
    """A byte is never read as a part of a float: that would be outside of the tensor."""
    from etir.backends.native.passes.verify_tile import problems

    found = [str(problem) for problem in problems(parsed_function(BAD.format(body)))]
    assert any(said in problem for problem in found) if said else not found


def test_processors() -> None:
    """The code of every processor of this machine."""
    torch.manual_seed(0)
    module, inputs = Layers(), (torch.randn(1, 19, 24), causal(19))
    for name in here():
        agrees(compiled(module, inputs, delegates=[f"native{{cpus={name}}}"]), module, inputs, native="trusted")
