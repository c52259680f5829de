"""What an ``index_put`` with one vector of positions writes: the form that runtimes do in place."""

from __future__ import annotations

from typing import Any

from etir.dialects.dtypes import i32, i64
from etir.dialects.edge import ops as edge
from etir.dialects.et.layout import dims_of, is_static, tensor_of


def replaced_shape(op: edge.aten.index_put.default) -> tuple[Any, ...] | None:
    """The shape of what an ``index_put`` with one vector of positions replaces; None for any other ``index_put``."""
    type = tensor_of(op.self_)
    present = [(dim, tensor_of(index)) for dim, index in enumerate(op.indices) if index is not None]
    if len(present) != 1 or not is_static(type):
        return None
    dim, index = present[0]
    if index.get_num_dims() != 1 or index.element_type not in (i32, i64):
        return None
    shape: list[Any] = list(type.get_shape())
    shape[dim] = dims_of(index)[0]
    return tuple(shape)
