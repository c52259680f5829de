"""Entries work off a table of calls, and do what calls in a row would."""

from __future__ import annotations

import numpy as np
import pytest

from etir.backends.native import calling
from etir.backends.native.calling import Address, Base, Call, fits_table, table_of_calls
from etir.backends.native.cpu import cpu

from etir_testing.native.functions import parsed_function
from etir_testing.native.images import Code, emulated, here

FUNCTION = """\
func.func @f(%a: memref<6x8xf32>, %b: memref<6x8xf32>, %c: memref<6x8xf32>, %d: memref<3x8xf32>) attributes {
    native.outputs = 2 : i64} {
  %w = tile.weight "w" : memref<6x8xf32>
  %m = tile.buffer : memref<6x8xf32>
  %n = tile.buffer : memref<6x8xf32>
  tile.map %m(%a, %w) : memref<6x8xf32>(memref<6x8xf32>, memref<6x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tile.yield %s : f32
  }
  tile.map %n(%m, %b) : memref<6x8xf32>(memref<6x8xf32>, memref<6x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.mulf %x, %y : f32
    tile.yield %s : f32
  }
  tile.map %c(%n, %w) : memref<6x8xf32>(memref<6x8xf32>, memref<6x8xf32>) {
  ^bb0(%x: f32, %y: f32):
    %s = arith.addf %x, %y : f32
    tile.yield %s : f32
  }
  %v = memref.reinterpret_cast %n to offset: [24], sizes: [3, 8], strides: [8, 1] :
    memref<6x8xf32> to memref<3x8xf32, strided<[8, 1], offset: 24>>
  tile.map %d(%v) : memref<3x8xf32>(memref<3x8xf32, strided<[8, 1], offset: 24>>) {
  ^bb0(%x: f32):
    tile.yield %x : f32
  }
  func.return
}
"""
"""Reads and writes all bases, a view, and calls one function twice."""


def results(name: str) -> tuple[list[np.ndarray], str]:
    """What the code writes, with its text."""
    a, b, w = (np.random.default_rng(n).standard_normal((6, 8)).astype(np.float32) for n in range(3))
    code = Code(parsed_function(FUNCTION), name, {"w": w})
    found = code([a, b])
    n = (a + w) * b
    np.testing.assert_allclose(found[0], n + w, rtol=1e-6)
    np.testing.assert_allclose(found[1], n[3:], rtol=1e-6)
    return found, code.text


@pytest.mark.parametrize("name", [*here(), *emulated()])
def test_the_same_as_calls_in_a_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, text = results(name)
    is_linked = "etir_calls" not in text
    monkeypatch.setattr(calling, "LIMIT", 0)
    row, text = results(name)
    assert "args[1] = (void*)" in text
    assert [x.tobytes() for x in made] == [x.tobytes() for x in row]
    assert is_linked == cpu(name).linked


def test_words_of_a_table() -> None:
    places = [Address(base, 5, "x", 7) for base in Base]
    table, lines = table_of_calls([Call("g", (places[3],)), Call("f", tuple(places)), Call("g", (places[0],))],
                                  {"f": "f();", "g": "g();"})  # fmt: skip
    rows = [
        [int(word.removesuffix("u"), 0) for word in line.strip(" ,").split(", ")] for line in table.split("\n")[1:-1]
    ]
    assert rows == [
        [1 << 16, 5 << 2 | 3, 7],
        [4 << 16 | 1, 5 << 2, 7, 5 << 2 | 1, 7, 5 << 2 | 2, 7, 5 << 2 | 3, 7],
        [1 << 16, 5 << 2, 7],
    ]
    assert [line.split()[-2] for line in lines[-4:-2]] == ["g();", "f();"]


def test_what_a_table_cannot_tell() -> None:
    assert not fits_table([])
    one = Address(Base.INPUT, 0, "x")
    assert fits_table([Call(f"f{n}", (one,)) for n in range(calling.LIMIT - 1)])
    assert not fits_table([Call(f"f{n}", (one,)) for n in range(calling.LIMIT)])
    assert not fits_table([Call("f", (one,) * calling.LIMIT)])


@pytest.mark.parametrize("name", here())
def test_calls_that_differ_in_functions_alone(name: str) -> None:
    """Of these compilers make one, with a table of the functions."""
    args = ", ".join(f"%{n}: memref<8xf32>" for n in range(3))
    maps = "".join(
        f"tile.map %{n}() : memref<8xf32>() {{\n  %x = arith.constant {n}.5 : f32\n  tile.yield %x : f32\n}}\n"
        for n in range(3)
    )
    func = f"func.func @f({args}) attributes {{native.outputs = 3 : i64}} {{\n{maps}func.return\n}}"
    assert [x.tolist() for x in Code(parsed_function(func), name)([])] == [[n + 0.5] * 8 for n in range(3)]
