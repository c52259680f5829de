"""Truth values in native code: comparisons, what joins them, choices by them, and bytes of them at boundaries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import etir
import etir.runtime
from etir.backends.native.blob import IS_FLAGS, VERSION_MADE, read_blob
from etir.memory_bound import bytes_of

from etir_testing.native.blobs import blobs_of
from etir_testing.native.functions import Tiled, functions_of
from etir_testing.native.images import ends, here

SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 0.25, -0.25, 1e-40, 3e38, -3e38, 0.5, -1.5, 2.5])


class After(nn.Module):
    """A function of what a layer computes, and a layer after it."""

    def __init__(self, function: Callable[..., Any], width: int = 16) -> None:
        super().__init__()
        self.function = function
        self.first, self.last = nn.Linear(9, width), nn.Linear(width, 5)

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
        return self.last(self.function(self.first(x), *others))


class Plain(nn.Module):
    """A function of the inputs alone, with a product beside it that makes it worth a delegate."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.layer = nn.Linear(13, 13)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        made = self.function(x, y)
        return *(made if isinstance(made, tuple) else (made,)), self.layer(y)


def compiled(module: nn.Module, inputs: tuple[torch.Tensor, ...], *options: str, dims: Any = None) -> etir.Program:
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=dims)
    return etir.compile(exported, target="etir", delegates=[f"native{{{' '.join(options)}}}"])


def partitions(program: etir.Program) -> int:
    assert program.delegation is not None
    return len(program.delegation.backends[0].partitions)


