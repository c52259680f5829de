"""Methods at the executable level whose instructions are not one line: branches and loops.

What failed in them is looked for in this order. The instructions that ran, one after the other as often as they ran,
are a method without jumps: if it fails, the jumps do not matter. Otherwise each condition is taken to be always true or
always false, and then what no condition depends on is left out. A method whose loops have no end any more is not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from etir.devtools.reduction.candidate import Candidate, around
from etir.devtools.reduction.instructions import erase_unused, in_the_callers_memory, number_written_by
from etir.devtools.reduction.runs import Course, courses_of, definitions_of
from etir.devtools.values.interpreted import copied
from etir.devtools.values.replayed import method_of
from etir.dialects.context import EtContext
from etir.dialects.et.executable import MethodOp
from etir.dialects.et.instructions import InputsOp, JumpFalseOp, JumpOp, NextOp, ReturnOp
from etir.dialects.et.values import BufferOp, ScalarOp
from etir.passes.analysis.memory_effects import effects_of, storage_of

LONGEST_LINE = 20_000
"""Instructions of a method that loops were written out in."""

_ENDS = (InputsOp, ReturnOp, JumpFalseOp, JumpOp, NextOp)


def method_with_jumps(module: ModuleOp, name: str) -> MethodOp | None:
    """The method at the executable level, if it has jumps."""
    found = method_of(module, name)
    return found if found is not None and len(found.body.blocks) > 1 else None


def instruction_count(module: ModuleOp, name: str) -> int:
    """How many instructions a method has, as the file counts them."""
    method = method_of(module, name)
    return (
        0
        if method is None
        else sum(1 for op in method.instructions if not isinstance(op, (InputsOp, ReturnOp, NextOp)))
    )


def in_one_line(candidate: Candidate, name: str) -> list[Candidate]:
    """For each way that samples go: what ran, without jumps, with the samples that go there."""
    ways: dict[tuple[int, ...], list[list[Any]]] = {}
    for course, sample in zip(courses_of(candidate, name), candidate.samples, strict=False):
        ways.setdefault(tuple(course.path), []).append(sample)
    made: list[Candidate] = []
    for path, samples in ways.items():
        if len(path) > LONGEST_LINE:
            continue
        method = _cloned(candidate.module, name)
        every = method.instructions
        line = [every[i].clone() for i in path if not isinstance(every[i], (JumpFalseOp, JumpOp, NextOp))]
        for op in reversed(every):
            op.detach()
            op.erase()
        entry = method.body.blocks[0]
        for block in list(method.body.blocks)[1:]:
            method.body.erase_block(block)
        entry.add_ops(line)
        erase_unused(method)
        made.append(Candidate(around(candidate.module, method), samples))
    return made


def conditions(module: ModuleOp, name: str) -> list[int]:
    """The numbers of the instructions that jump on a condition."""
    method = method_of(module, name)
    return [] if method is None else [i for i, op in enumerate(method.instructions) if isinstance(op, JumpFalseOp)]


def decided(candidate: Candidate, name: str, at: int, holds: bool) -> Candidate | None:
    """The method with a condition that always holds, or never; None where it would not come to its end."""
    method = _cloned(candidate.module, name)
    op = method.instructions[at]
    assert isinstance(op, JumpFalseOp)
    target = op.fallthrough if holds else op.target
    block = op.parent
    assert block is not None
    made = NextOp(target) if target is block.next_block else JumpOp(target)
    made.location = op.location
    op.detach()
    op.erase()
    block.add_op(made)
    reached = _reached(method.body.blocks[0])
    if not all(any(isinstance(b.last_op, ReturnOp) for b in _reached(start)) for start in reached):
        return None
    _merge(method, reached)
    erase_unused(method)
    return Candidate(around(candidate.module, method), candidate.samples)


def _cloned(module: ModuleOp, name: str) -> MethodOp:
    method = method_of(module, name)
    assert method is not None
    return method.clone()


def _reached(start: Block) -> dict[Block, None]:
    found: dict[Block, None] = {}
    waiting = [start]
    while waiting:
        block = waiting.pop()
        if block not in found:
            found[block] = None
            waiting += block.last_op.successors if block.last_op is not None else ()
    return found


def _merge(method: MethodOp, reached: dict[Block, None]) -> None:
    """Erase blocks that are never reached, and append a block to the one before it if it is reached from there only."""
    for block in [block for block in method.body.blocks if block not in reached]:
        for op in reversed(list(block.ops)):
            op.detach()
            op.erase()
        method.body.erase_block(block)
    block: Block | None = method.body.blocks[0]
    while block is not None:
        last, following = block.last_op, block.next_block
        is_joined = isinstance(last, (NextOp, JumpOp)) and last.target is following
        if following is not None and last is not None and is_joined and _entries(method, following) == 1:
            last.detach()
            last.erase()
            for op in list(following.ops):
                op.detach()
                block.add_op(op)
            method.body.erase_block(following)
        else:
            block = following


def _entries(method: MethodOp, target: Block) -> int:
    ends = [block.last_op for block in method.body.blocks]
    return sum(1 for end in ends if end is not None for block in end.successors if block is target)


def idle(module: ModuleOp, name: str) -> list[int]:
    """The numbers of the instructions that no condition depends on."""
    method = method_of(module, name)
    assert method is not None
    ctx = EtContext()
    every = method.instructions
    wanted: dict[Any, None] = {}
    for op in every:
        if isinstance(op, JumpFalseOp):
            wanted[storage_of(op.condition) or op.condition] = None
    size = -1
    needed: dict[Operation, None] = {}
    while size != len(wanted):
        size = len(wanted)
        for op in every:
            effects = effects_of(ctx, op)
            result = number_written_by(op)
            writes = [*(storage_of(v) for v in effects.writes), result]
            if isinstance(op, _ENDS) or not any(one is not None and one in wanted for one in writes):
                continue
            needed[op] = None
            for value in effects.reads:
                wanted[storage_of(value) or value] = None
            wanted |= dict.fromkeys(v for v in op.operands if isinstance(v.owner, ScalarOp))
    return [i for i, op in enumerate(every) if op not in needed and not isinstance(op, _ENDS)]


def thinned(candidate: Candidate, name: str, gone: Sequence[int], courses: Sequence[Course]) -> Candidate | None:
    """The method without some instructions; what only those wrote is an input, with what was read of it first.

    None where nothing is known of such a buffer.
    """
    method = _cloned(candidate.module, name)
    ctx = EtContext()
    every = method.instructions
    dropped = dict.fromkeys(gone)
    effects = {i: effects_of(ctx, op) for i, op in enumerate(every) if not isinstance(op, _ENDS)}
    written = [
        {b: None for i, e in effects.items() if (i in dropped) == is_dropped for v in e.writes if (b := storage_of(v))}
        for is_dropped in (False, True)
    ]
    given = next(op for op in every if isinstance(op, InputsOp))
    read: dict[BufferOp, dict[int, None]] = {}
    for i, op in enumerate(every):
        if i not in dropped and not isinstance(op, InputsOp):
            for value in effects[i].reads if i in effects else op.operands:
                buffer = storage_of(value)
                if buffer is not None:
                    read.setdefault(buffer, {})[i] = None
    late = [b for b in read if b in written[1] and b not in written[0] and b.result not in given.arguments]
    outputs = [
        value
        for op in every
        if isinstance(op, ReturnOp)
        for value in op.arguments
        if (storage_of(value) or value) in written[0] or value in given.arguments
    ]
    defined = {op: i for i, op in enumerate(definitions_of(method))}
    samples: list[list[Any]] = []
    for course, sample in zip(courses, candidate.samples, strict=True):
        values = list(sample)
        for buffer in late:
            first = next((at for at, i in enumerate(course.path) if i in read[buffer]), len(course.path))
            past = [value for at, value in course.held[defined[buffer]] if at < first]
            if not past:
                return None
            values.append(copied(past[-1]))
        samples.append(values)
    start = InputsOp([*given.arguments, *[b.result for b in late]])
    assert given.parent is not None
    given.parent.insert_op_before(start, given)
    for op in [given, *(op for op in every if isinstance(op, ReturnOp))]:
        if isinstance(op, ReturnOp):
            assert op.parent is not None
            op.parent.insert_op_before(ReturnOp(outputs or [b.result for b in written[0]]), op)
        op.detach()
        op.erase()
    for i in reversed(dropped):
        every[i].detach()
        every[i].erase()
    for buffer in late:
        in_the_callers_memory(buffer)
    erase_unused(method)
    for spec in ("in_spec", "out_spec"):
        method.properties.pop(spec, None)
    return Candidate(around(candidate.module, method), samples)
