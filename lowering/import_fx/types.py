"""FakeTensor metadata as types: dtype, symbolic dims, dim order."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import is_contiguous_for_memory_format_or_false as is_contiguous
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from etir.dialects.dtypes import BY_TORCH_NAME, f64, i1, i64
from etir.dialects.et.layout import Dim, tensor_type
from etir.dialects.et.program import NoneType, StringType
from etir.dialects.sym.expr import from_sympy

ELEMENT_TYPES: dict[torch.dtype, Attribute] = {
    getattr(torch, name): row.type for name, row in BY_TORCH_NAME.items() if hasattr(torch, name)
}
"""torch dtype to element type."""

TORCH_DTYPES: dict[Attribute, torch.dtype] = {type: dtype for dtype, type in ELEMENT_TYPES.items()}
"""Element type to torch dtype."""

MEMORY_FORMATS: dict[torch.memory_format, str] = {
    torch.contiguous_format: "contiguous",
    torch.preserve_format: "preserve",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}
"""Memory formats as words."""


def dim_of(size: Any) -> Dim:
    """An int or a symbolic expression from an ``int`` or ``SymInt`` size."""
    if isinstance(size, int):
        return size
    expression = from_sympy(size.node.expr, _ranges(size.node))
    return int(expression) if expression.is_const else expression


def _ranges(node: Any) -> dict[str, tuple[int | None, int | None]]:
    """The ranges that torch knows of the symbols of a size; None is no bound."""
    known = {} if node.shape_env is None else node.shape_env.var_to_range
    found: dict[str, tuple[int | None, int | None]] = {}
    for symbol in sorted(node.expr.free_symbols, key=str):
        if symbol in known:
            low, high = known[symbol].lower, known[symbol].upper
            found[symbol.name] = (int(low) if low.is_Integer else None, int(high) if high.is_Integer else None)
    return found


def type_of_tensor(tensor: torch.Tensor, *, keep_order: bool = False) -> TensorType[Attribute]:
    """The type of a (fake) tensor. ``keep_order`` records a channels-last dim order."""
    order = None
    if keep_order:
        order = channels_last_order(tensor)
    return tensor_type(ELEMENT_TYPES[tensor.dtype], [dim_of(s) for s in tensor.shape], order)


def channels_last_order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The dim order of a channels-last tensor, None for any other, or where data decides it.

    A tensor whose dims a value decides, as ``item()``, may be of either order by its sizes alone; asking the tensor
    itself is an error then.
    """
    if tensor.dim() not in (4, 5) or is_contiguous(tensor, memory_format=torch.contiguous_format):
        return None
    memory_format = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
    if not is_contiguous(tensor, memory_format=memory_format):
        return None
    return (0, *range(2, tensor.dim()), 1)


def type_of_value(value: Any) -> Attribute:
    """The type of anything a node may hold. Raises ``TypeError`` for values without one."""
    if isinstance(value, torch.Tensor):
        return type_of_tensor(value)
    if isinstance(value, (bool, torch.SymBool)):
        return i1
    if isinstance(value, (int, torch.SymInt)):
        return i64
    if isinstance(value, (float, torch.SymFloat)):
        return f64
    if value is None:
        return NoneType()
    if isinstance(value, str):
        return StringType()
    raise TypeError(f"a value of type {type(value).__name__} has no type in the IR")
