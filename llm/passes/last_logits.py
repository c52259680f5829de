"""`last-logits`: a decoder computes the logits of the last position only.

Before::

    %n = aten.mul.Tensor(%w, %h) : ... -> tensor<1x?x64xf32>
    %y = aten.linear.default(%n, %head) : ... -> tensor<1x?x96xf32>
    func.return %y

After::

    %l = aten.slice.Tensor(%h, dim = 1, start = -1) : ... -> tensor<1x1x64xf32>
    %n = aten.mul.Tensor(%w, %l) : ... -> tensor<1x1x64xf32>
    %y = aten.linear.default(%n, %head) : ... -> tensor<1x1x96xf32>
    %r = aten.select.int(%y, dim = 1, index = 0) : ... -> tensor<1x96xf32>
    func.return %r

The result of the method becomes ``[1, V]`` instead of ``[1, n, V]``: an option of who compiles, since the caller sees
it. ExecuTorch's runner and etir's take both. The slice moves up through what computes each position for itself
(products with weights, element by element, reductions and normalization of the last dim) as long as that is computed
for nothing else; so the head, the norm before it and the last layer's feed-forward part are done for one position.
Only a method whose single float result is ``[1, n, V]`` with a number of positions other than 1 is changed, and only
results that are a product with weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, SSAValue, Use

from etir.dialects.aten import ops as aten
from etir.dialects.aten.base import AtenOp
from etir.dialects.context import EtContext
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import dims_of, tensor_of, tensor_type
from etir.lowering.build.builder import Builder, element, is_tensor
from etir.passes.infra.base import Pass, methods
from etir.passes.infra.registry import register_pass
from etir.passes.infra.rewriting import Pattern, PatternRewriter, apply_patterns_greedily

FIRST, END = -1, 2**63 - 1

ELEMENTWISE = (
    "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar",
    "pow.Tensor_Scalar", "rsqrt.default", "sqrt.default", "reciprocal.default", "neg.default", "tanh.default",
    "sigmoid.default", "silu.default", "relu.default", "gelu.default", "to.dtype", "to.dtype_layout",
    "_to_copy.default", "alias.default", "dropout.default", "contiguous.default", "clone.default",
)  # fmt: skip
"""Operators that compute every element from those at the same place of operands that may be broadcast."""


@register_pass
@dataclass(frozen=True)
class LastLogitsPass(Pass):
    """Compute the logits of the last position only; the result is ``[1, V]``.

    ``methods`` names the methods to change; none: all that give logits of several positions.
    """

    name = "last-logits"
    methods: tuple[str, ...] = ()

    def run(self, ctx: EtContext, module: ModuleOp) -> None:
        """Change the methods."""
        for method in methods(module):
            if self.methods and method.sym_name.data not in self.methods:
                continue
            apply_patterns_greedily(ctx, method, [CastLikeAnother(), LastResult()])
            last = method.body.block.last_op
            assert last is not None
            inputs = method.function_type.inputs.data
            method.properties["function_type"] = FunctionType.from_lists(inputs, [v.type for v in last.operands])


class CastLikeAnother(Pattern):
    """``type_as`` reads nothing but a dtype of its other operand: a cast to that dtype."""

    name = "cast-like-another"

    def rewrite(self, op: aten.type_as.default, rewriter: PatternRewriter) -> None:
        rewriter.replace_op(op, [Builder(rewriter).cast(op.self_, element(op.other))])


class LastResult(Pattern):
    """The result of a method ``[1, n, V]``, of its last position."""

    name = "last-logits"

    def rewrite(self, op: FuncReturnOp, rewriter: PatternRewriter) -> None:
        if len(op.operands) != 1 or not isinstance(op.parent_op(), FuncOp):
            return rewriter.notify_match_failure("the method has several results")
        value = op.operands[0]
        if not is_tensor(value) or not dtype_of(tensor_of(value).element_type).is_float:
            return rewriter.notify_match_failure("the result is no tensor of floating-point numbers")
        dims = dims_of(tensor_of(value))
        if len(dims) != 3 or dims[0] != 1 or dims[1] == 1:
            return rewriter.notify_match_failure("the result is not [1, n, V] of several positions")
        b = Builder(rewriter)
        last = _LastRows(b, _only_for_last(op))
        one = tensor_type(tensor_of(value).element_type, (dims[0], dims[2]))
        row = b(aten.select.int, last.of(value, 1), 1, 0, types=[one])
        rewriter.replace_op(op, FuncReturnOp(row))


def _only_for_last(end: FuncReturnOp) -> dict[AtenOp, int]:
    """The operators of whose result ``[1, n, V]`` needs one position only, and the dim of their result that has it.

    One walk against the order of the program: an operator is among them when every reader of it is, and reads it along
    the same dim.
    """
    found: dict[AtenOp, int] = {}
    block = end.parent
    assert block is not None
    for op in reversed([op for op in block.ops if isinstance(op, AtenOp)]):
        if len(op.results) != 1 or not op.results[0].first_use:
            continue
        positions = [_read_along(use, end, found) for use in op.results[0].uses]
        first = positions[0]
        if first is None or any(p != first for p in positions) or _operand_positions(op, first) is None:
            continue
        found[op] = first
    return found


def _read_along(use: Use, end: FuncReturnOp, found: Mapping[AtenOp, int]) -> int | None:
    """The dim of a value of which a reader needs the last element only; None when it needs more."""
    reader = use.operation
    if reader is end:
        return 1
    if not isinstance(reader, AtenOp) or reader not in found:
        return None
    along = _operand_positions(reader, found[reader])
    assert along is not None
    value = reader.operands[use.index]
    dims = [at for name, at in along.items() if reader.arg(name) is value]
    return dims[0] if len(dims) == sum(1 for v in reader.operands if v is value) else None


class _LastRows:
    """Makes operators that compute one position; each once."""

    def __init__(self, b: Builder, chosen: Mapping[AtenOp, int]):
        self.b = b
        self.chosen = chosen
        self.made: dict[tuple[SSAValue, int], SSAValue] = {}

    def of(self, value: SSAValue, position: int) -> SSAValue:
        """The last element of a value along a dim, which keeps size 1."""
        waiting = [(value, position)]
        while waiting:
            one, at = waiting[-1]
            op = one.owner
            if (one, at) in self.made:
                waiting.pop()
            elif not isinstance(op, AtenOp) or op not in self.chosen:
                self.made[one, at] = last_of(self.b, one, at)
            else:
                along = _operand_positions(op, at)
                assert along is not None and self.chosen[op] == at
                needed = [(cast(SSAValue, op.arg(name)), d) for name, d in along.items()]
                missing = [pair for pair in needed if pair not in self.made]
                waiting += missing
                if not missing:
                    self.made[one, at] = self._again(op, at, along)
        return self.made[value, position]

    def _again(self, op: AtenOp, position: int, along: Mapping[str, int]) -> SSAValue:
        given: dict[str, object] = dict(op.given_args())
        for name, at in along.items():
            given[name] = self.made[cast(SSAValue, given[name]), at]
        made = type(op).make(cast(Any, given | _sizes(op, position)), [_of_one(op.results[0], position)])
        self.b.insert(made)
        return made.results[0]


def _of_one(value: SSAValue, position: int) -> TensorType[Attribute]:
    dims = list(dims_of(tensor_of(value)))
    dims[position] = 1
    return tensor_type(tensor_of(value).element_type, dims)


def last_of(b: Builder, value: SSAValue, position: int) -> SSAValue:
    """The last element along a dim, which keeps size 1."""
    return b(aten.slice.Tensor, value, position, FIRST, END, 1, types=[_of_one(value, position)])


def _operand_positions(op: AtenOp, position: int) -> dict[str, int] | None:
    """The dim of each operand that gives dim ``position`` of the result; None for an operator that mixes positions."""
    name, rank = op.SCHEMA.op_name.removeprefix("aten."), len(dims_of(tensor_of(op.results[0])))
    tensors = [
        (a.name, cast(SSAValue, v))
        for a in op.SCHEMA.arguments
        if a.is_tensor and is_tensor(v := cast(object, op.arg(a.name)))
    ]
    if name in ELEMENTWISE:
        found: dict[str, int] = {}
        for operand, value in tensors:
            at = position - rank + len(dims_of(tensor_of(value)))
            if at >= 0 and dims_of(tensor_of(value))[at] != 1:
                found[operand] = at
        return found
    if name == "linear.default":
        return {"input": position} if position != rank - 1 else None
    if name == "mean.dim" and op.arg("keepdim"):
        own = [d % rank for d in cast("tuple[int, ...]", op.arg("dim"))]
        return {"self": position} if position not in own else None
    if name in ("layer_norm.default", "rms_norm.default"):
        normalized = len(cast("tuple[object, ...]", op.arg("normalized_shape")))
        return {"input": position} if position < rank - normalized else None
    if name == "view.default" or name == "reshape.default":
        return _flattened(op, position)
    if name == "addmm.default":
        return {"mat1": 0} if position == 0 and len(dims_of(tensor_of(cast(SSAValue, op.arg("self"))))) == 1 else None
    return None


def _flattened(op: AtenOp, position: int) -> dict[str, int] | None:
    """``[1, n, w]`` viewed as ``[n, w]`` and the other way: the dim of the operand with the same rows."""
    before = dims_of(tensor_of(op.operands[0]))
    after = dims_of(tensor_of(op.results[0]))
    outer = [d for d in before if d != 1], [d for d in after if d != 1]
    if outer[0] != outer[1] or after[position] == 1:
        return None
    if any(not isinstance(d, int) for i, d in enumerate(after) if i != position):
        return None
    number = sum(1 for d in after[:position] if d != 1)
    return {"self": [i for i, d in enumerate(before) if d != 1][number]}


def _sizes(op: AtenOp, position: int) -> dict[str, object]:
    """The size arguments of a view, with one row."""
    if op.SCHEMA.name not in ("view", "reshape"):
        return {}
    dims = dims_of(tensor_of(op.results[0]))
    sizes: list[Attribute | object] = [1 if i == position else d for i, d in enumerate(dims)]
    return {"shape" if op.SCHEMA.name == "reshape" else "size": sizes}
