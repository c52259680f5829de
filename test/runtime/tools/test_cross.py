"""The runtime on other machines, emulated: Cortex-M without an operating system, and 64-bit Linux of two kinds."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import etir
from etir.devtools.profile import Kind, profile_of_etdump
from etir.emit.etdump.from_records import RECORD, Records, etdump_of_records
from etir.emit.pte.reader import read_pte

from etir_testing.nightly import cases
from etir_testing.runtime.cross import MACHINES, Machine, build, mapped_bytes, run
from etir_testing.runtime.kernels import RUNTIME


class _Small(nn.Module):
    """A convolutional classifier of 28 by 28 images."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(1, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.linear = nn.Linear(6 * 7 * 7, 10)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.convolution(x))), 4)
        return torch.softmax(self.linear(x.flatten(1)), -1)


class _Attention(nn.Module):
    """Attention over a few tokens, and integers beside it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(20, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.block(self.words(tokens)), tokens * 3 - 1


class _Same(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


MODELS = {
    "classifier": (_Small(), (torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(2)),)),
    "attention": (_Attention(), (torch.tensor([[3, 1, 4, 1, 5]]),)),
}


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", cases(MACHINES, nightly=["host", "riscv64", "cortex-m4"]))
def test_outputs_and_memory(name: str, model: str) -> None:
    """Outputs are eager's; memory is what the compiler reported, to the byte."""
    machine: Machine = MACHINES[name]
    if machine.missing is not None:
        pytest.skip(f"{machine.missing} is not installed")
    module, inputs = MODELS[model]
    module = module.eval()
    program = etir.compile(torch.export.export(module, inputs), target="etir")
    done = run(machine, build(machine, program, inputs))
    assert done.code == 0, done.text
    with torch.no_grad():
        expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(done.outputs) == len(expected)
    for data, wanted in zip(done.outputs, expected, strict=True):
        got = torch.frombuffer(bytearray(data), dtype=wanted.dtype).reshape(wanted.shape)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    memory = program.runtime_memory()["forward"]
    assert done.method_memory == (memory.method_32 if machine.bare_metal else memory.method)
    assert done.temp_memory == memory.temp


@pytest.mark.parametrize("name", ["cortex-m4"])  # The emulator's Cortex-M55 has no timer that counts.
def test_records(name: str) -> None:
    """A device sends the records of its run, as many as it has room for; they are the program's instructions."""
    machine: Machine = MACHINES[name]
    if machine.missing is not None:
        pytest.skip(f"{machine.missing} is not installed")
    module, inputs = MODELS["classifier"]
    exported = torch.export.export(module.eval(), inputs)
    program = etir.compile(exported, target="etir", delegates=["reference{leave=aten.relu.default}"])
    plan = read_pte(program.buffer).execution_plan[0]
    count = len(plan.chains[0].instructions)
    for room in (64, 3):
        done = run(machine, build(machine, program, inputs, records=room))
        assert done.code == 0, done.text
        assert len(done.records) == RECORD.size * min(room, len(done.records) // RECORD.size + done.dropped_records)
        records = Records(done.records, dropped=done.dropped_records)
        profile = profile_of_etdump(etdump_of_records(records, program.buffer), read_pte(program.buffer))
        assert profile.dropped == done.dropped_records
        assert (profile.dropped > 0) == (room == 3)
        if room == 3:
            continue
        rows = list(profile.instructions())
        assert [row.instruction for row in rows] == list(range(count))
        # The emulated timer does not count every instruction of the processor.
        whole = next(row.ticks for row in profile.rows if row.kind is Kind.RUN)
        assert 0 < sum(row.ticks for row in rows) <= whole
        calls = [row for row in rows if row.kind is Kind.DELEGATE]
        nodes = [row for row in profile.rows if row.kind is Kind.NODE]
        assert len(calls) == 2
        assert {node.instruction for node in nodes} == {call.instruction for call in calls}


@pytest.mark.skipif(MACHINES["cortex-m55"].missing is not None, reason="needs the Arm compiler")
def test_the_size_of_the_core() -> None:
    """Core, executor and all primitives: nothing of what records runs is in them."""
    program = etir.compile(torch.export.export(_Same(), (torch.ones(4),)), target="etir")
    primitives = sorted(json.loads((RUNTIME / "kernels" / "prim" / "kernels.json").read_text(encoding="utf-8")))
    executable = build(MACHINES["cortex-m55"], program, (torch.ones(4),), operators=primitives)
    assert mapped_bytes(executable, "libetir_core.a", "libetir_kernels.a") <= 20 * 1024
    assert mapped_bytes(executable, "libetir_devtools.a") == 0


@pytest.mark.parametrize("name", cases(["cortex-m55", "cortex-m4", "aarch64"], nightly=["cortex-m4"]))
def test_delegated(name: str) -> None:
    """The same bits with two delegates around the relu as without, in no more memory than was reported."""
    machine: Machine = MACHINES[name]
    if machine.missing is not None:
        pytest.skip(f"{machine.missing} is not installed")
    module, inputs = MODELS["classifier"]
    exported = torch.export.export(module.eval(), inputs)
    plain = etir.compile(exported, target="etir")
    delegated = etir.compile(exported, target="etir", delegates=["reference{leave=aten.relu.default}"])
    assert delegated.delegation is not None
    assert len(delegated.delegation.backends[0].partitions) == 2
    runs = [run(machine, build(machine, p, inputs)) for p in (plain, delegated)]
    assert [done.code for done in runs] == [0, 0], runs[1].text
    assert runs[0].outputs == runs[1].outputs
    memory = delegated.runtime_memory()["forward"]
    reported = memory.method_32 if machine.bare_metal else memory.method
    # What is allocated starts at multiples of 16: the report counts with the most that this takes, once a delegate.
    assert runs[1].method_memory <= reported < runs[1].method_memory + 2 * 16
    assert runs[1].temp_memory <= memory.temp
