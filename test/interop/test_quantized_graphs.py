"""The graphs at the edges of what quantizers make: all compile, load and run within one step of what torch computes, by
XNNPACK on the stock runtime and on etir's, and by kernels; in integers wherever XNNPACK has them.
"""

from __future__ import annotations

import pytest
import torch

import etir

from etir_testing.interop.program_runs import Function
from etir_testing.interop.quantized_graphs import GRAPHS, pair, q
from etir_testing.interop.xnnpack_runs import FileFacts, compile_and_run, facts_of, run_own, run_stock

_BESIDE_INTEGERS = {"convert", "copy", "clamp", "static_transpose", "static_reshape"}
"""Nodes that may stand between the boundary and the first or last convert."""


def _computes_on_floats(facts: FileFacts) -> list[str]:
    return [
        node.kind.name
        for graph in facts.graphs
        for node in graph.nodes
        if node.kind.name not in _BESIDE_INTEGERS and graph.values[node.outputs[0]].datatype.name != "qint8"
    ]


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str) -> None:
    graph = GRAPHS[name]
    with torch.no_grad():
        exported = torch.export.export(Function(graph.function), graph.inputs)
        (expected,) = torch.utils._pytree.tree_leaves(graph.function(*graph.inputs))
    delegated = etir.compile(exported, delegates=["xnnpack"]).buffer
    kernels = etir.compile(exported, target="etir").buffer
    for output in (
        *run_stock(delegated, graph.inputs),
        *run_own(delegated, graph.inputs),
        *run_own(kernels, graph.inputs),
    ):
        assert output.dtype == expected.dtype
        assert (output.double() - expected.double()).abs().max().item() <= graph.step * (1 + 1e-5)
    facts = facts_of(delegated)
    assert facts.delegate_calls
    assert bool(facts.kernels) == graph.outside
    if graph.integers and not graph.outside:
        assert facts.delegate_calls == 1
        assert not _computes_on_floats(facts)


@pytest.mark.parametrize("name", ["uint8 inwards and outwards", "concat, one scale", "requantized twice"])
def test_nothing_is_converted_twice(name: str) -> None:
    """Integers get from one scale to another in one node, and what comes in as integers is rounded once."""
    graph = GRAPHS[name]
    exported = torch.export.export(Function(graph.function), graph.inputs)
    converts = facts_of(etir.compile(exported, delegates=["xnnpack"]).buffer).nodes["convert"]
    assert converts == {"concat, one scale": 5, "requantized twice": 3}.get(name, 2)


@pytest.mark.parametrize("layer", ["linear", "convolution", "sum", "product"])
@pytest.mark.parametrize("ratio", [1e-30, 200.0, 300.0, 1e12])
def test_factors(layer: str, ratio: float) -> None:
    """Whatever integers are multiplied by: the file loads and is right, and the report says what is left outside."""
    scale = 0.01
    out = scale / ratio
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 5) * scale * 50
    weight = torch.ones(4, 4, 1, 1, dtype=torch.int8)

    def function(x: torch.Tensor) -> torch.Tensor:
        y = pair(x, scale, 3)
        if layer == "convolution":
            y = torch.nn.functional.conv2d(y, q.dequantize_per_tensor(weight, 1.0, 0, -127, 127, torch.int8))
        elif layer == "linear":
            numbers = q.dequantize_per_tensor(weight.view(4, 4), 1.0, 0, -127, 127, torch.int8)
            y = torch.nn.functional.linear(y.permute(0, 2, 3, 1), numbers)
        else:
            y = y + y if layer == "sum" else y * pair(x, 1.0, 3)
        return pair(y, out, 3)

    exported = torch.export.export(Function(function), (x,))
    program = etir.compile(exported, delegates=["xnnpack"])
    for (output,) in (run_stock(program.buffer, [x]), run_own(program.buffer, [x])):
        assert (output - function(x)).abs().max().item() <= out * (1 + 1e-4)
    assert program.delegation is not None
    reasons = [r.reason for backend in program.delegation.backends for r in backend.rejected]
    assert any("XNNPACK takes less than 256" in reason for reason in reasons) == (ratio > 256)


def test_bias_that_no_integer_holds() -> None:
    """A bias of too many steps of the products stays outside, with the reason."""
    weight = torch.ones(3, 8, dtype=torch.int8)

    def function(x: torch.Tensor) -> torch.Tensor:
        numbers = q.dequantize_per_tensor(weight, 1e-9, 0, -127, 127, torch.int8)
        return pair(torch.nn.functional.linear(pair(x, 0.01, 3), numbers, torch.tensor([0.5, 0.1, 0.0])), 0.01, 3)

    x = torch.randn(2, 8)
    exported = torch.export.export(Function(function), (x,))
    program = etir.compile(exported, delegates=["xnnpack"])
    assert (run_stock(program.buffer, [x])[0] - function(x)).abs().max().item() <= 0.0101
    assert "a bias of 5e+10 steps of the products" in str(program.delegation)


def test_two_layers_with_one_weight() -> None:
    """Tied weights: each layer has its own copy of the dequantize operator, and the file the integers once."""
    weight = torch.randint(-127, 128, (64, 64), dtype=torch.int8)
    scales, points = torch.full((64,), 0.01), torch.zeros(64, dtype=torch.int64)

    class Tied(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            numbers = q.dequantize_per_channel(weight, scales, points, 0, -127, 127, torch.int8)
            y = pair(torch.nn.functional.linear(pair(x, 0.03, 3), numbers), 0.05, 3)
            return pair(torch.nn.functional.linear(y, numbers), 0.3, 3)

    x = torch.randn(2, 64)
    outputs, expected, facts = compile_and_run(Tied(), (x,))
    assert (outputs[0] - expected[0]).abs().max().item() <= 0.61
    assert facts.nodes == {"convert": 2, "fully_connected": 2}
    constants = [v.constant for v in facts.graphs[0].values if v.constant is not None and v.datatype.name == "qcint8"]
    assert len(constants) == 1


def test_parameters_that_are_tensors() -> None:
    """Scales and zero points that are constants of one element, as torch's graph mode writes those of weights."""
    weight = torch.randint(-127, 128, (6, 8), dtype=torch.int8)
    scale, point = torch.tensor([0.02], dtype=torch.float64), torch.tensor([0])

    def function(x: torch.Tensor) -> torch.Tensor:
        numbers = q.dequantize_per_tensor.tensor(weight, scale, point, -127, 127, torch.int8)
        return pair(torch.nn.functional.linear(pair(x, 0.03, 3), numbers), 0.3, 3)

    x = torch.randn(2, 8)
    data = etir.compile(torch.export.export(Function(function), (x,)), delegates=["xnnpack"]).buffer
    assert (run_stock(data, [x])[0] - function(x)).abs().max().item() <= 0.3001
    assert facts_of(data).nodes == {"convert": 2, "fully_connected": 1}


@pytest.mark.parametrize(
    ("name", "lookups"),
    [("chain of moves", 0), ("padding", 0), ("requantized twice", 1)],
)
def test_integers_are_moved(name: str, lookups: int) -> None:
    """Without a delegate, nothing is quantized between two moves of one scale; another scale is a table."""
    graph = GRAPHS[name]
    exported = torch.export.export(Function(graph.function), graph.inputs)
    facts = facts_of(etir.compile(exported, target="etir").buffer)
    assert facts.kernels["quantized_decomposed::quantize_per_tensor.out"] == 1
    assert facts.kernels["quantized_decomposed::dequantize_per_tensor.out"] == 1
    assert facts.kernels["etir::int8_lookup.out"] == lookups
