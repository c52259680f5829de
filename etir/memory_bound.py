"""Which partitions stay with the kernels so that a program needs no more memory with its delegates than without them.

A backend asks for it (``Backend.keeps_memory``, ``native{arena=kernels}``). What the memory of a method is shows only
when all of it has been planned, since a partition that is small by itself may keep tensors alive which the kernels
would have used up. So the program is planned without these delegates, which gives the bound, and with them, without
making code (:class:`PlansOnly`). While it needs more, the partitions that cross their boundary with most bytes are left
to the kernels: one, two, four and so on; of the first number that is enough, those are given back that are not at the
peak. At the end there are none, which is the program that gave the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from etir.backends.api.memory import PlansOnly
from etir.backends.api.registry import parse_delegate
from etir.options import CompileOptions
from etir.program import Program

Planner = Callable[[CompileOptions, PlansOnly | None], Program]
"""Compiles the program with other options, and without code where it is given a ``PlansOnly``."""
MOST_GIVEN_BACK = 8
"""Partitions that are tried again one by one, each of which plans the program once more."""


def keeping(options: CompileOptions) -> tuple[str, ...]:
    """The delegates that ask for a bound, as they were written."""
    parsed = [(text, parse_delegate(text)) for text in options.delegates]
    return tuple(text for text, delegate in parsed if delegate.backend.keeps_memory(delegate.options))


def bytes_of(program: Program) -> int:
    """Planned and temporary memory of all methods."""
    return sum(sum(memory.planned) + memory.temp for memory in program.runtime_memory().values())


def within_bound(options: CompileOptions, planner: Planner) -> Program:
    """The program that needs no more memory than without the delegates which ask for that."""
    texts = keeping(options)
    without = _without(options, texts)
    most = bytes_of(planner(without, PlansOnly()))
    compiled = planner(_bounded(options, texts, most, planner), None)
    # Code may have been left to the kernels that was planned: the compiler fails, or is not there.
    return compiled if bytes_of(compiled) <= most else planner(without, None)


def _bounded(options: CompileOptions, texts: Sequence[str], most: int, planner: Planner) -> CompileOptions:
    """The options with which the plan takes ``most`` bytes or less."""

    def fits(left: Sequence[str]) -> tuple[bool, Program]:
        program = planner(_leaving(options, left), PlansOnly())
        return bytes_of(program) <= most, program

    is_fine, program = fits(())
    if is_fine:
        return options
    names = _partitions(program, texts)
    count = 1
    while not is_fine and count < len(names):
        is_fine, _ = fits(names[:count])
        count *= 2
    if not is_fine:
        return _without(options, texts)
    left = names[: count // 2]
    for name in left[::-1][:MOST_GIVEN_BACK] if len(left) > 1 else ():
        fewer = [other for other in left if other != name]
        if fits(fewer)[0]:
            left = fewer
    return _leaving(options, left)


def _partitions(program: Program, texts: Sequence[str]) -> list[str]:
    """The partitions of some delegates, those with most bytes at their boundary first."""
    names = {parse_delegate(text).name for text in texts}
    report = program.delegation
    rows = [p for b in (() if report is None else report.backends) if b.name in names for p in b.partitions]
    return [p.name for p in sorted(rows, key=lambda p: -(p.input_bytes + p.output_bytes))]


def _leaving(options: CompileOptions, left: Sequence[str]) -> CompileOptions:
    return replace(options, partition=replace(options.partition, leave=(*options.partition.leave, *left)))


def _without(options: CompileOptions, texts: Sequence[str]) -> CompileOptions:
    return replace(options, delegates=tuple(text for text in options.delegates if text not in texts))
