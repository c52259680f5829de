"""The table of operators: a part of it in each run, and what the table itself has to be like."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from etir_testing import TESTS
from etir_testing.operators import arguments
from etir_testing.operators.calls import OperatorCall, decoded, encoded
from etir_testing.operators.document import PAGE, page
from etir_testing.operators.listing import operators
from etir_testing.operators.table import Row, is_internal, outcome, problems, reasons, rows
from etir_testing.opinfo.op_stages import Outcome
from etir_testing.selection import part_of, tree_digest

PARTS = 40
"""Which of so many parts of the table is checked is a matter of the content of the tree."""

TABLE = rows()


def test_every_operator_of_torch_is_listed() -> None:
    assert tuple(TABLE) == operators()


def test_operators_without_a_program_have_a_reason() -> None:
    """Each reason is one of those that are explained."""
    assert {row.reason for row in TABLE.values() if row.reason} <= reasons().keys()
    assert not [name for name, row in TABLE.items() if row.call is None and not row.reason]


@pytest.mark.parametrize("name", part_of([n for n, r in TABLE.items() if r.call], tree_digest(TESTS.parent), PARTS))
def test_operators(name: str) -> None:
    """A program of the operator alone agrees with eager, or stops as the table says; never with an internal error."""
    call = TABLE[name].call
    assert call is not None
    assert problems([outcome(name, call)], TABLE) == []


def test_the_page_is_current() -> None:
    """``python test/operator_table.py --stock --write`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page(TABLE, reasons(), torch.__version__.split("+")[0])


def test_no_operator_is_left_unlooked_at() -> None:
    assert [name for name, row in TABLE.items() if row.reason in ("no arguments", "open")] == []


# --- the harness ------------------------------------------------------------------------------------------------------


def test_calls_are_text_and_back() -> None:
    tensors = [torch.tensor([1.5, -2.0]), torch.tensor([[0, 3]]), torch.rand(3, 5), torch.zeros(2, 0)]
    call = encoded([tensors, torch.float64, "mean", None, [1, True]], {"memory_format": torch.channels_last})
    assert call.args[0] == ["float32[2]=1.5,-2", "int64[1,2]=0,3", "float32[3,5]+", "float32[2,0]"]
    args, kwargs = decoded("aten.add.Tensor", call)
    assert [t.shape for t in args[0]] == [t.shape for t in tensors] and torch.equal(args[0][1], tensors[1])
    assert args[1:] == [torch.float64, "mean", None, [1, True]] and kwargs == {"memory_format": torch.channels_last}
    assert torch.equal(decoded("aten.add.Tensor", call)[0][0][2], args[0][2])


def test_samples_show_operators_of_every_kind() -> None:
    """A composite operator, what it is made of, and a gradient."""
    found = {
        name
        for source in arguments.sources()
        if source.startswith(("nn.functional.silu.", "nn.functional.linear."))
        for name in arguments.recorded(source)
    }
    assert {"aten.silu.default", "aten.silu_backward.default", "aten.linear.default", "aten.addmm.default"} <= found


def test_problems_are_told() -> None:
    call = OperatorCall((), {})
    table = {"a": Row(call), "b": Row(call, "sparse"), "c": Row(call, "no program")}
    good = Outcome("a", "float32", "()", "ok")
    assert problems([good, replace(good, entry="b", stage="link", message="E0601 no")], table) == []
    assert problems([replace(good, entry="c", stage="export")], table) == []
    assert problems([replace(good, entry="b")], table) == ["b runs, but the table says: sparse"]
    assert problems([replace(good, stage="match", message="off")], table) == ["a() stops at match: off"]
    broken = replace(good, entry="b", stage="compile", message="driver.py:1 in run: KeyError: 'x'")
    assert is_internal(broken) and problems([broken], table)[0].startswith("internal error")
    assert is_internal(replace(good, stage="decompose", message="E0505 a pass failed"))
    assert problems([replace(good, entry="c", stage="link")], table)
