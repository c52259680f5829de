"""What code does without where it would need more memory than the kernels.

Code is planned as quick as it can be first. If it then needs more than the kernels that it stands in for, the savings
are tried, what costs least time first; each that lowers the plan is kept, until it is low enough, and at last those
that do so together:

* ``masks``: what is made of truth values and constants alone is made again for each reader.
* ``order``: steps are done in an order in which less is needed at once (``tile-order``).
* ``sums``: branches that are added up add to the ones before, one after another (``sums.py``).
* ``rows``: images go by rows even where a cache would hold them (``tile-rows``), if the rows that are kept take less.
* ``over``: what an elementwise operator can write over its own operand does not go by rows with what reads it.
* ``straight``: what is joined and then copied as a whole is written to where it is copied (``tile-forward``); so are
  rows of a product that are pixels of an image which is joined.
* ``parts``: what is read and joined to others as well, as the states of a recurrent layer, is written to its part of
  the whole, which then lives from the first of them on.
* ``joins``: what is joined to others twice is joined in memory of its own first, as the states of one direction: the
  larger whole lives from the second time on.
* ``shared``: images are written to where they are joined, whoever reads them besides, and a join is the part of a
  larger one that has the same images side by side, as in dense blocks.
* ``columns``: a product whose columns are read apart, as queries, keys and values that are copied, is several
  (``tile-columns``).
* ``inside``: what an elementwise operator makes of a part of a buffer is written into that part (``tile-inside``).
* ``pieces``: what is read on of a buffer where most memory is needed is copied, and the rest of it gone
  (``tile-pieces``).
* ``heads``: batches of matrices, as heads of several examples, are read where they lie, side by side in each row.
* ``blocks``: attention goes by blocks of few rows (``tile-attention``).
* ``slots``: attention that is small as a whole has scores of few rows for one thread.
* ``fused``: what is made of less than it is, as a mask of keys and rows, is made in what reads it (``tile-fuse``).
* ``deep``: products of a depth of up to 1,024, and their taps, are not cut, so that the result may lie over what its
  body reads. Sums can begin with what is only added, whatever the depth (``kernels/sums.py``).
* ``dense``: large buffers begin at multiples of 16 bytes, no longer of a line of the cache.
* ``close``: rows of a multiple of 4 KiB lie side by side, although a cache has few places for those that do.
* ``unjoined``: a convolution of few images that are joined for it alone adds up those of each of them.
* ``planes``: products and resizes write planes that the program gives back (``tile-forward``), whoever reads the image
  besides, and products read what they add to their sums of planes, so that no image with its channels side by side is
  there beside them; pools, and windows for each channel, go by rows of planes (``tile-rows``), one thread those of a
  small image.
* ``residuals``: images that products add to such planes are planes, too, and what is added to these: as for images with
  their channels side by side, a sum may lie over what is added.
* images of at least so many bytes have no border, and are read in parts, each with the taps that are in the image.
* ``panels``: products of many rows read their right operand as it lies, too (``tile-few-rows``).
* ``tiles``: what is transformed for Winograd's algorithm (``lowering/winograd.py``) is as many rows of tiles at a time
  as there is room for; borders are tried again then, and a row of tiles at a time if that is not enough. It comes first
  where most memory is needed for transformed tiles: nothing else makes them smaller. In a large function, the savings
  above then come after the next one.
* ``fitting``: images are transformed where there is room for their tiles alone, a few at a time; without borders, too.
* images of at least so many bytes are not transformed, and have no border either.
* what is joined, or lies in a border, and has at least so many bytes is made in memory of its own first, and copied
  when all of it is there: the whole lives from then on, and steps that need most by themselves can be done before.

Since the last ones can make one of the first ones help, those are tried again then. The attributes ``native.saves``,
``native.cut``, ``native.direct``, ``native.late`` and ``native.room`` of the function have the choice, in text, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, StringAttr, TensorType, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from etir.backends.api.interface import Outlined
from etir.backends.api.memory import PlansOnly
from etir.backends.native.asked import watched
from etir.backends.native.compile import free_places, kernels_of, lowered_function, processors, rewritten_function
from etir.backends.native.frame import Around, Frame
from etir.backends.native.functions import CUT, DIRECT, FITTING, LATE, PLANES, RESIDUALS, ROOM, SAVES, saved
from etir.backends.native.loop import PartsOp
from etir.backends.native.lowering.function import is_join
from etir.backends.native.made import keep_made
from etir.backends.native.need import bound_of
from etir.backends.native.over import pairs_of
from etir.backends.native.passes.tile_forward import is_copy
from etir.backends.native.passes.tile_plan import problem_of
from etir.backends.native.sizes import Undecided
from etir.backends.native.thresholds import MOST_LATE, cut_sizes, late_sizes, some_of
from etir.backends.native.tile import MapOp, SoftmaxOp
from etir.backends.native.tried import Base, Key, Known, Tried
from etir.backends.native.winograd import WinogradInputOp, WinogradOp
from etir.diagnostics import EtirError
from etir.dialects.copying import copy_of, described
from etir.dialects.et.workspace import APART
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of
from etir.passes.analysis.planning.algorithms import plan

QUICK = (
    "masks",
    "order",
    "sums",
    "rows",
    "over",
    "straight",
    "parts",
    "joins",
    "shared",
    "columns",
    "inside",
    "pieces",
    "heads",
    "blocks",
    "slots",
    "fused",
    "deep",
    "dense",
    "close",
    "unjoined",
    PLANES,
    RESIDUALS,
)
CHOSEN = (CUT, DIRECT, LATE, ROOM, SAVES)
"""The attributes that have the choice."""
TILES = "tiles"
LOWERED = frozenset(
    ("masks", "sums", "parts", "joins", "shared", "heads", "close", "unjoined", PLANES, RESIDUALS, TILES, FITTING)
)
"""Savings that decide what an operator is lowered to; others are rewrites of ``tile``."""
MOST_WORK = 100_000
"""Operations of ``tile`` in all functions that are tried for one: nothing more is tried then, so that a large function
which no saving solves is planned in bounded time. It is counted, and not measured, since the same program gives the
same code everywhere.
"""
SOME_WORK = 6_000
"""As many of them where most memory is needed for transformed tiles, before images that are too large for that are not
transformed: in a large function, what else there is to try has the rest of the work after that.
"""


def choose_savings(outlined: Outlined, cpus: Sequence[str]) -> None:
    """Give a function of groups the attributes, or none, for the processors with these names.

    What cannot be lowered gets none; an error is said when code is made.
    """
    func = outlined.func
    for name in CHOSEN:
        func.attributes.pop(name, None)
    plans = outlined.ctx.attachments.get(PlansOnly)
    before: list[_Before] = [] if plans is None else plans.known.setdefault("savings", [])
    # Operators have numbers in their locations where no code is made: what is chosen does not depend on them.
    key = None if plans is None else (tuple(cpus), described(func, with_locations=False), plans.less)
    found = next((chosen for known, chosen in before if known == key), None)
    if found is None:
        try:
            choice = _Choice(outlined, cpus, 0 if plans is None else plans.less)
            choice.choose()
            choice.keep(outlined)
            if plans is not None:
                plans.effort.spent += choice.known.work
        except (EtirError, Undecided):
            for name in CHOSEN:
                func.attributes.pop(name, None)
        before.append((key, {name: func.attributes[name] for name in CHOSEN if name in func.attributes}))
    else:
        func.attributes.update(found)


_Before = tuple[object, Mapping[str, Attribute]]
"""Processors, a function and what it is to need less, and what was chosen when the program was planned before."""


class _Choice:
    """A function, what it needs as it is, and what it may need."""

    def __init__(self, outlined: Outlined, cpus: Sequence[str], less: int = 0) -> None:
        self.func = outlined.func
        self.target = processors(cpus)[0]
        self.lowered: dict[Key, tuple[FuncOp, Mapping[str, None]]] = {}
        self.pairs = pairs_of(self.func)
        self.is_transformed = False
        free = free_places(outlined, Frame(outlined.module))
        self.around: Around = [APART if place == APART else None for place in free]
        self.known = Known(self.around)
        self.last: Base | None = None
        self.least = self._arena()
        self.known.choose(self.last)
        self.is_late, self.is_put_off = True, False
        """Whether nothing has to wait for images that are not transformed, and whether something did."""
        self.kernels = kernels_of(outlined, self.around)
        self.most = self.kernels.plan_within(self.around).size - less

    def choose(self) -> None:
        """Try the savings in their order, and again what did not help before others did."""
        sizes, late = cut_sizes(self.func), late_sizes(self.func)
        if self.is_transformed:
            self._save(TILES, {ROOM: IntegerAttr(self.most, i64)})
        self.is_late = False
        self._borders(sizes)
        before = self.least
        self._save("panels")
        self._all()
        self.is_late = True
        if self.is_transformed:
            self._save(TILES, {ROOM: IntegerAttr(0, i64)})
            self._fitting(sizes)
            for least in some_of(sizes):
                self._try_both(IntegerAttr(least, i64))
        if self.is_put_off:
            self._borders(sizes)
        for least in some_of(late, MOST_LATE):
            self._late(IntegerAttr(least, i64), sizes)
        if self.least < before:
            self._quick()

    def _borders(self, sizes: Sequence[int]) -> None:
        """What leaves transformed tiles as they are: one after another, without borders, and together."""
        self._quick()
        self._cut(sizes)
        self._together(sizes)
        if sizes:
            self._together(sizes, {CUT: IntegerAttr(sizes[-1], i64)})

    def _is_done(self) -> bool:
        """Whether nothing more is to be tried: code needs little enough, or enough was tried, for now or at all."""
        if self.least <= self.most or self.known.work >= MOST_WORK:
            return True
        if self.is_late or not self.is_transformed or self.known.work < SOME_WORK:
            return False
        put_off = self.known.needs_tiles()
        self.is_put_off = self.is_put_off or put_off
        return put_off

    def keep(self, outlined: Outlined) -> None:
        """Leave what has been made for whoever makes code: the function of ``tile`` with what was chosen, if that was
        tried last, and the program for the kernels.
        """
        last = self.last
        func = last.func if last is not None and last.key == self._key() else None
        keep_made(outlined, self.target, func, self.kernels)

    def _quick(self) -> None:
        """What costs little. What did not help may do so once another saving has lowered a larger need."""
        before = None
        while before is None or self.least < before:
            before = self.least
            for name in QUICK:
                if name not in saved(self.func) and self._may_change(name):
                    self._save(name)

    def _may_change(self, name: str) -> bool:
        """Whether a saving can be of any use: there are masks, something is joined, or is made by several operations
        and copied; there is an attention, or what goes by rows.
        """
        if name == "masks":
            return any(_is_flags(v) for op in self.func.body.block.ops for v in op.operands)
        if name in ("parts", "joins", "shared"):
            return any(isinstance(op, SchemaOp) and is_join(op) for op in self.func.body.block.walk())
        if name == "straight":
            return any(isinstance(op, MapOp) and is_copy(op) for op in self._before().body.block.ops)
        if name in ("blocks", "slots"):
            return any(isinstance(op, SoftmaxOp) for op in self._before().body.block.ops)
        if name == "over":
            self._arena(0)  # What is chosen now may not have been tried by itself.
            return self._tried().has_parts
        return True

    def _together(self, sizes: Sequence[int], others: Mapping[str, Attribute] | None = None) -> None:
        """Savings that help with others only, and with other attributes: those that cost nothing alone are kept for a
        while, and at the end the ones without which the plan is as low are taken back.
        """
        attributes, is_transformed = dict(self.func.attributes), self.is_transformed
        is_new = others is None or any(attributes.get(name) != value for name, value in others.items())
        if not is_new or self._is_done():
            return
        before, least = self.least, self.least
        self.func.attributes.update(others or {})
        chosen = saved(self.func)
        for name in QUICK:
            names = saved(self.func)
            if name in names or least <= self.most or not self._may_change(name):
                continue
            if (arena := self._with((*names, name), least)) <= least:
                least = arena
            else:
                self._with(names)
        for name in [name for name in saved(self.func) if name not in chosen] if least < before else ():
            names = saved(self.func)
            if self._with([other for other in names if other != name], least) > least:
                self._with(names)
        if least < before:
            self.least = least
            self._without_cut(sizes)
        else:
            self.func.attributes.clear()
            self.func.attributes.update(attributes)
            self.is_transformed = is_transformed

    def _all(self) -> None:
        """All of them at once, ``panels`` as well, and then without those that are of no use."""
        if self._is_done():
            return
        attributes, is_transformed = dict(self.func.attributes), self.is_transformed
        chosen = saved(self.func)
        names = [*dict.fromkeys((*chosen, *(name for name in QUICK if self._may_change(name)), "panels"))]
        if (arena := self._with(names, self.least - 1)) >= self.least:
            self.func.attributes.clear()
            self.func.attributes.update(attributes)
            self.is_transformed = is_transformed
            return
        self.least = arena
        for name in [name for name in names if name not in chosen]:
            rest = [other for other in names if other != name]
            if (arena := self._with(rest, max(self.least, self.most))) <= max(self.least, self.most):
                self.least, names = arena, rest
            else:
                self._with(names)

    def _without_cut(self, sizes: Sequence[int]) -> None:
        """Give images their borders back, all or the smaller ones, if there is room for them by now."""
        cut = self.func.attributes.pop(CUT, None)
        if cut is None:
            return
        if (arena := self._arena()) <= max(self.least, self.most):
            self.least = arena
            return
        for least in some_of(sizes):
            self.func.attributes[CUT] = wider = IntegerAttr(least, i64)
            if wider == cut:
                return
            if (arena := self._arena()) <= max(self.least, self.most):
                self.least = arena
                return
        self.func.attributes[CUT] = cut

    def _cut(self, sizes: Sequence[int]) -> None:
        for least in some_of(sizes):
            self._try({CUT: IntegerAttr(least, i64)})

    def _try_both(self, least: IntegerAttr[IntegerType]) -> None:
        """Leave images of so many bytes as they are, without a border."""
        cut = self.func.attributes.get(CUT, least)
        assert isinstance(cut, IntegerAttr)
        self._try({DIRECT: least, CUT: min(cut, least, key=lambda attr: attr.value.data)})

    def _fitting(self, sizes: Sequence[int]) -> None:
        """Leave images as they are where there is no room for their tiles; without borders, too."""
        names = dict.fromkeys((*saved(self.func), TILES, FITTING))
        chosen = {SAVES: ArrayAttr([*map(StringAttr, names)]), ROOM: IntegerAttr(self.most, i64)}
        self._try(chosen)
        for least in some_of(sizes):
            self._try({**chosen, CUT: IntegerAttr(least, i64)})
        self._together(sizes, {**chosen, **({CUT: IntegerAttr(sizes[-1], i64)} if sizes else {})})

    def _save(self, name: str, others: Mapping[str, Attribute] | None = None) -> None:
        names = dict.fromkeys((*saved(self.func), name))
        self._try({SAVES: ArrayAttr([*map(StringAttr, names)]), **(others or {})})

    def _late(self, least: IntegerAttr[IntegerType], sizes: Sequence[int]) -> None:
        """Make the parts of what has so many bytes apart, in an order that may use it; without any border, too."""
        names = dict.fromkeys((*saved(self.func), "order"))
        late = {LATE: least, SAVES: ArrayAttr([*map(StringAttr, names)])}
        self._try(late)
        if sizes:
            # By rows, an image keeps the border that its other readers want.
            others = ArrayAttr([StringAttr(name) for name in names if name != "rows"])
            self._try({LATE: least, CUT: IntegerAttr(sizes[-1], i64), SAVES: others})

    def _with(self, names: Sequence[str], most: int | None = None) -> int:
        """Give the function these savings; what code needs then, or some number above ``most``."""
        self.func.attributes.pop(SAVES, None)
        if names:
            self.func.attributes[SAVES] = ArrayAttr([*map(StringAttr, names)])
        return 0 if most is None else self._arena(most + 1)

    def _try(self, attributes: Mapping[str, Attribute]) -> None:
        """Keep attributes if code needs less with them; nothing where it needs little enough already."""
        if self._is_done():
            return
        before = dict(self.func.attributes)
        self.func.attributes.update(attributes)
        is_transformed = self.is_transformed
        if (arena := self._arena(self.least)) < self.least:
            self.least = arena
            self.known.choose(self.last)
        else:
            self.is_transformed = is_transformed
            self.func.attributes.clear()
            self.func.attributes.update(before)

    def _arena(self, enough: int = sys.maxsize) -> int:
        """Bytes that code needs with the inputs and outputs that may be in its workspace; from ``enough`` on perhaps no
        more than what is there at once, which costs little to know.
        """
        tried = self._tried()
        self.is_transformed = tried.is_transformed
        if tried.waiting is not None and tried.arena < enough:
            tried.arena, tried.waiting = plan(tried.waiting).pool_sizes.get(1, 0), None
        return tried.arena

    def _tried(self) -> Tried:
        """What is known of the function as it is chosen now."""
        return self.known.look_up(self._key()) or self._made()

    def _made(self) -> Tried:
        """The function itself."""
        func = self._lowered()
        asked = watched(func)
        made = rewritten_function(func, self.func, self.target)
        problem = problem_of(made, self.around)
        self.last = Base(self._key(), made, self.pairs)
        ops = ops_of(made.body.block)
        is_transformed = any(isinstance(op, WinogradInputOp | WinogradOp) for op in ops)
        has_parts = any(isinstance(op, PartsOp) for op in ops)
        asked.update(self._asked_before())
        tried = Tried(bound_of(problem), is_transformed, has_parts, problem, len(ops), asked)
        self.known.add(self.last, tried)
        return tried

    def _key(self) -> Key:
        """What the function has chosen now."""
        rest = tuple(str(self.func.attributes.get(name)) for name in (CUT, DIRECT, LATE, ROOM))
        return frozenset(saved(self.func)), rest

    def _before(self) -> FuncOp:
        """The function of ``tile`` before its rewrites, lowered once for savings that lowering does not see."""
        names, rest = self._key()
        key = names & LOWERED, rest
        if key not in self.lowered:
            asked = watched(self.func)
            self.lowered[key] = lowered_function(self.func, self.target), asked
        return self.lowered[key][0]

    def _asked_before(self) -> Mapping[str, None]:
        """The savings that lowering has asked for."""
        names, rest = self._key()
        return self.lowered[names & LOWERED, rest][1]

    def _lowered(self) -> FuncOp:
        """A copy of it, with all savings that are chosen now."""
        func = copy_of(self._before())
        func.attributes.pop(SAVES, None)
        if SAVES in self.func.attributes:
            func.attributes[SAVES] = self.func.attributes[SAVES]
        return func


def _is_flags(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.element_type == i1
