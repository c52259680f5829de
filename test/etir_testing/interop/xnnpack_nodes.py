"""Every operator on integers of an XNNPACK graph, alone: both runtimes agree within one step of its result's scale.

Differences of one step, where a sum lies between two integers, grow on the way through a network, so that outputs of
two correct runtimes differ by more. What is compared here is one node with its own constants between converts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from etir.backends.xnnpack import schema
from etir.backends.xnnpack.blob_writer import write_blob
from etir.backends.xnnpack.datatypes import BY_NAME
from etir.backends.xnnpack.graph import Constant, Graph, Node, PerBlock, PerChannel, PerTensor, PerToken, Value
from etir.backends.xnnpack.text import from_function, to_function
from etir.emit.formats.scalar_type import ScalarType
from etir.emit.pte import model, writer

from etir_testing.interop.xnnpack_runs import run_own, run_stock

_TYPES = {"fp32": ScalarType.FLOAT, "fp16": ScalarType.HALF, "int32": ScalarType.INT}


def integer_nodes(graph: Graph) -> list[Node]:
    """The nodes that compute with integers: a quantized operand or result."""
    return [node for node in graph.nodes if any(_is_scaled(graph.values[i]) for i in _used(node))]


def _used(node: Node) -> list[int]:
    return [i for i in (*node.operands, *node.outputs) if i is not None]


def _is_scaled(value: Value) -> bool:
    return value.quantization is not None


def _convert(source: int, target: int) -> Node:
    kind = schema.NODE_BY_NAME["convert"]
    return Node(kind, (source,), (target,), {a: 0 for a in kind.attributes})


def _inside(value: Value) -> Value:
    """The same with its constants in the blob."""
    scales = value.quantization
    if isinstance(scales, PerChannel | PerBlock) and isinstance(scales.scales, Constant):
        scales = replace(scales, scales=replace(scales.scales, key=None))
    constant = None if value.constant is None else replace(value.constant, key=None)
    return replace(value, constant=constant, quantization=scales)


def alone(graph: Graph, node: Node) -> tuple[Graph, list[PerTensor | None], list[PerTensor | None]]:
    """A graph of the node between converts, and the scales of its inputs and outputs."""
    values = list(graph.values)
    nodes: list[Node] = []
    scales: tuple[list[PerTensor | None], list[PerTensor | None]] = ([], [])
    ends: tuple[list[int], list[int]] = ([], [])

    def outside(index: int, side: int) -> int:
        scaled = values[index].quantization
        scales[side].append(scaled if isinstance(scaled, PerTensor) else None)
        if scaled is None:
            return index
        values.append(replace(values[index], datatype=BY_NAME["fp32"], quantization=None))
        return len(values) - 1

    for index in dict.fromkeys(i for i in node.operands if i is not None and values[i].constant is None):
        end = outside(index, 0)
        ends[0].append(end)
        if end != index:
            nodes.append(_convert(end, index))
    nodes.append(node)
    for index in node.outputs:
        end = outside(index, 1)
        ends[1].append(end)
        if isinstance(values[index].quantization, PerToken):
            # Integers with scales of their own are read by other nodes only: the node is given a float instead.
            values[index] = replace(values[index], datatype=BY_NAME["fp32"], quantization=None)
            nodes[-1] = replace(nodes[-1], outputs=(end,))
        elif end != index:
            nodes.append(_convert(index, end))
    made = Graph(tuple(map(_inside, values)), tuple(nodes), tuple(ends[0]), tuple(ends[1]))
    return made.canonical(), *scales


def program(graph: Graph) -> bytes:
    """A program of one delegate call, whose tensors are those of the graph."""
    values: list[model.Tensor] = []
    at = 0
    for index in (*graph.inputs, *graph.outputs):
        value = graph.values[index]
        tensor = model.Tensor(
            _TYPES[value.datatype.name],
            value.dims,
            tuple(range(len(value.dims))),
            shape_dynamism=model.TensorShapeDynamism.DYNAMIC_BOUND,
            allocation_info=model.AllocationDetails(1, at),
        )
        values.append(tensor)
        at += -(-tensor.nbytes // 64) * 64
    inputs = tuple(range(len(graph.inputs)))
    call = model.DelegateCall(0, tuple(range(len(values))))
    plan = model.ExecutionPlan(
        "forward",
        tuple(values),
        inputs,
        tuple(range(len(inputs), len(values))),
        (model.Chain((call,)),),
        (),
        (model.BackendDelegate("XnnpackBackend", write_blob(graph)[0]),),
        (0, at),
    )
    return writer.write_pte(model.Program((plan,), (b"",)))


def steps_apart(graph: Graph) -> Iterator[tuple[Node, float]]:
    """For each integer operator of a graph: by how many steps of its result both runtimes differ at most.

    Of a result that is no integer, a step is 1e-4 of its largest magnitude. Nodes of one kind, shape and attributes are
    looked at once.
    """
    # As text and back, so that values have the dims that their nodes give.
    graph = from_function(to_function(graph, "graph"))
    seen: set[Any] = set()
    for node in integer_nodes(graph):
        key = str((node.kind.name, node.attributes, node.clamp, [_signature(graph.values[i]) for i in _used(node)]))
        if key in seen:
            continue
        seen.add(key)
        made, given, results = alone(graph, node)
        random = torch.Generator().manual_seed(len(seen))
        inputs: list[torch.Tensor] = []
        for index, scaled in zip(made.inputs, given, strict=True):
            x = torch.randn(made.values[index].dims, generator=random)
            if scaled is not None:
                signed = torch.randint(-128, 128, x.shape, generator=random)
                x = (signed.clamp(-128, 127) - scaled.zero_point).float() * scaled.scale
            inputs.append(x)
        data = program(made)
        expected, found = run_stock(data, inputs), run_own(data, inputs)
        worst = 0.0
        for a, b, scaled in zip(expected, found, results, strict=True):
            step = scaled.scale if scaled is not None else 1e-4 * max(1e-12, float(a.abs().max()))
            worst = max(worst, float((a.double() - b.double()).abs().max()) / step)
        yield node, worst


def _signature(value: Value) -> Any:
    return value.datatype.name, value.dims, type(value.quantization).__name__
