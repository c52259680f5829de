"""Windows of 3 x 3 with AVX2 by minimal filtering (``winograd_avx2.h``): the oracle's bits, and when it is used."""

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

LAST = torch.channels_last


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return integer_kernels("avx2")


def arguments_of(sizes: Any, seed: int, *, hostile: bool = False) -> list[Any]:
    """Of int8_conv2d. Hostile numbers have the largest sums and points: inputs at one end, weights at one or both."""
    batch, channels, height, width, columns, padding = sizes
    random = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray:
        if hostile:
            return random.choice(np.array([-128, -128, 127], np.int8), shape)
        return random.integers(-128, 128, shape).astype(np.int8)

    x, matrix = numbers(batch, channels, height, width), numbers(columns, 9 * channels)
    if hostile:
        x[:] = np.where(np.arange(width) % 4 < 2, 127, x)
        matrix[: columns // 2] = -128
    bias = random.integers(-(2**31), 2**31, columns).astype(np.int32)
    factors = random.uniform(1e-8, 1e-7, columns).astype(np.float32)
    zero = int(random.integers(-128, 128))
    return [x, np.stack([packed(matrix)]), bias, factors, zero, [3, 3], [1, 1], padding, [1, 1], 1, 3, -128, 120]


def call(kernels: Kernels, arguments: list[Any], *, floating: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Of the kernel, and of the oracle."""
    name = "int8_float_conv2d" if floating else "int8_conv2d"
    arguments = arguments[:-3] if floating else arguments
    wanted = lookup(f"etir.{name}.default")(*arguments)
    given = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in arguments]
    given[0] = given[0].to(memory_format=LAST)
    like = torch.from_numpy(np.zeros_like(wanted)).to(memory_format=LAST)
    (found,) = kernels.call(f"etir::{name}.out", given, [like])
    return found.numpy(), wanted


TAKEN = [
    # batch, channels, height, width, columns, padding
    (1, 32, 8, 8, 32, [1, 1]),
    (2, 48, 9, 13, 40, [1, 1]),
    (1, 64, 56, 56, 64, [1, 1]),
    (3, 32, 7, 7, 33, [2, 2]),
    (1, 512, 7, 7, 48, [1, 1]),
    (1, 272, 15, 6, 36, [0, 1]),
    (1, 32, 40, 41, 35, [0, 0]),
    (1, 32, 6, 6, 32, [40, 3]),
]
LEFT = [
    (1, 32, 4, 6, 32, [1, 1]),  # too few tiles
    (1, 40, 8, 8, 32, [1, 1]),  # vectors of 16 channels
    (1, 16, 8, 8, 32, [1, 1]),
    (1, 528, 8, 8, 32, [1, 1]),
    (1, 32, 8, 8, 24, [1, 1]),
    (1, 32, 1, 50, 32, [1, 1]),  # half of all tiles
]


@pytest.mark.parametrize("hostile", [False, True])
@pytest.mark.parametrize("sizes", TAKEN)
def test_the_bits_of_products_of_patches(kernels: Kernels, sizes: Any, hostile: bool) -> None:
    arguments = arguments_of(sizes, sum(sizes[:5]), hostile=hostile)
    for floating in (False, True):
        found, wanted = call(kernels, arguments, floating=floating)
        assert kernels.temp_used > 0
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("sizes", LEFT)
def test_what_is_left_to_products_of_patches(kernels: Kernels, sizes: Any) -> None:
    found, wanted = call(kernels, arguments_of(sizes, 1))
    # Scratch memory is that of prepared panels alone (prepared_avx2.h): two bytes for each weight and for each quad, of
    # as many panels as fit into 256 KB, but for what aligns it.
    _, channels, _, _, columns, _ = sizes
    panels, quads = -(-columns // 16), 9 * channels // 4
    groups = -(-panels // (2048 // quads))
    assert 0 <= kernels.temp_used - -(-panels // groups) * quads * 130 < 2 * 64
    np.testing.assert_array_equal(found, wanted)


def test_without_memory_products_of_patches_do_it(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "temp", ctypes.create_string_buffer(1 << 12))
    found, wanted = call(kernels, arguments_of(TAKEN[0], 2))
    assert kernels.temp_used == 0
    np.testing.assert_array_equal(found, wanted)


class _Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(32, 96, 3, padding=1)
        self.second = nn.Conv2d(96, 48, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


def test_any_number_of_threads_gives_the_same_bits() -> None:
    torch.manual_seed(0)
    inputs = [(torch.randn(2, 32, 21, 30),) for _ in range(2)]
    program = torch.export.export(_Images().eval(), inputs[0])
    compiled = etir.quantize(program, "static-int8", calibration=inputs, target="etir").compile()
    first, *others = (
        etir.runtime.load(compiled.buffer, threads=threads)["forward"](*inputs[0])[0] for threads in (1, 2, 3, 8)
    )
    assert all(torch.equal(first, other) for other in others)
