"""`add-in-product`: a product or convolution adds to a tensor itself.

Before, a residual block::

    %y = edge.aten.convolution.default(%x, %w, %b, ...) : (...) -> tensor<1x64x32x32xf32>
    %z = edge.aten.add.Tensor(%y, %r) : (tensor<1x64x32x32xf32>, tensor<1x64x32x32xf32>) -> tensor<1x64x32x32xf32>

After::

    %z = edge.etir.convolution_add.default(%r, %x, %w, %b, ...) : (...) -> tensor<1x64x32x32xf32>

Three images are live at the convolution before, its operand, its result and what waits to be added; two after, since
kernels write the sum over the addend where that dies (``in_place`` of their rows). What is added has to be there before
the product is computed, and to have its type: broadcasting stays with the addition. Depthwise and transposed
convolutions are left alone, which have loops of their own. Which kernels there are is what the target's manifest says.

The pipeline does not have this pass: sums that begin with what is added have other last bits than sums that end with
it, and a program whose sums are in delegates or left outside of them is to have the bits of one without delegates.
Where a method has no delegates, it is run on the text at the backend level (``et-opt -p add-in-product{target=etir}``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas, functional_form
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp, edge_class
from etir.dialects.et.layout import tensor_of
from etir.dialects.schema import parse_schema
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily, fuse_locations
from etir.targets.manifest import Manifest, load

Convolution: TypeAlias = edge.aten.convolution.default

ADDING = {
    "aten.bmm.default": "aten::baddbmm.out",
    "aten.convolution.default": "etir::convolution_add.out",
    "aten.linear.default": "etir::linear_add.out",
    "aten.mm.default": "aten::addmm.out",
}
"""The kernel that computes an operator and adds it to its first argument, ``self``; the others are the operator's."""

_RENAMED = {
    "aten::addmm.out": {"self": "mat1"},
    "aten::baddbmm.out": {"self": "batch1", "mat2": "batch2"},
}
_FLOATS = ("f16", "bf16", "f32", "f64")


@register_pass
@dataclass(frozen=True)
class AddInProductPass(Pass):
    """Let products and convolutions add to a tensor that has their result's type.

    ``target`` is whose kernels may be called, ``libraries`` those of its libraries that it does not always have.
    """

    name = "add-in-product"
    target: str = "executorch"
    libraries: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Raises E0601 for an unknown target."""
        schemas = _schemas(load(self.target), self.libraries)
        if not schemas:
            return
        pattern = SumWithProduct(schemas)
        for method in methods(module):
            apply_patterns_greedily(ctx, method, [pattern])
        for text in pattern.made:
            ctx.declare_schema(text)
        declare_schemas(module, pattern.made)


def _schemas(manifest: Manifest, libraries: tuple[str, ...]) -> dict[str, str]:
    """By operator, the schema of the target's kernel that adds it to what it may write over."""
    found: dict[str, str] = {}
    for operator, kernel in ADDING.items():
        entry = manifest.lookup(kernel)
        if entry is None or "self" not in entry.in_place:
            continue
        if manifest.libraries.get(entry.library) or entry.library in libraries:
            found[operator] = entry.schema_text
    return found


class SumWithProduct(Pattern):
    """``add(product, r)`` or ``add(r, product)``."""

    name = "add-in-product"

    def __init__(self, schemas: dict[str, str]) -> None:
        self.schemas = schemas
        self.made: dict[str, None] = {}

    def rewrite(self, op: edge.aten.add.Tensor, rewriter: PatternRewriter) -> None:
        if op.alpha != 1:
            return rewriter.notify_match_failure("a summand is multiplied")
        if not op.self_.type == op.other.type == op.result.type:
            return rewriter.notify_match_failure("a summand is broadcast or converted")
        if str(tensor_of(op.result).element_type) not in _FLOATS:
            return rewriter.notify_match_failure("the kernels add floating-point numbers")
        for product, addend in ((op.other, op.self_), (op.self_, op.other)):
            reason = self._why_not(op, product, addend)
            if reason is None:
                return self._join(op, product, addend, rewriter)
            rewriter.notify_match_failure(reason)
        return None

    def _why_not(self, op: edge.aten.add.Tensor, value: SSAValue, addend: SSAValue) -> str | None:
        product = value.owner
        if not isinstance(product, EdgeOp) or product.op_name not in self.schemas:
            return "no summand is a product that the target has a kernel for"
        if product.parent is not op.parent or not value.has_one_use():
            return "the product has another use"
        if addend in product.operands:
            return "the product reads what is added"
        if isinstance(product, Convolution) and (product.transposed or _is_depthwise(product)):
            return "a transposed or depthwise convolution"
        other = addend.owner
        if isinstance(other, Operation) and other.parent is op.parent and not other.is_before_in_block(product):
            return "what is added is computed after the product"
        return None

    def _join(self, op: edge.aten.add.Tensor, value: SSAValue, addend: SSAValue, rewriter: PatternRewriter) -> None:
        product = value.owner
        assert isinstance(product, EdgeOp)
        schema = self.schemas[product.op_name]
        parsed = parse_schema(schema)
        known = {argument.name for argument in parsed.arguments}
        renamed = _RENAMED.get(parsed.qualified_name, {})
        given = {renamed.get(name, name): given for name, given in product.given_args().items()}
        arguments = {"self": addend, **{name: given for name, given in given.items() if name in known}}
        functional = functional_form(schema)
        made = edge_class(parse_schema(functional)).make(arguments, [op.result.type])
        if not parsed.qualified_name.startswith("aten::"):
            self.made |= {functional: None, schema: None}
        made.location = fuse_locations([product, op])
        made.results[0].name_hint = op.result.name_hint
        rewriter.insert_op(made, product)
        rewriter.replace_all_uses_with(op.result, made.results[0])
        rewriter.erase_op(op)
        rewriter.erase_op(product)


def _is_depthwise(op: Convolution) -> bool:
    return op.groups != 1 and tensor_of(op.weight).get_shape()[1] == 1
