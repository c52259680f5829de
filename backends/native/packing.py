"""Weights in the order in which code reads them, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from etir.backends.native.tile import WeightOp, shape_of

if TYPE_CHECKING:
    import numpy as np


def packed(op: WeightOp, given: np.ndarray) -> np.ndarray:
    """The floats of ``op``, flat. ``given`` is the weight in its own shape: any for one that is read as it lies, else
    a matrix [k, n], or [n, k] where ``op`` says so.
    """
    import numpy as np

    if op.panel is None:
        return np.ascontiguousarray(given, np.float32).reshape(-1)
    if given.ndim == 4 and len(shape_of(op.result)) == 4:
        taps, panels, k, panel = shape_of(op.result)
        rows = given.transpose(2, 3, 1, 0).reshape(taps, k, given.shape[0])
        return np.concatenate([_panels(row, panels, panel) for row in rows])
    panels, k, panel = shape_of(op.result)
    given = given.reshape(given.shape[0], -1)
    matrix = given.T if op.transposed is not None else given
    return _panels(matrix, panels, panel)


def _panels(matrix: np.ndarray, panels: int, panel: int) -> np.ndarray:
    """A matrix [k, n] as [panels, k, panel], flat."""
    import numpy as np

    k, n = matrix.shape
    whole = np.zeros((k, panels * panel), np.float32)
    whole[:, :n] = matrix
    return np.ascontiguousarray(whole.reshape(k, panels, panel).transpose(1, 0, 2)).reshape(-1)


def count_of(op: WeightOp) -> int:
    """How many floats a weight is."""
    return math.prod(shape_of(op.result))
