"""What the runtime records: the same profile in C++ and Python, places and times, values, delegates, full memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import etir
from etir.devtools.profile import Kind, Profile, read_profile
from etir.diagnostics import EtirError
from etir.emit.etdump import read_etdump, value_bytes
from etir.emit.etdump.from_records import BEGIN, KERNEL, RECORD, Records, etdump_of_records
from etir.emit.etdump.model import TensorValue
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model as pte
from etir.emit.pte.reader import read_pte
from etir.runtime import Method, RuntimeFailure, is_available, load

from etir_testing.runtime.stock_programs import method_of, random_inputs, stock_program

pytestmark = pytest.mark.skipif(not is_available(), reason="etir's native runtime is not installed")

STOCK = {
    "cond": "forward",
    "conv_channels_last": "forward",
    "dynamic": "forward",
    "map": "forward",
    "methods": "again",
    "scalars": "forward",
    "several": "forward",
    "unplanned": "forward",
    "xnnpack": "forward",
}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(self.linear(x))
        return (*torch.split(y, 2, 1), (torch.sin(y) + 1).half())


X = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))


def model_program(**options: Any) -> etir.Program:
    return etir.compile(torch.export.export(Model().eval(), (X,)), **{"target": "etir", **options})


@pytest.fixture(scope="module")
def small() -> etir.Program:
    return model_program()


def profiled(program: bytes, inputs: Sequence[Any], method: str = "forward", **options: Any) -> tuple[Profile, bytes]:
    """Rows and values' bytes of a profile, whose two writers agree."""
    loaded = load(program, **options)[method]
    recorded = loaded.profile(*inputs, repeat=2, values=True).recorded
    assert recorded is not None
    data = recorded.etdump
    parts = (recorded.load_ticks, recorded.values, recorded.dropped, recorded.dropped_values)
    assert read_etdump(data) == etdump_of_records(Records(recorded.records, *parts), program, method=method)
    return read_profile(data, read_pte(program)), recorded.value_bytes


