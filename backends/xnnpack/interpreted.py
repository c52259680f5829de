"""Runs a graph in the interpreter: by the edge operators that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from etir.backends.xnnpack.graph import Graph
from etir.backends.xnnpack.lift import lift, lift_nodes
from etir.dialects.et.layout import tensor_type
from etir.interpret.interpreter import Interpreter
from etir.lowering.build.builder import Builder, rank
from etir.passes.infra.rewriting import PatternRewriter

if TYPE_CHECKING:
    from etir.interpret.evaluator import Evaluator


def run_graph(graph: Graph, arguments: Sequence[Any], evaluator: Evaluator) -> list[Any]:
    """The outputs for ``arguments``: inputs, row-major, and then what outputs hold before the call."""
    inputs, before = arguments[: len(graph.inputs)], arguments[len(graph.inputs) :]

    def outputs(builder: Builder, given: Sequence[SSAValue]) -> list[SSAValue]:
        found = lift(graph, builder, given)
        scalars = (i < len(before) and not tuple(before[i].shape) and rank(x) for i, x in enumerate(found))
        return [builder.view(x, []) if scalar else x for x, scalar in zip(found, scalars, strict=True)]

    return _run(outputs, inputs, evaluator)


def run_nodes(graph: Graph, arguments: Sequence[Any], evaluator: Evaluator) -> list[Any]:
    """What every node computes for ``arguments``, as :func:`run_graph` takes them: its first result, with the dims of
    the graph, of integers the floats that they stand for.
    """
    return _run(partial(lift_nodes, graph), arguments[: len(graph.inputs)], evaluator)


def _run(
    made: Callable[[Builder, Sequence[SSAValue]], list[SSAValue]], inputs: Sequence[Any], evaluator: Evaluator
) -> list[Any]:
    """The values of what ``made`` builds from the inputs."""
    types = [tensor_type(evaluator.dtype(x).type, tuple(x.shape)) for x in inputs]
    block = Block(arg_types=types)
    end = ReturnOp()
    block.add_op(end)
    function = FuncOp("forward", (types, []), Region(block))
    module = ModuleOp([function])
    builder = Builder(PatternRewriter(end, end.location, InsertPoint.before(end)), "edge")
    outputs = made(builder, block.args)
    block.erase_op(end)
    block.add_op(ReturnOp(*outputs))
    function.update_function_type()
    return Interpreter(module, evaluator).run(inputs)
