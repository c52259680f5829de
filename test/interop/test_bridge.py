"""Partitioners and backends of the executorch package as delegates, on the stock runtime beside the stock pipeline."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch import nn
from xdsl.dialects.builtin import StringAttr

import etir
from etir.backends.bridge import from_partitioner
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import print_module
from etir.emit.pte.reader import read_pte
from etir.interpret.interpreter import Interpreter
from etir.options import CompileOptions
from etir.passes.delegation.partition import PartitionPass
from etir.passes.infra.manager import run_pipeline
from etir.pipeline import pipeline

from etir_testing.interop.note_backend import NotePartitioner
from etir_testing.interop.xnnpack_runs import facts_of, run_stock


class _Mlp(nn.Module):
    """XNNPACK has no erf: two delegates."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.second(torch.erf(torch.tanh(self.first(x)))), -1)


class _Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        split = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, time, width)
        x = x + self.out(y)
        return x + self.down(nn.functional.hardswish(self.up(self.norm2(x))))


class _Image(nn.Module):
    """Batch norm, channels-last inside, a residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.head = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.relu6(self.norm(self.first(x)))
        y = y + self.depthwise(y.to(memory_format=torch.channels_last))
        return self.head(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1))


class _Note(nn.Module):
    """For a backend that takes linear layers and hardswish of matrices."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.fc(x)
        return nn.functional.hardswish(y), nn.functional.hardswish(y.reshape(-1))


class _Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: torch.tanh(a) * a, lambda a: a - 1, (x,)) + 1


BATCH = torch.export.Dim("batch", min=1, max=16)
CASES: dict[str, tuple[type[nn.Module], torch.Tensor, Any]] = {
    "mlp": (_Mlp, torch.linspace(-1, 1, 24).reshape(3, 8), None),
    "note": (_Note, torch.linspace(-1, 1, 24).reshape(3, 8), None),
    "dynamic": (_Mlp, torch.linspace(-1, 1, 24).reshape(3, 8), ({0: BATCH},)),
    "block": (_Block, torch.linspace(-1, 1, 384).reshape(2, 6, 32), None),
    "image": (_Image, torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8), None),
}


def exported(name: str) -> torch.export.ExportedProgram:
    make, x, dynamic = CASES[name]
    return torch.export.export(make().eval(), (x,), dynamic_shapes=dynamic)


@pytest.mark.parametrize("name", ["dynamic", "block", "image"])
def test_as_the_stock_pipeline(name: str) -> None:
    """The wheel's XNNPACK partitioner and backend: near eager and the stock file, in no more delegates."""
    make, x, _ = CASES[name]
    program = etir.compile(exported(name), delegates=["executorch:xnnpack"])
    lowered = to_edge_transform_and_lower(copy.deepcopy(exported(name)), partitioner=[XnnpackPartitioner()])
    stock = bytes(lowered.to_executorch().buffer)
    sizes = [x, torch.cat([x, x * 0.5])] if name == "dynamic" else [x]
    for inputs in sizes:
        (found,), (reference,) = run_stock(program.buffer, [inputs]), run_stock(stock, [inputs])
        torch.testing.assert_close(found, reference, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found, make().eval()(inputs), rtol=1e-3, atol=1e-3)
    assert 0 < facts_of(program.buffer).delegate_calls <= facts_of(stock).delegate_calls
    assert facts_of(program.buffer).kernels.total() <= facts_of(stock).kernels.total()


def test_outlined_functions_are_ordinary() -> None:
    """They print, parse, and run in the interpreter; the text knows the backend, and goes on from there."""
    module = etir.import_program(exported("mlp"))
    steps = pipeline(CompileOptions(delegates=("executorch:xnnpack",)), stop="backend")
    run_pipeline(EtContext(), module, steps)
    text = print_module(module)
    assert 'backend.delegate = "executorch:xnnpack{backend=XnnpackBackend}"' in text
    assert "@forward_executorch_xnnpack_1(%" in text and 'on "XnnpackBackend"' in text
    x = CASES["mlp"][1]
    (found,) = Interpreter(module).run([x])
    torch.testing.assert_close(found, _Mlp().eval()(x))
    (compiled,) = run_stock(etir.compile(module).buffer, [x])
    torch.testing.assert_close(compiled, found, rtol=1e-5, atol=1e-5)


def test_report() -> None:
    """It says what the partitioner left."""
    report = etir.compile(exported("mlp"), delegates=["executorch:xnnpack"]).delegation
    assert report is not None
    (backend,) = report.backends
    assert (backend.runtime_id, len(backend.partitions)) == ("XnnpackBackend", 2)
    assert [(row.op, row.reason) for row in backend.rejected] == [
        ("aten.erf.default", "the partitioner does not tag 'aten.erf.default'")
    ]


