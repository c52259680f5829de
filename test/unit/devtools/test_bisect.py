"""The pass and the rewrite that make a program wrong are found, and dumps around them run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from etir.devtools.bisect import bisect
from etir.devtools.checks import Answer, SameNumbers, difference
from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.text import parse_module
from etir.passes.generic.canonicalize import CanonicalizePass
from etir.passes.generic.cse import CsePass
from etir.passes.generic.dce import DcePass
from etir.passes.infra.base import Pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily
from etir.tools import et_bisect, et_opt, et_run

COUNT = 9


def chain(count: int = COUNT) -> str:
    """``sin`` and ``neg`` by turns: a wrong ``neg`` shows at the end."""
    lines = ["builtin.module {", "  func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {"]
    last, type = "%x", "tensor<2x4xf32>"
    for i in range(count):
        name = "neg" if i % 2 else "sin"
        lines.append(f'    %v{i} = edge.aten.{name}.default({last}) : ({type}) -> {type} loc("m.py":{i + 1}:0)')
        last = f"%v{i}"
    return "\n".join([*lines, f"    func.return {last} : {type}", "  }", "}", ""])


class Rename(Pattern):
    """``neg`` twice for each ``neg`` once; the one of a line is left out."""

    name = "negate-thrice"

    def __init__(self, wrong: int | None):
        self.wrong = wrong

    def rewrite(self, op: edge.aten.neg.default, rewriter: PatternRewriter) -> None:
        if "done" in op.attributes:
            return
        from xdsl.dialects.builtin import UnitAttr

        value = op.self_
        count = 2 if op.location.line.data == self.wrong else 3
        for _ in range(count):
            made = edge.aten.neg.default.make({"self": value}, [op.result.type])
            made.attributes["done"] = UnitAttr()
            value = rewriter.insert_op(made).results[0]
        rewriter.replace_op(op, [value])


def planted(line: int | None) -> Pass:
    class Planted(Pass):
        name = "planted"

        def run(self, ctx: EtContext, module) -> None:
            apply_patterns_greedily(ctx, module, [Rename(line)])

    return Planted()


SAMPLES = [[np.linspace(-3, 4, 8, dtype=np.float32).reshape(2, 4)], [np.ones((2, 4), np.float32)]]


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("line", [2, 4, 6, 8])
def test_pass_and_rewrite_are_found_in_few_checks(place: int, line: int) -> None:
    passes: list[Pass] = [CanonicalizePass(), CsePass(), DcePass()]
    passes.insert(place, planted(line))
    module = parse_module(chain())
    check = SameNumbers.of(module, SAMPLES, "forward", 1e-4)
    found = bisect(EtContext(), module, passes, check)
    assert found is not None and found.number == place and found.text == "planted"
    assert (found.rewrite, found.rewrites) == (line // 2, 4)
    assert found.rewritten == f"'negate-thrice' on edge.aten.neg.default, m.py:{line}"
    assert check.count <= math.ceil(math.log2(len(passes))) + math.ceil(math.log2(4)) + 2
    assert not found.hidden and check(found.before) is Answer.GOOD and check(found.after) is Answer.BAD


def test_a_pass_that_hides_it_is_said() -> None:
    class Undo(Pass):
        name = "undo"

        def run(self, ctx: EtContext, module) -> None:
            func = next(op for op in module.walk() if op.name == "func.func")
            fresh = parse_module(chain())
            func.detach()
            other = next(op for op in fresh.walk() if op.name == "func.func")
            other.detach()
            module.body.block.add_op(other)

    module = parse_module(chain())
    check = SameNumbers.of(module, SAMPLES, "forward", 1e-4)
    found = bisect(EtContext(), module, [CsePass(), planted(4), Undo()], check)
    assert found is not None and found.number == 1 and found.hidden
    assert "a later pass hides it" in str(found)


def test_a_right_pipeline_is_right() -> None:
    module = parse_module(chain())
    check = SameNumbers.of(module, SAMPLES, "forward", 1e-4)
    assert bisect(EtContext(), module, [CsePass(), planted(None), DcePass()], check) is None


def test_differences() -> None:
    nan, inf = float("nan"), float("inf")
    a = np.array([1.0, nan, inf, 2.0])
    assert difference(a, a) == 0
    assert difference(a, np.array([1.0, nan, inf, 3.0])) == 0.5
    assert difference(a, np.array([1.0, 0.0, inf, 2.0])) == inf
    assert difference(a, np.array([1.0, nan, -inf, 2.0])) == inf
    assert difference(a, a[:3]) == inf
    assert difference("text", "text") == 0 and difference("text", "other") == inf
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))) == 0
    assert difference(np.array([True]), np.array([False])) == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in.mlir").write_text(BATCH_NORM)
    np.savez("x.npz", x=np.random.default_rng(0).standard_normal((1, 2, 5, 5)).astype(np.float32))
    return tmp_path


BATCH_NORM = """\
builtin.module {
  et.weight @k : tensor<16x2x3x3xf32> = #et.synthetic<seed = 1>
  et.weight @mean : tensor<16xf32> = #et.synthetic<seed = 2>
  et.weight @var : tensor<16xf32> = #et.synthetic<seed = 3>
  func.func @forward(%x: tensor<1x2x5x5xf32>) -> tensor<1x16x3x3xf32> {
    %k = et.get_weight @k : tensor<16x2x3x3xf32>
    %mean = et.get_weight @mean : tensor<16xf32>
    %var0 = et.get_weight @var : tensor<16xf32>
    %var = edge.aten.abs.default(%var0) : (tensor<16xf32>) -> tensor<16xf32>
    %0 = edge.aten.convolution.default(%x, %k, stride = [1, 1], padding = [0, 0], dilation = [1, 1], \
transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x5x5xf32>, tensor<16x2x3x3xf32>) -> \
tensor<1x16x3x3xf32>
    %1, %2, %3 = edge.aten._native_batch_norm_legit_no_training.default(%0, %mean, %mean, %mean, %var, momentum = 0.1, \
eps = 1.0e-05) : (tensor<1x16x3x3xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> \
(tensor<1x16x3x3xf32>, tensor<0xf32>, tensor<0xf32>)
    func.return %1 : tensor<1x16x3x3xf32>
  }
}
"""


def run(tool, *words: str) -> int:
    try:
        return tool.main(list(words))
    except SystemExit as end:
        return int(end.code or 0)


def test_et_opt_names_the_first_wrong_rewrite(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from etir.passes.edge import fold_batch_norm

    words = ("in.mlir", "--fold-constants", "--fold-batch-norm", "--dce", "--check-numerics", "--inputs", "x.npz")
    assert run(et_opt, *words, "--no-output", "--method", "forward") == 0
    assert "3 passes, 1 sample: the results are the same within 0.0001" in capsys.readouterr().err
    right = fold_batch_norm.np.sqrt
    monkeypatch.setattr(fold_batch_norm, "np", _Wrong(fold_batch_norm.np, right), raising=True)
    assert run(et_opt, *words, "--no-output") == 1
    said = capsys.readouterr().err
    assert "E1410" in said and "after pass 2/3 fold-batch-norm, rewrite 1 of 1: 'convolution-batch-norm'" in said
    assert run(et_opt, *words, "--no-output", "--tolerance", "1e9") == 0
    assert run(et_opt, *words, "--no-output", "--max-rewrites=0") == 1  # the check looks at all rewrites


class _Wrong:
    """NumPy with another square root."""

    def __init__(self, numpy, sqrt):
        self._numpy, self._sqrt = numpy, sqrt

    def __getattr__(self, name: str):
        return (lambda x: self._sqrt(x) * 1.5) if name == "sqrt" else getattr(self._numpy, name)


def test_check_numerics_needs_inputs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(et_opt, "in.mlir", "--dce", "--check-numerics") == 1
    assert "--check-numerics needs inputs" in capsys.readouterr().err


def test_max_rewrites_stops_the_driver(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(et_opt, "in.mlir", "--fold-batch-norm", "--max-rewrites=0") == 0
    assert "batch_norm" in capsys.readouterr().out
    assert run(et_opt, "in.mlir", "--fold-constants", "--fold-batch-norm", "--max-rewrites=1") == 0
    assert "batch_norm" not in capsys.readouterr().out


def test_dumps_have_the_weights_that_passes_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passes = "fold-constants,fold-batch-norm,dce,to-out-variant,schedule-instructions,plan-memory"
    assert run(et_opt, "in.mlir", "-p", passes, "--print-ir-dir", "ir", "--no-output") == 0
    assert run(et_run, "in.mlir", "--inputs", "x.npz", "--outputs", "wanted.npz") == 0
    texts = sorted(Path("ir").glob("*.mlir"))
    assert len(texts) > 5
    wanted = np.load("wanted.npz")["output_0"]
    for text in texts:
        assert run(et_run, str(text), "--inputs", "x.npz", "--outputs", "got.npz") == 0, text
        np.testing.assert_allclose(np.load("got.npz")["output_0"], wanted, rtol=1e-4, atol=1e-5)
    stored = {path.stat().st_ino for path in Path("ir").glob("*.safetensors")}
    assert len(stored) == 1, "one file under many names"


def test_weights_are_copied_where_there_are_no_links(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr("os.link", refuse)
    assert run(et_opt, "in.mlir", "--fold-constants", "--fold-batch-norm", "--print-ir-dir", "ir", "--no-output") == 0
    for text in sorted(Path("ir").glob("*.mlir")):
        assert run(et_run, str(text), "--inputs", "x.npz") == 0, text


def test_dumps_of_a_failing_run_have_their_weights(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passes = "fold-constants,fold-batch-norm,dce,to-out-variant,plan-memory{capacity=16}"
    assert run(et_opt, "in.mlir", "-p", passes, "--print-ir-dir", "ir", "--no-output") == 1
    assert run(et_run, "ir/02-after-fold-batch-norm.mlir", "--inputs", "x.npz") == 0


def test_et_bisect_writes_what_reruns(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from etir.passes.edge import fold_batch_norm

    words = ("in.mlir", "-p", "fold-constants,fold-batch-norm,dce", "--inputs", "x.npz", "--method", "forward")
    assert run(et_bisect, *words) == 0
    assert "3 passes leave the results as they are" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(fold_batch_norm, "np", _Wrong(fold_batch_norm.np, fold_batch_norm.np.sqrt))
        assert run(et_bisect, *words, "--output-dir", "out", "--tolerance=1e-3") == 1
    said = capsys.readouterr().out
    assert "pass 2/3 fold-batch-norm, rewrite 1 of 1: 'convolution-batch-norm'" in said
    assert "rerun: et-opt -p 'fold-batch-norm' --max-rewrites 1 before.mlir" in said
    assert run(et_run, "out/before.mlir", "--inputs", "x.npz", "--outputs", "a.npz") == 0
    assert run(et_run, "out/after.mlir", "--inputs", "x.npz", "--outputs", "b.npz") == 0
    a, b = (np.load(f"{name}.npz")["output_0"] for name in "ab")
    assert difference(a, b) > 0.1
    words = ("in.mlir", "--compile-to=et", "--target", "etir", "--inputs", "x.npz", "--delegate", "reference")
    assert run(et_bisect, *words, "--weights", "out/before.safetensors") == 0


def test_et_bisect_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (("in.mlir", "-p", "cse"), "name what to run the program on"),
        (("in.mlir", "--inputs", "x.npz"), "say which passes"),
        (("in.mlir", "-p", "cse", "--compile-to", "et", "--inputs", "x.npz"), "say which passes"),
        (("none.mlir", "-p", "cse", "--inputs", "x.npz"), "E0902"),
    ):
        assert run(et_bisect, *words) == 1
        assert said in capsys.readouterr().err


CANCELS = """
func.func @forward(%x: tensor<4x64xf32>) -> tensor<4x1xf32> {
  %m = edge.aten.mean.dim(%x, dim = [1], keepdim = true) : (tensor<4x64xf32>) -> tensor<4x1xf32>
  %d = edge.aten.sub.Tensor(%x, %m) : (tensor<4x64xf32>, tensor<4x1xf32>) -> tensor<4x64xf32>
  %s = edge.aten.sum.dim_IntList(%d, dim = [1], keepdim = true) : (tensor<4x64xf32>) -> tensor<4x1xf32>
  func.return %s : tensor<4x1xf32>
}
"""


def test_a_sum_that_cancels_is_as_inexact_as_its_terms() -> None:
    """Deviations from the mean add up to rounding errors, of which every order of summing gives others."""
    x = np.linspace(-3, 3, 256, dtype=np.float32).reshape(4, 64) ** 3
    check = SameNumbers.of(parse_module(CANCELS, EtContext()), [[x]], "forward", 1e-4)
    turned = "  %e = edge.aten.flip.default(%d, dims = [1]) : (tensor<4x64xf32>) -> tensor<4x64xf32>\n  %s ="
    other = parse_module(CANCELS.replace("(%d, dim", "(%e, dim").replace("  %s =", turned), EtContext())
    assert check(other) is Answer.GOOD
    wrong = parse_module(
        CANCELS.replace("(%x, %m)", "(%x, %x)")
        .replace("x1xf32>) -> tensor<4x64", "x64xf32>) -> tensor<4x64")
        .replace("(%d, dim", "(%x, dim"),
        EtContext(),
    )
    assert check(wrong) is Answer.BAD
