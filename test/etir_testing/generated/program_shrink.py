"""Smaller programs that fail in the same way: without statements, and without outputs.

A statement goes together with everything that names what it defines. Whether what is left still fails is found out by
running it, so that a result is always a real program.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from etir_testing.generated.program_check import Outcome, check
from etir_testing.generated.program_text import Body, Program, Statement, names_in


def shrink(program: Program, outcome: Outcome, attempts: int = 150) -> tuple[Program, Outcome]:
    """The smallest program found whose outcome has the stage of ``outcome``."""
    progress = True
    while progress and attempts > 0:
        progress = False
        for smaller in _smaller(program):
            attempts -= 1
            found = check(smaller)
            if found.stage == outcome.stage:
                program, outcome, progress = smaller, found, True
                break
            if attempts <= 0:
                break
    return program, outcome


def _smaller(program: Program) -> Iterator[Program]:
    for path in list(_paths(program.statements))[::-1]:
        candidate = copy.deepcopy(program)
        if _remove(candidate, path):
            yield candidate
    if len(program.outputs) > 1:
        for index in range(len(program.outputs)):
            candidate = copy.deepcopy(program)
            del candidate.outputs[index]
            yield candidate


Path = tuple[int, ...]
"""Where a statement is: its index, then body and index, and so on."""


def _paths(statements: list[Statement], prefix: Path = ()) -> Iterator[Path]:
    for index, statement in enumerate(statements):
        yield (*prefix, index)
        for number, body in enumerate(statement.bodies):
            yield from _paths(body.statements, (*prefix, index, number))


def _remove(program: Program, path: Path) -> bool:
    """Remove the statement at ``path`` and what depends on it; False when a function's result does."""
    statements = program.statements
    for index, number in zip(path[:-1:2], path[1::2], strict=False):
        statements = statements[index].bodies[number].statements
    gone = set(statements[path[-1]].defines)
    del statements[path[-1]]
    if not _drop(program.statements, gone):
        return False
    program.outputs = [o for o in program.outputs if gone.isdisjoint(names_in(o))]
    return bool(program.outputs)


def _drop(statements: list[Statement], gone: set[str]) -> bool:
    kept: list[Statement] = []
    for statement in statements:
        if gone.isdisjoint(names_in(statement.text)) and all(_drop_in(body, gone) for body in statement.bodies):
            kept.append(statement)
        elif statement.bodies and gone.isdisjoint(names_in(statement.text)):
            return False
        else:
            gone.update(statement.defines)
    statements[:] = kept
    return True


def _drop_in(body: Body, gone: set[str]) -> bool:
    return _drop(body.statements, gone) and gone.isdisjoint(names_in(body.results))
