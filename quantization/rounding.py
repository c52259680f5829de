"""Weights to integers: which scale each run of numbers has, and which integer each number becomes.

A weight is a matrix here, with a row for each output channel (:func:`as_rows`), and a scale for each ``block`` numbers
of a row. Scales are chosen without data (``minmax``, ``mse``, ``hqq``). Numbers are rounded to the nearest integer, or
(:func:`gptq`) so that what rounding one of them loses is made up for by those that are not rounded yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

DAMPING = 0.01
"""What is added to the diagonal, as a share of its mean."""
COLUMNS = 128
"""Columns that are rounded before the others hear of it."""
_TRIED = 40
_SHRINKS, _POWER, _GROWTH = 20, 0.7, 1.01
"""Rounds of HQQ, the power p of its norm, and by what its penalty grows."""


@dataclass(frozen=True)
class Grid:
    """Integers from ``low`` to ``high``, with a scale for each ``block`` numbers of a row."""

    low: int
    high: int
    block: int

    def scales(self, rows: np.ndarray, method: str) -> np.ndarray:
        """Float32 scales ``[rows, blocks]`` of a matrix by a method of :data:`SCALES`, positive and not subnormal."""
        import numpy as np

        blocks = rows.reshape(-1, self.block).astype(np.float32)
        found = SCALES[method](blocks, self)
        return np.maximum(found, np.finfo(np.float32).tiny).astype(np.float32).reshape(len(rows), -1)

    def nearest(self, rows: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """The integers that are nearest, int8, of the shape of ``rows``."""
        import numpy as np

        along = np.repeat(scales, self.block, axis=1)
        return np.clip(np.rint(rows / along), self.low, self.high).astype(np.int8)

    def values(self, integers: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """What the integers stand for, float32."""
        import numpy as np

        return integers * np.repeat(scales, self.block, axis=1)


def _minmax(blocks: np.ndarray, grid: Grid) -> np.ndarray:
    """Nothing is clipped."""
    import numpy as np

    most = np.maximum(blocks.max(1) / grid.high, blocks.min(1) / grid.low)
    return np.where(most > 0, most, np.float32(1))


def _mse(blocks: np.ndarray, grid: Grid) -> np.ndarray:
    """Of forty scales from 0.4 to 1.1 times that which clips nothing, the one with the least squared error."""
    import numpy as np

    whole = _minmax(blocks, grid)
    best, least = whole, np.full(len(blocks), np.inf)
    for part in np.linspace(1.1, 0.4, _TRIED, dtype=np.float32):
        scale = whole * part
        error = _error(blocks, scale, grid)
        better = error < least
        best, least = np.where(better, scale, best), np.where(better, error, least)
    return best


def _error(blocks: np.ndarray, scale: np.ndarray, grid: Grid) -> np.ndarray:
    import numpy as np

    along = np.maximum(scale, np.finfo(np.float32).tiny)[:, None]
    steps = np.clip(np.rint(blocks / along), grid.low, grid.high)
    return ((steps * along - blocks) ** 2).sum(1)


def _hqq(blocks: np.ndarray, grid: Grid) -> np.ndarray:
    """Half-quadratic quantization (Badri and Shaji, 2023): large errors count less than in least squares, |e|^0.7, by
    turns of a shrunk error and the scale that fits what is left.
    """
    import numpy as np

    best = scale = _mse(blocks, grid)
    least = _norm(blocks, scale, grid)
    penalty = 10.0 / np.maximum(np.abs(blocks).max(1), 1e-30)
    for _ in range(_SHRINKS):
        steps = np.clip(np.rint(blocks / scale[:, None]), grid.low, grid.high)
        error = blocks - steps * scale[:, None]
        size = np.maximum(np.abs(error), 1e-12)
        unit = error * penalty[:, None]
        shrunk = np.sign(error) * np.maximum(
            np.abs(unit) - np.maximum(size * penalty[:, None], 1e-3) ** (_POWER - 1), 0
        )
        squares = (steps**2).sum(1)
        fitted = (steps * (blocks - shrunk / penalty[:, None])).sum(1) / np.maximum(squares, 1)
        scale = np.where((squares > 0) & (fitted > 0), fitted, scale).astype(np.float32)
        norm = _norm(blocks, scale, grid)
        best, least = np.where(norm < least, scale, best), np.minimum(norm, least)
        penalty = penalty * _GROWTH
    return best


def _norm(blocks: np.ndarray, scale: np.ndarray, grid: Grid) -> np.ndarray:
    import numpy as np

    along = np.maximum(scale, np.finfo(np.float32).tiny)[:, None]
    steps = np.clip(np.rint(blocks / along), grid.low, grid.high)
    return (np.abs(steps * along - blocks) ** _POWER).sum(1)


SCALES: dict[str, Callable[[np.ndarray, Grid], np.ndarray]] = {"minmax": _minmax, "mse": _mse, "hqq": _hqq}
"""Scales of blocks of numbers, by the name of how they are chosen."""


def gptq(rows: np.ndarray, moments: np.ndarray, scales: np.ndarray, grid: Grid, *, ordered: bool = True) -> np.ndarray:
    """The integers, int8, of a matrix ``[rows, columns]`` whose layer sees inputs x with ``moments`` = sum of x x^T.

    Columns are rounded one after the other (those that see the largest inputs first, where ``ordered``), and what is
    lost is made up for by the columns that are left (Frantar et al., *GPTQ: Accurate Post-Training Quantization for
    Generative Pre-trained Transformers*, ICLR 2023).
    """
    import numpy as np

    count = rows.shape[1]
    moments = moments.astype(np.float64)
    unseen = np.diagonal(moments) <= 0
    moments[unseen, unseen] = 1.0
    moments[np.diag_indices(count)] += DAMPING * float(np.diagonal(moments).mean())
    order = np.argsort(-np.diagonal(moments), kind="stable") if ordered else np.arange(count)
    upper = np.linalg.cholesky(np.linalg.inv(moments[np.ix_(order, order)])).T
    # With columns in memory as rows: they are what is read and written, one after the other.
    left = np.ascontiguousarray(rows.T[order], np.float64)
    along = np.ascontiguousarray(np.repeat(scales.astype(np.float64), grid.block, axis=1).T[order])
    rounded = np.zeros(left.shape, np.int8)
    for first in range(0, count, COLUMNS):
        last = min(first + COLUMNS, count)
        errors = np.zeros((last - first, len(rows)))
        for column in range(first, last):
            steps = np.clip(np.rint(left[column] / along[column]), grid.low, grid.high)
            rounded[column] = steps
            error = (left[column] - steps * along[column]) / upper[column, column]
            left[column + 1 : last] -= np.outer(upper[column, column + 1 : last], error)
            errors[column - first] = error
        left[last:] -= upper[first:last, last:].T @ errors
    found = np.zeros(rows.shape, np.int8)
    found[:, order] = rounded.T
    return found


def as_rows(weight: np.ndarray, axis: int) -> np.ndarray:
    """A weight as a matrix with a row for each index of dim ``axis``."""
    import numpy as np

    return np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)


def from_rows(rows: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The inverse of :func:`as_rows`."""
    import numpy as np

    others = [size for dim, size in enumerate(shape) if dim != axis]
    return np.moveaxis(rows.reshape(shape[axis], *others), 0, axis)
