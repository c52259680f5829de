"""The constants that decompositions compute: NumPy on concrete sizes.

Imported at the point of use only, because most programs need none of it and importing NumPy takes longer than
decomposing them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def spaced(start: float, end: float, steps: int, dtype: str) -> Array:
    """``linspace`` in the arithmetic of ``dtype``: from both ends towards the middle, so that both ends are exact."""
    number = np.dtype(dtype).type
    if steps <= 1:
        return np.full([steps], start, dtype)
    step = (number(end) - number(start)) / number(steps - 1)
    positions = np.arange(steps)
    forward = number(start) + step * positions.astype(dtype)
    backward = number(end) - step * (steps - 1 - positions).astype(dtype)
    return np.where(positions < steps // 2, forward, backward)


def triangle_indices(rows: int, columns: int, offset: int, *, lower: bool) -> Array:
    """Row and column numbers [2, count] of a triangle of a matrix."""
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    inside = column - row <= offset if lower else column - row >= offset
    return np.stack([row[inside], column[inside]])


def cosine_window(length: int, alpha: float, beta: float, *, periodic: bool) -> Array:
    """``alpha - beta * cos(2 * pi * n / period)``."""
    if length == 1:
        return np.ones([1])
    period = length if periodic else length - 1
    return alpha - beta * np.cos(2 * math.pi * np.arange(length) / period)


def window_positions(count: int, kernel: int, stride: int, dilation: int) -> Array:
    """The position [kernel, count] of each element of each window."""
    return np.arange(kernel)[:, None] * dilation + np.arange(count)[None, :] * stride


def affine_points(sizes: Sequence[int], *, align_corners: bool) -> Array:
    """The homogeneous coordinates [1, pixels, dims + 1] of all pixels, in [-1, 1], the last dim first."""
    axes: list[Array] = []
    for count in sizes:
        line = np.linspace(-1, 1, count) if count > 1 else np.zeros([1])
        axes.append(line if align_corners else line * (count - 1) / count)
    grids = np.meshgrid(*axes, indexing="ij")[::-1]
    return np.stack([*grids, np.ones(sizes)], axis=-1).reshape(1, math.prod(sizes), len(sizes) + 1)


# --- interpolation ----------------------------------------------------------------------------------------------------


def nearest_positions(wanted: int, given: int, step: float) -> Array:
    """The input closest to the middle of each output, in f32 as torch computes it."""
    middle = np.arange(wanted, dtype=np.float32) + np.float32(0.5)
    return np.minimum(np.floor(middle * np.float32(step)), given - 1)


def cubic(t: Array, a: float) -> Array:
    """The cubic convolution kernel (Keys, 1981) at distances ``t``."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t < 1, near, np.where(t < 2, far, 0.0))


def linear(t: Array) -> Array:
    """The linear kernel at distances ``t``."""
    return np.maximum(1 - np.abs(t), 0.0)


def lanczos(t: Array) -> Array:
    """The Lanczos kernel with three lobes at distances ``t``."""
    return np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0.0)


SMOOTH: dict[str, tuple[Callable[[Array], Array], float]] = {
    "bilinear": (linear, 1.0),
    "bicubic": (lambda t: cubic(t, -0.5), 2.0),
    "lanczos": (lanczos, 3.0),
}
"""Kernels of the antialiased interpolations, and how far each one reaches."""


def cubic_weights(given: int, wanted: int, step: float, *, align_corners: bool) -> Array:
    """[outputs, inputs]: four taps around each position, those outside moved to the border."""
    at = np.arange(wanted) * step if align_corners else (np.arange(wanted) + 0.5) * step - 0.5
    first = np.floor(at)
    weights = np.zeros([wanted, given])
    for tap in range(-1, 3):
        column = np.clip(first + tap, 0, given - 1).astype(np.int64)
        np.add.at(weights, (np.arange(wanted), column), cubic(at - first - tap, -0.75))
    return weights


def smooth_weights(given: int, wanted: int, step: float, kind: str) -> Array:
    """[outputs, inputs]: a kernel over the inputs that it reaches, stretched as the image shrinks; rows sum to 1."""
    kernel, support = SMOOTH[kind]
    stretch = max(step, 1.0)
    center = (np.arange(wanted) + 0.5) * step
    first = np.maximum(np.trunc(center - support * stretch + 0.5), 0)
    last = np.minimum(np.trunc(center + support * stretch + 0.5), given)
    position = np.arange(given)[None, :]
    reached = (position >= first[:, None]) & (position < last[:, None])
    weights = np.where(reached, kernel((position - center[:, None] + 0.5) / stretch), 0.0)
    return weights / weights.sum(1, keepdims=True)
