"""Programs on int8 on other machines, emulated: the bits of this one, with the kernels of etir's own runtime and with
those of ExecuTorch's library for Cortex-M, in the memory that was reported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import etir
from etir.runtime import load

from etir_testing.nightly import cases
from etir_testing.runtime.cross import MACHINES, Machine, build, run

KERNELS: dict[str, Any] = {"target": "etir"}
LIBRARY: dict[str, Any] = {"target": "executorch", "link_libraries": ["cortex_m"]}


class _Net(nn.Module):
    """Convolutions of all kinds with clamps, a residual sum, a table, a pool, a product, a mean and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.depthwise = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise, self.enlarged = nn.Conv2d(8, 12, 1), nn.ConvTranspose2d(12, 6, 3, 2)
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu6(self.first(x)), 2)
        x = F.hardswish(self.pointwise(F.relu(x + self.depthwise(x))))
        x = self.enlarged(x * x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1) @ self.v(x))


MODULES = {"net": (_Net, (1, 3, 12, 12)), "attention": (_Attention, (1, 19, 12))}
PROCESSORS = {"aarch64": ("cortex-a53", "cortex-a76")}
"""Processors besides the one with all instructions: without those for products of bytes, and with dot products."""

RUNS = {
    "cortex-m55, library": ("cortex-m55", LIBRARY, "static-int8"),
    "cortex-m55, kernels": ("cortex-m55", KERNELS, "static-int8"),
    "aarch64, kernels": ("aarch64", KERNELS, "static-int8"),
    "aarch64, at run time": ("aarch64", KERNELS, "dynamic-int8"),
    "riscv64, kernels": ("riscv64", KERNELS, "static-int8"),
    "cortex-m4, library": ("cortex-m4", LIBRARY, "static-int8"),
}


@pytest.mark.parametrize("model", list(MODULES))
@pytest.mark.parametrize("name", cases(RUNS, nightly=["riscv64, kernels", "cortex-m4, library"]))
def test_the_same_bits(name: str, model: str) -> None:
    machine_name, options, recipe = RUNS[name]
    machine: Machine = MACHINES[machine_name]
    if machine.missing is not None:
        pytest.skip(f"{machine.missing} is not installed")
    torch.manual_seed(0)
    make, shape = MODULES[model]
    samples = [(torch.randn(*shape),) for _ in range(3)]
    exported = torch.export.export(make().eval(), samples[0])
    program = etir.quantize(exported, recipe, calibration=samples, **options).compile()
    kinds = [name for name in program.operators if name.startswith(("etir::int8", "cortex_m::"))]
    assert len(kinds) >= (3 if recipe == "static-int8" else 1)
    executable = build(machine, program, samples[0])
    done = run(machine, executable)
    assert done.code == 0, done.text
    for processor in PROCESSORS.get(machine_name, ()):
        command, *arguments = machine.emulator
        other = run(replace(machine, emulator=(command, "-cpu", processor, *arguments)), executable)
        assert (other.code, other.outputs) == (0, done.outputs), processor
    (wanted,) = load(program).forward(*samples[0])
    if recipe == "static-int8":
        assert done.outputs == [wanted.numpy().tobytes()]
    else:  # What is not a layer computes in float32.
        found = torch.frombuffer(bytearray(done.outputs[0]), dtype=torch.float32).reshape(wanted.shape)
        torch.testing.assert_close(found, torch.as_tensor(wanted), rtol=1e-4, atol=1e-5)
    memory = program.runtime_memory()["forward"]
    assert done.method_memory == (memory.method_32 if machine.bare_metal else memory.method)
    assert 0 <= done.temp_memory <= memory.temp
