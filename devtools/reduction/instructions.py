"""A part of a method at the executable level as a method of its own.

Any set of instructions in one line is a program: a buffer that they read before they write it becomes an input in the
caller's memory, filled with what it held there when the whole method ran, so that the memory plan of the others stays
as it is; a number that they read has the value that it had; what they leave to the rest becomes outputs. Methods with
jumps become one line in :mod:`etir.devtools.reduction.jumps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from etir.devtools.reduction.runs import Course, definitions_of
from etir.devtools.values.interpreted import copied
from etir.devtools.values.replayed import method_of
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import CallOp, InputsOp, MoveOp, ReturnOp
from etir.dialects.et.values import BufferOp, ScalarOp
from etir.dialects.literals import scalar_attr
from etir.passes.analysis.memory_effects import effects_of, storage_of


def straight_method(module: ModuleOp, name: str) -> MethodOp | None:
    """The method at the executable level, if its instructions are one line, without jumps."""
    found = method_of(module, name)
    return found if found is not None and len(found.body.blocks) == 1 else None


def parts(method: MethodOp) -> list[int]:
    """The numbers of the instructions that can be left out."""
    return [i for i, op in enumerate(method.instructions) if not isinstance(op, (InputsOp, ReturnOp))]


def extracted(
    module: ModuleOp, name: str, kept: Sequence[int], samples: Sequence[Sequence[Any]], courses: Sequence[Course]
) -> tuple[MethodOp, list[list[Any]]] | None:
    """The instructions of these numbers as a method, and its inputs for each sample.

    ``courses`` are those of the whole method; there are none where it cannot be interpreted. None where the
    instructions need a number that is another one in each sample, or where nothing is known of what a buffer held.
    """
    whole = straight_method(module, name)
    assert whole is not None
    method = whole.clone()
    every = method.instructions
    inside = dict.fromkeys(every[i] for i in sorted(kept))
    positions = {op: i for i, op in enumerate(every)}
    ctx = EtContext()
    given = next((op for op in every if isinstance(op, InputsOp)), None)
    inputs = list(given.arguments) if given is not None else []
    needed: dict[BufferOp, int] = {}
    written: dict[BufferOp, None] = {}
    numbers: dict[ScalarOp, int] = {}
    computed: dict[SSAValue | None, None] = {}
    for op in inside:
        effects = effects_of(ctx, op)
        result = number_written_by(op)
        for value in op.operands:
            if isinstance(value.owner, ScalarOp) and value is not result and value not in computed:
                numbers.setdefault(value.owner, positions[op])
        computed[result] = None
        for value in effects.reads:
            buffer = storage_of(value)
            if buffer is not None and buffer not in written:
                needed.setdefault(buffer, positions[op])
        written |= dict.fromkeys(b for v in effects.writes if (b := storage_of(v)) is not None)
    own = [v for v in inputs if not isinstance(v.owner, BufferOp) or v.owner in needed or v.owner in written]
    # What nobody wrote before is undefined or state; a delegate's call names its results among what it reads.
    late = {buffer: at for buffer, at in needed.items() if _written_before(ctx, every, buffer, at)}
    added = [buffer for buffer in late if buffer.result not in own]
    outputs = _outputs(ctx, every, inside, written)
    definitions = {op: i for i, op in enumerate(definitions_of(method))}
    for scalar, first in numbers.items():
        if scalar.result in own or not _is_computed_before(every, scalar, first):
            continue
        held = [[value for at, value in course.held[definitions[scalar]] if at < first][-1:] for course in courses]
        if not held or not held[0] or any(one != held[0] for one in held):
            return None
        number = scalar_attr(held[0][0])
        if getattr(number, "type", None) != scalar.result.type:
            return None
        scalar.properties["value"] = number
    filled: list[list[Any]] = []
    for number, sample in enumerate(samples):
        values = {v: value for v, value in zip(inputs, sample, strict=True) if v in own}
        for buffer, first in late.items():
            past = courses[number].held[definitions[buffer]] if courses else []
            held = [value for at, value in past if at < first]
            if not held:
                return None
            values[buffer.result] = held[-1]
        filled.append([copied(value) for value in values.values()])
    _rebuild(method, inside, [*own, *[buffer.result for buffer in added]], outputs)
    for buffer in added:
        in_the_callers_memory(buffer)
    return method, filled


def in_the_callers_memory(buffer: BufferOp) -> None:
    """Give a buffer of the plan to the caller instead."""
    outside = BufferOp(buffer.result.type, caller=True, dynamic=None if buffer.dynamic is None else buffer.dynamic.data)
    outside.location = buffer.location
    outside.result.name_hint = buffer.result.name_hint
    assert buffer.parent is not None
    buffer.parent.insert_op_before(outside, buffer)
    buffer.result.replace_all_uses_with(outside.result)
    buffer.detach()
    buffer.erase()


def number_written_by(op: Operation) -> SSAValue | None:
    """The number that an instruction computes: what a primitive operator names last, or where a number is moved."""
    if isinstance(op, MoveOp):
        return None if isinstance(op.target.type, TensorType) else op.target
    if not isinstance(op, CallOp) or not op.arguments:
        return None
    kernel, last = op.kernel.data, op.arguments[-1]
    primitive = kernel.startswith("executorch_prim::") and kernel not in _ON_TENSORS
    return last if (primitive or kernel in _NUMBERS_OF_TENSORS) and isinstance(last.owner, ScalarOp) else None


_ON_TENSORS = ("executorch_prim::et_view.default", "executorch_prim::et_copy_index.tensor")
_NUMBERS_OF_TENSORS = ("aten::sym_size.int", "aten::sym_numel", "aten::_local_scalar_dense")


def _is_computed_before(every: Sequence[Operation], scalar: ScalarOp, at: int) -> bool:
    return any(number_written_by(op) is scalar.result for op in every[:at])


def _written_before(ctx: EtContext, every: Sequence[Operation], buffer: BufferOp, at: int) -> bool:
    return any(storage_of(v) is buffer for op in every[:at] for v in effects_of(ctx, op).writes)


def _outputs(
    ctx: EtContext, every: Sequence[Operation], inside: dict[Operation, None], written: dict[BufferOp, None]
) -> list[SSAValue]:
    """What the rest reads of what the part writes; all of it, where that is nothing."""
    wanted = {
        buffer: None
        for op in every
        if op not in inside
        for value in (op.arguments if isinstance(op, ReturnOp) else effects_of(ctx, op).reads)
        if (buffer := storage_of(value)) is not None and buffer in written
    }
    return [buffer.result for buffer in (wanted or written)]


def _rebuild(
    method: MethodOp, inside: dict[Operation, None], inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]
) -> None:
    """Leave a method with some of its instructions, and with the definitions that they need."""
    block = method.body.block
    for op in reversed(method.instructions):
        if op not in inside:
            op.detach()
            op.erase()
    first = next(iter(inside), None)
    start, end = InputsOp(inputs), ReturnOp(outputs)
    if first is None:
        block.add_op(start)
    else:
        block.insert_op_before(start, first)
    block.add_op(end)
    erase_unused(method)
    for name in ("in_spec", "out_spec"):
        method.properties.pop(name, None)


def erase_unused(method: MethodOp) -> None:
    """Erase the definitions that nothing names."""
    for op in reversed(definitions_of(method)):
        if not any(True for result in op.results for _ in result.uses):
            op.detach()
            op.erase()
