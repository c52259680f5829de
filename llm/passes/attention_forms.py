"""Attention in the forms that models have it in: torch's operator, or written out.

Written out it is two products with a softmax between them::

    %t = aten.transpose.int(%k, dim0 = 2, dim1 = 3) : ...
    %0 = aten.matmul.default(%q, %t) : ... -> tensor<1x4x1x32xf32>
    %1 = aten.mul.Tensor(%0, 0.25) : ...
    %2 = aten.add.Tensor(%1, %mask) : ...
    %3 = aten.softmax.int(%2, dim = -1, dtype = f32) : ...
    %y = aten.matmul.default(%3, %v) : ... -> tensor<1x4x1x16xf32>

Before the mask there may be a soft cap, ``50 * tanh(score / 50)`` (Gemma 2), and before the softmax sinks: one more
score for each head, which is joined to the others, and whose weight is left out (GPT-OSS). The scale may come after the
mask, which it applies to then, too (CodeGen), and the first product be one of three dims (GPT-NeoX-Japanese).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from etir.dialects.aten import ops as aten
from etir.dialects.dtypes import dtype_of
from etir.dialects.et.layout import dims_of, tensor_of
from etir.lowering.build.builder import is_tensor, rank
from etir.passes.infra.rewriting import PatternRewriter

Form: TypeAlias = aten.scaled_dot_product_attention.default | aten.matmul.default
"""The operation whose result attention is."""


@dataclass(frozen=True)
class Attention:
    """``softmax(cap(query @ key^T * scale) + mask * mask_scale) @ value`` for four dims, without dropout.

    ``softcap`` is 0 where scores have no cap, ``sinks`` a tensor ``[heads]``. ``steps`` are what it is written out as
    before the last product: the last one first.
    """

    query: SSAValue
    key: SSAValue
    value: SSAValue
    mask: SSAValue | None
    scale: float | None
    softcap: float = 0.0
    sinks: SSAValue | None = None
    mask_scale: float = 1.0
    steps: tuple[Operation, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it has what torch's operator has, and no more."""
        return not self.softcap and self.sinks is None

    def has_own_steps(self, op: Form) -> bool:
        """Whether nothing but ``op``, whose form this is, reads what it is written out as."""
        inside = {*self.steps, op}
        return all(use.operation in inside for step in self.steps for result in step.results for use in result.uses)

    def erase_dropout(self, rewriter: PatternRewriter) -> None:
        """Erase the last steps, as far as nothing reads them any more: dropout counts as random where it does nothing,
        too, and would keep products alive that read whole caches.
        """
        for step in self.steps:
            if not isinstance(step, aten.dropout.default | aten.to.dtype) or step.results[0].first_use:
                break
            rewriter.erase_op(step)


def attention_of(op: Form) -> Attention | str | None:
    """What an operation computes as attention, or why it is not looked at as one; None where it is something else."""
    if isinstance(op, aten.matmul.default):
        return _written_out(op)
    if op.is_causal or op.attn_mask is None or op.dropout_p:
        return "it has no mask, or dropout"
    if op.scale is not None and not isinstance(op.scale, float):
        return "the scale is not a number of the program's text"
    return Attention(op.query, op.key, op.value, op.attn_mask, op.scale)


