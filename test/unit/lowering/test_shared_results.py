"""Changes of results that share memory with an argument, for every operator of torch's table that has such results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from etir_testing import TESTS
from etir_testing.lowering.changes import Case, run_all
from etir_testing.operators.shared_results import Shared, find, shared
from etir_testing.operators.table import rows
from etir_testing.selection import part_of, tree_digest

SHARED = shared()

PARTS = 100
"""Which of so many parts of torch's table is looked at again is a matter of the content of the tree."""

REFUSED = {
    "aten._unpack_dual.default": "it is not known how to put the change back",
    "aten.unfold.default": "its windows overlap",
}
"""Operators whose results cannot be changed, and what the error says."""

EXPORTED_AS_COPIES = {"aten.lift_fresh.default"}
"""What export records otherwise than eager mode runs it."""


def change(x: Tensor) -> Any:
    """Another value for every element."""
    return x.logical_not_() if x.dtype == torch.bool else x.add_(1)


def wrong(found: list[Shared]) -> dict[str, str]:
    """What is wrong, and not refused as :data:`REFUSED` says, by call."""
    cases = [
        Case(f"{one.label} {one.argument}, {one.result}", one.start(), one.change(change))
        for one in found
        if one.name not in EXPORTED_AS_COPIES
    ]
    problems = run_all(cases, rows=True)
    return {name: why for name, why in problems.items() if REFUSED.get(name.partition("(")[0], why + "none") not in why}


def test_results_that_no_schema_declares() -> None:
    """An operator that returns its argument itself for some calls: a change of the result is one of the argument."""
    hidden = [one for one in SHARED if one.hidden]
    assert {"aten.lift.default", "aten.to_dense.default", "aten.cartesian_prod.default"} <= {h.name for h in hidden}
    assert wrong(hidden) == {}


@pytest.mark.nightly
def test_declared_views() -> None:
    assert wrong([one for one in SHARED if not one.hidden]) == {}


@pytest.mark.parametrize("name", part_of([n for n, r in rows().items() if r.call], tree_digest(TESTS.parent), PARTS))
def test_the_list_is_complete(name: str) -> None:
    """``python -m etir_testing.operators.shared_results`` writes it."""
    assert find(name) == [one for one in SHARED if one.name == name]
