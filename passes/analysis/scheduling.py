"""Ordering instructions so that fewer bytes are live at once.

A straight run of instructions is given as which buffers each touches and which instructions it has to come after. The
search starts at the instruction where most bytes are live and looks at the buffers that are there without being
touched: what makes one of them may come later (*sinking*, with what only serves to make it), or what uses it for the
last time may come earlier (*hoisting*). A move is kept when the peak gets lower, or is met at fewer instructions; then
the next peak is looked at. Of orders with equal peaks the program's own stays; of one with a lower peak, what only
frees memory comes as early as it can.

Finding the best order is NP-complete already for trees of which results are used twice (Sethi 1975, "Complete register
allocation problems"). The moves are those that the programs of neural networks need: a projection long before the
product that reads it, a state that is stored long after it is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

DEFAULT_WORK = 400_000
"""Touches of buffers looked at before giving up: a fifth of a second or so, however long the run."""

LARGEST_MOVE = 64
"""Instructions that move together at most."""


@dataclass(frozen=True)
class Run:
    """Instructions 0 to n - 1 in the program's order.

    ``touches`` has for each the buffers that it reads or writes, ``after`` the instructions that it depends on. Buffers
    are numbers; ``sizes`` has their bytes, ``born`` and ``dies`` say whether one is filled for the first and needed for
    the last time in the run. ``over`` has for an instruction the pairs of an operand and a result that may be the same
    bytes there.
    """

    touches: Sequence[Sequence[int]]
    after: Sequence[Sequence[int]]
    sizes: Sequence[int]
    born: Sequence[bool]
    dies: Sequence[bool]
    over: dict[int, list[tuple[int, int]]]

    @cached_property
    def before(self) -> list[list[int]]:
        """The instructions that depend on each."""
        found: list[list[int]] = [[] for _ in self.after]
        for index, others in enumerate(self.after):
            for other in others:
                found[other].append(index)
        return found

    @cached_property
    def touching(self) -> list[list[int]]:
        """The instructions that touch each buffer."""
        found: list[list[int]] = [[] for _ in self.sizes]
        for index, buffers in enumerate(self.touches):
            for buffer in buffers:
                found[buffer].append(index)
        return found


class _Profile:
    """The bytes that are live at each place of an order."""

    def __init__(self, run: Run, order: Sequence[int]) -> None:
        self.order = order
        self.sizes = run.sizes
        self.place = [0] * len(order)
        for place, index in enumerate(order):
            self.place[index] = place
        self.first = [len(order)] * len(run.sizes)
        self.last = [-1] * len(run.sizes)
        end = len(order) - 1
        change = [0] * (len(order) + 1)
        for buffer, touching in enumerate(run.touching):
            if not touching:
                continue
            places = [self.place[index] for index in touching]
            first = self.first[buffer] = min(places) if run.born[buffer] else 0
            last = self.last[buffer] = max(places) if run.dies[buffer] else end
            change[first] += run.sizes[buffer]
            change[last + 1] -= run.sizes[buffer]
        self.live: list[int] = []
        live = 0
        for amount in change[:-1]:
            live += amount
            self.live.append(live)
        for index, pairs in run.over.items():
            place = self.place[index]
            saved: dict[int, int] = {}
            for operand, result in pairs:
                if self.last[operand] == place and self.first[result] == place and run.dies[operand]:
                    saved[result] = saved.get(result, 0) + min(run.sizes[operand], run.sizes[result])
            self.live[place] -= sum(min(size, run.sizes[result]) for result, size in saved.items())
        self.peak = max(self.live, default=0)
        self.height = (self.peak, self.live.count(self.peak))

    def valley(self, after: int, until: int) -> int:
        """The place after one, and until another one, before which fewest bytes are live: the last of several."""
        change = [0] * (until - after + 1)
        for buffer, size in enumerate(self.sizes):
            # Bytes are live before the places after the first one, to the last one.
            first, last = max(self.first[buffer], after), min(self.last[buffer], until)
            if first < last:
                change[first - after] += size
                change[last - after] -= size
        before = list(accumulate(change))
        return max(range(after + 1, until + 1), key=lambda place: (-before[place - after - 1], place))


def lower_peak(run: Run, work: int = DEFAULT_WORK) -> list[int]:
    """An order in which the peak is lower; the program's own where none is found within ``work``."""
    own = best = _Profile(run, range(len(run.after)))
    cost = sum(map(len, run.touches)) + len(run.after)
    while work >= cost:
        peak = next((p for p, live in enumerate(best.live) if live == best.peak), None)
        if peak is None:
            break
        better = None
        for order in _moves(run, best, peak):
            tried = _Profile(run, order)
            work -= cost
            if tried.height < best.height:
                better = tried
                break
            if work < cost:
                break
        if better is None:
            # Where nothing helps at one of several equal peaks, nothing is gained by lowering the others.
            break
        best = better
    return _freed_early(run, best) if best.peak < own.peak else list(own.order)


