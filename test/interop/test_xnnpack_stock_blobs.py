"""Blobs that the stock pipeline wrote: read, shown as text, parsed, written again, and still run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from xdsl.dialects.func import FuncOp

from etir.backends.api.registry import backend_dialects, backend_of_runtime_id
from etir.backends.xnnpack.blob_reader import read_blob
from etir.backends.xnnpack.blob_writer import write_blob
from etir.backends.xnnpack.text import disassemble, from_function
from etir.dialects.context import EtContext
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module
from etir.emit.formats.buffers import Buffer
from etir.emit.from_pte import read_program
from etir.emit.pte import model
from etir.emit.pte.reader import read_pte
from etir.emit.pte.writer import write_pte
from etir.interpret.interpreter import Interpreter
from etir.tools import et_translate

from etir_testing import ROOT
from etir_testing.exports import artifact, digest, versions
from etir_testing.interop import quantized_classifier
from etir_testing.interop.quantized_classifier import Classifier, quantized
from etir_testing.interop.xnnpack_runs import difference, run_both, run_stock, tolerance_of
from etir_testing.models import gpt, seeding
from etir_testing.models.gpt import GptBlock
from etir_testing.models.seeding import seed_weights, seeded_normal


class Images(nn.Module):
    """Convolutions of all kinds, pools and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, 1, 1, groups=8)
        self.up = nn.ConvTranspose2d(8, 4, 2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.relu6(self.norm(self.stem(x)))
        y = nn.functional.max_pool2d(nn.functional.leaky_relu(self.depthwise(y)) + y, 2)
        return self.up(nn.functional.pad(y, (1, 1, 0, 0)))


def _cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    image, tokens = (seeded_normal(1, 1, 3, 16, 16),), (seeded_normal(2, 1, 8, 256),)
    row = (seeded_normal(3, 2, 64),)
    linear = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    return {
        "images": (seed_weights(Images(), 0), image),
        "half": (seed_weights(Images().float(), 0).half(), (image[0].half(),)),
        "transformer": (seed_weights(GptBlock(), 0), tokens),
        "int8": (quantized(seed_weights(Classifier(), 0), image), image),
        "dynamic int8": (quantized(seed_weights(linear, 0), row, is_dynamic=True), row),
    }


@pytest.fixture(scope="module", params=["images", "half", "transformer", "int8", "dynamic int8"])
def stock(request: pytest.FixtureRequest) -> Iterator[tuple[bytes, tuple[torch.Tensor, ...]]]:
    """A file of the stock pipeline and its inputs."""
    module, inputs = _cases()[request.param]

    def make() -> bytes:
        lowered = nn.Sequential(*list(module.children())[:1], nn.ReLU()) if request.param == "half" else module
        with torch.no_grad():
            exported = torch.export.export(lowered, inputs)
            program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
        return program.buffer

    made_of = [__file__, quantized_classifier.__file__, gpt.__file__, seeding.__file__]
    key = [digest(*made_of), versions("torch", "torchao", "executorch"), str(ROOT)]
    yield artifact(f"xnnpack-{request.param.replace(' ', '-')}.pte", key, make), inputs


def _again(blob: Buffer, named: Mapping[str, Buffer]) -> tuple[bytes, dict[str, Buffer]]:
    """The blob from its text; the text has no bytes, they come from ``named``."""
    module = parse_module(disassemble(blob), EtContext(dialects=backend_dialects()))
    verify_module(module)
    (function,) = module.body.block.ops
    assert isinstance(function, FuncOp)
    graph = from_function(function)
    assert graph.canonical() == read_blob(blob).canonical()
    data, _ = write_blob(graph)
    assert read_blob(data, named).canonical() == read_blob(blob, named).canonical()
    return data, {}


def test_text_round_trip_runs(stock: tuple[bytes, tuple[torch.Tensor, ...]]) -> None:
    """The file with every blob written again from its text gives the same outputs, bit for bit."""
    data, inputs = stock
    program = read_pte(data)
    named = {key: item.data for key, item in program.named_data.items()}
    (plan,) = program.execution_plan
    assert plan.delegates
    delegates: list[model.BackendDelegate] = []
    for delegate in plan.delegates:
        blob, _ = _again(delegate.data, named)
        assert len(blob) <= len(delegate.data)
        delegates.append(replace(delegate, data=blob))
    again = write_pte(replace(program, execution_plan=(replace(plan, delegates=tuple(delegates)),)))
    assert difference(run_stock(again, inputs), run_stock(data, inputs)) == 0


def test_writing_is_stable(stock: tuple[bytes, tuple[torch.Tensor, ...]]) -> None:
    """What was written reads back to the same graph, and writes to the same bytes."""
    program = read_pte(stock[0])
    for delegate in program.execution_plan[0].delegates:
        graph = read_blob(delegate.data)
        first, _ = write_blob(graph)
        assert read_blob(first) == graph
        assert write_blob(read_blob(first))[0] == first


def test_runs_on_etir(stock: tuple[bytes, tuple[torch.Tensor, ...]]) -> None:
    """The file as it is, on etir's runtime."""
    run_both(*stock)


def test_program_as_text_runs(stock: tuple[bytes, tuple[torch.Tensor, ...]], tmp_path: Path) -> None:
    """The whole file as text, with graphs instead of blobs, and back: the same outputs on both runtimes."""
    data, inputs = stock
    (tmp_path / "stock.pte").write_bytes(data)
    assert et_translate.main(["--pte-to-mlir", str(tmp_path / "stock.pte"), "-o", str(tmp_path / "stock.mlir")]) == 0
    text = (tmp_path / "stock.mlir").read_text()
    assert "et.delegate @" not in text and "xnn." in text
    assert et_translate.main(["--mlir-to-pte", str(tmp_path / "stock.mlir"), "-o", str(tmp_path / "again.pte")]) == 0
    again = (tmp_path / "again.pte").read_bytes()
    assert difference(run_both(again, inputs), run_stock(data, inputs)) == 0


def test_interpreted(stock: tuple[bytes, tuple[torch.Tensor, ...]]) -> None:
    """The file in the interpreter, which runs the edge operators that its graphs stand for."""
    data, inputs = stock
    outputs = Interpreter(read_program(data), runner_of=backend_of_runtime_id).run(list(inputs))
    expected = run_stock(data, inputs)
    assert difference(outputs, expected) <= tolerance_of(data, expected)
