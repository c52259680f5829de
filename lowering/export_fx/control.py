"""Regions as subgraphs: ``torch.cond``, ``while_loop``, ``scan`` and ``map``.

Torch's subgraphs see nothing around them: the values that a region uses from outside become inputs of its subgraph,
after those that it has of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, Region, SSAValue

from etir.dialects.control.ops import CondOp, ScanOp, WhileOp
from etir.lowering.errors import E0407
from etir.lowering.export_fx.nodes import GraphExporter, Value


def export_control(exporter: GraphExporter, op: CondOp | WhileOp | ScanOp) -> Sequence[Value]:
    """The results of an operation with regions."""
    captured = _captured(exporter, op)
    outer = tuple(exporter.values[v] for v in captured)
    match op:
        case CondOp():
            graphs = [_subgraph(exporter, r, (), captured) for r in (op.then_region, op.else_region)]
            names = [_attach(exporter, "true_graph", graphs[0]), _attach(exporter, "false_graph", graphs[1])]
            function: Any = torch.ops.higher_order.cond
            arguments: list[Any] = [exporter.values[op.predicate], *names, outer]
        case WhileOp():
            condition = _subgraph(exporter, op.condition, op.inits, captured, single=True)
            graphs = [condition, _subgraph(exporter, op.body, op.inits, captured)]
            names = [_attach(exporter, "cond_graph", graphs[0]), _attach(exporter, "body_graph", graphs[1])]
            function = torch.ops.higher_order.while_loop
            arguments = [*names, tuple(exporter.values[v] for v in op.inits), outer]
        case ScanOp():
            given = tuple(exporter.values[v] for v in op.inits)
            scanned = tuple(exporter.values[v] for v in op.inputs)
            graph = _subgraph(exporter, op.body, (*op.inits, *op.inputs), captured)
            name = _attach(exporter, "combine_graph" if given else "body_graph", graph)
            if given:
                function = torch.ops.higher_order.scan
                arguments = [name, list(given), list(scanned), outer]
            else:
                function = torch.ops.higher_order.map_impl
                arguments = [name, list(scanned), list(outer)]
    value = tuple(_result(exporter, r) for r in op.results)
    return exporter.results(op, exporter.node(function, arguments, {}, op, value))


def _captured(exporter: GraphExporter, op: Operation) -> list[SSAValue]:
    """The values around an operation that its regions use, and that are nodes of the graph."""
    inside = {value: None for inner in op.walk() for value in _made(inner)}
    used = dict.fromkeys(v for inner in op.walk() if inner is not op for v in inner.operands if v not in inside)
    return [v for v in used if isinstance(exporter.values.get(v), fx.Node)]


def _made(op: Operation) -> list[SSAValue]:
    arguments = [a for region in op.regions for block in region.blocks for a in block.args]
    return [*op.results, *arguments]


def _subgraph(
    exporter: GraphExporter,
    region: Region,
    own: Sequence[SSAValue],
    captured: Sequence[SSAValue],
    *,
    single: bool = False,
) -> fx.GraphModule:
    """A region as a graph whose inputs are its block's arguments, which stand for ``own``, then what it captures. With
    ``single`` it gives its one output itself and no tuple.
    """
    inner = GraphExporter(exporter.sizes, exporter.targets, exporter.symbols, exporter.problems, exporter.control)
    inner.values.update((v, w) for v, w in exporter.values.items() if not isinstance(w, fx.Node))
    for position, argument in enumerate(region.block.args):
        held = exporter.fake(exporter.values[own[position]]) if own else None
        if isinstance(argument.type, TensorType):
            held = exporter.sizes.tensor(argument.type)
        inner.values[argument] = inner.placeholder(argument.name_hint or f"arg{position}", held)
    for value in captured:
        outer = exporter.values[value]
        inner.values[value] = inner.placeholder(outer.name, outer.meta["val"])
    outputs = inner.block(region.block)
    if inner.stores:
        raise E0407.error(f"'{inner.stores[0].name}' stands in a region, where torch has no form of it")
    output = inner.graph.output(outputs[0] if single else tuple(outputs))
    values = tuple(inner.fake(v) for v in outputs)
    output.meta["val"] = values[0] if single else values
    return fx.GraphModule(inner.root, inner.graph)


def _attach(exporter: GraphExporter, name: str, graph: fx.GraphModule) -> fx.Node:
    count = sum(1 for known, _ in exporter.root.named_children() if known.startswith(name))
    setattr(exporter.root, f"{name}_{count}", graph)
    return exporter.graph.get_attr(f"{name}_{count}")


def _result(exporter: GraphExporter, result: SSAValue) -> Any:
    if isinstance(result.type, TensorType):
        return exporter.sizes.tensor(result.type)
    raise E0407.error(f"a result of control flow is a tensor in torch, not {result.type}")
