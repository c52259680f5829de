"""Text at the executable level that a hand has changed: refused, or computed as it says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etir.tools.et_compile import main as compile_main
from etir.tools.et_translate import main as translate_main

from etir_testing.fuzz.text_mutations import REFUSED, SAME, mutations, start, verdict

TEXT = """
et.method @forward pools [0, 112] {
  %x = et.buffer at <1, 0> : tensor<8xf32>
  %a = et.buffer at <1, 32> : tensor<8xf32>
  %y = et.buffer at <1, 64> : tensor<8xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %a) -> %a
  et.call "aten::add.out"(%a, %x, 1, %y) -> %y
  et.return %y
}
"""


@pytest.mark.parametrize("target", ["etir", "executorch"])
def test_mutations_are_refused_or_compute_what_the_text_says(target: str) -> None:
    text, weights, inputs = start(target)
    assert verdict(text, weights, inputs, target) == SAME
    counts: dict[str, int] = {}
    for seed in range(2):
        for mutation in itertools.islice(mutations(text, seed), 60):
            found = verdict(mutation.text, weights, inputs, target)
            assert found in (REFUSED, SAME), f"{mutation.what}: {found}\n{mutation.text}"
            counts[found] = counts.get(found, 0) + 1
    assert min(counts[REFUSED], counts[SAME]) >= 5, counts


EDITS = [
    ("at <1, 32>", "at <1, 16>", "E0714"),
    ("at <1, 64>", "at <1, 65>", "E0712"),
    ("pools [0, 112]", "pools [0, 90]", "E0713"),
    ("(%x, %a) -> %a", "(%x, %y) -> %y", "E0308"),
    ("aten::relu.out", "aten::rleu.out", "E0603"),
    ("(%a, %x, 1, %y)", "(%a, %x, %y)", "E0309"),
    ("%a = et.buffer at <1, 32> : tensor<8xf32>", "%a = et.buffer at <1, 32> : tensor<4xf32>", "E0309"),
]


@pytest.mark.parametrize("tool", ["compile", "translate"])
@pytest.mark.parametrize(("old", "new", "error"), EDITS, ids=[e[2] + e[1][:12] for e in EDITS])
def test_an_edit_is_an_error_of_the_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, old: str, new: str, error: str
) -> None:
    assert old in TEXT
    run: Callable[[list[str]], Any] = compile_main if tool == "compile" else translate_main
    options = [] if tool == "compile" else ["--mlir-to-pte"]
    (tmp_path / "right.mlir").write_text(TEXT)
    (tmp_path / "wrong.mlir").write_text(TEXT.replace(old, new))
    assert run([*options, str(tmp_path / "right.mlir"), "-o", str(tmp_path / "right.pte")]) == 0
    assert run([*options, str(tmp_path / "wrong.mlir"), "-o", str(tmp_path / "wrong.pte")]) == 1
    assert error in capsys.readouterr().err
    assert not (tmp_path / "wrong.pte").exists()


def test_declared_types_are_checked_at_every_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("aten.relu.default", "edge.aten.relu.default"):
        for line in ("tensor<2x3xf32>", "tensor<3x2xf32>"):
            (tmp_path / "x.mlir").write_text(
                f"func.func @forward(%x: tensor<2x3xf32>) -> {line} {{\n"
                f"  %y = {name}(%x) : (tensor<2x3xf32>) -> {line}\n  func.return %y : {line}\n}}\n"
            )
            code = compile_main([str(tmp_path / "x.mlir"), "-o", str(tmp_path / "x.pte")])
            assert code == (line == "tensor<3x2xf32>")
    assert "E0310" in capsys.readouterr().err


def test_methods_that_share_a_memory_keep_off_each_others_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
et.state @s : tensor<4xf32>
et.method @read pools [0, 16, 32] {
  %s = et.buffer at <2, 0> state @s : tensor<4xf32>
  %y = et.buffer at <1, 0> : tensor<4xf32>
  et.inputs
  et.call "aten::relu.out"(%s, %y) -> %y
  et.return %y
}
et.method @write pools [0, 16, 32] {
  %s = et.buffer at <2, OFFSET> state @s : tensor<4xf32>
  %t = et.buffer at <2, OTHER> : tensor<4xf32>
  %x = et.buffer at <1, 0> : tensor<4xf32>
  et.inputs %x
  et.call "aten::relu.out"(%x, %t) -> %t
  et.call "aten::copy_"(%s, %t, false) -> %s
  et.return
}
"""
    for offset, other, code in ((0, 16, 0), (16, 0, 1)):
        path = tmp_path / "x.mlir"
        path.write_text(text.replace("OFFSET", str(offset)).replace("OTHER", str(other)))
        assert compile_main([str(path), "-o", str(tmp_path / "x.pte")]) == code
    assert "E0714" in capsys.readouterr().err
