"""Runs a graph in the interpreter: by the edge operators that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from etir.backends.xnnpack.graph import Graph
from etir.backends.xnnpack.lift import lift
from etir.dialects.et.layout import tensor_type
from etir.interpret.interpreter import Interpreter
from etir.lowering.build.builder import Builder, rank
from etir.passes.infra.rewriting import PatternRewriter

if TYPE_CHECKING:
    from etir.interpret.evaluator import Evaluator


def run_graph(
    graph: Graph, arguments: Sequence[Any], evaluator: Evaluator, watch: Callable[[int, Any], Any] | None = None
) -> list[Any]:
    """The outputs for ``arguments``: inputs, row-major, and then what outputs hold before the call.

    ``watch`` is told the number of each node and its first result, with the dims of the graph, when that has been
    computed; what it returns, unless None, takes its place. Nodes that hand an input on are not among them.
    """
    inputs, before = arguments[: len(graph.inputs)], arguments[len(graph.inputs) :]
    types = [tensor_type(evaluator.dtype(x).type, tuple(x.shape)) for x in inputs]
    block = Block(arg_types=types)
    end = ReturnOp()
    block.add_op(end)
    function = FuncOp("forward", (types, []), Region(block))
    module = ModuleOp([function])
    builder = Builder(PatternRewriter(end, end.location, InsertPoint.before(end)), "edge")
    nodes: list[SSAValue] = []
    found = lift(graph, builder, block.args, nodes)
    scalars = (i < len(before) and not tuple(before[i].shape) and rank(x) for i, x in enumerate(found))
    outputs = [builder.view(x, []) if scalar else x for x, scalar in zip(found, scalars, strict=True)]
    block.erase_op(end)
    block.add_op(ReturnOp(*outputs))
    function.update_function_type()
    return Interpreter(module, evaluator, watch=None if watch is None else _watching(watch, nodes)).run(inputs)


def _watching(watch: Callable[[int, Any], Any], nodes: Sequence[SSAValue]) -> Callable[[SSAValue, Any], Any]:
    numbers: dict[SSAValue, list[int]] = {}
    for number, value in enumerate(nodes):
        numbers.setdefault(value, []).append(number)

    def told(value: SSAValue, held: Any) -> Any:
        given: Any = None
        for number in numbers.get(value, ()):
            other = watch(number, held if given is None else given)
            given = given if other is None else other
        return given

    return told
