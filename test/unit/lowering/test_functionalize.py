"""Pass ``functionalize``: what it leaves in the text, and what it refuses.

That programs compute the same is tested beside it, one file for each idea: operators that change their operand, views,
state and inputs, regions, dynamic sizes; and against tables and random programs.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from etir.diagnostics import EtirError
from etir.dialects.context import EtContext
from etir.dialects.et.program import UpdateInputOp, WriteStateOp
from etir.dialects.text import parse_module, print_module, source_location
from etir.interpret.interpreter import Interpreter
from etir.lowering.functionalize import FunctionalizePass
from etir.passes.infra.base import methods

from etir_testing.lowering.functionalize_models import Model, X, check, export, functionalized


def test_one_write_for_each_state_and_input() -> None:
    def forward(m: Model, x: Tensor) -> Tensor:
        for i in range(3):
            m.cache[i].add_(x[i])
            x[i].mul_(2)
        m.row.add_(1)
        return x.sum()

    module = check(forward, *X)
    (method,) = methods(module)
    stores = [op for op in method.body.block.ops if isinstance(op, (WriteStateOp, UpdateInputOp))]
    assert [op.symbol.root_reference.data for op in stores if isinstance(op, WriteStateOp)] == ["cache", "row"]
    assert len(stores) == 3
    last = method.body.block.last_op
    assert last is not None and last.prev_op is stores[-1] and stores[0].next_op is stores[1]


def test_full_overwrite_drops_the_old_value() -> None:
    def forward(m: Model, x: Tensor) -> Tensor:
        m.cache.copy_(x)
        return m.cache + 1

    (method,) = methods(check(forward, *X))
    assert [op.name for op in method.body.block.ops] == [
        "et.read_state", "aten.add.Tensor", "et.write_state", "func.return",
    ]  # fmt: skip


def test_locations_are_those_of_the_change() -> None:
    def forward(m: Model, x: Tensor) -> Tensor:
        y = x * 1
        y[1].add_(2)  # here
        return y

    module = check(forward, *X)
    scatter = next(op for op in module.walk() if op.name == "aten.select_scatter.default")
    add = next(op for op in module.walk() if op.name == "aten.add.Tensor")
    assert scatter.location == add.location
    place = source_location(scatter.location)
    assert place is not None and place.line == forward.__code__.co_firstlineno + 2


def test_random_fill() -> None:
    def forward(m: Model, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        y[1:].uniform_(2, 3)
        y[0].normal_(50, 0.1)
        return y

    module = functionalized(export(Model(forward), X))
    (y,) = Interpreter(module, "torch").run(X)
    assert y[1:].min() >= 2 and y[1:].max() <= 3 and abs(y[0].mean() - 50) < 1


CUSTOM = """
et.schema "mylib::push(Tensor(a!) buffer, Tensor x) -> Tensor"
et.schema "mylib::push.functional(Tensor buffer, Tensor x) -> (Tensor, Tensor)"
func.func @forward(%b: tensor<4xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mylib.push.default(%b, %x) : (tensor<4xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
"""


def test_custom_operator_with_a_functional_overload() -> None:
    module = functionalized(parse_module(CUSTOM))
    (method,) = methods(module)
    push, update, last = method.body.block.ops
    assert push.name == "mylib.push.functional"
    assert isinstance(update, UpdateInputOp) and update.value is push.results[1]
    assert last.operands[0] is push.results[0]


UNKNOWN_STRIDES = """
func.func @forward(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {{
  %0 = aten.scaled_dot_product_attention.default(%q, %q, %q)
      : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %1 = aten.reshape.default(%0, shape = [24]) : (tensor<1x2x3x4xf32>) -> tensor<24xf32>
  %2 = aten.relu_.default(%1) : (tensor<24xf32>) -> tensor<24xf32>
  %3 = aten.view.default(%2, size = [1, 2, 3, 4]) : (tensor<24xf32>) -> tensor<1x2x3x4xf32>
  func.return {returned} : tensor<1x2x3x4xf32>
}}
"""


def test_unknown_strides_matter_only_when_seen() -> None:
    """Whether the reshape is a view shows only if its source is read after the change."""
    functionalized(parse_module(UNKNOWN_STRIDES.format(returned="%3")))
    with pytest.raises(EtirError) as caught:
        FunctionalizePass().apply(EtContext(), parse_module(UNKNOWN_STRIDES.format(returned="%0")))
    assert "strides" in str(caught.value)


@pytest.mark.parametrize(
    ("recorded", "is_view"),
    [
        ("array<i64: 0, 1, 2, 3>", True),
        ("array<i64: 0, 2, 1, 3>", False),
        ("array<i64: 0, 2, 1>", None),
        ("unit", None),
    ],
)
def test_recorded_dim_order(recorded: str, is_view: bool | None) -> None:
    """What an importer says of the layout decides; what does not fit the tensor says nothing."""
    text = UNKNOWN_STRIDES.format(returned="%0").replace(
        "%q, %q, %q)\n", f"%q, %q, %q) {{dim_orders = [{recorded}]}}\n"
    )
    module = parse_module(text)
    if is_view is None:
        with pytest.raises(EtirError, match="strides"):
            FunctionalizePass().apply(EtContext(), module)
        return
    (method,) = methods(functionalized(module))
    attention, *rest = method.body.block.ops
    assert not attention.attributes
    assert (rest[-1].operands[0] is attention.results[0]) == (not is_view)


def test_without_mutation_nothing_changes() -> None:
    module = export(Model(lambda m, x: (x[1:].view(-1) + m.row.sum()).reshape(3, 6).t()), X)
    before = print_module(module)
    assert print_module(functionalized(module)) == before