def _freed_early(run: Run, now: _Profile) -> list[int]:
    """The order with what frees buffers and makes none, as the store of a state, as early as it can be.

    That takes memory nowhere, and what one plan has to leave alone around another one's memory (delegates) gets less.
    """
    end = len(now.order)
    order = list(now.order)
    for index in now.order:
        touched = [buffer for buffer in run.touches[index] if run.sizes[buffer]]
        at = now.place[index]
        frees = [b for b in touched if run.dies[b] and now.last[b] == at]
        if not frees or any(now.first[buffer] in (at, end) for buffer in touched):
            continue
        order.remove(index)
        needed = [order.index(other) for other in run.after[index]]
        order.insert(max(needed, default=-1) + 1, index)
    return order


def _moves(run: Run, now: _Profile, peak: int) -> Iterator[list[int]]:
    """Orders that may have fewer bytes at the peak, those that move the largest buffer first."""
    touched = dict.fromkeys(run.touches[now.order[peak]])
    waiting = [b for b, size in enumerate(run.sizes) if size and now.first[b] < peak < now.last[b] and b not in touched]
    for buffer in sorted(waiting, key=lambda b: (-run.sizes[b], b)):
        if run.born[buffer]:
            yield from _sunk(run, now, peak, buffer)
        if run.dies[buffer]:
            yield from _hoisted(run, now, peak, buffer)
    for buffer in sorted(touched, key=lambda b: (-run.sizes[b], b)):
        # What the instruction at the peak makes may be made later.
        if now.first[buffer] == peak and run.born[buffer]:
            yield from _sunk(run, now, peak, buffer)
    # Right before the use there may be more than a little earlier, as another operand of it that has been expanded.
    for buffer in sorted(waiting, key=lambda b: (-run.sizes[b], b)):
        if run.born[buffer]:
            yield from _sunk(run, now, peak, buffer, to_valley=True)


def _sunk(run: Run, now: _Profile, peak: int, buffer: int, *, to_valley: bool = False) -> Iterator[list[int]]:
    """Orders with what makes a buffer right before the first use after the peak, or where fewest bytes are live between
    the two (``to_valley``).

    First with all that serves nothing else, whose operands would only live longer, then with less and less of that: a
    tensor that is expanded late is small for longer.
    """
    place = now.place
    chain = dict.fromkeys(index for index in run.touching[buffer] if place[index] <= peak)
    stages = [list(chain)]
    while stages[-1] and len(chain) <= LARGEST_MOVE:
        makers: dict[int, None] = {}
        for index in stages[-1]:
            for other in run.touches[index]:
                if not run.born[other] or not run.dies[other] or now.last[other] > peak or run.sizes[other] == 0:
                    continue
                found = [i for i in run.touching[other] if i not in chain]
                if all(place[i] <= place[index] for i in found):
                    makers |= dict.fromkeys(found)
        chain |= makers
        stages.append(list(makers))
    for depth in range(len(stages) - 1, 0, -1):
        moved = dict.fromkeys(index for stage in stages[:depth] for index in stage)
        users = [place[i] for index in moved for i in run.before[index] if i not in moved]
        target = min(users, default=len(now.order))
        if target <= peak or len(moved) > LARGEST_MOVE:
            continue
        at = now.valley(peak, target) if to_valley else target
        if not to_valley or at != target:
            yield _moved(now, moved, at)


def _hoisted(run: Run, now: _Profile, peak: int, buffer: int) -> Iterator[list[int]]:
    """The order with the uses of a buffer after the peak as early as they can be."""
    place = now.place
    moved = dict.fromkeys(index for index in run.touching[buffer] if place[index] > peak)
    pending = list(moved)
    while pending and len(moved) <= LARGEST_MOVE:
        # What a use needs and is not there at the peak has to come along.
        for other in run.after[pending.pop()]:
            if other not in moved and place[other] >= peak:
                moved[other] = None
                pending.append(other)
    if not moved or len(moved) > LARGEST_MOVE or now.order[peak] in moved:
        return
    needed = [place[other] for index in moved for other in run.after[index] if other not in moved]
    yield _moved(now, moved, max(needed, default=-1) + 1)


def _moved(now: _Profile, moved: dict[int, None], target: int) -> list[int]:
    """The order with some instructions, in the same order, before what is at a place now."""
    rest = [index for index in now.order if index not in moved]
    at = sum(1 for index in rest if now.place[index] < target)
    return [*rest[:at], *sorted(moved, key=now.place.__getitem__), *rest[at:]]
