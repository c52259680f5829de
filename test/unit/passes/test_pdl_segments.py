"""How operands of a PDL pattern's new operation spread over the tensor arguments of its schema."""

from __future__ import annotations

import pytest

from etir.dialects.aten.base import aten_op
from etir.passes.infra.pdl_patterns import default_segments


@pytest.mark.parametrize(
    ("name", "count", "literals", "expected"),
    [
        ("aten.add.Tensor", 2, (), (1, 1, 0)),
        ("aten.add.Tensor", 1, ("other",), (1, 0, 0)),
        ("aten.add.Tensor", 1, (), None),
        ("aten.add.Tensor", 3, (), None),
        # A list takes what is left, which may be nothing.
        ("aten.cat.default", 3, (), (3, 0)),
        ("aten.cat.default", 0, (), (0, 0)),
        ("aten.index.Tensor", 1, (), (1, 0)),
        ("aten.index.Tensor", 3, (), (1, 2)),
        # Optional ones are filled in order.
        ("aten.linear.default", 2, (), (1, 1, 0)),
        ("aten.linear.default", 3, (), (1, 1, 1)),
        ("aten.layer_norm.default", 2, (), (1, 0, 1, 0, 0, 0)),
    ],
)
def test_segments(name: str, count: int, literals: tuple[str, ...], expected: tuple[int, ...] | None) -> None:
    assert default_segments(aten_op(name).SCHEMA, count, literals) == expected
