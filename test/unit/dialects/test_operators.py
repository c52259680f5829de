"""Operators by name: what exists is a class with its arguments, what does not is an error that says what was meant."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable

import pytest
from xdsl.dialects.test import TestOp
from xdsl.ir import SSAValue

from etir.dialects import stubs
from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp, aten_op
from etir.dialects.aten.generate import main as generate
from etir.dialects.dtypes import f32, i64
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp, edge_op
from etir.dialects.et.layout import tensor_type
from etir.dialects.operators import check_operator
from etir.dialects.schema_op import python_name

MATRIX = tensor_type(f32, [2, 2])


def value() -> SSAValue:
    return TestOp(result_types=[MATRIX]).results[0]


def test_names_are_those_of_the_text() -> None:
    assert aten.add.Tensor.name == "aten.add.Tensor"
    assert edge.aten.bmm.default.name == "edge.aten.bmm.default"
    assert edge.dim_order_ops._to_dim_order_copy.default.name == "edge.dim_order_ops._to_dim_order_copy.default"
    assert aten.__and__.Tensor.name == "aten.__and__.Tensor"


def test_a_class_is_the_one_that_text_is_read_as() -> None:
    assert aten.add.Tensor is aten_op("aten.add.Tensor")
    assert edge.aten.add.Tensor is edge_op("aten.add.Tensor")
    assert issubclass(aten.add.Tensor, AtenOp) and issubclass(edge.aten.add.Tensor, EdgeOp)


def test_a_keyword_gets_an_underscore() -> None:
    assert aten.random.from_.name == "aten.random.from"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: aten.wher, "no operator 'aten.wher'; did you mean 'aten.where'"),
        (lambda: aten.where.sel, "no operator 'aten.where.sel'; did you mean 'aten.where.self'"),
        (lambda: aten.bmm.Tensor, "no operator 'aten.bmm.Tensor'; did you mean 'aten.bmm."),
        (lambda: edge.aten.bmmm, "no operator 'edge.aten.bmmm'; did you mean 'edge.aten.bmm'"),
        (lambda: edge.atem, "no operator 'edge.atem'; did you mean 'edge.aten'"),
        (lambda: edge.aten.view.default, "is a view .E2.; use 'edge.aten.view_copy.default'"),
        (lambda: edge.aten.add_.Tensor, "it writes an argument .E1."),
    ],
)
def test_an_unknown_name_says_what_was_meant(read: Callable[[], object], message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        read()


def test_names_in_tables_are_checked_too() -> None:
    assert check_operator("edge.aten.add.Tensor") == "edge.aten.add.Tensor"
    assert check_operator("mylib.foo.default") == "mylib.foo.default"
    with pytest.raises(AttributeError, match="did you mean 'edge.aten.add.Tensor'"):
        check_operator("edge.aten.add.Tensors")


def test_arguments_are_attributes() -> None:
    x, w = value(), value()
    op = edge.aten.convolution.default.make(
        {"input": x, "weight": w, "bias": None, "stride": [1, 2], "padding": [0, 0], "dilation": [1, 1]}
        | {"transposed": False, "output_padding": [0, 0], "groups": 1},
        [MATRIX],
    )
    assert op.input is x and op.weight is w and op.bias is None
    assert op.stride == (1, 2) and op.transposed is False and op.groups == 1
    assert op.result is op.results[0]


def test_a_default_is_filled_in_and_self_has_an_underscore() -> None:
    x = value()
    op = aten.add.Tensor.make({"self": x, "other": x}, [MATRIX])
    assert op.self_ is x and op.alpha == 1


def test_a_symbolic_size_is_a_value() -> None:
    n = TestOp(result_types=[i64]).results[0]
    op = edge.aten.view_copy.default.make({"self": value(), "size": [n, 2]}, [MATRIX])
    assert op.size == (n, 2)


def test_named_results_are_attributes() -> None:
    op = aten.max.dim.make({"self": value(), "dim": 0}, [tensor_type(f32, [2]), tensor_type(i64, [2])])
    assert op.values is op.results[0] and op.indices is op.results[1]
    with pytest.raises(ValueError, match="too many values"):
        _ = op.result


def test_arguments_are_only_read() -> None:
    op = aten.relu.default.make({"self": value()}, [MATRIX])
    with pytest.raises(AttributeError, match="with_args"):
        op.self_ = value()  # type: ignore[assignment]
    with pytest.raises(AttributeError, match="'aten.relu.default' has no argument or result 'other'"):
        _ = op.other  # type: ignore[attr-defined]


def test_an_operation_made_without_its_schema_has_its_members() -> None:
    """``Operation.create`` does not read the schema, as a module in generic form does not until it is verified."""
    code = (
        "from etir.dialects.aten import ops as aten; from xdsl.dialects.test import TestOp;"
        "from etir.dialects.dtypes import f32; from etir.dialects.literals import segments_attr;"
        "x, y = TestOp(result_types=[f32, f32]).results;"
        "op = aten.atan2.default.create(operands=[x, y], properties={'operand_segments': segments_attr((1, 1))});"
        "print('other' in vars(aten.atan2.default), op.other is y, 'other' in vars(aten.atan2.default))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


@pytest.mark.parametrize("name", ["abs", "print", "operands", "parent", "self", "name", "from", "result", "location"])
def test_what_every_operation_has_is_never_hidden(name: str) -> None:
    assert python_name(name) == (name if name == "abs" else f"{name}_")


def test_stubs_are_those_of_the_table() -> None:
    assert stubs.main(["--check"]) == 0


def test_the_table_is_that_of_the_installed_torch() -> None:
    assert generate(["--check"]) == 0


def test_the_stub_has_what_the_module_has() -> None:
    def classes(node: ast.AST) -> list[ast.ClassDef]:
        return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.ClassDef)]

    tree = ast.parse((stubs.HERE / "edge/ops.pyi").read_text())
    found = [f"{s.name}.{p.name}.{o.name}" for s in classes(tree) for p in classes(s) for o in classes(p)]
    namespaces = {space: getattr(edge, space) for space in dir(edge)}
    wanted = [f"{s}.{p}.{o}" for s, names in namespaces.items() for p in dir(names) for o in dir(getattr(names, p))]
    assert sorted(found) == sorted(wanted)


def test_importing_the_modules_makes_no_class() -> None:
    code = (
        "import etir.dialects.aten.ops, etir.dialects.edge.ops, sys;"
        "from etir.dialects.aten.base import _classes;"
        "print(len(_classes), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]
