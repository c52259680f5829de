"""Distances between vectors."""

from __future__ import annotations

import numpy as np

from etir.interpret.numpy_ops.dtype import Array, to
from etir.interpret.numpy_ops.linear_algebra import vector_norm
from etir.interpret.numpy_ops.registry import op


@op("aten._cdist_forward.default")
def cdist_forward(x1: Array, x2: Array, p: float, compute_mode: int | None) -> Array:
    """The p-norm of every difference: (*, P, M) and (*, R, M) to (*, P, R). The modes only differ in speed."""
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"vectors of {x1.shape[-1]} and {x2.shape[-1]} numbers")
    if x1.shape[-1] == 0:
        batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return np.zeros((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
    difference = x1[..., :, None, :] - x2[..., None, :, :]
    return to(vector_norm(difference, p, (difference.ndim - 1,), keepdims=False), x1.dtype)


@op("aten.cdist.default")
def cdist(x1: Array, x2: Array, p: float = 2.0, compute_mode: int | None = None) -> Array:
    return cdist_forward(x1, x2, p, compute_mode)


@op("aten._pdist_forward.default", "aten.pdist.default")
def pdist(self: Array, p: float = 2.0) -> Array:
    """The distances of all pairs of rows of (N, M), in the order (0, 1), (0, 2), ... (N - 2, N - 1)."""
    first, second = np.triu_indices(self.shape[0], 1)
    if self.shape[1] == 0:
        return np.zeros(first.size, self.dtype)
    return to(vector_norm(self[first] - self[second], p, (1,), keepdims=False), self.dtype)
