"""`canonicalize`: the same program with what does nothing removed and what is known written down.

* Copies that copy onto the same type, reshapes of reshapes, permutations of permutations, slices of everything, ``cat``
  of one tensor, padding by nothing, multiplication by 1.
* Sizes that the types know become literals: ``sym_size`` of a static dim, arithmetic on literals, and operands of list
  arguments that are literals.
* Assertions that hold are dropped.

Nothing here changes a number that the program computes, down to the last bit and the sign of zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from etir.dialects.context import EtContext
from etir.dialects.dtypes import i32, i64
from etir.dialects.edge.base import EdgeOp, edge_op
from etir.dialects.et.layout import dims_of, is_static, tensor_of, tensor_type
from etir.dialects.literals import scalar_of
from etir.dialects.schema_op import SchemaOp
from etir.dialects.sym.ops import ARITHMETIC, BY_NAME, ArithmeticOp, AssertOp, ConstantOp
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, Rewriter, apply_patterns


@register_pass
@dataclass(frozen=True)
class CanonicalizePass(Pass):
    """Remove what does nothing and write down what is known."""

    name = "canonicalize"

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Rewrite every method."""
        patterns = [cls() for cls in PATTERNS]
        for method in methods(module):
            apply_patterns(ctx, method, patterns)


class CopyToSameType(Pattern):
    """A copy, reshape or expansion whose result has the type of its operand gives the operand."""

    name = "copy-to-same-type"
    roots = (
        "edge.dim_order_ops._to_dim_order_copy.default",
        "edge.dim_order_ops._clone_dim_order.default",
        "edge.aten.view_copy.default",
        "edge.aten.expand_copy.default",
        "edge.aten.squeeze_copy.default",
        "edge.aten.squeeze_copy.dim",
        "edge.aten.squeeze_copy.dims",
    )

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        if op.operands[0].type == op.results[0].type:
            rewriter.replace(op, [op.operands[0]])
        else:
            rewriter.no_match("the type changes")


