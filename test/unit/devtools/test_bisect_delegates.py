"""What makes a delegate wrong is found inside of it: the function, and the pass in what its backend does to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from etir.backends.api.registry import backend_dialects
from etir.backends.native.compile import processors, tile_function
from etir.backends.native.passes.tile_schedule import choose_schedules
from etir.backends.native.stages import called, stages
from etir.devtools.bisect import bisect
from etir.devtools.checks import Answer, SameNumbers
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module, print_module
from etir.options import CompileOptions
from etir.passes.delegation.legalize_delegates import outlined_functions
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline
from etir.tools import et_bisect

from etir_testing.devtools.faults import planted

T = "tensor<4x8xf32>"
TEXT = f"""
et.weight @w : tensor<8x8xf32> = #et.synthetic<seed = 1>
func.func @forward(%x: {T}) -> {T} {{
  %w = et.get_weight @w : tensor<8x8xf32>
  %a = edge.aten.linear.default(%x, %w) : ({T}, tensor<8x8xf32>) -> {T}
  %b = edge.aten.sigmoid.default(%a) : ({T}) -> {T}
  %c = edge.aten.erf.default(%b) : ({T}) -> {T}
  %d = edge.aten.linear.default(%c, %w) : ({T}, tensor<8x8xf32>) -> {T}
  %e = edge.aten.tanh.default(%d) : ({T}) -> {T}
  func.return %e : {T}
}}
"""
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)

REFERENCE = "reference{leave=aten.erf.default}"
FAULTS = {
    "reference": ("etir", REFERENCE, "to-out-variant", "aten::tanh.out", "aten::sigmoid.out", "forward_reference_1"),
    "machine code": ("etir", "native", "tile-scale", "math.tanh", "math.exp", "forward_native_0"),
}
"""Target, delegate, the pass that is wrong, what it writes and should write, and the function that it was in."""


def passes_for(target: str, delegate: str):
    return pipeline(CompileOptions(target=target, delegates=(delegate,)), "edge", "et")


@pytest.mark.parametrize("name", FAULTS)
def test_the_pass_inside_of_the_lowering(name: str) -> None:
    target, delegate, wrong, right, other, function = FAULTS[name]
    module = parse_module(TEXT)
    check = SameNumbers.of(module, [[X]], "forward", 1e-4)
    with planted(wrong, right, other):
        found = bisect(EtContext(), module, passes_for(target, delegate), check)
    assert found is not None and found.text.startswith("lower-delegates") and found.function == function
    assert found.inside is not None and found.inside.text.startswith(wrong)
    assert f"delegate @{function}, in it pass " in str(found) and wrong in found.rerun
    # The function alone: what it is given in the program, at its first call.
    same = SameNumbers.of(found.inside.before, [[X]], "forward", 1e-4)
    assert same(found.inside.before) is Answer.GOOD and same(found.inside.after) is Answer.BAD


@pytest.mark.parametrize("delegate", [REFERENCE, "native"])
def test_right_lowerings_are_right(delegate: str) -> None:
    module = parse_module(TEXT)
    check = SameNumbers.of(module, [[X]], "forward", 1e-4)
    assert bisect(EtContext(), module, passes_for("etir", delegate), check) is None


@pytest.mark.parametrize("fault", [("xnn.tanh", 2), ("xnn.sigmoid", 1)])
def test_a_function_that_is_lowered_in_one_piece(
    fault: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    np.savez("x.npz", x=X)
    with planted("legalize-delegates", fault[0], "xnn.exp"):
        assert et_bisect.main(["m.mlir", "--compile-to=et", "--inputs", "x.npz", "--delegate", "xnnpack"]) == 1
    said = capsys.readouterr().out
    name = f"forward_xnnpack_{fault[1] - 1}"
    assert f"legalize-delegates, rewrite {fault[1]} of 2: delegate @{name}" in said
    assert f"note: '{name}' is lowered in one piece; et-compare" in said


def test_stages_are_what_machine_code_is_made_of() -> None:
    ctx = EtContext(dialects=backend_dialects())
    module = parse_module(TEXT)
    passes = passes_for("etir", "native")
    until = next(i for i, p in enumerate(passes) if p.name == "lower-delegates")
    run_pipeline(ctx, module, passes[:until])
    ((_, outlined),) = outlined_functions(ctx, module)
    target = processors(())[0]
    wanted = tile_function(outlined.func, target)
    choose_schedules(wanted, target)
    made = called(outlined)
    run_pipeline(EtContext(), made, stages(target))
    func = next(op for op in made.body.block.ops if isinstance(op, FuncOp))
    texts = [print_module(op).partition("{native")[2].partition("\n")[2] for op in (wanted, func)]  # type: ignore[arg-type]
    assert texts[0] == texts[1] and "tile.brgemm" in texts[0]
