"""`canonicalize`: the same program with what does nothing removed and what is known written down.

* Copies that copy onto the same type, reshapes of reshapes, permutations of permutations, slices of everything, ``cat``
  of one tensor or with an empty one, expanded masks, padding by nothing, multiplication by 1, ``and`` with what is
  true, images that become as large as they are, and constant indices of all elements in their order.
* Sizes that the types know become literals: ``sym_size`` of a static dim, arithmetic on literals, and operands of list
  arguments that are literals.
* Assertions that hold are dropped.

Nothing here changes a number that the program computes, down to the last bit and the sign of zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.context import EtContext
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, is_static, tensor_of, tensor_type
from etir.dialects.literals import scalar_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.ops import ARITHMETIC, BY_NAME, ArithmeticOp, AssertOp, ConstantOp
from etir.passes.analysis.constants import ConstantStore
from etir.passes.analysis.index_put import replaced_shape
from etir.passes.generic.known_indices import AndWithTrue, ChoiceOfNumbers, ConstantsPattern, IndexOfEverything
from etir.passes.generic.moved_elements import (
    GatherOfRepeatedRows,
    GatherOfRows,
    ResizeToSameSize,
    WindowsSideBySide,
)
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

Permutation: TypeAlias = edge.aten.permute_copy.default | edge.aten.transpose_copy.int
Reshape: TypeAlias = edge.aten.view_copy.default | edge.aten.unsqueeze_copy.default | edge.aten.squeeze_copy.dims


@register_pass
@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Remove what does nothing and write down what is known."""

    name = "canonicalize"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method."""
        store = ConstantStore(module)
        patterns = [*(cls() for cls in PATTERNS), *(cls(store) for cls in BY_CONSTANTS)]
        for method in methods(module):
            apply_patterns_greedily(ctx, method, patterns)


class CopyToSameType(Pattern):
    """A copy, reshape or expansion whose result has the type of its operand gives the operand."""

    name = "copy-to-same-type"

    def rewrite(
        self,
        op: edge.dim_order_ops._to_dim_order_copy.default
        | edge.dim_order_ops._clone_dim_order.default
        | edge.aten.view_copy.default
        | edge.aten.expand_copy.default
        | edge.aten.squeeze_copy.default
        | edge.aten.squeeze_copy.dim
        | edge.aten.squeeze_copy.dims,
        rewriter: PatternRewriter,
    ) -> None:
        if op.self_.type == op.result.type:
            rewriter.replace_op(op, [op.self_])
        else:
            rewriter.notify_match_failure("the type changes")


class CopyOfCopy(Pattern):
    """Of several copies that only change the dim order, the last one matters."""

    name = "copy-of-copy"

    def rewrite(self, op: edge.dim_order_ops._to_dim_order_copy.default, rewriter: PatternRewriter) -> None:
        inner = op.self_.owner
        if not isinstance(inner, edge.dim_order_ops._to_dim_order_copy.default):
            return
        types = [tensor_of(v) for v in (inner.self_, inner.result)]
        if types[0].element_type != types[1].element_type:
            rewriter.notify_match_failure("the first copy changes the element type")
            return
        rewriter.replace_op(op, op.with_args(self=inner.self_))


class ReshapeOfReshape(Pattern):
    """Only the last of several reshapes matters."""

    name = "reshape-of-reshape"

    def rewrite(self, op: edge.aten.view_copy.default, rewriter: PatternRewriter) -> None:
        inner = op.self_.owner
        if isinstance(inner, Reshape):
            rewriter.replace_op(op, op.with_args(self=inner.self_))


class Permutations(Pattern):
    """A permutation of a permutation is one permutation; one that moves nothing gives its operand."""

    name = "permutation-of-permutation"

    def rewrite(self, op: Permutation, rewriter: PatternRewriter) -> None:
        order = permutation_of(op)
        if order == list(range(len(order))):
            rewriter.replace_op(op, [op.self_])
            return
        inner = op.self_.owner
        if not isinstance(inner, Permutation):
            return
        first = permutation_of(inner)
        combined = [first[d] for d in order]
        new = edge.aten.permute_copy.default.make(
            {"self": inner.self_, "dims": combined}, [op.result.type], location=op.location
        )
        rewriter.replace_op(op, new)


def permutation_of(op: Permutation) -> list[int]:
    """The permutation that ``permute_copy`` or ``transpose_copy`` applies."""
    rank = tensor_of(op.self_).get_num_dims()
    if isinstance(op, edge.aten.permute_copy.default):
        return [d % rank for d in op.dims] if rank else []
    order = list(range(rank))
    if rank:
        first, second = op.dim0, op.dim1
        order[first], order[second] = order[second], order[first]
    return order


class SliceOfEverything(Pattern):
    """A slice that takes everything gives its operand."""

    name = "slice-of-everything"

    def rewrite(self, op: edge.aten.slice_copy.Tensor, rewriter: PatternRewriter) -> None:
        if op.self_.type != op.result.type or op.start not in (None, 0) or op.step != 1:
            rewriter.notify_match_failure("only a part is taken")
            return
        rewriter.replace_op(op, [op.self_])


class IndexPutOfFullRank(Pattern):
    """The values of an ``index_put`` along one dim get the rank of the tensor.

    ``cache[:, :, positions] = values`` may leave out leading dims of size 1. With all dims in place the values have
    exactly the shape of what they replace, which is what in-place kernels take.
    """

    name = "index-put-of-full-rank"

    def rewrite(self, op: edge.aten.index_put.default, rewriter: PatternRewriter) -> None:
        replaced = replaced_shape(op)
        type = tensor_of(op.values)
        if replaced is None or not is_static(type):
            rewriter.notify_match_failure("more than one index, an index that is no vector, or dynamic sizes")
            return
        shape = type.get_shape()
        if not all(isinstance(d, int) for d in replaced):
            rewriter.notify_match_failure("the index has a dynamic size")
            return
        if shape == replaced or math.prod(shape) != math.prod(replaced):
            return
        view = edge.aten.view_copy.default.make(
            {"self": op.values, "size": list(replaced)}, [tensor_type(type.element_type, replaced)]
        )
        rewriter.replace_op(op, op.with_args(values=rewriter.insert_op(view).result))


class CatOfOne(Pattern):
    """``cat`` of one tensor gives the tensor."""

    name = "cat-of-one"

    def rewrite(self, op: edge.aten.cat.default, rewriter: PatternRewriter) -> None:
        if len(op.tensors) == 1 and op.tensors[0].type == op.result.type:
            rewriter.replace_op(op, op.tensors)


class CatWithNothing(Pattern):
    """``cat`` of a tensor without elements is that of the others, as with a cache that has nothing in it yet.

    Those of another element type stay: they decide the type of the result.
    """

    name = "cat-with-nothing"

    def rewrite(self, op: edge.aten.cat.default, rewriter: PatternRewriter) -> None:
        result = tensor_of(op.result)
        types = [tensor_of(v) for v in op.tensors]
        if any(type.element_type != result.element_type for type in types):
            rewriter.notify_match_failure("a tensor has another element type")
            return
        dim = op.dim % max(1, result.get_num_dims())
        kept = [v for v, type in zip(op.tensors, types, strict=True) if not _adds_nothing(dims_of(type), dim)]
        if kept and len(kept) < len(types):
            rewriter.replace_op(op, op.with_args(tensors=kept))


def _adds_nothing(dims: Sequence[Any], dim: int) -> bool:
    """Whether a tensor adds nothing along ``dim``. One of shape ``(0,)`` may be joined to tensors of any rank."""
    return tuple(dims) == (0,) or (dim < len(dims) and dims[dim] == 0)


class ExpandedMask(Pattern):
    """A choice by truth values that are expanded is that by the values themselves: kernels repeat them as they go."""

    name = "expanded-mask"

    def rewrite(self, op: edge.aten.where.self | edge.aten.masked_fill.Scalar, rewriter: PatternRewriter) -> None:
        name = "condition" if isinstance(op, edge.aten.where.self) else "mask"
        mask = op.arg(name)
        if not isinstance(mask.owner, edge.aten.expand_copy.default):
            rewriter.notify_match_failure("the truth values are not expanded")
            return
        others = [dims_of(tensor_of(v)) for v in op.operands if v is not mask and isinstance(v.type, TensorType)]
        if dims_of(tensor_of(op.result)) not in others:
            rewriter.notify_match_failure("the result has the shape of the expanded values alone")
            return
        rewriter.replace_op(op, op.with_args(**{name: mask.owner.self_}))


class PaddingByNothing(Pattern):
    """Padding by zero elements on every side gives the operand."""

    name = "padding-by-nothing"

    def rewrite(self, op: edge.aten.constant_pad_nd.default, rewriter: PatternRewriter) -> None:
        if all(isinstance(p, int) and p == 0 for p in op.pad) and op.self_.type == op.result.type:
            rewriter.replace_op(op, [op.self_])


class ProductWithOne(Pattern):
    """``x * 1`` and ``x / 1`` are ``x``, to the last bit."""

    name = "product-with-one"

    def rewrite(self, op: edge.aten.mul.Scalar | edge.aten.div.Scalar, rewriter: PatternRewriter) -> None:
        if not isinstance(op.other, SSAValue) and op.other == 1 and op.self_.type == op.result.type:
            rewriter.replace_op(op, [op.self_])


class StaticSize(Pattern):
    """The size of a dim that the type knows is a literal."""

    name = "static-size"

    def rewrite(
        self,
        op: edge.aten.sym_size.int | aten.sym_size.int | edge.aten.sym_numel.default | aten.sym_numel.default,
        rewriter: PatternRewriter,
    ) -> None:
        dims = dims_of(tensor_of(op.self_))
        if isinstance(op, (edge.aten.sym_size.int, aten.sym_size.int)):
            size: Any = dims[op.dim]
        else:
            size = 1
            for dim in dims:
                size = size * dim
        if isinstance(size, int):
            rewriter.replace_op(op, ConstantOp(size))
        else:
            rewriter.notify_match_failure(f"the size '{size}' is dynamic")


class ArithmeticOnLiterals(Pattern):
    """Arithmetic on literals is a literal."""

    name = "arithmetic-on-literals"
    roots = tuple(rule.name for rule in ARITHMETIC)

    def rewrite(self, op: ArithmeticOp, rewriter: PatternRewriter) -> None:
        values: list[Any] = []
        for argument in op.arguments:
            if not isinstance(argument.owner, ConstantOp):
                return
            values.append(scalar_of(argument.owner.value))
        try:
            result = BY_NAME[op.name].function(*values)
        except (ZeroDivisionError, OverflowError, ValueError):
            rewriter.notify_match_failure("the operation fails on these numbers")
            return
        if not isinstance(result, (int, float)) or (isinstance(result, int) and not -(2**63) <= result < 2**63):
            rewriter.notify_match_failure(f"the result {result} is no 64-bit number")
            return
        new = ConstantOp(result)
        if new.result.type == op.result.type:
            rewriter.replace_op(op, new)


class LiteralArguments(Pattern):
    """An operand that is a literal becomes one in the argument list."""

    name = "literal-arguments"

    def rewrite(self, op: SchemaOp, rewriter: PatternRewriter) -> None:
        if not any(isinstance(v.owner, ConstantOp) for v in op.operands):
            return
        changes: dict[str, Any] = {}
        for argument in op.SCHEMA.arguments:
            if argument.is_tensor:
                continue
            value = op.arg(argument.name)
            new = _literal(value)
            if new is not value:
                changes[argument.name] = new
        if changes:
            rewriter.replace_op(op, op.with_args(**changes))


def _literal(value: Any) -> Any:
    if isinstance(value, SSAValue):
        return scalar_of(value.owner.value) if isinstance(value.owner, ConstantOp) else value
    if isinstance(value, tuple) and any(isinstance(v, SSAValue) and isinstance(v.owner, ConstantOp) for v in value):
        return [_literal(v) for v in value]
    return value


class AssertionThatHolds(Pattern):
    """An assertion of something true says nothing."""

    name = "assertion-that-holds"

    def rewrite(self, op: AssertOp, rewriter: PatternRewriter) -> None:
        owner = op.condition.owner
        if isinstance(owner, ConstantOp) and scalar_of(owner.value):
            rewriter.erase_op(op)


PATTERNS: tuple[type[Pattern], ...] = (
    CopyToSameType,
    CopyOfCopy,
    ReshapeOfReshape,
    Permutations,
    SliceOfEverything,
    IndexPutOfFullRank,
    CatWithNothing,
    CatOfOne,
    ExpandedMask,
    ChoiceOfNumbers,
    WindowsSideBySide,
    GatherOfRows,
    GatherOfRepeatedRows,
    ResizeToSameSize,
    PaddingByNothing,
    ProductWithOne,
    StaticSize,
    ArithmeticOnLiterals,
    LiteralArguments,
    AssertionThatHolds,
)
"""The patterns, in the order in which they are tried."""
BY_CONSTANTS: tuple[type[ConstantsPattern], ...] = (AndWithTrue, IndexOfEverything)
"""Those that look at the constants of a module, tried after them."""
