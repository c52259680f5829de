"""What a delegate says of its memory while a program is only planned (``backends/api/memory.py``).

The bytes that each step needs of the workspace, for code and for the kernels in its place; by them operators are left
to the kernels. And the inputs that kernels make for this delegate alone: one that is read late need not be
there before, if the partition is cut.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from etir.backends.api.memory import DelegateNeeds, InputNeed, Need
from etir.backends.native.dialect import GroupOp
from etir.backends.native.frame import Frame
from etir.backends.native.functions import places_of
from etir.backends.native.live import bytes_of_tensor
from etir.backends.native.passes.tile_plan import problem_of
from etir.backends.native.sizes import most
from etir.backends.native.tile import BrgemmOp, MapOp, TemplateOp, shape_of
from etir.backends.native.winograd import POINTS, WinogradOp
from etir.backends.native.workspace import Planned
from etir.backends.reference.lowered import LoweredFunction
from etir.dialects.et.instructions import CallOp
from etir.dialects.et.origin import united
from etir.dialects.et.workspace import APART
from etir.passes.analysis.planning.lower_bound import live_bytes


def needs_of(outlined: FuncOp, func: FuncOp, kernels: LoweredFunction, planned: Planned, frame: Frame) -> DelegateNeeds:
    """What the steps of a planned function of ``tile`` and of the kernels in its place need of the workspace, with the
    inputs and outputs that are there; the operators of a step are what its locations say.
    """
    around = [APART if place == APART else None for place in places_of(func)]
    live = live_bytes(problem_of(func, around or None), 1)
    steps: list[Need] = []
    for number, op in enumerate(func.body.block.ops):
        if isinstance(op, TemplateOp) and number < len(live):
            steps.append(Need(live[number], _numbers([*op.walk()]), sum(map(_work, op.walk()))))
    if not around:
        return DelegateNeeds(planned.bytes, steps)
    inputs = list(_inputs(outlined, around, frame))
    return DelegateNeeds(planned.bytes, steps, _kernel_steps(kernels, around) if inputs else (), inputs)


def _kernel_steps(kernels: LoweredFunction, around: Sequence[int | None]) -> list[Need]:
    live = live_bytes(kernels.problem_within(around)[0], 1)
    return [
        Need(bytes, _numbers([op]), 0)
        for bytes, op in zip(live, kernels.method.instructions, strict=False)
        if isinstance(op, CallOp)
    ]


def _inputs(outlined: FuncOp, around: Sequence[int | None], frame: Frame) -> Iterator[InputNeed]:
    """The inputs in the workspace that kernels make, with the first and the last operator that read them."""
    is_made = frame.made_by_kernels(outlined.sym_name.data)
    for value, place, made in zip(outlined.body.block.args, around, is_made, strict=False):
        numbers = [number for reader in _readers(value) for number in _numbers([reader])]
        if made and place is None and numbers:
            yield InputNeed(bytes_of_tensor(value), min(numbers), max(numbers))


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The operations that read a value, those inside of a group for what it hands on to them."""
    for use in value.uses:
        op = use.operation
        if isinstance(op, GroupOp) and any(True for _ in op.body.block.args[use.index].uses):
            yield from _readers(op.body.block.args[use.index])
        else:
            yield op


def _numbers(ops: Sequence[Operation]) -> tuple[int, ...]:
    """The operators of a method that these are, by their numbers."""
    found = united([op.location for op in ops])
    return () if found is None else tuple(n - 1 for n in found.numbers)


def _work(op: Operation) -> int:
    """About how many operations on floats one of ``tile`` is: multiplications of a product, what a map does to each."""
    if isinstance(op, BrgemmOp):
        return math.prod(most(n) for n in shape_of(op.a)) * most(shape_of(op.c)[-1])
    if isinstance(op, WinogradOp):
        return POINTS * op.tiles * shape_of(op.x)[-1] * shape_of(op.c)[-1]
    if not isinstance(op, TemplateOp):
        return 0
    floats = max((math.prod(most(n) for n in shape_of(v)) for v in op.operands), default=0)
    return floats * max(1, len(op.body.block.ops) - 1) if isinstance(op, MapOp) else floats
