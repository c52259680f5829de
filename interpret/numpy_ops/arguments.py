"""Reading the arguments that many operators share: dimensions, and one-or-many integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from etir.interpret.numpy_ops.dtype import Array


def axis_of(dim: int, ndim: int) -> int:
    """``dim`` counted from the front; a tensor without dimensions takes 0 and -1. Raises ``IndexError``."""
    rank = max(ndim, 1)
    if not -rank <= dim < rank:
        raise IndexError(f"dimension {dim} is out of range for a tensor of {ndim} dimensions")
    return dim % rank


def axes_of(dim: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """The dimensions to reduce: all of them when ``dim`` is ``None`` or empty. Raises ``IndexError``."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(ndim))
    axes = tuple(axis_of(d, ndim) for d in ([dim] if isinstance(dim, int) else dim))
    if len(dict.fromkeys(axes)) != len(axes):
        raise ValueError(f"a dimension appears twice in {dim}")
    return axes if ndim else ()


def ints(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """An ``int[count]`` argument: a single number, or a list of one, stands for ``count`` of them."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise ValueError(f"expected {count} numbers, got {list(values)}")
    return values


def with_dims(x: Array) -> Array:
    """``x``, with one dimension when it has none: operators along a dimension take such tensors as length 1."""
    return x.reshape(1) if x.ndim == 0 else x


def along(axis: int, part: int | slice | Array) -> tuple[Any, ...]:
    """An index that takes ``part`` of dimension ``axis`` and all of those before it."""
    return (*(slice(None) for _ in range(axis)), part)


def per_channel(x: Array, axis: int, ndim: int) -> Array:
    """A vector shaped to broadcast along dimension ``axis`` of ``ndim``."""
    return np.reshape(x, [-1 if i == axis else 1 for i in range(ndim)])
