"""``tile-plan``: places of buffers in the arena, reused where their lives do not overlap.

Before ``%m = tile.buffer : memref<197x3072xf32>``, after ``%m = tile.buffer at 605184 : memref<197x3072xf32>``. The
planner is the one that places tensors of methods (``passes/analysis/planning``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.functions import PLACES, outputs_of, tile_functions
from etir.backends.native.sizes import most
from etir.backends.native.tile import BufferOp, TemplateOp, extent_of
from etir.backends.native.view import view_of
from etir.dialects.context import EtContext
from etir.dialects.et.workspace import APART, alignment_of
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.problem import Buffer, Problem
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def plan_function(func: FuncOp, around: Sequence[int | None] | None = None) -> int:
    """Give every buffer of ``func`` its place; the bytes of the arena.

    With ``around``, the arena is a workspace: inputs and outputs get places in it as well, which the attribute
    ``native.places`` of the function lists: the given one, any one for None, and none for ``APART``.
    """
    base: dict[SSAValue, SSAValue] = {}
    live: dict[SSAValue, list[int]] = {}
    arguments = [] if around is None else [*func.body.block.args]
    base |= {arg: arg for arg in arguments}
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
    func.attributes.pop(PLACES, None)
    if not buffers and not arguments:
        return 0
    end = len(func.body.block.ops)
    items = [_buffer(key, op.result, live.get(op.result, [0])) for key, op in enumerate(buffers)]
    inputs = len(arguments) - outputs_of(func) if arguments else 0
    for number, arg in enumerate(arguments):
        if around is not None and around[number] == APART:
            continue
        at = [-1, *live.get(arg, [])] if number < inputs else [*live.get(arg, []), end]
        items.append(_buffer(len(buffers) + number, arg, at, None if around is None else around[number]))
    placed = plan(Problem(items))
    for key, op in enumerate(buffers):
        op.properties["at"] = IntegerAttr(placed.offsets[key], i64)
    if arguments:
        offsets = [placed.offsets.get(len(buffers) + number, APART) for number in range(len(arguments))]
        func.attributes[PLACES] = DenseArrayBase.from_list(i64, offsets)
    return placed.pool_sizes.get(1, 0)


def _buffer(key: int, value: SSAValue, at: Sequence[int], place: int | None = None) -> Buffer:
    size = 4 * most(extent_of(value.type))
    return Buffer(key, size, ((min(at), max(at)),), alignment_of(size) if place is None else 16, fixed_offset=place)


@register_pass
@dataclass(frozen=True)
class TilePlanPass(Pass):
    """Place the buffers of functions of ``tile`` in their arenas

    ``workspace`` places inputs and outputs as well, where memory that is given to the code may be.
    """

    name = "tile-plan"
    workspace: bool = False

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of the module."""
        for func in tile_functions(module):
            plan_function(func, [None] * len(func.body.block.args) if self.workspace else None)
