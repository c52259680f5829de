"""Products of many rows with AVX2, whose panels are prepared (``prepared_avx2.h``): the oracle's bits for every kind of
panel, and when they are used.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import etir
import etir.runtime
from etir.interpret.numpy_ops import lookup
from etir.interpret.numpy_ops.integer import packed

from etir_testing.runtime.integer_variants import integer_kernels
from etir_testing.runtime.kernels import Kernels

LEAST_ROWS = 24
PANEL_BYTES = 256 << 10
"""What the kernel has, of ``kLeastPrepared`` and ``kPreparedBytes``."""


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return integer_kernels("avx2")


def weights_of(kind: str, columns: int, depth: int, random: np.random.Generator) -> np.ndarray:
    """Pairs of products of ``small`` weights all fit into 16 bits, those of ``hostile`` ones nearly never do, those of
    ``mixed`` ones do but for some of the depth, of each panel another part.
    """
    if kind == "hostile":
        return random.choice(np.array([-128, 127], np.int8), (columns, depth))
    weights = random.integers(-64, 65, (columns, depth)).astype(np.int8)
    if kind == "mixed":
        for panel in range(0, columns, 16):
            some = np.flatnonzero(random.random(depth // 4 + 1) < 0.15) * 4
            weights[panel, some[some < depth]] = 127
            weights[panel, some[some < depth - 1] + 1] = 127
    return weights


def arguments_of(rows: int, depth: int, columns: int, kind: str) -> list[Any]:
    """Of int8_linear. Factors bring sums of each kind to both limits, and a few columns to what is not a number."""
    random = np.random.default_rng(rows * depth + columns)
    x = random.choice(np.array([-128, 127, 0, 5], np.int8), (rows, depth))
    weights = weights_of(kind, columns, depth, random)
    x[0], x[-1] = 127, -128
    bias = random.integers(-(2**31), 2**31, columns).astype(np.int32) >> random.integers(0, 24, columns)
    factors = random.uniform(1e-7, 1e-3, columns).astype(np.float32)
    factors[:: max(3, columns // 5)] = random.choice(np.array([np.nan, np.inf, -1e30, 0.0], np.float32))
    return [x, packed(weights), bias.astype(np.int32), factors, -7, -100, 119]


def call(kernels: Kernels, arguments: list[Any], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the kernel, and of the oracle."""
    with np.errstate(all="ignore"):
        wanted = lookup(f"etir.{name}.default")(*arguments)
    given = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in arguments]
    (found,) = kernels.call(f"etir::{name}.out", given, [torch.from_numpy(np.zeros_like(wanted))])
    return found.numpy(), wanted


SIZES = [
    # Tiles of all numbers of rows, of both kinds; columns that no panel is full of.
    *((rows, 20, columns) for rows, columns in ((24, 16), (25, 17), (26, 8), (27, 40), (28, 1), (29, 31), (53, 200))),
    # Depths that are no whole fours, and those at which rows are copied in smaller blocks and in several parts.
    *((37, depth, 19) for depth in (1, 2, 3, 5, 16, 33, 255, 256, 257, 1023, 1024, 1025, 2050, 3073, 8192)),
    # Panels that are prepared in several groups.
    (31, 1000, 330),
    (100, 12, 1500),
]


@pytest.mark.parametrize("kind", ["small", "mixed", "hostile"])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_bits_of_the_oracle(kernels: Kernels, sizes: Any, kind: str) -> None:
    arguments = arguments_of(*sizes, kind)
    found, wanted = call(kernels, arguments, "int8_linear")
    assert kernels.temp_used > 0
    np.testing.assert_array_equal(found, wanted)
    found, wanted = call(kernels, arguments[:-3], "int8_float_linear")
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "sizes", [(LEAST_ROWS - 1, 64, 32), (64, PANEL_BYTES // 32 + 4, 16), (1, 64, 32)], ids=["rows", "depth", "row"]
)
def test_what_is_left_to_rows(kernels: Kernels, sizes: Any) -> None:
    found, wanted = call(kernels, arguments_of(*sizes, "mixed"), "int8_linear")
    assert kernels.temp_used == 0
    np.testing.assert_array_equal(found, wanted)


def test_without_memory_panels_are_not_prepared(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "temp", ctypes.create_string_buffer(1 << 10))
    found, wanted = call(kernels, arguments_of(48, 64, 96, "mixed"), "int8_linear")
    assert kernels.temp_used == 0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("zeros", [(0, 0), (-128, 0), (5, -7), (127, 127)])
@pytest.mark.parametrize("sizes", [(2, 24, 16, 16), (3, 31, 65, 197), (1, 47, 1100, 9)])
def test_products_of_computed_matrices(
    kernels: Kernels, sizes: Any, zeros: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, rows, depth, columns = sizes
    random = np.random.default_rng(depth)
    matrices = [random.integers(-128, 128, (batch, *s)).astype(np.int8) for s in ((rows, depth), (depth, columns))]
    arguments = [*matrices, *zeros, 0.1 / depth, 9, -110, 127]
    declared = -(-columns // 16) * -(-depth // 4) * 64 + 4 * columns + 32
    for memory in (64 << 20, declared):
        monkeypatch.setattr(kernels, "temp", ctypes.create_string_buffer(memory))
        found, wanted = call(kernels, arguments, "int8_bmm")
        assert (kernels.temp_used > declared) == (memory > declared)
        np.testing.assert_array_equal(found, wanted)


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 40, 3, stride=2, padding=1)
        self.second = nn.Conv2d(40, 70, 1)
        self.third = nn.Linear(70, 33)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(x).relu()).relu()
        return self.third(y.flatten(2).transpose(1, 2))


@pytest.mark.parametrize("recipe", ["static-int8", "dynamic-int8"])
def test_any_number_of_threads_gives_the_same_bits(recipe: str) -> None:
    torch.manual_seed(0)
    inputs = [(torch.randn(2, 3, 33, 38),) for _ in range(2)]
    program = torch.export.export(_Layers().eval(), inputs[0])
    compiled = etir.quantize(program, recipe, calibration=inputs, target="etir").compile()
    first, *others = (
        etir.runtime.load(compiled.buffer, threads=threads)["forward"](*inputs[0])[0] for threads in (1, 2, 3, 8)
    )
    assert all(torch.equal(first, other) for other in others)