class CopyOfCopy(Pattern):
    """Of several copies that only change the dim order, the last one matters."""

    name = "copy-of-copy"
    roots = ("edge.dim_order_ops._to_dim_order_copy.default",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        inner = op.operands[0].owner
        if not isinstance(inner, EdgeOp) or inner.name != op.name:
            return
        types = [tensor_of(v) for v in (inner.operands[0], inner.results[0])]
        if types[0].element_type != types[1].element_type:
            rewriter.no_match("the first copy changes the element type")
            return
        rewriter.replace(op, op.with_args(self=inner.operands[0]))


class ReshapeOfReshape(Pattern):
    """Only the last of several reshapes matters."""

    name = "reshape-of-reshape"
    roots = ("edge.aten.view_copy.default",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        inner = op.operands[0].owner
        if not isinstance(inner, EdgeOp) or inner.name not in (
            "edge.aten.view_copy.default",
            "edge.aten.unsqueeze_copy.default",
            "edge.aten.squeeze_copy.dims",
        ):
            return
        rewriter.replace(op, op.with_args(self=inner.operands[0]))


class Permutations(Pattern):
    """A permutation of a permutation is one permutation; one that moves nothing gives its operand."""

    name = "permutation-of-permutation"
    roots = ("edge.aten.permute_copy.default", "edge.aten.transpose_copy.int")

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        order = permutation_of(op)
        if order == list(range(len(order))):
            rewriter.replace(op, [op.operands[0]])
            return
        inner = op.operands[0].owner
        if not isinstance(inner, EdgeOp) or inner.name not in self.roots:
            return
        first = permutation_of(inner)
        combined = [first[d] for d in order]
        new = edge_op("aten.permute_copy.default").make(
            {"self": inner.operands[0], "dims": combined}, [op.results[0].type], location=op.location
        )
        rewriter.replace(op, new)


def permutation_of(op: EdgeOp) -> list[int]:
    """The permutation that ``permute_copy`` or ``transpose_copy`` applies."""
    rank = tensor_of(op.operands[0]).get_num_dims()
    if op.name == "edge.aten.permute_copy.default":
        return [d % rank for d in op.arg("dims")] if rank else []
    order = list(range(rank))
    if rank:
        first, second = op.arg("dim0"), op.arg("dim1")
        order[first], order[second] = order[second], order[first]
    return order


class SliceOfEverything(Pattern):
    """A slice that takes everything gives its operand."""

    name = "slice-of-everything"
    roots = ("edge.aten.slice_copy.Tensor",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        start, step = op.arg("start"), op.arg("step")
        if op.operands[0].type != op.results[0].type or start not in (None, 0) or step != 1:
            rewriter.no_match("only a part is taken")
            return
        rewriter.replace(op, [op.operands[0]])


class IndexPutOfFullRank(Pattern):
    """The values of an ``index_put`` along one dim get the rank of the tensor.

    ``cache[:, :, positions] = values`` may leave out leading dims of size 1. With all dims in place the values have
    exactly the shape of what they replace, which is what in-place kernels take.
    """

    name = "index-put-of-full-rank"
    roots = ("edge.aten.index_put.default",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        replaced = replaced_shape(op)
        values = op.arg("values")
        if replaced is None or not is_static(values.type):
            rewriter.no_match("more than one index, an index that is no vector, or dynamic sizes")
            return
        shape = values.type.get_shape()
        if not all(isinstance(d, int) for d in replaced):
            rewriter.no_match("the index has a dynamic size")
            return
        if shape == replaced or math.prod(shape) != math.prod(replaced):
            return
        view = edge_op("aten.view_copy.default").make(
            {"self": values, "size": list(replaced)}, [tensor_type(values.type.element_type, replaced)]
        )
        rewriter.replace(op, op.with_args(values=rewriter.insert(view).results[0]))


def replaced_shape(op: EdgeOp) -> tuple[Any, ...] | None:
    """The shape of what an ``index_put`` with one vector of positions replaces; None for any other ``index_put``."""
    type = op.arg("self").type
    indices = op.arg("indices")
    present = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(present) != 1 or not is_static(type):
        return None
    dim, index = present[0]
    if index.type.get_num_dims() != 1 or index.type.element_type not in (i32, i64):
        return None
    shape: list[Any] = list(type.get_shape())
    shape[dim] = dims_of(index.type)[0]
    return tuple(shape)


class CatOfOne(Pattern):
    """``cat`` of one tensor gives the tensor."""

    name = "cat-of-one"
    roots = ("edge.aten.cat.default",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        tensors = op.arg("tensors")
        if len(tensors) == 1 and tensors[0].type == op.results[0].type:
            rewriter.replace(op, [tensors[0]])


class PaddingByNothing(Pattern):
    """Padding by zero elements on every side gives the operand."""

    name = "padding-by-nothing"
    roots = ("edge.aten.constant_pad_nd.default",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        if all(isinstance(p, int) and p == 0 for p in op.arg("pad")) and op.operands[0].type == op.results[0].type:
            rewriter.replace(op, [op.operands[0]])


class ProductWithOne(Pattern):
    """``x * 1`` and ``x / 1`` are ``x``, to the last bit."""

    name = "product-with-one"
    roots = ("edge.aten.mul.Scalar", "edge.aten.div.Scalar")

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, EdgeOp)
        other = op.arg("other")
        if not isinstance(other, SSAValue) and other == 1 and op.operands[0].type == op.results[0].type:
            rewriter.replace(op, [op.operands[0]])


class StaticSize(Pattern):
    """The size of a dim that the type knows is a literal."""

    name = "static-size"
    roots = ("edge.aten.sym_size.int", "aten.sym_size.int", "edge.aten.sym_numel.default", "aten.sym_numel.default")

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, SchemaOp)
        dims = dims_of(tensor_of(op.operands[0]))
        if op.SCHEMA.name == "sym_size":
            size: Any = dims[op.arg("dim")]
        else:
            size = 1
            for dim in dims:
                size = size * dim
        if isinstance(size, int):
            rewriter.replace(op, ConstantOp(size))
        else:
            rewriter.no_match(f"the size '{size}' is only known at run time")


class ArithmeticOnLiterals(Pattern):
    """Arithmetic on literals is a literal."""

    name = "arithmetic-on-literals"
    roots = tuple(rule.name for rule in ARITHMETIC)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, ArithmeticOp)
        values: list[Any] = []
        for argument in op.arguments:
            if not isinstance(argument.owner, ConstantOp):
                return
            values.append(scalar_of(argument.owner.value))
        try:
            result = BY_NAME[op.name].function(*values)
        except (ZeroDivisionError, OverflowError, ValueError):
            rewriter.no_match("the operation fails on these numbers")
            return
        if not isinstance(result, (int, float)) or (isinstance(result, int) and not -(2**63) <= result < 2**63):
            rewriter.no_match(f"the result {result} is no 64-bit number")
            return
        new = ConstantOp(result)
        if new.result.type == op.result.type:
            rewriter.replace(op, new)


class LiteralArguments(Pattern):
    """An operand that is a literal becomes one in the argument list."""

    name = "literal-arguments"

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        if not isinstance(op, SchemaOp):
            return
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
            rewriter.replace(op, op.with_args(**changes))


def _literal(value: Any) -> Any:
    if isinstance(value, SSAValue):
        return scalar_of(value.owner.value) if isinstance(value.owner, ConstantOp) else value
    if isinstance(value, tuple) and any(isinstance(v, SSAValue) and isinstance(v.owner, ConstantOp) for v in value):
        return [_literal(v) for v in value]
    return value


class AssertionThatHolds(Pattern):
    """An assertion of something true says nothing."""

    name = "assertion-that-holds"
    roots = ("sym.assert",)

    def rewrite(self, op: Operation, rewriter: Rewriter) -> None:
        assert isinstance(op, AssertOp)
        owner = op.condition.owner
        if isinstance(owner, ConstantOp) and scalar_of(owner.value):
            rewriter.erase(op)


PATTERNS: tuple[type[Pattern], ...] = (
    CopyToSameType,
    CopyOfCopy,
    ReshapeOfReshape,
    Permutations,
    SliceOfEverything,
    IndexPutOfFullRank,
    CatOfOne,
    PaddingByNothing,
    ProductWithOne,
    StaticSize,
    ArithmeticOnLiterals,
    LiteralArguments,
    AssertionThatHolds,
)
"""The patterns, in the order in which they are tried."""
