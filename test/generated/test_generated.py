"""Generated programs in the gate: a bounded part of what ``programs.py`` runs, and the harness itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("executorch.extension.pybindings.portable_lib")

from etir_testing.generated import program_check
from etir_testing.generated.program_check import Outcome, check, difference
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
    wrong = [o for o in outcomes if o.stage not in ("ok", "export")]
    assert not wrong, "\n\n".join(f"{o}\n{Writer(o.seed).write().source()}" for o in wrong)
    assert sum(o.stage == "export" for o in outcomes) <= 2


def test_programs_are_reproducible() -> None:
    """The number decides, and nothing else."""
    first = [Writer(seed).write().source() for seed in range(12)]
    assert first == [Writer(seed).write().source() for seed in range(12)]
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

    def wrong(data: bytes, inputs: program_check.Inputs) -> list[program_check.Call]:
        found = real(data, inputs)
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
