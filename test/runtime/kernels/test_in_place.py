"""Kernels that say they work in place: the same bits with the result over the operand as with memory of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from etir.dialects.schema import Kind, parse_schema
from etir.passes.analysis.moves import MOVES

from etir_testing.runtime.in_place_calls import in_place_calls, same_bits, statistic
from etir_testing.runtime.kernels import KernelFailure, build_kernels, manifest

ROWS = {
    name: row
    for name, row in manifest().items()
    if row.get("in_place")
    and name not in MOVES
    and not any(a.is_list and a.kind is Kind.TENSOR for a in parse_schema(row["schema"]).arguments)
}
"""What joins or splits tensors is in ``test/interop/test_in_place_lists.py``, what moves elements in
``test_copy_in_place.py``.
"""


def test_there_are_rows() -> None:
    """What most models are made of is among them."""
    for name in (
        "add.out",
        "mul.out",
        "relu.out",
        "clamp.out",
        "sigmoid.out",
        "gelu.out",
        "_softmax.out",
        "native_group_norm.out",
    ):
        assert f"aten::{name}" in ROWS


@pytest.mark.parametrize("name", ROWS)
def test_in_place_bit_for_bit(name: str) -> None:
    """Every operand of the row, in all dtypes, shapes and orders that the kernel takes; at least one of each."""
    kernels: Any = build_kernels()
    schema = parse_schema(ROWS[name]["schema"])
    results = [a for a in schema.arguments if a.is_write and a.kwarg_only]
    ran = dict.fromkeys(ROWS[name]["in_place"], 0)
    for call in in_place_calls(schema, ROWS[name]["in_place"]):
        likes = [call.operand, *(statistic(schema.name, call) for _ in results[1:])]
        try:
            apart = kernels.call(name, call.arguments, likes)
        except KernelFailure:
            continue
        copies = {id(a): a.clone() for a in call.arguments if isinstance(a, torch.Tensor)}
        given = [copies.get(id(a), a) for a in call.arguments]
        together = kernels.call(name, given, likes, over=call.over)
        assert all(map(same_bits, together, apart)), call.text
        ran[[a.name for a in schema.arguments][call.over]] += 1
    assert all(ran.values()), ran
