"""What a comparison looks at besides instructions: state, weights outside of the file, the inside of delegates."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import etir
from etir.devtools.comparison import compare
from etir.devtools.values.recorded import RUNTIMES, RecordedRun
from etir.diagnostics import EtirError
from etir.tools import et_compare

from etir_testing.devtools.faults import planted
from etir_testing.devtools.programs import exported
from etir_testing.nightly import cases


class Counting(nn.Module):
    """What it returns does not show what it leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4, 3))
        self.fc = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.fc(x)
        self.seen.add_(y)
        return y * 2


@functools.cache
def counting() -> tuple[torch.export.ExportedProgram, torch.Tensor]:
    torch.manual_seed(0)
    x = torch.randn(4, 3)
    return torch.export.export(Counting().eval(), (x,)), x


def stage(found: object, name: str) -> object:
    return next(s for s in found.stages if s.name == name)  # type: ignore[attr-defined]


def test_what_a_run_leaves_in_buffers_is_compared_at_every_stage() -> None:
    program, x = counting()
    found = compare(program, etir.compile(program, trace=True), inputs=[(x,), (x - 1,)])
    assert found.is_good, found
    for one in found.stages:
        rows = [row for row in one.outputs if row.what == "state seen"]
        assert len(rows) == 1 and rows[0].accumulated == 0, (one.name, one.outputs)


def test_a_wrong_state_is_found_where_every_output_is_right() -> None:
    """What is written is the product alone; the buffer held ones before, so that their sum is something else."""
    x = counting()[1]
    module = Counting()
    torch.nn.init.ones_(module.seen)
    program = torch.export.export(module.eval(), (x,))
    with planted("functionalize", r"(et\.write_state @\w+, )%\w+", r"\1%linear"):
        found = compare(program, etir.compile(program, trace=True), inputs=[(x,)])
    assert found.finding is not None and found.finding.what == "state seen at level core", found
    assert all(row.accumulated == 0 for s in found.stages for row in s.outputs if row.what.startswith("output")), found


@pytest.mark.parametrize("runtime", cases(["etir", "stock"], nightly=["stock"]))
def test_weights_outside_of_the_file(runtime: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, x = counting()
    compiled = etir.compile(program, trace=True, external_weights={"weights": ()})
    compiled.save(tmp_path / "m.pte")
    compiled.trace.save(tmp_path / "m.trace")  # type: ignore[union-attr]
    torch.export.save(program, tmp_path / "m.pt2")
    np.savez(tmp_path / "x.npz", x.numpy())
    data = str(tmp_path / "weights.ptd")
    where = [str(tmp_path / "m.pt2"), str(tmp_path / "m.pte"), "--inputs", str(tmp_path / "x.npz")]
    words = [*where, "--runtime", runtime]
    assert et_compare.main([*words, "--data", data, "--trace", str(tmp_path / "m.trace")]) == 0
    assert capsys.readouterr().out.startswith("nothing is wrong in 'forward': 6 stages")
    assert et_compare.main([words[1], *words[2:], "--data", data]) == 0
    capsys.readouterr()
    assert et_compare.main(words) == 1
    assert "E0863" in capsys.readouterr().err
    found = compare(program, compiled, inputs=[(x,)], runtime=runtime)
    assert found.is_good, found


@pytest.mark.parametrize(
    ("name", "settings", "runtime"),
    [
        pytest.param("image", {"delegates": "xnnpack"}, "stock", marks=pytest.mark.nightly),
        ("image", {"target": "etir", "delegates": "reference"}, "etir"),
        pytest.param("state", {"target": "etir", "delegates": "native"}, "etir", marks=pytest.mark.nightly),
        pytest.param("encoder", {"delegates": "xnnpack"}, "stock", marks=pytest.mark.nightly),
        pytest.param("recurrent", {"target": "etir", "delegates": "reference"}, "etir", marks=pytest.mark.nightly),
    ],
)
def test_taps_show_all_that_delegates_compute(name: str, settings: dict[str, str], runtime: str) -> None:
    program, x = exported(name)
    found = compare(program, etir.compile(program, trace=True, **settings), inputs=[x], runtime=runtime, taps=True)
    taps = stage(found, f"taps/{runtime}")
    assert found.is_good and taps.compared == taps.total > 0, found  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "runtime"),
    [
        ({"target": "etir", "delegates": "reference"}, "etir"),
        pytest.param({"delegates": "xnnpack"}, "stock", marks=pytest.mark.nightly),
    ],
)
def test_a_fault_inside_of_a_delegate_is_found_by_its_operation(settings: dict[str, str], runtime: str) -> None:
    """The delegates' own compiler makes a sum a difference; everything at the compiler's levels is right."""
    program, x = exported("image")
    right = etir.compile(program, trace=True, **settings)
    with planted("outline-delegates", r"edge\.aten\.add\.Tensor", "edge.aten.sub.Tensor"):
        found = compare(program, right, inputs=[x], runtime=runtime, taps=True)
    assert found.finding is not None and found.finding.stage == f"taps/{runtime}", found
    assert found.finding.what == f"aten.add.Tensor (add) at the delegates of runtime {runtime}", found
    assert "programs.py:" in found.finding.where


def test_taps_need_a_source_and_a_trace() -> None:
    program, x = counting()
    with pytest.raises(EtirError, match="E1411.*source"):
        compare(None, etir.compile(program).buffer, inputs=[(x,)], taps=True)
    found = compare(program, etir.compile(program, trace=True), inputs=[(x,)], taps=True)
    assert found.is_good and "there are no delegates to look into" in found.notes


def test_a_sum_that_cancels_is_no_fault_of_a_file_without_a_trace() -> None:
    """Its terms are large, the rest is rounding: any order of adding gives another one."""

    class Cancels(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x - x.mean(-1, keepdim=True)).sum(-1)

    x = 100 * torch.randn(3, 64)
    data = etir.compile(torch.export.export(Cancels().eval(), (x,)), target="etir").buffer
    assert compare(None, data, inputs=[(x,)], runtime="etir").is_good
    assert not compare(None, data, inputs=[(x,)], runtime={"other": _off_by_one}).is_good


def _off_by_one(program: bytes, method: str, inputs: list) -> RecordedRun:
    run = RUNTIMES["etir"](program, method, inputs)
    return RecordedRun([run.outputs[0] + 1], {})


def test_inputs_that_are_numbers_may_be_arrays_of_one_element() -> None:
    """As an ``.npz`` file has them: eager torch, the interpreter and the runtime take the number."""

    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
            return x * n, n + 2

    x = torch.randn(2, 3)
    program = torch.export.export(Scaled(), (x, 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC))
    found = compare(program, etir.compile(program, trace=True), inputs=[[x.numpy(), np.asarray(3)]])
    assert found.is_good and not any(stage.failure for stage in found.stages), found
