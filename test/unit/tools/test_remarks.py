"""Remarks: the same of both tools and of an editor, in every form; of a pass that fails, too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from etir.devtools.lsp.beside import Beside
from etir.devtools.trace.read import Trace
from etir.tools import et_compile, et_opt

TEXT = """\
func.func @forward(%x: tensor<2x8xf32>) -> (tensor<2x2xf32>, tensor<2x8xf32>) {
  %a, %i = aten.topk.default(%x, k = 2) : (tensor<2x8xf32>) -> (tensor<2x2xf32>, tensor<2x2xi64>) loc("m.py":3:1)
  %b = aten.relu.default(%x) : (tensor<2x8xf32>) -> tensor<2x8xf32> loc("m.py":4:1)
  func.return %a, %b : tensor<2x2xf32>, tensor<2x8xf32>
}
"""
MISSED = "--remarks-filter-missed=^partition:xnnpack$"


def test_what_a_backend_refuses_is_said_by_both_tools_and_in_the_editor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output, trace = (tmp_path / name for name in ("m.mlir", "m.json", "m.trace"))
    source.write_text(TEXT)
    common = ["--delegate", "xnnpack", MISSED, "--remark-format", "json", str(source)]
    assert et_opt.main(["--compile-to=backend", "--no-output", *common]) == 0
    said = capsys.readouterr().err
    more = ["--remarks-output-file", str(output), "--trace", str(trace), "-o", str(tmp_path / "m.pte")]
    assert et_compile.main([*common, *more]) == 0
    assert output.read_text() == said
    passed = tmp_path / "passed.txt"
    source.write_text(TEXT.replace("aten.relu.default", "aten.silu.default"))
    words = ["--remarks-filter-passed=.", "--remarks-format=text", "--remarks-output-file", str(passed)]
    assert et_compile.main([str(source), "-o", str(tmp_path / "m.pte"), *words]) == 0
    assert "m.py:4:1: remark: [passed] decompose-aten:" in passed.read_text() and "[missed]" not in passed.read_text()
    remarks = [json.loads(line) for line in said.splitlines()]
    assert [(r["kind"], r["name"], r["operation"], r["file"], r["line"]) for r in remarks] == [
        ("missed", "xnnpack", "edge.aten.topk.default", "m.py", 3)
    ]
    found = Trace.load(trace)
    topk = next(origin for origin in found.origins if "topk" in origin.op)
    assert f"partition:xnnpack: {remarks[0]['message']}" in Beside(found).remarks((topk.number,))


def test_a_pass_that_fails_is_a_remark_and_the_file_is_written(tmp_path: Path) -> None:
    source, output = tmp_path / "m.mlir", tmp_path / "m.yaml"
    source.write_text(TEXT.replace("aten.relu.default", "aten.softplus.default"))
    words = ["-p", "verify-core-aten", "--remarks-filter-failed=.", "--remark-format=yaml", str(source), "--no-output"]
    assert et_opt.main([*words, "--remarks-output-file", str(output)]) == 1
    assert output.read_text().startswith('--- !Failed\nPass:            "verify-core-aten"\n')


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--remarks-filter=("], "no regular expression"), (["--remarks-output-file=x"], "needs a filter")],
)
def test_wrong_options(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text(TEXT)
    assert et_compile.main([str(tmp_path / "m.mlir"), "-o", str(tmp_path / "m.pte"), *words]) != 0
    assert said in capsys.readouterr().err
    assert not (tmp_path / "m.pte").exists()
