"""The builder at both levels: overloads, inferred types, sizes, and what it leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.dtypes import f16, f32, i64
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import order_of, tensor_type
from etir.dialects.et.program import WeightOp
from etir.dialects.sym.expr import symbol
from etir.dialects.text import parse_module
from etir.dialects.verify import verify_module
from etir.lowering.build.builder import Builder, dims, element
from etir.lowering.build.sizes import dim_of
from etir.passes.infra.base import methods
from etir.passes.infra.rewriting import PatternRewriter

TEXT = """
sym.dim @s0 in [1, 64]
sym.dim @s1 in [1, 64]
func.func @forward(%x: tensor<?x3x4xf32, #et.layout<dims = [s0, 3, 4]>>, %y: tensor<4xf32>, %z: tensor<?x?xf32, #et.layout<dims = [s0, s1]>>) {
  %r = aten.relu.default(%y) : (tensor<4xf32>) -> tensor<4xf32> loc("model.py":7:1)
  func.return
}
"""  # noqa: E501


def start(prefix: str = "aten") -> tuple[ModuleOp, Builder, list[SSAValue]]:
    module = parse_module(TEXT, EtContext())
    (method,) = methods(module)
    root = method.body.block.first_op
    assert root is not None
    rewriter = PatternRewriter(root, root.location, InsertPoint.before(root))
    return module, Builder(rewriter, prefix), list(method.body.block.args)  # type: ignore[arg-type]


def names(b: Builder) -> list[str]:
    return [op.name for op in b.rewriter.new_ops]


@pytest.mark.parametrize("prefix", ["aten", "edge"])
def test_operators_of_each_level(prefix: str) -> None:
    module, b, (x, y, _) = start(prefix)
    b.mul(b.add(x, y), 2.0)
    b.permute(b.view(x, [-1, 12]), [1, 0])
    b.cast(x, f16)
    b.size(x, 0)
    b.add(b.arange(b.size(x, 0), f32), 1)
    verify_module(module)
    made = names(b)
    if prefix == "edge":
        assert all(n.startswith("edge.") for n in made)
        assert "edge.aten.view_copy.default" in made
        assert "edge.aten.permute_copy.default" in made
        assert "edge.dim_order_ops._to_dim_order_copy.default" in made
        assert "edge.aten.sym_size.int" in made
    else:
        assert "aten.view.default" in made
        assert "aten._to_copy.default" in made


def test_types_and_locations() -> None:
    _, b, (x, y, _) = start()
    product = b.mul(x, y)
    assert product.type == x.type
    assert element(b(aten.mul.Tensor, b.arange(3), 2.5)) == f32
    assert {str(op.location) for op in b.rewriter.new_ops} == {str(b.rewriter.root.location)}
    with pytest.raises(LookupError):
        b(aten.logcumsumexp.default, x, 0)
    with pytest.raises(TypeError):
        b(aten.relu.default, x, wrong=1)
    with pytest.raises(AttributeError, match="no operator 'aten.nothing'"):
        b(aten.nothing.default, x)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["neg", "abs", "sqrt", "log1p", "sigmoid", "isnan", "logical_not"])
def test_methods_of_one_tensor(name: str) -> None:
    _, b, (x, _, _) = start()
    getattr(b, name)(x)
    assert names(b) == [f"aten.{name}.default"]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"])
def test_methods_of_two_take_a_tensor_or_a_number(name: str) -> None:
    _, b, (x, y, _) = start("edge")
    getattr(b, name)(x, y)
    getattr(b, name)(x, 2.0)
    assert names(b) == [f"edge.aten.{name}.Tensor", f"edge.aten.{name}.Scalar"]


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_methods_of_two_tensors_give_bools(name: str) -> None:
    _, b, (x, y, _) = start("edge")
    assert getattr(b, name)(x, y).type == b.ne(x, 0).type
    assert names(b) == [f"edge.aten.{name}.default", "edge.aten.ne.Scalar"]


def test_types_of_what_is_made_and_copied() -> None:
    """A number alone is float32, and a copy may ask for another order of dims."""
    _, b, (x, _, _) = start()
    assert b(aten.scalar_tensor.default, 3.0).type == tensor_type(f32, [])
    assert b(aten.scalar_tensor.default, 3, dtype=i64).type == tensor_type(i64, [])
    image = b.unsqueeze(x, 0)
    orders = [b(aten._to_copy.default, image, dtype=f16, memory_format=f).type for f in (None, "channels_last")]
    assert [order_of(type) for type in orders] == [(0, 1, 2, 3), (0, 2, 3, 1)]
    assert [element(b(aten.clone.default, image, memory_format=f)) for f in ("preserve", "channels_last")] == [f32] * 2


def test_an_operator_of_either_level_is_made_at_the_level_of_the_builder() -> None:
    _, b, (x, _, _) = start("edge")
    b(aten.relu.default, x)
    b(edge.aten.relu.default, x)
    b(aten.view.default, x, [-1])
    assert names(b) == ["edge.aten.relu.default", "edge.aten.relu.default", "edge.aten.view_copy.default"]


def test_what_changes_nothing_makes_nothing() -> None:
    _, b, (x, _, z) = start()
    assert b.view(x, b.sizes(x)) is x
    assert b.permute(x, [0, 1, 2]) is x
    assert b.expand(x, [-1, 3, 4]) is x
    assert b.cast(x, f32) is x
    assert b.slice(z, 1, 0, b.size(z, 1)) is z
    assert b.cat([x]) is x
    assert names(b) == []


def test_sizes() -> None:
    _, b, (x, _, z) = start()
    s0, s1 = b.size(z, 0), b.size(z, 1)
    assert b.size(x, 2) == 4
    assert dims(b.view(x, [s0 * 12])) == (symbol("s0") * 12,)
    assert names(b) == ["aten.view.default"], "a single runtime size is -1"
    spread = b.expand(b.unsqueeze(z, 0), [s0, s0, s1])
    assert dims(spread) == (symbol("s0"), symbol("s0"), symbol("s1"))
    assert names(b).count("aten.sym_size.int") == 1, "only the dim that grows needs its size"
    b.view(spread, [s0 * s0, s1])
    assert names(b).count("aten.sym_size.int") == 2
    assert names(b).count("sym.mul") == 1
    assert (s0 * 0, s0 - s0, (s0 * 6) // s0) == (0, 0, 6)


KNOWN = """
sym.dim @n in [1, 9]
func.func @forward(%x: tensor<?x3xf32, #et.layout<dims = [n, 3]>>, %i: i64) {
  %three = sym.constant 3 : i64
  %half = sym.constant 0.5 : f64
  %n = aten.sym_size.int(%x, dim = 0) : (tensor<?x3xf32, #et.layout<dims = [n, 3]>>) -> i64
  %width = aten.sym_size.int(%x, dim = 1) : (tensor<?x3xf32, #et.layout<dims = [n, 3]>>) -> i64
  %count = sym.mul %n, %three : (i64, i64) -> i64
  %rest = sym.floordiv %count, %width : (i64, i64) -> i64
  %none = sym.sub %three, %width : (i64, i64) -> i64
  %never = sym.floordiv %three, %none : (i64, i64) -> i64
  func.return
}
"""


def test_what_is_known_of_numbers() -> None:
    """A number that operations compute from sizes and constants, as the size that it is."""
    (method,) = methods(parse_module(KNOWN, EtContext()))
    found = {op.results[0].name_hint: dim_of(op.results[0]) for op in method.body.block.ops if op.results}
    n = symbol("n")
    wanted = {"three": 3, "half": None, "n": n, "width": 3, "count": n * 3, "rest": n, "none": 0, "never": None}
    assert found == wanted
    assert dim_of(method.body.block.args[1]) is None


def test_constants() -> None:
    module, b, _ = start()
    assert b.constant([1, 2, 3], i64).type == tensor_type(i64, [3])
    large = np.arange(1000.0)
    first, second = b.constant(large, f32), b.constant(large, f32)
    weights = [op for op in module.body.block.ops if isinstance(op, WeightOp)]
    assert len(weights) == 1, "equal bytes are one weight"
    assert first.type == second.type == tensor_type(f32, [1000])
    verify_module(module)
