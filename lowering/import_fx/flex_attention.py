"""``flex_attention``: attention whose scores go through graphs that the user wrote for one score.

The operator of higher order is given ``score_mod(score, batch, head, row, column)`` and ``mask_mod(batch, head, row,
column)`` as graphs of scalars. They are called with whole tensors here, one dim for each index, where every operator of
a graph is elementwise, or looks up an element of a tensor by all of its dims: what broadcasting makes of them is what
``vmap`` would. Graphs with other operators are left to torch (``math_attention``), whose ``vmap`` fixes dynamic sizes.
The blocks that kernels of devices skip say nothing that the mask does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

_LOOK_UP = torch.ops.aten.index.Tensor
_ELEMENTWISE = frozenset(
    {"_to_copy", "to", "type_as", "where", "full_like", "ones_like", "zeros_like", "absolute", "arctan2", "divide"}
    | {"floor_divide", "multiply", "subtract", "greater", "greater_equal", "less", "less_equal", "not_equal"}
    | {"__and__", "__or__", "__xor__"}
)
"""Elementwise operators that torch does not tag as pointwise."""

_FACTORIES = frozenset(
    {"scalar_tensor", "full", "ones", "zeros", "new_full", "new_ones", "new_zeros", "lift_fresh_copy"}
)


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: fx.GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: dict[str, Any],
    score_buffers: Sequence[Any] = (),
    mask_buffers: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of ``query`` (batch, heads, rows, width), ``key`` and ``value`` (batch or 1, groups, columns, width).

    Scores are in float32 (float64 where the query is). Returns the attention, and for each row the logarithm of the sum
    of exponentials and the maximum of its scores, both over ``ln 2`` as the kernels of devices have them. Rows without
    a score are 0. Raises ``ValueError`` for graphs that are left to torch, and dynamic sizes.
    """
    mask_mod = block_mask[-1]
    if not (_broadcasts(score_mod) and _broadcasts(mask_mod)):
        sizes = [*query.size(), *key.size()]
        if any(isinstance(n, torch.SymInt) for n in sizes):
            raise ValueError("torch fixes dynamic sizes where score_mod or mask_mod has operators on more than scalars")
        from torch._higher_order_ops.flex_attention import math_attention

        return math_attention(
            query,
            key,
            value,
            score_mod,
            tuple(block_mask),
            scale,
            kernel_options,
            tuple(score_buffers),
            tuple(mask_buffers),
        )
    precision = torch.float64 if query.dtype == torch.float64 else torch.float32
    if key.size(1) != query.size(1):
        repeats = query.size(1) // key.size(1)
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = (query.to(precision) @ key.to(precision).transpose(-2, -1)) * scale
    sizes = (*query.size()[:3], key.size(2))
    indices = [_index(size, dim) for dim, size in enumerate(sizes)]
    changed = score_mod(scores, *indices, *score_buffers)
    counted = mask_mod(*indices, *mask_buffers)
    changed = torch.where(counted, changed, torch.full((), -math.inf, dtype=precision)).expand_as(scores)
    weights = torch.ops.aten._safe_softmax.default(changed, -1).to(query.dtype)
    return (
        weights @ value.to(query.dtype),
        changed.logsumexp(-1) / math.log(2),
        changed.amax(-1) / math.log(2),
    )


def _index(size: int, dim: int) -> Tensor:
    shape = [-1 if d == dim else 1 for d in range(4)]
    return torch.arange(size, dtype=torch.int32).view(shape)


def _broadcasts(graph: fx.GraphModule) -> bool:
    """Whether a graph of scalars means the same of tensors that broadcast."""
    scalars: dict[fx.Node, None] = {}
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            if _is_scalar(node):
                scalars[node] = None
        elif node.op == "call_function":
            if not _is_scalar(node) or not _is_elementwise(node, scalars):
                return False
            scalars[node] = None
        elif node.op == "get_attr":
            value = getattr(graph, str(node.target), None)
            if isinstance(value, Tensor) and value.dim() == 0:
                scalars[node] = None
    (result,) = graph.graph.find_nodes(op="output")
    return result.args[0] in scalars


def _is_scalar(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() == 0


def _is_elementwise(node: fx.Node, scalars: dict[fx.Node, None]) -> bool:
    target: Any = node.target
    if target is _LOOK_UP:
        table, indices = node.args
        found = isinstance(table, fx.Node) and table.meta.get("val")
        whole = isinstance(found, Tensor) and isinstance(indices, (list, tuple)) and found.dim() == len(indices)
        return whole and table not in scalars and all(i in scalars for i in indices)  # type: ignore[operator]
    if any(n not in scalars for n in node.all_input_nodes) or not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or target._schema.name.partition("::")[2] in (_ELEMENTWISE | _FACTORIES)