def test_instance_and_arguments() -> None:
    """A partitioner object, and one made with arguments: each operator in a delegate of its own."""
    name = from_partitioner(XnnpackPartitioner(per_op_mode=True), "one-by-one")
    assert name == "executorch:one-by-one"
    named = ("executorch:xnnpack", {"arguments": "per_op_mode=True"})
    programs = [etir.compile(exported("mlp"), delegates=[delegate]) for delegate in (name, named)]
    x = CASES["mlp"][1]
    for program in programs:
        assert facts_of(program.buffer).delegate_calls == 4
        torch.testing.assert_close(run_stock(program.buffer, [x])[0], _Mlp().eval()(x), rtol=1e-3, atol=1e-3)


def test_beside_another_backend() -> None:
    """What a backend of higher preference has is removed from the partitioner's partitions."""
    program = etir.compile(
        exported("block"), delegates=["xnnpack", "executorch:xnnpack"], partition={"exclude": ("aten.bmm.default",)}
    )
    assert program.delegation is not None
    assert all("aten.bmm.default" not in p.operators for b in program.delegation.backends for p in b.partitions)
    x = CASES["block"][1]
    torch.testing.assert_close(run_stock(program.buffer, [x])[0], _Block().eval()(x), rtol=1e-3, atol=1e-3)


def test_control_flow() -> None:
    """The blocks of a branch are partitioned on their own."""
    x = torch.linspace(-1, 1.5, 6)
    program = etir.compile(torch.export.export(_Branch(), (x,)), delegates=["executorch:xnnpack"])
    assert program.delegation is not None and len(program.delegation.backends[0].partitions) >= 3
    for inputs in (x, -x):
        torch.testing.assert_close(run_stock(program.buffer, [inputs])[0], _Branch()(inputs), rtol=1e-4, atol=1e-4)


def test_a_backend_of_ones_own() -> None:
    """What it preserves and how it filters, compile specs, named data in the file and beside it."""
    name = from_partitioner(NotePartitioner())
    program = etir.compile(exported("note"), delegates=[name], link_backends=["NoteBackend"])
    file = read_pte(program.buffer)
    linear, hardswish = file.execution_plan[0].delegates
    assert (linear.id, bytes(linear.data)) == ("NoteBackend", b"aten.linear.default")
    assert (hardswish.id, bytes(hardswish.data)) == ("NoteBackend", b"aten.hardswish.default")
    assert [(s.key, bytes(s.value)) for s in linear.compile_specs] == [("mode", b"write")]
    assert {key: len(item.data) for key, item in file.named_data.items()} == {"fc.weight": 128, "fc.bias": 16}
    assert list(program.external) == ["PARAMETER_PARAMETER_USER_INPUT", "USER_INPUT"]
    assert b"notes" in program.external["USER_INPUT"]


class EchoBackend(BackendDetails):
    """Another backend: it writes down how many nodes it is given, and its compile specs."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[CompileSpec]) -> PreprocessResult:
        calls = sum(node.op == "call_function" for node in edge_program.graph.nodes)
        specs = ",".join(f"{spec.key}={bytes(spec.value).decode()}" for spec in compile_specs)
        return PreprocessResult(f"{calls} {specs}".encode())


class MixedPartitioner(Partitioner):
    """Hands linear layers to one backend, and tanh and relu to another one under compile specs of their own."""

    SPECS: ClassVar = {
        "linear": DelegationSpec("NoteBackend", [CompileSpec("mode", b"write")]),
        "tanh": DelegationSpec("EchoBackend", [CompileSpec("level", b"1")]),
        "relu": DelegationSpec("EchoBackend", [CompileSpec("level", b"2"), CompileSpec("fast", b"yes")]),
    }

    def ops_to_not_decompose(self, ep: Any) -> Any:
        return [torch.ops.aten.linear.default], None

    def partition(self, exported_program: Any) -> PartitionResult:
        specs: dict[str, DelegationSpec] = {}
        for node in exported_program.graph.nodes:
            kind = next((k for k in self.SPECS if f"aten.{k}." in str(node.target)), None)
            if node.op == "call_function" and kind is not None:
                tag = f"t{len(specs)}"
                node.meta["delegation_tag"], specs[tag] = tag, self.SPECS[kind]
        return PartitionResult(exported_program, specs)


def delegates_of(data: bytes) -> list[tuple[str, bytes, list[tuple[str, bytes]]]]:
    """Name, blob and compile specs of the delegates that a file's methods call, in order."""
    plans = read_pte(data).execution_plan
    found = [delegate for plan in plans for delegate in plan.delegates]
    return [(d.id, bytes(d.data), [(s.key, bytes(s.value)) for s in d.compile_specs]) for d in found]


