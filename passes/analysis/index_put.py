"""What an ``index_put`` with one vector of positions writes: the form that runtimes do in place."""

from __future__ import annotations

from typing import Any

from etir.dialects.dtypes import i32, i64
from etir.dialects.edge.base import EdgeOp
from etir.dialects.et.layout import dims_of, is_static


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
