"""Programs that ExecuTorch has lowered already: their blobs go into our file as they are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.config.gemm_configs import ConvolutionConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.runtime import Runtime
from torch import nn

import etir
from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.text import print_module
from etir.emit.pte.reader import read_pte
from etir.interpret.interpreter import Interpreter
from etir.tools.common import Console
from etir.tools.files import read_module, write_module

from etir_testing.interop.note_backend import NotePartitioner
from etir_testing.interop.xnnpack_runs import facts_of


class _Image(nn.Module):
    """Two delegates around an operator that XNNPACK does not have, between them channels last when the input is."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(self.second(torch.erf(self.first(x).relu())))


class _Orders(_Image):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.erf(self.first(x)).to(memory_format=torch.channels_last)
        return torch.erf(self.second(y).contiguous() + 1)


class _State(nn.Module):
    """State, a dynamic dim, sizes as numbers, casts, several outputs."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(8, 4)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.count += 1
        y = torch.erf(torch.tanh(x) * 2 + self.count).to(torch.float64).to(torch.float32)
        return self.fc(y), torch.cumsum(y, 1).reshape(y.shape[0] * 2, -1)


class _Branch(nn.Module):
    """Delegates inside of control flow."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: torch.erf(torch.tanh(a) * a), lambda a: a - 1, (x,)) + 1


def _channels_last() -> torch.Tensor:
    return torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8).to(memory_format=torch.channels_last)


BATCH = torch.export.Dim("batch", min=2, max=16)
CASES: dict[str, tuple[type[nn.Module], Callable[[], torch.Tensor], Any]] = {
    "image": (_Image, lambda: _channels_last().contiguous(), None),
    "channels last": (_Image, _channels_last, None),
    "orders": (_Orders, lambda: _channels_last().contiguous(), None),
    "state": (_State, lambda: torch.linspace(-1, 1, 24).reshape(3, 8), ({0: BATCH},)),
    "branch": (_Branch, lambda: torch.linspace(-1, 1.5, 6), None),
}


@cache
def _lowered(name: str) -> EdgeProgramManager:
    make, inputs, dynamic = CASES[name]
    program = torch.export.export(make().eval(), (inputs(),), dynamic_shapes=dynamic)
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])


@cache
def _partly_lowered() -> EdgeProgramManager:
    """A case of which only the convolutions are lowered."""
    make, inputs, _ = CASES["orders"]
    program = torch.export.export(make().eval(), (inputs(),))
    return to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(configs=[ConvolutionConfig])])


def lowered(name: str) -> EdgeProgramManager:
    """A case as the stock pipeline lowers it; a copy, since to_executorch changes it."""
    return copy.deepcopy(_lowered(name))


