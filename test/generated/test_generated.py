"""Generated programs in the gate: a bounded part of what ``programs.py`` runs, and the harness itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import generated_programs
import pytest
import torch

pytest.importorskip("executorch.extension.pybindings.portable_lib")

from etir.lowering.errors import E0418
from etir.passes.errors import E0504

from etir_testing.generated import program_check
from etir_testing.generated.program_check import NOT_OURS, Outcome, check, difference
from etir_testing.generated.program_shrink import shrink
from etir_testing.generated.program_text import Program, Statement
from etir_testing.generated.program_writer import Writer

PROGRAMS = 48
PART = 8
"""Programs of one test."""


@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
def test_programs_agree_with_eager(first: int) -> None:
    """On both runtimes, over several calls. torch may refuse one in a part."""
    outcomes = [check(Writer(seed).write()) for seed in range(first, first + PART)]
    wrong = [o for o in outcomes if o.stage not in NOT_OURS]
    assert not wrong, "\n\n".join(f"{o}\n{Writer(o.seed).write().source()}" for o in wrong)
    assert sum(o.stage != "ok" for o in outcomes) <= 2


def test_programs_are_reproducible() -> None:
    """The number decides, and nothing else."""
    first = [Writer(seed).write().source() for seed in range(40)]
    assert first == [Writer(seed).write().source() for seed in range(40)]
    text = "\n".join(first)
    assert all(f" {call}(" in text for call in ("cond", "while_loop", "map_over", "scan"))


def _program() -> Program:
    lines = {"v1": "v1 = x0 * 2", "v2": "v2 = v1 + 1", "v3": "v3 = x0.tanh()", "v4": "v4 = v2[0]"}
    statements = [Statement(text, (name,)) for name, text in lines.items()]
    return Program(
        0, inputs={"x0": "make((2, 3), torch.float32, step)"}, statements=statements, outputs=["v2", "v3", "v4"]
    )


def test_wrong_results_are_seen_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that is a little off where a product is: what is left of the program is the product."""
    real = program_check.RUNTIMES["etir"]

    def wrong(data: bytes, names: Sequence[str], inputs: program_check.Inputs) -> list[program_check.Call]:
        found = real(data, names, inputs)
        if b"aten::mul" in data:
            found[0][0][0].add_(1e-2)
        return found

    monkeypatch.setitem(program_check.RUNTIMES, "etir", wrong)
    program = _program()
    outcome = check(program)
    assert outcome.stage == "wrong on etir" and "call 0, output 0" in outcome.message
    smaller, outcome = shrink(program, outcome)
    assert outcome.stage == "wrong on etir"
    assert [s.text for s in smaller.statements] == ["v1 = x0 * 2", "v2 = v1 + 1"] and smaller.outputs == ["v2"]


@pytest.mark.parametrize(
    "other", [torch.ones(2), torch.ones(3, dtype=torch.float64), torch.tensor([1, 1, 1.001]), 1.0, None]
)
def test_differences(other: Any) -> None:
    """Shapes, dtypes, values and kinds count, of outputs and of inputs."""
    expected = [([torch.ones(3)], [2])]
    assert difference([([torch.ones(3) + 1e-6], [2])], expected) is None
    assert difference([([other], [2])], expected) is not None
    assert difference([([torch.ones(3)], [other])], expected) is not None


def test_refusals_of_torch_are_no_failures() -> None:
    """A branch that changes its shape is no program."""
    program = _program()
    program.statements.append(
        Statement("v5 = cond(x0.sum() > 0, lambda x0: x0[0] + 1, lambda x0: x0 + 1, (x0,))", ("v5",))
    )
    assert check(program).stage == "export"
    assert check(_program()) == Outcome(0, "ok")


@pytest.mark.parametrize(
    ("stages", "status"),
    [
        ({"ok": 998, "refused by etir": 2, "export": 40, "eager": 5}, 0),
        ({"ok": 997, "refused by etir": 2, "refused by executorch": 1}, 1),
        ({"ok": 999, "wrong on etir": 1}, 1),
        ({"ok": 999, "internal error of executorch": 1}, 1),
        ({"ok": 900, "export": 100}, 1),
    ],
)
def test_bars(stages: dict[str, int], status: int) -> None:
    """Nothing wrong, two in a thousand refused, one in twenty that torch does not export."""
    assert generated_programs.verdict(stages) == status


def test_limits_are_no_internal_errors() -> None:
    """Only what limits say counts as refused."""
    limit, bug = E0418.error("the layout is not known"), E0504.error("a pass")
    assert program_check.refusal(limit, "etir") == "refused by etir"
    assert program_check.refusal(bug, "etir") == "internal error of etir"


def test_dynamic_programs_run_at_three_sizes() -> None:
    """Sizes of the export, the lower bound and another one; derived dims among them."""
    programs = [Writer(seed).write() for seed in range(60)]
    dynamic = [p for p in programs if p.sizes]
    assert len(dynamic) > 8
    assert any("2*n" in shape or "n + 1" in shape for p in dynamic for shape in p.shapes.values())
    shapes = {tuple(x.shape for x in inputs if isinstance(x, torch.Tensor)) for inputs in _three(dynamic[0])}
    assert len(shapes) == 3


def _three(program: Program) -> list[tuple[Any, ...]]:
    inputs = program_check.build(program, program_check.EAGER)[1]
    return [inputs(step) for step in range(3)]
