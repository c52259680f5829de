"""Torch's guards: which of them the declared ranges imply, so that no assertion is needed."""

from __future__ import annotations

import itertools
import operator

import pytest

from etir.dialects.sym.expr import as_expr, symbol
from etir.lowering.import_fx.guards import _holds

COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


@pytest.mark.parametrize("name", COMPARISONS)
def test_only_what_all_sizes_fulfil_is_left_out(name: str) -> None:
    """Against every size in every range around every number; a range without an end is a long one."""
    x = symbol("x")
    for low, width, number in itertools.product(range(2, 6), (0, 1, 2, None), range(1, 9)):
        high = None if width is None else low + width
        sizes = range(low, (low + 20 if high is None else high) + 1)
        expected = all(COMPARISONS[name](size, number) for size in sizes)
        assert _holds(name, x, as_expr(number), {"x": (low, high)}) == expected, (low, high, number)
