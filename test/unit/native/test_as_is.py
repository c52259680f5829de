"""Functions that only call others are compiled as they stand, unless they are linked with a program."""

from __future__ import annotations

import re

import pytest

from etir.backends.native import calling
from etir.backends.native.cpu import cpu
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.print_c import print_c

from etir_testing.native.functions import parsed_function

PRODUCT = """\
func.func @f(%a: memref<{m}x{k}xf32>, %b: memref<4x{k}x32xf32>, %c: memref<{m}x128xf32>) attributes {{
    native.outputs = 1 : i64}} {{
  tile.brgemm %a, %b, %c() : memref<{m}x{k}xf32>, memref<4x{k}x32xf32>, memref<{m}x128xf32>() {{
  ^bb0(%s: f32):
    tile.yield %s : f32
  }}
  func.return
}}
"""


def as_is(m: int, k: int, name: str) -> list[str]:
    """The functions of a product that are compiled as they stand."""
    func = parsed_function(PRODUCT.format(m=m, k=k))
    plan_function(func)
    choose_schedules(func, cpu(name))
    source = print_c(func, cpu(name))
    return re.findall(r"ETIR_AS_IS \w+ (\w+)\(", source.text.removeprefix(source.prologue))


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64", "aarch64"])
def test_loops_around_long_tiles(name: str) -> None:
    assert as_is(100, 1000, name) == ["brgemm0_part"]


@pytest.mark.parametrize("name", ["x86-64-v4", "x86-64-v3"])
def test_loops_around_what_is_short_are_optimized(name: str) -> None:
    assert as_is(6, 16, name) == []


def test_several_tiles_are_long() -> None:
    """As one function does them all; where each is short, what is around them is optimized with them."""
    assert as_is(1000, 80, "x86-64-v4") == ["brgemm0_part"]
    assert as_is(1000, 16, "x86-64-v4") == []


def test_calls_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "LIMIT", 0)
    assert as_is(6, 16, "x86-64-v4") == ["brgemm0", "etir_native_entry"]


def test_every_byte_counts_where_code_is_linked() -> None:
    assert as_is(100, 1000, "cortex-m55") == []
