"""What `canonicalize` finds by looking at constants: masks that are true everywhere, and indices that go through all
elements in their order.

Attention masks of models are made by functions of positions, which are known when a program has fixed sizes: what says
of each key whether it is there is indexed by ``arange``, and joined by ``and`` to what is true of every position.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from itertools import product
from typing import Any

from xdsl.dialects.builtin import TensorType, i1, i64
from xdsl.ir import SSAValue

from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import is_contiguous, is_static, tensor_of, tensor_type
from etir.passes.analysis.constants import ConstantStore
from etir.passes.infra.rewriting import Pattern, PatternRewriter

MOST_INDICES = 1 << 16
"""Elements that are gone through one by one."""


class ConstantsPattern(Pattern, ABC):
    """A pattern that reads constants of the module."""

    def __init__(self, store: ConstantStore) -> None:
        self.store = store


class AndWithTrue(ConstantsPattern):
    """``and`` with truth values that are all true gives the other operand, expanded where they are more."""

    name = "and-with-true"

    def rewrite(
        self, op: edge.aten.bitwise_and.Tensor | edge.aten.logical_and.default, rewriter: PatternRewriter
    ) -> None:
        result = tensor_of(op.result)
        if any(tensor_of(v).element_type != i1 for v in (op.self_, op.other)) or not _is_plain(result):
            return
        for known, other in ((op.self_, op.other), (op.other, op.self_)):
            if not self.store.is_constant(known) or not _is_plain(tensor_of(other)):
                continue
            if not all(self.store.data(known)):
                rewriter.notify_match_failure("a truth value is false")
                continue
            if other.type == op.result.type:
                rewriter.replace_op(op, [other])
                return
            expanded = edge.aten.expand_copy.default.make(
                {"self": other, "size": [*result.get_shape()]}, [result], location=op.location
            )
            rewriter.replace_op(op, expanded)
            return


class ChoiceOfNumbers(Pattern):
    """A choice between two numbers by truth values that are expanded is expanded itself: a number for each of them, not
    for each place that they are repeated in.
    """

    name = "choice-of-numbers"

    def rewrite(self, op: edge.aten.where.self, rewriter: PatternRewriter) -> None:
        mask = op.condition
        if not isinstance(mask.owner, edge.aten.expand_copy.default):
            return
        before, result = tensor_of(mask.owner.self_), tensor_of(op.result)
        numbers = [tensor_of(v) for v in (op.self_, op.other)]
        if not _is_plain(before) or not _is_plain(result) or any(type.get_num_dims() for type in numbers):
            rewriter.notify_match_failure("what is chosen from is no number")
            return
        chosen = rewriter.insert_op(
            edge.aten.where.self.make(
                {"condition": mask.owner.self_, "self": op.self_, "other": op.other},
                [tensor_type(result.element_type, before.get_shape())],
                location=op.location,
            )
        )
        expanded = edge.aten.expand_copy.default.make(
            {"self": chosen.result, "size": [*result.get_shape()]}, [result], location=op.location
        )
        rewriter.replace_op(op, expanded)


class IndexOfEverything(ConstantsPattern):
    """Constant indices that go through all elements in their order give the tensor under other dims."""

    name = "index-of-everything"

    def rewrite(self, op: edge.aten.index.Tensor, rewriter: PatternRewriter) -> None:
        source, result = tensor_of(op.self_), tensor_of(op.result)
        indices = [v for v in op.indices if isinstance(v, SSAValue)]
        if len(indices) != len(op.indices) or not _is_plain(source) or not _is_plain(result):
            return
        dims, made = [*source.get_shape()], [*result.get_shape()]
        if len(indices) != len(dims) or not 0 < math.prod(dims) == math.prod(made) <= MOST_INDICES:
            return
        if any(tensor_of(v).element_type != i64 or not self.store.is_constant(v) for v in indices):
            rewriter.notify_match_failure("an index is no constant of int64")
            return
        tables = [_Table(self.store.data(v), tensor_of(v).get_shape(), len(made)) for v in indices]
        for number, place in enumerate(product(*(range(n) for n in made))):
            at = 0
            for table, size in zip(tables, dims, strict=True):
                index = table[place]
                at = at * size + (index + size if index < 0 else index)
            if at != number:
                rewriter.notify_match_failure("the indices are in another order")
                return
        if source == result:
            rewriter.replace_op(op, [op.self_])
            return
        view = edge.aten.view_copy.default.make({"self": op.self_, "size": made}, [result], location=op.location)
        rewriter.replace_op(op, view)


class _Table:
    """The numbers of a constant, broadcast to a rank."""

    def __init__(self, data: bytes | memoryview, dims: Sequence[int], rank: int) -> None:
        self.numbers = memoryview(data).cast("B").cast("q")
        self.strides = [0] * rank
        step = 1
        for dim, size in enumerate(reversed(dims), 1):
            self.strides[-dim] = 0 if size == 1 else step
            step *= size

    def __getitem__(self, place: Sequence[int]) -> int:
        return self.numbers[sum(n * s for n, s in zip(place, self.strides, strict=True))]


def _is_plain(type: TensorType[Any]) -> bool:
    """Whether sizes are known, and elements lie in their order."""
    return is_static(type) and is_contiguous(type)
