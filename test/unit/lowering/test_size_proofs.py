"""Comparisons of sizes that hold for all sizes in their ranges, against all of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Mod
from torch.utils._sympy.value_ranges import ValueRanges

from etir.dialects.context import EtContext
from etir.dialects.sym.expr import symbol
from etir.dialects.text import parse_module
from etir.lowering.decompose_aten.size_facts import Fact, choose_sizes, known_facts
from etir.lowering.decompose_aten.size_proofs import always_holds

S, T, U = (sympy.Symbol(name, integer=True, positive=True) for name in "stu")
RANGES: dict[Any, Any] = {S: ValueRanges(2, 9), T: ValueRanges(2, 7), U: ValueRanges(3, 6)}

ASKED = [
    (S * sympy.Min(T, U) > S, True),
    (sympy.Ne(Mod(S, S * (FloorDiv(T, 2) + 1)), 0), True),
    (S * T > 3, True),
    (S * T > 4, False),
    (sympy.Ne(S, T), False),
    (sympy.Ne(S, T + 9), True),
    (S * U >= S + S, True),
    (T <= S + 5, True),
    (T <= S + 4, False),
    (sympy.Ne(Mod(S, 4), 0), False),
    (sympy.Eq(S, T), False),
    # An even number of factors below zero, and factors whose signs are not known.
    ((1 - S) * (1 - T) > 0, True),
    ((S - 4) * (T - 4) > 0, False),
    ((S - 4) * (T - 4) >= 0, False),
    ((S - 4) * (1 - T) <= 0, False),
]


@pytest.mark.parametrize(("asked", "holds"), ASKED, ids=str)
def test_against_all_sizes(asked: Any, holds: bool) -> None:
    assert always_holds(asked, RANGES) == holds
    spans = [range(int(RANGES[s].lower), int(RANGES[s].upper) + 1) for s in (S, T, U)]
    every = all(bool(asked.subs(dict(zip((S, T, U), sizes, strict=True)))) for sizes in itertools.product(*spans))
    assert every == holds


def test_sizes_for_which_facts_hold() -> None:
    a, b, c = (symbol(name) for name in "abc")
    ranges = {"a": (2, 14), "b": (2, 14), "c": (2, None)}
    assert len(set(choose_sizes("abc", ranges, ()).values())) == 3
    facts = (Fact("le", a + 3, b), Fact("eq", c % 4, symbol("a") * 0), Fact("gt", a * b, c))
    sizes = choose_sizes("abc", ranges, facts)
    assert all(fact.holds(sizes) for fact in facts)


INSIDE = """
sym.dim @n in [1, 9]
sym.dim @m in [1, 9]
func.func @forward(%p: i1, %x: tensor<?xf32, #et.layout<dims = [n]>>, %y: tensor<?xf32, #et.layout<dims = [m]>>) {
  %n = aten.sym_size.int(%x, dim = 0) : (tensor<?xf32, #et.layout<dims = [n]>>) -> i64
  %m = aten.sym_size.int(%y, dim = 0) : (tensor<?xf32, #et.layout<dims = [m]>>) -> i64
  %holds = sym.le %n, %m : (i64, i64) -> i1
  sym.assert %holds, "n <= m"
  %r = control.cond %p : i1 -> (i64) {
    %a = aten.neg.default(%x) : (tensor<?xf32, #et.layout<dims = [n]>>) -> tensor<?xf32, #et.layout<dims = [n]>>
    control.yield %n : i64
  } else {
    control.yield %m : i64
  }
  func.return
}
"""


def test_facts_hold_in_regions_too() -> None:
    module = parse_module(INSIDE, EtContext())
    found = {op.name: known_facts(op) for op in module.walk() if op.name in ("control.cond", "aten.neg.default")}
    fact = Fact("le", symbol("n"), symbol("m"))
    assert found == {"control.cond": (fact,), "aten.neg.default": (fact,)}
