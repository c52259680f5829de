"""What runs of a candidate in the interpreter show: values, the course of instructions, how long it takes.

Every part of a program that a reduction cuts out is filled with what was there when the whole ran. A program that
cannot be interpreted shows nothing, which is no error: what needs no values is tried all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from etir.backends.api.registry import backend_of_runtime_id
from etir.devtools.reduction.candidate import Candidate
from etir.devtools.values.interpreted import copied
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError
from etir.dialects.et.executable import MethodOp
from etir.interpret.errors import E1005
from etir.interpret.interpreter import Interpreter

Values = list[dict[SSAValue, Any]]
"""Of each sample: what every value of a method was."""


@dataclass
class Course:
    """How one run of a method at the executable level went.

    Attributes:
        path: the instructions by number, as they ran; of a method without jumps 0, 1, 2 and so on.
        held: of each definition, what it was, with the position in ``path`` of the instruction that left it so.
    """

    path: list[int]
    held: list[list[tuple[int, Any]]]


def values_of(candidate: Candidate, method: str) -> Values:
    """What every value of the method is; nothing for a program that cannot be run."""
    found: Values = []
    for sample in candidate.samples:
        seen: dict[SSAValue, Any] = {}

        def watch(value: SSAValue, held: Any, seen: dict[SSAValue, Any] = seen) -> None:
            seen[value] = copied(held)

        try:
            _run(candidate.module, sample, method, watch)
        except EtirError:
            return []
        found.append(seen)
    return found


def courses_of(candidate: Candidate, name: str) -> list[Course]:
    """How the run of each sample goes; nothing for a program that cannot be interpreted."""
    method = method_of(candidate.module, name)
    assert method is not None
    number = {op: i for i, op in enumerate(method.instructions)}
    defined = definitions_of(method)
    index = {result: i for i, op in enumerate(defined) for result in op.results}
    found: list[Course] = []
    for sample in candidate.samples:
        course = Course([], [[] for _ in defined])

        def begin(instruction: Operation, course: Course = course) -> None:
            course.path.append(number[instruction])

        def watch(value: SSAValue, held: Any, course: Course = course) -> None:
            if isinstance(value, OpResult) and value in index:
                course.held[index[value]].append((len(course.path) - 1, copied(held)))

        try:
            _run(candidate.module, sample, name, watch, begin)
        except EtirError:
            return []
        found.append(course)
    return found


def definitions_of(method: MethodOp) -> list[Operation]:
    """What a method defines before its first instruction."""
    instructions = dict.fromkeys(method.instructions)
    return [op for op in method.body.blocks[0].ops if op not in instructions]


class Steps:
    """How many operations or instructions a run takes: a changed loop may have no end.

    ``limit`` is None to count only; more steps than that raise error E1005.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.count, self.limit = 0, limit

    def of(self, candidate: Candidate, method: str) -> int:
        """The steps that all samples take together. Raises what the interpreter does, too."""
        self.count = 0
        for sample in candidate.samples:
            _run(candidate.module, sample, method, self._one, self._one)
        return self.count

    def _one(self, *_: Any) -> None:
        self.count += 1
        if self.limit is not None and self.count > self.limit:
            raise E1005.error(f"the program has not ended after {self.limit} steps")

    def end(self, candidate: Candidate, method: str) -> bool:
        """Whether the program comes to its end within the limit."""
        try:
            self.of(candidate, method)
        except EtirError:
            return False
        return True


def _run(
    module: ModuleOp,
    sample: Sequence[Any],
    method: str,
    watch: Callable[[SSAValue, Any], None],
    begin: Callable[[Operation], None] | None = None,
) -> None:
    """Run a method on copies of a sample, with watchers of its values and its instructions."""
    interpreter = Interpreter(module, "auto", backend_of_runtime_id)
    interpreter.watch, interpreter.before_instruction = watch, begin
    interpreter.run([copied(value) for value in sample], method)
