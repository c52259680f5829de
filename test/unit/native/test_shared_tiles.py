"""Register tiles that products of other sizes have, too: they are one function, which is given what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from etir.backends.native.cpu import cpu
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.print_c import print_c

from etir_testing.native.functions import parsed_function
from etir_testing.native.images import Code, here

SIZES = [(23, 40, 32), (46, 88, 96), (17, 300, 64), (17, 380, 64)]
"""Rows, depth and columns: two of one run of products, and two of two runs."""
TALL = [(28, 64, 32), (2800, 64, 512)]
"""The weights of one are not fetched ahead, and its result is in the second cache; the other way round."""


def products(residual: bool, sizes: Sequence[tuple[int, int, int]] = SIZES) -> FuncOp:
    """A function of a product of each size, each of which something is added to where ``residual`` says so."""
    inputs: list[str] = []
    outputs: list[str] = []
    body: list[str] = []
    for i, (m, k, n) in enumerate(sizes):
        a, b, c = f"memref<{m}x{k}xf32>", f"memref<{n // 32}x{k}x32xf32>", f"memref<{m}x{n}xf32>"
        inputs += [f"%a{i}: {a}", f"%b{i}: {b}", *([f"%e{i}: {c}"] if residual else [])]
        outputs.append(f"%c{i}: {c}")
        extra = f"(%e{i})" if residual else "()"
        body += [
            f"  tile.brgemm %a{i}, %b{i}, %c{i}{extra} : {a}, {b}, {c}({c if residual else ''}) {{",
            f"  ^bb0(%s{i}: f32{f', %x{i}: f32' if residual else ''}):",
            *([f"    %t{i} = arith.addf %s{i}, %x{i} : f32"] if residual else []),
            f"    tile.yield %{'t' if residual else 's'}{i} : f32",
            "  }",
        ]
    count = f"native.outputs = {len(outputs)} : i64"
    return parsed_function(
        "\n".join(
            [f"func.func @f({', '.join(inputs + outputs)}) attributes {{{count}}} {{", *body, "  func.return", "}"]
        )
    )


def tiles(name: str, residual: bool, sizes: Sequence[tuple[int, int, int]] = SIZES) -> Counter[str]:
    """How many functions there are for tiles of each size."""
    func = products(residual, sizes)
    choose_schedules(func, cpu(name))
    text = print_c(func, cpu(name)).text
    return Counter(re.findall(r"void brgemm\d+_(\w+)\(", text))


@pytest.mark.parametrize("residual", [False, True])
def test_tiles_are_shared(residual: bool) -> None:
    """Tiles of six rows: one for a run of products, and one for several, which is given how long they are; loops over
    long ones are a function, too.
    """
    assert tiles("x86-64-v3", residual) == {"6x1": 2, "5x1": 2, "walk_6x1_5x1": 1, "part": len(SIZES)}


@pytest.mark.parametrize("residual", [False, True])
def test_high_tiles_are_shared(residual: bool) -> None:
    """Fourteen rows have a few addresses, from which the others are found."""
    found = tiles("x86-64-v4", residual)
    assert found.pop("part") == len(SIZES)
    assert found and set(found.values()) == {1}


def test_a_product_shares_tiles_with_larger_ones() -> None:
    """Whether lines of c and the next panel are fetched is given, too."""
    assert TALL[1][0] * TALL[1][2] * 4 > cpu("x86-64-v4").l2 // 2 > TALL[0][0] * TALL[0][2] * 4
    assert tiles("x86-64-v4", residual=False, sizes=TALL) == {"14x1": 1, "part": len(TALL)}


@pytest.mark.parametrize("name", here())
@pytest.mark.parametrize("residual", [False, True])
def test_what_they_compute(name: str, residual: bool) -> None:
    func = products(residual)
    chance = np.random.default_rng(0)
    inputs: list[np.ndarray] = []
    wanted: list[np.ndarray] = []
    for m, k, n in SIZES:
        x, w = (chance.standard_normal(shape).astype(np.float32) for shape in ((m, k), (n // 32, k, 32)))
        exact = x.astype(np.float64) @ w.transpose(1, 0, 2).reshape(k, n).astype(np.float64)
        inputs += [x, w]
        if residual:
            added = chance.standard_normal((m, n)).astype(np.float32)
            inputs.append(added)
            exact += added
        wanted.append(exact)
    for found, exact in zip(Code(func, name)(inputs), wanted, strict=True):
        assert np.abs(found - exact).max() / np.abs(exact).max() < 1e-6
