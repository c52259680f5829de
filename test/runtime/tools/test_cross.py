"""The runtime on other machines, emulated: Cortex-M without an operating system, and 64-bit Linux of two kinds."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import etir

from etir_testing.runtime.cross import MACHINES, Machine, build, run


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


MODELS = {
    "classifier": (_Small(), (torch.rand(1, 1, 28, 28, generator=torch.Generator().manual_seed(2)),)),
    "attention": (_Attention(), (torch.tensor([[3, 1, 4, 1, 5]]),)),
}


@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("name", list(MACHINES))
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


@pytest.mark.parametrize("name", ["cortex-m55", "cortex-m4", "aarch64"])
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
