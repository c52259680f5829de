"""Compilers and images: what they refuse, and with which words."""

from __future__ import annotations

import pytest
from xdsl.dialects.func import FuncOp

from etir.backends.native.cc import compiler, shared_object
from etir.backends.native.cpu import cpu, family_of_host, known, of_family
from etir.backends.native.image import flat_image
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.print_c import print_c
from etir.diagnostics import EtirError

from etir_testing.native.functions import parsed_function

HOST = of_family(family_of_host())[-1]
EXPORTED = '__attribute__((visibility("default"))) '


def image(text: str, entry: str = "f") -> bytes:
    return flat_image(shared_object(text, HOST, compiler()), entry).code


def test_code_alone_is_an_image() -> None:
    code = image(EXPORTED + "int f(int x) { static const int t[4] = {3, 5, 7, 9}; return t[x & 3]; }")
    assert 0 < len(code) < 8192


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EXPORTED + "int f(void) { static int calls; return ++calls; }", "E1163"),
        (EXPORTED + "int g(void); int f(void) { return g(); }", "E1163"),
        (EXPORTED + "int g(void) { return 1; }" + EXPORTED + "int h(void) { return 2; }"
         + EXPORTED + "int (*const t[2])(void) = {g, h};" + EXPORTED + "int f(int i) { return t[i](); }", "E1163"),
        (EXPORTED + "int other(void) { return 0; }", "E1163"),
        ("int f(void) { return; nonsense", "E1162"),
    ],
)  # fmt: skip
def test_what_needs_a_loader_is_refused(text: str, said: str) -> None:
    with pytest.raises(EtirError, match=said):
        image(text)


def test_bytes_that_are_no_shared_object_are_refused() -> None:
    with pytest.raises(EtirError, match="E1163"):
        flat_image(b"MZ" + bytes(200), "f")


TILED = """
func.func @f(%x: memref<30x20xf32>, %w: memref<1x20x32xf32>, %y: memref<30x32xf32>)
    attributes {native.outputs = 1 : i64} {
  tile.brgemm %x, %w, %y() SCHEDULE : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {
  ^bb0(%0: f32):
    tile.yield %0 : f32
  }
  func.return
}
"""


def tiled(schedule: str) -> FuncOp:
    return parsed_function(TILED.replace("SCHEDULE", schedule))


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ("tile = [40, 2], depth = 20, rows = 30", "registers"),
        ("tile = [4, 3], depth = 20, rows = 30", "do not divide a panel"),
        ("tile = [0, 2], depth = 20, rows = 30", "positive"),
        ("tile = [2, 1], depth = 20, rows = 30, panels = 2", "whole panels"),
        ("tile = [2, 1], depth = 20, rows = 30, lines = 2", "share their panels"),
        ("tile = [2, 1], depth = 20, rows = 30, taps = 1", "need taps"),
        ("tile = [2, 1], depth = 20, rows = 30, unroll = 17", "1 to 16 steps"),
    ],
)
def test_schedules_that_a_processor_cannot_do(schedule: str, reason: str) -> None:
    with pytest.raises(EtirError, match="E1164") as caught:
        print_c(tiled(f"schedule {{{schedule}}}"), cpu("x86-64-v4"))
    assert reason in str(caught.value)


OVER = TILED.replace("%y: memref", "%e: memref<30x32xf32>, %y: memref").replace(
    "%y() SCHEDULE : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>() {\n  ^bb0(%0: f32):",
    "%y(%e) over SCHEDULE : memref<30x20xf32>, memref<1x20x32xf32>, memref<30x32xf32>(memref<30x32xf32>) {\n"
    "  ^bb0(%0: f32, %1: f32):",
)


@pytest.mark.parametrize(("depth", "rests"), [(20, False), (10, True)])
def test_sums_that_would_rest_in_an_operand(depth: int, rests: bool) -> None:
    """Where a product is written over an extra operand, no schedule may cut its depth; those that are chosen do not."""

    def over(schedule: str) -> FuncOp:
        return parsed_function(OVER.replace("SCHEDULE", schedule))

    text = f"schedule {{tile = [4, 2], depth = {depth}, rows = 30}}"
    if rests:
        with pytest.raises(EtirError, match="E1164.*sums rest in c"):
            print_c(over(text), cpu("x86-64-v4"))
    else:
        print_c(over(text), cpu("x86-64-v4"))
    for name in known():
        func = over("")
        choose_schedules(func, cpu(name))
        print_c(func, cpu(name))


def test_every_processor_has_a_schedule() -> None:
    for name in known():
        func = tiled("")
        choose_schedules(func, cpu(name))
        assert f"#define ETIR_VW {cpu(name).vector}" in print_c(func, cpu(name)).text
