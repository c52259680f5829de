"""Joins that are not made: sums of what is joined for them alone are as many elementwise operators as there are parts,
but one.

Before, as feature pyramids and ensembles have it::

    %j = edge.aten.stack.default([%a, %b, %c], dim = 0)
    %s = edge.aten.sum.dim_IntList(%j, dim = [0])

After::

    %1 = edge.aten.add.Tensor(%a, %b)
    %s = edge.aten.add.Tensor(%1, %c)

Joined, all parts have memory beside what they are made of, and each is copied, often from an image with its channels
side by side to planes. What is added up is done where the last part is made, or lies over one of them. Sums are rounded
in the order of the parts. The program for the kernels keeps both operators.

Joins of joins become one as well. As parts of a larger one they had its memory before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, cast

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from etir.backends.api.patterns import operator_of
from etir.backends.native.folds import reduced_dims
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, is_static
from etir.dialects.schema_op import SchemaOp
from etir.dialects.walking import ops_of

MOST_PARTS = 8
"""Parts of a join: a reduction reads more of them in one walk."""
REDUCTIONS: Mapping[str, Any] = {
    "aten.sum.dim_IntList": edge.aten.add.Tensor,
    "aten.mean.dim": edge.aten.add.Tensor,
    "aten.amax.default": edge.aten.maximum.default,
    "aten.amin.default": edge.aten.minimum.default,
}
"""Reductions, and the operator that does the same to two tensors."""


def add_joined(func: FuncOp) -> None:
    """Rewrite the reductions of an outlined function that go along the dim of a join which they alone read."""
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, SchemaOp) and operator_of(op) in REDUCTIONS]:
        parts = _parts(op)
        if parts:
            _rewrite(op, parts)


def join_once(func: FuncOp) -> None:
    """Make one join of joins along one dim that nothing else reads, as those of a dense decoder: what reads the whole
    then knows all of its parts (:mod:`etir.backends.native.unjoined`).
    """
    block = func.body.block
    for op in [op for op in ops_of(block) if isinstance(op, edge.aten.cat.default)]:
        parts: list[SSAValue] = []
        inner: list[Operation] = []
        for value in op.arg("tensors"):
            join = value.owner
            if isinstance(join, edge.aten.cat.default) and value.has_one_use() and _dim(join) == _dim(op):
                parts += join.arg("tensors")
                inner.append(join)
            else:
                parts.append(value)
        if not inner:
            continue
        whole = op.results[0]
        made = edge.aten.cat.default.make({"tensors": parts, "dim": _dim(op)}, [whole.type])
        made.location = op.location
        made.results[0].name_hint = whole.name_hint
        block.insert_op_before(made, op)
        whole.replace_all_uses_with(made.results[0])
        for old in (op, *inner):
            block.erase_op(old)


def _dim(join: SchemaOp) -> int:
    return cast(int, join.arg("dim")) % len(dims_of(_type(join.results[0])))


def _parts(op: SchemaOp) -> list[SSAValue]:
    """What is joined, if it is what the reduction goes along, and of its type; else nothing."""
    given = op.arg("self")
    join = given.owner
    if not isinstance(join, SchemaOp) or not given.has_one_use():
        return []
    stacked = operator_of(join) == "aten.stack.default"
    if not stacked and operator_of(join) != "aten.cat.default":
        return []
    parts: list[SSAValue] = [*join.arg("tensors")]
    rank = len(dims_of(_type(given)))
    dim = join.arg("dim") % rank
    if not 1 < len(parts) <= MOST_PARTS or reduced_dims(op) != [dim]:
        return []
    kinds = [_type(value) for value in (*parts, op.results[0])]
    if any(kind.element_type != f32 for kind in kinds) or len({dims_of(kind) for kind in kinds[:-1]}) != 1:
        return []
    shape, result = dims_of(kinds[0]), kinds[-1]
    if not stacked and (len(shape) != rank or shape[dim] != 1):
        return []
    # Where the dim stays, or was there before, the sum is viewed at the end, which says sizes.
    return parts if shape == dims_of(result) or is_static(result) else []


def _rewrite(op: SchemaOp, parts: list[SSAValue]) -> None:
    block = op.parent
    assert block is not None
    result = op.results[0]
    join = cast(Operation, op.arg("self").owner)

    def add(made: Operation) -> SSAValue:
        made.location = op.location
        block.insert_op_before(made, op)
        return made.results[0]

    kind = _type(parts[0])
    both = REDUCTIONS[operator_of(op)]
    total = reduce(lambda left, right: add(both.make({"self": left, "other": right}, [kind])), parts)
    if operator_of(op) == "aten.mean.dim":
        total = add(edge.aten.div.Scalar.make({"self": total, "other": len(parts)}, [kind]))
    if dims_of(kind) != dims_of(_type(result)):
        sizes = [*_type(result).get_shape()]
        total = add(edge.aten.view_copy.default.make({"self": total, "size": sizes}, [result.type]))
    total.name_hint = result.name_hint
    result.replace_all_uses_with(total)
    block.erase_op(op)
    block.erase_op(join)


def _type(value: SSAValue) -> TensorType[Attribute]:
    return cast("TensorType[Attribute]", value.type)
