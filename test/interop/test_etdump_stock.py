"""Profiles of the stock runtime in etir's reader, and etir's in the stock reader."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from etir.devtools.profile import Kind, profile_of_etdump, read_profile
from etir.devtools.profile.profile import LOADING
from etir.emit.etdump import read_etdump, value_bytes, write_etdump
from etir.emit.etdump.model import ProfileEvent, TensorValue
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte

from etir_testing.interop.stock_profiles import stock_profile, stock_reading
from etir_testing.runtime.fuzz_corpus import CORPUS

DTYPES = {4: torch.int64, 6: torch.float32, 11: torch.bool}
PROGRAMS = {
    "cond": "forward",
    "map": "forward",
    "methods": "again",
    "conv_channels_last": "forward",
    "xnnpack": "forward",
}


def program_of(name: str) -> bytes:
    """A program of the stock pipeline's; seeds of the fuzzer have four bytes before it."""
    return (CORPUS / f"stock-{name}").read_bytes()[4:]


def inputs_of(program: pte.Program, method: str) -> list[torch.Tensor]:
    plan = next(plan for plan in program.execution_plan if plan.name == method)
    tensors = [plan.values[i] for i in plan.inputs]
    assert all(isinstance(tensor, pte.Tensor) for tensor in tensors)
    return [torch.ones(t.sizes, dtype=DTYPES[t.scalar_type]) for t in tensors if isinstance(t, pte.Tensor)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_field_comes_back(name: str, tmp_path: Path) -> None:
    """The stock reader and etir's say the same of what the stock runtime wrote, and of what etir writes of that."""
    data = program_of(name)
    method = PROGRAMS[name]
    dump, _ = stock_profile(data, inputs_of(read_pte(data), method), tmp_path, method=method, runs=2)
    etdump = read_etdump(dump)
    assert etdump == stock_reading(dump)
    assert [block.name for block in etdump.blocks] == ["Default", "Execute", "Execute"]
    again = write_etdump(etdump)
    assert stock_reading(again) == etdump
    assert len(again) <= len(dump)


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_are_the_instructions(name: str, tmp_path: Path) -> None:
    """Rows in the order of execution, with the operators of the program; runs begin anew."""
    data = program_of(name)
    program, method = read_pte(data), PROGRAMS[name]
    dump, _ = stock_profile(data, inputs_of(program, method), tmp_path, method=method, runs=2)
    profile = read_profile(dump, program, method=method)
    assert (profile.runs, profile.method, profile.dropped) == (2, method, 0)
    assert [row.name for row in profile.rows if row.run == LOADING] == ["Method::init", "Program::load_method"]
    plan = next(plan for plan in program.execution_plan if plan.name == method)
    for run in range(2):
        rows = list(profile.instructions(run))
        for row in rows:
            call = plan.chains[row.chain].instructions[row.instruction]
            match call:
                case pte.KernelCall():
                    assert (row.kind, row.name) == (Kind.OPERATOR, plan.operators[call.op_index].full_name)
                case pte.DelegateCall():
                    assert (row.kind, row.delegate) == (Kind.DELEGATE, call.delegate_index)
                case pte.MoveCall():
                    assert row.kind is Kind.MOVE
                case pte.JumpFalseCall():
                    assert row.kind is Kind.JUMP
                case pte.FreeCall():
                    assert row.kind is Kind.FREE
        (whole,) = (row for row in profile.rows if row.run == run and row.kind is Kind.RUN)
        assert 0 < sum(row.ticks for row in rows) <= whole.ticks
        assert all(a.end <= b.start for a, b in zip(rows, rows[1:], strict=False))
        places = [(row.chain, row.instruction, row.occurrence) for row in rows]
        assert len(set(places)) == len(places)
    if name == "map":  # a loop of the mapped dim's size
        times = max(row.occurrence for row in profile.rows) + 1
        assert times == inputs_of(program, method)[0].shape[0] > 1
    if name == "xnnpack":
        nodes = [row for row in profile.rows if row.kind is Kind.NODE]
        assert nodes
        assert all(isinstance(row.id, str) and row.delegate == 0 for row in nodes)


def test_names_without_the_program(tmp_path: Path) -> None:
    data = program_of("conv_channels_last")
    dump, _ = stock_profile(data, inputs_of(read_pte(data), "forward"), tmp_path)
    assert [row.name for row in read_profile(dump).instructions()] == ["convolution.out", "relu.out"]


def test_values(tmp_path: Path) -> None:
    """The bytes of the last instruction's value are the program's output."""
    data = program_of("map")
    program = read_pte(data)
    (x, *others) = inputs_of(program, "forward")
    inputs = [torch.rand_like(x), *others]
    dump, buffer = stock_profile(data, inputs, tmp_path)
    profile = profile_of_etdump(read_etdump(dump), program)
    (output,) = (value for value in profile.values if value.output)
    assert output.value is not None
    tensor = output.value.content
    assert isinstance(tensor, TensorValue)
    from executorch.extension.pybindings import portable_lib

    (expected,) = portable_lib._load_for_executorch_from_buffer(data).forward(inputs)
    got = torch.frombuffer(bytearray(value_bytes(tensor, buffer)), dtype=torch.float32).reshape(tensor.sizes)
    assert torch.equal(got, expected)
    loop = [value for value in profile.values if value.occurrence]
    assert loop
    assert all(
        any(
            (row.chain, row.instruction, row.occurrence) == (v.chain, v.instruction, v.occurrence)
            for row in profile.rows
        )
        for v in profile.values
        if not v.output
    )


def test_framework_events_are_told_from_instruction_0(tmp_path: Path) -> None:
    data = program_of("conv_channels_last")
    dump, _ = stock_profile(data, inputs_of(read_pte(data), "forward"), tmp_path, values=False)
    events = [event for block in read_etdump(dump).blocks for event in block.events if isinstance(event, ProfileEvent)]
    assert {event.name for event in events if event.chain_index == -1 and event.instruction_id == 0} == {
        "Method::init",
        "Program::load_method",
        "Method::execute",
    }
    rows = read_profile(dump).rows
    assert [row.kind for row in rows if row.instruction == 0 and row.chain == 0] == [Kind.OPERATOR]
