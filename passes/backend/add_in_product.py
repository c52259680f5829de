"""`add-in-product`: a product or convolution adds to a tensor itself.

Before, a residual block::

    %y = edge.aten.convolution.default(%x, %w, %b, ...) : (...) -> tensor<1x64x32x32xf32>
    %z = edge.aten.add.Tensor(%y, %r) : (tensor<1x64x32x32xf32>, tensor<1x64x32x32xf32>) -> tensor<1x64x32x32xf32>

After::

    %z = edge.etir.convolution_add.default(%r, %x, %w, %b, ...) : (...) -> tensor<1x64x32x32xf32>

Three images are live at the convolution before, its operand, its result and what waits to be added; two after, since
kernels write the sum over the addend where that dies (``in_place`` of their rows). What is added has to be there before
the product is computed, and to have its type: broadcasting stays with the addition. Which kernels there are is what the
target's manifest says.

The kernels add to the finished product, rounded as it would be stored: a program has the same bits whether an addition
is in a product or beside it, as it is when a delegate computes one of the two. What has no such kernel is left alone:
depthwise and transposed convolutions, whose loops are others, and biases that a product's own kernel would convert or
broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.declarations import declare_schemas, functional_form
from etir.dialects.edge import ops as edge
from etir.dialects.edge.base import EdgeOp, edge_class
from etir.dialects.et.layout import dims_of, tensor_of
from etir.dialects.schema import parse_schema
from etir.passes.backend.verify_link import call_failure
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily, fuse_locations
from etir.targets.manifest import Manifest, load

Convolution: TypeAlias = edge.aten.convolution.default
Linear: TypeAlias = edge.aten.linear.default

ADDING = {
    "aten.bmm.default": "etir::matmul_add.out",
    "aten.convolution.default": "etir::convolution_add.out",
    "aten.linear.default": "etir::linear_add.out",
    "aten.mm.default": "etir::matmul_add.out",
}
"""The kernel that computes an operator and adds it to its first argument, ``self``; the others are the operator's."""

_RENAMED = {"etir::matmul_add.out": {"self": "input", "mat2": "other"}}
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
        manifest = load(self.target)
        schemas = _schemas(manifest, self.libraries)
        if not schemas:
            return
        pattern = SumWithProduct(manifest, schemas)
        for method in methods(module):
            pattern.order = {op: index for index, op in enumerate(method.walk())}
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

    def __init__(self, manifest: Manifest, schemas: dict[str, str]) -> None:
        self.manifest = manifest
        self.schemas = schemas
        self.made: dict[str, None] = {}
        self.order: dict[Operation, int] = {}
        """Where the operations of a method are: looking for one of two in a block takes a time that grows with it."""

    def rewrite(self, op: edge.aten.add.Tensor, rewriter: PatternRewriter) -> None:
        if op.alpha != 1:
            return rewriter.notify_match_failure("a summand is multiplied")
        if not op.self_.type == op.other.type == op.result.type:
            return rewriter.notify_match_failure("a summand is broadcast or converted")
        if str(tensor_of(op.result).element_type) not in _FLOATS:
            return rewriter.notify_match_failure("the kernels add floating-point numbers")
        for product, addend in ((op.other, op.self_), (op.self_, op.other)):
            reason = self._why_not(op, product, addend) or self._join(op, product, addend, rewriter)
            if reason is None:
                return
            rewriter.notify_match_failure(reason)

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
        if isinstance(product, Linear) and len(tensor_of(product.weight).get_shape()) != 2:
            return "the weight is a vector"
        if isinstance(product, Convolution | Linear) and not _has_plain_bias(product):
            return "the bias is broadcast or converted"
        other = addend.owner
        if isinstance(other, Operation) and other.parent is op.parent and self.order[other] > self.order[product]:
            return "what is added is computed after the product"
        return None

    def _join(
        self, op: edge.aten.add.Tensor, value: SSAValue, addend: SSAValue, rewriter: PatternRewriter
    ) -> str | None:
        """Rewrite the sum, or say why the kernel does not take the call (of a selective build, for instance)."""
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
        reason = call_failure(self.manifest, made, parsed)
        if reason is not None:
            made.erase()
            return reason
        self.made |= {functional: None, schema: None}
        made.location = fuse_locations([product, op])
        self.order[made] = self.order[product]
        made.results[0].name_hint = op.result.name_hint
        rewriter.insert_op(made, product)
        rewriter.replace_all_uses_with(op.result, made.results[0])
        rewriter.erase_op(op)
        rewriter.erase_op(product)
        return None


def _is_depthwise(op: Convolution) -> bool:
    """Whether it is, or may be where channels are dynamic."""
    return op.groups != 1 and tensor_of(op.weight).get_shape()[1] in (1, DYNAMIC_INDEX)


def _has_plain_bias(op: Convolution | Linear) -> bool:
    """Whether there is no bias, or one number of the result's dtype for each output."""
    if op.bias is None:
        return True
    bias, weight = tensor_of(op.bias), tensor_of(op.weight)
    return bias.element_type == weight.element_type and dims_of(bias) == dims_of(weight)[:1]
