"""What stays with the kernels so that a program needs no more memory with its delegates than without them.

A backend asks for it (``Backend.keeps_memory``; ``native`` does unless ``arena=free``). What the memory of a method is
shows only when all of it has been planned, since a partition that is small by itself may keep tensors alive which the
kernels would have used up. So the program is planned without these delegates, which gives the bound, and then compiled
with them; code is made only where the workspaces of all delegates fit into the bound (:class:`PlansOnly`). As a rule
that is the program.

If it needs more, it is planned again, without code. Every delegate says what each of its steps needs. Where inputs that
it reads late are there from its beginning, partitions are cut first, so that these are made in between
(``etir/memory_cuts.py``), if that saves memory. Then the operators that need more than there is room for are left to
the kernels: the rest of the delegate stays, before and after them. Boundaries move by that, so it is done again, a few
times; what multiplies most is given back then where there is room.
A backend may ask for the bound only where most of the work stays with it: if not, the program is what it would be
without a bound, and its report says how much more it needs; of a program of little work, less has to stay. Where it
asks for the bound always, partitions are left, those that cross their boundary with most bytes first: one, two, four
and so on; of the first number that is enough, those are given back that are not at the peak. At the end there are none,
which is the program that gave the bound.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from etir.backends.api.memory import DelegateNeeds, Effort, PlansOnly
from etir.backends.api.registry import parse_delegate
from etir.diagnostics import EtirError
from etir.memory_cuts import cuts_of
from etir.options import CompileOptions
from etir.passes.delegation.partition import LEFT, LEFT_PARTITION
from etir.passes.delegation.report import DelegationReport
from etir.program import Program

Planner = Callable[[CompileOptions, PlansOnly | None], Program]
"""Compiles the program with other options, and without code where it is given a ``PlansOnly`` that says so."""
Found = tuple[float, Sequence[str]]
"""The share of the work that delegates do, and what is left so that a program fits."""
MOST_ROUNDS = 6
"""How often operators are left one after another."""
FEW_ROUNDS = 3
"""How often where that is not asked for whatever it costs, and how often what has been left is tried again then."""
LEAST_SHARE = 0.75
"""How much of the work has to stay with delegates that ask for a bound where most of it does."""
LEAST_GAIN = 8
"""Cuts have to save so much of what a program needs more than without delegates: one part of this number."""
MOST_SMALL, MOST_TRIED = 64, 8
"""Groups of operators of a program of which the smallest ones are tried, and how many of them: each plans it again."""
LITTLE, LEAST_SHARE_OF_LITTLE = 131_072, 0.5
"""Operations on floats of all delegates up to which a program is little, and the share of them that has to stay. The
kernels take some 100 microseconds for so many, much of it for their calls.
"""
MOST_EFFORT = 50_000
"""Operations of backends' own IR in all plans of a program (``Effort``), before parts of a small one are left one after
another: some 15 seconds. Of 159 small programs, those that fit by it took at most 17,400.
"""
MOST_GIVEN_BACK = 8
"""How often something is tried again that has been left, each of which plans the program once more."""


def keeping(options: CompileOptions) -> tuple[str, ...]:
    """The delegates that ask for a bound, as they were written; none where nothing may be left to the kernels."""
    if options.fallback == "refuse":
        return ()
    parsed = [(text, parse_delegate(text)) for text in options.delegates]
    return tuple(text for text, delegate in parsed if delegate.backend.keeps_memory(delegate.options) != "no")


def memory_of(program: Program) -> dict[str, int]:
    """Planned and temporary memory of each method."""
    return {name: sum(memory.planned) + memory.temp for name, memory in program.runtime_memory().items()}


def bytes_of(program: Program) -> int:
    """Planned and temporary memory of all methods."""
    return sum(memory_of(program).values())


def within_bound(options: CompileOptions, planner: Planner, *, is_watched: bool = False) -> Program:
    """The program that needs no more memory than without the delegates which ask for that.

    ``is_watched`` says that somebody looks at the passes while code is made, which then happens once.
    """
    search = _Search(options, planner)
    if search.most is None:
        return planner(options, None)
    if not is_watched:
        plans = search.plans(max(search.most.values(), default=0))
        program = planner(options, plans)
        if not plans.is_above and search.fits(program):
            return program
        if _has_no_code(program):
            return search.without_code(program)
    chosen, report = search.chosen()
    program = planner(chosen, search.plans(sys.maxsize))
    if not search.fits(program):
        program = search.without_code(program)
    program.delegation = search.explained(program.delegation or report, bytes_of(program))
    return program


def _has_no_code(program: Program) -> bool:
    """Whether a delegate was left to the kernels although it was planned: the compiler fails, or is not there."""
    report = program.delegation
    return report is not None and any(p.on_kernels for backend in report.backends for p in backend.partitions)


class _Search:
    """What the program may need, and the options with which it needs no more."""

    def __init__(self, options: CompileOptions, planner: Planner) -> None:
        self.options, self.planner = options, planner
        self.texts = keeping(options)
        self.is_strict = any(d.backend.keeps_memory(d.options) == "always" for d in map(parse_delegate, self.texts))
        self.names = {parse_delegate(text).name: None for text in self.texts}
        self.without = replace(options, delegates=tuple(text for text in options.delegates if text not in self.texts))
        self.known: dict[object, object] = {}
        self.work: dict[tuple[str, ...], int] = {}
        self.less = 0
        self.effort = Effort()
        self.most: dict[str, int] | None = None
        with suppress(EtirError):  # What the kernels cannot run at all has no bound.
            self.most = memory_of(planner(self.without, self.plans()))

    def plans(self, most: int | None = None) -> PlansOnly:
        """What a planner is given: code is made up to so many bytes, or never."""
        return PlansOnly(most, self.known, room=dict(self.most or {}), less=self.less, effort=self.effort)

    def without_code(self, program: Program) -> Program:
        """The program, if its delegates may be as they are, or the one without them, which says why: with warnings and
        report of the one that has them.
        """
        if self.fits(program) or not self.is_strict:
            return program
        plain = self.planner(self.without, None)
        plain.delegation, plain.warnings = program.delegation, program.warnings
        return plain

    def fits(self, program: Program) -> bool:
        """Whether a program needs no more than without the delegates."""
        assert self.most is not None
        return bytes_of(program) <= sum(self.most.values())

    def chosen(self) -> tuple[CompileOptions, DelegationReport | None]:
        """The options with which the program fits, and what it would be with all that was left."""
        left: list[str] = []
        spare: Found | None = None
        program, plans = self._cut()
        self._note(program, plans.needs)
        high = self._above(program, plans.needs)
        if (saved := self._saving_more(program)) is not None:
            return self.options, saved.delegation
        for number in range(MOST_ROUNDS if self.is_strict else FEW_ROUNDS):
            if number:
                plans = self.plans()
                program = self.planner(self._leaving(left), plans)
            if self.fits(program):
                left = [*self._given_back(left)]
                if self.is_strict or self._share(left) >= LEAST_SHARE:
                    return self._leaving(left), program.delegation
                spare = self._share(left), left
                break
            more = self._above(program, plans.needs)
            left += more
            if not more or (not self.is_strict and self._share(left) < LEAST_SHARE / 2):
                break
        if not self.is_strict:
            return self._small() or self._little(high, spare) or (self.options, None)
        return self._partitions(self._leaving(left) if self._rows(program) else self.options)

    def _is_tired(self) -> bool:
        """Whether so much has been tried that a small program, too, is left as it is."""
        return self.effort.spent >= MOST_EFFORT

    def _saving_more(self, program: Program) -> Program | None:
        """A small program whose delegates save more than they would for themselves, if it fits then."""
        over = bytes_of(program) - sum((self.most or {}).values())
        if over <= 0 or len(self.work) > MOST_SMALL:
            return None
        self.less = over
        program = self.planner(self.options, self.plans())
        if self.fits(program):
            return program
        self.less = 0
        return None

    def _small(self) -> tuple[CompileOptions, DelegationReport | None] | None:
        """The options with which a small program fits: operators are left one after another, those of least work first,
        as long as the program needs less without them. None where it does not fit with most of the work in delegates.
        """
        left: list[str] = []
        least = sys.maxsize
        rows = sorted(self.work, key=self.work.__getitem__) if len(self.work) <= MOST_SMALL else []
        for names in [(), *rows[:MOST_TRIED]]:
            tried = [*left, *names]
            if self._share(tried) < LEAST_SHARE or self._is_tired():
                break
            plans = self.plans()
            program = self.planner(self._leaving(tried), plans)
            # What is left of a delegate may be too little for one.
            work = sum(step.work for need in plans.needs.values() for step in need.steps)
            if bytes_of(program) >= least or work < LEAST_SHARE * sum(self.work.values()):
                continue
            left, least = tried, bytes_of(program)
            if self.fits(program):
                return self._leaving(tried), program.delegation
        return None

    def _little(
        self, high: Sequence[str], spare: Found | None
    ) -> tuple[CompileOptions, DelegationReport | None] | None:
        """The options with which a program of little work fits: one step is left, those that need more than there is
        room for first and of these those of least work; or what ``spare`` has, with which it fits. None where the
        program has more work, or does not fit with the share that has to stay.
        """
        whole = sum(self.work.values())
        if whole > LITTLE or len(self.work) > MOST_SMALL:
            return None
        above = {*high}
        found = spare
        rows = sorted(self.work, key=lambda names: (not above & {*names}, self.work[names]))
        for names in rows[:MOST_TRIED]:
            if self._is_tired():
                break
            plans = self.plans()
            program = self.planner(self._leaving(names), plans)
            # What else has to be left with an operator, as it is too little for a delegate, shows the plan alone.
            share = sum(step.work for need in plans.needs.values() for step in need.steps) / whole
            if self.fits(program) and (found is None or share > found[0]):
                found = share, names
            if found is not None and found[0] >= LEAST_SHARE:
                break
        if found is None or found[0] < LEAST_SHARE_OF_LITTLE:
            return None
        options = self._leaving(found[1])
        return options, self.planner(options, self.plans()).delegation

    def _cut(self) -> tuple[Program, PlansOnly]:
        """Cut partitions, as the options say from then on, as long as that lets the program need less; its plan."""
        assert self.most is not None
        plans = self.plans()
        program = self.planner(self.options, plans)
        for _ in range(FEW_ROUNDS):
            over = bytes_of(program) - sum(self.most.values())
            more = self._cuts(program, plans.needs) if over > 0 else []
            if not more:
                break
            options, tried, tried_plans = self._with_cuts(more)
            if bytes_of(tried) + over // LEAST_GAIN >= bytes_of(program):
                break
            self.options, program, plans = options, tried, tried_plans
        return program, plans

    def _with_cuts(self, more: Sequence[str]) -> tuple[CompileOptions, Program, PlansOnly]:
        """The options with these cuts, or where the program does not fit with all of them, with those of the first one,
        two, four and so on that need least, the fewest of equals: each is one more call, and what lives across it may
        cost more than the cut saves.
        """
        found: list[tuple[CompileOptions, Program, PlansOnly]] = []
        base = self.options
        for count in (len(more), *(1 << n for n in range(len(more).bit_length()) if 1 << n < len(more))):
            options = replace(base, partition=replace(base.partition, cut=(*base.partition.cut, *more[:count])))
            plans = self.plans()
            found.append((options, self.planner(options, plans), plans))
            if self.fits(found[-1][1]):
                return found[-1]
        return min(found, key=lambda row: (bytes_of(row[1]), len(row[0].partition.cut)))

    def _cuts(self, program: Program, needs: dict[str, DelegateNeeds]) -> list[str]:
        """The operators before which delegates that need more than there is room for may be cut, by the names that
        ``cut`` has for them.
        """
        return [
            f"{method}_{backend}:{n}"
            for method, room, rows in self._crowded(program, needs)
            for _, backend, need in rows
            for n in cuts_of(need, room)
        ]

    def _crowded(
        self, program: Program, needs: dict[str, DelegateNeeds]
    ) -> Iterator[tuple[str, int, list[tuple[str, str, DelegateNeeds]]]]:
        """The methods that need more than without delegates, the bytes that there are for a workspace, and the
        delegates whose workspaces are larger.
        """
        assert self.most is not None
        for method, bytes in memory_of(program).items():
            rows = [
                (name, backend, needs[name])
                for name, backend, m in self._rows(program)
                if m == method and name in needs
            ]
            over = bytes - self.most.get(method, 0)
            if over > 0 and rows:
                room = max(need.bytes for *_, need in rows) - over
                yield method, room, [row for row in rows if row[2].bytes > room]

    def _note(self, program: Program, needs: dict[str, DelegateNeeds]) -> None:
        """How much work the operators are that are one or several steps together."""
        for name, backend, method in self._rows(program):
            for step in needs[name].steps if name in needs else ():
                names = tuple(f"{method}_{backend}:{n}" for n in step.operators)
                self.work[names] = self.work.get(names, 0) + step.work

    def _share(self, left: Sequence[str]) -> float:
        """How much of the work delegates do."""
        gone = {*left}
        rest = sum(work for names, work in self.work.items() if not gone & {*names})
        return rest / max(1, sum(self.work.values()))

    def _above(self, program: Program, needs: dict[str, DelegateNeeds]) -> list[str]:
        """The operators of steps that need more than there is room for, by the names that ``leave`` has for them."""
        found: dict[str, None] = {}
        for method, room, rows in self._crowded(program, needs):
            for _, backend, need in rows:
                highest = max((step.bytes for step in need.steps), default=0)
                least = min(room, highest - 1)
                for step in need.steps:
                    if step.bytes > least:
                        found |= dict.fromkeys(f"{method}_{backend}:{n}" for n in step.operators)
        return list(found)

    def _given_back(self, left: Sequence[str]) -> Sequence[str]:
        """Fewer operators that are left: what multiplies most is tried again, all of it first and then by halves."""
        heavy = sorted(
            (names for names, work in self.work.items() if work and set(names) <= set(left)), key=self.work.__getitem__
        )
        pending = [heavy[::-1]] if heavy else []
        for _ in range(MOST_GIVEN_BACK if self.is_strict else FEW_ROUNDS):
            if not pending:
                break
            some = pending.pop(0)
            again = {name for names in some for name in names}
            fewer = [name for name in left if name not in again]
            if self.fits(self.planner(self._leaving(fewer), self.plans())):
                left = fewer
            elif len(some) > 1:
                half = len(some) // 2
                pending += [some[:half], some[half:]]
        return left

    def _rows(self, program: Program) -> list[tuple[str, str, str]]:
        """The partitions of the delegates: name, backend, method; those with most bytes at their boundary first."""
        report = program.delegation
        rows = [
            (b, p) for b in (() if report is None else report.backends) if b.name in self.names for p in b.partitions
        ]
        rows.sort(key=lambda row: -(row[1].input_bytes + row[1].output_bytes))
        return [(p.name, b.name, p.method) for b, p in rows]

    def _partitions(self, options: CompileOptions) -> tuple[CompileOptions, DelegationReport | None]:
        """The options without some partitions, as few as do."""
        names: list[str] = []
        report: DelegationReport | None = None

        def fits(left: Sequence[str]) -> bool:
            nonlocal names, report
            program = self.planner(self._leaving(left, options), self.plans())
            names, report = names or [name for name, *_ in self._rows(program)], program.delegation
            return self.fits(program)

        is_fine = fits(())
        count = 1
        while not is_fine and count < 2 * len(names):
            is_fine = fits(names[:count])
            count *= 2
        if not is_fine:
            return self.without, report
        left = names[: count // 2]
        for name in left[::-1][:MOST_GIVEN_BACK] if len(left) > 1 else ():
            fewer = [other for other in left if other != name]
            if fits(fewer):
                left = fewer
        return self._leaving(left, options), report

    def _leaving(self, left: Sequence[str], options: CompileOptions | None = None) -> CompileOptions:
        base = self.options if options is None else options
        return replace(base, partition=replace(base.partition, leave=(*base.partition.leave, *left)))

    def explained(self, report: DelegationReport | None, bytes: int) -> DelegationReport | None:
        """The report that says what was left for the sake of memory, and how to have it; or how much more memory the
        program needs, and how to need less.
        """
        if report is None or self.most is None:
            return report
        if bytes > (most := sum(self.most.values())):
            how = ", ".join(d.backend.bounded_memory for d in map(parse_delegate, self.texts))
            more = f"{bytes:,} bytes of planned and temporary memory, {bytes - most:,} more than without"
            return replace(report, memory=f"{more}: {how} needs no more")
        if self.options.partition.leave:
            return report
        backends = [
            replace(b, rejected=[replace(r, reason=self._reason(b.name, r.reason)) for r in b.rejected])
            for b in report.backends
        ]
        return replace(report, backends=backends)

    def _reason(self, backend: str, reason: str) -> str:
        if backend not in self.names or reason not in (LEFT, LEFT_PARTITION):
            return reason
        how = next(d.backend.more_memory for d in map(parse_delegate, self.texts) if d.name == backend)
        return f"with it the program would need more memory than without the delegate; {how} has it"
