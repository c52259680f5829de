"""``tile-plan``: places of buffers in the arena, reused where their lives do not overlap.

Before ``%m = tile.buffer : memref<197x3072xf32>``, after ``%m = tile.buffer at 605184 : memref<197x3072xf32>``. The
planner is the one that places tensors of methods (``passes/analysis/planning``).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.functions import tile_functions
from etir.backends.native.sizes import most
from etir.backends.native.tile import BufferOp, TemplateOp, extent_of
from etir.backends.native.view import view_of
from etir.dialects.context import EtContext
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.problem import Buffer, Problem
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass

ALIGNMENT = 64


def plan_function(func: FuncOp) -> int:
    """Give every buffer of ``func`` its place; the bytes of the arena, a multiple of 64."""
    base: dict[SSAValue, SSAValue] = {}
    live: dict[SSAValue, list[int]] = {}
    for number, op in enumerate(func.body.block.ops):
        if isinstance(op, BufferOp):
            base[op.result] = op.result
        elif (view := view_of(op)) is not None and view[0] in base:
            base[op.results[0]] = base[view[0]]
        elif isinstance(op, TemplateOp):
            for operand in op.operands:
                if operand in base:
                    live.setdefault(base[operand], []).append(number)
    buffers = [op for op in func.body.block.ops if isinstance(op, BufferOp)]
    if not buffers:
        return 0
    problem = _problem(buffers, live)
    placed = plan(problem)
    for key, op in enumerate(buffers):
        op.properties["at"] = IntegerAttr(placed.offsets[key], i64)
    return placed.pool_sizes[1]


def _problem(buffers: list[BufferOp], live: dict[SSAValue, list[int]]) -> Problem:
    items: list[Buffer] = []
    for key, op in enumerate(buffers):
        at = live.get(op.result, [0])
        items.append(Buffer(key, 4 * most(extent_of(op.result.type)), ((min(at), max(at)),), ALIGNMENT))
    return Problem(items)


@register_pass
@dataclass(frozen=True)
class TilePlanPass(Pass):
    """Place the buffers of functions of ``tile`` in their arenas"""

    name = "tile-plan"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            plan_function(func)