def calls(data: bytes, method: str, inputs: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """The outputs of several calls of one loaded method on the stock runtime."""
    loaded = Runtime.get().load_program(data).load_method(method)
    assert loaded is not None
    return [[output.clone() for output in loaded.execute([x])] for x in inputs]


def blobs(data: bytes) -> list[bytes]:
    return [bytes(delegate.data) for delegate in read_pte(data).execution_plan[0].delegates]


@pytest.mark.parametrize("name", CASES)
def test_as_the_stock_file(name: str) -> None:
    """The same blobs, the same named data, no more kernels, and equal outputs bit for bit."""
    manager = lowered(name)
    ours = etir.compile(manager.exported_program()).buffer
    stock = bytes(manager.to_executorch().buffer)
    assert blobs(ours) and sorted(blobs(ours)) == sorted(dict.fromkeys(blobs(stock)))
    data, stock_data = read_pte(ours).named_data, read_pte(stock).named_data
    assert {k: bytes(v.data) for k, v in data.items()} == {k: bytes(v.data) for k, v in stock_data.items()}
    assert facts_of(ours).delegate_calls == facts_of(stock).delegate_calls
    assert facts_of(ours).kernels.total() <= facts_of(stock).kernels.total()
    x = CASES[name][1]()
    inputs = [x, x * 0.5, -x]
    if name == "state":
        inputs.append(x[:2])
    for found, wanted in zip(calls(ours, "forward", inputs), calls(stock, "forward", inputs), strict=True):
        for output, reference in zip(found, wanted, strict=True):
            assert output.shape == reference.shape and torch.equal(output, reference)


@pytest.mark.parametrize("delegate", ["xnnpack", "executorch:xnnpack"])
def test_what_is_left_goes_to_other_delegates(delegate: str) -> None:
    """The rest of a program is partitioned like any other's, and its delegates stand beside the imported ones."""
    manager = copy.deepcopy(_partly_lowered())
    alone, both = (etir.compile(manager, delegates=delegates) for delegates in ((), [delegate]))
    assert both.delegation is not None
    made = both.delegation.backends[0].partitions
    assert any("aten.add.Tensor" in partition.operators for partition in made)
    if delegate == "executorch:xnnpack":
        # Its partition of one copy would hand its input through: tensors cross in the default dim order.
        assert "_to_dim_order_copy.default: it changes the dim order alone" in str(both.delegation)
    counts = [facts_of(compiled.buffer).delegate_calls for compiled in (alone, both)]
    assert counts == [2, 2 + len(made)]
    x = CASES["orders"][1]()
    stock = bytes(manager.to_executorch().buffer)
    (found,), (wanted,) = calls(both.buffer, "forward", [x])[0], calls(stock, "forward", [x])[0]
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_a_manager_of_several_methods() -> None:
    """Methods and constant methods; weights that blobs of both name are in the file once."""
    x = CASES["image"][1]()
    programs = {name: torch.export.export(_Image().eval(), (x * scale,)) for name, scale in (("a", 1), ("b", 2))}
    manager = to_edge_transform_and_lower(
        programs, partitioner=[XnnpackPartitioner()], constant_methods={"version": 3, "sizes": [2, 3]}
    )
    ours = etir.compile(copy.deepcopy(manager)).buffer
    stock = bytes(manager.to_executorch().buffer)
    program = read_pte(ours)
    assert sorted(plan.name for plan in program.execution_plan) == ["a", "b", "sizes", "version"]
    assert sorted(program.named_data) == sorted(read_pte(stock).named_data) and len(program.named_data) == 4
    for method in ("a", "b"):
        assert torch.equal(calls(ours, method, [x])[0][0], calls(stock, method, [x])[0][0])
    version = Runtime.get().load_program(ours).load_method("version")
    assert version is not None and version.execute([]) == [3]


def test_text(tmp_path: Path) -> None:
    """The module is text like any other: read back, it compiles to the same file, at every level."""
    module = etir.import_program(lowered("image"))
    text = print_module(module)
    assert text.count("et.delegate @lowered_module_") == 2 and "aten.opaque" not in text
    path = tmp_path / "module.mlir"
    write_module(module, str(path), None, locations=False)
    data = etir.compile(module).buffer
    weights = str(path.with_suffix(".safetensors"))
    etir.compile(module, dump_dir=tmp_path)
    for level in ("module", "1-core", "2-edge", "3-backend"):
        again = read_module(str(tmp_path / f"{level}.mlir"), [weights], EtContext(), Console())
        assert etir.compile(again).buffer == data, level


def test_specs_and_external_data() -> None:
    """Compile specs, and named data for files beside the program, of a backend that is not in the wheel."""
    torch.manual_seed(0)
    program = torch.export.export(nn.Sequential(nn.Linear(8, 4), nn.Hardswish()).eval(), (torch.ones(3, 8),))
    manager = to_edge_transform_and_lower(program, partitioner=[NotePartitioner()])
    compiled = etir.compile(manager, link_backends=["NoteBackend"])
    stock = manager.to_executorch()
    ours, theirs = (read_pte(bytes(data)).execution_plan[0] for data in (compiled.buffer, stock.buffer))
    kept = [(d.id, bytes(d.data), [(s.key, bytes(s.value)) for s in d.compile_specs]) for d in ours.delegates]
    assert kept == [(d.id, bytes(d.data), [(s.key, bytes(s.value)) for s in d.compile_specs]) for d in theirs.delegates]
    assert kept[0][0] == "NoteBackend" and kept[0][2]
    assert compiled.external and list(compiled.external) == list(stock._tensor_data)


def test_what_cannot_be_done() -> None:
    """Each has its id and says what to do."""
    manager = lowered("image")
    program = manager.exported_program()
    with pytest.raises(EtirError, match="has no backend 'XnnpackBackend'") as caught:
        etir.compile(program, target="etir")
    assert caught.value.ids == ("E1102",)
    module = etir.import_program(program)
    with pytest.raises(EtirError, match="only runs on 'XnnpackBackend'"):
        Interpreter(module).run([CASES["image"][1]()])
    with pytest.raises(EtirError, match="is a blob, which torch cannot run"):
        etir.export_program(module)
    compiled = manager.to_executorch()
    with pytest.raises(EtirError, match="ExecutorchProgramManager is what to_executorch") as caught:
        etir.compile(compiled)  # pyright: ignore[reportArgumentType]
    assert caught.value.ids == ("E0402",)
    with pytest.raises(EtirError, match=r"memory.alloc.* has changed this program in place; compile it before"):
        etir.compile(program)


def test_a_dim_order_that_is_no_memory_format() -> None:
    """It is named, with the operator."""
    manager = to_edge(torch.export.export(nn.ReLU(), (torch.ones(1, 2, 3, 4),)))
    program = manager.exported_program()
    graph = program.graph
    (relu,) = (node for node in graph.nodes if node.op == "call_function")
    with graph.inserting_before(relu):
        copied = graph.call_function(
            exir_ops.edge.dim_order_ops._to_dim_order_copy.default, (relu.args[0],), {"dim_order": [3, 2, 1, 0]}
        )
    copied.meta["val"] = relu.args[0].meta["val"]
    relu.args = (copied,)
    with pytest.raises(EtirError, match=r"dim order \[3, 2, 1, 0\] is neither contiguous nor channels last") as caught:
        etir.compile(program)
    assert caught.value.ids == ("E0410",)
