"""The annotation of a pattern's method says which operations it starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.schema_op import SchemaOp
from etir.dialects.text import parse_module
from etir.passes.infra.base import methods
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

if TYPE_CHECKING:
    from pathlib import Path

Transposition: TypeAlias = edge.aten.permute_copy.default | edge.aten.transpose_copy.int

TEXT = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.relu.default(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""


class One(Pattern):
    name = "one"

    def rewrite(self, op: edge.aten.bmm.default, rewriter: PatternRewriter) -> None: ...


class Several(Pattern):
    name = "several"

    def rewrite(self, op: Transposition | aten.relu.default, rewriter: PatternRewriter, _: Path | None = None) -> None:
        """A union, an alias of one, and an annotation that only the type checker can read."""


class Numbered(Several):
    """A subclass without a method of its own has the same roots."""

    name = "numbered"


class Given(Pattern):
    name = "given"
    roots = ("mylib.softclip.default",)

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None: ...


def test_roots() -> None:
    assert One.roots == ("edge.aten.bmm.default",)
    assert Several.roots == Numbered.roots
    assert Several.roots == ("edge.aten.permute_copy.default", "edge.aten.transpose_copy.int", "aten.relu.default")
    assert Given.roots == ("mylib.softclip.default",)


def test_a_base_class_stands_for_all_of_its_kind() -> None:
    seen: list[str] = []

    class Any_(Pattern):
        name = "any"

        def rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
            seen.append(f"any {op.name}")

    class OfSchema(Pattern):
        name = "of-schema"

        def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
            seen.append(f"operator {op.name}")

    module: ModuleOp = parse_module(TEXT)
    apply_patterns_greedily(EtContext(), methods(module)[0], [Any_(), OfSchema()])
    assert Any_.roots == OfSchema.roots == ()
    assert seen == ["any aten.relu.default", "operator aten.relu.default", f"any {ReturnOp.name}"]


def _class_with(annotation: Any) -> type[Pattern]:
    def rewrite(self: Pattern, op: Any, rewriter: PatternRewriter) -> None: ...

    rewrite.__annotations__.pop("op")
    if annotation is not None:
        rewrite.__annotations__["op"] = annotation
    return type("Wrong", (Pattern,), {"name": "wrong", "rewrite": rewrite})


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (None, "'op' of '.*rewrite' needs an annotation that names the operations"),
        ("int", "'op' of '.*rewrite' is annotated with <class 'int'>, which is no operation"),
        ("edge.aten.bmm", "which is no operation"),
        ("Nowhere", "is annotated with 'Nowhere', but name 'Nowhere' is not defined in its module"),
        ("aten.relu.default | SchemaOp", "SchemaOp in a union of roots is no single operation"),
    ],
)
def test_a_wrong_annotation_is_an_error_at_the_class(annotation: str | None, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        _class_with(annotation)


def test_an_unknown_operator_is_an_error_at_the_class() -> None:
    with pytest.raises(AttributeError, match="no operator 'edge.aten.bnm'; did you mean 'edge.aten.bmm'"):
        _class_with("edge.aten.bnm.default")
