"""One workspace for code and for the kernels in its place.

The code of a function and its program for the kernels have memory of different shapes, but one call, whose inputs and
outputs are at one place. So the one is planned first, together with inputs and outputs, and the other around the places
that these have then. Where both orders cost more than the larger of the two needs by itself, the two are planned as one
program after the other, in which inputs and outputs live twice and have one place. The best of the three counts; of
equals the one whose code needs less. As a rule it is the program for the kernels that needs more, and as much as the
whole method would without the delegate.

Where one of the two still reads an input while the other has begun to write an output there, that output stays apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.dialects.func import FuncOp

from etir.backends.native.frame import Around
from etir.backends.native.functions import outputs_of, places_of
from etir.backends.native.joint import joint_plan
from etir.backends.native.need import bound_of
from etir.backends.native.passes.tile_plan import plan_function, problem_of
from etir.backends.native.tile import BufferOp, bytes_of
from etir.backends.reference.lowered import LoweredFunction
from etir.diagnostics import EtirError
from etir.dialects.et.workspace import APART, Workspace
from etir.passes.analysis.planning.errors import E0703

_T = TypeVar("_T")


@dataclass(frozen=True)
class Planned:
    """Bytes that the code needs, and the workspace of both; without a workspace, the code has an arena."""

    arena: int
    workspace: Workspace | None

    @property
    def bytes(self) -> int:
        """What a delegate has for both."""
        return self.arena if self.workspace is None else self.workspace.size


def plan_both(func: FuncOp, kernels: LoweredFunction, free: Around, *, is_repeated: bool = False) -> Planned:
    """Plan a function of ``tile`` and its program for the kernels, with inputs and outputs where ``free`` says.

    What a loop runs (``is_repeated``) has a workspace of its outputs alone, too: the compile spec says which arguments
    they are, so that nothing has to wait in them from one run to the next.
    """
    is_told = is_repeated and None in free[len(free) - outputs_of(func) :]
    if not _has_buffers(func) and not kernels.has_activations and not is_told:
        kernels.plan()
        return Planned(plan_function(func), None)
    return plan_workspace(func, kernels, free)


def plan_workspace(func: FuncOp, kernels: LoweredFunction, free: Around) -> Planned:
    """:func:`plan_both` of what may have no memory of its own: outputs may be where inputs have been all the same."""
    first = _in_turn(func, kernels, free, is_code_first=False)
    problem, _ = kernels.problem_within(free)
    bound, least_code = bound_of(problem), bound_of(problem_of(func, free))
    if first is not None and first.code <= least_code and first.kernels <= bound and not first.outside:
        return _again(func, kernels, first)
    second = _in_turn(func, kernels, free, is_code_first=True)
    found = [turn for turn in (first, second) if turn is not None]
    least = max(bound, 0 if second is None else second.code)
    if found and min(turn.total for turn in found) > least:
        joint = _unless_meeting(lambda: joint_plan(func, kernels, free, bound if first is None else first.kernels))
        if joint is not None:
            total = max(joint.code, joint.kernels) + _outside(func, free, joint.around)
            if total < min(turn.total for turn in found):
                return Planned(joint.code, joint.write(func, kernels))
    if not found:
        apart: Around = [APART] * len(func.body.block.args)
        arena, _ = _code(func, apart)
        return _joined(arena, kernels.plan_within(apart))
    # Of equals the one whose code walks over less memory, which also lies over what it reads then.
    return _again(func, kernels, min(found, key=lambda turn: (turn.total, turn.code)))


def plan_code(func: FuncOp, free: Around) -> Planned:
    """Plan a function of ``tile`` that has no program for the kernels, as :func:`plan_both`."""
    if not _has_buffers(func):
        return Planned(plan_function(func), None)
    arena, places = _code(func, free)
    inputs = len(places) - outputs_of(func)
    return Planned(arena, Workspace(arena, tuple(places[:inputs]), tuple(places[inputs:])))


def plan_where(free: Around, inputs: int, room: int, planner: Callable[[Around], Planned]) -> Planned:
    """Plan a function with ``planner`` where outputs are to be at the places that delegates of other branches have
    given them: if that needs no more than ``room``, or than wherever they may be, from where they are copied.
    """
    anywhere: Around = [
        place if place is None or place == APART or number < inputs else None for number, place in enumerate(free)
    ]
    if anywhere == free:
        return planner(free)
    least = _unless_meeting(lambda: planner(anywhere))
    there = _unless_meeting(lambda: planner(free))
    if there is not None and not _is_there(there, free[inputs:]):
        there = None
    if there is not None and (least is None or there.bytes <= max(least.bytes, room)):
        return there
    if least is not None:
        return planner(anywhere)
    return planner([None if place is None else APART for place in free])


def _is_there(planned: Planned, wished: Around) -> bool:
    """Whether outputs are where they are to be."""
    places = [None] * len(wished) if planned.workspace is None else planned.workspace.outputs
    return all(wish in (None, APART, place) for wish, place in zip(wished, places, strict=True))


def _unless_meeting(made: Callable[[], _T]) -> _T | None:
    """What is made; None where places that are given have bytes in common."""
    try:
        return made()
    except EtirError as error:
        if E0703.id not in error.ids:
            raise
    return None


def _outside(func: FuncOp, free: Around, around: Around) -> int:
    """Bytes of inputs and outputs that could be in the workspace and are not."""
    rows = zip(func.body.block.args, free, around, strict=True)
    return sum(bytes_of(arg.type) for arg, may, is_at in rows if may != APART and is_at == APART)


def _has_buffers(func: FuncOp) -> bool:
    return any(isinstance(op, BufferOp) for op in func.body.block.ops)


@dataclass(frozen=True)
class _Turn:
    """Two plans, the one around the places of the other: what each needs, with ``outside`` bytes of inputs and outputs
    that could be in the workspace and are not. ``given`` is what the first of them was planned around, ``around`` the
    places that it has made of it.
    """

    code: int
    kernels: int
    outside: int
    around: Around
    given: Around
    is_code_first: bool

    @property
    def total(self) -> int:
        """Bytes of the workspace and beside it."""
        return max(self.code, self.kernels) + self.outside


def _in_turn(func: FuncOp, kernels: LoweredFunction, free: Around, *, is_code_first: bool) -> _Turn | None:
    """Code and kernels planned one after the other; None where they cannot be around the same places, as where two
    inputs are given places that have bytes in common. Outputs that are over inputs are outside then.
    """
    around: Around = free
    fixed: Around = free
    while True:
        try:
            one, places = _code(func, around) if is_code_first else _kernels(kernels, around)
            fixed = [APART if place is None else place for place in places]
            other, _ = _kernels(kernels, fixed) if is_code_first else _code(func, fixed)
            sizes = (one, other) if is_code_first else (other, one)
            return _Turn(*sizes, _outside(func, free, fixed), fixed, around, is_code_first)
        except EtirError as error:
            if E0703.id not in error.ids:
                raise
            meeting = _outputs_over_inputs(func, fixed)
        if all(around[number] == APART for number in meeting):
            return None
        around = [APART if number in meeting else place for number, place in enumerate(around)]


def _again(func: FuncOp, kernels: LoweredFunction, turn: _Turn) -> Planned:
    """Write the plans of a turn down: both as they were made, since a plan around places that it has found itself may
    be larger.
    """
    arena, _ = _code(func, turn.given if turn.is_code_first else turn.around)
    return _joined(arena, kernels.plan_within(turn.around if turn.is_code_first else turn.given))


def _joined(arena: int, workspace: Workspace) -> Planned:
    return Planned(arena, replace(workspace, size=max(workspace.size, arena)))


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
        (number, place, place + bytes_of(arg.type))
        for number, (arg, place) in enumerate(zip(func.body.block.args, around, strict=True))
        if place is not None and place != APART
    ]
    return {
        number: None
        for number, start, end in rows
        if number >= inputs and any(n < inputs and a < end and start < b for n, a, b in rows)
    }
