"""``tile-order``: steps in an order in which less memory is needed at once.

Before::

    tile.brgemm %x, %w1, %a ...        // read by the last step alone
    tile.pool "max" %x, %p ...
    tile.brgemm %p, %w2, %b ...

After, where ``order`` is among what the function saves (``savings.py``)::

    tile.pool "max" %x, %p ...
    tile.brgemm %p, %w2, %b ...
    tile.brgemm %x, %w1, %a ...

Code does the operators of a program in the order of its text as a rule; the kernels' order is chosen for their memory
(pass `schedule-instructions`), by the same search as this one. Steps that write parts of one buffer which have no float
in common may change places; those that do so one right after the other move together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from etir.backends.native.asked import saves
from etir.backends.native.functions import outputs_of, tile_functions
from etir.backends.native.passes.tile_plan import problem_of
from etir.backends.native.places import Place
from etir.backends.native.sizes import is_known
from etir.backends.native.tile import BufferOp, MapOp, TemplateOp
from etir.backends.native.users import base_of, place_of
from etir.dialects.context import EtContext
from etir.dialects.walking import ops_of
from etir.passes.analysis.planning.problem import Problem
from etir.passes.analysis.scheduling import Run, lower_peak
from etir.passes.infra.base import Pass
from etir.passes.infra.registry import register_pass


def order_steps(func: FuncOp, pairs: Sequence[tuple[int, int]] = ()) -> None:
    """Reorder a function that saves by ``order``; ``pairs`` are inputs and outputs of one memory (``over.py``)."""
    if not saves(func, "order"):
        return
    block = func.body.block
    steps = [op for op in ops_of(block) if isinstance(op, TemplateOp)]
    order = _order(func, steps, pairs, problem_of(func, [None] * len(block.args)))
    if order == list(range(len(steps))):
        return
    last = block.last_op
    assert last is not None
    for op in [op for op in ops_of(block) if op is not last]:
        op.detach()
        if not isinstance(op, TemplateOp):
            block.insert_op_before(op, last)
    for number in order:
        block.insert_op_before(steps[number], last)


def is_in_order(func: FuncOp, pairs: Sequence[tuple[int, int]], problem: Problem) -> bool:
    """Whether a function, of which this is the plan with all of its arguments, would stay as it is."""
    steps = [op for op in ops_of(func.body.block) if isinstance(op, TemplateOp)]
    return _order(func, steps, pairs, problem) == list(range(len(steps)))


def _order(func: FuncOp, steps: Sequence[TemplateOp], pairs: Sequence[tuple[int, int]], problem: Problem) -> list[int]:
    args = func.body.block.args
    same: dict[SSAValue, SSAValue] = {args[len(args) - outputs_of(func) + made]: args[given] for given, made in pairs}
    units = _units(steps)
    found = lower_peak(_of_units(_run(func, steps, same, problem), units))
    return [number for unit in found for number in units[unit]]


def _units(steps: Sequence[TemplateOp]) -> list[list[int]]:
    """The numbers of steps that move together: those that write one buffer, one right after the other, of the same
    operands, as the parts of an image without a border, and maps that join parts, one instant for the planner.
    """
    units: list[list[int]] = []
    before: tuple[type[TemplateOp], frozenset[SSAValue], frozenset[SSAValue]] | None = None
    for number, op in enumerate(steps):
        read, written = (frozenset(map(base_of, values)) for values in (op.reads(), op.makes()))
        now = type(op), frozenset() if isinstance(op, MapOp) else read, written
        if now != before or len(written) != 1 or read & written:
            units.append([])
        units[-1].append(number)
        before = now
    return units


def _of_units(run: Run, units: Sequence[Sequence[int]]) -> Run:
    """The same with units of steps as instructions."""
    unit_of = {number: unit for unit, numbers in enumerate(units) for number in numbers}
    touches = [list(dict.fromkeys(b for number in numbers for b in run.touches[number])) for numbers in units]
    after = [
        list(dict.fromkeys(unit_of[other] for number in numbers for other in run.after[number] if other not in numbers))
        for numbers in units
    ]
    over: dict[int, list[tuple[int, int]]] = {}
    for number, pairs in run.over.items():
        over.setdefault(unit_of[number], []).extend(pairs)
    return Run(touches, after, run.sizes, run.born, run.dies, over)


def _run(func: FuncOp, steps: Sequence[TemplateOp], same: dict[SSAValue, SSAValue], problem: Problem) -> Run:
    args = [*func.body.block.args]
    values = [op.result for op in ops_of(func.body.block) if isinstance(op, BufferOp)] + args
    numbers: dict[SSAValue, int] = {value: number for number, value in enumerate(values)}
    sizes = [0] * len(values)
    for buffer in problem.buffers:
        # States are the method's, whenever they are read and written.
        is_state = values[buffer.key] in same or values[buffer.key] in same.values()
        sizes[buffer.key] = 0 if is_state else buffer.size
    touches = [list(dict.fromkeys(numbers[b] for v in op.operands if (b := base_of(v)) in numbers)) for op in steps]
    inputs = len(args) - outputs_of(func)
    first, last = len(values) - len(args), len(values) - len(args) + inputs
    born = [not first <= number < last for number in range(len(values))]
    dies = [number < last for number in range(len(values))]
    at = {op: number for number, op in enumerate(func.body.block.ops)}
    places: dict[int, int] = {at[op]: number for number, op in enumerate(steps)}
    over: dict[int, list[tuple[int, int]]] = {}
    for share in problem.shares:
        if share.instruction in places:
            over.setdefault(places[share.instruction], []).append((share.operand, share.result))
    return Run(touches, _dependences(steps, numbers, same), sizes, born, dies, over)


def _dependences(
    steps: Sequence[TemplateOp], numbers: dict[SSAValue, int], same: dict[SSAValue, SSAValue]
) -> list[list[int]]:
    """For each step the earlier ones that it has to come after."""
    writers: dict[SSAValue, list[tuple[int, Place]]] = {}
    readers: dict[SSAValue, list[int]] = {}
    after: list[list[int]] = []

    def memory(value: SSAValue) -> SSAValue | None:
        base = base_of(value)
        return same.get(base, base) if base in numbers else None

    for number, op in enumerate(steps):
        found: dict[int, None] = {}
        reads = dict.fromkeys(base for v in op.reads() if (base := memory(v)) is not None)
        for base in reads:
            found |= dict.fromkeys(writer for writer, _ in writers.get(base, ()))
        for value in op.writes():
            base = memory(value)
            if base is None:
                continue
            place = place_of(value)
            found |= dict.fromkeys(writer for writer, other in writers.get(base, ()) if not _are_apart(place, other))
            found |= dict.fromkeys(readers.get(base, ()))
            writers.setdefault(base, []).append((number, place))
        for base in reads:
            readers.setdefault(base, []).append(number)
        found.pop(number, None)
        after.append(list(found))
    return after


def _are_apart(one: Place, other: Place) -> bool:
    """Whether two places of a buffer certainly have no float in common: one ends before the other, or they are other
    columns of the same rows.
    """
    if not is_known((*one.shape, *one.strides, one.offset, *other.shape, *other.strides, other.offset)):
        return False
    if one.base is not other.base:
        return False
    one, other = (one, other) if one.offset <= other.offset else (other, one)
    if one.offset + sum((n - 1) * s for n, s in zip(one.shape, one.strides, strict=True)) < other.offset:
        return all(s >= 0 for s in (*one.strides, *other.strides))
    rows = [_rows(place) for place in (one, other)]
    distance = other.offset - one.offset
    step = math.gcd(*(s for strides, _ in rows for s in strides)) if any(strides for strides, _ in rows) else 0
    return step > 0 and rows[0][1] <= distance and distance + rows[1][1] <= step


def _rows(place: Place) -> tuple[list[int], int]:
    """The strides of a place between runs of floats side by side, and the length of a run."""
    dims = sorted((abs(s), n) for n, s in zip(place.shape, place.strides, strict=True) if n > 1 and s)
    run = 1
    while dims and dims[0][0] <= run:
        step, count = dims.pop(0)
        run = max(run, step * (count - 1) + run)
    return [step for step, _ in dims], run


@register_pass
@dataclass(frozen=True)
class TileOrderPass(Pass):
    """Put steps into an order in which less memory is needed, where a function saves by ``order``"""

    name = "tile-order"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Every function of ``tile``."""
        for func in tile_functions(module):
            order_steps(func)