@dataclass
class _Trace:
    """A value that is followed to what it was computed from, and the operations on the way."""

    value: SSAValue
    steps: list[Operation] = field(default_factory=list[Operation])

    def step(self, to: SSAValue) -> None:
        owner = self.value.owner
        assert isinstance(owner, Operation)
        self.steps.append(owner)
        self.value = to

    def casts(self) -> None:
        """Before casts to other floating dtypes, and dropout that does nothing."""
        while True:
            op = self.value.owner
            if isinstance(op, aten.dropout.default) and (not op.train or op.p == 0):
                self.step(op.input)
            elif isinstance(op, aten.to.dtype) and dtype_of(tensor_of(self.value).element_type).is_float:
                self.step(op.self_)
            else:
                return

    def factor(self) -> float:
        """The number that it was multiplied by; 1 where there is none."""
        op = self.value.owner
        if isinstance(op, aten.mul.Tensor | aten.mul.Scalar) and isinstance(op.other, int | float):
            self.step(op.self_)
            return float(op.other)
        if isinstance(op, aten.div.Tensor | aten.div.Scalar) and isinstance(op.other, int | float):
            self.step(op.self_)
            return 1.0 / float(op.other)
        return 1.0

    def factor_after_mask(self) -> float:
        """The number that scores and mask were multiplied by; 1 where there is none."""
        op = self.value.owner
        if not isinstance(op, aten.mul.Tensor | aten.mul.Scalar | aten.div.Tensor | aten.div.Scalar):
            return 1.0
        add = op.self_.owner
        return self.factor() if isinstance(add, aten.add.Tensor) and is_tensor(add.other) else 1.0

    def product(self) -> tuple[SSAValue, SSAValue, float] | str:
        """Queries and keys with four dims each, and the number that their product is multiplied by."""
        found = self._product()
        if found is None:
            return "the scores are not scaled products and a mask"
        query, turned, scale = found
        by_keys = turned.owner
        dims = rank(turned)
        if not isinstance(by_keys, aten.transpose.int) or {by_keys.dim0 % dims, by_keys.dim1 % dims} != {
            dims - 2,
            dims - 1,
        }:
            return "the second factor of the scores is not the transposed keys"
        key = by_keys.self_
        if dims == 3:
            query, key = (_before_view(x) for x in (query, key))
        if rank(query) != 4 or rank(key) != 4:
            return "query, keys and values do not have four dims and one dtype"
        return query, key, scale

    def _product(self) -> tuple[SSAValue, SSAValue, float] | None:
        op = self.value.owner
        if isinstance(op, aten.matmul.default):
            self.steps.append(op)
            return op.self_, op.other, 1.0
        if not isinstance(op, aten.view.default | aten.reshape.default) or _before_view(op.self_) != op.self_:
            return None
        if dims_of(tensor_of(op.result)) != (1, *dims_of(tensor_of(op.self_))):
            return None
        product = op.self_.owner
        if isinstance(product, aten.bmm.default):
            factors = product.self_, product.mat2, 1.0
        elif isinstance(product, aten.baddbmm.default) and isinstance(product.self_.owner, aten.zeros.default):
            alpha, beta = product.alpha, product.beta
            # Zeros are multiplied by beta.
            if not isinstance(alpha, int | float) or not isinstance(beta, int | float) or not math.isfinite(beta):
                return None
            factors = product.batch1, product.batch2, float(alpha)
        else:
            return None
        self.steps += [op, product]
        return factors

    def softcap(self) -> float:
        """The number ``c`` of ``tanh(x / c) * c``; 0 where there is none."""
        cap = self.value.owner
        if not isinstance(cap, aten.mul.Tensor | aten.mul.Scalar) or not isinstance(cap.other, int | float):
            return 0.0
        tanh = cap.self_.owner
        if not isinstance(tanh, aten.tanh.default):
            return 0.0
        part = tanh.self_.owner
        if not isinstance(part, aten.div.Tensor | aten.div.Scalar) or part.other != cap.other or not cap.other > 0:
            return 0.0
        for to in (cap.self_, tanh.self_, part.self_):
            self.step(to)
        return float(cap.other)

    def shift(self) -> None:
        """Before each row's largest number was taken off."""
        op = self.value.owner
        if not isinstance(op, aten.sub.Tensor) or op.alpha != 1 or not is_tensor(op.other):
            return
        most = op.other.owner
        if isinstance(most, aten.max.dim) and op.other == most.results[0]:
            last = most.dim % 4 == 3
        else:
            last = isinstance(most, aten.amax.default) and [d % 4 for d in most.dim] == [3]
        if isinstance(most, aten.max.dim | aten.amax.default) and last and most.keepdim and most.self_ == op.self_:
            self.steps.append(op)
            self.steps.append(most)
            self.value = op.self_

    def sinks(self) -> SSAValue | None:
        """What was joined to the scores: ``[heads]``."""
        op = self.value.owner
        parts = list(op.tensors) if isinstance(op, aten.cat.default) and op.dim % 4 == 3 else []
        if len(parts) != 2 or dims_of(tensor_of(parts[1]))[3:] != (1,):
            return None
        sinks = _Trace(parts[1])
        sinks.casts()
        wide = sinks.value.owner
        if isinstance(wide, aten.expand.default):
            sinks.step(wide.self_)
        made = sinks.value.owner
        if not isinstance(made, aten.reshape.default | aten.view.default):
            return None
        heads = dims_of(tensor_of(parts[0]))[1]
        if dims_of(tensor_of(made.result)) != (1, heads, 1, 1) or dims_of(tensor_of(made.self_)) != (heads,):
            return None
        self.step(parts[0])
        return made.self_


def _before_view(x: SSAValue) -> SSAValue:
    """``[1, h, n, width]`` where ``x`` is that as ``[h, n, width]``; else ``x``."""
    op = x.owner
    if not isinstance(op, aten.view.default | aten.reshape.default):
        return x
    return op.self_ if dims_of(tensor_of(op.self_)) == (1, *dims_of(tensor_of(x))) else x


def _written_out(op: aten.matmul.default) -> Attention | str | None:
    at = _Trace(op.self_)
    at.casts()
    cut = at.value.owner
    if isinstance(cut, aten.slice.Tensor):
        at.step(cut.self_)
        at.casts()
    softmax = at.value.owner
    if not isinstance(softmax, aten.softmax.int | aten._softmax.default):
        return None
    if rank(softmax.self_) != 4 or softmax.dim % 4 != 3:
        return "the softmax is not over the last of four dims"
    at.step(softmax.self_)
    at.casts()
    at.shift()
    sinks = None
    if isinstance(cut, aten.slice.Tensor):
        sinks = at.sinks()
        keys = dims_of(tensor_of(cut.result))[3]
        first = cut.dim % 4 == 3 and cut.start in (None, 0) and cut.step == 1
        if sinks is None or not first or not isinstance(keys, int) or dims_of(tensor_of(at.value))[3] != keys:
            return "what is left out of the weights is no sink"
    mask, after = None, at.factor_after_mask()
    add = at.value.owner
    if isinstance(add, aten.add.Tensor) and add.alpha == 1 and is_tensor(add.other):
        mask = add.other
        at.step(add.self_)
    softcap = at.softcap()
    scale = at.factor()
    product = at.product()
    if isinstance(product, str):
        return product
    query, key, by_product = product
    value = op.other
    if after != 1 and (softcap or sinks is not None or not after > 0):
        return "what has a soft cap or sinks is multiplied by another number after the mask"
    types = [tensor_of(v).element_type for v in (query, key, value, op.result)]
    if any(rank(v) != 4 for v in (query, key, value)) or any(t != types[0] for t in types):
        return "query, keys and values do not have four dims and one dtype"
    return Attention(query, key, value, mask, scale * by_product * after, softcap, sinks, after, tuple(at.steps))
