"""What is known of the savings that have been tried (``savings.py``), so that few of them have to be made.

To try a saving is to lower, rewrite and plan a function once more. Most find nothing to save on, which shows without
that: nobody has asked for them (``asked.py``), or what would ask finds nothing in a function that is there already.
Some change the plan only, of a function that is there, too. The last few functions are kept for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp

from etir.backends.native.frame import Around
from etir.backends.native.functions import SAVES
from etir.backends.native.need import Need, bound_of, need_of
from etir.backends.native.over import Pair
from etir.backends.native.passes.tile_inside import may_write_inside
from etir.backends.native.passes.tile_order import is_in_order
from etir.backends.native.passes.tile_pieces import may_copy_pieces
from etir.backends.native.passes.tile_plan import problem_of
from etir.backends.native.users import writers_of
from etir.backends.native.winograd import WinogradInputOp, WinogradOp
from etir.passes.analysis.planning.problem import Problem

PLANNED = frozenset(("deep", "dense"))
"""Savings that only the planner looks at, but where others decide by its plan (``BY_PLAN``)."""
BY_PLAN = frozenset(("order", "inside", "pieces"))
MOST_KEPT = 4
"""Functions that are kept: a search comes back to those that it has just made."""

Key = tuple[frozenset[str], tuple[str, ...]]
"""What a function has chosen: savings, and the other attributes."""


@dataclass
class Tried:
    """What code needs with some savings: its plan, or a bound of it as long as the problem is ``waiting``. Whether
    images are transformed for 3x3 windows, and whether something goes by parts, as rows. ``work`` is how many
    operations there are, and ``asked`` has the savings that make a difference (``asked.py``).
    """

    arena: int
    is_transformed: bool
    has_parts: bool
    waiting: Problem | None
    work: int
    asked: Mapping[str, None]


@dataclass(eq=False)
class Base:
    """A function of ``tile`` with what was chosen for it, and pairs of its inputs and outputs."""

    key: Key
    func: FuncOp
    pairs: Sequence[Pair]
    known: dict[str, bool] = field(default_factory=dict[str, bool])

    @cached_property
    def need(self) -> Need:
        """Where it needs most."""
        return need_of(self.func)

    @cached_property
    def needs_tiles(self) -> bool:
        """Whether images that are transformed are among what there is where it needs most."""
        buffers = [self.need.buffers[key] for key in self.need.there]
        return any(isinstance(op, WinogradInputOp | WinogradOp) for value in buffers for op in writers_of(value))

    def may_change(self, name: str) -> bool:
        """Whether one of ``BY_PLAN`` finds something in the function."""
        if name not in self.known:
            self.known[name] = self._finds(name, self.need)
        return self.known[name]

    def planned(self, key: Key, around: Around) -> Problem | None:
        """The problem of the function with more savings, those of ``PLANNED`` and ``BY_PLAN``; None where the latter
        find something to change by the plan of the former, or may have found it before.
        """
        if self.pairs or self.key[0] & BY_PLAN:
            return None
        func, attributes = self.func, dict(self.func.attributes)
        func.attributes[SAVES] = ArrayAttr([*map(StringAttr, sorted(key[0]))])
        by_plan = sorted(key[0] & BY_PLAN)
        need = need_of(func) if by_plan else None
        changes = need is not None and any(self._finds(name, need) for name in by_plan)
        problem = None if changes else problem_of(func, around)
        func.attributes.clear()
        func.attributes.update(attributes)
        return problem

    def _finds(self, name: str, need: Need) -> bool:
        if name == "order":
            return not is_in_order(self.func, self.pairs, need.problem)
        if self.pairs or self.key[0] & BY_PLAN:
            return True  # It has been rewritten further since these would have been.
        if name == "inside":
            return may_write_inside(self.func, need)
        return may_copy_pieces(self.func, need)


class Known:
    """What has been tried, and the last functions that were made for it."""

    def __init__(self, around: Around) -> None:
        self.around = around
        self.tried: dict[Key, Tried] = {}
        self.work = 0
        """Operations in all that was made or planned."""
        self._bases: dict[Key, Base] = {}
        self._kept: Base | None = None

    def look_up(self, key: Key) -> Tried | None:
        """What is known already, or can be found without making the function. None: it has to be made."""
        if key not in self.tried:
            if (same := self._same(key)) is not None:  # This takes no work.
                self.tried[key] = same
            elif (planned := self._planned(key)) is not None:
                self.tried[key] = planned
                self.work += planned.work
        return self.tried.get(key)

    def add(self, base: Base, tried: Tried) -> None:
        """A function that was made."""
        self.tried[base.key] = tried
        self.work += tried.work
        self._bases[base.key] = base
        while len(self._bases) > MOST_KEPT:
            del self._bases[next(iter(self._bases))]

    def needs_tiles(self) -> bool:
        """Whether the function with what is chosen needs most memory for transformed tiles."""
        return self._kept is not None and self._kept.needs_tiles

    def choose(self, base: Base | None) -> None:
        """Keep the function that has what is chosen now, whatever is made after it."""
        self._kept = base

    def _base(self, key: Key) -> Base | None:
        return self._kept if self._kept is not None and self._kept.key == key else self._bases.get(key)

    def _more(self, known: Key, key: Key) -> list[str] | None:
        """The savings that are new in a key and have been asked for; None where something else differs."""
        if known[1] != key[1] or not known[0] < key[0]:
            return None
        return [name for name in sorted(key[0] - known[0]) if name in self.tried[known].asked]

    def _same(self, key: Key) -> Tried | None:
        """What is known of the same function: with less to save on, and all the rest finds nothing in it, or with more
        for which nobody has asked.
        """
        for known, tried in self.tried.items():
            more = self._more(known, key)
            if more is not None and self._finds_nothing(known, more):
                return tried
            if known[1] == key[1] and key[0] < known[0] and (known[0] - key[0]).isdisjoint(tried.asked):
                return tried
        return None

    def _finds_nothing(self, key: Key, names: Sequence[str]) -> bool:
        """Whether more savings leave the function as it is, which shows without a copy of it."""
        if not names or not BY_PLAN.issuperset(names):
            return not names
        base = self._base(key)
        return base is not None and not any(base.may_change(name) for name in names)

    def _planned(self, key: Key) -> Tried | None:
        """The function is there, and only planned in another way."""
        if not key[0] & PLANNED:
            return None
        for base in dict.fromkeys(filter(None, (self._kept, *self._bases.values()))):
            more = self._more(base.key, key)
            if more is None or not (PLANNED | BY_PLAN).issuperset(more):
                continue
            if (problem := base.planned(key, self.around)) is not None:
                return replace(self.tried[base.key], arena=bound_of(problem), waiting=problem)
        return None
