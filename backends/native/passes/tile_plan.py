"""``tile-plan``: places of buffers in the arena, reused where their lives do not overlap.

Before ``%m = tile.buffer : memref<197x3072xf32>``, after ``%m = tile.buffer at 605184 : memref<197x3072xf32>``. The
planner is the one that places tensors of methods (``passes/analysis/planning``). As there, what an operation writes may
lie over an operand that nothing reads afterwards, where its template reads each float before it writes the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.footprint import follow_one_another, footprint
from etir.backends.native.functions import PLACES, outputs_of, tile_functions
from etir.backends.native.kernels import template_of
from etir.backends.native.loop import LoopOp
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BrgemmOp, BufferOp, MapOp, TemplateOp, bytes_of, extent_of, lie_alike
from etir.backends.native.users import base_of, place_of
from etir.backends.native.view import source_of
from etir.dialects.context import EtContext
from etir.dialects.et.workspace import APART, alignment_of
from etir.dialects.walking import ops_of
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.problem import Buffer, Problem, Share
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def plan_function(func: FuncOp, around: Sequence[int | None] | None = None) -> int:
    """Give every buffer of ``func`` its place; the bytes of the arena.

    With ``around``, the arena is a workspace: inputs and outputs get places in it as well, which the attribute
    ``native.places`` of the function lists: the given one, any one for None, and none for ``APART``.
    """
    func.attributes.pop(PLACES, None)
    buffers = [op for op in ops_of(func.body.block) if isinstance(op, BufferOp)]
    arguments = [] if around is None else [*func.body.block.args]
    if not buffers and not arguments:
        return 0
    placed = plan(problem_of(func, around))
    place_function(func, placed.offsets, len(arguments))
    return placed.pool_sizes.get(1, 0)


def place_function(func: FuncOp, offsets: Mapping[int, int], arguments: int) -> None:
    """Write the places of buffers, and of so many arguments, down; ``offsets`` has them by the keys of
    :func:`problem_of`.
    """
    buffers = [op for op in ops_of(func.body.block) if isinstance(op, BufferOp)]
    for key, op in enumerate(buffers):
        op.properties["at"] = IntegerAttr(offsets[key], i64)
    numbers: dict[SSAValue, int] = {op.result: key for key, op in enumerate(buffers)}
    numbers |= {arg: len(buffers) + number for number, arg in enumerate(func.body.block.args[:arguments])}
    for op in func.body.block.ops:
        if isinstance(op, BrgemmOp):
            op.over = UnitAttr() if _is_over(op, numbers, offsets) else None
    if arguments:
        places = [offsets.get(len(buffers) + number, APART) for number in range(arguments)]
        func.attributes[PLACES] = DenseArrayBase.from_list(i64, places)


def _is_over(op: BrgemmOp, numbers: Mapping[SSAValue, int], offsets: Mapping[int, int]) -> bool:
    """Whether a product is written over an extra operand."""

    def ends(value: SSAValue) -> tuple[int, int] | None:
        base = base_of(value)
        at = offsets.get(numbers.get(base, -1))
        return None if at is None else (at, at + bytes_of(base.type))

    to = ends(op.c)
    found = [ends(value) for value in op.extra]
    return to is not None and any(of is not None and of[0] < to[1] and to[0] < of[1] for of in found)


def problem_of(func: FuncOp, around: Sequence[int | None] | None = None) -> Problem:
    """What :func:`plan_function` plans: the buffers, which are keys 0, 1 and so on, and after them the arguments."""
    base: dict[SSAValue, SSAValue] = {}
    live: dict[SSAValue, list[int]] = {}
    arguments = [] if around is None else [*func.body.block.args]
    base |= {arg: arg for arg in arguments}
    ops = ops_of(func.body.block)
    buffers: list[BufferOp] = []
    templates: list[tuple[int, TemplateOp]] = []
    for number, op in enumerate(ops):
        # What an operation is is asked once: most are views, and to ask for any template takes a way through Python.
        if (source := source_of(op)) is not None:
            if (found := base.get(source)) is not None:
                (result,) = op.results
                base[result] = found
        elif type(op) is BufferOp:
            buffers.append(op)
            base[op.result] = op.result
        elif isinstance(op, TemplateOp):
            templates.append((number, op))
            for operand in op.operands:
                if (found := base.get(operand)) is not None:
                    live.setdefault(found, []).append(number)
    instants = _instants(templates)
    end = len(ops)
    read = {value: max(numbers) for value, numbers in live.items()}
    live = {value: [instants.get(number, number) for number in numbers] for value, numbers in live.items()}
    is_dense = saves(func, "dense")
    items = [_buffer(key, op.result, live.get(op.result, [0]), is_dense) for key, op in enumerate(buffers)]
    inputs = len(arguments) - outputs_of(func) if arguments else 0
    lives: dict[SSAValue, Sequence[int]] = {op.result: live.get(op.result, [0]) for op in buffers}
    keys: dict[SSAValue, int] = {op.result: key for key, op in enumerate(buffers)}
    for number, arg in enumerate(arguments):
        if around is not None and around[number] == APART:
            continue
        at = [-1, *live.get(arg, [])] if number < inputs else [*live.get(arg, []), end]
        items.append(_buffer(len(buffers) + number, arg, at, is_dense, None if around is None else around[number]))
        lives[arg], keys[arg] = at, len(buffers) + number
    return Problem(items, shares=[*_in_place(ops, templates, keys, lives, read, instants)])


def _buffer(key: int, value: SSAValue, at: Sequence[int], is_dense: bool, place: int | None = None) -> Buffer:
    size = bytes_of(value.type)
    alignment = alignment_of(0 if is_dense or place is not None else size)
    return Buffer(key, size, ((min(at), max(at)),), alignment, fixed_offset=place)


def _instants(templates: Sequence[tuple[int, TemplateOp]]) -> dict[int, int]:
    """For maps, products or loops that write parts of a buffer one right after the other, the first of them: what is
    joined is made at one instant for the planner, so that an operand may lie in its part, which nothing has until it is
    read; so is an image without a border, which may lie over what is added to it.
    """
    found: dict[int, int] = {}
    before: tuple[type[TemplateOp], SSAValue] | None = None
    first = 0
    for number, op in templates:
        to = base_of(op.writes()[0]) if isinstance(op, MapOp | BrgemmOp | LoopOp) else None
        now = None if to is None else (type(op), to)
        if now is None or now != before or any(base_of(value) is to for value in op.reads()):
            before, first = now, number
        else:
            found[number] = first
    return found


def _in_place(
    ops: Sequence[Operation],
    templates: Sequence[tuple[int, TemplateOp]],
    keys: Mapping[SSAValue, int],
    lives: Mapping[SSAValue, Sequence[int]],
    read: Mapping[SSAValue, int],
    instants: Mapping[int, int],
) -> Iterator[Share]:
    """What operations may write over their operands: memory that is read for the last time, by memory that is written
    for the first time, float for float. ``read`` has the last operation that needs some memory, ``instants`` those at
    which others are for the planner.
    """
    yield from _in_place_by_parts(ops, keys, lives, read, instants)
    for number, op in templates:
        if len(op.makes()) != 1:
            continue
        allowed = [*template_of(op).in_place_always(op)]
        to = op.makes()[0]
        result = base_of(to)
        instant = instants.get(number, number)
        if not allowed or result not in keys or min(lives[result]) != instant:
            continue
        for operand in dict.fromkeys(base_of(value) for value in allowed):
            if operand is result or operand not in keys or read.get(operand) != number:
                continue
            if max(lives[operand]) != instant:
                continue
            reads = [value for value in op.operands if base_of(value) is operand]
            offsets = {place_of(value).offset: None for value in reads}
            same = all(lie_alike(value.type, to.type) and allowed.count(value) == reads.count(value) for value in reads)
            if same and len(offsets) == 1:
                displacement = 4 * (next(iter(offsets)) - place_of(to).offset)
                if isinstance(displacement, int) and (
                    instant == number or _is_left_alone(ops[instant:number], result, -displacement, operand)
                ):
                    yield Share(instant, keys[operand], keys[result], displacement)


def _in_place_by_parts(
    ops: Sequence[Operation],
    keys: Mapping[SSAValue, int],
    lives: Mapping[SSAValue, Sequence[int]],
    read: Mapping[SSAValue, int],
    instants: Mapping[int, int],
) -> Iterator[Share]:
    """What several products, or loops, write over an operand of all of them: each its part, which no other one reads or
    writes.
    """
    runs: dict[int, list[int]] = {}
    for number, first in instants.items():
        if isinstance(ops[number], BrgemmOp | LoopOp):
            runs.setdefault(first, [first]).append(number)
    for first, numbers in runs.items():
        run = [op for number in numbers if isinstance(op := ops[number], BrgemmOp | LoopOp) and len(op.makes()) == 1]
        if len(run) < len(numbers):
            continue
        result = base_of(run[0].makes()[0])
        if result not in keys or min(lives[result]) != first:
            continue
        for operand in dict.fromkeys(base_of(value) for value in template_of(run[0]).in_place_always(run[0])):
            if operand is result or operand not in keys or max(lives[operand]) != first:
                continue
            if read.get(operand) not in numbers:
                continue
            distances = {_distance(op, operand) for op in run}
            (distance,) = distances if len(distances) == 1 else (None,)
            if distance is not None and _are_apart([op.makes()[0] for op in run]):
                yield Share(first, keys[operand], keys[result], 4 * distance)


def _distance(op: BrgemmOp | LoopOp, operand: SSAValue) -> int | None:
    """How many floats into an operand's buffer that of the result would begin, so that the operation writes each
    float where it has read it; None where it cannot.
    """
    allowed = [*template_of(op).in_place_always(op)]
    reads = [value for value in op.operands if base_of(value) is operand]
    to = op.makes()[0]
    if not reads or any(allowed.count(v) != reads.count(v) or not lie_alike(v.type, to.type) for v in reads):
        return None
    found = {place_of(value).offset - place_of(to).offset for value in reads}
    (distance,) = found if len(found) == 1 else (None,)
    return distance if isinstance(distance, int) else None


def _are_apart(parts: Sequence[SSAValue]) -> bool:
    """Whether no two parts of a buffer have a float in common."""
    import numpy as np

    places = [place_of(value) for value in parts]
    if not all(is_known((*p.shape, *p.strides, p.offset)) for p in places):
        return follow_one_another([(p.shape, p.strides, p.offset) for p in places])
    marks = np.zeros(extent_of(places[0].base.type), np.bool_)
    for place in places:
        floats = footprint(place.shape, place.strides, place.offset).of(marks)
        if floats.any():
            return False
        floats[...] = True
    return True


def _is_left_alone(ops: Sequence[Operation], result: SSAValue, start: int, operand: SSAValue) -> bool:
    """Whether an operand would lie inside of a result that begins so many bytes before it, where none of ``ops``, which
    write other parts of the result, write anything.
    """
    end = start + bytes_of(operand.type)
    if start < 0 or end > bytes_of(result.type):
        return False
    for op in ops:
        for value in op.writes() if isinstance(op, TemplateOp) else ():
            place, extent = place_of(value), extent_of(value.type)
            if not is_known((place.offset, extent)):
                return False
            if 4 * place.offset < end and start < 4 * (place.offset + extent):
                return False
    return True


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
