"""What a program says must not decide where files are written, and hostile headers are errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from etir.tools.et_compile import main as compile_main
from etir.tools.et_translate import main as translate_main

from etir_testing.fuzz.headers import findings

TEXT = """
et.weight @w : tensor<4xf32> = #et.synthetic<seed = 7> {external = "TAG"}
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = et.get_weight @w : tensor<4xf32>
  %y = edge.aten.mul.Tensor(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
TAGS = ["../outside", "/tmp/outside", "a/b", "..", ".", "", "a\\\\b", "x" * 300]


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("way", ["attribute", "option", "translate"])
def test_the_tag_of_external_data_names_a_file_beside_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tag: str, way: str
) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    source = folder / "x.mlir"
    source.write_text(TEXT.replace("TAG", tag if way != "option" else "fine"))
    if way == "option":
        source.write_text(TEXT.replace(' {external = "TAG"}', ""))
    before = sorted(tmp_path.rglob("*"))
    out = ["-o", str(folder / "x.pte")]
    if way == "translate":
        code = translate_main(["--mlir-to-pte", str(source), *out])
    else:
        options = ["--external-weights", tag.replace("\\\\", "\\")] if way == "option" else []
        code = compile_main([str(source), *out, *options])
    assert code == 1
    assert "E0868" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_hostile_headers_are_errors(tmp_path: Path) -> None:
    assert list(findings(range(400), tmp_path)) == []
