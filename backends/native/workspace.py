"""One workspace for code and for the kernels in its place.

The code of a function and its program for the kernels have memory of different shapes, but one call, whose inputs and
outputs are at one place. So the one is planned first, together with inputs and outputs, and the other around the places
that these have then; the better of the two orders counts. As a rule it is the program for the kernels that needs more,
and as much as the whole method would without the delegate.

Where one of the two still reads an input while the other has begun to write an output there, that output stays apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp

from etir.backends.api.interface import Outlined
from etir.backends.native.functions import outputs_of, places_of
from etir.backends.native.passes.tile_plan import plan_function
from etir.backends.native.sizes import most
from etir.backends.native.tile import BufferOp, extent_of
from etir.backends.reference.lowered import LoweredFunction
from etir.diagnostics import EtirError
from etir.dialects.backend.ops import CallDelegateOp
from etir.dialects.et.workspace import APART, Workspace
from etir.passes.analysis.planning.errors import E0703

Around = list[int | None]
"""For each input and output its place, None for any one, or ``APART``."""


@dataclass(frozen=True)
class Planned:
    """Bytes that the code needs, and the workspace of both; without a workspace, the code has an arena."""

    arena: int
    workspace: Workspace | None


def plan_both(func: FuncOp, kernels: LoweredFunction, is_alone: bool = True) -> Planned:
    """Plan a function of ``tile`` and its program for the kernels, ``is_alone`` where its method calls no other."""
    if not _has_buffers(func) and not kernels.has_activations:
        kernels.plan()
        return Planned(plan_function(func), None)
    free = _free(func, is_alone)
    first, around = _in_turn(func, free, lambda at: _kernels(kernels, at), lambda at: _code(func, at))
    if max(first) == first[0]:
        return _planned(func, kernels, around)
    second, other = _in_turn(func, free, lambda at: _code(func, at), lambda at: _kernels(kernels, at))
    return _planned(func, kernels, other if max(second) < max(first) else around)


def plan_code(func: FuncOp, is_alone: bool = True) -> Planned:
    """Plan a function of ``tile`` that has no program for the kernels."""
    if not _has_buffers(func):
        return Planned(plan_function(func), None)
    arena, places = _code(func, _free(func, is_alone))
    inputs = len(places) - outputs_of(func)
    return Planned(arena, Workspace(arena, tuple(places[:inputs]), tuple(places[inputs:])))


def is_alone(outlined: Outlined) -> bool:
    """Whether the method that calls an outlined function calls no other."""
    for method in outlined.module.body.block.ops:
        calls = [op.callee.root_reference.data for op in method.walk() if isinstance(op, CallDelegateOp)]
        if outlined.name in calls:
            return len(calls) == 1
    return True


def _free(func: FuncOp, is_alone: bool) -> Around:
    """What any place will do for. An input that something else has made is in that workspace already, or lives so long
    that this one would have to live as long.
    """
    outputs = outputs_of(func)
    inputs = len(func.body.block.args) - outputs
    return [*([None] if is_alone else [APART]) * inputs, *[None] * outputs]


def _has_buffers(func: FuncOp) -> bool:
    return any(isinstance(op, BufferOp) for op in func.body.block.ops)


def _planned(func: FuncOp, kernels: LoweredFunction, around: Around) -> Planned:
    arena, _ = _code(func, around)
    workspace = kernels.plan_within(around)
    return Planned(arena, replace(workspace, size=max(workspace.size, arena)))


_Plan = Callable[[Around], tuple[int, Around]]


def _in_turn(func: FuncOp, around: Around, first: _Plan, second: _Plan) -> tuple[tuple[int, int], Around]:
    """What the two plans need, the second around the places of the first."""
    one, places = first(around)
    fixed: Around = [APART if place is None else place for place in places]
    try:
        return (one, second(fixed)[0]), fixed
    except EtirError as error:
        meeting = _outputs_over_inputs(func, fixed)
        if E0703.id not in error.ids or not meeting:
            raise
        apart: Around = [APART if number in meeting else place for number, place in enumerate(around)]
        return _in_turn(func, apart, first, second)


def _kernels(kernels: LoweredFunction, around: Around) -> tuple[int, Around]:
    found = kernels.plan_within(around)
    return found.size, [*found.inputs, *found.outputs]


def _code(func: FuncOp, around: Around) -> tuple[int, Around]:
    size = plan_function(func, around)
    places = places_of(func)
    return size, [None if place == APART else place for place in places] if places else around


def _outputs_over_inputs(func: FuncOp, around: Around) -> dict[int, None]:
    """The outputs that have bytes in common with an input."""
    inputs = len(around) - outputs_of(func)
    rows = [
        (number, place, place + 4 * most(extent_of(arg.type)))
        for number, (arg, place) in enumerate(zip(func.body.block.args, around, strict=True))
        if place is not None and place != APART
    ]
    return {
        number: None
        for number, start, end in rows
        if number >= inputs and any(n < inputs and a < end and start < b for n, a, b in rows)
    }