def test_several_backends_and_compile_specs() -> None:
    """Each tag of a partitioner has its own backend with its own compile specs, over several methods, as in the stock
    pipeline's file, and the text keeps them.
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Tanh(), nn.ReLU(), nn.Linear(4, 4))
    x = (torch.ones(3, 8),)
    programs = {"first": torch.export.export(module, x), "second": torch.export.export(nn.ReLU(), x)}
    name = from_partitioner(MixedPartitioner())
    program = etir.compile(programs, delegates=[name], link_backends=["NoteBackend", "EchoBackend"])
    lowered = to_edge_transform_and_lower(copy.deepcopy(programs), partitioner=[MixedPartitioner()])
    found = delegates_of(program.buffer)
    assert sorted(found) == sorted(delegates_of(bytes(lowered.to_executorch().buffer)))
    assert [(runtime_id, blob) for runtime_id, blob, _ in found] == [
        ("NoteBackend", b"aten.linear.default"),
        ("EchoBackend", b"1 level=2,fast=yes"),
        ("EchoBackend", b"1 level=1"),
        ("EchoBackend", b"1 level=2,fast=yes"),
        ("NoteBackend", b"aten.linear.default"),
        ("EchoBackend", b"1 level=2,fast=yes"),
    ]
    assert program.delegation is not None and " on EchoBackend: 1 operators" in str(program.delegation)
    imported = etir.import_program(programs)
    steps = pipeline(CompileOptions(delegates=(name,)), stop="edge")
    run_pipeline(EtContext(), imported, [*steps, PartitionPass((name,))])
    text = print_module(imported)
    assert text.count("backend.options = {") == 2
    again = etir.compile(imported, link_backends=["NoteBackend", "EchoBackend"])
    assert delegates_of(again.buffer) == found


@pytest.mark.parametrize(
    ("delegate", "error", "message"),
    [
        ("executorch:xnnpak", "E1101", "no partitioner 'executorch:xnnpak'; known: executorch:xnnpack, "),
        ("executorch:nowhere.Partitioner", "E1110", "cannot be imported: No module named 'nowhere'"),
        ("executorch:openvino", "E1110", r"\(executorch.backends.openvino.*cannot be imported"),
        ('executorch:torch.nn.Linear{arguments="in_features=1","out_features=1"}', "E1101", "is no partitioner"),
        ("executorch:xnnpack{arguments=per_op_mode}", "E1107", "not of the form name=literal"),
        ('executorch:xnnpack{arguments="configs=3"}', "E1107", "cannot be made: TypeError"),
        ("executorch:xnnpack{mode=3}", "E1107", "no option 'mode'"),
    ],
)
def test_wrong_names(delegate: str, error: str, message: str) -> None:
    """Each is one error with its id."""
    with pytest.raises(EtirError, match=message) as caught:
        etir.compile(exported("mlp"), delegates=[delegate])
    assert caught.value.ids == (error,)


@pytest.mark.parametrize(
    ("partitioner", "message"),
    [
        (NotePartitioner(fail=True), "fails to partition the program: RuntimeError: cannot"),
        (NotePartitioner(mode="fail"), "backend 'NoteBackend' fails to preprocess: KeyError: 'no form of relu'"),
    ],
)
def test_failures(partitioner: Partitioner, message: str) -> None:
    """What a partitioner or a backend raises is one error of ours."""
    name = from_partitioner(partitioner)
    with pytest.raises(EtirError, match=message) as caught:
        etir.compile(exported("note"), delegates=[name], link_backends=["NoteBackend"])
    assert caught.value.ids == ("E1112",)


def test_no_backend_named() -> None:
    """Marked by hand, without the backend's name."""
    module = etir.import_program(exported("mlp"))
    run_pipeline(EtContext(), module, pipeline(CompileOptions(delegates=("executorch:xnnpack",)), stop="backend"))
    for op in module.body.block.ops:
        if "backend.delegate" in op.attributes:
            op.attributes["backend.delegate"] = StringAttr("executorch:xnnpack")
    with pytest.raises(EtirError, match="does not say which backend") as caught:
        run_pipeline(EtContext(), module, "lower-delegates")
    assert caught.value.ids == ("E1107",)
