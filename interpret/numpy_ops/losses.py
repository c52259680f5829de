"""Losses: a value for each element, then a mean, a sum or neither."""

from __future__ import annotations

import numpy as np

from etir.interpret.numpy_ops.dtype import Array, average, operands_in_compute_dtype, to, total
from etir.interpret.numpy_ops.registry import op

NONE, MEAN, SUM = 0, 1, 2
"""torch's numbers of the reductions."""


def _reduced(values: Array, reduction: int) -> Array:
    if reduction == NONE:
        return values
    return average(values) if reduction == MEAN else total(values)


@op("aten.mse_loss.default")
def mse_loss(self: Array, target: Array, reduction: int = MEAN) -> Array:
    (x, y), dtype = operands_in_compute_dtype(self, target)
    return to(_reduced((x - y) ** 2, reduction), dtype)


@op("aten.smooth_l1_loss.default")
def smooth_l1_loss(self: Array, target: Array, reduction: int = MEAN, beta: float = 1.0) -> Array:
    (x, y), dtype = operands_in_compute_dtype(self, target)
    distance = np.abs(x - y)
    near = distance * distance * (0.5 / beta) if beta else distance
    return to(_reduced(np.where(distance < beta, near, distance - 0.5 * beta), reduction), dtype)


@op("aten.huber_loss.default")
def huber_loss(self: Array, target: Array, reduction: int = MEAN, delta: float = 1.0) -> Array:
    (x, y), dtype = operands_in_compute_dtype(self, target)
    distance = np.abs(x - y)
    far = (distance - 0.5 * delta) * delta
    return to(_reduced(np.where(distance <= delta, 0.5 * distance * distance, far), reduction), dtype)


@op("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def nll_loss_forward(
    self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    (x,), dtype = operands_in_compute_dtype(self)
    axis = 0 if self.ndim == 1 else 1
    counted = target != ignore_index
    classes = np.where(counted, target, 0)
    picked = np.squeeze(np.take_along_axis(x, np.expand_dims(classes, axis), axis), axis)
    weights = np.ones(picked.shape, x.dtype) if weight is None else to(weight, x.dtype)[classes]
    weights = np.where(counted, weights, 0)
    loss = -picked * weights
    everything = total(weights)
    if reduction == NONE:
        return to(np.where(counted, loss, 0), dtype), to(np.zeros(()), dtype)
    summed = total(np.where(counted, loss, 0))
    return to(summed / everything if reduction == MEAN else summed, dtype), to(everything, dtype)
