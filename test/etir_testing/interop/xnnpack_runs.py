"""Compiles small modules for XNNPACK, runs them on both runtimes, and says what the file consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from executorch.runtime import Runtime
from torch.utils import _pytree as pytree

import etir
import etir.runtime
from etir.backends.xnnpack.blob_reader import read_blob
from etir.backends.xnnpack.graph import Graph
from etir.emit.from_pte import is_primitive
from etir.emit.pte import model
from etir.emit.pte.reader import read_pte

_OF_TENSORS = ("executorch_prim::et_view.default", "executorch_prim::et_copy_index.tensor")


@dataclass
class FileFacts:
    """Graphs of the delegates, kernel calls by operator, and bytes of the tensors that delegate calls pass.

    What computes or checks sizes, which are numbers, is not counted.
    """

    graphs: list[Graph] = field(default_factory=list)
    kernels: Counter[str] = field(default_factory=Counter)
    boundary_bytes: int = 0
    delegate_calls: int = 0

    @property
    def nodes(self) -> Counter[str]:
        """Nodes of all delegates by kind."""
        return Counter(node.kind.name for graph in self.graphs for node in graph.nodes)


def facts_of(data: bytes) -> FileFacts:
    """What a ``.pte`` file's first method consists of."""
    program = read_pte(data)
    plan = program.execution_plan[0]
    named = {key: item.data for key, item in program.named_data.items()}
    facts = FileFacts([read_blob(delegate.data, named) for delegate in plan.delegates])
    for instruction in plan.chains[0].instructions:
        if isinstance(instruction, model.KernelCall):
            name = plan.operators[instruction.op_index].full_name
            if not is_primitive(name) or name in _OF_TENSORS:
                facts.kernels[name] += 1
        elif isinstance(instruction, model.DelegateCall):
            facts.delegate_calls += 1
            values = [plan.values[i] for i in instruction.args]
            facts.boundary_bytes += sum(v.nbytes for v in values if isinstance(v, model.Tensor))
    return facts


def run_stock(data: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of one call on the stock runtime."""
    program = Runtime.get().load_program(data)
    method = program.load_method("forward")
    assert method is not None
    return [output.clone() for output in method.execute(list(inputs))]


def run_own(data: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs of one call on etir's runtime."""
    found = pytree.tree_leaves(etir.runtime.load(data).forward(*inputs))
    return [torch.from_dlpack(output).clone() for output in found]


def tolerance_of(data: bytes, outputs: Sequence[torch.Tensor]) -> float:
    """How far outputs may be apart, by :func:`difference`: sums in another order, or a step of small integers."""
    scaled = any(value.quantization is not None for graph in facts_of(data).graphs for value in graph.values)
    half = any(output.dtype in (torch.float16, torch.bfloat16) for output in outputs)
    return 2e-2 if scaled or half else 1e-4


def run_both(data: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The outputs on the stock runtime; those on etir's have to be the same."""
    outputs = run_stock(data, inputs)
    own = run_own(data, inputs)
    assert difference(own, outputs) <= tolerance_of(data, outputs), [
        (a - b).abs().max() for a, b in zip(own, outputs, strict=False)
    ]
    return outputs


def compile_and_run(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    dynamic_shapes: Any = None,
    *,
    exported: Any = None,
    delegate: str = "xnnpack",
) -> tuple[list[torch.Tensor], list[torch.Tensor], FileFacts]:
    """Outputs on the stock runtime, which etir's agrees with, eager's, and the facts of the file."""
    with torch.no_grad():
        expected = pytree.tree_leaves(module(*inputs))
        program = exported or torch.export.export(module, inputs, dynamic_shapes=dynamic_shapes)
    data = etir.compile(program, delegates=[delegate]).buffer
    return run_both(data, inputs), expected, facts_of(data)


def difference(outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest absolute difference over the largest magnitude (at least 1); infinite for other shapes or dtypes."""
    worst = 0.0
    for output, wanted in zip(outputs, expected, strict=True):
        if output.shape != wanted.shape or output.dtype != wanted.dtype:
            return float("inf")
        scale = max(1.0, wanted.float().abs().max().item())
        worst = max(worst, (output.float() - wanted.float()).abs().max().item() / scale)
    return worst
