"""The bridge with other partitioners of the package: the blobs of the stock pipeline, byte for byte; hooks; state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import executorch.exir.backend.test.op_partitioner_demo as demo
import pytest
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch import nn

import etir
from etir.backends.bridge import from_partitioner
from etir.diagnostics import EtirError
from etir.emit.pte.reader import read_pte

from etir_testing import ROOT
from etir_testing.exports import artifact, digest, versions
from etir_testing.interop.xnnpack_runs import run_stock


class _Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(torch.mm(x + 1, x) + x).relu() + x


class _Layers(nn.Module):
    """Two layers around a function that Vulkan's partitioner leaves."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.erf(self.first(x))) + x


class _Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def blobs(data: bytes) -> list[list[tuple[str, bytes, list[tuple[str, bytes]]]]]:
    """Backend, bytes and compile specs of the delegates of each method."""
    return [
        [(d.id, bytes(d.data), [(s.key, bytes(s.value)) for s in d.compile_specs]) for d in plan.delegates]
        for plan in read_pte(data).execution_plan
    ]


CASES: dict[str, tuple[type[Partitioner], type[nn.Module], torch.Tensor]] = {
    "demo of sums and products": (demo.AddMulPartitionerDemo, _Sums, torch.ones(4, 4)),
    "demo of sums": (demo.AddAttributePartitionerDemo, _Sums, torch.ones(4, 4)),
    "vulkan, layers": (VulkanPartitioner, _Layers, torch.ones(2, 8)),
    "vulkan, image": (VulkanPartitioner, _Image, torch.ones(1, 3, 8, 8)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name == "vulkan, layers" else name for name in CASES]
)
def test_blobs_of_the_stock_pipeline(name: str) -> None:
    """Every byte, debug handles among them."""
    make, module, x = CASES[name]

    def stock() -> bytes:
        exported = torch.export.export(module().eval(), (x,))
        config = EdgeCompileConfig(_check_ir_validity=False)
        return to_edge_transform_and_lower(exported, partitioner=[make()], compile_config=config).to_executorch().buffer

    key = [digest(__file__), versions("torch", "executorch"), str(ROOT)]
    wanted = blobs(artifact(f"bridge-{name.replace(', ', '-').replace(' ', '-')}.pte", key, stock))
    ids = [delegate[0] for plan in wanted for delegate in plan]
    exported = torch.export.export(module().eval(), (x,))
    program = etir.compile(exported, delegates=[from_partitioner(make(), "other")], link_backends=ids)
    assert ids
    assert blobs(program.buffer) == wanted


class TogetherBackend(BackendDetails):
    """Writes into each blob how many functions of which methods it was given at once."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[CompileSpec]) -> PreprocessResult:
        raise AssertionError("all functions are given at once")

    @classmethod
    def preprocess_multimethod(
        cls, edge_programs: dict[str, list[Any]], compile_specs: dict[str, list[list[CompileSpec]]]
    ) -> dict[str, list[PreprocessResult]]:
        text = " ".join(f"{method}:{len(programs)}" for method, programs in edge_programs.items())
        return {
            method: [PreprocessResult(f"{text} {method} {i}".encode()) for i in range(len(programs))]
            for method, programs in edge_programs.items()
        }


class TanhPartitioner(Partitioner):
    """Writes relu as tanh in the program that it is shown first, and takes every tanh."""

    def __init__(self, fail: bool = False) -> None:
        super().__init__()
        self.fail = fail

    def transform_for_pre_decomposition(self, exported_program: Any) -> Any:
        if self.fail:
            raise RuntimeError("no such program")
        for node in exported_program.graph.nodes:
            if node.target == torch.ops.aten.relu.default:
                node.target = torch.ops.aten.tanh.default
        exported_program.graph_module.recompile()
        return exported_program

    def partition(self, exported_program: Any) -> PartitionResult:
        specs: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and "tanh" in str(node.target):
                node.meta["delegation_tag"] = f"t{len(specs)}"
                specs[f"t{len(specs)}"] = DelegationSpec("TogetherBackend", [])
        return PartitionResult(exported_program, specs)


class _Twice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(torch.relu(x)).relu()


def programs() -> dict[str, torch.export.ExportedProgram]:
    x = (torch.ones(3),)
    return {"one": torch.export.export(nn.ReLU(), x), "two": torch.export.export(_Twice(), x)}


def test_hooks_before_decomposition_and_over_all_methods() -> None:
    name = from_partitioner(TanhPartitioner())
    program = etir.compile(programs(), delegates=[name], link_backends=["TogetherBackend"])
    assert [[d[1] for d in plan] for plan in blobs(program.buffer)] == [
        [b"one:1 two:2 one 0"],
        [b"one:1 two:2 two 0", b"one:1 two:2 two 1"],
    ]


def test_a_failing_transformation() -> None:
    name = from_partitioner(TanhPartitioner(fail=True))
    with pytest.raises(EtirError, match="fails to transform the program: RuntimeError: no such program") as caught:
        etir.compile(programs(), delegates=[name])
    assert caught.value.ids == ("E1112",)


class _Remembers(nn.Module):
    """Reads its state before and after it changes, all in operators that XNNPACK takes."""

    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(4, 4)
        self.register_buffer("total", torch.ones(2, 4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.total * 2
        self.total += self.fc(x)
        return before, torch.sigmoid(self.total)


@pytest.mark.parametrize("delegate", ["executorch:xnnpack", "xnnpack"])
def test_state_is_handed_in_and_out(delegate: str) -> None:
    """It stays in the method's memory: what is read is an input of the delegate, what is written an output."""
    x, model = torch.linspace(-1, 1, 8).reshape(2, 4), _Remembers().eval()
    program = etir.compile(torch.export.export(_Remembers().eval(), (x,)), delegates=[delegate])
    assert program.delegation is not None and program.delegation.backends[0].operators >= 3
    assert all(partition.state_bytes == 0 for partition in program.delegation.backends[0].partitions)
    from executorch.runtime import Runtime

    method = Runtime.get().load_program(program.buffer).load_method("forward")
    assert method is not None
    calls: Sequence[Any] = [[output.clone() for output in method.execute([x])] for _ in range(3)]
    for found in calls:
        torch.testing.assert_close(found, list(model(x)), rtol=1e-5, atol=1e-5)
    assert run_stock(program.buffer, [x])[0].equal(calls[0][0])
