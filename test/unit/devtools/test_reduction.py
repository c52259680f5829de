"""Programs that fail become small, still fail, and are the same every time."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from etir.devtools.checks import Answer, run
from etir.devtools.failures import ChangesNumbers, Raises
from etir.devtools.reduction import Candidate, reduce
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.dialects.verify import verify_module
from etir.options import CompileOptions
from etir.passes.infra.pipeline import parse_pipeline
from etir.pipeline import pipeline
from etir.tools import et_reduce

from etir_testing.devtools.faults import planted

T = "tensor<2x4xf32>"
SAMPLES = [[np.linspace(-3, 4, 8, dtype=np.float32).reshape(2, 4)], [np.ones((2, 4), np.float32)]]


def wide(count: int, wrong: dict[int, str]) -> str:
    """A program in which every operation reads two of the values before it; ``wrong`` are operators at places."""
    lines = ["builtin.module {", "  et.weight @w : tensor<2x4xf32> = #et.synthetic<seed = 1>"]
    lines += [f"  func.func @forward(%x: {T}) -> {T} {{", f"    %w = et.get_weight @w : {T}"]
    names = ["%x", "%w"]
    for i in range(count):
        a, b = names[-1], names[max(len(names) - 7, 0)]
        one = wrong.get(i)
        call = f"edge.aten.{one}.default({a})" if one else f"edge.aten.maximum.default({a}, {b})"
        types = f"({T})" if one else f"({T}, {T})"
        lines.append(f'    %v{i} = {call} : {types} -> {T} loc("secret.py":{i + 1}:0)')
        names.append(f"%v{i}")
    return "\n".join([*lines, f"    func.return {names[-1]} : {T}", "  }", "}", ""])


def check() -> ChangesNumbers:
    """Pass ``cse`` changes numbers, which ``planted`` has to have brought about."""
    return ChangesNumbers(EtContext(), parse_pipeline("cse"))


@pytest.mark.parametrize("place", [500, *(pytest.param(n, marks=pytest.mark.nightly) for n in (3, 997))])
def test_a_thousand_operations_become_one(place: int) -> None:
    module = parse_module(wide(1000, {place: "sin"}))
    before = print_module(module, locations=True)
    start = time.process_time()
    with planted("cse", r"edge\.aten\.sin\.default", "edge.aten.cos.default"):
        found = [reduce(module, check(), SAMPLES) for _ in range(2)]
        assert check()(found[0].candidate) is Answer.BAD, "it still fails"
    assert time.process_time() - start < 60
    texts = [print_module(one.candidate.module, locations=True) for one in found]
    assert texts[0] == texts[1] and print_module(module, locations=True) == before
    assert (found[0].before, found[0].after) == (1001, 1) and found[0].checks < 60
    verify_module(found[0].candidate.module)
    assert "secret.py" not in texts[0] and "@w" not in texts[0]


def test_two_operations_that_fail_only_together() -> None:
    def together(candidate: Candidate) -> Answer:
        names = [op.name for op in candidate.module.walk()]
        return Answer.BAD if {"edge.aten.sin.default", "edge.aten.neg.default"} <= {*names} else Answer.GOOD

    module = parse_module(wide(200, {20: "sin", 150: "neg"}))
    assert reduce(module, together, SAMPLES).after == 2
    assert reduce(module, together).after == 2


COND = f"""\
builtin.module {{
  func.func @forward(%x: {T}, %p: tensor<i1>) -> {T} {{
    %a = aten.relu.default(%x) : ({T}) -> {T}
    %r = control.cond %p : tensor<i1> -> ({T}) {{
      %s = aten.neg.default(%a) : ({T}) -> {T}
      %t = aten.sin.default(%s) : ({T}) -> {T}
      control.yield %t : {T}
    }} else {{
      control.yield %a : {T}
    }}
    %b = aten.abs.default(%r) : ({T}) -> {T}
    func.return %b : {T}
  }}
}}
"""


def test_a_branch_by_itself() -> None:
    samples = [[*sample, np.array(True)] for sample in SAMPLES]
    with planted("cse", r"aten\.sin\.default", "aten.cos.default"):
        found = reduce(parse_module(COND), check(), samples)
    assert found.after == 1, print_module(found.candidate.module)


LOOP = f"""\
builtin.module {{
  func.func @forward(%n: tensor<i64>, %x: {T}) -> ({T}, tensor<i64>) {{
    %i, %r = control.while carry (%a = %n, %b = %x) : (tensor<i64>, {T}) {{
      %c = edge.aten.lt.Scalar(%a, other = 5) : (tensor<i64>) -> tensor<i1>
      control.yield %c : tensor<i1>
    }} do {{
    ^bb0(%a: tensor<i64>, %b: {T}):
      %one = edge.aten.add.Scalar(%a, other = 1) : (tensor<i64>) -> tensor<i64>
      %s = edge.aten.abs.default(%b) : ({T}) -> {T}
      %t = edge.aten.sqrt.default(%s) : ({T}) -> {T}
      %u = edge.aten.relu.default(%t) : ({T}) -> {T}
      control.yield %one, %u : tensor<i64>, {T}
    }}
    func.return %r, %i : {T}, tensor<i64>
  }}
}}
"""


def test_a_loop_that_has_to_stay_keeps_what_ends_it() -> None:
    """Only the count of turns fails: what the body computes besides goes, and no candidate runs for ever."""
    samples = [[np.array(0), *sample] for sample in SAMPLES]

    def counts_to_five(candidate: Candidate) -> Answer:
        outputs = [run(candidate.module, sample, "forward") for sample in candidate.samples]
        return Answer.BAD if all(any(np.shape(v) == () and v == 5 for v in one) for one in outputs) else Answer.GOOD

    found = reduce(parse_module(LOOP), counts_to_five, samples)
    names = [op.name for op in found.candidate.module.walk() if op.name.startswith("edge.")]
    assert names == ["edge.aten.lt.Scalar", "edge.aten.add.Scalar"], print_module(found.candidate.module)

    def loops(candidate: Candidate) -> Answer:
        return Answer.BAD if any(op.name == "control.while" for op in candidate.module.walk()) else Answer.GOOD

    found = reduce(parse_module(LOOP), loops, samples)
    assert found.after == 4, print_module(found.candidate.module)  # the loop, its condition, the ends of its regions


HEADS = """\
builtin.module {
  et.weight @w : tensor<24x24xf32> = #et.synthetic<seed = 1>
  func.func @forward(%x: tensor<6x24xf32>) -> tensor<144xf32> {
    %w = et.get_weight @w : tensor<24x24xf32>
    %a = edge.aten.mm.default(%x, %w) : (tensor<6x24xf32>, tensor<24x24xf32>) -> tensor<6x24xf32>
    %b = edge.aten.sin.default(%a) : (tensor<6x24xf32>) -> tensor<6x24xf32>
    %c = edge.aten.view_copy.default(%b, size = [144]) : (tensor<6x24xf32>) -> tensor<144xf32>
    func.return %c : tensor<144xf32>
  }
}
"""


def test_dims_become_small_together() -> None:
    """All three operations are needed: each dim is 1 in the end, in types, ``size``, weight and sample."""
    wanted = {"edge.aten.mm.default", "edge.aten.sin.default", "edge.aten.view_copy.default"}

    def all_there(candidate: Candidate) -> Answer:
        return Answer.BAD if wanted <= {op.name for op in candidate.module.walk()} else Answer.GOOD

    samples = [[np.arange(144, dtype=np.float32).reshape(6, 24)]]
    for given in (samples, []):
        found = reduce(parse_module(HEADS), all_there, given)
        text = print_module(found.candidate.module)
        assert "size = [1]" in text and "tensor<1x1xf32>" in text and "24" not in text, text
        verify_module(found.candidate.module)
    assert found.candidate.samples == []


def test_a_size_that_matters_stays() -> None:
    def is_long(candidate: Candidate) -> Answer:
        shapes = [r.type.get_shape() for op in candidate.module.walk() for r in op.results if "sin" in op.name]
        return Answer.BAD if any(shape[-1] > 4 for shape in shapes) else Answer.GOOD

    text = wide(20, {7: "sin"}).replace("2x4", "2x24")
    found = reduce(parse_module(text), is_long, [[np.ones((2, 24), np.float32)]])
    assert "tensor<1x6xf32>" in print_module(found.candidate.module)


def test_an_error_by_its_id() -> None:
    text = wide(40, {21: "erfinv"})
    module = parse_module(text)
    raises = Raises(EtContext(), pipeline(CompileOptions(), "edge", "backend"), "E0603")
    assert reduce(module, raises).after == 1
    with pytest.raises(EtirError, match=r"E1414.*passes the check"):
        reduce(module, Raises(EtContext(), (), "E0001"))
    with pytest.raises(EtirError, match=r"E1414.*no method 'other'"):
        reduce(module, raises, method="other")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in.mlir").write_text(wide(60, {30: "sin"}))
    np.savez("x.npz", x=SAMPLES[0][0])
    return tmp_path


def test_the_tool(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["in.mlir", "-o", "small.mlir"]
    with planted("cse", r"edge\.aten\.sin\.default", "edge.aten.cos.default"):
        numbers = ["--inputs", "x.npz", "--tolerance", "1e-3", "--method", "forward"]
        assert et_reduce.main([*words, *numbers, "--pass-pipeline", "cse"]) == 0
        assert "61 operations became 1, " in capsys.readouterr().out
        small = ["small.mlir", "-o", "again.mlir", "--inputs", "small.0.npz", "-p", "cse"]
        assert et_reduce.main(small) == 0, "it reruns"
    with planted("elide-views", r"edge\.aten\.sin\.default", "edge.aten.cos.default"):
        assert et_reduce.main([*words, *numbers, "--compile-to", "backend", "--target", "etir"]) == 0
    command = f"{sys.executable} -c \"import sys; sys.exit('sin' not in open(sys.argv[1]).read())\" {{}} {{inputs}}"
    assert et_reduce.main([*words, "--check", command, "--weights", "none.safetensors"]) == 1
    assert et_reduce.main([*words, "--check", command, "--inputs", "x.npz"]) == 0
    assert Path("small.mlir").read_text().count("edge.") == 1
    capsys.readouterr()
    assert et_reduce.main([*words, "--compile-to", "et", "--error", "E0505", "--delegate", "xnnpack"]) == 1
    assert "E1414" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [[], ["-p", "cse"], ["--check", "true", "-p", "cse"], ["--inputs", "x.npz", "-p", "cse", "--compile-to=et"]],
)
def test_the_tool_refuses(folder: Path, wrong: list[str]) -> None:
    assert et_reduce.main(["in.mlir", "-o", "small.mlir", *wrong]) == 1


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 1)])
def test_inputs_that_no_part_would_run_on(
    folder: Path, shape: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("y.npz", x=np.zeros(shape, np.float32))
    assert et_reduce.main(["in.mlir", "-o", "small.mlir", "--inputs", "y.npz", "--check", "true"]) == 1
    assert "E1002" in capsys.readouterr().err and not Path("small.mlir").exists()