def array_of(tensor: TensorValue, buffer: bytes) -> np.ndarray[Any, Any]:
    dtypes = {ScalarType.FLOAT: np.float32, ScalarType.HALF: np.float16, ScalarType.LONG: np.int64}
    data = np.frombuffer(value_bytes(tensor, buffer), dtypes[tensor.scalar_type])
    strides = [stride * data.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(data, tensor.sizes, strides)


@pytest.mark.parametrize("name", STOCK)
def test_rows_are_the_instructions_that_ran(name: str) -> None:
    data, method = stock_program(name), STOCK[name]
    plan = method_of(data, method)
    profile, _ = profiled(data, random_inputs(plan), method)
    assert (profile.runs, profile.method, profile.dropped) == (2, method, 0)
    kinds = {
        pte.KernelCall: Kind.OPERATOR,
        pte.DelegateCall: Kind.DELEGATE,
        pte.MoveCall: Kind.MOVE,
        pte.JumpFalseCall: Kind.JUMP,
        pte.FreeCall: Kind.FREE,
    }
    for run in range(2):
        rows = list(profile.instructions(run))
        for row in rows:
            call = plan.chains[row.chain].instructions[row.instruction]
            assert row.kind is kinds[type(call)]
            if isinstance(call, pte.KernelCall):
                assert row.name == plan.operators[call.op_index].full_name
        (whole,) = (row for row in profile.rows if row.run == run and row.kind is Kind.RUN)
        assert rows[0].start == whole.start
        assert rows[-1].end <= whole.end
        assert all(a.end <= b.start for a, b in zip(rows, rows[1:], strict=False))
    if name == "map":
        loop = max(row.occurrence for row in profile.rows) + 1
        assert loop == plan.values[plan.inputs[0]].sizes[0] > 1  # pyright: ignore[reportAttributeAccessIssue]


def test_without_values_instructions_follow_each_other(small: etir.Program) -> None:
    recorded = load(small)["forward"].profile(X).recorded
    assert recorded is not None
    rows = list(read_profile(recorded.etdump).instructions())
    assert len(rows) > 3
    assert all(a.end == b.start for a, b in zip(rows, rows[1:], strict=False))
    assert recorded.values == []
    assert recorded.value_bytes == b""


def test_values_are_those_of_eager(small: etir.Program) -> None:
    profile, buffer = profiled(small.buffer, [X])
    model = Model().eval()
    y = torch.relu(model.linear(X))
    steps = [model.linear(X), y, *torch.split(y, 2, 1), torch.sin(y), torch.sin(y) + 1, (torch.sin(y) + 1).half()]
    values = [value for value in profile.values if value.run == 1 and not value.output]
    tensors = [tensor for value in values if value.value is not None for tensor in value.value.tensors]
    assert len(tensors) == len(steps)
    for tensor, expected in zip(tensors, steps, strict=True):
        torch.testing.assert_close(torch.from_numpy(array_of(tensor, buffer).copy()), expected.detach())
        assert tensor.offset % 64 == 0
    outputs = [value for value in profile.values if value.run == 1 and value.output]
    found = [value.value.content for value in outputs if value.value is not None]
    for tensor, expected in zip(found, model(X), strict=True):
        assert isinstance(tensor, TensorValue)
        torch.testing.assert_close(torch.from_numpy(array_of(tensor, buffer).copy()), expected.detach())


def test_layouts_of_values() -> None:
    data = stock_program("conv_channels_last")
    profile, _ = profiled(data, random_inputs(method_of(data)))
    value = profile.values[0].value
    assert value is not None
    (tensor,) = value.tensors
    assert tensor.strides[1] == 1
    assert tensor.strides[3] == tensor.sizes[1]


# Delegates


def test_the_inside_of_a_reference_delegate() -> None:
    program = model_program(delegates=["reference{leave=aten.relu.default}"])
    profile, _ = profiled(program.buffer, [X])
    calls = [row for row in profile.rows if row.kind is Kind.DELEGATE and row.run == 0]
    assert [row.name for row in calls] == ["EtirReferenceBackend"] * 2
    for call in calls:
        nodes = [
            row for row in profile.rows if row.kind is Kind.NODE and (row.run, row.instruction) == (0, call.instruction)
        ]
        assert [row.id for row in nodes] == list(range(len(nodes)))
        assert nodes
        assert all(call.start <= row.start <= row.end <= call.end and row.delegate == call.delegate for row in nodes)
    names = {row.name for row in profile.instructions()}
    assert "aten::relu.out" in names
    assert "aten::linear.out" not in names, "what is inside of a delegate is no instruction of the method"
    # All arguments of a call, inputs first.
    plan = read_pte(program.buffer).execution_plan[0]
    first = plan.chains[0].instructions[calls[0].instruction]
    logged = [value for value in profile.values if value.run == 0 and value.instruction == calls[0].instruction]
    assert isinstance(first, pte.DelegateCall)
    assert len(logged) == len(first.args)


def test_the_inside_of_a_stock_xnnpack_delegate() -> None:
    data = stock_program("xnnpack")
    profile, _ = profiled(data, random_inputs(method_of(data)))
    (call,) = (row for row in profile.rows if row.kind is Kind.DELEGATE and row.run == 0)
    nodes = [row for row in profile.rows if row.kind is Kind.NODE and row.run == 0]
    assert nodes
    assert all(a.end <= b.start for a, b in zip(nodes, nodes[1:], strict=False))
    assert call.start <= nodes[0].start <= nodes[-1].end <= call.end


def test_machine_code_tells_of_its_steps() -> None:
    program = model_program(delegates=["native"])
    profile, _ = profiled(program.buffer, [X], native="trusted")
    (call,) = (row for row in profile.rows if row.kind is Kind.DELEGATE and row.run == 0)
    nodes = [row for row in profile.rows if row.kind is Kind.NODE and row.run == 0]
    assert len(nodes) > 1 and [row.id for row in nodes] == list(range(len(nodes)))
    assert call.start <= nodes[0].start <= nodes[-1].end <= call.end
    # The same file where machine code is refused: its kernels are no steps of the code.
    refused, _ = profiled(program.buffer, [X], native="refuse")
    assert not [row for row in refused.rows if row.kind is Kind.NODE]


# Full memory


def test_what_does_not_fit_is_counted(small: etir.Program) -> None:
    method = load(small)["forward"]
    whole = method.profile(X, repeat=3).recorded
    assert whole is not None
    count = len(whole.records) // RECORD.size
    for room in (1, 2, count // 2, count - 1, count):
        recorded = method.profile(X, repeat=3, records=room, values=False).recorded
        assert recorded is not None
        assert recorded.dropped == count - room
        assert len(recorded.records) == RECORD.size * room
        data = recorded.etdump
        profile = read_profile(data)
        assert profile.dropped == count - room
        assert read_etdump(data) == etdump_of_records(
            Records(recorded.records, recorded.load_ticks, dropped=count - room), small.buffer
        )
        assert len(list(profile.instructions())) == sum(
            KERNEL <= kind <= 5 for _, _, kind, _ in RECORD.iter_unpack(recorded.records)
        )


def test_values_that_do_not_fit_are_counted(small: etir.Program) -> None:
    method = load(small)["forward"]
    recorded = method.profile(X, values=True, value_bytes=100).recorded
    assert recorded is not None
    assert recorded.dropped == 0
    # 32 bytes, and 32 more 64 bytes later, are there; of the smaller ones none fits after them.
    assert len(recorded.values) + recorded.dropped_values == len(method.profile(X, values=True).recorded.values)  # pyright: ignore[reportOptionalMemberAccess]
    assert recorded.dropped_values > 0
    assert len(recorded.value_bytes) <= 100
    profile = read_profile(recorded.etdump)
    for value in profile.values:
        assert value.value is not None
        for tensor in value.value.tensors:
            value_bytes(tensor, recorded.value_bytes)


# Arguments


class Repeats(torch.nn.Module):
    def forward(self, x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x + values


def test_arguments_of_the_program_come_first() -> None:
    rt = load(etir.compile(torch.export.export(Repeats(), (X, X)), target="etir"))
    profile = rt.forward.profile(x=X, values=X, repeat=3)
    torch.testing.assert_close(profile.outputs, [X + X])
    assert profile.runs == 3
    assert len(profile.instructions) == 3
    assert profile.recorded is not None
    assert profile.recorded.values == []


@pytest.mark.parametrize("options", [{"repeat": 0}, {"repeat": "2"}, {"records": 0}, {"value_bytes": -1}])
def test_wrong_numbers(options: dict[str, Any], small: etir.Program) -> None:
    with pytest.raises(RuntimeFailure, match="a number from 1 on") as caught:
        load(small)["forward"].profile(X, **options)
    assert caught.value.ids == ("E1213",)


def test_a_run_that_fails_leaves_the_method_usable(small: etir.Program) -> None:
    method: Method = load(small)["forward"]
    with pytest.raises(RuntimeFailure):
        method.profile(torch.randn(3, 4), repeat=2, values=True)
    torch.testing.assert_close(method(X), [t.detach() for t in Model().eval()(X)])
    assert method.profile(X).runs == 1


def test_saving(small: etir.Program, tmp_path: Path) -> None:
    profile = load(small)["forward"].profile(X, values=True)
    profile.save(tmp_path / "run.etdp", tmp_path / "run.bin")
    assert profile.recorded is not None
    assert (tmp_path / "run.etdp").read_bytes() == profile.recorded.etdump
    assert (tmp_path / "run.bin").read_bytes() == profile.recorded.value_bytes
    with pytest.raises(RuntimeFailure, match="No such file") as caught:
        profile.save(tmp_path / "none" / "run.etdp")
    assert caught.value.ids == ("E1203",)
    with pytest.raises(RuntimeFailure, match="no recording") as caught:
        etir.runtime.Profile([], ()).save(tmp_path / "x")
    assert caught.value.ids == ("E1213",)


# Records of devices


def record(ticks: int, instruction: int, kind: int, delegate: int = 0) -> bytes:
    return struct.pack("<QIHH", ticks, instruction, kind, delegate)


@pytest.mark.parametrize(
    ("data", "method", "message"),
    [
        (b"\0" * 15, "forward", "15 bytes are no whole number of records"),
        (record(0, 0, BEGIN) + record(1, 999, KERNEL), "forward", "record 1 is of instruction 999"),
        (record(0, 0, BEGIN) + record(1, 0, 2), "forward", "record 1 is a DELEGATE_CALL, instruction 0"),
        (record(0, 0, 77), "forward", "record 0 is of kind 77"),
        (b"", "other", "no method 'other'; it has forward"),
    ],
)
def test_records_of_something_else(data: bytes, method: str, message: str, small: etir.Program) -> None:
    with pytest.raises(EtirError, match=message) as caught:
        etdump_of_records(Records(data), small.buffer, method=method, name="device.bin")
    assert caught.value.ids == ("E0843",)


def test_values_of_unknown_dtypes_are_refused(small: etir.Program) -> None:
    values = [(1, False, "tensor", None, [(99, (), (), 0)])]
    with pytest.raises(EtirError, match="dtype 99") as caught:
        etdump_of_records(Records(record(0, 0, BEGIN) + record(1, 0, KERNEL), values=values), small.buffer)
    assert caught.value.ids == ("E0809",)
