"""Operators that torch's own Python library defines outside of ATen, by what they compute.

Those of ``torch_nn::`` save memory while training, by working in chunks on a device; a compiled program has its memory
planned anyway. Operators of higher order are here where they are a computation, instead of control flow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from etir.lowering.import_fx.flex_attention import flex_attention


def _loss(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The loss, and the logits that it is of."""
    logits = torch.matmul(x.to(dtype), matrix.to(dtype).t())
    if bias is not None:
        logits = logits + bias.to(dtype)
    weight = None if weight is None else weight.to(dtype)
    loss = torch.nn.functional.cross_entropy(logits, target, weight, ignore_index=ignored, reduction=reduction)
    return loss.to(x.dtype), logits


def _linear_cross_entropy(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    smoothing: float,
    _chunk: int,
    _policy: str,
    dtype: torch.dtype,
    _retain: bool,
    with_x: bool,
    with_matrix: bool,
    with_bias: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``cross_entropy(linear(x))``, and its gradients as far as they are asked for."""
    if smoothing:
        raise NotImplementedError("smoothed labels")
    loss, logits = _loss(x, matrix, target, bias, weight, reduction, ignored, dtype)
    counted = target != ignored
    known = torch.where(counted, target, 0)
    share = torch.ones_like(logits[:, 0]) if weight is None else weight.to(dtype).index_select(0, known)
    share = torch.where(counted, share, 0.0)
    if reduction == "mean":
        share = share / share.sum()
    right = torch.arange(logits.shape[1]) == known.unsqueeze(1)
    pull = (torch.softmax(logits, 1) - right.to(dtype)) * share.unsqueeze(1)
    by_x = torch.matmul(pull, matrix.to(dtype)) if with_x else x.new_empty([0, 0])
    by_matrix = torch.matmul(pull.t(), x.to(dtype)) if with_matrix else x.new_empty([0, 0])
    by_bias = pull.sum(0) if with_bias else x.new_empty([0])
    return loss, by_x.to(x.dtype), by_matrix.to(x.dtype), by_bias.to(x.dtype)


def _linear_cross_entropy_of_each(
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    ignored: int,
    _chunk: int,
    _policy: str,
    dtype: torch.dtype,
) -> Tensor:
    """The loss of each row."""
    return _loss(x, matrix, target, bias, weight, "none", ignored, dtype)[0]


LIBRARY: dict[str, Callable[..., Any]] = {
    "torch_nn._linear_cross_entropy_batch_chunked.default": _linear_cross_entropy,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": _linear_cross_entropy_of_each,
}
"""What an operator computes, by its name."""


def _out_dtype(operator: torch._ops.OpOverload, dtype: torch.dtype, *args: Any) -> Tensor:
    """A product, a convolution, or an elementwise operator, computed without overflow in what ``dtype`` promotes to."""
    leaves = pytree.tree_leaves(args)
    wide = reduce(torch.promote_types, (a.dtype for a in leaves if isinstance(a, Tensor)), dtype)
    if any(isinstance(a, float) for a in leaves) and not (wide.is_floating_point or wide.is_complex):
        wide = torch.get_default_dtype()
    return operator(*pytree.tree_map_only(Tensor, lambda t: t.to(wide), args)).to(dtype)


HIGHER_ORDER: dict[str, Callable[..., Any]] = {"flex_attention": flex_attention, "out_dtype": _out_dtype}
"""What an operator of higher order computes, by its name."""
