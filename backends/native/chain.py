"""One plan of the delegates of a method, with the tensors that live between them and across them.

Delegates that are planned one after another put what they make where the first of them likes it, and what lives while
another one runs lies beside all workspaces. Here the delegates of a block are one program for the planner: the code of
the first one, the kernels in its place, the code of the second one, and so on (as in ``joint.py``). A tensor that
several of them see, or that lives while one of them runs, is one buffer with one place; where a delegate only has to
leave it alone, the bytes are *kept* in its workspace (:mod:`etir.dialects.et.workspace`).

The plan is taken where the method needs less with it than with those made in turn. Of many buffers the planner may miss
one that needs as little as the method does without delegates: where that is known, it looks for it longer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp

from etir.backends.native.frame import Around, Frame
from etir.backends.native.joint import Joint, within
from etir.backends.native.passes.tile_plan import problem_of
from etir.backends.native.tile import BufferOp
from etir.backends.native.workspace import Planned
from etir.backends.reference.lowered import LoweredFunction
from etir.diagnostics import EtirError
from etir.dialects.et.workspace import APART, Workspace
from etir.passes.analysis.planning.algorithms import plan
from etir.passes.analysis.planning.errors import E0703
from etir.passes.analysis.planning.lower_bound import lower_bound
from etir.passes.analysis.planning.problem import Buffer, Interval, Problem, Share, align_up

MOST_BUFFERS = 2500
"""Of programs with more, the delegates are planned one after another alone: the planner's time is not linear."""


@dataclass(frozen=True)
class Link:
    """A delegate of a chain: its name, its code, and its program for the kernels."""

    name: str
    func: FuncOp
    kernels: LoweredFunction


@dataclass(frozen=True)
class _Part:
    """A link's own problems, and the keys that their buffers have in the whole."""

    link: Link
    around: Around
    code: Problem
    kernels: Problem
    code_keys: dict[int, int]
    kernels_keys: dict[int, int]
    kept: tuple[int, ...]


