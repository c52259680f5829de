"""Stock kernels that the manifest says work in place: the same bits with the result over the operand."""

from __future__ import annotations

import pytest

from etir.targets.manifest import load
from etir.tools.probe.runner import load_runtime

from etir_testing.interop.in_place_stock import Outcome, accepted, run_in_place

MANIFEST = load("executorch")
ROWS = [
    name
    for name, entry in MANIFEST.kernels.items()
    if entry.in_place and not any(a.is_list for a in entry.tensor_arguments)
]
"""What joins or splits tensors is in ``test_in_place_lists.py``."""


def test_there_are_rows() -> None:
    """What most models are made of is among them."""
    for name in ("add.out", "mul.out", "relu.out", "clamp.out", "sigmoid.out", "gelu.out"):
        assert f"aten::{name}" in ROWS


@pytest.mark.parametrize("name", ROWS)
def test_in_place_bit_for_bit(name: str) -> None:
    """Every operand of the row, in all dtypes, shapes and orders that the manifest takes; at least one of each."""
    entry = MANIFEST.kernels[name]
    runtime = load_runtime([library for library, always in MANIFEST.libraries.items() if not always])
    for operand in entry.in_place:
        calls = accepted(entry, [operand])
        outcomes = run_in_place(runtime, entry, calls)
        wrong = [call.text for call, outcome in zip(calls, outcomes, strict=True) if outcome is Outcome.DIFFERENT]
        assert not wrong
        assert Outcome.SAME in outcomes