def same(program: etir.Program, module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """With code and on the kernels, twice each."""
    with torch.no_grad():
        expected = module.eval()(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for native in ("trusted", "refuse"):
        loaded = etir.runtime.load(program, native=native)
        for _ in range(2):
            for got, wanted in zip(loaded.forward(*inputs), expected, strict=True):
                torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=1e-5, atol=1e-5, equal_nan=True)


COMPARED = {
    "eq": lambda x, y: torch.where(x == y, x, y),
    "ne": lambda x, y: torch.where(x != y, x, y + 1),
    "lt": lambda x, y: torch.where(x < y, x, 7.0),
    "le": lambda x, y: torch.where(x <= y, 7.0, y),
    "gt": lambda x, y: torch.where(x > y, x, -y),
    "ge": lambda x, y: torch.where(x >= y, x.abs(), y),
    "scalar": lambda x, y: x * (x > 0.25) + y * (y <= -0.25) + (x != 0),
    "and": lambda x, y: torch.where((x > 0) & (y > 0), x, y),
    "or": lambda x, y: torch.where((x > 0) | (y > 0), x, y),
    "xor": lambda x, y: torch.where((x > 0) ^ (y > 0), x, y),
    "not": lambda x, y: torch.where(~(x > 0), x, y),
    "logical": lambda x, y: torch.logical_or(torch.logical_and(x > 0, y < 1), torch.logical_not(x < y)).float() * 2,
    "logical_xor": lambda x, y: torch.where(torch.logical_xor(x > 0, y > 0), x, 0.5),
    "isnan": lambda x, y: torch.where(torch.isnan(x), y, x),
    "isinf": lambda x, y: torch.where(torch.isinf(x), y, x),
    "cast": lambda x, y: (x >= 0).float() + (y >= 0).to(torch.float32) * 2,
    "to_bool": lambda x, y: torch.where(x.bool(), y, 3.0),
    "filled": lambda x, y: x.masked_fill(y > 0, -5.0),
    "chain": lambda x, y: torch.where(x > 0, torch.where(y > 0, x, 2.0), torch.where(x < -0.3, y, 4.0)),
}
"""Of all pairs of numbers, with the bits of eager."""


@pytest.mark.parametrize("processor", ends())
def test_numbers_by_truth_values(processor: str) -> None:
    """Infinities, NaN, zeros of both signs; all of them are one delegate."""
    torch.manual_seed(0)
    module = Plain(lambda x, y: tuple(function(x, y) for function in COMPARED.values()))
    x, y = torch.broadcast_tensors(SPECIAL[:, None], SPECIAL[None])
    inputs = (x.contiguous(), y.contiguous())
    program = compiled(module, inputs, f"cpus={processor}", "arena=free")
    assert program.warnings == ()
    assert partitions(program) == 1
    for native in ("trusted", "refuse"):
        *found, _ = etir.runtime.load(program, native=native).forward(*inputs)
        for name, got in zip(COMPARED, found, strict=True):
            wanted = COMPARED[name](*inputs)
            assert torch.equal(torch.as_tensor(got).nan_to_num(0.125), wanted.nan_to_num(0.125)), (name, native)


FUNCTIONS = {
    "prelu": nn.PReLU(16),
    "threshold": nn.Threshold(0.1, 0.3),
    "hardshrink": nn.Hardshrink(0.2),
    "softshrink": nn.Softshrink(0.2),
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "sign": torch.sign,
    "clamp": lambda x: torch.clamp(x, min=x.mean(-1, keepdim=True), max=x.amax(-1, keepdim=True) * 0.5),
    "log2": lambda x: torch.log2(x.abs() + 0.5),
    "log10": lambda x: torch.log10(x.abs() + 0.5),
    "logit": lambda x: torch.logit(x, eps=0.1),
    "nan_to_num": lambda x: torch.nan_to_num(x / (x > 0), 0.5, 3.0, -3.0),
    "leaky": lambda x: torch.where(x > 0, x, 0.1 * x),
    "gate": lambda x: x * (x > 0.1),
    "power": lambda x: (x.abs() + 0.1).pow(0.75) * x.pow(5),
    "mean of powers": lambda x: x.clamp(min=1e-6).pow(3).mean(-1, keepdim=True).pow(1 / 3) + 2**x + torch.exp2(-x),
    "softmax": lambda x: torch.softmax(x.masked_fill(x < -0.5, -math.inf), -1).nan_to_num(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_between_layers(name: str) -> None:
    """They are one delegate with the layers around them, and take no more memory than without it."""
    torch.manual_seed(1)
    module, inputs = After(FUNCTIONS[name]), (torch.randn(8, 9),)
    program = compiled(module, inputs)
    assert partitions(program) == 1
    assert bytes_of(program) <= bytes_of(etir.compile(torch.export.export(module, inputs), target="etir"))
    same(program, module, inputs)


WHOLE = (torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign)


@pytest.mark.parametrize("processor", ends())
def test_whole_numbers_have_the_bits_of_eager(processor: str) -> None:
    """Halves go to the even one, and zeros keep their sign; large numbers are whole already."""
    halves = torch.arange(-20, 20) / 2
    large = torch.tensor([8388607.5, 8388608.0, 8388609.0, 4194303.5, 16777217.0, 2147483648.0, 1e20])
    numbers = torch.cat([SPECIAL, halves, halves + 0.01, large, -large, torch.randn(31) * 1000])
    x = numbers[: 13 * (len(numbers) // 13)].reshape(-1, 13)
    module, inputs = Plain(lambda x, y: tuple(function(x) for function in WHOLE)), (x, torch.randn(4, 13))
    program = compiled(module, inputs, f"cpus={processor}", "arena=free")
    assert partitions(program) == 1
    *found, _ = etir.runtime.load(program, native="trusted").forward(*inputs)
    for function, got in zip(WHOLE, found, strict=True):
        np.testing.assert_array_equal(_bits(torch.as_tensor(got)), _bits(function(x)), function.__name__)


def _bits(x: torch.Tensor) -> Any:
    """The sign of a NaN is nobody's."""
    return torch.where(x.isnan(), torch.tensor(math.nan), x).view(torch.int32)


@pytest.mark.parametrize("processor", ends())
def test_powers(processor: str) -> None:
    """All pairs of numbers as torch has them, and six digits of what is between 1e-38 and 1e38."""
    torch.manual_seed(6)
    whole = torch.tensor([1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, 0.9, 1.1, 1e-3, -7.0, 16777217.0, -8388609.0])
    numbers = torch.cat([SPECIAL, whole])
    x, exponent = (v.reshape(-1, 13).contiguous() for v in torch.meshgrid(numbers, numbers, indexing="ij"))
    module = Plain(lambda x, y: (torch.pow(x, y), torch.pow(2.5, y), torch.pow(x, -2.5), torch.pow(x, 7)))
    program = compiled(module, (x, exponent), f"cpus={processor}", "arena=free")
    assert partitions(program) == 1
    *found, _ = etir.runtime.load(program, native="trusted").forward(x, exponent)
    with torch.no_grad():
        *expected, _ = module(x, exponent)
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=2e-6, atol=1e-44, equal_nan=True)
    x, exponent = 10 ** (torch.rand(2000, 13) * 20 - 10), torch.rand(2000, 13) * 6 - 3
    program = compiled(module, (x, exponent), f"cpus={processor}", "arena=free")
    got, *_ = etir.runtime.load(program, native="trusted").forward(x, exponent)
    torch.testing.assert_close(
        torch.as_tensor(got), torch.pow(x.double(), exponent.double()).float(), rtol=1e-6, atol=0
    )


class Returned(nn.Module):
    """Truth values as results, from where rows lie side by side and from where they do not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.conv = nn.Linear(9, 13), nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor, image: torch.Tensor, flags: torch.Tensor) -> Any:
        y = self.layer(x)
        made = self.conv(image)
        return y > 0, made > 0.2, (y > 0.5) & flags, y * flags, torch.where(flags, made.mean(), y)


@pytest.mark.parametrize("native", ["trusted", "refuse"])
def test_truth_values_are_results(native: Any) -> None:
    """A byte each, 0 or 1, after all of the numbers."""
    torch.manual_seed(2)
    module = Returned().eval()
    inputs = (torch.randn(3, 9), torch.randn(2, 3, 7, 5), torch.randn(3, 13) > 0)
    program = compiled(module, inputs, "arena=free")
    (blob,) = [read_blob(data) for data in blobs_of(program.buffer)]
    assert [bool(shape[0] & IS_FLAGS) for shape in blob.shapes[blob.inputs :]].count(True) == 3
    assert all(data[4] == VERSION_MADE for data in blobs_of(program.buffer))
    loaded = etir.runtime.load(program, native=native)
    with torch.no_grad():
        expected = module(*inputs)
    for _ in range(2):
        for got, wanted in zip(loaded.forward(*inputs), expected, strict=True):
            assert torch.as_tensor(got).dtype == wanted.dtype
            torch.testing.assert_close(torch.as_tensor(got), wanted, rtol=1e-5, atol=1e-5)


class Chain(nn.Module):
    """Truth values that go from one delegate through kernels to another."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(9, 13), nn.Linear(13, 13)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flags = self.first(x) > 0
        counted = torch.logcumsumexp(flags.float(), -1)
        return torch.where(flags, self.second(counted), counted)


class Hidden(nn.Module):
    """Attention that torch decomposes, with a mask of truth values: rows without any key are 0."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        heads = [t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)]
        mask = padding[:, None, None, :].expand(-1, 1, x.shape[1], -1)
        made = F.scaled_dot_product_attention(*heads, attn_mask=mask)
        return self.out(made.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("kept", [24, 3, 0])
def test_a_mask_of_padding(kept: int) -> None:
    """What says which rows have a key is made in code; code is made (nothing is left to the kernels)."""
    torch.manual_seed(7)
    module, inputs = Hidden(), (torch.randn(1, 24, 32), torch.arange(24)[None] < kept)
    program = compiled(module, inputs, "arena=free")
    assert program.warnings == ()
    assert partitions(program) == 1
    same(program, module, inputs)


def test_truth_values_between_delegates() -> None:
    torch.manual_seed(3)
    module, inputs = Chain(), (torch.randn(4, 9),)
    program = compiled(module, inputs)
    assert partitions(program) == 2
    same(program, module, inputs)


def test_sizes_of_the_call() -> None:
    """Comparisons, choices and results of truth values with rows whose number is known at run time only."""
    torch.manual_seed(4)

    class Rows(After):
        def forward(self, x: torch.Tensor, *others: torch.Tensor) -> Any:
            y = self.first(x)
            return self.last(torch.where(y > others[0], y, -y)), y <= 0

    module, inputs = Rows(lambda x: x), (torch.randn(5, 9), torch.randn(5, 16))
    rows = torch.export.Dim("rows", min=1, max=40)
    program = compiled(module, inputs, dims={"x": {0: rows}, "others": ({0: rows},)})
    assert partitions(program) == 1
    for count in (1, 7, 40, 2):
        same(program, module, (torch.randn(count, 9), torch.randn(count, 16)))


def test_the_meaning_of_made_flags() -> None:
    """A comparison and a choice by it are one of each in the text; bytes are made at the end."""
    from etir.backends.native.interpreted import run_function

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.where(x > 0.5, x, y)

    module, inputs = Plain(lambda x, y: (function(x, y), x < y)), (torch.randn(3, 13), torch.randn(3, 13))
    (tiled,) = functions_of(torch.export.export(module.eval(), inputs))
    assert isinstance(tiled, Tiled)
    text = str(tiled.func)
    assert text.count("tile.flags") == 1
    assert "cmpf ogt" in text and "cmpf une" not in text
    chosen, less, _ = run_function(tiled.func, [x.numpy() for x in inputs], lambda name: tiled.weights[name])
    np.testing.assert_array_equal(chosen, function(*inputs))
    assert less.dtype == np.bool_
    np.testing.assert_array_equal(less, inputs[0] < inputs[1])


def test_images_keep_their_order() -> None:
    """A mask of an image is an image, and a residual is chosen by it."""
    torch.manual_seed(5)

    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(c, 10, 3, padding=1) for c in (3, 10, 10))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second, last = self.convs
            y = first(x)
            mask = (y > 0) & (y < 0.8)
            z = F.relu(second(torch.where(mask, y, 0.0)))
            return last(z * mask + y * ~mask)

    module, inputs = Images(), (torch.randn(1, 3, 9, 11),)
    for processor in here():
        program = compiled(module, inputs, f"cpus={processor}")
        assert partitions(program) == 1
        same(program, module, inputs)
