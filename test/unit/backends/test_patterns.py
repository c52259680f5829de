"""Rows of patterns and conditions: what matches, and the reason for everything that does not."""

from __future__ import annotations

import pytest

from etir.backends.api import conditions as c
from etir.backends.api.patterns import ANY, Match, Row, Table, condition, op, rows
from etir.dialects.context import EtContext
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import parse_module

TEXT = """
sym.dim @s in [1, 8]
et.weight @w : tensor<4x8xf32> = #et.synthetic<seed = 1>
func.func @f(%x: tensor<2x8xf32>, %v: tensor<4x8xf32>, %h: tensor<2x8xf16>, %n: i64,
             %d: tensor<?x8xf32, #et.layout<dims = [s, 8]>>, %e: tensor<0x8xf32>) -> tensor<2x4xf32> {
  %w = et.get_weight @w : tensor<4x8xf32>
  %lin = edge.aten.linear.default(%x, %w) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %dyn = edge.aten.linear.default(%x, %v) : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32>
  %one = edge.aten.relu.default(%lin) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %two = edge.aten.relu.default(%dyn) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %add = edge.aten.add.Tensor(%dyn, %one, alpha = 2) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %half = edge.aten.abs.default(%h) : (tensor<2x8xf16>) -> tensor<2x8xf16>
  %any = edge.aten.abs.default(%d) : (tensor<?x8xf32, #et.layout<dims = [s, 8]>>)
    -> tensor<?x8xf32, #et.layout<dims = [s, 8]>>
  %none = edge.aten.abs.default(%e) : (tensor<0x8xf32>) -> tensor<0x8xf32>
  %view = edge.aten.view_copy.default(%x, size = [%n, 8]) : (tensor<2x8xf32>, i64) -> tensor<2x8xf32>
  %mean = edge.aten.mean.dim(%x, dim = [1], keepdim = true) : (tensor<2x8xf32>) -> tensor<2x1xf32>
  func.return %add : tensor<2x4xf32>
}
"""


@pytest.fixture(scope="module")
def ops() -> dict[str, SchemaOp]:
    """The operators of the function by the name of their result."""
    module = parse_module(TEXT, EtContext())
    found = {o.results[0].name_hint: o for o in module.walk() if isinstance(o, SchemaOp)}
    return {name: o for name, o in found.items() if name is not None}


@pytest.mark.parametrize(
    ("name", "wanted", "reason"),
    [
        ("half", c.dtypes("float32"), "dtype float16, takes float32"),
        ("any", c.static_shapes(), "dynamic shape"),
        ("none", c.not_empty(), "empty tensor"),
        ("dyn", c.constant("weight", "bias"), "'weight' is computed, not a weight"),
        ("view", c.literal("size"), "'size' is a runtime scalar"),
        ("add", c.given("alpha", 1), "alpha = 2, takes 1"),
        ("mean", c.rank("self", 4), "'self' has rank 2, takes rank 4"),
        ("mean", c.given("dim", (2, 3), (0,)), "dim = [1], takes [2, 3] or [0]"),
    ],
)
def test_conditions_say_why(ops: dict[str, SchemaOp], name: str, wanted: c.Condition, reason: str) -> None:
    table = Table([Row(op(ANY), (wanted,))])
    why = table.why_not(ops[name])
    assert why is not None
    assert why.startswith(reason)


def test_conditions_that_hold(ops: dict[str, SchemaOp]) -> None:
    held = (c.dtypes("float32"), c.same_dtype(), c.static_shapes(), c.not_empty(), c.contiguous(), c.constant("weight"))
    assert Table(rows(["aten.linear.default"], *held)).why_not(ops["lin"]) is None
    assert Table(rows(["aten.mean.dim"], c.rank("self", 1, 2), c.given("keepdim", True))).why_not(ops["mean"]) is None


def test_trees(ops: dict[str, SchemaOp]) -> None:
    """relu(linear) as one: only where nobody else uses the linear layer's result."""
    fused = Row(op("aten.relu.default", self=op("aten.linear.default", capture="linear")), label="linear + relu")
    found = Table([fused]).match(ops["one"])
    # %one's linear is used by it alone, %two's by the addition too.
    assert isinstance(found, tuple)
    assert found[1]["linear"] is ops["lin"]
    assert found[1].ops == (ops["one"], ops["lin"])
    assert Table([fused]).why_not(ops["two"]) == "'aten.linear.default' before it is also used by 'aten.add.Tensor'"
    assert Table([fused]).why_not(ops["add"]) == "no pattern has this operator at its root"
    for option in ("duplicable", "escaping"):
        row = Row(op("aten.relu.default", self=op("aten.linear.default", **{option: True})))
        assert Table([row]).why_not(ops["two"]) is None


def test_larger_patterns_first_and_the_nearest_answers(ops: dict[str, SchemaOp]) -> None:
    fused = Row(op("aten.relu.default", self=op("aten.linear.default")), label="fused")
    table = Table([Row(op("aten.relu.default"), label="alone"), fused])
    found = table.match(ops["one"])
    assert isinstance(found, tuple)
    assert found[0].name == "fused"
    found = table.match(ops["two"])
    assert isinstance(found, tuple)
    assert found[0].name == "alone"
    near = Table(
        [
            Row(op("aten.add.Tensor"), (c.dtypes("float16"),)),
            Row(op("aten.add.Tensor"), (c.dtypes("float32"), c.given("alpha", 1))),
        ]
    )
    assert near.why_not(ops["add"]) == "alpha = 2, takes 1"


def test_conditions_of_ones_own(ops: dict[str, SchemaOp]) -> None:
    @condition("at least 3 columns")
    def wide(match: Match) -> bool:
        return match.op.results[0].type.get_shape()[-1] >= 3  # type: ignore[attr-defined]

    table = Table(rows(["aten.linear.default", "aten.mean.dim"], wide))
    assert table.why_not(ops["lin"]) is None
    assert table.why_not(ops["mean"]) == "not so: at least 3 columns"
