"""What a product goes through first: the panels of its right operand, or the blocks of rows of its left one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from etir.backends.native.cpu import cpu
from etir.backends.native.kernels.brgemm_text import ProductText
from etir.backends.native.kernels.template import integers
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.print_c import print_c
from etir.backends.native.tile import BrgemmOp

from etir_testing.native.functions import parsed_function
from etir_testing.native.images import Code, here


def product(m: int, k: int, n: int) -> FuncOp:
    """A function of one product [m, k] times panels of [k, n]."""
    types = f"memref<{m}x{k}xf32>", f"memref<{n // 32}x{k}x32xf32>", f"memref<{m}x{n}xf32>"
    return parsed_function(f"""
func.func @f(%x: {types[0]}, %w: {types[1]}, %y: {types[2]}) attributes {{native.outputs = 1 : i64}} {{
  tile.brgemm %x, %w, %y() : {", ".join(types)}() {{
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }}
  func.return
}}
""")


@pytest.mark.parametrize(
    ("name", "size", "panels_first"),
    [
        ("x86-64-v4", (1500, 1536, 384), False),
        ("x86-64-v4", (1500, 384, 1536), False),
        ("x86-64-v4", (197, 768, 3072), True),  # the left operand stays in the second cache
        ("x86-64-v4", (197, 3072, 768), True),  # it does not, but the right one is larger still
        ("x86-64-v4", (1500, 64, 64), False),  # all panels stay there
        ("x86-64-v3", (1500, 1536, 384), True),
    ],
)
def test_what_is_read_least(name: str, size: tuple[int, int, int], panels_first: bool) -> None:
    func = product(*size)
    choose_schedules(func, cpu(name))
    (op,) = (op for op in func.walk() if isinstance(op, BrgemmOp))
    assert ProductText(op, cpu(name)).panels_outermost() == panels_first


@pytest.mark.parametrize(
    ("name", "size", "rows"),
    [
        ("x86-64-v4", (3136, 64, 256), 392),  # 392 rows of both take half of the second cache
        ("x86-64-v4", (3136, 256, 64), 392),
        ("x86-64-v4", (784, 128, 512), 196),
        ("x86-64-v4", (196, 256, 256), 196),  # all of it is in the second cache
        ("x86-64-v4", (784, 256, 512), 630),  # the panels are half of it
        ("x86-64-v3", (3136, 64, 256), 1278),
    ],
)
def test_rows_of_a_large_result_are_written_in_one_piece(name: str, size: tuple[int, int, int], rows: int) -> None:
    """Blocks are low, and equal, where a block's rows stay in the second cache for all panels."""
    func = product(*size)
    choose_schedules(func, cpu(name))
    (op,) = (op for op in func.walk() if isinstance(op, BrgemmOp))
    assert integers(op, "rows", (0,)) == (rows,)


@pytest.mark.parametrize(
    ("name", "size", "is_fetched"),
    [
        ("x86-64-v4", (1500, 384, 1536), True),
        ("x86-64-v4", (197, 768, 512), False),  # stays in the second cache
        ("x86-64-v3", (1500, 384, 1536), False),
    ],
)
def test_lines_that_are_only_written(name: str, size: tuple[int, int, int], is_fetched: bool) -> None:
    """They are fetched while a tile is summed where they are not in the second cache."""
    func = product(*size)
    choose_schedules(func, cpu(name))
    text = print_c(func, cpu(name)).text
    if name != "x86-64-v4":
        assert not re.search(r"__builtin_prefetch\(c .*, 1, 3\)", text)
        return
    assert re.search(r"if \(far\) \{\n.*\n *__builtin_prefetch\(c .*, 1, 3\)", text)
    given = re.findall(r"brgemm0_walk\w+\(.*, (\d)\);", text)
    assert given and set(given) == {str(int(is_fetched))}


@pytest.mark.parametrize("m", [13, 49, 97, 128, 197])
def test_all_of_the_next_panel_is_fetched(m: int) -> None:
    """Each tile fetches another part, also where tiles are lower than the most."""
    func = product(m, 256, 512)
    choose_schedules(func, cpu("x86-64-v4"))
    text = print_c(func, cpu("x86-64-v4")).text
    (op,) = (op for op in func.walk() if isinstance(op, BrgemmOp))
    heights, arguments = re.findall(r"  brgemm0_walk((?:_\d+x\d+)+)\((.*)\);", text)[0]
    rows = [int(row) for row in re.findall(r"_(\d+)x", heights)]
    _, _, _, _, on, _, *given = arguments.split(", ")
    counts = [int(count) for count in given[: len(rows)]]
    assert sum(map(int.__mul__, rows, counts)) == m
    assert sum(counts) == ProductText(op, cpu("x86-64-v4")).tiles_of_block()
    assert "next_ += on" in text
    assert (sum(counts) - 1) * int(on) < 256 * 32 <= sum(counts) * int(on)


@pytest.mark.skipif("x86-64-v4" not in here(), reason="the processor has no AVX-512")
@pytest.mark.parametrize("m", [700, 701, 709])
def test_results_by_blocks(m: int) -> None:
    """Blocks of which the last one is lower, and panels that are fetched ahead within a block."""
    func = product(m, 1001, 160)
    code = Code(func, "x86-64-v4")
    (op,) = (op for op in func.walk() if isinstance(op, BrgemmOp))
    text = ProductText(op, cpu("x86-64-v4"))
    assert not text.panels_outermost() and text.blocks() > 1 and text.passes > 0
    chance = np.random.default_rng(0)
    x, w = (chance.standard_normal(shape).astype(np.float32) for shape in ((m, 1001), (5, 1001, 32)))
    (found,) = code([x, w])
    exact = x.astype(np.float64) @ w.transpose(1, 0, 2).reshape(1001, 160).astype(np.float64)
    assert np.abs(found - exact).max() / np.abs(exact).max() < 1e-6
