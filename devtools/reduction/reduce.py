"""A failing program made small: the fewest operations that still fail, with inputs that are what they were there.

The search is that of Zeller and Hildebrandt ("Simplifying and Isolating Failure-Inducing Input", 2002) over the
operations of a method (:mod:`~etir.devtools.reduction.operations`), or over its instructions at the executable level
(:mod:`~etir.devtools.reduction.instructions`, :mod:`~etir.devtools.reduction.jumps`): halves, quarters and so on, until
no single one can be left out. Then branches and loops become what is in them, and dims, weights and names become
plainer. What does not verify, or cannot be judged, is stepped around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from etir.devtools.checks import Answer
from etir.devtools.errors import E1414
from etir.devtools.reduction import jumps, operations, sizes
from etir.devtools.reduction.candidate import (
    Candidate,
    Reduced,
    StillFails,
    around,
    count_of,
    counts,
    ddmin,
    function_of,
    without,
)
from etir.devtools.reduction.instructions import extracted, parts, straight_method
from etir.devtools.reduction.plainer import with_synthetic_weights, without_outputs, without_places
from etir.devtools.reduction.runs import Steps, courses_of, values_of
from etir.devtools.values.replayed import method_of
from etir.diagnostics import EtirError, SourceLocation
from etir.dialects.et.weights import digest_of
from etir.dialects.text import print_module
from etir.dialects.verify import verify_module

MORE_STEPS = 4
"""How much longer than the program a changed loop may run before it is taken to have no end."""


def reduce(
    module: ModuleOp, still_fails: StillFails, samples: Sequence[Sequence[Any]] = (), method: str = "forward"
) -> Reduced:
    """The smallest program that still fails, of one method of a module, at any level.

    ``samples`` are inputs of the method; they are what ``still_fails`` may run a candidate on. The module stays as it
    is, and the same module gives the same result. Raises error E1414 when the module does not fail, or has no such
    method.
    """
    return _Reduction(module, still_fails, samples, method).run()


class _Reduction:
    def __init__(
        self, module: ModuleOp, still_fails: StillFails, samples: Sequence[Sequence[Any]], method: str
    ) -> None:
        self.whole, self.method = module, method
        self.samples = [list(sample) for sample in samples]
        self.still_fails = still_fails
        self.known: dict[str, Answer] = {}
        self.checks = 0
        self._steps: Steps | None = None

    def run(self) -> Reduced:
        first = Candidate(self.whole, self.samples)
        executable = method_of(self.whole, self.method) is not None
        if not executable and function_of(self.whole, self.method) is None:
            raise E1414.error(f"there is no method '{self.method}'")
        before = self.count(first)
        if self.ask(first) is not Answer.BAD:
            raise E1414.error("the whole program passes the check", SourceLocation(self.method))
        found = self.executable(first) if executable else self.functional(first)
        found = self.halved(self.plainer(found))
        return Reduced(found, before, self.count(found), self.checks)

    def count(self, candidate: Candidate) -> int:
        """Operations, or instructions."""
        if method_of(candidate.module, self.method) is not None:
            return jumps.instruction_count(candidate.module, self.method)
        return count_of(candidate.module, self.method)

    def ask(self, candidate: Candidate) -> Answer:
        """The answer, from what is known where the text was asked before."""
        try:
            verify_module(candidate.module)
        except EtirError:
            return Answer.UNRESOLVED
        key = digest_of(print_module(candidate.module).encode())
        if key not in self.known:
            self.checks += 1
            try:
                self.known[key] = self.still_fails(candidate)
            except EtirError:
                self.known[key] = Answer.UNRESOLVED
        return self.known[key]

    def fails(self, candidate: Candidate | None) -> bool:
        """Whether a candidate still fails; one whose loops may have lost their end is run with a limit before."""
        if candidate is None:
            return False
        try:
            verify_module(candidate.module)
        except EtirError:
            return False
        return self.limit().end(candidate, self.method) and self.ask(candidate) is Answer.BAD

    def limit(self) -> Steps:
        """How long candidates may run; without an end to a program that cannot be run as it is."""
        if self._steps is None:
            counted = Steps()
            try:
                steps = counted.of(Candidate(self.whole, self.samples), self.method)
            except EtirError:
                steps = counted.count
            self._steps = Steps(MORE_STEPS * steps + 1000)
        return self._steps

    # --- instructions ---------------------------------------------------------------------------------------------

    def executable(self, candidate: Candidate) -> Candidate:
        """As few instructions as possible."""
        if straight_method(candidate.module, self.method) is None:
            candidate = self.with_jumps(candidate)
        while (method := straight_method(candidate.module, self.method)) is not None:
            every = parts(method)
            candidate = self.fewer(candidate, every)
            kept = straight_method(candidate.module, self.method)
            if kept is None or len(parts(kept)) == len(every):
                break
        return candidate

    def with_jumps(self, candidate: Candidate) -> Candidate:
        """A method without jumps, if one fails; otherwise with as few jumps and instructions as possible."""
        for made in jumps.in_one_line(candidate, self.method):
            if self.ask(made) is Answer.BAD:
                return made
        candidate = self.decided(candidate)
        if jumps.method_with_jumps(candidate.module, self.method) is None:
            return candidate
        every = jumps.idle(candidate.module, self.method)
        courses = courses_of(candidate, self.method)
        if len(courses) != len(candidate.samples):
            return candidate
        return self.with_as_few(candidate, every, lambda gone: jumps.thinned(candidate, self.method, gone, courses))

    def decided(self, candidate: Candidate) -> Candidate:
        """Without the conditions that do not matter."""
        at = 0
        while at < len(jumps.conditions(candidate.module, self.method)):
            place = jumps.conditions(candidate.module, self.method)[at]
            for holds in (True, False):
                made = jumps.decided(candidate, self.method, place, holds)
                if self.fails(made):
                    assert made is not None
                    candidate = made
                    break
            else:
                at += 1
        return candidate

    def fewer(self, candidate: Candidate, every: list[int]) -> Candidate:
        """Without the instructions that can be left out of a method without jumps."""
        courses = courses_of(candidate, self.method)
        best = candidate

        def fails(kept: list[int]) -> bool:
            nonlocal best
            found = extracted(candidate.module, self.method, kept, candidate.samples, courses)
            if found is None:
                return False
            made = Candidate(around(candidate.module, found[0]), found[1])
            if self.ask(made) is not Answer.BAD:
                return False
            best = made
            return True

        ddmin(every, fails)
        return best

    # --- operations --------------------------------------------------------------------------------------------------

    def functional(self, candidate: Candidate) -> Candidate:
        """As few operations as possible, those of branches and loops, too."""
        found = self.smaller(candidate)
        while (inner := self.inside(found)) is not None:
            found = self.smaller(inner)
        if any(op.regions for op in self.block(found)):
            before = -1
            while before != (before := self.count(found)):
                found = self.smaller(self.simpler(found))
        return found

    def block(self, candidate: Candidate) -> list[Operation]:
        """The operations of the method that count, without those inside of others."""
        func = function_of(candidate.module, self.method)
        assert func is not None
        return [op for op in func.body.block.ops if counts(op)]

    def smaller(self, candidate: Candidate) -> Candidate:
        """As few operations as possible, with what they read from outside as inputs."""
        every = self.block(candidate)
        values = values_of(candidate, self.method)
        best = candidate

        def fails(kept: list[Operation]) -> bool:
            nonlocal best
            made = operations.extracted(candidate, self.method, kept, values)
            if made is None or self.ask(made) is not Answer.BAD:
                return False
            best = made
            return True

        if fails(every):  # otherwise what is outside of the operations matters: attributes of the method, its outputs
            ddmin(every, fails)
        return best

    def inside(self, candidate: Candidate) -> Candidate | None:
        """A branch or the body of a loop instead of the whole, where that fails by itself; None otherwise."""
        found = operations.inner_parts(candidate, self.method)
        return next((made for made in found if self.ask(made) is Answer.BAD), None)

    def simpler(self, candidate: Candidate) -> Candidate:
        """With what is read, or a constant, instead of each operation that does not matter, inside of others, too."""
        for by_constants in (False, True):
            every = operations.replaceable(candidate.module, self.method)
            make = partial(operations.replaced, candidate, self.method, by_constants=by_constants)
            candidate = self.with_as_few(candidate, every, make)
        return candidate

    def with_as_few(
        self, candidate: Candidate, every: list[int], make: Callable[[list[int]], Candidate | None]
    ) -> Candidate:
        """What ``make`` makes of a candidate when as many as possible of ``every`` are gone and it still fails."""
        best = candidate

        def fails(kept: list[int]) -> bool:
            nonlocal best
            left = dict.fromkeys(kept)
            made = make([one for one in every if one not in left])
            if made is None or not self.fails(made):
                return False
            best = made
            return True

        without(every, fails)
        return best

    # --- everything else ---------------------------------------------------------------------------------------------

    def plainer(self, candidate: Candidate) -> Candidate:
        """Without source lines, with weights made from seeds, and fewer outputs, as far as it still fails."""
        functional = function_of(candidate.module, self.method) is not None
        for step in (*([without_outputs] if functional else []), with_synthetic_weights, without_places):
            for made in step(candidate, self.method):
                if self.ask(made) is Answer.BAD:
                    candidate = made
                    break
        return candidate

    def halved(self, candidate: Candidate) -> Candidate:
        """With dims as small as they can be, by halves."""
        kept: dict[int, None] = {}
        while (size := next((s for s in sizes.sizes_of(candidate) if s not in kept), None)) is not None:
            made = next((m for m in sizes.with_half(candidate, size) if self.fails(m)), None)
            if made is None:
                kept[size] = None
            else:
                candidate = made
        return candidate