class Chain:
    """The problem of all delegates of a block, in the order of their calls."""

    def __init__(self, links: Sequence[Link], frame: Frame) -> None:
        self.carried = frame.carried([link.name for link in links])
        self.lives: list[list[Interval]] = [[] for _ in self.carried]
        self.sizes = [0] * len(self.carried)
        self.alignments = [16] * len(self.carried)
        self.buffers: list[Buffer] = []
        self.shares: list[Share] = []
        self.parts: list[_Part] = []
        self.now = 0
        for number, link in enumerate(links):
            self._add(number, link)
        self._lives_between(len(links))
        for key, live in enumerate(self.lives):
            self.buffers.append(Buffer(key, self.sizes[key], tuple(live), self.alignments[key]))

    def _lives_between(self, number: int) -> None:
        """The instants before a link: one for each operation of the kernels there, since what one of them reads for the
        last time makes room for the results of those after it.
        """
        gaps = {key: carried.gaps[number] for key, carried in enumerate(self.carried) if number in carried.gaps}
        if not gaps:
            return
        start = min(first for first, _ in gaps.values())
        for key, (first, last) in gaps.items():
            self.lives[key].append((self.now + first - start, self.now + last - start))
        self.now += max(last for _, last in gaps.values()) - start

    def _add(self, number: int, link: Link) -> None:
        """The code and the kernels of a link after what is there."""
        self._lives_between(number)
        seen = {c.places[number]: key for key, c in enumerate(self.carried) if number in c.places}
        kept = [key for key, c in enumerate(self.carried) if number in c.kept]
        around: Around = [None if index in seen else APART for index in range(len(link.func.body.block.args))]
        code = problem_of(link.func, around)
        kernels, arguments = link.kernels.problem_within(around)
        buffers = sum(isinstance(op, BufferOp) for op in link.func.body.block.ops)
        begin = self.now + 2
        later = begin + 2 + max((end for buffer in code.buffers for _, end in buffer.live), default=0)
        code_keys = self._take(code, begin, {buffers + index: key for index, key in seen.items()})
        known = {own: key for index, key in seen.items() if (own := arguments[index]) is not None}
        kernels_keys = self._take(kernels, later, known)
        before = self.now
        self.now = later + 2 + max((end for buffer in kernels.buffers for _, end in buffer.live), default=0)
        for key in kept:
            self.lives[key].append((before, self.now))
        self.parts.append(_Part(link, around, code, kernels, code_keys, kernels_keys, tuple(kept)))

    def _take(self, problem: Problem, start: int, known: dict[int, int]) -> dict[int, int]:
        """Count in a problem from an instant on; the keys of its buffers."""
        keys = dict(known)
        for buffer in problem.buffers:
            live = [(first + start, last + start) for first, last in buffer.live]
            key = known.get(buffer.key)
            if key is None:
                keys[buffer.key] = len(self.carried) + len(self.buffers)
                self.buffers.append(replace(buffer, key=keys[buffer.key], live=tuple(live)))
                continue
            self.lives[key] += live
            self.sizes[key] = max(self.sizes[key], buffer.size)
            self.alignments[key] = max(self.alignments[key], buffer.alignment)
        for s in problem.shares:
            moved = replace(s, instruction=s.instruction + start, operand=keys[s.operand], result=keys[s.result])
            self.shares.append(moved)
        return keys

    def problem(self) -> Problem:
        """All of it."""
        return Problem(self.buffers, shares=self.shares)

    def beside(self, planned: Sequence[Planned]) -> int:
        """The most bytes of workspaces, planned one after another, and of what lies beside them."""
        most = 0
        for number, found in enumerate(planned):
            workspace = found.workspace or Workspace(0, (), ())
            inside = {n: None for n, place in enumerate((*workspace.inputs, *workspace.outputs)) if place is not None}
            size = workspace.size
            for key, carried in enumerate(self.carried):
                if number in carried.kept or (number in carried.places and carried.places[number] not in inside):
                    size += align_up(self.sizes[key], 16)
            most = max(most, size)
        for number in range(1, len(planned)):
            sizes = [found.workspace.size for found in planned[number - 1 : number + 1] if found.workspace is not None]
            most = max(most, max(sizes, default=0) + self._meeting(number, planned))
        return most

    def _meeting(self, number: int, planned: Sequence[Planned]) -> int:
        """Bytes of what lives before a link at places that are another's: the input of an operator of the kernels that
        stands between two delegates, and its result. One of two lies beside the workspaces.
        """
        placed: list[tuple[int, int, int, int]] = []
        meeting = 0
        for key, carried in enumerate(self.carried):
            if number not in carried.gaps or not carried.places:
                continue
            link, argument = next(iter(carried.places.items()))
            workspace = planned[link].workspace
            start = None if workspace is None else workspace.places.get(argument)
            if start is None:
                continue
            end = start + align_up(self.sizes[key], 16)
            first, last = carried.gaps[number]
            if any(
                start < other_end and other < end and first <= other_last and other_first <= last
                for other, other_end, other_first, other_last in placed
            ):
                meeting += end - start
            placed.append((start, end, first, last))
        return meeting

    def write(self, offsets: dict[int, int]) -> list[Planned]:
        """Write the places down in code and kernels."""
        found: list[Planned] = []
        for part in self.parts:
            code = {key: offsets[other] for key, other in part.code_keys.items()}
            kernels = {key: offsets[other] for key, other in part.kernels_keys.items()}
            buffers = sum(isinstance(op, BufferOp) for op in part.link.func.body.block.ops)
            around: Around = [code.get(buffers + number, APART) for number in range(len(part.around))]
            sizes = _end(part.code, code), _end(part.kernels, kernels)
            made = Joint(*sizes, code, kernels, around).write(part.link.func, part.link.kernels)
            kept = sorted((offsets[key], self.sizes[key]) for key in part.kept)
            inside = tuple((at, size) for at, size in kept if at < made.size)
            size = max([made.size, *(align_up(at + size, 16) for at, size in inside)])
            made = replace(made, size=size, kept=inside)
            _check(part, code, kernels, made)
            found.append(Planned(sizes[0], made))
        return found


def plan_chain(
    links: Sequence[Link],
    frame: Frame,
    planned: Sequence[Planned],
    room: int | None = None,
    most: int | None = None,
) -> list[Planned] | None:
    """The delegates of a block planned as one, where that needs less than ``planned``, one after another, and less than
    ``most``; else None.

    ``room`` are the bytes that are looked for longer: what the method is to need at most.
    """
    chain = Chain(links, frame)
    if not chain.carried or len(chain.buffers) > MOST_BUFFERS or any(found.workspace is None for found in planned):
        return None
    problem = chain.problem()
    most = min(chain.beside(planned), sys.maxsize if most is None else most)
    if lower_bound(problem)[1].bytes >= most:
        return None
    try:
        made = plan(problem)
        if room is not None and most > room and made.pool_sizes[1] > room:
            made = within(problem, room) or made
    except EtirError as error:
        if E0703.id not in error.ids:
            raise
        return None
    return chain.write(made.offsets) if made.pool_sizes[1] < most else None


def _end(problem: Problem, places: dict[int, int]) -> int:
    """The bytes up to the last one that a program needs."""
    return max((align_up(places[buffer.key] + buffer.size, 16) for buffer in problem.buffers), default=0)


def _check(part: _Part, code: dict[int, int], kernels: dict[int, int], made: Workspace) -> None:
    """Raises E0703 where something is in the way of what is kept: the plan of the planner is not taken on trust."""
    for problem, places in ((part.code, code), (part.kernels, kernels)):
        for buffer in problem.buffers:
            start = places[buffer.key]
            if any(start < at + size and at < start + buffer.size for at, size in made.kept):
                raise E0703.error(f"{buffer} of @{part.link.name} is where the method keeps a tensor")
