"""Which operators of the exported program end up where: both partitioners counted in the same units.

The two pipelines cut different graphs: one folds a batch norm before it partitions, the other delegates it; an
attention becomes twenty operators here and twelve there. What they have in common is the program that both start from.
Each of its operators is given a number, which travels as a source line through either pipeline, and is afterwards

* *left* when anything that it became is outside of every delegate,
* *delegated* when everything that it became is inside,
* *gone* when it became nothing: it was folded into another operator or into a constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, FusedLoc, NameLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

FILE = "exported-node"
_LINE = re.compile(rf'File "{FILE}", line (\d+)')


@dataclass
class SourceCounts:
    """Operators of the exported program by what became of them; ``left_names`` are the ones that are left."""

    delegated: int
    left: int
    gone: int
    left_names: list[str]


def number(program: torch.export.ExportedProgram) -> dict[int, str]:
    """Give every operator that makes a tensor its number, in place; returns their names by number."""
    names: dict[int, str] = {}
    for position, node in enumerate(program.graph.nodes, 1):
        node.meta["stack_trace"] = f'  File "{FILE}", line {position}, in forward\n'
        node.meta.pop("nn_module_stack", None)
        is_operator = isinstance(node.target, torch._ops.OpOverload)
        if node.op == "call_function" and is_operator and _makes_tensors(node.meta.get("val")):
            names[position] = f"{node.name} ({node.target})"
    return names


def _makes_tensors(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and any(map(_makes_tensors, value)))


def count(names: dict[int, str], inside: Iterable[int], outside: Iterable[int]) -> SourceCounts:
    """The counts, from the numbers that stand on operators inside and outside of delegates."""
    left = [n for n in dict.fromkeys(outside) if n in names]
    delegated = [n for n in dict.fromkeys(inside) if n in names and n not in left]
    return SourceCounts(
        len(delegated), len(left), len(names) - len(left) - len(delegated), [names[n] for n in sorted(left)]
    )


def of_etir(program: torch.export.ExportedProgram) -> SourceCounts:
    """etir's partitions of a numbered program."""
    import etir
    from etir.dialects.context import EtContext
    from etir.options import CompileOptions
    from etir.passes.delegation.claim import computes
    from etir.passes.infra.base import is_private
    from etir.passes.infra.manager import run_pipeline
    from etir.pipeline import pipeline

    names = number(program)
    module = etir.import_program(program)
    steps = pipeline(CompileOptions(delegates=("xnnpack",)), stop="backend")
    cut = next(i for i, step in enumerate(steps) if step.name == "outline-delegates")
    run_pipeline(EtContext(), module, steps[: cut + 1])
    inside: list[int] = []
    outside: list[int] = []
    for func in module.body.block.ops:
        if not isinstance(func, FuncOp):
            continue
        for op in func.walk():
            if op.name == "backend.call_delegate" or not computes(op):
                continue
            (inside if is_private(func) else outside).extend(_numbers(op.location))
    return count(names, inside, outside)


def _numbers(location: Attribute) -> list[int]:
    if isinstance(location, FileLineColLoc):
        return [location.line.data] if location.filename.data == FILE else []
    if isinstance(location, NameLoc):
        return _numbers(location.location)
    if isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
        return [n for part in location.locations.data for n in _numbers(part)]
    return []


def of_stock(names: dict[int, str], graph: torch.fx.Graph) -> SourceCounts:
    """The stock partitioner's partitions of a numbered program: the graph of its edge program after ``to_backend``."""
    inside: list[int] = []
    outside: list[int] = []
    for node in graph.nodes:
        if node.op == "get_attr":
            lowered = getattr(graph.owning_module, str(node.target), None)
            original = getattr(lowered, "original_module", None)
            if original is not None:
                inside += [n for inner in original.graph.nodes for n in _stack_numbers(inner)]
        elif node.op == "call_function" and "delegate" not in str(node.target) and "getitem" not in str(node.target):
            outside += _stack_numbers(node)
    return count(names, inside, outside)


def _stack_numbers(node: torch.fx.Node) -> list[int]:
    if node.op != "call_function" or not _makes_tensors(node.meta.get("val")):
        return []
    return [int(n) for n in _LINE.findall(node.meta.get("stack_trace") or "")]
