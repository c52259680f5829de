"""What a program asserts about its sizes, and sizes for which that holds.

A decomposition of torch that is recorded with symbols may ask how sizes compare. What the program checks when it is
called (``sym.assert``, which import makes of torch's guards) needs no asking; the sizes that stand for the symbols
while it is recorded are ones that a call may have.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, OpResult

from etir.diagnostics import EtirError
from etir.dialects.sym.expr import SymExpr, as_expr
from etir.dialects.sym.ops import ArithmeticOp, AssertOp
from etir.lowering.build.sizes import dim_of

Ranges = Mapping[str, tuple[int, int | None]]

RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

_TRIES = 2000
"""How many assignments of sizes are tried."""


@dataclass(frozen=True)
class Fact:
    """``left <relation> right``, for the sizes of every call."""

    relation: str
    left: SymExpr
    right: SymExpr

    @property
    def symbols(self) -> tuple[str, ...]:
        """All symbols of both sides."""
        return (*self.left.symbols, *self.right.symbols)

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for sizes."""
        try:
            left, right = (int(side.substitute(sizes)) for side in (self.left, self.right))
        except EtirError:  # A division by zero.
            return False
        return RELATIONS[self.relation](left, right)


def known_facts(op: Operation) -> tuple[Fact, ...]:
    """What the method that ``op`` is in asserts before it."""
    block = op.parent_block()
    while block is not None and (parent := block.parent_op()) is not None and parent.name != "func.func":
        block = parent.parent_block()
    found: dict[Fact, None] = {}
    for asserted in block.ops if block is not None else ():
        if not isinstance(asserted, AssertOp) or not isinstance(asserted.condition, OpResult):
            continue
        compared = asserted.condition.op
        if not isinstance(compared, ArithmeticOp) or compared.name.removeprefix("sym.") not in RELATIONS:
            continue
        sides = [dim_of(argument) for argument in compared.arguments]
        known = [as_expr(side) for side in sides if side is not None]
        if len(known) == 2:
            found[Fact(compared.name.removeprefix("sym."), known[0], known[1])] = None
    return tuple(found)


def range_of(name: str, ranges: Ranges) -> tuple[int, int]:
    """The sizes of a symbol, without the special ones 0 and 1 where it has others."""
    low, high = ranges.get(name, (2, None))
    low = max(low, 2)
    return low, max(high if high is not None else 2**31 - 1, low)


def choose_sizes(names: Sequence[str], ranges: Ranges, facts: Sequence[Fact]) -> dict[str, int]:
    """A size for each symbol, for which the facts hold where such sizes are found.

    They differ from one another, and none is a size of something else by chance, as far as the ranges allow.
    """
    spans = {name: range_of(name, ranges) for name in names}
    chosen: dict[str, int] = {}
    for low, high, name in sorted((high - low, high, name) for name, (low, high) in spans.items()):
        del low
        first = spans[name][0]
        wanted = min(first + 1009 + 2 * len(chosen), high)
        below = range(wanted, max(first, wanted - len(spans) - 1) - 1, -1)
        chosen[name] = next((size for size in below if size not in chosen.values()), wanted)
    if all(fact.holds(chosen) for fact in facts):
        return chosen
    source = random.Random(0)
    for _ in range(_TRIES):
        tried = {name: _drawn(source, *span) for name, span in spans.items()}
        if all(fact.holds(tried) for fact in facts):
            return tried
    return chosen


def _drawn(source: random.Random, low: int, high: int) -> int:
    """A size near to either end, or between."""
    reach = source.choice((2, 8, 64, 4096))
    return source.choice((min(high, low + source.randrange(reach)), max(low, high - source.randrange(reach))))
